//! The system calls that have no safe wrapper elsewhere, each behind a function that is safe or says what it needs.

use crate::{Exit, ExitStatus};
use std::{
    ffi::c_int,
    io,
    os::{
        fd::{FromRawFd, OwnedFd, RawFd},
        unix::process::CommandExt,
    },
    process::Command,
    time::Duration,
};

/// Who the kernel counts as the parent of a fork.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Parentage {
    /// The forking process.
    Own,
    /// The parent of the forking process.
    Grandparent,
}

pub(super) enum Fork {
    Parent(i32),
    Child,
}

/// Forks the calling process by the bare system call.
///
/// The C library's `fork` cannot set `CLONE_PARENT`. What it would do besides is not needed here: its atfork handlers
/// guard against other threads, and its cached thread id goes stale only for calls that a child does not make (the
/// child stays single-threaded for life, and `abort` asks the kernel for the id).
///
/// # Safety
///
/// The calling process must have one thread only. Otherwise a lock that another thread holds, such as the allocator's,
/// would stay locked in the child for ever.
#[expect(unsafe_code, reason = "clone with CLONE_PARENT has no safe wrapper")]
pub(super) unsafe fn fork(parentage: Parentage) -> io::Result<Fork> {
    let flags = match parentage {
        Parentage::Own => libc::SIGCHLD,
        Parentage::Grandparent => libc::CLONE_PARENT | libc::SIGCHLD,
    };
    let flags = libc::c_long::from(flags);
    let none: libc::c_long = 0;
    // SAFETY: with a null stack and without CLONE_VM this is a plain fork: the child goes on with a copy of this stack
    // and memory. All pointers are null, so that their order, which differs between systems, does not matter. That the
    // memory is consistent in the child is the caller's promise of a single thread.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, none, none, none, none) };
    match pid {
        0 => Ok(Fork::Child),
        1.. => Ok(Fork::Parent(i32::try_from(pid).map_err(io::Error::other)?)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Ends the process at once: no destructors, no exit handlers, no flushing of what the warm parent had buffered.
#[expect(unsafe_code, reason = "_exit is a foreign function")]
pub(super) fn exit_now(code: u8) -> ! {
    // SAFETY: `_exit` has no preconditions and does not return.
    unsafe { libc::_exit(c_int::from(code)) }
}

/// Makes `target` another name for `source`, closing what it was.
#[expect(
    unsafe_code,
    reason = "the target is a bare number, on purpose: whatever has it is to go"
)]
pub(super) fn move_descriptor(source: &OwnedFd, target: RawFd) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    // SAFETY: dup3 touches no memory. It closes `target`; the callers own the whole process at this point and hold no
    // other owner of that number that they use again.
    let result = unsafe { libc::dup3(source.as_raw_fd(), target, 0) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Takes ownership of a descriptor that was put at a fixed number.
#[expect(
    unsafe_code,
    reason = "a descriptor at an agreed number is ours by agreement only"
)]
pub(super) fn adopt_descriptor(number: RawFd) -> OwnedFd {
    // SAFETY: called once per process and number, for a descriptor that the other side of the agreement (the host's
    // spawn, or `move_descriptor`) left there for this purpose; nothing else in the process owns it.
    unsafe { OwnedFd::from_raw_fd(number) }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CloseMode {
    Now,
    OnExec,
}

/// Closes the descriptors from `first` to `last`, whoever owns them.
///
/// It allocates nothing, so it can run between fork and exec.
#[expect(unsafe_code, reason = "close_range has no safe wrapper")]
pub(super) fn close_descriptors(first: u32, last: u32, mode: CloseMode) -> io::Result<()> {
    let flags = match mode {
        CloseMode::Now => 0,
        CloseMode::OnExec => libc::CLOSE_RANGE_CLOEXEC,
    };
    // SAFETY: touches no memory. Descriptors go away under their owners; the callers are a child before its program
    // starts and the warm parent, which use none of the closed ones again.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Arranges what happens between fork and exec of a worker program: its own session, its stack limit, and no inherited
/// descriptor.
#[expect(unsafe_code, reason = "pre_exec runs between fork and exec")]
pub(super) fn prepare_exec(command: &mut Command, stack_bytes: u64) {
    let before_exec = move || {
        // Out of the terminal's process group, so that Ctrl-C reaches the host alone and no terminal can be driven.
        rustix::process::setsid()?;
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        lower_limit(rustix::process::Resource::Stack, stack_bytes)?;
        // Close-on-exec instead of now: the standard library reports a failed exec through a descriptor of its own.
        // Kernels before 5.11 lack the flag; the worker closes everything itself as well.
        match close_descriptors(3, u32::MAX, CloseMode::OnExec) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS)) => Ok(()),
            result => result,
        }
    };
    // SAFETY: the closure runs in a forked copy of a process that may have other threads, so it must not allocate or
    // lock. It makes system calls only; errors are plain numbers.
    unsafe { command.pre_exec(before_exec) };
}

