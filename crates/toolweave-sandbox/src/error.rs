//! What can go wrong here, and what still works afterwards.

use crate::report::Missing;
use std::{fmt, io, path::PathBuf};

/// An error of the sandbox. A child that ends badly is not one: that is an [`crate::Exit`].
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// This system has no sandbox here. Programs can run in a thread of the host instead.
    #[error("process sandbox unsupported on {}: it needs Linux", std::env::consts::OS)]
    Unsupported,

    /// A field of the configuration is out of range. Nothing was started.
    #[error("invalid sandbox configuration: `{field}` {problem}")]
    Config { field: &'static str, problem: String },

    /// The host insists on the full lockdown and this system lacks part of it. Nothing is left running.
    #[error("sandbox incomplete: missing {}", Shortcomings(.missing))]
    Incomplete { missing: Vec<Missing> },

    /// The worker program could not be executed. Nothing was started.
    #[error("worker program `{}` did not start", program.display())]
    Spawn { program: PathBuf, source: io::Error },

    /// The worker program ran, but it was not ready to fork in time, or ended before. Nothing is left running.
    #[error("worker program `{}` did not become ready: {reason}", program.display())]
    NotReady { program: PathBuf, reason: String },

    /// The kernel refused this fork, for instance for want of memory or by a process limit. The pool still works.
    #[error("no new worker process: the kernel refused the fork")]
    Fork(#[source] io::Error),

    /// The warm parent died and could not be replaced. Children that run are unharmed, and the pool tries again by
    /// itself with a later `take`.
    #[error("no worker processes: the warm parent failed {attempts} times in a row, last because {last}")]
    Broken { attempts: u32, last: String },

    /// The pool was shut down.
    #[error("worker pool is shut down")]
    Closed,

    /// This program was started by hand, not by a host: descriptor 0 is not a control socket, or it said nothing
    /// that a host would say.
    #[error("not started by a host: {0}")]
    NotAWorker(String),

    /// An operation that does not normally fail did. The pool could not be started.
    #[error("{operation} failed")]
    System {
        operation: &'static str,
        source: io::Error,
    },
}

struct Shortcomings<'a>(&'a [Missing]);

impl fmt::Display for Shortcomings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, missing) in self.0.iter().enumerate() {
            write!(f, "{}{missing}", if i == 0 { "" } else { ", " })?;
        }
        for missing in self.0 {
            write!(f, "; for {}: {}", missing.layer, missing.layer.remedy())?;
        }
        f.write_str("; or let the sandbox be preferred instead of required")
    }
}
