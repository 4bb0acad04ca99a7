//! The block as a whole: its fixed text, its order, names that collide, and the one-line forms.

use serde_json::{Value, json};
use toolweave_codegen::limits::MAX_SIGNATURE_CHARS;
use toolweave_codegen::{CodegenError, Detail, Language, Output, ToolDecl, declarations, help, signature};

use crate::support::{block, declared, maps, probe};

const EMPTY: &str = r#"type JsonValue = null | boolean | number | string | JsonValue[] | JsonObject;
type JsonObject = { [key: string]: JsonValue | undefined };
interface ToolArgsMap {
}
interface ToolOutputMap {
}
type ToolName = keyof ToolArgsMap;
declare class ToolCallError extends Error { toolName: string }
interface Discovery {
  $list(): string[];
  $search(query: string, options?: { limit?: number }): Promise<Array<{ name: string; description: string; signature: string }>>;
  $help(name: string): Promise<string>;
  $call(name: string, args?: JsonObject): Promise<JsonValue>;
}
declare const tools: Discovery & {
  [K in ToolName]: (...args: {} extends ToolArgsMap[K] ? [args?: ToolArgsMap[K]] : [args: ToolArgsMap[K]]) => Promise<K extends keyof ToolOutputMap ? ToolOutputMap[K] : JsonValue>;
} & { list: Discovery["$list"]; search: Discovery["$search"]; help: Discovery["$help"] };
"#;

#[test]
fn without_tools_the_block_is_whole() {
    assert_eq!(declarations(&[], Detail::Full), EMPTY);
    probe(
        EMPTY,
        &[
            "OK const names: string[] = tools.list();",
            "BAD await tools.anything();",
        ],
    );
}

fn weather() -> Vec<Value> {
    vec![
        json!({
            "name": "forecast",
            "description": "Tells the weather.\nFor up to ten days.",
            "inputSchema": {
                "type": "object",
                "description": "Where and when.",
                "properties": {"city": {"type": "string", "description": "A name"}, "days": {"type": "integer", "maximum": 10}},
                "required": ["city"],
                "additionalProperties": false,
            },
            "outputSchema": {"type": "object", "properties": {"degrees": {"type": "number"}}, "required": ["degrees"]},
        }),
        json!({"name": "my-tool.x", "description": "", "inputSchema": {"type": "object"}}),
    ]
}

#[test]
fn full_and_compact() {
    assert_eq!(
        maps(&weather(), Detail::Full),
        r#"interface ToolArgsMap {
  /** Tells the weather. For up to ten days. Where and when. */
  forecast: {
    /** A name */ city: string;
    /** [integer, <= 10] */ days?: number;
  };
  "my-tool.x": JsonObject;
}
interface ToolOutputMap {
  forecast: { degrees: number } & JsonObject;
}
"#
    );
    assert_eq!(
        maps(&weather(), Detail::Compact),
        r#"interface ToolArgsMap {
  forecast: { city: string; days?: number };
  "my-tool.x": JsonObject;
}
interface ToolOutputMap {
  forecast: { degrees: number } & JsonObject;
}
"#
    );
    assert_eq!(
        Language::named("typescript")
            .unwrap()
            .declarations(&[], Detail::Compact),
        declarations(&[], Detail::Compact)
    );
}

#[test]
fn calls_are_typed_from_both_maps() {
    for detail in [Detail::Full, Detail::Compact] {
        probe(
            &block(&weather(), detail),
            &[
                "OK const warm: number = (await tools.forecast({ city: 'x' })).degrees;",
                "BAD const warm: string = (await tools.forecast({ city: 'x' })).degrees;",
                "BAD await tools.forecast();",
                "BAD await tools.forecast({ city: 1 });",
                "BAD await tools.forecast({ city: 'x', day: 1 });",
                "OK await tools['my-tool.x']();",
                "OK const any: JsonValue = await tools['my-tool.x']({ anything: [1, { goes: null }] });",
                "BAD await tools.forcast({ city: 'x' });",
                "OK const found = await tools.search('rain', { limit: 3 }); const line: string = found[0]!.signature;",
                "OK const text: string = await tools.help('forecast') + await tools.$help('forecast');",
                "OK await tools.$call('forecast', { city: 'x' });",
                "OK try { await tools.$call('x'); } catch (e) { if (e instanceof ToolCallError) { const n: string = e.toolName; } }",
            ],
        );
    }
}

