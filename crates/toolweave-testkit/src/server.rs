//! An MCP server over lines of JSON, written by hand so that it shares no code with what it tests.
//!
//! It speaks 2025-06-18 and 2025-11-25. A call that takes time waits on a thread of its own; all others are answered in
//! the order in which they came. On request it misbehaves in the ways that real servers do.

use std::collections::BTreeMap;
use std::io::{BufRead, Read, Write};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::raw;
use crate::report::Report;

/// The longest line that is read.
const MOST_LINE_BYTES: u64 = 256 * 1024 * 1024;

/// The most calls that may wait at once.
const MOST_WAITING: usize = 4096;

const VERSIONS: [&str; 2] = ["2025-11-25", "2025-06-18"];

/// Tools with their behaviour.
pub trait ToolSet: Send + Sync {
    /// Returns the declarations in the form of MCP.
    fn tools(&self) -> Vec<Value>;

    /// Calls a tool with its arguments as JSON text; `None` where there is no such tool.
    fn call(&self, name: &str, arguments: &str) -> Option<Answer>;
}

/// What a call comes to, and when.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The call is over.
    Now(Outcome),
    /// The call takes that long, and can be cancelled meanwhile.
    After(Duration, Outcome),
}

/// What a call comes to.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The text of a JSON object.
    Value(String),
    /// The call failed with this message.
    Failed(String),
    /// Content blocks in place of a value.
    Content(Vec<Value>),
}

/// How the server runs.
#[derive(Debug, Clone, Default)]
pub struct ServeOptions {
    /// Where to keep the report of what happened.
    pub log: Option<PathBuf>,
    /// How many tools a page of the list has; all where absent.
    pub page: Option<usize>,
    /// What the server does wrong.
    pub misbehaviour: Misbehaviour,
}

/// What the server does wrong.
#[derive(Debug, Clone, Default)]
pub struct Misbehaviour {
    /// Writes noise before and between its messages.
    pub banner: bool,
    /// Never answers `initialize`.
    pub hang_initialize: bool,
    /// Ends, as if it had crashed, when it receives a call after this many.
    pub exit_after: Option<u64>,
    /// Declares further tools with impossible schemas.
    pub bad_schema: bool,
}

/// Serves until the input ends, and returns the exit code.
pub fn serve(
    set: Arc<dyn ToolSet>,
    options: ServeOptions,
    input: impl BufRead,
    output: impl Write + Send + 'static,
) -> u8 {
    let server = Arc::new(Server {
        tools: declarations(&*set, &options.misbehaviour),
        set,
        report: Mutex::new(Report::new(options.log.clone())),
        options,
        output: Mutex::new(Box::new(output)),
        waiting: Mutex::default(),
    });
    if server.options.misbehaviour.banner {
        server.write_line("fixture server starting [not JSON]");
    }
    let code = server.read_all(input);
    lock(&server.report).write(true);
    code
}

struct Server {
    set: Arc<dyn ToolSet>,
    tools: Vec<Value>,
    options: ServeOptions,
    report: Mutex<Report>,
    output: Mutex<Box<dyn Write + Send>>,
    waiting: Mutex<BTreeMap<String, Arc<Wait>>>,
}

#[derive(Deserialize)]
struct Message {
    id: Option<Box<RawValue>>,
    method: Option<String>,
    params: Option<Box<RawValue>>,
}

/// An error of the protocol: its code and message.
type Refusal = (i32, String);

