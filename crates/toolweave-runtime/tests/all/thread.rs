//! The same host, with the guest on a thread of this process.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use toolweave_runtime::driver::{Control, ThreadPort, run_in_thread};
use toolweave_runtime::guest::{Event, GuestEnd, GuestOutcome, GuestPort as _, OutgoingCall};
use toolweave_runtime::{FailureKind, Limits, Settled};

use crate::support::{Host, context, request};

async fn run(
    host: &Arc<Host>,
    limits: Limits,
    cancel: CancellationToken,
    script: impl FnOnce(ThreadPort, Control) -> GuestEnd + Send + 'static,
) -> Settled {
    let mut request = request(host);
    request.cancel = cancel;
    run_in_thread(request, &context(limits), |_, port, control, done| {
        let runtime = tokio::runtime::Handle::current();
        let started = Instant::now();
        thread::Builder::new().spawn(move || {
            let _inside = runtime.enter();
            let end = script(port, control);
            let _ = done.send(GuestOutcome {
                end,
                peak_memory_bytes: 1,
            });
        })?;
        Ok(move || started.elapsed())
    })
    .await
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

#[tokio::test]
async fn calls_are_answered_on_the_guests_own_thread() {
    let host = Arc::new(Host::default());
    let settled = run(&host, Limits::default(), CancellationToken::new(), |mut port, _| {
        port.log("hello").expect("a host");
        port.call(call(1, "slow", "[1]")).expect("a host");
        port.call(call(2, "echo", "[2]")).expect("a host");
        assert!(matches!(port.wait(None), Event::Answer { id: 2, outcome: Ok(text) } if text == "[2]"));
        assert!(matches!(port.wait(Some(Instant::now())), Event::Due));
        assert!(matches!(port.wait(None), Event::Answer { id: 1, outcome: Ok(_) }));
        port.call(call(3, "nope", "[]")).expect("a host");
        assert!(matches!(port.wait(None), Event::Answer { id: 3, outcome: Err(text) } if text == "unknown function `nope`"));
        GuestEnd::Value("7".to_owned())
    })
    .await;
    assert_eq!(settled.result.value.expect("a value").as_str(), "7");
    assert_eq!(settled.result.logs, ["hello"]);
    assert!(settled.pending.is_empty());
}

#[tokio::test]
async fn a_thread_that_will_not_end_is_left_behind_with_its_calls_handed_back() {
    let host = Arc::new(Host::default());
    let (release, released) = std::sync::mpsc::channel::<()>();
    let limits = Limits {
        max_wall_ms: 20,
        ..Limits::default()
    };
    let settled = run(
        &host,
        limits,
        CancellationToken::new(),
        move |mut port, control| {
            port.call(call(1, "hang", "[]")).expect("a host");
            let _ = released.recv_timeout(Duration::from_secs(30));
            assert!(control.is_over());
            assert!(port.log("too late").is_err());
            assert!(matches!(port.wait(None), Event::Gone));
            GuestEnd::Value("1".to_owned())
        },
    )
    .await;
    assert_eq!(
        settled.result.error.expect("a failure").kind,
        FailureKind::Timeout
    );
    assert_eq!(settled.pending.len(), 1);
    settled.pending.drain().await;
    assert_eq!(host.cancelled.load(Ordering::SeqCst), 1);
    release.send(()).expect("the thread still waits");
}

#[tokio::test]
async fn cancelling_wakes_a_waiting_thread() {
    let host = Arc::new(Host::default());
    let cancel = CancellationToken::new();
    let later = cancel.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(10)).await;
        later.cancel();
    });
    let (ended, has_ended) = std::sync::mpsc::channel();
    let settled = run(&host, Limits::default(), cancel, move |mut port, _| {
        assert!(matches!(port.wait(None), Event::Gone));
        ended.send(()).expect("the test waits");
        GuestEnd::Nothing
    })
    .await;
    assert_eq!(settled.result.error.expect("a failure").kind, FailureKind::Abort);
    has_ended
        .recv_timeout(Duration::from_secs(30))
        .expect("the thread ended");
}

#[tokio::test]
async fn a_log_flood_ends_the_run_from_inside() {
    let host = Arc::new(Host::default());
    let limits = Limits {
        max_output_bytes: 200,
        ..Limits::default()
    };
    let settled = run(&host, limits, CancellationToken::new(), |mut port, _| {
        while port.log("flood flood flood flood").is_ok() {}
        GuestEnd::Nothing
    })
    .await;
    assert_eq!(
        settled.result.error.expect("a failure").kind,
        FailureKind::OutputLimit
    );
    assert_eq!(settled.result.logs[0], "flood flood flood flood");
}

#[tokio::test]
async fn a_guest_that_panics_is_a_worker_exit() {
    let host = Arc::new(Host::default());
    let settled = run(&host, Limits::default(), CancellationToken::new(), |_, _| {
        std::panic::resume_unwind(Box::new(()))
    })
    .await;
    assert_eq!(
        settled.result.error.expect("a failure").kind,
        FailureKind::WorkerExit
    );
}
