//! Each layer bites: all of them together, and each one alone with the ones above it left out.

use crate::harness::{CEILING, FORBIDDEN, Guest, block_on, config, is_root, status_field, try_out, without};
use std::{collections::BTreeSet, time::Instant};
use toolweave_sandbox::{ExitStatus, Layer, WarmConfig, WarmParent};

#[test]
fn seccomp_ends_the_process_at_every_forbidden_call() {
    let pool = WarmParent::start(config()).unwrap();
    let host = std::process::id();
    let kill_host = format!("kill {host} 0");
    let abort_host = format!("tgkill {host} 6");
    let trace = format!("ptrace {host}");
    let peek = format!("peek {host}");
    let fionread = format!("ioctl {}", libc::FIONREAD);
    let other_clock = format!("clock {}", (!(host as libc::clockid_t) << 3) | 2);
    let calls = |numbers: &[libc::c_long]| numbers.iter().map(|n| format!("syscall {n}")).collect::<Vec<_>>();
    let raw = calls(&[
        libc::SYS_openat,
        libc::SYS_execve,
        libc::SYS_execveat,
        libc::SYS_clone3,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_mount,
        libc::SYS_bpf,
        libc::SYS_io_uring_setup,
        libc::SYS_userfaultfd,
        libc::SYS_keyctl,
        libc::SYS_sendmsg,
        libc::SYS_recvmsg,
        libc::SYS_prlimit64,
        libc::SYS_memfd_create,
        libc::SYS_shmget,
        libc::SYS_personality,
        libc::SYS_seccomp,
        libc::SYS_pidfd_open,
        libc::SYS_setuid,
        libc::SYS_reboot,
        // What its warm parent may still do.
        libc::SYS_clone,
        libc::SYS_wait4,
        libc::SYS_socketpair,
        libc::SYS_getppid,
        libc::SYS_dup3,
        libc::SYS_close_range,
        libc::SYS_prctl,
        // The same number by the convention of the x32 interface.
        libc::SYS_read | 0x4000_0000,
    ]);
    let named = [
        "open /etc/passwd",
        "open /proc/self/status",
        "create /tmp/toolweave-sandbox-test",
        "list /",
        "execute /bin/true",
        "fork",
        "thread",
        "socket",
        "netlink",
        &trace,
        &peek,
        &kill_host,
        "kill -1 0",
        &abort_host,
        "mmap 4 0",
        "mmap 7 0",
        "mprotect 5",
        "mprotect 4",
        "prctl 4 1",
        "nice 5",
        "dup",
        &fionread,
        &other_clock,
    ];
    for command in named.into_iter().chain(raw.iter().map(String::as_str)) {
        assert_eq!(Guest::take(&pool).end(command).status, FORBIDDEN, "{command}");
    }
}

#[test]
fn what_a_program_needs_is_allowed() {
    let pool = WarmParent::start(config()).unwrap();
    let mut guest = Guest::take(&pool);
    let answers = [
        "ping",
        "mmap 3 0",
        "mprotect 1",
        "clock 1",
        "allocate 100",
        "allocate 100",
        "environment",
    ]
    .map(|command| guest.ask(command));
    assert_eq!(
        answers,
        [
            "pong",
            "done",
            "done",
            "done",
            "allocated 100",
            "allocated 100",
            "[]"
        ]
    );
    assert_eq!(guest.end("exit 7").status, ExitStatus::Code(7));
}

