//! Commands, their output and their exit codes.

use serde_json::{Value, json};

use crate::support::{Desk, fixture_row};

#[test]
fn exec_prints_the_answer_and_nothing_else() {
    let desk = Desk::new();
    desk.write("a.txt", "one\ntwo\n");
    let ran = desk.run(&[
        "exec",
        "-e",
        "console.log('hi'); return (await tools.read({ path: 'a.txt' })).totalLines",
    ]);
    assert_eq!(
        (ran.code, ran.out.as_str(), ran.err.as_str()),
        (Some(0), "hi\n2\n", ""),
        "{ran:?}"
    );
    let ran = desk.run_with_input(&["exec"], "return { a: [1, 'x'] }");
    assert_eq!(ran.out, "{\n  \"a\": [\n    1,\n    \"x\"\n  ]\n}\n");
    desk.write("p.ts", "return 'from a file'");
    assert_eq!(desk.run(&["exec", "p.ts"]).out, "from a file\n");
    assert_eq!(desk.run_with_input(&["exec", "-"], "return null").out, "null\n");
}

#[test]
fn exec_json_has_every_field() {
    let desk = Desk::new();
    desk.write("a.txt", "text");
    let outcome = desk.exec("await tools.write({ path: 'b.txt', content: 'new' }); return (await tools.read({ path: 'b.txt' })).text", &[]);
    assert_eq!(outcome["ok"], true, "{outcome}");
    assert_eq!(outcome["result"], "new");
    assert_eq!(outcome["logs"], json!([]));
    assert!(outcome.get("error").is_none());
    let calls: Vec<_> = outcome["calls"]
        .as_array()
        .expect("calls")
        .iter()
        .map(|call| [&call["id"], &call["name"], &call["ok"], &call["effect"]])
        .collect();
    assert_eq!(
        json!(calls),
        json!([
            ["exec:code:1", "write", true, "write"],
            ["exec:code:2", "read", true, "read"]
        ])
    );
    let usage = &outcome["usage"];
    assert!(usage["computeMs"].as_f64().expect("a number") > 0.0, "{usage}");
    assert!(usage["wallMs"].as_f64().expect("a number") > 0.0, "{usage}");
    assert!(
        usage["peakMemoryBytes"].as_u64().expect("a number") > 10_000,
        "{usage}"
    );
    if cfg!(target_os = "linux") {
        assert_eq!(usage["isolation"], "worker");
    }
    assert!(
        ["enforced", "partial", "none"]
            .map(|state| json!(state))
            .contains(&usage["sandbox"]["state"]),
        "{usage}"
    );
}

