//! `toolweave doctor`: checks that everything works here, and says what to do where it does not.

use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use tokio_util::sync::CancellationToken;
use toolweave_runtime::SandboxState;
use toolweave_tools::{ProgramReport, ProgramRequest, Toolbox};

use crate::Environment;
use crate::args::DoctorArgs;
use crate::assemble::{self, Assembly, Overrides, Server, TypeCheck};
use crate::config::Config;
use crate::exit_status::ExitStatus;
use crate::terminal::{Style, Terminal, human_duration};

/// One thing that was checked.
#[derive(Debug, Serialize)]
struct Check {
    name: String,
    verdict: Verdict,
    /// What was found.
    found: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    Warning,
    Failed,
}

pub(crate) async fn run(args: DoctorArgs, environment: &Environment) -> anyhow::Result<ExitStatus> {
    let mut checks = vec![platform()];
    let mut status = ExitStatus::Ok;
    match environment.config(&args.source, &args.runtime) {
        Err(error) => {
            checks.push(failed(
                "configuration",
                error.to_string(),
                "correct the file and run `toolweave config check`",
            ));
            status = ExitStatus::Usage;
        }
        Ok(config) => {
            checks.push(configuration(&config));
            match Assembly::start(&config, environment, Overrides::default()).await {
                Err(error) => {
                    let no_runtime = error.chain().any(|cause| cause.is::<crate::NoRuntime>());
                    let remedy = if no_runtime {
                        "set `sandbox: preferred` or `runtime: { placement: thread }`"
                    } else {
                        "correct the configuration"
                    };
                    checks.push(failed("start", format!("{error:#}"), remedy));
                    status = if no_runtime {
                        ExitStatus::NoRuntime
                    } else {
                        ExitStatus::Usage
                    };
                }
                Ok(assembly) => {
                    let spinner = environment.terminal.spinner("checking");
                    if !runs(&assembly, &mut checks).await {
                        status = ExitStatus::NoRuntime;
                    }
                    spinner.finish_and_clear();
                    checks.push(type_check(assembly.typecheck()));
                    let found = assembly.settled_servers(&environment.terminal).await;
                    if !servers(&found, &mut checks) && status == ExitStatus::Ok {
                        status = ExitStatus::Usage;
                    }
                    checks.push(presentation(&assembly.toolbox));
                    assembly.shutdown(&environment.terminal).await;
                }
            }
        }
    }
    if args.json {
        let ok = status == ExitStatus::Ok;
        environment
            .terminal
            .answer(&serde_json::json!({"ok": ok, "checks": checks}).to_string());
    } else {
        show(&checks, &environment.terminal);
    }
    Ok(status)
}

fn platform() -> Check {
    let found = format!(
        "toolweave {} on {} {}",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        std::env::consts::ARCH
    );
    if cfg!(target_os = "linux") {
        return ok("platform", found);
    }
    Check {
        name: "platform".to_owned(),
        verdict: Verdict::Warning,
        found: format!("{found}: programs run in a thread of this process"),
        remedy: Some("use Linux, or a container, for programs in processes of their own".to_owned()),
    }
}

fn configuration(config: &Config) -> Check {
    let files: Vec<_> = config
        .files
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let found = if files.is_empty() {
        "no toolweave.yml: defaults".to_owned()
    } else {
        files.join(", ")
    };
    ok("configuration", found)
}

/// Runs two small programs: the first pays for the warm parent, the second shows what every later one costs.
async fn runs(assembly: &Assembly, checks: &mut Vec<Check>) -> bool {
    let toolbox = &assembly.toolbox;
    let first = program(toolbox).await;
    let started = Instant::now();
    let second = program(toolbox).await;
    let took = started.elapsed();
    for report in [first, second.clone()] {
        let problem = match report {
            Err(error) => error,
            Ok(ProgramReport {
                error: Some(error), ..
            }) => format!("{}: {}", error.kind, error.message),
            Ok(ProgramReport {
                result: Some(value), ..
            }) if value.as_str() == "42" => continue,
            Ok(report) => format!("a program that returns 42 gave {:?}", report.result),
        };
        checks.push(failed(
            "runtime",
            problem,
            "try `--placement thread`; if that works, the sandbox is what fails here",
        ));
        return false;
    }
    let Ok(report) = second else { return false };
    if let Some(usage) = &report.usage {
        checks.push(ok(
            "runtime",
            format!(
                "{} in a {}: a program ran in {}",
                assembly.engine,
                usage.isolation.as_str(),
                human_duration(took)
            ),
        ));
        let sandbox = &usage.sandbox;
        let layers = if sandbox.layers.is_empty() {
            "no layers".to_owned()
        } else {
            sandbox.layers.join(", ")
        };
        checks.push(match sandbox.state {
            SandboxState::Enforced => ok("sandbox", layers),
            SandboxState::Partial => Check {
                name: "sandbox".to_owned(),
                verdict: Verdict::Warning,
                found: format!("{layers}; missing: {}", sandbox.missing.join("; ")),
                remedy: Some("a newer kernel or another container runtime brings the missing layers; `sandbox: required` refuses to run without them".to_owned()),
            },
            SandboxState::None => Check {
                name: "sandbox".to_owned(),
                verdict: Verdict::Warning,
                found: "none: programs are held by the engine alone".to_owned(),
                remedy: Some("use `runtime: { placement: worker }` on Linux, and `sandbox: preferred` or `required`".to_owned()),
            },
        });
    }
    true
}

