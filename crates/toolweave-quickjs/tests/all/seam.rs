//! The code-runtime seam: misuse, cancellation, calls left in flight, disposal, reports.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use toolweave_quickjs::{ConfigError, Placement, QuickJsConfig, QuickJsRuntime, WorkerConfig};
use toolweave_runtime::{CodeRuntime as _, FailureKind, Isolation, JsonMode, Limits, Misuse, SandboxState};

use crate::support::{Host, PLACEMENTS, namespace, outcome, request, run_on, runtime, shared, worker};

#[tokio::test]
async fn misuse_is_refused_before_anything_starts() {
    for placement in PLACEMENTS {
        let runtime = shared(placement);
        let host = Arc::new(Host::default());
        let mut twice = request("return 1", Arc::clone(&host));
        twice.namespaces.push(namespace(Arc::clone(&host) as _));
        assert_eq!(
            runtime.run(twice).await.err(),
            Some(Misuse::DuplicateGlobal("tools".to_owned())),
            "{placement}"
        );
        let mut reserved = request("return 1", host);
        reserved.namespaces[0].global = "console".to_owned();
        assert_eq!(
            runtime.run(reserved).await.err(),
            Some(Misuse::ReservedGlobal("console".to_owned())),
            "{placement}"
        );
    }
    let limits = Limits {
        max_output_bytes: 3,
        ..Limits::default()
    };
    let config = QuickJsConfig {
        placement: Placement::Thread,
        limits,
        json: JsonMode::Standard,
    };
    let Err(ConfigError::Limit(error)) = QuickJsRuntime::new(config) else {
        panic!("3 bytes hold no output");
    };
    assert_eq!(error.field, "maxOutputBytes");
}

#[tokio::test]
async fn a_cancelled_run_ends_as_abort_and_keeps_its_logs() {
    for placement in PLACEMENTS {
        for program in [
            "console.log('x'); await tools.sleep(60000)",
            "console.log('x'); while (true) {}",
        ] {
            let request = request(program, Arc::default());
            let cancel = request.cancel.clone();
            let cancelled = async {
                tokio::time::sleep(Duration::from_millis(100)).await;
                cancel.cancel();
            };
            let (settled, ()) = tokio::join!(shared(placement).run(request), cancelled);
            let result = settled.expect("a good request").result;
            assert_eq!(
                outcome(&result),
                "abort: the run was cancelled",
                "{placement}: {program}"
            );
            assert_eq!(result.logs, ["x"], "{placement}: {program}");
        }
        let request = request("return 1", Arc::default());
        request.cancel.cancel();
        let result = shared(placement)
            .run(request)
            .await
            .expect("a good request")
            .result;
        assert_eq!(
            outcome(&result),
            "abort: the run was cancelled",
            "{placement}: beforehand"
        );
    }
}

#[tokio::test]
async fn calls_in_flight_are_handed_back() {
    for placement in PLACEMENTS {
        let request = request(
            "tools.sleep(30); tools.sleep(20); await tools.echo(1); return 'done'",
            Arc::default(),
        );
        let settled = shared(placement).run(request).await.expect("a good request");
        assert_eq!(outcome(&settled.result), "\"done\"", "{placement}");
        assert_eq!(settled.pending.len(), 2, "{placement}");
        settled.pending.drain().await;
    }
}

#[tokio::test]
async fn a_dropped_run_does_not_go_on() {
    for placement in PLACEMENTS {
        let host = Arc::new(Host::default());
        let run = shared(placement).run(request("while (true) await tools.sleep(1)", Arc::clone(&host)));
        let _ = tokio::time::timeout(Duration::from_millis(100), run).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        let calls = || host.calls.lock().expect("unpoisoned").len();
        let before = calls();
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(calls(), before, "{placement}");
        assert!(before > 0, "{placement}");
    }
}

#[tokio::test]
async fn disposal_ends_runs_and_refuses_later_ones() {
    for placement in PLACEMENTS {
        let runtime = runtime(placement, Limits::default(), JsonMode::Standard);
        assert_eq!(outcome(&run_on(&runtime, "return 1").await), "1", "{placement}");
        let dispose = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            runtime.dispose().await;
        };
        let (settled, ()) = tokio::join!(
            runtime.run(request("await tools.sleep(60000)", Arc::default())),
            dispose
        );
        assert_eq!(
            outcome(&settled.expect("a good request").result),
            "abort: runtime disposed",
            "{placement}"
        );
        let late = runtime.run(request("return 1", Arc::default())).await;
        assert_eq!(late.err(), Some(Misuse::Disposed), "{placement}");
    }
}

#[tokio::test]
async fn usage_says_where_it_ran_and_what_it_cost() {
    for placement in PLACEMENTS {
        let program = "let x = 0; for (let i = 0; i < 2e6; i++) x += i; await tools.sleep(50); return x";
        let usage = run_on(shared(placement), program).await.usage;
        let expected = if placement == "thread" {
            Isolation::Thread
        } else {
            Isolation::Worker
        };
        assert_eq!(usage.isolation, expected);
        assert!(
            usage.compute > Duration::from_millis(1),
            "{placement}: {:?}",
            usage.compute
        );
        assert!(
            usage.wall >= Duration::from_millis(50),
            "{placement}: {:?}",
            usage.wall
        );
        assert!(usage.compute < usage.wall, "{placement}: {usage:?}");
        assert!(
            usage.peak_memory_bytes.is_some_and(|bytes| bytes > 100_000),
            "{placement}"
        );
        if placement == "thread" {
            assert_eq!(usage.sandbox.state, SandboxState::None);
        } else {
            assert_ne!(usage.sandbox.layers, Vec::<String>::new());
        }
    }
}

#[tokio::test]
async fn without_a_worker_a_run_says_so_and_nothing_runs() {
    let config = WorkerConfig {
        program: PathBuf::from("/nonexistent/worker"),
        ..worker()
    };
    let runtime = QuickJsRuntime::new(QuickJsConfig {
        placement: Placement::Worker(config),
        ..QuickJsConfig::default()
    })
    .expect("the limits are fine");
    let result = run_on(&runtime, "return 1").await;
    let failure = result.error.expect("no worker");
    assert_eq!(failure.kind, FailureKind::SandboxUnavailable);
    assert!(
        failure.message.contains("/nonexistent/worker"),
        "{}",
        failure.message
    );
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn no_process_is_left_behind() {
    let runtime = runtime(
        "worker",
        Limits {
            compute_ms: 100,
            ..Limits::default()
        },
        JsonMode::Standard,
    );
    for program in [
        "return 1",
        "while (true) {}",
        "throw 1",
        "const a = []; while (true) a.push(new Array(1000).fill(0))",
    ] {
        run_on(&runtime, program).await;
    }
    runtime.dispose().await;
    let me = std::process::id().to_string();
    let mine = |pid: &str| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let rest = stat
            .rsplit_once(')')
            .map(|(_, rest)| rest.to_owned())
            .unwrap_or_default();
        // Zombies would count: the second field behind the name is the parent.
        rest.split_whitespace().nth(1) == Some(me.as_str()) && stat.contains("(toolweave-quick")
    };
    let before = std::fs::read_dir("/proc")
        .expect("a Linux system")
        .flatten()
        .filter(|entry| mine(&entry.file_name().to_string_lossy()))
        .count();
    // Other tests share this process and may have workers of their own: the shared pool keeps two and a warm parent, each
    // further runtime as many. Those of this one are gone, so no more than these can be there.
    assert!(before < 40, "{before} workers");
}
