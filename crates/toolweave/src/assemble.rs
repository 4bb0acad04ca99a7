//! From a configuration to something that runs: file tools, upstream servers, runtime, toolbox.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use toolweave_builtins::{Access, Root};
use toolweave_mcp::{StdioCommand, UpstreamConfig, UpstreamHost, UpstreamState, Upstreams};
use toolweave_node::{NodeConfig, NodeRuntime};
use toolweave_quickjs::{Placement, QuickJsConfig, QuickJsRuntime, WorkerConfig};
use toolweave_runtime::{CodeRuntime, Isolation};
use toolweave_sandbox::Requirement;
use toolweave_session::{NewSession, Recorder};
use toolweave_tools::{MemoryShapes, Mode, OutputCheck, Registration, Registry, Toolbox, ToolboxConfig};
use toolweave_typecheck::{CheckPrograms, Compiler, Found, Missing, Policy, TypeChecker};

use crate::config::{
    AccessChoice, Config, EngineChoice, OutputValidation, PlacementChoice, RuntimeRow, SandboxChoice,
    ServerRow, TypecheckChoice,
};
use crate::state::FileShapes;
use crate::terminal::Terminal;
use crate::{Environment, NoRuntime};

/// The longest that `exec` and its like wait for servers that are still starting.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// What a command says otherwise than the configuration.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Overrides {
    pub(crate) mode: Option<Mode>,
}

/// Everything that is running for one command.
pub(crate) struct Assembly {
    pub(crate) toolbox: Toolbox,
    pub(crate) isolation: Isolation,
    /// What people call the engine.
    pub(crate) engine: String,
    upstreams: Upstreams,
    /// Servers that could not even be tried, with the reason.
    unusable: Vec<(String, String)>,
    runtime: Arc<dyn CodeRuntime>,
    recorder: Recorder,
    typecheck: TypeCheck,
    /// What tools were seen to give, where that is kept in files.
    shapes: Option<Arc<FileShapes>>,
    _builtins: Option<Registration>,
}

impl Assembly {
    /// Starts all parts. Servers go on starting in the background.
    ///
    /// # Errors
    /// A root that is no directory, or a runtime that cannot be had. A server that does not start is no error.
    pub(crate) async fn start(
        config: &Config,
        environment: &Environment,
        overrides: Overrides,
    ) -> anyhow::Result<Self> {
        let registry = Registry::new();
        let builtins = match &config.builtins.value {
            None => None,
            Some(row) => {
                let root = Root::open(&row.root).with_context(|| {
                    format!(
                        "{}: cannot use {} as the root of the file tools",
                        config.builtins.origin,
                        row.root.display()
                    )
                })?;
                let access = match row.access {
                    AccessChoice::ReadOnly => Access::ReadOnly,
                    AccessChoice::ReadWrite => Access::ReadWrite,
                };
                Some(registry.register(toolweave_builtins::tools(root, access))?)
            }
        };
        let Engine {
            runtime,
            name: engine,
        } = engine(config, environment)?;
        let recorder = recorder(config, environment);
        let mut toolbox = Toolbox::new(
            registry.clone(),
            Some(Arc::clone(&runtime)),
            toolbox_config(config, overrides),
        )
        .with_recorder(recorder.clone());
        let typecheck = typecheck(config, environment)?;
        if let Some(checker) = typecheck.checker() {
            toolbox = toolbox.with_typecheck(checker);
        }
        let mut shapes = None;
        if config.observe.value {
            toolbox = match &environment.surroundings.state_directory {
                Some(folder) => {
                    let kept = Arc::new(FileShapes::new(folder, environment.terminal.clone()));
                    toolbox.with_shapes(shapes.insert(kept).clone())
                }
                None => toolbox.with_shapes(Arc::new(MemoryShapes::new())),
            };
        }
        let host = UpstreamHost::new(
            environment.variables(),
            environment.surroundings.working_directory.clone(),
        );
        let mut unusable = Vec::new();
        let mut configs = Vec::new();
        for (name, row) in &config.mcp_servers {
            match upstream(name, &row.value, environment) {
                Ok(config) => configs.push(config),
                Err(reason) => unusable.push((name.clone(), reason)),
            }
        }
        let upstreams = Upstreams::start(configs, &host, &registry)?;
        let known = upstreams.clone();
        registry.explain_absence(Arc::new(move |name| known.explain_missing(name)));
        Ok(Self {
            toolbox,
            isolation: runtime.isolation(),
            engine,
            upstreams,
            unusable,
            runtime,
            recorder,
            typecheck,
            shapes,
            _builtins: builtins,
        })
    }