/// Sets both limits of a resource to `value`, or to the hard limit in force where that is lower.
pub(super) fn lower_limit(resource: rustix::process::Resource, value: u64) -> rustix::io::Result<()> {
    let current = rustix::process::getrlimit(resource);
    let value = current.maximum.map_or(value, |maximum| value.min(maximum));
    let limit = rustix::process::Rlimit {
        current: Some(value),
        maximum: Some(value),
    };
    rustix::process::setrlimit(resource, limit)
}

/// Reaps a child if it has ended.
#[expect(
    unsafe_code,
    reason = "wait4 has no safe wrapper that returns the resource usage"
)]
pub(super) fn reap(pid: i32, mode: Reap) -> io::Result<Option<Exit>> {
    let mut status: c_int = 0;
    let options = match mode {
        Reap::IfEnded => libc::WNOHANG,
        Reap::Wait => 0,
    };
    let (reaped, usage) = loop {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: both pointers are valid for writes of their types for the whole call.
        let reaped = unsafe { libc::wait4(pid, &raw mut status, options, usage.as_mut_ptr()) };
        if reaped >= 0 {
            // SAFETY: `rusage` consists of integers, so the zeroed bytes are a valid value even where wait4 wrote none.
            break (reaped, unsafe { usage.assume_init() });
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    };
    if reaped == 0 {
        return Ok(None);
    }
    let status = if libc::WIFEXITED(status) {
        ExitStatus::Code(u8::try_from(libc::WEXITSTATUS(status)).unwrap_or(u8::MAX))
    } else {
        ExitStatus::Signal(libc::WTERMSIG(status))
    };
    let cpu_time = to_duration(usage.ru_utime) + to_duration(usage.ru_stime);
    let max_rss_bytes = u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024;
    Ok(Some(Exit {
        status,
        cpu_time,
        max_rss_bytes,
    }))
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reap {
    IfEnded,
    Wait,
}

fn to_duration(time: libc::timeval) -> Duration {
    let micros = u64::try_from(time.tv_usec).unwrap_or(0);
    Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0)) + Duration::from_micros(micros)
}

/// What the host's disposition of SIGCHLD means for reaping.
pub(super) enum ChildSignal {
    /// Ended children wait to be reaped.
    Kept,
    /// The kernel discards ended children, because the signal is ignored. Programs inherit that from a careless parent.
    Ignored,
    /// The kernel discards ended children, because the host asked for that with `SA_NOCLDWAIT`.
    Discarded,
}

/// Returns the disposition of SIGCHLD.
#[expect(unsafe_code, reason = "sigaction has no safe wrapper")]
pub(super) fn child_signal() -> io::Result<ChildSignal> {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null new action only asks; the old one is written to a valid place of its type.
    let result = unsafe { libc::sigaction(libc::SIGCHLD, std::ptr::null(), action.as_mut_ptr()) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: sigaction succeeded and filled it in.
    let action = unsafe { action.assume_init() };
    Ok(if action.sa_flags & libc::SA_NOCLDWAIT != 0 {
        ChildSignal::Discarded
    } else if action.sa_sigaction == libc::SIG_IGN {
        ChildSignal::Ignored
    } else {
        ChildSignal::Kept
    })
}

/// Gives SIGCHLD its default meaning, in which ended children wait to be reaped.
#[expect(unsafe_code, reason = "signal has no safe wrapper")]
pub(super) fn keep_ended_children() {
    // SAFETY: SIG_DFL installs no handler. The caller found the signal ignored, so no handler is lost.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Returns the CPU time that a process has used so far, while it has not been reaped.
#[expect(unsafe_code, reason = "clock_getcpuclockid has no safe wrapper")]
pub(super) fn process_cpu_time(pid: i32) -> Option<Duration> {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: `clock` is valid for a write of its type.
    let result = unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) };
    if result == 0 { read_clock(clock) } else { None }
}

/// Returns the clock of the calling thread.
#[expect(unsafe_code, reason = "pthread_getcpuclockid has no safe wrapper")]
pub(crate) fn this_thread_clock() -> Option<libc::clockid_t> {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: the calling thread is alive, and `clock` is valid for a write of its type.
    let result = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut clock) };
    (result == 0).then_some(clock)
}

/// Returns the time on a clock, or `None` when it no longer exists.
#[expect(
    unsafe_code,
    reason = "clocks of other processes and threads have no safe wrapper"
)]
pub(crate) fn read_clock(clock: libc::clockid_t) -> Option<Duration> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for a write of its type; an unknown clock is an error, not undefined behaviour.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    let nanos = Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0));
    (result == 0).then(|| Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0)) + nanos)
}

