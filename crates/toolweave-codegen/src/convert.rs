//! From schema to types. One rule decides every doubt: the type may be wider than the schema, never narrower, so a
//! keyword that a type cannot express is passed over and a keyword that makes no sense costs its own node only.
//!
//! A node is converted under a mask, the JSON types that its surroundings leave possible. `properties` beside
//! `type: object` is an object; alone it says nothing about numbers, and the type says so too.

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::{Map, Value};

use crate::document::{Document, Siblings, Target};
use crate::ir::{Arena, Property, TargetId, Ty, TyId};
use crate::keywords::{Keywords, Mask, Shape, list};
use crate::limits::{
    MAX_DEPTH, MAX_ENUM_MEMBERS, MAX_NESTING, MAX_NODES, MAX_PROPERTIES, MAX_TUPLE_ELEMENTS,
};
use crate::notes;
use crate::text;

/// What a schema is used for, which decides what its root can be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Root {
    /// The arguments of a tool: always an object.
    Arguments,
    /// Any JSON value.
    Value,
}

/// Whether comments are carried along.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comments {
    Keep,
    Drop,
}

/// One schema as types: the root, and a body for each named type that the root reaches.
pub(crate) struct Converted<'a> {
    pub(crate) arena: Arena,
    pub(crate) root: TyId,
    pub(crate) bodies: Vec<Option<TyId>>,
    document: Document<'a>,
}

impl<'a> Converted<'a> {
    pub(crate) fn targets(&self) -> &[Target<'a>] {
        self.document.targets()
    }
}

/// Returns the types of `schema`.
pub(crate) fn convert(schema: &Value, root: Root, comments: Comments) -> Converted<'_> {
    let document = Document::read(schema);
    let count = document.targets().len();
    let mut converter = Converter {
        arena: Arena::new(),
        document,
        comments,
        bodies: vec![Body::Untouched; count],
        queue: VecDeque::new(),
        allowed: HashMap::new(),
        nodes: 0,
        depth: 0,
        nesting: 0,
    };
    let root = converter.root(schema, root);
    while let Some(target) = converter.queue.pop_front() {
        converter.body(target);
    }
    let bodies = converter.bodies.iter().map(|body| {
        if let Body::Done(ty) = body {
            Some(*ty)
        } else {
            None
        }
    });
    Converted {
        bodies: bodies.collect(),
        root,
        arena: converter.arena,
        document: converter.document,
    }
}

/// Where a node stands.
#[derive(Clone, Copy)]
struct Place<'a> {
    mask: Mask,
    position: Position,
    openness: Openness,
    /// The property that the node describes, so that a title which repeats it is passed over.
    name: Option<&'a str>,
}

impl<'a> Place<'a> {
    /// Returns the place of a named type's body, or of a root.
    fn top(mask: Mask) -> Self {
        Self {
            mask,
            position: Position::Unguarded,
            openness: Openness::Stated,
            name: None,
        }
    }

    /// Returns the place of a value inside an object or array.
    fn inside(name: Option<&'a str>) -> Self {
        Self {
            mask: Mask::ALL,
            position: Position::Guarded,
            openness: Openness::Stated,
            name,
        }
    }
}

/// Whether an object or array lies between a node and the named type that it is in. Only then may it refer to that
/// type: `type A = A | null` is no type.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    Guarded,
    Unguarded,
}

/// Whether an open object here has to say so, or stands beside one that does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Openness {
    Stated,
    Implied,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Body {
    Untouched,
    Queued,
    /// Being converted, so a reference to it from here is not guarded.
    Open,
    Done(TyId),
}

struct Converter<'a> {
    arena: Arena,
    document: Document<'a>,
    comments: Comments,
    bodies: Vec<Body>,
    queue: VecDeque<TargetId>,
    /// The JSON types that composed schemas allow, `nullable` left out.
    allowed: HashMap<*const Value, Mask>,
    nodes: usize,
    /// Calls of `content` inside one another, in one body.
    depth: usize,
    /// Levels of nesting that the text will have at this point of a body.
    nesting: usize,
}

