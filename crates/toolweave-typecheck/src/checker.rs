//! A compiler that is kept warm: started when it is first needed, one program at a time, killed when it does not answer,
//! started again after a pause that grows while it keeps failing.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, FutureExt as _};
use tokio::sync::OwnedMutexGuard;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::timeout_at;

use crate::compiler::{Compiler, INSTALL};
use crate::judge::judge;
use crate::limits::{
    CHECK_CAP, FIRST_PAUSE, MAX_DECLARATION_BYTES, MAX_PAUSE, MAX_PROGRAM_BYTES, REMEMBERED,
    REMEMBERED_BYTES, RESTART_BYTES, START_CAP,
};
use crate::server::{Launch, Server, ServerError};
use crate::{CheckPrograms, Complaint, Declarations, Policy, Unchecked};

/// Checks after which the memory of the compiler is looked at.
const LOOK_EVERY: u32 = 32;

/// Checks programs with a compiler that stays warm. Clones share it; it ends with the last.
#[derive(Clone)]
pub struct TypeChecker {
    shared: Arc<Shared>,
}

struct Shared {
    launch: Launch,
    policy: Policy,
    cap: Duration,
    state: Arc<tokio::sync::Mutex<State>>,
    remembered: Mutex<VecDeque<Remembered>>,
    /// The last start, which ends with the checker.
    starting: Mutex<Option<AbortHandle>>,
}

#[derive(Default)]
struct State {
    server: Option<Server>,
    checks: u32,
    /// Failures since the last success.
    failures: u32,
    last_error: String,
    /// Nothing is started before.
    not_before: Option<Instant>,
    /// Set when no start will ever help.
    unusable: Option<String>,
}

struct Remembered {
    declarations: Declarations,
    program: String,
    complaints: Vec<Complaint>,
}

impl TypeChecker {
    /// Makes a checker; nothing is started yet. The compiler gets `environment` and no other variable: nothing, or `PATH`
    /// where a script starts it.
    pub fn new(compiler: Compiler, environment: Vec<(OsString, OsString)>, policy: Policy) -> Self {
        Self {
            shared: Arc::new(Shared {
                launch: Launch {
                    compiler,
                    environment,
                },
                policy,
                cap: CHECK_CAP,
                state: Arc::default(),
                remembered: Mutex::default(),
                starting: Mutex::default(),
            }),
        }
    }

    /// Returns a checker of its own with another longest time for one check.
    #[must_use]
    pub fn with_cap(self, cap: Duration) -> Self {
        let Shared { launch, policy, .. } = &*self.shared;
        Self {
            shared: Arc::new(Shared {
                launch: launch.clone(),
                policy: *policy,
                cap,
                state: Arc::default(),
                remembered: Mutex::default(),
                starting: Mutex::default(),
            }),
        }
    }

    /// Starts the compiler in the background. Outside of a runtime this does nothing; the first check starts it then.
    pub fn warm(&self) {
        if tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        if let Ok(state) = Arc::clone(&self.shared.state).try_lock_owned() {
            self.shared.start(state);
        }
    }

    async fn check(&self, declarations: &Declarations, program: &str) -> Result<Vec<Complaint>, Unchecked> {
        let sizes = [
            ("programs", program.len(), MAX_PROGRAM_BYTES),
            ("declarations", declarations.text().len(), MAX_DECLARATION_BYTES),
        ];
        if let Some(&(what, bytes, most)) = sizes.iter().find(|(_, bytes, most)| bytes > most) {
            return Err(Unchecked::TooLarge { what, bytes, most });
        }
        if let Some(complaints) = self.shared.remembered(declarations, program) {
            return Ok(complaints);
        }
        let deadline = Instant::now() + self.shared.cap;
        let mut state = self.shared.ready(deadline).await?;
        let Some(mut server) = state.server.take() else {
            return Err(Unchecked::Failed(state.last_error.clone()));
        };
        // Whatever happens, a server whose answer was not read to its end is dropped, and thereby killed.
        let raws = match timeout_at(deadline.into(), server.check(declarations, program)).await {
            Ok(Ok(raws)) => raws,
            Ok(Err(error)) => {
                state.failed(&error);
                self.restart(state);
                return Err(Unchecked::Failed(error.to_string()));
            }
            Err(_) => {
                drop(server);
                state.pause();
                self.restart(state);
                return Err(self.shared.timed_out());
            }
        };
        state.checks = state.checks.wrapping_add(1);
        state.failures = 0;
        let swollen = state.checks.is_multiple_of(LOOK_EVERY)
            && server.memory().is_some_and(|bytes| bytes > RESTART_BYTES);
        if swollen {
            drop(server);
            self.restart(state);
        } else {
            state.server = Some(server);
            drop(state);
        }
        let complaints = judge(&raws, program);
        self.shared.remember(declarations, program, &complaints);
        Ok(complaints)
    }

    /// Starts a new compiler in the background, unless it has to pause.
    fn restart(&self, state: OwnedMutexGuard<State>) {
        if state.not_before.is_none_or(|at| at <= Instant::now()) && state.unusable.is_none() {
            self.shared.start(state);
        }
    }
}

