//! What a program threw, in words a model can act on.
//!
//! Positions and frames are those of the program's own text: the wrapper is subtracted, and frames of built-ins and of the
//! prelude are left out. The engine's terser messages are completed where the text of the program says more.

use std::ffi::CStr;
use std::fmt::Write as _;

use toolweave_runtime::{Failure, FailureKind, Frame, Position};

use crate::engine::State;
use crate::inspect;
use crate::js::{JsResult, Kind, Thrown, Value};

/// The file name of the program in stacks.
pub(crate) const PROGRAM_FILE: &CStr = c"program.ts";

/// The number of the wrapper's first line. The engine takes 0 for "not given", so the wrapper has two lines.
pub(crate) const FIRST_LINE: i32 = -1;
/// Stands in front of the program, which starts on line 1.
const PREFIX: &str = "(async () => {\n\"use strict\";\n";
/// The longest message that is handed on, in bytes.
const MAX_MESSAGE: usize = 1024 * 1024;
/// The longest message of a cause or of a member of an `AggregateError`, in bytes.
const MAX_BRIEF: usize = 2000;
const MAX_FRAMES: usize = 32;
const MAX_CAUSES: usize = 4;
const MAX_AGGREGATED: usize = 5;

/// Names that programs use out of habit, with what to do instead.
const MISSING: &[(&str, &str)] = &[
    ("fetch", NO_NETWORK),
    ("XMLHttpRequest", NO_NETWORK),
    ("WebSocket", NO_NETWORK),
    ("axios", NO_NETWORK),
    ("Request", NO_NETWORK),
    ("Response", NO_NETWORK),
    ("Headers", NO_NETWORK),
    (
        "process",
        "programs have no process and no environment; what is not an argument comes from a tool on `tools`",
    ),
    (
        "require",
        "programs have no modules; call a tool on `tools`, or use the built-in objects",
    ),
    (
        "module",
        "programs have no modules; return the value instead of exporting it",
    ),
    (
        "exports",
        "programs have no modules; return the value instead of exporting it",
    ),
    ("__dirname", NO_FILES),
    ("__filename", NO_FILES),
    ("fs", NO_FILES),
    ("path", NO_FILES),
    ("os", NO_FILES),
    ("child_process", NO_FILES),
    ("Deno", NO_FILES),
    ("Bun", NO_FILES),
    ("Buffer", "use TextEncoder, TextDecoder, btoa and atob"),
    (
        "crypto",
        "there is no crypto object; a tool on `tools` may offer it",
    ),
    ("setImmediate", "use setTimeout(callback, 0)"),
    ("window", "there is no page; use globalThis for globals"),
    ("document", "there is no page; a tool on `tools` may read one"),
    (
        "localStorage",
        "nothing is kept between programs here; a tool on `tools` may store it",
    ),
    ("alert", "use console.log"),
    ("print", "use console.log"),
    ("prompt", "programs cannot ask; return what is missing"),
    (
        "codemode",
        "tools are functions of `tools`: await tools.name({...})",
    ),
    ("mcp", "tools are functions of `tools`: await tools.name({...})"),
    (
        "functions",
        "tools are functions of `tools`: await tools.name({...})",
    ),
    ("final_answer", "return the value"),
    ("finalAnswer", "return the value"),
    ("submit", "return the value"),
    ("output", "return the value, or use console.log"),
    ("text", "return the value, or use console.log"),
    ("yield_control", "return the value"),
];
const NO_NETWORK: &str = "programs have no network of their own; call a tool on `tools`";
const NO_FILES: &str = "programs have no file or system access of their own; call a tool on `tools`";

/// The text of a program.
pub(crate) struct ProgramText<'t> {
    source: &'t str,
}

impl<'t> ProgramText<'t> {
    pub(crate) fn new(source: &'t str) -> Self {
        Self { source }
    }

    /// Returns the script that evaluates to the program as an async function. Lines are those of the program.
    pub(crate) fn wrapped(&self) -> String {
        let mut script = String::with_capacity(PREFIX.len() + self.source.len() + 8);
        script.push_str(PREFIX);
        script.push_str(self.source);
        script.push_str("\n})\0");
        script
    }

