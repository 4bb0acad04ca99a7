//! Schemas made to hurt: deep, wide, shared a million times over.

use serde_json::{Map, Value, json};
use toolweave_codegen::limits::{MAX_ENUM_MEMBERS, MAX_PROPERTIES};
use toolweave_codegen::{Detail, Output, ToolDecl, declarations, help, signature, type_of};

use crate::support::check;

const DEEP: usize = 5_000;

/// Runs on the stack that a thread gets by default, and leaves the deep value to the process's end: dropping it is
/// what would overflow.
fn with_deep(wrap: impl Fn(Value) -> Value + Send + 'static, then: impl Fn(&Value) + Send + 'static) {
    let mut schema = json!({"type": "string"});
    for _ in 0..DEEP {
        schema = wrap(schema);
    }
    std::thread::spawn(move || {
        then(&schema);
        std::mem::forget(schema);
    })
    .join()
    .unwrap();
}

#[test]
fn deep_schemas_render() {
    // `json!` would serialise the inner value, which is as deep as it gets.
    fn with(mut outer: Value, key: &str, inner: Value) -> Value {
        match &mut outer[key] {
            Value::Array(members) => members.push(inner),
            Value::Object(members) => {
                members.insert("a".to_owned(), inner);
            }
            place => *place = inner,
        }
        outer
    }
    type Wrap = fn(Value) -> Value;
    let wraps: [(&str, Wrap); 7] = [
        ("union", |inner| {
            with(json!({"anyOf": [{"type": "null"}]}), "anyOf", inner)
        }),
        ("intersection", |inner| {
            with(json!({"allOf": [{"type": "string"}]}), "allOf", inner)
        }),
        ("array", |inner| with(json!({"type": "array"}), "items", inner)),
        ("tuple", |inner| {
            with(json!({"type": "array", "prefixItems": []}), "prefixItems", inner)
        }),
        ("object", |inner| {
            with(json!({"type": "object", "properties": {}}), "properties", inner)
        }),
        ("record", |inner| {
            with(json!({"type": "object"}), "additionalProperties", inner)
        }),
        ("mixed", |inner| {
            with(
                json!({"type": "object", "required": ["x"], "anyOf": [{"required": ["y"]}]}),
                "anyOf",
                inner,
            )
        }),
    ];
    for (kind, wrap) in wraps {
        with_deep(wrap, move |schema| {
            let rendered = type_of(schema);
            match kind {
                "union" => assert_eq!(rendered.text, "null | string"),
                "intersection" => assert_eq!(rendered.text, "string"),
                "mixed" => assert!(rendered.text.len() < 20_000, "{kind}"),
                _ => assert!(
                    rendered.text.contains("unknown") && rendered.text.len() < 20_000,
                    "{kind}"
                ),
            }
            let tool = ToolDecl {
                name: "t",
                description: "",
                input: schema,
                output: Output::Declared(schema),
            };
            let block = declarations(&[tool], Detail::Full);
            assert!(
                signature(&tool).len() < 1_000 && help(&tool).len() < 50_000,
                "{kind}"
            );
            if let Some(complaints) = check(&block) {
                assert_eq!(complaints, [], "{kind}");
            }
        });
    }
}

#[test]
fn deep_constants_and_defaults_render() {
    for keyword in ["const", "default"] {
        std::thread::spawn(move || {
            let mut value = Value::Null;
            for _ in 0..DEEP {
                value = Value::Array(vec![value]);
            }
            let schema = Value::Object(Map::from_iter([(keyword.to_owned(), value)]));
            let text = type_of(&schema).text;
            match keyword {
                "const" => assert!(text.contains("unknown"), "{text}"),
                _ => assert!(
                    text.starts_with("/** [default [[[[") && text.ends_with("…] */ JsonValue"),
                    "{text}"
                ),
            }
            std::mem::forget(schema);
        })
        .join()
        .unwrap();
    }
}

