//! Tools as a model and a program see them, and the one path that every call takes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use toolweave_codegen as codegen;
use toolweave_runtime::json::JsonError;
use toolweave_runtime::{CodeRuntime, FailureKind, FunctionTable, Json, Limits, Misuse, RunRequest, Usage};
use toolweave_session as session;
use toolweave_session::Recorder;
use toolweave_typecheck::{CheckPrograms, Declarations};

use crate::observed::{Learned, ShapeStore};
use crate::pipeline::{self, Done, Env};
use crate::policy::{Approver, CallView, Policy};
use crate::registry::{Entry, Snapshot};
use crate::run::{self, Run};
use crate::search::Index;
use crate::{
    CallContext, Content, Effect, ErrorCode, ProgressSink, RUN_CODE, Registry, ToolError, ToolOutput, output,
    program, sdk, typecheck,
};

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
    env: Arc<Env>,
    typecheck: Option<Arc<dyn CheckPrograms>>,
    derived: Arc<Mutex<Derived>>,
}

/// What was made from one state of the registry; thrown away when that changes.
#[derive(Default)]
struct Derived {
    generation: u64,
    sections: HashMap<&'static str, SdkSection>,
    index: Option<Arc<Index>>,
    bindings: Option<Arc<FunctionTable>>,
    declarations: Option<Declarations>,
}

/// The deepest value that is handed to a client as structured content; many JSON readers stop soon after.
const MAX_STRUCTURED_DEPTH: u32 = 100;
/// Characters of a description in a search hit.
const HIT_DESCRIPTION: usize = 200;
/// Unknown arguments of `run_code` that a warning names.
const NAMED_KEYS: usize = 5;

impl Toolbox {
    pub fn new(registry: Registry, runtime: Option<Arc<dyn CodeRuntime>>, config: ToolboxConfig) -> Self {
        let max_json_depth = match &runtime {
            Some(runtime) => runtime.limits().max_json_depth,
            None => Limits::default().max_json_depth,
        };
        let env = Env {
            policies: Vec::new(),
            approver: None,
            recorder: Recorder::none(),
            recording: false,
            call_timeout: config.call_timeout,
            max_json_depth,
            learned: None,
        };
        Self {
            registry,
            runtime,
            config: Arc::new(config),
            env: Arc::new(env),
            typecheck: None,
            derived: Arc::default(),
        }
    }

    /// Writes every call, sub-call and run into a session log.
    #[must_use]
    pub fn with_recorder(self, recorder: Recorder) -> Self {
        let env = Env {
            recording: recorder.session_id().is_some(),
            recorder,
            ..self.copied_env()
        };
        Self {
            env: Arc::new(env),
            ..self
        }
    }

    /// Puts policies in the way of every call, outer and nested, in this order.
    #[must_use]
    pub fn with_policies(self, policies: Vec<Arc<dyn Policy>>) -> Self {
        let env = Env {
            policies,
            ..self.copied_env()
        };
        Self {
            env: Arc::new(env),
            ..self
        }
    }

    /// Sets who is asked when a policy wants approval. Without anybody such calls are denied.
    #[must_use]
    pub fn with_approver(self, approver: Arc<dyn Approver>) -> Self {
        let env = Env {
            approver: Some(approver),
            ..self.copied_env()
        };
        Self {
            env: Arc::new(env),
            ..self
        }
    }

    /// Checks the types of programs before they run. Without this nothing is checked, at no cost.
    #[must_use]
    pub fn with_typecheck(self, typecheck: Arc<dyn CheckPrograms>) -> Self {
        Self {
            typecheck: Some(typecheck),
            ..self
        }
    }