#[test]
fn landlock_alone_refuses_files_connections_and_signals() {
    let pool = without(&[Layer::Seccomp, Layer::ResourceLimits]);
    let Some(abi) = pool.report().landlock_abi else {
        eprintln!("skipped: this kernel has no Landlock");
        return;
    };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let connect = format!("connect {}", listener.local_addr().unwrap());
    let kill = format!("kill {} 0", std::process::id());
    let mut cases = vec![
        ("open /etc/passwd", "refused: EACCES"),
        ("open /proc/self/status", "refused: EACCES"),
        ("create /tmp/toolweave-sandbox-test", "refused: EACCES"),
        ("list /", "refused: EACCES"),
        ("execute /bin/true", "refused: EACCES"),
    ];
    if abi >= 4 {
        cases.push((&connect, "refused: EACCES"));
    }
    if abi >= 6 {
        cases.push((&kill, "refused: EPERM"));
    }
    for (command, expected) in cases {
        assert_eq!(try_out(&pool, command), expected, "{command}");
    }
}

#[test]
fn capabilities_and_new_privileges_are_gone() {
    let pool = without(&[Layer::Seccomp, Layer::Landlock]);
    assert_eq!(try_out(&pool, "nice -5"), "refused: EACCES");
    let mut guest = Guest::take(&pool);
    assert_eq!(guest.ask("ping"), "pong");
    let fields = ["CapInh", "CapPrm", "CapEff", "CapAmb", "NoNewPrivs"]
        .map(|field| status_field(guest.handle.pid(), field));
    let none = "0000000000000000";
    assert_eq!(fields, [none, none, none, none, "1"]);
}

#[test]
fn the_process_is_not_dumpable() {
    // What that means for others is tried as an ordinary user, in `lifecycle`.
    assert_eq!(try_out(&without(&[Layer::Seccomp]), "dumpable"), "Some(0)");
    assert_eq!(
        try_out(&without(&[Layer::Seccomp, Layer::NotDumpable]), "dumpable"),
        "Some(1)"
    );
}

#[test]
fn no_descriptor_is_inherited_but_the_socket() {
    // Both sides hold files open on purpose: the host without close-on-exec, the worker in its preparation.
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    #[expect(unsafe_code, reason = "a careless host")]
    // SAFETY: dup touches no memory; the new descriptor lives to the end of the test process.
    let inheritable = unsafe { libc::dup(std::os::fd::AsRawFd::as_raw_fd(&file)) };
    assert!(inheritable > 2);
    let args = vec!["worker".into(), "with-file".into()];
    let pool = WarmParent::start(WarmConfig { args, ..config() }).unwrap();
    assert_eq!(try_out(&pool, "descriptors"), "[3]");
}

#[test]
fn the_environment_is_empty() {
    assert!(std::env::vars_os().next().is_some(), "the host has variables");
    let pool = WarmParent::start(config()).unwrap();
    assert_eq!(try_out(&pool, "environment"), "[]");
    let guest = Guest::take(&pool);
    if is_root() {
        let environment = std::fs::read(format!("/proc/{}/environ", guest.handle.pid())).unwrap();
        assert_eq!(String::from_utf8_lossy(&environment), "");
    }
}

#[test]
fn memory_beyond_the_limit_is_refused_by_the_kernel() {
    let pool = WarmParent::start(WarmConfig {
        max_memory_bytes: 64 << 20,
        ..config()
    })
    .unwrap();
    assert_eq!(try_out(&pool, "allocate 60"), "allocated 60");
    assert_eq!(
        Guest::take(&pool).end("allocate 256").status,
        ExitStatus::Signal(libc::SIGABRT)
    );
}

#[test]
fn the_resource_limits_are_the_configured_ones() {
    let config = WarmConfig {
        max_memory_bytes: 64 << 20,
        cpu_seconds: 77,
        stack_bytes: 8 << 20,
        ..config()
    };
    let pool = WarmParent::start(config).unwrap();
    let mut guest = Guest::take(&pool);
    // An answer means that the lockdown is done.
    assert_eq!(guest.ask("ping"), "pong");
    let text = std::fs::read_to_string(format!("/proc/{}/limits", guest.handle.pid())).unwrap();
    let row = |name: &str| {
        let row = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        row.split_ascii_whitespace().take(2).collect::<Vec<_>>().join(" ")
    };
    let rows = [
        "Max cpu time",
        "Max file size",
        "Max stack size",
        "Max core file size",
        "Max processes",
        "Max open files",
        "Max locked memory",
        "Max msgqueue size",
    ]
    .map(row);
    assert_eq!(
        rows,
        [
            "77 78",
            "0 0",
            "8388608 8388608",
            "0 0",
            "0 0",
            "4 4",
            "0 0",
            "0 0"
        ]
    );
    let limit = |name| row(name).split(' ').next().unwrap().parse::<u64>().unwrap();
    let (data, space) = (limit("Max data size"), limit("Max address space"));
    assert!((64 << 20..256 << 20).contains(&data), "{data}");
    assert!((64 << 20..512 << 20).contains(&space), "{space}");
}

