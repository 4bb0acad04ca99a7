//! How much work a schema can make of a value: how often one place of the value is visited, at most.
//!
//! A few references are enough to make a validator visit one place 2^60 times, and both the schema and the value may come
//! from the same stranger. This counts the ways from the root of a schema to a place so many levels down; it looks at
//! structure only and never underestimates what it can follow.

use std::collections::HashMap;

use serde_json::Value;

/// Levels that are counted. What does not explode until here grows slowly enough to be harmless.
const LEVELS: usize = 64;
/// The longest chain of references and combinators at one place.
const MAX_CHAIN: usize = 512;

/// Ways to a place, by its depth.
pub(crate) struct Fan {
    ways: Vec<u64>,
}

impl Fan {
    /// Counts the ways through a schema.
    ///
    /// # Errors
    /// A schema whose references cannot be followed here.
    pub(crate) fn of(schema: &Value) -> Result<Self, String> {
        let graph = Graph::of(schema)?;
        let order = graph.order()?;
        let mut ways = Vec::with_capacity(LEVELS);
        let mut above: Vec<u64> = Vec::new();
        for level in 0..LEVELS {
            let mut here = vec![0_u64; graph.nodes.len()];
            for &node in &order {
                let edges = &graph.nodes[node];
                let in_place = sum(&here, &edges.in_place);
                let own = if level == 0 {
                    1
                } else {
                    edges.members.ways(&above).max(edges.items.ways(&above))
                };
                here[node] = in_place.saturating_add(own);
            }
            ways.push(here.first().copied().unwrap_or(1).max(1));
            above = here;
        }
        // A deeper place is never cheaper.
        for level in 1..ways.len() {
            ways[level] = ways[level].max(ways[level - 1]);
        }
        Ok(Self { ways })
    }

    /// Returns how often one place at this depth, or above, is visited at most.
    pub(crate) fn at(&self, depth: u32) -> u64 {
        let level = usize::try_from(depth)
            .unwrap_or(usize::MAX)
            .min(self.ways.len() - 1);
        self.ways[level]
    }
}

/// The subschemas of one schema, by the place that they apply to.
#[derive(Default)]
struct Edges {
    in_place: Vec<usize>,
    members: Below,
    items: Below,
}

/// Subschemas for one level down: of `either` one applies to a place, of `each` all may.
#[derive(Default)]
struct Below {
    either: Vec<usize>,
    each: Vec<usize>,
}

impl Below {
    fn ways(&self, above: &[u64]) -> u64 {
        let either = self.either.iter().map(|&node| above[node]).max().unwrap_or(0);
        either.saturating_add(sum(above, &self.each))
    }
}

fn sum(ways: &[u64], nodes: &[usize]) -> u64 {
    nodes
        .iter()
        .fold(0, |total, &node| total.saturating_add(ways[node]))
}

struct Graph {
    /// The root is first.
    nodes: Vec<Edges>,
}

