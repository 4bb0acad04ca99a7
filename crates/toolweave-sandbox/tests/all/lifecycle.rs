//! Starting, standing by, dying, and what is left afterwards: nothing.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use crate::harness::{Guest, block_on, config, eventually, is_root, state_of, status_field, worker_program};
use std::{
    io::{BufRead, BufReader, Write},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    process::{Command, Stdio},
    time::Duration,
};
use toolweave_sandbox::{Child, ExitStatus, SandboxError, WarmConfig, WarmParent};

/// Runs a host in a process of its own: what one leaves behind can be counted only where nothing else runs.
#[expect(clippy::disallowed_methods, reason = "tests start hosts")]
fn host_program() -> Command {
    Command::new(worker_program())
}

fn children_of(pid: i32) -> Vec<i32> {
    let mut children = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap() {
        let Ok(child) = entry.unwrap().file_name().to_string_lossy().parse::<i32>() else {
            continue;
        };
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{child}/stat")) else {
            continue;
        };
        let parent = stat
            .rsplit_once(") ")
            .and_then(|(_, rest)| rest.split(' ').nth(1)?.parse::<i32>().ok());
        if parent == Some(pid) {
            children.push(child);
        }
    }
    children
}

/// Finds the warm parent of a child: the leader of its session.
fn warm_parent_of(child: i32) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or(String::from(") Z 0 0 0 "));
    stat.rsplit_once(") ")
        .unwrap()
        .1
        .split(' ')
        .nth(3)
        .unwrap()
        .parse()
        .unwrap()
}

fn kill(pid: i32) {
    #[expect(unsafe_code, reason = "tests kill processes that they started")]
    // SAFETY: kill touches no memory.
    let result = unsafe { libc::kill(pid, libc::SIGKILL) };
    assert_eq!(result, 0, "kill {pid}");
}

#[test]
fn children_are_the_hosts_own_and_not_the_warm_parents() {
    let pool = WarmParent::start(config()).unwrap();
    let guest = Guest::take(&pool);
    let host = std::process::id().to_string();
    assert_eq!(status_field(guest.handle.pid(), "PPid"), host);
    assert_eq!(status_field(warm_parent_of(guest.handle.pid()), "PPid"), host);
    assert_ne!(warm_parent_of(guest.handle.pid()), guest.handle.pid());
}

#[test]
fn a_child_lives_on_without_its_warm_parent_and_the_next_take_works() {
    for standbys in [0, 2] {
        let pool = WarmParent::start(WarmConfig { standbys, ..config() }).unwrap();
        for _ in 0..3 {
            let mut guest = Guest::take(&pool);
            let warm = warm_parent_of(guest.handle.pid());
            kill(warm);
            eventually("the warm parent is reaped", || state_of(warm).is_none());
            assert_eq!(guest.ask("ping"), "pong");
            // Old standbys come first; then those of the new warm parent.
            eventually("children of a new warm parent come", || {
                let mut next = Guest::take(&pool);
                assert_eq!(next.ask("ping"), "pong");
                warm_parent_of(next.handle.pid()) != warm
            });
            assert_eq!(guest.end("exit 3").status, ExitStatus::Code(3));
        }
    }
}

#[test]
fn a_standby_that_was_killed_is_not_handed_out() {
    let pool = WarmParent::start(WarmConfig {
        standbys: 2,
        ..config()
    })
    .unwrap();
    let warm = warm_parent_of(Guest::take(&pool).handle.pid());
    let host = std::process::id().cast_signed();
    for _ in 0..5 {
        for child in children_of(host) {
            if child != warm && state_of(child).is_some() && warm_parent_of(child) == warm {
                kill(child);
                eventually("it is dead", || matches!(state_of(child), None | Some('Z')));
            }
        }
        assert_eq!(Guest::take(&pool).ask("ping"), "pong");
    }
}

#[test]
fn a_pool_that_is_shut_down_takes_everything_with_it() {
    let pool = WarmParent::start(WarmConfig {
        standbys: 3,
        ..config()
    })
    .unwrap();
    let mut guests: Vec<Guest> = (0..3).map(|_| Guest::take(&pool)).collect();
    let warm = warm_parent_of(guests[0].handle.pid());
    guests[0].say("spin");
    guests[1].say("sleep");
    let other = pool.clone();
    block_on(pool.shutdown());
    assert_eq!(state_of(warm), None);
    for guest in &guests {
        assert_eq!(state_of(guest.handle.pid()), None);
        assert_eq!(
            block_on(guest.handle.wait()).status,
            ExitStatus::Signal(libc::SIGKILL)
        );
    }
    assert!(matches!(block_on(other.take()), Err(SandboxError::Closed)));
    block_on(other.shutdown());
}

