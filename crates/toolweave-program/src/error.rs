//! What stops a program before it starts: one error type whose text a model can act on.

use std::fmt;

/// Why a program was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The text is not valid TypeScript.
    Syntax,
    /// The text is a shell command or prose and not a program.
    NotAProgram,
    /// The program imports or re-exports a module; a program has none.
    Import,
    /// The program uses a decorator.
    Decorator,
    /// The program uses a facility of the host that a program does not have.
    HostApi,
    /// The program only defines things, so that nothing would run.
    OnlyDefinitions,
    /// The text is longer than [`crate::MAX_PROGRAM_BYTES`].
    TooLarge,
    /// The text nests deeper than [`crate::MAX_NESTING`], or is too ambiguous to parse in bounded time.
    TooDeep,
    /// The parser or the type stripper failed on the program although nothing is known to be wrong with it.
    Internal,
}

/// A refusal of a program. Nothing of the program has run.
///
/// Lines and columns are those of the text as the model sent it: both count from 1, columns count UTF-16
/// units, a fence line counts as a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ProgramError {
    /// What kind of refusal it is.
    pub kind: ErrorKind,
    /// What is wrong and what to do about it, without the position.
    pub message: String,
    /// From 1.
    pub line: u32,
    /// In UTF-16 units, from 1.
    pub column: u32,
    /// The line of the program with a caret below the place; empty where there is no line to show.
    pub excerpt: String,
}

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            message,
            line,
            column,
            ..
        } = self;
        let prefix = if *kind == ErrorKind::Syntax {
            "syntax error: "
        } else {
            ""
        };
        write!(f, "{prefix}{message} (line {line}, column {column})")
    }
}

impl ProgramError {
    /// Returns the message with its position and, on the lines below, the excerpt.
    pub fn report(&self) -> String {
        if self.excerpt.is_empty() {
            self.to_string()
        } else {
            format!("{self}\n{}", self.excerpt)
        }
    }
}