impl Graph {
    fn of(root: &Value) -> Result<Self, String> {
        let mut values = Vec::new();
        let mut index: HashMap<*const Value, usize> = HashMap::new();
        let mut anchors: HashMap<&str, Vec<usize>> = HashMap::new();
        let mut open = vec![root];
        while let Some(value) = open.pop() {
            match value {
                Value::Object(members) => {
                    index.insert(value, values.len());
                    for keyword in ["$anchor", "$dynamicAnchor"] {
                        if let Some(Value::String(name)) = members.get(keyword) {
                            anchors.entry(name).or_default().push(values.len());
                        }
                    }
                    values.push(members);
                    open.extend(members.values());
                }
                Value::Array(items) => open.extend(items),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        let node = |value: &Value| index.get(&std::ptr::from_ref(value)).copied();
        let nodes_of = |value: &Value| -> Vec<usize> {
            match value {
                Value::Array(items) => items.iter().filter_map(node).collect(),
                other => node(other).into_iter().collect(),
            }
        };
        let members_of = |value: &Value| -> Vec<usize> {
            match value {
                Value::Object(members) => members.values().filter_map(node).collect(),
                _ => Vec::new(),
            }
        };
        let mut nodes = Vec::with_capacity(values.len());
        for members in &values {
            let mut edges = Edges::default();
            for (keyword, value) in *members {
                match keyword.as_str() {
                    "allOf" | "anyOf" | "oneOf" | "not" | "if" | "then" | "else" => {
                        edges.in_place.extend(nodes_of(value));
                    }
                    "dependentSchemas" | "dependencies" => edges.in_place.extend(members_of(value)),
                    "$ref" | "$dynamicRef" | "$recursiveRef" => {
                        // A property may be called so as well; then the value is a schema.
                        if let Value::String(target) = value {
                            edges.in_place.extend(resolve(root, target, &node, &anchors)?);
                        }
                    }
                    "properties" => edges.members.either.extend(members_of(value)),
                    "additionalProperties" => edges.members.either.extend(node(value)),
                    "patternProperties" => edges.members.each.extend(members_of(value)),
                    "unevaluatedProperties" | "propertyNames" => edges.members.each.extend(node(value)),
                    "items" | "prefixItems" | "additionalItems" => edges.items.either.extend(nodes_of(value)),
                    "contains" | "unevaluatedItems" => edges.items.each.extend(node(value)),
                    _ => {}
                }
            }
            nodes.push(edges);
        }
        Ok(Self { nodes })
    }

    /// Returns the nodes so that each comes after those that it leads to in place. References that lead back to where they
    /// came from are cut there, as a validator cuts them.
    fn order(&self) -> Result<Vec<usize>, String> {
        #[derive(Clone, Copy, PartialEq)]
        enum Mark {
            New,
            Open,
            Done,
        }
        let mut marks = vec![Mark::New; self.nodes.len()];
        let mut order = Vec::with_capacity(self.nodes.len());
        for start in 0..self.nodes.len() {
            if marks[start] != Mark::New {
                continue;
            }
            marks[start] = Mark::Open;
            let mut path = vec![(start, 0_usize)];
            while let Some((node, next)) = path.last_mut() {
                let node = *node;
                match self.nodes[node].in_place.get(*next) {
                    Some(&target) => {
                        *next += 1;
                        if marks[target] == Mark::New {
                            if path.len() >= MAX_CHAIN {
                                return Err(format!("more than {MAX_CHAIN} references in a chain"));
                            }
                            marks[target] = Mark::Open;
                            path.push((target, 0));
                        }
                    }
                    None => {
                        marks[node] = Mark::Done;
                        order.push(node);
                        path.pop();
                    }
                }
            }
        }
        Ok(order)
    }
}

fn resolve(
    root: &Value,
    target: &str,
    node: &impl Fn(&Value) -> Option<usize>,
    anchors: &HashMap<&str, Vec<usize>>,
) -> Result<Vec<usize>, String> {
    let unknown = || {
        format!(
            "the reference `{}` leads elsewhere",
            crate::text::clip(target, 80)
        )
    };
    let fragment = target.strip_prefix('#').ok_or_else(unknown)?;
    if fragment.is_empty() {
        return Ok(node(root).into_iter().collect());
    }
    if fragment.starts_with('/') {
        let pointer = decoded(fragment).ok_or_else(unknown)?;
        let found = root.pointer(&pointer).ok_or_else(unknown)?;
        return Ok(node(found).into_iter().collect());
    }
    anchors.get(fragment).cloned().ok_or_else(unknown)
}

/// Undoes the escapes of a URI in a pointer.
fn decoded(fragment: &str) -> Option<String> {
    if !fragment.contains('%') {
        return Some(fragment.to_owned());
    }
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &tail[2..];
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ways(schema: &Value, depth: u32) -> u64 {
        Fan::of(schema).expect("followed").at(depth)
    }

    #[test]
    fn ordinary_schemas_cost_a_few_visits() {
        let flat =
            json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"anyOf": [{}, {}]}}});
        assert_eq!((ways(&flat, 0), ways(&flat, 1)), (1, 3));
        let tree =
            json!({"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}});
        assert_eq!(ways(&tree, 0), 1);
        assert!(ways(&tree, 10_000) <= 64, "{}", ways(&tree, 10_000));
    }

    #[test]
    fn what_explodes_is_counted() {
        let twice =
            json!({"allOf": [{"properties": {"a": {"$ref": "#"}}}, {"additionalProperties": {"$ref": "#"}}]});
        assert!(ways(&twice, 20) > 1_000_000);
        let patterns = json!({"patternProperties": {"a": {"$ref": "#"}, "^a": {"$ref": "#"}}});
        assert!(ways(&patterns, 20) > 1_000_000);
        let mut defs = serde_json::Map::new();
        for n in 0..40 {
            let next = json!({"properties": {"a": {"$ref": format!("#/$defs/d{}", n + 1)}}});
            defs.insert(format!("d{n}"), json!({"allOf": [next, next]}));
        }
        defs.insert("d40".to_owned(), json!({}));
        let chain = json!({"$ref": "#/$defs/d0", "$defs": defs});
        assert!(ways(&chain, 30) > 1_000_000);
        assert!(ways(&chain, 3) < 100);
    }

    #[test]
    fn references_are_followed_or_refused() {
        let anchored = json!({"$ref": "#x", "$defs": {"y": {"$anchor": "x", "anyOf": [{}, {}, {}]}}});
        assert_eq!(ways(&anchored, 0), 5);
        let escaped = json!({"$ref": "#/$defs/a%20b~1c", "$defs": {"a b/c": {"type": "string"}}});
        assert_eq!(ways(&escaped, 0), 2);
        for reference in [
            "https://example.com/x",
            "other.json#/a",
            "#nowhere",
            "#/nowhere",
            "#/%zz",
        ] {
            assert!(Fan::of(&json!({"$ref": reference})).is_err(), "{reference}");
        }
    }
}
