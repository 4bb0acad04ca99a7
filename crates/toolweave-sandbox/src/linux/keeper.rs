//! The pool on the host's side: the warm parent, the children that stand ready, and the thread that keeps both.
//!
//! The keeper thread starts the warm parent, so that the kernel counts it as the parent of everything here; its end is
//! what children take for the death of the host, and so it lives as long as the pool. It waits for three things: replies
//! of the warm parent, ends of children that somebody wants reaped, and the shared state's wake-up.

use super::{
    child::{Child, Process, Reaper},
    latch::Latch,
    sys::{self, ChildSignal},
    wire::{FORK, MAX_PACKET, Reply, Setup},
};
use crate::{Layer, Report, Requirement, SandboxError, WarmConfig};
use rustix::{
    event::{EventfdFlags, Timespec, epoll, eventfd},
    io::Errno,
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketFlags,
        SocketType, recvmsg, send, socketpair,
    },
    process::{
        Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process_group, pidfd_open, waitid,
        waitpgid,
    },
    time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime},
};
use std::{
    collections::{BTreeMap, VecDeque},
    io::{self, IoSliceMut},
    mem::MaybeUninit,
    os::fd::OwnedFd,
    process::{Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

/// How long the warm parent may take to answer a request.
const FORK_PATIENCE: Duration = Duration::from_secs(10);

/// How many requests may be unanswered. More wait on this side; the socket's buffer is never full.
const MAX_OUTSTANDING: usize = 64;

/// How long after a child was taken its replacement is made.
const REPLENISH_DELAY: Duration = Duration::from_millis(1);

/// How many children more than configured may stand ready after shortages.
const MAX_EXTRA_STANDBYS: usize = 6;

/// How long after the last shortage the extra standbys are no longer replaced.
const EXTRA_STANDBYS_LAST: Duration = Duration::from_secs(2);

/// How often in a row the warm parent may fail before callers are told.
const MAX_FAILURES: u32 = 5;

/// The pause after the first failure; each further one is four times as long.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// The pause after callers were told, before the next attempt.
const LONG_PAUSE: Duration = Duration::from_secs(15);

/// The longest sleep of the keeper while anything might be overdue.
const TICK: Duration = Duration::from_secs(5);

/// How often the keeper looks at children that it has no descriptor for.
const REAP_POLL: Duration = Duration::from_millis(5);

/// The pause between two looks at a child that was just killed, at the end of the pool.
const REAP_PAUSE: Duration = Duration::from_micros(200);

/// What the poller calls the sources of events. A child is this plus its pid.
const WAKE: u64 = 0;
const CONTROL: u64 = 1;
const TIMER: u64 = 2;
const CHILD: u64 = 1 << 32;

/// A warm parent and the children that it has ready: the pool that a runtime takes its workers from.
///
/// Clones share the pool. When the last clone is gone the pool ends: its warm parent, its standbys **and every child that
/// was taken from it** are killed and reaped, in the background; [`WarmParent::shutdown`] waits for that.
///
/// Nothing in the host process may wait for *any* child (`waitpid(-1)`): it would take the exit of these.
#[derive(Clone, Debug)]
pub struct WarmParent {
    pool: Arc<Pool>,
}

#[derive(Debug)]
struct Pool {
    shared: Arc<Shared>,
    report: Report,
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl WarmParent {
    /// Starts the worker program, waits until it is warm and locked down, and lets the first standbys be forked.
    ///
    /// This blocks for as long as the program takes to start, a few milliseconds and its `prepare`.
    ///
    /// # Errors
    ///
    /// [`SandboxError::Incomplete`] where the lockdown is required and a layer is missing; [`SandboxError::Spawn`] and
    /// [`SandboxError::NotReady`] where the program does not start or does not serve; [`SandboxError::Config`] and
    /// [`SandboxError::System`]. Nothing is left running after an error.
    pub fn start(config: WarmConfig) -> Result<Self, SandboxError> {
        config.validate()?;
        keep_ended_children()?;
        let failed = |operation| {
            move |source: Errno| SandboxError::System {
                operation,
                source: source.into(),
            }
        };
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(failed("making an eventfd"))?;
        let poller =
            epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed("making an epoll descriptor"))?;
        epoll::add(
            &poller,
            &wake,
            epoll::EventData::new_u64(WAKE),
            epoll::EventFlags::IN,
        )
        .map_err(failed("watching an eventfd"))?;
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )
        .map_err(failed("making a timer"))?;
        epoll::add(
            &poller,
            &timer,
            epoll::EventData::new_u64(TIMER),
            epoll::EventFlags::IN,
        )
        .map_err(failed("watching a timer"))?;
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                standbys: config.standbys,
                ..State::default()
            }),
            wake,
            timer,
            ended: Latch::new(),
        });
        let (started, start) = mpsc::sync_channel(1);
        let keeper = Keeper {
            config,
            shared: Arc::clone(&shared),
            poller,
            parent: None,
            groups: Vec::new(),
            live: BTreeMap::new(),
            watched: BTreeMap::new(),
            unwatched: Vec::new(),
            failures: 0,
            next_start: Some(Instant::now()),
            started: Some(started),
        };
        std::thread::Builder::new()
            .name(String::from("toolweave-keeper"))
            .spawn(move || keeper.run())
            .map_err(|source| SandboxError::System {
                operation: "starting the keeper thread",
                source,
            })?;
        let report = start.recv().map_err(|_| SandboxError::Closed)??;
        Ok(Self {
            pool: Arc::new(Pool { shared, report }),
        })
    }

    /// Returns a fresh child: one that stands ready where there is one, else one forked now.
    ///
    /// It works on any executor. With a child ready it returns without waiting. A future that is dropped before it is
    /// done costs nothing.
    ///
    /// # Errors
    ///
    /// [`SandboxError::Fork`] when the kernel refuses, [`SandboxError::Broken`] when the warm parent keeps dying,
    /// [`SandboxError::Closed`] after [`WarmParent::shutdown`].
    pub async fn take(&self) -> Result<Child, SandboxError> {
        // Dropped after the lock, which their own drop takes.
        let mut dead = Vec::new();
        let waiting = {
            let mut state = self.pool.shared.lock();
            if state.closed {
                return Err(SandboxError::Closed);
            }
            while let Some(child) = state.ready.pop_front() {
                if is_open(child.socket()) {
                    self.pool.shared.replenish_soon(&mut state);
                    return Ok(child);
                }
                // It was ended from outside in the meantime, for instance for want of memory.
                dead.push(child);
            }
            if let Some(last) = &state.broken {
                return Err(SandboxError::Broken {
                    attempts: MAX_FAILURES,
                    last: last.clone(),
                });
            }
            if state.standbys > 0 {
                state.extra = (state.extra + 1).min(MAX_EXTRA_STANDBYS);
                state.last_shortage = Some(Instant::now());
            }
            let (sender, receiver) = oneshot::channel();
            state.waiters.push_back(sender);
            state.serve_waiters();
            receiver
        };
        drop(dead);
        waiting.await.unwrap_or(Err(SandboxError::Closed))
    }

    /// Returns what is in force in the children.
    pub fn report(&self) -> &Report {
        &self.pool.report
    }

    /// Ends the pool for every clone of this handle, and waits until all its processes are gone and reaped.
    pub async fn shutdown(&self) {
        self.pool.shared.close();
        self.pool.shared.ended.wait().await;
    }
}

