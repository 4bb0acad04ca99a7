//! Sub-calls of a program: order, overlap, events, failure, and the end of the run.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolweave_runtime::{FailureKind, Misuse};
use toolweave_session::{Event, Recorder};
use toolweave_tools::{
    Content, Effect, ErrorCode, OutputCheck, ProgramRequest, Registry, RunEvent, RunObserver, ToolCall,
    ToolError, ToolOutput, Toolbox, ToolboxConfig,
};

use crate::support::{
    End, FakeRuntime, Guest, Rig, Spans, call, echo, rig, run_code, sleeper, spec, text, tool,
};

fn program<F, R>(program: F) -> Arc<FakeRuntime>
where
    F: Fn(Guest) -> R + Send + Sync + 'static,
    R: Future<Output = End> + Send + 'static,
{
    FakeRuntime::new(program)
}

pub(crate) fn request() -> ProgramRequest {
    ProgramRequest {
        code: "return 0".to_owned(),
        description: None,
        call_id: "p".into(),
        cancel: CancellationToken::new(),
        timeout: None,
        observer: None,
    }
}

/// The dispatch events of a log in one line each.
pub(crate) fn dispatch_lines(recorder: &Recorder) -> Vec<String> {
    recorder
        .records()
        .unwrap()
        .into_iter()
        .filter_map(|record| match record.event {
            Event::CodeDispatchStart(e) => {
                Some(format!("start {} {} {}", e.sub_call_id, e.name, e.arguments))
            }
            Event::CodeDispatch(e) => {
                let how = if e.is_error { "failed" } else { "ok" };
                Some(format!("{how} {} {}", e.sub_call_id, e.content))
            }
            Event::ToolCall(e) => Some(format!("call {} {}", e.call_id, e.name)),
            Event::ToolResult(e) => Some(format!("result {} {:?}", e.call_id, e.code)),
            Event::ProgramRun(e) => Some(format!("run {} ok={} calls={}", e.call_id, e.ok, e.calls)),
            _ => None,
        })
        .collect()
}

#[tokio::test]
async fn safe_calls_overlap_and_exclusive_calls_run_alone_in_order() {
    for (effect, limit, peak) in [
        (Effect::Read, 10, 6),
        (Effect::Read, 3, 3),
        (Effect::Read, 1, 1),
        (Effect::Write, 10, 1),
        (Effect::Destructive, 10, 1),
        (Effect::Unknown, 10, 1),
    ] {
        let spans = Spans::default();
        let config = ToolboxConfig {
            max_parallel_sub_calls: limit,
            ..ToolboxConfig::default()
        };
        let runtime = program(|guest| async move {
            let calls: Vec<_> = (0..6)
                .map(|n| guest.call("t", json!({"n": n, "ms": 20})))
                .collect();
            End::Value(json!(
                futures_util::future::join_all(calls)
                    .await
                    .into_iter()
                    .map(Result::unwrap)
                    .collect::<Vec<_>>()
            ))
        });
        let rig = rig(vec![sleeper("t", effect, &spans)], runtime, config);
        let report = rig.toolbox.run_program(request()).await.unwrap();
        assert_eq!(report.error, None);
        assert_eq!(spans.peak(), peak, "{effect:?} {limit}");
        let ids: Vec<_> = (1..=6).map(|n| format!("p:code:{n}")).collect();
        assert_eq!(spans.order(), ids);
        assert_eq!(
            report
                .calls
                .iter()
                .map(|call| call.id.to_string())
                .collect::<Vec<_>>(),
            ids
        );
    }
}

