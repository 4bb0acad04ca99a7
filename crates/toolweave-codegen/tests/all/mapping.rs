//! Schema in, type out: the whole mapping as data.

use serde_json::{Value, json};
use toolweave_codegen::type_of;

#[track_caller]
fn check(cases: &[(Value, &str)]) {
    for (schema, expected) in cases {
        let rendered = type_of(schema);
        let whole = format!("{}{}", rendered.text, separated(&rendered.declarations));
        assert_eq!(&whole, expected, "{schema}");
    }
}

fn separated(declarations: &str) -> String {
    if declarations.is_empty() {
        String::new()
    } else {
        format!("\n{}", declarations.trim_end())
    }
}

#[test]
fn plain_types() {
    check(&[
        (json!({"type": "string"}), "string"),
        (json!({"type": "number"}), "number"),
        (json!({"type": "integer"}), "/** [integer] */ number"),
        (json!({"type": "boolean"}), "boolean"),
        (json!({"type": "null"}), "null"),
        (json!({"type": ["string", "null"]}), "string | null"),
        (
            json!({"type": ["object", "array", "boolean"]}),
            "boolean | JsonValue[] | JsonObject",
        ),
        (json!({}), "JsonValue"),
        (json!(true), "JsonValue"),
        (json!(false), "never"),
        (
            json!({"$schema": "https://json-schema.org/draft/2020-12/schema"}),
            "JsonValue",
        ),
    ]);
}

