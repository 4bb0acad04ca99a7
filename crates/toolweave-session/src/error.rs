//! What can go wrong with a session log.

use std::io;
use std::path::PathBuf;

/// Why a log could not be written or read. Whatever was read or made durable before the error stays good.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused; the log is as it was.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was being done, as a verb.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Reading from a source without a path failed.
    #[error("cannot read the session log")]
    Read(#[source] io::Error),
    /// Events wait in memory because the last write failed; the recorder goes on trying.
    #[error("cannot write the session log: {message}; {pending} events wait in memory")]
    Write {
        /// What the system answered.
        message: String,
        /// How many events are not on disk yet.
        pending: usize,
    },
    /// Another recorder has this log open.
    #[error("session log {} is in use by another process", .0.display())]
    Busy(PathBuf),
    /// The file is empty, or its only line is unfinished.
    #[error("session log has no header")]
    NoHeader,
    /// The first line is not a header.
    #[error("session log starts with `{0}` instead of `session/header`")]
    NotAHeader(String),
    /// A newer program wrote this log.
    #[error("session log has format version {found}; this program reads versions 1 to {newest}")]
    Version {
        /// The version in the header.
        found: u32,
        /// The newest version that can be read.
        newest: u32,
    },
    /// A line before the last is damaged. Earlier lines are good.
    #[error("line {line} of the session log is damaged: {reason}")]
    Damaged {
        /// The line, counted from 1.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The numbering has a hole or a repetition. Earlier lines are good.
    #[error("line {line} of the session log has seq {found} where {expected} is due")]
    Sequence {
        /// The line, counted from 1.
        line: u64,
        /// The number that was due.
        expected: u64,
        /// The number that is there.
        found: u64,
    },
    /// The log holds an event that must not be skipped and that this program does not know.
    #[error(
        "line {line} of the session log needs a newer program: unknown event `{kind}` is marked as required"
    )]
    UnknownRequired {
        /// The line, counted from 1.
        line: u64,
        /// The type of the event.
        kind: String,
    },
    /// The log is too large to be loaded at once; read it with a `Reader`.
    #[error("session log has {bytes} bytes; at most {limit} are loaded at once")]
    TooLarge {
        /// The size of the file.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The text is not a session id.
    #[error("`{0}` is not a session id: 1 to 64 letters, digits, `-` or `_`")]
    BadSessionId(String),
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &std::path::Path, source: io::Error) -> Self {
        Self::Io {
            action,
            path: path.to_owned(),
            source,
        }
    }
}