    /// Starts what the first program would wait for.
    pub(crate) fn warm(&self) {
        if let TypeCheck::On { checker, .. } = &self.typecheck {
            checker.warm();
        }
    }

    pub(crate) fn typecheck(&self) -> &TypeCheck {
        &self.typecheck
    }

    /// Waits until every server is there or has failed, and says which have failed.
    pub(crate) async fn wait_until_ready(&self, terminal: &Terminal) {
        for server in self.settled_servers(terminal).await {
            if let Verdict::Failed { reason, .. } = &server.verdict {
                terminal.warning(&format!(
                    "server `{}`: {reason}; its tools are missing",
                    server.name
                ));
            }
        }
    }

    /// Waits until every server is there or has failed.
    pub(crate) async fn settled_servers(&self, terminal: &Terminal) -> Vec<Server> {
        if !self.upstreams.status().is_empty() {
            let spinner = terminal.spinner("starting servers");
            self.upstreams.wait_ready(READY_WITHIN).await;
            spinner.finish_and_clear();
        }
        let tried = self.upstreams.status().into_iter().map(|status| {
            let failed = |otherwise: &str| Verdict::Failed {
                reason: status.reason.clone().unwrap_or_else(|| otherwise.to_owned()),
                stderr: status.stderr.clone(),
            };
            let verdict = match status.state {
                UpstreamState::Ready => Verdict::Ready {
                    tools: status.tools.len(),
                },
                UpstreamState::Disabled => Verdict::Disabled,
                UpstreamState::Starting => failed("still starting"),
                UpstreamState::Failed => failed("it failed"),
                UpstreamState::Stopped => failed("it was stopped"),
            };
            Server {
                name: status.name,
                verdict,
                notes: status.notes,
            }
        });
        let unusable = self.unusable.iter().map(|(name, reason)| Server {
            name: name.clone(),
            verdict: Verdict::Failed {
                reason: reason.clone(),
                stderr: Vec::new(),
            },
            notes: Vec::new(),
        });
        let mut servers: Vec<_> = tried.chain(unusable).collect();
        servers.sort_by(|a, b| a.name.cmp(&b.name));
        servers
    }

    pub(crate) fn upstreams(&self) -> &Upstreams {
        &self.upstreams
    }

    /// Stops servers and workers, and sees to it that the session's log is on disk.
    pub(crate) async fn shutdown(&self, terminal: &Terminal) {
        self.upstreams.shutdown().await;
        self.runtime.dispose().await;
        if let Some(shapes) = &self.shapes {
            shapes.close();
        }
        let recorder = self.recorder.clone();
        let flushed = tokio::task::spawn_blocking(move || recorder.flush()).await;
        if let Ok(Err(error)) = flushed {
            terminal.warning(&format!("the log of this session is not complete: {error}"));
        }
    }
}

/// Returns the recorder that the configuration asks for. A log that cannot be written is no reason not to work.
fn recorder(config: &Config, environment: &Environment) -> Recorder {
    let row = &config.sessions.value;
    if !row.record {
        return Recorder::none();
    }
    let surroundings = &environment.surroundings;
    let own = surroundings
        .state_directory
        .as_ref()
        .map(|state| state.join("sessions"));
    let Some(folder) = row.folder.clone().or(own) else {
        return Recorder::none();
    };
    let session = NewSession {
        product_version: env!("CARGO_PKG_VERSION").to_owned(),
        cwd: Some(surroundings.working_directory.display().to_string()),
        ..NewSession::default()
    };
    Recorder::create(&folder, session).unwrap_or_else(|error| {
        environment
            .terminal
            .warning(&format!("nothing is recorded in {}: {error}", folder.display()));
        Recorder::none()
    })
}

/// How a configured server is doing.
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) verdict: Verdict,
    /// What is odd about its tools.
    pub(crate) notes: Vec<String>,
}

pub(crate) enum Verdict {
    Ready { tools: usize },
    Disabled,
    Failed { reason: String, stderr: Vec<String> },
}

pub(crate) fn toolbox_config(config: &Config, overrides: Overrides) -> ToolboxConfig {
    let tools = &config.tools.value;
    ToolboxConfig {
        mode: overrides.mode.unwrap_or(config.mode.value),
        sdk: config.sdk.value,
        sdk_budget_chars: tools.sdk_budget_chars,
        max_parallel_sub_calls: tools.max_parallel_sub_calls as usize,
        call_timeout: Duration::from_millis(tools.call_timeout_ms),
        max_inline_bytes: tools.max_inline_bytes,
    }
}

