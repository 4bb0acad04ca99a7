//! What becomes of a program by what a type checker says about it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::json;
use toolweave_runtime::{FailureKind, Limits};
use toolweave_testkit::{StdSet, corpus_dir};
use toolweave_tools::{Effect, ProgramReport, ProgramRequest, ToolOutput, ToolboxConfig};
use toolweave_typecheck::{
    CheckPrograms, Compiler, Complaint, Declarations, Found, Policy, TypeChecker, Unchecked, Verdict,
};

use crate::corpus::{engine, std_tools};
use crate::dispatch::request;
use crate::support::{FakeRuntime, Rig, rig, spec, tool};

/// Returns a checker with the compiler that the person running the tests has, or says that there is none.
pub(crate) fn compiler() -> Option<Arc<dyn CheckPrograms>> {
    #[expect(
        clippy::disallowed_methods,
        reason = "a test finds the compiler where the person running it says"
    )]
    let (named, path) = (std::env::var_os("TOOLWEAVE_TSC"), std::env::var_os("PATH"));
    let found = match named.and_then(|named| Compiler::at(named.as_ref())) {
        Some(compiler) => Found::Compiler(compiler),
        None => Compiler::find(&path.unwrap_or_default()),
    };
    if !matches!(&found, Found::Compiler(compiler) if !compiler.is_too_old()) {
        #[expect(clippy::print_stderr, reason = "what a test found belongs into its output")]
        {
            eprintln!("skipped: {} ($TOOLWEAVE_TSC names one)", found.describe());
        }
        return None;
    }
    // Tests share few processors with much else.
    let checker = TypeChecker::new(found.usable()?, Vec::new(), Policy::Required);
    Some(Arc::new(checker.with_cap(Duration::from_secs(60))))
}

/// Says what it was told to, and remembers what it was asked.
struct Fake {
    policy: Policy,
    says: Result<Vec<Complaint>, Unchecked>,
    asked: Mutex<Vec<(String, String)>>,
}

impl CheckPrograms for Fake {
    fn policy(&self) -> Policy {
        self.policy
    }

    fn check<'a>(
        &'a self,
        declarations: &'a Declarations,
        program: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Complaint>, Unchecked>> {
        let asked = (declarations.text().to_owned(), program.to_owned());
        self.asked.lock().unwrap().push(asked);
        std::future::ready(self.says.clone()).boxed()
    }
}

fn complaint(line: u32, column: u32, verdict: Verdict) -> Complaint {
    Complaint {
        line,
        column,
        code: 2322,
        message: format!("wrong at {line}:{column}"),
        verdict,
    }
}

struct Outcome {
    report: ProgramReport,
    asked: Vec<(String, String)>,
    ran: usize,
}

async fn run(code: &str, policy: Policy, says: Result<Vec<Complaint>, Unchecked>) -> Outcome {
    let runtime = FakeRuntime::idle();
    let read_doc = {
        let mut spec = spec("read_doc", Effect::Read);
        spec.input_schema =
            json!({"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]});
        spec.output_schema =
            Some(json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}));
        tool(spec, |_, arguments| async move {
            Ok(ToolOutput::from_value(arguments))
        })
    };
    let Rig {
        toolbox,
        registration,
        ..
    } = rig(vec![read_doc], runtime.clone(), ToolboxConfig::default());
    let fake = Arc::new(Fake {
        policy,
        says,
        asked: Mutex::default(),
    });
    let toolbox = toolbox.with_typecheck(Arc::clone(&fake) as Arc<dyn CheckPrograms>);
    let request = ProgramRequest {
        code: code.to_owned(),
        ..request()
    };
    let report = toolbox.run_program(request).await.unwrap();
    drop(registration);
    let asked = fake.asked.lock().unwrap().clone();
    let ran = runtime.seen.lock().unwrap().len();
    Outcome { report, asked, ran }
}

