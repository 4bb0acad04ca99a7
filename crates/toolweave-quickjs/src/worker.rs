//! Engines in locked-down processes: the host's side, and the whole main function of a worker.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::net::UnixStream;
use toolweave_runtime::driver::{Control, DriveContext, WorkerHandle, drive, settled_without_start};
use toolweave_runtime::guest::{GuestEnd, GuestOutcome};
use toolweave_runtime::protocol::SocketPort;
use toolweave_runtime::{
    Failure, FailureKind, Isolation, JsonMode, Limits, RunRequest, SandboxReport, SandboxState, Settled,
};
use toolweave_sandbox::{ChildHandle, ChildStart, Report, Requirement, WarmConfig, WarmParent, serve_warm};

use crate::engine::{Engine, run_program};

/// How worker processes are started.
#[derive(Clone, Debug)]
pub struct WorkerConfig {
    /// A program whose main function is [`crate::worker_main`]; `/proc/self/exe` for the host's own.
    pub program: PathBuf,
    /// Arguments that lead the program there.
    pub args: Vec<OsString>,
    /// Processes that stand ready when nothing is asked for.
    pub standbys: usize,
    /// What happens where the system lacks part of the lockdown.
    pub requirement: Requirement,
}

impl Default for WorkerConfig {
    fn default() -> Self {
        let defaults = WarmConfig::default();
        Self {
            program: defaults.program,
            args: defaults.args,
            standbys: defaults.standbys,
            requirement: Requirement::Required,
        }
    }
}

/// What the kernel lets a worker have beyond the engine's own memory limit: stack, JSON on its way, the program's text.
const HOST_MEMORY: u64 = 1024 * 1024 * 1024;
/// Stack of a worker beyond the engine's own limit.
const HOST_STACK: u64 = 8 * 1024 * 1024;

/// The workers of a runtime.
pub(crate) struct Workers {
    warm: Result<WarmParent, String>,
    context: DriveContext,
}

impl Workers {
    /// Starts the warm parent. What prevents that is said by every run.
    pub(crate) fn start(config: WorkerConfig, limits: &Arc<Limits>, json: JsonMode) -> Self {
        let warm = WarmParent::start(WarmConfig {
            program: config.program,
            args: config.args,
            requirement: config.requirement,
            standbys: config.standbys,
            max_memory_bytes: limits.max_memory_bytes() + HOST_MEMORY,
            cpu_seconds: (limits.compute_ms / 1000 + 60).min(7 * 24 * 3600),
            stack_bytes: limits.max_stack_kb * 1024 + HOST_STACK,
            ..WarmConfig::default()
        });
        let sandbox = match &warm {
            Ok(warm) => report(warm.report()),
            Err(_) => SandboxReport::none(),
        };
        Self {
            warm: warm.map_err(|error| with_causes(&error)),
            context: DriveContext {
                limits: Arc::clone(limits),
                json,
                isolation: Isolation::Worker,
                sandbox,
            },
        }
    }

    pub(crate) fn context(&self) -> &DriveContext {
        &self.context
    }

    pub(crate) async fn run(&self, request: RunRequest) -> Settled {
        let unavailable =
            |message| settled_without_start(&self.context, FailureKind::SandboxUnavailable, message);
        let warm = match &self.warm {
            Ok(warm) => warm,
            Err(message) => return unavailable(message.clone()),
        };
        let child = tokio::select! {
            biased;
            () = request.cancel.cancelled() => {
                return settled_without_start(&self.context, FailureKind::Abort, "the run was cancelled");
            }
            child = warm.take() => child,
        };
        let child = match child {
            Ok(child) => child,
            Err(error) => return unavailable(with_causes(&error)),
        };
        let (socket, process) = child.split();
        match UnixStream::from_std(socket) {
            Ok(socket) => drive(request, &self.context, socket, &Process(process)).await,
            Err(error) => unavailable(format!("the worker's socket cannot be used: {error}")),
        }
    }

    pub(crate) async fn shutdown(&self) {
        if let Ok(warm) = &self.warm {
            warm.shutdown().await;
        }
    }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
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

struct Process(ChildHandle);

impl WorkerHandle for Process {
    fn kill(&self) {
        self.0.kill();
    }

    fn cpu_time(&self) -> Option<Duration> {
        self.0.cpu_time()
    }

    fn describe_exit(&self) -> BoxFuture<'_, String> {
        Box::pin(async { self.0.wait().await.status.to_string() })
    }
}

/// Serves a host as its warm parent. The whole main function of a worker program; it never returns.
///
/// The exit code is 2 where the program was not started by a host.
#[expect(clippy::exit, clippy::print_stderr, reason = "the main function of a program")]
pub fn worker_main() -> ! {
    let Err(error) = serve_warm(warm, child);
    eprintln!("toolweave worker: {error}");
    std::process::exit(2)
}

/// Warms an engine up and settles the time zone, while files can still be read.
///
/// Programs in a worker see UTC, wherever the host is. The C library reads the zone once, on the first use, which must not be
/// in a child that may not open files. The variable goes away again, since the environment has to be empty.
#[expect(unsafe_code, reason = "the environment of a process that has one thread")]
fn warm() -> Result<Engine, crate::WarmError> {
    // SAFETY: `serve_warm` runs this before the process has any other thread.
    unsafe { std::env::set_var("TZ", "UTC0") };
    let engine = Engine::warm();
    if let Ok(engine) = &engine {
        engine.warm_thoroughly();
    }
    // SAFETY: as above.
    unsafe { std::env::remove_var("TZ") };
    engine
}

/// Runs one program over the socket. The process is locked down already.
fn child(engine: Result<Engine, crate::WarmError>, start: ChildStart) -> u8 {
    if let Ok(engine) = &engine {
        engine.rehearse();
    }
    let mut port = SocketPort::new(start.socket);
    // A standby that is no longer needed finds its socket closed.
    let Ok(program) = port.start() else {
        return 0;
    };
    let outcome = match engine {
        Ok(engine) => run_program(engine, &program, &mut port, &Control::default(), start.entropy.0),
        Err(error) => {
            let failure = Failure {
                kind: FailureKind::WorkerExit,
                name: None,
                message: error.to_string(),
                position: None,
                stack: Vec::new(),
            };
            GuestOutcome {
                end: GuestEnd::Failed(failure),
                peak_memory_bytes: 0,
            }
        }
    };
    u8::from(port.done(&outcome).is_err())
}