/// Tries every layer on this system: starts a worker as `config` says, takes what is there, and ends it again.
///
/// # Errors
///
/// As [`WarmParent::start`], except that a missing layer is not an error but part of the report.
pub fn probe(config: &WarmConfig) -> Result<Report, SandboxError> {
    let requirement = match config.requirement {
        Requirement::Off => Requirement::Off,
        Requirement::Required | Requirement::Preferred => Requirement::Preferred,
    };
    let pool = WarmParent::start(WarmConfig {
        requirement,
        standbys: 0,
        ..config.clone()
    })?;
    Ok(pool.report().clone())
}

/// Sees to it that the kernel keeps ended children until they are reaped.
pub(super) fn keep_ended_children() -> Result<(), SandboxError> {
    match sys::child_signal() {
        Ok(ChildSignal::Kept) => Ok(()),
        Ok(ChildSignal::Ignored) => {
            sys::keep_ended_children();
            Ok(())
        }
        Ok(ChildSignal::Discarded) => Err(SandboxError::System {
            operation: "keeping ended children (the host process sets SA_NOCLDWAIT)",
            source: io::ErrorKind::Unsupported.into(),
        }),
        Err(source) => Err(SandboxError::System {
            operation: "reading the disposition of SIGCHLD",
            source,
        }),
    }
}

/// Returns true while the other end of `socket` is open.
fn is_open(socket: &super::Socket) -> bool {
    use rustix::event::{PollFd, PollFlags, poll};
    let mut ends = [PollFd::new(socket, PollFlags::RDHUP)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut ends, Some(&now)) == Ok(0)
}