#[tokio::test]
async fn the_text_before_its_types_are_gone_is_checked_against_the_tools() {
    let code = "```ts\nconst id: string = f(); return tools.read_doc({ id })\n```";
    let Outcome { asked, ran, report } = run(code, Policy::Auto, Ok(Vec::new())).await;
    let [(declarations, program)] = &asked[..] else {
        panic!("asked once: {asked:?}");
    };
    assert!(
        program.contains("const id: string = f(); return tools.read_doc({ id })"),
        "{program}"
    );
    assert!(!program.contains("```"));
    for part in [
        "read_doc: (args: ToolArgsMap[\"read_doc\"]) => Promise<ToolOutputMap[\"read_doc\"]>;",
        "read_doc: { \"~\"?: never; text: string } & JsonObject;",
        "type JsonObject = { [key: string]: any };",
        "type JsonValue = any;",
        "declare const tools: Tools;",
    ] {
        assert!(declarations.contains(part), "{part}\n{declarations}");
    }
    assert_eq!((ran, report.warnings), (1, Vec::<String>::new()));
}

#[tokio::test]
async fn mistakes_stop_a_program_at_its_own_lines_before_it_runs() {
    let code = "```ts\nconst a: number = 1;\nawait tools.read_doc({ id: f(a) });\n```";
    // The body returns its last expression, which moves that by seven columns.
    let says = Ok(vec![
        complaint(3, 24, Verdict::Mistake),
        complaint(2, 7, Verdict::Doubt),
    ]);
    let Outcome { report, ran, .. } = run(code, Policy::Auto, says).await;
    let error = report.error.unwrap();
    assert_eq!((ran, error.kind), (0, FailureKind::Exception));
    assert_eq!((error.line, error.column), (Some(3), Some(17)));
    assert_eq!(
        error.message,
        "wrong at 3:24 (TS2322; line 3, column 17)\n3 | await tools.read_doc({ id: f(a) });\n  |                 ^\nnothing was run; where a declared type is wrong, write `as any`"
    );
    assert_eq!(report.warnings, ["line 2: wrong at 2:7 (TS2322)"]);
    assert_eq!(report.usage, None);
}

#[tokio::test]
async fn many_mistakes_are_listed_in_order_up_to_a_cap() {
    let code = "await tools.read_doc({ id: f() });\n".repeat(20);
    let says = Ok((1..=20)
        .rev()
        .map(|line| complaint(line, 1, Verdict::Mistake))
        .collect());
    let message = run(&code, Policy::Required, says)
        .await
        .report
        .error
        .unwrap()
        .message;
    let lines: Vec<_> = message.lines().collect();
    assert_eq!(lines[0], "the program makes 20 mistakes with its tools:");
    assert_eq!(lines[1], "line 1: wrong at 1:1 (TS2322)");
    assert_eq!(lines[11], "and 10 more");
    let says = Ok((1..=20).map(|line| complaint(line, 1, Verdict::Doubt)).collect());
    let warnings = run(&code, Policy::Auto, says).await.report.warnings;
    assert_eq!(warnings.len(), 11);
    assert_eq!(warnings[10], "the type check has 10 more doubts");
}

#[tokio::test]
async fn what_a_program_deals_with_itself_does_not_stop_it() {
    let programs = [
        "try { await tools.read_doc(MARK) } catch (e) { return 1 }",
        "return tools.read_doc(MARK).catch(() => 1)",
        "return tools.read_doc(MARK).then((r) => r, () => 1)",
        "return Promise.allSettled([tools.read_doc(MARK)])",
    ];
    for program in programs {
        let column = u32::try_from(program.find("MARK").unwrap() + 1).unwrap();
        let outcome = run(
            program,
            Policy::Auto,
            Ok(vec![complaint(1, column, Verdict::Mistake)]),
        )
        .await;
        assert_eq!((outcome.ran, outcome.report.warnings.len()), (1, 1), "{program}");
    }
    let programs = [
        "try { f() } catch (e) { await tools.read_doc(MARK) }",
        "try { f() } finally { await tools.read_doc(MARK) }",
        "try { await tools.read_doc(MARK) } finally { f() }",
        "return tools.read_doc(MARK).then((r) => r)",
        "return g().catch(() => tools.read_doc(MARK))",
        "return Promise.all([tools.read_doc(MARK)])",
    ];
    for program in programs {
        let column = u32::try_from(program.find("MARK").unwrap() + 1).unwrap();
        let outcome = run(
            program,
            Policy::Auto,
            Ok(vec![complaint(1, column, Verdict::Mistake)]),
        )
        .await;
        assert_eq!(outcome.ran, 0, "{program}");
    }
}

