//! Finding tools.

use serde_json::json;
use toolweave_tools::{Effect, Tool, ToolOutput, ToolSpec, Toolbox, ToolboxConfig};

use crate::support::{FakeRuntime, Rig, rig, spec, tool};

fn toolbox() -> (Toolbox, Rig) {
    let declared = [
        (
            "mcp__github__create_pull_request",
            "Open a new pull request.",
            json!({"title": {}, "base": {}}),
        ),
        (
            "mcp__github__list_issues",
            "List issues of a repository.",
            json!({"repo": {}, "labels": {}}),
        ),
        (
            "mcp__github__get_issue",
            "Get one issue.",
            json!({"repo": {}, "issueNumber": {}}),
        ),
        (
            "readTextFile",
            "Read the contents of a text file.",
            json!({"path": {"description": "absolute location on disk"}}),
        ),
        (
            "write_file",
            "Write text to a file.",
            json!({"path": {}, "contents": {}}),
        ),
        (
            "send_message",
            "Send a message to a channel.",
            json!({"channel": {}, "text": {}}),
        ),
        ("get_weather", "天气预报查询", json!({"city": {}})),
        ("a", "The account of a person, an ordinary tool.", json!({})),
        (
            "delete_records",
            "Deletes rows.",
            json!({"table": {}, "where": {}}),
        ),
        ("größe_messen", "Misst die Größe.", json!({})),
    ];
    let tools: Vec<std::sync::Arc<dyn Tool>> = declared
        .into_iter()
        .map(|(name, description, properties)| {
            let spec = ToolSpec {
                description: description.to_owned(),
                input_schema: json!({"type": "object", "properties": properties}),
                ..spec(name, Effect::Read)
            };
            tool(spec, |_, arguments| {
                std::future::ready(Ok(ToolOutput::from_value(arguments)))
            })
        })
        .collect();
    let rig = rig(tools, FakeRuntime::idle(), ToolboxConfig::default());
    (rig.toolbox.clone(), rig)
}

#[test]
fn the_tool_that_was_meant_comes_first() {
    let (toolbox, _kept) = toolbox();
    for (query, first) in [
        ("create pull request", "mcp__github__create_pull_request"),
        ("creating pull requests", "mcp__github__create_pull_request"),
        ("creat pul reqeust", "mcp__github__create_pull_request"),
        ("list the issues", "mcp__github__list_issues"),
        ("issueNumber", "mcp__github__get_issue"),
        ("issue number", "mcp__github__get_issue"),
        ("labels", "mcp__github__list_issues"),
        ("read file", "readTextFile"),
        ("read_text_file", "readTextFile"),
        ("location on disk", "readTextFile"),
        ("remove rows", "delete_records"),
        ("post message", "send_message"),
        ("messge", "send_message"),
        ("天气", "get_weather"),
        ("größe", "größe_messen"),
        ("account", "a"),
        ("a", "a"),
        ("get_weather", "get_weather"),
    ] {
        let hits = toolbox.search(query, 3);
        assert_eq!(
            hits.first().map(|hit| hit.name.as_str()),
            Some(first),
            "{query}: {hits:?}"
        );
    }
}

#[test]
fn what_is_not_there_is_not_found() {
    let (toolbox, _kept) = toolbox();
    for query in ["", "   ", "zzzzqqqq", "the of and", "🦀"] {
        assert_eq!(toolbox.search(query, 10), [], "{query:?}");
    }
    assert_eq!(toolbox.search("issue", 1).len(), 1);
    assert_eq!(toolbox.search("issue", 0).len(), 0);
    let long = "issue ".repeat(100_000);
    assert!(!toolbox.search(&long, 3).is_empty());
}

#[test]
fn a_hit_is_enough_to_write_the_call() {
    let (toolbox, _kept) = toolbox();
    let hits = toolbox.search("weather", 1);
    assert_eq!(hits[0].description, "天气预报查询");
    assert!(
        hits[0].signature.starts_with("get_weather(") && hits[0].signature.contains("city"),
        "{}",
        hits[0].signature
    );
}
