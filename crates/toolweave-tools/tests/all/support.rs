//! Tools made of closures, and a runtime whose programs are closures too.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use toolweave_runtime::json::drop_value;
use toolweave_runtime::{
    BindingCall, BindingError, BindingFuture, CodeRuntime, Failure, FailureKind, Isolation, Json, Limits,
    Misuse, Namespace, PendingCalls, Position, RunRequest, RunResult, SandboxReport, Settled, Usage,
};
use toolweave_tools::{
    CallContext, Content, Effect, ErrorCode, Provider, Registration, Registry, Tool, ToolCall, ToolError,
    ToolOutput, ToolResult, ToolSpec, Toolbox, ToolboxConfig,
};

pub(crate) type Body =
    Arc<dyn Fn(CallContext, Value) -> BoxFuture<'static, Result<ToolOutput, ToolError>> + Send + Sync>;

pub(crate) struct ClosureTool {
    pub(crate) spec: ToolSpec,
    body: Body,
}

#[async_trait]
impl Tool for ClosureTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, context: &CallContext, arguments: Value) -> Result<ToolOutput, ToolError> {
        (self.body)(context.clone(), arguments).await
    }
}

pub(crate) fn spec(name: &str, effect: Effect) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        title: None,
        description: format!("Does {name}."),
        input_schema: json!({"type": "object"}),
        output_schema: None,
        effect,
        provider: Provider {
            name: "test".into(),
            version: None,
        },
    }
}

pub(crate) fn tool<F, R>(spec: ToolSpec, body: F) -> Arc<dyn Tool>
where
    F: Fn(CallContext, Value) -> R + Send + Sync + 'static,
    R: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
{
    Arc::new(ClosureTool {
        spec,
        body: Arc::new(move |context, arguments| body(context, arguments).boxed()),
    })
}

/// Returns its arguments.
pub(crate) fn echo(name: &str, effect: Effect) -> Arc<dyn Tool> {
    tool(spec(name, effect), |_, arguments| async move {
        Ok(ToolOutput::from_value(arguments))
    })
}

/// Waits for `ms`, stops when cancelled, and notes when it ran.
pub(crate) fn sleeper(name: &str, effect: Effect, spans: &Spans) -> Arc<dyn Tool> {
    let spans = spans.clone();
    tool(spec(name, effect), move |context, arguments| {
        let span = spans.enter(&context.call_id);
        async move {
            let ms = arguments["ms"].as_u64().unwrap_or(5);
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(ms)) => {}
                () = context.cancel.cancelled() => return Err(ToolError::failed("stopped")),
            }
            drop(span);
            Ok(ToolOutput::from_value(arguments))
        }
    })
}

/// When bodies ran, and how many at once.
#[derive(Clone, Default)]
pub(crate) struct Spans(Arc<Mutex<SpanState>>);

#[derive(Default)]
struct SpanState {
    now: usize,
    peak: usize,
    order: Vec<String>,
}

pub(crate) struct Span(Spans);

impl Spans {
    pub(crate) fn enter(&self, id: &str) -> Span {
        let mut state = self.0.lock().unwrap();
        state.now += 1;
        state.peak = state.peak.max(state.now);
        state.order.push(id.to_owned());
        Span(self.clone())
    }

    pub(crate) fn peak(&self) -> usize {
        self.0.lock().unwrap().peak
    }

    pub(crate) fn order(&self) -> Vec<String> {
        self.0.lock().unwrap().order.clone()
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        self.0.0.lock().unwrap().now -= 1;
    }
}