    /// Learns what tools give that declare no output, and shows it, marked as observed. The SDK shows what was known when it
    /// first mentioned a tool, so that its text stays the same; [`help`](Self::help) and [`search`](Self::search) show the
    /// newest.
    #[must_use]
    pub fn with_shapes(self, store: Arc<dyn ShapeStore>) -> Self {
        let env = Env {
            learned: Some(Arc::new(Learned::new(store))),
            ..self.copied_env()
        };
        Self {
            env: Arc::new(env),
            derived: Arc::default(),
            ..self
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
        let mode = self.config.mode;
        let snapshot = self.registry.snapshot();
        let mut tools: Vec<_> = snapshot
            .entries
            .iter()
            .filter(|entry| mode.calls_directly(&entry.name))
            .map(|entry| {
                let spec = entry.spec();
                WireTool {
                    name: spec.name.clone(),
                    title: spec.title.clone(),
                    description: spec.description.clone(),
                    input_schema: spec.input_schema.clone(),
                    output_schema: spec.output_schema.clone(),
                    effect: spec.effect,
                }
            })
            .collect();
        let mut section = None;
        if mode.calls_directly(RUN_CODE) {
            let runtime = self.needed_runtime()?;
            let made = self.section(&snapshot, runtime.language(), self.config.sdk)?;
            let run_code = sdk::run_code_tool(&made);
            let at = tools.partition_point(|tool| tool.name.encode_utf16().lt(RUN_CODE.encode_utf16()));
            tools.insert(at, run_code);
            section = Some(made);
        }
        Ok(Presentation {
            mode,
            tools,
            sdk: section,
        })
    }

    /// Returns the SDK at a given detail, whatever the mode.
    ///
    /// # Errors
    /// [`ModeError::UnknownLanguage`].
    pub fn sdk(&self, detail: SdkDetail) -> Result<SdkSection, ModeError> {
        let language = self
            .runtime
            .as_ref()
            .map_or("typescript", |runtime| runtime.language());
        self.section(&self.registry.snapshot(), language, detail)
    }

    /// Finds tools by words in names, descriptions and parameter names, best first.
    pub fn search(&self, query: &str, limit: usize) -> Vec<ToolHit> {
        let snapshot = self.registry.snapshot();
        let index = {
            let mut derived = self.derived(&snapshot);
            Arc::clone(
                derived
                    .index
                    .get_or_insert_with(|| Arc::new(Index::new(&snapshot))),
            )
        };
        index
            .search(query, limit)
            .iter()
            .map(|entry| {
                let observed = self.newest(entry);
                ToolHit {
                    name: entry.name.to_string(),
                    description: crate::text::one_line(&entry.spec().description, HIT_DESCRIPTION),
                    signature: codegen::signature(&sdk::declaration(entry, observed.as_ref())),
                }
            })
            .collect()
    }

    /// Returns everything there is to know about a tool, as text.
    ///
    /// # Errors
    /// An unknown tool, with the nearest names.
    pub fn help(&self, name: &str) -> Result<String, ToolError> {
        let Some(entry) = self.registry.entry(name) else {
            return Err(self.unknown_tool(name));
        };
        let spec = entry.spec();
        let observed = self.newest(&entry);
        let mut text = codegen::help(&sdk::declaration(&entry, observed.as_ref()))
            .trim_end()
            .to_owned();
        text.push_str(&format!(
            "\n\neffect: {}\nprovider: {}",
            spec.effect.as_str(),
            spec.provider.name
        ));
        if let Some(version) = &spec.provider.version {
            text.push(' ');
            text.push_str(version);
        }
        Ok(text)
    }

    /// Executes a call from a model or a client. Never fails: a failure is a result.
    pub async fn execute(&self, call: ToolCall) -> ToolResult {
        let recording = self.env.recording;
        if recording {
            self.env.recorder.append(session::ToolCall {
                call_id: call.id.to_string(),
                name: call.name.clone(),
                arguments: call.arguments.clone(),
            });
        }
        let result = match self.execute_inner(&call).await {
            Ok(result) => result,
            Err(error) => ToolResult {
                content: cut_content(pipeline::error_content(&error), self.config.max_inline_bytes),
                structured: None,
                error: Some(error.code),
            },
        };
        if recording {
            self.env.recorder.append(session::ToolResult {
                call_id: call.id.to_string(),
                name: call.name.clone(),
                is_error: result.error.is_some(),
                code: result.error.map(|code| code.to_string()),
                content: session::Json::encode(&result.content).unwrap_or_default(),
            });
        }
        result
    }

    /// Runs one program and tells everything about it. `run_code` is a rendering of this.
    ///
    /// # Errors
    /// [`ModeError::NoRuntime`].
    pub async fn run_program(&self, request: ProgramRequest) -> Result<ProgramReport, ModeError> {
        let runtime = Arc::clone(self.needed_runtime()?);
        let snapshot = self.registry.snapshot();
        let ready = match program::prepare(&request.code, &snapshot) {
            Ok(ready) => self.type_checked(&snapshot, ready, &request).await,
            Err(refused) => Err(refused),
        };
        let report = match ready {
            Err(refused) => ProgramReport {
                result: None,
                logs: Vec::new(),
                error: Some(refused.error),
                calls: Vec::new(),
                warnings: refused.warnings,
                usage: None,
                attachments: Vec::new(),
            },
            Ok(ready) => self.run_ready(&*runtime, snapshot, ready, &request).await,
        };
        self.record_run(&*runtime, &request, &report);
        Ok(report)
    }

    pub(crate) fn env(&self) -> &Env {
        &self.env
    }

    async fn type_checked(
        &self,
        snapshot: &Snapshot,
        mut ready: program::Ready,
        request: &ProgramRequest,
    ) -> Result<program::Ready, program::Refused> {
        let Some(checker) = &self.typecheck else {
            return Ok(ready);
        };
        let declarations = self.derived(snapshot).declarations.clone();
        let declarations = declarations.unwrap_or_else(|| {
            let made = typecheck::declarations(snapshot);
            self.derived(snapshot).declarations = Some(made.clone());
            made
        });
        match typecheck::check(&**checker, &declarations, &mut ready, &request.cancel).await {
            Ok(()) => Ok(ready),
            Err(error) => Err(program::Refused {
                error,
                warnings: ready.into_warnings(true),
            }),
        }
    }

    async fn run_ready(
        &self,
        runtime: &dyn CodeRuntime,
        snapshot: Arc<Snapshot>,
        mut ready: program::Ready,
        request: &ProgramRequest,
    ) -> ProgramReport {
        let functions = {
            let mut derived = self.derived(&snapshot);
            Arc::clone(derived.bindings.get_or_insert_with(|| run::bindings(&snapshot)))
        };
        let run = Run::new(
            self.clone(),
            Arc::clone(&snapshot),
            Arc::clone(&request.call_id),
            request.observer.clone(),
        );
        // Whatever happens to this future, nothing starts after it.
        let end = Ended(Arc::clone(&run));
        let on_log = request.observer.as_ref().map(|_| {
            let run = Arc::clone(&run);
            let sink: toolweave_runtime::LogSink = Arc::new(move |entry: &str| {
                run.observe(|| RunEvent::Log {
                    entry: entry.to_owned(),
                });
            });
            sink
        });
        let settled = runtime
            .run(RunRequest {
                program: std::mem::take(&mut ready.javascript),
                namespaces: vec![run.namespace(functions)],
                cancel: request.cancel.clone(),
                timeout: request.timeout,
                on_log,
            })
            .await;
        drop(end);
        let (result, logs, error, usage) = match settled {
            Ok(settled) => {
                settled.pending.drain().await;
                let result = settled.result;
                let error = result
                    .error
                    .as_ref()
                    .map(|failure| ready.report(failure, &snapshot));
                (result.value, result.logs, error, Some(result.usage))
            }
            Err(misuse) => {
                let kind = match misuse {
                    Misuse::Disposed => FailureKind::Abort,
                    _ => FailureKind::Protocol,
                };
                let error = ReportedError {
                    kind,
                    message: misuse.to_string(),
                    line: None,
                    column: None,
                };
                (None, Vec::new(), Some(error), None)
            }
        };
        let closed = run.closed();
        let mut warnings = ready.into_warnings(result.is_some() || !logs.is_empty() || error.is_some());
        warnings.extend(closed.warnings);
        ProgramReport {
            result,
            logs,
            error,
            calls: closed.calls,
            warnings,
            usage,
            attachments: closed.attachments,
        }
    }

    fn record_run(&self, runtime: &dyn CodeRuntime, request: &ProgramRequest, report: &ProgramReport) {
        if !self.env.recording {
            return;
        }
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let usage = report.usage.as_ref();
        let error = report.error.as_ref();
        self.env.recorder.append(session::ProgramRun {
            call_id: request.call_id.to_string(),
            description: request.description.clone(),
            ok: error.is_none(),
            failure: error.map(|error| error.kind.to_string()),
            message: error.map(|error| error.message.clone()),
            line: error.and_then(|error| error.line),
            calls: report.calls.len() as u64,
            compute_ms: usage.map_or(0, |usage| millis(usage.compute)),
            wall_ms: usage.map_or(0, |usage| millis(usage.wall)),
            peak_memory_bytes: usage.and_then(|usage| usage.peak_memory_bytes),
            engine: None,
            isolation: Some(runtime.isolation().as_str().to_owned()),
            sandbox: usage.and_then(|usage| session::Json::encode(&usage.sandbox).ok()),
        });
    }

    async fn execute_inner(&self, call: &ToolCall) -> Result<ToolResult, ToolError> {
        if call.cancel.is_cancelled() {
            return Err(ToolError::new(
                ErrorCode::AbortedBeforeDispatch,
                format!("`{}` was cancelled before it began", clip_name(&call.name)),
            ));
        }
        let mode = self.config.mode;
        if call.name == RUN_CODE && mode.calls_directly(RUN_CODE) {
            let value = parse_arguments(&call.arguments, self.env.max_json_depth)?.0;
            return self.execute_run_code(call, value).await;
        }
        let (arguments, depth) = parse_arguments(&call.arguments, self.env.max_json_depth)?;
        let entry = self.registry.entry(&call.name);
        // The collapse comes before any policy, so that nobody is asked to approve what can only fail.
        if let Some(entry) = entry.as_ref().filter(|entry| !mode.calls_directly(&entry.name)) {
            toolweave_runtime::json::drop_value(arguments);
            return Err(ToolError::new(ErrorCode::UnknownTool, route(&entry.name)));
        }
        let view = CallView {
            id: &call.id,
            root_id: &call.id,
            parent_id: None,
            name: &call.name,
            spec: entry.as_ref().map(|entry| entry.spec()),
            arguments: &arguments,
        };
        let Some(entry) = &entry else {
            let outcome = pipeline::admit(&self.env, view, &call.cancel).await;
            let error = outcome.err().unwrap_or_else(|| self.unknown_tool(&call.name));
            pipeline::notify(&self.env, view, Err(&error));
            return Err(error);
        };
        let outcome = match run::check_arguments(entry, &arguments, depth, call.arguments.len()) {
            Err(message) => Err(ToolError::new(ErrorCode::InvalidArgs, message)),
            Ok(()) => match pipeline::admit(&self.env, view, &call.cancel).await {
                Err(error) => Err(error),
                Ok(()) => {
                    let context = CallContext {
                        cancel: call.cancel.child_token(),
                        call_id: Arc::clone(&call.id),
                        root_call_id: Arc::clone(&call.id),
                        progress: call.progress.clone(),
                    };
                    let own = pipeline::clone_value(&arguments);
                    let over = CancellationToken::new();
                    let outcome =
                        pipeline::perform(&self.env, view, entry, &context, own, depth, &over).await;
                    pipeline::finish(&self.env, view, Some(entry), outcome).await
                }
            },
        };
        pipeline::notify(&self.env, view, outcome.as_ref());
        toolweave_runtime::json::drop_value(arguments);
        let mut done = outcome?;
        let structured =
            (done.json.depth() <= MAX_STRUCTURED_DEPTH).then(|| std::mem::take(&mut done.output.value));
        Ok(ToolResult {
            content: cut_content(
                std::mem::take(&mut done.output.content),
                self.config.max_inline_bytes,
            ),
            structured,
            error: None,
        })
    }

    async fn execute_run_code(&self, call: &ToolCall, arguments: Value) -> Result<ToolResult, ToolError> {
        let wanted = RunCodeArguments::read(&arguments)?;
        let view = CallView {
            id: &call.id,
            root_id: &call.id,
            parent_id: None,
            name: RUN_CODE,
            spec: None,
            arguments: &arguments,
        };
        if let Err(error) = pipeline::admit(&self.env, view, &call.cancel).await {
            pipeline::notify(&self.env, view, Err(&error));
            return Err(error);
        }
        let report = self
            .run_program(ProgramRequest {
                code: wanted.code,
                description: wanted.description,
                call_id: Arc::clone(&call.id),
                cancel: call.cancel.clone(),
                timeout: wanted.timeout,
                observer: call.observer.clone(),
            })
            .await
            .map_err(|error| ToolError::new(ErrorCode::CodeRunFailed, error.to_string()));
        let outcome = report.and_then(|mut report| {
            report.warnings.extend(wanted.warning);
            if report.error.is_none() && call.cancel.is_cancelled() {
                return Err(ToolError::new(
                    ErrorCode::Aborted,
                    format!("`{RUN_CODE}` was cancelled; its result is discarded"),
                ));
            }
            self.render(&report)
        });
        let outcome = pipeline::finish(&self.env, view, None, outcome).await;
        pipeline::notify(&self.env, view, outcome.as_ref());
        let mut done = outcome?;
        Ok(ToolResult {
            content: std::mem::take(&mut done.output.content),
            structured: Some(std::mem::take(&mut done.output.value)),
            error: None,
        })
    }

    /// Renders a run for a model: a value and content, or a failure with content.
    fn render(&self, report: &ProgramReport) -> Result<Done, ToolError> {
        let cap = self.config.max_inline_bytes;
        let warnings = output::warning_text(&report.warnings);
        let room = cap.saturating_sub(warnings.as_ref().map_or(0, String::len));
        let text = match &report.error {
            None => output::success_text(report),
            Some(_) => output::failure_text(report),
        };
        let mut content = vec![Content::Text(output::preview(text, room))];
        content.extend(warnings.map(Content::Text));
        content.extend(report.attachments.iter().cloned());
        if let Some(error) = &report.error {
            return Err(ToolError {
                code: ErrorCode::CodeRunFailed,
                message: format!("code run failed ({}): {}", error.kind, error.message),
                content,
            });
        }
        let value = output::structured(report, cap, MAX_STRUCTURED_DEPTH);
        Ok(Done {
            output: ToolOutput { value, content },
            json: Json::null(),
            warning: None,
        })
    }

    fn needed_runtime(&self) -> Result<&Arc<dyn CodeRuntime>, ModeError> {
        self.runtime.as_ref().ok_or(ModeError::NoRuntime {
            mode: self.config.mode.as_str(),
        })
    }

    fn section(
        &self,
        snapshot: &Snapshot,
        language: &str,
        detail: SdkDetail,
    ) -> Result<SdkSection, ModeError> {
        let key = sdk::name(detail);
        if let Some(section) = self.derived(snapshot).sections.get(key) {
            return Ok(section.clone());
        }
        let learned = self.env.learned.as_deref();
        let section = sdk::section(snapshot, learned, language, detail, self.config.sdk_budget_chars)?;
        self.derived(snapshot).sections.insert(key, section.clone());
        Ok(section)
    }

    /// Returns the newest schema of what a tool was seen to give.
    fn newest(&self, entry: &Entry) -> Option<Value> {
        self.env.learned.as_ref()?.newest(entry)
    }

    fn derived(&self, snapshot: &Snapshot) -> MutexGuard<'_, Derived> {
        let mut derived = self.derived.lock().unwrap_or_else(PoisonError::into_inner);
        if derived.generation != snapshot.generation {
            *derived = Derived {
                generation: snapshot.generation,
                ..Derived::default()
            };
        }
        derived
    }

