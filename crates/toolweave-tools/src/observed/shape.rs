//! What values look like, without the values: a tree of kinds and property names, and how two of them become one.
//!
//! Shapes form a lattice. [`Shape::merge`] is commutative, associative, idempotent and only ever widens, so that it does
//! not matter in which order results were seen, by which process, or how often. For that to hold together with a cap
//! on the size, the cap cuts whole levels: a tree with too many nodes loses its deepest ones everywhere, and never
//! gets them back.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::names::is_name;

/// Levels of a value that are described; what is below can be anything.
pub const MAX_SHAPE_LEVELS: u8 = 16;
/// Nodes of one shape. A tree that grows larger loses its deepest level until it fits.
pub const MAX_SHAPE_NODES: usize = 1_000;
/// Nodes that are shown of a shape; the text of an SDK has better things to tell.
const SHOWN_NODES: usize = 250;
/// Properties of an object that are shown by name. An object with more is a map.
const MAX_NAMED: usize = 200;
/// The same for properties that are sometimes absent.
const MAX_OPTIONAL: usize = 40;

/// What the results of a tool have looked like so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Shape {
    /// How many levels the tree has; deeper ones were cut or never looked at.
    levels: u8,
    root: Node,
}

/// What one place of a value was seen to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Node {
    pub(super) kinds: Kinds,
    /// All items of the arrays that were seen here, as one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) items: Option<Box<Node>>,
    /// The objects that were seen here. There whenever an object was seen, except on the last level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) members: Option<Box<Members>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Members {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) names: BTreeMap<Box<str>, Member>,
    /// The values of all properties that are not kept by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) rest: Option<Box<Node>>,
    /// Whether one of the objects was a map, so that names mean nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) map: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Member {
    /// Whether every object had it.
    pub(super) always: bool,
    pub(super) node: Node,
}

/// A set of the kinds of JSON values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kinds(u8);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    String,
    Integer,
    Number,
    Boolean,
    Array,
    Object,
    Null,
}

impl Shape {
    pub(super) fn new(root: Node) -> Self {
        let mut shape = Self {
            levels: MAX_SHAPE_LEVELS,
            root,
        };
        shape.root.cut(shape.levels);
        shape.fit(MAX_SHAPE_NODES);
        shape
    }

    /// Widens this shape so that it covers the other one as well, and returns whether that changed anything.
    pub fn merge(&mut self, other: &Self) -> bool {
        let levels = self.levels.min(other.levels);
        let mut changed = self.cut(levels);
        changed |= self.root.absorb(&other.root, levels);
        changed |= self.fit(MAX_SHAPE_NODES);
        changed
    }

    /// Returns a JSON Schema of what was seen. What was seen rarely or lies deep is left open.
    pub fn schema(&self) -> Value {
        let mut shown = self.clone();
        shown.fit(SHOWN_NODES);
        shown.root.schema()
    }

    /// Returns how many nodes the tree has.
    pub fn nodes(&self) -> usize {
        let mut counts = [0; MAX_SHAPE_LEVELS as usize];
        self.root.count(&mut counts);
        counts.iter().sum()
    }

    fn cut(&mut self, levels: u8) -> bool {
        if levels >= self.levels {
            return false;
        }
        self.levels = levels;
        self.root.cut(levels);
        true
    }

    /// Cuts levels until the tree has at most so many nodes.
    fn fit(&mut self, most: usize) -> bool {
        let mut counts = [0; MAX_SHAPE_LEVELS as usize];
        self.root.count(&mut counts);
        let mut sum = 0;
        let fitting = counts
            .iter()
            .take_while(|&&count| {
                sum += count;
                sum <= most
            })
            .count();
        if fitting == counts.len() {
            return false;
        }
        self.cut(u8::try_from(fitting).unwrap_or(MAX_SHAPE_LEVELS).max(1))
    }
}

