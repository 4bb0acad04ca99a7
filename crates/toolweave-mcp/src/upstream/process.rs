//! A server's process: started with little, watched, and gone when it should be.
//!
//! The process leads its own group, so that what it started (`npx` starts a shell, which starts `node`) goes with it.

use std::collections::VecDeque;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::config::{StdioCommand, UpstreamHost};
use crate::json::excerpt;
use crate::lines::{Line, LineReader};

/// How long a server may take to end by itself after its input was closed.
const CLOSE_GRACE: Duration = Duration::from_millis(1_500);
/// How long it may take after being asked to.
const TERMINATE_GRACE: Duration = Duration::from_millis(1_000);
/// How long its last words may take to arrive.
const LAST_WORDS: Duration = Duration::from_millis(300);
/// Lines of standard error that are kept.
const KEPT_LINES: usize = 20;
/// Characters of one such line that are kept.
const KEPT_LINE_CHARS: usize = 300;
/// A longer line on standard error is not read whole.
const MAX_STDERR_LINE: usize = 16 * 1024;

/// A running server. Dropping it kills the whole group at once.
pub(crate) struct Process {
    child: Child,
    group: Group,
    stderr: tokio::task::JoinHandle<()>,
}

/// The last lines that a server wrote to standard error.
#[derive(Clone, Default)]
pub(crate) struct StderrTail {
    lines: Arc<Mutex<VecDeque<String>>>,
}

struct Group {
    #[cfg(unix)]
    leader: Option<rustix::process::Pid>,
}

impl Process {
    /// Starts a server.
    ///
    /// # Errors
    /// Why it cannot be started, with the command's name.
    pub(crate) fn start(
        server: &str,
        command: &StdioCommand,
        host: &UpstreamHost,
        stderr: StderrTail,
    ) -> Result<(Self, ChildStdout, ChildStdin), String> {
        let name = &command.command;
        let cwd = match &command.cwd {
            Some(cwd) => host.cwd.join(cwd),
            None => host.cwd.clone(),
        };
        let mut process = Command::new(name);
        process
            .args(&command.args)
            .env_clear()
            .envs(&host.env)
            .envs(&command.env)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if !cwd.as_os_str().is_empty() {
            if !cwd.is_dir() {
                return Err(format!("the working directory {} is not there", cwd.display()));
            }
            process.current_dir(&cwd);
        }
        #[cfg(unix)]
        process.process_group(0);
        let mut child = process.spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => format!("the command `{name}` was not found"),
            _ => format!("the command `{name}` cannot be started: {error}"),
        })?;
        let (Some(stdin), Some(stdout), Some(errors)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(format!("the command `{name}` has no standard streams"));
        };
        let group = Group::of(&child);
        let stderr = tokio::spawn(keep_stderr(server.to_owned(), errors, stderr));
        Ok((Self { child, group, stderr }, stdout, stdin))
    }

    /// Waits until the process has ended and says how.
    pub(crate) async fn ended(&mut self) -> String {
        let ended = self.child.wait().await;
        // What it left behind would keep its standard output open.
        self.group.kill();
        match ended {
            Ok(status) => describe(status),
            Err(error) => format!("the process cannot be watched: {error}"),
        }
    }

    /// Ends the process, whose input was closed: waits a little, asks, then insists.
    pub(crate) async fn stop(mut self) {
        if tokio::time::timeout(CLOSE_GRACE, self.child.wait())
            .await
            .is_err()
        {
            self.group.terminate();
            let _ = tokio::time::timeout(TERMINATE_GRACE, self.child.wait()).await;
        }
        self.group.kill();
        let _ = self.child.start_kill();
        let _ = self.child.wait().await;
        // Its last words are often the reason.
        let _ = tokio::time::timeout(LAST_WORDS, &mut self.stderr).await;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.group.kill();
    }
}

#[cfg(unix)]
impl Group {
    fn of(child: &Child) -> Self {
        let leader = child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(rustix::process::Pid::from_raw);
        Self { leader }
    }

    fn terminate(&self) {
        if let Some(leader) = self.leader {
            let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::TERM);
        }
    }

    /// Kills what is left, once: afterwards the number may belong to somebody else.
    fn kill(&mut self) {
        if let Some(leader) = self.leader.take() {
            let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
        }
    }
}

#[cfg(not(unix))]
impl Group {
    fn of(_child: &Child) -> Self {
        Self {}
    }

    fn terminate(&self) {}

    fn kill(&mut self) {}
}

impl StderrTail {
    /// Returns the kept lines, oldest first.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.locked().iter().cloned().collect()
    }

    /// Forgets what an earlier process wrote.
    pub(crate) fn clear(&self) {
        self.locked().clear();
    }

    fn push(&self, line: String) {
        let mut lines = self.locked();
        if lines.len() == KEPT_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, VecDeque<String>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn keep_stderr(server: String, errors: tokio::process::ChildStderr, tail: StderrTail) {
    let mut reader = LineReader::with_limit(errors, MAX_STDERR_LINE);
    while let Ok(Some(line)) = reader.next().await {
        let bytes = match line {
            Line::Whole(bytes) => bytes,
            Line::TooLong { head, .. } => head,
        };
        // Terminal controls in a log line must not reach the terminal of whoever reads it.
        let text: String = String::from_utf8_lossy(&bytes)
            .chars()
            .filter(|c| !c.is_control() || *c == '\t')
            .collect();
        if text.trim().is_empty() {
            continue;
        }
        tracing::debug!(server, "stderr: {text}");
        tail.push(excerpt(&text, KEPT_LINE_CHARS));
    }
}

fn describe(status: std::process::ExitStatus) -> String {
    #[cfg(unix)]
    {
        use std::os::unix::process::ExitStatusExt;
        if let Some(signal) = status.signal() {
            return format!("was ended by signal {signal}");
        }
    }
    match status.code() {
        Some(code) => format!("exited with code {code}"),
        None => "exited".to_owned(),
    }
}
