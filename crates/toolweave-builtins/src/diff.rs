//! Unified diffs of what a call changed, bounded in size and time.

use std::time::Duration;

use similar::{Algorithm, TextDiffConfig};

/// Most bytes of a diff.
pub(crate) const MAX_DIFF_BYTES: usize = 16 * 1024;

/// Time after which a diff settles for more lines than needed.
const MAX_DIFF_TIME: Duration = Duration::from_millis(200);

/// A diff, maybe cut after a whole line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Diff {
    pub(crate) text: String,
    pub(crate) truncated: bool,
}

/// Compares two versions of a file.
pub(crate) fn unified(path: &str, before: &str, after: &str) -> Diff {
    let diff = TextDiffConfig::default()
        .algorithm(Algorithm::Myers)
        .timeout(MAX_DIFF_TIME)
        .diff_lines(before, after);
    let mut unified = diff.unified_diff();
    unified.header(&format!("a/{path}"), &format!("b/{path}"));
    let mut out = Bounded(String::new());
    let truncated = std::fmt::write(&mut out, format_args!("{unified}")).is_err();
    let mut text = out.0;
    if truncated {
        text.truncate(text.rfind('\n').map_or(0, |end| end + 1));
    }
    Diff { text, truncated }
}

/// Takes text until it is full.
struct Bounded(String);

impl std::fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let room = MAX_DIFF_BYTES - self.0.len();
        if text.len() <= room {
            self.0.push_str(text);
            return Ok(());
        }
        self.0.push_str(&text[..text.floor_char_boundary(room)]);
        Err(std::fmt::Error)
    }
}