/// Returns the placement that is used when nothing is said: a process of its own where the system allows.
pub(crate) fn default_placement() -> PlacementChoice {
    if cfg!(target_os = "linux") {
        PlacementChoice::Worker
    } else {
        PlacementChoice::Thread
    }
}

/// Returns what the configuration says should run programs.
///
/// # Errors
/// [`NoRuntime`] when it cannot be had.
pub(crate) fn engine(config: &Config, environment: &Environment) -> anyhow::Result<Engine> {
    let row = &config.runtime.value;
    let placement = row.placement.unwrap_or_else(default_placement);
    if placement == PlacementChoice::Thread && config.sandbox.value == SandboxChoice::Required {
        let message =
            "`sandbox: required` cannot be had with `placement: thread`: a thread shares this process";
        return Err(NoRuntime(message.to_owned()).into());
    }
    let requirement = match config.sandbox.value {
        SandboxChoice::Required => Requirement::Required,
        SandboxChoice::Preferred => Requirement::Preferred,
        SandboxChoice::Off => Requirement::Off,
    };
    match row.engine {
        EngineChoice::V8 => v8(row, requirement, environment),
        EngineChoice::Auto | EngineChoice::Quickjs => quickjs(row, placement, requirement, environment),
    }
}

fn quickjs(
    row: &RuntimeRow,
    placement: PlacementChoice,
    requirement: Requirement,
    environment: &Environment,
) -> anyhow::Result<Engine> {
    let placement = match placement {
        PlacementChoice::Thread => Placement::Thread,
        PlacementChoice::Worker => Placement::Worker(WorkerConfig {
            program: environment.program.clone(),
            args: vec![OsString::from(crate::WORKER)],
            standbys: row.standbys as usize,
            requirement,
        }),
    };
    let config = QuickJsConfig {
        placement,
        limits: row.limits(),
        json: row.json,
    };
    let runtime = QuickJsRuntime::new(config).map_err(|error| NoRuntime(error.to_string()))?;
    Ok(Engine {
        runtime: Arc::new(runtime),
        name: "quickjs".to_owned(),
    })
}

fn v8(row: &RuntimeRow, requirement: Requirement, environment: &Environment) -> anyhow::Result<Engine> {
    if row.placement == Some(PlacementChoice::Thread) {
        let message =
            "`engine: v8` runs in a process of its own; leave `placement` out, or take `engine: quickjs`";
        return Err(NoRuntime(message.to_owned()).into());
    }
    let config = NodeConfig {
        program: row.node.clone(),
        search_path: environment.variable("PATH").map(OsString::from),
        standbys: row.standbys as usize,
        requirement,
        limits: row.limits(),
        json: row.json,
        ..NodeConfig::default()
    };
    let runtime = NodeRuntime::new(config).map_err(|error| NoRuntime(format!("engine v8: {error}")))?;
    let name = runtime.describe();
    Ok(Engine {
        runtime: Arc::new(runtime),
        name,
    })
}

/// What runs programs, and what people call it.
pub(crate) struct Engine {
    pub(crate) runtime: Arc<dyn CodeRuntime>,
    pub(crate) name: String,
}

/// How programs are type-checked here.
pub(crate) enum TypeCheck {
    On {
        checker: TypeChecker,
        found: String,
    },
    /// Not, and nothing is wrong with that.
    Off {
        why: String,
    },
    /// It is required and cannot be had.
    Missing {
        why: String,
    },
}

impl TypeCheck {
    fn checker(&self) -> Option<Arc<dyn CheckPrograms>> {
        match self {
            Self::On { checker, .. } => Some(Arc::new(checker.clone())),
            Self::Off { .. } => None,
            Self::Missing { why } => Some(Arc::new(Missing::new(why.clone()))),
        }
    }
}

