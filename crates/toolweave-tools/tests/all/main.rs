//! Tools, programs and everything between them, driven from Rust.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod support;
mod typecheck;

mod arguments;
mod corpus;
mod dispatch;
mod modes;
mod observed;
mod output;
mod policy;
mod programs;
mod registry;
mod schedules;
mod schema;
mod sdk;
mod search;
