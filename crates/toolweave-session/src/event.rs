//! The closed set of events, their names in the log, and their payloads.
//!
//! A payload's large parts are always a `String` or a [`Json`]: both survive as text whatever they hold, and either
//! can be replaced by a note when a line would become too long.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::limits::MAX_SUMMARY_CHARS;
use crate::{Json, SessionId};

/// Defines [`Event`], and in the same table the one name under which each event is written and the older names under
/// which it is read as well.
macro_rules! events {
    ($( $(#[$doc:meta])* $variant:ident($payload:ident) = $name:literal $(, also $alias:literal)* ; )*) => {
        /// One thing that happened in a session.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Event {
            $( $(#[$doc])* $variant($payload), )*
            /// An event of a type that this program does not know; kept as it is.
            Unknown(UnknownEvent),
        }

        impl Event {
            /// The names of all events that this program writes.
            pub const NAMES: &[&str] = &[$($name),*];

            /// Returns the name of the event's type, as it is written.
            pub fn kind(&self) -> &str {
                match self {
                    $( Self::$variant(_) => $name, )*
                    Self::Unknown(event) => &event.kind,
                }
            }

            /// Returns the payload as the text of a JSON object.
            pub(crate) fn payload(&self) -> Result<String, serde_json::Error> {
                match self {
                    $( Self::$variant(payload) => serde_json::to_string(payload), )*
                    Self::Unknown(event) => Ok(event.payload.get().to_owned()),
                }
            }

            /// Returns the event of a known type in `line`, or `None` where the type is unknown.
            pub(crate) fn decode(kind: &str, line: &str) -> Option<Result<Self, serde_json::Error>> {
                match kind {
                    $( $name $(| $alias)* => Some(serde_json::from_str(line).map(Self::$variant)), )*
                    _ => None,
                }
            }
        }

        $( impl From<$payload> for Event {
            fn from(payload: $payload) -> Self {
                Self::$variant(payload)
            }
        } )*
    };
}

events! {
    /// The first line of every log.
    SessionHeader(SessionHeader) = "session/header";
    /// The log was opened again and goes on.
    SessionResume(SessionResume) = "session/resume";
    /// A turn begins: a user's input and everything done to answer it.
    TurnStart(TurnStart) = "turn/start";
    /// A turn is over.
    TurnEnd(TurnEnd) = "turn/end";
    /// A message from the user, or one that the program adds in the user's place.
    MessageUser(MessageUser) = "message/user";
    /// A message from the model.
    MessageAssistant(MessageAssistant) = "message/assistant";
    /// A request goes to the model.
    RequestHeader(RequestHeader) = "request/header";
    /// The model's answer is complete.
    RequestEnd(RequestEnd) = "request/end";
    /// A request failed and is tried again.
    RequestRetry(RequestRetry) = "request/retry";
    /// The model called a tool.
    ToolCall(ToolCall) = "tool/call";
    /// A program's call of a tool starts, before any policy has looked at it.
    CodeDispatchStart(CodeDispatchStart) = "tool/code-dispatch-start", also "tool/ptc-dispatch-start";
    /// A program's call of a tool settled; exactly once for each start.
    CodeDispatch(CodeDispatch) = "tool/code-dispatch", also "tool/ptc-dispatch", also "code/dispatch";
    /// The result of a tool that the model called.
    ToolResult(ToolResult) = "tool/result";
    /// Somebody is asked to approve a call.
    ApprovalAsked(ApprovalAsked) = "approval/asked";
    /// The question was answered, or could not be.
    ApprovalDecided(ApprovalDecided) = "approval/decided";
    /// A program ran to its end, whatever that was.
    ProgramRun(ProgramRun) = "program/run";
    /// A program kept a value for later runs of the session.
    StorePut(StorePut) = "store/put";
    /// A large output was set aside under a handle.
    ArtifactSaved(ArtifactSaved) = "artifact/saved";
    /// Events are missing here, because the disk did not keep up or could not be written.
    LogGap(LogGap) = "log/gap";
}

/// Payload of `session/header`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionHeader {
    /// The version of the log's format.
    pub format_version: u32,
    /// The version of the program that wrote it.
    pub product_version: String,
    /// The session's name.
    pub session_id: SessionId,
    /// Where the session works, as a label for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The session and place that this one was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

/// Where a forked session comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Origin {
    /// The session that was forked.
    pub session_id: SessionId,
    /// The last event of it that was taken over.
    pub seq: u64,
}

/// Payload of `session/resume`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionResume {
    /// The version of the program that goes on.
    pub product_version: String,
    /// Bytes of an unfinished last line that were cut off.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut_bytes: u64,
}

/// Payload of `turn/start`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnStart {
    /// The turn's number in the session, from 1.
    pub turn: u64,
}

/// Payload of `turn/end`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnEnd {
    /// The turn's number.
    pub turn: u64,
    /// How it ended.
    pub outcome: TurnOutcome,
    /// What went wrong, where something did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TurnOutcome {
    /// The model had nothing more to do.
    #[default]
    Completed,
    /// The user or the caller stopped it.
    Aborted,
    /// It could not go on.
    Failed,
}

/// Payload of `message/user`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageUser {
    /// Who speaks in the user's place, for example a tool whose image is attached; absent for the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The content, a string or a list of blocks.
    pub content: Json,
}

