//! Hooks around calls: their order, and that nested calls get the same treatment.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use toolweave_session::{Event, Recorder};
use toolweave_tools::{
    Approval, ApprovalRequest, Approver, CallView, Content, Effect, ErrorCode, Mode, Policy, PostVerdict,
    Rest, ToolError, ToolOutput, Toolbox, ToolboxConfig, Verdict,
};

use crate::dispatch::{dispatch_lines, request};
use crate::support::{End, FakeRuntime, Rig, Spans, call, echo, rig, run_code, sleeper, text};

#[derive(Default)]
struct Trace(Mutex<Vec<String>>);

impl Trace {
    fn note(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Notes every hook, and does what the arguments say.
struct Scripted {
    label: &'static str,
    trace: Arc<Trace>,
    post: bool,
}

#[async_trait]
impl Policy for Scripted {
    async fn pre_execute(&self, call: CallView<'_>) -> Result<Verdict, String> {
        self.trace.note(format!("{} pre {}", self.label, call.name));
        tokio::time::sleep(Duration::from_millis(2)).await;
        self.trace.note(format!("{} pre-end {}", self.label, call.name));
        match call.arguments["pre"].as_str() {
            Some("deny") => Ok(Verdict::Deny("not today".to_owned())),
            Some("ask") => Ok(Verdict::Ask("it writes".to_owned())),
            Some("fail") => Err("cannot decide".to_owned()),
            Some("panic") => panic!("a policy with a bug"),
            _ => Ok(Verdict::Allow),
        }
    }

    fn guard(&self, call: CallView<'_>) -> Option<String> {
        self.trace.note(format!("{} guard {}", self.label, call.name));
        (call.arguments["guard"] == json!(true)).then(|| "guarded".to_owned())
    }

    async fn around(&self, call: CallView<'_>, rest: Rest<'_>) -> Result<ToolOutput, ToolError> {
        self.trace.note(format!("{} around {}", self.label, call.name));
        let outcome = rest.run().await;
        self.trace
            .note(format!("{} around-end {}", self.label, call.name));
        outcome
    }

    fn has_post_execute(&self) -> bool {
        self.post
    }

    async fn post_execute(
        &self,
        call: CallView<'_>,
        outcome: Result<&ToolOutput, &ToolError>,
    ) -> Result<PostVerdict, String> {
        self.trace
            .note(format!("{} post {} {}", self.label, call.name, outcome.is_ok()));
        tokio::time::sleep(Duration::from_millis(3)).await;
        self.trace.note(format!("{} post-end {}", self.label, call.name));
        match call.arguments["post"].as_str() {
            Some("content") => Ok(PostVerdict::ReplaceContent(vec![Content::Text(
                "hidden".to_owned(),
            )])),
            Some("value") => Ok(PostVerdict::ReplaceValue(json!({"replaced": true}))),
            Some("block") => Ok(PostVerdict::Block("blocked".to_owned())),
            _ => Ok(PostVerdict::Keep),
        }
    }

    fn observe(&self, call: CallView<'_>, outcome: Result<&ToolOutput, &ToolError>) {
        self.trace.note(format!(
            "{} observe {} {}",
            self.label,
            call.name,
            outcome.is_ok()
        ));
        panic!("an observer with a bug");
    }
}

fn scripted(trace: &Arc<Trace>, post: bool) -> Vec<Arc<dyn Policy>> {
    ["A", "B"]
        .map(|label| {
            Arc::new(Scripted {
                label,
                trace: Arc::clone(trace),
                post,
            }) as Arc<dyn Policy>
        })
        .to_vec()
}

fn both() -> ToolboxConfig {
    ToolboxConfig {
        mode: Mode::Both,
        ..ToolboxConfig::default()
    }
}

/// Runs `echo` with these arguments, once directly and once from a program; returns what came out of both.
async fn twice(
    arguments: Value,
    approver: Option<Arc<dyn Approver>>,
    recorder: &Recorder,
) -> [Result<Value, String>; 2] {
    let trace = Arc::new(Trace::default());
    let nested = arguments.clone();
    let runtime = FakeRuntime::new(move |guest| {
        let answer = guest.call("echo", nested.clone());
        async move {
            match answer.await {
                Ok(value) => End::Value(json!({"ok": value})),
                Err(message) => End::Value(json!({"err": message})),
            }
        }
    });
    let Rig {
        toolbox,
        registration: _kept,
        ..
    } = rig(vec![echo("echo", Effect::Write)], runtime, both());
    let mut toolbox = toolbox
        .with_policies(scripted(&trace, true))
        .with_recorder(recorder.clone());
    if let Some(approver) = approver {
        toolbox = toolbox.with_approver(approver);
    }
    let direct = toolbox.execute(call("echo", &arguments.to_string())).await;
    let direct = match direct.error {
        None => Ok(direct.structured.unwrap()),
        Some(_) => Err(text(&direct)),
    };
    let report = toolbox.run_program(request()).await.unwrap();
    let mut nested = report.result.unwrap().to_value();
    let nested = match nested.get_mut("ok").map(Value::take) {
        Some(value) => Ok(value),
        None => Err(nested["err"].as_str().unwrap().to_owned()),
    };
    [direct, nested]
}

struct Answers(Approval);

#[async_trait]
impl Approver for Answers {
    async fn ask(&self, request: ApprovalRequest) -> Approval {
        assert_eq!(
            (request.name.as_str(), request.reason.as_str()),
            ("echo", "it writes")
        );
        self.0.clone()
    }
}

#[tokio::test]
async fn verdicts_hold_for_direct_and_nested_calls_alike() {
    let failure = |text: &str| Err(text.to_owned());
    for (arguments, approval, expected) in [
        (json!({"v": 1}), None, Ok(json!({"v": 1}))),
        (json!({"pre": "deny"}), None, failure("not today")),
        (
            json!({"pre": "fail"}),
            None,
            failure("the policy for `echo` failed: cannot decide"),
        ),
        (
            json!({"pre": "panic"}),
            None,
            failure("the policy for `echo` crashed"),
        ),
        (json!({"guard": true}), None, failure("guarded")),
        (
            json!({"pre": "ask"}),
            None,
            failure("`echo` needs approval, and nothing here can ask for it (it writes)"),
        ),
        (
            json!({"pre": "ask"}),
            Some(Approval::Allowed { by: None }),
            Ok(json!({"pre": "ask"})),
        ),
        (
            json!({"pre": "ask", "guard": true}),
            Some(Approval::Allowed { by: None }),
            failure("guarded"),
        ),
        (
            json!({"pre": "ask"}),
            Some(Approval::Denied {
                by: None,
                reason: Some("too late".to_owned()),
            }),
            failure("approval of `echo` was refused: too late"),
        ),
        (
            json!({"pre": "ask"}),
            Some(Approval::NoAnswerer),
            failure("`echo` needs approval, and nobody answered"),
        ),
        (json!({"post": "value"}), None, Ok(json!({"replaced": true}))),
        (json!({"post": "content"}), None, Ok(json!({"post": "content"}))),
        (json!({"post": "block"}), None, failure("blocked")),
    ] {
        let approver = approval.map(|answer| Arc::new(Answers(answer)) as Arc<dyn Approver>);
        let outcomes = twice(arguments.clone(), approver, &Recorder::none()).await;
        assert_eq!(outcomes, [expected.clone(), expected], "{arguments}");
    }
}

#[tokio::test]
async fn questions_are_audited_with_the_id_of_the_call() {
    let recorder = Recorder::memory();
    let approver: Arc<dyn Approver> = Arc::new(Answers(Approval::Allowed {
        by: Some("me".to_owned()),
    }));
    let _ = twice(json!({"pre": "ask"}), Some(approver), &recorder)
        .await
        .map(Result::unwrap);
    let audit: Vec<_> = recorder
        .records()
        .unwrap()
        .into_iter()
        .filter_map(|record| match record.event {
            Event::ApprovalAsked(e) => Some(format!("asked {} {}", e.call_id, e.reason.unwrap())),
            Event::ApprovalDecided(e) => Some(format!("decided {} {:?} {:?}", e.call_id, e.decision, e.by)),
            _ => None,
        })
        .collect();
    assert_eq!(
        audit,
        [
            "asked call-1 it writes",
            "decided call-1 Allowed Some(\"me\")",
            "asked p:code:1 it writes",
            "decided p:code:1 Allowed Some(\"me\")",
        ]
    );
}

#[tokio::test]
async fn hooks_come_in_order_and_inner_ones_nest() {
    let trace = Arc::new(Trace::default());
    let Rig {
        toolbox,
        registration: _kept,
        ..
    } = rig(vec![echo("echo", Effect::Read)], FakeRuntime::idle(), both());
    let toolbox = toolbox.with_policies(scripted(&trace, true));
    toolbox.execute(call("echo", "{}")).await;
    assert_eq!(
        trace.take(),
        [
            "A pre echo",
            "A pre-end echo",
            "B pre echo",
            "B pre-end echo",
            "A guard echo",
            "B guard echo",
            "A around echo",
            "B around echo",
            "B around-end echo",
            "A around-end echo",
            "A post echo true",
            "A post-end echo",
            "B post echo true",
            "B post-end echo",
            "A observe echo true",
            "B observe echo true",
        ]
    );
    toolbox.execute(call("nothing", "{}")).await;
    assert_eq!(
        trace.take(),
        [
            "A pre nothing",
            "A pre-end nothing",
            "B pre nothing",
            "B pre-end nothing",
            "A guard nothing",
            "B guard nothing",
            "A observe nothing false",
            "B observe nothing false",
        ],
        "an unknown name passes policy too"
    );
}

#[tokio::test]
async fn a_collapsed_call_asks_nobody() {
    let trace = Arc::new(Trace::default());
    let Rig {
        toolbox,
        registration: _kept,
        ..
    } = rig(
        vec![echo("echo", Effect::Read)],
        FakeRuntime::idle(),
        ToolboxConfig::default(),
    );
    let toolbox = toolbox.with_policies(scripted(&trace, true));
    let result = toolbox.execute(call("echo", r#"{"pre": "ask"}"#)).await;
    assert_eq!(result.error, Some(ErrorCode::UnknownTool));
    assert_eq!(trace.take(), [""; 0]);
}

#[tokio::test]
async fn run_code_itself_can_be_refused_with_its_text_in_view() {
    struct NoLoops;
    #[async_trait]
    impl Policy for NoLoops {
        async fn pre_execute(&self, call: CallView<'_>) -> Result<Verdict, String> {
            let code = call.arguments["code"].as_str().unwrap_or_default();
            Ok(if code.contains("while (true)") {
                Verdict::Deny("no endless loops".to_owned())
            } else {
                Verdict::Allow
            })
        }
    }
    let runtime = FakeRuntime::idle();
    let Rig {
        toolbox,
        registration: _kept,
        ..
    } = rig(vec![], Arc::clone(&runtime) as _, ToolboxConfig::default());
    let toolbox: Toolbox = toolbox.with_policies(vec![Arc::new(NoLoops)]);
    let result = toolbox
        .execute(call("run_code", r#"{"code": "while (true) {}"}"#))
        .await;
    assert_eq!(
        (result.error, text(&result).as_str()),
        (Some(ErrorCode::Denied), "no endless loops")
    );
    assert_eq!(runtime.seen.lock().unwrap().len(), 0);
    assert_eq!(toolbox.execute(run_code()).await.error, None);
}

#[tokio::test]
async fn lanes_never_interleave_although_bodies_overlap() {
    let trace = Arc::new(Trace::default());
    let spans = Spans::default();
    let recorder = Recorder::memory();
    let runtime = FakeRuntime::new(|guest| async move {
        // The later a call is, the sooner its body is done.
        let calls: Vec<_> = (0..4)
            .map(|n| guest.call("t", json!({"ms": 40 - 10 * n})))
            .collect();
        futures_util::future::join_all(calls).await;
        End::Nothing
    });
    let Rig {
        toolbox,
        registration: _kept,
        ..
    } = rig(
        vec![sleeper("t", Effect::Read, &spans)],
        runtime,
        ToolboxConfig::default(),
    );
    let policy = Arc::new(Scripted {
        label: "A",
        trace: Arc::clone(&trace),
        post: true,
    });
    let toolbox = toolbox
        .with_policies(vec![policy])
        .with_recorder(recorder.clone());
    toolbox.run_program(request()).await.unwrap();
    assert!(spans.peak() >= 2, "bodies overlap: {}", spans.peak());
    let lanes = |kind: &str| -> Vec<String> {
        trace
            .0
            .lock()
            .unwrap()
            .iter()
            .filter(|line| line.starts_with(&format!("A {kind}")))
            .cloned()
            .collect()
    };
    assert_eq!(lanes("pre"), ["A pre t", "A pre-end t"].repeat(4));
    assert_eq!(lanes("post"), ["A post t true", "A post-end t"].repeat(4));
    let settled: Vec<_> = dispatch_lines(&recorder)
        .into_iter()
        .filter(|line| line.starts_with("ok"))
        .map(|line| line[..11].to_owned())
        .collect();
    assert_eq!(
        settled,
        ["ok p:code:1", "ok p:code:2", "ok p:code:3", "ok p:code:4"]
    );
}

#[tokio::test]
async fn a_denied_call_is_told_like_any_other() {
    let trace = Arc::new(Trace::default());
    let recorder = Recorder::memory();
    let runtime = FakeRuntime::new(|guest| async move {
        let _ = guest.call("echo", json!({"pre": "deny"})).await;
        End::Nothing
    });
    let Rig {
        toolbox,
        registration: _kept,
        ..
    } = rig(
        vec![echo("echo", Effect::Write)],
        runtime,
        ToolboxConfig::default(),
    );
    let toolbox = toolbox
        .with_policies(scripted(&trace, false))
        .with_recorder(recorder.clone());
    toolbox.run_program(request()).await.unwrap();
    assert_eq!(
        dispatch_lines(&recorder),
        [
            r#"start p:code:1 echo {"pre":"deny"}"#,
            r#"failed p:code:1 [{"type":"text","text":"not today"}]"#,
            "run p ok=true calls=1",
        ]
    );
}
