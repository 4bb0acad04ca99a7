//! `toolweave serve`, spoken to line by line.

use serde_json::json;
use toolweave_testkit::RpcClient;

use crate::support::{Desk, call, children_of, fixture_row, result, run_code};

fn gateway(desk: &Desk, more: &[&str]) -> RpcClient {
    let mut arguments = vec!["serve"];
    arguments.extend_from_slice(more);
    let mut client = RpcClient::spawn(desk.command(&arguments)).expect("the gateway starts");
    client.initialize("2025-06-18").expect("it answers");
    client
}

fn std_desk() -> Desk {
    let desk = Desk::new();
    desk.write(
        "toolweave.yml",
        format!("mcpServers:\n  std: {}\n", fixture_row(&["--set", "std"])),
    );
    desk
}

#[test]
fn code_mode_offers_one_tool_with_the_sdk_inside() {
    let desk = std_desk();
    let mut client = gateway(&desk, &[]);
    // The server is there before the list is asked for, or its tools come with list_changed.
    run_code(&mut client, "return (await tools.add({a: 1, b: 2})).sum");
    let list = result(&mut client, "tools/list", json!({}));
    let tools = list["tools"].as_array().expect("tools");
    assert_eq!(tools.len(), 1);
    let tool = &tools[0];
    assert_eq!(tool["name"], "run_code");
    assert!(tool["description"].as_str().expect("text").chars().count() <= 1024);
    let code = tool["inputSchema"]["properties"]["code"]["description"]
        .as_str()
        .expect("text");
    assert!(code.contains("mcp__tickets__list_tickets"), "{code}");
    assert_eq!(tool["inputSchema"]["required"], json!(["description", "code"]));
    client.close().expect("it ends");
}

#[test]
fn results_errors_and_logs_come_back_whole() {
    let desk = std_desk();
    let mut client = gateway(&desk, &[]);
    let mut run = |code: &str| run_code(&mut client, code);
    let result = run("console.log('a', { x: 1 }); return await tools.add({ a: 40, b: 2 })");
    assert_ne!(result["isError"], true);
    assert_eq!(
        result["structuredContent"],
        json!({"logs": ["a { x: 1 }"], "result": {"sum": 42}})
    );
    assert_eq!(result["content"][0]["text"], "a { x: 1 }\n{\n  \"sum\": 42\n}");
    let result = run("return");
    assert_eq!(
        result["content"][0]["text"],
        "(run_code completed with no output)"
    );
    let result = run("console.log('kept'); throw new RangeError('too many rows')");
    assert_eq!(result["isError"], true);
    let text = result["content"][0]["text"].as_str().expect("text");
    assert!(
        text.starts_with("code run failed (exception): RangeError: too many rows"),
        "{text}"
    );
    assert!(text.contains("kept"), "{text}");
    let result = run("await tools.kv_put({ key: 'k', value: 1 }); throw new Error('later')");
    let text = result["content"][0]["text"].as_str().expect("text");
    assert!(text.contains("kv_put"), "what was already done is named: {text}");
    client.close().expect("it ends");
}

#[test]
fn native_and_both_offer_every_tool() {
    let desk = std_desk();
    for (mode, count) in [("native", 16), ("both", 17)] {
        let mut client = gateway(&desk, &["--mode", mode]);
        let sum = call(&mut client, "add", json!({"a": 1, "b": 2}));
        assert_eq!(sum["structuredContent"], json!({"sum": 3}));
        let list = result(&mut client, "tools/list", json!({}));
        assert_eq!(list["tools"].as_array().map(Vec::len), Some(count), "{mode}");
        client.close().expect("it ends");
    }
    let mut client = gateway(&desk, &["--mode", "code"]);
    run_code(&mut client, "await tools.now({})");
    let refused = client.call("add", json!({"a": 1, "b": 2})).expect("an answer");
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let text = refused["error"]["message"].as_str().expect("text");
    assert!(text.contains("only `run_code` can be called directly"), "{text}");
    client.close().expect("it ends");
}

#[test]
fn it_ends_with_its_client_and_takes_everything_along() {
    let desk = std_desk();
    let mut client = gateway(&desk, &[]);
    run_code(&mut client, "return (await tools.now({})).iso");
    let pid = client.pid();
    let before = children_of(pid);
    assert!(!before.is_empty());
    let started = client.send("tools/call", json!({"name": "run_code", "arguments": {"description": "endless", "code": "await new Promise(() => {})"}}));
    started.expect("it reads");
    let status = client.close().expect("it ends although a program runs");
    assert!(status.success(), "{status:?}");
    for child in before {
        let gone = !std::path::Path::new("/proc").join(child.to_string()).exists();
        assert!(gone, "process {child} was left behind");
    }
}

#[test]
fn five_thousand_levels_go_through_a_real_upstream_and_back() {
    let desk = std_desk();
    let outcome = desk.exec(
        "let v: any = 'bottom'; for (let i = 0; i < 5000; i++) v = [v];
         let r: any = (await tools.echo({ value: v })).value; let n = 0; while (Array.isArray(r)) { r = r[0]; n++; }
         return [n, r];",
        &[],
    );
    assert_eq!(outcome["result"], json!([5000, "bottom"]), "{outcome}");
}
