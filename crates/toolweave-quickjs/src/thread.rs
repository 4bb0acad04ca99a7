//! Engines on threads of this process.
//!
//! A thread waits with a warm engine for a program, runs it, throws the engine away and warms up another. No engine sees two
//! programs. A program that is stuck in a long built-in function cannot be interrupted there: its thread is left behind and
//! comes back when the function returns; the run itself has settled long before.

use std::sync::{Arc, Mutex, PoisonError, Weak, mpsc};
use std::time::Duration;

use tokio::sync::oneshot;
use toolweave_runtime::driver::{Control, ThreadPort};
use toolweave_runtime::guest::{GuestEnd, GuestOutcome, Start};
use toolweave_runtime::{Failure, FailureKind};
use toolweave_sandbox::ThreadClock;

use crate::engine::{Engine, STACK_SLACK, run_program};

/// Threads that wait with a warm engine when nothing is asked for.
const STANDBYS: usize = 2;

/// The threads of a runtime.
pub(crate) struct Threads {
    stack_bytes: usize,
    idle: Mutex<Vec<Idle>>,
}

/// A thread that waits for a program.
struct Idle {
    jobs: mpsc::SyncSender<Job>,
    clock: Option<ThreadClock>,
}

/// One program for a thread.
struct Job {
    start: Start,
    port: ThreadPort,
    control: Control,
    outcome: oneshot::Sender<GuestOutcome>,
    tokio: tokio::runtime::Handle,
}

impl Threads {
    /// Makes the pool and starts its first thread, which warms up in the background.
    pub(crate) fn new(max_stack_bytes: u64) -> Arc<Self> {
        let stack = usize::try_from(max_stack_bytes).unwrap_or(usize::MAX / 4);
        let threads = Arc::new(Self {
            stack_bytes: stack.saturating_add(2 * STACK_SLACK),
            idle: Mutex::default(),
        });
        if let Err(error) = threads.spawn(None) {
            tracing::warn!(%error, "no engine thread could be started ahead of time");
        }
        threads
    }

    /// Starts a program on an idle thread, or on a new one. Returns the clock of its CPU time.
    ///
    /// # Errors
    /// No thread could be started.
    pub(crate) fn run(
        self: &Arc<Self>,
        start: Start,
        port: ThreadPort,
        control: Control,
        outcome: oneshot::Sender<GuestOutcome>,
    ) -> std::io::Result<impl Fn() -> Duration + use<>> {
        let mut job = Job {
            start,
            port,
            control,
            outcome,
            tokio: tokio::runtime::Handle::current(),
        };
        let clock = loop {
            let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some(Idle { jobs, clock }) = idle else {
                break RunClock::new(self.spawn(Some(job))?);
            };
            let clock = RunClock::new(clock);
            match jobs.send(job) {
                Ok(()) => break clock,
                Err(mpsc::SendError(back)) => job = back,
            }
        };
        Ok(move || clock.used())
    }

    /// Starts a thread, with a program or to wait for one, and returns its clock.
    fn spawn(self: &Arc<Self>, first: Option<Job>) -> std::io::Result<Option<ThreadClock>> {
        let (clocks, clock) = mpsc::sync_channel(1);
        let pool = Arc::downgrade(self);
        std::thread::Builder::new()
            .name("toolweave-quickjs".to_owned())
            .stack_size(self.stack_bytes)
            .spawn(move || {
                let clock = ThreadClock::current();
                let _ = clocks.send(clock);
                serve(&pool, clock, first);
            })?;
        Ok(clock.recv().unwrap_or_default())
    }

    /// Puts a thread among the idle ones, unless there are enough.
    fn enlist(&self, idle: Idle) -> bool {
        let mut list = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if list.len() >= STANDBYS {
            return false;
        }
        list.push(idle);
        true
    }
}

/// The life of a thread.
fn serve(pool: &Weak<Threads>, clock: Option<ThreadClock>, mut next: Option<Job>) {
    loop {
        let engine = Engine::warm();
        let job = match next.take() {
            Some(job) => job,
            None => {
                let (jobs, waiting) = mpsc::sync_channel(1);
                let enlisted = pool
                    .upgrade()
                    .is_some_and(|pool| pool.enlist(Idle { jobs, clock }));
                if !enlisted {
                    return;
                }
                // Ends when the pool goes, and with it the sender.
                match waiting.recv() {
                    Ok(job) => job,
                    Err(mpsc::RecvError) => return,
                }
            }
        };
        run(job, engine);
    }
}

fn run(job: Job, engine: Result<Engine, crate::WarmError>) {
    let Job {
        start,
        mut port,
        control,
        outcome,
        tokio,
    } = job;
    let _entered = tokio.enter();
    let result = match (engine, fresh_seed()) {
        (Ok(engine), Some(seed)) => run_program(engine, &start, &mut port, &control, seed),
        (Err(error), _) => failed(error.to_string()),
        (Ok(_), None) => failed("the system gave no random numbers".to_owned()),
    };
    // Nobody listens any more where the run was given up.
    let _ = outcome.send(result);
}

fn failed(message: String) -> GuestOutcome {
    let failure = Failure {
        kind: FailureKind::WorkerExit,
        name: None,
        message,
        position: None,
        stack: Vec::new(),
    };
    GuestOutcome {
        end: GuestEnd::Failed(failure),
        peak_memory_bytes: 0,
    }
}

fn fresh_seed() -> Option<[u8; 32]> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).ok().map(|()| seed)
}

/// The CPU time of one run. Where the system has no clock for another thread, it stands still, and only the wall limit holds.
struct RunClock {
    clock: Option<ThreadClock>,
    begin: Duration,
    last: Mutex<Duration>,
}

impl RunClock {
    fn new(clock: Option<ThreadClock>) -> Self {
        let begin = clock.and_then(|clock| clock.elapsed()).unwrap_or_default();
        Self {
            clock,
            begin,
            last: Mutex::default(),
        }
    }

    fn used(&self) -> Duration {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(now) = self.clock.and_then(|clock| clock.elapsed()) {
            *last = now.saturating_sub(self.begin);
        }
        *last
    }
}
