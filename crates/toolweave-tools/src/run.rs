//! One run as its host sees it: the bindings that a program calls, and the book of what they did.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use toolweave_runtime::json::with_stack_for;
use toolweave_runtime::{
    Binding, BindingCall, BindingError, BindingFuture, Bindings, ErrorClass, FunctionKind, FunctionTable,
    Json, Namespace, UnknownMembers,
};
use toolweave_session::{CodeDispatch, CodeDispatchStart, summarize};

use crate::output::preview;
use crate::pipeline::{self, Done, Env};
use crate::policy::CallView;
use crate::registry::{Entry, Snapshot};
use crate::schedule::{Schedule, Slot, Ticket};
use crate::schema::{got, parameter_list, violation_message};
use crate::text::{clip, nearest};
use crate::{
    CallContext, CallRecord, Content, ErrorCode, RUN_CODE, RunEvent, RunObserver, ToolError, Toolbox,
};

/// The global through which a program reaches its tools, and the name that it may use as well.
pub(crate) const GLOBAL: &str = "tools";
const ALIAS: &str = "sdk";
/// Discovery functions that give way to a tool of the same name.
const DISCOVERY: [(&str, FunctionKind); 3] = [
    ("list", FunctionKind::Sync),
    ("search", FunctionKind::Async),
    ("help", FunctionKind::Async),
];
/// Names that stay with the host whatever tools there are; a tool so called is reached through `$call`.
const ALWAYS: [(&str, FunctionKind); 4] = [
    ("$list", FunctionKind::Sync),
    ("$search", FunctionKind::Async),
    ("$help", FunctionKind::Async),
    ("$call", FunctionKind::Async),
];
/// Characters of a failure's text that a program gets.
const MAX_ERROR_CHARS: usize = 20_000;
/// Nearest names in a message.
const SHOWN_NEAREST: usize = 3;
/// Hits of a search when the program does not say how many it wants, and the most that it can have.
const DEFAULT_HITS: usize = 8;
const MAX_HITS: usize = 100;
/// Attached blocks and their bytes, over all sub-calls of a run.
const MAX_ATTACHED_BLOCKS: usize = 64;
const MAX_ATTACHED_BYTES: usize = 20 * 1024 * 1024;
/// Bytes of one text that is attached.
const MAX_ATTACHED_TEXT: usize = 4_000;
/// Different warnings of a run that are kept.
const MAX_WARNINGS: usize = 50;

/// One run.
pub(crate) struct Run {
    toolbox: Toolbox,
    snapshot: Arc<Snapshot>,
    call_id: Arc<str>,
    observer: Option<Arc<dyn RunObserver>>,
    schedule: Arc<Schedule<Option<CodeDispatch>>>,
    post_execute: bool,
    /// Fires when the run is over, whatever the runtime does.
    over: CancellationToken,
    book: Mutex<Book>,
}

/// What happened so far.
#[derive(Default)]
struct Book {
    calls: Vec<(u64, CallRecord)>,
    attachments: BTreeMap<u64, Vec<Content>>,
    warnings: Vec<String>,
}

/// The book of a run that is over.
pub(crate) struct Closed {
    /// In submission order.
    pub(crate) calls: Vec<CallRecord>,
    pub(crate) attachments: Vec<Content>,
    pub(crate) warnings: Vec<String>,
}

/// The names under which a snapshot's tools can be called.
pub(crate) fn bindings(snapshot: &Snapshot) -> Arc<FunctionTable> {
    let mut functions: Vec<_> = snapshot
        .entries
        .iter()
        .filter(|entry| !is_hidden_name(&entry.name))
        .map(|entry| Binding {
            name: Arc::clone(&entry.name),
            kind: FunctionKind::Async,
            enumerable: true,
        })
        .collect();
    let discovery = DISCOVERY
        .iter()
        .filter(|(name, _)| snapshot.get(name).is_none())
        .chain(&ALWAYS);
    functions.extend(discovery.map(|&(name, kind)| Binding {
        name: name.into(),
        kind,
        enumerable: false,
    }));
    Arc::new(FunctionTable::new(functions))
}

/// Returns whether a tool of this name can be reached through `$call` only. An object with a `then` would be taken for a
/// promise by every `await`.
pub(crate) fn is_hidden_name(name: &str) -> bool {
    name == "then" || ALWAYS.iter().any(|&(reserved, _)| reserved == name)
}

