//! Runs and binding calls on V8. Prints nothing where there is no Node.

#![expect(clippy::unwrap_used, reason = "a bench that fails should stop")]

use std::sync::{Arc, LazyLock};

use divan::Bencher;
use tokio::runtime::Runtime as Executor;
use toolweave_node::{NodeConfig, NodeRuntime};
use toolweave_runtime::{
    Binding, BindingCall, BindingFuture, Bindings, CodeRuntime as _, FunctionKind, FunctionTable, Json,
    Namespace, RunRequest, RunResult, UnknownMembers,
};

fn main() {
    if runtime(0).is_some() {
        divan::main();
    }
}

static EXECUTOR: LazyLock<Executor> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
});

fn runtime(standbys: usize) -> Option<NodeRuntime> {
    NodeRuntime::new(NodeConfig {
        program: std::env::var_os("TOOLWEAVE_TEST_NODE").map(Into::into),
        search_path: std::env::var_os("PATH"),
        standbys,
        ..NodeConfig::default()
    })
    .ok()
}

struct Echo;

impl Bindings for Echo {
    fn call(&self, _: BindingCall) -> BindingFuture {
        Box::pin(std::future::ready(Ok(Json::null())))
    }
}

fn run(runtime: &NodeRuntime, program: &str) -> RunResult {
    let request = RunRequest {
        program: program.to_owned(),
        namespaces: vec![Namespace {
            global: "tools".to_owned(),
            aliases: Vec::new(),
            functions: Arc::new(FunctionTable::new([Binding {
                name: "echo".into(),
                kind: FunctionKind::Async,
                enumerable: true,
            }])),
            error_class: None,
            unknown: UnknownMembers::Undefined,
            host: Arc::new(Echo),
        }],
        cancel: tokio_util::sync::CancellationToken::new(),
        timeout: None,
        on_log: None,
    };
    let settled = EXECUTOR.block_on(runtime.run(request)).unwrap();
    assert_eq!(settled.result.error, None);
    settled.result
}

/// A process stands ready when the run begins; making the next one is not measured.
#[divan::bench(sample_count = 30, sample_size = 1)]
fn run_on_a_standby(bencher: Bencher) {
    let runtime = runtime(1).unwrap();
    bencher
        .with_inputs(|| std::thread::sleep(std::time::Duration::from_millis(250)))
        .bench_local_values(|()| run(&runtime, "return 1"));
}

#[divan::bench(sample_count = 20, sample_size = 1)]
fn run_from_cold(bencher: Bencher) {
    let runtime = runtime(0).unwrap();
    bencher.bench_local(|| run(&runtime, "return 1"));
}

/// A thousand calls, one after the other; divide by as many.
#[divan::bench(sample_count = 20, sample_size = 1)]
fn thousand_calls_in_a_row(bencher: Bencher) {
    let runtime = runtime(1).unwrap();
    bencher
        .with_inputs(|| std::thread::sleep(std::time::Duration::from_millis(250)))
        .bench_local_values(|()| run(&runtime, "for (let i = 0; i < 1000; i++) await tools.echo({ i })"));
}

/// Two thousand calls in flight; divide by as many.
#[divan::bench(sample_count = 20, sample_size = 1)]
fn two_thousand_calls_at_once(bencher: Bencher) {
    let runtime = runtime(1).unwrap();
    bencher
        .with_inputs(|| std::thread::sleep(std::time::Duration::from_millis(250)))
        .bench_local_values(|()| {
            run(
                &runtime,
                "await Promise.all(Array.from({ length: 2000 }, (_, i) => tools.echo({ i })))",
            )
        });
}

/// What V8 is for.
#[divan::bench(sample_count = 10, sample_size = 1)]
fn hundred_million_additions(bencher: Bencher) {
    let runtime = runtime(1).unwrap();
    bencher
        .with_inputs(|| std::thread::sleep(std::time::Duration::from_millis(250)))
        .bench_local_values(|()| {
            run(
                &runtime,
                "let x = 0; for (let i = 0; i < 1e8; i++) x = (x + i) | 0; return x",
            )
        });
}
