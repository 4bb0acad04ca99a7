//! What there is to say about an upstream.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use toolweave_tools::OutputCheck;

/// One MCP server that is called for its tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamConfig {
    /// Its name in the configuration; part of its tools' names.
    pub name: String,
    pub endpoint: Endpoint,
    /// What stands before its tools' names; `{server}` is replaced. `None` is `mcp__{server}__`, empty is nothing.
    pub tool_prefix: Option<String>,
    /// Time that one call may take.
    pub timeout: Duration,
    /// Time until the server must have answered `initialize` and listed its tools.
    pub startup_timeout: Duration,
    /// Kept in the configuration, not started.
    pub disabled: bool,
    pub annotations: Annotations,
    /// What happens to a result that breaks the tool's own output schema. Enforced, a call also fails that sends text where
    /// a schema was announced; what the server sent is part of the message.
    pub output_check: OutputCheck,
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Endpoint {
    /// A process that speaks on its standard streams.
    Stdio(StdioCommand),
}

/// A process to start. Its arguments and the values of its environment may be secrets: `Debug` leaves them out.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct StdioCommand {
    pub command: String,
    pub args: Vec<String>,
    /// Added to what [`UpstreamHost::env`] holds.
    pub env: BTreeMap<String, String>,
    /// Relative to [`UpstreamHost::cwd`].
    pub cwd: Option<PathBuf>,
}

/// What a server's annotations are good for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Annotations {
    /// A tool said to be read-only may overlap others; one said to be destructive counts as such.
    #[default]
    Trusted,
    /// Every tool counts as a write.
    Ignored,
}

/// What upstream processes get from this one. The binary fills it in; this crate reads no environment.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct UpstreamHost {
    /// The whole environment of an upstream, but for what its configuration adds.
    pub env: BTreeMap<String, String>,
    /// Where relative paths start.
    pub cwd: PathBuf,
}

/// Variables that a process needs to find programs, its home and its language, none of which is a secret.
pub const INHERITED_ENV: &[&str] = &[
    "APPDATA",
    "COMSPEC",
    "HOME",
    "HOMEDRIVE",
    "HOMEPATH",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LOCALAPPDATA",
    "LOGNAME",
    "NODE_EXTRA_CA_CERTS",
    "PATH",
    "PATHEXT",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "SHELL",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TERM",
    "TMP",
    "TMPDIR",
    "TZ",
    "USER",
    "USERNAME",
    "USERPROFILE",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
];

impl UpstreamHost {
    /// Takes what upstreams may see out of a whole environment: [`INHERITED_ENV`], nothing else.
    pub fn new(env: impl IntoIterator<Item = (String, String)>, cwd: PathBuf) -> Self {
        let env = env
            .into_iter()
            .filter(|(name, _)| INHERITED_ENV.contains(&name.to_ascii_uppercase().as_str()))
            .collect();
        Self { env, cwd }
    }
}

impl UpstreamConfig {
    /// Returns a server that is a process, with every setting at its default.
    pub fn stdio(name: impl Into<String>, command: StdioCommand) -> Self {
        Self {
            name: name.into(),
            endpoint: Endpoint::Stdio(command),
            tool_prefix: None,
            timeout: Duration::from_secs(60),
            startup_timeout: Duration::from_secs(30),
            disabled: false,
            annotations: Annotations::default(),
            output_check: OutputCheck::default(),
        }
    }
}

impl fmt::Debug for StdioCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdioCommand")
            .field("command", &self.command)
            .field("args", &self.args.len())
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("cwd", &self.cwd)
            .finish()
    }
}

impl fmt::Debug for UpstreamHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamHost")
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("cwd", &self.cwd)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_printed() {
        let pair = |name: &str| (name.to_owned(), "hush".to_owned());
        let command = StdioCommand {
            command: "server".to_owned(),
            args: vec!["--token=hush".to_owned()],
            env: [pair("TOKEN")].into(),
            cwd: None,
        };
        let host = UpstreamHost::new([pair("PATH"), pair("OTHER")], PathBuf::new());
        assert_eq!(
            format!("{command:?} {host:?}"),
            r#"StdioCommand { command: "server", args: 1, env: ["TOKEN"], cwd: None } UpstreamHost { env: ["PATH"], cwd: "" }"#
        );
    }
}
