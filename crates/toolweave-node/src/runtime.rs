//! [`NodeRuntime`]: the seam of `toolweave-runtime` over Node processes.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolweave_runtime::driver::{DriveContext, WorkerHandle, drive, settled_without_start};
use toolweave_runtime::{
    CodeRuntime, FailureKind, Isolation, JsonMode, Limits, Misuse, RunRequest, SandboxReport, SandboxState,
    Settled,
};
use toolweave_sandbox::{ChildHandle, Launched, Report, Requirement};

use crate::find::{ConfigError, Flavor, NodeProgram, find_node};
use crate::pool::{Pool, StartError};

/// What a runtime is made of.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// The program. Where it is not given, `search_path` is searched.
    pub program: Option<PathBuf>,
    /// A `PATH` value.
    pub search_path: Option<OsString>,
    pub flavor: Flavor,
    /// Processes that stand ready when nothing is asked for. Each takes about 45 MB, most of it shared with the others.
    pub standbys: usize,
    /// Programs that run at one time; more wait, and waiting costs them nothing of their budgets.
    pub max_running: usize,
    /// What happens where the system lacks part of the lockdown.
    pub requirement: Requirement,
    pub limits: Limits,
    pub json: JsonMode,
}

impl Default for NodeConfig {
    fn default() -> Self {
        Self {
            program: None,
            search_path: None,
            flavor: Flavor::Auto,
            standbys: 1,
            max_running: 32,
            requirement: Requirement::Required,
            limits: Limits::default(),
            json: JsonMode::Standard,
        }
    }
}

/// The most processes that may stand ready, and that may run.
const MAX_STANDBYS: usize = 64;
const MAX_RUNNING: usize = 1024;
const DISPOSED: &str = "runtime disposed";
/// How often the memory of a process is looked at.
const MEMORY_LOOK: Duration = Duration::from_millis(20);
/// Memory of a process beyond what it had when it was ready and what the program may have: garbage that the young
/// generation keeps, and code.
const MEMORY_SLACK: u64 = 64 * 1024 * 1024;
/// How V8's last words begin when its heap is full.
const OUT_OF_MEMORY: [&str; 3] = ["heap out of memory", "Reached heap limit", "Allocation failed"];

/// Runs programs in V8, each in a Node process of its own.
pub struct NodeRuntime {
    node: NodeProgram,
    context: DriveContext,
    pool: Result<Pool, String>,
    slots: Semaphore,
    runs: TaskTracker,
    disposed: CancellationToken,
}

impl NodeRuntime {
    /// Finds Node, starts a first process and sees that it works.
    ///
    /// This blocks while Node starts twice: once to say its version, once to be ready. Where the sandbox is required and
    /// cannot be had, every run fails as `sandbox-unavailable` and says why.
    ///
    /// # Errors
    /// [`ConfigError`]: a limit out of range, no Node, too old a Node, or one that does not become ready.
    pub fn new(config: NodeConfig) -> Result<Self, ConfigError> {
        config.limits.check()?;
        let node = find_node(
            config.program.as_deref(),
            config.search_path.as_deref(),
            config.flavor,
        )?;
        let standbys = config.standbys.min(MAX_STANDBYS);
        let started = Pool::start(&node, standbys, config.requirement, &config.limits);
        let (pool, sandbox) = match started {
            Ok((pool, first)) => (Ok(pool), report(&first.report)),
            Err(StartError::Sandbox(error)) => (Err(crate::find::with_causes(&error)), SandboxReport::none()),
            Err(StartError::Node(reason)) => {
                return Err(ConfigError::NotNode {
                    program: node.path,
                    reason,
                });
            }
        };
        Ok(Self {
            node,
            context: DriveContext {
                limits: Arc::new(config.limits),
                json: config.json,
                isolation: Isolation::Worker,
                sandbox,
            },
            pool,
            slots: Semaphore::new(config.max_running.clamp(1, MAX_RUNNING)),
            runs: TaskTracker::new(),
            disposed: CancellationToken::new(),
        })
    }

    /// Returns the Node in use, for people: `Node 24.9.0 (V8 13.6) at /usr/bin/node`.
    pub fn describe(&self) -> String {
        self.node.to_string()
    }

    /// Returns the Node in use.
    pub fn node(&self) -> &NodeProgram {
        &self.node
    }

    /// Returns what held the first process; each run reports its own.
    pub fn sandbox(&self) -> &SandboxReport {
        &self.context.sandbox
    }

    async fn run_one(&self, mut request: RunRequest) -> Result<Settled, Misuse> {
        request.check()?;
        let _open = self.runs.token();
        if self.disposed.is_cancelled() {
            return Err(Misuse::Disposed);
        }
        // Ends with the caller's token, and with the runtime.
        let cancel = request.cancel.child_token();
        let mut settled = tokio::select! {
            biased;
            () = cancel.cancelled() => self.cancelled(),
            () = self.disposed.cancelled() => self.cancelled(),
            process = self.process() => match process {
                Err(reason) => settled_without_start(&self.context, FailureKind::SandboxUnavailable, reason),
                Ok((process, _slot)) => {
                    request.cancel = cancel.clone();
                    self.run_in(process, request, &cancel).await
                }
            },
        };
        if let Some(failure) = &mut settled.result.error
            && failure.kind == FailureKind::Abort
            && self.disposed.is_cancelled()
        {
            DISPOSED.clone_into(&mut failure.message);
        }
        Ok(settled)
    }

