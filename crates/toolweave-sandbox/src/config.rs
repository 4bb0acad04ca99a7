//! The configuration of a pool, with every bound that it is held to.

use crate::{Layer, Requirement, SandboxError};
use std::{ffi::OsString, path::PathBuf, time::Duration};

const MIB: u64 = 1024 * 1024;

/// The most children that may stand ready.
const MAX_STANDBYS: usize = 64;
const MIN_MEMORY_BYTES: u64 = 4 * MIB;
const MAX_MEMORY_BYTES: u64 = 1 << 40;
const MIN_STACK_BYTES: u64 = MIB;
const MAX_STACK_BYTES: u64 = 1024 * MIB;
const MAX_CPU_SECONDS: u64 = 7 * 24 * 3600;
const MAX_START_SECONDS: u64 = 600;

/// How to start a [`crate::WarmParent`] and what its children may use.
#[derive(Clone, Debug)]
pub struct WarmConfig {
    /// The program that calls [`crate::serve_warm`]; by default this one again.
    pub program: PathBuf,
    /// Its arguments, which must lead it to [`crate::serve_warm`].
    pub args: Vec<OsString>,
    pub requirement: Requirement,
    /// How many children stand ready when nothing is asked for. With 0 every child is forked when it is asked for;
    /// otherwise a few more than this stand ready for a while after a shortage.
    pub standbys: usize,
    /// What a child may allocate on top of what the warm parent had. The kernel enforces it, with some slack, so that
    /// an engine with a limit of its own meets that one first.
    pub max_memory_bytes: u64,
    /// The CPU time after which the kernel itself ends a child. Meant as a backstop, above the caller's own budget.
    pub cpu_seconds: u64,
    /// The main stack of the warm parent and of its children.
    pub stack_bytes: u64,
    /// How long the program may take to become ready to fork.
    pub start_timeout: Duration,
    /// Leaves descriptor 2 of the workers connected to the host's. For finding faults only: it is one more descriptor
    /// that hostile code can write to, and file-size limits are off with it.
    pub keep_stderr: bool,
    /// Layers to leave out and to report as missing. Tests use it to see a layer bite alone, and to be on a system
    /// that lacks one.
    pub leave_out: Vec<Layer>,
}

impl Default for WarmConfig {
    fn default() -> Self {
        Self {
            program: PathBuf::from("/proc/self/exe"),
            args: vec![OsString::from("worker")],
            requirement: Requirement::Required,
            standbys: 2,
            max_memory_bytes: 512 * MIB,
            cpu_seconds: 3600,
            stack_bytes: 64 * MIB,
            start_timeout: Duration::from_secs(30),
            keep_stderr: false,
            leave_out: Vec::new(),
        }
    }
}

impl WarmConfig {
    /// Checks every field against its bounds.
    ///
    /// # Errors
    ///
    /// [`SandboxError::Config`] names the first field that is out of bounds, its value and the bound.
    pub fn validate(&self) -> Result<(), SandboxError> {
        let within = |field, value: u64, min: u64, max: u64| {
            if (min..=max).contains(&value) {
                return Ok(());
            }
            let problem = format!("must be between {min} and {max}, but is {value}");
            Err(SandboxError::Config { field, problem })
        };
        within("standbys", self.standbys as u64, 0, MAX_STANDBYS as u64)?;
        within(
            "max_memory_bytes",
            self.max_memory_bytes,
            MIN_MEMORY_BYTES,
            MAX_MEMORY_BYTES,
        )?;
        within("cpu_seconds", self.cpu_seconds, 1, MAX_CPU_SECONDS)?;
        within(
            "start_timeout",
            self.start_timeout.as_secs(),
            0,
            MAX_START_SECONDS,
        )?;
        within("stack_bytes", self.stack_bytes, MIN_STACK_BYTES, MAX_STACK_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_out_of_bounds_is_named_with_its_value() {
        let errors = [
            WarmConfig {
                standbys: 65,
                ..WarmConfig::default()
            },
            WarmConfig {
                max_memory_bytes: 1,
                ..WarmConfig::default()
            },
            WarmConfig {
                cpu_seconds: 0,
                ..WarmConfig::default()
            },
            WarmConfig {
                stack_bytes: 1 << 31,
                ..WarmConfig::default()
            },
        ]
        .map(|config| config.validate().unwrap_err().to_string());
        assert_eq!(
            errors,
            [
                "invalid sandbox configuration: `standbys` must be between 0 and 64, but is 65",
                "invalid sandbox configuration: `max_memory_bytes` must be between 4194304 and 1099511627776, but is 1",
                "invalid sandbox configuration: `cpu_seconds` must be between 1 and 604800, but is 0",
                "invalid sandbox configuration: `stack_bytes` must be between 1048576 and 1073741824, but is 2147483648",
            ]
        );
        WarmConfig::default().validate().unwrap();
    }
}
