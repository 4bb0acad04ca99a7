//! `toolweave.yml`: where it is found, what may stand in it, and which layer set what.
//!
//! Layers, last wins: built-in defaults, the user's file, the project's file (found upwards from the working directory),
//! the environment, the command line. A layer replaces a row whole; servers are rows of their own. Unknown keys fail.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_saphyr::Spanned;
use toolweave_runtime::{JsonMode, Limits};
use toolweave_tools::{Mode, SdkDetail};

/// The name that is looked for.
pub(crate) const FILE_NAME: &str = "toolweave.yml";
/// The longest configuration file that is read.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// The effective configuration, each row with its origin.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Config {
    pub(crate) mode: Row<Mode>,
    pub(crate) sdk: Row<SdkDetail>,
    pub(crate) sandbox: Row<SandboxChoice>,
    pub(crate) runtime: Row<RuntimeRow>,
    pub(crate) tools: Row<ToolsRow>,
    /// Whether the shapes of results are learnt where tools declare no output.
    pub(crate) observe: Row<bool>,
    /// The file tools; `None` offers none.
    pub(crate) builtins: Row<Option<BuiltinsRow>>,
    pub(crate) sessions: Row<SessionsRow>,
    pub(crate) typecheck: Row<TypecheckChoice>,
    /// The compiler for `typecheck`; `None` looks for `tsc` on `PATH`.
    pub(crate) tsc: Row<Option<PathBuf>>,
    pub(crate) mcp_servers: BTreeMap<String, Row<ServerRow>>,
    /// The files that were read.
    #[serde(skip)]
    pub(crate) files: Vec<PathBuf>,
}

/// A value and who set it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row<T> {
    pub(crate) value: T,
    pub(crate) origin: Origin,
}

impl<T> Row<T> {
    fn default_of(value: T) -> Self {
        Self {
            value,
            origin: Origin::Default,
        }
    }

    /// Replaces the row, as a later layer does.
    pub(crate) fn set(&mut self, value: T, origin: Origin) {
        *self = Self { value, origin };
    }
}

impl<T: Serialize> Serialize for Row<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}

/// Who set a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    File { path: PathBuf, line: u64 },
    Environment(&'static str),
    CommandLine(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Environment(name) => write!(f, "environment variable {name}"),
            Self::CommandLine(flag) => write!(f, "command line {flag}"),
        }
    }
}

/// What happens where a layer of the sandbox cannot be had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SandboxChoice {
    /// Refuse to run programs.
    Required,
    /// Run, and say in every result what is missing.
    #[default]
    Preferred,
    /// A process of its own, and no lockdown.
    Off,
}

/// Whether the types of programs are checked before they run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TypecheckChoice {
    /// Where a compiler is installed.
    #[default]
    Auto,
    Off,
    /// Refuse to run programs that were not checked.
    Required,
}

/// The engine and its limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RuntimeRow {
    pub(crate) engine: EngineChoice,
    /// The Node of `engine: v8`; the first one on the search path when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<PathBuf>,
    pub(crate) placement: Option<PlacementChoice>,
    pub(crate) json: JsonMode,
    /// Children kept ready; 0 forks each when it is needed.
    pub(crate) standbys: u32,
    pub(crate) compute_ms: u64,
    pub(crate) max_wall_ms: u64,
    #[serde(alias = "maxOldGenerationSizeMb")]
    pub(crate) max_memory_mb: u64,
    pub(crate) max_output_bytes: u64,
    pub(crate) max_sub_calls: u32,
    pub(crate) max_stack_kb: u64,
    pub(crate) max_frame_bytes: u64,
    pub(crate) max_json_depth: u32,
}

impl Default for RuntimeRow {
    fn default() -> Self {
        let limits = Limits::default();
        Self {
            engine: EngineChoice::Auto,
            node: None,
            placement: None,
            json: JsonMode::Standard,
            standbys: 2,
            compute_ms: limits.compute_ms,
            max_wall_ms: limits.max_wall_ms,
            max_memory_mb: limits.max_memory_mb,
            max_output_bytes: limits.max_output_bytes,
            max_sub_calls: limits.max_sub_calls,
            max_stack_kb: limits.max_stack_kb,
            max_frame_bytes: limits.max_frame_bytes,
            max_json_depth: limits.max_json_depth,
        }
    }
}

