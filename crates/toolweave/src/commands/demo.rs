//! `toolweave demo`: the main job on sample documents, and what the same task costs as step-by-step tool calls.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use toolweave_builtins::{Access, Root};
use toolweave_tools::{
    Content, Mode, ProgramRequest, Registry, RunObserver, ToolCall, Toolbox, ToolboxConfig, render_value,
};

use crate::Environment;
use crate::args::DemoArgs;
use crate::config::Config;
use crate::exit_status::ExitStatus;
use crate::terminal::{LiveCalls, Style, Terminal, grouped, human_bytes, human_duration};

mod documents;

/// The program that a model would write for the task.
const PROGRAM: &str = include_str!("../../demo/program.ts");
/// The task, as a person would put it.
const TASK: &str = "Read every document, keep those that mention sandboxes, latency or architecture, and name the five that do so most.";

pub(crate) async fn run(args: DemoArgs, environment: &Environment) -> anyhow::Result<ExitStatus> {
    let terminal = &environment.terminal;
    let samples = tempfile::tempdir().context("cannot make a folder for the sample documents")?;
    let folder = match &args.docs {
        Some(folder) => folder.clone(),
        None => {
            documents::write_to(samples.path()).context("cannot write the sample documents")?;
            samples.path().to_owned()
        }
    };
    let config = environment.defaults(&args.runtime);
    let runtime = crate::assemble::engine(&config, environment)?.runtime;
    let registry = Registry::new();
    let root =
        Root::open(&folder).with_context(|| format!("cannot read the documents in {}", folder.display()))?;
    let _tools = registry.register(toolweave_builtins::tools(root, Access::ReadOnly))?;

    let heading = |text: &str| terminal.answer(&format!("\n{}", terminal.out.paint(Style::Bold, text)));
    let shown = if args.docs.is_some() {
        folder.display().to_string()
    } else {
        "the bundled sample documents".to_owned()
    };
    heading(&format!("Documents in {shown}"));
    let documents = list(&folder)?;
    anyhow::ensure!(
        !documents.is_empty(),
        "there is no .md file below {}",
        folder.display()
    );
    for (path, bytes) in documents.iter().take(MOST_LISTED) {
        terminal.foreign(&format!("  {path} ({})", human_bytes(*bytes)));
    }
    if documents.len() > MOST_LISTED {
        terminal.answer(&format!("  … and {} more", documents.len() - MOST_LISTED));
    }
    heading("Task");
    terminal.answer(&format!("  {TASK}"));
    heading("Program, as a model would write it");
    for line in PROGRAM.lines() {
        terminal.answer(&format!("  {}", terminal.out.paint(Style::Cyan, line)));
    }

    heading("Calls");
    let toolbox = Toolbox::new(
        registry.clone(),
        Some(Arc::clone(&runtime)),
        toolbox_config(&config, Mode::Code),
    );
    let live = Arc::new(LiveCalls::as_answer(terminal));
    let started = Instant::now();
    let report = toolbox
        .run_program(ProgramRequest {
            code: PROGRAM.to_owned(),
            description: Some("Rank the documents by keyword".to_owned()),
            call_id: Arc::from("demo"),
            cancel: CancellationToken::new(),
            timeout: None,
            observer: Some(live as Arc<dyn RunObserver>),
        })
        .await
        .map_err(crate::NoRuntime::from)?;
    let program_took = started.elapsed();
    heading("Result");
    if let Some(error) = &report.error {
        terminal.error(&format!("{}: {}", error.kind, error.message));
        runtime.dispose().await;
        return Ok(ExitStatus::Failed);
    }
    let value = report.result.as_ref().map(render_value);
    let answer = report
        .logs
        .iter()
        .cloned()
        .chain(value)
        .collect::<Vec<_>>()
        .join("\n");
    for line in answer.lines() {
        terminal.foreign(&format!("  {line}"));
    }

    let direct = Toolbox::new(registry, None, toolbox_config(&config, Mode::Native));
    let steps = step_by_step(&direct, &documents).await?;
    heading("What that saves");
    let program = Cost {
        turns: 2,
        written: PROGRAM.chars().count(),
        read: answer.chars().count(),
        took: program_took,
    };
    table(&program, &steps, report.calls.len(), terminal);
    runtime.dispose().await;
    Ok(ExitStatus::Ok)
}

