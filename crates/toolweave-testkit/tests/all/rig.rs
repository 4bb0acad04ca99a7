//! The tool set `rig` and its report.

use std::path::Path;

use serde_json::{Value, json};
use toolweave_testkit::{Answer, Outcome, RigSet, TempDir, ToolSet as _, temp_dir};

use crate::{failure, fixture, value};

fn logged() -> (TempDir, std::path::PathBuf) {
    let dir = temp_dir().unwrap();
    let log = dir.path().join("fix.log");
    (dir, log)
}

fn report(log: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(log).unwrap()).unwrap()
}

#[test]
fn each_tool_does_its_one_thing() {
    let mut client = fixture(&["--set", "rig", "--dummies", "150"]);
    let list = client.request("tools/list", json!({})).unwrap();
    assert_eq!(list["result"]["tools"].as_array().unwrap().len(), 9 + 150);
    let cases = [
        (
            "slow_read",
            json!({"ms": 1, "id": "a"}),
            json!({"id": "a", "ms": 1}),
        ),
        ("slow_write", json!({"ms": 0}), json!({"id": null, "ms": 0})),
        ("sleep", json!({"ms": 2}), json!({"slept": 2})),
        ("big", json!({"chars": 3}), json!({"text": "yyy"})),
        (
            "deep",
            json!({"value": [[{"a": "[["}], []]}),
            json!({"depth": 3, "value": [[{"a": "[["}], []]}),
        ),
        ("deep", json!({"depth": 2}), json!({"depth": 0, "value": [[]]})),
        (
            "echo",
            json!({"any": [1], "thing": null}),
            json!({"got": {"any": [1], "thing": null}}),
        ),
        ("mark", json!({"n": 4}), json!({"marked": 4})),
        (
            "dummy_150",
            json!({"path": "p"}),
            json!({"dummy": 150, "got": {"path": "p"}}),
        ),
    ];
    for (tool, arguments, expected) in cases {
        assert_eq!(
            value(&mut client, tool, arguments.clone()),
            expected,
            "{tool} {arguments}"
        );
    }
    assert_eq!(
        value(&mut client, "big", json!({}))["text"]
            .as_str()
            .unwrap()
            .len(),
        60_000
    );
    assert_eq!(failure(&mut client, "fail", json!({})), "nope");
    assert_eq!(failure(&mut client, "fail", json!({"message": "m"})), "m");
    assert_eq!(
        client.call("dummy_151", json!({})).unwrap()["error"]["code"],
        -32602
    );

    let picture = client.call("img", json!({})).unwrap();
    let content = picture["result"]["content"].as_array().unwrap();
    assert_eq!(
        content[0],
        json!({"type": "text", "text": "a picture of one pixel"})
    );
    assert_eq!(
        (&content[1]["type"], &content[1]["mimeType"]),
        (&json!("image"), &json!("image/png"))
    );
    assert_eq!(picture["result"].get("structuredContent"), None);
}

#[test]
fn overlapping_calls_are_answered_as_they_end_and_counted() {
    let (_dir, log) = logged();
    let mut client = fixture(&["--set", "rig", "--log", log.to_str().unwrap()]);
    let mut ids = Vec::new();
    for (id, ms) in [(1, 2000), (2, 1000), (3, 10)] {
        let params = json!({"name": "slow_read", "arguments": {"id": id, "ms": ms}});
        ids.push(client.send("tools/call", params).unwrap());
    }
    client.wait(ids[0]).unwrap();
    let earlier: Vec<u64> = client
        .others
        .iter()
        .map(|answer| answer["id"].as_u64().unwrap())
        .collect();
    assert_eq!(earlier, [ids[2], ids[1]]);

    let seen = report(&log);
    assert_eq!(
        (&seen["peak"], &seen["writeOverlapped"], &seen["totalCalls"]),
        (&json!(3), &json!(false), &json!(3))
    );
    let calls = seen["calls"].as_array().unwrap();
    for (call, id) in calls.iter().zip(1..) {
        assert_eq!(call["arguments"]["id"], id);
        assert!(call["endMs"].as_f64().unwrap() >= call["startMs"].as_f64().unwrap());
        assert_eq!(call["cancelled"], false);
    }
    assert!(calls[0]["endMs"].as_f64() > calls[1]["endMs"].as_f64());

    let write = client
        .send(
            "tools/call",
            json!({"name": "slow_write", "arguments": {"ms": 2000}}),
        )
        .unwrap();
    value(&mut client, "slow_read", json!({"ms": 0}));
    client.wait(write).unwrap();
    assert_eq!(report(&log)["writeOverlapped"], true);
}