#[tokio::test]
async fn a_fast_safe_call_does_not_wait_for_a_slow_one() {
    let spans = Spans::default();
    let recorder = Recorder::memory();
    let runtime = program(|guest| async move {
        let mut slow = guest.call("t", json!({"ms": 300, "who": "slow"}));
        let fast = guest.call("t", json!({"ms": 1, "who": "fast"}));
        tokio::select! {
            winner = &mut slow => End::Value(winner.unwrap()["who"].clone()),
            winner = fast => End::Value(winner.unwrap()["who"].clone()),
        }
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
    let toolbox = toolbox.with_recorder(recorder.clone());
    let started = Instant::now();
    let report = toolbox.run_program(request()).await.unwrap();
    assert_eq!(report.result.unwrap().as_str(), "\"fast\"");
    assert!(
        started.elapsed() < Duration::from_millis(250),
        "the slow call is cancelled"
    );
    assert_eq!(
        dispatch_lines(&recorder),
        [
            r#"start p:code:1 t {"ms":300,"who":"slow"}"#,
            r#"start p:code:2 t {"ms":1,"who":"fast"}"#,
            r#"failed p:code:1 [{"type":"text","text":"stopped"}]"#,
            r#"ok p:code:2 [{"type":"text","text":"{\"ms\":1,\"who\":\"fast\"}"}]"#,
            "run p ok=true calls=2",
        ]
    );
}

#[tokio::test]
async fn an_exclusive_call_is_a_barrier() {
    let spans = Spans::default();
    let recorder = Recorder::memory();
    let runtime = program(|guest| async move {
        let calls = [
            guest.call("r", json!({"ms": 30})),
            guest.call("r", json!({"ms": 10})),
            guest.call("w", json!({"ms": 5})),
            guest.call("r", json!({"ms": 1})),
        ];
        futures_util::future::join_all(calls).await;
        End::Nothing
    });
    let tools = vec![
        sleeper("r", Effect::Read, &spans),
        sleeper("w", Effect::Write, &spans),
    ];
    let Rig {
        toolbox,
        registration: _kept,
        ..
    } = rig(tools, runtime, ToolboxConfig::default());
    toolbox
        .with_recorder(recorder.clone())
        .run_program(request())
        .await
        .unwrap();
    let order: Vec<_> = dispatch_lines(&recorder)
        .iter()
        .map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        order,
        [
            "start p:code:1",
            "start p:code:2",
            "ok p:code:1",
            "ok p:code:2",
            "start p:code:3",
            "ok p:code:3",
            "start p:code:4",
            "ok p:code:4",
            "run p",
        ]
    );
}

#[tokio::test]
async fn when_the_program_ends_calls_in_flight_are_cancelled_and_queued_ones_never_start() {
    let spans = Spans::default();
    let recorder = Recorder::memory();
    let runtime = program(|guest| async move {
        let _running = guest.call("w", json!({"ms": 60_000, "n": 1}));
        let _queued = guest.call("w", json!({"n": 2}));
        tokio::time::sleep(Duration::from_millis(30)).await;
        End::Value(json!(1))
    });
    let Rig {
        toolbox,
        registration: _kept,
        ..
    } = rig(
        vec![sleeper("w", Effect::Write, &spans)],
        runtime,
        ToolboxConfig::default(),
    );
    let result = toolbox.with_recorder(recorder.clone()).execute(run_code()).await;
    assert_eq!((result.error, text(&result).as_str()), (None, "1"));
    assert_eq!(
        dispatch_lines(&recorder),
        [
            "call call-1 run_code",
            r#"start call-1:code:1 w {"ms":60000,"n":1}"#,
            r#"failed call-1:code:1 [{"type":"text","text":"stopped"}]"#,
            "run call-1 ok=true calls=1",
            "result call-1 None",
        ]
    );
}

#[tokio::test]
async fn a_call_that_ignores_its_cancellation_is_dropped_after_a_while() {
    let recorder = Recorder::memory();
    let runtime = program(|guest| async move {
        let _running = guest.call("deaf", json!({}));
        tokio::time::sleep(Duration::from_millis(5)).await;
        End::Nothing
    });
    let deaf = tool(spec("deaf", Effect::Write), |_, _| async {
        std::future::pending::<()>().await;
        Ok(ToolOutput::from_value(Value::Null))
    });
    let Rig {
        toolbox,
        registration: _kept,
        ..
    } = rig(vec![deaf], runtime, ToolboxConfig::default());
    let report = toolbox
        .with_recorder(recorder.clone())
        .run_program(request())
        .await
        .unwrap();
    assert_eq!(report.error, None);
    assert_eq!(
        report.calls[0].error.as_deref(),
        Some("`deaf` was cancelled while it ran and did not stop in time")
    );
    assert_eq!(dispatch_lines(&recorder).len(), 3);
}

#[tokio::test]
async fn dropping_a_run_settles_what_had_started() {
    let spans = Spans::default();
    let recorder = Recorder::memory();
    let runtime = program(|guest| async move {
        guest.call("w", json!({"ms": 60_000})).await.unwrap();
        End::Nothing
    });
    let Rig {
        toolbox,
        registration: _kept,
        ..
    } = rig(
        vec![sleeper("w", Effect::Write, &spans)],
        runtime,
        ToolboxConfig::default(),
    );
    let toolbox = toolbox.with_recorder(recorder.clone());
    let run = tokio::time::timeout(Duration::from_millis(30), toolbox.run_program(request())).await;
    assert!(run.is_err());
    let lines = dispatch_lines(&recorder);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[1].starts_with("failed p:code:1"), "{lines:?}");
}