/// Returns whether the host answers this name where no tool has it.
pub(crate) fn is_discovery(name: &str) -> bool {
    shadows_discovery(name) || ALWAYS.iter().any(|&(reserved, _)| reserved == name)
}

/// Returns whether the host's function of this name gives its value without a promise.
pub(crate) fn answers_at_once(name: &str) -> bool {
    let sync = |&(function, kind): &(&str, FunctionKind)| function == name && kind == FunctionKind::Sync;
    DISCOVERY.iter().any(sync) || ALWAYS.iter().any(sync)
}

/// Returns whether a tool of this name takes the place of a discovery function.
pub(crate) fn shadows_discovery(name: &str) -> bool {
    DISCOVERY.iter().any(|&(function, _)| function == name)
}

impl Run {
    pub(crate) fn new(
        toolbox: Toolbox,
        snapshot: Arc<Snapshot>,
        call_id: Arc<str>,
        observer: Option<Arc<dyn RunObserver>>,
    ) -> Arc<Self> {
        let limit = toolbox.config().max_parallel_sub_calls;
        let post_execute = toolbox.env().any_post_execute();
        Arc::new(Self {
            toolbox,
            snapshot,
            call_id,
            observer,
            schedule: Arc::new(Schedule::new(limit)),
            post_execute,
            over: CancellationToken::new(),
            book: Mutex::default(),
        })
    }

    pub(crate) fn namespace(self: &Arc<Self>, functions: Arc<FunctionTable>) -> Namespace {
        Namespace {
            global: GLOBAL.to_owned(),
            aliases: vec![ALIAS.to_owned()],
            functions,
            error_class: Some(ErrorClass {
                name: "ToolCallError".to_owned(),
                member_property: "toolName".to_owned(),
            }),
            unknown: UnknownMembers::Reject,
            host: Arc::new(Host(Arc::clone(self))),
        }
    }

    /// Ends the run: what waits is abandoned, what runs is cancelled.
    pub(crate) fn close(&self) {
        self.over.cancel();
        self.schedule.close();
    }

    /// Returns the book. Call it when nothing is in flight any more.
    pub(crate) fn closed(&self) -> Closed {
        let mut book = std::mem::take(&mut *self.book());
        book.calls.sort_by_key(|&(number, _)| number);
        Closed {
            calls: book.calls.into_iter().map(|(_, record)| record).collect(),
            attachments: capped(book.attachments.into_values().flatten()),
            warnings: book.warnings,
        }
    }