/// What every object has from its prototype, as the compiler sees it.
const INHERITED: [&str; 7] = [
    "constructor",
    "toString",
    "toLocaleString",
    "valueOf",
    "hasOwnProperty",
    "isPrototypeOf",
    "propertyIsEnumerable",
];

/// Stack kept free, and added when it runs low.
const RED_ZONE: usize = 128 * 1024;
const MORE_STACK: usize = 2 * 1024 * 1024;

impl<'a> Converter<'a> {
    fn root(&mut self, schema: &'a Value, root: Root) -> TyId {
        let mask = match root {
            Root::Value => Mask::ALL,
            Root::Arguments => Mask::OBJECT,
        };
        match (root, schema) {
            (Root::Arguments, Value::Object(_) | Value::Bool(_)) | (Root::Value, _) => {
                let ty = self.node(schema, Place::top(mask));
                self.or_unknown(schema, ty)
            }
            // Servers leave it out, or send null, for a tool without arguments.
            (Root::Arguments, _) => TyId::OPEN,
        }
    }

    /// Converts a node that is a value of its own: a property, an item.
    fn value(&mut self, schema: &'a Value, name: Option<&'a str>) -> TyId {
        if self.nesting >= MAX_NESTING {
            return TyId::UNKNOWN;
        }
        self.nesting += 1;
        let ty = self.node(schema, Place::inside(name));
        self.nesting -= 1;
        self.or_unknown(schema, ty)
    }

    /// Widens a contradiction: a schema that nothing fits is a mistake, unless it says `false`.
    fn or_unknown(&mut self, schema: &Value, ty: TyId) -> TyId {
        let (doc, bare) = self.arena.undocumented(ty);
        if bare == TyId::NEVER && schema != &Value::Bool(false) {
            self.arena.documented(doc, TyId::UNKNOWN)
        } else {
            ty
        }
    }

    fn node(&mut self, schema: &'a Value, place: Place<'a>) -> TyId {
        if let Some(target) = self.document.target_at(schema) {
            return self.reference(target, place.position);
        }
        self.content(schema, place)
    }

    fn content(&mut self, schema: &'a Value, place: Place<'a>) -> TyId {
        self.nodes += 1;
        if self.nodes > MAX_NODES || self.depth >= MAX_DEPTH {
            return TyId::UNKNOWN;
        }
        match schema {
            Value::Bool(true) => self.any(place.mask),
            Value::Bool(false) => TyId::NEVER,
            Value::Object(map) => {
                self.depth += 1;
                let ty = stacker::maybe_grow(RED_ZONE, MORE_STACK, || self.keywords(schema, map, place));
                self.depth -= 1;
                ty
            }
            _ => TyId::UNKNOWN,
        }
    }

    fn reference(&mut self, target: TargetId, position: Position) -> TyId {
        match (position, self.bodies[target]) {
            (Position::Unguarded, Body::Open) => return TyId::UNKNOWN,
            (Position::Unguarded, Body::Untouched | Body::Queued) => self.body(target),
            (Position::Guarded, Body::Untouched) => {
                self.bodies[target] = Body::Queued;
                self.queue.push_back(target);
            }
            _ => {}
        }
        let width = match self.bodies[target] {
            // A name for one of these would say less than the type itself.
            Body::Done(ty @ (TyId::UNKNOWN | TyId::JSON | TyId::NEVER)) => return ty,
            Body::Done(ty) => self.arena.width(ty),
            _ => 1,
        };
        self.arena.reference(target, width)
    }

    fn body(&mut self, target: TargetId) {
        if !matches!(self.bodies[target], Body::Untouched | Body::Queued) {
            return;
        }
        self.bodies[target] = Body::Open;
        let nesting = std::mem::take(&mut self.nesting);
        let node = self.document.targets()[target].node;
        // A chain of references is as deep as it is long.
        let ty = stacker::maybe_grow(RED_ZONE, MORE_STACK, || self.content(node, Place::top(Mask::ALL)));
        self.nesting = nesting;
        self.bodies[target] = Body::Done(ty);
    }

