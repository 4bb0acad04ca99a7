//! A client that speaks JSON-RPC in lines over pipes and knows nothing of MCP: it sends what it is told, and keeps all
//! that comes back.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// The longest line that is read.
const MOST_LINE_BYTES: u64 = 256 * 1024 * 1024;

/// Lines that may lie unread before the server has to wait.
const MOST_UNREAD: usize = 4096;

/// A server under test, spoken to through its standard input and output. It is killed when this is dropped.
#[derive(Debug)]
pub struct RpcClient {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
    next_id: u64,
    /// How long to wait for anything.
    pub patience: Duration,
    /// Messages that were received while another was awaited: notifications, requests, other answers.
    pub others: Vec<Value>,
    /// Lines that are not JSON.
    pub noise: Vec<String>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The server could not be started or written to.
    #[error("cannot talk to the server")]
    Io(#[from] std::io::Error),
    /// The server closed its output.
    #[error("the server closed its output")]
    Closed,
    /// Nothing came in time.
    #[error("no answer to request {0} in time")]
    TimedOut(u64),
}

impl RpcClient {
    /// Starts the server. Its standard error goes where the test's goes.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn(mut command: Command) -> Result<Self, ClientError> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or(ClientError::Closed)?;
        let (sender, lines) = sync_channel(MOST_UNREAD);
        thread::spawn(move || {
            let mut output = BufReader::new(output);
            let mut line = Vec::new();
            while matches!(
                output.by_ref().take(MOST_LINE_BYTES).read_until(b'\n', &mut line),
                Ok(1..)
            ) {
                if sender.send(std::mem::take(&mut line)).is_err() {
                    return;
                }
            }
        });
        let patience = Duration::from_secs(60);
        Ok(Self {
            child,
            input,
            lines,
            next_id: 1,
            patience,
            others: Vec::new(),
            noise: Vec::new(),
        })
    }

    /// Returns the process id of the server.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Opens an MCP session and returns the server's answer.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn initialize(&mut self, version: &str) -> Result<Value, ClientError> {
        let client = json!({"name": "testkit", "version": "1"});
        let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": client});
        let answer = self.request("initialize", params)?;
        self.notify("notifications/initialized", json!({}))?;
        Ok(answer)
    }

    /// Sends a request and returns the whole answer, a `result` or an `error`.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn request(&mut self, method: &str, params: Value) -> Result<Value, ClientError> {
        let id = self.send(method, params)?;
        self.wait(id)
    }

    /// Calls a tool and returns the whole answer.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn call(&mut self, tool: &str, arguments: Value) -> Result<Value, ClientError> {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Sends a request and returns its id without waiting for the answer.
    ///
    /// # Errors
    /// When the server cannot be written to.
    pub fn send(&mut self, method: &str, params: Value) -> Result<u64, ClientError> {
        let id = self.next_id;
        self.next_id += 1;
        self.send_line(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string())?;
        Ok(id)
    }

    /// Sends a notification.
    ///
    /// # Errors
    /// When the server cannot be written to.
    pub fn notify(&mut self, method: &str, params: Value) -> Result<(), ClientError> {
        self.send_line(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string())
    }

    /// Sends a line as it is.
    ///
    /// # Errors
    /// When the server cannot be written to.
    pub fn send_line(&mut self, line: &str) -> Result<(), ClientError> {
        let input = self.input.as_mut().ok_or(ClientError::Closed)?;
        input.write_all(line.as_bytes())?;
        input.write_all(b"\n")?;
        Ok(input.flush()?)
    }

    /// Waits for the answer to a request.
    ///
    /// # Errors
    /// When it does not come.
    pub fn wait(&mut self, id: u64) -> Result<Value, ClientError> {
        if let Some(at) = self.others.iter().position(|message| is_answer(message, id)) {
            return Ok(self.others.remove(at));
        }
        let end = Instant::now() + self.patience;
        loop {
            let message = self.receive(end).map_err(|e| match e {
                ClientError::TimedOut(_) => ClientError::TimedOut(id),
                other => other,
            })?;
            if is_answer(&message, id) {
                return Ok(message);
            }
            self.others.push(message);
        }
    }

    /// Returns the next line as it is; JSON of any depth survives this way.
    ///
    /// # Errors
    /// When none comes.
    pub fn receive_line(&mut self) -> Result<String, ClientError> {
        self.line(Instant::now() + self.patience)
    }

    /// Closes the server's input and returns how it ends.
    ///
    /// # Errors
    /// When it does not end in time.
    pub fn close(mut self) -> Result<ExitStatus, ClientError> {
        self.input = None;
        self.exit()
    }

    /// Returns how the server ends by itself.
    ///
    /// # Errors
    /// When it does not end in time.
    pub fn exit(&mut self) -> Result<ExitStatus, ClientError> {
        let end = Instant::now() + self.patience;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if Instant::now() >= end {
                return Err(ClientError::TimedOut(0));
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn receive(&mut self, end: Instant) -> Result<Value, ClientError> {
        loop {
            let line = self.line(end)?;
            match serde_json::from_str(&line) {
                Ok(message) => return Ok(message),
                Err(_) => self.noise.push(line),
            }
        }
    }

    fn line(&mut self, end: Instant) -> Result<String, ClientError> {
        let rest = end.saturating_duration_since(Instant::now());
        let mut line = self.lines.recv_timeout(rest).map_err(|e| match e {
            RecvTimeoutError::Timeout => ClientError::TimedOut(0),
            RecvTimeoutError::Disconnected => ClientError::Closed,
        })?;
        line.pop_if(|byte| *byte == b'\n');
        Ok(String::from_utf8_lossy(&line).into_owned())
    }
}

impl Drop for RpcClient {
    fn drop(&mut self) {
        // Both fail only when the server has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_answer(message: &Value, id: u64) -> bool {
    message.get("method").is_none() && message.get("id").and_then(Value::as_u64) == Some(id)
}