#[test]
fn a_cancelled_call_is_noted_and_never_answered() {
    let (_dir, log) = logged();
    let mut client = fixture(&["--set", "rig", "--log", log.to_str().unwrap()]);
    let call = json!({"name": "slow_write", "arguments": {"id": 7, "ms": 600_000}});
    let id = client.send("tools/call", call).unwrap();
    client
        .notify(
            "notifications/cancelled",
            json!({"requestId": id, "reason": "enough"}),
        )
        .unwrap();
    client
        .notify("notifications/cancelled", json!({"requestId": 12345}))
        .unwrap();
    client.notify("notifications/cancelled", json!({})).unwrap();

    // The call ends on its own thread; ask until it has.
    let end = std::time::Instant::now() + client.patience;
    while report(&log)["cancelled"] == json!([]) {
        assert!(std::time::Instant::now() < end, "the call was not cancelled");
        client.request("ping", json!({})).unwrap();
    }
    let seen = report(&log);
    assert_eq!(seen["cancelled"], json!([7]));
    assert_eq!(
        (&seen["calls"][0]["cancelled"], &seen["calls"][0]["tool"]),
        (&json!(true), &json!("slow_write"))
    );
    assert!(client.others.is_empty(), "{:?}", client.others);
    assert_eq!(client.close().unwrap().code(), Some(0));
}

#[test]
fn the_report_tells_what_arrived() {
    let (_dir, log) = logged();
    let mut client = fixture(&["--set", "rig", "--log", log.to_str().unwrap()]);
    for n in [3, 1, 2] {
        value(&mut client, "mark", json!({"n": n}));
    }
    let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    client
        .send_line(&format!(
            r#"{{"jsonrpc":"2.0","id":99,"method":"tools/call","params":{{"name":"deep","arguments":{{"value":{deep}}}}}}}"#
        ))
        .unwrap();
    let answer = client.receive_line().unwrap();
    assert!(answer.contains(&format!(r#""structuredContent":{{"depth":5000,"value":{deep}}}"#)));
    value(&mut client, "echo", json!({"large": "x".repeat(70_000)}));

    let seen = report(&log);
    assert_eq!(
        (&seen["marks"], &seen["depth"], &seen["peak"]),
        (&json!([3, 1, 2]), &json!(5000), &json!(1))
    );
    let arguments: Vec<&Value> = seen["calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| &call["arguments"])
        .collect();
    assert_eq!(
        arguments,
        [
            &json!({"n": 3}),
            &json!({"n": 1}),
            &json!({"n": 2}),
            &json!({"omittedBytes": 10_010}),
            &json!({"omittedBytes": 70_012})
        ]
    );
    let methods: Vec<&str> = seen["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["method"].as_str().unwrap())
        .collect();
    assert_eq!(
        methods[..3],
        ["initialize", "notifications/initialized", "tools/call"]
    );
    assert_eq!(methods.len(), 7);
}

#[test]
fn the_report_is_complete_at_the_end_of_many_calls() {
    let (_dir, log) = logged();
    let mut client = fixture(&["--set", "rig", "--log", log.to_str().unwrap()]);
    let ids: Vec<u64> = (0..1000)
        .map(|n| {
            client
                .send("tools/call", json!({"name": "mark", "arguments": {"n": n}}))
                .unwrap()
        })
        .collect();
    for id in ids {
        client.wait(id).unwrap();
    }
    client.close().unwrap();
    let seen = report(&log);
    assert_eq!(seen["marks"], Value::from((0..1000).collect::<Vec<_>>()));
    assert!(
        seen["calls"]
            .as_array()
            .unwrap()
            .iter()
            .all(|call| call["endMs"].is_f64())
    );
}

#[test]
fn a_deep_value_is_made_without_being_walked() {
    let made = RigSet::default().call("deep", r#"{"depth":100000}"#);
    let value = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(
        made,
        Some(Answer::Now(Outcome::Value(format!(
            "{{\"depth\":0,\"value\":{value}}}"
        ))))
    );
}