impl RuntimeRow {
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            compute_ms: self.compute_ms,
            max_wall_ms: self.max_wall_ms,
            max_memory_mb: self.max_memory_mb,
            max_output_bytes: self.max_output_bytes,
            max_sub_calls: self.max_sub_calls,
            max_stack_kb: self.max_stack_kb,
            max_frame_bytes: self.max_frame_bytes,
            max_json_depth: self.max_json_depth,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EngineChoice {
    /// QuickJS.
    #[default]
    Auto,
    Quickjs,
    /// An installed Node.
    V8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PlacementChoice {
    Worker,
    Thread,
}

/// How calls are dispatched and shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct ToolsRow {
    /// Safe calls of one run that may overlap.
    pub(crate) max_parallel_sub_calls: u32,
    /// Time for one call in milliseconds, queueing not counted.
    pub(crate) call_timeout_ms: u64,
    /// The most bytes of a result that a model is shown.
    pub(crate) max_inline_bytes: usize,
    /// The most characters of SDK text before `sdk: auto` takes the next shorter form.
    pub(crate) sdk_budget_chars: usize,
}

impl Default for ToolsRow {
    fn default() -> Self {
        let config = toolweave_tools::ToolboxConfig::default();
        Self {
            max_parallel_sub_calls: u32::try_from(config.max_parallel_sub_calls).unwrap_or(u32::MAX),
            call_timeout_ms: u64::try_from(config.call_timeout.as_millis()).unwrap_or(u64::MAX),
            max_inline_bytes: config.max_inline_bytes,
            sdk_budget_chars: config.sdk_budget_chars,
        }
    }
}

/// The file tools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct BuiltinsRow {
    /// The directory that they work on, relative to the configuration file.
    pub(crate) root: PathBuf,
    #[serde(default)]
    pub(crate) access: AccessChoice,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AccessChoice {
    ReadOnly,
    #[default]
    ReadWrite,
}

/// The log of what happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct SessionsRow {
    /// Whether programs and calls are recorded, with their arguments and results.
    pub(crate) record: bool,
    /// Where; a folder of the person's own state when absent. Relative to the configuration file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) folder: Option<PathBuf>,
}

impl Default for SessionsRow {
    fn default() -> Self {
        Self {
            record: true,
            folder: None,
        }
    }
}

/// An upstream MCP server, in the common `mcpServers` form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ServerRow {
    /// `stdio`, when it is given at all.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub(crate) transport: Option<TransportChoice>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) command: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) args: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) env: BTreeMap<String, String>,
    /// Where the server starts, relative to the configuration file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cwd: Option<PathBuf>,
    /// What stands before the server's tool names; `mcp__{server}__` when absent, `""` for nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tool_prefix: Option<String>,
    /// Time for one call in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) timeout_ms: Option<u64>,
    /// Time for the server to answer `initialize` and list its tools, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) startup_timeout_ms: Option<u64>,
    /// How strictly results are held to the `outputSchema` of their tools; `enforce` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) output_validation: Option<OutputValidation>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) disabled: bool,
    /// Accepted so that a pasted block loads; remote servers are not connected to by this version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) url: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) headers: BTreeMap<String, String>,
}

/// What happens when a result does not match its tool's `outputSchema`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OutputValidation {
    /// The call fails.
    Enforce,
    /// The value passes, and the run carries a warning.
    Warn,
    /// Nobody looks.
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TransportChoice {
    Stdio,
    #[serde(alias = "streamable-http", alias = "streamableHttp")]
    Http,
    Sse,
}

