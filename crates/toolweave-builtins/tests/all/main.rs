//! Behaviour of the file and search tools, as a program and a model see it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod edit;
mod escape;
mod glob;
mod grep;
mod paths;
mod read;
mod shape;
mod support;
mod write;
