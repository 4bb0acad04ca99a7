//! The command line: what can be typed, and nothing of what it does.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// One TypeScript program instead of one tool call per step.
///
/// Toolweave lets a language model use all of its tools by writing one program. The program runs in a sandboxed process, calls
/// the tools through a typed SDK, and only what it prints or returns reaches the model.
#[derive(Debug, Parser)]
#[command(name = "toolweave", version, max_term_width = 120, arg_required_else_help = true, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 ok, 1 the program or the tool call failed, 2 usage or configuration, 3 no runtime or sandbox.
Without a configuration file the file tools work on the current directory.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the main job on bundled sample documents: no configuration, no key, no network.
    Demo(DemoArgs),
    /// Run a program against the tools now.
    Exec(ExecArgs),
    /// Serve the gateway to an MCP client, over standard input and output.
    Serve(ServeArgs),
    /// Print the SDK that a model would see.
    Sdk(SdkArgs),
    /// Look at tools and call them, as a person.
    #[command(subcommand)]
    Tools(ToolsCommand),
    /// Look at the configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Check that everything works here, and say what to do where it does not.
    Doctor(DoctorArgs),
}

/// Where settings come from. Shared by all commands that use tools.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Source {
    /// Read this configuration file instead of looking for toolweave.yml from the working directory upwards and in the user's
    /// configuration folder.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Offer the file tools (read, write, edit, glob, grep) on this directory and nothing outside it.
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
}

/// Where and how programs run.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct RuntimeChoice {
    /// The JavaScript engine.
    #[arg(long, value_enum)]
    pub(crate) engine: Option<EngineArg>,
    /// A process of its own for each program, or a thread of this process.
    #[arg(long, value_enum)]
    pub(crate) placement: Option<PlacementArg>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineArg {
    /// QuickJS.
    Auto,
    /// The built-in interpreter.
    Quickjs,
    /// An installed Node (20 or later), for programs that compute heavily.
    V8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlacementArg {
    Worker,
    Thread,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    #[command(flatten)]
    pub(crate) runtime: RuntimeChoice,
    /// Use these documents (every .md file below DIR) instead of the bundled ones.
    #[arg(long, value_name = "DIR")]
    pub(crate) docs: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ExecArgs {
    /// The program: a file, or `-` (the default) for standard input.
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// The program itself.
    #[arg(short = 'e', long = "eval", value_name = "CODE", conflicts_with = "file")]
    pub(crate) eval: Option<String>,
    #[command(flatten)]
    pub(crate) source: Source,
    #[command(flatten)]
    pub(crate) runtime: RuntimeChoice,
    /// End this run after so many milliseconds.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout_ms: Option<u64>,
    /// Print one JSON object with result, logs, error, calls, warnings and usage.
    #[arg(long)]
    pub(crate) json: bool,
    /// Do not show calls on standard error while the program runs.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) source: Source,
    #[command(flatten)]
    pub(crate) runtime: RuntimeChoice,
    /// What clients are offered: `code` is run_code alone, `native` every tool, `both` both.
    #[arg(long, value_enum)]
    pub(crate) mode: Option<ModeArg>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeArg {
    Native,
    #[value(alias = "ptc")]
    Code,
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DetailArg {
    Auto,
    Full,
    Compact,
    Search,
}

#[derive(Debug, Args)]
pub(crate) struct SdkArgs {
    #[command(flatten)]
    pub(crate) source: Source,
    /// Render a saved `tools/list` answer (`{"tools": [...]}`), without connecting anywhere.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["config", "root"])]
    pub(crate) tools_file: Option<PathBuf>,
    /// The mode whose presentation is printed.
    #[arg(long, value_enum)]
    pub(crate) mode: Option<ModeArg>,
    /// How much is printed; `auto` picks what fits.
    #[arg(long, value_enum)]
    pub(crate) detail: Option<DetailArg>,
    /// Print one JSON object: mode, detail, note, text and the tools on the wire.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum ToolsCommand {
    /// List the tools with their effect and provider.
    List {
        #[command(flatten)]
        source: Source,
        /// Print a JSON array.
        #[arg(long)]
        json: bool,
    },
    /// Find tools by words in names, descriptions and parameter names, best first.
    Search {
        query: String,
        /// At most so many hits.
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=200))]
        limit: u16,
        #[command(flatten)]
        source: Source,
        /// Print a JSON array.
        #[arg(long)]
        json: bool,
    },
    /// Print everything there is to know about a tool.
    Help {
        name: String,
        #[command(flatten)]
        source: Source,
    },
    /// Forget what results of tools that declare no output looked like.
    #[command(group = clap::ArgGroup::new("what").required(true))]
    Forget {
        /// The tool, as `tools list` names it.
        #[arg(group = "what")]
        name: Option<String>,
        /// All tools of this server, in every version of it.
        #[arg(long, value_name = "SERVER", group = "what")]
        server: Option<String>,
        /// Everything.
        #[arg(long, group = "what")]
        all: bool,
    },
    /// Call a tool with a JSON object of arguments (`-` reads it from standard input).
    Call {
        name: String,
        #[arg(value_name = "JSON", default_value = "{}")]
        arguments: String,
        #[command(flatten)]
        source: Source,
        /// Print the whole result as JSON: content blocks, structured content, error code.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print the effective configuration with the origin of each row.
    Show {
        #[command(flatten)]
        source: Source,
        /// Print JSON instead of YAML.
        #[arg(long)]
        json: bool,
    },
    /// Check the configuration, and start every server to see that it answers.
    Check {
        #[command(flatten)]
        source: Source,
        /// Only read the files; start nothing.
        #[arg(long)]
        offline: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) source: Source,
    #[command(flatten)]
    pub(crate) runtime: RuntimeChoice,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}
