//! `toolweave tools`: looks at tools and calls them, as a person.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::Arc;

use anyhow::Context as _;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use toolweave_tools::{
    Content, Effect, ErrorCode, Forget, Mode, ShapeStore as _, ToolCall, ToolResult, Toolbox,
};

use crate::Environment;
use crate::args::{RuntimeChoice, Source, ToolsCommand};
use crate::assemble::{Assembly, Overrides};
use crate::config;
use crate::exit_status::ExitStatus;
use crate::state::FileShapes;
use crate::terminal::{Style, Terminal, human_bytes, shortened, visible};

/// The longest argument text read from standard input.
const MAX_ARGUMENT_BYTES: u64 = 64 * 1024 * 1024;

pub(crate) async fn run(command: ToolsCommand, environment: &Environment) -> anyhow::Result<ExitStatus> {
    let terminal = &environment.terminal;
    let source = match &command {
        ToolsCommand::Forget { name, server, .. } => {
            return forget(name.as_deref(), server.as_deref(), environment);
        }
        ToolsCommand::List { source, .. }
        | ToolsCommand::Search { source, .. }
        | ToolsCommand::Help { source, .. }
        | ToolsCommand::Call { source, .. } => source.clone(),
    };
    let arguments = match &command {
        ToolsCommand::Call { arguments, .. } => Some(argument_text(arguments)?),
        _ => None,
    };
    let assembly = assemble(&source, environment).await?;
    let status = match command {
        ToolsCommand::List { json, .. } => list(&assembly.toolbox, json, terminal),
        ToolsCommand::Search {
            query, limit, json, ..
        } => search(&assembly.toolbox, &query, usize::from(limit), json, terminal),
        ToolsCommand::Help { name, .. } => match assembly.toolbox.help(&name) {
            Ok(text) => {
                terminal.foreign(&text);
                ExitStatus::Ok
            }
            Err(error) => {
                terminal.error(&error.message);
                ExitStatus::Failed
            }
        },
        ToolsCommand::Forget { .. } => ExitStatus::Ok,
        ToolsCommand::Call { name, json, .. } => {
            let cancel = CancellationToken::new();
            super::exec::cancel_on_ctrl_c(cancel.clone());
            let call = ToolCall {
                id: Arc::from("call"),
                name,
                arguments: arguments.unwrap_or_default(),
                cancel,
                progress: None,
                observer: None,
            };
            let result = assembly.toolbox.execute(call).await;
            show(&result, json, terminal)
        }
    };
    assembly.shutdown(terminal).await;
    Ok(status)
}

/// Starts everything in native mode, since a person calls tools directly.
async fn assemble(source: &Source, environment: &Environment) -> anyhow::Result<Assembly> {
    let config = environment.config(source, &RuntimeChoice::default())?;
    let assembly = Assembly::start(
        &config,
        environment,
        Overrides {
            mode: Some(Mode::Native),
        },
    )
    .await?;
    assembly.wait_until_ready(&environment.terminal).await;
    Ok(assembly)
}

/// Forgets shapes, without starting a server. Neither a name nor a server means everything.
fn forget(name: Option<&str>, server: Option<&str>, environment: &Environment) -> anyhow::Result<ExitStatus> {
    let terminal = &environment.terminal;
    let folder = environment
        .surroundings
        .state_directory
        .as_deref()
        .context("there is no state folder: set TOOLWEAVE_HOME or HOME")?;
    let shapes = FileShapes::new(folder, terminal.clone());
    let what = match (name, server) {
        (Some(name), _) => Forget::Tool(name.to_owned()),
        (None, Some(server)) => Forget::Server(server.to_owned()),
        (None, None) => Forget::All,
    };
    let mut counts: BTreeMap<(String, Option<String>), usize> = BTreeMap::new();
    for gone in shapes.forget(&what) {
        let version = gone.provider.version.map(|version| version.to_string());
        *counts
            .entry((gone.provider.name.to_string(), version))
            .or_default() += 1;
    }
    for ((server, version), count) in &counts {
        let version = version
            .as_ref()
            .map_or(String::new(), |version| format!(" {version}"));
        let tools = match (name, count) {
            (Some(name), _) => format!("`{name}`"),
            (None, 1) => "1 tool".to_owned(),
            (None, count) => format!("{count} tools"),
        };
        terminal.answer(&visible(&format!(
            "forgot what results of {tools} of server `{server}`{version} looked like"
        )));
    }
    if !counts.is_empty() {
        return Ok(ExitStatus::Ok);
    }
    match what {
        Forget::All => {
            terminal.answer("there was nothing to forget");
            Ok(ExitStatus::Ok)
        }
        Forget::Tool(name) => {
            let known = shapes.tools();
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let near = config::nearest(&name, &known);
            terminal.error(&visible(&format!(
                "nothing was observed of a tool `{name}`{near}"
            )));
            Ok(ExitStatus::Failed)
        }
        Forget::Server(name) => {
            terminal.error(&visible(&format!("nothing was observed of a server `{name}`")));
            Ok(ExitStatus::Failed)
        }
    }
}