    pub(crate) fn observe(&self, event: impl FnOnce() -> RunEvent) {
        let Some(observer) = &self.observer else {
            return;
        };
        if catch_unwind(AssertUnwindSafe(|| observer.on_event(event()))).is_err() {
            tracing::warn!("a run observer crashed");
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn warn(&self, warning: &str) {
        let mut book = self.book();
        if book.warnings.len() < MAX_WARNINGS && !book.warnings.iter().any(|known| known == warning) {
            book.warnings.push(warning.to_owned());
        }
    }

    fn env(&self) -> &Env {
        self.toolbox.env()
    }

    /// Answers one call of the program, as far as that can be done at once.
    fn answer(self: &Arc<Self>, call: BindingCall) -> Result<Answer, String> {
        let name = &*call.name;
        if !is_hidden_name(name) && self.snapshot.get(name).is_some() {
            return self.submit(name, &call.arguments, None).map(Answer::Call);
        }
        let discovery = name.strip_prefix('$').unwrap_or(name);
        if discovery == "call" {
            return self.submit_indirectly(&call.arguments).map(Answer::Call);
        }
        let Value::Array(arguments) = call.arguments.to_value() else {
            return Err("arguments must be a list".to_owned());
        };
        let value = match discovery {
            "list" => self.list(&arguments)?,
            "search" => self.search(&arguments)?,
            "help" => self.help(&arguments)?,
            _ => return Err(self.unknown_tool(name)),
        };
        Json::from_value(&value, self.env().max_json_depth)
            .map(Answer::Ready)
            .map_err(|error| error.to_string())
    }

    /// Checks the arguments of a call and puts it into the queue. What is refused here was never dispatched, and nothing
    /// is logged about it.
    fn submit(
        self: &Arc<Self>,
        name: &str,
        arguments: &Json,
        skip: Option<usize>,
    ) -> Result<Pending, String> {
        let Some(entry) = self.toolbox.registry().entry(name) else {
            return Err(self.unknown_tool(name));
        };
        let skipped = skip.unwrap_or(0);
        let (value, text) = one_object(&entry, arguments, skipped)?;
        let depth = arguments.depth().saturating_sub(1);
        check_arguments(&entry, &value, depth, text.len())?;
        if let Some(warning) = &entry.input().unusable {
            self.warn(warning);
        }
        Ok(Pending {
            ticket: self.schedule.submit(),
            entry,
            arguments: Arguments {
                value: Some(value),
                depth,
                text,
            },
        })
    }

    fn submit_indirectly(self: &Arc<Self>, arguments: &Json) -> Result<Pending, String> {
        let value = arguments.to_value();
        let name = value.get(0).and_then(Value::as_str).map(str::to_owned);
        toolweave_runtime::json::drop_value(value);
        match name {
            Some(name) => self.submit(&name, arguments, Some(1)),
            None => Err("tools.$call takes the name of a tool and one object".to_owned()),
        }
    }

    fn unknown_tool(&self, path: &str) -> String {
        unknown_tool(path, &self.snapshot)
    }

    fn list(&self, arguments: &[Value]) -> Result<Value, String> {
        if !arguments.is_empty() {
            return Err("tools.list takes no arguments; filter the names that it gives".to_owned());
        }
        let names = self.snapshot.names().map(|name| Value::String(name.to_owned()));
        Ok(Value::Array(names.collect()))
    }

    fn search(&self, arguments: &[Value]) -> Result<Value, String> {
        let usage = || "tools.search takes text and optionally { limit }".to_owned();
        let (query, limit) = match arguments {
            [Value::String(query)] | [Value::String(query), Value::Null] => (query, None),
            [Value::String(query), Value::Object(options)] => (query, options.get("limit")),
            [Value::Object(options)] => match options.get("query") {
                Some(Value::String(query)) => (query, options.get("limit")),
                _ => return Err(usage()),
            },
            _ => return Err(usage()),
        };
        let limit = match limit {
            None | Some(Value::Null) => DEFAULT_HITS,
            Some(limit) => match limit.as_f64() {
                Some(limit) if limit >= 1.0 => (limit as usize).min(MAX_HITS),
                _ => return Err("`limit` must be a number from 1".to_owned()),
            },
        };
        let hits = self.toolbox.search(query, limit);
        serde_json::to_value(hits).map_err(|error| error.to_string())
    }

    fn help(&self, arguments: &[Value]) -> Result<Value, String> {
        let name = match arguments {
            [Value::String(name)] => name,
            [Value::Object(options)] => match options.get("name") {
                Some(Value::String(name)) => name,
                _ => return Err("tools.help takes the name of a tool".to_owned()),
            },
            _ => return Err("tools.help takes the name of a tool".to_owned()),
        };
        self.toolbox
            .help(name)
            .map(Value::String)
            .map_err(|error| error.message)
    }

    /// Takes a queued call to its end.
    async fn dispatch(self: Arc<Self>, call: Pending, run_over: CancellationToken) -> Result<Json, String> {
        let Pending {
            ticket,
            mut entry,
            mut arguments,
        } = call;
        let number = ticket.number();
        let slot = ticket
            .turn(
                || run_over.is_cancelled() || self.over.is_cancelled(),
                || pipeline::classify(&entry, arguments.value()),
            )
            .await
            .map_err(|_| format!("the run was over before `{}` started", entry.name))?;
        // The tool may have gone or been replaced while the call waited.
        match self.toolbox.registry().entry(&entry.name) {
            Some(live) if Arc::ptr_eq(&live, &entry) => {}
            Some(live) => {
                match check_arguments(&live, arguments.value(), arguments.depth, arguments.text.len()) {
                    Ok(()) => entry = live,
                    Err(message) => {
                        slot.withdraw();
                        return Err(message);
                    }
                }
            }
            None => {
                slot.withdraw();
                return Err(self.unknown_tool(&entry.name));
            }
        }
        let mut started = Started::new(&self, slot, number, &entry, Arc::clone(&arguments.text));
        let context = CallContext {
            cancel: run_over.child_token(),
            call_id: Arc::clone(&started.id),
            root_call_id: Arc::clone(&self.call_id),
            progress: None,
        };
        let env = self.env();
        // Hooks look at the arguments while the body owns its own copy.
        let for_hooks = if env.policies.is_empty() {
            Value::Null
        } else {
            pipeline::clone_value(arguments.value())
        };
        let id = Arc::clone(&started.id);
        let view = CallView {
            id: &id,
            root_id: &self.call_id,
            parent_id: Some(&self.call_id),
            name: &entry.name,
            spec: Some(entry.spec()),
            arguments: &for_hooks,
        };
        let outcome = match pipeline::admit(env, view, &context.cancel).await {
            Err(error) => {
                started.slot.leave_lane();
                Err(error)
            }
            Ok(()) => {
                started.slot.leave_lane();
                let depth = arguments.depth;
                let mut outcome =
                    pipeline::perform(env, view, &entry, &context, arguments.take(), depth, &self.over).await;
                if self.post_execute {
                    started.slot.earlier_told().await;
                    outcome = pipeline::finish(env, view, Some(&entry), outcome).await;
                }
                outcome
            }
        };
        pipeline::notify(env, view, outcome.as_ref());
        toolweave_runtime::json::drop_value(for_hooks);
        started.settle(outcome.as_ref());
        match outcome {
            Ok(mut done) => Ok(std::mem::replace(&mut done.json, Json::null())),
            Err(error) => Err(error.message),
        }
    }
}

/// The host's side of the namespace.
struct Host(Arc<Run>);

impl Bindings for Host {
    fn call(&self, call: BindingCall) -> BindingFuture {
        let run_over = call.run_over.clone();
        match self.0.answer(call) {
            Err(message) => Box::pin(std::future::ready(Err(rejection(&message)))),
            Ok(Answer::Ready(json)) => Box::pin(std::future::ready(Ok(json))),
            Ok(Answer::Call(pending)) => {
                let work = Arc::clone(&self.0).dispatch(pending, run_over);
                Box::pin(async move { work.await.map_err(|message| rejection(&message)) })
            }
        }
    }

    fn unknown(&self, path: &str) -> BindingError {
        rejection(&self.0.unknown_tool(path))
    }
}

enum Answer {
    Ready(Json),
    Call(Pending),
}

/// A call in the queue.
struct Pending {
    ticket: Ticket<Option<CodeDispatch>>,
    entry: Arc<Entry>,
    arguments: Arguments,
}

/// The arguments of a call: the tool's own copy, and the text that is logged.
struct Arguments {
    value: Option<Value>,
    depth: u32,
    text: Arc<str>,
}

impl Arguments {
    fn value(&self) -> &Value {
        self.value.as_ref().unwrap_or(&Value::Null)
    }

    fn take(&mut self) -> Value {
        self.value.take().unwrap_or_default()
    }
}

impl Drop for Arguments {
    fn drop(&mut self) {
        let value = self.value.take();
        with_stack_for(self.depth, || drop(value));
    }
}

/// A call whose start was told. It is told exactly once how it settled, even when its future is dropped midway.
struct Started<'r> {
    run: &'r Arc<Run>,
    slot: Slot<Option<CodeDispatch>>,
    number: u64,
    id: Arc<str>,
    entry: Arc<Entry>,
    arguments: Arc<str>,
    since: Instant,
    settled: bool,
}

impl<'r> Started<'r> {
    fn new(
        run: &'r Arc<Run>,
        slot: Slot<Option<CodeDispatch>>,
        number: u64,
        entry: &Arc<Entry>,
        arguments: Arc<str>,
    ) -> Self {
        let id: Arc<str> = format!("{}:code:{number}", run.call_id).into();
        if run.env().recording {
            run.env().recorder.append(CodeDispatchStart {
                root_call_id: run.call_id.to_string(),
                parent_call_id: run.call_id.to_string(),
                sub_call_id: id.to_string(),
                name: entry.name.to_string(),
                arguments: toolweave_session::Json::parse(&*arguments).unwrap_or_default(),
            });
        }
        run.observe(|| RunEvent::CallStarted {
            id: Arc::clone(&id),
            name: entry.name.to_string(),
            arguments: Arc::clone(&arguments),
            effect: entry.spec().effect,
        });
        Self {
            run,
            slot,
            number,
            id,
            entry: Arc::clone(entry),
            arguments,
            since: Instant::now(),
            settled: false,
        }
    }

