//! `toolweave config`: the effective configuration, and whether it works.

use serde::Serialize;
use serde_json::json;

use crate::Environment;
use crate::args::{ConfigCommand, RuntimeChoice};
use crate::assemble::{Assembly, Overrides, Verdict};
use crate::config::{Config, Row};
use crate::exit_status::ExitStatus;
use crate::terminal::{Style, Terminal};

pub(crate) async fn run(command: ConfigCommand, environment: &Environment) -> anyhow::Result<ExitStatus> {
    match command {
        ConfigCommand::Show { source, json } => {
            let config = environment.config(&source, &RuntimeChoice::default())?;
            if json {
                show_json(&config, &environment.terminal)
            } else {
                show(&config, &environment.terminal)
            }
            Ok(ExitStatus::Ok)
        }
        ConfigCommand::Check { source, offline } => {
            let config = environment.config(&source, &RuntimeChoice::default())?;
            check(&config, offline, environment).await
        }
    }
}

fn show(config: &Config, terminal: &Terminal) {
    if config.files.is_empty() {
        terminal.note("no toolweave.yml from here upwards nor in the user's configuration folder: these are the defaults");
    }
    row(terminal, "mode", &config.mode);
    row(terminal, "sdk", &config.sdk);
    row(terminal, "sandbox", &config.sandbox);
    row(terminal, "runtime", &config.runtime);
    row(terminal, "tools", &config.tools);
    row(terminal, "observe", &config.observe);
    row(terminal, "builtins", &config.builtins);
    row(terminal, "sessions", &config.sessions);
    row(terminal, "typecheck", &config.typecheck);
    row(terminal, "tsc", &config.tsc);
    if !config.mcp_servers.is_empty() {
        terminal.answer("mcpServers:");
    }
    for (name, server) in &config.mcp_servers {
        let key = serde_json::to_string(name).unwrap_or_default();
        let key = if name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
        {
            name
        } else {
            &key
        };
        terminal.answer(&format!("  {key}: {}", origin(terminal, server)));
        for line in yaml(&server.value).lines() {
            terminal.foreign(&format!("    {line}"));
        }
    }
}

fn row<T: Serialize>(terminal: &Terminal, name: &str, row: &Row<T>) {
    let text = yaml(&row.value);
    let text = text.trim_end();
    if text.contains('\n') || text.contains(": ") {
        terminal.answer(&format!("{name}: {}", origin(terminal, row)));
        for line in text.lines() {
            terminal.foreign(&format!("  {line}"));
        }
    } else {
        terminal.foreign(&format!("{name}: {text} {}", origin(terminal, row)));
    }
}

fn origin<T>(terminal: &Terminal, row: &Row<T>) -> String {
    terminal.out.paint(Style::Dim, &format!("# {}", row.origin))
}

fn yaml<T: Serialize>(value: &T) -> String {
    serde_saphyr::to_string(value).unwrap_or_else(|error| format!("# cannot be shown: {error}"))
}

fn show_json(config: &Config, terminal: &Terminal) {
    let servers = config
        .mcp_servers
        .iter()
        .map(|(name, row)| (format!("mcpServers.{name}"), row.origin.to_string()));
    let rows = [
        ("mode", &config.mode.origin),
        ("sdk", &config.sdk.origin),
        ("sandbox", &config.sandbox.origin),
        ("runtime", &config.runtime.origin),
        ("tools", &config.tools.origin),
        ("observe", &config.observe.origin),
        ("builtins", &config.builtins.origin),
        ("sessions", &config.sessions.origin),
        ("typecheck", &config.typecheck.origin),
        ("tsc", &config.tsc.origin),
    ];
    let origins: serde_json::Map<_, _> = rows
        .into_iter()
        .map(|(name, origin)| (name.to_owned(), origin.to_string()))
        .chain(servers)
        .map(|(name, origin)| (name, json!(origin)))
        .collect();
    terminal.answer(&json!({"config": config, "origins": origins}).to_string());
}

async fn check(config: &Config, offline: bool, environment: &Environment) -> anyhow::Result<ExitStatus> {
    let terminal = &environment.terminal;
    for path in &config.files {
        terminal.answer(&format!("{} is well formed", path.display()));
    }
    if config.files.is_empty() {
        terminal.answer("no configuration file; the defaults are used");
    }
    if offline {
        return Ok(ExitStatus::Ok);
    }
    let assembly = Assembly::start(config, environment, Overrides::default()).await?;
    assembly.toolbox.present().map_err(crate::NoRuntime::from)?;
    let mut status = ExitStatus::Ok;
    for server in assembly.settled_servers(terminal).await {
        match &server.verdict {
            Verdict::Disabled => terminal.answer(&format!("server `{}` is disabled", server.name)),
            Verdict::Ready { tools } => {
                terminal.answer(&format!("server `{}` answers: {tools} tools", server.name))
            }
            Verdict::Failed { reason, stderr } => {
                terminal.error(&format!("server `{}`: {reason}", server.name));
                for line in stderr {
                    terminal.note(&format!("    {line}"));
                }
                status = ExitStatus::Usage;
            }
        }
        for note in &server.notes {
            terminal.warning(&format!("server `{}`: {note}", server.name));
        }
    }
    assembly.shutdown(terminal).await;
    Ok(status)
}
