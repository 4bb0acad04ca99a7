//! The code-runtime seam: what it means to run one program, whatever executes it.
//!
//! A [`CodeRuntime`] takes a [`RunRequest`] (JavaScript, namespaces of host functions, a cancellation token) and settles
//! exactly once with a [`Settled`] run. This crate holds everything that all engines share: validated [`Limits`], the
//! output [`ledger`], lossless [`json`], the worker [`protocol`] and the host side of a run ([`driver`]).
//! It knows nothing about tools, schemas, sessions or a particular engine.
#![warn(clippy::disallowed_methods)]

pub mod driver;
pub mod guest;
pub mod json;
pub mod ledger;
pub mod limits;
pub mod protocol;
mod request;
mod result;

pub use json::{Json, JsonMode};
pub use limits::{LimitError, Limits};
pub use request::{
    Binding, BindingCall, BindingError, BindingFuture, Bindings, ErrorClass, FunctionKind, FunctionTable,
    LogSink, Misuse, Namespace, RunRequest, UnknownMembers,
};
pub use result::{
    Failure, FailureKind, Frame, Isolation, PendingCalls, Position, RunResult, SandboxReport, SandboxState,
    Settled, Usage,
};

use futures_util::future::BoxFuture;

/// Executes programs. One implementation per engine and placement; all pass the same contract suite.
pub trait CodeRuntime: Send + Sync {
    /// Returns the language that programs are handed over in (`"typescript"` for all engines here, already stripped).
    fn language(&self) -> &'static str;

    /// Returns where programs run. A label for people, not a security claim.
    fn isolation(&self) -> Isolation;

    /// Returns the limits every run is held to.
    fn limits(&self) -> &Limits;

    /// Runs one program to its single outcome. A program that fails is `Ok` with [`RunResult::error`] set.
    ///
    /// # Errors
    /// [`Misuse`] only: bad or duplicate names, or a disposed runtime. Nothing was started then.
    fn run(&self, request: RunRequest) -> BoxFuture<'_, Result<Settled, Misuse>>;

    /// Fails in-flight runs as aborted, waits until every worker is gone, and refuses later runs.
    fn dispose(&self) -> BoxFuture<'_, ()>;
}
