//! The Linux implementation.
//!
//! Host side: `keeper` (the pool and its thread), `child` (handles). Worker side: `warm` (the warm parent),
//! `lockdown` and `filter` (what is given up). Between them: `wire`. Foreign programs: `launch` (starting them),
//! `supervise` (their start-up, and their end) and `foreign_filter`. System calls without a safe wrapper: `sys`.

mod child;
mod filter;
mod foreign_filter;
mod keeper;
mod latch;
mod launch;
mod lockdown;
mod supervise;
pub(crate) mod sys;
mod warm;
mod wire;

pub use child::{Child, ChildHandle};
pub use keeper::{WarmParent, probe};
pub use launch::{LastWords, Launched, Launcher, Starting};
pub use warm::serve_warm;

/// The stream socket between a child and its host.
pub type Socket = std::os::unix::net::UnixStream;