/// Keeps the C library's allocator to one arena.
///
/// When memory runs out it would otherwise reserve a second one, of 64 MiB, before it admits failure.
#[expect(unsafe_code, reason = "mallopt is a foreign function")]
pub(super) fn use_one_arena() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt has no preconditions; this process has one thread.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Takes back the old personality flag that makes every readable mapping executable.
///
/// A process inherits it, and with it a plain `mmap` would get around a filter that looks for `PROT_EXEC`.
#[expect(unsafe_code, reason = "personality has no safe wrapper")]
pub(super) fn readable_is_not_executable() -> io::Result<()> {
    const ASK: libc::c_ulong = 0xffff_ffff;
    // SAFETY: personality takes a number and touches no memory.
    let current = unsafe { libc::personality(ASK) };
    if current < 0 {
        return Err(io::Error::last_os_error());
    }
    if current & libc::READ_IMPLIES_EXEC == 0 {
        return Ok(());
    }
    let wanted = libc::c_ulong::try_from(current & !libc::READ_IMPLIES_EXEC).map_err(io::Error::other)?;
    // SAFETY: as above.
    let result = unsafe { libc::personality(wanted) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Has `work` run in every new process of `command`, between fork and exec.
///
/// # Safety
///
/// `work` runs in a forked copy of a process that may have other threads: it must not allocate, lock, or rely on anything
/// that another thread may have been changing.
#[expect(unsafe_code, reason = "pre_exec runs between fork and exec")]
pub(super) unsafe fn before_exec(
    command: &mut Command,
    work: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
) {
    // SAFETY: the caller's promise.
    unsafe { command.pre_exec(work) };
}

/// Returns the version of the kernel's Landlock interface.
#[expect(unsafe_code, reason = "asking for the version has no safe wrapper")]
pub(super) fn landlock_version() -> io::Result<u32> {
    const VERSION: libc::c_ulong = 1;
    let (none, size): (*const libc::c_void, usize) = (std::ptr::null(), 0);
    // SAFETY: with this flag the kernel takes no attributes and touches no memory.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, size, VERSION) };
    u32::try_from(version).map_err(|_| io::Error::last_os_error())
}

/// Puts the calling thread under a Landlock ruleset, for good. Allocates nothing.
#[expect(unsafe_code, reason = "the safe wrapper allocates")]
pub(super) fn landlock_restrict_self(ruleset: &OwnedFd) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let flags: libc::c_ulong = 0;
    // SAFETY: takes a descriptor and a number, and touches no memory.
    let result = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), flags) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Whether a filter comes with a descriptor on which the kernel asks about calls.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Listener {
    None,
    New,
}

/// Installs a seccomp filter in the calling thread, for good. Allocates nothing.
#[expect(unsafe_code, reason = "filters with a listener have no safe wrapper")]
pub(super) fn install_filter(
    program: &[seccompiler::sock_filter],
    listener: Listener,
) -> io::Result<Option<OwnedFd>> {
    let length = u16::try_from(program.len()).map_err(|_| io::Error::from_raw_os_error(libc::E2BIG))?;
    let program = libc::sock_fprog {
        len: length,
        filter: program.as_ptr().cast::<libc::sock_filter>().cast_mut(),
    };
    let flags = match listener {
        Listener::None => 0,
        Listener::New => libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
    };
    // SAFETY: `program` describes `length` instructions that outlive the call; both types of instruction have the kernel's
    // layout. The kernel copies and checks them, and writes nothing.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags,
            &raw const program,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    match listener {
        Listener::None => Ok(None),
        Listener::New => {
            let number = RawFd::try_from(result).map_err(io::Error::other)?;
            // SAFETY: with this flag the result is a new descriptor, which nothing else owns.
            Ok(Some(unsafe { OwnedFd::from_raw_fd(number) }))
        }
    }
}

/// Takes one question of the kernel about a call and lets the call pass.
#[expect(unsafe_code, reason = "answering the kernel has no safe wrapper")]
pub(super) fn let_pass(listener: &OwnedFd) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let mut question = std::mem::MaybeUninit::<libc::seccomp_notif>::zeroed();
    // SAFETY: the request's number includes the size of this type, so a kernel with another one refuses it; the memory is
    // valid for that size and zeroed, as the kernel wants it.
    let result = unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_RECV,
            question.as_mut_ptr(),
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it consists of integers, so any bytes are a valid value.
    let question = unsafe { question.assume_init() };
    let mut answer = libc::seccomp_notif_resp {
        id: question.id,
        val: 0,
        error: 0,
        flags: u32::try_from(libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE).unwrap_or(1),
    };
    // SAFETY: as above; the kernel only reads it.
    let result = unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_SEND,
            &raw mut answer,
        )
    };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
