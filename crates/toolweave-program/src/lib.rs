//! Model text in, checked and type-stripped JavaScript out.
//!
//! [`prepare`] takes what a model sent as a program, in any of the forms that models use, and returns the body of
//! an async function: fences, exports and uncalled entry points are gone, types are erased in place, and every
//! position leads back to the model's own text. What can be known to fail is refused before anything runs.
//!
//! This is the only crate that names swc. It knows nothing about tools: calls of `tools.…` are reported by their
//! path, and whether such a tool exists is for the caller to say. It runs nothing and does no I/O.

#![warn(clippy::disallowed_methods)]
#![warn(missing_docs)]

mod check;
mod error;
mod fence;
mod form;
mod guard;
mod hint;
mod literal;
mod nesting;
mod parse;
mod position;
mod span;
mod strip;
mod walk;

use std::borrow::Cow;

pub use check::{Awaited, Finding, FindingKind, StaticCall};
pub use error::{ErrorKind, ProgramError};
pub use form::Form;
pub use literal::Literal;
pub use nesting::MAX_NESTING;
pub use span::Span;

use fence::Reading;
use form::Refusal;
use nesting::Refusal as Nested;
use parse::Parsed;
use position::{Edit, Lines, Shifts};

/// Size up to which a text is taken for a program.
pub const MAX_PROGRAM_BYTES: usize = 1024 * 1024;

/// A program that is ready to run.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The body of an async function in strict mode: `await` and `return` are allowed at its top level. It is
    /// meant to be run as `(async () => {"use strict"; BODY` and `})` on a line of its own.
    pub javascript: String,
    /// The same body before its types were erased, for a type checker.
    pub typescript: String,
    /// How the program was written.
    pub form: Form,
    /// Slips that do not stop the program, by place.
    pub findings: Vec<Finding>,
    /// Every call of something on `tools` or `sdk` that the text shows, by place.
    pub calls: Vec<StaticCall>,
    /// What the model sent, with line ends made one.
    text: String,
    lines: Lines,
    map: Map,
}

/// The way from the JavaScript back to the model's text, last step first.
#[derive(Clone, Debug, Default)]
struct Map {
    transform: Option<strip::TransformMap>,
    shifts: Vec<Shifts>,
}

impl Map {
    fn back(&self, line: u32, column: u32) -> Option<(u32, u32)> {
        let (line, column) = match &self.transform {
            Some(transform) => transform.back(line, column)?,
            None => (line, column),
        };
        Some(self.before_types(line, column))
    }

    fn before_types(&self, mut line: u32, mut column: u32) -> (u32, u32) {
        for shifts in self.shifts.iter().rev() {
            (line, column) = shifts.back(line, column);
        }
        (line, column)
    }
}

impl Prepared {
    /// Returns the place in the model's own text of a place in [`Prepared::javascript`].
    ///
    /// Lines and columns count from 1, columns in UTF-16 units. Places that stand for nothing in the text, such
    /// as lines beyond its end, have none.
    pub fn original_position(&self, line: u32, column: u32) -> Option<(u32, u32)> {
        if line == 0 || column == 0 {
            return None;
        }
        let (line, column) = self.map.back(line, column)?;
        (line <= self.lines.count()).then_some((line, column))
    }

    /// Returns the place in the model's own text of a place in [`Prepared::typescript`], counted alike.
    pub fn typescript_position(&self, line: u32, column: u32) -> Option<(u32, u32)> {
        if line == 0 || column == 0 {
            return None;
        }
        let (line, column) = self.map.before_types(line, column);
        (line <= self.lines.count()).then_some((line, column))
    }

    /// Returns the parts of [`Prepared::typescript`] whose failures the program deals with itself: what it tries, and
    /// promises with a handler. Reads the program once more, so ask only where it matters.
    pub fn handled(&self) -> Vec<Span> {
        if nesting::limit(&self.typescript).is_some() {
            return Vec::new();
        }
        let levels = nesting::stack_levels(&self.typescript);
        guard::guarded(levels, || span::handled(&self.typescript)).unwrap_or_default()
    }

    /// Returns a line of the model's text with a caret below the column, ready to print.
    pub fn excerpt(&self, line: u32, column: u32) -> String {
        position::excerpt(&self.text, &self.lines, line, column)
    }

    /// Says whether types could not be erased in place, so that lines of the JavaScript are not those of the
    /// text. Positions lead back either way.
    pub fn is_transformed(&self) -> bool {
        self.map.transform.is_some()
    }
}