#[test]
fn literals() {
    check(&[
        (json!({"const": "a"}), "\"a\""),
        (json!({"const": null}), "null"),
        (
            json!({"enum": ["a", 1, -1.5, true, null]}),
            "\"a\" | 1 | -1.5 | true | null",
        ),
        (json!({"enum": ["a", "a", 1, 1.0]}), "\"a\" | 1"),
        (
            json!({"enum": [-0.0, 1e308, 9_007_199_254_740_993_u64]}),
            "0 | 1e+308 | 9007199254740993",
        ),
        (
            json!({"const": {"a": [1, "b"], "c-d": {}}}),
            "{ a: [1, \"b\"]; \"c-d\": Record<string, never> }",
        ),
        (json!({"const": []}), "[]"),
        (json!({"type": "string", "enum": ["a", 1]}), "\"a\""),
        (
            json!({"enum": ["\u{2028}\u{202e}\u{0}\u{7f}\"\\"]}),
            r#""\u2028\u202e\u0000\u007f\"\\""#,
        ),
        (json!({"enum": ["\u{e0001}"]}), r#""\udb40\udc01""#),
    ]);
}

#[test]
fn null_in_its_spellings() {
    check(&[
        (json!({"type": "string", "nullable": true}), "string | null"),
        (json!({"enum": ["a"], "nullable": true}), "\"a\" | null"),
        (
            json!({"enum": ["a", null], "type": "string", "nullable": true}),
            "\"a\" | null",
        ),
        (
            json!({"anyOf": [{"type": "string"}, {"type": "null"}], "default": null}),
            "string | null",
        ),
        (json!({"nullable": true}), "JsonValue"),
        (
            json!({"$ref": "#/$defs/U", "nullable": true, "$defs": {"U": {"type": "object", "required": ["id"]}}}),
            "{ id: JsonValue } & JsonObject | null",
        ),
        (
            json!({
                "$schema": "http://json-schema.org/draft-07/schema#",
                "$ref": "#/definitions/U", "nullable": true, "definitions": {"U": {"type": "string"}},
            }),
            "string | null",
        ),
    ]);
}

#[test]
fn arrays_and_tuples() {
    let tuple = |rest: Value| {
        let mut schema = json!({"type": "array", "prefixItems": [{"type": "number"}, {"type": "string"}]});
        schema
            .as_object_mut()
            .unwrap()
            .extend(rest.as_object().unwrap().clone());
        schema
    };
    check(&[
        (json!({"type": "array"}), "JsonValue[]"),
        (json!({"type": "array", "items": {}}), "JsonValue[]"),
        (json!({"type": "array", "items": true}), "JsonValue[]"),
        (json!({"type": "array", "items": false}), "[]"),
        (json!({"type": "array", "items": {"type": "string"}}), "string[]"),
        (
            json!({"type": "array", "items": {"type": ["string", "null"]}}),
            "(string | null)[]",
        ),
        (
            json!({"type": "array", "items": {"type": "array", "items": {"enum": ["x", "o"]}}}),
            "(\"x\" | \"o\")[][]",
        ),
        (
            json!({"type": "array", "items": {"type": "object", "properties": {"a": {"type": "null"}}}}),
            "({ a?: null } & JsonObject)[]",
        ),
        (
            json!({"type": "array", "items": {"type": "string", "description": "one"}}),
            "/** one */ string[]",
        ),
        (tuple(json!({})), "[number?, string?, ...JsonValue[]]"),
        (tuple(json!({"minItems": 1})), "[number, string?, ...JsonValue[]]"),
        (tuple(json!({"minItems": 9, "items": false})), "[number, string]"),
        (tuple(json!({"maxItems": 1})), "[number?]"),
        (
            tuple(json!({"items": {"type": ["boolean", "null"]}})),
            "[number?, string?, ...(boolean | null)[]]",
        ),
        (
            json!({"type": "array", "prefixItems": [{"enum": ["a", "b"]}], "items": false}),
            "[(\"a\" | \"b\")?]",
        ),
        (
            json!({"type": "array", "prefixItems": [{"type": "string"}, false]}),
            "[string?]",
        ),
        (
            json!({"type": "array", "items": [{"type": "string"}], "additionalItems": {"type": "number"}, "minItems": 1}),
            "[string, ...number[]]",
        ),
        (
            json!({"type": "array", "items": [{"type": "string"}], "additionalItems": false}),
            "[string?]",
        ),
    ]);
}

#[test]
fn objects() {
    check(&[
        (json!({"type": "object"}), "JsonObject"),
        (json!({"type": "object", "properties": {}}), "JsonObject"),
        (
            json!({"type": "object", "additionalProperties": false}),
            "Record<string, never>",
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "number"}}),
            "Record<string, number>",
        ),
        (
            json!({"type": "object", "additionalProperties": {}}),
            "JsonObject",
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["b"]}),
            "{ a?: string; b: JsonValue } & JsonObject",
        ),
        (
            json!({"type": "object", "properties": {"a": false}, "additionalProperties": false}),
            "{ a?: never }",
        ),
        (
            json!({"type": "object", "required": ["x", "x", "y-z"], "additionalProperties": false}),
            "{ x: JsonValue; \"y-z\": JsonValue }",
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "unevaluatedProperties": false}),
            "{ a?: string }",
        ),
        // The record has to hold for the named properties as well.
        (
            json!({
                "type": "object",
                "properties": {"a": {"type": "number"}},
                "additionalProperties": {"type": "string"},
            }),
            "{ a?: number } & Record<string, string | number>",
        ),
        (
            json!({
                "type": "object",
                "properties": {"a": {"type": "object", "properties": {"b": {}}}},
                "additionalProperties": {"type": "string"},
            }),
            "{ a?: { b?: JsonValue } & JsonObject } & JsonObject",
        ),
        (
            json!({"type": "object", "patternProperties": {"^x": {"type": "string"}}}),
            "JsonObject",
        ),
        (
            json!({
                "type": "object",
                "patternProperties": {"^x": {"type": "string"}, "^y": {"type": "null"}},
                "additionalProperties": false,
            }),
            "Record<string, string | null>",
        ),
        // Names that every object inherits cannot have a type of their own while they may be missing.
        (
            json!({"type": "object", "properties": {"toString": {"type": "string"}, "__proto__": {"type": "null"}}}),
            "{ toString?: unknown; \"__proto__\"?: null } & JsonObject",
        ),
        (
            json!({"type": "object", "required": ["constructor"], "properties": {"constructor": {"type": "null"}}}),
            "{ constructor: null } & JsonObject",
        ),
    ]);
}

