//! The seccomp filters for programs that are not ours.
//!
//! Such a program makes more calls while it starts than it needs afterwards, and cannot install a filter in between. So it
//! gets all of them before it is executed, and one of them hands the calls of the start-up to a supervisor in the host
//! (`supervise`), who lets them pass. When the supervisor leaves, the kernel refuses them with ENOSYS.
//!
//! A call passes if no filter objects:
//!
//! | filter | objects to |
//! | --- | --- |
//! | [`Filters::allow`] | everything that is not listed, softly (ENOSYS): foreign programs probe for what there is |
//! | [`Filters::kill`] | what only an attack would call; it ends the process |
//! | [`Filters::start`] | what is needed while starting, unless a supervisor says go on |
//! | [`Filters::seal`] | what installing the others needs |

use super::filter::{LAST_FIXED_CLOCK, PID_PLACEHOLDER, Rules, any, any_of, compile, one};
use crate::Preset;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction,
    SeccompCmpArgLen::{Dword, Qword},
    SeccompCmpOp,
};
use std::ffi::c_long;

/// Marks, in a compiled filter, where the kernel is to ask the supervisor; the compiler does not know that action.
const ASK: u32 = 0x5afe;
const RET_TRACE: u32 = 0x7ff0_0000;
const RET_USER_NOTIF: u32 = 0x7fc0_0000;

/// The compiled filters of a program.
#[derive(Clone)]
pub(super) struct Filters {
    pub(super) allow: BpfProgram,
    pub(super) kill: BpfProgram,
    pub(super) start: BpfProgram,
    pub(super) seal: BpfProgram,
    /// Where in `kill` the program's own pid goes.
    pid_at: usize,
}

impl Filters {
    /// Compiles them, once for all launches.
    ///
    /// # Errors
    ///
    /// Says why this system has no such filters.
    pub(super) fn compile(preset: Preset) -> Result<Self, String> {
        let Preset::JitRuntime = preset;
        let rules = |rules: Result<Rules, BackendError>| rules.map_err(|error| error.to_string());
        let mut lasting = rules(lasting())?;
        let start = rules(starting())?;
        lasting.extend(start.clone());
        lasting.extend(INSTALLING.map(|call| (call, Vec::new())));
        // `start` calls that are told apart by an argument are allowed here whatever it is; `start` itself looks.
        let enosys = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
        let allow = compile(lasting, enosys, SeccompAction::Allow)?;
        let kill = compile(rules(fatal())?, SeccompAction::Allow, SeccompAction::KillProcess)?;
        let mut pids = kill
            .iter()
            .enumerate()
            .filter(|(_, instruction)| instruction.k == PID_PLACEHOLDER);
        let (Some((pid_at, _)), None) = (pids.next(), pids.next()) else {
            return Err(String::from(
                "the compiled filter does not name the pid exactly once",
            ));
        };
        let mut start = compile(start, SeccompAction::Allow, SeccompAction::Trace(ASK))?;
        for instruction in &mut start {
            if instruction.k == RET_TRACE | ASK {
                instruction.k = RET_USER_NOTIF;
            }
        }
        let seal = INSTALLING.map(|call| (call, Vec::new())).into_iter().collect();
        let seal = compile(seal, SeccompAction::Allow, SeccompAction::KillProcess)?;
        Ok(Self {
            allow,
            kill,
            start,
            seal,
            pid_at,
        })
    }

    /// Writes the pid of the calling process where it belongs. Allocates nothing.
    pub(super) fn name_self(&mut self) {
        if let Some(instruction) = self.kill.get_mut(self.pid_at) {
            instruction.k = std::process::id();
        }
    }
}

/// What is called between the first filter and the last.
const INSTALLING: [c_long; 2] = [libc::SYS_sendmsg, libc::SYS_seccomp];