#[tokio::test]
async fn a_failure_rejects_one_call_only() {
    let runtime = program(|guest| async move {
        let calls = ["fine", "fails", "panics", "slow", "fine"].map(|name| guest.call(name, json!({})));
        let answers = futures_util::future::join_all(calls).await;
        End::Value(json!(
            answers
                .into_iter()
                .map(|a| a.unwrap_or_else(Value::String))
                .collect::<Vec<_>>()
        ))
    });
    let tools = vec![
        echo("fine", Effect::Read),
        tool(spec("fails", Effect::Read), |_, _| async {
            Err(ToolError::failed("no such thing"))
        }),
        tool(spec("panics", Effect::Read), |_, _| async {
            panic!("a bug in a tool")
        }),
        tool(spec("slow", Effect::Read), |context, _| async move {
            context.cancel.cancelled().await;
            Err(ToolError::failed("stopped"))
        }),
    ];
    let config = ToolboxConfig {
        call_timeout: Duration::from_millis(30),
        ..ToolboxConfig::default()
    };
    let rig = rig(tools, runtime, config);
    let report = rig.toolbox.run_program(request()).await.unwrap();
    assert_eq!(
        report.result.unwrap().to_value(),
        json!([
            {},
            "no such thing",
            "`panics` crashed",
            "`slow` did not answer within 30ms; it was cancelled and may have done part of its work",
            {}
        ])
    );
}

#[tokio::test]
async fn waiting_in_the_queue_is_not_charged_to_a_call() {
    let spans = Spans::default();
    let runtime = program(|guest| async move {
        let calls: Vec<_> = (0..5).map(|_| guest.call("w", json!({"ms": 40}))).collect();
        let answers = futures_util::future::join_all(calls).await;
        End::Value(json!(answers.iter().filter(|a| a.is_ok()).count()))
    });
    let config = ToolboxConfig {
        call_timeout: Duration::from_millis(150),
        ..ToolboxConfig::default()
    };
    let rig = rig(vec![sleeper("w", Effect::Write, &spans)], runtime, config);
    let report = rig.toolbox.run_program(request()).await.unwrap();
    assert_eq!(report.result.unwrap().as_str(), "5");
}

