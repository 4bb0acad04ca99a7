//! Where a `$ref` leads: JSON pointers, `$anchor`, and `$id` of embedded schemas, inside one document only.
//! Nothing is ever fetched; a reference that leaves the document has no target.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use crate::ir::TargetId;
use crate::limits::MAX_NODES;

/// Keywords that hold one schema.
const ONE: [&str; 12] = [
    "additionalProperties",
    "items",
    "additionalItems",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedProperties",
    "unevaluatedItems",
    "contentSchema",
];
/// Keywords that hold a list of schemas.
const LIST: [&str; 5] = ["allOf", "anyOf", "oneOf", "prefixItems", "items"];
/// Keywords that hold named schemas.
const NAMED: [&str; 6] = [
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
    "dependencies",
];

/// Every `$ref` of one schema document, resolved.
pub(crate) struct Document<'a> {
    references: HashMap<*const Value, TargetId>,
    by_node: HashMap<*const Value, TargetId>,
    targets: Vec<Target<'a>>,
    siblings: Siblings,
}

pub(crate) struct Target<'a> {
    pub(crate) node: &'a Value,
    /// A name for the type, from the reference's own text; not yet an identifier.
    pub(crate) hint: String,
}

/// What the keywords beside a `$ref` mean.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Siblings {
    /// They constrain as well (2019-09 and later, and when no dialect is named).
    Apply,
    /// They are ignored (draft 7 and earlier).
    Ignored,
}

impl<'a> Document<'a> {
    pub(crate) fn read(root: &'a Value) -> Self {
        let none = Self {
            references: HashMap::new(),
            by_node: HashMap::new(),
            targets: Vec::new(),
            siblings: Siblings::Apply,
        };
        if !mentions_reference(root) {
            return none;
        }
        let siblings = siblings(root);
        let mut reader = Reader {
            siblings,
            resources: vec![Resource {
                root,
                uri: String::new(),
            }],
            by_uri: HashMap::new(),
            anchors: HashMap::new(),
            seen: HashSet::new(),
            pending: Vec::new(),
        };
        let mut document = Self { siblings, ..none };
        let mut work = vec![(root, 0)];
        while !work.is_empty() {
            reader.walk(&mut work);
            for (node, reference, resource) in std::mem::take(&mut reader.pending) {
                let Some((target, resource)) = reader.resolve(reference, resource) else {
                    continue;
                };
                let id = *document.by_node.entry(target).or_insert_with(|| {
                    document.targets.push(Target {
                        node: target,
                        hint: hint(reference),
                    });
                    document.targets.len() - 1
                });
                document.references.insert(node, id);
                work.push((target, resource));
            }
        }
        document
    }

    /// Returns the type that the `$ref` in `node` stands for, if it leads anywhere in this document.
    pub(crate) fn reference(&self, node: &Value) -> Option<TargetId> {
        self.references.get(&std::ptr::from_ref(node)).copied()
    }

    /// Returns the named type whose body `node` is, if some `$ref` points at it.
    pub(crate) fn target_at(&self, node: &Value) -> Option<TargetId> {
        if self.by_node.is_empty() {
            None
        } else {
            self.by_node.get(&std::ptr::from_ref(node)).copied()
        }
    }

    pub(crate) fn targets(&self) -> &[Target<'a>] {
        &self.targets
    }

    pub(crate) fn siblings(&self) -> Siblings {
        self.siblings
    }
}

struct Resource<'a> {
    root: &'a Value,
    uri: String,
}

struct Reader<'a> {
    siblings: Siblings,
    resources: Vec<Resource<'a>>,
    by_uri: HashMap<String, usize>,
    anchors: HashMap<(usize, &'a str), &'a Value>,
    seen: HashSet<*const Value>,
    /// References found and not yet resolved: the node, its `$ref`, the resource it is in.
    pending: Vec<(&'a Value, &'a str, usize)>,
}