    fn settle(&mut self, outcome: Result<&Done, &ToolError>) {
        self.settled = true;
        let record = CallRecord {
            id: Arc::clone(&self.id),
            name: self.entry.name.to_string(),
            ok: outcome.is_ok(),
            duration: self.since.elapsed(),
            effect: self.entry.spec().effect,
            error: outcome.err().map(|error| clip(&error.message, MAX_ERROR_CHARS)),
        };
        let (bytes, attached, warning) = match outcome {
            Ok(done) => (
                done.json.as_str().len(),
                attachment(&self.entry.name, &done.output.content),
                done.warning.as_deref(),
            ),
            Err(error) => (error.message.len(), None, None),
        };
        if let Some(warning) = warning {
            self.run.warn(warning);
        }
        let seen = self.run.observer.is_some().then(|| record.clone());
        {
            let mut book = self.run.book();
            book.calls.push((self.number, record));
            if let Some(attached) = attached {
                book.attachments.insert(self.number, attached);
            }
        }
        if let Some(record) = seen {
            self.run.observe(|| RunEvent::CallSettled {
                record,
                result_bytes: bytes,
            });
        }
        let recorder = &self.run.env().recorder;
        let (event, weight) = if self.run.env().recording {
            let event = self.event(outcome);
            let weight = event.content.get().len() + event.arguments.get().len();
            (Some(event), weight)
        } else {
            (None, 0)
        };
        self.slot.settle(event, weight, |event| {
            if let Some(event) = event {
                recorder.append(event);
            }
        });
    }

