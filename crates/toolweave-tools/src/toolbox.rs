//! Tools as a model and a program see them, and the one path that every call takes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use toolweave_runtime::{CodeRuntime, Json, Usage};

use crate::{Content, Effect, ErrorCode, ProgressSink, Registry, ToolError};

/// How tools are presented to a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Every tool by itself; no `run_code`.
    #[default]
    Native,
    /// `run_code` alone. `ptc` is accepted as a name for it.
    #[serde(alias = "ptc")]
    Code,
    /// Every tool, and `run_code`.
    Both,
}

/// How much of the SDK is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SdkDetail {
    Full,
    Compact,
    /// A fixed text; the program discovers the rest.
    Search,
    /// Whatever fits the budget.
    #[default]
    Auto,
}

/// Settings of a [`Toolbox`].
#[derive(Clone, Debug)]
pub struct ToolboxConfig {
    pub mode: Mode,
    pub sdk: SdkDetail,
    /// Most characters of SDK text before `auto` takes the next shorter form.
    pub sdk_budget_chars: usize,
    /// Most safe calls of one run that overlap.
    pub max_parallel_sub_calls: usize,
    /// Time one call may take, queueing not counted.
    pub call_timeout: Duration,
    /// Most bytes of a result that a model is shown.
    pub max_inline_bytes: usize,
}

impl Default for ToolboxConfig {
    fn default() -> Self {
        Self {
            mode: Mode::Code,
            sdk: SdkDetail::Auto,
            sdk_budget_chars: 60_000,
            max_parallel_sub_calls: 10,
            call_timeout: Duration::from_secs(60),
            max_inline_bytes: 50_000,
        }
    }
}

/// Why nothing can be presented. Native mode works without a runtime.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModeError {
    #[error(
        "mode `{mode}` needs a code runtime and none is there: configure `runtime`, or set `mode: native`"
    )]
    NoRuntime { mode: &'static str },
    #[error("no SDK renderer for the language `{language}`; known: {known}")]
    UnknownLanguage { language: String, known: String },
}

/// A tool as it goes on the wire to a model.
#[derive(Clone, Debug, PartialEq)]
pub struct WireTool {
    pub name: String,
    pub title: Option<String>,
    pub description: String,
    pub input_schema: Value,
    pub output_schema: Option<Value>,
    pub effect: Effect,
}

/// All that a model is shown in one mode, made from one look at the registry.
#[derive(Clone, Debug, PartialEq)]
pub struct Presentation {
    pub mode: Mode,
    /// In canonical order.
    pub tools: Vec<WireTool>,
    /// Absent in native mode.
    pub sdk: Option<SdkSection>,
}

/// The SDK text and how it was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SdkSection {
    /// Instructions, then one fenced TypeScript block.
    pub text: String,
    pub detail: SdkDetail,
    /// What `auto` picked and why.
    pub note: String,
}

/// One hit of a tool search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolHit {
    pub name: String,
    pub description: String,
    pub signature: String,
}

/// A call from a model or a client.
#[derive(Clone)]
pub struct ToolCall {
    pub id: Arc<str>,
    pub name: String,
    /// The raw arguments: JSON text as it came, empty for none.
    pub arguments: String,
    pub cancel: CancellationToken,
    pub progress: Option<ProgressSink>,
    pub observer: Option<Arc<dyn RunObserver>>,
}

/// The final result of an outer call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult {
    pub content: Vec<Content>,
    /// The value for callers that take structured content; for `run_code` `{logs, result?}`.
    pub structured: Option<Value>,
    pub error: Option<ErrorCode>,
}

/// A program to run, with what surrounds it.
#[derive(Clone)]
pub struct ProgramRequest {
    /// The text as the model sent it.
    pub code: String,
    pub description: Option<String>,
    pub call_id: Arc<str>,
    pub cancel: CancellationToken,
    pub timeout: Option<Duration>,
    pub observer: Option<Arc<dyn RunObserver>>,
}

