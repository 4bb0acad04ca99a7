//! How violations are worded, and that no schema does harm.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use toolweave_tools::{Effect, Mode, ToolOutput, ToolSpec, ToolboxConfig};

use crate::dispatch::request;
use crate::support::{End, FakeRuntime, call, rig, spec, text, tool};

/// Calls a tool with this schema and returns what is said about the arguments.
async fn said(schema: &Value, arguments: &Value) -> String {
    let spec = ToolSpec {
        input_schema: schema.clone(),
        ..spec("t", Effect::Read)
    };
    let taker = tool(spec, |_, _| {
        std::future::ready(Ok(ToolOutput::from_value(json!("taken"))))
    });
    let config = ToolboxConfig {
        mode: Mode::Both,
        ..ToolboxConfig::default()
    };
    let rig = rig(vec![taker], FakeRuntime::idle(), config);
    text(&rig.toolbox.execute(call("t", &arguments.to_string())).await)
}

fn properties(properties: Value) -> Value {
    json!({"type": "object", "properties": properties})
}

#[tokio::test]
async fn violations_say_where_and_what_would_be_right() {
    let person = json!({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name"]});
    for (schema, arguments, expected) in [
        (
            json!({"a": {"type": "number"}}),
            json!({"a": "1"}),
            "`a` must be a number, got the string \"1\"",
        ),
        (
            json!({"a": {"type": ["integer", "null"]}}),
            json!({"a": true}),
            "`a` must be null or an integer, got the boolean true",
        ),
        (
            json!({"a": {"enum": ["x", "y"]}}),
            json!({"a": "z"}),
            "`a` must be one of \"x\", \"y\", got the string \"z\"",
        ),
        (
            json!({"a": {"const": 5}}),
            json!({"a": 6}),
            "`a` must be 5, got the number 6",
        ),
        (
            json!({"a": {"type": "array", "items": person}}),
            json!({"a": [{"name": "n"}, {"age": 1}]}),
            "`a[1].name` is missing (a string)",
        ),
        (
            json!({"a": {"type": "string", "maxLength": 2}}),
            json!({"a": "äöü"}),
            "`a` must have at most 2 characters, got 3",
        ),
        (
            json!({"a": {"type": "string", "pattern": "^x"}}),
            json!({"a": "y"}),
            "`a` must match the pattern ^x, got the string \"y\"",
        ),
        (
            json!({"a": {"type": "array", "maxItems": 1}}),
            json!({"a": [1, 2]}),
            "`a` must have at most 1 items, got 2",
        ),
        (
            json!({"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}),
            json!({"a": 5}),
            "`a` must be a string or null, got the number 5",
        ),
        (
            json!({"a": {"oneOf": [{"type": "number"}, person]}}),
            json!({"a": {"name": 5}}),
            "`a` matches none of the 2 forms allowed; closest: `a.name` must be a string, got the number 5",
        ),
        (
            json!({"a b": {"type": "number"}}),
            json!({"a b": []}),
            "`a b` must be a number, got an array of 0",
        ),
        (json!({"a": false}), json!({"a": 1}), "`a` is not allowed here"),
    ] {
        let said = said(&properties(schema), &arguments).await;
        assert_eq!(said, format!("invalid arguments for `t`: {expected}"));
    }
}

#[tokio::test]
async fn there_is_an_end_to_violations() {
    let many: Map<String, Value> = (0..40)
        .map(|n| (format!("p{n:02}"), json!({"type": "string"})))
        .collect();
    let arguments: Map<String, Value> = (0..40).map(|n| (format!("p{n:02}"), json!(n))).collect();
    let said = said(&properties(Value::Object(many)), &Value::Object(arguments)).await;
    assert_eq!(said.lines().count(), 14, "{said}");
    assert!(said.ends_with("- and 28 more"), "{said}");
}

#[tokio::test]
async fn drafts_and_odd_schemas() {
    for (schema, arguments, fits) in [
        (
            json!({"$schema": "http://json-schema.org/draft-04/schema#", "properties": {"a": {"minimum": 1, "exclusiveMinimum": true}}}),
            json!({"a": 1}),
            false,
        ),
        (
            json!({"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"type": "number"}}}),
            json!({"a": "x"}),
            false,
        ),
        (
            json!({"$schema": "https://example.com/nobody-knows", "properties": {"a": {"type": "number"}}}),
            json!({"a": "x"}),
            false,
        ),
        (
            json!({"properties": {"a": {"type": "number"}}, "$defs": {"x": {}}}),
            json!({"a": 1}),
            true,
        ),
        (
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"required": ["x"]}}}),
            json!({}),
            false,
        ),
        (
            json!({"properties": {"n": {"$ref": "#"}}, "additionalProperties": false}),
            json!({"n": {"n": {"m": 1}}}),
            false,
        ),
        (json!(true), json!({"a": 1}), true),
        (json!({}), json!({"a": 1}), true),
        // Not usable: unchecked, never refused.
        (
            json!({"$ref": "https://example.com/schema.json"}),
            json!({"a": 1}),
            true,
        ),
        (json!({"type": "strin"}), json!({"a": 1}), true),
        (json!("nonsense"), json!({"a": 1}), true),
        (
            json!({"properties": {"a": {"pattern": "("}}}),
            json!({"a": "x"}),
            true,
        ),
    ] {
        let said = said(&schema, &arguments).await;
        assert_eq!(said == "taken", fits, "{schema}: {said}");
    }
}

#[tokio::test]
async fn a_schema_that_cannot_be_used_is_a_warning_of_the_run() {
    let spec = ToolSpec {
        input_schema: json!({"$ref": "https://example.com/x"}),
        ..spec("t", Effect::Read)
    };
    let taker = tool(spec, |_, _| {
        std::future::ready(Ok(ToolOutput::from_value(json!("taken"))))
    });
    let runtime = FakeRuntime::new(|guest| async move {
        guest.call("t", json!({})).await.unwrap();
        guest.call("t", json!({})).await.unwrap();
        End::Value(json!(1))
    });
    let rig = rig(vec![taker], runtime, ToolboxConfig::default());
    let report = rig.toolbox.run_program(request()).await.unwrap();
    assert_eq!(report.warnings.len(), 1, "{:?}", report.warnings);
    assert!(
        report.warnings[0].starts_with("the input schema of `t` is not checked: "),
        "{:?}",
        report.warnings
    );
}

#[tokio::test]
async fn no_schema_costs_more_than_a_moment() {
    let mut fan = Map::new();
    fan.insert("d0".to_owned(), json!({"type": "string"}));
    for n in 1..60 {
        let below = format!("#/$defs/d{}", n - 1);
        fan.insert(
            format!("d{n}"),
            json!({"allOf": [{"$ref": below}, {"$ref": below}]}),
        );
    }
    let mut chain = Map::new();
    for n in 0..20_000 {
        chain.insert(format!("c{n}"), json!({"$ref": format!("#/$defs/c{}", n + 1)}));
    }
    let nested = |levels: usize| {
        let mut schema = json!({"type": "string"});
        for _ in 0..levels {
            schema = json!({"anyOf": [schema]});
        }
        schema
    };
    let nested_value = |levels: usize| {
        let mut value = json!(1);
        for _ in 0..levels {
            value = json!({"a": value});
        }
        value
    };
    let deep_value = nested_value(2_000);
    let branching = json!({"anyOf": [{"properties": {"a": {"$ref": "#"}}}, {"additionalProperties": {"$ref": "#"}}], "not": {"required": ["zz"]}});
    let looping = [
        json!({"$ref": "#"}),
        json!({"allOf": [{"$ref": "#"}]}),
        json!({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}),
    ];
    let mut cases = vec![
        (json!({"$ref": "#/$defs/d59", "$defs": fan}), json!({"a": 1})),
        (json!({"$ref": "#/$defs/c0", "$defs": chain}), json!({"a": 1})),
        (branching, json!({"v": deep_value})),
        (
            json!({"patternProperties": {"a": {"$ref": "#"}, "^a": {"$ref": "#"}, "a$": {"$ref": "#"}}}),
            nested_value(40),
        ),
        (
            json!({"properties": {"a": {"pattern": "^(a+)+$(?=x)"}}}),
            json!({"a": "a".repeat(5_000)}),
        ),
        (
            json!({"properties": {"a": {"pattern": "(x{1000}){1000}"}}}),
            json!({"a": "a"}),
        ),
        (nested(500), json!({"a": 1})),
    ];
    cases.extend(looping.map(|schema| (schema, json!({"a": {"b": 1}}))));
    for (schema, arguments) in cases {
        let started = Instant::now();
        let _ = said(&schema, &arguments).await;
        let head: String = schema.to_string().chars().take(60).collect();
        assert!(
            started.elapsed() < Duration::from_secs(10),
            "{head} took {:?}",
            started.elapsed()
        );
    }
    // Deeper than any checker's stack. The test's own copies need a large one.
    std::thread::Builder::new()
        .stack_size(256 * 1024 * 1024)
        .spawn(move || {
            let text = format!("{}{{}}{}", r#"{"anyOf":["#.repeat(5_000), "]}".repeat(5_000));
            let schema = toolweave_runtime::Json::parse(text, 20_000).unwrap().to_value();
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            assert_eq!(runtime.block_on(said(&schema, &json!({"a": 1}))), "taken");
        })
        .unwrap()
        .join()
        .unwrap();
}
