//! What a process gives up before hostile code runs in it, and how it is started, watched, killed and accounted for.
//!
//! A host calls [`WarmParent::start`]. That starts one *warm parent*: the same program again, which calls
//! [`serve_warm`], does its expensive start-up work once, gives up what can be given up for good, and from then on
//! only forks. Every [`WarmParent::take`] hands out a [`Child`]: a locked-down process with nothing but one socket to
//! its host. What runs in the child, and what is said over the socket, is not this crate's business.
//!
//! # Threat model
//!
//! The code in a child is hostile and is assumed to control the whole process, native code included. What stands
//! between it and the machine, innermost first ([`Layer`] says what each one stops):
//!
//! | layer | applied by | stops |
//! | --- | --- | --- |
//! | seccomp allow-list | each child | every system call that is not needed to compute and to talk over one socket |
//! | Landlock, no paths | warm parent | opening, making, removing files; TCP; signals and abstract sockets to outside |
//! | resource limits | each child | eating memory, CPU, descriptors, core dumps |
//! | capabilities, `no_new_privs` | warm parent | being root while running as root; gaining rights through a program |
//! | dumpable off | warm parent | other processes of the same user reading or tracing it, and it reading them through `/proc` |
//! | descriptors, environment | host and child | what the host had open, and what it kept in its variables |
//! | parent-death signal | each child | outliving its host |
//!
//! What this does not stop: bugs in the kernel's own handling of the few calls that remain, and timing channels through
//! the shared CPU. All children of one warm parent share its address-space layout, stack canary and the hash seeds that
//! were already drawn there, as every forking server does. They get fresh [`Entropy`] each; engines reseed from it.
//!
//! # Which process is whose child
//!
//! ```text
//! host ── keeper thread ──┬── warm parent (execs the worker program, single-threaded)
//!                         ├── child 1     (made by the warm parent with CLONE_PARENT)
//!                         └── child 2
//! ```
//!
//! Children are made by the warm parent, but the kernel counts them as the host's. So the host reaps them itself and
//! gets their resource usage; a pid stays reserved until the host has reaped it, so that a kill cannot hit a stranger;
//! and a warm parent that dies takes no run with it. Children ask for SIGKILL when their parent *thread* ends: that is
//! the keeper thread, which lives as long as the pool.
//!
//! # Foreign programs
//!
//! A [`Launcher`] starts programs that are not ours, such as an installed Node, and cannot lock themselves down. They get
//! the same layers before their first instruction, in a form that they can live with, in two stages: what a program needs
//! only while it starts (opening its libraries, making its threads, being executed at all) is let through one call at a
//! time by a supervisor in the host, until [`Starting::lock`] dismisses that supervisor and the kernel refuses those calls
//! for good. Memory that can be executed stays allowed, since compilers are what such programs are for; so are the threads
//! that they have by then. "Dumpable off" does not survive executing a program and is not among their layers: what it is
//! for, the child's side of tracing, falls to Landlock and seccomp, and core dumps to the resource limits.
//!
//! # What it leaves out
//!
//! No protocol, no engine, no wall-clock or CPU budget policy (callers watch [`Child::cpu_time`] and call
//! [`Child::kill`]), and nothing but Linux: elsewhere every entry point returns [`SandboxError::Unsupported`].

#![warn(clippy::disallowed_methods)]

mod clock;
mod config;
mod error;
mod launch;
mod report;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as platform;

#[cfg(not(target_os = "linux"))]
mod unsupported;
#[cfg(not(target_os = "linux"))]
use unsupported as platform;

pub use clock::ThreadClock;
pub use config::WarmConfig;
pub use error::SandboxError;
pub use launch::{LaunchConfig, Preset};
pub use platform::{
    Child, ChildHandle, LastWords, Launched, Launcher, Socket, Starting, WarmParent, probe, serve_warm,
};
pub use report::{Layer, Missing, Report, Requirement};

use std::time::Duration;

/// The exit code of a child that could not complete its lockdown; the program given to it never started.
pub const LOCKDOWN_FAILED: u8 = 125;

/// Random bytes that no other child has: fill an engine's `Math.random` and hash seeds from them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Entropy(pub [u8; 32]);

impl Entropy {
    /// Returns the first eight bytes as a number, for engines that take a 64-bit seed.
    pub fn seed(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }
}

impl std::fmt::Debug for Entropy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Entropy(..)")
    }
}

/// What a child is given when it starts. It is locked down already.
#[derive(Debug)]
pub struct ChildStart {
    /// The only way out: a blocking stream socket whose other end the host holds.
    pub socket: Socket,
    pub entropy: Entropy,
    /// The size that the main thread's stack may grow to, in bytes; engines set their own depth limit below it.
    pub stack_bytes: u64,
    /// [`WarmConfig::max_memory_bytes`], as the host set it.
    pub max_memory_bytes: u64,
}

/// How a child ended, and what it used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    pub status: ExitStatus,
    /// User and system time over the child's whole life, the fork excluded.
    pub cpu_time: Duration,
    /// The largest resident set, in bytes. It includes pages that are shared with the warm parent.
    pub max_rss_bytes: u64,
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// It returned this code from its main function ([`LOCKDOWN_FAILED`]: it never got there).
    Code(u8),
    /// The kernel or the host ended it with this signal. SIGSYS (31) means that it tried a forbidden system call,
    /// SIGABRT (6) a panic or a failed allocation, SIGXCPU (24) the CPU backstop, SIGKILL (9) the host.
    Signal(i32),
    /// Some other code in the host process reaped it, so nothing is known.
    Unknown,
}

impl std::fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(LOCKDOWN_FAILED) => f.write_str("could not lock itself down (exit code 125)"),
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(6) => f.write_str("aborted (SIGABRT)"),
            Self::Signal(9) => f.write_str("killed (SIGKILL)"),
            Self::Signal(11) => f.write_str("invalid memory access or stack overflow (SIGSEGV)"),
            Self::Signal(24) => f.write_str("CPU limit reached (SIGXCPU)"),
            Self::Signal(31) => f.write_str("tried a forbidden system call (SIGSYS)"),
            Self::Signal(signal) => write!(f, "ended by signal {signal}"),
            Self::Unknown => f.write_str("ended for an unknown reason"),
        }
    }
}
