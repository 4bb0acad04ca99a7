//! Faults that users of comparable generators reported, as fixtures of our own. The compiler judges where there is
//! one; the text is compared everywhere.

use serde_json::{Value, json};
use toolweave_codegen::Detail;

use crate::support::{block, maps, probe};

/// Wraps an argument literal as a call.
fn calls(tool: &str, probes: &[(&str, &str)]) -> Vec<String> {
    probes
        .iter()
        .map(|(verdict, value)| format!("{verdict} await tools[\"{tool}\"]({value});"))
        .collect()
}

#[track_caller]
fn judge(tools: &[Value], expected: &str, tool: &str, probes: &[(&str, &str)]) {
    assert_eq!(maps(tools, Detail::Full), expected);
    let calls = calls(tool, probes);
    probe(
        &block(tools, Detail::Full),
        &calls.iter().map(String::as_str).collect::<Vec<_>>(),
    );
}

fn only(name: &str, schema: Value) -> Vec<Value> {
    vec![json!({"name": name, "inputSchema": schema})]
}

fn arguments(body: &str) -> String {
    format!("interface ToolArgsMap {{\n{body}}}\ninterface ToolOutputMap {{\n}}\n")
}

#[test]
fn sc_01_arrays_of_unions_and_intersections() {
    let schema = json!({"type": "object", "required": ["stops"], "properties": {
        "stops": {"type": "array", "items": {"oneOf": [{"type": "string"}, {"type": "null"}]}},
        "pairs": {"type": "array", "items": {"allOf": [
            {"type": "object", "properties": {"l": {"type": "string"}}, "required": ["l"]},
            {"type": "object", "properties": {"r": {"type": "number"}}, "required": ["r"]},
        ]}},
        "board": {"type": "array", "items": {"type": "array", "items": {"enum": [0, 1]}}},
    }});
    judge(
        &only("travel", schema),
        &arguments(
            "  travel: {
    stops: (string | null)[];
    pairs?: ({ l: string } & { r: number } & JsonObject)[];
    board?: (0 | 1)[][];
  } & JsonObject;
",
        ),
        "travel",
        &[
            ("OK", "{ stops: ['a', null] }"),
            ("BAD", "{ stops: 'a' }"),
            ("BAD", "{ stops: [1] }"),
            ("OK", "{ stops: [], pairs: [{ l: 'a', r: 1 }] }"),
            ("BAD", "{ stops: [], pairs: [{ l: 'a' }] }"),
            ("OK", "{ stops: [], board: [[0], [1, 0]] }"),
            ("BAD", "{ stops: [], board: [0] }"),
        ],
    );
}

#[test]
fn sc_02_comment_terminators() {
    let tools = vec![json!({
        "name": "find",
        "description": "Find lib/**/*.py */ or\nwhatever\r\nthere is",
        "inputSchema": {"type": "object", "required": ["p"], "properties": {
            "p": {"type": "string", "description": "closes */", "default": "*/", "pattern": "^.*/$", "title": "x */ y"},
        }},
    })];
    judge(
        &tools,
        &arguments(
            "  /** Find lib/**\\/*.py *\\/ or whatever there is */
  find: {
    /** closes *\\/ [pattern ^.*\\/$, default \"*\\/\"] */ p: string;
  } & JsonObject;
",
        ),
        "find",
        &[("OK", "{ p: 'x' }"), ("BAD", "{ p: 1 }")],
    );
}

#[test]
fn sc_03_special_characters_in_enums() {
    let values = json!([
        "can't", "a\\b", "\"q\"", "x\ny", "\u{2029}", "\t", "${z}", "`", "", 0, -2.5, false, null
    ]);
    let schema = json!({"type": "object", "required": ["v"], "properties": {"v": {"enum": values}, "none": {"enum": []}}});
    judge(
        &only("reply", schema),
        &arguments(
            r#"  reply: {
    v: "can't" | "a\\b" | "\"q\"" | "x\ny" | "\u2029" | "\t" | "${z}" | "`" | "" | 0 | -2.5 | false | null;
    none?: unknown;
  } & JsonObject;
"#,
        ),
        "reply",
        &[
            ("OK", "{ v: \"can't\" }"),
            ("BAD", "{ v: 'cant' }"),
            ("OK", "{ v: 'a\\\\b' }"),
            ("OK", "{ v: '\\u2029' }"),
            ("OK", "{ v: '', none: 1 }"),
            ("BAD", "{ v: true }"),
        ],
    );
}

