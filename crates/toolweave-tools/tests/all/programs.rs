//! What is said about a program before it runs, and where its failures are.

use std::sync::Arc;

use serde_json::json;
use toolweave_runtime::{FailureKind, Limits};
use toolweave_testkit::StdSet;
use toolweave_tools::{ProgramReport, ProgramRequest, Registry, Toolbox, ToolboxConfig};

use crate::corpus::{engine, std_tools};
use crate::dispatch::request;
use crate::support::{FakeRuntime, call, text};

async fn run(code: &str) -> ProgramReport {
    let registry = Registry::new();
    let _kept = registry.register(std_tools(StdSet::bundled().unwrap())).unwrap();
    let toolbox = Toolbox::new(
        registry,
        Some(engine(Limits::default())),
        ToolboxConfig::default(),
    );
    toolbox
        .run_program(ProgramRequest {
            code: code.to_owned(),
            ..request()
        })
        .await
        .unwrap()
}

/// The first line of the error, and its place.
fn refusal(report: &ProgramReport) -> (String, Option<u32>) {
    let error = report.error.clone().unwrap();
    assert_eq!(
        (error.kind, report.calls.len()),
        (FailureKind::Exception, 0),
        "{}",
        error.message
    );
    assert!(report.usage.is_none(), "nothing ran: {}", error.message);
    (error.message.lines().next().unwrap().to_owned(), error.line)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_must_fail_stops_the_program_before_any_side_effect() {
    for (code, message, line) in [
        (
            "await tools.kv_put({ key: 'a', value: 1 });\nreturn await tools.read_docs({ id: 'x' });",
            "unknown tool `read_docs`; closest: `read_doc` (line 2, column 14)",
            2,
        ),
        (
            "return await tools.tickets.list_tickets({ status: 'open' });",
            "unknown tool `tickets.list_tickets`; closest: `mcp__tickets__list_tickets`",
            1,
        ),
        (
            "const d = await tools.read_doc('guides/install.md');\nreturn d;",
            "`read_doc` takes one object, got the string \"guides/install.md\"; pass one object with named parameters: { id }",
            1,
        ),
        (
            "return await tools.add({ a: 1, c: 3 });",
            "invalid arguments for `add`, 2 problems:",
            1,
        ),
        (
            "const a = Number('1');\nreturn await tools.add({ a, bb: 2 });",
            "invalid arguments for `add`, 2 problems:",
            2,
        ),
        (
            "return await tools.read_doc();",
            "invalid arguments for `read_doc`: `id` is missing (a string)",
            1,
        ),
        (
            "await tools.nope({});\nawait tools.nada({});",
            "2 calls are certain to fail:",
            1,
        ),
        ("return 1 +;", "syntax error:", 1),
        ("import fs from 'fs';\nreturn 1;", "", 1),
    ] {
        let report = run(code).await;
        let (first, at) = refusal(&report);
        assert!(first.starts_with(message), "{code}\n{first}");
        assert_eq!(at, Some(line), "{code}\n{first}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_go_well_runs_with_a_warning() {
    for (code, result, warning) in [
        (
            "try { await tools.add({ a: '1', b: 2 }); } catch (e) { return e.name; }",
            json!("ToolCallError"),
            Some("line 1: invalid arguments for `add`: `a` must be a number, got the string \"1\""),
        ),
        (
            "if (Math.random() > 2) await tools.missing({});\nreturn 1;",
            json!(1),
            Some("line 1: unknown tool `missing`"),
        ),
        (
            "tools.add({ a: 1, b: 2 });\nreturn 1;",
            json!(1),
            Some("line 1: "),
        ),
        (
            "return await tools.add.call(tools, { a: 1, b: 2 });",
            json!({"sum": 3}),
            None,
        ),
        ("return tools.hasOwnProperty('add');", json!(true), None),
        ("return tools.list().length;", json!(16), None),
        (
            "return (await tools.$call('add', { a: 1, b: 2 })).sum;",
            json!(3),
            None,
        ),
        (
            "const x: any = { a: 1, b: 2 }; return await tools.add(x);",
            json!({"sum": 3}),
            None,
        ),
        ("return await sdk.add({ a: 1, b: 2 });", json!({"sum": 3}), None),
    ] {
        let report = run(code).await;
        assert_eq!(report.error, None, "{code}");
        assert_eq!(report.result.map(|json| json.to_value()), Some(result), "{code}");
        match warning {
            None => assert_eq!(report.warnings, [""; 0], "{code}"),
            Some(warning) => {
                assert_eq!(report.warnings.len(), 1, "{code}: {:?}", report.warnings);
                assert!(
                    report.warnings[0].starts_with(warning),
                    "{code}: {:?}",
                    report.warnings
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_gives_nothing_is_told_why() {
    let report = run("const { sum } = await tools.add({ a: 1, b: 2 });").await;
    assert_eq!((report.error, report.result), (None, None));
    assert_eq!(report.warnings.len(), 1, "{:?}", report.warnings);
    let report = run("const { sum } = await tools.add({ a: 1, b: 2 }); console.log(sum);").await;
    assert_eq!((report.warnings, report.logs), (vec![], vec!["3".to_owned()]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_are_placed_in_the_text_that_was_sent() {
    let code = "```ts\ninterface Row { id: string }\nconst rows: Row[] = [];\nconst first = rows[0];\nreturn first.id;\n```";
    let report = run(code).await;
    let error = report.error.unwrap();
    assert_eq!((error.kind, error.line), (FailureKind::Exception, Some(5)));
    assert!(error.message.starts_with("TypeError: "), "{}", error.message);
    assert!(error.message.contains("(line 5, column "), "{}", error.message);
    assert!(error.message.contains("return first.id;"), "{}", error.message);
    let report = run("await tools.fail({ message: 'no luck' });").await;
    let error = report.error.unwrap();
    assert!(
        error
            .message
            .starts_with("ToolCallError: no luck (line 1, column "),
        "{}",
        error.message
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_called_by_its_bare_name_gets_a_hint() {
    for (code, hint) in [(
        "return await read_doc({ id: 'x' });",
        "it is a tool: call `await tools.read_doc({ ... })`",
    )] {
        let message = run(code).await.error.unwrap().message;
        assert!(message.contains(hint), "{code}\n{message}");
    }
}

#[tokio::test]
async fn a_refused_program_never_reaches_the_runtime() {
    let runtime = FakeRuntime::idle();
    let registry = Registry::new();
    let toolbox = Toolbox::new(
        registry,
        Some(Arc::clone(&runtime) as _),
        ToolboxConfig::default(),
    );
    let result = toolbox
        .execute(call("run_code", r#"{"code": "return await tools.nothing({});"}"#))
        .await;
    assert_eq!(runtime.seen.lock().unwrap().len(), 0);
    assert!(
        text(&result).starts_with("code run failed (exception): unknown tool `nothing`"),
        "{}",
        text(&result)
    );
    assert!(text(&result).ends_with("nothing was run"), "{}", text(&result));
}