/// What a program of the fake runtime ends with.
pub(crate) enum End {
    Nothing,
    Value(Value),
    Throw(&'static str),
    Fail(FailureKind, &'static str),
    Reject(Misuse),
}

type Program = dyn Fn(Guest) -> BoxFuture<'static, End> + Send + Sync;

/// Runs a closure in the place of a program, and calls bindings as an engine would.
pub(crate) struct FakeRuntime {
    limits: Limits,
    program: Box<Program>,
    pub(crate) seen: Mutex<Vec<String>>,
}

/// What a fake program has in its hands.
#[derive(Clone)]
pub(crate) struct Guest {
    namespace: Namespace,
    run_over: CancellationToken,
    calls: mpsc::UnboundedSender<BindingFuture>,
    logs: Arc<Mutex<Vec<String>>>,
    on_log: Option<toolweave_runtime::LogSink>,
}

pub(crate) type Answer = Pin<Box<dyn Future<Output = Result<Value, String>> + Send>>;

impl Guest {
    /// Calls a member with a list of arguments; it is submitted before this returns.
    pub(crate) fn call_list(&self, name: &str, arguments: Value) -> Answer {
        let json = Json::from_value(&arguments, 10_000).unwrap();
        drop_value(arguments);
        let arguments = json;
        let (tell, told) = oneshot::channel();
        let future = match self.namespace.functions.get(name) {
            Some(name) => self.namespace.host.call(BindingCall {
                name: Arc::clone(name),
                arguments,
                run_over: self.run_over.clone(),
            }),
            None => {
                let error = self.namespace.host.unknown(name);
                std::future::ready(Err(error)).boxed()
            }
        };
        let future: BindingFuture = Box::pin(async move {
            let answer = future.await;
            let _ = tell.send(answer.clone());
            answer
        });
        self.calls.send(future).unwrap();
        Box::pin(async move {
            match told.await {
                Ok(Ok(json)) => Ok(json.to_value()),
                Ok(Err(BindingError { message })) => Err(message),
                Err(_) => std::future::pending().await,
            }
        })
    }

    pub(crate) fn call(&self, name: &str, argument: Value) -> Answer {
        self.call_list(name, Value::Array(vec![argument]))
    }

    pub(crate) fn log(&self, entry: &str) {
        self.logs.lock().unwrap().push(entry.to_owned());
        if let Some(on_log) = &self.on_log {
            on_log(entry);
        }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.namespace.functions.get(name).is_some()
    }
}

impl FakeRuntime {
    pub(crate) fn new<F, R>(program: F) -> Arc<Self>
    where
        F: Fn(Guest) -> R + Send + Sync + 'static,
        R: Future<Output = End> + Send + 'static,
    {
        Arc::new(Self {
            limits: Limits::default(),
            program: Box::new(move |guest| program(guest).boxed()),
            seen: Mutex::default(),
        })
    }

    pub(crate) fn idle() -> Arc<Self> {
        Self::new(|_| async { End::Nothing })
    }
}

impl CodeRuntime for FakeRuntime {
    fn language(&self) -> &'static str {
        "typescript"
    }

    fn isolation(&self) -> Isolation {
        Isolation::Thread
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn run(&self, request: RunRequest) -> BoxFuture<'_, Result<Settled, Misuse>> {
        self.seen.lock().unwrap().push(request.program.clone());
        async move {
            request.check()?;
            let started = Instant::now();
            let run_over = CancellationToken::new();
            let _over = run_over.clone().drop_guard();
            let logs = Arc::new(Mutex::new(Vec::new()));
            let (calls, mut submitted) = mpsc::unbounded_channel();
            let guest = Guest {
                namespace: request.namespaces[0].clone(),
                run_over: run_over.clone(),
                calls,
                logs: Arc::clone(&logs),
                on_log: request.on_log.clone(),
            };
            let mut program = (self.program)(guest);
            let mut in_flight: FuturesUnordered<BindingFuture> = FuturesUnordered::new();
            let end = loop {
                tokio::select! {
                    biased;
                    () = request.cancel.cancelled() => break End::Fail(FailureKind::Abort, "the run was cancelled"),
                    Some(call) = submitted.recv() => in_flight.push(call),
                    Some(_) = in_flight.next() => {}
                    end = &mut program => break end,
                }
            };
            drop(program);
            while let Ok(call) = submitted.try_recv() {
                in_flight.push(call);
            }
            let failure = |kind, name: Option<&str>, message: &str| Failure {
                kind,
                name: name.map(str::to_owned),
                message: message.to_owned(),
                position: (kind == FailureKind::Exception).then_some(Position { line: 1, column: 1 }),
                stack: vec![],
            };
            let (value, error) = match end {
                End::Nothing => (None, None),
                End::Value(value) => {
                    let json = Json::from_value(&value, 10_000).unwrap();
                    drop_value(value);
                    (Some(json), None)
                }
                End::Throw(message) => (None, Some(failure(FailureKind::Exception, Some("Error"), message))),
                End::Fail(kind, message) => (None, Some(failure(kind, None, message))),
                End::Reject(misuse) => return Err(misuse),
            };
            let result = RunResult {
                value,
                logs: logs.lock().unwrap().clone(),
                error,
                usage: Usage {
                    compute: Duration::ZERO,
                    wall: started.elapsed(),
                    peak_memory_bytes: None,
                    isolation: Isolation::Thread,
                    sandbox: SandboxReport::none(),
                },
            };
            Ok(Settled { result, pending: PendingCalls::new(in_flight) })
        }
        .boxed()
    }

    fn dispose(&self) -> BoxFuture<'_, ()> {
        std::future::ready(()).boxed()
    }
}

/// A registry with tools, its registration, and a toolbox over a fake program.
pub(crate) struct Rig {
    pub(crate) registry: Registry,
    pub(crate) registration: Registration,
    pub(crate) toolbox: Toolbox,
}

pub(crate) fn rig(tools: Vec<Arc<dyn Tool>>, runtime: Arc<dyn CodeRuntime>, config: ToolboxConfig) -> Rig {
    let registry = Registry::new();
    let registration = registry.register(tools).unwrap();
    let toolbox = Toolbox::new(registry.clone(), Some(runtime), config);
    Rig {
        registry,
        registration,
        toolbox,
    }
}

pub(crate) fn call(name: &str, arguments: &str) -> ToolCall {
    ToolCall {
        id: "call-1".into(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
        cancel: CancellationToken::new(),
        progress: None,
        observer: None,
    }
}

/// The call of `run_code` that runs the fake program.
pub(crate) fn run_code() -> ToolCall {
    call("run_code", r#"{"description":"test","code":"return 0"}"#)
}

/// All text of a result.
pub(crate) fn text(result: &ToolResult) -> String {
    let blocks: Vec<_> = result
        .content
        .iter()
        .map(|block| match block {
            Content::Text(text) => text.clone(),
            Content::Image { mime_type, .. } => format!("<{mime_type}>"),
            Content::Other { .. } => "<other>".to_owned(),
        })
        .collect();
    blocks.join("\n---\n")
}

pub(crate) fn failure(result: &ToolResult) -> (Option<ErrorCode>, String) {
    (result.error, text(result))
}
