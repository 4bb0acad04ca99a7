//! What the suite of `toolweave-quickjs` needs to be about this engine: its runtimes, and the differences that are known.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use toolweave_node::{ConfigError, NodeConfig, NodeRuntime};
use toolweave_runtime::{
    Binding, BindingCall, BindingError, BindingFuture, Bindings, CodeRuntime, ErrorClass, Frame,
    FunctionKind, FunctionTable, Json, JsonMode, Limits, Namespace, RunRequest, RunResult, UnknownMembers,
};

use crate::differences::DIFFERENCES;

pub(crate) type Runtime = NodeRuntime;

/// One placement, or none where there is no Node that works.
pub(crate) struct Placements;

pub(crate) const PLACEMENTS: Placements = Placements;

impl IntoIterator for Placements {
    type Item = &'static str;
    type IntoIter = std::option::IntoIter<&'static str>;

    fn into_iter(self) -> Self::IntoIter {
        shared_or_none().map(|_| "v8").into_iter()
    }
}

/// The Node that the environment points at, or the one on the path.
pub(crate) fn config(limits: Limits, json: JsonMode) -> NodeConfig {
    NodeConfig {
        program: std::env::var_os("TOOLWEAVE_TEST_NODE").map(Into::into),
        search_path: std::env::var_os("PATH"),
        limits,
        json,
        ..NodeConfig::default()
    }
}

pub(crate) fn runtime(_placement: &str, limits: Limits, json: JsonMode) -> Runtime {
    NodeRuntime::new(config(limits, json)).expect("the shared one started, so this one does")
}

#[expect(clippy::print_stderr, reason = "a skipped test says why")]
fn shared_or_none() -> Option<&'static Runtime> {
    static SHARED: OnceLock<Option<NodeRuntime>> = OnceLock::new();
    let shared =
        SHARED.get_or_init(
            || match NodeRuntime::new(config(Limits::default(), JsonMode::Standard)) {
                Ok(runtime) => Some(runtime),
                Err(error @ (ConfigError::NotFound { .. } | ConfigError::TooOld { .. })) => {
                    eprintln!("skipped: {error}");
                    None
                }
                Err(error) => panic!("a Node is there and cannot be used: {error}"),
            },
        );
    shared.as_ref()
}

/// Returns the runtime with default limits that most tests share.
pub(crate) fn shared(_placement: &str) -> &'static Runtime {
    shared_or_none().expect("a placement was offered")
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

/// Runs each program and compares the outcome and the logs, but for the differences that are known.
pub(crate) async fn check(cases: &[(&str, &str, &[&str])]) {
    let mut wrong = String::new();
    for placement in PLACEMENTS {
        for (program, expected, logs) in cases {
            let result = run_on(shared(placement), program).await;
            let outcome = outcome(&result);
            let known = DIFFERENCES.iter().find(|(differs, ..)| differs == program);
            let (expected, logs) = known.map_or((*expected, *logs), |(_, expected, logs)| (*expected, *logs));
            if without_column(&outcome) != without_column(expected) || result.logs != logs {
                wrong += &format!(
                    "\n{program}\n  gave      {outcome} {:?}\n  wanted    {expected} {logs:?}",
                    result.logs
                );
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Engines point at different places in a line: at the name, the dot or the parenthesis. The line is what has to agree.
fn without_column(outcome: &str) -> String {
    let place = |text: &str| {
        let (head, rest) = text.split_once(" at ")?;
        let (place, message) = rest.split_once(": ")?;
        let (line, column) = place.split_once(':')?;
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        (digits(line) && digits(column)).then(|| format!("{head} at {line}: {message}"))
    };
    place(outcome).unwrap_or_else(|| outcome.to_owned())
}

/// Returns what the global object holds: what V8 has more than QuickJS, and an old V8 less.
pub(crate) fn globals() -> Vec<&'static str> {
    let major = shared("v8")
        .node()
        .version
        .split('.')
        .next()
        .and_then(|major| major.parse().ok());
    let too_new: &[&str] = match major {
        Some(..=21) => &[
            "AsyncDisposableStack",
            "DisposableStack",
            "Float16Array",
            "Iterator",
            "SuppressedError",
        ],
        Some(22 | 23) => &[
            "AsyncDisposableStack",
            "DisposableStack",
            "Float16Array",
            "SuppressedError",
        ],
        _ => &[],
    };
    let mut names = toolweave_quickjs::GLOBALS.to_vec();
    names.retain(|name| !too_new.contains(name));
    if !names.contains(&"Intl") {
        names.push("Intl");
    }
    names.sort_unstable();
    names
}

/// Returns frames in the form in which all engines agree about them: the columns are an engine's own.
pub(crate) fn comparable(mut frames: Vec<Frame>) -> Vec<Frame> {
    for frame in &mut frames {
        frame.position.column = 0;
    }
    frames
}

/// Programs of the stack test that V8 answers without recursion.
pub(crate) const NEED_NO_STACK: [&str; 1] = ["return JSON.parse('['.repeat(200000))"];
