//! A worker that does what a script says, honest or not.

use std::os::unix::net::UnixStream as StdStream;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::net::UnixStream;
use toolweave_runtime::driver::{WorkerHandle, drive};
use toolweave_runtime::guest::{Event, GuestEnd, GuestOutcome, GuestPort as _, OutgoingCall};
use toolweave_runtime::protocol::SocketPort;
use toolweave_runtime::{Failure, FailureKind, Limits, RunRequest, RunResult};

use crate::support::{Host, context, request};

/// A process that exists in name only.
#[derive(Default)]
struct Process {
    killed: AtomicBool,
    cpu: Mutex<Duration>,
}

impl WorkerHandle for Process {
    fn kill(&self) {
        self.killed.store(true, Ordering::SeqCst);
    }

    fn cpu_time(&self) -> Option<Duration> {
        Some(*self.cpu.lock().expect("no panic"))
    }

    fn describe_exit(&self) -> BoxFuture<'_, String> {
        Box::pin(async { "killed by signal 11".to_owned() })
    }
}

struct Outcome {
    result: RunResult,
    pending: usize,
    host: Arc<Host>,
}

async fn run_with(
    limits: Limits,
    change: impl FnOnce(&mut RunRequest),
    process: &Process,
    script: impl FnOnce(SocketPort) + Send + 'static,
) -> Outcome {
    let (ours, theirs) = StdStream::pair().expect("a pair");
    ours.set_nonblocking(true).expect("a socket");
    let stream = UnixStream::from_std(ours).expect("a reactor");
    let host = Arc::new(Host::default());
    let mut request = request(&host);
    change(&mut request);
    let worker = thread::spawn(move || {
        let mut port = SocketPort::new(theirs);
        port.start().expect("a start frame");
        script(port);
    });
    let settled = drive(request, &context(limits), stream, process).await;
    assert!(
        process.killed.load(Ordering::SeqCst),
        "the worker outlived its run"
    );
    let pending = settled.pending.len();
    settled.pending.drain().await;
    worker.join().expect("the script ran to its end");
    Outcome {
        result: settled.result,
        pending,
        host,
    }
}

async fn run(limits: Limits, script: impl FnOnce(SocketPort) + Send + 'static) -> Outcome {
    run_with(limits, |_| {}, &Process::default(), script).await
}

fn call(id: u32, name: &'static str, arguments: &'static str) -> OutgoingCall<'static> {
    OutgoingCall {
        id,
        namespace: 0,
        name,
        known: true,
        arguments,
    }
}

fn value(text: &str) -> GuestOutcome {
    GuestOutcome {
        end: GuestEnd::Value(text.to_owned()),
        peak_memory_bytes: 5,
    }
}

fn failed(kind: FailureKind, message: &str) -> GuestOutcome {
    let failure = Failure {
        kind,
        name: None,
        message: message.to_owned(),
        position: None,
        stack: vec![],
    };
    GuestOutcome {
        end: GuestEnd::Failed(failure),
        peak_memory_bytes: 0,
    }
}

/// Kind and message of a failure.
fn error(result: &RunResult) -> (FailureKind, &str) {
    let failure = result.error.as_ref().expect("a failure");
    (failure.kind, &failure.message)
}

