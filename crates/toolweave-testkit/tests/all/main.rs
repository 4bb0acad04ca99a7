//! The kit tested by hand over pipes, and against the shared corpus where that is there.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod corpus;
mod protocol;
mod rig;
mod std_tools;

use std::process::Command;

use serde_json::{Value, json};
use toolweave_testkit::RpcClient;

const CORPUS_HERE: &str = env!("CARGO_MANIFEST_DIR");

/// Starts the fixture server and opens a session.
fn fixture(arguments: &[&str]) -> RpcClient {
    let mut client = raw_fixture(arguments);
    client.initialize("2025-11-25").unwrap();
    client
}

fn raw_fixture(arguments: &[&str]) -> RpcClient {
    #[expect(clippy::disallowed_methods, reason = "a test runs this crate's own program")]
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolweave-fixture"));
    command.args(arguments);
    RpcClient::spawn(command).unwrap()
}

/// Calls a tool and returns its value, after a check that text and structured content agree.
fn value(client: &mut RpcClient, tool: &str, arguments: Value) -> Value {
    let answer = client.call(tool, arguments).unwrap();
    let result = &answer["result"];
    assert_eq!(result["isError"], false, "{answer}");
    let value = result["structuredContent"].clone();
    let text = result["content"][0]["text"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), value);
    assert_eq!(result["content"].as_array().unwrap().len(), 1);
    value
}

/// Calls a tool and returns the message of its failure.
fn failure(client: &mut RpcClient, tool: &str, arguments: Value) -> String {
    let answer = client.call(tool, arguments).unwrap();
    let text = answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(
        answer["result"],
        json!({"content": [{"type": "text", "text": text}], "isError": true})
    );
    text
}
