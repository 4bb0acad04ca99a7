//! What is known about a program before it runs, and how its failure is told in terms of the text that was sent.

use serde_json::{Map, Value};
use toolweave_program::{Finding, FindingKind, Literal, Prepared, ProgramError, StaticCall};
use toolweave_runtime::{Failure, FailureKind, Json};

use crate::ReportedError;
use crate::registry::{Entry, Snapshot};
use crate::run;
use crate::text::clip;

/// Problems that one refusal lists.
const LISTED_PROBLEMS: usize = 10;
/// Characters of a failure's text; the rest of a longer one helps nobody.
const MESSAGE_CHARS: usize = 8_000;

/// Members that every object has; calling them on `tools` is harmless.
const OBJECT_MEMBERS: &[&str] = &[
    "constructor",
    "hasOwnProperty",
    "isPrototypeOf",
    "propertyIsEnumerable",
    "then",
    "toLocaleString",
    "toString",
    "valueOf",
];

/// A program that may run.
pub(crate) struct Ready {
    pub(crate) javascript: String,
    pub(crate) warnings: Vec<String>,
    /// Said only when the program gave nothing.
    no_result: Vec<String>,
    pub(crate) prepared: Prepared,
}

/// A program that must not run.
pub(crate) struct Refused {
    pub(crate) error: ReportedError,
    pub(crate) warnings: Vec<String>,
}

/// Something wrong with a call, known before the run.
struct Problem {
    line: u32,
    column: u32,
    message: String,
}

/// Prepares a program, or says why it cannot run. What is certain to fail does so here, before any side effect.
pub(crate) fn prepare(code: &str, snapshot: &Snapshot) -> Result<Ready, Refused> {
    let mut prepared = toolweave_program::prepare(code).map_err(|error| Refused {
        error: refused_text(&error),
        warnings: Vec::new(),
    })?;
    let mut warnings = Vec::new();
    let mut no_result = Vec::new();
    for finding in &prepared.findings {
        let text = format!("line {}: {}", finding.line, finding.message);
        match finding.kind {
            FindingKind::NoResult => no_result.push(text),
            FindingKind::Unawaited if is_about_list(finding, &prepared.calls, snapshot) => {}
            _ => warnings.push(text),
        }
    }
    let mut certain = Vec::new();
    for call in &prepared.calls {
        let Some(message) = problem(call, snapshot) else {
            continue;
        };
        if call.fails_the_run() {
            certain.push(Problem {
                line: call.line,
                column: call.column,
                message,
            });
        } else {
            warnings.push(format!("line {}: {message}", call.line));
        }
    }
    if !certain.is_empty() {
        return Err(Refused {
            error: refused_calls(&certain, &prepared),
            warnings,
        });
    }
    Ok(Ready {
        javascript: std::mem::take(&mut prepared.javascript),
        warnings,
        no_result,
        prepared,
    })
}

impl Ready {
    /// Returns the warnings of a run that gave something, or nothing.
    pub(crate) fn into_warnings(self, gave_something: bool) -> Vec<String> {
        let Self {
            mut warnings,
            no_result,
            ..
        } = self;
        if !gave_something {
            warnings.extend(no_result);
        }
        warnings
    }

    /// Words a failure in terms of the text that the model sent.
    pub(crate) fn report(&self, failure: &Failure, snapshot: &Snapshot) -> ReportedError {
        let mut message = clip(&failure.message, MESSAGE_CHARS);
        if let (FailureKind::Exception, Some(name)) = (failure.kind, &failure.name) {
            message = if message.is_empty() {
                name.clone()
            } else {
                format!("{name}: {message}")
            };
        }
        let place = failure
            .position
            .iter()
            .chain(failure.stack.iter().map(|frame| &frame.position))
            .find_map(|position| self.prepared.original_position(position.line, position.column));
        if let Some((line, column)) = place {
            message.push_str(&format!(" (line {line}, column {column})"));
        }
        if let Some(hint) = hint(failure, snapshot) {
            message.push_str("; ");
            message.push_str(&hint);
        }
        if let Some((line, column)) = place {
            append_excerpt(&mut message, &self.prepared.excerpt(line, column));
        }
        ReportedError {
            kind: failure.kind,
            message,
            line: place.map(|(line, _)| line),
            column: place.map(|(_, column)| column),
        }
    }
}

fn refused_text(error: &ProgramError) -> ReportedError {
    ReportedError {
        kind: FailureKind::Exception,
        message: error.report(),
        line: Some(error.line),
        column: Some(error.column),
    }
}

