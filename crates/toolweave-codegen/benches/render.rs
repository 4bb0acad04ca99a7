//! How long the declarations of many tools take.

use serde_json::{Value, json};
use toolweave_codegen::{Detail, Output, ToolDecl, declarations};

fn main() {
    divan::main();
}

#[divan::bench(args = [1_000, 10_000])]
fn full(bencher: divan::Bencher<'_, '_>, count: usize) {
    render(bencher, count, Detail::Full);
}

#[divan::bench(args = [1_000, 10_000])]
fn compact(bencher: divan::Bencher<'_, '_>, count: usize) {
    render(bencher, count, Detail::Compact);
}

fn render(bencher: divan::Bencher<'_, '_>, count: usize, detail: Detail) {
    let tools = tools(count);
    let declared: Vec<ToolDecl<'_>> = tools.iter().map(Tool::declared).collect();
    bencher.bench(|| declarations(divan::black_box(&declared), detail).len());
}

struct Tool {
    name: String,
    schema: Value,
}

impl Tool {
    fn declared(&self) -> ToolDecl<'_> {
        ToolDecl {
            name: &self.name,
            description: self
                .schema
                .get("description")
                .and_then(Value::as_str)
                .unwrap_or_default(),
            input: self.schema.get("inputSchema").unwrap_or(&Value::Null),
            output: self
                .schema
                .get("outputSchema")
                .map_or(Output::Unknown, Output::Declared),
        }
    }
}

/// Takes the tools of real servers, as often as it needs to, or made-up ones where the corpus is not here.
fn tools(count: usize) -> Vec<Tool> {
    let mut real = corpus();
    if real.is_empty() {
        real = (0..50).map(made_up).collect();
    }
    (0..count)
        .map(|at| {
            let schema = real[at % real.len()].clone();
            let name = schema.get("name").and_then(Value::as_str).unwrap_or_default();
            Tool {
                name: format!("{name}_{at}"),
                schema,
            }
        })
        .collect()
}

fn corpus() -> Vec<Value> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/corpus/mcp-tools");
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut files: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    let mut tools = Vec::new();
    for file in files {
        let Ok(text) = std::fs::read_to_string(&file) else {
            continue;
        };
        let Ok(mut value) = serde_json::from_str::<Value>(&text) else {
            continue;
        };
        if let Some(Value::Array(list)) = value.get_mut("tools").map(Value::take) {
            tools.extend(list);
        }
    }
    tools
}

fn made_up(at: usize) -> Value {
    let properties: serde_json::Map<String, Value> = (0..10)
        .map(|number| {
            let schema = json!({
                "type": if number % 2 == 0 { "string" } else { "integer" },
                "description": format!("What the parameter {number} of tool {at} is for, in a sentence."),
            });
            (format!("parameter_{number}"), schema)
        })
        .collect();
    json!({
        "name": format!("tool_{at}"),
        "description": "Does something useful and says so in a sentence or two.",
        "inputSchema": {"type": "object", "properties": properties, "required": ["parameter_0"]},
    })
}
