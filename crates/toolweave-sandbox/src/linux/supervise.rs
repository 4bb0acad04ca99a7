//! The thread that lets foreign programs start, and that reaps them.
//!
//! Each new process sends one [`Word`]: what it gave up, and the descriptor over which the kernel asks about its start-up
//! calls. The supervisor says go on to all of them, until it is told to lock the process; then it closes the descriptor,
//! and the kernel refuses such calls from there on. It decides nothing by what a process says, so there is nothing to forge.

use super::{
    child::{Process, Reaper},
    latch::Latch,
    sys,
};
use crate::{Layer, Missing, SandboxError};
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll},
    io::Errno,
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
    },
    process::{Pid, PidfdFlags, pidfd_open},
};
use std::{
    collections::BTreeMap,
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    time::Duration,
};
use tokio::sync::oneshot;

/// How often the supervisor looks at ended processes that it has no descriptor for.
const REAP_POLL: Duration = Duration::from_millis(5);

/// The pause between two looks at a process that was just killed, at the end.
const REAP_PAUSE: Duration = Duration::from_micros(200);

const LAYER_COUNT: usize = Layer::ALL.len();

/// What a new process says of itself, before it executes the program: an error number for each layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pid: i32,
    outcome: [i32; LAYER_COUNT],
}

/// In place of an error number.
const NOT_WANTED: i32 = -1;

impl Word {
    const BYTES: usize = 4 * (1 + LAYER_COUNT);

    pub(super) fn new() -> Self {
        Self {
            pid: std::process::id().cast_signed(),
            outcome: [NOT_WANTED; LAYER_COUNT],
        }
    }

    pub(super) fn record(&mut self, layer: Layer, result: io::Result<()>) {
        self.outcome[layer as usize] = match result {
            Ok(()) => 0,
            Err(error) => error.raw_os_error().unwrap_or(libc::EIO),
        };
    }

    pub(super) fn has_failures(&self) -> bool {
        self.outcome.iter().any(|&outcome| outcome > 0)
    }

    /// Sends it, with the descriptor if there is one. Allocates nothing.
    pub(super) fn send(&self, socket: &OwnedFd, listener: Option<&OwnedFd>) -> io::Result<()> {
        let mut bytes = [0; Self::BYTES];
        let numbers = std::iter::once(&self.pid).chain(&self.outcome);
        for (place, number) in bytes.chunks_exact_mut(4).zip(numbers) {
            place.copy_from_slice(&number.to_ne_bytes());
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors = [listener.map_or(socket.as_fd(), OwnedFd::as_fd)];
        if listener.is_some() {
            ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        }
        sendmsg(
            socket,
            &[IoSlice::new(&bytes)],
            &mut ancillary,
            SendFlags::NOSIGNAL,
        )?;
        Ok(())
    }

    fn decode(packet: &[u8]) -> Option<Self> {
        if packet.len() != Self::BYTES {
            return None;
        }
        let mut numbers = packet
            .chunks_exact(4)
            .filter_map(|chunk| chunk.try_into().ok().map(i32::from_ne_bytes));
        let pid = numbers.next()?;
        let mut outcome = [NOT_WANTED; LAYER_COUNT];
        for place in &mut outcome {
            *place = numbers.next()?;
        }
        Some(Self { pid, outcome })
    }

    /// Splits `layers` into those in force and those missing.
    pub(super) fn outcome(&self, layers: &[Layer]) -> (Vec<Layer>, Vec<Missing>) {
        let (mut in_force, mut missing) = (Vec::new(), Vec::new());
        for &layer in layers {
            let reason = match self.outcome[layer as usize] {
                0 => {
                    in_force.push(layer);
                    continue;
                }
                NOT_WANTED => String::from(super::lockdown::LEFT_OUT),
                libc::ENOTRECOVERABLE => String::from("it was applied and does not hold"),
                number => io::Error::from_raw_os_error(number).to_string(),
            };
            missing.push(Missing { layer, reason });
        }
        (in_force, missing)
    }
}

/// What the supervisor and everybody else share.
#[derive(Debug)]
pub(super) struct Shared {
    inbox: Mutex<Inbox>,
    wake: OwnedFd,
    ended: Latch<()>,
}

#[derive(Debug, Default)]
struct Inbox {
    commands: Vec<Command>,
    closed: bool,
    /// What was missing for the process that gave up last.
    refusal: Option<Vec<Missing>>,
}

#[derive(Debug)]
enum Command {
    Adopt(Arc<Process>, mpsc::SyncSender<Option<Word>>),
    Lock(i32, oneshot::Sender<()>),
    Reap(Arc<Process>),
}

impl Shared {
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // Fails only when the counter is full, and then the supervisor has been woken.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Leaves a command, unless the supervisor takes none any more; the command is dropped then.
    fn command(&self, command: Command) {
        let mut inbox = self.inbox();
        if inbox.closed {
            return;
        }
        inbox.commands.push(command);
        drop(inbox);
        self.wake();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.inbox().closed
    }

