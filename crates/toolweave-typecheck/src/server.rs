//! One compiler process and the conversation with it: the language server protocol on standard streams, on documents that
//! exist in its memory only.
//!
//! Judges nothing and waits for ever: caps on time are the caller's, who drops the process to end it.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::compiler::{Compiler, Version};
use crate::limits::{MAX_COMPLAINTS, MAX_HEAD_BYTES, MAX_MEMORY_BYTES, MAX_MESSAGE_BYTES, MAX_VERSION_BYTES};
use crate::{AMBIENT, Declarations};

/// A folder that does not exist, near the root so that the compiler has few parents to look for packages in.
const FOLDER: &str = if cfg!(windows) {
    "file:///c%3A/.toolweave-typecheck"
} else {
    "file:///.toolweave-typecheck"
};
const PROJECT: &str = "tsconfig.json";
const GLOBALS: &str = "globals.d.ts";
const TOOLS: &str = "tools.d.ts";
const PROGRAM: &str = "program.ts";

/// The function that a program is the body of. Its line stands before the program's first.
const HEAD: &str = "export default async function () {\n";
const TAIL: &str = "\n}\n";

/// The exit status of a process that is no compiler of ours does not matter; its words might.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServerError {
    #[error("version {0} is too old")]
    TooOld(Version),
    #[error("it does not tell its version")]
    NoVersion,
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("it sent {0}")]
    Protocol(&'static str),
    #[error("it refused a request: {0}")]
    Refused(String),
}

/// What the compiler said, in the coordinates of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Raw {
    /// From 1.
    pub(crate) line: u32,
    /// In UTF-16 units, from 1.
    pub(crate) column: u32,
    /// The place behind what it is about.
    pub(crate) end: (u32, u32),
    pub(crate) code: u32,
    pub(crate) message: String,
    /// Whether it points at a declaration of a tool.
    pub(crate) about_tools: bool,
    /// Whether it asks for an `await`.
    pub(crate) wants_await: bool,
}

/// What is started, and with what around it.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub(crate) compiler: Compiler,
    /// The whole environment, besides what bounds its memory.
    pub(crate) environment: Vec<(OsString, OsString)>,
}

/// A running compiler. Dropping it kills the process and what that started.
pub(crate) struct Server {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    last_id: u64,
    last_version: i64,
    declarations: Option<Declarations>,
}

