//! QuickJS-ng engine, in a thread and as the worker process.
#![warn(clippy::disallowed_methods)]

mod console;
mod decode;
mod encode;
mod engine;
mod failure;
mod globals;
mod inspect;
mod js;
mod memory;
mod namespace;
mod random;
mod timers;
mod web;

pub use engine::{Engine, WarmError, run_program};
pub use globals::GLOBALS;

#[cfg(test)]
mod engine_tests;
