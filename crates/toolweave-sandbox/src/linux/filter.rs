//! The seccomp filters: an allow-list in two steps.
//!
//! The warm parent confines itself to what a child may call, plus what it takes to fork and to lock a child down. Each
//! child inherits that and installs a second filter, which takes the latter back. A call has to pass both, so what is
//! left in a child is exactly [`allowed`].
//!
//! The steps make children cheap: the allow-list is translated to machine code and worked through for every system call
//! number once, in the warm parent. Installing it in each child cost more than the whole rest of the fork.
//!
//! A call that is not allowed ends the process. Nothing is refused softly: code that probes for what it may do has no
//! business here, and an unexpected call of a library is found at once instead of going on half broken.

use seccompiler::{
    BackendError, BpfProgram, SeccompAction,
    SeccompCmpArgLen::{self, Dword, Qword},
    SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use std::{collections::BTreeMap, ffi::c_long};

/// Stands for the child's own pid in its filter, which is compiled before any child exists.
pub(super) const PID_PLACEHOLDER: u32 = 0x7e5e_a11d;

/// The highest constant clock id. Beyond are ids made from pids, which tell about other processes.
pub(super) const LAST_FIXED_CLOCK: u64 = 11;

/// What the warm parent's loop calls, and what a child calls before it installs its own filter.
const FORKING: [c_long; 10] = [
    libc::SYS_clone,
    libc::SYS_wait4,
    libc::SYS_socketpair,
    libc::SYS_sendmsg,
    libc::SYS_getppid,
    libc::SYS_dup3,
    libc::SYS_close_range,
    libc::SYS_prlimit64,
    libc::SYS_prctl,
    libc::SYS_seccomp,
];

pub(super) type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Confines the warm parent, and so every child that it forks from now on.
///
/// # Errors
///
/// Says why this system has no such filter.
pub(super) fn confine_warm_parent() -> Result<(), String> {
    let rules = allowed().and_then(|mut rules| {
        rules.extend(forking()?);
        Ok(rules)
    });
    let rules = rules.map_err(|error| error.to_string())?;
    let program = compile(rules, SeccompAction::KillProcess, SeccompAction::Allow)?;
    seccompiler::apply_filter(&program).map_err(|error| error.to_string())
}

/// The filter that a child adds for itself: no more forking.
pub(super) struct ChildFilter {
    program: BpfProgram,
    /// Where the child's own pid goes.
    pid_at: usize,
}

impl ChildFilter {
    /// Compiles the filter, once for all children.
    ///
    /// # Errors
    ///
    /// Says why this system has no such filter.
    pub(super) fn compile() -> Result<Self, String> {
        let mut rules: Rules = FORKING.into_iter().map(|call| (call, Vec::new())).collect();
        // Others may not be aborted.
        let others =
            one(0, Dword, SeccompCmpOp::Ne, u64::from(PID_PLACEHOLDER)).and_then(|other| any([other]));
        rules.insert(libc::SYS_tgkill, others.map_err(|error| error.to_string())?);
        let program = compile(rules, SeccompAction::Allow, SeccompAction::KillProcess)?;
        let mut places = program
            .iter()
            .enumerate()
            .filter(|(_, instruction)| instruction.k == PID_PLACEHOLDER);
        match (places.next(), places.next()) {
            (Some((pid_at, _)), None) => Ok(Self { pid_at, program }),
            _ => Err(String::from(
                "the compiled filter does not name the pid exactly once",
            )),
        }
    }

    /// Installs the filter in the calling process, for good. Allocates nothing.
    pub(super) fn install(&mut self) -> Result<(), seccompiler::Error> {
        if let Some(instruction) = self.program.get_mut(self.pid_at) {
            instruction.k = std::process::id();
        }
        seccompiler::apply_filter(&self.program)
    }
}

pub(super) fn compile(
    rules: Rules,
    otherwise: SeccompAction,
    matching: SeccompAction,
) -> Result<BpfProgram, String> {
    let arch = std::env::consts::ARCH;
    let arch = arch
        .try_into()
        .map_err(|_| format!("no filter for architecture {arch}"))?;
    // The compiler adds the check that calls are made by this architecture's convention.
    SeccompFilter::new(rules, otherwise, matching, arch)
        .and_then(BpfProgram::try_from)
        .map_err(|error| error.to_string())
}

/// Returns what a child may call.
fn allowed() -> Result<Rules, BackendError> {
    // Without conditions on arguments; the kernel answers these from a bitmap, without running the filter.
    let plain = [
        // The socket. Receiving can bring in descriptors only by `recvmsg`, which is missing, as is `sendmsg`.
        libc::SYS_read,
        libc::SYS_write,
        libc::SYS_readv,
        libc::SYS_writev,
        libc::SYS_recvfrom,
        libc::SYS_shutdown,
        libc::SYS_close,
        libc::SYS_ppoll,
        // Memory.
        libc::SYS_brk,
        libc::SYS_munmap,
        libc::SYS_mremap,
        // Waiting, within the process and on the clock.
        libc::SYS_futex,
        libc::SYS_sched_yield,
        libc::SYS_nanosleep,
        libc::SYS_restart_syscall,
        libc::SYS_gettimeofday,
        libc::SYS_getrandom,
        // What the Rust runtime and `abort` do by themselves.
        libc::SYS_sigaltstack,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigreturn,
        libc::SYS_getpid,
        libc::SYS_gettid,
        libc::SYS_exit,
        libc::SYS_exit_group,
    ];
    let mut rules: Rules = plain.into_iter().map(|call| (call, Vec::new())).collect();
    #[cfg(target_arch = "x86_64")]
    rules.extend([(libc::SYS_poll, Vec::new()), (libc::SYS_time, Vec::new())]);

    // No memory that can be executed; mappings of files fail for want of a file.
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        let no_exec = SeccompCmpOp::MaskedEq(u64::from(libc::PROT_EXEC.unsigned_abs()));
        rules.insert(call, any([one(2, Dword, no_exec, 0)?])?);
    }
    // What allocators give as advice. Some other advice is for root, and poisons pages.
    rules.insert(
        libc::SYS_madvise,
        any_of(
            2,
            &[
                libc::MADV_NORMAL,
                libc::MADV_DONTNEED,
                libc::MADV_FREE,
                libc::MADV_HUGEPAGE,
                libc::MADV_NOHUGEPAGE,
            ],
        )?,
    );

    // Sending without an address, so only to the peer.
    rules.insert(libc::SYS_sendto, any([one(4, Qword, SeccompCmpOp::Eq, 0)?])?);
    // Blocking mode of the socket, by either way; F_GETFD is a check of the standard library in debug builds.
    rules.insert(
        libc::SYS_ioctl,
        any([one(1, Dword, SeccompCmpOp::Eq, libc::FIONBIO)?])?,
    );
    rules.insert(
        libc::SYS_fcntl,
        any_of(1, &[libc::F_GETFL, libc::F_SETFL, libc::F_GETFD])?,
    );

    for call in [
        libc::SYS_clock_gettime,
        libc::SYS_clock_getres,
        libc::SYS_clock_nanosleep,
    ] {
        rules.insert(call, any([one(0, Dword, SeccompCmpOp::Le, LAST_FIXED_CLOCK)?])?);
    }

    // `abort`, so that a panic or a failed allocation shows as SIGABRT and not as a forbidden call. Each child's own
    // filter narrows it down to itself.
    rules.insert(libc::SYS_tgkill, any_of(2, &[libc::SIGABRT])?);
    Ok(rules)
}

