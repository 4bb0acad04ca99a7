//! Processes that are no compiler, or one that fails.

#![cfg(unix)]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use toolweave_typecheck::{CheckPrograms as _, Compiler, Missing, Policy, TypeChecker, Unchecked};

use crate::support::{checker, declarations};

/// Makes a checker whose compiler is a shell script.
fn script(folder: &Path, body: &str) -> TypeChecker {
    let path = folder.join("tsc");
    std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).expect("a usable file");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a usable file");
    let path_value = ("PATH".into(), "/usr/bin:/bin".into());
    TypeChecker::new(
        Compiler::at(&path).expect("a usable file"),
        vec![path_value],
        Policy::Auto,
    )
    .with_cap(Duration::from_millis(1_500))
}

const RIGHT_VERSION: &str = "if [ \"$1\" = --version ]; then echo Version 7.0.2; exit; fi";

#[tokio::test]
async fn what_is_no_compiler_is_named_and_not_waited_for() {
    let right = |rest: &str| format!("{RIGHT_VERSION}\n{rest}");
    let cases = [
        ("echo Version 5.9.3".to_owned(), "TypeScript 5.9.3 is too old"),
        ("echo hello".to_owned(), "does not tell its version"),
        ("exit 3".to_owned(), "does not tell its version"),
        (right("exit 1"), "failed"),
        (right("echo garbage; sleep 60"), "something else than messages"),
        (
            right("printf 'Content-Length: 99999999999\\r\\n\\r\\n'; sleep 60"),
            "too large",
        ),
        (
            right("printf 'Content-Length: 5\\r\\n\\r\\nhello'; sleep 60"),
            "unknown form",
        ),
        (
            right("head -c 10000 /dev/zero | tr '\\0' a; sleep 60"),
            "too long",
        ),
        (right("sleep 60"), "given up"),
        (right("yes | head -c 100000000"), "something else than messages"),
        ("sleep 60".to_owned(), "given up"),
    ];
    for (body, expected) in cases {
        let folder = tempfile::tempdir().expect("a usable file");
        let checker = script(folder.path(), &body);
        let started = Instant::now();
        for _ in 0..2 {
            let error = checker.check(&declarations(), "return 1;").await.unwrap_err();
            assert!(error.to_string().contains(expected), "{body}: {error}");
        }
        assert!(started.elapsed() < Duration::from_secs(60), "{body}");
    }
}

#[tokio::test]
async fn a_process_that_is_killed_takes_what_it_started_with_it() {
    let folder = tempfile::tempdir().expect("a usable file");
    let pids = folder.path().join("pids");
    let body = format!(
        "{RIGHT_VERSION}\nsleep 600 & echo $! >> {0}\necho $$ >> {0}\nwait",
        pids.display()
    );
    let checker = script(folder.path(), &body);
    let error = checker.check(&declarations(), "return 1;").await.unwrap_err();
    assert!(matches!(error, Unchecked::TimedOut(_)), "{error}");
    drop(checker);
    // The start went on in the background as long as somebody was there to use it.
    let started = Instant::now();
    loop {
        let written = std::fs::read_to_string(&pids).expect("a usable file");
        let alive = written.lines().filter(|pid| is_alive(pid)).count();
        if alive == 0 {
            return;
        }
        assert!(started.elapsed() < Duration::from_secs(15), "{alive} are left");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn is_alive(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[tokio::test]
async fn a_compiler_that_died_is_started_again() {
    let Some(checker) = checker() else { return };
    let wrong = "await tools.read_doc({ id: 5 });";
    assert_eq!(
        checker
            .check(&declarations(), wrong)
            .await
            .expect("a usable file")
            .len(),
        1
    );
    let own = std::process::id().to_string();
    let children = std::fs::read_dir("/proc").map_or_else(
        |_| Vec::new(),
        |entries| {
            entries
                .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
                .filter(|pid| is_compiler_of(pid, &own))
                .collect()
        },
    );
    for pid in children {
        #[expect(
            clippy::disallowed_methods,
            reason = "the test kills the process that it started"
        )]
        let _ = std::process::Command::new("kill").args(["-9", &pid]).status();
    }
    let again = format!("{wrong} // again");
    let mut outcome = checker.check(&declarations(), &again).await;
    // One that is found dead midway is reported once.
    if outcome.is_err() {
        outcome = checker.check(&declarations(), &again).await;
    }
    assert_eq!(outcome.expect("a usable file").len(), 1);
}

fn is_compiler_of(pid: &str, parent: &str) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    let fields = stat.rsplit(") ").next().unwrap_or_default();
    stat.contains("(tsc)") && fields.split(' ').nth(1) == Some(parent)
}

#[tokio::test]
async fn checks_wait_for_each_other_and_a_dropped_one_harms_nobody() {
    let Some(checker) = checker() else { return };
    let declarations = declarations();
    checker
        .check(&declarations, "return 1;")
        .await
        .expect("a usable file");
    let checks = (0..20).map(|n| {
        let (checker, declarations) = (checker.clone(), declarations.clone());
        async move {
            let program = format!("await tools.read_doc({{ id: {n} }});");
            checker
                .check(&declarations, &program)
                .await
                .map(|complaints| complaints.len())
        }
    });
    let dropped = tokio::time::timeout(
        Duration::ZERO,
        checker.check(&declarations, "await tools.read_doc({ id: 99 });"),
    );
    let _ = dropped.await;
    let all = futures_util::future::join_all(checks).await;
    assert_eq!(all, vec![Ok(1); 20]);
}

#[tokio::test]
async fn a_compiler_that_is_required_and_missing_is_named() {
    let missing = Missing::new("there is none; install it");
    assert_eq!(missing.policy(), Policy::Required);
    assert_eq!(
        missing.check(&declarations(), "return 1;").await,
        Err(Unchecked::NoCompiler("there is none; install it".to_owned()))
    );
}
