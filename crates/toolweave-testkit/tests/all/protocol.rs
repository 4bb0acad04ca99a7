//! The protocol, and the ways in which the server breaks it on request.

use std::time::Duration;

use serde_json::{Value, json};
use toolweave_testkit::{ClientError, fixture_bin};

use crate::{fixture, raw_fixture, value};

#[test]
fn initialize_settles_on_a_version_that_both_know() {
    for (asked, settled) in [
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("x", "2025-11-25"),
    ] {
        let answer = raw_fixture(&[]).initialize(asked).unwrap();
        assert_eq!(
            answer["result"],
            json!({
                "protocolVersion": settled,
                "capabilities": {"tools": {"listChanged": false}},
                "serverInfo": {"name": "toolweave-fixture", "version": env!("CARGO_PKG_VERSION")},
            })
        );
    }
}

#[test]
fn requests_that_make_no_sense_are_refused_one_by_one() {
    let mut client = fixture(&[]);
    let mut code =
        |method: &str, params: Value| client.request(method, params).unwrap()["error"]["code"].clone();
    assert_eq!(code("server/discover", json!({})), -32601);
    assert_eq!(code("tools/call", json!({"name": "nothing"})), -32602);
    assert_eq!(code("tools/call", json!({})), -32602);
    assert_eq!(code("initialize", json!({})), -32602);
    client.send_line("{nonsense").unwrap();
    let refusal: Value = serde_json::from_str(&client.receive_line().unwrap()).unwrap();
    assert_eq!(
        (&refusal["id"], &refusal["error"]["code"]),
        (&Value::Null, &json!(-32700))
    );
    client.send_line("").unwrap();
    client
        .send_line(r#"{"jsonrpc":"2.0","id":"text id","method":"ping"}"#)
        .unwrap();
    assert_eq!(
        client.receive_line().unwrap(),
        r#"{"jsonrpc":"2.0","id":"text id","result":{}}"#
    );
    assert_eq!(client.close().unwrap().code(), Some(0));
}

#[test]
fn pages_add_up_to_the_whole_list() {
    let whole = fixture(&[]).request("tools/list", json!({})).unwrap();
    assert_eq!(whole["result"].get("nextCursor"), None);
    let whole = whole["result"]["tools"].as_array().unwrap().clone();
    assert_eq!(whole.len(), 16);

    for (page, sizes) in [("5", vec![5, 5, 5, 1]), ("8", vec![8, 8]), ("100", vec![16])] {
        let mut client = fixture(&["--page", page]);
        let (mut all, mut found, mut params) = (Vec::new(), Vec::new(), json!({}));
        loop {
            let answer = client.request("tools/list", params).unwrap();
            let tools = answer["result"]["tools"].as_array().unwrap();
            found.push(tools.len());
            all.extend(tools.iter().cloned());
            match answer["result"].get("nextCursor") {
                Some(cursor) => params = json!({"cursor": cursor}),
                None => break,
            }
        }
        assert_eq!((found, all), (sizes, whole.clone()));
        for cursor in ["from:16", "from:x", "5", ""] {
            let refused = client.request("tools/list", json!({"cursor": cursor})).unwrap();
            assert_eq!(
                refused["error"],
                json!({"code": -32602, "message": format!("unknown cursor: {cursor}")})
            );
        }
    }
}

#[test]
fn a_banner_surrounds_every_message() {
    let mut client = fixture(&["--banner"]);
    assert_eq!(
        value(&mut client, "add", json!({"a": 1, "b": 2})),
        json!({"sum": 3})
    );
    assert_eq!(
        client.noise,
        [
            "fixture server starting [not JSON]",
            "fixture: still here {",
            "fixture: still here {"
        ]
    );
}

#[test]
fn an_initialize_that_hangs_leaves_the_rest_alone() {
    let mut client = raw_fixture(&["--hang-initialize"]);
    client.patience = Duration::from_millis(200);
    assert!(matches!(
        client.initialize("2025-11-25"),
        Err(ClientError::TimedOut(1))
    ));
    client.patience = Duration::from_secs(60);
    assert_eq!(client.request("ping", json!({})).unwrap()["result"], json!({}));
}

#[test]
fn a_server_ends_after_so_many_calls() {
    let mut client = fixture(&["--exit-after", "2"]);
    value(&mut client, "kv_list", json!({}));
    value(&mut client, "kv_list", json!({}));
    assert!(matches!(
        client.call("kv_list", json!({})),
        Err(ClientError::Closed)
    ));
    assert_eq!(client.exit().unwrap().code(), Some(3));
}

#[test]
fn impossible_schemas_stand_beside_good_ones() {
    let mut client = fixture(&["--bad-schema", "--set", "rig"]);
    let list = client.request("tools/list", json!({})).unwrap();
    let tools = list["result"]["tools"].as_array().unwrap();
    let bad: Vec<(&str, Option<&Value>)> = tools
        .iter()
        .map(|tool| (tool["name"].as_str().unwrap(), tool.get("inputSchema")))
        .filter(|(name, _)| name.starts_with("bad_"))
        .collect();
    assert_eq!(
        bad.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        ["bad_text", "bad_ref", "bad_type", "bad_none"]
    );
    assert_eq!((bad[0].1, bad[3].1), (Some(&json!("nothing")), None));
    assert!(tools.iter().any(|tool| tool["name"] == "echo"));
    assert_eq!(
        value(&mut client, "bad_none", json!({})),
        json!({"called": "bad_none"})
    );
}

#[test]
fn unknown_arguments_are_refused() {
    for arguments in [
        &["--sat"][..],
        &["--page", "many"],
        &["--log"],
        &["--set", "other"],
        &["--data", "/nowhere"],
    ] {
        assert_eq!(
            raw_fixture(arguments).exit().unwrap().code(),
            Some(2),
            "{arguments:?}"
        );
    }
}

#[test]
fn other_crates_find_the_program_too() {
    let found = fixture_bin().unwrap().canonicalize().unwrap();
    let expected = std::path::Path::new(env!("CARGO_BIN_EXE_toolweave-fixture"))
        .canonicalize()
        .unwrap();
    assert_eq!(found, expected);
}