/// Returns what the program may call for as long as it lives.
fn lasting() -> Result<Rules, BackendError> {
    let plain = [
        // Its descriptors: the socket, and what the event loop made for itself.
        libc::SYS_read,
        libc::SYS_write,
        libc::SYS_readv,
        libc::SYS_writev,
        libc::SYS_pread64,
        libc::SYS_recvfrom,
        libc::SYS_lseek,
        libc::SYS_fstat,
        libc::SYS_close,
        libc::SYS_shutdown,
        libc::SYS_ppoll,
        libc::SYS_epoll_pwait,
        libc::SYS_epoll_pwait2,
        libc::SYS_epoll_ctl,
        libc::SYS_timerfd_settime,
        // Memory, executable memory included. Files cannot be mapped once none can be opened.
        libc::SYS_brk,
        libc::SYS_mmap,
        libc::SYS_munmap,
        libc::SYS_mremap,
        libc::SYS_mprotect,
        libc::SYS_pkey_mprotect,
        libc::SYS_pkey_alloc,
        libc::SYS_pkey_free,
        libc::SYS_mincore,
        libc::SYS_membarrier,
        // Its threads, and waiting.
        libc::SYS_futex,
        libc::SYS_sched_yield,
        libc::SYS_sched_getaffinity,
        libc::SYS_sched_getparam,
        libc::SYS_sched_getscheduler,
        libc::SYS_getcpu,
        libc::SYS_nanosleep,
        libc::SYS_restart_syscall,
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigreturn,
        libc::SYS_sigaltstack,
        libc::SYS_exit,
        libc::SYS_exit_group,
        // What it may know of itself.
        libc::SYS_gettimeofday,
        libc::SYS_getrandom,
        libc::SYS_getpid,
        libc::SYS_gettid,
        libc::SYS_getuid,
        libc::SYS_geteuid,
        libc::SYS_getgid,
        libc::SYS_getegid,
        libc::SYS_capget,
        libc::SYS_getrusage,
    ];
    let mut rules: Rules = plain.into_iter().map(|call| (call, Vec::new())).collect();
    #[cfg(target_arch = "x86_64")]
    rules.extend([
        (libc::SYS_poll, Vec::new()),
        (libc::SYS_epoll_wait, Vec::new()),
        (libc::SYS_time, Vec::new()),
    ]);
    rules.insert(
        libc::SYS_madvise,
        any_of(
            2,
            &[
                libc::MADV_NORMAL,
                libc::MADV_RANDOM,
                libc::MADV_SEQUENTIAL,
                libc::MADV_WILLNEED,
                libc::MADV_DONTNEED,
                libc::MADV_FREE,
                libc::MADV_DONTFORK,
                libc::MADV_DOFORK,
                libc::MADV_HUGEPAGE,
                libc::MADV_NOHUGEPAGE,
                libc::MADV_DONTDUMP,
                libc::MADV_DODUMP,
            ],
        )?,
    );
    // To the peer only.
    rules.insert(libc::SYS_sendto, any([one(4, Qword, SeccompCmpOp::Eq, 0)?])?);
    let ioctls = [libc::FIONBIO, libc::FIOCLEX, libc::FIONREAD, libc::TCGETS];
    rules.insert(
        libc::SYS_ioctl,
        any(ioctls
            .into_iter()
            .map(|request| one(1, Dword, SeccompCmpOp::Eq, request))
            .collect::<Result<Vec<_>, _>>()?)?,
    );
    // Not F_SETOWN, by which a descriptor's events become signals to any process.
    let fcntls = [
        libc::F_GETFD,
        libc::F_SETFD,
        libc::F_GETFL,
        libc::F_SETFL,
        libc::F_DUPFD,
        libc::F_DUPFD_CLOEXEC,
    ];
    rules.insert(libc::SYS_fcntl, any_of(1, &fcntls)?);
    for call in [
        libc::SYS_clock_gettime,
        libc::SYS_clock_getres,
        libc::SYS_clock_nanosleep,
    ] {
        rules.insert(call, any([one(0, Dword, SeccompCmpOp::Le, LAST_FIXED_CLOCK)?])?);
    }
    rules.insert(libc::SYS_tgkill, any_of(2, &[libc::SIGABRT])?);
    Ok(rules)
}