    fn event(&self, outcome: Result<&Done, &ToolError>) -> CodeDispatch {
        let content = pipeline::rendered(outcome);
        let summary = content.iter().find_map(|block| match block {
            Content::Text(text) => Some(summarize(text)),
            Content::Image { .. } | Content::Other { .. } => None,
        });
        CodeDispatch {
            root_call_id: self.run.call_id.to_string(),
            parent_call_id: self.run.call_id.to_string(),
            sub_call_id: self.id.to_string(),
            name: self.entry.name.to_string(),
            arguments: toolweave_session::Json::parse(&*self.arguments).unwrap_or_default(),
            is_error: outcome.is_err(),
            content: toolweave_session::Json::encode(&content).unwrap_or_default(),
            summary,
        }
    }
}

impl Drop for Started<'_> {
    fn drop(&mut self) {
        if !self.settled {
            let error = ToolError::new(
                ErrorCode::Aborted,
                format!("`{}` was dropped while it ran", self.entry.name),
            );
            self.settle(Err(&error));
        }
    }
}

/// Takes the one object that a tool is called with out of the list of arguments. Returns it with its text.
fn one_object(entry: &Entry, arguments: &Json, skip: usize) -> Result<(Value, Arc<str>), String> {
    let list = arguments.as_str();
    if list == "[]" {
        return Ok((Value::Object(serde_json::Map::new()), "{}".into()));
    }
    let Value::Array(mut items) = arguments.to_value() else {
        return Err("arguments must be a list".to_owned());
    };
    items.drain(..skip.min(items.len()));
    let count = items.len();
    match items.pop() {
        None => Ok((Value::Object(serde_json::Map::new()), "{}".into())),
        Some(value @ Value::Object(_)) if count == 1 => {
            let text = if skip == 0 {
                list[1..list.len() - 1].trim().into()
            } else {
                pipeline::compact(&value).into()
            };
            Ok((value, text))
        }
        Some(value) => {
            let message = not_one_object(entry, &value, count);
            toolweave_runtime::json::drop_value(value);
            items.into_iter().for_each(toolweave_runtime::json::drop_value);
            Err(message)
        }
    }
}

/// Words the refusal of arguments that are not one object.
pub(crate) fn not_one_object(entry: &Entry, value: &Value, count: usize) -> String {
    let name = &*entry.name;
    let parameters = parameter_list(&entry.spec().input_schema);
    let how = if parameters.is_empty() {
        "pass one object, or nothing".to_owned()
    } else {
        format!(
            "pass one object with named parameters: {{ {} }}",
            parameters.join(", ")
        )
    };
    if count > 1 {
        format!("`{name}` takes one object, got {count} arguments; {how}")
    } else {
        format!("`{name}` takes one object, got {}; {how}", got(value))
    }
}