fn argument_text(arguments: &str) -> anyhow::Result<String> {
    if arguments != "-" {
        return Ok(arguments.to_owned());
    }
    let mut text = String::new();
    std::io::stdin()
        .lock()
        .take(MAX_ARGUMENT_BYTES)
        .read_to_string(&mut text)
        .context("cannot read the arguments from standard input")?;
    Ok(text)
}

fn list(toolbox: &Toolbox, json: bool, terminal: &Terminal) -> ExitStatus {
    let tools = toolbox.registry().tools();
    if json {
        let rows: Vec<_> = tools
            .iter()
            .map(|tool| {
                let spec = tool.spec();
                json!({
                    "name": spec.name,
                    "description": spec.description,
                    "effect": spec.effect.as_str(),
                    "provider": &*spec.provider.name,
                    "inputSchema": spec.input_schema,
                    "outputSchema": spec.output_schema,
                })
            })
            .collect();
        terminal.answer(&serde_json::Value::Array(rows).to_string());
        return ExitStatus::Ok;
    }
    let width = tools
        .iter()
        .map(|tool| tool.spec().name.chars().count())
        .max()
        .unwrap_or_default()
        .min(64);
    for tool in &tools {
        let spec = tool.spec();
        let style = if spec.effect == Effect::Read {
            Style::Green
        } else {
            Style::Yellow
        };
        terminal.answer(&format!(
            "{}{} {} {}",
            terminal.out.paint(Style::Bold, &visible(&spec.name)),
            " ".repeat(width.saturating_sub(spec.name.chars().count())),
            terminal
                .out
                .paint(style, &format!("{:<11}", spec.effect.as_str())),
            visible(&shortened(spec.description.trim(), 80)),
        ));
    }
    if tools.is_empty() {
        terminal.note("no tools: name a directory with --root, or servers under mcpServers in toolweave.yml");
    }
    ExitStatus::Ok
}

fn search(toolbox: &Toolbox, query: &str, limit: usize, json: bool, terminal: &Terminal) -> ExitStatus {
    let hits = toolbox.search(query, limit);
    if json {
        terminal.answer(&serde_json::to_string(&hits).unwrap_or_default());
        return ExitStatus::Ok;
    }
    for hit in &hits {
        terminal.answer(&terminal.out.paint(Style::Bold, &visible(&hit.signature)));
        if !hit.description.is_empty() {
            terminal.answer(&format!(
                "    {}",
                visible(&shortened(hit.description.trim(), 110))
            ));
        }
    }
    if hits.is_empty() {
        terminal.note(&format!("no tool matches `{query}`"));
    }
    ExitStatus::Ok
}

fn show(result: &ToolResult, json: bool, terminal: &Terminal) -> ExitStatus {
    let status = if result.error.is_none() {
        ExitStatus::Ok
    } else {
        ExitStatus::Failed
    };
    if json {
        let object = json!({
            "ok": result.error.is_none(),
            "content": result.content,
            "structuredContent": result.structured,
            "error": result.error,
        });
        terminal.answer(&object.to_string());
        return status;
    }
    for block in &result.content {
        match block {
            Content::Text(text) if result.error.is_some() => {
                let code = result.error.unwrap_or(ErrorCode::ToolFailed);
                terminal.error(&format!("{code}: {text}"));
            }
            Content::Text(text) => terminal.foreign(text),
            Content::Image { data, mime_type } => {
                terminal.note(&format!(
                    "[image {mime_type}, {} of base64; --json prints it]",
                    human_bytes(data.len())
                ));
            }
            Content::Other { block } => terminal.foreign(&block.to_string()),
        }
    }
    status
}