/// Payload of `message/assistant`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageAssistant {
    /// The content, a string or a list of blocks.
    pub content: Json,
    /// Reasoning that the model wants to see again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Json>,
}

/// Payload of `request/header`: what the model really got, so that a log alone shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestHeader {
    /// Who is asked.
    pub provider: String,
    /// The model's name.
    pub model: String,
    /// The presentation mode in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The whole system text.
    pub system: String,
    /// The list of tools on the wire.
    pub tools: Json,
}

/// Payload of `request/end`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestEnd {
    /// Why the model stopped, in the provider's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// Tokens read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Tokens of these that came from a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_tokens: Option<u64>,
    /// Tokens written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
}

/// Payload of `request/retry`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestRetry {
    /// The number of the attempt that failed, from 1.
    pub attempt: u32,
    /// Why it failed.
    pub reason: String,
    /// How long the next one waits.
    pub wait_ms: u64,
}

/// Payload of `tool/call`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// The call's id.
    pub call_id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments exactly as the model sent them; not necessarily JSON.
    pub arguments: String,
}

/// Payload of `tool/code-dispatch-start`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CodeDispatchStart {
    /// The call by the model that everything belongs to. Logs of the oldest form leave it out; it is their parent then.
    #[serde(default)]
    pub root_call_id: String,
    /// The call whose program made this one.
    pub parent_call_id: String,
    /// The sub-call's own id; opaque.
    pub sub_call_id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments as they were dispatched.
    #[serde(default)]
    pub arguments: Json,
}

/// Payload of `tool/code-dispatch`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CodeDispatch {
    /// The call by the model that everything belongs to. Logs of the oldest form leave it out; it is their parent then.
    #[serde(default)]
    pub root_call_id: String,
    /// The call whose program made this one.
    pub parent_call_id: String,
    /// The sub-call's own id; opaque.
    pub sub_call_id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments as they were dispatched.
    #[serde(default)]
    pub arguments: Json,
    /// Whether the call failed.
    pub is_error: bool,
    /// The complete rendered content; `null` in logs of the oldest form.
    #[serde(default)]
    pub content: Json,
    /// The start of the content, for lists; see [`summarize`].
    #[serde(default, alias = "resultSummary", skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

/// Payload of `tool/result`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    /// The call's id.
    pub call_id: String,
    /// The tool's name.
    pub name: String,
    /// Whether the call failed.
    pub is_error: bool,
    /// A code for the failure, for example `UNKNOWN_TOOL`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The content that the model sees.
    pub content: Json,
}

/// Payload of `approval/asked`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalAsked {
    /// The call or sub-call in question.
    pub call_id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments that are to be approved.
    #[serde(default)]
    pub arguments: Json,
    /// Why somebody is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Payload of `approval/decided`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalDecided {
    /// The call or sub-call in question.
    pub call_id: String,
    /// The answer.
    pub decision: Decision,
    /// Who answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The answer to a request for approval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    /// The call may go on.
    Allowed,
    /// Somebody said no.
    #[default]
    Denied,
    /// Nobody is there who could answer.
    NoAnswerer,
    /// The run ended before there was an answer.
    Cancelled,
}

/// Payload of `program/run`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProgramRun {
    /// The call that ran the program.
    pub call_id: String,
    /// What the model said that the program does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether it succeeded.
    pub ok: bool,
    /// The kind of failure, for example `timeout`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The failure's message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The line of the failure in the model's own text, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// How many sub-calls settled.
    #[serde(default)]
    pub calls: u64,
    /// Processor time that the program used.
    #[serde(default)]
    pub compute_ms: u64,
    /// Time from start to end.
    #[serde(default)]
    pub wall_ms: u64,
    /// The most memory that the program held, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory_bytes: Option<u64>,
    /// The engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// How the run was kept apart from this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<String>,
    /// The sandbox's layers in force, in the runtime's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Json>,
}

/// Payload of `store/put`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StorePut {
    /// The key.
    pub key: String,
    /// The value; absent when the key was removed.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "present"
    )]
    pub value: Option<Json>,
}

/// Payload of `artifact/saved`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactSaved {
    /// The handle under which it can be read.
    pub handle: String,
    /// The call whose output it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// Its size.
    pub bytes: u64,
    /// What it is, as a media type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
}

/// Payload of `log/gap`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogGap {
    /// How many events are missing.
    pub dropped: u64,
}

/// An event of a type that this program does not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownEvent {
    /// The name of its type.
    pub kind: String,
    /// Everything in its line but `seq`, `ts`, `time` and `type`, as a JSON object.
    pub payload: Json,
}

/// Returns the first line of `text`, cut to what a `summary` may hold.
pub fn summarize(text: &str) -> String {
    let line = text.trim_start().lines().next().unwrap_or_default().trim_end();
    let whole = line.len() == text.trim().len();
    let mut chars = line.chars();
    let mut summary: String = chars.by_ref().take(MAX_SUMMARY_CHARS).collect();
    if !whole || chars.next().is_some() {
        if summary.chars().count() == MAX_SUMMARY_CHARS {
            summary.pop();
        }
        summary.push('…');
    }
    summary
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Reads a field that is there as `Some`, even when it is `null`.
fn present<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Json>, D::Error> {
    Box::<RawValue>::deserialize(from).map(|raw| Some(Json::from(raw)))
}