/// The whole truth about one run.
#[derive(Clone, Debug)]
pub struct ProgramReport {
    /// `None` for no result, which is not `null`.
    pub result: Option<Json>,
    pub logs: Vec<String>,
    pub error: Option<ReportedError>,
    /// Calls in submission order: those that reached a tool.
    pub calls: Vec<CallRecord>,
    pub warnings: Vec<String>,
    /// `None` when nothing ran (a syntax error).
    pub usage: Option<Usage>,
    /// Images and other media of sub-calls, in order.
    pub attachments: Vec<Content>,
}

/// Why a program failed, in terms of the text the model sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedError {
    pub kind: toolweave_runtime::FailureKind,
    /// Complete: error class, text, place, excerpt where there is one.
    pub message: String,
    pub line: Option<u32>,
    pub column: Option<u32>,
}

/// One settled sub-call.
#[derive(Clone, Debug, PartialEq)]
pub struct CallRecord {
    pub id: Arc<str>,
    pub name: String,
    pub ok: bool,
    pub duration: Duration,
    pub effect: Effect,
    /// The failure's text.
    pub error: Option<String>,
}

/// Something that happened during a run, as it happens.
#[derive(Clone, Debug)]
pub enum RunEvent {
    CallStarted {
        id: Arc<str>,
        name: String,
        arguments: Arc<str>,
        effect: Effect,
    },
    CallSettled {
        record: CallRecord,
        result_bytes: usize,
    },
    Log {
        entry: String,
    },
}

/// Watches runs. Must not block.
pub trait RunObserver: Send + Sync {
    fn on_event(&self, event: RunEvent);
}

/// Presents and executes the tools of a registry.
#[derive(Clone)]
pub struct Toolbox {
    registry: Registry,
    runtime: Option<Arc<dyn CodeRuntime>>,
    config: Arc<ToolboxConfig>,
}

impl Toolbox {
    pub fn new(registry: Registry, runtime: Option<Arc<dyn CodeRuntime>>, config: ToolboxConfig) -> Self {
        Self {
            registry,
            runtime,
            config: Arc::new(config),
        }
    }

    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    pub fn config(&self) -> &ToolboxConfig {
        &self.config
    }

    /// Returns what a model is shown now.
    ///
    /// # Errors
    /// [`ModeError`] when the mode needs a runtime that is not there.
    pub fn present(&self) -> Result<Presentation, ModeError> {
        Err(ModeError::NoRuntime { mode: "code" })
    }

    /// Returns the SDK at a given detail, whatever the mode.
    ///
    /// # Errors
    /// [`ModeError::UnknownLanguage`].
    pub fn sdk(&self, detail: SdkDetail) -> Result<SdkSection, ModeError> {
        Ok(SdkSection {
            text: String::new(),
            detail,
            note: String::new(),
        })
    }

    /// Finds tools by words in names, descriptions and parameter names, best first.
    pub fn search(&self, query: &str, limit: usize) -> Vec<ToolHit> {
        let _ = (query, limit);
        Vec::new()
    }

    /// Returns everything there is to know about a tool, as text.
    ///
    /// # Errors
    /// An unknown tool, with the nearest names.
    pub fn help(&self, name: &str) -> Result<String, ToolError> {
        Err(ToolError::new(
            ErrorCode::UnknownTool,
            format!("unknown tool `{name}`"),
        ))
    }

    /// Executes a call from a model or a client. Never fails: a failure is a result.
    pub async fn execute(&self, call: ToolCall) -> ToolResult {
        let _ = &self.runtime;
        ToolResult {
            content: vec![Content::Text(format!("unknown tool `{}`", call.name))],
            structured: None,
            error: Some(ErrorCode::UnknownTool),
        }
    }

    /// Runs one program and tells everything about it. `run_code` is a rendering of this.
    ///
    /// # Errors
    /// [`ModeError::NoRuntime`].
    pub async fn run_program(&self, request: ProgramRequest) -> Result<ProgramReport, ModeError> {
        let _ = request;
        Err(ModeError::NoRuntime { mode: "code" })
    }
}

impl fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Toolbox")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
