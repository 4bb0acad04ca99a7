//! The work that `benches/peers` compares, done by Toolweave: prints one JSON object of medians.
//!
//! `cargo run --release -p toolweave-quickjs --example work -- worker` (or `thread`). Times are in microseconds, memory in KiB.

#![expect(clippy::print_stdout, reason = "an example that prints what it measured")]

mod host;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use host::{Held, Host, ROWS, WORKER, quantile, request, runtime};
use serde_json::json;
use toolweave_quickjs::QuickJsRuntime;
use toolweave_runtime::CodeRuntime as _;

const RUNS: usize = 300;
const CALLS: u32 = 1000;
const TOGETHER: u32 = 2000;
const LARGE: usize = 10;
const SUSTAINED: Duration = Duration::from_secs(2);
const AT_ONCE: usize = 4;
const LIVE: u32 = 50;

fn main() {
    let argument = std::env::args().nth(1).unwrap_or_else(|| "worker".to_owned());
    // Before anything starts a thread.
    if argument == WORKER {
        toolweave_quickjs::worker_main();
    }
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a tokio runtime");
    let figures = tokio.block_on(measure(&argument));
    println!("{figures}");
}

async fn measure(placement: &str) -> serde_json::Value {
    let runtime = runtime(placement);
    let host = Host::new();
    for _ in 0..20 {
        run(&runtime, &host, "return 1 + 1").await;
    }

    let mut fresh = Vec::new();
    for _ in 0..RUNS {
        // As between the calls of a model: whatever is replaced in the background has been.
        tokio::time::sleep(Duration::from_millis(2)).await;
        fresh.push(run(&runtime, &host, "return 1 + 1").await);
    }

    let sequential = format!("for (let i = 0; i < {CALLS}; i++) await tools.echo({{ i }})");
    let together =
        format!("await Promise.all(Array.from({{ length: {TOGETHER} }}, (_, i) => tools.echo({{ i }})))");
    let (mut one_by_one, mut in_flight) = (Vec::new(), Vec::new());
    for _ in 0..10 {
        one_by_one.push(run(&runtime, &host, &sequential).await / f64::from(CALLS));
        in_flight.push(run(&runtime, &host, &together).await / f64::from(TOGETHER));
    }

    let bytes = ROWS.as_str().len();
    let mut large = Vec::new();
    for _ in 0..LARGE {
        large.push(run(&runtime, &host, "return (await tools.rows()).length").await);
    }

    let begin = Instant::now();
    let lanes = (0..AT_ONCE).map(|_| async {
        let mut count = 0_u32;
        while begin.elapsed() < SUSTAINED {
            run(&runtime, &host, "return 1 + 1").await;
            count += 1;
        }
        count
    });
    let count: u32 = join_all(lanes).await.into_iter().sum();
    let per_second = f64::from(count) / begin.elapsed().as_secs_f64();

    json!({
        "placement": placement,
        "freshRun": median(fresh),
        "sequentialCall": median(one_by_one),
        "callInFlight": median(in_flight),
        "largeResult": median(large),
        "largeResultBytes": bytes,
        "runsPerSecond": per_second,
        "memoryPerLiveRun": memory(&runtime).await,
    })
}

/// Runs a program that must succeed and returns how long it took, in microseconds.
async fn run(runtime: &QuickJsRuntime, host: &Arc<Host>, program: &str) -> f64 {
    let request = request(program, host);
    let begin = Instant::now();
    let settled = runtime.run(request).await.expect("a good request");
    let time = begin.elapsed();
    assert_eq!(settled.result.error, None);
    time.as_secs_f64() * 1e6
}

/// Returns the proportional set size that one more live run costs, in KiB.
async fn memory(runtime: &QuickJsRuntime) -> Option<f64> {
    let host = Host::new();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let before = Held::now();
    let runs = (0..LIVE).map(|_| runtime.run(request("await tools.hold(); return 1", &host)));
    let look = async {
        while host.holding() < LIVE as usize {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        let during = Held::now();
        host.let_go();
        during
    };
    let (settled, during) = futures_util::future::join(join_all(runs), look).await;
    for settled in settled {
        assert_eq!(settled.expect("a good request").result.error, None);
    }
    #[expect(clippy::cast_precision_loss, reason = "KiB of one machine")]
    let grown = during.proportional?.saturating_sub(before.proportional?) as f64;
    Some(grown / f64::from(LIVE))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    quantile(&values, 0.5)
}