    /// Turns a place that the engine reports into one in the program. The engine counts columns in bytes; what it says of
    /// the wrapper's last line is meant for the end of the program.
    fn place(&self, line: u32, column: u32) -> Position {
        let mut lines = self.source.split('\n');
        let index = usize::try_from(line.saturating_sub(1)).unwrap_or(usize::MAX);
        let Some(text) = lines.nth(index) else {
            let count = u32::try_from(self.source.split('\n').count()).unwrap_or(u32::MAX);
            let last = self.source.rsplit('\n').next().unwrap_or_default();
            return Position {
                line: count,
                column: units(last.trim_end_matches('\r')).saturating_add(1),
            };
        };
        let bytes = usize::try_from(column.saturating_sub(1))
            .unwrap_or(usize::MAX)
            .min(text.len());
        Position {
            line: line.max(1),
            column: units(&text[..text.floor_char_boundary(bytes)]).saturating_add(1),
        }
    }

    /// Returns the expressions that may be the one called at a place, the likeliest first. The engine points at the last
    /// name before the call, which may be the function's own or one in its arguments.
    fn callees(&self, at: Position) -> Vec<&'t str> {
        let Some(line) = self.source.split('\n').nth(at.line.saturating_sub(1) as usize) else {
            return Vec::new();
        };
        let mut before = 0;
        let offset = line
            .char_indices()
            .find(|(_, c)| {
                before += c.len_utf16();
                before >= at.column as usize
            })
            .map_or(line.len(), |(offset, _)| offset);
        let mut callees = Vec::new();
        let name_end = line[offset..]
            .find(|c| !is_name_part(c))
            .map_or(line.len(), |len| offset + len);
        if name_end > offset && line[name_end..].trim_start().starts_with('(') {
            callees.extend(chain_ending_at(line, name_end).filter(|callee| !is_well_known(callee)));
        }
        // The innermost call around the place.
        let mut depth = 0;
        for (index, c) in line[..offset].char_indices().rev() {
            match c {
                ')' | ']' | '}' => depth += 1,
                '(' if depth == 0 => {
                    callees.extend(chain_ending_at(line, index).filter(|callee| !is_well_known(callee)));
                    break;
                }
                '(' | '[' | '{' => depth -= 1,
                _ => {}
            }
            if depth < 0 {
                break;
            }
        }
        callees
    }
}

fn units(text: &str) -> u32 {
    u32::try_from(text.encode_utf16().count()).unwrap_or(u32::MAX)
}

fn is_name_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

/// Returns `a.b?.c` where it ends at `end`; of a longer expression like `f(x).c`, the last name.
fn chain_ending_at(line: &str, end: usize) -> Option<&str> {
    let head = line[..end].trim_end();
    let start = head
        .char_indices()
        .rev()
        .take_while(|(_, c)| is_name_part(*c) || matches!(c, '.' | '?'))
        .last()
        .map(|(index, _)| index)?;
    let chain = head[start..].trim_matches(['.', '?']);
    let names = !chain.is_empty() && chain.len() <= 100 && !chain.starts_with(|c: char| c.is_ascii_digit());
    let keyword = matches!(
        chain,
        "if" | "while"
            | "for"
            | "switch"
            | "catch"
            | "return"
            | "await"
            | "function"
            | "async"
            | "typeof"
            | "new"
    );
    (names && !keyword).then_some(chain)
}

/// Functions that are always there, so that they cannot be the one that is missing.
fn is_well_known(callee: &str) -> bool {
    let root = callee.split(['.', '?']).next().unwrap_or_default();
    matches!(
        root,
        "console" | "JSON" | "Math" | "Object" | "Array" | "Promise" | "String" | "Number" | "Boolean"
    ) && matches!(
        callee.split_once('.'),
        None | Some((
            _,
            "log" | "parse" | "stringify" | "keys" | "entries" | "from" | "all"
        ))
    )
}