#[tokio::test]
async fn a_tool_that_went_away_or_changed_while_a_call_waited() {
    let spans = Spans::default();
    let registry = Registry::new();
    let kept = registry.register([sleeper("w", Effect::Write, &spans)]).unwrap();
    let gone = Arc::new(Mutex::new(Some(
        registry.register([echo("gone", Effect::Write)]).unwrap(),
    )));
    let recorder = Recorder::memory();
    let runtime = {
        let gone = Arc::clone(&gone);
        program(move |guest| {
            let gone = Arc::clone(&gone);
            async move {
                let first = guest.call("w", json!({"ms": 20}));
                let second = guest.call("gone", json!({}));
                drop(gone.lock().unwrap().take());
                first.await.unwrap();
                let late = guest.call("gone", json!({})).await;
                End::Value(json!([second.await.unwrap_err(), late.unwrap_err()]))
            }
        })
    };
    let toolbox = Toolbox::new(registry.clone(), Some(runtime), ToolboxConfig::default())
        .with_recorder(recorder.clone());
    let report = toolbox.run_program(request()).await.unwrap();
    let answers = report.result.unwrap().to_value();
    for answer in answers.as_array().unwrap() {
        assert!(
            answer
                .as_str()
                .unwrap()
                .starts_with("the tool `gone` is no longer there"),
            "{answer}"
        );
    }
    assert_eq!(
        dispatch_lines(&recorder).len(),
        3,
        "nothing is logged about calls that never started"
    );
    drop(kept);
}

#[tokio::test]
async fn a_cancelled_run_says_so_and_a_cancelled_success_is_discarded() {
    let spans = Spans::default();
    let runtime = program(|guest| async move {
        guest.call("w", json!({"ms": 60_000})).await.unwrap();
        End::Nothing
    });
    let toolbox = rig(
        vec![sleeper("w", Effect::Write, &spans)],
        runtime,
        ToolboxConfig::default(),
    );
    let request = run_code();
    let cancel = request.cancel.clone();
    let cancelling = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        cancel.cancel();
    };
    let (result, ()) = tokio::join!(toolbox.toolbox.execute(request), cancelling);
    assert_eq!(result.error, Some(ErrorCode::CodeRunFailed));
    assert!(
        text(&result).starts_with("code run failed (abort): the run was cancelled"),
        "{}",
        text(&result)
    );
    assert!(
        text(&result).contains("already done, and not undone: w [write, failed]"),
        "{}",
        text(&result)
    );

    let request = run_code();
    let cancel = request.cancel.clone();
    let runtime = program(move |_| {
        let cancel = cancel.clone();
        async move {
            cancel.cancel();
            End::Value(json!(1))
        }
    });
    let toolbox = rig(vec![], runtime, ToolboxConfig::default());
    let result = toolbox.toolbox.execute(request).await;
    assert_eq!(result.error, Some(ErrorCode::Aborted));

    let cancelled = run_code();
    cancelled.cancel.cancel();
    let runtime = FakeRuntime::idle();
    let toolbox = rig(vec![], Arc::clone(&runtime) as _, ToolboxConfig::default());
    let result = toolbox.toolbox.execute(cancelled).await;
    assert_eq!(result.error, Some(ErrorCode::AbortedBeforeDispatch));
    assert_eq!(
        runtime.seen.lock().unwrap().len(),
        0,
        "the program never reached the runtime"
    );
}

#[tokio::test]
async fn a_runtime_that_refuses_is_an_ordinary_failure() {
    for (misuse, kind) in [
        (Misuse::Disposed, FailureKind::Abort),
        (
            Misuse::ReservedGlobal("console".to_owned()),
            FailureKind::Protocol,
        ),
    ] {
        let runtime = {
            let misuse = misuse.clone();
            program(move |_| std::future::ready(End::Reject(misuse.clone())))
        };
        let rig = rig(vec![], runtime, ToolboxConfig::default());
        let report = rig.toolbox.run_program(request()).await.unwrap();
        assert_eq!(
            report.error.map(|error| (error.kind, error.message)),
            Some((kind, misuse.to_string()))
        );
        let result = rig.toolbox.execute(run_code()).await;
        assert_eq!(result.error, Some(ErrorCode::CodeRunFailed));
    }
}

