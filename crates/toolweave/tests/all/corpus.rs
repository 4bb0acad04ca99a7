//! Programs as models write them, through the real binary and a real upstream, in both placements.

use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use toolweave_testkit::{Program, corpus_dir, load_programs, sidecar_matches};

use crate::support::{Desk, fixture_row};

/// Programs whose sidecar proposes one of several honest behaviours, and where ours is another one: what holds instead.
const OUR_CHOICES: &[(&str, &str)] = &[(
    // A call without an argument means `{}`.
    "119-call-without-argument",
    r#"{"ok": true, "result": "2026-03-15T08:00:00.000Z"}"#,
)];

#[test]
fn every_program_gives_its_outcome_in_a_worker() {
    if cfg!(target_os = "linux") {
        all_programs("placement: worker", &[]);
    }
}

#[test]
fn every_program_gives_its_outcome_in_a_thread() {
    all_programs("placement: thread", &[]);
}

#[test]
fn every_program_gives_its_outcome_on_v8() {
    if let Some(node) = usable_node() {
        // `Object.groupBy` came with Node 21; an older one lacks it.
        let beyond: &[&str] = if node < 21 {
            &["112-ticket-report-join"]
        } else {
            &[]
        };
        all_programs("engine: v8", beyond);
    }
}

/// Returns the major version of the Node on the search path, if the engine can use it.
fn usable_node() -> Option<u32> {
    let output = std::process::Command::new("node").arg("--version").output();
    let version = output
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        .unwrap_or_default();
    let major = version
        .trim()
        .trim_start_matches('v')
        .split('.')
        .next()
        .and_then(|major| major.parse::<u32>().ok());
    let usable = major.filter(|major| cfg!(target_os = "linux") && *major >= 20);
    if usable.is_none() {
        #[expect(
            clippy::print_stderr,
            reason = "the reason of a skipped test belongs into its output"
        )]
        {
            eprintln!("skipped: no Node 20 or later on a Linux system");
        }
    }
    usable
}

fn all_programs(runtime: &str, beyond: &[&str]) {
    let Some(folder) = corpus_dir(env!("CARGO_MANIFEST_DIR")) else {
        return;
    };
    let mut programs = load_programs(&folder).expect("a well-formed corpus");
    assert_eq!(programs.len(), 128, "the corpus changed");
    programs.retain(|program| !beyond.contains(&program.name.as_str()));
    let data = folder.join("std-tools.json");
    let data = data.to_str().expect("UTF-8");
    let wrong = Mutex::new(Vec::new());
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(program) = programs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(why) = one_program(program, runtime, data) {
                        wrong
                            .lock()
                            .expect("no panic")
                            .push(format!("{}: {why}", program.name));
                    }
                }
            });
        }
    });
    let mut wrong = wrong.into_inner().expect("no panic");
    wrong.sort();
    assert!(
        wrong.is_empty(),
        "{} of {} programs:\n{}",
        wrong.len(),
        programs.len(),
        wrong.join("\n")
    );
}

fn one_program(program: &Program, runtime: &str, data: &str) -> Result<(), String> {
    let desk = Desk::new();
    let limits = program.sidecar.limits;
    let mut config = format!("runtime:\n  {runtime}\n");
    let limits = [
        ("computeMs", limits.compute_ms),
        ("maxWallMs", limits.max_wall_ms),
        ("maxMemoryMb", limits.max_memory_mb),
        ("maxOutputBytes", limits.max_output_bytes),
    ];
    for (name, value) in limits {
        if let Some(value) = value {
            let _ = writeln!(config, "  {name}: {value}");
        }
    }
    let row = fixture_row(&["--set", "std", "--data", data]);
    let _ = writeln!(config, "mcpServers:\n  std: {row}");
    desk.write("toolweave.yml", config);
    let ran = desk.run(&["exec", "--json", program.path.to_str().expect("UTF-8")]);
    let expected_code = i32::from(!ran.out.starts_with("{\"ok\":true"));
    if ran.code != Some(expected_code) {
        return Err(format!("exit code {:?}: {} {}", ran.code, ran.out, ran.err));
    }
    let ours = OUR_CHOICES.iter().find(|(name, _)| *name == program.name);
    match ours {
        Some((_, expect)) => {
            let expect = serde_json::from_str(expect).expect("an expectation");
            sidecar_matches(&expect, &ran.out)
        }
        None => sidecar_matches(&program.sidecar.expect, &ran.out),
    }
}