impl Server {
    fn read_all(self: &Arc<Self>, mut input: impl BufRead) -> u8 {
        let mut calls = 0;
        let mut line = Vec::new();
        loop {
            line.clear();
            match input.by_ref().take(MOST_LINE_BYTES).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return 0,
                Ok(_) if line.trim_ascii().is_empty() => continue,
                Ok(_) => {}
            }
            let Message { id, method, params } = match serde_json::from_slice(&line) {
                Ok(message) => message,
                Err(error) => {
                    self.respond(RawValue::NULL, Err((-32700, error.to_string())));
                    continue;
                }
            };
            // A message without a method answers a request, and this server makes none.
            let Some(method) = method else { continue };
            lock(&self.report).message(&method);
            let params = params.as_deref().map_or("{}", RawValue::get);
            match (id, method.as_str()) {
                (None, "notifications/cancelled") => self.cancel(params),
                (None, _) => {}
                (Some(id), "tools/call") => {
                    if self.options.misbehaviour.exit_after == Some(calls) {
                        return 3;
                    }
                    calls += 1;
                    self.call(id, params);
                }
                (Some(_), "initialize") if self.options.misbehaviour.hang_initialize => {}
                (Some(id), method) => self.respond(&id, self.answer(method, params)),
            }
        }
    }

    fn answer(&self, method: &str, params: &str) -> Result<String, Refusal> {
        match method {
            "initialize" => initialize(params),
            "ping" => Ok("{}".to_owned()),
            "tools/list" => self.list(params),
            _ => Err((-32601, format!("method not found: {method}"))),
        }
    }

    fn list(&self, params: &str) -> Result<String, Refusal> {
        #[derive(Deserialize)]
        struct Params {
            cursor: Option<String>,
        }
        let Params { cursor } = parse(params)?;
        let Some(page) = self.options.page else {
            return Ok(raw::json(&json!({"tools": self.tools})));
        };
        let from = match cursor {
            None => 0,
            Some(cursor) => {
                let known = cursor.strip_prefix("from:").and_then(|n| n.parse().ok());
                known
                    .filter(|from| *from < self.tools.len())
                    .ok_or_else(|| (-32602, format!("unknown cursor: {cursor}")))?
            }
        };
        let to = from.saturating_add(page.max(1)).min(self.tools.len());
        let mut result = json!({"tools": self.tools[from..to]});
        if to < self.tools.len() {
            result["nextCursor"] = format!("from:{to}").into();
        }
        Ok(raw::json(&result))
    }

    fn call(self: &Arc<Self>, id: Box<RawValue>, params: &str) {
        #[derive(Deserialize)]
        struct Params {
            name: String,
            arguments: Option<Box<RawValue>>,
        }
        let Params { name, arguments } = match parse(params) {
            Ok(params) => params,
            Err(refusal) => return self.respond(&id, Err(refusal)),
        };
        let declared = self.tools.iter().find(|tool| tool["name"] == name.as_str());
        let read_only = declared.is_some_and(|tool| tool["annotations"]["readOnlyHint"] == true);
        let arguments = arguments.as_deref().map_or("{}", RawValue::get);
        lock(&self.report).call(&id, &name, arguments, read_only);
        let answer = match self.set.call(&name, arguments) {
            None if declared.is_some() => {
                Answer::Now(Outcome::Value(format!("{{\"called\":{}}}", raw::json(&name))))
            }
            None => {
                lock(&self.report).end(id.get(), read_only, false);
                return self.respond(&id, Err((-32602, format!("unknown tool: {name}"))));
            }
            Some(answer) => answer,
        };
        match answer {
            Answer::Now(outcome) => self.finish(&id, read_only, outcome),
            Answer::After(delay, outcome) => self.wait(id, read_only, delay, outcome),
        }
    }

    fn wait(self: &Arc<Self>, id: Box<RawValue>, read_only: bool, delay: Duration, outcome: Outcome) {
        let wait = Arc::new(Wait::default());
        let full = {
            let mut waiting = lock(&self.waiting);
            let full = waiting.len() >= MOST_WAITING;
            if !full {
                waiting.insert(id.get().to_owned(), Arc::clone(&wait));
            }
            full
        };
        if full {
            let message = format!("more than {MOST_WAITING} calls wait");
            return self.finish(&id, read_only, Outcome::Failed(message));
        }
        let server = Arc::clone(self);
        let request = id.clone();
        let spawned = thread::Builder::new().stack_size(128 * 1024).spawn(move || {
            let cancelled = wait.sleep(delay);
            lock(&server.waiting).remove(request.get());
            if cancelled {
                lock(&server.report).end(request.get(), read_only, true);
            } else {
                server.finish(&request, read_only, outcome);
            }
        });
        if let Err(error) = spawned {
            lock(&self.waiting).remove(id.get());
            self.finish(
                &id,
                read_only,
                Outcome::Failed(format!("cannot start a thread: {error}")),
            );
        }
    }

    fn cancel(&self, params: &str) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Params {
            request_id: Box<RawValue>,
        }
        if let Ok(Params { request_id }) = parse::<Params>(params)
            && let Some(wait) = lock(&self.waiting).get(request_id.get())
        {
            wait.cancel();
        }
    }

    fn finish(&self, id: &RawValue, read_only: bool, outcome: Outcome) {
        lock(&self.report).end(id.get(), read_only, false);
        let result = match outcome {
            Outcome::Value(value) => {
                let text = raw::json(&value);
                format!(
                    "{{\"content\":[{{\"type\":\"text\",\"text\":{text}}}],\"structuredContent\":{value},\"isError\":false}}"
                )
            }
            Outcome::Failed(message) => {
                raw::json(&json!({"content": [{"type": "text", "text": message}], "isError": true}))
            }
            Outcome::Content(blocks) => raw::json(&json!({"content": blocks, "isError": false})),
        };
        self.respond(id, Ok(result));
    }

    fn respond(&self, id: &RawValue, result: Result<String, Refusal>) {
        if self.options.misbehaviour.banner {
            self.write_line("fixture: still here {");
        }
        let id = id.get();
        self.write_line(&match result {
            Ok(result) => format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}"),
            Err((code, message)) => {
                let error = json!({"code": code, "message": message});
                format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{error}}}")
            }
        });
    }

    fn write_line(&self, line: &str) {
        let mut output = lock(&self.output);
        // A client that is gone closes the input as well, which ends the server.
        let _ = output
            .write_all(line.as_bytes())
            .and_then(|()| output.write_all(b"\n"))
            .and_then(|()| output.flush());
    }
}

