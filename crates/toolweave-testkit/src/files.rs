//! Finds what tests need: shared data, the fixture server's program, temporary folders.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::SystemTime;

use serde::Deserialize;
use tempfile::TempDir;

/// Returns the folder `shared` beside the repository, or says on standard error that it is not here.
///
/// `manifest_dir` is `env!("CARGO_MANIFEST_DIR")` of the calling crate.
pub fn shared_dir(manifest_dir: &str) -> Option<PathBuf> {
    let path = Path::new(manifest_dir).join("../../../shared");
    if path.is_dir() {
        return Some(path);
    }
    #[expect(
        clippy::print_stderr,
        reason = "the reason of a skipped test belongs into its output"
    )]
    {
        eprintln!("skipped: ../shared is not here");
    }
    None
}

/// Returns the folder with the corpus of programs, or says that it is not here.
pub fn corpus_dir(manifest_dir: &str) -> Option<PathBuf> {
    shared_dir(manifest_dir).map(|shared| shared.join("corpus/programs"))
}

/// Returns a new folder that goes away with the value.
///
/// # Errors
/// When the system has no room for one.
pub fn temp_dir() -> io::Result<TempDir> {
    tempfile::Builder::new().prefix("toolweave-test-").tempdir()
}

/// Why the fixture server's program could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The running test has an unexpected place.
    #[error("cannot tell the target folder from {}", .0.display())]
    NoTargetDir(PathBuf),
    /// The build tool could not be run.
    #[error("cannot run cargo")]
    Run(#[source] io::Error),
    /// The build failed.
    #[error("cargo cannot build `toolweave-fixture`: {0}")]
    Failed(String),
}

/// Returns the path of the program `toolweave-fixture`, which is built where it is missing or old.
///
/// Cargo tells a crate's tests where that crate's own programs are, but not those of others. It is built into the target
/// folder and with the profile of the running test, once per process.
///
/// # Errors
/// When it cannot be built.
pub fn fixture_bin() -> Result<&'static Path, &'static BuildError> {
    static BUILT: OnceLock<Result<PathBuf, BuildError>> = OnceLock::new();
    BUILT.get_or_init(build).as_deref()
}

const FIXTURE: &str = "toolweave-fixture";

fn build() -> Result<PathBuf, BuildError> {
    let test = std::env::current_exe().map_err(BuildError::Run)?;
    let place = Place::of(&test).ok_or_else(|| BuildError::NoTargetDir(test.clone()))?;
    let ready = place
        .dir
        .join(format!("{FIXTURE}{}", std::env::consts::EXE_SUFFIX));
    if is_newer(&ready, Path::new(env!("CARGO_MANIFEST_DIR"))) {
        return Ok(ready);
    }
    #[expect(
        clippy::disallowed_methods,
        reason = "a development crate may run the build tool"
    )]
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["build", "--package", env!("CARGO_PKG_NAME"), "--bin", FIXTURE])
        .args(["--message-format", "json-render-diagnostics"])
        .args(["--profile", &place.profile])
        .arg("--target-dir")
        .arg(&place.target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::null());
    if let Some(triple) = &place.triple {
        cargo.args(["--target", triple]);
    }
    let output = cargo.output().map_err(BuildError::Run)?;
    let built = output
        .status
        .success()
        .then(|| executable(&output.stdout))
        .flatten();
    built.ok_or_else(|| BuildError::Failed(String::from_utf8_lossy(&output.stderr).into_owned()))
}

/// Where a test's program lies: `TARGET[/TRIPLE]/PROFILE[/deps]/NAME`.
#[derive(Debug, PartialEq)]
struct Place {
    dir: PathBuf,
    target: PathBuf,
    triple: Option<String>,
    profile: String,
}

impl Place {
    fn of(program: &Path) -> Option<Self> {
        let mut dir = program.parent()?;
        if dir.ends_with("deps") || dir.ends_with("examples") {
            dir = dir.parent()?;
        }
        let profile = match dir.file_name()?.to_str()? {
            "debug" => "dev",
            other => other,
        };
        let above = dir.parent()?;
        // Names of platforms have at least two hyphens: `x86_64-unknown-linux-musl`.
        let name = above.file_name()?.to_str()?;
        let is_triple = name.matches('-').count() >= 2 && !above.join("CACHEDIR.TAG").exists();
        let target = if is_triple { above.parent()? } else { above };
        Some(Self {
            dir: dir.to_owned(),
            target: target.to_owned(),
            triple: is_triple.then(|| name.to_owned()),
            profile: profile.to_owned(),
        })
    }
}

/// Returns whether `program` is younger than every source file of this crate.
fn is_newer(program: &Path, crate_dir: &Path) -> bool {
    let Ok(built) = program.metadata().and_then(|meta| meta.modified()) else {
        return false;
    };
    let sources = ["src", "fixtures", "Cargo.toml"];
    sources
        .iter()
        .all(|source| youngest(&crate_dir.join(source)).is_some_and(|time| time <= built))
}

fn youngest(path: &Path) -> Option<SystemTime> {
    let own = path.metadata().and_then(|meta| meta.modified()).ok()?;
    let Ok(entries) = std::fs::read_dir(path) else {
        return Some(own);
    };
    entries
        .flatten()
        .filter_map(|entry| youngest(&entry.path()))
        .chain([own])
        .max()
}

fn executable(messages: &[u8]) -> Option<PathBuf> {
    #[derive(Deserialize)]
    struct Artifact {
        reason: String,
        target: Option<Target>,
        executable: Option<PathBuf>,
    }
    #[derive(Deserialize)]
    struct Target {
        name: String,
    }
    let messages = messages.split(|byte| *byte == b'\n');
    messages
        .filter_map(|line| serde_json::from_slice::<Artifact>(line).ok())
        .find_map(|artifact| {
            let ours = artifact.reason == "compiler-artifact" && artifact.target?.name == FIXTURE;
            if ours { artifact.executable } else { None }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_programs_place_tells_how_it_was_built() {
        let place = |dir: &str, target: &str, triple: Option<&str>, profile: &str| {
            Some(Place {
                dir: dir.into(),
                target: target.into(),
                triple: triple.map(str::to_owned),
                profile: profile.into(),
            })
        };
        let of = |program: &str| Place::of(Path::new(program));
        assert_eq!(
            of("/p/target/debug/deps/all-1f"),
            place("/p/target/debug", "/p/target", None, "dev")
        );
        assert_eq!(
            of("/p/target/release/tool"),
            place("/p/target/release", "/p/target", None, "release")
        );
        assert_eq!(
            of("/p/out/x86_64-unknown-linux-musl/ci/deps/all-1f"),
            place(
                "/p/out/x86_64-unknown-linux-musl/ci",
                "/p/out",
                Some("x86_64-unknown-linux-musl"),
                "ci"
            )
        );
        assert_eq!(of("all"), None);
    }
}