    fn keywords(&mut self, schema: &'a Value, map: &'a Map<String, Value>, place: Place<'a>) -> TyId {
        let words = Keywords::read(map);
        let doc = match self.comments {
            Comments::Keep => {
                notes::describe(map, place.name.or_else(|| words.constant.and_then(Value::as_str)))
            }
            Comments::Drop => None,
        };
        let old_reference = words.reference.is_some() && self.document.siblings() == Siblings::Ignored;
        let ty = if !old_reference && words.is_malformed() {
            TyId::UNKNOWN
        } else {
            let mask = place.mask.and(self.allowed(schema, &words));
            if mask == Mask::NONE {
                TyId::NEVER
            } else {
                self.compose(schema, &words, Place { mask, ..place })
            }
        };
        let ty = if words.nullable && place.mask.has(Mask::NULL) && ty != TyId::NEVER {
            self.arena.union(vec![ty, TyId::NULL])
        } else {
            ty
        };
        self.arena.documented(doc, ty)
    }

    /// Intersects what a node's keywords say one by one.
    fn compose(&mut self, schema: &'a Value, words: &Keywords<'a>, place: Place<'a>) -> TyId {
        let mut parts = Vec::new();
        // Whether some part already says which JSON types are possible.
        let mut covered = false;
        if words.reference.is_some() {
            let target = self.document.reference(schema);
            let part = target.map_or(TyId::UNKNOWN, |target| self.reference(target, place.position));
            let node = target.map(|target| self.document.targets()[target].node);
            covered = node.is_some_and(|node| self.allowed_with_null(node).within(place.mask));
            parts.push(part);
            if self.document.siblings() == Siblings::Ignored {
                return part;
            }
        }
        let shape = words.shape(place.mask);
        let within = Place {
            openness: if shape.object && place.mask == Mask::OBJECT {
                Openness::Implied
            } else {
                place.openness
            },
            name: None,
            ..place
        };
        // Alone, a union in a union is one union; beside something else it stands in parentheses.
        let nests = usize::from(shape.any() || words.compositions() > 1);
        if self.nesting + nests > MAX_NESTING {
            return TyId::UNKNOWN;
        }
        self.nesting += nests;
        let references = parts.len();
        for branch in list(words.all_of) {
            parts.push(self.node(branch, within));
        }
        for either in [words.any_of, words.one_of] {
            let branches: Vec<TyId> = list(either).map(|branch| self.node(branch, within)).collect();
            if !branches.is_empty() {
                parts.push(self.arena.union(branches));
            }
        }
        self.nesting -= nests;
        covered |= parts[references..]
            .iter()
            .any(|&part| !matches!(self.arena.bare(part), TyId::UNKNOWN | TyId::JSON));
        if shape.any() || !covered {
            let base = self.base(words, place, shape, !parts.is_empty());
            parts.insert(0, base);
        }
        self.arena.intersection(parts)
    }

    /// Converts the keywords that describe a value directly.
    fn base(&mut self, words: &Keywords<'a>, place: Place<'a>, shape: Shape, beside_others: bool) -> TyId {
        let mask = place.mask;
        if let Some(values) = words.enumerated() {
            return self.literals(values, mask);
        }
        if !shape.any() {
            return self.any(mask);
        }
        let mut members = Vec::new();
        for (bit, ty) in Mask::SCALARS {
            if mask.has(bit) {
                members.push(ty);
            }
        }
        if mask.has(Mask::ARRAY) {
            members.push(if shape.array {
                self.array(words)
            } else {
                TyId::JSON_ARRAY
            });
        }
        if mask.has(Mask::OBJECT) {
            members.push(if shape.object {
                self.object(words, place.openness, beside_others)
            } else {
                TyId::OPEN
            });
        }
        if mask.has(Mask::NULL) {
            members.push(TyId::NULL);
        }
        self.arena.union(members)
    }

