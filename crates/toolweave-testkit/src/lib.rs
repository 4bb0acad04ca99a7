//! What the tests of this workspace share: a fixture MCP server with two sets of tools, the corpus of programs with a
//! comparer for their sidecars, a plain JSON-RPC client, and helpers to find files.
//!
//! It depends on no other crate of the workspace and on no MCP library, so that a mistake there cannot hide itself here.
//! It is a development crate: nothing of it is part of the product.

#![warn(clippy::disallowed_methods)]

mod client;
mod corpus;
mod files;
mod raw;
mod report;
mod rig;
mod server;
mod std_set;

pub use client::{ClientError, RpcClient};
pub use corpus::{
    Class, CorpusError, Expect, Limits, OneOrMany, Program, Sidecar, load_programs, sidecar_matches,
};
pub use files::{BuildError, corpus_dir, fixture_bin, shared_dir, temp_dir};
pub use rig::RigSet;
pub use server::{Answer, Misbehaviour, Outcome, ServeOptions, ToolSet, serve};
pub use std_set::StdSet;
pub use tempfile::TempDir;