/// Returns the calls of [`FORKING`], with what can be said about their arguments.
fn forking() -> Result<Rules, BackendError> {
    let mut rules: Rules = FORKING.into_iter().map(|call| (call, Vec::new())).collect();
    // Plain forks, for the rehearsal and for the host; no threads and no namespaces.
    rules.insert(
        libc::SYS_clone,
        any_of(0, &[libc::SIGCHLD, libc::SIGCHLD | libc::CLONE_PARENT])?,
    );
    rules.insert(
        libc::SYS_prctl,
        any_of(0, &[libc::PR_SET_PDEATHSIG, libc::PR_SET_NO_NEW_PRIVS])?,
    );
    let install = u64::from(libc::SECCOMP_SET_MODE_FILTER);
    rules.insert(
        libc::SYS_seccomp,
        any([one(0, Dword, SeccompCmpOp::Eq, install)?])?,
    );
    Ok(rules)
}

pub(super) fn one(
    argument: u8,
    length: SeccompCmpArgLen,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, length, operator, value)
}

/// Returns rules of which one has to hold.
pub(super) fn any(
    conditions: impl IntoIterator<Item = SeccompCondition>,
) -> Result<Vec<SeccompRule>, BackendError> {
    conditions
        .into_iter()
        .map(|condition| SeccompRule::new(vec![condition]))
        .collect()
}

/// Returns rules that hold when an argument, which the kernel reads as 32 bits, has one of these values.
pub(super) fn any_of(argument: u8, values: &[i32]) -> Result<Vec<SeccompRule>, BackendError> {
    let conditions = values.iter().map(|value| {
        one(
            argument,
            Dword,
            SeccompCmpOp::Eq,
            u64::from(value.cast_unsigned()),
        )
    });
    any(conditions.collect::<Result<Vec<_>, _>>()?)
}
