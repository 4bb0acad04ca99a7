//! The warm parent: what the worker program does from its start to its end.
//!
//! One thread, one loop: wait for a packet from the host, fork, send the child's socket over. It never reads a byte
//! that came from a child.

use super::{
    lockdown::{self, Footprint, Rest},
    sys::{self, Fork, Parentage},
    wire::{FORK, MAX_PACKET, Reply, SETUP_PATIENCE, Setup},
};
use crate::{ChildStart, Entropy, LOCKDOWN_FAILED, Layer, Report, SandboxError};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    io::Errno,
    net::{
        AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
        SocketType, recv, send, sendmsg, socketpair,
    },
    process::{Resource, Signal, getppid, getrlimit, set_parent_process_death_signal},
};
use std::{
    convert::Infallible,
    io::{self, IoSlice},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    panic::{AssertUnwindSafe, catch_unwind},
};

/// Serves a host that started this program with [`crate::WarmParent::start`]; the whole main function of a worker.
///
/// `prepare` runs once, unconfined, and should do whatever is the same for every child and worth not repeating. It must
/// not leave a thread behind. Descriptors that it leaves open are closed in the children. `child` runs in each child,
/// after the lockdown, on the main thread; what it returns is the exit code. A panic in it ends the child with SIGABRT.
/// Both must be called before the program has started any other thread.
///
/// What `child` may do is in the `filter` module: compute, allocate, read and write its socket (`read`, `write`, `recv`,
/// `send`, `poll`), read clocks, sleep, draw random bytes. It cannot start threads. The host may have the other end of the
/// socket before the lockdown is done; `child` starts after it.
///
/// The process ends when its host closes the control socket or goes away.
///
/// # Errors
///
/// Returns only when nothing was served: [`SandboxError::NotAWorker`] when this program was not started by a host.
pub fn serve_warm<S>(
    prepare: impl FnOnce() -> S,
    child: impl FnOnce(S, ChildStart) -> u8,
) -> Result<Infallible, SandboxError> {
    if !lockdown::is_control_socket(io::stdin()) {
        return Err(SandboxError::NotAWorker(String::from(
            "descriptor 0 is not a control socket",
        )));
    }
    let control = take_control_socket().map_err(|source| SandboxError::System {
        operation: "taking over the control socket",
        source,
    })?;
    let Some(setup) = receive_setup(&control) else {
        return Err(SandboxError::NotAWorker(String::from(
            "no valid set-up came over the control socket",
        )));
    };
    let no_host = || SandboxError::NotAWorker(String::from("the host is gone"));
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|_| no_host())?;
    if getppid().map(|pid| pid.as_raw_pid()) != Some(setup.host_pid) {
        return Err(no_host());
    }

    let state = prepare();
    let (mut rest, report) = match lock_down(&setup) {
        Ok(locked) => locked,
        Err(reason) => {
            let _ = send(&control, &Reply::Failed(reason).encode(), SendFlags::NOSIGNAL);
            sys::exit_now(LOCKDOWN_FAILED);
        }
    };
    let stack_bytes = report.stack_bytes;
    if send(&control, &Reply::Ready(report).encode(), SendFlags::NOSIGNAL).is_err() {
        sys::exit_now(0);
    }

    loop {
        receive_fork_request(&control);
        match fork_child(&control) {
            Ok(None) => {}
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(libc::EIO);
                if send(&control, &Reply::NotForked(errno).encode(), SendFlags::NOSIGNAL).is_err() {
                    sys::exit_now(0);
                }
            }
            Ok(Some(socket)) => {
                let (Ok(entropy), Ok(())) = (lockdown::entropy(), rest.apply(socket)) else {
                    sys::exit_now(LOCKDOWN_FAILED);
                };
                // The lockdown put the socket where the control socket was. `control` is never dropped here: this branch
                // does not return.
                let start = ChildStart {
                    socket: sys::adopt_descriptor(lockdown::SOCKET).into(),
                    entropy: Entropy(entropy),
                    stack_bytes,
                    max_memory_bytes: setup.max_memory_bytes,
                };
                // Nothing may unwind out of here: the frames above are the warm parent's loop.
                match catch_unwind(AssertUnwindSafe(|| child(state, start))) {
                    Ok(code) => sys::exit_now(code),
                    Err(_) => std::process::abort(),
                }
            }
        }
    }
}

