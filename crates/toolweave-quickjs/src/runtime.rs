//! [`QuickJsRuntime`]: the seam of `toolweave-runtime`, in either placement.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use toolweave_runtime::driver::{DriveContext, run_in_thread, settled_without_start};
use toolweave_runtime::{
    CodeRuntime, FailureKind, Isolation, JsonMode, LimitError, Limits, Misuse, RunRequest, SandboxReport,
    Settled,
};

use crate::thread::Threads;
use crate::worker::{WorkerConfig, Workers};

/// What a runtime is made of.
#[derive(Clone, Debug, Default)]
pub struct QuickJsConfig {
    pub placement: Placement,
    pub limits: Limits,
    pub json: JsonMode,
}

/// Where programs run.
#[derive(Clone, Debug)]
pub enum Placement {
    /// On a thread of this process, for embedders who accept that. The engine's own limits hold; a crash of the engine would
    /// take the host with it.
    Thread,
    /// In a locked-down process for each program.
    Worker(WorkerConfig),
}

impl Default for Placement {
    fn default() -> Self {
        Self::Worker(WorkerConfig::default())
    }
}

/// A configuration that cannot be used. Nothing was started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    #[error(transparent)]
    Limit(#[from] LimitError),
}

/// Runs programs in QuickJS-ng. Nothing of one program is left when the next one starts.
pub struct QuickJsRuntime {
    context: DriveContext,
    place: Place,
    runs: Runs,
}

enum Place {
    Threads(Arc<Threads>),
    Workers(Workers),
}

/// The runs in flight.
#[derive(Default)]
struct Runs {
    next: AtomicU64,
    open: Mutex<Open>,
    changed: Notify,
}

#[derive(Default)]
struct Open {
    disposed: bool,
    tokens: BTreeMap<u64, CancellationToken>,
}

const DISPOSED: &str = "runtime disposed";

impl QuickJsRuntime {
    /// Makes a runtime and lets its first engine warm up.
    ///
    /// With [`Placement::Worker`] this starts the worker program and waits some milliseconds until it is ready. Where it
    /// cannot be started or locked down as required, every run fails as `sandbox-unavailable` and says why.
    ///
    /// # Errors
    /// [`ConfigError`] names the first limit out of range.
    pub fn new(config: QuickJsConfig) -> Result<Self, ConfigError> {
        let QuickJsConfig {
            placement,
            limits,
            json,
        } = config;
        limits.check()?;
        let limits = Arc::new(limits);
        let (place, context) = match placement {
            Placement::Thread => {
                let context = DriveContext {
                    limits: Arc::clone(&limits),
                    json,
                    isolation: Isolation::Thread,
                    sandbox: SandboxReport::none(),
                };
                (Place::Threads(Threads::new(limits.max_stack_kb * 1024)), context)
            }
            Placement::Worker(config) => {
                let workers = Workers::start(config, &limits, json);
                let context = workers.context().clone();
                (Place::Workers(workers), context)
            }
        };
        Ok(Self {
            context,
            place,
            runs: Runs::default(),
        })
    }

    /// Returns what holds programs in.
    pub fn sandbox(&self) -> &SandboxReport {
        &self.context.sandbox
    }

    async fn run_one(&self, mut request: RunRequest) -> Result<Settled, Misuse> {
        request.check()?;
        let cancel = request.cancel.child_token();
        let _open = self.runs.enter(&cancel)?;
        if request.cancel.is_cancelled() {
            return Ok(settled_without_start(
                &self.context,
                FailureKind::Abort,
                "the run was cancelled",
            ));
        }
        let callers = std::mem::replace(&mut request.cancel, cancel);
        let mut settled = match &self.place {
            Place::Threads(threads) => {
                run_in_thread(request, &self.context, |start, port, control, outcome| {
                    threads.run(start, port, control, outcome)
                })
                .await
            }
            Place::Workers(workers) => workers.run(request).await,
        };
        if let Some(failure) = &mut settled.result.error
            && failure.kind == FailureKind::Abort
            && !callers.is_cancelled()
            && self.runs.is_disposed()
        {
            DISPOSED.clone_into(&mut failure.message);
        }
        Ok(settled)
    }
}

impl CodeRuntime for QuickJsRuntime {
    fn language(&self) -> &'static str {
        "typescript"
    }

    fn isolation(&self) -> Isolation {
        self.context.isolation
    }

    fn limits(&self) -> &Limits {
        &self.context.limits
    }

    fn run(&self, request: RunRequest) -> BoxFuture<'_, Result<Settled, Misuse>> {
        Box::pin(self.run_one(request))
    }

    fn dispose(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.runs.dispose().await;
            if let Place::Workers(workers) = &self.place {
                workers.shutdown().await;
            }
        })
    }
}

impl Runs {
    fn open(&self) -> std::sync::MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, cancel: &CancellationToken) -> Result<OpenRun<'_>, Misuse> {
        let mut open = self.open();
        if open.disposed {
            return Err(Misuse::Disposed);
        }
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        open.tokens.insert(id, cancel.clone());
        Ok(OpenRun { runs: self, id })
    }

    fn is_disposed(&self) -> bool {
        self.open().disposed
    }

    /// Cancels every run and waits for the last one.
    async fn dispose(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before the look, so that no change goes unnoticed.
            changed.as_mut().enable();
            {
                let mut open = self.open();
                open.disposed = true;
                for token in open.tokens.values() {
                    token.cancel();
                }
                if open.tokens.is_empty() {
                    return;
                }
            }
            changed.await;
        }
    }
}

/// A run in flight, until it is dropped.
struct OpenRun<'r> {
    runs: &'r Runs,
    id: u64,
}

impl Drop for OpenRun<'_> {
    fn drop(&mut self) {
        self.runs.open().tokens.remove(&self.id);
        self.runs.changed.notify_waiters();
    }
}
