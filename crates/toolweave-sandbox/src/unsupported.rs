//! The same interface on systems without this sandbox: every entry point says so, and no handle can exist.

use crate::{ChildStart, Exit, LaunchConfig, Report, SandboxError, WarmConfig};
use std::{convert::Infallible, time::Duration};

/// The stream socket between a child and its host.
#[cfg(unix)]
pub type Socket = std::os::unix::net::UnixStream;

/// The stream socket between a child and its host; none can exist here.
#[cfg(not(unix))]
pub type Socket = Infallible;

/// A warm parent; none can exist here.
#[derive(Clone, Debug)]
pub struct WarmParent(Infallible);

impl WarmParent {
    /// Returns [`SandboxError::Unsupported`].
    ///
    /// # Errors
    ///
    /// Always.
    pub fn start(_config: WarmConfig) -> Result<Self, SandboxError> {
        Err(SandboxError::Unsupported)
    }

    /// Cannot be called here.
    ///
    /// # Errors
    ///
    /// None.
    pub async fn take(&self) -> Result<Child, SandboxError> {
        match self.0 {}
    }

    /// Cannot be called here.
    pub fn report(&self) -> &Report {
        match self.0 {}
    }

    /// Cannot be called here.
    pub async fn shutdown(&self) {
        match self.0 {}
    }
}

/// Returns [`SandboxError::Unsupported`].
///
/// # Errors
///
/// Always.
pub fn probe(_config: &WarmConfig) -> Result<Report, SandboxError> {
    Err(SandboxError::Unsupported)
}

/// Returns [`SandboxError::Unsupported`].
///
/// # Errors
///
/// Always.
pub fn serve_warm<S>(
    _prepare: impl FnOnce() -> S,
    _child: impl FnOnce(S, ChildStart) -> u8,
) -> Result<Infallible, SandboxError> {
    Err(SandboxError::Unsupported)
}

/// A child; none can exist here.
#[derive(Debug)]
pub struct Child(Infallible);

impl Child {
    /// Cannot be called here.
    pub fn socket(&self) -> &Socket {
        match self.0 {}
    }

    /// Cannot be called here.
    pub fn handle(&self) -> &ChildHandle {
        match self.0 {}
    }

    /// Cannot be called here.
    pub fn split(self) -> (Socket, ChildHandle) {
        match self.0 {}
    }

    /// Cannot be called here.
    pub fn pid(&self) -> i32 {
        match self.0 {}
    }

    /// Cannot be called here.
    pub fn kill(&self) {
        match self.0 {}
    }

    /// Cannot be called here.
    pub fn cpu_time(&self) -> Option<Duration> {
        match self.0 {}
    }

    /// Cannot be called here.
    pub async fn reap(self) -> Exit {
        match self.0 {}
    }
}

/// The process of a child; none can exist here.
#[derive(Debug)]
pub struct ChildHandle(Infallible);

impl ChildHandle {
    /// Cannot be called here.
    pub fn pid(&self) -> i32 {
        match self.0 {}
    }

    /// Cannot be called here.
    pub fn kill(&self) {
        match self.0 {}
    }

    /// Cannot be called here.
    pub fn cpu_time(&self) -> Option<Duration> {
        match self.0 {}
    }

    /// Cannot be called here.
    pub fn resident_bytes(&self) -> Option<u64> {
        match self.0 {}
    }

    /// Cannot be called here.
    pub async fn wait(&self) -> Exit {
        match self.0 {}
    }
}

/// A launcher; none can exist here.
#[derive(Clone, Debug)]
pub struct Launcher(Infallible);

impl Launcher {
    /// Returns [`SandboxError::Unsupported`].
    ///
    /// # Errors
    ///
    /// Always.
    pub fn start(_config: LaunchConfig) -> Result<Self, SandboxError> {
        Err(SandboxError::Unsupported)
    }

    /// Cannot be called here.
    ///
    /// # Errors
    ///
    /// None.
    pub async fn launch(&self) -> Result<Starting, SandboxError> {
        match self.0 {}
    }

    /// Cannot be called here.
    pub async fn shutdown(&self) {
        match self.0 {}
    }
}

/// A process that is starting; none can exist here.
#[derive(Debug)]
pub struct Starting(Infallible);

impl Starting {
    /// Cannot be called here.
    pub fn socket(&self) -> &Socket {
        match self.0 {}
    }

    /// Cannot be called here.
    pub fn last_words(&self) -> &LastWords {
        match self.0 {}
    }

    /// Cannot be called here.
    pub fn handle(&self) -> &ChildHandle {
        match self.0 {}
    }

    /// Cannot be called here.
    ///
    /// # Errors
    ///
    /// None.
    pub async fn lock(self) -> Result<Launched, SandboxError> {
        match self.0 {}
    }
}

/// A foreign process; none can exist here.
#[derive(Debug)]
pub struct Launched {
    pub child: Child,
    pub report: Report,
    pub words: LastWords,
    pub resident_bytes: u64,
}

/// What a program said last; none can exist here.
#[derive(Clone, Debug)]
pub struct LastWords(Infallible);

impl LastWords {
    /// Cannot be called here.
    pub fn read(&self) -> String {
        match self.0 {}
    }
}