#[test]
fn sc_04_recursion() {
    let schema = json!({
        "type": "object",
        "required": ["top"],
        "properties": {"top": {"$ref": "#/$defs/Item"}, "self": {"$ref": "#/$defs/S"}, "duo": {"$ref": "#/$defs/L"}},
        "$defs": {
            "Item": {"type": "object", "required": ["n"], "properties": {
                "n": {"type": "number"}, "sub": {"type": "array", "items": {"$ref": "#/$defs/Item"}},
            }},
            "S": {"$ref": "#/$defs/S"},
            "L": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/R"}]},
            "R": {"anyOf": [{"$ref": "#/$defs/L"}, {"type": "number"}]},
        },
    });
    let tools = only("outline", schema);
    assert_eq!(
        maps(&tools, Detail::Full),
        "interface ToolArgsMap {
  outline: { top: $Item; self?: unknown; duo?: unknown } & JsonObject;
}
interface ToolOutputMap {
}
type $Item = { n: number; sub?: $Item[] } & JsonObject;
"
    );
    probe(
        &block(&tools, Detail::Full),
        &[
            "OK await tools.outline({ top: { n: 1, sub: [{ n: 2, sub: [] }] } });",
            "BAD await tools.outline({ top: { n: 'x' } });",
            "BAD await tools.outline({ top: { n: 1, sub: [{ n: 'x' }] } });",
        ],
    );
}

#[test]
fn sc_05_boolean_schemas() {
    let schema = json!({"type": "object", "required": ["any"], "properties": {
        "any": true, "no": false, "list": {"type": "array", "items": true}, "map": {"type": "object", "additionalProperties": true},
    }});
    let mut tools = only("notify", schema);
    tools.extend(only(
        "simple",
        json!({"type": "object", "properties": {"q": {"type": "string"}}}),
    ));
    judge(
        &tools,
        &arguments(
            "  notify: { any: JsonValue; no?: never; list?: JsonValue[]; map?: JsonObject } & JsonObject;
  simple: { q?: string } & JsonObject;
",
        ),
        "notify",
        &[
            ("OK", "{ any: { a: [1] }, list: [1, 'a', null] }"),
            ("BAD", "{ any: 1, no: 1 }"),
            ("BAD", "{ any: 1, list: 3 }"),
            ("BAD", "{}"),
        ],
    );
}

#[test]
fn sc_06_tuples() {
    let schema = json!({"type": "object", "required": ["a"], "properties": {
        "a": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}], "items": false, "minItems": 2},
        "b": {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "boolean"}, "minItems": 1},
        "c": {"type": "array", "items": [{"type": "number"}, {"type": "string"}], "additionalItems": false, "minItems": 2},
    }});
    judge(
        &only("draw", schema),
        &arguments(
            "  draw: { a: [string, number]; b?: [string, ...boolean[]]; c?: [number, string] } & JsonObject;\n",
        ),
        "draw",
        &[
            ("OK", "{ a: ['x', 1], b: ['x', true, false], c: [1, 'x'] }"),
            ("BAD", "{ a: [1, 'x'] }"),
            ("BAD", "{ a: ['x', 1, 2] }"),
            ("BAD", "{ a: ['x', 1], b: [true] }"),
        ],
    );
}

#[test]
fn sc_07_names_that_are_not_identifiers() {
    let keys = [
        "app.prop",
        "2fa",
        "class",
        "",
        "q\"uote",
        "line\nbreak",
        "日本",
        "a b",
        "__proto__",
        "$ok",
        "get",
        "new",
        "readonly",
    ];
    let properties: serde_json::Map<String, Value> = keys
        .iter()
        .map(|key| ((*key).to_owned(), json!({"type": "number"})))
        .collect();
    let mut tools = only(
        "ns:watch/read.now",
        json!({"type": "object", "properties": properties, "additionalProperties": false}),
    );
    for name in ["delete", "404", "has space", "constructor", "__proto__", "路径"] {
        tools.extend(only(name, json!({"type": "object"})));
    }
    judge(
        &tools,
        &arguments(
            r#"  "404": JsonObject;
  "__proto__": JsonObject;
  constructor: JsonObject;
  delete: JsonObject;
  "has space": JsonObject;
  "ns:watch/read.now": {
    "app.prop"?: number;
    "2fa"?: number;
    class?: number;
    ""?: number;
    "q\"uote"?: number;
    "line\nbreak"?: number;
    "日本"?: number;
    "a b"?: number;
    "__proto__"?: number;
    $ok?: number;
    get?: number;
    new?: number;
    readonly?: number;
  };
  "路径": JsonObject;
"#,
        ),
        "ns:watch/read.now",
        &[
            (
                "OK",
                r#"{ "app.prop": 1, "2fa": 1, class: 1, "": 1, 'q"uote': 1, "line\nbreak": 1, 日本: 1, get: 1, new: 1 }"#,
            ),
            ("BAD", "{ klass: 1 }"),
        ],
    );
    probe(
        &block(&tools, Detail::Full),
        &[
            "OK await tools.delete(); await tools['404'](); await tools['has space'](); await tools['路径']();",
        ],
    );
}

