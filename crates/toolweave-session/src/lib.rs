//! The session log: an append-only file of events, one JSON object per line.
//!
//! A [`Recorder`] writes it and a [`Reader`] reads it back, whatever version of the format wrote it. The log is the
//! only source of a session's history, so nothing here changes or removes what was written; opening a log again only
//! cuts off a last line that a crash left unfinished.
//!
//! What this crate leaves out: what the events mean. It knows no tool, model or runtime, derives no model history and
//! decides nothing; it depends on no other crate of the workspace.
//!
//! # One line
//!
//! ```json
//! {"seq":7,"ts":1771234567890,"time":"2026-02-16T09:36:07.890Z","type":"tool/call","callId":"c1","name":"run_code","arguments":"{}"}
//! ```
//!
//! `seq` counts from 1 without gaps, and is the log's own. `ts` (milliseconds since 1970) and `time` say the same; time never
//! runs backwards within a log. The first line is the [`SessionHeader`] with the version of the format.

#![warn(clippy::disallowed_methods)]

mod error;
mod event;
mod id;
mod json;
mod limits;
mod list;
mod reader;
mod recorder;

pub use error::Error;
pub use event::{
    ApprovalAsked, ApprovalDecided, ArtifactSaved, CodeDispatch, CodeDispatchStart, Decision, Event, LogGap,
    MessageAssistant, MessageUser, Origin, ProgramRun, RequestEnd, RequestHeader, RequestRetry,
    SessionHeader, SessionResume, StorePut, ToolCall, ToolResult, TurnEnd, TurnOutcome, TurnStart,
    UnknownEvent, summarize,
};
pub use id::SessionId;
pub use json::Json;
pub use limits::*;
pub use list::{SessionEntry, list_sessions};
pub use reader::{Log, Reader, Record, TornTail, read_log};
pub use recorder::{NewSession, Recorder, Redaction, Status};
