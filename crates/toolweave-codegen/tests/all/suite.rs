//! The JSON Schema test suite: no schema breaks the renderer, and no type is narrower than its schema.

use serde_json::{Value, json};
use toolweave_codegen::type_of;

use crate::support::{check, json_files, shared};

struct Group {
    name: String,
    schema: Value,
    tests: Vec<Value>,
}

fn groups() -> Option<Vec<Group>> {
    let folder = shared("corpus/json-schema-test-suite/tests")?;
    let mut groups = Vec::new();
    for draft in ["draft2020-12", "draft7"] {
        for (file, content) in json_files(&folder.join(draft)) {
            for group in content.as_array().unwrap() {
                let mut schema = group["schema"].clone();
                if let (Value::Object(map), "draft7") = (&mut schema, draft) {
                    map.entry("$schema")
                        .or_insert_with(|| json!("http://json-schema.org/draft-07/schema#"));
                }
                groups.push(Group {
                    name: format!("{draft}/{file}: {}", group["description"]),
                    schema,
                    tests: group["tests"].as_array().unwrap().clone(),
                });
            }
        }
    }
    Some(groups)
}

#[test]
fn every_schema_renders() {
    let Some(groups) = groups() else { return };
    assert_eq!(groups.len(), 640);
    for group in &groups {
        let rendered = type_of(&group.schema);
        assert!(!rendered.text.is_empty(), "{}", group.name);
        assert_eq!(rendered, type_of(&group.schema), "{}", group.name);
    }
}

/// Of the instances that the schemas reject, so many are rejected by the types as well.
const REJECTED: usize = 447;

#[test]
fn every_valid_instance_fits_its_type() {
    let Some(groups) = groups() else { return };
    let mut source = crate::block_prelude();
    let mut probes = Vec::new();
    for (at, group) in groups.iter().enumerate() {
        let rendered = type_of(&group.schema);
        source.push_str(&format!(
            "namespace G{at} {{\n{}export type X = {};\n",
            rendered.declarations, rendered.text
        ));
        for test in &group.tests {
            probes.push((source.lines().count() + 1, group, test));
            // Without brackets an object literal's `__proto__` is its prototype.
            let data = test["data"]
                .to_string()
                .replace("\"__proto__\":", "[\"__proto__\"]:");
            source.push_str(&format!("const v{}: X = {data};\n", probes.len()));
        }
        source.push_str("}\n");
    }
    let Some(complaints) = check(&source) else { return };
    let mut rejected = std::collections::HashSet::new();
    for (line, message) in &complaints {
        let (_, group, test) = probes
            .iter()
            .find(|(at, ..)| at == line)
            .unwrap_or_else(|| panic!("line {line}: {message}"));
        assert_eq!(test["valid"], false, "{}: {} {message}", group.name, test["data"]);
        rejected.insert(line);
    }
    assert_eq!(rejected.len(), REJECTED);
}