    pub(super) fn close(&self) {
        self.inbox().closed = true;
        self.wake();
    }

    pub(super) async fn ended(&self) {
        self.ended.wait().await;
    }

    pub(super) fn take_refusal(&self) -> Option<Vec<Missing>> {
        // The word may still be on its way to the supervisor, who answers this command after it.
        let (reply, answer) = mpsc::sync_channel(1);
        self.command(Command::Adopt(Arc::new(Process::new(0)), reply));
        let _ = answer.recv();
        self.inbox().refusal.take()
    }

    /// Has a new process killed and reaped with the launcher. Returns what it said of itself.
    pub(super) fn adopt(&self, process: &Arc<Process>) -> Option<Word> {
        let (reply, answer) = mpsc::sync_channel(1);
        self.command(Command::Adopt(Arc::clone(process), reply));
        answer.recv().ok().flatten()
    }

    /// Ends the first stage of a process.
    pub(super) async fn lock_process(&self, pid: i32) -> Result<(), SandboxError> {
        let (reply, answer) = oneshot::channel();
        self.command(Command::Lock(pid, reply));
        answer.await.map_err(|_| SandboxError::Closed)
    }
}

impl Reaper for Shared {
    fn ask_to_reap(&self, process: &Arc<Process>) {
        if !process.mark_asked() {
            return;
        }
        let mut inbox = self.inbox();
        if self.ended.get().is_none() {
            inbox.commands.push(Command::Reap(Arc::clone(process)));
            drop(inbox);
            self.wake();
            return;
        }
        drop(inbox);
        // Made while the launcher was ending; nobody else would.
        end_now(process);
    }
}

/// The state of the supervisor thread.
pub(super) struct Supervisor {
    shared: Arc<Shared>,
    words: OwnedFd,
    /// Words of processes that are not adopted yet.
    unclaimed: BTreeMap<i32, Word>,
    /// Where the kernel asks about processes that are not locked yet.
    listeners: BTreeMap<i32, OwnedFd>,
    live: BTreeMap<i32, Arc<Process>>,
    /// Those to be reaped when they have ended, with a descriptor that says when.
    dying: Vec<(Option<OwnedFd>, Arc<Process>)>,
}

impl Supervisor {
    pub(super) fn new() -> Result<(Self, Arc<Shared>, OwnedFd), SandboxError> {
        let failed = |source: Errno| SandboxError::System {
            operation: "setting up a supervisor",
            source: source.into(),
        };
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(failed)?;
        let (words, theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(failed)?;
        let shared = Arc::new(Shared {
            inbox: Mutex::default(),
            wake,
            ended: Latch::new(),
        });
        let supervisor = Self {
            shared: Arc::clone(&shared),
            words,
            unclaimed: BTreeMap::new(),
            listeners: BTreeMap::new(),
            live: BTreeMap::new(),
            dying: Vec::new(),
        };
        Ok((supervisor, shared, theirs))
    }

    pub(super) fn run(mut self) {
        loop {
            self.receive_words();
            let (commands, closed) = {
                let mut inbox = self.shared.inbox();
                (std::mem::take(&mut inbox.commands), inbox.closed)
            };
            for command in commands {
                self.obey(command);
            }
            if closed {
                break;
            }
            self.wait();
        }
        self.end();
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Adopt(process, reply) => {
                let word = self.unclaimed.remove(&process.pid);
                if process.pid > 0 {
                    self.live.insert(process.pid, process);
                }
                let _ = reply.send(word);
            }
            Command::Lock(pid, reply) => {
                self.listeners.remove(&pid);
                let _ = reply.send(());
            }
            Command::Reap(process) => {
                if process.try_reap() {
                    self.forget(process.pid);
                    return;
                }
                let descriptor =
                    Pid::from_raw(process.pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
                self.dying.push((descriptor, process));
            }
        }
    }

    fn forget(&mut self, pid: i32) {
        self.live.remove(&pid);
        self.listeners.remove(&pid);
    }

    /// Waits for something to do, and does what concerns processes.
    fn wait(&mut self) {
        let mut descriptors = vec![
            PollFd::new(&self.shared.wake, PollFlags::IN),
            PollFd::new(&self.words, PollFlags::IN),
        ];
        let asked: Vec<i32> = self.listeners.keys().copied().collect();
        descriptors.extend(
            self.listeners
                .values()
                .map(|listener| PollFd::new(listener, PollFlags::IN)),
        );
        descriptors.extend(
            self.dying
                .iter()
                .filter_map(|(descriptor, _)| descriptor.as_ref())
                .map(|descriptor| PollFd::new(descriptor, PollFlags::IN)),
        );
        let blind = self.dying.iter().any(|(descriptor, _)| descriptor.is_none());
        let patience = Timespec {
            tv_sec: 0,
            tv_nsec: i64::from(REAP_POLL.subsec_nanos()),
        };
        let ready = match poll(&mut descriptors, blind.then_some(&patience)) {
            Ok(_) | Err(Errno::INTR) => descriptors.iter().map(PollFd::revents).collect::<Vec<_>>(),
            Err(_) => {
                // Out of memory, as good as. Not to spin meanwhile.
                std::thread::sleep(REAP_POLL);
                return;
            }
        };
        drop(descriptors);
        if ready.first().is_some_and(|ready| !ready.is_empty()) {
            let mut count = [0; 8];
            let _ = rustix::io::read(&self.shared.wake, &mut count);
        }
        for (pid, ready) in asked.iter().zip(ready.iter().skip(2)) {
            if ready.contains(PollFlags::IN) {
                if let Some(listener) = self.listeners.get(pid) {
                    // Fails when the process has ended in the meantime.
                    let _ = sys::let_pass(listener);
                }
            } else if !ready.is_empty() {
                // No process under that filter is left.
                self.listeners.remove(pid);
            }
        }
        let mut reaped = Vec::new();
        self.dying.retain(|(_, process)| {
            let gone = process.try_reap();
            if gone {
                reaped.push(process.pid);
            }
            !gone
        });
        for pid in reaped {
            self.forget(pid);
        }
    }

    fn receive_words(&mut self) {
        loop {
            let mut packet = [0; Word::BYTES];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
            let received = match recvmsg(
                &self.words,
                &mut [IoSliceMut::new(&mut packet)],
                &mut ancillary,
                flags,
            ) {
                Ok(received) if received.bytes > 0 => received,
                _ => return,
            };
            let listener = ancillary.drain().find_map(|message| match message {
                RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
                _ => None,
            });
            let Some(word) = packet.get(..received.bytes).and_then(Word::decode) else {
                continue;
            };
            if word.has_failures() {
                self.shared.inbox().refusal = Some(word.outcome(&Layer::ALL).1);
            }
            self.unclaimed.insert(word.pid, word);
            if let Some(listener) = listener {
                self.listeners.insert(word.pid, listener);
            }
        }
    }

    /// Ends everything that the launcher started.
    fn end(mut self) {
        self.listeners.clear();
        loop {
            for process in self.live.values() {
                process.kill();
            }
            for process in std::mem::take(&mut self.live).values() {
                end_now(process);
            }
            // What came in meanwhile.
            let commands = {
                let mut inbox = self.shared.inbox();
                if inbox.commands.is_empty() {
                    self.shared.ended.set(());
                    return;
                }
                std::mem::take(&mut inbox.commands)
            };
            for command in commands {
                match command {
                    Command::Adopt(process, _) | Command::Reap(process) if process.pid > 0 => {
                        self.live.insert(process.pid, process);
                    }
                    Command::Adopt(..) | Command::Reap(_) | Command::Lock(..) => {}
                }
            }
        }
    }
}

/// Kills a process and waits until it is reaped.
fn end_now(process: &Process) {
    process.kill();
    while !process.try_reap() {
        std::thread::sleep(REAP_PAUSE);
    }
}
