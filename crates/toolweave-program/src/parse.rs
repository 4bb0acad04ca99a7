//! Text to syntax tree, and syntax errors in the model's own coordinates.

use swc_common::{BytePos, Spanned};
use swc_ecma_ast::{EsVersion, Module};
use swc_ecma_parser::error::SyntaxError;
use swc_ecma_parser::lexer::Lexer;
use swc_ecma_parser::{Parser, StringInput, Syntax, TsSyntax};

/// swc reserves position 0, so that the text starts at 1.
const BASE: u32 = 1;

/// A syntax error at a byte offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mistake {
    pub(crate) at: usize,
    pub(crate) message: String,
}

pub(crate) struct Parsed {
    pub(crate) module: Module,
    /// Where the parser saw a `return` outside of a function. At the top level of the program that is fine,
    /// in a static block it is not.
    pub(crate) returns: Vec<usize>,
}

/// Returns the byte offset of a position in the tree.
pub(crate) fn offset(position: BytePos) -> usize {
    position.0.saturating_sub(BASE) as usize
}

/// Parses a program: module grammar, so that `await` and strict mode are what they are in the wrapper.
pub(crate) fn parse(source: &str) -> Result<Parsed, Mistake> {
    let end = BASE.saturating_add(u32::try_from(source.len()).unwrap_or(u32::MAX - BASE));
    let syntax = Syntax::Typescript(TsSyntax {
        decorators: true,
        ..TsSyntax::default()
    });
    let input = StringInput::new(source, BytePos(BASE), BytePos(end));
    let mut parser = Parser::new_from(Lexer::new(syntax, EsVersion::latest(), input, None));
    let module = parser.parse_module();
    let mut returns = Vec::new();
    let mut first: Option<Mistake> = None;
    let mut note = |error: &swc_ecma_parser::error::Error| {
        let at = offset(error.span().lo);
        if first.as_ref().is_none_or(|first| at < first.at) {
            first = Some(Mistake {
                at,
                message: describe(error.kind()),
            });
        }
    };
    for error in parser.take_errors() {
        match error.kind() {
            SyntaxError::ReturnNotAllowed => returns.push(offset(error.span().lo)),
            _ => note(&error),
        }
    }
    let module = match module {
        Ok(module) => Some(module),
        Err(error) => {
            note(&error);
            None
        }
    };
    match (module, first) {
        (Some(module), None) => Ok(Parsed { module, returns }),
        (_, Some(mistake)) => Err(mistake),
        (None, None) => Err(Mistake {
            at: 0,
            message: "not a program".into(),
        }),
    }
}

/// Puts the parser's words into the form of our own and adds what to do where that is known.
fn describe(error: &SyntaxError) -> String {
    match error {
        SyntaxError::WithLabel { inner, .. } => describe(inner.kind()),
        SyntaxError::AwaitInFunction => {
            "`await` in a function that is not async; write `async` before the function".into()
        }
        SyntaxError::LegacyCommentInModule => "HTML comments are not TypeScript; use `//`".into(),
        SyntaxError::Eof => "the program ends in the middle of a statement".into(),
        other => {
            let message = other.msg();
            let message = message
                .trim_end_matches('.')
                .replace("<eof>", "the end of the program");
            let mut chars = message.chars();
            match chars.next() {
                Some(first) => first.to_lowercase().chain(chars).collect(),
                None => "not a program".into(),
            }
        }
    }
}
