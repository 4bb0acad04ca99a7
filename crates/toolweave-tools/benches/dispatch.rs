//! What one call through the binding costs: validation, schedule, pipeline, events. No engine in between.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use divan::counter::ItemsCount;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolweave_runtime::{
    BindingCall, CodeRuntime, Isolation, Json, Limits, Misuse, PendingCalls, RunRequest, RunResult,
    SandboxReport, Settled, Usage,
};
use toolweave_session::Recorder;
use toolweave_tools::{
    CallContext, Effect, ProgramRequest, Provider, Registry, Tool, ToolError, ToolOutput, ToolSpec, Toolbox,
    ToolboxConfig,
};

const CALLS: usize = 1_000;

fn main() {
    divan::main();
}

/// 1,000 sequential calls of a tool that is ready at once, nothing recorded.
#[divan::bench]
fn sequential_calls(bencher: divan::Bencher<'_, '_>) {
    run(bencher, Recorder::none);
}

/// The same with every event kept in memory.
#[divan::bench]
fn sequential_calls_recorded(bencher: divan::Bencher<'_, '_>) {
    run(bencher, Recorder::memory);
}

fn run(bencher: divan::Bencher<'_, '_>, recorder: fn() -> Recorder) {
    let registry = Registry::new();
    let tool: Arc<dyn Tool> = Arc::new(Add::new());
    let _kept = registry.register([tool]).expect("one name");
    let toolbox = Toolbox::new(
        registry,
        Some(Arc::new(Calls::default())),
        ToolboxConfig::default(),
    );
    bencher
        .counter(ItemsCount::new(CALLS))
        .with_inputs(|| toolbox.clone().with_recorder(recorder()))
        .bench_values(|toolbox| {
            let request = ProgramRequest {
                code: "return 0".to_owned(),
                description: None,
                call_id: "p".into(),
                cancel: CancellationToken::new(),
                timeout: None,
                observer: None,
            };
            let report = toolbox
                .run_program(request)
                .now_or_never()
                .expect("nothing waits");
            report.expect("a runtime").calls.len()
        });
}

struct Add {
    spec: ToolSpec,
}

impl Add {
    fn new() -> Self {
        let number = json!({"type": "number"});
        Self {
            spec: ToolSpec {
                name: "add".to_owned(),
                title: None,
                description: "Adds two numbers.".to_owned(),
                input_schema: json!({
                    "type": "object",
                    "properties": {"a": number, "b": number},
                    "required": ["a", "b"],
                    "additionalProperties": false,
                }),
                output_schema: Some(json!({
                    "type": "object",
                    "properties": {"sum": number},
                    "required": ["sum"],
                })),
                effect: Effect::Read,
                provider: Provider {
                    name: "bench".into(),
                    version: None,
                },
            },
        }
    }
}

#[async_trait]
impl Tool for Add {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, _: &CallContext, arguments: Value) -> Result<ToolOutput, ToolError> {
        let number = |key: &str| arguments[key].as_f64().unwrap_or_default();
        Ok(ToolOutput::from_value(json!({"sum": number("a") + number("b")})))
    }
}

/// Calls the binding as a thread placement does: each future is polled where the call was made.
#[derive(Default)]
struct Calls {
    limits: Limits,
}

impl CodeRuntime for Calls {
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
        let namespace = &request.namespaces[0];
        let name = namespace.functions.get("add").expect("registered");
        let run_over = CancellationToken::new();
        for number in 0..CALLS {
            let arguments = Json::parse(format!(r#"[{{"a":{number},"b":1}}]"#), 64).expect("JSON");
            let answer = namespace.host.call(BindingCall {
                name: Arc::clone(name),
                arguments,
                run_over: run_over.clone(),
            });
            divan::black_box(answer.now_or_never().expect("ready").expect("adds"));
        }
        let result = RunResult {
            value: None,
            logs: Vec::new(),
            error: None,
            usage: Usage {
                compute: Duration::ZERO,
                wall: Duration::ZERO,
                peak_memory_bytes: None,
                isolation: Isolation::Thread,
                sandbox: SandboxReport::none(),
            },
        };
        let settled = Settled {
            result,
            pending: PendingCalls::default(),
        };
        std::future::ready(Ok(settled)).boxed()
    }

    fn dispose(&self) -> BoxFuture<'_, ()> {
        std::future::ready(()).boxed()
    }
}
