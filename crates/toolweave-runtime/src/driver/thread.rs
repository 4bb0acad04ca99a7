//! Runs an engine on a thread of this process.
//!
//! The binding futures are polled on the engine's own thread, so that a call that is answered at once costs no thread hop. The
//! async side only watches: budgets, cancellation, the end.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    Answered, Budgets, DriveContext, End, GuestCall, InFlight, cancelled, checked_answer, dispatch, failure,
    pending,
};
use crate::guest::{Event, Gone, GuestOutcome, GuestPort, OutgoingCall, Start};
use crate::ledger::Ledger;
use crate::{FailureKind, RunRequest, Settled};

/// How long a thread may take to notice that its run is over before it is left behind. It ends as soon as it comes out of
/// the engine's built-in function; its memory is bounded by the memory limit.
const GRACE: Duration = Duration::from_millis(200);

/// What the async side and an engine share besides the port.
#[derive(Clone, Debug, Default)]
pub struct Control {
    over: Arc<AtomicBool>,
}

impl Control {
    /// Returns whether the run is over; an engine polls this from its interrupt handler and stops uncatchably.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// Runs one program on a thread that `spawn` starts.
///
/// `spawn` is given the program, the port, the control and the sender for the outcome; it returns a clock for the thread's CPU
/// time, which keeps its last value when the thread has ended. The thread must enter the caller's tokio runtime before it
/// uses the port, since binding futures are polled on it.
pub async fn run_in_thread<S, C>(request: RunRequest, context: &DriveContext, spawn: S) -> Settled
where
    S: FnOnce(Start, ThreadPort, Control, oneshot::Sender<GuestOutcome>) -> std::io::Result<C>,
    C: Fn() -> Duration,
{
    let budgets = Budgets::new(&context.limits, request.timeout);
    let start = super::start_of(&request, context);
    let cancel = request.cancel.clone();
    let control = Control::default();
    let run_over = CancellationToken::new();
    let shared = Arc::new(Shared {
        state: Mutex::new(State {
            ledger: Some(Ledger::new(context.limits.max_output_bytes)),
            calls: FuturesUnordered::new(),
            overflow: false,
        }),
        waker: Mutex::new(None),
        control: control.clone(),
    });
    let port = ThreadPort {
        shared: Arc::clone(&shared),
        request: Arc::new(request),
        context: context.clone(),
        answers: VecDeque::new(),
        calls_so_far: 0,
        run_over: run_over.clone(),
        waker: None,
    };
    // A caller that drops this future ends the run as well.
    let _over = OverWhenDropped {
        shared: Arc::clone(&shared),
        _calls: run_over.clone().drop_guard(),
    };
    let (sender, mut outcome) = oneshot::channel();
    let (end, compute) = match spawn(start, port, control, sender) {
        Err(error) => (
            End::Host(failure(
                FailureKind::WorkerExit,
                format!("no thread could be started: {error}"),
            )),
            Duration::ZERO,
        ),
        Ok(clock) => {
            let end = watch(&budgets, &cancel, &mut outcome, &clock).await;
            shared.end();
            if !outcome.is_terminated() {
                let _ = tokio::time::timeout(GRACE, &mut outcome).await;
            }
            (end, clock())
        }
    };
    let (ledger, calls, overflow) = shared.take();
    let end = if overflow { End::Overflow } else { end };
    let result = super::settle(
        context,
        ledger.unwrap_or_else(|| Ledger::new(context.limits.max_output_bytes)),
        end,
        &budgets,
        compute,
    );
    Settled {
        result,
        pending: pending(calls),
    }
}

async fn watch(
    budgets: &Budgets,
    cancel: &CancellationToken,
    outcome: &mut oneshot::Receiver<GuestOutcome>,
    clock: &impl Fn() -> Duration,
) -> End {
    let look = tokio::time::sleep_until(budgets.next_look(Duration::ZERO).into());
    tokio::pin!(look);
    loop {
        tokio::select! {
            biased;
            outcome = &mut *outcome => return match outcome {
                Ok(outcome) => End::Guest(outcome),
                Err(_) => End::Host(failure(FailureKind::WorkerExit, "the engine ended before the program did".to_owned())),
            },
            () = cancel.cancelled() => return End::Host(cancelled()),
            () = &mut look => {
                let used = clock();
                if let Some(failure) = budgets.spent(used) {
                    return End::Host(failure);
                }
                look.as_mut().reset(budgets.next_look(used).into());
            }
        }
    }
}

struct OverWhenDropped {
    shared: Arc<Shared>,
    _calls: DropGuard,
}

impl Drop for OverWhenDropped {
    fn drop(&mut self) {
        self.shared.end();
    }
}

struct Shared {
    state: Mutex<State>,
    /// Wakes the engine's thread, once it has waited for the first time.
    waker: Mutex<Option<Waker>>,
    control: Control,
}

struct State {
    /// Gone once the run has settled.
    ledger: Option<Ledger>,
    calls: FuturesUnordered<InFlight>,
    overflow: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the engine that the run is over.
    fn end(&self) {
        self.control.over.store(true, Ordering::Relaxed);
        if let Some(waker) = &*self.waker.lock().unwrap_or_else(PoisonError::into_inner) {
            waker.wake_by_ref();
        }
    }