/// Turns what was thrown into a failure.
pub(crate) fn describe(thrown: &Value<'_>, text: &ProgramText<'_>) -> Failure {
    let frames = frames(thrown, text);
    let position = frames.first().map(|frame| frame.position);
    let (name, mut message) = match kind_of(thrown) {
        Sort::Error => {
            let name = property(thrown, "name").filter(|name| !name.is_empty());
            let message = property(thrown, "message").unwrap_or_default();
            let name_or = name.clone().unwrap_or_else(|| "Error".to_owned());
            let message = if message.is_empty() { name_or } else { message };
            let message = complete(name.as_deref(), message, || {
                position.map(|at| text.callees(at)).unwrap_or_default()
            });
            (name, message + &additions(thrown))
        }
        Sort::Text => (None, quiet(thrown, thrown.to_text()).unwrap_or_default()),
        Sort::Other => (None, format!("the program threw {}", inspect::brief(thrown))),
    };
    if message.is_empty() {
        message.push_str("the program threw an empty string");
    }
    message.truncate(message.floor_char_boundary(MAX_MESSAGE.min(message.len())));
    Failure {
        kind: FailureKind::Exception,
        name,
        message,
        position,
        stack: frames,
    }
}

/// Returns a short text for what was thrown: `TypeError: not a function`.
pub(crate) fn brief(thrown: &Value<'_>) -> String {
    let mut text = match kind_of(thrown) {
        Sort::Error => {
            let name = property(thrown, "name").unwrap_or_else(|| "Error".to_owned());
            let message = property(thrown, "message").unwrap_or_default();
            match (name.is_empty(), message.is_empty()) {
                (false, false) => format!("{name}: {message}"),
                (false, true) => name,
                (true, _) => message,
            }
        }
        Sort::Text => quiet(thrown, thrown.to_text()).unwrap_or_default(),
        Sort::Other => inspect::brief(thrown),
    };
    if text.len() > MAX_BRIEF {
        text.truncate(text.floor_char_boundary(MAX_BRIEF));
        text.push('…');
    }
    text
}

/// Returns whether this is what the engine throws when memory runs out. It may even be `null`.
pub(crate) fn is_out_of_memory(thrown: &Value<'_>) -> bool {
    thrown.kind() == Kind::Null
        || (thrown.is_error()
            && property(thrown, "message").is_some_and(|message| message == "out of memory"))
}

enum Sort {
    Error,
    Text,
    Other,
}

fn kind_of(thrown: &Value<'_>) -> Sort {
    if thrown.is_string() {
        Sort::Text
    } else if thrown.is_error() || thrown.class_name() == "DOMException" {
        Sort::Error
    } else {
        Sort::Other
    }
}

/// Reads a text property, whatever getters do.
fn property(object: &Value<'_>, name: &str) -> Option<String> {
    let read = || -> JsResult<Option<String>> {
        let value = object.get(&object.ctx().atom(name)?)?;
        if value.is_string() {
            value.to_text().map(Some)
        } else {
            Ok(None)
        }
    };
    quiet(object, read()).flatten()
}

/// Gives up on what threw.
fn quiet<T>(value: &Value<'_>, result: JsResult<T>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(Thrown) => {
            drop(value.ctx().take_exception());
            None
        }
    }
}

/// Says more than the engine does, where the program's text allows it.
fn complete<'t>(name: Option<&str>, message: String, callees: impl FnOnce() -> Vec<&'t str>) -> String {
    if name == Some("ReferenceError")
        && let Some(missing) = message.strip_suffix(" is not defined")
        && let Some((_, hint)) = MISSING.iter().find(|(known, _)| *known == missing)
    {
        return format!("{message}: {hint}");
    }
    if name == Some("TypeError") && message == "not a function" {
        match callees()[..] {
            [] => {}
            [callee] => return format!("{callee} is not a function"),
            [first, second, ..] => return format!("not a function: {first} or {second}"),
        }
    }
    message
}

