//! Looks at a value and keeps what it looks like. Breadth first and within a budget, so that a large result costs no more
//! than a middling one and its upper levels are always seen whole.

use std::collections::{BTreeMap, VecDeque};

use serde_json::Value;

use super::names::{is_map, is_name};
use super::shape::{Kind, Kinds, MAX_SHAPE_LEVELS, MAX_SHAPE_NODES, Member, Members, Node, Shape};

/// Values that are looked at in one result, the result itself aside. What they look like always fits a shape.
const MAX_SAMPLED: usize = MAX_SHAPE_NODES - 1;
/// Items of one array, and entries of one map, that are looked at.
const MAX_ITEMS: usize = 20;

/// A node while values are still poured into it.
#[derive(Default)]
struct Draft<'v> {
    kinds: Kinds,
    items: Option<usize>,
    seen_object: bool,
    map: bool,
    /// Objects whose properties were looked at.
    objects: usize,
    /// How many of them had a property, and its node.
    names: BTreeMap<&'v str, (usize, usize)>,
    rest: Option<usize>,
}

struct Sampler<'v> {
    nodes: Vec<Draft<'v>>,
    open: VecDeque<(usize, u8, &'v Value)>,
    budget: usize,
}

impl Shape {
    /// Returns what a value looks like. Looks at a bounded part of it, and takes any value.
    pub fn of(value: &Value) -> Self {
        let mut sampler = Sampler {
            nodes: vec![Draft::default()],
            open: VecDeque::from([(0, 1, value)]),
            budget: MAX_SAMPLED,
        };
        while let Some((node, level, value)) = sampler.open.pop_front() {
            sampler.look(node, level, value);
        }
        let mut nodes: Vec<Option<Draft<'_>>> = sampler.nodes.into_iter().map(Some).collect();
        Self::new(finished(&mut nodes, 0))
    }
}

impl<'v> Sampler<'v> {
    fn look(&mut self, at: usize, level: u8, value: &'v Value) {
        let Some(node) = self.nodes.get_mut(at) else {
            return;
        };
        node.kinds.add(Kind::of(value));
        let last = level >= MAX_SHAPE_LEVELS;
        match value {
            Value::Array(items) if !last && !items.is_empty() => {
                let taken = items.len().min(MAX_ITEMS).min(self.budget);
                if taken == 0 {
                    return;
                }
                let below = match node.items {
                    Some(below) => below,
                    None => {
                        let below = self.nodes.len();
                        self.nodes[at].items = Some(below);
                        self.nodes.push(Draft::default());
                        below
                    }
                };
                self.budget -= taken;
                self.open
                    .extend(items.iter().take(taken).map(|item| (below, level + 1, item)));
            }
            Value::Object(object) if !last => {
                node.seen_object = true;
                if is_map(object) {
                    node.map = true;
                    let taken = object.len().min(MAX_ITEMS).min(self.budget);
                    self.budget -= taken;
                    for entry in object.values().take(taken) {
                        self.rest(at, level, entry);
                    }
                } else if object.len() <= self.budget {
                    self.budget -= object.len();
                    node.objects += 1;
                    for (name, entry) in object {
                        if is_name(name) {
                            self.named(at, level, name, entry);
                        } else {
                            self.rest(at, level, entry);
                        }
                    }
                }
            }
            _ => {}
        }
    }

    fn named(&mut self, at: usize, level: u8, name: &'v str, value: &'v Value) {
        let fresh = self.nodes.len();
        let entry = self.nodes[at].names.entry(name).or_insert((0, fresh));
        entry.0 += 1;
        let below = entry.1;
        if below == fresh {
            self.nodes.push(Draft::default());
        }
        self.open.push_back((below, level + 1, value));
    }

    fn rest(&mut self, at: usize, level: u8, value: &'v Value) {
        let fresh = self.nodes.len();
        let below = *self.nodes[at].rest.get_or_insert(fresh);
        if below == fresh {
            self.nodes.push(Draft::default());
        }
        self.open.push_back((below, level + 1, value));
    }
}

/// Takes a finished node and everything below it out of the drafts. No deeper than a shape has levels.
fn finished(nodes: &mut [Option<Draft<'_>>], at: usize) -> Node {
    let Some(draft) = nodes.get_mut(at).and_then(Option::take) else {
        return Node::default();
    };
    let items = draft.items.map(|below| Box::new(finished(nodes, below)));
    let members = draft.seen_object.then(|| {
        let names = draft.names.into_iter().map(|(name, (present, below))| {
            let member = Member {
                always: present == draft.objects,
                node: finished(nodes, below),
            };
            (Box::from(name), member)
        });
        Box::new(Members {
            names: names.collect(),
            rest: None,
            map: draft.map,
        })
    });
    let rest = draft.rest.map(|below| Box::new(finished(nodes, below)));
    Node {
        kinds: draft.kinds,
        items,
        members: members.map(|mut members| {
            members.rest = rest;
            members
        }),
    }
}