    fn take(&self) -> (Option<Ledger>, FuturesUnordered<InFlight>, bool) {
        let mut state = self.state();
        (
            state.ledger.take(),
            std::mem::take(&mut state.calls),
            state.overflow,
        )
    }
}

/// The engine's side of a run in a thread. Moves to the engine's thread before it is used.
pub struct ThreadPort {
    shared: Arc<Shared>,
    request: Arc<RunRequest>,
    context: DriveContext,
    answers: VecDeque<Answered>,
    calls_so_far: u32,
    run_over: CancellationToken,
    waker: Option<(Arc<Unpark>, Waker)>,
}

struct Unpark {
    thread: Thread,
    woken: AtomicBool,
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.woken.swap(true, Ordering::Release) {
            self.thread.unpark();
        }
    }
}

impl ThreadPort {
    fn waker(&mut self) -> (Arc<Unpark>, Waker) {
        if let Some(known) = &self.waker {
            return known.clone();
        }
        let unpark = Arc::new(Unpark {
            thread: std::thread::current(),
            woken: AtomicBool::new(false),
        });
        let waker = Waker::from(Arc::clone(&unpark));
        *self.shared.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker.clone());
        self.waker = Some((Arc::clone(&unpark), waker.clone()));
        (unpark, waker)
    }

    /// Lets every call go on as far as it can without waiting, and collects the answers.
    fn poll_calls(&mut self) {
        let (_, waker) = self.waker();
        let mut state = self.shared.state();
        while let Poll::Ready(Some(answered)) = state.calls.poll_next_unpin(&mut Context::from_waker(&waker))
        {
            self.answers.push_back(answered);
        }
    }
}

impl GuestPort for ThreadPort {
    fn call(&mut self, call: OutgoingCall<'_>) -> Result<(), Gone> {
        if self.shared.control.is_over() {
            return Err(Gone);
        }
        self.calls_so_far = self.calls_so_far.saturating_add(1);
        let bytes = call.arguments.len();
        let guest = GuestCall {
            namespace: call.namespace,
            known: call.known,
            name: call.name,
            arguments: call.arguments.to_owned(),
        };
        match dispatch(
            &self.request,
            &self.context.limits,
            self.calls_so_far,
            &self.run_over,
            guest,
        ) {
            Ok(future) => {
                let state = self.shared.state();
                if state.ledger.is_none() {
                    return Err(Gone);
                }
                state.calls.push(InFlight {
                    id: call.id,
                    bytes,
                    future,
                });
                drop(state);
                // A call starts when it is made, even if the program then computes for a long time.
                self.poll_calls();
            }
            Err(error) => self.answers.push_back(Answered {
                id: call.id,
                bytes,
                outcome: Err(error),
            }),
        }
        Ok(())
    }

    fn log(&mut self, entry: &str) -> Result<(), Gone> {
        let mut state = self.shared.state();
        let Some(ledger) = &mut state.ledger else {
            return Err(Gone);
        };
        if ledger.log(entry).is_err() {
            state.overflow = true;
            drop(state);
            self.shared.end();
            return Err(Gone);
        }
        drop(state);
        if let Some(on_log) = &self.request.on_log {
            on_log(entry);
        }
        Ok(())
    }

    fn wait(&mut self, until: Option<Instant>) -> Event {
        let (unpark, _) = self.waker();
        loop {
            if self.shared.control.is_over() {
                return Event::Gone;
            }
            if let Some(Answered { id, outcome, .. }) = self.answers.pop_front() {
                let outcome = checked_answer(&self.context.limits, outcome).map(crate::Json::into_string);
                return Event::Answer { id, outcome };
            }
            unpark.woken.store(false, Ordering::Release);
            self.poll_calls();
            if !self.answers.is_empty() || self.shared.control.is_over() {
                continue;
            }
            match until {
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Event::Due;
                    }
                    if !unpark.woken.load(Ordering::Acquire) {
                        std::thread::park_timeout(left);
                    }
                }
                None => {
                    if !unpark.woken.load(Ordering::Acquire) {
                        std::thread::park();
                    }
                }
            }
        }
    }
}
