//! Finding an installed Node and asking it what it is.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;
use toolweave_runtime::LimitError;
use toolweave_sandbox::{LaunchConfig, Launcher, Requirement, SandboxError};

/// The oldest major version of Node that works.
pub const MIN_NODE: u32 = 20;

/// How long a program may take to say what it is.
const PATIENCE: Duration = Duration::from_secs(20);
/// The longest answer that is read.
const MAX_ANSWER: u64 = 256 * 1024;
/// Names under which systems install it.
const NAMES: [&str; 2] = ["node", "nodejs"];

/// Which program runs V8.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flavor {
    /// Whatever is found that works.
    #[default]
    Auto,
    Node,
    /// Not in this version: refused with [`ConfigError::Deno`].
    Deno,
}

/// An installed Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeProgram {
    /// The program itself, behind links and wrappers.
    pub path: PathBuf,
    /// As it says, without the `v`: `24.9.0`.
    pub version: String,
    /// The version of its V8.
    pub v8: String,
    /// Files that it maps when it starts: itself and its libraries.
    pub(crate) files: Vec<PathBuf>,
    /// Options that this version knows, out of those that are wanted.
    pub(crate) options: Vec<String>,
}

impl NodeProgram {
    /// Returns the files that it maps when it starts: itself and its libraries.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }
}

impl fmt::Display for NodeProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Node {} (V8 {}) at {}",
            self.version,
            self.v8,
            self.path.display()
        )
    }
}

/// A configuration that cannot be used. Nothing is left running; `engine: quickjs` needs none of this.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    #[error(transparent)]
    Limit(#[from] LimitError),
    #[error(
        "no Node was found in {searched} folders of the search path: install Node {MIN_NODE} or later from nodejs.org or a \
         package manager, or configure the path of the program"
    )]
    NotFound { searched: usize },
    #[error(
        "Node {version} at `{}` is too old: install Node {MIN_NODE} or later, or configure the path of a newer one",
        program.display()
    )]
    TooOld { program: PathBuf, version: String },
    #[error(
        "`{}` is not a Node that can be used: {reason}; configure the path of a Node {MIN_NODE} or later, not of a wrapper",
        program.display()
    )]
    NotNode { program: PathBuf, reason: String },
    #[error("Deno cannot run programs in this version: install Node {MIN_NODE} or later")]
    Deno,
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
}

