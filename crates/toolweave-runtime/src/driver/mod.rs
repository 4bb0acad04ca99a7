//! The host's side of a run, for both placements: budgets, ledger, calls, and the one outcome.
//!
//! [`drive`] follows a worker over its socket; [`run_in_thread`] runs an engine on a thread of this process. They share
//! [`settle`], so that what a program did decides its outcome and where it ran does not.

mod thread;
mod worker;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::stream::FuturesUnordered;

pub use self::thread::{Control, ThreadPort, run_in_thread};
pub use self::worker::{WorkerHandle, drive};
use crate::guest::{GuestEnd, GuestNamespace, GuestOutcome, Start};
use crate::ledger::Ledger;
use crate::{
    BindingCall, BindingError, BindingFuture, Failure, FailureKind, Isolation, Json, JsonMode, Limits,
    Namespace, PendingCalls, RunRequest, RunResult, SandboxReport, Settled, UnknownMembers, Usage,
};

/// What a runtime knows about every run it drives.
#[derive(Clone, Debug)]
pub struct DriveContext {
    pub limits: Arc<Limits>,
    pub json: JsonMode,
    pub isolation: Isolation,
    pub sandbox: SandboxReport,
}

/// Returns the outcome of a run that ended before it could start: cancelled beforehand, or no worker to be had.
pub fn settled_without_start(
    context: &DriveContext,
    kind: FailureKind,
    message: impl Into<String>,
) -> Settled {
    let budgets = Budgets::new(&context.limits, None);
    let end = End::Host(failure(kind, message.into()));
    let result = settle(
        context,
        Ledger::new(context.limits.max_output_bytes),
        end,
        &budgets,
        Duration::ZERO,
    );
    Settled {
        result,
        pending: PendingCalls::default(),
    }
}

/// Returns the failure of a run that its caller gave up.
pub fn cancelled() -> Failure {
    failure(FailureKind::Abort, "the run was cancelled".to_owned())
}

pub(crate) fn failure(kind: FailureKind, message: String) -> Failure {
    Failure {
        kind,
        name: None,
        message,
        position: None,
        stack: Vec::new(),
    }
}

/// How a run came to its end.
enum End {
    /// The engine says so; still hostile.
    Guest(GuestOutcome),
    /// The host decided.
    Host(Failure),
    /// Logs alone exceed the ledger.
    Overflow,
}

/// Turns an end into the result: the ledger is applied, forged values are checked again.
fn settle(
    context: &DriveContext,
    ledger: Ledger,
    end: End,
    budgets: &Budgets,
    compute: Duration,
) -> RunResult {
    let limits = &context.limits;
    let mut peak_memory_bytes = None;
    let (value, (logs, error)) = match end {
        End::Overflow => (None, overflown(ledger)),
        End::Host(failure) => (None, failed(ledger, failure)),
        End::Guest(GuestOutcome {
            end,
            peak_memory_bytes: peak,
        }) => {
            peak_memory_bytes = Some(peak);
            match end {
                GuestEnd::Nothing => (None, (ledger.into_logs(), None)),
                GuestEnd::Value(text) => match Json::parse(text, limits.max_json_depth) {
                    Ok(value) if ledger.holds(&value) => (Some(value), (ledger.into_logs(), None)),
                    Ok(_) => (None, overflown(ledger)),
                    Err(error) => {
                        let failure = failure(
                            FailureKind::InvalidOutput,
                            format!("the result is not lossless JSON: {error}"),
                        );
                        (None, failed(ledger, failure))
                    }
                },
                GuestEnd::Failed(Failure {
                    kind: FailureKind::OutputLimit,
                    ..
                }) => (None, overflown(ledger)),
                GuestEnd::Failed(failure) => (None, failed(ledger, believable(failure))),
            }
        }
    };
    RunResult {
        value,
        logs,
        error,
        usage: Usage {
            compute,
            wall: budgets.started.elapsed(),
            peak_memory_bytes,
            isolation: context.isolation,
            sandbox: context.sandbox.clone(),
        },
    }
}

fn overflown(ledger: Ledger) -> (Vec<String>, Option<Failure>) {
    let (logs, failure) = ledger.overflow();
    (logs, Some(failure))
}

fn failed(ledger: Ledger, failure: Failure) -> (Vec<String>, Option<Failure>) {
    let (logs, failure) = ledger.fail(failure);
    (logs, Some(failure))
}

/// The most guest frames that a failure keeps.
const MAX_STACK_FRAMES: usize = 32;
/// The longest class or function name in a failure.
const MAX_FAILURE_NAME: usize = 256;

/// Keeps what a guest may say of its own failure. Budgets, aborts and the sandbox are the host's to report.
fn believable(mut failure: Failure) -> Failure {
    failure.kind = match failure.kind {
        kind @ (FailureKind::Exception | FailureKind::InvalidOutput | FailureKind::WorkerExit) => kind,
        _ => FailureKind::Exception,
    };
    failure.stack.truncate(MAX_STACK_FRAMES);
    for frame in &mut failure.stack {
        truncate(&mut frame.function, MAX_FAILURE_NAME);
    }
    if let Some(name) = &mut failure.name {
        truncate(name, MAX_FAILURE_NAME);
    }
    failure
}

fn truncate(text: &mut String, bytes: usize) {
    text.truncate(text.floor_char_boundary(bytes.min(text.len())));
}

/// The two budgets of a run, and when to look at them next.
#[derive(Clone, Copy, Debug)]
struct Budgets {
    started: Instant,
    compute: Duration,
    /// When the wall ends the run, and what to say then.
    wall_end: Instant,
    wall: Wall,
}

