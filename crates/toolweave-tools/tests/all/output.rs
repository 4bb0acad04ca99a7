//! What a model is shown of a run.

use serde_json::{Value, json};
use toolweave_runtime::FailureKind;
use toolweave_tools::{Effect, ErrorCode, ToolboxConfig};

use crate::support::{End, FakeRuntime, echo, rig, run_code, text};

async fn shown(
    logs: &'static [&'static str],
    end: fn() -> End,
    cap: usize,
) -> (Option<ErrorCode>, String, Option<Value>) {
    let runtime = FakeRuntime::new(move |guest| async move {
        logs.iter().for_each(|entry| guest.log(entry));
        end()
    });
    let config = ToolboxConfig {
        max_inline_bytes: cap,
        ..ToolboxConfig::default()
    };
    let rig = rig(vec![], runtime, config);
    let result = rig.toolbox.execute(run_code()).await;
    (result.error, text(&result), result.structured)
}

#[tokio::test]
async fn logs_come_first_then_the_value() {
    type Case = (&'static [&'static str], fn() -> End, &'static str, Value);
    let cases: Vec<Case> = vec![
        (
            &[],
            || End::Nothing,
            "(run_code completed with no output)",
            json!({"logs": []}),
        ),
        (&["a", "b"], || End::Nothing, "a\nb", json!({"logs": ["a", "b"]})),
        (
            &["a"],
            || End::Value(json!("one\ntwo")),
            "a\none\ntwo",
            json!({"logs": ["a"], "result": "one\ntwo"}),
        ),
        (
            &[],
            || End::Value(Value::Null),
            "null",
            json!({"logs": [], "result": null}),
        ),
        (
            &[],
            || End::Value(json!(false)),
            "false",
            json!({"logs": [], "result": false}),
        ),
        (
            &[],
            || End::Value(json!([])),
            "[]",
            json!({"logs": [], "result": []}),
        ),
        (
            &[],
            || End::Value(json!("")),
            "(run_code returned an empty string)",
            json!({"logs": [], "result": ""}),
        ),
        (
            &[""],
            || End::Nothing,
            "(run_code printed an empty line)",
            json!({"logs": [""]}),
        ),
        (
            &["x"],
            || End::Value(json!({"b": [1, {"c": 2}], "a": {}})),
            "x\n{\n  \"b\": [\n    1,\n    {\n      \"c\": 2\n    }\n  ],\n  \"a\": {}\n}",
            json!({"logs": ["x"], "result": {"b": [1, {"c": 2}], "a": {}}}),
        ),
    ];
    for (logs, end, expected, structured) in cases {
        assert_eq!(
            shown(logs, end, 50_000).await,
            (None, expected.to_owned(), Some(structured))
        );
    }
}

#[tokio::test]
async fn a_failure_names_its_kind_and_keeps_the_output() {
    let (code, shown_text, structured) = shown(&["before"], || End::Throw("boom"), 50_000).await;
    assert_eq!(code, Some(ErrorCode::CodeRunFailed));
    assert!(
        shown_text.starts_with("code run failed (exception): Error: boom"),
        "{shown_text}"
    );
    assert!(
        shown_text.ends_with("\n\nCaptured output:\nbefore"),
        "{shown_text}"
    );
    assert_eq!(structured, None);
    for (kind, name) in [
        (FailureKind::Timeout, "timeout"),
        (FailureKind::WorkerExit, "worker-exit"),
        (FailureKind::OutputLimit, "output-limit"),
        (FailureKind::InvalidOutput, "invalid-output"),
        (FailureKind::SandboxUnavailable, "sandbox-unavailable"),
    ] {
        let runtime = FakeRuntime::new(move |_| std::future::ready(End::Fail(kind, "why")));
        let rig = rig(vec![], runtime, ToolboxConfig::default());
        let result = rig.toolbox.execute(run_code()).await;
        assert_eq!(text(&result), format!("code run failed ({name}): why"));
    }
}

#[tokio::test]
async fn a_failed_run_tells_what_it_had_done() {
    let runtime = FakeRuntime::new(|guest| async move {
        for _ in 0..3 {
            guest.call("look", json!({})).await.unwrap();
        }
        guest.call("put", json!({})).await.unwrap();
        guest.call("wipe", json!({})).await.unwrap();
        End::Fail(FailureKind::Timeout, "out of time")
    });
    let tools = vec![
        echo("look", Effect::Read),
        echo("put", Effect::Write),
        echo("wipe", Effect::Destructive),
    ];
    let rig = rig(tools, runtime, ToolboxConfig::default());
    let result = rig.toolbox.execute(run_code()).await;
    assert_eq!(
        text(&result),
        "code run failed (timeout): out of time\n\
         already done, and not undone: look ×3, put [write], wipe [destructive write]"
    );
}

#[tokio::test]
async fn the_list_of_what_was_done_is_bounded() {
    let runtime = FakeRuntime::new(|guest| async move {
        for _ in 0..100 {
            guest.call("look", json!({})).await.unwrap();
            guest.call("put", json!({})).await.unwrap();
        }
        End::Throw("late")
    });
    let rig = rig(
        vec![echo("look", Effect::Read), echo("put", Effect::Write)],
        runtime,
        ToolboxConfig::default(),
    );
    let shown = text(&rig.toolbox.execute(run_code()).await);
    assert!(
        shown.ends_with("look, and 175 more, 88 of them writes"),
        "{shown}"
    );
}

#[tokio::test]
async fn large_outputs_become_previews_everywhere() {
    let (_, shown_text, structured) = shown(&["log"], || End::Value(json!("y".repeat(60_000))), 50_000).await;
    assert!(
        shown_text.len() <= 50_000 && shown_text.contains("of 60004 bytes were cut here"),
        "{}",
        shown_text.len()
    );
    let structured = structured.unwrap();
    assert!(structured.to_string().len() < 51_000);
    assert_eq!(
        structured["truncated"],
        json!("result: text preview of 60002 bytes of JSON")
    );
    assert_eq!(structured["logs"], json!(["log"]));
    let (_, _, structured) = shown(
        &["0123456789012345678901234567890123456789012345678901234567890123456789"; 20],
        || End::Value(json!({"kept": true})),
        1_000,
    )
    .await;
    let structured = structured.unwrap();
    assert_eq!(structured["result"], json!({"kept": true}));
    assert!(
        structured["truncated"]
            .as_str()
            .unwrap()
            .starts_with("logs: one text preview of 20 entries")
    );
    assert!(structured.to_string().len() < 1_200, "{structured}");
}

#[tokio::test]
async fn a_deep_result_is_text_to_clients() {
    let (code, _, structured) = shown(
        &[],
        || {
            let text = "[".repeat(3_000) + &"]".repeat(3_000);
            End::Value(toolweave_runtime::Json::parse(text, 10_000).unwrap().to_value())
        },
        50_000,
    )
    .await;
    assert_eq!(code, None);
    let structured = structured.unwrap();
    assert_eq!(structured["result"].as_str().unwrap().len(), 6_000);
    assert_eq!(
        structured["truncated"],
        json!("result: JSON text, as it is nested 3000 levels deep")
    );
}
