//! V8 behind the code-runtime seam: an installed Node, as a sandboxed child process that runs one program.
//!
//! [`NodeRuntime`] implements `toolweave_runtime::CodeRuntime`. Processes stand ready: Node has started, made its threads,
//! loaded the part of itself that is needed, given up what a start needs, and waits for a program on its only socket. A
//! process that ran a program never runs another.
//!
//! The JavaScript half is in `boot.js` (takes the rest over the socket), `host.js` (Node's own realm: frames and turns) and
//! `guest.js` (the program's realm: its globals and what looks at its values). Globals that are easier said in JavaScript are
//! those of the QuickJS engine, by the same file.
//!
//! # What stands between a program and the machine
//!
//! | layer | stops |
//! | --- | --- |
//! | a realm of its own, reached by strings only | reaching Node's objects: no `process`, no `require`, no constructor chain |
//! | no code from strings in Node's realm; its globals removed | using that realm, should it ever be reached |
//! | Node's permission model, where this Node has one | files, processes, workers and native addons through Node's modules |
//! | `toolweave_sandbox::Launcher` | native code in the process: see that crate for its layers and two stages |
//!
//! What V8's own sandbox may be worth is not counted on.
//!
//! It leaves out TypeScript (`toolweave-program` strips it), tools, schemas and policy, and Deno: asking for it is an error
//! that says so.
#![warn(clippy::disallowed_methods)]

mod find;
mod pool;
mod runtime;

pub use find::{ConfigError, Flavor, MIN_NODE, NodeProgram, find_node};
pub use runtime::{NodeConfig, NodeRuntime};
