//! The corpus of programs as models write them, and what must come out of each.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Why a file of the corpus cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CorpusError {
    /// A file or folder cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A file has another form than it should.
    #[error("{} has an unexpected form", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: serde_json::Error,
    },
}

impl CorpusError {
    pub(crate) fn read(path: &Path, source: io::Error) -> Self {
        Self::Read {
            path: path.to_owned(),
            source,
        }
    }
}

/// A program with its sidecar.
#[derive(Debug, Clone)]
pub struct Program {
    /// The file's name without its ending, for example `001-bare-statements-return`.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// The text exactly as a model sends it.
    pub text: String,
    /// What is said about it.
    pub sidecar: Sidecar,
}

/// What is said about a program.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sidecar {
    /// The set of tools that it needs.
    pub tools: String,
    /// How firm the expectation is.
    pub class: Class,
    /// What it covers.
    pub tags: Vec<String>,
    /// Limits to run under.
    #[serde(default)]
    pub limits: Limits,
    /// What must come out.
    pub expect: Expect,
    /// Why it is there.
    pub note: String,
}

/// How firm an expectation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// It follows from the language or the design.
    Settled,
    /// Another behaviour would be honest too.
    Choice,
}

/// Limits to run under; absent ones are the defaults.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Limits {
    /// Processor time.
    pub compute_ms: Option<u64>,
    /// Time from start to end.
    pub max_wall_ms: Option<u64>,
    /// Memory.
    pub max_memory_mb: Option<u64>,
    /// Logs and value together.
    pub max_output_bytes: Option<u64>,
}

/// What must come out of a program.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// Whether the run succeeds.
    pub ok: bool,
    /// The value; `Some(Null)` is not the same as none.
    #[serde(default, deserialize_with = "present")]
    pub result: Option<Value>,
    /// The length of a large value as compact JSON.
    pub result_json_bytes: Option<usize>,
    /// All entries of the log.
    pub logs: Option<Vec<String>>,
    /// The first entries of the log.
    pub logs_start: Option<Vec<String>>,
    /// The kind of failure.
    pub error_kind: Option<OneOrMany>,
    /// A part of the message.
    pub message_contains: Option<OneOrMany>,
    /// The line of the failure, from 1.
    pub line: Option<u64>,
    /// The tools that were reached, in order.
    pub calls: Option<Vec<String>>,
}

/// One text, or several of which any will do.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum OneOrMany {
    /// Just this one.
    One(String),
    /// Any of these.
    Many(Vec<String>),
}

impl OneOrMany {
    /// Returns the texts.
    pub fn as_slice(&self) -> &[String] {
        match self {
            Self::One(text) => std::slice::from_ref(text),
            Self::Many(texts) => texts,
        }
    }
}

/// Returns the programs of a folder with their sidecars, in the order of their names.
///
/// # Errors
/// When a file cannot be read, or a sidecar is missing or has an unknown form.
pub fn load_programs(dir: &Path) -> Result<Vec<Program>, CorpusError> {
    let mut programs = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(|e| CorpusError::read(dir, e))? {
        let path = entry.map_err(|e| CorpusError::read(dir, e))?.path();
        if path.extension().is_none_or(|extension| extension != "ts") {
            continue;
        }
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let text = std::fs::read_to_string(&path).map_err(|e| CorpusError::read(&path, e))?;
        let beside = path.with_extension("json");
        let sidecar = std::fs::read_to_string(&beside).map_err(|e| CorpusError::read(&beside, e))?;
        let sidecar = serde_json::from_str(&sidecar).map_err(|e| CorpusError::Form {
            path: beside,
            source: e,
        })?;
        programs.push(Program {
            name,
            path,
            text,
            sidecar,
        });
    }
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(programs)
}

/// Compares what came out of a program, as `toolweave exec --json` prints it, with what must.
///
/// # Errors
/// With everything that differs.
pub fn sidecar_matches(expect: &Expect, outcome_json: &str) -> Result<(), String> {
    let outcome: Value =
        serde_json::from_str(outcome_json).map_err(|e| format!("the outcome is not readable JSON: {e}"))?;
    let mut differences = Vec::new();
    let mut check = |what: &str, holds: bool, expected: String, found: &Value| {
        if !holds {
            differences.push(format!("{what}: expected {expected}, found {}", shown(found)));
        }
    };

    check(
        "ok",
        outcome["ok"] == expect.ok,
        expect.ok.to_string(),
        &outcome["ok"],
    );
    let result = outcome.get("result");
    let found = result.unwrap_or(&Value::Null);
    if let Some(expected) = &expect.result {
        let holds = result.is_some_and(|result| same(expected, result));
        check(
            "result",
            holds,
            shown(expected),
            result.unwrap_or(&Value::String("nothing".into())),
        );
    } else if let Some(bytes) = expect.result_json_bytes {
        let length = result.map(|result| result.to_string().len());
        check(
            "size of the result",
            length == Some(bytes),
            bytes.to_string(),
            &Value::from(length),
        );
    } else if expect.ok {
        check("result", result.is_none(), "none".into(), found);
    }

    let logs: Option<Vec<&str>> = outcome["logs"]
        .as_array()
        .and_then(|logs| logs.iter().map(Value::as_str).collect());
    if let Some(expected) = &expect.logs {
        let holds = logs.as_ref().is_some_and(|logs| logs == expected);
        check("logs", holds, format!("{expected:?}"), &outcome["logs"]);
    }
    if let Some(expected) = &expect.logs_start {
        let start = logs.as_ref().and_then(|logs| logs.get(..expected.len()));
        check(
            "start of the logs",
            start.is_some_and(|start| start == expected),
            format!("{expected:?}"),
            &outcome["logs"],
        );
    }

    let error = &outcome["error"];
    if let Some(kinds) = &expect.error_kind {
        let holds = error["kind"]
            .as_str()
            .is_some_and(|kind| kinds.as_slice().iter().any(|k| k == kind));
        check(
            "kind of the error",
            holds,
            format!("{:?}", kinds.as_slice()),
            error,
        );
    }
    if let Some(parts) = &expect.message_contains {
        let message = error["message"].as_str().map(str::to_lowercase);
        let holds = message.is_some_and(|m| {
            parts
                .as_slice()
                .iter()
                .any(|part| m.contains(&part.to_lowercase()))
        });
        check("message", holds, format!("any of {:?}", parts.as_slice()), error);
    }
    if let Some(line) = expect.line {
        check(
            "line of the error",
            error["line"].as_u64() == Some(line),
            line.to_string(),
            error,
        );
    }
    if let Some(expected) = &expect.calls {
        let calls = outcome["calls"].as_array().map(Vec::as_slice);
        let reached = calls.map(|calls| calls.iter().filter(|call| call["reached"] != false));
        let names: Option<Vec<&str>> =
            reached.and_then(|calls| calls.map(|call| call["name"].as_str()).collect());
        check(
            "calls",
            names.is_some_and(|names| names == *expected),
            format!("{expected:?}"),
            &outcome["calls"],
        );
    }

    if differences.is_empty() {
        Ok(())
    } else {
        Err(differences.join("\n"))
    }
}

/// Returns whether two values are the same to a program: numbers by value, objects without regard to order.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64().is_some_and(|a| b.as_f64() == Some(a)),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

fn shown(value: &Value) -> String {
    const MOST: usize = 2000;
    let text = value.to_string();
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text,
    }
}

/// Reads a field that is there as `Some`, even when it is `null`.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}
