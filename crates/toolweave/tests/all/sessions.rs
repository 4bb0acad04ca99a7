//! What happened can be read afterwards.

use std::path::PathBuf;

use serde_json::Value;

use crate::support::{Desk, fixture_row};

fn logs(desk: &Desk) -> Vec<PathBuf> {
    let folder = desk.folder.path().join(".local/state/toolweave/sessions");
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut logs: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    logs.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    logs
}

#[test]
fn every_started_call_is_recorded_with_its_settling() {
    let desk = Desk::new();
    desk.write(
        "toolweave.yml",
        format!("mcpServers:\n  std: {}\n", fixture_row(&["--set", "std"])),
    );
    let outcome = desk.exec(
        "await Promise.all([tools.add({ a: 1, b: 2 }), tools.echo({ value: 'marker' })]);
         await tools.fail({ message: 'no' }).catch(() => 0);
         try { await (tools as any).add({ a: 'x' }) } catch {}
         return 1",
        &[],
    );
    assert_eq!(outcome["ok"], true, "{outcome}");
    let logs = logs(&desk);
    assert_eq!(logs.len(), 1);
    let text = std::fs::read_to_string(&logs[0]).expect("a log");
    let events: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    for (index, event) in events.iter().enumerate() {
        assert_eq!(event["seq"], index + 1);
    }
    let of = |kind: &str| -> Vec<&Value> { events.iter().filter(|event| event["type"] == kind).collect() };
    let starts = of("tool/code-dispatch-start");
    let settles = of("tool/code-dispatch");
    let ids = |events: &[&Value]| -> Vec<String> {
        events
            .iter()
            .map(|event| event["subCallId"].as_str().expect("an id").to_owned())
            .collect()
    };
    assert_eq!(ids(&starts), ["exec:code:1", "exec:code:2", "exec:code:3"]);
    assert_eq!(ids(&settles), ids(&starts));
    assert_eq!(starts[1]["arguments"], serde_json::json!({"value": "marker"}));
    assert_eq!(settles[2]["isError"], true, "{}", settles[2]);
    assert!(settles[1]["content"].to_string().contains("marker"));
    assert_eq!(of("program/run").len(), 1, "{text}");
}

#[test]
fn recording_can_be_switched_off() {
    let desk = Desk::new();
    desk.write("toolweave.yml", "sessions: { record: false }\n");
    assert_eq!(desk.run(&["exec", "-e", "return 1"]).out, "1\n");
    assert_eq!(logs(&desk), Vec::<PathBuf>::new());
    desk.write("toolweave.yml", "sessions: { folder: ./logs }\n");
    assert_eq!(desk.run(&["exec", "-e", "return 1"]).out, "1\n");
    assert_eq!(
        std::fs::read_dir(desk.path().join("logs"))
            .expect("a folder")
            .count(),
        1
    );
    // A log that cannot be written is no reason not to work.
    desk.write("file", "");
    desk.write("toolweave.yml", "sessions: { folder: ./file/logs }\n");
    let ran = desk.run(&["exec", "-e", "return 1"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "1\n"));
    assert!(ran.err.contains("nothing is recorded"), "{}", ran.err);
}