async fn program(toolbox: &Toolbox) -> Result<ProgramReport, String> {
    let request = ProgramRequest {
        code: "return 6 * 7".to_owned(),
        description: None,
        call_id: Arc::from("doctor"),
        cancel: CancellationToken::new(),
        timeout: None,
        observer: None,
    };
    toolbox
        .run_program(request)
        .await
        .map_err(|error| error.to_string())
}

fn servers(servers: &[Server], checks: &mut Vec<Check>) -> bool {
    let mut all_answer = true;
    for server in servers {
        let name = format!("server {}", server.name);
        match &server.verdict {
            assemble::Verdict::Disabled => checks.push(ok(name, "disabled")),
            assemble::Verdict::Ready { tools } => checks.push(ok(name, format!("{tools} tools"))),
            assemble::Verdict::Failed { reason, stderr } => {
                all_answer = false;
                let last = stderr
                    .last()
                    .map(|line| format!("; it last said: {line}"))
                    .unwrap_or_default();
                let remedy = "try its command by hand; its tools are missing until it starts";
                checks.push(failed(name, format!("{reason}{last}"), remedy));
            }
        }
        for note in &server.notes {
            checks.push(Check {
                name: format!("server {}", server.name),
                verdict: Verdict::Warning,
                found: note.clone(),
                remedy: None,
            });
        }
    }
    all_answer
}

fn type_check(typecheck: &TypeCheck) -> Check {
    match typecheck {
        TypeCheck::On { found, .. } => ok("type check", found),
        TypeCheck::Off { why } => ok("type check", format!("programs run unchecked: {why}")),
        TypeCheck::Missing { why } => failed(
            "type check",
            why,
            "do that, or set `typecheck: auto`; until then no program runs",
        ),
    }
}

fn presentation(toolbox: &Toolbox) -> Check {
    match toolbox.present() {
        Ok(presentation) => {
            let tools = toolbox.registry().tools().len();
            let note = presentation
                .sdk
                .map(|sdk| format!("; {}", sdk.note))
                .unwrap_or_default();
            ok(
                "presentation",
                format!("{tools} tools, {} on the wire{note}", presentation.tools.len()),
            )
        }
        Err(error) => failed(
            "presentation",
            error.to_string(),
            "set `mode: native`, or configure a runtime",
        ),
    }
}

fn ok(name: impl Into<String>, found: impl Into<String>) -> Check {
    Check {
        name: name.into(),
        verdict: Verdict::Ok,
        found: found.into(),
        remedy: None,
    }
}

fn failed(name: impl Into<String>, found: impl Into<String>, remedy: &str) -> Check {
    Check {
        name: name.into(),
        verdict: Verdict::Failed,
        found: found.into(),
        remedy: Some(remedy.to_owned()),
    }
}

fn show(checks: &[Check], terminal: &Terminal) {
    for check in checks {
        let mark = match check.verdict {
            Verdict::Ok => terminal.out.paint(Style::Green, "ok     "),
            Verdict::Warning => terminal.out.paint(Style::Yellow, "warning"),
            Verdict::Failed => terminal.out.paint(Style::Red, "failed "),
        };
        terminal.answer(&format!(
            "{mark} {}: {}",
            check.name,
            crate::terminal::visible(&check.found)
        ));
        if let Some(remedy) = &check.remedy {
            terminal.answer(&format!("        {remedy}"));
        }
    }
}