#[tokio::test]
async fn a_program_that_could_not_be_checked_runs_unless_the_check_is_required() {
    let timed_out = Unchecked::TimedOut(2_000);
    let missing = Unchecked::NoCompiler("no `tsc` on PATH; install it".into());
    let warning = "the type check took longer than 2000 ms and was given up; the program ran unchecked";
    let cases = [
        (Policy::Auto, &timed_out, Ok(vec![warning])),
        (Policy::Auto, &missing, Ok(vec![])),
        (
            Policy::Required,
            &timed_out,
            Err(
                "the type check took longer than 2000 ms and was given up; nothing was run, because `typecheck: required` is set",
            ),
        ),
        (
            Policy::Required,
            &missing,
            Err("no `tsc` on PATH; install it; nothing was run, because `typecheck: required` is set"),
        ),
    ];
    for (policy, why, expected) in cases {
        let Outcome { report, ran, .. } = run("return 1", policy, Err(why.clone())).await;
        match expected {
            Ok(warnings) => assert_eq!(
                (ran, report.error, report.warnings),
                (1, None, warnings.iter().map(|w| (*w).to_owned()).collect())
            ),
            Err(message) => assert_eq!((ran, report.error.unwrap().message.as_str()), (0, message)),
        }
    }
}

#[tokio::test]
async fn what_is_known_without_a_compiler_is_said_once_and_first() {
    let says = || Ok(vec![complaint(1, 12, Verdict::Mistake)]);
    let Outcome { asked, report, .. } = run("await tools.nope({})", Policy::Auto, says()).await;
    assert_eq!(asked.len(), 0);
    assert!(report.error.unwrap().message.starts_with("unknown tool `nope`"));
    let guarded = "try { await tools.nope({}) } catch (e) { return 1 }";
    let Outcome { ran, report, .. } = run(guarded, Policy::Auto, says()).await;
    assert_eq!((ran, report.warnings.len()), (1, 1), "{:?}", report.warnings);
}

/// Programs for the tools of the corpus with the start of what they are refused with, or nothing.
const REFUSED: &[(&str, Option<&str>)] = &[
    (
        "const id = 5; return (await tools.read_doc({ id })).text;",
        Some("Type 'number' is not assignable to type 'string' (TS2322; line 1, column 46)"),
    ),
    (
        "const b = ['1']; return tools.add({ a: 1, b });",
        Some("Type 'string[]' is not assignable to type 'number'"),
    ),
    (
        "const args = { a: 1 }; return tools.add(args);",
        Some("Property 'b' is missing in type '{ a: number; }'"),
    ),
    (
        "const { docs } = await tools.list_docs({}); return tools.add({ a: docs, b: 1 });",
        Some("Type '{ "),
    ),
    (
        "for (const d of (await tools.list_docs({})).docs) await tools.read_doc({ id: d });",
        Some("Type '{ "),
    ),
    (
        "const value = (await tools.echo({ value: 1 })).value; return value.a?.b;",
        None,
    ),
    (
        "const a = (await tools.add({ a: 1, b: 2 })).sum; return tools.add({ a, b: a });",
        None,
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_of_a_server_are_held_against_programs_by_a_real_compiler() {
    let (Some(checker), Some(folder)) = (compiler(), corpus_dir(env!("CARGO_MANIFEST_DIR"))) else {
        return;
    };
    let set = StdSet::load(&folder.join("std-tools.json")).unwrap();
    let Rig {
        toolbox,
        registration,
        ..
    } = rig(
        std_tools(set),
        engine(Limits::default()),
        ToolboxConfig::default(),
    );
    let toolbox = toolbox.with_typecheck(checker);
    let mut wrong = Vec::new();
    for (program, expected) in REFUSED {
        let request = ProgramRequest {
            code: (*program).to_owned(),
            ..request()
        };
        let report = toolbox.run_program(request).await.unwrap();
        let message = report.error.map(|error| error.message);
        let fits = match (&message, expected) {
            (Some(message), Some(expected)) => message.starts_with(expected) && report.calls.is_empty(),
            (None, None) => true,
            _ => false,
        };
        if !fits {
            wrong.push(format!("{program}: {message:?}"));
        }
    }
    drop(registration);
    assert_eq!(wrong, [""; 0], "{}", wrong.join("\n"));
}