/// Most documents that are named one by one.
const MOST_LISTED: usize = 20;

/// What a task costs a model: all of it measured here, but for the model's own time.
struct Cost {
    /// Requests to the model, the one with the final answer included.
    turns: usize,
    /// Characters that the model writes: programs or arguments.
    written: usize,
    /// Characters of tool results that enter the model's context.
    read: usize,
    /// Time that tools and programs took.
    took: Duration,
}

/// Makes the same calls one by one, as a model without programs does, and counts what it would have to read.
async fn step_by_step(toolbox: &Toolbox, documents: &[(String, usize)]) -> anyhow::Result<Cost> {
    let started = Instant::now();
    let mut cost = Cost {
        turns: 1,
        written: 0,
        read: 0,
        took: Duration::ZERO,
    };
    let list = ("glob", json!({"pattern": "**/*.md"}));
    let reads = documents.iter().map(|(path, _)| ("read", json!({"path": path})));
    for (index, (name, arguments)) in std::iter::once(list).chain(reads).enumerate() {
        let arguments = arguments.to_string();
        cost.turns += 1;
        cost.written += arguments.chars().count();
        let call = ToolCall {
            id: Arc::from(format!("step-{index}")),
            name: name.to_owned(),
            arguments,
            cancel: CancellationToken::new(),
            progress: None,
            observer: None,
        };
        let result = toolbox.execute(call).await;
        for block in &result.content {
            if let Content::Text(text) = block {
                cost.read += text.chars().count();
            }
        }
        if let Some(code) = result.error {
            anyhow::bail!("the call of `{name}` failed: {code}");
        }
    }
    cost.took = started.elapsed();
    Ok(cost)
}

fn table(program: &Cost, steps: &Cost, calls: usize, terminal: &Terminal) {
    let row = |name: &str, program: &str, steps: &str| {
        terminal.answer(&format!("  {name:<42} {program:>14} {steps:>14}"))
    };
    row("", "one program", "step by step");
    row(
        "turns (requests to the model)",
        &grouped(program.turns),
        &grouped(steps.turns),
    );
    row("tool calls", &grouped(calls), &grouped(steps.turns - 1));
    row(
        "characters of results in the context",
        &grouped(program.read),
        &grouped(steps.read),
    );
    row(
        "characters the model writes",
        &grouped(program.written),
        &grouped(steps.written),
    );
    row(
        "time in tools and programs",
        &human_duration(program.took),
        &human_duration(steps.took),
    );
    let kept_out = steps.read.saturating_sub(program.read);
    terminal.answer(&format!(
        "\n  {} characters stayed out of the model's context, and {} turns were not needed.",
        grouped(kept_out),
        grouped(steps.turns.saturating_sub(program.turns))
    ));
    terminal.answer(
        "  A model that makes parallel tool calls needs 3 turns instead, and reads the same characters.",
    );
    terminal.answer("  All figures were measured in this run. The model's own time is not in them: each turn costs it once.");
}

/// Lists the documents with their sizes, sorted by path.
fn list(folder: &Path) -> anyhow::Result<Vec<(String, usize)>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(current) = folders.pop() {
        let entries =
            std::fs::read_dir(&current).with_context(|| format!("cannot read {}", current.display()))?;
        for entry in entries {
            let entry = entry?;
            let kind = entry.file_type()?;
            let path = entry.path();
            if kind.is_dir() && !entry.file_name().to_string_lossy().starts_with('.') {
                folders.push(path);
            } else if kind.is_file() && path.extension().is_some_and(|extension| extension == "md") {
                let name = path
                    .strip_prefix(folder)
                    .unwrap_or(&path)
                    .to_string_lossy()
                    .into_owned();
                found.push((
                    name,
                    usize::try_from(entry.metadata()?.len()).unwrap_or(usize::MAX),
                ));
            }
        }
    }
    found.sort();
    Ok(found)
}

fn toolbox_config(config: &Config, mode: Mode) -> ToolboxConfig {
    crate::assemble::toolbox_config(config, crate::assemble::Overrides { mode: Some(mode) })
}