    fn cancelled(&self) -> Settled {
        settled_without_start(&self.context, FailureKind::Abort, "the run was cancelled")
    }
}

type Slot<'s> = tokio::sync::SemaphorePermit<'s>;

impl NodeRuntime {
    async fn process(&self) -> Result<(Launched, Slot<'_>), String> {
        let pool = self.pool.as_ref().map_err(Clone::clone)?;
        let slot = self.slots.acquire().await.map_err(|_| DISPOSED.to_owned())?;
        Ok((pool.take().await?, slot))
    }

    async fn run_in(&self, launched: Launched, request: RunRequest, cancel: &CancellationToken) -> Settled {
        let Launched {
            child,
            report: held,
            words,
            resident_bytes,
        } = launched;
        let context = DriveContext {
            sandbox: report(&held),
            ..self.context.clone()
        };
        let (socket, handle) = child.split();
        let socket = match UnixStream::from_std(socket) {
            Ok(socket) => socket,
            Err(error) => {
                let reason = format!("the worker's socket cannot be used: {error}");
                return settled_without_start(&context, FailureKind::SandboxUnavailable, reason);
            }
        };
        let max_memory = context.limits.max_memory_bytes();
        let process = Process {
            handle,
            exceeded: AtomicBool::new(false),
            most_resident: AtomicU64::new(resident_bytes),
        };
        let mut settled = tokio::select! {
            settled = drive(request, &context, socket, &process) => settled,
            never = self.watch(&process, resident_bytes + max_memory + MEMORY_SLACK, cancel) => match never {},
        };
        let result = &mut settled.result;
        if result.usage.peak_memory_bytes.is_none() {
            let most = process.most_resident.load(Ordering::Relaxed);
            result.usage.peak_memory_bytes = Some(most.saturating_sub(resident_bytes));
        }
        if let Some(failure) = &mut result.error
            && failure.kind == FailureKind::WorkerExit
        {
            let full = process.exceeded.load(Ordering::Relaxed) || {
                let words = words.read();
                OUT_OF_MEMORY.iter().any(|sign| words.contains(sign))
            };
            if full {
                failure.message = format!("memory limit exceeded: {} MiB", context.limits.max_memory_mb);
                // What was there beyond the limit was not the program's to hold.
                let peak = &mut result.usage.peak_memory_bytes;
                *peak = peak.map(|peak| peak.min(max_memory));
            }
        }
        settled
    }

    /// Ends a process that holds more than `most`, and the run when the runtime is disposed.
    async fn watch(
        &self,
        process: &Process,
        most: u64,
        cancel: &CancellationToken,
    ) -> std::convert::Infallible {
        let mut look = tokio::time::interval(MEMORY_LOOK);
        loop {
            tokio::select! {
                () = self.disposed.cancelled() => {
                    cancel.cancel();
                    return std::future::pending().await;
                }
                _ = look.tick() => {}
            }
            let Some(resident) = process.handle.resident_bytes() else {
                return std::future::pending().await;
            };
            process.most_resident.fetch_max(resident, Ordering::Relaxed);
            if resident > most {
                process.exceeded.store(true, Ordering::Relaxed);
                process.handle.kill();
                return std::future::pending().await;
            }
        }
    }
}

impl CodeRuntime for NodeRuntime {
    fn language(&self) -> &'static str {
        "typescript"
    }

    fn isolation(&self) -> Isolation {
        Isolation::Worker
    }

    fn limits(&self) -> &Limits {
        &self.context.limits
    }

    fn run(&self, request: RunRequest) -> BoxFuture<'_, Result<Settled, Misuse>> {
        Box::pin(self.run_one(request))
    }

    fn dispose(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.disposed.cancel();
            self.runs.close();
            self.runs.wait().await;
            if let Ok(pool) = &self.pool {
                pool.shutdown().await;
            }
        })
    }
}

struct Process {
    handle: ChildHandle,
    /// It was ended for its memory.
    exceeded: AtomicBool,
    most_resident: AtomicU64,
}

impl WorkerHandle for Process {
    fn kill(&self) {
        self.handle.kill();
    }

    fn cpu_time(&self) -> Option<Duration> {
        self.handle.cpu_time()
    }

    fn describe_exit(&self) -> BoxFuture<'_, String> {
        Box::pin(async { self.handle.wait().await.status.to_string() })
    }
}

fn report(report: &Report) -> SandboxReport {
    SandboxReport {
        state: if report.layers.is_empty() {
            SandboxState::None
        } else if report.is_complete() {
            SandboxState::Enforced
        } else {
            SandboxState::Partial
        },
        layers: report.layers.iter().map(ToString::to_string).collect(),
        missing: report.missing.iter().map(ToString::to_string).collect(),
    }
}