#[test]
fn long_chains_of_references_render() {
    let chain = |link: fn(String) -> Value| {
        let mut defs = Map::new();
        for at in 0..DEEP {
            defs.insert(format!("d{at}"), link(format!("#/$defs/d{}", at + 1)));
        }
        defs.insert(format!("d{DEEP}"), json!({"type": "string"}));
        json!({"$ref": "#/$defs/d0", "$defs": defs})
    };
    std::thread::spawn(move || {
        assert_eq!(type_of(&chain(|next| json!({"$ref": next}))).text, "string");
        let objects = type_of(&chain(
            |next| json!({"type": "object", "properties": {"n": {"$ref": next}}}),
        ));
        assert!(objects.declarations.len() < DEEP * 60);
        if let Some(complaints) = check(&format!(
            "{}{}export type X = {};",
            crate::block_prelude(),
            objects.declarations,
            objects.text
        )) {
            assert_eq!(complaints, []);
        }
    })
    .join()
    .unwrap();
}

#[test]
fn shared_definitions_are_not_multiplied() {
    // 60 levels, each used three times by the one above: 3^60 when written out.
    let mut defs = Map::new();
    for at in 0..60 {
        let next = json!({"$ref": format!("#/$defs/d{}", at + 1)});
        defs.insert(
            format!("d{at}"),
            json!({"type": "object", "properties": {"a": next, "b": next, "c": {"type": "array", "items": next}}}),
        );
    }
    defs.insert(
        "d60".to_owned(),
        json!({"type": "string", "description": "the end"}),
    );
    let schema = json!({"$ref": "#/$defs/d0", "$defs": defs});
    let rendered = type_of(&schema);
    assert!(
        rendered.text.len() + rendered.declarations.len() < 8_000,
        "{}",
        rendered.declarations.len()
    );
    let tool = ToolDecl {
        name: "t",
        description: "",
        input: &schema,
        output: Output::Declared(&schema),
    };
    assert!(signature(&tool).len() < 1_000);
    // The same with unions, whose members multiply.
    let mut defs = Map::new();
    for at in 0..60 {
        let next = json!({"$ref": format!("#/$defs/d{}", at + 1)});
        defs.insert(format!("d{at}"), json!({"anyOf": [next, next, {"const": at}]}));
    }
    defs.insert(
        "d60".to_owned(),
        json!({"type": "object", "properties": {"the_end": {"type": "string"}}}),
    );
    let rendered = type_of(&json!({"$ref": "#/$defs/d0", "$defs": defs}));
    assert!(rendered.text.len() + rendered.declarations.len() < 8_000);
}

#[test]
fn every_node_a_target_stays_linear() {
    // Each level is also referred to by pointer, which would repeat all that is below it.
    let size = |depth: usize| {
        let mut schema = json!({"type": "string"});
        for _ in 0..depth {
            schema = json!({"type": "object", "properties": {"p": schema}});
        }
        let mut pointer = "#/properties/deep".to_owned();
        let mut properties = Map::new();
        properties.insert("deep".to_owned(), schema);
        for at in 0..depth {
            properties.insert(format!("r{at}"), json!({"$ref": pointer}));
            pointer.push_str("/properties/p");
        }
        let rendered = type_of(&json!({"type": "object", "properties": properties}));
        rendered.text.len() + rendered.declarations.len()
    };
    assert!(size(90) < 3 * size(45), "{} {}", size(90), size(45));
}

#[test]
fn wide_schemas_are_widened_or_capped() {
    let many: Vec<Value> = (0..=MAX_ENUM_MEMBERS).map(|at| json!(format!("v{at}"))).collect();
    assert_eq!(
        type_of(&json!({"enum": many})).text,
        "/** [one of 1001 values] */ string"
    );
    let most: Vec<Value> = (0..MAX_ENUM_MEMBERS).map(|at| json!(format!("v{at}"))).collect();
    assert!(
        type_of(&json!({"enum": most}))
            .text
            .ends_with("\"v998\" | \"v999\"")
    );
    let properties: Map<String, Value> = (0..=MAX_PROPERTIES)
        .map(|at| (format!("p{at}"), json!({"type": "null"})))
        .collect();
    let text =
        type_of(&json!({"type": "object", "properties": properties, "additionalProperties": false})).text;
    assert!(text.contains("p4999?: null") && !text.contains("p5000?") && text.ends_with("} & JsonObject"));
    let tuple: Vec<Value> = (0..101).map(|_| json!({"type": "null"})).collect();
    assert_eq!(
        type_of(&json!({"type": "array", "prefixItems": tuple})).text,
        "JsonValue[]"
    );
}

