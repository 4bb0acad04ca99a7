//! Checks programs against declarations with a TypeScript compiler that is installed anyway (7 or later), before anything
//! runs.
//!
//! [`Compiler`] finds one, [`TypeChecker`] keeps its language server warm and asks it about one program after the other,
//! and [`Verdict`] says which of its complaints are certain to be mistakes in dealing with tools. Documents live in the
//! server's memory only: nothing is written to disk, and no file of the person's is read.
//!
//! This crate depends on no other of the workspace. It knows declarations as text, with types that carry [`MARK`], and
//! does not know where they come from. It runs no program, reads no environment, and nothing that a program holds makes
//! a check take longer than its cap.

#![warn(clippy::disallowed_methods)]
#![warn(missing_docs)]

mod ambient;
mod checker;
mod compiler;
mod judge;
pub mod limits;
mod server;

pub use ambient::{AMBIENT, declared_globals};
pub use checker::{Missing, TypeChecker};
pub use compiler::{Compiler, Found, INSTALL, Version};
pub use judge::{CODES, MARK, Verdict};

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use futures_util::future::BoxFuture;

/// Checks programs. [`TypeChecker`] does, with a compiler.
pub trait CheckPrograms: Send + Sync {
    /// Says what happens to a program that could not be checked.
    fn policy(&self) -> Policy;

    /// Checks one program against declarations.
    ///
    /// # Errors
    /// [`Unchecked`] where nothing can be said about the program. Nothing has run either way.
    fn check<'a>(
        &'a self,
        declarations: &'a Declarations,
        program: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Complaint>, Unchecked>>;
}

/// What becomes of a program that could not be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// It runs, with a warning.
    Auto,
    /// It does not run.
    Required,
}

/// What a program is checked against, besides the globals of [`AMBIENT`].
#[derive(Clone, Debug)]
pub struct Declarations {
    text: Arc<str>,
    hash: u64,
}

impl Declarations {
    /// Takes declarations as the text of a `.d.ts` file.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        let text = text.into();
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        Self {
            hash: hasher.finish(),
            text,
        }
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl PartialEq for Declarations {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.text == other.text
    }
}

/// What the compiler says about a place in a program. What it says about style is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// In the program as it was checked, from 1.
    pub line: u32,
    /// In UTF-16 units, from 1.
    pub column: u32,
    /// The compiler's number, as in `TS2345`.
    pub code: u32,
    /// One line, in the compiler's words.
    pub message: String,
    /// How certain it is.
    pub verdict: Verdict,
}

/// Why nothing is known about a program. Another program, or the same one later, may well be checked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unchecked {
    /// There is no compiler that can be used; says what to do.
    #[error("{0}")]
    NoCompiler(String),
    /// The check was given up.
    #[error("the type check took longer than {0} ms and was given up")]
    TimedOut(u128),
    /// The compiler failed; it is started again.
    #[error("the type checker failed: {0}")]
    Failed(String),
    /// More text than is checked.
    #[error("{what} of {bytes} bytes are not type-checked, at most {most} are")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// Its size.
        bytes: usize,
        /// The cap.
        most: usize,
    },
}
