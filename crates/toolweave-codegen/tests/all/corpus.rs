//! The tools of 75 real servers.

use serde_json::Value;
use toolweave_codegen::{Detail, help, signature};

use crate::support::{block, check, declared, json_files, shared};

fn servers() -> Option<Vec<(String, Vec<Value>)>> {
    let files = json_files(&shared("corpus/mcp-tools")?);
    Some(
        files
            .into_iter()
            .map(|(name, file)| (name, file["tools"].as_array().unwrap().clone()))
            .collect(),
    )
}

#[test]
fn every_server_renders_the_same_every_time() {
    let Some(servers) = servers() else { return };
    let mut unknown = 0;
    for (server, tools) in &servers {
        for detail in [Detail::Full, Detail::Compact] {
            let text = block(tools, detail);
            let mut reversed = tools.clone();
            reversed.reverse();
            assert_eq!(block(&reversed, detail), text, "{server}");
            let native: usize = tools.iter().map(|tool| tool.to_string().len()).sum();
            assert!(
                text.len() < native + 2_000,
                "{server}: {} from {native}",
                text.len()
            );
            if detail == Detail::Compact {
                unknown += unknown_types(&text);
            }
        }
        for tool in tools {
            assert!(!signature(&declared(tool)).contains('\n'));
            assert!(help(&declared(tool)).contains("tools"));
        }
    }
    assert_eq!(servers.len(), 75);
    assert_eq!(unknown, UNKNOWN);
}

/// Nodes of all 2 170 tools that come out as `unknown`.
const UNKNOWN: usize = 0;

fn unknown_types(text: &str) -> usize {
    // Every other part between quotes is a literal or a name.
    let code: String = text.split('"').step_by(2).collect();
    code.split(|c: char| !c.is_alphanumeric() && !"_$?:".contains(c))
        .filter(|word| *word == "unknown")
        .count()
}

#[test]
fn the_compiler_accepts_them_all() {
    let Some(servers) = servers() else { return };
    // One block for all, so that the compiler starts once; names are made different by their server.
    let tools: Vec<Value> = servers
        .into_iter()
        .flat_map(|(server, tools)| {
            tools.into_iter().map(move |mut tool| {
                let name = format!("{server}/{}", tool["name"].as_str().unwrap());
                tool["name"] = Value::from(name);
                tool
            })
        })
        .collect();
    for detail in [Detail::Full, Detail::Compact] {
        let Some(complaints) = check(&block(&tools, detail)) else {
            return;
        };
        assert_eq!(complaints, []);
    }
}

#[test]
fn every_description_is_kept() {
    let Some(servers) = servers() else { return };
    for (server, tools) in &servers {
        let text = block(tools, Detail::Full);
        let words: std::collections::HashSet<&str> = text.split(|c: char| !c.is_alphanumeric()).collect();
        for tool in tools {
            let mut described = Vec::new();
            collect(&tool["inputSchema"], &mut described);
            described.extend(tool.get("description").and_then(Value::as_str));
            for word in described
                .iter()
                .flat_map(|text| text.split(|c: char| !c.is_alphanumeric()))
            {
                assert!(words.contains(word), "{server} {} lost {word:?}", tool["name"]);
            }
        }
    }
}

/// Collects the descriptions of a schema's properties.
fn collect<'a>(schema: &'a Value, found: &mut Vec<&'a str>) {
    found.extend(schema.get("description").and_then(Value::as_str));
    if let Some(Value::Object(properties)) = schema.get("properties") {
        for property in properties.values() {
            collect(property, found);
        }
    }
    if let Some(items @ Value::Object(_)) = schema.get("items") {
        collect(items, found);
    }
}
