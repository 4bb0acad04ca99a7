//! Places in a text, and how they move when the text is edited. Knows nothing about TypeScript.
//!
//! Lines end at `\n` (the caller has turned `\r\n` and `\r` into it). Lines and columns count from 1, columns
//! in UTF-16 units, as every JavaScript engine reports them.

use unicode_width::UnicodeWidthChar;

/// Columns of a line that an excerpt shows at most.
const EXCERPT_COLUMNS: usize = 110;

/// Where each line of a text starts.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    starts: Vec<u32>,
}

impl Lines {
    pub(crate) fn new(text: &str) -> Self {
        let ends = text.bytes().enumerate().filter(|&(_, byte)| byte == b'\n');
        let starts = std::iter::once(0)
            .chain(ends.map(|(at, _)| to_u32(at) + 1))
            .collect();
        Self { starts }
    }

    /// Returns line and column of a byte offset; past the end is the end.
    pub(crate) fn position(&self, text: &str, offset: usize) -> (u32, u32) {
        let offset = floor_boundary(text, offset);
        let line = self.starts.partition_point(|&start| start as usize <= offset);
        let start = self.starts[line - 1] as usize;
        (to_u32(line), utf16_len(&text[start..offset]) + 1)
    }

    pub(crate) fn count(&self) -> u32 {
        to_u32(self.starts.len())
    }

    fn line<'a>(&self, text: &'a str, line: u32) -> Option<&'a str> {
        let index = (line as usize).checked_sub(1)?;
        let start = *self.starts.get(index)? as usize;
        let end = self
            .starts
            .get(index + 1)
            .map_or(text.len(), |&next| next as usize - 1);
        text.get(start..end)
    }
}

/// Shows one line of a text with a caret below a column. Empty where the line does not exist.
pub(crate) fn excerpt(text: &str, lines: &Lines, line: u32, column: u32) -> String {
    let Some(source) = lines.line(text, line) else {
        return String::new();
    };
    let before = byte_at_column(source, column);
    // A long line is cut to a window around the place.
    let mut from = before;
    let mut shown = 0;
    for c in source[..before].chars().rev() {
        if shown == EXCERPT_COLUMNS * 2 / 3 {
            break;
        }
        from -= c.len_utf8();
        shown += 1;
    }
    let after = source[before..]
        .chars()
        .take(EXCERPT_COLUMNS - shown)
        .map(char::len_utf8)
        .sum::<usize>();
    let to = before + after;
    let head = if from > 0 { "…" } else { "" };
    let tail = if to < source.len() { "…" } else { "" };
    let number = line.to_string();
    let mut out = format!("{number} | {head}");
    out.extend(source[from..to].chars().map(visible));
    out.push_str(tail);
    out.push('\n');
    out.extend(std::iter::repeat_n(' ', number.len()));
    out.push_str(" | ");
    out.extend(head.chars().map(|_| ' '));
    for c in source[from..before].chars() {
        match visible(c) {
            '\t' => out.push('\t'),
            c => out.extend(std::iter::repeat_n(' ', c.width().unwrap_or(0))),
        }
    }
    out.push('^');
    out
}

/// Control characters must not reach a terminal from here.
fn visible(c: char) -> char {
    if c.is_control() && c != '\t' {
        '\u{fffd}'
    } else {
        c
    }
}

fn byte_at_column(line: &str, column: u32) -> usize {
    let mut units = 1;
    for (at, c) in line.char_indices() {
        if units >= column {
            return at;
        }
        units += to_u32(c.len_utf16());
    }
    line.len()
}

/// One replacement: `remove` bytes at `at` become `insert`. Both have the same number of line ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) at: usize,
    pub(crate) remove: usize,
    pub(crate) insert: String,
}

/// Applies edits that are sorted and do not overlap; returns the new text and the way back.
pub(crate) fn apply(text: &str, lines: &Lines, edits: &[Edit]) -> (String, Shifts) {
    let mut out =
        String::with_capacity(text.len() + edits.iter().map(|edit| edit.insert.len()).sum::<usize>());
    let mut anchors = Vec::new();
    let mut copied = 0;
    // How far columns of the current line have moved so far.
    let (mut moved_line, mut moved) = (0u32, 0i64);
    for edit in edits {
        debug_assert!(edit.at >= copied, "edits are sorted");
        let end = edit.at + edit.remove;
        let (Some(kept), Some(removed)) = (text.get(copied..edit.at), text.get(edit.at..end)) else {
            continue;
        };
        out.push_str(kept);
        out.push_str(&edit.insert);
        copied = end;
        let (line, column) = lines.position(text, edit.at);
        let start_moved = if line == moved_line { moved } else { 0 };
        let (end_line, end_column) = lines.position(text, end);
        let inserted_tail = edit.insert.rsplit('\n').next().unwrap_or_default();
        let multiline = edit.insert.contains('\n');
        let new_start = shifted(column, start_moved);
        let new_end = if multiline {
            utf16_len(inserted_tail) + 1
        } else {
            new_start + utf16_len(&edit.insert)
        };
        if removed == edit.insert
            || new_end == shifted(end_column, if line == end_line { start_moved } else { 0 })
        {
            // Same shape: nothing behind it moves.
            continue;
        }
        anchors.push(Anchor {
            line,
            new: new_start,
            old: column,
            frozen: true,
        });
        anchors.push(Anchor {
            line: end_line,
            new: new_end,
            old: end_column,
            frozen: false,
        });
        moved_line = end_line;
        moved = i64::from(new_end) - i64::from(end_column);
    }
    out.push_str(&text[copied..]);
    (out, Shifts { anchors })
}

