//! Which arguments reach a tool, and what is said about those that do not.

use serde_json::{Value, json};
use toolweave_tools::{Effect, ErrorCode, Mode, ToolSpec, ToolboxConfig};

use crate::dispatch::request;
use crate::support::{End, FakeRuntime, call, echo, failure, rig, spec, text, tool};

fn reader() -> std::sync::Arc<dyn toolweave_tools::Tool> {
    let spec = ToolSpec {
        input_schema: json!({
            "type": "object",
            "properties": {"id": {"type": "string"}, "limit": {"type": "integer", "minimum": 1}},
            "required": ["id"],
            "additionalProperties": false,
        }),
        ..spec("read", Effect::Read)
    };
    tool(spec, |_, arguments| {
        std::future::ready(Ok(toolweave_tools::ToolOutput::from_value(arguments)))
    })
}

#[tokio::test]
async fn a_nested_call_takes_one_object() {
    let wants = "pass one object with named parameters: { id, limit? }";
    let cases: Vec<(&str, Value, Result<Value, String>)> = vec![
        ("any", json!([]), Ok(json!({}))),
        ("any", json!([{}]), Ok(json!({}))),
        ("any", json!([{"b": 1, "a": 2}]), Ok(json!({"b": 1, "a": 2}))),
        ("any", json!([null]), Err("`any` takes one object, got null; pass one object, or nothing".to_owned())),
        ("read", json!(["x.md"]), Err(format!("`read` takes one object, got the string \"x.md\"; {wants}"))),
        ("read", json!([7]), Err(format!("`read` takes one object, got the number 7; {wants}"))),
        ("read", json!([["x"]]), Err(format!("`read` takes one object, got an array of 1; {wants}"))),
        ("read", json!([{"id": "x"}, {}]), Err(format!("`read` takes one object, got 2 arguments; {wants}"))),
        ("read", json!([{"id": "x"}]), Ok(json!({"id": "x"}))),
        ("read", json!([]), Err("invalid arguments for `read`: `id` is missing (a string)".to_owned())),
        (
            "read",
            json!([{"ids": "x", "limit": 0}]),
            Err("invalid arguments for `read`, 3 problems:\n- `limit` must be at least 1, got the number 0\n- unknown property `ids` (closest: `id`); known: id, limit\n- `id` is missing (a string)".to_owned()),
        ),
    ];
    for (name, arguments, expected) in cases {
        let runtime = {
            let arguments = arguments.clone();
            FakeRuntime::new(move |guest| {
                let answer = guest.call_list(name, arguments.clone());
                async move {
                    End::Value(match answer.await {
                        Ok(value) => json!({"ok": value}),
                        Err(message) => json!({"err": message}),
                    })
                }
            })
        };
        let rig = rig(
            vec![reader(), echo("any", Effect::Read)],
            runtime,
            ToolboxConfig::default(),
        );
        let report = rig.toolbox.run_program(request()).await.unwrap();
        let expected = match expected {
            Ok(value) => json!({"ok": value}),
            Err(message) => json!({"err": message}),
        };
        assert_eq!(report.result.unwrap().to_value(), expected, "{name} {arguments}");
    }
}

#[tokio::test]
async fn an_outer_call_takes_what_clients_send_for_nothing() {
    let config = ToolboxConfig {
        mode: Mode::Both,
        ..ToolboxConfig::default()
    };
    let rig = rig(vec![echo("any", Effect::Read)], FakeRuntime::idle(), config);
    for arguments in ["", " ", "null", "{}", " {} "] {
        let result = rig.toolbox.execute(call("any", arguments)).await;
        assert_eq!(
            (result.error, result.structured),
            (None, Some(json!({}))),
            "{arguments:?}"
        );
    }
    for (arguments, message) in [
        ("[]", "the arguments must be one JSON object, got an array of 0"),
        (
            "\"x\"",
            "the arguments must be one JSON object, got the string \"x\"",
        ),
        ("7", "the arguments must be one JSON object, got the number 7"),
        (
            "{\"a\":",
            "the arguments are not JSON: not JSON: expected a value at byte 5; send one JSON object",
        ),
    ] {
        for name in ["any", "run_code"] {
            let result = rig.toolbox.execute(call(name, arguments)).await;
            assert_eq!(
                failure(&result),
                (Some(ErrorCode::InvalidArgs), message.to_owned()),
                "{name} {arguments}"
            );
        }
    }
}

#[tokio::test]
async fn run_code_names_the_argument_that_is_wrong() {
    let rig = rig(
        vec![],
        FakeRuntime::new(|_| async { End::Value(json!("ran")) }),
        ToolboxConfig::default(),
    );
    for (arguments, expected) in [
        (json!({"code": "return 1"}), Ok("ran")),
        (
            json!({"description": "d", "code": "return 1", "timeoutMs": 500}),
            Ok("ran"),
        ),
        (json!({"description": null, "code": "return 1"}), Ok("ran")),
        (
            json!({"description": "d", "code": "return 1", "lang": "ts"}),
            Ok("ran\n---\nwarning: `run_code` has no argument `lang`; ignored"),
        ),
        (
            json!({"description": " ", "code": "return 1"}),
            Err("invalid description: `description` is blank; say in a few words what the program does"),
        ),
        (
            json!({"description": 5, "code": "return 1"}),
            Err("invalid description: `description` must be a string, got the number 5"),
        ),
        (
            json!({"description": "d"}),
            Err("`code` is missing: pass the program as a string"),
        ),
        (
            json!({"program": "return 1"}),
            Err("`code` is missing: pass the program as a string in `code`, not in `program`"),
        ),
        (
            json!({"code": ["return 1"]}),
            Err("`code` must be the program as one string, got an array of 1"),
        ),
        (
            json!({"code": "return 1", "timeoutMs": "5"}),
            Err("`timeoutMs` must be a number of milliseconds from 1 to 2147483647, got the string \"5\""),
        ),
    ] {
        let result = rig
            .toolbox
            .execute(call("run_code", &arguments.to_string()))
            .await;
        let got = match result.error {
            None => Ok(text(&result)),
            Some(code) => {
                assert_eq!(code, ErrorCode::InvalidArgs);
                Err(text(&result))
            }
        };
        assert_eq!(
            got.as_ref().map(String::as_str).map_err(String::as_str),
            expected,
            "{arguments}"
        );
    }
}
