//! The host's side of a run against scripted guests, and the checks before one.

mod misuse;
mod protocol;
mod support;
mod thread;
mod worker;