/// Finds the compiler. Starts nothing.
fn typecheck(config: &Config, environment: &Environment) -> anyhow::Result<TypeCheck> {
    let policy = match config.typecheck.value {
        TypecheckChoice::Off => {
            let why = format!("off ({})", config.typecheck.origin);
            return Ok(TypeCheck::Off { why });
        }
        TypecheckChoice::Auto => Policy::Auto,
        TypecheckChoice::Required => Policy::Required,
    };
    let path = environment.variable_os("PATH").unwrap_or_default();
    let found = match &config.tsc.value {
        None => Compiler::find(&path),
        Some(named) => match Compiler::at(named) {
            None => anyhow::bail!("{}: tsc: there is no file {}", config.tsc.origin, named.display()),
            Some(compiler) if compiler.is_too_old() => Found::TooOld(compiler),
            Some(compiler) => Found::Compiler(compiler),
        },
    };
    let described = found.describe();
    Ok(match (found, policy) {
        (Found::Compiler(compiler), _) => {
            // What a script is made of is found on `PATH`; Windows starts nothing without a variable of its own.
            let needed: &[&str] = match (compiler.is_script(), cfg!(windows)) {
                (true, true) => &["PATH", "SystemRoot"],
                (true, false) => &["PATH"],
                (false, true) => &["SystemRoot"],
                (false, false) => &[],
            };
            let passed = needed
                .iter()
                .filter_map(|name| Some((OsString::from(name), environment.variable_os(name)?)));
            TypeCheck::On {
                checker: TypeChecker::new(compiler, passed.collect(), policy),
                found: described,
            }
        }
        (_, Policy::Auto) => TypeCheck::Off { why: described },
        (_, Policy::Required) => TypeCheck::Missing { why: described },
    })
}

/// Returns a runtime that only lends its description, for commands that run nothing.
pub(crate) fn describing_runtime() -> anyhow::Result<Arc<dyn CodeRuntime>> {
    let config = QuickJsConfig {
        placement: Placement::Thread,
        ..QuickJsConfig::default()
    };
    Ok(Arc::new(
        QuickJsRuntime::new(config).map_err(|error| NoRuntime(error.to_string()))?,
    ))
}

fn upstream(name: &str, row: &ServerRow, environment: &Environment) -> Result<UpstreamConfig, String> {
    let expand = |text: &str| expand(text, |variable| environment.variable(variable));
    let command = StdioCommand {
        command: expand(row.command.as_deref().unwrap_or_default())?,
        args: row.args.iter().map(|arg| expand(arg)).collect::<Result<_, _>>()?,
        env: row
            .env
            .iter()
            .map(|(name, value)| Ok((name.clone(), expand(value)?)))
            .collect::<Result<_, String>>()?,
        cwd: row.cwd.clone(),
    };
    let mut upstream = UpstreamConfig::stdio(name, command);
    upstream.tool_prefix.clone_from(&row.tool_prefix);
    upstream.disabled = row.disabled;
    upstream.output_check = match row.output_validation {
        None | Some(OutputValidation::Enforce) => OutputCheck::Enforce,
        Some(OutputValidation::Warn) => OutputCheck::Warn,
        Some(OutputValidation::Off) => OutputCheck::Off,
    };
    if let Some(ms) = row.timeout_ms {
        upstream.timeout = Duration::from_millis(ms);
    }
    if let Some(ms) = row.startup_timeout_ms {
        upstream.startup_timeout = Duration::from_millis(ms);
    }
    Ok(upstream)
}

/// Replaces `${NAME}` by the variable's value; `$$` is a dollar sign.
fn expand(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if let Some(after) = after.strip_prefix('$') {
            expanded.push('$');
            rest = after;
        } else if let Some((name, after)) = after.strip_prefix('{').and_then(|name| name.split_once('}')) {
            let value =
                variable(name).ok_or_else(|| format!("the environment variable `{name}` is not set"))?;
            expanded.push_str(&value);
            rest = after;
        } else {
            expanded.push('$');
            rest = after;
        }
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// Returns the program that is started again as the worker: this one, even if its file was replaced meanwhile.
pub(crate) fn own_program() -> PathBuf {
    let running = PathBuf::from("/proc/self/exe");
    if cfg!(target_os = "linux") && running.exists() {
        running
    } else {
        std::env::current_exe().unwrap_or_else(|_| PathBuf::from("toolweave"))
    }
}

#[cfg(test)]
mod tests {
    use super::expand;

    #[test]
    fn variables_are_replaced_and_missing_ones_named() {
        let known = |name: &str| (name == "TOKEN").then(|| "s3cret".to_owned());
        let cases = [
            ("plain", Ok("plain")),
            ("Bearer ${TOKEN}!", Ok("Bearer s3cret!")),
            ("a$b $${TOKEN} ${", Ok("a$b ${TOKEN} ${")),
            ("${NOPE}", Err("the environment variable `NOPE` is not set")),
        ];
        for (text, expected) in cases {
            assert_eq!(
                expand(text, known),
                expected.map(str::to_owned).map_err(str::to_owned),
                "{text}"
            );
        }
    }
}