#[test]
fn intersections_of_unions_do_not_multiply_out() {
    let branches: Vec<Value> = (0..100)
        .map(|at| json!({"type": "object", "properties": {format!("p{at}"): {"const": at}}, "required": [format!("p{at}")]}))
        .collect();
    let all: Vec<Value> = (0..6).map(|_| json!({"anyOf": branches})).collect();
    let rendered = type_of(&json!({"allOf": all}));
    if let Some(complaints) = check(&format!(
        "{}{}export const x: {} = {{ p0: 0 }};",
        crate::block_prelude(),
        rendered.declarations,
        rendered.text
    )) {
        assert_eq!(complaints, []);
    }
}

#[test]
fn time_grows_with_the_schema_only() {
    let tools: Vec<Value> = (0..2_000)
        .map(|at| {
            let properties: Map<String, Value> = (0..20)
                .map(|p| {
                    (
                        format!("p{p}"),
                        json!({"type": "string", "description": format!("What {p} is in tool {at}.")}),
                    )
                })
                .collect();
            json!({"name": format!("t{at}"), "inputSchema": {"type": "object", "properties": properties}})
        })
        .collect();
    let start = std::time::Instant::now();
    let block = crate::support::block(&tools, Detail::Full);
    assert!(block.len() > 2_000 * 20 * 30);
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
}

mod any {
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use toolweave_codegen::{Detail, Output, ToolDecl, declarations, help, signature};

    /// JSON made of the words that schemas are made of, in any place.
    fn schema() -> impl Strategy<Value = Value> {
        let word = prop::sample::select(vec![
            "string",
            "object",
            "array",
            "null",
            "integer",
            "#",
            "#/properties/a",
            "#/$defs/b",
            "#/items",
            "a",
            "b",
            "*/",
        ]);
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            word.prop_map(Value::from),
        ];
        let key = prop::sample::select(vec![
            "type",
            "properties",
            "required",
            "items",
            "prefixItems",
            "additionalProperties",
            "patternProperties",
            "anyOf",
            "oneOf",
            "allOf",
            "$ref",
            "$defs",
            "$id",
            "$anchor",
            "enum",
            "const",
            "nullable",
            "description",
            "default",
            "minItems",
            "maxItems",
            "a",
            "b",
            "__proto__",
        ]);
        leaf.prop_recursive(5, 60, 5, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((key.clone(), inner), 0..6).prop_map(|members| {
                    Value::Object(
                        members
                            .into_iter()
                            .map(|(key, value)| (key.to_owned(), value))
                            .collect(),
                    )
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn schemas_render_without_panic(schema in schema()) {
            let input = json!({"type": "object", "properties": {"p": schema}});
            for input in [&schema, &input] {
                let tool = ToolDecl { name: "t", description: "d", input, output: Output::Declared(&schema) };
                let block = declarations(&[tool], Detail::Full);
                prop_assert_eq!(&block, &declarations(&[tool], Detail::Full));
                prop_assert!(!signature(&tool).contains('\n'));
                prop_assert!(help(&tool).contains("tools.t("));
                // Brackets balance, so that no node's text spills into another's.
                let code: String = block.split("/** ").map(|part| part.split_once("*/ ").map_or(part, |(_, rest)| rest)).collect();
                for (open, close) in [('{', '}'), ('(', ')'), ('[', ']')] {
                    prop_assert_eq!(code.matches(open).count(), code.matches(close).count(), "{}", block);
                }
            }
        }
    }
}
