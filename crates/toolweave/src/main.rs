//! The `toolweave` command: the only part that reads the environment and configuration files, prints, and exits.

mod args;
mod assemble;
mod commands;
mod config;
mod exit_status;
mod state;
mod terminal;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser as _;

use crate::args::{Cli, Command, EngineArg, PlacementArg, RuntimeChoice, Source};
use crate::config::{
    AccessChoice, BuiltinsRow, Config, ConfigError, EngineChoice, Origin, PlacementChoice, Surroundings,
};
use crate::exit_status::ExitStatus;
use crate::terminal::Terminal;

/// The first argument of a worker. Not a command for people, so clap does not know it.
const WORKER: &str = "worker";
/// Stack of the threads that read, check and write values; deep ones need it. Only what is touched takes memory.
const THREAD_STACK: usize = 64 * 1024 * 1024;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == WORKER) && arguments.next().is_none() {
        toolweave_quickjs::worker_main();
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() {
                ExitStatus::Usage.into()
            } else {
                ExitStatus::Ok.into()
            };
        }
    };
    let environment = match Environment::read() {
        Ok(environment) => environment,
        Err(error) => {
            Terminal::detect(true).error(&format!("{error:#}"));
            return ExitStatus::Usage.into();
        }
    };
    start_logging(&environment);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(THREAD_STACK)
        .build();
    let outcome = match runtime {
        Ok(runtime) => {
            let terminal = environment.terminal.clone();
            let outcome = runtime.block_on(async {
                tokio::spawn(async move { run(cli, &environment).await })
                    .await
                    .unwrap_or_else(|error| Err(anyhow::anyhow!("internal error: {error}")))
            });
            runtime.shutdown_background();
            outcome.unwrap_or_else(|error| report(&error, &terminal))
        }
        Err(error) => report(
            &anyhow::Error::new(error).context("cannot start"),
            &Terminal::detect(true),
        ),
    };
    outcome.into()
}

async fn run(cli: Cli, environment: &Environment) -> anyhow::Result<ExitStatus> {
    match cli.command {
        Command::Demo(args) => commands::demo::run(args, environment).await,
        Command::Exec(args) => commands::exec::run(args, environment).await,
        Command::Serve(args) => commands::serve::run(args, environment).await,
        Command::Sdk(args) => commands::sdk::run(args, environment).await,
        Command::Tools(command) => commands::tools::run(command, environment).await,
        Command::Config(command) => commands::config::run(command, environment).await,
        Command::Doctor(args) => commands::doctor::run(args, environment).await,
    }
}

/// Prints what went wrong and picks the exit status.
fn report(error: &anyhow::Error, terminal: &Terminal) -> ExitStatus {
    terminal.error(&format!("{error:#}"));
    if error.chain().any(|cause| cause.is::<NoRuntime>()) {
        ExitStatus::NoRuntime
    } else {
        ExitStatus::Usage
    }
}

/// No program can be run here. Everything that runs none still works.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NoRuntime(String);

impl From<toolweave_tools::ModeError> for NoRuntime {
    fn from(error: toolweave_tools::ModeError) -> Self {
        Self(error.to_string())
    }
}

/// What this process was started with.
pub(crate) struct Environment {
    pub(crate) terminal: Terminal,
    pub(crate) surroundings: Surroundings,
    /// The program to start again as the worker.
    pub(crate) program: PathBuf,
    log: Option<String>,
}

impl Environment {
    fn read() -> anyhow::Result<Self> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let home = variable("HOME").map(PathBuf::from);
        let mode = ["TOOLWEAVE_MODE", "DSH_TOOLS_MODE"]
            .into_iter()
            .find_map(|name| Some((name, variable(name)?)));
        let working_directory = std::env::current_dir()
            .map_err(|error| anyhow::anyhow!("the working directory cannot be found: {error}"))?;
        Ok(Self {
            terminal: Terminal::detect(variable("NO_COLOR").is_some()),
            surroundings: Surroundings {
                state_directory: state::folder(variable, &working_directory),
                working_directory,
                user_config_directory: variable("XDG_CONFIG_HOME")
                    .map(PathBuf::from)
                    .or_else(|| home.map(|home| home.join(".config"))),
                mode,
            },
            program: assemble::own_program(),
            log: variable("TOOLWEAVE_LOG"),
        })
    }

    /// Loads the configuration and lays the command line over it.
    pub(crate) fn config(&self, source: &Source, choice: &RuntimeChoice) -> Result<Config, ConfigError> {
        let mut config = Config::load(&self.surroundings, source.config.as_deref())?;
        if let Some(root) = &source.root {
            let row = BuiltinsRow {
                root: self.surroundings.working_directory.join(root),
                access: config
                    .builtins
                    .value
                    .as_ref()
                    .map_or(AccessChoice::ReadWrite, |row| row.access),
            };
            config.builtins.set(Some(row), Origin::CommandLine("--root"));
        }
        choose(&mut config, choice);
        Ok(config)
    }

    /// Returns the defaults, whatever files there are, under the command line.
    pub(crate) fn defaults(&self, choice: &RuntimeChoice) -> Config {
        let mut config = Config::defaults();
        choose(&mut config, choice);
        config
    }

    #[expect(
        clippy::unused_self,
        reason = "the environment is read through the one place that owns it"
    )]
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    #[expect(
        clippy::unused_self,
        reason = "the environment is read through the one place that owns it"
    )]
    pub(crate) fn variable_os(&self, name: &str) -> Option<std::ffi::OsString> {
        std::env::var_os(name)
    }

    #[expect(
        clippy::unused_self,
        reason = "the environment is read through the one place that owns it"
    )]
    pub(crate) fn variables(&self) -> impl Iterator<Item = (String, String)> {
        std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
    }
}

fn choose(config: &mut Config, choice: &RuntimeChoice) {
    if let Some(engine) = choice.engine {
        config.runtime.value.engine = match engine {
            EngineArg::Auto => EngineChoice::Auto,
            EngineArg::Quickjs => EngineChoice::Quickjs,
            EngineArg::V8 => EngineChoice::V8,
        };
        config.runtime.origin = Origin::CommandLine("--engine");
    }
    if let Some(placement) = choice.placement {
        config.runtime.value.placement = Some(match placement {
            PlacementArg::Worker => PlacementChoice::Worker,
            PlacementArg::Thread => PlacementChoice::Thread,
        });
        config.runtime.origin = Origin::CommandLine("--placement");
    }
}

/// Logs to standard error what `TOOLWEAVE_LOG` asks for; warnings without it are left to the commands.
fn start_logging(environment: &Environment) {
    let filter = environment.log.as_deref().unwrap_or("off");
    let _ = tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::new(filter))
        .with_writer(std::io::stderr)
        .with_ansi(environment.terminal.err == terminal::Colour::Always)
        .try_init();
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        crate::args::Cli::command().debug_assert();
    }
}