/// One file as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct File {
    mode: Option<Spanned<Mode>>,
    sdk: Option<Spanned<SdkDetail>>,
    sandbox: Option<Spanned<SandboxChoice>>,
    runtime: Option<Spanned<RuntimeRow>>,
    tools: Option<Spanned<ToolsRow>>,
    observe: Option<Spanned<bool>>,
    builtins: Option<Spanned<BuiltinsRow>>,
    sessions: Option<Spanned<SessionsRow>>,
    typecheck: Option<Spanned<TypecheckChoice>>,
    tsc: Option<Spanned<PathBuf>>,
    mcp_servers: Option<BTreeMap<String, Spanned<ServerRow>>>,
}

/// A configuration that cannot be used. Nothing was started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{} is larger than {MAX_FILE_BYTES} bytes", .0.display())]
    TooLarge(PathBuf),
    /// The place is a file and a line, or the variable or flag that said so.
    #[error("{place}: {message}")]
    Invalid { place: String, message: String },
}

/// Where the files are and what the environment says. Made by the binary, so that this module reads no global state.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    pub(crate) working_directory: PathBuf,
    pub(crate) user_config_directory: Option<PathBuf>,
    /// Where this program keeps what it remembers.
    pub(crate) state_directory: Option<PathBuf>,
    /// `TOOLWEAVE_MODE`, or its older name.
    pub(crate) mode: Option<(&'static str, String)>,
}

impl Config {
    /// Returns what holds when no file says otherwise.
    pub(crate) fn defaults() -> Self {
        Self {
            mode: Row::default_of(Mode::Code),
            sdk: Row::default_of(SdkDetail::Auto),
            sandbox: Row::default_of(SandboxChoice::Preferred),
            runtime: Row::default_of(RuntimeRow::default()),
            tools: Row::default_of(ToolsRow::default()),
            observe: Row::default_of(true),
            builtins: Row::default_of(None),
            sessions: Row::default_of(SessionsRow::default()),
            typecheck: Row::default_of(TypecheckChoice::Auto),
            tsc: Row::default_of(None),
            mcp_servers: BTreeMap::new(),
            files: Vec::new(),
        }
    }

    /// Reads all layers. `explicit` replaces the search for files.
    ///
    /// # Errors
    /// The first file that cannot be read or the first value that cannot be used, with its place and what would be right.
    pub(crate) fn load(surroundings: &Surroundings, explicit: Option<&Path>) -> Result<Self, ConfigError> {
        let mut config = Self::defaults();
        let files = match explicit {
            Some(path) => vec![surroundings.working_directory.join(path)],
            None => found_files(surroundings),
        };
        for path in files {
            let text = read(&path)?;
            config.merge(&path, &text)?;
            config.files.push(path);
        }
        if config.files.is_empty() {
            config.builtins.value = Some(BuiltinsRow {
                root: surroundings.working_directory.clone(),
                access: AccessChoice::ReadWrite,
            });
        }
        if let Some((variable, mode)) = &surroundings.mode {
            let parsed = serde_json::from_value(serde_json::Value::String(mode.clone()));
            let mode = parsed.map_err(|_| ConfigError::Invalid {
                place: format!("environment variable {variable}"),
                message: format!("unknown mode `{mode}`; use native, code or both"),
            })?;
            config.mode.set(mode, Origin::Environment(variable));
        }
        config.check()?;
        Ok(config)
    }