/// The way back through one layer of edits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shifts {
    anchors: Vec<Anchor>,
}

#[derive(Clone, Copy, Debug)]
struct Anchor {
    line: u32,
    new: u32,
    old: u32,
    /// Inside an insertion every column stands for the place of the insertion.
    frozen: bool,
}

impl Shifts {
    /// Returns the place before the edits of a place after them.
    pub(crate) fn back(&self, line: u32, column: u32) -> (u32, u32) {
        let index = self
            .anchors
            .partition_point(|anchor| (anchor.line, anchor.new) <= (line, column));
        match index.checked_sub(1).map(|last| self.anchors[last]) {
            Some(anchor) if anchor.line == line => {
                let past = if anchor.frozen { 0 } else { column - anchor.new };
                (line, anchor.old + past)
            }
            _ => (line, column),
        }
    }
}

/// Returns white space of the same shape as `text`: the same line ends, the same UTF-16 columns.
pub(crate) fn blank(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push('\n'),
            c => out.extend(std::iter::repeat_n(' ', c.len_utf16())),
        }
    }
    out
}

pub(crate) fn utf16_len(text: &str) -> u32 {
    if text.is_ascii() {
        to_u32(text.len())
    } else {
        to_u32(text.chars().map(char::len_utf16).sum())
    }
}

fn shifted(column: u32, by: i64) -> u32 {
    u32::try_from((i64::from(column) + by).max(1)).unwrap_or(u32::MAX)
}

fn floor_boundary(text: &str, offset: usize) -> usize {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

/// Sizes here are bounded by [`crate::MAX_PROGRAM_BYTES`]; saturating keeps the conversion total.
fn to_u32(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(at: usize, remove: usize, insert: &str) -> Edit {
        Edit {
            at,
            remove,
            insert: insert.into(),
        }
    }

    #[test]
    fn every_kept_character_finds_its_way_back() {
        let text = "export default\n  é😀x + 1;\nlast";
        let lines = Lines::new(text);
        let edits = [
            edit(0, 17, ";const $d=(\n"),
            edit(23, 0, "return "),
            edit(text.len(), 0, ");return $d"),
        ];
        let (new, shifts) = apply(text, &lines, &edits);
        assert_eq!(new, ";const $d=(\né😀return x + 1;\nlast);return $d");
        let new_lines = Lines::new(&new);
        for (needle, expected) in [
            ("é", (2, 3)),
            ("😀", (2, 4)),
            ("x +", (2, 6)),
            ("1;", (2, 10)),
            ("last", (3, 1)),
        ] {
            let at = new.find(needle).expect("kept");
            let (line, column) = new_lines.position(&new, at);
            assert_eq!(shifts.back(line, column), expected, "{needle}");
        }
        let tail = new_lines.position(&new, new.find("return $d").expect("inserted"));
        assert_eq!(shifts.back(tail.0, tail.1), (3, 5));
    }

    #[test]
    fn excerpt_keeps_tabs_and_wide_characters_in_line() {
        let text = "a\n\tlet 日本 = = 3\u{1b}[0m";
        let lines = Lines::new(text);
        assert_eq!(
            excerpt(text, &lines, 2, 11),
            "2 | \tlet 日本 = = 3\u{fffd}[0m\n  | \t           ^"
        );
        assert_eq!(excerpt(text, &lines, 9, 1), "");
        let long = format!("{}!{}", "a".repeat(500), "b".repeat(500));
        let shown = excerpt(&long, &Lines::new(&long), 1, 501);
        let (code, caret) = shown.split_once('\n').expect("two lines");
        assert_eq!(
            code.chars().position(|c| c == '!'),
            caret.chars().position(|c| c == '^')
        );
        assert!(code.chars().count() < 130);
    }
}