fn refused_calls(problems: &[Problem], prepared: &Prepared) -> ReportedError {
    let (line, column) = problems
        .first()
        .map_or((1, 1), |problem| (problem.line, problem.column));
    let mut message = match problems {
        [one] => format!("{} (line {line}, column {column})", one.message),
        many => {
            let mut text = format!("{} calls are certain to fail:", many.len());
            for problem in many.iter().take(LISTED_PROBLEMS) {
                text.push_str(&format!("\nline {}: {}", problem.line, problem.message));
            }
            if many.len() > LISTED_PROBLEMS {
                text.push_str(&format!("\nand {} more", many.len() - LISTED_PROBLEMS));
            }
            text
        }
    };
    append_excerpt(&mut message, &prepared.excerpt(line, column));
    message.push_str("\nnothing was run");
    ReportedError {
        kind: FailureKind::Exception,
        message,
        line: Some(line),
        column: Some(column),
    }
}

fn append_excerpt(message: &mut String, excerpt: &str) {
    if !excerpt.is_empty() {
        message.push('\n');
        message.push_str(excerpt);
    }
}

/// Returns whether a finding takes the names that `list` gives at once for a promise.
fn is_about_list(finding: &Finding, calls: &[StaticCall], snapshot: &Snapshot) -> bool {
    calls.iter().any(|call| {
        call.line == finding.line
            && call.path.len() == 1
            && call.path.first().is_some_and(|name| {
                run::answers_at_once(name)
                    && snapshot.get(name).is_none()
                    && finding.message.contains(&format!("{}.{name}(", call.root))
            })
    })
}

/// Returns what is wrong with a call, as far as the text shows.
fn problem(call: &StaticCall, snapshot: &Snapshot) -> Option<String> {
    let first = call.path.first()?;
    let entry = match snapshot.get(first).filter(|_| !run::is_hidden_name(first)) {
        Some(entry) if call.path.len() == 1 => entry,
        // `tools.read_doc.bind(...)` and the like.
        Some(_) => return None,
        None if OBJECT_MEMBERS.contains(&first.as_str()) || run::is_discovery(first) => return None,
        None => return Some(run::unknown_tool(&call.path.join("."), snapshot)),
    };
    argument_problem(call, entry)
}

fn argument_problem(call: &StaticCall, entry: &Entry) -> Option<String> {
    let count = call.argument_count?;
    let nothing = Value::Object(Map::new());
    let argument = match (count, &call.argument) {
        (0, _) | (1, Some(Literal::Undefined)) => return run::check_arguments(entry, &nothing, 1, 2).err(),
        (1, Some(argument)) => argument,
        (1, None) => return None,
        // More than one argument fails whatever they are, unless the rest turns out to be `undefined`.
        (_, Some(Literal::Unknown) | None) => return None,
        (_, Some(argument)) => {
            let shown = json_of(argument).map_or(nothing, |json| json.to_value());
            return Some(run::not_one_object(entry, &shown, count));
        }
    };
    match argument {
        Literal::Object { .. } => match json_of(argument) {
            Some(json) => {
                let value = json.to_value();
                run::check_arguments(entry, &value, json.depth(), json.as_str().len()).err()
            }
            // Some values depend on the run; the names may not.
            None => name_problem(argument, entry),
        },
        Literal::Unknown | Literal::Undefined => None,
        Literal::Array { items, .. } => {
            let shown = Value::Array(vec![Value::Null; items.len()]);
            Some(run::not_one_object(entry, &shown, count))
        }
        Literal::Null | Literal::Bool(_) | Literal::Number(_) | Literal::String(_) => {
            let shown = json_of(argument).map_or(Value::Null, |json| json.to_value());
            Some(run::not_one_object(entry, &shown, count))
        }
    }
}

/// Checks the names of an object whose values are partly unknown.
fn name_problem(argument: &Literal, entry: &Entry) -> Option<String> {
    let Literal::Object { entries, complete } = argument else {
        return None;
    };
    let names = entries.iter().map(|(name, _)| name.as_str());
    // A value that the text does not show may be `undefined`, and then its property is absent: that one is in doubt.
    let sure: Vec<_> = entries
        .iter()
        .filter(|(_, value)| !matches!(value, Literal::Unknown | Literal::Undefined))
        .map(|(name, _)| name.as_str())
        .collect();
    run::check_names(entry, &names.collect::<Vec<_>>(), &sure, *complete).err()
}

fn json_of(literal: &Literal) -> Option<Json> {
    Json::parse(literal.to_json()?, 128).ok()
}

/// Returns what helps with a name that is not defined, where that is the name of a tool.
fn hint(failure: &Failure, snapshot: &Snapshot) -> Option<String> {
    if failure.name.as_deref() != Some("ReferenceError") {
        return None;
    }
    let message = failure.message.strip_suffix(" is not defined")?;
    let name = message.trim_matches(|c| c == '\'' || c == '"' || c == '`');
    snapshot
        .get(name)
        .map(|_| format!("it is a tool: call `await tools.{name}({{ ... }})`"))
}