/// Returns the causes and the members of an `AggregateError`, each on a line.
fn additions(thrown: &Value<'_>) -> String {
    let mut text = String::new();
    if let Some(errors) = own_object(thrown, "errors")
        && errors.is_array()
    {
        let len = quiet(thrown, errors.length()).unwrap_or(0);
        for index in 0..len.min(MAX_AGGREGATED as u64) {
            if let Some(error) = quiet(thrown, errors.get_index(u32::try_from(index).unwrap_or(0))) {
                let _ = write!(text, "\n  [{index}] {}", brief(&error));
            }
        }
        if len > MAX_AGGREGATED as u64 {
            let _ = write!(text, "\n  … {} more", len - MAX_AGGREGATED as u64);
        }
    }
    let mut cause = own_value(thrown, "cause");
    let mut seen = vec![thrown.address()];
    for _ in 0..MAX_CAUSES {
        let Some(current) = cause.filter(|cause| !cause.is_undefined()) else {
            break;
        };
        if current.is_object() && seen.contains(&current.address()) {
            break;
        }
        seen.push(current.address());
        let _ = write!(text, "\n  caused by {}", brief(&current));
        cause = if current.is_object() {
            own_value(&current, "cause")
        } else {
            None
        };
    }
    text
}

fn own_value<'r>(object: &Value<'r>, key: &str) -> Option<Value<'r>> {
    quiet(object, crate::encode::own_data(object, key)).flatten()
}

fn own_object<'r>(object: &Value<'r>, key: &str) -> Option<Value<'r>> {
    own_value(object, key).filter(Value::is_object)
}

/// Returns the frames of the program itself, innermost first. An error of a class of the program's own was made by its
/// constructors, but it is thrown where they were called.
fn frames(thrown: &Value<'_>, text: &ProgramText<'_>) -> Vec<Frame> {
    let Some(stack) = stack(thrown) else {
        return Vec::new();
    };
    let frames: Vec<Frame> = stack.lines().filter_map(|line| frame(line, text)).collect();
    let constructors = quiet(thrown, constructors(thrown)).unwrap_or_default();
    let skip = frames
        .iter()
        .take_while(|frame| constructors.contains(&frame.function))
        .count();
    let skip = if skip == frames.len() { 0 } else { skip };
    frames.into_iter().skip(skip).take(MAX_FRAMES).collect()
}

/// Returns the names of the classes that an object is an instance of.
fn constructors(thrown: &Value<'_>) -> JsResult<Vec<String>> {
    let mut names = Vec::new();
    let mut prototype = if thrown.is_proxy() {
        thrown.ctx().null()
    } else {
        thrown.prototype()?
    };
    for _ in 0..16 {
        if !prototype.is_object() || prototype.is_proxy() {
            break;
        }
        if let Some(class) = crate::encode::own_data(&prototype, "constructor")?
            && class.is_object()
            && !class.is_proxy()
            && let Some(name) = crate::encode::own_data(&class, "name")?
            && name.is_string()
        {
            names.push(name.to_text()?);
        }
        prototype = prototype.prototype()?;
    }
    names.retain(|name| !name.is_empty());
    Ok(names)
}

/// Returns the stack that the engine recorded, not what the program made of it.
fn stack(thrown: &Value<'_>) -> Option<String> {
    let ctx = thrown.ctx();
    let stack = if thrown.is_error() {
        quiet(
            thrown,
            State::of(ctx).intrinsics()?.error_stack(ctx).call(thrown, &[]),
        )?
    } else if thrown.is_object() {
        own_value(thrown, "stack")?
    } else {
        return None;
    };
    if stack.is_string() {
        quiet(thrown, stack.to_text())
    } else {
        None
    }
}

/// Reads `    at name (program.ts:3:5)` or `    at program.ts:3:5`.
fn frame(line: &str, text: &ProgramText<'_>) -> Option<Frame> {
    let rest = line.trim_start().strip_prefix("at ")?;
    let (function, place) = match rest.strip_suffix(')').and_then(|rest| rest.rsplit_once(" (")) {
        Some((function, place)) => (function, place),
        None => ("", rest),
    };
    let place = place
        .strip_prefix(PROGRAM_FILE.to_str().ok()?)?
        .strip_prefix(':')?;
    let (line, column) = place.split_once(':')?;
    if line.starts_with('-') || line == "0" {
        return None;
    }
    Some(Frame {
        function: if function == "<anonymous>" {
            String::new()
        } else {
            function.to_owned()
        },
        position: text.place(line.parse().ok()?, column.parse().ok()?),
    })
}