/// What the keeper and all handles share.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    wake: OwnedFd,
    timer: OwnedFd,
    ended: Latch<()>,
}

#[derive(Debug, Default)]
struct State {
    /// The control socket, while the warm parent serves.
    control: Option<Arc<OwnedFd>>,
    ready: VecDeque<Child>,
    waiters: VecDeque<oneshot::Sender<Result<Child, SandboxError>>>,
    /// True while the timer for replenishing runs.
    timer_set: bool,
    /// Children that someone wants reaped.
    to_reap: Vec<Arc<Process>>,
    /// Requests without a reply.
    outstanding: usize,
    /// When the warm parent last gave a sign of life, or was first asked for one.
    asked_since: Option<Instant>,
    standbys: usize,
    extra: usize,
    last_shortage: Option<Instant>,
    /// Why the warm parent failed last, while callers are refused for it.
    broken: Option<String>,
    closed: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // Fails only when the counter is full, and then the keeper has been woken.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Has missing standbys made a little later: by now the one that was just taken has the better use for the CPU.
    fn replenish_soon(&self, state: &mut State) {
        if state.timer_set || state.missing_standbys() == 0 {
            return;
        }
        let value = to_timespec(REPLENISH_DELAY);
        let once = Itimerspec {
            it_interval: to_timespec(Duration::ZERO),
            it_value: value,
        };
        state.timer_set = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once).is_ok();
    }

    fn close(&self) {
        self.lock().closed = true;
        self.wake();
    }
}

impl Reaper for Shared {
    /// Lets the keeper reap a child as soon as it has ended.
    fn ask_to_reap(&self, process: &Arc<Process>) {
        if !process.mark_asked() {
            return;
        }
        let first = {
            let mut state = self.lock();
            state.to_reap.push(Arc::clone(process));
            state.to_reap.len() == 1
        };
        if first {
            self.wake();
        }
    }
}

impl State {
    /// Asks for the children that callers wait for.
    fn serve_waiters(&mut self) {
        self.request(self.waiters.len());
    }

    /// Asks for the standbys that are missing as well.
    fn replenish(&mut self) {
        self.request(self.waiters.len() + self.missing_standbys());
    }

    fn missing_standbys(&self) -> usize {
        (self.standbys + self.extra).saturating_sub(self.ready.len())
    }

    /// Raises the number of unanswered requests to `wanted`.
    fn request(&mut self, wanted: usize) {
        let Some(control) = &self.control else { return };
        while self.outstanding < wanted.min(MAX_OUTSTANDING) {
            // A failure means that the warm parent is gone, which the keeper is about to notice.
            if send(control, FORK, SendFlags::NOSIGNAL | SendFlags::DONTWAIT).is_err() {
                return;
            }
            if self.outstanding == 0 {
                self.asked_since = Some(Instant::now());
            }
            self.outstanding += 1;
        }
    }
}

/// The state of the keeper thread.
struct Keeper {
    config: WarmConfig,
    shared: Arc<Shared>,
    poller: OwnedFd,
    parent: Option<Parent>,
    /// The process groups of this and earlier warm parents that may still have members.
    groups: Vec<i32>,
    /// Every child that is not reaped yet.
    live: BTreeMap<i32, Arc<Process>>,
    /// Those to be reaped when their descriptor says that they have ended.
    watched: BTreeMap<i32, (OwnedFd, Arc<Process>)>,
    /// Those to be reaped that no descriptor could be had for.
    unwatched: Vec<Arc<Process>>,
    failures: u32,
    next_start: Option<Instant>,
    /// Where the outcome of the first start goes.
    started: Option<mpsc::SyncSender<Result<Report, SandboxError>>>,
}

/// The warm parent, as the keeper sees it.
struct Parent {
    process: std::process::Child,
    control: Arc<OwnedFd>,
    /// Until when it has to be ready; `None` once it is.
    ready_by: Option<Instant>,
}

/// What the keeper woke up for.
enum Event {
    Wake,
    Control,
    Timer,
    Ended(i32),
}