#[derive(Clone, Copy, Debug)]
enum Wall {
    Configured(Duration),
    Requested(Duration),
}

/// The shortest time between two looks at a program's CPU clock.
const CLOCK_STEP: Duration = Duration::from_millis(2);

impl Budgets {
    fn new(limits: &Limits, timeout: Option<Duration>) -> Self {
        let started = Instant::now();
        let wall = match timeout {
            Some(timeout) if timeout < limits.max_wall() => Wall::Requested(timeout),
            _ => Wall::Configured(limits.max_wall()),
        };
        let (Wall::Configured(length) | Wall::Requested(length)) = wall;
        Self {
            started,
            compute: limits.compute(),
            wall_end: started + length,
            wall,
        }
    }

    /// Returns when to look next, given the CPU time used so far: a program cannot use more CPU time than time passes.
    fn next_look(&self, used: Duration) -> Instant {
        let left = self.compute.saturating_sub(used).max(CLOCK_STEP);
        (Instant::now() + left).min(self.wall_end)
    }

    /// Returns the failure if a budget is spent.
    fn spent(&self, used: Duration) -> Option<Failure> {
        let message = if used >= self.compute {
            format!(
                "compute limit exceeded: the program used {} ms of CPU time, computeMs is {}",
                used.as_millis(),
                self.compute.as_millis()
            )
        } else if Instant::now() >= self.wall_end {
            match self.wall {
                Wall::Configured(wall) => {
                    format!("wall-clock limit exceeded: maxWallMs is {}", wall.as_millis())
                }
                Wall::Requested(wall) => format!("deadline exceeded: timeoutMs is {}", wall.as_millis()),
            }
        } else {
            return None;
        };
        Some(failure(FailureKind::Timeout, message))
    }
}

/// Returns the first frame for a request.
fn start_of(request: &RunRequest, context: &DriveContext) -> Start {
    let limits = &context.limits;
    Start {
        program: request.program.clone(),
        namespaces: request.namespaces.iter().map(guest_namespace).collect(),
        json: context.json,
        max_memory_bytes: limits.max_memory_bytes(),
        max_stack_bytes: limits.max_stack_kb * 1024,
        max_frame_bytes: limits.max_frame_bytes,
        max_output_bytes: limits.max_output_bytes,
        max_json_depth: limits.max_json_depth,
    }
}

fn guest_namespace(namespace: &Namespace) -> GuestNamespace {
    GuestNamespace {
        global: namespace.global.clone(),
        aliases: namespace.aliases.clone(),
        members: Arc::clone(namespace.functions.members()),
        error_class: namespace
            .error_class
            .as_ref()
            .map(|class| (class.name.clone(), class.member_property.clone())),
        reject_unknown: namespace.unknown == UnknownMembers::Reject,
    }
}

/// A call on its way to its answer.
struct InFlight {
    id: u32,
    /// Bytes of its arguments, held until it is answered.
    bytes: usize,
    future: BindingFuture,
}

/// An answered call.
struct Answered {
    id: u32,
    bytes: usize,
    outcome: Result<Json, BindingError>,
}

impl Future for InFlight {
    type Output = Answered;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answered> {
        let (id, bytes) = (self.id, self.bytes);
        self.future
            .as_mut()
            .poll(context)
            .map(|outcome| Answered { id, bytes, outcome })
    }
}

fn pending(calls: FuturesUnordered<InFlight>) -> PendingCalls {
    PendingCalls::new(calls.into_iter().map(|call| call.future).collect())
}

/// A call as it came from a guest, still unchecked.
struct GuestCall<'a> {
    namespace: u16,
    known: bool,
    name: &'a str,
    arguments: String,
}

/// Checks a call and hands it to its namespace; a call that cannot be handed over is its own rejection.
fn dispatch(
    request: &RunRequest,
    limits: &Limits,
    calls_so_far: u32,
    run_over: &tokio_util::sync::CancellationToken,
    call: GuestCall<'_>,
) -> Result<BindingFuture, BindingError> {
    let reject = |message: String| Err(BindingError { message });
    let Some(namespace) = request.namespaces.get(usize::from(call.namespace)) else {
        return reject("no such namespace".to_owned());
    };
    if calls_so_far > limits.max_sub_calls {
        return reject(format!(
            "sub-call limit exceeded: maxSubCalls is {}",
            limits.max_sub_calls
        ));
    }
    let Some(name) = namespace.functions.get(call.name).filter(|_| call.known) else {
        return Err(namespace.host.unknown(call.name));
    };
    if call.arguments.len() as u64 > limits.max_frame_bytes {
        return reject(format!(
            "the arguments are longer than maxFrameBytes, which is {}",
            limits.max_frame_bytes
        ));
    }
    // One level more for the array of the arguments itself.
    match Json::parse(call.arguments, limits.max_json_depth.saturating_add(1)) {
        Ok(arguments) => Ok(namespace.host.call(BindingCall {
            name: Arc::clone(name),
            arguments,
            run_over: run_over.clone(),
        })),
        Err(error) => reject(format!("the arguments are not lossless JSON: {error}")),
    }
}

/// Returns the answer if it may cross.
fn checked_answer(limits: &Limits, outcome: Result<Json, BindingError>) -> Result<Json, String> {
    match outcome {
        Ok(value) if value.as_str().len() as u64 > limits.max_frame_bytes => Err(format!(
            "the result is {} bytes of JSON; the most that reaches a program is maxFrameBytes, {}",
            value.as_str().len(),
            limits.max_frame_bytes
        )),
        Ok(value) => Ok(value),
        Err(error) => Err(error.message),
    }
}
