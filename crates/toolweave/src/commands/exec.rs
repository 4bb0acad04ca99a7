//! `toolweave exec`: runs a program against the tools now.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;
use toolweave_runtime::{FailureKind, Isolation, SandboxReport};
use toolweave_tools::{CallRecord, ProgramReport, ProgramRequest, RunObserver, render_value};

use crate::Environment;
use crate::args::ExecArgs;
use crate::assemble::{Assembly, Overrides};
use crate::exit_status::ExitStatus;
use crate::terminal::{LiveCalls, Terminal};

/// The longest text that is read as a program. The front end has a cap of its own, with a better message.
const MAX_PROGRAM_BYTES: u64 = 16 * 1024 * 1024;

pub(crate) async fn run(args: ExecArgs, environment: &Environment) -> anyhow::Result<ExitStatus> {
    let terminal = &environment.terminal;
    let code = program_text(&args)?;
    let config = environment.config(&args.source, &args.runtime)?;
    let assembly = Assembly::start(&config, environment, Overrides::default()).await?;
    assembly.warm();
    assembly.wait_until_ready(terminal).await;

    let cancel = CancellationToken::new();
    cancel_on_ctrl_c(cancel.clone());
    let live = (!args.quiet && !args.json && terminal.err_is_terminal)
        .then(|| Arc::new(LiveCalls::on_terminal(terminal)));
    let request = ProgramRequest {
        code,
        description: None,
        call_id: Arc::from("exec"),
        cancel,
        timeout: args.timeout_ms.map(Duration::from_millis),
        observer: live.clone().map(|live| live as Arc<dyn RunObserver>),
    };
    let report = assembly.toolbox.run_program(request).await;
    if let Some(live) = live {
        live.finish();
    }
    assembly.shutdown(terminal).await;
    let report = report.map_err(crate::NoRuntime::from)?;
    if args.json {
        terminal.answer(&json(&report, assembly.isolation));
    } else {
        show(&report, terminal);
    }
    Ok(status(&report))
}

/// Returns the exit status that a report deserves.
fn status(report: &ProgramReport) -> ExitStatus {
    match &report.error {
        None => ExitStatus::Ok,
        Some(error) if error.kind == FailureKind::SandboxUnavailable => ExitStatus::NoRuntime,
        Some(_) => ExitStatus::Failed,
    }
}

/// Cancels the run at the first Ctrl-C; a second one ends the process at once.
pub(crate) fn cancel_on_ctrl_c(cancel: CancellationToken) {
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            cancel.cancel();
        }
        if tokio::signal::ctrl_c().await.is_ok() {
            #[expect(
                clippy::exit,
                reason = "the person asked twice; workers end with this process"
            )]
            std::process::exit(130);
        }
    });
}

fn program_text(args: &ExecArgs) -> anyhow::Result<String> {
    if let Some(code) = &args.eval {
        return Ok(code.clone());
    }
    let mut bytes = Vec::new();
    let name = match args.file.as_deref() {
        Some(path) if path != Path::new("-") => {
            let file = std::fs::File::open(path)
                .with_context(|| format!("cannot open the program {}", path.display()))?;
            file.take(MAX_PROGRAM_BYTES + 1)
                .read_to_end(&mut bytes)
                .with_context(|| format!("cannot read the program {}", path.display()))?;
            path.display().to_string()
        }
        _ => {
            std::io::stdin()
                .lock()
                .take(MAX_PROGRAM_BYTES + 1)
                .read_to_end(&mut bytes)
                .context("cannot read the program from standard input")?;
            "standard input".to_owned()
        }
    };
    if bytes.len() as u64 > MAX_PROGRAM_BYTES {
        anyhow::bail!("the program from {name} is longer than {MAX_PROGRAM_BYTES} bytes");
    }
    String::from_utf8(bytes).map_err(|error| {
        anyhow::anyhow!(
            "the program from {name} is not UTF-8: invalid byte at {}",
            error.utf8_error().valid_up_to()
        )
    })
}

fn show(report: &ProgramReport, terminal: &Terminal) {
    for entry in &report.logs {
        terminal.foreign(entry);
    }
    if let Some(value) = &report.result {
        terminal.foreign(&render_value(value));
    }
    for warning in &report.warnings {
        terminal.warning(warning);
    }
    if let Some(error) = &report.error {
        terminal.error(&format!("{}: {}", error.kind, error.message));
        let done: Vec<_> = report
            .calls
            .iter()
            .filter(|call| call.ok && call.effect != toolweave_tools::Effect::Read)
            .collect();
        if !done.is_empty() {
            let names: Vec<_> = done.iter().map(|call| call.name.as_str()).collect();
            terminal.note(&format!("already done before the failure: {}", names.join(", ")));
        }
    }
}

/// The object that `exec --json` prints.
#[derive(Serialize)]
struct Json<'r> {
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Box<RawValue>>,
    logs: &'r [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<JsonError<'r>>,
    calls: Vec<JsonCall<'r>>,
    warnings: &'r [String],
    usage: JsonUsage<'r>,
}

#[derive(Serialize)]
struct JsonError<'r> {
    kind: FailureKind,
    message: &'r str,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<u32>,
}

#[derive(Serialize)]
struct JsonCall<'r> {
    id: &'r str,
    name: &'r str,
    ok: bool,
    ms: f64,
    effect: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'r str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonUsage<'r> {
    compute_ms: f64,
    wall_ms: f64,
    peak_memory_bytes: Option<u64>,
    isolation: Isolation,
    /// Absent when nothing ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    sandbox: Option<&'r SandboxReport>,
}

fn json(report: &ProgramReport, isolation: Isolation) -> String {
    let usage = report.usage.as_ref();
    let object = Json {
        ok: report.error.is_none(),
        result: report
            .result
            .as_ref()
            .and_then(|value| RawValue::from_string(value.as_str().to_owned()).ok()),
        logs: &report.logs,
        error: report.error.as_ref().map(|error| JsonError {
            kind: error.kind,
            message: &error.message,
            line: error.line,
            column: error.column,
        }),
        calls: report.calls.iter().map(json_call).collect(),
        warnings: &report.warnings,
        usage: JsonUsage {
            compute_ms: usage.map_or(0.0, |usage| milliseconds(usage.compute)),
            wall_ms: usage.map_or(0.0, |usage| milliseconds(usage.wall)),
            peak_memory_bytes: usage.and_then(|usage| usage.peak_memory_bytes),
            isolation: usage.map_or(isolation, |usage| usage.isolation),
            sandbox: usage.map(|usage| &usage.sandbox),
        },
    };
    serde_json::to_string(&object).unwrap_or_else(|error| {
        format!("{{\"ok\":false,\"error\":{{\"kind\":\"protocol\",\"message\":\"{error}\"}}}}")
    })
}

fn json_call(call: &CallRecord) -> JsonCall<'_> {
    JsonCall {
        id: &call.id,
        name: &call.name,
        ok: call.ok,
        ms: milliseconds(call.duration),
        effect: call.effect.as_str(),
        error: call.error.as_deref(),
    }
}

/// Returns milliseconds with three decimals.
fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1_000_000.0).round() / 1000.0
}