    fn merge(&mut self, path: &Path, text: &str) -> Result<(), ConfigError> {
        let file = parse(path, text)?;
        let directory = path.parent().unwrap_or(Path::new("."));
        let origin = |line: u64| Origin::File {
            path: path.to_owned(),
            line,
        };
        if let Some(row) = file.mode {
            self.mode.set(row.value, origin(row.referenced.line()));
        }
        if let Some(row) = file.sdk {
            self.sdk.set(row.value, origin(row.referenced.line()));
        }
        if let Some(row) = file.sandbox {
            self.sandbox.set(row.value, origin(row.referenced.line()));
        }
        if let Some(row) = file.runtime {
            self.runtime.set(row.value, origin(row.referenced.line()));
        }
        if let Some(row) = file.tools {
            self.tools.set(row.value, origin(row.referenced.line()));
        }
        if let Some(row) = file.observe {
            self.observe.set(row.value, origin(row.referenced.line()));
        }
        if let Some(row) = file.builtins {
            let value = BuiltinsRow {
                root: directory.join(&row.value.root),
                ..row.value
            };
            self.builtins.set(Some(value), origin(row.referenced.line()));
        }
        if let Some(row) = file.sessions {
            let folder = row.value.folder.as_ref().map(|folder| directory.join(folder));
            let value = SessionsRow { folder, ..row.value };
            self.sessions.set(value, origin(row.referenced.line()));
        }
        if let Some(row) = file.typecheck {
            self.typecheck.set(row.value, origin(row.referenced.line()));
        }
        if let Some(row) = file.tsc {
            let path = directory.join(&row.value);
            self.tsc.set(Some(path), origin(row.referenced.line()));
        }
        for (name, row) in file.mcp_servers.unwrap_or_default() {
            let place = || format!("{}:{}", path.display(), row.referenced.line());
            let server =
                checked_server(&name, row.value, directory).map_err(|message| ConfigError::Invalid {
                    place: place(),
                    message,
                })?;
            let origin = origin(row.referenced.line());
            self.mcp_servers.insert(
                name,
                Row {
                    value: server,
                    origin,
                },
            );
        }
        Ok(())
    }

    /// Checks what the types alone cannot.
    fn check(&self) -> Result<(), ConfigError> {
        let invalid = |origin: &Origin, message: String| ConfigError::Invalid {
            place: origin.to_string(),
            message,
        };
        self.runtime
            .value
            .limits()
            .check()
            .map_err(|error| invalid(&self.runtime.origin, format!("runtime: {error}")))?;
        if self.runtime.value.standbys > MAX_STANDBYS {
            let message = format!(
                "runtime: `standbys` is {}: at most {MAX_STANDBYS}",
                self.runtime.value.standbys
            );
            return Err(invalid(&self.runtime.origin, message));
        }
        let tools = &self.tools.value;
        let ranges = [
            (
                "maxParallelSubCalls",
                u64::from(tools.max_parallel_sub_calls),
                1,
                1000,
            ),
            ("callTimeoutMs", tools.call_timeout_ms, 1, i32::MAX as u64),
            (
                "maxInlineBytes",
                tools.max_inline_bytes as u64,
                256,
                64 * 1024 * 1024,
            ),
            (
                "sdkBudgetChars",
                tools.sdk_budget_chars as u64,
                0,
                64 * 1024 * 1024,
            ),
        ];
        for (field, value, least, most) in ranges {
            if value < least || value > most {
                let message = format!("tools: `{field}` is {value}: it must be between {least} and {most}");
                return Err(invalid(&self.tools.origin, message));
            }
        }
        Ok(())
    }
}

const MAX_STANDBYS: u32 = 64;

fn found_files(surroundings: &Surroundings) -> Vec<PathBuf> {
    let user = surroundings
        .user_config_directory
        .as_ref()
        .map(|directory| directory.join("toolweave").join(FILE_NAME));
    let project = surroundings
        .working_directory
        .ancestors()
        .map(|directory| directory.join(FILE_NAME))
        .find(|p| p.is_file());
    let mut files: Vec<_> = user.into_iter().filter(|path| path.is_file()).collect();
    files.extend(project.filter(|path| !files.contains(path)));
    files
}

fn read(path: &Path) -> Result<String, ConfigError> {
    let failed = |source| ConfigError::Read {
        path: path.to_owned(),
        source,
    };
    let size = std::fs::metadata(path).map_err(failed)?.len();
    if size > MAX_FILE_BYTES {
        return Err(ConfigError::TooLarge(path.to_owned()));
    }
    std::fs::read_to_string(path).map_err(failed)
}