/// Returns what the program may call until it is locked.
fn starting() -> Result<Rules, BackendError> {
    let plain = [
        libc::SYS_execve,
        libc::SYS_readlinkat,
        libc::SYS_newfstatat,
        libc::SYS_statx,
        libc::SYS_faccessat,
        libc::SYS_faccessat2,
        libc::SYS_getcwd,
        libc::SYS_getdents64,
        libc::SYS_statfs,
        libc::SYS_fstatfs,
        libc::SYS_set_tid_address,
        libc::SYS_set_robust_list,
        libc::SYS_rseq,
        libc::SYS_prctl,
        libc::SYS_epoll_create1,
        libc::SYS_eventfd2,
        libc::SYS_pipe2,
        libc::SYS_timerfd_create,
        libc::SYS_dup,
        libc::SYS_dup3,
        libc::SYS_uname,
        libc::SYS_sysinfo,
        libc::SYS_getsockname,
        libc::SYS_getpeername,
        libc::SYS_getsockopt,
        libc::SYS_getpgid,
        libc::SYS_getppid,
        libc::SYS_sched_setscheduler,
        libc::SYS_getpriority,
    ];
    let mut rules: Rules = plain.into_iter().map(|call| (call, Vec::new())).collect();
    // Threads. `clone3` hides its flags from filters; the C library falls back to `clone` where it is missing.
    rules.insert(libc::SYS_clone, Vec::new());
    // Its own limits.
    rules.insert(libc::SYS_prlimit64, any([one(0, Dword, SeccompCmpOp::Eq, 0)?])?);
    // Reading only. Which files, Landlock says.
    let writing = libc::O_ACCMODE
        | libc::O_CREAT
        | libc::O_TRUNC
        | libc::O_APPEND
        | (libc::O_TMPFILE & !libc::O_DIRECTORY);
    let reading = SeccompCmpOp::MaskedEq(u64::from(writing.unsigned_abs()));
    rules.insert(libc::SYS_openat, any([one(2, Dword, reading.clone(), 0)?])?);
    #[cfg(target_arch = "x86_64")]
    {
        rules.insert(libc::SYS_open, any([one(1, Dword, reading, 0)?])?);
        rules.extend(
            [
                libc::SYS_access,
                libc::SYS_arch_prctl,
                libc::SYS_dup2,
                libc::SYS_epoll_create,
                libc::SYS_eventfd,
                libc::SYS_getpgrp,
                libc::SYS_lstat,
                libc::SYS_pipe,
                libc::SYS_readlink,
                libc::SYS_stat,
            ]
            .map(|call| (call, Vec::new())),
        );
    }
    Ok(rules)
}

/// Returns what ends the process.
fn fatal() -> Result<Rules, BackendError> {
    let plain = [
        // Other processes.
        libc::SYS_kill,
        libc::SYS_tkill,
        libc::SYS_rt_sigqueueinfo,
        libc::SYS_rt_tgsigqueueinfo,
        libc::SYS_pidfd_open,
        libc::SYS_pidfd_send_signal,
        libc::SYS_pidfd_getfd,
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_process_madvise,
        libc::SYS_kcmp,
        libc::SYS_execveat,
        // The network, and descriptors from elsewhere.
        libc::SYS_socket,
        libc::SYS_socketpair,
        libc::SYS_connect,
        libc::SYS_bind,
        libc::SYS_listen,
        libc::SYS_accept,
        libc::SYS_accept4,
        libc::SYS_sendmmsg,
        libc::SYS_recvmsg,
        libc::SYS_recvmmsg,
        libc::SYS_open_by_handle_at,
        libc::SYS_memfd_create,
        // The kernel's own programs and tables.
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        libc::SYS_keyctl,
        libc::SYS_add_key,
        libc::SYS_request_key,
        libc::SYS_init_module,
        libc::SYS_finit_module,
        libc::SYS_delete_module,
        libc::SYS_kexec_load,
        libc::SYS_reboot,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_pivot_root,
        libc::SYS_chroot,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_personality,
        // Changing files.
        libc::SYS_unlinkat,
        libc::SYS_renameat2,
        libc::SYS_linkat,
        libc::SYS_symlinkat,
        libc::SYS_mkdirat,
        libc::SYS_mknodat,
        libc::SYS_truncate,
        libc::SYS_ftruncate,
        libc::SYS_fchmodat,
        libc::SYS_fchownat,
        libc::SYS_utimensat,
        // Becoming somebody else.
        libc::SYS_setuid,
        libc::SYS_setgid,
        libc::SYS_setreuid,
        libc::SYS_setregid,
        libc::SYS_setresuid,
        libc::SYS_setresgid,
        libc::SYS_setgroups,
        libc::SYS_capset,
    ];
    let mut rules: Rules = plain.into_iter().map(|call| (call, Vec::new())).collect();
    #[cfg(target_arch = "x86_64")]
    rules.extend([(libc::SYS_fork, Vec::new()), (libc::SYS_vfork, Vec::new())]);
    // Processes that are not threads of this one.
    let no_thread = SeccompCmpOp::MaskedEq(u64::from(libc::CLONE_THREAD.unsigned_abs()));
    rules.insert(libc::SYS_clone, any([one(0, Qword, no_thread, 0)?])?);
    // Aborting anything but itself.
    let others = one(0, Dword, SeccompCmpOp::Ne, u64::from(PID_PLACEHOLDER))?;
    rules.insert(libc::SYS_tgkill, any([others])?);
    Ok(rules)
}
