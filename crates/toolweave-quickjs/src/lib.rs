//! QuickJS-ng behind the code-runtime seam, on a thread of the host or in a locked-down process of its own.
//!
//! [`QuickJsRuntime`] implements `toolweave_runtime::CodeRuntime`. Each program gets an engine that ran nothing before and
//! runs nothing after; engines stand warm, so that a run starts in a fraction of a millisecond. The engine is written once
//! ([`run_program`]) against `GuestPort`; the placements differ in what that port is.
//!
//! It leaves out TypeScript (`toolweave-program` strips it), tools, schemas and policy.
#![warn(clippy::disallowed_methods)]

mod console;
mod decode;
mod encode;
mod engine;
mod failure;
mod globals;
mod inspect;
mod intl;
mod js;
mod memory;
mod namespace;
mod random;
mod runtime;
mod thread;
mod timers;
mod web;
mod worker;

pub use engine::{Engine, WarmError, run_program};
pub use globals::GLOBALS;
pub use runtime::{ConfigError, Placement, QuickJsConfig, QuickJsRuntime};
pub use worker::{WorkerConfig, worker_main};

#[cfg(test)]
mod engine_tests;
