//! TypeScript to JavaScript by erasing types in place, or by a transform where that cannot be done.

use std::sync::{Arc, Mutex, PoisonError};

use swc_common::errors::{DiagnosticBuilder, Emitter, Handler};
use swc_common::sync::Lrc;
use swc_common::{GLOBALS, Globals, SourceMap};
use swc_ts_fast_strip::{ErrorCode, Mode, Options, TransformOutput, TsError, operate};

use crate::parse::Mistake;
use crate::position::utf16_len;

/// The body is stripped inside the function that it will run in, so that `await` and `return` mean the same.
const PREFIX: &str = "(async()=>{";
const SUFFIX: &str = "\n})";

pub(crate) struct Stripped {
    /// The body, without the function around it.
    pub(crate) javascript: String,
    /// Where a transform put things; nothing where every character kept its line and column.
    pub(crate) map: Option<TransformMap>,
}

/// Erases the types of the body of an async function.
pub(crate) fn strip(body: &str) -> Result<Stripped, Mistake> {
    match run(body, Mode::StripOnly) {
        Ok(output) => {
            let javascript = output
                .code
                .strip_prefix(PREFIX)
                .and_then(|rest| rest.strip_suffix(SUFFIX));
            let javascript = javascript.ok_or_else(reshaped)?.to_owned();
            Ok(Stripped {
                javascript,
                map: None,
            })
        }
        Err((ErrorCode::UnsupportedSyntax, _)) => transform(body),
        Err((_, mistake)) => Err(mistake),
    }
}

fn transform(body: &str) -> Result<Stripped, Mistake> {
    let output = run(body, Mode::Transform).map_err(|(_, mistake)| mistake)?;
    let (head, rest) = output.code.split_once("=>{").ok_or_else(reshaped)?;
    let (javascript, tail) = rest.rsplit_once('}').ok_or_else(reshaped)?;
    if !head.chars().all(|c| "(async) ".contains(c)) || !tail.trim().chars().all(|c| ");".contains(c)) {
        return Err(reshaped());
    }
    let map = output.map.as_deref().unwrap_or_default();
    let map = swc_sourcemap::SourceMap::from_slice(map.as_bytes()).map_err(|_| reshaped())?;
    let prefix_columns = utf16_len(head) + 3;
    Ok(Stripped {
        javascript: javascript.to_owned(),
        map: Some(TransformMap { map, prefix_columns }),
    })
}

fn run(body: &str, mode: Mode) -> Result<TransformOutput, (ErrorCode, Mistake)> {
    let source = [PREFIX, body, SUFFIX].concat();
    let source_map = matches!(mode, Mode::Transform);
    let options = Options {
        module: Some(false),
        mode,
        source_map,
        ..Options::default()
    };
    let first: First = Arc::default();
    let handler = Handler::with_emitter(false, false, Box::new(Collector(Arc::clone(&first))));
    let files: Lrc<SourceMap> = Lrc::default();
    GLOBALS
        .set(&Globals::new(), || operate(&files, &handler, source, options))
        .map_err(|TsError { code, message }| {
            let first = first.lock().unwrap_or_else(PoisonError::into_inner).take();
            let mut mistake = first.unwrap_or(Mistake { at: 0, message });
            mistake.at = mistake.at.saturating_sub(PREFIX.len());
            (code, mistake)
        })
}

/// The text came back in a form that this crate does not know; only another version of swc could do that.
fn reshaped() -> Mistake {
    Mistake {
        at: 0,
        message: "the type stripper returned an unknown form".into(),
    }
}

/// The way back from the output of a transform.
#[derive(Clone, Debug)]
pub(crate) struct TransformMap {
    map: swc_sourcemap::SourceMap,
    prefix_columns: u32,
}

impl TransformMap {
    /// Returns the place in the body that was given to [`strip`], if the map knows one.
    pub(crate) fn back(&self, line: u32, column: u32) -> Option<(u32, u32)> {
        let line = line.checked_sub(1)?;
        let mut column = column.checked_sub(1)?;
        if line == 0 {
            column = column.checked_add(self.prefix_columns)?;
        }
        let token = self.map.lookup_token(line, column)?;
        let (source_line, mut source_column) = token.get_src();
        if source_line == u32::MAX {
            return None;
        }
        if source_line == 0 {
            source_column = source_column.saturating_sub(utf16_len(PREFIX));
        }
        Some((source_line + 1, source_column + 1))
    }
}

type First = Arc<Mutex<Option<Mistake>>>;

/// Keeps the first message; the text of the others follows from it.
struct Collector(First);

impl Emitter for Collector {
    fn emit(&mut self, builder: &mut DiagnosticBuilder<'_>) {
        let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if first.is_none() {
            let at = builder
                .span
                .primary_span()
                .map_or(0, |span| crate::parse::offset(span.lo));
            *first = Some(Mistake {
                at,
                message: builder.message(),
            });
        }
    }
}