#[test]
fn sc_08_arrays_without_items() {
    let schema = json!({"type": "object", "required": ["values"], "properties": {
        "values": {"type": "array"}, "extra": {"type": "object"}, "any": {},
    }});
    judge(
        &only("query", schema),
        &arguments("  query: { values: JsonValue[]; extra?: JsonObject; any?: JsonValue } & JsonObject;\n"),
        "query",
        &[
            ("OK", "{ values: [1, 'a', { b: null }], extra: { x: 1 }, any: 3 }"),
            ("BAD", "{ values: 'x' }"),
            ("BAD", "{}"),
            ("BAD", ""),
        ],
    );
}

#[test]
fn sc_09_composition_at_the_root() {
    let closed = |name: &str| json!({"type": "object", "properties": {name: {"type": "string"}}, "required": [name], "additionalProperties": false});
    let mut tools = only(
        "add",
        json!({"type": "object", "anyOf": [closed("note"), closed("link")]}),
    );
    tools.extend(only("basic", json!({"type": "object"})));
    tools.extend(only(
        "choose",
        json!({
            "type": "object", "required": ["kind"],
            "properties": {"kind": {"enum": ["x", "y"]}, "count": {"type": "number"}},
            "allOf": [{"if": {"properties": {"kind": {"const": "x"}}}, "then": {"required": ["count"]}}],
        }),
    ));
    tools.extend(only(
        "loose",
        json!({"anyOf": [{"properties": {"k": {"type": "string"}}}, {"type": "string"}]}),
    ));
    judge(
        &tools,
        &arguments(
            "  add: { note: string } | { link: string };
  basic: JsonObject;
  choose: { kind: \"x\" | \"y\"; count?: number } & JsonObject;
  loose: { k?: string } & JsonObject;
",
        ),
        "add",
        &[
            ("OK", "{ note: 'x' }"),
            ("OK", "{ link: 'u' }"),
            ("BAD", "{}"),
            ("BAD", "{ note: 1 }"),
        ],
    );
    probe(
        &block(&tools, Detail::Full),
        &[
            "OK await tools.choose({ kind: 'x', count: 1 });",
            "BAD await tools.choose({ kind: 'z' });",
            "OK await tools.loose();",
        ],
    );
}

#[test]
fn sc_10_null() {
    let schema = json!({
        "type": "object",
        "properties": {
            "by": {"$ref": "#/$defs/Person", "nullable": true}, "n": {"type": ["number", "null"]}, "k": {"const": null},
            "e": {"enum": ["z"], "nullable": true}, "u": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": null},
            "t": {"type": "null"},
        },
        "$defs": {"Person": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}},
    });
    judge(
        &only("edit", schema),
        &arguments(
            "  edit: {
    by?: { id: string } & JsonObject | null;
    n?: number | null;
    k?: null;
    e?: \"z\" | null;
    u?: string | null;
    t?: null;
  } & JsonObject;
",
        ),
        "edit",
        &[
            ("OK", "{ by: null, n: null, k: null, e: null, u: null, t: null }"),
            ("OK", "{}"),
            ("BAD", "{ k: 0 }"),
            ("BAD", "{ by: {} }"),
        ],
    );
}

#[test]
fn sc_11_bad_output_schemas() {
    let tool = |name: &str, output: Value| json!({"name": name, "inputSchema": {"type": "object"}, "outputSchema": output});
    let tools = vec![
        tool("a", json!({"$id": "out.v1", "description": "says no type"})),
        tool(
            "b",
            json!({"type": "object", "properties": {"r": {"$ref": "#/$defs/gone"}}}),
        ),
        tool("c", json!({"type": "array", "items": {"type": "number"}})),
        tool("d", Value::Null),
        tool(
            "e",
            json!({"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}),
        ),
    ];
    assert_eq!(
        maps(&tools, Detail::Full),
        "interface ToolArgsMap {
  a: JsonObject;
  b: JsonObject;
  c: JsonObject;
  d: JsonObject;
  e: JsonObject;
}
interface ToolOutputMap {
  /** says no type */
  a: JsonValue;
  b: { r?: unknown } & JsonObject;
  c: number[];
  e: { n: number } & JsonObject;
}
"
    );
    probe(
        &block(&tools, Detail::Full),
        &[
            "OK const n: number = (await tools.e()).n;",
            "OK const v: JsonValue = await tools.d(); const w: JsonValue = await tools.a();",
            "OK const list: number[] = await tools.c();",
        ],
    );
}
