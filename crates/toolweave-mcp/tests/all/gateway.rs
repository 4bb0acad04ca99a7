//! The gateway, spoken to in lines of JSON over memory.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines};
use tokio_util::sync::CancellationToken;
use toolweave_mcp::{GatewayConfig, UpstreamConfig, UpstreamHost, Upstreams, serve};
use toolweave_quickjs::{Placement, QuickJsConfig, QuickJsRuntime};
use toolweave_tools::{
    CallContext, Content, Effect, Mode, Provider, Registration, Registry, Tool, ToolError, ToolOutput,
    ToolSpec, Toolbox, ToolboxConfig,
};

use crate::scripted::{Scripted, tool};

const PATIENCE: Duration = Duration::from_secs(30);

/// A tool that is a function.
struct Simple {
    spec: ToolSpec,
    body: fn(Value) -> Result<ToolOutput, ToolError>,
}

#[async_trait]
impl Tool for Simple {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, context: &CallContext, arguments: Value) -> Result<ToolOutput, ToolError> {
        if self.spec.name == "wait" {
            context.cancel.cancelled().await;
            return Err(ToolError::failed("stopped waiting"));
        }
        if let Some(progress) = &context.progress {
            progress(1.0, Some(2.0), Some("half"));
            progress(2.0, Some(2.0), None);
        }
        (self.body)(arguments)
    }
}

fn simple(name: &str, body: fn(Value) -> Result<ToolOutput, ToolError>) -> Arc<dyn Tool> {
    Arc::new(Simple {
        spec: ToolSpec {
            name: name.to_owned(),
            title: None,
            description: format!("Does {name}."),
            input_schema: json!({"type": "object", "properties": {"n": {"type": "number"}}}),
            output_schema: None,
            effect: Effect::Read,
            provider: Provider {
                name: Arc::from("test"),
                version: None,
            },
        },
        body,
    })
}

fn tools() -> Vec<Arc<dyn Tool>> {
    vec![
        simple("echo", |arguments| {
            Ok(ToolOutput::from_value(json!({"got": arguments})))
        }),
        simple("fail", |_| Err(ToolError::failed("nope"))),
        simple("wait", |_| Err(ToolError::failed("unreachable"))),
        simple("pictures", |_| {
            let image = Content::Image {
                data: "AAEC".to_owned(),
                mime_type: "image/png".to_owned(),
            };
            let link = json!({"type": "resource_link", "uri": "a:b", "name": "b"});
            Ok(ToolOutput {
                value: json!({"media": 2}),
                content: vec![
                    Content::Text("see".to_owned()),
                    image,
                    Content::Other { block: link },
                ],
            })
        }),
    ]
}

fn toolbox(registry: &Registry, mode: Mode) -> Toolbox {
    let runtime = QuickJsRuntime::new(QuickJsConfig {
        placement: Placement::Thread,
        ..QuickJsConfig::default()
    })
    .expect("a runtime");
    let config = ToolboxConfig {
        mode,
        ..ToolboxConfig::default()
    };
    Toolbox::new(registry.clone(), Some(Arc::new(runtime)), config)
}

struct Client {
    input: Option<DuplexStream>,
    output: Lines<BufReader<DuplexStream>>,
    served: tokio::task::JoinHandle<Result<(), toolweave_mcp::McpError>>,
    shutdown: CancellationToken,
    next_id: i64,
}

impl Client {
    fn new(toolbox: Toolbox, config: GatewayConfig) -> Self {
        let (input, gateway_in) = tokio::io::duplex(1 << 20);
        let (gateway_out, output) = tokio::io::duplex(1 << 20);
        let shutdown = config.shutdown.clone();
        Self {
            input: Some(input),
            output: BufReader::new(output).lines(),
            served: tokio::spawn(serve(toolbox, config, gateway_in, gateway_out)),
            shutdown,
            next_id: 1_000,
        }
    }

    /// Returns a client of a gateway with the tools above, past `initialize`.
    async fn ready(mode: Mode) -> (Self, Registry, Registration) {
        let registry = Registry::new();
        let registration = registry.register(tools()).expect("new names");
        let mut client = Self::new(toolbox(&registry, mode), GatewayConfig::default());
        client.initialize().await;
        (client, registry, registration)
    }

