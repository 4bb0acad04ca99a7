//! What a run is given, and the checks that precede any worker.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::Json;
use crate::guest::Members;

/// The answer to one binding call, polled by whoever drives the run.
///
/// A future that is still pending when the run settles is handed back in [`crate::PendingCalls`], never dropped midway.
pub type BindingFuture = Pin<Box<dyn Future<Output = Result<Json, BindingError>> + Send>>;

/// Receives each log entry as it arrives, while the program still runs.
pub type LogSink = Arc<dyn Fn(&str) + Send + Sync>;

/// One program to run.
pub struct RunRequest {
    /// The body of an async function, in JavaScript. Positions in failures refer to this text (1-based lines).
    pub program: String,
    /// The globals through which the program reaches its host.
    pub namespaces: Vec<Namespace>,
    /// Ends the run with failure kind `abort`.
    pub cancel: CancellationToken,
    /// A narrower wall deadline than the configured one, for this run alone.
    pub timeout: Option<Duration>,
    /// Sees log entries live. They are in the result as well.
    pub on_log: Option<LogSink>,
}

/// A global object whose members are host functions.
#[derive(Clone)]
pub struct Namespace {
    /// The name of the global, for example `tools`.
    pub global: String,
    /// Further global names bound to the same object.
    pub aliases: Vec<String>,
    /// The members. Made once and shared by every run that sees the same ones.
    pub functions: Arc<FunctionTable>,
    /// The class that rejected calls are instances of; an ordinary `Error` without one.
    pub error_class: Option<ErrorClass>,
    /// What reading a member that is not in `functions` gives.
    pub unknown: UnknownMembers,
    /// The host's side of the calls.
    pub host: Arc<dyn Bindings>,
}

/// A member of a namespace. Any name is allowed, `__proto__` and `then` included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    pub name: Arc<str>,
    pub kind: FunctionKind,
    /// Whether `Object.keys(namespace)` shows it. Hidden members are callable all the same.
    pub enumerable: bool,
}

/// The members of a namespace, indexed once.
#[derive(Debug, Default)]
pub struct FunctionTable {
    index: HashMap<Arc<str>, FunctionKind>,
    members: Arc<Members>,
    duplicate: Option<Arc<str>>,
}

impl FunctionTable {
    /// Indexes members, in the order in which `Object.keys` shows them. A name that comes twice is reported when the table
    /// is used ([`Misuse::DuplicateFunction`]).
    pub fn new(functions: impl IntoIterator<Item = Binding>) -> Self {
        let mut table = Self::default();
        let mut members = Members::default();
        for Binding {
            name,
            kind,
            enumerable,
        } in functions
        {
            let names = match (enumerable, kind) {
                (true, FunctionKind::Async) => &mut members.shown,
                (true, FunctionKind::Sync) => &mut members.shown_sync,
                (false, FunctionKind::Async) => &mut members.hidden,
                (false, FunctionKind::Sync) => &mut members.hidden_sync,
            };
            names.push(name.to_string());
            if table.index.insert(Arc::clone(&name), kind).is_some() {
                table.duplicate.get_or_insert(name);
            }
        }
        table.members = Arc::new(members);
        table
    }

    /// Returns the name as the table holds it, if there is such a member.
    pub fn get(&self, name: &str) -> Option<&Arc<str>> {
        self.index.get_key_value(name).map(|(name, _)| name)
    }

    /// Returns the names as a guest is told them.
    pub fn members(&self) -> &Arc<Members> {
        &self.members
    }
}

/// How a member answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionKind {
    /// Returns a promise.
    Async,
    /// Blocks the program until the host has answered, and returns the value or throws.
    Sync,
}

/// A program-visible error class, created afresh for each run so that `instanceof` works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorClass {
    pub name: String,
    /// The property that receives the name of the member whose call failed.
    pub member_property: String,
}

/// What an unknown member of a namespace is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownMembers {
    /// `undefined`, as on any object.
    Undefined,
    /// Something that rejects when called, with the host's own words ([`Bindings::unknown`]). Reading `then`, symbols and the
    /// members of `Object.prototype` still gives what an ordinary object gives, so that awaiting or printing is harmless.
    Reject,
}

/// The host's side of a namespace.
pub trait Bindings: Send + Sync {
    /// Answers a call of a member in [`Namespace::functions`]. Called in submission order, before the program goes on.
    fn call(&self, call: BindingCall) -> BindingFuture;

    /// Words the failure of a call to a member that does not exist. `path` is what the program wrote, joined by dots.
    fn unknown(&self, path: &str) -> BindingError {
        BindingError {
            message: format!("unknown function `{path}`"),
        }
    }
}

