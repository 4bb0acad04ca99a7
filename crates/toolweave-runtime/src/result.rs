//! How a run ended.

use std::fmt;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde::{Deserialize, Serialize};

use crate::{BindingFuture, Json};

/// A settled run, and the calls that were still in flight when it settled.
pub struct Settled {
    pub result: RunResult,
    /// The caller's to cancel and drain (contract C17). Their answers no longer reach the program.
    pub pending: PendingCalls,
}

/// What one run gave. A failure is a field, so that logs and usage are never lost with it.
#[derive(Clone, Debug, PartialEq)]
pub struct RunResult {
    /// `None` for `undefined`, which is not the same as JSON `null`.
    pub value: Option<Json>,
    /// One entry per console call, in order.
    pub logs: Vec<String>,
    pub error: Option<Failure>,
    pub usage: Usage,
}

/// Why a run failed, in terms of the JavaScript text that was run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub kind: FailureKind,
    /// The class of the thrown error (`TypeError`), when something with a name was thrown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub message: String,
    /// Where it was thrown, when known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
    /// Guest frames, innermost first, at most 32.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<Frame>,
}

/// The orthogonal kinds of failure (contract X9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The program threw, or could not be compiled.
    Exception,
    /// A budget ran out; the message says which.
    Timeout,
    /// The caller cancelled, or the runtime was disposed.
    Abort,
    /// The worker died or had to be ended: memory limit, crash, kill from outside.
    WorkerExit,
    /// The completion value has no lossless JSON form.
    InvalidOutput,
    /// Logs and value together exceed the output ledger.
    OutputLimit,
    /// The worker broke the protocol.
    Protocol,
    /// The sandbox that was required could not be had; nothing ran.
    SandboxUnavailable,
}

impl FailureKind {
    /// Returns the wire name, for example `worker-exit`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exception => "exception",
            Self::Timeout => "timeout",
            Self::Abort => "abort",
            Self::WorkerExit => "worker-exit",
            Self::InvalidOutput => "invalid-output",
            Self::OutputLimit => "output-limit",
            Self::Protocol => "protocol",
            Self::SandboxUnavailable => "sandbox-unavailable",
        }
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A place in the program text. Both 1-based; the column counts UTF-16 units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Position {
    pub line: u32,
    pub column: u32,
}

/// One guest stack frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// Empty for anonymous functions.
    pub function: String,
    pub position: Position,
}

/// What a run cost and where it ran.
#[derive(Clone, Debug, PartialEq)]
pub struct Usage {
    /// CPU time that the guest really used.
    pub compute: Duration,
    pub wall: Duration,
    /// The most heap the guest held, as its engine counted it; `None` where nobody could tell.
    pub peak_memory_bytes: Option<u64>,
    pub isolation: Isolation,
    pub sandbox: SandboxReport,
}

/// Where a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// A process of its own.
    Worker,
    /// A thread of the host process.
    Thread,
}

impl Isolation {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Thread => "thread",
        }
    }
}

/// Which layers of the sandbox held during a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxReport {
    pub state: SandboxState,
    /// Layers in force, for example `seccomp`.
    pub layers: Vec<String>,
    /// Layers that were wanted and could not be had, each with the reason.
    pub missing: Vec<String>,
}

/// The sandbox in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxState {
    /// Every layer is in force.
    Enforced,
    /// Some layers are missing; the report names them.
    Partial,
    /// No layer: the program shares the host's process, or the sandbox was switched off.
    None,
}

impl SandboxReport {
    /// Returns the report of a run that no sandbox held.
    pub fn none() -> Self {
        Self {
            state: SandboxState::None,
            layers: Vec::new(),
            missing: Vec::new(),
        }
    }
}

/// Calls that had started or were queued when their run settled.
#[derive(Default)]
pub struct PendingCalls {
    calls: FuturesUnordered<BindingFuture>,
}

impl PendingCalls {
    pub fn new(calls: FuturesUnordered<BindingFuture>) -> Self {
        Self { calls }
    }

    pub fn len(&self) -> usize {
        self.calls.len()
    }

    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Waits for every call to finish and throws the answers away.
    pub async fn drain(mut self) {
        while self.calls.next().await.is_some() {}
    }
}

impl fmt::Debug for PendingCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingCalls")
            .field("len", &self.calls.len())
            .finish()
    }
}
