//! One event of every type, with every field set.

use toolweave_session::*;

pub(crate) fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

pub(crate) fn every_event() -> Vec<Event> {
    let text = |s: &str| Some(s.to_owned());
    vec![
        SessionResume {
            product_version: "0.1.0".into(),
            cut_bytes: 12,
        }
        .into(),
        TurnStart { turn: 1 }.into(),
        MessageUser {
            source: text("tool img"),
            content: json(r#"[{"type":"text","text":"größe 🦀"}]"#),
        }
        .into(),
        RequestHeader {
            provider: "loopback".into(),
            model: "m-1".into(),
            mode: text("code"),
            system: "Be brief.\nSay \"no\" to tabs\t.".into(),
            tools: json(r#"[{"name":"run_code"}]"#),
        }
        .into(),
        RequestRetry {
            attempt: 1,
            reason: "429 too many requests".into(),
            wait_ms: 250,
        }
        .into(),
        RequestEnd {
            stop_reason: text("tool_calls"),
            input_tokens: Some(1200),
            cached_tokens: Some(1024),
            output_tokens: Some(88),
        }
        .into(),
        MessageAssistant {
            content: json(r#""I will look.""#),
            reasoning: Some(json(r#"{"text":"hm"}"#)),
        }
        .into(),
        ToolCall {
            call_id: "c1".into(),
            name: "run_code".into(),
            arguments: r#"{"code":"return 1""#.into(),
        }
        .into(),
        CodeDispatchStart {
            root_call_id: "c1".into(),
            parent_call_id: "c1".into(),
            sub_call_id: "c1:code:1".into(),
            name: "read_doc".into(),
            arguments: json(r#"{"id":"a","big":9007199254740993,"lone":"\ud800","__proto__":1}"#),
        }
        .into(),
        ApprovalAsked {
            call_id: "c1:code:1".into(),
            name: "read_doc".into(),
            arguments: json(r#"{"id":"a"}"#),
            reason: text("rule 3"),
        }
        .into(),
        ApprovalDecided {
            call_id: "c1:code:1".into(),
            decision: Decision::NoAnswerer,
            by: text("policy"),
            reason: text("not a terminal"),
        }
        .into(),
        CodeDispatch {
            root_call_id: "c1".into(),
            parent_call_id: "c1".into(),
            sub_call_id: "c1:code:1".into(),
            name: "read_doc".into(),
            arguments: json(r#"{"id":"a"}"#),
            is_error: true,
            content: json(r#"[{"type":"text","text":"document not found: a"}]"#),
            summary: text("document not found: a"),
        }
        .into(),
        ProgramRun {
            call_id: "c1".into(),
            description: text("Read a document"),
            ok: false,
            failure: text("exception"),
            message: text("document not found: a"),
            line: Some(1),
            calls: 1,
            compute_ms: 2,
            wall_ms: 31,
            peak_memory_bytes: Some(1_500_000),
            engine: text("quickjs"),
            isolation: text("process"),
            sandbox: Some(json(r#"["landlock","seccomp"]"#)),
        }
        .into(),
        ArtifactSaved {
            handle: "a1".into(),
            call_id: text("c1"),
            bytes: 60_000,
            media_type: text("text/plain"),
        }
        .into(),
        StorePut {
            key: "seen".into(),
            value: Some(json("null")),
        }
        .into(),
        StorePut {
            key: "seen".into(),
            value: None,
        }
        .into(),
        ToolResult {
            call_id: "c1".into(),
            name: "run_code".into(),
            is_error: true,
            code: text("CODE_RUN_FAILED"),
            content: json(r#""code run failed (exception): document not found: a""#),
        }
        .into(),
        TurnEnd {
            turn: 1,
            outcome: TurnOutcome::Aborted,
            error: text("stopped by the user"),
        }
        .into(),
        LogGap { dropped: 3 }.into(),
        Event::Unknown(UnknownEvent {
            kind: "x/later".into(),
            payload: json(r#"{"b":[1],"a":{"seq":2}}"#),
        }),
        Event::Unknown(UnknownEvent {
            kind: "x/\"quoted\"".into(),
            payload: json("{}"),
        }),
    ]
}

pub(crate) fn events(records: Vec<Record>) -> Vec<Event> {
    records.into_iter().map(|record| record.event).collect()
}
