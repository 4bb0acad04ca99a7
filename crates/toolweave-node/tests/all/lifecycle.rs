//! Processes: started, killed, disposed of, and none left behind.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use toolweave_node::{ConfigError, Flavor, NodeConfig, NodeRuntime, find_node};
use toolweave_runtime::{CodeRuntime as _, Isolation, JsonMode, Limits, Misuse, SandboxState};

use crate::support::{PLACEMENTS, config, outcome, request, run_on, runtime, shared};

/// Returns how many children of this process are there, zombies included, that are Node.
fn nodes() -> usize {
    let me = std::process::id().to_string();
    let is_mine = |stat: &str| {
        stat.rsplit_once(") ").is_some_and(|(head, rest)| {
            rest.split(' ').nth(1) == Some(&me) && (head.ends_with("(node") || head.ends_with("(MainThread"))
        })
    };
    std::fs::read_dir("/proc")
        .expect("a Linux system")
        .flatten()
        .filter(|entry| std::fs::read_to_string(entry.path().join("stat")).is_ok_and(|stat| is_mine(&stat)))
        .count()
}

#[tokio::test]
async fn two_hundred_runs_in_a_row_leave_nothing_behind() {
    for placement in PLACEMENTS {
        let runtime = runtime(placement, Limits::default(), JsonMode::Standard);
        for round in 0..200 {
            let program = format!("globalThis.seen = (globalThis.seen ?? 0) + 1; return [{round}, seen]");
            assert_eq!(outcome(&run_on(&runtime, &program).await), format!("[{round},1]"));
        }
        let descriptors = || {
            std::fs::read_dir("/proc/self/fd")
                .expect("a Linux system")
                .count()
        };
        // Other tests of this program run beside this one, so this is a bound and not an equation.
        assert!(nodes() < 60, "{} processes", nodes());
        assert!(descriptors() < 600, "{} descriptors", descriptors());
        runtime.dispose().await;
        assert_eq!(
            runtime.run(request("return 1", Arc::default())).await.err(),
            Some(Misuse::Disposed)
        );
    }
}

#[tokio::test]
async fn disposal_ends_runs() {
    for placement in PLACEMENTS {
        let runtime = runtime(placement, Limits::default(), JsonMode::Standard);
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
            "abort: runtime disposed"
        );
    }
}

#[tokio::test]
async fn many_at_once_do_not_disturb_each_other() {
    for placement in PLACEMENTS {
        let runs = (0..12).map(|number| async move {
            let program = format!("await tools.sleep(20); return {number}");
            let result = run_on(shared(placement), &program).await;
            (number.to_string(), outcome(&result))
        });
        for (wanted, given) in futures_util::future::join_all(runs).await {
            assert_eq!(given, wanted);
        }
    }
}

#[tokio::test]
async fn a_run_reports_what_held_it_and_what_it_cost() {
    for placement in PLACEMENTS {
        let usage = run_on(
            shared(placement),
            "let x = 0; for (let i = 0; i < 1e7; i++) x += i; return x",
        )
        .await
        .usage;
        assert_eq!(usage.isolation, Isolation::Worker);
        assert_eq!(
            (usage.sandbox.state, usage.sandbox.missing),
            (SandboxState::Enforced, Vec::new())
        );
        assert!(usage.compute > Duration::from_micros(500), "{:?}", usage.compute);
        assert!(usage.peak_memory_bytes.is_some_and(|bytes| bytes > 100_000));
    }
}

#[test]
fn what_is_missing_is_said_with_the_remedy() {
    let refusal = |config| match NodeRuntime::new(config) {
        Err(error) => error.to_string(),
        Ok(runtime) => format!("no error, but {}", runtime.describe()),
    };
    let nowhere = NodeConfig {
        search_path: Some("/nonexistent".into()),
        ..NodeConfig::default()
    };
    assert_eq!(
        refusal(nowhere),
        "no Node was found in 1 folders of the search path: install Node 20 or later from nodejs.org or a package manager, \
         or configure the path of the program"
    );
    let other = NodeConfig {
        program: Some(PathBuf::from("/bin/true")),
        ..NodeConfig::default()
    };
    assert_eq!(
        refusal(other),
        "`/bin/true` is not a Node that can be used: it did not say its version; configure the path of a Node 20 or later, \
         not of a wrapper"
    );
    let deno = NodeConfig {
        flavor: Flavor::Deno,
        ..config(Limits::default(), JsonMode::Standard)
    };
    assert!(matches!(NodeRuntime::new(deno), Err(ConfigError::Deno)));
    assert!(matches!(
        find_node(None, None, Flavor::Auto),
        Err(ConfigError::NotFound { searched: 0 })
    ));
}
