//! Reading test data, and asking the TypeScript compiler where there is one.

use std::path::{Path, PathBuf};

use serde_json::Value;
use toolweave_codegen::{Detail, Output, ToolDecl, declarations};

/// Returns a folder of shared test data, or says that it is not here.
pub(crate) fn shared(folder: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared")
        .join(folder);
    if !path.is_dir() {
        eprintln!("skipped: ../shared is not here");
        return None;
    }
    Some(path)
}

pub(crate) fn json_files(folder: &Path) -> Vec<(String, Value)> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    files
        .into_iter()
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            (name, serde_json::from_str(&text).unwrap())
        })
        .collect()
}

/// A tool as MCP lists it.
pub(crate) fn declared(tool: &Value) -> ToolDecl<'_> {
    ToolDecl {
        name: tool["name"].as_str().unwrap(),
        description: tool
            .get("description")
            .and_then(Value::as_str)
            .unwrap_or_default(),
        input: tool.get("inputSchema").unwrap_or(&Value::Null),
        output: tool.get("outputSchema").map_or(Output::Unknown, Output::Declared),
    }
}

pub(crate) fn block(tools: &[Value], detail: Detail) -> String {
    let declared: Vec<ToolDecl<'_>> = tools.iter().map(declared).collect();
    declarations(&declared, detail)
}

/// Returns the part of the block that depends on the tools.
pub(crate) fn maps(tools: &[Value], detail: Detail) -> String {
    let block = block(tools, detail);
    let start = block.find("interface ToolArgsMap").unwrap();
    let end = block.find("type ToolName").unwrap();
    block[start..end].to_owned()
}

/// Returns the compiler's complaints about `source` as `(line, text)`, or nothing when there is no compiler.
pub(crate) fn check(source: &str) -> Option<Vec<(usize, String)>> {
    let compiler = compiler()?;
    let folder = std::env::temp_dir().join(format!("toolweave-codegen-{}", unique()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("block.ts");
    std::fs::write(&file, source).unwrap();
    #[expect(clippy::disallowed_methods, reason = "the compiler is another program")]
    let output = std::process::Command::new(compiler)
        .args(["--strict", "--noEmit", "--target", "esnext", "--pretty", "false"])
        .arg(&file)
        .output()
        .unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaints: Vec<(usize, String)> = text
        .lines()
        .filter_map(|line| {
            let (_, rest) = line.split_once("block.ts(")?;
            let (place, message) = rest.split_once("): ")?;
            Some((place.split(',').next()?.parse().ok()?, message.to_owned()))
        })
        .collect();
    assert!(
        output.status.success() || !complaints.is_empty(),
        "the compiler failed: {text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(complaints)
}

/// Checks probes against a block: a line that starts with `OK` must compile, one that starts with `BAD` must not.
pub(crate) fn probe(block: &str, probes: &[&str]) {
    let mut source = block.to_owned();
    let mut expected = Vec::new();
    let mut line = source.lines().count();
    for (at, probe) in probes.iter().enumerate() {
        let (verdict, code) = probe.split_once(' ').unwrap();
        line += 1;
        source.push_str(&format!("async function probe{at}() {{ {code} }}\n"));
        if verdict == "BAD" {
            expected.push(line);
        } else {
            assert_eq!(verdict, "OK");
        }
    }
    let Some(complaints) = check(&source) else { return };
    let mut lines: Vec<usize> = complaints.iter().map(|(line, _)| *line).collect();
    lines.dedup();
    assert_eq!(lines, expected, "{complaints:#?}\n{source}");
}

fn compiler() -> Option<PathBuf> {
    #[expect(
        clippy::disallowed_methods,
        reason = "a test finds the compiler where the person running it says"
    )]
    let (named, path) = (std::env::var_os("TOOLWEAVE_TSC"), std::env::var_os("PATH"));
    let found = named.map(PathBuf::from).or_else(|| {
        std::env::split_paths(&path?)
            .map(|folder| folder.join("tsc"))
            .find(|file| file.is_file())
    });
    if found.is_none() {
        eprintln!("skipped: no TypeScript compiler at $TOOLWEAVE_TSC or on PATH");
    }
    found
}

fn unique() -> String {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}
