//! Every size and time that somebody else chooses, with its cap.

use std::time::Duration;

/// The longest check, waiting for the compiler included, unless it is configured otherwise.
pub const CHECK_CAP: Duration = Duration::from_secs(2);
/// The longest start of the compiler.
pub const START_CAP: Duration = Duration::from_secs(20);
/// The longest pause before a compiler that keeps failing is started again.
pub const MAX_PAUSE: Duration = Duration::from_secs(30);
/// The pause after the second failure in a row; it doubles from there. The first costs none.
pub const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Bytes of a program that is checked.
pub const MAX_PROGRAM_BYTES: usize = 256 * 1024;
/// Bytes of declarations that are checked against.
pub const MAX_DECLARATION_BYTES: usize = 16 * 1024 * 1024;
/// Bytes of one message from the compiler.
pub const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;
/// Bytes of the head of a message.
pub const MAX_HEAD_BYTES: usize = 4 * 1024;
/// Complaints about one program that are looked at.
pub const MAX_COMPLAINTS: usize = 500;
/// Characters of one complaint.
pub const MAX_COMPLAINT_CHARS: usize = 500;
/// Memory of the compiler. It collects garbage harder as it comes near, and cannot go beyond.
pub const MAX_MEMORY_BYTES: u64 = 1024 * 1024 * 1024;
/// Memory in use after a check above which the compiler is started afresh.
pub const RESTART_BYTES: u64 = 512 * 1024 * 1024;
/// Programs whose complaints are remembered, and the bytes of one.
pub const REMEMBERED: usize = 64;
/// Bytes of a program that is remembered.
pub const REMEMBERED_BYTES: usize = 32 * 1024;
/// Bytes that `tsc --version` may print.
pub const MAX_VERSION_BYTES: usize = 1024;
/// Bytes of a `package.json` that is read to learn a version.
pub const MAX_PACKAGE_BYTES: u64 = 256 * 1024;
