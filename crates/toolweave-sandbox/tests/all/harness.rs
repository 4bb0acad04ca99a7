//! Pools of test workers, and conversations with their children.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::{
    ffi::OsString,
    io::{BufRead, BufReader, Read, Write},
    path::PathBuf,
    time::{Duration, Instant},
};
use toolweave_sandbox::{
    Child, ChildHandle, Exit, ExitStatus, Layer, Requirement, Socket, WarmConfig, WarmParent,
};

/// A guard against hanging; nothing takes nearly as long.
pub(crate) const CEILING: Duration = Duration::from_secs(60);

pub(crate) fn worker_program() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_sandbox-test-worker"))
}

pub(crate) fn config() -> WarmConfig {
    WarmConfig {
        program: worker_program(),
        args: vec![OsString::from("worker")],
        requirement: Requirement::Required,
        standbys: 0,
        ..WarmConfig::default()
    }
}

/// A pool in which only these of the layers that tests can tell apart are in force.
pub(crate) fn without(layers: &[Layer]) -> WarmParent {
    let config = WarmConfig {
        requirement: Requirement::Preferred,
        leave_out: layers.to_vec(),
        ..config()
    };
    WarmParent::start(config).unwrap()
}

pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}

/// A child to talk to.
pub(crate) struct Guest {
    input: BufReader<Socket>,
    pub(crate) handle: ChildHandle,
}

impl Guest {
    pub(crate) fn new(child: Child) -> Self {
        let (socket, handle) = child.split();
        socket.set_nonblocking(false).unwrap();
        socket.set_read_timeout(Some(CEILING)).unwrap();
        Self {
            input: BufReader::new(socket),
            handle,
        }
    }

    pub(crate) fn take(pool: &WarmParent) -> Self {
        Self::new(block_on(pool.take()).unwrap())
    }

    pub(crate) fn say(&mut self, command: &str) {
        self.input
            .get_mut()
            .write_all(format!("{command}\n").as_bytes())
            .unwrap();
    }

    pub(crate) fn ask(&mut self, command: &str) -> String {
        self.say(command);
        let mut line = String::new();
        self.input.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Gives a last command and returns how the process ended.
    pub(crate) fn end(mut self, command: &str) -> Exit {
        self.say(command);
        let mut rest = String::new();
        self.input.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "", "{command} answered");
        block_on(self.handle.wait())
    }
}

/// Tells what becomes of a command in a fresh child: its answer, or how the child ended without one.
pub(crate) fn try_out(pool: &WarmParent, command: &str) -> String {
    let mut guest = Guest::take(pool);
    match guest.ask(command) {
        answer if answer.is_empty() => block_on(guest.handle.wait()).status.to_string(),
        answer => answer,
    }
}

pub(crate) const FORBIDDEN: ExitStatus = ExitStatus::Signal(libc::SIGSYS);

/// Waits until a condition holds.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < CEILING, "{what}: still not so");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns the state letter of a process, `None` when there is no such process.
pub(crate) fn state_of(pid: i32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Returns a field of a process's status.
pub(crate) fn status_field(pid: i32, field: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
        .unwrap();
    line.trim().to_owned()
}

pub(crate) fn is_root() -> bool {
    status_field(std::process::id().cast_signed(), "Uid").starts_with("0\t")
}