impl<'de> Deserialize<'de> for Shape {
    /// Reads a shape that may come from anywhere: what breaks a rule is refused, what is too large is cut.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Raw {
            levels: u8,
            root: Node,
        }
        let Raw { levels, mut root } = Raw::deserialize(deserializer)?;
        if levels == 0 || levels > MAX_SHAPE_LEVELS {
            return Err(D::Error::custom(format!(
                "a shape has 1 to {MAX_SHAPE_LEVELS} levels, not {levels}"
            )));
        }
        root.cut(levels);
        root.settle(levels).map_err(D::Error::custom)?;
        let mut shape = Self { levels, root };
        shape.fit(MAX_SHAPE_NODES);
        Ok(shape)
    }
}

impl Node {
    /// Takes in what another node covers. `left` is how many levels this and what is below may have.
    fn absorb(&mut self, other: &Self, left: u8) -> bool {
        let mut changed = self.kinds.add_all(other.kinds);
        if left <= 1 {
            return changed;
        }
        changed |= absorb_optional(&mut self.items, other.items.as_deref(), left - 1);
        match (&mut self.members, &other.members) {
            (_, None) => {}
            (Some(mine), Some(theirs)) => changed |= mine.absorb(theirs, left - 1),
            (mine @ None, Some(theirs)) => {
                let mut theirs = theirs.clone();
                theirs.cut(left - 1);
                *mine = Some(theirs);
                changed = true;
            }
        }
        changed
    }

    fn cut(&mut self, left: u8) {
        if left <= 1 {
            self.items = None;
            self.members = None;
            return;
        }
        if let Some(items) = &mut self.items {
            items.cut(left - 1);
        }
        if let Some(members) = &mut self.members {
            members.cut(left - 1);
        }
    }

    /// Checks a node that was read, and adds what its form implies.
    fn settle(&mut self, left: u8) -> Result<(), String> {
        if self.items.is_some() {
            self.kinds.add(Kind::Array);
        }
        if self.members.is_some() {
            self.kinds.add(Kind::Object);
        } else if self.kinds.has(Kind::Object) && left > 1 {
            self.members = Some(Box::default());
        }
        if let Some(items) = &mut self.items {
            items.settle(left - 1)?;
        }
        let Some(members) = &mut self.members else {
            return Ok(());
        };
        if let Some(rest) = &mut members.rest {
            rest.settle(left - 1)?;
        }
        for (name, member) in &mut members.names {
            if !is_name(name) {
                return Err("a shape holds something that is no name of a property".to_owned());
            }
            member.node.settle(left - 1)?;
        }
        Ok(())
    }

    fn count(&self, counts: &mut [usize]) {
        let Some((here, below)) = counts.split_first_mut() else {
            return;
        };
        *here += 1;
        let members = self.members.as_deref();
        let named = members
            .into_iter()
            .flat_map(|members| members.names.values().map(|member| &member.node));
        let rest = members.and_then(|members| members.rest.as_deref());
        for node in self.items.as_deref().into_iter().chain(rest).chain(named) {
            node.count(below);
        }
    }

    fn schema(&self) -> Value {
        let mut schema = Map::new();
        let mut kinds = self.kinds.names();
        match kinds.as_mut_slice() {
            [] => return Value::Object(schema),
            [one] => schema.insert("type".to_owned(), std::mem::take(one)),
            _ => schema.insert("type".to_owned(), Value::Array(kinds)),
        };
        if let Some(items) = &self.items {
            schema.insert("items".to_owned(), items.schema());
        }
        if let Some(members) = &self.members {
            members.describe(&mut schema);
        }
        Value::Object(schema)
    }
}