/// One call as it left the program.
#[derive(Debug)]
pub struct BindingCall {
    /// The name of the member.
    pub name: Arc<str>,
    /// A JSON array of the arguments. Trailing `undefined` arguments are absent.
    pub arguments: Json,
    /// Fires when the run is over, for whatever reason.
    pub run_over: CancellationToken,
}

/// Why a call was rejected. The program sees the message and the member's name, nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindingError {
    pub message: String,
}

/// A request that cannot be run at all. Nothing was started; a corrected request can be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Misuse {
    #[error(
        "`{0}` is not a portable identifier: use letters, digits and `_`, and no reserved word of ECMAScript or Python"
    )]
    NotAnIdentifier(String),
    #[error("the global name `{0}` is reserved")]
    ReservedGlobal(String),
    #[error("the name `{0}` is used for two globals or classes")]
    DuplicateGlobal(String),
    #[error("the function `{function}` appears twice in `{global}`")]
    DuplicateFunction { global: String, function: String },
    #[error("`{0}` cannot be the property that names the failed member")]
    BadMemberProperty(String),
    #[error("the runtime was disposed")]
    Disposed,
}

/// Names that a program's own machinery needs (contract C9).
const RESERVED_GLOBALS: &[&str] = &["console", "__dsh_main__", "__builtins__", "__name__", "__debug__"];

/// Properties that every error already has, in either language (contract C10).
const ERROR_PROPERTIES: &[&str] = &["name", "message", "stack", "args", "with_traceback", "add_note"];

/// Reserved words of ECMAScript (strict, async) and of Python 3, soft keywords included.
const RESERVED_WORDS: &[&str] = &[
    "False",
    "None",
    "True",
    "_",
    "and",
    "arguments",
    "as",
    "assert",
    "async",
    "await",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "debugger",
    "def",
    "default",
    "del",
    "delete",
    "do",
    "elif",
    "else",
    "enum",
    "eval",
    "except",
    "export",
    "extends",
    "false",
    "finally",
    "for",
    "from",
    "function",
    "global",
    "if",
    "implements",
    "import",
    "in",
    "instanceof",
    "interface",
    "is",
    "lambda",
    "let",
    "match",
    "new",
    "nonlocal",
    "not",
    "null",
    "or",
    "package",
    "pass",
    "private",
    "protected",
    "public",
    "raise",
    "return",
    "static",
    "super",
    "switch",
    "this",
    "throw",
    "true",
    "try",
    "type",
    "typeof",
    "undefined",
    "var",
    "void",
    "while",
    "with",
    "yield",
];

impl RunRequest {
    /// Checks every name in the request (contract C8–C11).
    ///
    /// # Errors
    /// The first misuse found, in the order of the namespaces.
    pub fn check(&self) -> Result<(), Misuse> {
        let mut globals = HashSet::new();
        for namespace in &self.namespaces {
            for global in std::iter::once(&namespace.global).chain(&namespace.aliases) {
                check_global(global)?;
                if !globals.insert(global.as_str()) {
                    return Err(Misuse::DuplicateGlobal(global.clone()));
                }
            }
        }
        for namespace in &self.namespaces {
            if let Some(class) = &namespace.error_class {
                check_global(&class.name)?;
                if !globals.insert(class.name.as_str()) {
                    return Err(Misuse::DuplicateGlobal(class.name.clone()));
                }
                check_member_property(&class.member_property)?;
            }
            if let Some(function) = &namespace.functions.duplicate {
                return Err(Misuse::DuplicateFunction {
                    global: namespace.global.clone(),
                    function: function.to_string(),
                });
            }
        }
        Ok(())
    }
}

fn check_global(name: &str) -> Result<(), Misuse> {
    let mut bytes = name.bytes();
    let starts_well = bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    let goes_on_well = bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !starts_well || !goes_on_well || RESERVED_WORDS.contains(&name) {
        return Err(Misuse::NotAnIdentifier(name.to_owned()));
    }
    if RESERVED_GLOBALS.contains(&name) {
        return Err(Misuse::ReservedGlobal(name.to_owned()));
    }
    Ok(())
}

fn check_member_property(name: &str) -> Result<(), Misuse> {
    let dunder = name.len() > 4 && name.starts_with("__") && name.ends_with("__");
    if name.is_empty() || dunder || ERROR_PROPERTIES.contains(&name) {
        return Err(Misuse::BadMemberProperty(name.to_owned()));
    }
    Ok(())
}