#[test]
fn a_tool_may_be_called_like_a_discovery_function() {
    let tools: Vec<Value> = ["list", "then", "help"]
        .map(|name| json!({"name": name, "inputSchema": {"type": "object", "properties": {"p": {"type": "string"}}, "required": ["p"]}}))
        .to_vec();
    let block = block(&tools, Detail::Full);
    assert!(
        block.ends_with("} & { search: Discovery[\"$search\"] };\n"),
        "{block}"
    );
    probe(
        &block,
        &[
            "OK const v: JsonValue = await tools.list({ p: 'x' });",
            "BAD tools.list();",
            "OK const names: string[] = tools.$list();",
            "OK await tools.search('x');",
            "OK const t: JsonValue = await tools['help']({ p: 'x' });",
        ],
    );
}

#[test]
fn order_of_registration_does_not_show() {
    // "\u{ffff}" sorts before "\u{10000}" in code points and after it in UTF-16, which is what JavaScript compares.
    let mut names: Vec<String> = (0..40).map(|at| format!("tool_{at}")).collect();
    names.extend(["Zed", "a-b", "\u{ffff}", "\u{10000}", "日本", ""].map(str::to_owned));
    let tools: Vec<Value> = names
        .iter()
        .map(|name| {
            let schema = json!({"type": "object", "properties": {"a": {"enum": ["one of several long enough", name]}}});
            json!({"name": name, "description": name, "inputSchema": schema})
        })
        .collect();
    let expected = block(&tools, Detail::Full);
    let mut shuffled = tools;
    for step in [1, 7, 11, 23] {
        shuffled.rotate_left(step);
        shuffled.reverse();
        assert_eq!(block(&shuffled, Detail::Full), expected);
    }
    let position = |name: &str| expected.find(&format!("  {name}: ")).unwrap();
    assert!(position("Zed") < position("\"a-b\""));
    assert!(position("\"\u{10000}\"") < position("\"\u{ffff}\""));
}

#[test]
fn of_two_tools_with_one_name_the_first_is_shown() {
    let tools =
        ["first", "second"].map(|text| json!({"name": "twice", "description": text, "inputSchema": {}}));
    assert_eq!(
        maps(&tools, Detail::Full),
        "interface ToolArgsMap {\n  /** first */\n  twice: JsonObject;\n}\ninterface ToolOutputMap {\n}\n"
    );
}

#[test]
fn named_types_of_two_tools_do_not_clash() {
    let tool = |name: &str, ty: &str| {
        json!({"name": name, "inputSchema": {
            "type": "object", "properties": {"root": {"$ref": "#/$defs/Node"}}, "required": ["root"], "additionalProperties": false,
            "$defs": {"Node": {
                "type": "object", "properties": {"v": {"type": ty}, "kids": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
                "additionalProperties": false,
            }},
        }})
    };
    let tools = [tool("one", "string"), tool("two", "number")];
    assert_eq!(
        maps(&tools, Detail::Full),
        "interface ToolArgsMap {
  one: { root: $Node };
  two: { root: $Node2 };
}
interface ToolOutputMap {
}
type $Node = { v?: string; kids?: $Node[] };
type $Node2 = { v?: number; kids?: $Node2[] };
"
    );
    probe(
        &block(&tools, Detail::Full),
        &[
            "OK tools.one({ root: { v: 'x', kids: [{ v: 'y' }] } });",
            "BAD tools.two({ root: { kids: [{ v: 'y' }] } });",
        ],
    );
}

