//! Programs as models write them, run in a real engine against the tool set that they were written for.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use toolweave_quickjs::{Placement, QuickJsConfig, QuickJsRuntime};
use toolweave_runtime::{CodeRuntime, Json, JsonMode, Limits};
use toolweave_testkit::{
    Answer, Outcome, Program, StdSet, ToolSet, corpus_dir, load_programs, sidecar_matches,
};
use toolweave_tools::{
    CallContext, Effect, ProgramReport, ProgramRequest, Provider, Registry, Tool, ToolError, ToolOutput,
    ToolSpec, Toolbox, ToolboxConfig,
};
use toolweave_typecheck::CheckPrograms;

use crate::dispatch::request;

/// Programs whose sidecar proposes something else than the product does.
const DIFFERS: &[&str] = &[
    // A call without an argument means `{}`.
    "119-call-without-argument",
    // Local forms of numbers and texts are the engine's to add.
    "121-locale-format",
];

struct StdTool {
    spec: ToolSpec,
    set: Arc<StdSet>,
}

#[async_trait]
impl Tool for StdTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, context: &CallContext, arguments: Value) -> Result<ToolOutput, ToolError> {
        let outcome = match self.set.call(&self.spec.name, &arguments.to_string()) {
            None => return Err(ToolError::failed("no such tool")),
            Some(Answer::Now(outcome)) => outcome,
            Some(Answer::After(time, outcome)) => {
                tokio::select! {
                    () = tokio::time::sleep(time) => outcome,
                    () = context.cancel.cancelled() => return Err(ToolError::failed("cancelled")),
                }
            }
        };
        match outcome {
            Outcome::Value(text) => Ok(ToolOutput::from_value(
                Json::parse(text, 10_000).unwrap().to_value(),
            )),
            Outcome::Failed(message) => Err(ToolError::failed(message)),
            Outcome::Content(blocks) => Ok(ToolOutput::from_value(Value::Array(blocks))),
        }
    }
}

/// The tools of the set, fresh.
pub(crate) fn std_tools(set: StdSet) -> Vec<Arc<dyn Tool>> {
    let set = Arc::new(set);
    set.tools()
        .into_iter()
        .map(|declared| {
            let reads = declared["annotations"]["readOnlyHint"] == json!(true);
            let spec = ToolSpec {
                name: declared["name"].as_str().unwrap().to_owned(),
                title: None,
                description: declared["description"].as_str().unwrap_or_default().to_owned(),
                input_schema: declared["inputSchema"].clone(),
                output_schema: declared.get("outputSchema").cloned(),
                effect: if reads { Effect::Read } else { Effect::Unknown },
                provider: Provider {
                    name: "std".into(),
                    version: None,
                },
            };
            Arc::new(StdTool {
                spec,
                set: Arc::clone(&set),
            }) as Arc<dyn Tool>
        })
        .collect()
}

pub(crate) fn engine(limits: Limits) -> Arc<dyn CodeRuntime> {
    let config = QuickJsConfig {
        placement: Placement::Thread,
        limits,
        json: JsonMode::Standard,
    };
    Arc::new(QuickJsRuntime::new(config).unwrap())
}

/// What `exec --json` would print of a run, as far as the sidecars look at it.
fn outcome(report: &ProgramReport) -> String {
    let mut outcome = json!({
        "ok": report.error.is_none(),
        "logs": report.logs,
        "calls": report.calls.iter().map(|call| json!({"name": call.name})).collect::<Vec<_>>(),
    });
    if let Some(error) = &report.error {
        outcome["error"] = json!({"kind": error.kind.as_str(), "message": error.message, "line": error.line});
    }
    let mut text = outcome.to_string();
    if let Some(result) = &report.result {
        text.insert_str(1, &format!("\"result\":{},", result.as_str()));
    }
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_come_out_as_their_sidecars_say() {
    run_all(None).await;
}

/// The compiler finds fault with programs that work, or fail as they are meant to; none may come out otherwise by it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_come_out_the_same_with_a_type_check() {
    if let Some(checker) = crate::typecheck::compiler() {
        run_all(Some(checker)).await;
    }
}

async fn run_all(checker: Option<Arc<dyn CheckPrograms>>) {
    let Some(folder) = corpus_dir(env!("CARGO_MANIFEST_DIR")) else {
        return;
    };
    let mut wrong = Vec::new();
    for Program {
        name, text, sidecar, ..
    } in load_programs(&folder).unwrap()
    {
        let wanted = sidecar.limits;
        let defaults = Limits::default();
        let limits = Limits {
            compute_ms: wanted.compute_ms.unwrap_or(defaults.compute_ms),
            max_wall_ms: wanted.max_wall_ms.unwrap_or(defaults.max_wall_ms),
            max_memory_mb: wanted.max_memory_mb.unwrap_or(defaults.max_memory_mb),
            max_output_bytes: wanted.max_output_bytes.unwrap_or(defaults.max_output_bytes),
            ..defaults
        };
        let registry = Registry::new();
        let set = StdSet::load(&folder.join("std-tools.json")).unwrap();
        let _kept = registry.register(std_tools(set)).unwrap();
        let mut toolbox = Toolbox::new(registry, Some(engine(limits)), ToolboxConfig::default());
        if let Some(checker) = &checker {
            toolbox = toolbox.with_typecheck(Arc::clone(checker));
        }
        let report = toolbox
            .run_program(ProgramRequest {
                code: text,
                ..request()
            })
            .await
            .unwrap();
        for warning in report
            .warnings
            .iter()
            .filter(|warning| warning.contains("(TS") || warning.contains("type check"))
        {
            #[expect(clippy::print_stderr, reason = "what a test found belongs into its output")]
            {
                eprintln!("{name}: {warning}");
            }
        }
        if !DIFFERS.contains(&name.as_str())
            && let Err(difference) = sidecar_matches(&sidecar.expect, &outcome(&report))
        {
            wrong.push(format!("{name} ({:?}): {difference}", sidecar.class));
        }
    }
    assert_eq!(wrong, [""; 0], "{}", wrong.join("\n\n"));
}
