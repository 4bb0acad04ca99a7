//! Runtimes of both placements and a host with a few tools.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use toolweave_quickjs::{Placement, QuickJsConfig, QuickJsRuntime, WorkerConfig};
use toolweave_runtime::{
    Binding, BindingCall, BindingError, BindingFuture, Bindings, CodeRuntime, ErrorClass, Frame,
    FunctionKind, FunctionTable, Json, JsonMode, Limits, Namespace, RunRequest, RunResult, UnknownMembers,
};
use toolweave_sandbox::Requirement;

/// What the suite is about. The files beside this one are also run against another engine, with another `support`.
pub(crate) type Runtime = QuickJsRuntime;

/// The two placements, by name for messages.
pub(crate) const PLACEMENTS: [&str; 2] = ["thread", "worker"];

pub(crate) fn worker() -> WorkerConfig {
    WorkerConfig {
        program: PathBuf::from(env!("CARGO_BIN_EXE_toolweave-quickjs-worker")),
        args: Vec::new(),
        standbys: 2,
        // The suite is about programs; the sandbox has tests of its own.
        requirement: Requirement::Preferred,
    }
}

pub(crate) fn runtime(placement: &str, limits: Limits, json: JsonMode) -> Runtime {
    let placement = match placement {
        "thread" => Placement::Thread,
        "worker" => Placement::Worker(worker()),
        other => panic!("no placement {other}"),
    };
    QuickJsRuntime::new(QuickJsConfig {
        placement,
        limits,
        json,
    })
    .expect("limits in range")
}

/// Returns the runtime with default limits that most tests share.
pub(crate) fn shared(placement: &str) -> &'static QuickJsRuntime {
    static THREAD: OnceLock<QuickJsRuntime> = OnceLock::new();
    static WORKER: OnceLock<QuickJsRuntime> = OnceLock::new();
    let cell = if placement == "thread" { &THREAD } else { &WORKER };
    cell.get_or_init(|| runtime(placement, Limits::default(), JsonMode::Standard))
}

/// The host's side of `tools`.
#[derive(Default)]
pub(crate) struct Host {
    pub(crate) calls: Mutex<Vec<String>>,
    pub(crate) answered: AtomicUsize,
}

impl Bindings for Host {
    fn call(&self, call: BindingCall) -> BindingFuture {
        let text = call.arguments.as_str();
        self.calls
            .lock()
            .expect("unpoisoned")
            .push(format!("{}{text}", call.name));
        let first = match text {
            "[]" => "null".to_owned(),
            text => text[1..text.len() - 1].to_owned(),
        };
        let answer = match &*call.name {
            "fail" => Err("it failed".to_owned()),
            "big" => Ok(format!("\"{}\"", "y".repeat(10_000_000))),
            _ => Ok(first.clone()),
        };
        self.answered.fetch_add(1, Ordering::Relaxed);
        let sleep = (&*call.name == "sleep").then(|| Duration::from_millis(first.parse().unwrap_or(0)));
        Box::pin(async move {
            if let Some(time) = sleep {
                tokio::time::sleep(time).await;
            }
            match answer {
                Ok(text) => Json::parse(text, 20_000).map_err(|error| BindingError {
                    message: error.to_string(),
                }),
                Err(message) => Err(BindingError { message }),
            }
        })
    }

    fn unknown(&self, path: &str) -> BindingError {
        BindingError {
            message: format!("no tool `{path}`; the nearest is `echo`"),
        }
    }
}

pub(crate) fn table() -> Arc<FunctionTable> {
    static TABLE: OnceLock<Arc<FunctionTable>> = OnceLock::new();
    let member = |name: &str, kind, enumerable| Binding {
        name: name.into(),
        kind,
        enumerable,
    };
    Arc::clone(TABLE.get_or_init(|| {
        Arc::new(FunctionTable::new([
            member("echo", FunctionKind::Async, true),
            member("fail", FunctionKind::Async, true),
            member("sleep", FunctionKind::Async, true),
            member("big", FunctionKind::Async, true),
            member("doc-stats", FunctionKind::Async, true),
            member("__proto__", FunctionKind::Async, true),
            member("constructor", FunctionKind::Async, true),
            member("hidden", FunctionKind::Async, false),
            member("ask", FunctionKind::Sync, false),
        ]))
    }))
}

pub(crate) fn namespace(host: Arc<dyn Bindings>) -> Namespace {
    Namespace {
        global: "tools".to_owned(),
        aliases: vec!["sdk".to_owned()],
        functions: table(),
        error_class: Some(ErrorClass {
            name: "ToolCallError".to_owned(),
            member_property: "toolName".to_owned(),
        }),
        unknown: UnknownMembers::Reject,
        host,
    }
}

pub(crate) fn request(program: &str, host: Arc<Host>) -> RunRequest {
    RunRequest {
        program: program.to_owned(),
        namespaces: vec![namespace(host)],
        cancel: CancellationToken::new(),
        timeout: None,
        on_log: None,
    }
}

pub(crate) async fn run_on(runtime: &Runtime, program: &str) -> RunResult {
    runtime
        .run(request(program, Arc::default()))
        .await
        .expect("a good request")
        .result
}

/// Says how a run ended in one line: the value, or the failure.
pub(crate) fn outcome(result: &RunResult) -> String {
    match (&result.value, &result.error) {
        (Some(value), None) => value.as_str().to_owned(),
        (None, None) => "nothing".to_owned(),
        (None, Some(failure)) => {
            let place = failure
                .position
                .map(|at| format!(" at {}:{}", at.line, at.column))
                .unwrap_or_default();
            let name = failure
                .name
                .as_ref()
                .map(|name| format!("{name}: "))
                .unwrap_or_default();
            format!("{}{place}: {name}{}", failure.kind, failure.message)
        }
        (Some(_), Some(_)) => "both a value and an error".to_owned(),
    }
}

/// Runs each program on both placements and compares the outcome and the logs.
pub(crate) async fn check(cases: &[(&str, &str, &[&str])]) {
    let mut wrong = String::new();
    for placement in PLACEMENTS {
        for (program, expected, logs) in cases {
            let result = run_on(shared(placement), program).await;
            let outcome = outcome(&result);
            if outcome != *expected || result.logs != *logs {
                wrong += &format!(
                    "\n{placement}: {program}\n  gave      {outcome} {:?}\n  wanted    {expected} {logs:?}",
                    result.logs
                );
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Returns what the global object holds before namespaces are added.
pub(crate) fn globals() -> Vec<&'static str> {
    toolweave_quickjs::GLOBALS.to_vec()
}

/// Returns frames in the form in which all engines agree about them. Here they are exact.
pub(crate) fn comparable(frames: Vec<Frame>) -> Vec<Frame> {
    frames
}

/// Programs of the stack test that this engine answers without recursion: none.
pub(crate) const NEED_NO_STACK: [&str; 0] = [];
