//! JSON Schema in, TypeScript out: the declarations through which a model sees its tools.
//!
//! Pure: no files, no network, no clock, no state between calls. Every schema is foreign text; whatever it holds, the
//! result is legal TypeScript, as large as the schema and no larger, and a type may be wider than its schema but never
//! narrower. This crate does not validate values, does not fetch references, and knows nothing about MCP.

#![warn(clippy::disallowed_methods)]

pub mod limits;

mod convert;
mod document;
mod ir;
mod keywords;
mod notes;
mod pool;
mod print;
mod text;
mod typescript;

use serde_json::Value;

pub use print::MARK;

/// A tool as the declarations show it.
#[derive(Clone, Copy, Debug)]
pub struct ToolDecl<'a> {
    pub name: &'a str,
    pub description: &'a str,
    /// The schema of the arguments object. Anything that is not a schema means any object.
    pub input: &'a Value,
    pub output: Output<'a>,
}

/// What is known about a tool's result.
#[derive(Clone, Copy, Debug)]
pub enum Output<'a> {
    /// The tool's own `outputSchema`.
    Declared(&'a Value),
    /// A schema learnt from results; rendered with a mark that nobody promised it.
    Observed(&'a Value),
    Unknown,
}

/// How much of the tools the declarations show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Detail {
    /// Types and every description.
    Full,
    /// Types only, one line a tool.
    Compact,
}

/// A type, and the named types that its text mentions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rendered {
    pub text: String,
    /// `type` declarations, one or more lines each, or nothing.
    pub declarations: String,
}

/// A language in which tools can be shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Language {
    TypeScript,
}

/// What can go wrong: nothing about a schema, only the choice of language.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CodegenError {
    #[error("no SDK renderer for language `{name}`; known: {known}")]
    UnknownLanguage { name: String, known: String },
}

impl Language {
    const ALL: [Self; 1] = [Self::TypeScript];

    /// Returns the language that a runtime calls by `name`.
    ///
    /// # Errors
    ///
    /// Fails for every other name, and lists the names that there are.
    pub fn named(name: &str) -> Result<Self, CodegenError> {
        Self::ALL
            .into_iter()
            .find(|language| language.name() == name)
            .ok_or_else(|| CodegenError::UnknownLanguage {
                name: name.to_owned(),
                known: Self::ALL.map(Self::name).join(", "),
            })
    }

    /// Returns the name that runtimes and configuration use.
    pub fn name(self) -> &'static str {
        match self {
            Self::TypeScript => "typescript",
        }
    }

    /// Returns the declarations of `tools` in this language, without a fence.
    pub fn declarations(self, tools: &[ToolDecl<'_>], detail: Detail) -> String {
        match self {
            Self::TypeScript => declarations(tools, detail),
        }
    }
}

/// Returns the TypeScript block for `tools`, without a fence: the JSON types, `ToolArgsMap`, `ToolOutputMap`,
/// `ToolName`, `ToolCallError` and `tools`. The text depends on the set of tools only, not on their order; they are
/// sorted by UTF-16 units. Of several tools with one name the first is shown.
pub fn declarations(tools: &[ToolDecl<'_>], detail: Detail) -> String {
    typescript::declarations(tools, detail)
}

/// Returns the declarations of `tools` for a compiler that checks programs, not for a reader. They differ from those that
/// a model sees where a complaint would be no mistake: what is unknown or was only observed may be anything. Every object
/// type has the optional member [`MARK`], so that a message tells whether it is about a tool, and `tools` is of the
/// type `Tools`.
pub fn checked(tools: &[ToolDecl<'_>]) -> String {
    typescript::checked(tools)
}

/// Returns a tool in one line, `name(args: {...}): Promise<...>`, of at most [`limits::MAX_SIGNATURE_CHARS`]
/// characters. What does not fit is left out from the inside outwards and shown as `…`.
pub fn signature(tool: &ToolDecl<'_>) -> String {
    typescript::signature(tool)
}

/// Returns everything about one tool, as it is called: its description, `tools.name(args: ...): Promise<...>;` with every
/// comment, and the named types that this mentions.
pub fn help(tool: &ToolDecl<'_>) -> String {
    typescript::help(tool)
}

/// Returns the type of the values that `schema` accepts.
pub fn type_of(schema: &Value) -> Rendered {
    typescript::type_of(schema)
}