    async fn initialize(&mut self) -> Value {
        let answer = self
            .request(
                "initialize",
                json!({
                    "protocolVersion": "2025-11-25",
                    "capabilities": {},
                    "clientInfo": {"name": "test", "version": "1"},
                }),
            )
            .await;
        self.line(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)
            .await;
        answer
    }

    async fn line(&mut self, line: &str) {
        self.bytes(format!("{line}\n").as_bytes()).await;
    }

    async fn bytes(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().expect("open");
        input.write_all(bytes).await.expect("the gateway reads");
    }

    async fn receive(&mut self) -> Value {
        let line = tokio::time::timeout(PATIENCE, self.output.next_line())
            .await
            .expect("an answer in time")
            .expect("memory")
            .expect("an answer");
        let mut reader = serde_json::Deserializer::from_str(&line);
        reader.disable_recursion_limit();
        serde::Deserialize::deserialize(&mut reader).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Sends a request and returns the whole answer; nothing else may come first.
    async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params).await;
        let answer = self.receive().await;
        assert_eq!(answer["id"], json!(id), "{answer}");
        answer
    }

    async fn send(&mut self, method: &str, params: Value) -> i64 {
        self.next_id += 1;
        let id = self.next_id;
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.line(&message.to_string()).await;
        id
    }

    async fn run(&mut self, code: &str) -> Value {
        let arguments = json!({"description": "test", "code": code});
        let mut answer = self
            .request("tools/call", json!({"name": "run_code", "arguments": arguments}))
            .await;
        assert!(answer["error"].is_null(), "{answer}");
        answer["result"].take()
    }

    /// Closes the input and waits for the end; returns what still came.
    async fn close(mut self) -> Vec<Value> {
        self.input = None;
        let mut rest = Vec::new();
        while let Ok(Some(line)) = tokio::time::timeout(PATIENCE, self.output.next_line())
            .await
            .expect("an end in time")
        {
            rest.push(serde_json::from_str(&line).expect("JSON"));
        }
        self.served.await.expect("no panic").expect("a clean end");
        rest
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_is_greeted_and_shown_one_tool() {
    let registry = Registry::new();
    let _registration = registry.register(tools()).expect("new names");
    let mut client = Client::new(toolbox(&registry, Mode::Code), GatewayConfig::default());
    let hello = client.initialize().await;
    let info = &hello["result"];
    assert_eq!(info["protocolVersion"], "2025-11-25");
    assert_eq!(info["serverInfo"]["name"], "toolweave");
    assert_eq!(
        info["capabilities"],
        json!({"tools": {"listChanged": true}, "resources": {}, "prompts": {}})
    );
    assert!(
        info["instructions"]
            .as_str()
            .is_some_and(|text| text.contains("run_code"))
    );
    assert_eq!(client.request("ping", json!({})).await["result"], json!({}));
    let list = client.request("tools/list", json!({})).await;
    let [tool] = &list["result"]["tools"].as_array().expect("tools")[..] else {
        panic!("{list}");
    };
    assert_eq!(tool["name"], "run_code");
    assert!(
        tool["inputSchema"]["properties"]["code"]["description"]
            .as_str()
            .is_some_and(|text| text.contains("echo"))
    );
    for (method, params, code) in [
        ("tools/list", json!({"cursor": "x"}), -32602),
        ("logging/setLevel", json!({"level": "info"}), -32601),
        ("resources/read", json!({"uri": "toolweave://nothing"}), -32002),
        ("prompts/get", json!({"name": "nothing"}), -32602),
    ] {
        assert_eq!(
            client.request(method, params).await["error"]["code"],
            code,
            "{method}"
        );
    }
    assert_eq!(client.close().await, Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sdk_is_a_resource_and_a_prompt() {
    let (mut client, _registry, _registration) = Client::ready(Mode::Code).await;
    let list = client.request("resources/list", json!({})).await;
    assert_eq!(list["result"]["resources"][0]["uri"], "toolweave://sdk");
    let read = client
        .request("resources/read", json!({"uri": "toolweave://sdk"}))
        .await;
    let text = read["result"]["contents"][0]["text"]
        .as_str()
        .expect("text")
        .to_owned();
    assert!(text.contains("echo") && text.contains("```"), "{text}");
    let list = client.request("prompts/list", json!({})).await;
    assert_eq!(list["result"]["prompts"][0]["name"], "sdk");
    let prompt = client.request("prompts/get", json!({"name": "sdk"})).await;
    assert_eq!(prompt["result"]["messages"][0]["content"]["text"], json!(text));
    let templates = client.request("resources/templates/list", json!({})).await;
    assert_eq!(templates["result"], json!({"resourceTemplates": []}));
}

#[tokio::test(flavor = "multi_thread")]
async fn gw_01_garbage_is_answered_by_the_book() {
    let registry = Registry::new();
    let mut client = Client::new(toolbox(&registry, Mode::Code), GatewayConfig::default());
    for (line, id, code) in [
        ("not json", json!(null), -32700),
        (r#"{"jsonrpc":"2.0""#, json!(null), -32700),
        ("[]", json!(null), -32600),
        (
            r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
            json!(null),
            -32600,
        ),
        ("7", json!(null), -32600),
        (r#"{"jsonrpc":"2.0","id":5,"method":"no/such"}"#, json!(5), -32601),
        (r#"{"id":6,"method":"ping"}"#, json!(6), -32600),
        (
            r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
            json!(null),
            -32600,
        ),
        (
            r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
            json!(null),
            -32600,
        ),
        (r#"{"jsonrpc":"2.0","id":7,"method":8}"#, json!(7), -32600),
        (r#"{"jsonrpc":"2.0","id":9}"#, json!(9), -32600),
        (
            r#"{"jsonrpc":"2.0","id":10,"method":"tools/call","params":[]}"#,
            json!(10),
            -32602,
        ),
        (
            r#"{"jsonrpc":"2.0","id":11,"method":"tools/call","params":{"name":1}}"#,
            json!(11),
            -32602,
        ),
    ] {
        client.line("").await;
        client.line(line).await;
        let answer = client.receive().await;
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&id, &json!(code)),
            "{line}"
        );
        assert!(
            answer["error"]["message"]
                .as_str()
                .is_some_and(|text| !text.is_empty())
        );
    }
    client.bytes(b"\xff\xfe\n").await;
    assert_eq!(client.receive().await["error"]["code"], -32700);
    // Neither says anything to a client that has not said hello.
    client
        .line(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#)
        .await;
    client.line(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).await;
    client
        .bytes(
            "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":\"hello\",\"method\":\"initialize\",\"params\":{\"protocolVersion\":\
             \"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}\r\n"
                .as_bytes(),
        )
        .await;
    let hello = client.receive().await;
    assert_eq!(
        (&hello["id"], &hello["result"]["protocolVersion"]),
        (&json!("hello"), &json!("2025-06-18"))
    );
    client.line("still not json").await;
    assert_eq!(client.receive().await["error"]["code"], -32700);
    assert_eq!(client.request("ping", json!({})).await["result"], json!({}));
    client.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gw_05_wrong_arguments_name_what_is_wrong() {
    let (mut client, _registry, _registration) = Client::ready(Mode::Code).await;
    for params in [
        json!({"name": "run_code"}),
        json!({"name": "run_code", "arguments": null}),
        json!({"name": "run_code", "arguments": []}),
        json!({"name": "run_code", "arguments": "x"}),
        json!({"name": "run_code", "arguments": {"description": "d"}}),
        json!({"name": "run_code", "arguments": {"description": "d", "code": 7}}),
    ] {
        let answer = client.request("tools/call", params.clone()).await;
        assert_eq!(answer["result"]["isError"], json!(true), "{params}: {answer}");
        let text = answer["result"]["content"][0]["text"].as_str().expect("text");
        assert!(
            text.contains("code") || text.contains("object"),
            "{params}: {text}"
        );
    }
    let unknown = client
        .request("tools/call", json!({"name": "nothing", "arguments": {}}))
        .await;
    assert_eq!(unknown["error"]["code"], -32602);
    let hidden = client
        .request("tools/call", json!({"name": "echo", "arguments": {}}))
        .await;
    assert_eq!(hidden["error"]["code"], -32602);
    assert!(
        hidden["error"]["message"]
            .as_str()
            .is_some_and(|text| text.contains("run_code")),
        "{hidden}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn gw_08_every_id_comes_back_as_it_went() {
    let (mut client, _registry, _registration) = Client::ready(Mode::Code).await;
    let call = |id: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"run_code","arguments":{{"description":"d","code":{code}}}}}}}"#,
            code = json!(format!("return {}", json!(id)))
        )
    };
    let ids = [
        "1",
        "\"1\"",
        "0",
        "\"\"",
        "\"a\\u0000b\"",
        "-0",
        "1.5",
        "12345678901234567890123",
        "1",
    ];
    for id in ids {
        client.line(&call(id)).await;
    }
    client
        .line(r#"{"jsonrpc":"2.0","method":"notifications/whatever","params":{}}"#)
        .await;
    client
        .line(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"unknown"}}"#)
        .await;
    let mut got = Vec::new();
    for _ in ids {
        let line = tokio::time::timeout(PATIENCE, client.output.next_line())
            .await
            .expect("in time")
            .expect("memory")
            .expect("an answer");
        let id = line
            .strip_prefix(r#"{"jsonrpc":"2.0","id":"#)
            .and_then(|rest| rest.split_once(r#","result":"#))
            .unwrap_or_else(|| panic!("{line}"))
            .0
            .to_owned();
        let answer: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(
            answer["result"]["structuredContent"]["result"],
            json!(id),
            "{line}"
        );
        got.push(id);
    }
    let mut expected = ids.map(str::to_owned).to_vec();
    expected.sort();
    got.sort();
    assert_eq!(got, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn gw_09_a_failed_program_is_a_result() {
    let (mut client, _registry, _registration) = Client::ready(Mode::Code).await;
    for (code, words) in [
        (
            "console.log('before'); throw new Error('boom')",
            vec!["exception", "boom", "before"],
        ),
        ("return await tools.fail()", vec!["nope"]),
        ("return (", vec!["yntax"]),
        ("while (true) {}", vec!["timeout"]),
    ] {
        let arguments = json!({"description": "d", "code": code, "timeoutMs": 500});
        let answer = client
            .request("tools/call", json!({"name": "run_code", "arguments": arguments}))
            .await;
        let result = &answer["result"];
        assert_eq!(result["isError"], json!(true), "{answer}");
        assert!(result["structuredContent"].is_null(), "{answer}");
        let text = result["content"][0]["text"].as_str().expect("text");
        for word in words {
            assert!(text.contains(word), "{code}: {text}");
        }
    }
    let result = client.run("console.log('note'); return {n: 1}").await;
    assert_eq!(result["isError"], json!(false));
    assert_eq!(
        result["structuredContent"],
        json!({"logs": ["note"], "result": {"n": 1}})
    );
    let text = result["content"][0]["text"].as_str().expect("text");
    assert!(text.contains("note") && text.contains("\"n\": 1"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn gw_10_media_of_inner_calls_reach_the_client() {
    let (mut client, _registry, _registration) = Client::ready(Mode::Code).await;
    let result = client
        .run("await tools.pictures(); await tools.pictures(); return 'done'")
        .await;
    let blocks = result["content"].as_array().expect("blocks");
    let kinds: Vec<&str> = blocks.iter().filter_map(|block| block["type"].as_str()).collect();
    assert_eq!(kinds[0], "text");
    assert_eq!(
        kinds.iter().filter(|kind| **kind == "image").count(),
        2,
        "{kinds:?}"
    );
    assert!(blocks.contains(&json!({"type": "image", "data": "AAEC", "mimeType": "image/png"})));
    assert!(blocks.contains(&json!({"type": "resource_link", "uri": "a:b", "name": "b"})));
}

#[tokio::test(flavor = "multi_thread")]
async fn native_mode_offers_the_tools_themselves() {
    let (mut client, _registry, _registration) = Client::ready(Mode::Native).await;
    let list = client.request("tools/list", json!({})).await;
    let tools = list["result"]["tools"].as_array().expect("tools");
    let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(names, ["echo", "fail", "pictures", "wait"]);
    assert_eq!(tools[0]["annotations"], json!({"readOnlyHint": true}));
    let echo = client
        .request(
            "tools/call",
            json!({"name": "echo", "arguments": {"n": 9_007_199_254_740_991_i64}}),
        )
        .await;
    assert_eq!(
        echo["result"]["structuredContent"],
        json!({"got": {"n": 9_007_199_254_740_991_i64}})
    );
    let fail = client.request("tools/call", json!({"name": "fail"})).await;
    assert_eq!(
        fail["result"],
        json!({"content": [{"type": "text", "text": "nope"}], "isError": true})
    );
    assert_eq!(
        client.request("resources/list", json!({})).await["result"],
        json!({"resources": []})
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_is_told_per_sub_call_and_before_the_answer() {
    let (mut client, _registry, _registration) = Client::ready(Mode::Code).await;
    let code = "await tools.echo(); console.log('x'); try { await tools.fail() } catch {}";
    let params = json!({
        "name": "run_code",
        "arguments": {"description": "d", "code": code},
        "_meta": {"progressToken": "tok"},
    });
    let id = client.send("tools/call", params).await;
    let mut messages = Vec::new();
    let mut last = 0.0;
    loop {
        let message = client.receive().await;
        if message["id"] == json!(id) {
            break;
        }
        let params = &message["params"];
        assert_eq!(
            (&message["method"], &params["progressToken"]),
            (&json!("notifications/progress"), &json!("tok"))
        );
        let progress = params["progress"].as_f64().expect("a number");
        assert!(progress > last);
        last = progress;
        let text = params["message"].as_str().expect("text");
        messages.push(text.split(" after ").next().unwrap_or_default().to_owned());
    }
    assert_eq!(
        messages,
        ["echo started", "echo done", "x", "fail started", "fail failed"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_call_stops_and_is_not_answered() {
    let (mut client, _registry, _registration) = Client::ready(Mode::Code).await;
    let arguments = json!({"description": "d", "code": "return await tools.wait()"});
    let id = client
        .send("tools/call", json!({"name": "run_code", "arguments": arguments}))
        .await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    client
        .line(
            &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
                .to_string(),
        )
        .await;
    // The next answer is that of the next request, under the same id.
    client
        .line(&json!({"jsonrpc": "2.0", "id": id, "method": "ping"}).to_string())
        .await;
    let answer = client.receive().await;
    assert_eq!((&answer["id"], &answer["result"]), (&json!(id), &json!({})));
    assert_eq!(client.close().await, Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_input_ends_everything_soon() {
    let (mut client, _registry, _registration) = Client::ready(Mode::Code).await;
    let quick = client
        .send(
            "tools/call",
            json!({"name": "run_code", "arguments": {"description": "d", "code": "await new Promise(r => setTimeout(r, 300)); return 1"}}),
        )
        .await;
    client
        .send(
            "tools/call",
            json!({"name": "run_code", "arguments": {"description": "d", "code": "return await tools.wait()"}}),
        )
        .await;
    let began = Instant::now();
    let rest = client.close().await;
    assert!(began.elapsed() < Duration::from_secs(20));
    assert_eq!(rest[0]["id"], json!(quick));
    assert_eq!(rest[0]["result"]["structuredContent"]["result"], json!(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_can_be_told_to_stop() {
    let (client, _registry, _registration) = Client::ready(Mode::Code).await;
    client.shutdown.cancel();
    tokio::time::timeout(PATIENCE, client.served)
        .await
        .expect("in time")
        .expect("no panic")
        .expect("a clean end");
}

#[tokio::test(flavor = "multi_thread")]
async fn gw_07_the_client_hears_of_changes_that_it_can_see() {
    let (mut client, registry, registration) = Client::ready(Mode::Code).await;
    client.request("tools/list", json!({})).await;
    let more = registry
        .register([simple("brand_new", |_| Ok(ToolOutput::from_value(json!(1))))])
        .expect("a new name");
    assert_eq!(
        client.receive().await,
        json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    );
    let list = client.request("tools/list", json!({})).await;
    assert!(list.to_string().contains("brand_new"));
    drop((more, registration));
    assert_eq!(
        client.receive().await["method"],
        "notifications/tools/list_changed"
    );
    client.close().await;
}

fn modern(extra: Value) -> Value {
    let mut params = json!({"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }});
    if let (Some(params), Value::Object(extra)) = (params.as_object_mut(), extra) {
        params.extend(extra);
    }
    params
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stateless_revision_is_spoken_too() {
    let registry = Registry::new();
    let registration = registry.register(tools()).expect("new names");
    let mut client = Client::new(toolbox(&registry, Mode::Code), GatewayConfig::default());
    let found = client.request("server/discover", modern(json!({}))).await;
    let versions = found["result"]["supportedVersions"].as_array().expect("versions");
    assert!(versions.contains(&json!("2026-07-28")) && versions.contains(&json!("2025-06-18")));
    let list = client.request("tools/list", modern(json!({}))).await;
    assert_eq!(list["result"]["resultType"], "complete");
    assert_eq!(list["result"]["tools"][0]["name"], "run_code");
    assert!(list["result"]["ttlMs"].is_number(), "{list}");
    let arguments = json!({"description": "d", "code": "return 1 + 1"});
    let call = modern(json!({"name": "run_code", "arguments": arguments}));
    let result = client.request("tools/call", call).await;
    assert_eq!(result["result"]["resultType"], "complete");
    assert_eq!(result["result"]["structuredContent"]["result"], json!(2));
    let missing = client
        .request("resources/read", modern(json!({"uri": "x:y"})))
        .await;
    assert_eq!(missing["error"]["code"], -32602);
    let bare = client.request("tools/list", json!({})).await;
    assert_eq!(bare["error"]["code"], -32602);
    // Changes are heard by those who listen.
    client
        .line(
            &json!({"jsonrpc": "2.0", "id": "sub", "method": "subscriptions/listen",
                    "params": modern(json!({"notifications": {"toolsListChanged": true}}))})
            .to_string(),
        )
        .await;
    let acknowledged = client.receive().await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(
        acknowledged["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"],
        "sub"
    );
    drop(registration);
    let changed = client.receive().await;
    assert_eq!(changed["method"], "notifications/tools/list_changed");
    assert_eq!(
        changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"],
        "sub"
    );
    let rest = client.close().await;
    assert_eq!(rest[0]["id"], "sub");
    assert_eq!(
        rest[0]["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"],
        "sub"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn deep_and_large_results_pass() {
    let (mut client, _registry, _registration) = Client::ready(Mode::Code).await;
    let result = client
        .run("let v = 1; for (let i = 0; i < 3000; i++) v = [v]; const r = await tools.echo({v}); let d = 0; let x = r.got.v; while (Array.isArray(x)) { d++; x = x[0] } return d")
        .await;
    assert_eq!(result["structuredContent"]["result"], json!(3000), "{result}");
    let result = client.run("return 'y'.repeat(5_000_000)").await;
    assert_eq!(result["isError"], json!(false));
}

#[tokio::test(flavor = "multi_thread")]
async fn gw_06_slow_and_dead_servers_do_not_hold_up_the_client() {
    let fine = Scripted::new(&[tool("ping", json!({}))]);
    fine.answer("ping", r#"{"structuredContent":{"pong":1}}"#);
    let hangs = Scripted::new(&[]);
    hangs.write("start.sh", "sleep 600");
    let later = Scripted::new(&[tool("late", json!({}))]);
    later.answer("late", r#"{"structuredContent":{"late":1}}"#);
    later.write("start.sh", "sleep 4");
    let registry = Registry::new();
    let configs: Vec<UpstreamConfig> =
        vec![fine.config("fine"), hangs.config("hangs"), later.config("later")];
    let host = UpstreamHost::new(
        [("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
        std::path::PathBuf::from("/"),
    );
    let upstreams = Upstreams::start(configs, &host, &registry).expect("good configurations");
    let config = GatewayConfig {
        upstreams: Some(upstreams.clone()),
        ..GatewayConfig::default()
    };
    let began = Instant::now();
    let mut client = Client::new(toolbox(&registry, Mode::Code), config);
    client.initialize().await;
    let list = client.request("tools/list", json!({})).await;
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert!(list.to_string().contains("mcp__fine__ping") && !list.to_string().contains("mcp__later__late"));
    let result = client.run("return await tools.mcp__fine__ping()").await;
    assert_eq!(result["structuredContent"]["result"], json!({"pong": 1}));
    // It appears by itself, and the client hears of it.
    assert_eq!(
        client.receive().await["method"],
        "notifications/tools/list_changed"
    );
    let result = client.run("return await tools.mcp__later__late()").await;
    assert_eq!(result["structuredContent"]["result"], json!({"late": 1}));
    client.close().await;
    assert!(
        upstreams
            .status()
            .iter()
            .all(|status| status.state.to_string() == "stopped")
    );
}