#[test]
fn dropping_the_pool_ends_it() {
    let pool = WarmParent::start(WarmConfig {
        standbys: 1,
        ..config()
    })
    .unwrap();
    let guest = Guest::take(&pool);
    let warm = warm_parent_of(guest.handle.pid());
    drop(pool);
    assert_eq!(
        block_on(guest.handle.wait()).status,
        ExitStatus::Signal(libc::SIGKILL)
    );
    eventually("the warm parent is gone", || state_of(warm).is_none());
}

#[test]
fn a_host_that_is_killed_takes_all_children_with_it() {
    let mut host = host_program()
        .args(["host", "6"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines: Vec<String> = BufReader::new(host.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok)
        .take_while(|line| line != "end")
        .collect();
    let children: Vec<i32> = lines.iter().map(|line| line.parse().unwrap()).collect();
    assert_eq!(children.len(), 6);
    let everything = children_of(host.id().cast_signed());
    assert!(
        children.iter().all(|child| everything.contains(child)),
        "{children:?} {everything:?}"
    );
    host.kill().unwrap();
    host.wait().unwrap();
    for pid in everything {
        // Whoever adopts them may leave a zombie; that is not ours any more, and it runs nothing.
        eventually("a child of a dead host is gone", || {
            matches!(state_of(pid), None | Some('Z' | 'X'))
        });
    }
}

#[test]
fn warm_parents_that_are_killed_in_the_middle_of_their_work_leave_nothing_behind() {
    let pool = WarmParent::start(WarmConfig {
        standbys: 4,
        ..config()
    })
    .unwrap();
    let mut sessions = std::collections::BTreeSet::new();
    for _ in 0..30 {
        // One take that waits for a fork, and several that were asked for and not waited for.
        let mut takes: Vec<_> = (0..8).map(|_| Box::pin(pool.take())).collect();
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        for take in &mut takes {
            drop(take.as_mut().poll(&mut context));
        }
        let guest = Guest::take(&pool);
        let warm = warm_parent_of(guest.handle.pid());
        if sessions.insert(warm) {
            kill(warm);
        }
    }
    block_on(pool.shutdown());
    let left: Vec<i32> = children_of(std::process::id().cast_signed())
        .into_iter()
        .filter(|child| state_of(*child).is_some() && sessions.contains(&warm_parent_of(*child)))
        .collect();
    assert_eq!(left, []);
    assert!(sessions.len() > 3, "{sessions:?}");
}

#[test]
fn a_take_that_is_given_up_costs_nothing() {
    let pool = WarmParent::start(config()).unwrap();
    for _ in 0..20 {
        let mut take = std::pin::pin!(pool.take());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        // Ready at once where a child for an earlier, abandoned one has come in the meantime.
        drop(take.as_mut().poll(&mut context));
    }
    assert_eq!(Guest::take(&pool).ask("ping"), "pong");
}

#[test]
fn five_hundred_children_leave_no_zombie_and_no_descriptor() {
    // In a host of its own, where nothing else opens and forks.
    let mut host = host_program()
        .arg("check")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = host.id().cast_signed();
    let mut input = host.stdin.take().unwrap();
    let mut output = BufReader::new(host.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let descriptors = || std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let mut talk = |rounds: usize| {
        for round in 0..rounds {
            let (command, answer) = [
                ("exit 9", "exit 9: exit code 9"),
                ("socket", "socket: tried a forbidden system call (SIGSYS)"),
                ("ping", "ping: pong, exit code 0"),
                ("abort", "abort: aborted (SIGABRT)"),
            ][round % 4];
            writeln!(input, "{command}").unwrap();
            line.clear();
            output.read_line(&mut line).unwrap();
            assert_eq!(line.trim_end(), answer);
        }
    };
    talk(20);
    eventually("the pool is at rest", || {
        children_of(pid).iter().all(|child| state_of(*child) == Some('S'))
    });
    let (children, open) = (children_of(pid).len(), descriptors());
    talk(500);
    // The warm parent, and as many standbys as shortages allow: each is one process and one socket.
    eventually("no more than before is left", || {
        let left = children_of(pid);
        let extra = left.len().saturating_sub(children);
        left.iter().all(|child| state_of(*child) != Some('Z')) && extra <= 6 && descriptors() <= open + extra
    });
    drop(input);
    assert!(host.wait().unwrap().success());
}

#[test]
fn many_at_once_work_and_all_end() {
    let pool = WarmParent::start(WarmConfig {
        standbys: 2,
        ..config()
    })
    .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let children: Vec<Child> = runtime.block_on(async {
        let mut takes: Vec<_> = (0..100).map(|_| Box::pin(pool.take())).collect();
        let mut children = Vec::new();
        for take in &mut takes {
            children.push(take.await.unwrap());
        }
        children
    });
    let pids: Vec<i32> = children.iter().map(Child::pid).collect();
    let mut guests: Vec<Guest> = children.into_iter().map(Guest::new).collect();
    for guest in &mut guests {
        guest.say("ping");
    }
    drop(guests);
    for pid in pids {
        eventually("a dropped child is reaped", || state_of(pid).is_none());
    }
}

#[test]
fn reap_waits_for_an_end_by_itself() {
    let pool = WarmParent::start(config()).unwrap();
    // The end of the connection is what tells this worker to end.
    let child = block_on(pool.take()).unwrap();
    assert_eq!(block_on(child.reap()).status, ExitStatus::Code(0));
}

#[test]
fn a_host_that_inherited_an_ignored_sigchld_still_learns_how_children_end() {
    #[expect(clippy::disallowed_methods, reason = "tests start hosts")]
    let mut host = Command::new("/bin/sh")
        .args(["-c", "trap '' CHLD; exec \"$0\" check"])
        .arg(worker_program())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    host.stdin.take().unwrap().write_all(b"exit 9\n").unwrap();
    let output = String::from_utf8(host.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(output.lines().last(), Some("exit 9: exit code 9"));
}

#[test]
fn handles_go_to_any_thread_and_any_executor() {
    fn anywhere<T: Send + Sync + 'static>() {}
    fn sendable<T: Send>(_: &T) {}
    anywhere::<WarmParent>();
    anywhere::<Child>();
    anywhere::<toolweave_sandbox::ChildHandle>();
    let pool = WarmParent::start(config()).unwrap();
    let take = pool.take();
    sendable(&take);
    let (_socket, handle) = block_on(take).unwrap().split();
    sendable(&handle.wait());
    sendable(&pool.shutdown());
}

#[test]
fn an_ordinary_user_gets_the_whole_lockdown() {
    if !is_root() {
        eprintln!(
            "skipped: only root can become another user; the other tests run as an ordinary user already"
        );
        return;
    }
    // The program has to lie where that user can reach it.
    let place = std::env::temp_dir().join(format!("toolweave-sandbox-test-{}", std::process::id()));
    std::fs::create_dir(&place).unwrap();
    std::fs::set_permissions(&place, PermissionsExt::from_mode(0o755)).unwrap();
    let program = place.join("worker");
    std::fs::copy(worker_program(), &program).unwrap();
    #[expect(clippy::disallowed_methods, reason = "tests start hosts")]
    let mut host = Command::new(&program)
        .arg("check")
        .uid(65534)
        .gid(65534)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let commands = "ping\nopen /etc/passwd\nfork\nsocket\nhost: read environ\nhost: read maps\n";
    host.stdin.take().unwrap().write_all(commands.as_bytes()).unwrap();
    let output = host.wait_with_output().unwrap();
    std::fs::remove_dir_all(&place).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (report, rest) = text.split_once('\n').unwrap();
    assert!(
        report.ends_with("not-dumpable, resource-limits, seccomp"),
        "{report}"
    );
    let forbidden = "tried a forbidden system call (SIGSYS)";
    assert_eq!(
        rest,
        format!(
            "ping: pong, exit code 0\nopen /etc/passwd: {forbidden}\nfork: {forbidden}\nsocket: {forbidden}\n\
             host: read environ: refused: EACCES\nhost: read maps: refused: EACCES\n"
        )
    );
}

#[test]
fn a_worker_that_never_becomes_ready_is_given_up() {
    let args = vec!["worker".into(), "slow".into()];
    let start_timeout = Duration::from_millis(300);
    let reason = WarmParent::start(WarmConfig {
        args,
        start_timeout,
        ..config()
    })
    .unwrap_err()
    .to_string();
    assert!(
        reason.ends_with("did not become ready: it was not ready within 300ms"),
        "{reason}"
    );
}