/// Checks a program and turns it into the JavaScript to run.
///
/// # Errors
///
/// Returns a [`ProgramError`] where the text is no program, cannot be parsed within the limits, or is certain to
/// fail: imports, decorators, programs that only define things. Nothing has run then.
pub fn prepare(text: &str) -> Result<Prepared, ProgramError> {
    if text.len() > MAX_PROGRAM_BYTES {
        return Err(ProgramError {
            kind: ErrorKind::TooLarge,
            message: format!(
                "the program has {} bytes, at most {MAX_PROGRAM_BYTES} are possible; read large data through a tool",
                text.len()
            ),
            line: 1,
            column: 1,
            excerpt: String::new(),
        });
    }
    let text = normalize(text);
    let lines = Lines::new(&text);
    let refused = match guard::guarded(nesting::stack_levels(&text), || read(&text)) {
        Ok(Ok(done)) => {
            let Done {
                javascript,
                typescript,
                form,
                findings,
                calls,
                map,
            } = done;
            let text = text.into_owned();
            return Ok(Prepared {
                javascript,
                typescript,
                form,
                findings,
                calls,
                text,
                lines,
                map,
            });
        }
        Ok(Err(refused)) => refused,
        Err(guard::Panicked) => Refused {
            kind: ErrorKind::Internal,
            message: "the TypeScript parser failed on this program; write it in a simpler way".to_owned(),
            place: (1, 1),
        },
    };
    let Refused {
        kind,
        message,
        place: (line, column),
    } = refused;
    let excerpt = position::excerpt(&text, &lines, line, column);
    Err(ProgramError {
        kind,
        message,
        line,
        column,
        excerpt,
    })
}

/// Removes a byte order mark and makes `\n` the only line end. To a program `\r\n`, `\r` and `\n` are the same
/// everywhere, template strings included, so that nothing changes but the number of bytes.
fn normalize(text: &str) -> Cow<'_, str> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.contains('\r') {
        Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n"))
    } else {
        Cow::Borrowed(text)
    }
}

fn nested_message(why: Nested) -> String {
    match why {
        Nested::Deep => format!(
            "the program nests deeper than {MAX_NESTING} levels here (brackets, operators and `else` count); build \
             large values in a loop or end statements with semicolons"
        ),
        Nested::Angles => "too many `<` in one statement; split it into several".to_owned(),
        Nested::Speculation => {
            "too many nested type assertions, generic arrows or arrows with a return type; use `as`, or fewer types"
                .to_owned()
        }
        Nested::Ambiguous => {
            "in a program of this size it is unclear whether this starts a regular expression or a string; split \
             the program or write `new RegExp(...)`"
                .to_owned()
        }
    }
}

/// A program that passed.
struct Done {
    javascript: String,
    typescript: String,
    form: Form,
    findings: Vec<Finding>,
    calls: Vec<StaticCall>,
    map: Map,
}

/// A program that did not, and the place in the text.
struct Refused {
    kind: ErrorKind,
    message: String,
    place: (u32, u32),
}

enum Failure {
    /// Not TypeScript when read this way; another way may do.
    Syntax(Refused),
    Refused(Refused),
}

/// Finds the reading of the text that is a program.
fn read(text: &str) -> Result<Done, Refused> {
    let fenced = fence::leading(text);
    if !fenced.is_empty() {
        return first_program(text, &fenced);
    }
    match program(text) {
        Ok(done) => Ok(done),
        Err(Failure::Refused(refused)) => Err(refused),
        Err(Failure::Syntax(refused)) => {
            let readings = fence::within_prose(text);
            if readings.is_empty() {
                Err(explained(text, refused, None))
            } else {
                first_program(text, &readings)
            }
        }
    }
}

fn first_program(text: &str, readings: &[Reading]) -> Result<Done, Refused> {
    let mut first = None;
    for reading in readings {
        match program(&reading.source) {
            Ok(done) => return Ok(done),
            Err(Failure::Refused(refused)) => return Err(refused),
            Err(Failure::Syntax(refused)) => {
                first.get_or_insert(refused);
            }
        }
    }
    let refused = first.unwrap_or_else(|| Refused {
        kind: ErrorKind::Syntax,
        message: "not a program".to_owned(),
        place: (1, 1),
    });
    let blocks = fence::blocks(text);
    if blocks > 1 {
        let message = format!("the text has {blocks} fenced blocks; send one program, and no text around it");
        return Err(Refused {
            kind: ErrorKind::NotAProgram,
            message,
            ..refused
        });
    }
    let language = readings.first().and_then(|reading| reading.language.as_deref());
    Err(explained(text, refused, language))
}

/// A text that is no TypeScript may be no program at all, which the parser's words would hide.
fn explained(text: &str, refused: Refused, language: Option<&str>) -> Refused {
    match hint::not_a_program(text, language) {
        Some(message) => Refused {
            kind: ErrorKind::NotAProgram,
            message,
            ..refused
        },
        None => refused,
    }
}