impl Server {
    /// Starts the compiler and has it read its own library, which is most of the work of the first check.
    pub(crate) async fn start(launch: &Launch) -> Result<Self, ServerError> {
        if launch.compiler.version().is_none() {
            check_version(launch).await?;
        }
        let mut child = command(launch)
            .args(["--lsp", "--stdio"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        bound_memory(&child);
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(ServerError::Protocol("no standard streams"));
        };
        let mut server = Self {
            child,
            input,
            output: BufReader::new(output),
            last_id: 0,
            last_version: 0,
            declarations: None,
        };
        let capabilities = json!({
            "textDocument": {
                "diagnostic": { "relatedInformation": true },
                "publishDiagnostics": { "relatedInformation": true },
            },
        });
        let options = json!({ "disablePushDiagnostics": true, "disableAutomaticTypeAcquisition": true });
        let parameters = json!({
            "processId": std::process::id(),
            "rootUri": null,
            "capabilities": capabilities,
            "initializationOptions": options,
        });
        server.ask("initialize", parameters).await?;
        server.tell("initialized", json!({})).await?;
        server.open(PROJECT, "json", &project()).await?;
        server.open(GLOBALS, "typescript", AMBIENT).await?;
        server.open(TOOLS, "typescript", "").await?;
        server.open(PROGRAM, "typescript", "export {};\n").await?;
        server.diagnostics().await?;
        Ok(server)
    }

    /// Says whether the process is still there.
    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Returns the memory that the process uses now, where the system tells.
    pub(crate) fn memory(&self) -> Option<u64> {
        let pages = std::fs::read_to_string(format!("/proc/{}/statm", self.child.id()?)).ok()?;
        let resident: u64 = pages.split(' ').nth(1)?.parse().ok()?;
        Some(resident.saturating_mul(4096))
    }

    /// Checks one program. A server whose answer was not waited for is of no use any more.
    pub(crate) async fn check(
        &mut self,
        declarations: &Declarations,
        program: &str,
    ) -> Result<Vec<Raw>, ServerError> {
        if self.declarations.as_ref() != Some(declarations) {
            self.change(TOOLS, declarations.text()).await?;
            self.declarations = Some(declarations.clone());
        }
        self.change(PROGRAM, &[HEAD, program, TAIL].concat()).await?;
        let items = self.diagnostics().await?;
        let lines = u32::try_from(program.matches('\n').count() + 1).unwrap_or(u32::MAX);
        let errors = items.into_iter().filter(|item| item.severity == Some(ERROR));
        let raws = errors.take(MAX_COMPLAINTS).map(Item::into_raw);
        Ok(raws.filter(|raw| (1..=lines).contains(&raw.line)).collect())
    }

    async fn diagnostics(&mut self) -> Result<Vec<Item>, ServerError> {
        let document = json!({ "textDocument": { "uri": uri(PROGRAM) } });
        let answer = self.ask("textDocument/diagnostic", document).await?;
        match serde_json::from_value(answer) {
            Ok(Report { items }) => Ok(items),
            Err(_) => Err(ServerError::Protocol("a report of an unknown form")),
        }
    }

    async fn open(&mut self, file: &str, language: &str, text: &str) -> Result<(), ServerError> {
        let document = json!({ "uri": uri(file), "languageId": language, "version": 0, "text": text });
        self.tell("textDocument/didOpen", json!({ "textDocument": document }))
            .await
    }

    async fn change(&mut self, file: &str, text: &str) -> Result<(), ServerError> {
        self.last_version += 1;
        let parameters = json!({
            "textDocument": { "uri": uri(file), "version": self.last_version },
            "contentChanges": [{ "text": text }],
        });
        self.tell("textDocument/didChange", parameters).await
    }

    async fn tell(&mut self, method: &str, parameters: Value) -> Result<(), ServerError> {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": parameters }))
            .await
    }

    async fn ask(&mut self, method: &str, parameters: Value) -> Result<Value, ServerError> {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": parameters }))
            .await?;
        loop {
            let message = self.receive().await?;
            match message {
                Message {
                    method: Some(method),
                    id: Some(id),
                    params,
                    ..
                } => self.answer(&method, id, &params).await?,
                Message {
                    method: None,
                    id: Some(answered),
                    error,
                    result,
                    ..
                } if answered == id => {
                    return match error {
                        Some(error) => Err(ServerError::Refused(error.message.chars().take(200).collect())),
                        None => Ok(result),
                    };
                }
                // What it only tells is its own affair.
                _ => {}
            }
        }
    }

    /// Answers a request of the compiler's own: it gets no settings and registers what it likes.
    async fn answer(&mut self, method: &str, id: Value, parameters: &Value) -> Result<(), ServerError> {
        let result = match method {
            "workspace/configuration" => {
                let asked = parameters["items"].as_array().map_or(0, Vec::len);
                Some(Value::Array(vec![Value::Null; asked]))
            }
            "client/registerCapability"
            | "client/unregisterCapability"
            | "window/workDoneProgress/create" => Some(Value::Null),
            _ => None,
        };
        let answer = match result {
            Some(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            None => {
                json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32601, "message": "not supported" } })
            }
        };
        self.send(&answer).await
    }

    async fn send(&mut self, message: &Value) -> Result<(), ServerError> {
        let body = message.to_string();
        let mut frame = format!("Content-Length: {}\r\n\r\n", body.len());
        frame.push_str(&body);
        self.input.write_all(frame.as_bytes()).await?;
        self.input.flush().await?;
        Ok(())
    }

    async fn receive(&mut self) -> Result<Message, ServerError> {
        let mut length: Option<usize> = None;
        let mut head = 0;
        loop {
            let mut line = Vec::new();
            let room = u64::try_from(MAX_HEAD_BYTES - head).unwrap_or(0);
            let read = (&mut self.output).take(room).read_until(b'\n', &mut line).await?;
            head += read;
            if read == 0 {
                let end = io::Error::new(io::ErrorKind::UnexpectedEof, "it ended unexpectedly");
                return Err(end.into());
            }
            if !line.ends_with(b"\n") {
                return Err(ServerError::Protocol("a head that is too long"));
            }
            let line = String::from_utf8_lossy(&line);
            let line = line.trim();
            match (line.split_once(':'), length) {
                (None, Some(_)) if line.is_empty() => break,
                (Some((name, value)), _) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.trim().parse().ok();
                }
                (Some(_), _) => {}
                (None, _) => return Err(ServerError::Protocol("something else than messages")),
            }
        }
        let length = length.unwrap_or(0);
        if length > MAX_MESSAGE_BYTES {
            return Err(ServerError::Protocol("a message that is too large"));
        }
        let mut body = vec![0; length];
        self.output.read_exact(&mut body).await?;
        serde_json::from_slice(&body).map_err(|_| ServerError::Protocol("a message of an unknown form"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Kills a process with what it started: a script may have started the compiler proper.
fn end(child: &mut Child) {
    #[cfg(unix)]
    if let Some(group) = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .and_then(rustix::process::Pid::from_raw)
    {
        // It may have ended by itself.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.start_kill();
}

/// Asks a compiler of unknown version for it.
async fn check_version(launch: &Launch) -> Result<(), ServerError> {
    let child = command(launch)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    // A process that is dropped midway is killed with its group, as the server itself.
    let mut child = Ended(child);
    let mut text = Vec::new();
    if let Some(output) = child.0.stdout.take() {
        output
            .take(MAX_VERSION_BYTES as u64)
            .read_to_end(&mut text)
            .await?;
    }
    match Version::parse(&String::from_utf8_lossy(&text)) {
        Some(version) if version.is_usable() => Ok(()),
        Some(version) => Err(ServerError::TooOld(version)),
        None => Err(ServerError::NoVersion),
    }
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        end(&mut self.0);
    }
}

fn command(launch: &Launch) -> Command {
    let mut command = Command::new(launch.compiler.program());
    let folder = launch
        .compiler
        .program()
        .parent()
        .map_or_else(|| PathBuf::from("/"), PathBuf::from);
    command
        .current_dir(folder)
        .env_clear()
        .envs(launch.environment.iter().map(|(name, value)| (name, value)))
        .env("GOMEMLIMIT", (MAX_MEMORY_BYTES / 4 * 3).to_string())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    #[cfg(unix)]
    command.process_group(0);
    command
}

/// Bounds the memory of a process that has just started, where the system can.
#[cfg(target_os = "linux")]
fn bound_memory(child: &Child) {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};
    let limit = Rlimit {
        current: Some(MAX_MEMORY_BYTES),
        maximum: Some(MAX_MEMORY_BYTES),
    };
    let pid = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .and_then(Pid::from_raw);
    if let Some(Err(error)) = pid.map(|pid| prlimit(Some(pid), Resource::Data, limit)) {
        tracing::debug!(%error, "the memory of the type checker is not bounded");
    }
}

#[cfg(not(target_os = "linux"))]
fn bound_memory(_: &Child) {}

fn uri(file: &str) -> String {
    format!("{FOLDER}/{file}")
}

/// The settings of the compiler. It is told of itself as a file of the project, so that it belongs to that and not to one
/// with the settings of an editor.
fn project() -> String {
    let options = json!({
        "target": "esnext",
        "lib": ["esnext"],
        "module": "esnext",
        "moduleResolution": "bundler",
        "moduleDetection": "force",
        "types": [],
        "noEmit": true,
        // No text of a program leads to a file.
        "noResolve": true,
        "resolveJsonModule": true,
        "skipLibCheck": true,
        "strict": false,
        "noImplicitAny": false,
        "strictNullChecks": false,
        "allowUnreachableCode": true,
        "allowUnusedLabels": true,
    });
    json!({
        "compilerOptions": options,
        "typeAcquisition": { "enable": false },
        "files": [PROJECT, GLOBALS, TOOLS, PROGRAM],
    })
    .to_string()
}

const ERROR: u32 = 1;

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    id: Option<Value>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    params: Value,
    #[serde(default)]
    result: Value,
    #[serde(default)]
    error: Option<Refusal>,
}