fn parse(path: &Path, text: &str) -> Result<File, ConfigError> {
    if text
        .lines()
        .all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'))
    {
        return Ok(File::default());
    }
    serde_saphyr::from_str(text).map_err(|error: serde_saphyr::Error| {
        let place = match error.location() {
            Some(location) if location.line() > 0 => {
                format!("{}:{}:{}", path.display(), location.line(), location.column())
            }
            _ => path.display().to_string(),
        };
        ConfigError::Invalid {
            place,
            message: explain(error.without_snippet(), text),
        }
    })
}

fn explain(error: &serde_saphyr::Error, text: &str) -> String {
    match error {
        serde_saphyr::Error::SerdeUnknownField { field, expected, .. } => {
            let hint = later_key(field)
                .map(str::to_owned)
                .unwrap_or_else(|| nearest(field, expected));
            format!("unknown key `{field}`{hint}; valid keys: {}", expected.join(", "))
        }
        serde_saphyr::Error::SerdeUnknownVariant {
            variant, expected, ..
        } => {
            format!(
                "unknown value `{variant}`{}; valid values: {}",
                nearest(variant, expected),
                expected.join(", ")
            )
        }
        serde_saphyr::Error::InvalidScalar { ty, .. } => {
            let expected = match *ty {
                "u8" | "u16" | "u32" | "u64" | "usize" => {
                    "a whole number that is not negative and not larger than a computer's"
                }
                "bool" => "true or false",
                other => other,
            };
            format!("`{}` is not {expected}", word_at(text, error.location()))
        }
        other => {
            let text = other.to_string();
            text.lines()
                .next()
                .unwrap_or_default()
                .trim_end_matches('.')
                .to_owned()
        }
    }
}

/// Returns the word of a text at a place.
fn word_at(text: &str, place: Option<serde_saphyr::Location>) -> String {
    let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).saturating_sub(1);
    let rest = place.and_then(|place| {
        let line = text.lines().nth(number(place.line()))?;
        Some(line.chars().skip(number(place.column())).collect::<String>())
    });
    let rest = rest.unwrap_or_default();
    let end = rest.find([',', '}', ']', '#']).unwrap_or(rest.len());
    rest[..end].trim().to_owned()
}

/// Explains keys of the design that this version does not have: silently ignoring a policy would be worse than failing.
fn later_key(key: &str) -> Option<&'static str> {
    matches!(key, "policy" | "plugins").then_some(" (planned, not in this version)")
}

pub(crate) fn nearest(word: &str, valid: &[&str]) -> String {
    let lower = word.to_lowercase();
    let best = valid
        .iter()
        .map(|candidate| (strsim::jaro_winkler(&lower, &candidate.to_lowercase()), candidate))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match best {
        Some((score, candidate)) if score > 0.75 => format!(", did you mean `{candidate}`?"),
        _ => String::new(),
    }
}

fn checked_server(name: &str, mut server: ServerRow, directory: &Path) -> Result<ServerRow, String> {
    if name.is_empty() || name.len() > 64 {
        return Err(format!("the server name `{name}` must have 1 to 64 characters"));
    }
    let remote = server.url.is_some()
        || matches!(
            server.transport,
            Some(TransportChoice::Http | TransportChoice::Sse)
        );
    if remote && !server.disabled {
        return Err(format!(
            "server `{name}`: remote servers (`url`) are not supported yet; use a `command`, or set `disabled: true`"
        ));
    }
    if server.command.as_deref().is_none_or(str::is_empty) && !server.disabled {
        return Err(format!("server `{name}`: `command` is missing"));
    }
    for (field, value) in [
        ("timeoutMs", server.timeout_ms),
        ("startupTimeoutMs", server.startup_timeout_ms),
    ] {
        if value.is_some_and(|ms| ms == 0 || ms > i32::MAX as u64) {
            return Err(format!(
                "server `{name}`: `{field}` must be between 1 and {}",
                i32::MAX
            ));
        }
    }
    server.cwd = server.cwd.map(|cwd| directory.join(cwd));
    Ok(server)
}