impl Members {
    fn absorb(&mut self, other: &Self, left: u8) -> bool {
        let mut changed = !self.map && other.map;
        self.map |= other.map;
        for (name, mine) in &mut self.names {
            let theirs = other.names.get(name);
            if mine.always && !theirs.is_some_and(|theirs| theirs.always) {
                mine.always = false;
                changed = true;
            }
            if let Some(theirs) = theirs {
                changed |= mine.node.absorb(&theirs.node, left);
            }
        }
        for (name, theirs) in &other.names {
            if self.names.contains_key(name) {
                continue;
            }
            let mut node = theirs.node.clone();
            node.cut(left);
            self.names.insert(name.clone(), Member { always: false, node });
            changed = true;
        }
        changed | absorb_optional(&mut self.rest, other.rest.as_deref(), left)
    }

    fn cut(&mut self, left: u8) {
        for member in self.names.values_mut() {
            member.node.cut(left);
        }
        if let Some(rest) = &mut self.rest {
            rest.cut(left);
        }
    }

    fn describe(&self, schema: &mut Map<String, Value>) {
        let optional = self.names.values().filter(|member| !member.always).count();
        if self.map || self.names.len() > MAX_NAMED || optional > MAX_OPTIONAL {
            let mut all = Node::default();
            let nodes = self.names.values().map(|member| &member.node);
            for node in nodes.chain(self.rest.as_deref()) {
                all.absorb(node, MAX_SHAPE_LEVELS);
            }
            schema.insert("additionalProperties".to_owned(), all.schema());
            return;
        }
        if !self.names.is_empty() {
            let named = self
                .names
                .iter()
                .map(|(name, member)| (name.to_string(), member.node.schema()));
            schema.insert("properties".to_owned(), Value::Object(named.collect()));
        }
        let required: Vec<_> = self
            .names
            .iter()
            .filter(|(_, member)| member.always)
            .map(|(name, _)| json!(name))
            .collect();
        if !required.is_empty() {
            schema.insert("required".to_owned(), Value::Array(required));
        }
        if let Some(rest) = &self.rest {
            schema.insert("additionalProperties".to_owned(), rest.schema());
        }
    }
}

fn absorb_optional(mine: &mut Option<Box<Node>>, theirs: Option<&Node>, left: u8) -> bool {
    match (mine, theirs) {
        (_, None) => false,
        (Some(mine), Some(theirs)) => mine.absorb(theirs, left),
        (mine @ None, Some(theirs)) => {
            let mut node = theirs.clone();
            node.cut(left);
            *mine = Some(Box::new(node));
            true
        }
    }
}

impl Kinds {
    pub(super) fn add(&mut self, kind: Kind) {
        self.0 |= kind.bit();
    }

    fn add_all(&mut self, other: Self) -> bool {
        let before = self.0;
        self.0 |= other.0;
        before != self.0
    }

    fn has(self, kind: Kind) -> bool {
        self.0 & kind.bit() != 0
    }

    fn each(self) -> impl Iterator<Item = Kind> {
        Kind::ALL.into_iter().filter(move |&kind| self.has(kind))
    }

    /// Returns the kinds as a schema names them: every integer is a number.
    fn names(self) -> Vec<Value> {
        self.each()
            .filter(|&kind| kind != Kind::Integer || !self.has(Kind::Number))
            .map(|kind| json!(kind))
            .collect()
    }
}

impl Kind {
    const ALL: [Self; 7] = [
        Self::String,
        Self::Integer,
        Self::Number,
        Self::Boolean,
        Self::Array,
        Self::Object,
        Self::Null,
    ];

    fn bit(self) -> u8 {
        1 << self as u8
    }

    pub(super) fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Boolean,
            Value::Number(number) if number.is_f64() => Self::Number,
            Value::Number(_) => Self::Integer,
            Value::String(_) => Self::String,
            Value::Array(_) => Self::Array,
            Value::Object(_) => Self::Object,
        }
    }
}

impl Serialize for Kinds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.each())
    }
}

impl<'de> Deserialize<'de> for Kinds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut kinds = Self::default();
        for kind in Vec::<Kind>::deserialize(deserializer)? {
            kinds.add(kind);
        }
        Ok(kinds)
    }
}