    /// Returns the type of every value of the JSON types in `mask`.
    fn any(&mut self, mask: Mask) -> TyId {
        if mask == Mask::ALL {
            return TyId::JSON;
        }
        let mut members = Vec::new();
        for (bit, ty) in Mask::SCALARS {
            if mask.has(bit) {
                members.push(ty);
            }
        }
        for (bit, ty) in [
            (Mask::ARRAY, TyId::JSON_ARRAY),
            (Mask::OBJECT, TyId::OPEN),
            (Mask::NULL, TyId::NULL),
        ] {
            if mask.has(bit) {
                members.push(ty);
            }
        }
        self.arena.union(members)
    }

    fn literals(&mut self, values: &'a [Value], mask: Mask) -> TyId {
        let fitting = || values.iter().filter(|value| mask.has(Mask::of(value)));
        if fitting().count() > MAX_ENUM_MEMBERS {
            let mask = fitting().fold(Mask::NONE, |all, value| all.or(Mask::of(value)));
            let ty = self.any(mask);
            let note = format!("[one of {} values]", values.len());
            return match self.comments {
                Comments::Keep => self.arena.documented(Some(note), ty),
                Comments::Drop => ty,
            };
        }
        let mut seen = HashSet::new();
        let mut members = Vec::new();
        for value in fitting() {
            let scalar = !matches!(value, Value::Array(_) | Value::Object(_));
            if scalar && !seen.insert(literal(value)) {
                continue;
            }
            members.push(self.constant(value));
        }
        self.arena.union(members)
    }

    /// Returns the type of exactly this value.
    fn constant(&mut self, value: &'a Value) -> TyId {
        self.nodes += 1;
        if self.nodes > MAX_NODES || self.nesting >= MAX_NESTING {
            return TyId::UNKNOWN;
        }
        self.nesting += 1;
        let ty = stacker::maybe_grow(RED_ZONE, MORE_STACK, || match value {
            Value::Null => TyId::NULL,
            Value::Array(values) if values.len() > MAX_TUPLE_ELEMENTS => TyId::JSON_ARRAY,
            Value::Array(values) => {
                let elements: Vec<TyId> = values.iter().map(|value| self.constant(value)).collect();
                self.arena.add(Ty::Tuple {
                    required: elements.len(),
                    elements,
                    rest: None,
                })
            }
            Value::Object(map) if map.is_empty() => TyId::EMPTY,
            Value::Object(map) if map.len() > MAX_PROPERTIES => TyId::OPEN,
            Value::Object(map) => {
                let mut properties = Vec::with_capacity(map.len());
                for (name, value) in map {
                    let ty = self.constant(value);
                    properties.push(Property {
                        name: text::member(name).into(),
                        optional: false,
                        ty,
                    });
                }
                self.arena.add(Ty::Object(properties))
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                self.arena.add(Ty::Literal(literal(value).into()))
            }
        });
        self.nesting -= 1;
        ty
    }

    fn array(&mut self, words: &Keywords<'a>) -> TyId {
        let (prefix, rest) = match (words.prefix_items, words.items) {
            (Some(Value::Array(prefix)), rest) => (prefix.as_slice(), rest),
            (_, Some(Value::Array(prefix))) => (prefix.as_slice(), words.additional_items),
            (_, rest) => (&[][..], rest),
        };
        let bound = |size: Option<&Value>| {
            size.and_then(Value::as_u64)
                .and_then(|size| usize::try_from(size).ok())
        };
        let most = bound(words.max_items).unwrap_or(usize::MAX);
        // An element that nothing fits ends the array before it.
        let length = prefix
            .iter()
            .position(|schema| schema == &Value::Bool(false))
            .unwrap_or(prefix.len());
        let closed = length < prefix.len() || most <= length || rest == Some(&Value::Bool(false));
        let length = length.min(most);
        if length > MAX_TUPLE_ELEMENTS {
            return TyId::JSON_ARRAY;
        }
        let rest = match rest {
            _ if closed => None,
            Some(schema @ (Value::Object(_) | Value::Bool(true))) => Some(self.value(schema, None)),
            _ => Some(TyId::JSON),
        };
        if prefix.is_empty() {
            return match rest {
                // The empty array.
                None => self.arena.add(Ty::Tuple {
                    elements: Vec::new(),
                    required: 0,
                    rest: None,
                }),
                Some(TyId::JSON) => TyId::JSON_ARRAY,
                Some(item) => self.arena.add(Ty::Array(item)),
            };
        }
        let elements: Vec<TyId> = prefix[..length]
            .iter()
            .map(|schema| self.value(schema, None))
            .collect();
        let required = bound(words.min_items).unwrap_or(0).min(length);
        self.arena.add(Ty::Tuple {
            elements,
            required,
            rest,
        })
    }

