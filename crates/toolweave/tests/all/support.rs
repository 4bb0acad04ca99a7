//! Runs the binary in a folder of its own, away from the person's configuration.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use toolweave_testkit::RpcClient;

/// A working directory and a home that nobody else uses.
pub(crate) struct Desk {
    pub(crate) folder: TempDir,
}

/// What a command left behind.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// Returns standard output as JSON.
    pub(crate) fn json(&self) -> Value {
        let mut reader = serde_json::Deserializer::from_str(&self.out);
        reader.disable_recursion_limit();
        serde::Deserialize::deserialize(&mut reader).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Desk {
    pub(crate) fn new() -> Self {
        let folder = toolweave_testkit::temp_dir().expect("a temporary folder");
        std::fs::create_dir_all(folder.path().join("work")).expect("a folder");
        Self { folder }
    }

    pub(crate) fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("work")
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }

    /// Returns the command with an environment that holds nothing of the person's.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolweave"));
        command
            .args(arguments)
            .current_dir(self.path())
            .env_clear()
            .env("HOME", self.folder.path())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        ran(self.command(arguments).output().expect("the binary starts"))
    }

    pub(crate) fn run_with_input(&self, arguments: &[&str], input: &str) -> Ran {
        use std::io::Write as _;
        let mut command = self.command(arguments);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin.write_all(input.as_bytes()).expect("it reads");
        drop(stdin);
        ran(child.wait_with_output().expect("it ends"))
    }

    /// Runs a program and returns what `--json` prints.
    pub(crate) fn exec(&self, program: &str, more: &[&str]) -> Value {
        let mut arguments = vec!["exec", "--json", "-e", program];
        arguments.extend_from_slice(more);
        self.run(&arguments).json()
    }
}

fn ran(output: Output) -> Ran {
    Ran {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).expect("UTF-8"),
        err: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

/// Returns a server row for the fixture server, as YAML flow text.
pub(crate) fn fixture_row(arguments: &[&str]) -> String {
    let program = toolweave_testkit::fixture_bin().expect("the fixture server builds");
    let row = serde_json::json!({"command": program, "args": arguments, "toolPrefix": ""});
    row.to_string()
}

/// Returns the processes whose parent is `parent`.
pub(crate) fn children_of(parent: u32) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| parent_of(*pid) == Some(parent))
        .collect()
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Sends a request and returns its result.
pub(crate) fn result(client: &mut RpcClient, method: &str, params: Value) -> Value {
    let answer = client.request(method, params).expect("an answer");
    assert!(
        answer.get("error").is_none(),
        "a result, not a protocol error: {answer}"
    );
    answer["result"].clone()
}

/// Calls a tool and returns the result.
pub(crate) fn call(client: &mut RpcClient, tool: &str, arguments: Value) -> Value {
    result(
        client,
        "tools/call",
        serde_json::json!({"name": tool, "arguments": arguments}),
    )
}

/// Runs a program through a gateway.
pub(crate) fn run_code(client: &mut RpcClient, code: &str) -> Value {
    call(
        client,
        "run_code",
        serde_json::json!({"description": "test", "code": code}),
    )
}
