//! Upstreams: what becomes of their tools, and of calls, when they behave and when they do not.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolweave_mcp::{
    Annotations, McpError, StdioCommand, UpstreamConfig, UpstreamHost, UpstreamState, UpstreamStatus,
    Upstreams,
};
use toolweave_tools::{CallContext, Content, Effect, ErrorCode, Registry, ToolError, ToolOutput};

use crate::scripted::{Scripted, text, tool};

const PATIENCE: Duration = Duration::from_secs(30);

fn fixture(name: &str, args: &[&str]) -> UpstreamConfig {
    let program = toolweave_testkit::fixture_bin().expect("the fixture server");
    UpstreamConfig::stdio(
        name,
        StdioCommand {
            command: program.display().to_string(),
            args: args.iter().map(ToString::to_string).collect(),
            ..StdioCommand::default()
        },
    )
}

fn host() -> UpstreamHost {
    let path = ("PATH".to_owned(), "/usr/bin:/bin".to_owned());
    let secret = ("SECRET_TOKEN".to_owned(), "hush".to_owned());
    UpstreamHost::new([path, secret], PathBuf::from("/"))
}

async fn start(configs: Vec<UpstreamConfig>) -> (Registry, Upstreams) {
    let registry = Registry::new();
    let upstreams = Upstreams::start(configs, &host(), &registry).expect("good configurations");
    assert!(upstreams.wait_ready(PATIENCE).await, "{:?}", upstreams.status());
    (registry, upstreams)
}

fn context() -> CallContext {
    CallContext {
        cancel: CancellationToken::new(),
        call_id: Arc::from("1"),
        root_call_id: Arc::from("1"),
        progress: None,
    }
}

async fn call(registry: &Registry, name: &str, arguments: Value) -> Result<ToolOutput, ToolError> {
    let tool = registry.get(name).unwrap_or_else(|| panic!("no tool {name}"));
    tool.call(&context(), arguments).await
}

async fn value(registry: &Registry, name: &str, arguments: Value) -> Result<Value, String> {
    call(registry, name, arguments)
        .await
        .map(|output| output.value)
        .map_err(|error| format!("{}: {}", error.code, error.message))
}

