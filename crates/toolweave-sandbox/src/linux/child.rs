//! The host's handles to a child.

use super::lockdown::Footprint;
use super::{
    Socket,
    latch::Latch,
    sys::{self, Reap},
};
use crate::{Exit, ExitStatus};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// A locked-down process that runs what the worker's `child` function does.
///
/// Dropping it kills the process, whatever it is doing, and leaves no zombie.
#[derive(Debug)]
pub struct Child {
    socket: Socket,
    handle: ChildHandle,
}

/// Whoever waits for processes to end on behalf of their handles.
pub(super) trait Reaper: std::fmt::Debug + Send + Sync {
    /// Has the process reaped as soon as it has ended.
    fn ask_to_reap(&self, process: &Arc<Process>);
}

impl Child {
    pub(super) fn new(socket: Socket, process: Arc<Process>, reaper: Arc<dyn Reaper>) -> Self {
        Self {
            socket,
            handle: ChildHandle { process, reaper },
        }
    }

    /// Returns the host's end of the child's only connection; it is non-blocking.
    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Separates the connection from the process, so that each can have an owner of its own.
    pub fn split(self) -> (Socket, ChildHandle) {
        (self.socket, self.handle)
    }

    /// Returns the process without its connection.
    pub fn handle(&self) -> &ChildHandle {
        &self.handle
    }

    /// Returns the process id. It cannot pass to another process before this handle is gone.
    pub fn pid(&self) -> i32 {
        self.handle.pid()
    }

    /// See [`ChildHandle::kill`].
    pub fn kill(&self) {
        self.handle.kill();
    }

    /// See [`ChildHandle::cpu_time`].
    pub fn cpu_time(&self) -> Option<Duration> {
        self.handle.cpu_time()
    }

    /// Closes the connection and waits for the process to end. It does not kill.
    pub async fn reap(self) -> Exit {
        drop(self.socket);
        self.handle.wait().await
    }
}

/// The process of a [`Child`], without its connection. Dropping it kills the process and leaves no zombie.
#[derive(Debug)]
pub struct ChildHandle {
    process: Arc<Process>,
    reaper: Arc<dyn Reaper>,
}

impl ChildHandle {
    /// Returns the process id. It cannot pass to another process before this handle is gone.
    pub fn pid(&self) -> i32 {
        self.process.pid
    }

    /// Ends the process at once; nothing in it can prevent or delay that. Does nothing when it has ended.
    pub fn kill(&self) {
        self.process.kill();
    }

    /// Returns the CPU time that the process has used since its fork, in about a microsecond.
    ///
    /// Returns `None` only when some other code in this process has reaped it.
    pub fn cpu_time(&self) -> Option<Duration> {
        self.process.cpu_time()
    }

    /// Returns the memory of the process that is in RAM now, in bytes, shared pages included.
    ///
    /// Returns `None` once the process has ended, or where `/proc` is not mounted.
    pub fn resident_bytes(&self) -> Option<u64> {
        self.process.footprint().map(|footprint| footprint.resident)
    }

    /// Waits for the process to end and returns how it did. Several callers may wait; none of them kills.
    pub async fn wait(&self) -> Exit {
        self.reaper.ask_to_reap(&self.process);
        self.process.exit.wait().await
    }
}

impl Drop for ChildHandle {
    fn drop(&mut self) {
        if self.process.exit.get().is_none() {
            self.process.kill();
            self.reaper.ask_to_reap(&self.process);
        }
    }
}

/// One child process, as the keeper and the handles share it.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) pid: i32,
    /// True once the pid is no longer ours to signal. Guards every use of the pid.
    gone: Mutex<bool>,
    /// True once the keeper was asked to reap it.
    pub(super) asked: AtomicBool,
    pub(super) exit: Latch<Exit>,
}

impl Process {
    pub(super) fn new(pid: i32) -> Self {
        Self {
            pid,
            gone: Mutex::new(false),
            asked: AtomicBool::new(false),
            exit: Latch::new(),
        }
    }

    pub(super) fn kill(&self) {
        let gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        if !*gone && let Some(pid) = Pid::from_raw(self.pid) {
            // Fails only when the process has ended already.
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    /// Returns what the process has mapped, while its pid is ours.
    pub(super) fn footprint(&self) -> Option<Footprint> {
        let gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        if *gone {
            return None;
        }
        Footprint::of(&format!("/proc/{}/statm", self.pid)).ok()
    }

    /// Runs `act` while the pid cannot belong to any other process. Returns `None` when the process is gone.
    pub(super) fn while_ours<T>(&self, act: impl FnOnce(Pid) -> T) -> Option<T> {
        let gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        if *gone {
            None
        } else {
            Pid::from_raw(self.pid).map(act)
        }
    }

    fn cpu_time(&self) -> Option<Duration> {
        let gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        if *gone {
            return self
                .exit
                .get()
                .filter(|exit| exit.status != ExitStatus::Unknown)
                .map(|exit| exit.cpu_time);
        }
        sys::process_cpu_time(self.pid)
    }

    /// Reaps the process if it has ended, and tells everybody who waits. Returns true once it is reaped.
    pub(super) fn try_reap(&self) -> bool {
        let mut gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        if *gone {
            return true;
        }
        let exit = match sys::reap(self.pid, Reap::IfEnded) {
            Ok(None) => return false,
            Ok(Some(exit)) => exit,
            // ECHILD: somebody else in this process waits for any child, and got ours.
            Err(_) => Exit {
                status: ExitStatus::Unknown,
                cpu_time: Duration::ZERO,
                max_rss_bytes: 0,
            },
        };
        // In this order, so that whoever finds the pid gone finds the exit.
        self.exit.set(exit);
        *gone = true;
        true
    }

    /// Marks the process for reaping. Returns true the first time.
    pub(super) fn mark_asked(&self) -> bool {
        !self.asked.swap(true, Ordering::AcqRel)
    }
}