#[test]
fn long_objects_break_into_lines() {
    check(&[(
        json!({
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "where": {
                    "type": "object",
                    "description": "A place",
                    "properties": {"lat": {"type": "number", "minimum": -90, "maximum": 90}},
                    "required": ["lat"],
                },
                "how": {"enum": ["on foot", "by train"]},
            },
        }),
        "{
  /** A place */ where?: {
    /** [-90..90] */ lat: number;
  } & JsonObject;
  how?: \"on foot\" | \"by train\";
}",
    )]);
}

#[test]
fn composition_keeps_its_siblings() {
    let sides = json!([{"required": ["a"]}, {"required": ["b"]}]);
    let both = json!({"a": {"type": "string"}, "b": {"type": "number"}});
    check(&[
        (
            json!({"type": "object", "properties": both, "anyOf": sides}),
            "{ a?: string; b?: number } & ({ a: JsonValue } | { b: JsonValue }) & JsonObject",
        ),
        (
            json!({"type": "object", "properties": both, "additionalProperties": false, "oneOf": sides}),
            "{ a?: string; b?: number } & ({ a: JsonValue } | { b: JsonValue })",
        ),
        (
            json!({"allOf": [
                {"type": "object", "properties": {"a": {"type": "string"}}},
                {"properties": {"b": {"type": "number"}}},
            ]}),
            "{ a?: string } & { b?: number } & JsonObject",
        ),
        (json!({"oneOf": [{"type": "string"}]}), "string"),
        (
            json!({"anyOf": [{"type": "string"}, {"anyOf": [{"type": "null"}, {"type": "string"}]}]}),
            "string | null",
        ),
        (json!({"anyOf": [{"type": "string"}, {}]}), "JsonValue"),
        (json!({"anyOf": [{"type": "string"}, false]}), "string"),
        (
            json!({"type": "string", "anyOf": [{"minLength": 1}, {"maxLength": 9}]}),
            "/** [not empty] */ string | /** [<= 9 characters] */ string",
        ),
        (
            json!({"allOf": [{"enum": ["a", "b"]}, {"type": "string"}]}),
            "(\"a\" | \"b\") & string",
        ),
        (
            json!({"not": {"type": "string"}, "if": {"const": 1}, "then": false}),
            "JsonValue",
        ),
        // Alone, `properties` says nothing about other values.
        (
            json!({"properties": {"a": {"type": "null"}}}),
            "boolean | number | string | JsonValue[] | { a?: null } & JsonObject | null",
        ),
    ]);
}