impl CheckPrograms for TypeChecker {
    fn policy(&self) -> Policy {
        self.shared.policy
    }

    fn check<'a>(
        &'a self,
        declarations: &'a Declarations,
        program: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Complaint>, Unchecked>> {
        self.check(declarations, program).boxed()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let starting = self.starting.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(starting) = starting {
            starting.abort();
        }
    }
}

impl Shared {
    fn start(&self, state: OwnedMutexGuard<State>) -> JoinHandle<OwnedMutexGuard<State>> {
        let start = tokio::spawn(started(state, self.launch.clone()));
        let mut starting = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        *starting = Some(start.abort_handle());
        start
    }

    /// Returns the state with a server in it, which is started first if need be.
    async fn ready(&self, deadline: Instant) -> Result<OwnedMutexGuard<State>, Unchecked> {
        loop {
            let lock = Arc::clone(&self.state).lock_owned();
            let mut state = timeout_at(deadline.into(), lock)
                .await
                .map_err(|_| self.timed_out())?;
            if let Some(why) = &state.unusable {
                return Err(Unchecked::NoCompiler(why.clone()));
            }
            if let Some(server) = &mut state.server {
                if server.is_alive() {
                    return Ok(state);
                }
                state.server = None;
            }
            if let Some(at) = state.not_before.filter(|at| *at > Instant::now()) {
                if at >= deadline {
                    return Err(Unchecked::Failed(state.last_error.clone()));
                }
                drop(state);
                tokio::time::sleep_until(at.into()).await;
                continue;
            }
            // The start goes on when this check gives up, so that the next one finds a warm compiler.
            let start = self.start(state);
            let state = match timeout_at(deadline.into(), start).await {
                Ok(Ok(state)) => state,
                Ok(Err(_)) => return Err(Unchecked::Failed("its start was cancelled".to_owned())),
                Err(_) => return Err(self.timed_out()),
            };
            if state.server.is_some() {
                return Ok(state);
            }
        }
    }

    fn timed_out(&self) -> Unchecked {
        Unchecked::TimedOut(self.cap.as_millis())
    }

    fn remembered(&self, declarations: &Declarations, program: &str) -> Option<Vec<Complaint>> {
        let remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        let known = remembered
            .iter()
            .find(|known| known.program == program && known.declarations == *declarations)?;
        Some(known.complaints.clone())
    }

    fn remember(&self, declarations: &Declarations, program: &str, complaints: &[Complaint]) {
        if program.len() > REMEMBERED_BYTES {
            return;
        }
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        // Declarations change with the tools; the old ones are not asked about again.
        remembered.retain(|known| known.declarations == *declarations);
        remembered.truncate(REMEMBERED - 1);
        remembered.push_front(Remembered {
            declarations: declarations.clone(),
            program: program.to_owned(),
            complaints: complaints.to_vec(),
        });
    }
}

impl State {
    fn failed(&mut self, error: &ServerError) {
        tracing::debug!(%error, "the type checker failed");
        self.last_error = error.to_string();
        self.pause();
        let hopeless = match error {
            ServerError::TooOld(version) => Some(format!("TypeScript {version} is too old; {INSTALL}")),
            ServerError::NoVersion => Some(format!("`tsc` does not tell its version; {INSTALL}")),
            ServerError::Io(_) | ServerError::Protocol(_) | ServerError::Refused(_) => None,
        };
        self.unusable = hopeless;
    }

    fn pause(&mut self) {
        self.failures = self.failures.saturating_add(1);
        self.not_before = self.failures.checked_sub(2).map(|doublings| {
            let pause = FIRST_PAUSE.saturating_mul(1 << doublings.min(16)).min(MAX_PAUSE);
            Instant::now() + pause
        });
    }
}

/// Starts a compiler into the state, unless one is there.
async fn started(mut state: OwnedMutexGuard<State>, launch: Launch) -> OwnedMutexGuard<State> {
    if state.server.is_some() || state.unusable.is_some() {
        return state;
    }
    match tokio::time::timeout(START_CAP, Server::start(&launch)).await {
        Ok(Ok(server)) => state.server = Some(server),
        Ok(Err(error)) => state.failed(&error),
        Err(_) => {
            state.last_error = format!("it did not start within {} s", START_CAP.as_secs());
            state.pause();
        }
    }
    state
}

/// Stands for a compiler that is required and not there: no program is checked.
#[derive(Clone, Debug)]
pub struct Missing {
    why: String,
}

impl Missing {
    /// Takes what is missing and what to do about it.
    pub fn new(why: impl Into<String>) -> Self {
        Self { why: why.into() }
    }
}

impl CheckPrograms for Missing {
    fn policy(&self) -> Policy {
        Policy::Required
    }

    fn check<'a>(
        &'a self,
        _: &'a Declarations,
        _: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Complaint>, Unchecked>> {
        std::future::ready(Err(Unchecked::NoCompiler(self.why.clone()))).boxed()
    }
}