impl Keeper {
    fn run(mut self) {
        let mut events = Vec::with_capacity(64);
        loop {
            self.start_if_due();
            self.retire_if_overdue();
            if self.shared.lock().closed {
                break;
            }
            events.clear();
            let timeout = to_timespec(self.time_to_next_duty());
            match epoll::wait(
                &self.poller,
                rustix::buffer::spare_capacity(&mut events),
                Some(&timeout),
            ) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => break,
            }
            for event in &events {
                match to_event(event) {
                    Event::Wake => {
                        let _ = rustix::io::read(&self.shared.wake, &mut [0; 8]);
                    }
                    Event::Control => self.receive_replies(),
                    Event::Timer => {
                        let _ = rustix::io::read(&self.shared.timer, &mut [0; 8]);
                        let mut state = self.shared.lock();
                        state.timer_set = false;
                        state.replenish();
                    }
                    Event::Ended(pid) => self.reap_watched(pid),
                }
            }
            self.take_reap_requests();
            self.reap_unwatched();
        }
        self.end();
    }

    /// Returns how long the keeper may sleep.
    fn time_to_next_duty(&self) -> Duration {
        let now = Instant::now();
        let start = self.next_start.map(|at| at.saturating_duration_since(now));
        let ready = self
            .parent
            .as_ref()
            .and_then(|parent| parent.ready_by)
            .map(|by| by.saturating_duration_since(now));
        let poll = (!self.unwatched.is_empty()).then_some(REAP_POLL);
        [start, ready, poll]
            .into_iter()
            .flatten()
            .fold(TICK, Duration::min)
    }

    fn start_if_due(&mut self) {
        if self.parent.is_some() || self.next_start.is_none_or(|at| at > Instant::now()) {
            return;
        }
        self.next_start = None;
        let parent = match launch(&self.config) {
            Ok(parent) => parent,
            Err(error) => return self.fail(error),
        };
        let data = epoll::EventData::new_u64(CONTROL);
        let watched = epoll::add(&self.poller, &parent.control, data, epoll::EventFlags::IN);
        self.groups.retain(|group| has_children(*group));
        self.groups.push(parent.process.id().cast_signed());
        self.parent = Some(parent);
        if let Err(error) = watched {
            self.lose_parent(format!("its socket cannot be watched: {error}"));
        }
    }

    /// Gives up on a warm parent that is not ready, or does not answer, in time. Lets extra standbys expire.
    fn retire_if_overdue(&mut self) {
        let Some(parent) = &self.parent else { return };
        let now = Instant::now();
        if parent.ready_by.is_some_and(|by| by <= now) {
            return self.lose_parent(format!("it was not ready within {:?}", self.config.start_timeout));
        }
        let stuck = {
            let mut state = self.shared.lock();
            if state
                .last_shortage
                .is_some_and(|at| now.duration_since(at) >= EXTRA_STANDBYS_LAST)
            {
                state.extra = 0;
                state.last_shortage = None;
            }
            state.outstanding > 0
                && state
                    .asked_since
                    .is_some_and(|at| now.duration_since(at) >= FORK_PATIENCE)
        };
        if stuck {
            self.lose_parent(format!("it did not answer for {} s", FORK_PATIENCE.as_secs()));
        }
    }

    fn receive_replies(&mut self) {
        while let Some(parent) = &self.parent {
            match receive(&parent.control) {
                Ok(Some((Reply::Ready(report), _))) if parent.ready_by.is_some() => self.accept(report),
                Ok(Some((Reply::Failed(reason), _))) => self.lose_parent(reason),
                Ok(Some((Reply::Forked(pid), Some(socket)))) if parent.ready_by.is_none() => {
                    self.failures = 0;
                    self.hand_out(pid, socket);
                }
                Ok(Some((Reply::NotForked(errno), _))) if parent.ready_by.is_none() => {
                    self.report_refusal(io::Error::from_raw_os_error(errno));
                }
                Ok(Some(_)) => self.lose_parent(String::from("it said something out of turn")),
                Ok(None) => return,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    let status = self.discard_parent().map(|status| format!(" ({status})"));
                    self.lose_parent(format!("it ended{}", status.unwrap_or_default()));
                }
                Err(error) => self.lose_parent(error.to_string()),
            }
        }
    }

    /// Lets a warm parent serve that has done its preparation, if it is locked down enough.
    fn accept(&mut self, report: Report) {
        if self.config.requirement == Requirement::Required && !report.is_complete() {
            self.discard_parent();
            return self.fail(SandboxError::Incomplete {
                missing: report.missing,
            });
        }
        let Some(parent) = &mut self.parent else { return };
        parent.ready_by = None;
        let mut state = self.shared.lock();
        state.control = Some(Arc::clone(&parent.control));
        state.outstanding = 0;
        state.broken = None;
        state.replenish();
        drop(state);
        if let Some(started) = self.started.take() {
            let _ = started.send(Ok(report));
        }
    }

    fn hand_out(&mut self, pid: i32, socket: OwnedFd) {
        let process = Arc::new(Process::new(pid));
        self.live.insert(pid, Arc::clone(&process));
        let mut child = Child::new(
            socket.into(),
            process,
            Arc::clone(&self.shared) as Arc<dyn Reaper>,
        );
        let mut state = self.shared.lock();
        state.outstanding = state.outstanding.saturating_sub(1);
        state.asked_since = Some(Instant::now());
        // Those who no longer wait hand the child back.
        while let Some(waiter) = state.waiters.pop_front() {
            match waiter.send(Ok(child)) {
                Err(Ok(back)) => child = back,
                Ok(()) | Err(Err(_)) => {
                    state.serve_waiters();
                    return self.shared.replenish_soon(&mut state);
                }
            }
        }
        state.ready.push_back(child);
    }

    fn report_refusal(&mut self, error: io::Error) {
        let mut state = self.shared.lock();
        state.outstanding = state.outstanding.saturating_sub(1);
        state.asked_since = Some(Instant::now());
        // Only a caller learns of it. Asking again for standbys at once would only be refused again; the next `take`
        // does.
        if let Some(waiter) = state.waiters.pop_front() {
            let _ = waiter.send(Err(SandboxError::Fork(error)));
        }
    }

    /// Ends the warm parent after a fault, if it has not ended, and sets the time of the next.
    fn lose_parent(&mut self, reason: String) {
        let _ = self.discard_parent();
        self.fail(SandboxError::NotReady {
            program: self.config.program.clone(),
            reason,
        });
    }

    /// Ends the warm parent and takes over the children that it had announced. Returns how it ended; one that had
    /// ended before is not changed by being killed now.
    fn discard_parent(&mut self) -> Option<ExitStatus> {
        let mut parent = self.parent.take()?;
        {
            let mut state = self.shared.lock();
            state.control = None;
            state.outstanding = 0;
            state.asked_since = None;
        }
        let _ = parent.process.kill();
        let status = parent.process.wait().ok();
        while let Ok(Some((reply, socket))) = receive(&parent.control) {
            if let (Reply::Forked(pid), Some(socket)) = (reply, socket) {
                self.hand_out(pid, socket);
            }
        }
        status
    }

    fn fail(&mut self, error: SandboxError) {
        if let Some(started) = self.started.take() {
            // Nobody has a handle yet. The sender knows what went wrong, and this thread ends.
            self.shared.lock().closed = true;
            let _ = started.send(Err(error));
            return;
        }
        self.failures += 1;
        let mut pause = FIRST_PAUSE * 4_u32.pow(self.failures.clamp(1, MAX_FAILURES) - 1);
        if self.failures >= MAX_FAILURES {
            pause = LONG_PAUSE;
            let last = error.to_string();
            let mut state = self.shared.lock();
            for waiter in std::mem::take(&mut state.waiters) {
                let _ = waiter.send(Err(SandboxError::Broken {
                    attempts: MAX_FAILURES,
                    last: last.clone(),
                }));
            }
            state.broken = Some(last);
        }
        self.next_start = Some(Instant::now() + pause);
    }

    fn take_reap_requests(&mut self) {
        let requests = std::mem::take(&mut self.shared.lock().to_reap);
        for process in requests {
            if process.try_reap() {
                self.live.remove(&process.pid);
            } else {
                self.watch(process);
            }
        }
    }

    fn watch(&mut self, process: Arc<Process>) {
        let descriptor = Pid::from_raw(process.pid)
            .ok_or(Errno::SRCH)
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()))
            .and_then(|descriptor| {
                let data = epoll::EventData::new_u64(token(process.pid));
                epoll::add(&self.poller, &descriptor, data, epoll::EventFlags::IN)?;
                Ok(descriptor)
            });
        match descriptor {
            Ok(descriptor) => {
                self.watched.insert(process.pid, (descriptor, process));
            }
            // Before Linux 5.3, or out of descriptors.
            Err(_) => self.unwatched.push(process),
        }
    }

    fn reap_watched(&mut self, pid: i32) {
        if self
            .watched
            .get(&pid)
            .is_some_and(|(_, process)| process.try_reap())
        {
            self.watched.remove(&pid);
            self.live.remove(&pid);
        }
    }

    fn reap_unwatched(&mut self) {
        let live = &mut self.live;
        self.unwatched.retain(|process| {
            let reaped = process.try_reap();
            if reaped {
                live.remove(&process.pid);
            }
            !reaped
        });
    }

    /// Ends everything that belongs to the pool.
    fn end(mut self) {
        self.shared.lock().closed = true;
        self.discard_parent();
        let (ready, waiters) = {
            let mut state = self.shared.lock();
            (
                std::mem::take(&mut state.ready),
                std::mem::take(&mut state.waiters),
            )
        };
        for process in self.live.values() {
            process.kill();
        }
        for process in self.live.values() {
            while !process.try_reap() {
                std::thread::sleep(REAP_PAUSE);
            }
        }
        for group in self.groups {
            end_strays(group);
        }
        drop((ready, waiters));
        self.shared.ended.set(());
    }
}