#[test]
fn observed_outputs_are_marked() {
    let input = json!({"type": "object"});
    let seen = json!({"type": "object", "properties": {"n": {"type": "number"}}});
    let tool = ToolDecl {
        name: "t",
        description: "Does it.",
        input: &input,
        output: Output::Observed(&seen),
    };
    let expected = "  /** observed, not guaranteed */\n  t: { n?: number } & JsonObject;\n";
    for detail in [Detail::Full, Detail::Compact] {
        assert!(declarations(&[tool], detail).contains(expected));
    }
    assert_eq!(signature(&tool), "t(): Promise<{ n?: number }> // observed");
    assert_eq!(
        help(&tool),
        "/** Does it. */\ntools.t(args?: JsonObject): /** observed, not guaranteed */ Promise<{ n?: number } & JsonObject>;\n"
    );
}

#[test]
fn signatures_fit_their_line() {
    let wide: serde_json::Map<String, Value> = (0..60)
        .map(|at| (format!("parameter_number_{at}"), json!({"type": "string"})))
        .collect();
    let nested = json!({"type": "object", "additionalProperties": false, "properties": {
        "where": {"type": "object", "additionalProperties": false, "properties": wide},
        "how": {"enum": ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n"]},
    }, "required": ["where"]});
    let cases = [
        (
            json!({"name": "now", "inputSchema": null}),
            "now(): Promise<JsonValue>",
        ),
        (
            json!({"name": "my-tool.x", "inputSchema": {"type": "object", "properties": {"a": {"type": "string"}}}}),
            "[\"my-tool.x\"](args?: { a?: string }): Promise<JsonValue>",
        ),
        (
            json!({"name": "tree", "inputSchema": {"type": "object", "properties": {"up": {"$ref": "#"}}, "required": ["up"]}}),
            "tree(args: { up: JsonValue }): Promise<JsonValue>",
        ),
        (
            json!({"name": "nested", "inputSchema": nested}),
            "nested(args: { where: {…}; how?: \"a\" | \"b\" | \"c\" | \"d\" | … }): Promise<JsonValue>",
        ),
        (
            json!({"name": "wide", "inputSchema": {"type": "object", "properties": wide, "required": ["parameter_number_9"]}}),
            "wide(args: { parameter_number_9: string; parameter_number_0?: string; parameter_number_1?: string; \
             parameter_number_2?: string; parameter_number_3?: string; parameter_number_4?: string; \
             parameter_number_5?: string; parameter_number_6?: string; parameter_number_7?: string; \
             parameter_number_8?: string; parameter_number_10?: string; parameter_number_11?: string; … }): Promise<JsonValue>",
        ),
    ];
    for (tool, expected) in cases {
        assert_eq!(signature(&declared(&tool)), expected);
    }
    let name = "n".repeat(5_000);
    let tool = json!({"name": name, "inputSchema": {"type": "object", "properties": wide}});
    assert!(signature(&declared(&tool)).chars().count() <= MAX_SIGNATURE_CHARS);
}

#[test]
fn help_says_everything() {
    assert_eq!(
        help(&declared(&weather()[0])),
        "/** Tells the weather. For up to ten days. Where and when. */
tools.forecast(args: {
  /** A name */ city: string;
  /** [integer, <= 10] */ days?: number;
}): Promise<{ degrees: number } & JsonObject>;
"
    );
    assert_eq!(
        help(&declared(&weather()[1])),
        "tools[\"my-tool.x\"](args?: JsonObject): Promise<JsonValue>;\n"
    );
}

#[test]
fn languages_are_known_by_their_own_names() {
    assert_eq!(Language::named("typescript"), Ok(Language::TypeScript));
    for name in ["constructor", "TypeScript", "python", ""] {
        let error = Language::named(name).unwrap_err();
        let expected = CodegenError::UnknownLanguage {
            name: name.to_owned(),
            known: "typescript".to_owned(),
        };
        assert_eq!(error, expected);
        assert_eq!(
            error.to_string(),
            format!("no SDK renderer for language `{name}`; known: typescript")
        );
    }
}