#[tokio::test]
async fn calls_are_answered_and_the_value_comes_back() {
    let outcome = run(Limits::default(), |mut port| {
        port.log("before").expect("a host");
        port.call(call(1, "echo", r#"[{"a":1}]"#)).expect("a host");
        port.call(call(2, "fail", "[]")).expect("a host");
        let mut answers: Vec<_> = (0..2)
            .map(|_| match port.wait(None) {
                Event::Answer { id, outcome } => (id, outcome),
                other => panic!("{other:?}"),
            })
            .collect();
        answers.sort_by_key(|(id, _)| *id);
        assert_eq!(
            answers,
            [
                (1, Ok(r#"[{"a":1}]"#.to_owned())),
                (2, Err("no such row".to_owned()))
            ]
        );
        port.done(&value("[1,2]")).expect("a host");
    })
    .await;
    assert_eq!(outcome.result.value.expect("a value").as_str(), "[1,2]");
    assert_eq!(outcome.result.logs, ["before"]);
    assert_eq!(outcome.result.error, None);
    assert_eq!(outcome.result.usage.peak_memory_bytes, Some(5));
}

#[tokio::test]
async fn a_call_is_answered_once_and_only_by_its_own_name() {
    let outcome = run(
        Limits {
            max_sub_calls: 5,
            ..Limits::default()
        },
        |mut port| {
            port.call(call(7, "echo", "[1]")).expect("a host");
            port.call(call(7, "echo", "[2]")).expect("a host");
            for (id, name) in [(8, "constructor"), (9, "__proto__")] {
                port.call(call(id, name, "[]")).expect("a host");
            }
            port.call(OutgoingCall {
                namespace: 9,
                ..call(10, "echo", "[]")
            })
            .expect("a host");
            port.call(call(11, "echo", "[not json")).expect("a host");
            port.call(call(12, "echo", "[]")).expect("a host");
            let mut answers: Vec<_> = (0..6)
                .map(|_| match port.wait(None) {
                    Event::Answer { id, outcome } => (
                        id,
                        outcome.map_err(|text| text.split(':').next().unwrap_or("").to_owned()),
                    ),
                    other => panic!("{other:?}"),
                })
                .collect();
            answers.sort_by_key(|(id, _)| *id);
            assert_eq!(
                answers,
                [
                    (7, Ok("[1]".to_owned())),
                    (8, Err("unknown function `constructor`".to_owned())),
                    (9, Err("unknown function `__proto__`".to_owned())),
                    (10, Err("no such namespace".to_owned())),
                    (11, Err("the arguments are not lossless JSON".to_owned())),
                    (12, Err("sub-call limit exceeded".to_owned())),
                ]
            );
            port.done(&value("1")).expect("a host");
        },
    )
    .await;
    assert_eq!(outcome.host.calls.lock().expect("no panic").len(), 1);
    assert_eq!(outcome.result.error, None);
}

#[tokio::test]
async fn a_guest_cannot_report_what_is_the_hosts_to_say() {
    for kind in [
        FailureKind::Timeout,
        FailureKind::Abort,
        FailureKind::SandboxUnavailable,
        FailureKind::Protocol,
    ] {
        let outcome = run(Limits::default(), move |port| {
            port.done(&failed(kind, "forged")).expect("a host")
        })
        .await;
        assert_eq!(error(&outcome.result), (FailureKind::Exception, "forged"));
    }
    let outcome = run(Limits::default(), |port| {
        port.done(&value("{\"a\":")).expect("a host")
    })
    .await;
    assert_eq!(
        outcome.result.error.expect("a failure").kind,
        FailureKind::InvalidOutput
    );
}

#[tokio::test]
async fn the_ledger_holds_for_forged_output_too() {
    let limits = Limits {
        max_output_bytes: 100,
        ..Limits::default()
    };
    let outcome = run(limits.clone(), |port| {
        port.done(&value(&format!("\"{}\"", "y".repeat(97))))
            .expect("a host")
    })
    .await;
    assert_eq!(
        outcome.result.error.expect("a failure").kind,
        FailureKind::OutputLimit
    );
    let outcome = run(limits.clone(), |port| {
        port.done(&value(&format!("\"{}\"", "y".repeat(96))))
            .expect("a host")
    })
    .await;
    assert_eq!(outcome.result.error, None);
    let outcome = run(limits, |mut port| {
        port.log("kept").expect("a host");
        while port.log("flood flood flood flood flood").is_ok() {}
    })
    .await;
    assert_eq!(
        outcome.result.error.expect("a failure").kind,
        FailureKind::OutputLimit
    );
    assert_eq!(outcome.result.logs[0], "kept");
}

#[tokio::test]
async fn each_budget_is_named_when_it_is_spent() {
    let hang = |mut port: SocketPort| {
        port.log("before").expect("a host");
        assert!(matches!(port.wait(None), Event::Gone));
    };
    let busy = Process::default();
    *busy.cpu.lock().expect("no panic") = Duration::ZERO;
    let limits = Limits {
        compute_ms: 30,
        max_wall_ms: 60_000,
        ..Limits::default()
    };
    let spend = async {
        tokio::time::sleep(Duration::from_millis(5)).await;
        *busy.cpu.lock().expect("no panic") = Duration::from_millis(31);
    };
    let (outcome, ()) = tokio::join!(run_with(limits, |_| {}, &busy, hang), spend);
    assert_eq!(
        error(&outcome.result),
        (
            FailureKind::Timeout,
            "compute limit exceeded: the program used 31 ms of CPU time, computeMs is 30"
        )
    );
    assert_eq!(outcome.result.logs, ["before"]);
    assert_eq!(outcome.result.usage.compute, Duration::from_millis(31));

    let limits = Limits {
        compute_ms: 60_000,
        max_wall_ms: 30,
        ..Limits::default()
    };
    let outcome = run(limits.clone(), hang).await;
    assert_eq!(
        error(&outcome.result),
        (FailureKind::Timeout, "wall-clock limit exceeded: maxWallMs is 30")
    );
    let narrow = |request: &mut RunRequest| request.timeout = Some(Duration::from_millis(20));
    let outcome = run_with(limits, narrow, &Process::default(), hang).await;
    assert_eq!(
        error(&outcome.result),
        (FailureKind::Timeout, "deadline exceeded: timeoutMs is 20")
    );
}

#[tokio::test]
async fn what_is_in_flight_is_handed_back_and_told() {
    let outcome = run(Limits::default(), |mut port| {
        port.call(call(1, "hang", "[]")).expect("a host");
        port.call(call(2, "echo", "[]")).expect("a host");
        assert!(matches!(port.wait(None), Event::Answer { id: 2, .. }));
        port.done(&value("null")).expect("a host");
    })
    .await;
    assert_eq!(outcome.pending, 1);
    assert_eq!(outcome.host.cancelled.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_cancelled_run_is_an_abort() {
    let cancel = |request: &mut RunRequest| {
        let token = request.cancel.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(10)).await;
            token.cancel();
        });
    };
    let outcome = run_with(Limits::default(), cancel, &Process::default(), |mut port| {
        assert!(matches!(port.wait(None), Event::Gone));
    })
    .await;
    assert_eq!(
        error(&outcome.result),
        (FailureKind::Abort, "the run was cancelled")
    );
}

#[tokio::test]
async fn a_dead_worker_is_a_worker_exit_with_its_logs() {
    let outcome = run(Limits::default(), |mut port| {
        port.log("last words").expect("a host")
    })
    .await;
    assert_eq!(
        error(&outcome.result),
        (
            FailureKind::WorkerExit,
            "the worker ended before the program did: killed by signal 11"
        )
    );
    assert_eq!(outcome.result.logs, ["last words"]);
}

#[tokio::test]
async fn the_last_word_counts_although_an_answer_could_not_be_delivered() {
    let outcome = run(Limits::default(), |mut port| {
        let long = format!("[\"{}\"]", "x".repeat(4 * 1024 * 1024));
        let call = OutgoingCall {
            id: 1,
            namespace: 0,
            name: "echo",
            known: true,
            arguments: &long,
        };
        port.call(call).expect("a host");
        // The answer is on its way, and nobody will read it.
        port.done(&value("7")).expect("a host");
    })
    .await;
    assert_eq!(outcome.result.error, None);
    assert_eq!(outcome.result.value.expect("a value").as_str(), "7");
}

#[tokio::test]
async fn logs_arrive_live() {
    let seen = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&seen);
    let listen = |request: &mut RunRequest| {
        request.on_log = Some(Arc::new(move |_: &str| {
            counter.fetch_add(1, Ordering::SeqCst);
        }));
    };
    run_with(Limits::default(), listen, &Process::default(), |mut port| {
        port.log("one").expect("a host");
        port.log("two").expect("a host");
        port.done(&value("1")).expect("a host");
    })
    .await;
    assert_eq!(seen.load(Ordering::SeqCst), 2);
}