    fn object(&mut self, words: &Keywords<'a>, openness: Openness, beside_others: bool) -> TyId {
        let empty = Map::new();
        let declared = words.properties.and_then(Value::as_object);
        let mut required = words.required_names().collect::<HashSet<&str>>();
        let mut properties = Vec::new();
        let mut left_out = false;
        for (name, schema) in declared.into_iter().flatten() {
            if properties.len() >= MAX_PROPERTIES {
                left_out = true;
                break;
            }
            let optional = !required.contains(name.as_str());
            properties.push(self.property(name, schema, optional));
        }
        let declared = declared.unwrap_or(&empty);
        for name in words.required_names() {
            if properties.len() >= MAX_PROPERTIES {
                left_out = true;
                break;
            }
            // Once, even when the list repeats it.
            if required.remove(name) && !declared.contains_key(name) {
                let name = text::member(name).into();
                properties.push(Property {
                    name,
                    optional: false,
                    ty: TyId::JSON,
                });
            }
        }
        let keys = if left_out {
            Keys::Open
        } else {
            self.other_keys(words, beside_others)
        };
        match keys {
            Keys::None if properties.is_empty() => TyId::EMPTY,
            Keys::None => self.arena.add(Ty::Object(properties)),
            Keys::Open if properties.is_empty() => TyId::OPEN,
            Keys::Open => {
                let object = self.arena.add(Ty::Object(properties));
                match openness {
                    Openness::Implied => object,
                    Openness::Stated => self.arena.intersection(vec![object, TyId::OPEN]),
                }
            }
            Keys::Typed(value) if properties.is_empty() => self.arena.add(Ty::Map(value)),
            Keys::Typed(value) => {
                let record = self.record_beside(&properties, value);
                let object = self.arena.add(Ty::Object(properties));
                self.arena.intersection(vec![object, record])
            }
        }
    }

    fn property(&mut self, name: &'a str, schema: &'a Value, optional: bool) -> Property {
        let ty = match self.value(schema, Some(name)) {
            // `{}` inherits a member of this name, which would have to fit.
            _ if optional && INHERITED.contains(&name) => TyId::UNKNOWN,
            ty => ty,
        };
        Property {
            name: text::member(name).into(),
            optional,
            ty,
        }
    }

    /// Returns what the keys that `properties` does not name may hold.
    fn other_keys(&mut self, words: &Keywords<'a>, beside_others: bool) -> Keys {
        let alone = words.compositions() == 0 && !words.conditional;
        let unevaluated = words.unevaluated_properties.filter(|_| alone);
        let mut values = Vec::new();
        match words.additional_properties.or(unevaluated) {
            // Beside other parts it would forbid their properties, which is what the words say and never meant.
            Some(Value::Bool(false)) if beside_others && words.properties.is_none() => {
                return Keys::Open;
            }
            Some(Value::Bool(false)) => {}
            Some(schema @ Value::Object(keywords)) if !keywords.is_empty() => {
                values.push(self.value(schema, None))
            }
            _ => return Keys::Open,
        }
        if let Some(Value::Object(patterns)) = words.pattern_properties {
            for schema in patterns.values().take(MAX_PROPERTIES) {
                values.push(self.value(schema, None));
            }
        }
        if values.is_empty() {
            return Keys::None;
        }
        let value = self.arena.union(values);
        match self.arena.bare(value) {
            TyId::NEVER => Keys::None,
            TyId::JSON => Keys::Open,
            _ => Keys::Typed(value),
        }
    }