impl<'a> Reader<'a> {
    fn walk(&mut self, work: &mut Vec<(&'a Value, usize)>) {
        while let Some((node, resource)) = work.pop() {
            let Value::Object(map) = node else { continue };
            if self.seen.len() >= MAX_NODES || !self.seen.insert(node) {
                continue;
            }
            let resource = self.enter(node, map, resource);
            for key in ["$anchor", "$dynamicAnchor"] {
                if let Some(Value::String(name)) = map.get(key) {
                    self.anchors.entry((resource, name)).or_insert(node);
                }
            }
            if let Some(Value::String(reference)) = map.get("$ref") {
                self.pending.push((node, reference, resource));
            }
            let first = work.len();
            children(map, |child| work.push((child, resource)));
            // Document order, so that names are given in the order in which a reader meets them.
            work[first..].reverse();
        }
    }

    /// Returns the resource that `node` belongs to, a new one when it has an `$id` of its own.
    fn enter(&mut self, node: &'a Value, map: &'a Map<String, Value>, resource: usize) -> usize {
        let Some(Value::String(id)) = map.get("$id") else {
            return resource;
        };
        if self.siblings == Siblings::Ignored && map.contains_key("$ref") {
            return resource;
        }
        if let Some(name) = id.strip_prefix('#') {
            self.anchors.entry((resource, name)).or_insert(node);
            return resource;
        }
        let uri = join(&self.resources[resource].uri, id.split('#').next().unwrap_or(id));
        if let Some(&known) = self.by_uri.get(&uri)
            && std::ptr::eq(self.resources[known].root, node)
        {
            return known;
        }
        let new = if std::ptr::eq(self.resources[0].root, node) {
            self.resources[0].uri.clone_from(&uri);
            0
        } else {
            self.resources.push(Resource {
                root: node,
                uri: uri.clone(),
            });
            self.resources.len() - 1
        };
        self.by_uri.entry(uri).or_insert(new);
        new
    }

    fn resolve(&mut self, reference: &str, resource: usize) -> Option<(&'a Value, usize)> {
        let (uri, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let mut resource = resource;
        if !uri.is_empty() {
            resource = *self.by_uri.get(&join(&self.resources[resource].uri, uri))?;
        }
        let root = self.resources[resource].root;
        let fragment = percent_decode(fragment)?;
        let Some(pointer) = fragment.strip_prefix('/') else {
            return match fragment.as_str() {
                "" => Some((root, resource)),
                name => self.anchors.get(&(resource, name)).map(|&node| (node, resource)),
            };
        };
        let mut node = root;
        for token in pointer.split('/') {
            let token = token.replace("~1", "/").replace("~0", "~");
            node = match node {
                Value::Object(map) => map.get(&token)?,
                Value::Array(list) => list.get(token.parse::<usize>().ok()?)?,
                _ => return None,
            };
            if let Value::Object(map) = node {
                resource = self.enter(node, map, resource);
            }
        }
        Some((node, resource))
    }
}

/// Calls `visit` for each schema directly inside `map`, in document order.
fn children<'a>(map: &'a Map<String, Value>, mut visit: impl FnMut(&'a Value)) {
    for (key, value) in map {
        match value {
            Value::Object(named) if NAMED.contains(&key.as_str()) => named.values().for_each(&mut visit),
            Value::Array(list) if LIST.contains(&key.as_str()) => list.iter().for_each(&mut visit),
            Value::Object(_) if ONE.contains(&key.as_str()) => visit(value),
            _ => {}
        }
    }
}

/// Tells whether there is anything to resolve; most schemas have nothing.
fn mentions_reference(root: &Value) -> bool {
    let mut work = vec![root];
    while let Some(value) = work.pop() {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    if key == "$ref" {
                        return true;
                    }
                    if value.is_object() || value.is_array() {
                        work.push(value);
                    }
                }
            }
            Value::Array(values) => work.extend(values.iter().filter(|value| !value.is_string())),
            _ => {}
        }
    }
    false
}

fn siblings(root: &Value) -> Siblings {
    let dialect = root.get("$schema").and_then(Value::as_str).unwrap_or_default();
    let old = ["draft-03", "draft-04", "draft-05", "draft-06", "draft-07"];
    if old.iter().any(|name| dialect.contains(name)) {
        Siblings::Ignored
    } else {
        Siblings::Apply
    }
}

/// Picks the part of a reference that a person would call the type by.
fn hint(reference: &str) -> String {
    let (uri, fragment) = reference.split_once('#').unwrap_or((reference, ""));
    let fragment = percent_decode(fragment).unwrap_or_default();
    let named = |segment: &&str| {
        !segment.is_empty()
            && !segment.bytes().all(|b| b.is_ascii_digit())
            && !ONE.contains(segment)
            && !LIST.contains(segment)
            && !NAMED.contains(segment)
    };
    fragment
        .rsplit('/')
        .find(named)
        .or_else(|| uri.rsplit('/').find(named))
        .unwrap_or_default()
        .to_owned()
}

fn percent_decode(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        if first == b'%' {
            let hex = std::str::from_utf8(tail.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(hex, 16).ok()?);
            rest = &tail[2..];
        } else {
            bytes.push(first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).ok()
}

/// Joins a URI reference to a base, as far as `$id` needs it: absolute, rooted and relative paths.
fn join(base: &str, reference: &str) -> String {
    let has_scheme = |uri: &str| {
        uri.split_once(':').is_some_and(|(scheme, _)| {
            scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                && scheme
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
        })
    };
    if base.is_empty() || has_scheme(reference) {
        return reference.to_owned();
    }
    if reference.is_empty() {
        return base.to_owned();
    }
    // "scheme:" and "//authority" stay; what follows is the path.
    let scheme_end = if has_scheme(base) {
        base.find(':').map_or(0, |at| at + 1)
    } else {
        0
    };
    let path_start = match base[scheme_end..].strip_prefix("//") {
        Some(rest) => scheme_end + 2 + rest.find('/').unwrap_or(rest.len()),
        None => scheme_end,
    };
    if reference.starts_with("//") {
        return format!("{}{reference}", &base[..scheme_end]);
    }
    let path = if reference.starts_with('/') {
        reference.to_owned()
    } else {
        let folder = base[path_start..]
            .rfind('/')
            .map_or("", |at| &base[path_start..=path_start + at]);
        format!("{folder}{reference}")
    };
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "." => {}
            ".." if segments.len() > 1 => {
                segments.pop();
            }
            ".." => {}
            _ => segments.push(segment),
        }
    }
    let slash = if path_start > scheme_end && !path.starts_with('/') {
        "/"
    } else {
        ""
    };
    format!("{}{slash}{}", &base[..path_start], segments.join("/"))
}