    fn unknown_tool(&self, name: &str) -> ToolError {
        let snapshot = self.registry.snapshot();
        if let Some(absence) = snapshot.absence(name) {
            let message = format!("the tool `{}` cannot be called now: {absence}", clip_name(name));
            return ToolError::new(ErrorCode::Unavailable, message);
        }
        ToolError::new(
            ErrorCode::UnknownTool,
            match run::nearest_tools(name, snapshot.names()) {
                Some(near) => format!("unknown tool `{}`; closest: {near}", clip_name(name)),
                None => format!("unknown tool `{}`", clip_name(name)),
            },
        )
    }

    fn copied_env(&self) -> Env {
        Env {
            policies: self.env.policies.clone(),
            approver: self.env.approver.clone(),
            recorder: self.env.recorder.clone(),
            recording: self.env.recording,
            call_timeout: self.env.call_timeout,
            max_json_depth: self.env.max_json_depth,
            learned: self.env.learned.clone(),
        }
    }
}

impl Mode {
    /// Returns the mode's name in configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Code => "code",
            Self::Both => "both",
        }
    }

    /// Returns whether a model may call a tool of this name itself. What is shown and what is executed both follow this.
    pub fn calls_directly(self, name: &str) -> bool {
        match self {
            Self::Native => name != RUN_CODE,
            Self::Code => name == RUN_CODE,
            Self::Both => true,
        }
    }
}

