//! A runtime for tests, and a host whose functions are scripted.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use toolweave_node::{NodeConfig, NodeRuntime};
use toolweave_runtime::{
    Binding, BindingCall, BindingError, BindingFuture, Bindings, CodeRuntime as _, ErrorClass, FunctionKind,
    FunctionTable, Json, Limits, Namespace, RunRequest, RunResult, UnknownMembers,
};

/// Returns the configuration of a test: the Node that the environment points at, or the one on the path.
pub(crate) fn config() -> NodeConfig {
    NodeConfig {
        program: std::env::var_os("TOOLWEAVE_TEST_NODE").map(Into::into),
        search_path: std::env::var_os("PATH"),
        ..NodeConfig::default()
    }
}

#[expect(clippy::print_stderr, reason = "a skipped test says why")]
/// Returns a runtime, or says why the test is skipped.
pub(crate) fn runtime_with(config: NodeConfig) -> Option<NodeRuntime> {
    match NodeRuntime::new(config) {
        Ok(runtime) => Some(runtime),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    }
}

pub(crate) fn runtime(limits: Limits) -> Option<NodeRuntime> {
    runtime_with(NodeConfig { limits, ..config() })
}

/// A host: `echo`, `fail`, `slow`, `never`, and `ask`, which blocks.
#[derive(Default)]
pub(crate) struct Host {
    pub(crate) calls: Mutex<Vec<String>>,
}

impl Bindings for Host {
    fn call(&self, call: BindingCall) -> BindingFuture {
        self.calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(format!("{}{}", call.name, call.arguments.as_str()));
        let text = call.arguments.as_str();
        let first = text[1..text.len() - 1].to_owned();
        let first = if first.is_empty() {
            "null".to_owned()
        } else {
            first
        };
        match &*call.name {
            "fail" => Box::pin(async {
                Err(BindingError {
                    message: "failed as asked".to_owned(),
                })
            }),
            "slow" => Box::pin(async move {
                tokio::time::sleep(Duration::from_millis(first.parse().unwrap_or(300))).await;
                Ok(Json::parse(first, 10).expect("a number"))
            }),
            "never" => Box::pin(std::future::pending()),
            _ => Box::pin(async move { Ok(Json::parse(first, 20_000).expect("JSON")) }),
        }
    }

    fn unknown(&self, path: &str) -> BindingError {
        BindingError {
            message: format!("no such tool: {path}"),
        }
    }
}

pub(crate) fn request(program: &str, host: Arc<Host>) -> RunRequest {
    let shown = ["echo", "fail", "slow", "never", "__proto__", "doc-stats"];
    let functions = shown
        .into_iter()
        .map(|name| (name, FunctionKind::Async, true))
        .chain([
            ("help", FunctionKind::Async, false),
            ("ask", FunctionKind::Sync, false),
        ])
        .map(|(name, kind, enumerable)| Binding {
            name: name.into(),
            kind,
            enumerable,
        });
    RunRequest {
        program: program.to_owned(),
        namespaces: vec![Namespace {
            global: "tools".to_owned(),
            aliases: vec!["sdk".to_owned()],
            functions: Arc::new(FunctionTable::new(functions)),
            error_class: Some(ErrorClass {
                name: "ToolCallError".to_owned(),
                member_property: "toolName".to_owned(),
            }),
            unknown: UnknownMembers::Reject,
            host,
        }],
        cancel: tokio_util::sync::CancellationToken::new(),
        timeout: None,
        on_log: None,
    }
}

pub(crate) async fn run(runtime: &NodeRuntime, program: &str) -> RunResult {
    let settled = runtime
        .run(request(program, Arc::default()))
        .await
        .expect("the request is in order");
    settled.result
}

/// Returns the outcome on one line: the value, or the failure with its place.
pub(crate) fn outcome(result: &RunResult) -> String {
    match (&result.value, &result.error) {
        (Some(value), None) => value.as_str().to_owned(),
        (None, None) => "undefined".to_owned(),
        (_, Some(error)) => {
            let place = error
                .position
                .map(|at| format!(" at {}:{}", at.line, at.column))
                .unwrap_or_default();
            let name = error
                .name
                .as_ref()
                .map(|name| format!("{name}: "))
                .unwrap_or_default();
            format!("{}{place}: {name}{}", error.kind, error.message)
        }
    }
}