#[test]
fn exit_codes_are_what_scripts_rely_on() {
    let desk = Desk::new();
    let code = |arguments: &[&str]| desk.run(arguments).code;
    assert_eq!(code(&["exec", "-e", "return 1"]), Some(0));
    assert_eq!(code(&["exec", "-e", "throw new Error('x')"]), Some(1));
    assert_eq!(code(&["exec", "missing.ts"]), Some(2));
    assert_eq!(code(&["exec", "--placement", "elsewhere"]), Some(2));
    assert_eq!(
        code(&["exec", "--config", "missing.yml", "-e", "return 1"]),
        Some(2)
    );
    assert_eq!(code(&["exec", "--root", "missing", "-e", "return 1"]), Some(2));
    assert_eq!(code(&["nonsense"]), Some(2));
    assert_eq!(code(&["--version"]), Some(0));
    assert_eq!(code(&["--help"]), Some(0));
    assert_eq!(code(&["tools", "call", "read", r#"{"path":"missing"}"#]), Some(1));
    desk.write(
        "strict.yml",
        "sandbox: required\nruntime: { placement: thread }\n",
    );
    assert_eq!(
        code(&["exec", "--config", "strict.yml", "-e", "return 1"]),
        Some(3)
    );
}

#[test]
fn a_broken_program_says_where_and_loses_nothing() {
    let desk = Desk::new();
    let ran = desk.run(&["exec", "-e", "const a = 1;\nconst b = = 2;\nreturn a;"]);
    assert_eq!(ran.code, Some(1));
    assert_eq!(ran.out, "");
    assert!(ran.err.contains("line 2"), "{}", ran.err);
    assert!(ran.err.contains("const b = = 2;"), "{}", ran.err);
    let outcome = desk.exec(
        "console.log('kept');\nconst row = undefined as any;\nreturn row.id;",
        &[],
    );
    assert_eq!(outcome["error"]["kind"], "exception");
    assert_eq!(outcome["error"]["line"], 3, "{outcome}");
    assert_eq!(outcome["logs"], json!(["kept"]));
}

#[test]
fn an_unknown_tool_names_the_nearest_and_bad_arguments_every_violation() {
    let desk = Desk::new();
    let message = |program: &str| {
        desk.exec(program, &[])["error"]["message"]
            .as_str()
            .expect("a message")
            .to_owned()
    };
    let text = message("return await tools.raed({ path: 'x' })");
    assert!(text.contains("`read`"), "{text}");
    let text = message("const name = 'gerp'; return await (tools as any)[name]({ pattern: 'x' })");
    assert!(text.contains("`grep`"), "{text}");
    let text = message("const args: any = { pattern: 5, limit: 'many' }; return await tools.grep(args)");
    assert!(text.contains("pattern") && text.contains("limit"), "{text}");
}

#[test]
fn tools_can_be_used_by_a_person() {
    let desk = Desk::new();
    desk.write("notes/a.md", "# Title\nTODO: more\n");
    let list = desk.run(&["tools", "list"]);
    let names: Vec<_> = list
        .out
        .lines()
        .map(|line| line.split_whitespace().next().expect("a name"))
        .collect();
    assert_eq!(names, ["edit", "glob", "grep", "read", "write"]);
    let list = desk.run(&["tools", "list", "--json"]).json();
    assert_eq!(list.as_array().map(Vec::len), Some(5));
    let found = desk.run(&["tools", "search", "search text in files"]);
    assert!(
        found.out.lines().next().expect("a hit").starts_with("grep"),
        "{}",
        found.out
    );
    let help = desk.run(&["tools", "help", "grep"]);
    assert!(help.out.contains("pattern"), "{}", help.out);
    let help = desk.run(&["tools", "help", "grop"]);
    assert!(help.code == Some(1) && help.err.contains("`grep`"), "{help:?}");
    let called = desk
        .run(&["tools", "call", "glob", r#"{"pattern":"**/*.md"}"#, "--json"])
        .json();
    assert_eq!(
        called["structuredContent"]["paths"],
        json!(["notes/a.md"]),
        "{called}"
    );
    let called = desk.run_with_input(&["tools", "call", "read", "-"], r#"{"path":"notes/a.md"}"#);
    assert!(called.out.contains("TODO: more"), "{}", called.out);
}

#[test]
fn sdk_renders_a_saved_list_without_connecting() {
    let desk = Desk::new();
    let saved = json!({"tools": [
        {"name": "b-side", "description": "Ends */ here", "inputSchema": {"type": "object", "properties": {"n": {"type": ["integer", "null"]}}, "required": ["n"]}},
        {"name": "a", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object", "properties": {"ok": {"type": "boolean"}}}},
        {"description": "no name"},
    ]});
    desk.write("tools.json", saved.to_string());
    let ran = desk.run(&["sdk", "--tools-file", "tools.json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.out.contains("```ts") && ran.out.contains("\"b-side\""),
        "{}",
        ran.out
    );
    assert!(!ran.out.contains("Ends */ here"));
    assert!(ran.err.contains("tool 2: it has no name"), "{}", ran.err);
    let again = desk.run(&["sdk", "--tools-file", "tools.json"]);
    assert_eq!(again.out, ran.out);
    let object = desk.run(&["sdk", "--tools-file", "tools.json", "--json"]).json();
    assert_eq!(object["mode"], "code");
    assert_eq!(object["tools"][0]["name"], "run_code");
    let native = desk
        .run(&["sdk", "--tools-file", "tools.json", "--mode", "native", "--json"])
        .json();
    let names: Vec<_> = native["tools"]
        .as_array()
        .expect("tools")
        .iter()
        .map(|tool| tool["name"].clone())
        .collect();
    assert_eq!(names, ["a", "b-side"]);
    desk.write("bad.json", "[1, 2]");
    let ran = desk.run(&["sdk", "--tools-file", "bad.json"]);
    assert!(
        ran.code == Some(2) && ran.err.contains("{\"tools\": [...]}"),
        "{ran:?}"
    );
}

#[test]
fn doctor_says_what_works_and_what_does_not() {
    let desk = Desk::new();
    let report = desk.run(&["doctor", "--json"]).json();
    assert_eq!(report["ok"], true, "{report}");
    desk.write(
        "toolweave.yml",
        format!(
            "mcpServers:\n  good: {}\n  gone: {{ command: ./no-such-program }}\n",
            fixture_row(&["--set", "std"])
        ),
    );
    let ran = desk.run(&["doctor", "--json"]);
    assert_eq!(ran.code, Some(2));
    let report = ran.json();
    let verdict = |name: &str| -> (Value, String) {
        let checks = report["checks"].as_array().expect("checks");
        let check = checks
            .iter()
            .find(|check| check["name"] == name)
            .unwrap_or_else(|| panic!("{name}: {report}"));
        (
            check["verdict"].clone(),
            check["found"].as_str().expect("text").to_owned(),
        )
    };
    assert_eq!(verdict("server good"), (json!("ok"), "16 tools".to_owned()));
    let (gone, why) = verdict("server gone");
    assert_eq!(gone, "failed");
    assert!(why.contains("no-such-program"), "{why}");
    // What does not start costs its own tools only, and a call to one of those says whose they are.
    let missing = desk.exec("return await (tools as any).mcp__gone__anything({})", &[]);
    let text = missing["error"]["message"].as_str().expect("a message");
    assert!(text.contains("server `gone` is not available"), "{text}");
    let outcome = desk.exec("return (await tools.add({ a: 1, b: 2 })).sum", &[]);
    assert_eq!(outcome["result"], 3, "{outcome}");
}

#[test]
fn ctrl_c_ends_a_run_as_aborted() {
    use std::io::Read as _;
    let desk = Desk::new();
    let mut command = desk.command(&[
        "exec",
        "--json",
        "-e",
        "console.log('up'); await new Promise(() => {})",
    ]);
    command.stdout(std::process::Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    // The program has begun once its worker is there.
    for _ in 0..200 {
        if !crate::support::children_of(child.id()).is_empty() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    let killed = std::process::Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .expect("kill runs");
    assert!(killed.success());
    let mut out = String::new();
    child
        .stdout
        .take()
        .expect("a pipe")
        .read_to_string(&mut out)
        .expect("UTF-8");
    assert_eq!(child.wait().expect("it ends").code(), Some(1));
    let outcome: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(outcome["error"]["kind"], "abort", "{outcome}");
}