impl fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Toolbox")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// Closes a run when it goes out of scope.
struct Ended(Arc<Run>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// The arguments of `run_code`, read leniently where nothing is lost by it.
struct RunCodeArguments {
    code: String,
    description: Option<String>,
    timeout: Option<Duration>,
    warning: Option<String>,
}

impl RunCodeArguments {
    fn read(arguments: &Value) -> Result<Self, ToolError> {
        let wrong = |message: String| Err(ToolError::new(ErrorCode::InvalidArgs, message));
        let Value::Object(members) = arguments else {
            return wrong(format!(
                "`{RUN_CODE}` takes an object with `description` and `code`, got {}",
                crate::schema::got(arguments)
            ));
        };
        let description = match members.get("description") {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) if text.trim().is_empty() => {
                return wrong(
                    "invalid description: `description` is blank; say in a few words what the program does"
                        .to_owned(),
                );
            }
            Some(Value::String(text)) => Some(text.trim().to_owned()),
            Some(other) => {
                return wrong(format!(
                    "invalid description: `description` must be a string, got {}",
                    crate::schema::got(other)
                ));
            }
        };
        let unknown: Vec<_> = members
            .keys()
            .filter(|key| !["description", "code", "timeoutMs"].contains(&key.as_str()))
            .take(NAMED_KEYS)
            .map(|key| format!("`{}`", clip_name(key)))
            .collect();
        let code = match members.get("code") {
            Some(Value::String(code)) => code.clone(),
            None if unknown.is_empty() => {
                return wrong("`code` is missing: pass the program as a string".to_owned());
            }
            None => {
                return wrong(format!(
                    "`code` is missing: pass the program as a string in `code`, not in {}",
                    unknown.join(", ")
                ));
            }
            Some(other) => {
                return wrong(format!(
                    "`code` must be the program as one string, got {}",
                    crate::schema::got(other)
                ));
            }
        };
        let timeout = match members.get("timeoutMs") {
            None | Some(Value::Null) => None,
            Some(value) => match value.as_f64() {
                Some(millis) if millis >= 1.0 && millis <= f64::from(i32::MAX) => {
                    Some(Duration::from_millis(millis as u64))
                }
                _ => {
                    return wrong(format!(
                        "`timeoutMs` must be a number of milliseconds from 1 to {}, got {}",
                        i32::MAX,
                        crate::schema::got(value)
                    ));
                }
            },
        };
        let warning = (!unknown.is_empty())
            .then(|| format!("`{RUN_CODE}` has no argument {}; ignored", unknown.join(", ")));
        Ok(Self {
            code,
            description,
            timeout,
            warning,
        })
    }
}

