//! Programs that never end, eat memory or recurse: the right failure, the next run works, nothing is left behind.

use serde_json::{Value, json};

use crate::support::{Desk, children_of, fixture_row, run_code};

const PROGRAMS: &[(&str, &str, &str)] = &[
    ("while (true) {}", "timeout", "compute limit exceeded"),
    ("while (true) await null", "timeout", "compute limit exceeded"),
    (
        "const a = []; for (;;) a.push(new Array(1e5).fill(1))",
        "worker-exit",
        "memory limit exceeded",
    ),
    (
        "const a: string[] = []; for (;;) a.push('x'.repeat(100_000) + a.length)",
        "worker-exit",
        "memory limit exceeded",
    ),
    (
        "const f = (n: number): number => f(n + 1) + 1; return f(0)",
        "exception",
        "stack",
    ),
    (
        "await new Promise(() => {})",
        "timeout",
        "wall-clock limit exceeded",
    ),
    (
        "void tools.sleep({ ms: 60000 }); for (;;) {}",
        "timeout",
        "compute limit exceeded",
    ),
];

fn config(placement: &str) -> String {
    let row = fixture_row(&["--set", "std"]);
    format!(
        "runtime: {{ placement: {placement}, computeMs: 200, maxWallMs: 5000, maxMemoryMb: 64 }}\nmcpServers:\n  std: {row}\n"
    )
}

#[test]
fn each_ends_in_its_own_way() {
    for placement in ["worker", "thread"] {
        let desk = Desk::new();
        desk.write("toolweave.yml", config(placement));
        for (program, kind, message) in PROGRAMS {
            let outcome = desk.exec(&format!("console.log('before');\n{program}"), &[]);
            assert_eq!(
                outcome["error"]["kind"], *kind,
                "{placement}: {program}: {outcome}"
            );
            let text = outcome["error"]["message"].as_str().expect("a message");
            assert!(text.contains(message), "{placement}: {program}: {text}");
            assert_eq!(outcome["logs"], json!(["before"]), "{placement}: {program}");
        }
    }
}

/// All in one process: the gateway takes one bad program after another, and a good one after each.
#[test]
fn one_gateway_survives_them_all_and_leaves_no_process() {
    let desk = Desk::new();
    desk.write("toolweave.yml", config("worker"));
    let mut client =
        toolweave_testkit::RpcClient::spawn(desk.command(&["serve"])).expect("the gateway starts");
    client.initialize("2025-06-18").expect("it answers");
    for (program, kind, _) in PROGRAMS {
        let result = run_code(&mut client, program);
        assert_eq!(result["isError"], true, "{program}");
        let text = result["content"][0]["text"].as_str().expect("text");
        assert!(
            text.starts_with(&format!("code run failed ({kind})")),
            "{program}: {text}"
        );
        let result = run_code(&mut client, "return 1");
        assert_eq!(result["structuredContent"]["result"], json!(1), "after {program}");
    }
    let pid = client.pid();
    let while_running: Value = json!(children_of(pid).len());
    client.close().expect("it ends when its input ends");
    assert!(
        while_running.as_u64().expect("a count") >= 1,
        "no worker was seen at all"
    );
    assert_eq!(children_of(pid), Vec::<u32>::new());
}
