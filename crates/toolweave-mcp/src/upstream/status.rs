//! What `doctor` and a log say about an upstream.

use std::fmt;

use serde::Serialize;

/// How one server is doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpstreamStatus {
    pub name: String,
    pub state: UpstreamState,
    /// Why it failed.
    pub reason: Option<String>,
    /// Names in the registry.
    pub tools: Vec<String>,
    /// The protocol revision that was agreed on.
    pub protocol: Option<String>,
    /// What the server calls itself, with its version.
    pub server: Option<String>,
    /// What it says about its use.
    pub instructions: Option<String>,
    /// What is odd about its tools: left out, renamed, schemas that are not used.
    pub notes: Vec<String>,
    /// How often it was started again.
    pub restarts: u32,
    /// Lines on its standard output that were no messages.
    pub skipped_lines: u64,
    /// The last lines of its standard error.
    pub stderr: Vec<String>,
}

/// What a server can be used for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum UpstreamState {
    /// Being started for the first time, or again after it had worked.
    Starting,
    Ready,
    /// Not usable; started again after a while.
    Failed,
    /// Switched off in the configuration.
    Disabled,
    /// Ended because this program is ending.
    Stopped,
}

impl fmt::Display for UpstreamState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Failed => "failed",
            Self::Disabled => "disabled",
            Self::Stopped => "stopped",
        })
    }
}