#[derive(Deserialize)]
struct Refusal {
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
struct Report {
    items: Vec<Item>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Item {
    range: Range,
    severity: Option<u32>,
    #[serde(default)]
    code: Value,
    message: String,
    #[serde(default)]
    related_information: Vec<Related>,
}

#[derive(Deserialize)]
struct Related {
    location: Location,
    message: String,
}

#[derive(Deserialize)]
struct Location {
    uri: String,
}

#[derive(Deserialize)]
struct Range {
    start: Place,
    end: Place,
}

#[derive(Deserialize)]
struct Place {
    line: u32,
    character: u32,
}

impl Item {
    /// The head of the document is one line, so that its lines from 0 are those of the program from 1.
    fn into_raw(self) -> Raw {
        let place = |place: &Place| (place.line, place.character.saturating_add(1));
        let (line, column) = place(&self.range.start);
        Raw {
            line,
            column,
            end: place(&self.range.end),
            code: self
                .code
                .as_u64()
                .and_then(|code| u32::try_from(code).ok())
                .unwrap_or(0),
            about_tools: self
                .related_information
                .iter()
                .any(|related| related.location.uri.ends_with(TOOLS)),
            wants_await: self
                .related_information
                .iter()
                .any(|related| related.message.contains("'await'")),
            message: self.message,
        }
    }
}