/// Finds a Node and asks it for its version.
///
/// `program` is tried alone where it is given; otherwise the folders of `search_path` (a `PATH` value) are searched. The
/// program is executed once, with an empty environment, and told to say what it is. This blocks for as long as that takes.
///
/// # Errors
/// [`ConfigError`] says what was found and what to install.
pub fn find_node(
    program: Option<&Path>,
    search_path: Option<&OsStr>,
    flavor: Flavor,
) -> Result<NodeProgram, ConfigError> {
    if flavor == Flavor::Deno {
        return Err(ConfigError::Deno);
    }
    if let Some(program) = program {
        if !is_executable(program) {
            return Err(ConfigError::NotNode {
                program: program.to_owned(),
                reason: "it is not an executable file".to_owned(),
            });
        }
        let program = std::path::absolute(program).unwrap_or_else(|_| program.to_owned());
        return ask(&program);
    }
    let folders: Vec<PathBuf> = search_path
        .map(|path| std::env::split_paths(path).collect())
        .unwrap_or_default();
    let candidates = folders
        .iter()
        .filter(|folder| folder.is_absolute())
        .flat_map(|folder| NAMES.map(|name| folder.join(name)))
        .filter(|candidate| is_executable(candidate));
    // A newer one may come later on the path; the first refusal is the one to report.
    let mut refusal = None;
    for candidate in candidates {
        match ask(&candidate) {
            Ok(node) => return Ok(node),
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    Err(refusal.unwrap_or(ConfigError::NotFound {
        searched: folders.len(),
    }))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path)
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// Makes a Node say what it is, on the socket that it has for standard input.
const QUESTION: &str = r#"
const { readFileSync, writeSync } = require("fs");
const wanted = ["--permission", "--experimental-permission", "--disable-sigusr1", "--no-addons", "--no-global-search-paths"];
let maps = "";
try { maps = readFileSync("/proc/self/maps", "utf8"); } catch {}
const files = [...new Set(maps.split("\n").map((line) => line.split(/ +/, 6)[5]).filter((file) => file?.startsWith("/")))];
const answer = Buffer.from(JSON.stringify({
  version: process.versions.node,
  v8: process.versions.v8,
  deno: process.versions.deno,
  path: process.execPath,
  files,
  options: wanted.filter((option) => process.allowedNodeEnvironmentFlags.has(option)),
}));
for (let at = 0; at < answer.length; ) at += writeSync(0, answer, at);
"#;

#[derive(Deserialize)]
struct Answer {
    version: String,
    v8: String,
    #[serde(default)]
    deno: Option<String>,
    path: PathBuf,
    files: Vec<PathBuf>,
    options: Vec<String>,
}

fn ask(program: &Path) -> Result<NodeProgram, ConfigError> {
    let not_node = |reason: String| ConfigError::NotNode {
        program: program.to_owned(),
        reason,
    };
    let answer = blocking(question(program.to_owned()))
        .ok_or_else(|| not_node("it could not be asked".to_owned()))?
        .map_err(not_node)?;
    if answer.deno.is_some() {
        return Err(ConfigError::Deno);
    }
    let major = answer
        .version
        .split('.')
        .next()
        .and_then(|major| major.parse::<u32>().ok());
    match major {
        None => Err(not_node(format!(
            "it says that its version is `{}`",
            answer.version
        ))),
        Some(major) if major < MIN_NODE => Err(ConfigError::TooOld {
            program: program.to_owned(),
            version: answer.version,
        }),
        Some(_) => Ok(NodeProgram {
            path: answer.path,
            version: answer.version,
            v8: answer.v8,
            files: answer.files,
            options: answer.options,
        }),
    }
}

/// Runs a future to its end on a thread of its own, so that this works inside and outside of any executor.
pub(crate) fn blocking<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> Option<T> {
    let thread = std::thread::Builder::new().name("toolweave-node-start".to_owned());
    let work = move || {
        let executor = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .ok()?;
        Some(executor.block_on(future))
    };
    thread.spawn(work).ok()?.join().ok().flatten()
}

async fn question(program: PathBuf) -> Result<Answer, String> {
    // Nothing hostile runs here, and the program itself has to be found behind what may be a wrapper first.
    let launcher = Launcher::start(LaunchConfig {
        requirement: Requirement::Off,
        args: vec!["-e".into(), QUESTION.into()],
        ..LaunchConfig::new(program)
    })
    .map_err(|error| with_causes(&error))?;
    let starting = launcher.launch().await.map_err(|error| with_causes(&error))?;
    let mut text = Vec::new();
    let read = async {
        let socket = starting.socket().try_clone().and_then(UnixStream::from_std)?;
        socket.take(MAX_ANSWER).read_to_end(&mut text).await
    };
    let read = tokio::time::timeout(PATIENCE, read).await;
    let words = starting.last_words().read();
    let hint = words
        .trim()
        .lines()
        .next()
        .map(|line| format!(" ({line})"))
        .unwrap_or_default();
    let answer = match read {
        Err(_) => Err(format!(
            "it did not say its version within {} s{hint}",
            PATIENCE.as_secs()
        )),
        Ok(Err(error)) => Err(format!("it did not say its version: {error}")),
        Ok(Ok(_)) => serde_json::from_slice(&text).map_err(|_| format!("it did not say its version{hint}")),
    };
    drop(starting);
    launcher.shutdown().await;
    answer
}

/// Returns an error with everything that caused it.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
