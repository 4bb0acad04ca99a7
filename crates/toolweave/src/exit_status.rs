//! What scripts can rely on.

use std::process::ExitCode;

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitStatus {
    Ok = 0,
    /// The program or the tool call failed.
    Failed = 1,
    /// Usage or configuration.
    Usage = 2,
    /// No runtime or no sandbox.
    NoRuntime = 3,
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        Self::from(status as u8)
    }
}