/// Turns one reading into JavaScript.
fn program(source: &str) -> Result<Done, Failure> {
    let lines = Lines::new(source);
    if let Some((at, why)) = nesting::limit(source) {
        let place = lines.position(source, at);
        return Err(Failure::Refused(Refused {
            kind: ErrorKind::TooDeep,
            message: nested_message(why),
            place,
        }));
    }
    let mistake = match parse::parse(source) {
        Ok(parsed) => return finish(source, &lines, &parsed, Shifts::default()),
        Err(mistake) => mistake,
    };
    let failure = Failure::Syntax(Refused {
        kind: ErrorKind::Syntax,
        message: mistake.message,
        place: lines.position(source, mistake.at),
    });
    let Some((at, form)) = value_form(source) else {
        return Err(failure);
    };
    let edit = [Edit {
        at,
        remove: 0,
        insert: "export default ".to_owned(),
    }];
    let (wrapped, shifts) = position::apply(source, &lines, &edit);
    let Ok(parsed) = parse::parse(&wrapped) else {
        return Err(failure);
    };
    let done = finish(&wrapped, &Lines::new(&wrapped), &parsed, shifts)?;
    Ok(Done { form, ..done })
}

/// `async function () { … }` and `{ a: 1 }` are no statements, but they mean something as a value.
fn value_form(source: &str) -> Option<(usize, Form)> {
    let code = source.trim_start();
    let at = source.len() - code.len();
    let rest = code.strip_prefix("async").map_or(code, str::trim_start);
    let function = rest
        .strip_prefix("function")
        .is_some_and(|rest| rest.trim_start().starts_with(['(', '*', '<']));
    match (function, code.starts_with('{')) {
        (true, _) => Some((at, Form::FunctionExpression)),
        (_, true) => Some((at, Form::TrailingExpression)),
        _ => None,
    }
}

/// Finishes what parsed. `before` leads from `source` to the text.
fn finish(source: &str, lines: &Lines, parsed: &Parsed, before: Shifts) -> Result<Done, Failure> {
    let place = |at: usize| {
        let (line, column) = lines.position(source, at);
        before.back(line, column)
    };
    let refuse = |refusal: Refusal| {
        let Refusal { kind, at, message } = refusal;
        Failure::Refused(Refused {
            kind,
            message,
            place: place(at),
        })
    };
    let walk = walk::walk(&parsed.module, form::trailing(&parsed.module));
    if let Some(&at) = parsed
        .returns
        .iter()
        .find(|at| walk.returns.binary_search(at).is_err())
    {
        let message = "`return` is not possible here".to_owned();
        return Err(Failure::Syntax(Refused {
            kind: ErrorKind::Syntax,
            message,
            place: place(at),
        }));
    }
    // Prose such as `Here:` and a fence are a label and templates that tag each other, which cannot run.
    let fence = walk
        .empty_templates
        .iter()
        .find(|&&at| source.get(at..).is_some_and(|rest| rest.starts_with("```")));
    if let Some(&at) = fence {
        let message = "a Markdown fence is not TypeScript; send only the program".to_owned();
        return Err(Failure::Syntax(Refused {
            kind: ErrorKind::Syntax,
            message,
            place: place(at),
        }));
    }
    if let Some(at) = hint::shell_command(&parsed.module, &walk) {
        let message = hint::NOT_SHELL.to_owned();
        return Err(refuse(Refusal {
            kind: ErrorKind::NotAProgram,
            at,
            message,
        }));
    }
    let plan = form::plan(source, &parsed.module, &walk);
    if let Some(refusal) = check::refuse(&walk, plan.as_ref().ok().and_then(|plan| plan.entry)) {
        return Err(refuse(refusal));
    }
    let plan = plan.map_err(refuse)?;
    let (body, shifts) = position::apply(source, lines, &plan.edits);
    let stripped = strip::strip(&body).map_err(|mistake| {
        let (line, column) = Lines::new(&body).position(&body, mistake.at);
        let (line, column) = shifts.back(line, column);
        let place = before.back(line, column);
        Failure::Refused(Refused {
            kind: ErrorKind::Syntax,
            message: mistake.message,
            place,
        })
    })?;
    let (mut findings, mut calls) = check::check(source, lines, walk, &plan);
    for finding in &mut findings {
        (finding.line, finding.column) = before.back(finding.line, finding.column);
    }
    for call in &mut calls {
        (call.line, call.column) = before.back(call.line, call.column);
    }
    let map = Map {
        transform: stripped.map,
        shifts: vec![before, shifts],
    };
    Ok(Done {
        javascript: stripped.javascript,
        typescript: body,
        form: plan.form,
        findings,
        calls,
        map,
    })
}
