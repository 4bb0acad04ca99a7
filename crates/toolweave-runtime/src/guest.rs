//! The guest's side of a run: what an engine is given and how it reaches its host, whichever placement it has.
//!
//! An engine is written once against [`GuestPort`]. In a worker the port is a socket ([`crate::protocol`]); in a thread it
//! polls the binding futures right there, so that a call costs no thread hop.

use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::{Failure, JsonMode};

/// What the engine needs to know to run one program. The first frame to a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// The body of an async function.
    pub program: String,
    pub namespaces: Vec<GuestNamespace>,
    pub json: JsonMode,
    /// Heap cap in bytes.
    pub max_memory_bytes: u64,
    /// Engine stack cap in bytes.
    pub max_stack_bytes: u64,
    /// The longest JSON text the guest may send, as an argument list or a completion value.
    pub max_frame_bytes: u64,
    /// The longest completion value or log entry that can still be accepted.
    pub max_output_bytes: u64,
    /// The deepest nesting of a value that crosses.
    pub max_json_depth: u32,
}

/// A namespace as the guest sees it: names only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestNamespace {
    pub global: String,
    pub aliases: Vec<String>,
    pub members: Arc<Members>,
    /// Class name and member property.
    pub error_class: Option<(String, String)>,
    /// Whether an unknown member rejects when called (else it is `undefined`).
    pub reject_unknown: bool,
}

/// The names in a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Members {
    /// Shown by `Object.keys`, return promises.
    pub shown: Vec<String>,
    /// Shown by `Object.keys`, block and return the value.
    pub shown_sync: Vec<String>,
    /// Callable but not enumerable, return promises.
    pub hidden: Vec<String>,
    /// Callable but not enumerable, block and return the value.
    pub hidden_sync: Vec<String>,
}

/// One call on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutgoingCall<'a> {
    /// Chosen by the engine, unique within the run.
    pub id: u32,
    /// Index into [`Start::namespaces`].
    pub namespace: u16,
    /// The member's name; for an unknown member the path as the program wrote it.
    pub name: &'a str,
    pub known: bool,
    /// A JSON array of the arguments.
    pub arguments: &'a str,
}

/// What the host has to say.
#[derive(Debug)]
pub enum Event {
    /// A call was answered with JSON text, or rejected with a message.
    Answer {
        id: u32,
        outcome: Result<String, String>,
    },
    /// The time given to [`GuestPort::wait`] has come.
    Due,
    /// The run is over; stop as soon as possible. Nothing further is heard.
    Gone,
}

/// The host cannot be reached any more; stop as soon as possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the host is gone")]
pub struct Gone;

/// How an engine reaches its host.
pub trait GuestPort {
    /// Sends a call. The answer comes from [`GuestPort::wait`].
    ///
    /// # Errors
    /// [`Gone`] when the run is over.
    fn call(&mut self, call: OutgoingCall<'_>) -> Result<(), Gone>;

    /// Sends a log entry. It is at the host when this returns, so that a kill right afterwards loses nothing.
    ///
    /// # Errors
    /// [`Gone`] when the run is over.
    fn log(&mut self, entry: &str) -> Result<(), Gone>;

    /// Blocks until the host says something, or until `until`. Without `until` it waits for as long as it takes.
    fn wait(&mut self, until: Option<Instant>) -> Event;
}

/// How a program ended, as its engine saw it. Hostile until the host has checked it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestOutcome {
    pub end: GuestEnd,
    /// The most heap that the engine held, in bytes.
    pub peak_memory_bytes: u64,
}

/// The three ends a program can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuestEnd {
    /// Completed with `undefined`.
    Nothing,
    /// Completed with this JSON text.
    Value(String),
    Failed(Failure),
}