/// Ends and reaps what a warm parent forked but did not live to announce.
///
/// Everything that a warm parent forks is in its process group.
fn end_strays(group: i32) {
    // As long as one child of this process is in the group, its number cannot mean anyone else's group.
    while has_children(group)
        && let Some(leader) = Pid::from_raw(group)
    {
        let _ = kill_process_group(leader, Signal::KILL);
        let _ = waitpgid(leader, WaitOptions::empty());
    }
}

fn has_children(group: i32) -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Pid::from_raw(group).is_some_and(|leader| waitid(WaitId::Pgid(Some(leader)), look).is_ok())
}

/// Starts the worker program and tells it how to lock down.
fn launch(config: &WarmConfig) -> Result<Parent, SandboxError> {
    let failed = |operation| {
        move |source: Errno| SandboxError::System {
            operation,
            source: source.into(),
        }
    };
    let (ours, theirs) = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(failed("making a control socket"))?;
    #[expect(
        clippy::disallowed_methods,
        reason = "starting workers is what this crate is for"
    )]
    let mut command = Command::new(&config.program);
    command.args(&config.args).env_clear().current_dir("/");
    command.stdin(Stdio::from(theirs)).stdout(Stdio::null());
    command.stderr(if config.keep_stderr {
        Stdio::inherit()
    } else {
        Stdio::null()
    });
    sys::prepare_exec(&mut command, config.stack_bytes);
    let process = command.spawn().map_err(|source| SandboxError::Spawn {
        program: config.program.clone(),
        source,
    })?;
    // The worker's end has to close with the worker.
    drop(command);
    let layers = match config.requirement {
        Requirement::Required | Requirement::Preferred => Layer::ALL.as_slice(),
        Requirement::Off => &[Layer::Environment, Layer::Descriptors, Layer::ParentDeath],
    };
    let setup = Setup {
        host_pid: std::process::id().cast_signed(),
        layers: layers
            .iter()
            .filter(|layer| !config.leave_out.contains(layer))
            .fold(0, |bits, layer| bits | layer.bit()),
        keep_stderr: config.keep_stderr,
        max_memory_bytes: config.max_memory_bytes,
        cpu_seconds: config.cpu_seconds,
    };
    // A worker that is gone already shows as the end of the socket.
    let _ = send(&ours, &setup.encode(), SendFlags::NOSIGNAL);
    Ok(Parent {
        process,
        control: Arc::new(ours),
        ready_by: Some(Instant::now() + config.start_timeout),
    })
}

/// Receives one reply and the descriptor that rides along. Returns `None` when there is none now.
fn receive(control: &Arc<OwnedFd>) -> io::Result<Option<(Reply, Option<OwnedFd>)>> {
    let mut packet = [0; MAX_PACKET];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = match recvmsg(
        control,
        &mut [IoSliceMut::new(&mut packet)],
        &mut ancillary,
        flags,
    ) {
        Ok(received) => received,
        Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
        Err(Errno::CONNRESET) => return Err(ended()),
        Err(error) => return Err(error.into()),
    };
    let socket = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    match packet.get(..received.bytes) {
        None | Some([]) => Err(ended()),
        Some(packet) => match Reply::decode(packet) {
            Some(reply) => Ok(Some((reply, socket))),
            None => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "it said something unknown",
            )),
        },
    }
}

fn ended() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "it ended")
}

fn token(pid: i32) -> u64 {
    CHILD | u64::from(pid.unsigned_abs())
}

fn to_event(event: &epoll::Event) -> Event {
    match event.data.u64() {
        WAKE => Event::Wake,
        CONTROL => Event::Control,
        TIMER => Event::Timer,
        token => Event::Ended((token as u32).cast_signed()),
    }
}

fn to_timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}