/// Reads the raw arguments of an outer call. Nothing, white space and `null` mean no arguments.
fn parse_arguments(text: &str, max_depth: u32) -> Result<(Value, u32), ToolError> {
    let trimmed = text.trim();
    if trimmed.is_empty() || trimmed == "null" {
        return Ok((Value::Object(Map::new()), 1));
    }
    let invalid = |reason: String| {
        ToolError::new(
            ErrorCode::InvalidArgs,
            format!("the arguments are not JSON: {reason}; send one JSON object"),
        )
    };
    let (value, depth) = match Json::parse(trimmed.to_owned(), max_depth) {
        Ok(json) => (json.to_value(), json.depth()),
        // A number that JavaScript cannot hold is fine for a call that never passes through a program.
        Err(JsonError::Inexact { .. }) => {
            let value = serde_json::from_str(trimmed).map_err(|error| invalid(error.to_string()))?;
            let depth = pipeline::depth_of(&value);
            (value, depth)
        }
        Err(error) => return Err(invalid(error.to_string())),
    };
    if value.is_object() {
        return Ok((value, depth));
    }
    let error = ToolError::new(
        ErrorCode::InvalidArgs,
        format!(
            "the arguments must be one JSON object, got {}",
            crate::schema::got(&value)
        ),
    );
    toolweave_runtime::json::drop_value(value);
    Err(error)
}