#[test]
fn descriptors_are_limited_even_without_the_filter() {
    let pool = without(&[Layer::Seccomp]);
    let mut guest = Guest::take(&pool);
    // 0, 1 and 2 are free; then it ends.
    let answers = [(); 4].map(|()| guest.ask("dup"));
    assert_eq!(answers, ["done", "done", "done", "refused: EMFILE"]);
}

#[test]
fn the_cpu_backstop_ends_a_child_by_itself() {
    let pool = WarmParent::start(WarmConfig {
        cpu_seconds: 1,
        ..config()
    })
    .unwrap();
    let exit = Guest::take(&pool).end("spin");
    // The kernel holds the limit against its tick counts, which the exact time that it reports need not match.
    assert_eq!(exit.status, ExitStatus::Signal(libc::SIGXCPU));
    assert!(exit.cpu_time.as_millis() >= 100, "{exit:?}");
}

#[test]
fn a_deep_recursion_ends_at_the_stack_limit() {
    let pool = WarmParent::start(WarmConfig {
        stack_bytes: 4 << 20,
        ..config()
    })
    .unwrap();
    assert_eq!(try_out(&pool, "start"), format!("{} {}", 4 << 20, 512 << 20));
    // The Rust runtime turns a fault in the guard page into an abort; code without it just faults.
    let status = Guest::take(&pool).end("recurse").status;
    assert!(
        matches!(status, ExitStatus::Signal(libc::SIGSEGV | libc::SIGABRT)),
        "{status}"
    );
}

#[test]
fn a_panic_and_an_abort_end_the_child_and_show_as_such() {
    let pool = WarmParent::start(config()).unwrap();
    assert_eq!(
        Guest::take(&pool).end("panic").status,
        ExitStatus::Signal(libc::SIGABRT)
    );
    assert_eq!(
        Guest::take(&pool).end("abort").status,
        ExitStatus::Signal(libc::SIGABRT)
    );
    assert_eq!(try_out(&pool, "ping"), "pong");
}

#[test]
fn every_child_gets_entropy_of_its_own() {
    let pool = WarmParent::start(WarmConfig {
        standbys: 2,
        ..config()
    })
    .unwrap();
    let seen: BTreeSet<String> = (0..20).map(|_| try_out(&pool, "entropy")).collect();
    assert_eq!(seen.len(), 20);
}

#[test]
fn the_host_kills_what_never_looks_at_a_flag() {
    let pool = WarmParent::start(config()).unwrap();
    let mut guest = Guest::take(&pool);
    guest.say("spin");
    let begin = Instant::now();
    while guest.handle.cpu_time().unwrap().as_millis() < 50 {
        assert!(begin.elapsed() < CEILING, "no CPU time is counted");
        std::thread::yield_now();
    }
    guest.handle.kill();
    let exit = block_on(guest.handle.wait());
    assert_eq!(exit.status, ExitStatus::Signal(libc::SIGKILL));
    assert!(exit.cpu_time.as_millis() >= 50, "{exit:?}");
    assert!(exit.max_rss_bytes > 0, "{exit:?}");
    assert_eq!(guest.handle.cpu_time(), Some(exit.cpu_time));
}
