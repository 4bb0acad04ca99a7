//! What a run, a call and a large result cost in each placement.
//!
//! `cargo bench -p toolweave-quickjs`; divan's filter picks one, for example `-- worker`.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use divan::Bencher;
use divan::counter::ItemsCount;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use toolweave_quickjs::{Engine, Placement, QuickJsConfig, QuickJsRuntime, WorkerConfig};
use toolweave_runtime::{
    Binding, BindingCall, BindingFuture, Bindings, CodeRuntime as _, ErrorClass, FunctionKind, FunctionTable,
    Json, Namespace, RunRequest, UnknownMembers,
};
use toolweave_sandbox::Requirement;

fn main() {
    divan::main();
}

static TOKIO: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a tokio runtime")
});
static THREAD: LazyLock<QuickJsRuntime> = LazyLock::new(|| runtime(Placement::Thread));
static WORKER: LazyLock<QuickJsRuntime> = LazyLock::new(|| {
    runtime(Placement::Worker(WorkerConfig {
        program: PathBuf::from(env!("CARGO_BIN_EXE_toolweave-quickjs-worker")),
        args: Vec::new(),
        standbys: 4,
        requirement: Requirement::Preferred,
    }))
});
static TOOLS: LazyLock<Arc<FunctionTable>> =
    LazyLock::new(|| table(["echo", "big", "rows"].map(str::to_owned).into()));
static MANY_TOOLS: LazyLock<Arc<FunctionTable>> = LazyLock::new(|| {
    table(
        (0..3000)
            .map(|n| format!("mcp__server_{}__tool_{n}", n % 40))
            .collect(),
    )
});
static BIG: LazyLock<Json> =
    LazyLock::new(|| Json::parse(format!("\"{}\"", "y".repeat(10_000_000)), 10).expect("JSON"));
static ROWS: LazyLock<Json> = LazyLock::new(|| {
    let rows: Vec<String> = (0..100_000)
        .map(|n| format!(r#"{{"id":{n},"name":"row number {n}","tags":["a","b"],"score":{n}.5,"ok":true,"note":"some text"}}"#))
        .collect();
    Json::parse(format!("[{}]", rows.join(",")), 10).expect("JSON")
});

fn runtime(placement: Placement) -> QuickJsRuntime {
    QuickJsRuntime::new(QuickJsConfig {
        placement,
        ..QuickJsConfig::default()
    })
    .expect("default limits")
}

fn table(names: Vec<String>) -> Arc<FunctionTable> {
    Arc::new(FunctionTable::new(names.into_iter().map(|name| Binding {
        name: name.into(),
        kind: FunctionKind::Async,
        enumerable: true,
    })))
}

struct Host;

impl Bindings for Host {
    fn call(&self, call: BindingCall) -> BindingFuture {
        Box::pin(std::future::ready(Ok(match &*call.name {
            "big" => BIG.clone(),
            "rows" => ROWS.clone(),
            _ => Json::null(),
        })))
    }
}

fn request(program: &str, functions: &Arc<FunctionTable>) -> RunRequest {
    RunRequest {
        program: program.to_owned(),
        namespaces: vec![Namespace {
            global: "tools".to_owned(),
            aliases: vec!["sdk".to_owned()],
            functions: Arc::clone(functions),
            error_class: Some(ErrorClass {
                name: "ToolCallError".to_owned(),
                member_property: "toolName".to_owned(),
            }),
            unknown: UnknownMembers::Reject,
            host: Arc::new(Host),
        }],
        cancel: CancellationToken::new(),
        timeout: None,
        on_log: None,
    }
}

fn run(runtime: &QuickJsRuntime, program: &str, functions: &Arc<FunctionTable>) {
    let settled = TOKIO
        .block_on(runtime.run(request(program, functions)))
        .expect("a good request");
    assert_eq!(settled.result.error, None);
}

#[divan::bench]
fn warm_an_engine(bencher: Bencher) {
    bencher.bench_local(|| Engine::warm().expect("an engine"));
}

#[divan::bench(sample_count = 500, args = ["thread", "worker"])]
fn trivial_run(bencher: Bencher, place: &str) {
    let runtime = of(place);
    run(runtime, "return 1", &TOOLS);
    // Standbys are replaced between runs, as they are between the calls of a model.
    bencher
        .with_inputs(|| std::thread::sleep(std::time::Duration::from_millis(2)))
        .bench_local_values(|()| run(runtime, "return 1 + 1", &TOOLS));
}

#[divan::bench(sample_count = 500, args = ["thread", "worker"])]
fn trivial_run_with_3000_tools(bencher: Bencher, place: &str) {
    let runtime = of(place);
    bencher
        .with_inputs(|| std::thread::sleep(std::time::Duration::from_millis(2)))
        .bench_local_values(|()| run(runtime, "return typeof tools.mcp__server_1__tool_1", &MANY_TOOLS));
}

#[divan::bench(sample_count = 20, args = ["thread", "worker"])]
fn runs_back_to_back(bencher: Bencher, place: &str) {
    let runtime = of(place);
    bencher.counter(ItemsCount::new(100_usize)).bench_local(|| {
        TOKIO.block_on(async {
            for _ in 0..25 {
                let runs = (0..4).map(|_| runtime.run(request("return 1 + 1", &TOOLS)));
                for settled in futures_util::future::join_all(runs).await {
                    assert_eq!(settled.expect("a good request").result.error, None);
                }
            }
        });
    });
}

#[divan::bench(sample_count = 20, args = ["thread", "worker"])]
fn sequential_calls(bencher: Bencher, place: &str) {
    let runtime = of(place);
    bencher.counter(ItemsCount::new(1000_usize)).bench_local(|| {
        run(
            runtime,
            "for (let i = 0; i < 1000; i++) await tools.echo({ i })",
            &TOOLS,
        );
    });
}

#[divan::bench(sample_count = 20, args = ["thread", "worker"])]
fn calls_in_flight_together(bencher: Bencher, place: &str) {
    let runtime = of(place);
    bencher.counter(ItemsCount::new(2000_usize)).bench_local(|| {
        run(
            runtime,
            "await Promise.all(Array.from({ length: 2000 }, (_, i) => tools.echo({ i })))",
            &TOOLS,
        );
    });
}

#[divan::bench(sample_count = 10, args = ["thread", "worker"])]
fn ten_megabytes_of_text(bencher: Bencher, place: &str) {
    let runtime = of(place);
    LazyLock::force(&BIG);
    bencher.bench_local(|| run(runtime, "return (await tools.big()).length", &TOOLS));
}

#[divan::bench(sample_count = 10, args = ["thread", "worker"])]
fn ten_megabytes_of_rows(bencher: Bencher, place: &str) {
    let runtime = of(place);
    LazyLock::force(&ROWS);
    bencher.bench_local(|| run(runtime, "return (await tools.rows()).length", &TOOLS));
}

fn of(place: &str) -> &'static QuickJsRuntime {
    if place == "thread" { &THREAD } else { &WORKER }
}