/// Moves the control socket away from descriptor 0, where `println`-like accidents live, and closes all others.
fn take_control_socket() -> io::Result<OwnedFd> {
    let standard_input = sys::adopt_descriptor(0);
    sys::move_descriptor(&standard_input, lockdown::SOCKET)?;
    // Standard output is /dev/null, by the host.
    std::mem::forget(standard_input);
    let null = io::stdout().as_fd().try_clone_to_owned()?;
    sys::move_descriptor(&null, 0)?;
    drop(null);
    let control = sys::adopt_descriptor(lockdown::SOCKET);
    match sys::close_descriptors(lockdown::SOCKET as u32 + 1, u32::MAX, sys::CloseMode::Now) {
        // Before Linux 5.9. The children's own attempt fails too and is reported.
        Err(error) if error.raw_os_error() != Some(libc::ENOSYS) => Err(error),
        _ => Ok(control),
    }
}

fn receive_setup(control: &OwnedFd) -> Option<Setup> {
    let patience = Timespec {
        tv_sec: SETUP_PATIENCE.as_secs().try_into().ok()?,
        tv_nsec: 0,
    };
    let ready = poll(&mut [PollFd::new(control, PollFlags::IN)], Some(&patience)).ok()?;
    if ready == 0 {
        return None;
    }
    let mut packet = [0; MAX_PACKET];
    let (length, _) = recv(control, &mut packet, RecvFlags::DONTWAIT).ok()?;
    Setup::decode(packet.get(..length)?)
}

/// Gives up what children inherit and rehearses the rest.
fn lock_down(setup: &Setup) -> Result<(Rest, Report), String> {
    // Everything that needs /proc comes first.
    let threads = std::fs::read_dir("/proc/self/task").map(Iterator::count);
    if let Ok(threads @ 2..) = threads {
        return Err(format!(
            "the worker has {threads} threads after its preparation, and forking needs exactly one"
        ));
    }
    lockdown::volunteer_for_oom();
    let footprint = Footprint::read();
    sys::use_one_arena();
    if setup.layers & Layer::Seccomp.bit() != 0 {
        sys::readable_is_not_executable().map_err(|error| format!("cannot read the personality: {error}"))?;
    }
    let environment = match std::env::vars_os().next() {
        None => Ok(()),
        Some((name, _)) => Err(format!("`{}` is set", name.display())),
    };
    let _ = std::env::set_current_dir("/");
    let mut outcome = lockdown::inheritable(setup, environment);
    let footprint = lockdown::inheritable_limits(setup).and(footprint);
    let stack_bytes = getrlimit(Resource::Stack).current.unwrap_or(u64::MAX);
    let rest = Rest::rehearsed(setup, footprint, stack_bytes, &mut outcome);
    outcome.in_force.sort_unstable();
    outcome.missing.sort_unstable_by_key(|missing| missing.layer);
    let report = Report {
        layers: outcome.in_force,
        missing: outcome.missing,
        landlock_abi: outcome.landlock_abi,
        stack_bytes,
    };
    Ok((rest, report))
}

/// Waits for the host to ask for a child. Ends the process when the host has closed the socket.
fn receive_fork_request(control: &OwnedFd) {
    let mut packet = [0; 8];
    loop {
        match recv(control, &mut packet, RecvFlags::empty()) {
            Ok((length, _)) if packet.get(..length) == Some(FORK) => return,
            Err(Errno::INTR) => {}
            _ => sys::exit_now(0),
        }
    }
}

/// Forks one child and sends its pid and socket to the host. Returns the child's end of the socket in the child.
fn fork_child(control: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    let (hosts, childs) = socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    // Blocking is a property of each end by itself.
    fcntl_setfl(&hosts, fcntl_getfl(&hosts)? | OFlags::NONBLOCK)?;
    #[expect(unsafe_code, reason = "forking needs a promise")]
    // SAFETY: this process has a single thread: `lock_down` counted them after `prepare`, the last foreign code to run
    // here, and nothing below starts one.
    let fork = unsafe { sys::fork(Parentage::Grandparent) }?;
    match fork {
        Fork::Child => Ok(Some(childs)),
        Fork::Parent(pid) => {
            send_child(control, pid, hosts.as_fd())?;
            Ok(None)
        }
    }
}

fn send_child(control: &OwnedFd, pid: i32, socket: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let sockets = [socket];
    ancillary.push(SendAncillaryMessage::ScmRights(&sockets));
    let packet = Reply::Forked(pid).encode();
    match sendmsg(
        control,
        &[IoSlice::new(&packet)],
        &mut ancillary,
        SendFlags::NOSIGNAL,
    ) {
        Ok(_) => Ok(()),
        // The host does not know about this child, whose socket closes with this process; it ends by itself.
        Err(_) => sys::exit_now(0),
    }
}
