//! Programs against a scripted host: what the engine alone answers for.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use toolweave_runtime::JsonMode;
use toolweave_runtime::driver::Control;
use toolweave_runtime::guest::{
    Event, Gone, GuestEnd, GuestNamespace, GuestPort, Members, OutgoingCall, Start,
};

use crate::engine::{Engine, run_program};

/// Answers `echo` with its first argument, `fail` with a rejection, and unknown members with their path.
#[derive(Default)]
pub(crate) struct ScriptedPort {
    pub(crate) logs: Vec<String>,
    pub(crate) calls: Vec<String>,
    answers: VecDeque<(u32, Result<String, String>)>,
}

impl GuestPort for ScriptedPort {
    fn call(&mut self, call: OutgoingCall<'_>) -> Result<(), Gone> {
        self.calls.push(format!("{}{}", call.name, call.arguments));
        let inner = &call.arguments[1..call.arguments.len() - 1];
        let outcome = if !call.known {
            Err(format!("no such tool: {}", call.name))
        } else if call.name == "fail" {
            Err("it failed".to_owned())
        } else if inner.is_empty() {
            Ok("null".to_owned())
        } else {
            Ok(inner.to_owned())
        };
        self.answers.push_back((call.id, outcome));
        Ok(())
    }

    fn log(&mut self, entry: &str) -> Result<(), Gone> {
        self.logs.push(entry.to_owned());
        Ok(())
    }

    fn wait(&mut self, until: Option<Instant>) -> Event {
        if let Some((id, outcome)) = self.answers.pop_front() {
            return Event::Answer { id, outcome };
        }
        match until {
            Some(until) => {
                std::thread::sleep(until.saturating_duration_since(Instant::now()));
                Event::Due
            }
            None => Event::Gone,
        }
    }
}

pub(crate) fn start(program: &str, json: JsonMode) -> Start {
    let members = Members {
        shown: ["echo", "fail", "__proto__", "doc-stats"]
            .map(str::to_owned)
            .to_vec(),
        shown_sync: vec![],
        hidden: vec!["hidden".to_owned()],
        hidden_sync: vec!["ask".to_owned()],
    };
    Start {
        program: program.to_owned(),
        namespaces: vec![GuestNamespace {
            global: "tools".to_owned(),
            aliases: vec!["sdk".to_owned()],
            members: Arc::new(members),
            error_class: Some(("ToolCallError".to_owned(), "toolName".to_owned())),
            reject_unknown: true,
        }],
        json,
        max_memory_bytes: 256 << 20,
        max_stack_bytes: 512 << 10,
        max_frame_bytes: 64 << 20,
        max_output_bytes: 64 << 20,
        max_json_depth: 10_000,
    }
}

pub(crate) fn run(program: &str) -> (GuestEnd, ScriptedPort) {
    let mut port = ScriptedPort::default();
    let engine = Engine::warm().expect("an engine");
    let outcome = run_program(
        engine,
        &start(program, JsonMode::Standard),
        &mut port,
        &Control::default(),
        [1; 32],
    );
    (outcome.end, port)
}

/// Says the end of a program in one line.
pub(crate) fn outcome(program: &str) -> String {
    match run(program).0 {
        GuestEnd::Nothing => "nothing".to_owned(),
        GuestEnd::Value(json) => json,
        GuestEnd::Failed(failure) => {
            let place = failure
                .position
                .map(|at| format!(" at {}:{}", at.line, at.column))
                .unwrap_or_default();
            let name = failure.name.map(|name| format!("{name}: ")).unwrap_or_default();
            format!("{}{place}: {name}{}", failure.kind, failure.message)
        }
    }
}

#[test]
fn a_program_talks_to_its_host() {
    let (end, port) = run("console.log('hi', {a: 1}); return [await tools.echo({v: 1}), tools.ask(2)]");
    assert_eq!(end, GuestEnd::Value(r#"[{"v":1},2]"#.to_owned()));
    assert_eq!(port.logs, ["hi { a: 1 }"]);
    assert_eq!(port.calls, [r#"echo[{"v":1}]"#, "ask[2]"]);
}

#[test]
fn failures_say_what_and_where() {
    for (program, expected) in [
        ("throw new RangeError('no')", "exception at 1:11: RangeError: no"),
        (
            "const é = 1;\n/* 🦀 */ null.x",
            "exception at 2:10: TypeError: cannot read property 'x' of null",
        ),
        (
            "return tools.a.b()",
            "exception at 1:16: ToolCallError: no such tool: a.b",
        ),
        ("throw 'text'", "exception: text"),
        ("throw {code: 7}", "exception: the program threw { code: 7 }"),
        ("throw undefined", "exception: the program threw undefined"),
        (
            "const o = {};\no.run(1)",
            "exception at 2:3: TypeError: o.run is not a function",
        ),
        (
            "let x = ;",
            "exception at 1:9: SyntaxError: unexpected token in expression: ';'",
        ),
    ] {
        assert_eq!(outcome(program), expected, "{program}");
    }
}
