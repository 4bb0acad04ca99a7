//! What a tool is: a declaration and a body.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// A tool as its provider declares it, in the words of MCP.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// The name a program calls it by, unique in a registry.
    pub name: String,
    /// A short title for people.
    pub title: Option<String>,
    pub description: String,
    /// A JSON Schema for the argument object, as sent by the provider.
    pub input_schema: Value,
    pub output_schema: Option<Value>,
    pub effect: Effect,
    pub provider: Provider,
}

/// Where a tool comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Provider {
    /// `builtin`, or the name of an upstream server.
    pub name: Arc<str>,
    pub version: Option<Arc<str>>,
}

/// What a tool does to the world, as declared. Nothing is assumed to be harmless.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// Changes nothing.
    Read,
    /// Changes something, in a way that adds or replaces.
    Write,
    /// May destroy something.
    Destructive,
    /// Not declared; treated as a write.
    #[default]
    Unknown,
}

impl Effect {
    /// Returns the effect as one lower-case word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Destructive => "destructive",
            Self::Unknown => "unknown",
        }
    }
}

/// Whether a call may overlap others (contract E12–E14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concurrency {
    /// May run beside other safe calls.
    Safe,
    /// Runs alone, in order.
    Exclusive,
}

/// A callable tool.
#[async_trait]
pub trait Tool: Send + Sync {
    fn spec(&self) -> &ToolSpec;

    /// Classifies one call on valid arguments. Asked again just before each start.
    fn concurrency(&self, arguments: &Value) -> Concurrency {
        let _ = arguments;
        if self.spec().effect == Effect::Read {
            Concurrency::Safe
        } else {
            Concurrency::Exclusive
        }
    }

    /// Does the work. `arguments` is an object that satisfies the input schema.
    ///
    /// Cancellation is cooperative: watch [`CallContext::cancel`] and return soon after it fires.
    ///
    /// # Errors
    /// What the model or the program should read, in its own words.
    async fn call(&self, context: &CallContext, arguments: Value) -> Result<ToolOutput, ToolError>;
}

/// What a tool is told about the call it serves.
#[derive(Clone)]
pub struct CallContext {
    /// Fires when the caller no longer wants the answer.
    pub cancel: CancellationToken,
    /// The id of this call; `<parent>:code:<n>` inside a program.
    pub call_id: Arc<str>,
    /// The id of the outermost call.
    pub root_call_id: Arc<str>,
    pub progress: Option<ProgressSink>,
}

/// Receives progress: done so far, total when known, a message.
pub type ProgressSink = Arc<dyn Fn(f64, Option<f64>, Option<&str>) + Send + Sync>;

/// What a successful call gave.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolOutput {
    /// What a program gets: lossless JSON that satisfies the output schema.
    pub value: Value,
    /// What a model would be shown for a direct call, in order.
    pub content: Vec<Content>,
}

impl ToolOutput {
    /// Returns a value shown to a model as its compact JSON (a string as itself).
    pub fn from_value(value: Value) -> Self {
        let text = match &value {
            Value::String(text) => text.clone(),
            other => crate::pipeline::compact(other),
        };
        Self {
            value,
            content: vec![Content::Text(text)],
        }
    }
}

/// One block of content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Content {
    #[serde(with = "text_block")]
    Text(String),
    Image {
        /// Base64, as it came.
        data: String,
        #[serde(rename = "mimeType")]
        mime_type: String,
    },
    /// Any other MCP block (audio, resource, resource link), as it came.
    Other { block: Value },
}

mod text_block {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Block<T> {
        text: T,
    }

    pub(super) fn serialize<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
        Block { text }.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
        Block::deserialize(deserializer).map(|block: Block<String>| block.text)
    }
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ToolError {
    pub code: ErrorCode,
    /// Text that says what to change. A program sees this and the tool's name, nothing else.
    pub message: String,
    /// Whole content blocks of a failed MCP call, for a direct caller.
    pub content: Vec<Content>,
}

impl ToolError {
    /// Returns a failure in the tool's own words.
    pub fn failed(message: impl Into<String>) -> Self {
        Self {
            code: ErrorCode::ToolFailed,
            message: message.into(),
            content: Vec::new(),
        }
    }

    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            content: Vec::new(),
        }
    }
}

/// The machine-readable side of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ErrorCode {
    UnknownTool,
    InvalidArgs,
    InvalidToolOutput,
    ToolFailed,
    ToolTimeout,
    Denied,
    /// Cancelled while the body ran.
    Aborted,
    /// Cancelled before the body began.
    AbortedBeforeDispatch,
    CodeRunFailed,
    /// The provider cannot be reached.
    Unavailable,
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownTool => "UNKNOWN_TOOL",
            Self::InvalidArgs => "INVALID_ARGS",
            Self::InvalidToolOutput => "INVALID_TOOL_OUTPUT",
            Self::ToolFailed => "TOOL_FAILED",
            Self::ToolTimeout => "TOOL_TIMEOUT",
            Self::Denied => "DENIED",
            Self::Aborted => "ABORTED",
            Self::AbortedBeforeDispatch => "ABORTED_BEFORE_DISPATCH",
            Self::CodeRunFailed => "CODE_RUN_FAILED",
            Self::Unavailable => "UNAVAILABLE",
        })
    }
}