/// A call that takes its time.
#[derive(Default)]
struct Wait {
    cancelled: Mutex<bool>,
    changed: Condvar,
}

impl Wait {
    /// Waits, and returns whether the call was cancelled meanwhile.
    fn sleep(&self, delay: Duration) -> bool {
        let end = Instant::now() + delay;
        let mut cancelled = lock(&self.cancelled);
        while !*cancelled {
            let rest = end.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                break;
            }
            cancelled = self
                .changed
                .wait_timeout(cancelled, rest)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        *cancelled
    }

    fn cancel(&self) {
        *lock(&self.cancelled) = true;
        self.changed.notify_all();
    }
}

fn initialize(params: &str) -> Result<String, Refusal> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params {
        protocol_version: String,
    }
    let Params {
        protocol_version: asked,
    } = parse(params)?;
    let version = VERSIONS
        .into_iter()
        .find(|known| *known == asked)
        .unwrap_or(VERSIONS[0]);
    Ok(raw::json(&json!({
        "protocolVersion": version,
        "capabilities": {"tools": {"listChanged": false}},
        "serverInfo": {"name": "toolweave-fixture", "version": env!("CARGO_PKG_VERSION")},
    })))
}

fn declarations(set: &dyn ToolSet, misbehaviour: &Misbehaviour) -> Vec<Value> {
    let mut tools = set.tools();
    if misbehaviour.bad_schema {
        tools.extend([
            json!({"name": "bad_text", "description": "Its schema is a text.", "inputSchema": "nothing"}),
            json!({"name": "bad_ref", "description": "Its schema refers to nowhere.", "inputSchema":
                {"type": "object", "properties": {"x": {"$ref": "#/$defs/missing"}}, "required": ["x"]}}),
            json!({"name": "bad_type", "description": "Its type does not exist.", "inputSchema":
                {"type": "object", "properties": {"x": {"type": "strange", "minimum": "low"}}}}),
            json!({"name": "bad_none", "description": "It has no schema."}),
        ]);
    }
    tools
}

fn parse<'a, T: Deserialize<'a>>(params: &'a str) -> Result<T, Refusal> {
    serde_json::from_str(params).map_err(|e| (-32602, format!("invalid params: {e}")))
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
