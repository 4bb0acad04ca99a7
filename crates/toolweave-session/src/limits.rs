//! Every size that somebody else could choose, in one place.

use std::time::Duration;

/// The version of the format that a [`Recorder`](crate::Recorder) writes.
pub const FORMAT_VERSION: u32 = 1;

/// The longest line that is written or read, in bytes. A field that would break it is replaced by a note.
pub const MAX_LINE_BYTES: usize = 64 * 1024 * 1024;

/// In a line that is too long, fields above this size are replaced by a note.
pub const OVERSIZE_FIELD_BYTES: usize = 64 * 1024;

/// What may wait for the disk, in bytes. Beyond it events are dropped, counted, and a `log/gap` event says so.
pub const MAX_PENDING_BYTES: usize = 256 * 1024 * 1024;

/// How many events may wait for the disk.
pub const MAX_PENDING_EVENTS: usize = 200_000;

/// What a recorder in memory keeps, in bytes; beyond it events are dropped and counted.
pub const MAX_MEMORY_BYTES: usize = 256 * 1024 * 1024;

/// The largest log that [`read_log`](crate::read_log) loads at once; a [`Reader`](crate::Reader) has no such limit.
pub const MAX_LOADED_LOG_BYTES: u64 = 1024 * 1024 * 1024;

/// The most sessions of a folder that are listed.
pub const MAX_LISTED_SESSIONS: usize = 100_000;

/// The longest first line that a listing looks at, in bytes.
pub const MAX_HEADER_BYTES: usize = 1024 * 1024;

/// The longest `summary` of a settled sub-call, in characters.
pub const MAX_SUMMARY_CHARS: usize = 200;

/// The longest session id, in bytes.
pub const MAX_SESSION_ID_BYTES: usize = 64;

/// How long the writer collects events before it writes and syncs them together.
pub const BATCH_WINDOW: Duration = Duration::from_millis(50);

/// How long the writer waits after a failed write before it tries again.
pub const RETRY_AFTER: Duration = Duration::from_millis(500);