fn names(registry: &Registry) -> Vec<String> {
    registry
        .tools()
        .iter()
        .map(|tool| tool.spec().name.clone())
        .collect()
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn summary(status: &UpstreamStatus) -> (&str, UpstreamState, usize, Option<&str>) {
    (
        status.name.as_str(),
        status.state,
        status.tools.len(),
        status.reason.as_deref(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_are_registered_under_the_servers_name_and_called_under_their_own() {
    let server = Scripted::new(&[
        tool("plain", json!({"title": "Plain"})),
        tool(
            "look",
            json!({"annotations": {"readOnlyHint": true, "title": "Look"}}),
        ),
        tool("burn", json!({"annotations": {"destructiveHint": true}})),
        tool("put", json!({"annotations": {"destructiveHint": false}})),
        tool("odd name!", json!({})),
    ]);
    server.answer("plain", &text("hello").to_string());
    let (registry, upstreams) = start(vec![server.config("s")]).await;
    let seen: BTreeMap<String, (Option<String>, Effect)> = registry
        .tools()
        .iter()
        .map(|tool| {
            let spec = tool.spec();
            (spec.name.clone(), (spec.title.clone(), spec.effect))
        })
        .collect();
    let expected = [
        ("mcp__s__burn", None, Effect::Destructive),
        ("mcp__s__look", Some("Look"), Effect::Read),
        ("mcp__s__odd_name__50c92dab", None, Effect::Unknown),
        ("mcp__s__plain", Some("Plain"), Effect::Unknown),
        ("mcp__s__put", None, Effect::Write),
    ]
    .map(|(name, title, effect)| (name.to_owned(), (title.map(str::to_owned), effect)));
    assert_eq!(seen, BTreeMap::from(expected));
    for arguments in [
        json!({"z": 1, "a": [9_007_199_254_740_993_u64]}),
        json!({}),
        Value::Null,
    ] {
        assert_eq!(
            value(&registry, "mcp__s__plain", arguments).await,
            Ok(json!("hello"))
        );
    }
    assert_eq!(
        server.calls(),
        [
            json!({"name": "plain", "arguments": {"z": 1, "a": [9_007_199_254_740_993_u64]}}),
            json!({"name": "plain", "arguments": {}}),
            json!({"name": "plain", "arguments": {}}),
        ]
    );
    let status = upstreams.status().remove(0);
    assert_eq!(summary(&status), ("s", UpstreamState::Ready, 5, None));
    assert_eq!(
        (
            status.protocol.as_deref(),
            status.server.as_deref(),
            status.instructions.as_deref()
        ),
        (Some("2025-11-25"), Some("scripted 7"), Some("Be kind."))
    );
    upstreams.shutdown().await;
    assert_eq!(names(&registry), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_gets_little_of_the_environment() {
    let server = Scripted::new(&[]);
    let mut config = server.config("s");
    let toolweave_mcp::Endpoint::Stdio(command) = &mut config.endpoint else {
        panic!("stdio");
    };
    command.env.insert("GIVEN".to_owned(), "yes".to_owned());
    let (_registry, upstreams) = start(vec![config]).await;
    let env = server.read("env");
    let mut seen: Vec<&str> = env
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, _)| name)
        // What shells set by themselves.
        .filter(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name))
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, ["GIVEN", "PATH"]);
    upstreams.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn annotations_can_be_ignored_and_prefixes_chosen() {
    let server = Scripted::new(&[tool("look", json!({"annotations": {"readOnlyHint": true}}))]);
    let config = UpstreamConfig {
        tool_prefix: Some("x_{server}_".to_owned()),
        annotations: Annotations::Ignored,
        ..server.config("s")
    };
    let (registry, _upstreams) = start(vec![config]).await;
    let tool = registry.get("x_s_look").expect("the tool");
    assert_eq!(tool.spec().effect, Effect::Unknown);
}

#[tokio::test(flavor = "multi_thread")]
async fn gw_02_noise_between_messages_is_skipped() {
    let (registry, upstreams) = start(vec![fixture("f", &["--set", "rig", "--banner"])]).await;
    assert_eq!(
        value(&registry, "mcp__f__echo", json!({"a": 1})).await,
        Ok(json!({"got": {"a": 1}}))
    );
    let status = upstreams.status().remove(0);
    assert_eq!(status.state, UpstreamState::Ready);
    assert!(status.skipped_lines >= 3, "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn gw_03_every_page_is_read() {
    let (registry, _upstreams) = start(vec![fixture(
        "f",
        &["--set", "rig", "--dummies", "101", "--page", "50"],
    )])
    .await;
    assert_eq!(registry.tools().len(), 110);
    let last = value(&registry, "mcp__f__dummy_101", json!({"path": "p"})).await;
    assert_eq!(last, Ok(json!({"dummy": 101, "got": {"path": "p"}})));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_schema_costs_that_schema() {
    let (registry, upstreams) = start(vec![fixture("f", &["--set", "rig", "--bad-schema"])]).await;
    let bad = registry.get("mcp__f__bad_text").expect("still there");
    assert_eq!(bad.spec().input_schema, json!({"type": "object"}));
    assert_eq!(
        value(&registry, "mcp__f__bad_text", json!({})).await,
        Ok(json!({"called": "bad_text"}))
    );
    assert_eq!(
        upstreams.status()[0].notes,
        [
            "inputSchema of `bad_text` is not used: not an object",
            "`bad_none` has no inputSchema",
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn gw_04_results_and_schemas() {
    let schema = json!({"outputSchema": {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}});
    let cases = [
        (
            "wrong",
            r#"{"structuredContent":{"n":"x"},"content":[{"type":"text","text":"n is x"}]}"#,
            Ok(json!({"n": "x"})),
        ),
        (
            "prose",
            r#"{"content":[{"type":"text","text":"n is 1"}]}"#,
            Err(
                "INVALID_TOOL_OUTPUT: `prose` of server `s` announces an output schema but sent no structuredContent; it sent: n is 1",
            ),
        ),
        (
            "fails",
            r#"{"isError":true,"content":[{"type":"text","text":"nope"}]}"#,
            Err("TOOL_FAILED: nope"),
        ),
        (
            "extra",
            r#"{"structuredContent":{"n":1,"extra":true},"content":[]}"#,
            Ok(json!({"n": 1, "extra": true})),
        ),
        ("bare", r#"{"structuredContent":{"n":1}}"#, Ok(json!({"n": 1}))),
        (
            "lone",
            r#"{"structuredContent":{"n":"\ud800"}}"#,
            Err(
                "INVALID_TOOL_OUTPUT: server `s` answered `lone` with something that cannot be read: \
             an unpaired surrogate in a string at line 1 column 13",
            ),
        ),
        (
            "huge",
            r#"{"structuredContent":{"n":18446744073709551617}}"#,
            Err(
                "INVALID_TOOL_OUTPUT: server `s` answered `huge` with something that cannot be read: \
             the integer 18446744073709551617 is larger than any exact number",
            ),
        ),
    ];
    let tools: Vec<Value> = cases
        .iter()
        .map(|(name, ..)| tool(name, schema.clone()))
        .collect();
    let server = Scripted::new(&tools);
    for (name, answer, _) in &cases {
        server.answer(name, answer);
    }
    let (registry, _upstreams) = start(vec![server.config("s")]).await;
    for (name, _, expected) in cases {
        let got = value(&registry, &format!("mcp__s__{name}"), json!({})).await;
        assert_eq!(got, expected.map_err(str::to_owned), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn media_become_descriptions_and_ride_along() {
    let (registry, _upstreams) = start(vec![fixture("f", &["--set", "rig"])]).await;
    let output = call(&registry, "mcp__f__img", json!({}))
        .await
        .expect("a picture");
    assert_eq!(
        output.value,
        json!({
            "text": "a picture of one pixel",
            "media": [{"kind": "image", "mimeType": "image/png", "bytes": 70}],
        })
    );
    let [Content::Text(text), Content::Image { data, mime_type }] = &output.content[..] else {
        panic!("{:?}", output.content);
    };
    assert_eq!(
        (text.as_str(), mime_type.as_str(), data.len()),
        ("a picture of one pixel", "image/png", 96)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn large_and_deep_values_pass_both_ways() {
    let (registry, _upstreams) = start(vec![fixture("f", &["--set", "rig"])]).await;
    let big = value(&registry, "mcp__f__big", json!({"chars": 10_000_000})).await;
    assert_eq!(
        big.map(|value| value["text"].as_str().map(str::len)),
        Ok(Some(10_000_000))
    );
    let mut deep = json!(1);
    for _ in 0..5_000 {
        deep = Value::Array(vec![deep]);
    }
    let arguments = Value::Object([("value".to_owned(), deep)].into_iter().collect());
    let mut answer = value(&registry, "mcp__f__deep", arguments).await.expect("deep");
    assert_eq!(answer["depth"], json!(5_000));
    let mut levels = 0;
    let mut rest = answer["value"].take();
    while let Value::Array(mut items) = rest {
        levels += 1;
        rest = items.pop().unwrap_or_default();
    }
    assert_eq!((levels, rest), (5_000, json!(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn gw_06_a_bad_server_costs_its_own_tools() {
    let short = Duration::from_millis(700);
    let hangs = UpstreamConfig {
        startup_timeout: short,
        ..fixture("hangs", &["--hang-initialize"])
    };
    let missing = UpstreamConfig::stdio(
        "missing",
        StdioCommand {
            command: "no-such-program-anywhere".to_owned(),
            ..StdioCommand::default()
        },
    );
    let exits = UpstreamConfig::stdio(
        "exits",
        StdioCommand {
            command: "/bin/sh".to_owned(),
            args: ["-c", "echo no licence found >&2; exit 4"]
                .map(str::to_owned)
                .to_vec(),
            ..StdioCommand::default()
        },
    );
    let off = UpstreamConfig {
        disabled: true,
        ..fixture("off", &[])
    };
    let began = Instant::now();
    let (registry, upstreams) = start(vec![
        fixture("fine", &["--set", "rig"]),
        hangs,
        missing,
        exits,
        off,
    ])
    .await;
    assert!(began.elapsed() < Duration::from_secs(10));
    let status = upstreams.status();
    assert_eq!(
        status.iter().map(summary).collect::<Vec<_>>(),
        [
            ("fine", UpstreamState::Ready, 9, None),
            (
                "hangs",
                UpstreamState::Failed,
                0,
                Some("did not answer `initialize` and `tools/list` within 0.7 s")
            ),
            (
                "missing",
                UpstreamState::Failed,
                0,
                Some("the command `no-such-program-anywhere` was not found")
            ),
            (
                "exits",
                UpstreamState::Failed,
                0,
                Some("exited with code 4 before it was ready; its standard error ends: no licence found")
            ),
            ("off", UpstreamState::Disabled, 0, None),
        ]
    );
    assert_eq!(status[3].stderr, ["no licence found"]);
    assert_eq!(
        value(&registry, "mcp__fine__echo", json!({})).await,
        Ok(json!({"got": {}}))
    );
    assert_eq!(
        upstreams.explain_missing("mcp__missing__anything").as_deref(),
        Some("server `missing` is not available: the command `no-such-program-anywhere` was not found")
    );
    assert_eq!(upstreams.explain_missing("mcp__fine__nothing"), None);
    let began = Instant::now();
    upstreams.shutdown().await;
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_recovers_comes_back_by_itself() {
    let server = Scripted::new(&[tool("t", json!({}))]);
    server.answer("t", &text("back").to_string());
    server.write("start.sh", "exit 3");
    let (registry, upstreams) = start(vec![server.config("s")]).await;
    assert_eq!(
        summary(&upstreams.status()[0]),
        (
            "s",
            UpstreamState::Failed,
            0,
            Some("exited with code 3 before it was ready")
        )
    );
    let mut changes = registry.changes();
    server.remove("start.sh");
    until("the server is ready", || {
        upstreams.status()[0].state == UpstreamState::Ready
    })
    .await;
    assert!(changes.has_changed().expect("alive"));
    changes.borrow_and_update();
    assert_eq!(value(&registry, "mcp__s__t", json!({})).await, Ok(json!("back")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_fails_the_call_and_the_server_is_started_again() {
    let (registry, upstreams) = start(vec![fixture("f", &["--set", "rig", "--exit-after", "1"])]).await;
    assert_eq!(
        value(&registry, "mcp__f__echo", json!({})).await,
        Ok(json!({"got": {}}))
    );
    assert_eq!(
        value(&registry, "mcp__f__echo", json!({})).await,
        Err("UNAVAILABLE: server `f` was lost during `echo`: exited with code 3".to_owned())
    );
    // Its tools stay, and say what is the matter.
    assert_eq!(
        value(&registry, "mcp__f__echo", json!({})).await,
        Err("UNAVAILABLE: server `f` is not available: exited with code 3".to_owned())
    );
    until("the server is ready again", || {
        upstreams.status()[0].state == UpstreamState::Ready
    })
    .await;
    assert_eq!(
        value(&registry, "mcp__f__echo", json!({})).await,
        Ok(json!({"got": {}}))
    );
    assert_eq!(upstreams.status()[0].restarts, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_call_ends_at_once_and_the_server_hears_of_it() {
    let log = toolweave_testkit::temp_dir().expect("a folder");
    let path = log.path().join("log.json");
    let (registry, upstreams) = start(vec![fixture(
        "f",
        &["--set", "rig", "--log", &path.display().to_string()],
    )])
    .await;
    let tool = registry.get("mcp__f__sleep").expect("the tool");
    let context = context();
    let cancel = context.cancel.clone();
    let began = Instant::now();
    let running = tokio::spawn(async move { tool.call(&context, json!({"ms": 60_000})).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    cancel.cancel();
    let error = running.await.expect("no panic").expect_err("cancelled");
    assert_eq!(
        (error.code, error.message.as_str()),
        (ErrorCode::Aborted, "the call was cancelled")
    );
    // A call whose future is dropped counts as cancelled, too.
    let dropped = tokio::time::timeout(
        Duration::from_millis(200),
        call(&registry, "mcp__f__sleep", json!({"ms": 60_000})),
    );
    assert!(dropped.await.is_err());
    assert_eq!(
        value(&registry, "mcp__f__echo", json!({})).await,
        Ok(json!({"got": {}}))
    );
    upstreams.shutdown().await;
    assert!(began.elapsed() < Duration::from_secs(20));
    let report: Value =
        serde_json::from_str(&std::fs::read_to_string(path).expect("a report")).expect("JSON");
    assert_eq!(report["cancelled"], json!([2, 3]), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_has_a_time_limit() {
    let config = UpstreamConfig {
        timeout: Duration::from_millis(300),
        ..fixture("f", &["--set", "rig"])
    };
    let (registry, _upstreams) = start(vec![config]).await;
    assert_eq!(
        value(&registry, "mcp__f__sleep", json!({"ms": 60_000})).await,
        Err("TOOL_TIMEOUT: server `f` did not answer `sleep` within 0.3 s".to_owned())
    );
    assert_eq!(
        value(&registry, "mcp__f__sleep", json!({"ms": 1})).await,
        Ok(json!({"slept": 1}))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn gw_07_changes_are_followed() {
    let notify = tool("notify", json!({}));
    let server = Scripted::new(&[notify.clone(), tool("old", json!({})), tool("kept", json!({}))]);
    server.answer("kept", &text("kept").to_string());
    let (registry, upstreams) = start(vec![server.config("s")]).await;
    let kept = registry.get("mcp__s__kept").expect("the tool");
    let gone = registry.get("mcp__s__old").expect("the tool");
    let changed = tool("kept", json!({"description": "Does more."}));
    server.set_tools(&[notify, changed.clone(), tool("new", json!({}))]);
    assert_eq!(
        value(&registry, "mcp__s__notify", json!({})).await,
        Ok(json!("noted"))
    );
    until("the new tool is there", || registry.get("mcp__s__new").is_some()).await;
    assert_eq!(
        names(&registry),
        ["mcp__s__kept", "mcp__s__new", "mcp__s__notify"]
    );
    assert_eq!(
        registry.get("mcp__s__kept").expect("the tool").spec().description,
        "Does more."
    );
    // What a program holds goes on working.
    assert_eq!(
        kept.call(&context(), json!({})).await.expect("works").value,
        json!("kept")
    );
    let error = gone.call(&context(), json!({})).await.expect_err("gone");
    assert_eq!(
        (error.code, error.message.as_str()),
        (
            ErrorCode::UnknownTool,
            "server `s` no longer has a tool `old`; it says: Unknown tool: old (error -32602 from server `s`)"
        )
    );
    // A listing that fails changes nothing.
    server.remove("list.json");
    assert_eq!(
        value(&registry, "mcp__s__notify", json!({})).await,
        Ok(json!("noted"))
    );
    until("the failure is noted", || !upstreams.status()[0].notes.is_empty()).await;
    let status = upstreams.status().remove(0);
    assert_eq!(summary(&status), ("s", UpstreamState::Ready, 3, None));
    assert_eq!(
        status.notes,
        ["the last known tools are used: tools/list failed: no list today (error -32603)"]
    );
    // A change without notice shows at the first call that fails because of it.
    server.set_tools(&[changed]);
    assert_eq!(
        value(&registry, "mcp__s__new", json!({})).await,
        Err("UNKNOWN_TOOL: server `s` no longer has a tool `new`; it says: \
             Unknown tool: new (error -32602 from server `s`)"
            .to_owned())
    );
    assert_eq!(names(&registry), ["mcp__s__kept"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_clash_are_kept_apart_in_the_order_of_the_configuration() {
    let slow = Scripted::new(&[tool("same", json!({})), tool("run_code", json!({}))]);
    slow.write("start.sh", "sleep 0.5");
    slow.answer("same", &text("first").to_string());
    let quick = Scripted::new(&[tool("same", json!({}))]);
    quick.answer("same", &text("second").to_string());
    let bare = |config: UpstreamConfig| UpstreamConfig {
        tool_prefix: Some(String::new()),
        ..config
    };
    let (registry, upstreams) = start(vec![bare(slow.config("one")), bare(quick.config("two"))]).await;
    let names = names(&registry);
    let [run_code, same, other] = &names[..] else {
        panic!("{names:?}");
    };
    assert!(
        run_code.starts_with("run_code_") && same == "same" && other.starts_with("same_"),
        "{names:?}"
    );
    assert_eq!(value(&registry, same, json!({})).await, Ok(json!("first")));
    assert_eq!(value(&registry, other, json!({})).await, Ok(json!("second")));
    assert_eq!(
        upstreams.status()[1].notes,
        [format!("`same` is called `{other}`: the name `same` is taken")]
    );
}

#[tokio::test]
async fn two_servers_cannot_have_one_name() {
    let start = |configs| Upstreams::start(configs, &host(), &Registry::new()).map(|_| ());
    let named = |name| UpstreamConfig::stdio(name, StdioCommand::default());
    assert_eq!(
        start(vec![named("a"), named("a")]),
        Err(McpError::DuplicateUpstream("a".to_owned()))
    );
    assert_eq!(start(vec![named("")]), Err(McpError::NamelessUpstream));
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_reaches_the_caller() {
    let server = Scripted::new(&[tool("t", json!({}))]);
    // The token is the one that was sent: the script echoes it.
    server.write(
        "start.sh",
        r#"
handle() {
  token=$(printf '%s' "$1" | sed -n 's/.*"progressToken":\([0-9]*\).*/\1/p')
  printf '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,"total":2,"message":"half"}}\n' "$token"
  sleep 0.3
}
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/^{"jsonrpc":"2.0","id":\([0-9]*\).*/\1/p')
  [ -n "$id" ] || continue
  case "$line" in
    *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"p","version":"1"}}}\n' "$id" ;;
    *'"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$(cat list.json)" ;;
    *) handle "$line"; printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}\n' "$id" ;;
  esac
done
exit 0
"#,
    );
    let (registry, _upstreams) = start(vec![server.config("s")]).await;
    let heard = Arc::new(Mutex::new(Vec::new()));
    let sink = heard.clone();
    let context = CallContext {
        progress: Some(Arc::new(move |progress, total, message| {
            sink.lock()
                .expect("no panic")
                .push((progress, total, message.map(str::to_owned)));
        })),
        ..context()
    };
    let tool = registry.get("mcp__s__t").expect("the tool");
    assert_eq!(
        tool.call(&context, json!({})).await.expect("fine").value,
        json!(null)
    );
    assert_eq!(
        *heard.lock().expect("no panic"),
        [(1.0, Some(2.0), Some("half".to_owned()))]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_the_stateless_revision_is_found_out_and_followed() {
    let server = Scripted::new(&[tool("t", json!({}))]);
    server.write(
        "start.sh",
        r#"
while IFS= read -r line; do
  printf '%s\n' "$line" >> log
  id=$(printf '%s' "$line" | sed -n 's/^{"jsonrpc":"2.0","id":\([0-9]*\).*/\1/p')
  [ -n "$id" ] || continue
  result='"resultType":"complete","ttlMs":0,"cacheScope":"private"'
  case "$line" in
    *'"method":"server/discover"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{%s,"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}}}}\n' "$id" "$result" ;;
    *'"method":"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$(cat list.json)" ;;
    *'"method":"tools/call"'*)
      [ -n "$sub" ] && printf '{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}\n' "$sub"
      printf '{"jsonrpc":"2.0","id":%s,"result":{%s,"content":[],"structuredContent":[1]}}\n' "$id" "$result" ;;
    *'"method":"subscriptions/listen"'*)
      sub=$id
      printf '{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"notifications":{"toolsListChanged":true}}}\n' "$id" ;;
    *) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"gone"}}\n' "$id" ;;
  esac
done
exit 0
"#,
    );
    let (registry, upstreams) = start(vec![server.config("s")]).await;
    let status = upstreams.status().remove(0);
    assert_eq!(
        (summary(&status), status.protocol.as_deref(), status.restarts),
        (("s", UpstreamState::Ready, 1, None), Some("2026-07-28"), 0)
    );
    until("it listens", || {
        server.read("log").contains("subscriptions/listen")
    })
    .await;
    server.set_tools(&[tool("t", json!({})), tool("more", json!({}))]);
    assert_eq!(value(&registry, "mcp__s__t", json!({})).await, Ok(json!([1])));
    until("the new tool is there", || registry.get("mcp__s__more").is_some()).await;
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_running() {
    let server = Scripted::new(&[tool("t", json!({}))]);
    server.write(
        "start.sh",
        "trap '' TERM; sleep 1000 & echo $! > child; (trap '' TERM; sleep 1000) & echo $! > stubborn",
    );
    let (registry, upstreams) = start(vec![server.config("s")]).await;
    let pids: Vec<String> = ["pid", "child", "stubborn"]
        .iter()
        .map(|name| server.read(name).trim().to_owned())
        .collect();
    let alive = |pid: &String| {
        std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .is_ok_and(|stat| !stat.contains(") Z ") && !stat.contains(") X "))
    };
    assert!(pids.iter().all(alive), "{pids:?}");
    upstreams.shutdown().await;
    until("all are gone", || !pids.iter().any(alive)).await;
    assert_eq!(upstreams.status()[0].state, UpstreamState::Stopped);
    assert!(registry.tools().is_empty());

    // Dropping the last handle does the same, without waiting.
    let (_registry, upstreams) = start(vec![server.config("s")]).await;
    let pid = server.read("pid").trim().to_owned();
    assert!(alive(&pid));
    drop(upstreams);
    until("the server is gone", || !alive(&pid)).await;
}