/// Says how a tool is reached that cannot be called directly.
fn route(name: &str) -> String {
    let name = clip_name(name);
    let call = if is_identifier(&name) {
        format!("tools.{name}")
    } else {
        format!("tools[{}]", Value::String(name.clone()))
    };
    format!(
        "only `{RUN_CODE}` can be called directly; call `{name}` from inside a program as `await {call}({{ ... }})`"
    )
}

fn is_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    chars
        .next()
        .is_some_and(|c| c.is_alphabetic() || c == '_' || c == '$')
        && chars.all(|c| c.is_alphanumeric() || c == '_' || c == '$')
}

fn clip_name(name: &str) -> String {
    crate::text::clip(name, 120)
}

/// Cuts the text blocks of a result to what a model is shown.
fn cut_content(content: Vec<Content>, cap: usize) -> Vec<Content> {
    let total: usize = content
        .iter()
        .map(|block| match block {
            Content::Text(text) => text.len(),
            Content::Image { .. } | Content::Other { .. } => 0,
        })
        .sum();
    if total <= cap {
        return content;
    }
    let mut room = cap;
    content
        .into_iter()
        .map(|block| match block {
            Content::Text(text) => {
                let shown = output::preview(text, room);
                room -= shown.len();
                Content::Text(shown)
            }
            other => other,
        })
        .collect()
}
