//! The seccomp allow-list: the system calls that a child may still make.
//!
//! Anything else ends the process. Nothing is refused softly: code that probes for what it may do has no business here,
//! and an unexpected call of a library is found at once instead of going on half broken.

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen::Dword, SeccompCmpArgLen::Qword, SeccompCmpOp,
    SeccompCondition, SeccompFilter, SeccompRule,
};
use std::collections::BTreeMap;

/// Stands for the child's own pid in the compiled filter, which is compiled before any child exists.
const PID_PLACEHOLDER: u32 = 0x7e5e_a11d;

/// The highest constant clock id. Beyond are ids made from pids, which tell about other processes.
const LAST_FIXED_CLOCK: u64 = 11;

/// A compiled filter.
pub(super) struct Filter {
    program: BpfProgram,
    /// Where the child's own pid goes.
    pid_at: usize,
}

impl Filter {
    /// Compiles the filter for this machine.
    ///
    /// # Errors
    ///
    /// Says why, where the machine's architecture is unknown to the compiler.
    pub(super) fn compile() -> Result<Self, String> {
        let arch = std::env::consts::ARCH
            .try_into()
            .map_err(|_| format!("no filter for architecture {}", std::env::consts::ARCH))?;
        let rules = allowed().map_err(|error| error.to_string())?;
        // The compiler adds the check that calls are made by this architecture's convention.
        let filter = SeccompFilter::new(rules, SeccompAction::KillProcess, SeccompAction::Allow, arch)
            .map_err(|error| error.to_string())?;
        let program: BpfProgram = filter
            .try_into()
            .map_err(|error: seccompiler::BackendError| error.to_string())?;
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

fn allowed() -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
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
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        plain.into_iter().map(|call| (call, Vec::new())).collect();
    #[cfg(target_arch = "x86_64")]
    rules.extend([(libc::SYS_poll, Vec::new()), (libc::SYS_time, Vec::new())]);

    let no_exec = SeccompCmpOp::MaskedEq(libc::PROT_EXEC as u64);
    rules.insert(libc::SYS_mmap, any([one(2, Dword, no_exec.clone(), 0)?])?);
    rules.insert(libc::SYS_mprotect, any([one(2, Dword, no_exec, 0)?])?);
    let advice = [
        libc::MADV_NORMAL,
        libc::MADV_DONTNEED,
        libc::MADV_FREE,
        libc::MADV_HUGEPAGE,
        libc::MADV_NOHUGEPAGE,
    ];
    let advice = advice.map(|advice| one(2, Dword, SeccompCmpOp::Eq, advice as u64));
    rules.insert(
        libc::SYS_madvise,
        any(advice.into_iter().collect::<Result<Vec<_>, _>>()?)?,
    );

    // Sending without an address, so only to the peer.
    rules.insert(libc::SYS_sendto, any([one(4, Qword, SeccompCmpOp::Eq, 0)?])?);
    // Blocking mode of the socket, by either way; F_GETFD is a check of the standard library in debug builds.
    rules.insert(
        libc::SYS_ioctl,
        any([one(1, Dword, SeccompCmpOp::Eq, libc::FIONBIO)?])?,
    );
    let flags = [libc::F_GETFL, libc::F_SETFL, libc::F_GETFD]
        .map(|command| one(1, Dword, SeccompCmpOp::Eq, command as u64));
    rules.insert(
        libc::SYS_fcntl,
        any(flags.into_iter().collect::<Result<Vec<_>, _>>()?)?,
    );

    for call in [
        libc::SYS_clock_gettime,
        libc::SYS_clock_getres,
        libc::SYS_clock_nanosleep,
    ] {
        rules.insert(call, any([one(0, Dword, SeccompCmpOp::Le, LAST_FIXED_CLOCK)?])?);
    }

    // `abort`, so that a panic or a failed allocation shows as SIGABRT and not as a forbidden call.
    let abort = SeccompRule::new(vec![
        one(0, Dword, SeccompCmpOp::Eq, u64::from(PID_PLACEHOLDER))?,
        one(2, Dword, SeccompCmpOp::Eq, libc::SIGABRT as u64)?,
    ])?;
    rules.insert(libc::SYS_tgkill, vec![abort]);
    Ok(rules)
}

fn one(
    argument: u8,
    length: seccompiler::SeccompCmpArgLen,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(argument, length, operator, value)
}

/// Returns rules of which one has to hold.
fn any(
    conditions: impl IntoIterator<Item = SeccompCondition>,
) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    conditions
        .into_iter()
        .map(|condition| SeccompRule::new(vec![condition]))
        .collect()
}
