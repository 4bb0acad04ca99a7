//! The fixture MCP server as a program, on standard input and output.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use toolweave_testkit::{RigSet, ServeOptions, StdSet, ToolSet, serve};

const USAGE: &str =
    "usage: toolweave-fixture [--set std|rig] [--data FILE] [--dummies N] [--log FILE] [--page N]
                         [--banner] [--hang-initialize] [--exit-after N] [--bad-schema]";

fn main() -> ExitCode {
    match Arguments::parse(std::env::args().skip(1)).and_then(Arguments::into_server) {
        Ok((set, options)) => ExitCode::from(serve(set, options, io::stdin().lock(), io::stdout())),
        Err(message) => {
            #[expect(clippy::print_stderr, reason = "this is the program's own usage message")]
            {
                eprintln!("{message}\n{USAGE}");
            }
            ExitCode::from(2)
        }
    }
}

#[derive(Default)]
struct Arguments {
    set: Option<String>,
    data: Option<PathBuf>,
    dummies: usize,
    options: ServeOptions,
}

impl Arguments {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut found = Self::default();
        while let Some(word) = words.next() {
            let wrong = &mut found.options.misbehaviour;
            let mut value = || words.next().ok_or_else(|| format!("`{word}` needs a value"));
            match word.as_str() {
                "--set" => found.set = Some(value()?),
                "--data" => found.data = Some(value()?.into()),
                "--log" => found.options.log = Some(value()?.into()),
                "--dummies" => found.dummies = number(&word, &value()?)?,
                "--page" => found.options.page = Some(number(&word, &value()?)?),
                "--exit-after" => wrong.exit_after = Some(number(&word, &value()?)?),
                "--banner" => wrong.banner = true,
                "--hang-initialize" => wrong.hang_initialize = true,
                "--bad-schema" => wrong.bad_schema = true,
                _ => return Err(format!("unknown argument `{word}`")),
            }
        }
        Ok(found)
    }

    fn into_server(self) -> Result<(Arc<dyn ToolSet>, ServeOptions), String> {
        let set: Arc<dyn ToolSet> = match self.set.as_deref() {
            Some("rig") => Arc::new(RigSet {
                dummies: self.dummies,
            }),
            Some("std") | None => {
                let loaded = self
                    .data
                    .as_deref()
                    .map_or_else(StdSet::bundled, |path: &Path| StdSet::load(path));
                Arc::new(loaded.map_err(|e| e.to_string())?)
            }
            Some(other) => return Err(format!("unknown set `{other}`")),
        };
        Ok((set, self.options))
    }
}

fn number<T: std::str::FromStr>(word: &str, text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| format!("`{word}` needs a number, not `{text}`"))
}