/// Checks arguments against the tool's schema.
pub(crate) fn check_arguments(entry: &Entry, value: &Value, depth: u32, bytes: usize) -> Result<(), String> {
    let violations = entry
        .input()
        .violations(&entry.spec().input_schema, value, depth, bytes);
    if violations.is_empty() {
        return Ok(());
    }
    Err(violation_message(
        &format!("invalid arguments for `{}`", entry.name),
        &violations,
    ))
}

/// Checks the names of an argument object whose values are partly unknown. Of `names` those in `sure` have a value for
/// certain; `complete` says that there are no others.
pub(crate) fn check_names(
    entry: &Entry,
    names: &[&str],
    sure: &[&str],
    complete: bool,
) -> Result<(), String> {
    let schema = &entry.spec().input_schema;
    let violations = entry.input().name_violations(schema, names, sure, complete);
    if violations.is_empty() {
        return Ok(());
    }
    Err(violation_message(
        &format!("invalid arguments for `{}`", entry.name),
        &violations,
    ))
}

/// Words the failure of a call to something that is no tool.
pub(crate) fn unknown_tool(path: &str, snapshot: &Snapshot) -> String {
    if path == RUN_CODE {
        return format!("a program cannot call `{RUN_CODE}`; write the code where you are");
    }
    let absence = snapshot.absence(path);
    let was_there = snapshot.get(path).is_some();
    let path = clip(path, 120);
    if let Some(absence) = absence {
        return format!("the tool `{path}` cannot be called now: {absence}");
    }
    if was_there {
        return format!("the tool `{path}` is no longer there");
    }
    match nearest_tools(&path, snapshot.names()) {
        Some(near) => format!("unknown tool `{path}`; closest: {near}"),
        None => {
            format!("unknown tool `{path}`; `tools.search(\"...\")` finds tools, `tools.list()` lists them")
        }
    }
}

/// Lists the names closest to one that is unknown.
pub(crate) fn nearest_tools<'n>(path: &str, names: impl Iterator<Item = &'n str>) -> Option<String> {
    let near: Vec<_> = nearest(path, names, SHOWN_NEAREST)
        .into_iter()
        .map(|name| format!("`{}`", clip(name, 120)))
        .collect();
    (!near.is_empty()).then(|| near.join(", "))
}

fn rejection(message: &str) -> BindingError {
    let message = if message.trim().is_empty() {
        "the tool failed and said nothing".to_owned()
    } else {
        clip(message, MAX_ERROR_CHARS)
    };
    BindingError { message }
}

/// Returns the content of a call that is shown after the run: all of it, in order, if any of it can be seen or heard. Its
/// texts are there to say what that is, so long ones are cut.
fn attachment(name: &str, content: &[Content]) -> Option<Vec<Content>> {
    let is_media = |block: &Content| match block {
        Content::Text(_) => false,
        Content::Image { .. } => true,
        Content::Other { block } => block.get("type").and_then(Value::as_str) == Some("audio"),
    };
    if !content.iter().any(is_media) {
        return None;
    }
    let mut attached = vec![Content::Text(format!("[from {name}]"))];
    attached.extend(content.iter().map(|block| match block {
        Content::Text(text) => Content::Text(preview(text.clone(), MAX_ATTACHED_TEXT)),
        other => other.clone(),
    }));
    Some(attached)
}

fn capped(blocks: impl Iterator<Item = Content>) -> Vec<Content> {
    let mut kept = Vec::new();
    let mut bytes = 0;
    let mut left_out = 0_usize;
    for block in blocks {
        let size = match &block {
            Content::Text(text) => text.len(),
            Content::Image { data, .. } => data.len(),
            Content::Other { block } => pipeline::compact(block).len(),
        };
        if kept.len() < MAX_ATTACHED_BLOCKS && bytes + size <= MAX_ATTACHED_BYTES {
            bytes += size;
            kept.push(block);
        } else {
            left_out += 1;
        }
    }
    if left_out > 0 {
        kept.push(Content::Text(format!(
            "[{left_out} more blocks are not attached: at most {MAX_ATTACHED_BLOCKS} blocks and {MAX_ATTACHED_BYTES} bytes are]"
        )));
    }
    kept
}