#[test]
fn references() {
    let node = json!({
        "type": "object",
        "properties": {"id": {"type": "string"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
        "required": ["id"],
    });
    check(&[
        (
            json!({"$ref": "#/$defs/Node", "$defs": {"Node": node}}),
            "$Node\ntype $Node = { id: string; kids?: $Node[] } & JsonObject;",
        ),
        (
            json!({"$ref": "#/$defs/a~1b~0c%25", "$defs": {"a/b~c%": {"type": "string"}}}),
            "string",
        ),
        (
            json!({"$ref": "#/allOf/0", "allOf": [{"type": "string"}]}),
            "string",
        ),
        (
            json!({"$ref": "#here", "$defs": {"x": {"$anchor": "here", "type": "null"}}}),
            "null",
        ),
        (
            json!({
                "$id": "https://a.example/root/base.json",
                "$ref": "../other.json#/$defs/n",
                "$defs": {"o": {"$id": "/other.json", "$defs": {"n": {"type": "null"}}}},
            }),
            "null",
        ),
        // A pointer inside an embedded schema starts at that schema.
        (
            json!({
                "$ref": "#/$defs/inner",
                "$defs": {
                    "n": {"type": "string"},
                    "inner": {"$id": "urn:x", "$ref": "#/$defs/n", "$defs": {"n": {"type": "null"}}},
                },
            }),
            "null",
        ),
        (json!({"$ref": "https://a.example/elsewhere.json"}), "unknown"),
        (json!({"$ref": "#/$defs/missing"}), "unknown"),
        (
            json!({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}),
            "unknown",
        ),
        (json!({"$ref": "#"}), "unknown"),
        (
            json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/missing", "type": "string"}}}),
            "{ a?: string } & JsonObject",
        ),
        (
            json!({"type": "object", "properties": {"up": {"$ref": "#"}}, "additionalProperties": false}),
            "$Type\ntype $Type = { up?: $Type };",
        ),
        // Through a record, too, a type may only refer to itself behind a bracket.
        (
            json!({"$ref": "#/$defs/Tree", "$defs": {"Tree": {"type": "object", "additionalProperties": {"$ref": "#/$defs/Tree"}}}}),
            "$Tree\ntype $Tree = { [key: string]: $Tree };",
        ),
        // Beside a reference: constraints since 2019, nothing before.
        (
            json!({"$ref": "#/$defs/o", "required": ["x"], "$defs": {"o": {"type": "object"}}}),
            "{ x: JsonValue } & JsonObject",
        ),
        (
            json!({
                "$schema": "http://json-schema.org/draft-07/schema#",
                "$ref": "#/definitions/o", "required": ["x"], "definitions": {"o": {"type": "object"}},
            }),
            "JsonObject",
        ),
    ]);
}

#[test]
fn malformed_schemas_cost_their_own_node() {
    let inside = |schema: Value| json!({"type": "object", "additionalProperties": false, "properties": {"a": schema, "b": {"type": "null"}}});
    let unknown = "{ a?: unknown; b?: null }";
    check(&[
        (inside(json!(5)), unknown),
        (inside(json!("string")), unknown),
        (inside(json!(null)), unknown),
        (inside(json!([])), unknown),
        (inside(json!({"type": "text"})), unknown),
        (inside(json!({"type": 7})), unknown),
        (inside(json!({"type": []})), unknown),
        (inside(json!({"type": ["string", "text"]})), unknown),
        (inside(json!({"enum": []})), unknown),
        (inside(json!({"enum": "a"})), unknown),
        (inside(json!({"type": "string", "enum": [1, 2]})), unknown),
        (inside(json!({"type": "object", "properties": ["x"]})), unknown),
        (inside(json!({"anyOf": []})), unknown),
        (inside(json!({"anyOf": {"type": "string"}})), unknown),
        (
            inside(json!({"allOf": [{"type": "string"}, {"type": "number"}]})),
            unknown,
        ),
        (inside(json!({"$ref": 5})), unknown),
        (inside(json!({"type": "array", "items": "string"})), unknown),
        // What the type does not need is passed over.
        (
            inside(json!({"type": "string", "required": true})),
            "{ a?: string; b?: null }",
        ),
        (
            inside(json!({"type": "object", "items": {"type": "string"}})),
            "{ a?: JsonObject; b?: null }",
        ),
        (
            inside(
                json!({"type": "object", "required": "x", "additionalProperties": "no", "properties": {"x": {"type": "null"}}}),
            ),
            "{ a?: { x?: null } & JsonObject; b?: null }",
        ),
        (
            inside(
                json!({"type": "array", "minItems": -1, "prefixItems": [{"type": "null"}], "items": false}),
            ),
            "{ a?: [null?]; b?: null }",
        ),
    ]);
}

#[test]
fn comments_say_what_types_cannot() {
    let comment = |schema: Value| {
        let text = type_of(&schema).text;
        text.split_once("/** ")
            .map(|(_, rest)| rest.split_once(" */").unwrap().0.to_owned())
    };
    for (schema, expected) in [
        (json!({"description": "  a\n\tb\r\n c  "}), Some("a b c")),
        (json!({"description": " \n "}), None),
        (json!({"description": 5}), None),
        (
            json!({"type": "integer", "minimum": 1, "maximum": 100, "default": 10}),
            Some("[integer, 1..100, default 10]"),
        ),
        (
            json!({"exclusiveMinimum": 0, "multipleOf": 0.5}),
            Some("[> 0, multiple of 0.5]"),
        ),
        (
            json!({"minimum": -9_007_199_254_740_991_i64, "maximum": 9_007_199_254_740_991_i64}),
            None,
        ),
        (
            json!({"format": "uri", "pattern": "^https:", "maxLength": 9}),
            Some("[format uri, pattern ^https:, <= 9 characters]"),
        ),
        (
            json!({"minItems": 2, "maxItems": 2, "uniqueItems": true}),
            Some("[2 items, unique]"),
        ),
        (
            json!({"deprecated": true, "readOnly": true, "writeOnly": false}),
            Some("[deprecated, read-only]"),
        ),
        (
            json!({"contentEncoding": "base64", "contentMediaType": "image/png"}),
            Some("[encoded as base64, encoded as image/png]"),
        ),
        (
            json!({"description": "How many (default: 10)", "default": 10}),
            Some("How many (default: 10)"),
        ),
        (
            json!({"description": "How many", "default": null}),
            Some("How many"),
        ),
        (
            json!({"default": {"a": [1, "x"]}, "examples": ["e", "f"]}),
            Some(r#"[default {"a":[1,"x"]}, example "e"]"#),
        ),
        (json!({"title": "Only a title"}), None),
    ] {
        assert_eq!(comment(schema.clone()).as_deref(), expected, "{schema}");
    }
    // A title counts where it says more than the name.
    check(&[(
        json!({"type": "object", "properties": {"user_id": {"title": "User Id", "type": "null"}, "q": {"title": "Lucene query", "type": "null"}}}),
        "{\n  user_id?: null;\n  /** Lucene query */ q?: null;\n} & JsonObject",
    )]);
}

#[test]
fn foreign_text_in_comments_is_inert() {
    for (description, expected) in [
        ("src/**/*.rs */ or", "src/**\\/*.rs *\\/ or"),
        ("*\u{200b}/ *\u{0}/", "*\\/ * /"),
        ("\u{202e}evil\u{2028}line\u{feff}", "evil line"),
        ("{{userName}} {{{x}}} $& ${y}", "{ {userName}} { { {x}}} $& ${y}"),
        ("```json\n{}\n``` ``a`` `b`", "`json {} ` ``a`` `b`"),
        ("@ts-expect-error", "@ ts-expect-error"),
        ("/* // <!-- </script>", "/* // <!-- </script>"),
        ("naïve 路径 👩\u{200d}💻", "naïve 路径 👩\u{200d}💻"),
    ] {
        let text = type_of(&json!({"type": "null", "description": description})).text;
        assert_eq!(text, format!("/** {expected} */ null"), "{description:?}");
    }
}

#[test]
fn what_repeats_gets_a_name() {
    let long = json!({"type": "string", "description": "The identifier of the workspace, as its settings page shows it"});
    let point = json!({"type": "object", "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}}, "required": ["lat", "lon"]});
    check(&[
        (
            json!({"type": "array", "prefixItems": [
                {"type": "object", "properties": {"workspace_id": long}},
                {"type": "object", "properties": {"workspace_id": long, "x": {"type": "null"}}},
            ], "items": false}),
            "[({ workspace_id?: $WorkspaceId } & JsonObject)?, ({ workspace_id?: $WorkspaceId; x?: null } & JsonObject)?]
/** The identifier of the workspace, as its settings page shows it */ type $WorkspaceId = string;",
        ),
        (
            json!({
                "type": "object", "additionalProperties": false,
                "properties": {"from": {"$ref": "#/$defs/point"}, "to": {"$ref": "#/$defs/point"}, "via": {"$ref": "#/$defs/point"}},
                "$defs": {"point": point},
            }),
            "{ from?: $Point; to?: $Point; via?: $Point }\ntype $Point = { lat: number; lon: number } & JsonObject;",
        ),
        // Short ones are written out.
        (
            json!({
                "type": "object", "additionalProperties": false,
                "properties": {"a": {"$ref": "#/$defs/s"}, "b": {"$ref": "#/$defs/s"}},
                "$defs": {"s": {"type": ["string", "null"]}},
            }),
            "{ a?: string | null; b?: string | null }",
        ),
    ]);
}