#[tokio::test]
async fn results_are_checked_before_anybody_sees_them() {
    let runtime = program(|guest| async move {
        let answer = |answer: Result<Value, String>| answer.unwrap_or_else(Value::String);
        End::Value(json!([
            answer(guest.call("good", json!({})).await),
            answer(guest.call("bad", json!({})).await),
            answer(guest.call("lossy", json!({})).await),
        ]))
    });
    let schema = json!({"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]});
    let returning = |name: &str, value: Value| {
        let spec = toolweave_tools::ToolSpec {
            output_schema: Some(schema.clone()),
            ..spec(name, Effect::Read)
        };
        tool(spec, move |_, _| {
            std::future::ready(Ok(ToolOutput::from_value(value.clone())))
        })
    };
    let tools = || {
        vec![
            returning("good", json!({"n": 1, "extra": true})),
            returning("bad", json!({"n": "x"})),
            returning(
                "lossy",
                serde_json::from_str(r#"{"n": 9007199254740993}"#).unwrap(),
            ),
        ]
    };
    let bad =
        "the result of `bad` does not match its output schema: `n` must be a number, got the string \"x\"";
    let lossy = "the result of `lossy` cannot be handed on without loss: the number 9007199254740993 at $.n cannot be held exactly by a JavaScript number";
    for (check, second, warnings) in [
        (
            OutputCheck::Enforce,
            json!(format!("{bad}\nit was: {{\"n\":\"x\"}}")),
            vec![],
        ),
        (OutputCheck::Warn, json!({"n": "x"}), vec![bad.to_owned()]),
        (OutputCheck::Off, json!({"n": "x"}), vec![]),
    ] {
        let registry = Registry::new();
        let _kept = registry.register_with(tools(), check).unwrap();
        let toolbox = Toolbox::new(registry, Some(runtime.clone()), ToolboxConfig::default());
        let report = toolbox.run_program(request()).await.unwrap();
        assert_eq!(
            report.result.unwrap().to_value(),
            json!([{"n": 1, "extra": true}, second, lossy]),
            "{check:?}"
        );
        assert_eq!(report.warnings, warnings);
    }
}

#[tokio::test]
async fn deep_values_go_through() {
    let nest = |levels: usize| {
        let text = "[".repeat(levels) + &"]".repeat(levels);
        toolweave_runtime::Json::parse(text, 10_000).unwrap().to_value()
    };
    let recorder = Recorder::memory();
    let runtime = program(move |guest| async move {
        let argument = json!({"v": null});
        let mut argument = argument;
        argument["v"] = nest(5_000);
        let answer = guest.call("echo", argument).await.unwrap();
        End::Value(answer)
    });
    let Rig {
        toolbox,
        registration: _kept,
        ..
    } = rig(
        vec![echo("echo", Effect::Read)],
        runtime,
        ToolboxConfig::default(),
    );
    let report = toolbox
        .with_recorder(recorder.clone())
        .run_program(request())
        .await
        .unwrap();
    assert_eq!(report.result.unwrap().depth(), 5_001);
    assert_eq!(dispatch_lines(&recorder).len(), 3);
}

#[tokio::test]
async fn images_follow_the_result_in_order() {
    let image = |n: u8| Content::Image {
        data: format!("AAA{n}"),
        mime_type: "image/png".to_owned(),
    };
    let runtime = program(|guest| async move {
        let calls = [
            guest.call("shot", json!({"n": 1})),
            guest.call("plain", json!({})),
            guest.call("shot", json!({"n": 2})),
        ];
        futures_util::future::join_all(calls).await;
        End::Value(json!("done"))
    });
    let shot = tool(spec("shot", Effect::Read), move |_, arguments| async move {
        let n = arguments["n"].as_u64().unwrap() as u8;
        Ok(ToolOutput {
            value: json!({"shown": n}),
            content: vec![Content::Text(format!("shot {n}")), image(n)],
        })
    });
    let rig = rig(
        vec![shot, echo("plain", Effect::Read)],
        runtime,
        ToolboxConfig::default(),
    );
    let result = rig.toolbox.execute(run_code()).await;
    let from = || Content::Text("[from shot]".to_owned());
    assert_eq!(
        result.content,
        [
            Content::Text("done".to_owned()),
            from(),
            Content::Text("shot 1".to_owned()),
            image(1),
            from(),
            Content::Text("shot 2".to_owned()),
            image(2),
        ]
    );
}

#[tokio::test]
async fn an_observer_sees_calls_and_logs_as_they_happen_and_may_crash() {
    struct Seen(Mutex<Vec<String>>);
    impl RunObserver for Seen {
        fn on_event(&self, event: RunEvent) {
            self.0.lock().unwrap().push(match event {
                RunEvent::CallStarted {
                    id,
                    name,
                    arguments,
                    effect,
                } => format!("start {id} {name} {arguments} {effect:?}"),
                RunEvent::CallSettled { record, result_bytes } => {
                    format!("settled {} {} {result_bytes}", record.id, record.ok)
                }
                RunEvent::Log { entry } => format!("log {entry}"),
            });
            panic!("an observer with a bug");
        }
    }
    let seen = Arc::new(Seen(Mutex::default()));
    let runtime = program(|guest| async move {
        guest.log("one");
        guest.call("echo", json!({"a": 1})).await.unwrap();
        guest.log("two");
        End::Nothing
    });
    let rig = rig(
        vec![echo("echo", Effect::Read)],
        runtime,
        ToolboxConfig::default(),
    );
    let observer: Arc<dyn RunObserver> = Arc::clone(&seen) as _;
    let report = rig
        .toolbox
        .run_program(ProgramRequest {
            observer: Some(observer),
            ..request()
        })
        .await
        .unwrap();
    assert_eq!(
        (report.error, report.logs),
        (None, vec!["one".to_owned(), "two".to_owned()])
    );
    assert_eq!(
        *seen.0.lock().unwrap(),
        [
            "log one",
            "start p:code:1 echo {\"a\":1} Read",
            "settled p:code:1 true 7",
            "log two"
        ]
    );
}

#[tokio::test]
async fn discovery_works_from_inside_a_program() {
    let runtime = program(|guest| async move {
        End::Value(json!([
            guest.call_list("list", json!([])).await.unwrap(),
            guest.call_list("$list", json!(["zet"])).await.unwrap_err(),
            guest
                .call_list("search", json!(["alpha", {"limit": 1}]))
                .await
                .unwrap()[0]["name"],
            guest
                .call_list("help", json!(["alpha"]))
                .await
                .unwrap()
                .as_str()
                .unwrap()
                .contains("effect: read"),
            guest.call_list("help", json!(["alpa"])).await.unwrap_err(),
            guest
                .call_list("$call", json!(["alpha", {"x": 1}]))
                .await
                .unwrap(),
            guest
                .call_list("$call", json!(["run_code", {}]))
                .await
                .unwrap_err(),
            guest.call_list("run_code", json!([{}])).await.unwrap_err(),
            guest.call_list("search", json!([])).await.unwrap_err(),
        ]))
    });
    let rig = rig(
        vec![echo("alpha", Effect::Read), echo("zeta", Effect::Read)],
        runtime,
        ToolboxConfig::default(),
    );
    let report = rig.toolbox.run_program(request()).await.unwrap();
    assert_eq!(
        report.result.unwrap().to_value(),
        json!([
            ["alpha", "zeta"],
            "tools.list takes no arguments; filter the names that it gives",
            "alpha",
            true,
            "unknown tool `alpa`; closest: `alpha`",
            {"x": 1},
            "a program cannot call `run_code`; write the code where you are",
            "a program cannot call `run_code`; write the code where you are",
            "tools.search takes text and optionally { limit }",
        ])
    );
    assert_eq!(report.calls.len(), 1, "discovery is no sub-call");
}

#[tokio::test]
async fn tools_with_awkward_names_stay_reachable() {
    let names = [
        "list",
        "search",
        "then",
        "$call",
        "__proto__",
        "constructor",
        "my-tool.x",
    ];
    let runtime = program(|guest| async move {
        let bound: Vec<_> = [
            "list",
            "search",
            "help",
            "then",
            "$call",
            "$list",
            "__proto__",
            "my-tool.x",
            "run_code",
        ]
        .into_iter()
        .filter(|name| guest.has(name))
        .collect();
        let mut answers = Vec::new();
        for name in ["list", "search", "__proto__", "constructor", "my-tool.x"] {
            answers.push(guest.call(name, json!({"v": 1})).await.unwrap());
        }
        for name in ["then", "$call"] {
            answers.push(guest.call_list("$call", json!([name, {"v": 1}])).await.unwrap());
        }
        let listed = guest
            .call_list("$list", json!([]))
            .await
            .unwrap()
            .as_array()
            .unwrap()
            .len();
        End::Value(json!([
            bound,
            answers.iter().all(|answer| answer == &json!({"v": 1})),
            listed
        ]))
    });
    let rig = rig(
        names.map(|name| echo(name, Effect::Read)).to_vec(),
        runtime,
        ToolboxConfig::default(),
    );
    let report = rig.toolbox.run_program(request()).await.unwrap();
    assert_eq!(
        report.result.unwrap().to_value(),
        json!([
            [
                "list",
                "search",
                "help",
                "$call",
                "$list",
                "__proto__",
                "my-tool.x"
            ],
            true,
            7
        ])
    );
    let sdk = rig.toolbox.present().unwrap().sdk.unwrap().text;
    assert!(
        sdk.contains("Call `$call`, `then` as `tools.$call(\"name\", { ... })`"),
        "{sdk}"
    );
    assert!(sdk.contains("`list`, `search` here are ordinary tools"), "{sdk}");
}

#[tokio::test]
async fn a_direct_call_goes_the_same_way() {
    let tools = vec![
        echo("echo", Effect::Read),
        tool(spec("fails", Effect::Read), |_, _| async {
            Err(ToolError {
                content: vec![Content::Text("whole text".to_owned())],
                ..ToolError::failed("text")
            })
        }),
    ];
    let config = ToolboxConfig {
        mode: toolweave_tools::Mode::Both,
        max_inline_bytes: 300,
        ..ToolboxConfig::default()
    };
    let rig = rig(tools, FakeRuntime::idle(), config);
    let result = rig
        .toolbox
        .execute(call("echo", r#"{"id": 9007199254740991}"#))
        .await;
    assert_eq!(result.structured, Some(json!({"id": 9_007_199_254_740_991_u64})));
    assert_eq!(text(&result), r#"{"id":9007199254740991}"#);
    let result = rig.toolbox.execute(call("fails", "")).await;
    assert_eq!(
        (result.error, text(&result).as_str()),
        (Some(ErrorCode::ToolFailed), "whole text")
    );
    let long = json!({"t": "x".repeat(1000)}).to_string();
    let result = rig.toolbox.execute(call("echo", &long)).await;
    assert!(
        text(&result).len() <= 300 && text(&result).contains("preview"),
        "{}",
        text(&result)
    );
    let cancelled = ToolCall {
        cancel: CancellationToken::new(),
        ..call("echo", "{}")
    };
    cancelled.cancel.cancel();
    assert_eq!(
        rig.toolbox.execute(cancelled).await.error,
        Some(ErrorCode::AbortedBeforeDispatch)
    );
}
