//! `toolweave sdk`: prints the SDK that a model would see.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use toolweave_tools::{
    CallContext, Effect, Mode, Provider, Registration, Registry, SdkDetail, Tool, ToolError, ToolOutput,
    ToolSpec, Toolbox, ToolboxConfig,
};

use crate::Environment;
use crate::args::{DetailArg, ModeArg, RuntimeChoice, SdkArgs};
use crate::assemble::{Assembly, Overrides};
use crate::exit_status::ExitStatus;

/// The longest saved answer that is read.
const MAX_TOOLS_FILE_BYTES: u64 = 256 * 1024 * 1024;

pub(crate) async fn run(args: SdkArgs, environment: &Environment) -> anyhow::Result<ExitStatus> {
    let mode = args.mode.map(mode_of);
    let detail = args.detail.map(detail_of);
    if let Some(path) = &args.tools_file {
        let (registry, _registration) = saved_tools(path, environment)?;
        let config = ToolboxConfig {
            mode: mode.unwrap_or(Mode::Code),
            ..ToolboxConfig::default()
        };
        let runtime = crate::assemble::describing_runtime()?;
        let toolbox = Toolbox::new(registry, Some(runtime), config);
        return print(&toolbox, mode, detail, args.json, environment);
    }
    let config = environment.config(&args.source, &RuntimeChoice::default())?;
    let assembly = Assembly::start(&config, environment, Overrides { mode }).await?;
    assembly.wait_until_ready(&environment.terminal).await;
    let detail = detail.unwrap_or(config.sdk.value);
    let status = print(&assembly.toolbox, mode, Some(detail), args.json, environment);
    assembly.shutdown(&environment.terminal).await;
    status
}

fn print(
    toolbox: &Toolbox,
    mode: Option<Mode>,
    detail: Option<SdkDetail>,
    json: bool,
    environment: &Environment,
) -> anyhow::Result<ExitStatus> {
    let terminal = &environment.terminal;
    let sdk = toolbox
        .sdk(detail.unwrap_or_default())
        .map_err(crate::NoRuntime::from)?;
    let native = mode == Some(Mode::Native);
    if json {
        let presentation = toolbox.present().map_err(crate::NoRuntime::from)?;
        let tools: Vec<_> = presentation
            .tools
            .iter()
            .map(|tool| {
                json!({
                    "name": tool.name,
                    "description": tool.description,
                    "inputSchema": tool.input_schema,
                    "outputSchema": tool.output_schema,
                })
            })
            .collect();
        let text = (!native).then_some(&sdk.text);
        let object = json!({"mode": presentation.mode, "detail": sdk.detail, "note": sdk.note, "text": text, "tools": tools});
        terminal.answer(&object.to_string());
        return Ok(ExitStatus::Ok);
    }
    if native {
        terminal.note("mode native has no SDK: a model sees each tool's own schema (`--json` prints them)");
        return Ok(ExitStatus::Ok);
    }
    terminal.foreign(&sdk.text);
    if !sdk.note.is_empty() {
        terminal.note(&sdk.note);
    }
    Ok(ExitStatus::Ok)
}

pub(crate) fn mode_of(mode: ModeArg) -> Mode {
    match mode {
        ModeArg::Native => Mode::Native,
        ModeArg::Code => Mode::Code,
        ModeArg::Both => Mode::Both,
    }
}

fn detail_of(detail: DetailArg) -> SdkDetail {
    match detail {
        DetailArg::Auto => SdkDetail::Auto,
        DetailArg::Full => SdkDetail::Full,
        DetailArg::Compact => SdkDetail::Compact,
        DetailArg::Search => SdkDetail::Search,
    }
}

/// A `tools/list` answer as it was saved.
#[derive(Deserialize)]
struct Saved {
    tools: Vec<Value>,
    #[serde(default)]
    server: Option<String>,
}

fn saved_tools(path: &Path, environment: &Environment) -> anyhow::Result<(Registry, Registration)> {
    let shown = path.display();
    let size = std::fs::metadata(path)
        .with_context(|| format!("cannot read {shown}"))?
        .len();
    anyhow::ensure!(
        size <= MAX_TOOLS_FILE_BYTES,
        "{shown} is larger than {MAX_TOOLS_FILE_BYTES} bytes"
    );
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    let saved: Saved = serde_json::from_str(text.trim_start_matches('\u{feff}')).with_context(|| {
        format!("{shown} is not a saved tools/list answer, an object {{\"tools\": [...]}}")
    })?;
    let provider = Provider {
        name: Arc::from(saved.server.as_deref().unwrap_or("file")),
        version: None,
    };
    let mut tools: Vec<Arc<dyn Tool>> = Vec::with_capacity(saved.tools.len());
    let mut seen = std::collections::HashSet::new();
    for (index, tool) in saved.tools.into_iter().enumerate() {
        match declared(tool, &provider) {
            Ok(spec) if seen.insert(spec.name.clone()) => tools.push(Arc::new(Declared { spec })),
            Ok(spec) => environment.terminal.warning(&format!(
                "tool {index}: the name `{}` comes twice; the first is kept",
                spec.name
            )),
            Err(reason) => environment
                .terminal
                .warning(&format!("tool {index}: {reason}; left out")),
        }
    }
    let registry = Registry::new();
    let registration = registry.register(tools)?;
    Ok((registry, registration))
}

fn declared(tool: Value, provider: &Provider) -> Result<ToolSpec, String> {
    let Value::Object(mut tool) = tool else {
        return Err("not an object".to_owned());
    };
    let Some(Value::String(name)) = tool.remove("name") else {
        return Err("it has no name".to_owned());
    };
    if name.is_empty() || name == toolweave_tools::RUN_CODE {
        return Err(format!("the name `{name}` cannot be used"));
    }
    let text = |value: Option<Value>| match value {
        Some(Value::String(text)) => Some(text),
        _ => None,
    };
    let hint = |name: &str| {
        tool.get("annotations")
            .and_then(|annotations| annotations.get(name))
            == Some(&Value::Bool(true))
    };
    let effect = match (hint("readOnlyHint"), hint("destructiveHint")) {
        (true, _) => Effect::Read,
        (false, true) => Effect::Destructive,
        (false, false) => Effect::Unknown,
    };
    Ok(ToolSpec {
        name,
        title: text(tool.remove("title")),
        description: text(tool.remove("description")).unwrap_or_default(),
        input_schema: tool
            .remove("inputSchema")
            .unwrap_or_else(|| json!({"type": "object"})),
        output_schema: tool.remove("outputSchema"),
        effect,
        provider: provider.clone(),
    })
}

/// A tool that is known by its declaration alone.
struct Declared {
    spec: ToolSpec,
}

#[async_trait]
impl Tool for Declared {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, _: &CallContext, _: Value) -> Result<ToolOutput, ToolError> {
        Err(ToolError::failed(
            "this tool is known from a file only and cannot be called",
        ))
    }
}
