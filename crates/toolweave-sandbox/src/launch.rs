//! How to start a program that is not ours.

use crate::{Layer, Requirement, SandboxError};
use std::{ffi::OsString, path::PathBuf};

const MIB: u64 = 1024 * 1024;
const MIN_STACK_BYTES: u64 = 256 * 1024;
const MAX_STACK_BYTES: u64 = 1024 * MIB;
const MIN_DATA_BYTES: u64 = 4 * MIB;
const MAX_DATA_BYTES: u64 = 1 << 40;
const MAX_CPU_SECONDS: u64 = 7 * 24 * 3600;
const MAX_RULES: usize = 256;

/// How a [`crate::Launcher`] starts its program, and what that may use.
#[derive(Clone, Debug)]
pub struct LaunchConfig {
    /// The program, by its absolute path. It has to be among `executable`.
    pub program: PathBuf,
    pub args: Vec<OsString>,
    pub requirement: Requirement,
    /// Files and folders that it may read while it starts. Those that do not exist are left out.
    pub readable: Vec<PathBuf>,
    /// Files and folders that it may read and execute while it starts: itself and its libraries.
    pub executable: Vec<PathBuf>,
    pub preset: Preset,
    /// What it may allocate beyond what it has when it is locked. A backstop of the kernel's.
    pub data_bytes: u64,
    /// What its main stack may grow to.
    pub stack_bytes: u64,
    /// The CPU time after which the kernel itself ends it.
    pub cpu_seconds: u64,
    /// Layers to leave out and to report as missing, for tests.
    pub leave_out: Vec<Layer>,
}

/// Which system calls a program may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Preset {
    /// A language runtime with a just-in-time compiler that is given one socket: threads and read-only files while it
    /// starts; afterwards memory, clocks, its own threads and its own socket.
    JitRuntime,
}

impl LaunchConfig {
    /// Returns a configuration with no allowance but the program itself.
    pub fn new(program: PathBuf) -> Self {
        Self {
            executable: vec![program.clone()],
            program,
            args: Vec::new(),
            requirement: Requirement::Required,
            readable: Vec::new(),
            preset: Preset::JitRuntime,
            data_bytes: 1024 * MIB,
            stack_bytes: 8 * MIB,
            cpu_seconds: 3600,
            leave_out: Vec::new(),
        }
    }

    /// Checks every field against its bounds.
    ///
    /// # Errors
    /// [`SandboxError::Config`] names the first field that is out of bounds.
    pub fn validate(&self) -> Result<(), SandboxError> {
        let wrong = |field, problem| Err(SandboxError::Config { field, problem });
        if !self.program.is_absolute() {
            return wrong(
                "program",
                format!("must be an absolute path, but is `{}`", self.program.display()),
            );
        }
        if self.readable.len() + self.executable.len() > MAX_RULES {
            let count = self.readable.len() + self.executable.len();
            return wrong(
                "readable",
                format!("and `executable` together may have {MAX_RULES} paths, but have {count}"),
            );
        }
        for (field, value, min, max) in [
            ("data_bytes", self.data_bytes, MIN_DATA_BYTES, MAX_DATA_BYTES),
            ("stack_bytes", self.stack_bytes, MIN_STACK_BYTES, MAX_STACK_BYTES),
            ("cpu_seconds", self.cpu_seconds, 1, MAX_CPU_SECONDS),
        ] {
            if !(min..=max).contains(&value) {
                return wrong(field, format!("must be between {min} and {max}, but is {value}"));
            }
        }
        Ok(())
    }
}
