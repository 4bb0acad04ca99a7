//! The log as a user of the crate sees it.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod format;
mod listing;
mod recording;
mod samples;
mod torn;