    /// Returns a record whose values cover the named properties too, as the compiler asks of an intersection.
    fn record_beside(&mut self, properties: &[Property], value: TyId) -> TyId {
        /// Beyond this many different types the union says nothing any more.
        const MAX_DIFFERENT: usize = 4;
        let mut members = vec![value];
        for property in properties {
            if !members.iter().any(|&known| self.same(known, property.ty)) {
                members.push(property.ty);
            }
            if members.len() > MAX_DIFFERENT {
                return TyId::OPEN;
            }
        }
        let simple = |&id: &TyId| !matches!(self.arena.get(id), Ty::Object(_) | Ty::Intersection(_));
        if members.len() > 1 && !members.iter().all(simple) {
            return TyId::OPEN;
        }
        let value = self.arena.union(members);
        match self.arena.bare(value) {
            TyId::UNKNOWN | TyId::JSON => TyId::OPEN,
            _ => self.arena.add(Ty::Map(value)),
        }
    }

    /// Tells whether two types are the same on sight.
    fn same(&self, a: TyId, b: TyId) -> bool {
        let (a, b) = (self.arena.bare(a), self.arena.bare(b));
        a == b
            || match (self.arena.get(a), self.arena.get(b)) {
                (Ty::Literal(a), Ty::Literal(b)) => a == b,
                (Ty::Reference(a), Ty::Reference(b)) => a == b,
                (Ty::Array(a), Ty::Array(b)) => self.arena.bare(*a) == self.arena.bare(*b),
                _ => false,
            }
    }

    fn allowed_with_null(&mut self, schema: &'a Value) -> Mask {
        match schema {
            Value::Bool(false) => Mask::NONE,
            Value::Object(map) => {
                let words = Keywords::read(map);
                let mask = self.allowed(schema, &words);
                if words.nullable { mask.or(Mask::NULL) } else { mask }
            }
            _ => Mask::ALL,
        }
    }

    /// Returns the JSON types that `schema` leaves possible, `nullable` aside. Anything doubtful is possible.
    fn allowed(&mut self, schema: &'a Value, words: &Keywords<'a>) -> Mask {
        if words.compositions() == 0 {
            return words.own_types();
        }
        let key = std::ptr::from_ref(schema);
        if let Some(&known) = self.allowed.get(&key) {
            return known;
        }
        // Until it is known, a schema that refers back to itself allows everything.
        self.allowed.insert(key, Mask::ALL);
        let mask = stacker::maybe_grow(RED_ZONE, MORE_STACK, || self.composed_types(schema, words));
        self.allowed.insert(key, mask);
        mask
    }

    fn composed_types(&mut self, schema: &'a Value, words: &Keywords<'a>) -> Mask {
        let mut mask = Mask::ALL;
        if words.reference.is_some() {
            if let Some(target) = self.document.reference(schema) {
                let node = self.document.targets()[target].node;
                mask = self.allowed_with_null(node);
            }
            if self.document.siblings() == Siblings::Ignored {
                return mask;
            }
        }
        mask = mask.and(words.own_types());
        for branch in list(words.all_of) {
            mask = mask.and(self.allowed_with_null(branch));
        }
        for either in [words.any_of, words.one_of] {
            if either.is_some_and(Value::is_array) {
                let mut possible = Mask::NONE;
                for branch in list(either) {
                    possible = possible.or(self.allowed_with_null(branch));
                }
                mask = mask.and(possible);
            }
        }
        mask
    }
}

enum Keys {
    None,
    Open,
    Typed(TyId),
}

/// Returns the TypeScript literal of a scalar. Integral floats lose their fraction, minus zero its sign.
fn literal(value: &Value) -> String {
    /// Integers are exact up to here.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::String(value) => text::quote(value),
        Value::Number(number) if number.is_f64() => match number.as_f64() {
            #[expect(clippy::cast_possible_truncation, reason = "integral and below 2^53")]
            Some(float) if float.fract() == 0.0 && float.abs() < EXACT => (float as i64).to_string(),
            _ => number.to_string(),
        },
        _ => value.to_string(),
    }
}
