//! What a model is shown of a run, within a size.
//!
//! Large outputs are cut to a preview that says so. Keeping the whole under a handle is not done here.

use serde_json::{Map, Value};
use toolweave_runtime::Json;

use crate::text::clip;
use crate::{CallRecord, Effect, ProgramReport};

/// What a successful run without any output says.
const NOTHING: &str = "(run_code completed with no output)";
/// Spaces of indentation for one level, and the most that a line begins with.
const INDENT: usize = 2;
const MAX_INDENT: usize = 10;
/// Groups of calls listed after a failure.
const LISTED_CALLS: usize = 25;
/// Warnings shown with a result, and the characters of each.
const SHOWN_WARNINGS: usize = 8;
const WARNING_CHARS: usize = 400;
/// Room that a preview's own words take.
const MARK_BYTES: usize = 160;

/// Returns the text of a run that succeeded: logs, then the value.
pub(crate) fn success_text(report: &ProgramReport) -> String {
    let mut text = report.logs.join("\n");
    if let Some(value) = &report.result {
        if !report.logs.is_empty() {
            text.push('\n');
        }
        push_value(value, &mut text);
    }
    if text.is_empty() && report.logs.is_empty() && !is_empty_text(report.result.as_ref()) {
        text.push_str(NOTHING);
    }
    if text.is_empty() {
        // An empty string or an empty log line is output, but an empty text shows nothing of it.
        text.push_str(match &report.result {
            Some(_) => "(run_code returned an empty string)",
            None => "(run_code printed an empty line)",
        });
    }
    text
}

/// Returns the text of a run that failed: the failure, what was already done, what was printed.
pub(crate) fn failure_text(report: &ProgramReport) -> String {
    let Some(error) = &report.error else {
        return String::new();
    };
    let mut text = format!("code run failed ({}): {}", error.kind, error.message);
    if let Some(done) = already_done(&report.calls) {
        text.push('\n');
        text.push_str(&done);
    }
    if !report.logs.is_empty() {
        text.push_str("\n\nCaptured output:\n");
        text.push_str(&report.logs.join("\n"));
    }
    text
}

/// Returns the warnings of a run as one block, or nothing.
pub(crate) fn warning_text(warnings: &[String]) -> Option<String> {
    if warnings.is_empty() {
        return None;
    }
    let mut lines: Vec<_> = warnings
        .iter()
        .take(SHOWN_WARNINGS)
        .map(|warning| format!("warning: {}", clip(warning, WARNING_CHARS)))
        .collect();
    if warnings.len() > SHOWN_WARNINGS {
        lines.push(format!("and {} more warnings", warnings.len() - SHOWN_WARNINGS));
    }
    Some(lines.join("\n"))
}

/// Names the calls that settled before a failure, so that nobody repeats them.
fn already_done(calls: &[CallRecord]) -> Option<String> {
    if calls.is_empty() {
        return None;
    }
    let mut groups: Vec<(String, usize)> = Vec::new();
    for call in calls {
        let label = label(call);
        match groups.last_mut() {
            Some((last, count)) if *last == label => *count += 1,
            _ => groups.push((label, 1)),
        }
    }
    let more: usize = groups.iter().skip(LISTED_CALLS).map(|(_, count)| count).sum();
    let mut listed: Vec<_> = groups
        .into_iter()
        .take(LISTED_CALLS)
        .map(|(label, count)| {
            if count == 1 {
                label
            } else {
                format!("{label} ×{count}")
            }
        })
        .collect();
    if more > 0 {
        let writes = calls
            .iter()
            .rev()
            .take(more)
            .filter(|call| call.ok && call.effect != Effect::Read)
            .count();
        listed.push(format!("and {more} more, {writes} of them writes"));
    }
    let head = if calls.iter().any(|call| call.effect != Effect::Read) {
        "already done, and not undone: "
    } else {
        "already done: "
    };
    Some(format!("{head}{}", listed.join(", ")))
}

fn label(call: &CallRecord) -> String {
    let mut marks = Vec::new();
    match call.effect {
        Effect::Read => {}
        // What is not declared is treated as a write, here as well.
        Effect::Write | Effect::Unknown => marks.push("write"),
        Effect::Destructive => marks.push("destructive write"),
    }
    if !call.ok {
        marks.push("failed");
    }
    if marks.is_empty() {
        call.name.clone()
    } else {
        format!("{} [{}]", call.name, marks.join(", "))
    }
}

fn is_empty_text(value: Option<&Json>) -> bool {
    value.is_some_and(|value| value.as_str() == "\"\"")
}

/// Returns a value as a model and a person read it: text as it is, everything else as JSON that is indented near its root.
pub fn render_value(value: &Json) -> String {
    let mut text = String::new();
    push_value(value, &mut text);
    text
}

/// Writes a value as a model reads it: text as it is, everything else as JSON that is indented near its root.
fn push_value(value: &Json, out: &mut String) {
    let text = value.as_str();
    if text.starts_with('"') {
        match value.to_value() {
            Value::String(plain) => out.push_str(&plain),
            _ => out.push_str(text),
        }
    } else {
        indent(text, out);
    }
}

/// Reformats JSON text without parsing it, so that no depth and no number matters.
fn indent(text: &str, out: &mut String) {
    let bytes = text.as_bytes();
    let mut depth = 0_usize;
    let mut at = 0;
    let mut start = 0;
    let roomy = |depth: usize| depth * INDENT <= MAX_INDENT;
    let break_line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', depth * INDENT));
    };
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                at += 1;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at += 1;
                continue;
            }
            byte @ (b'{' | b'[') => {
                out.push_str(&text[start..=at]);
                depth += 1;
                let close = if byte == b'{' { b'}' } else { b']' };
                let next = next_token(bytes, at + 1);
                if bytes.get(next) == Some(&close) {
                    depth -= 1;
                    out.push(char::from(close));
                    at = next + 1;
                } else {
                    if roomy(depth) {
                        break_line(out, depth);
                    }
                    at = next;
                }
                start = at;
                continue;
            }
            byte @ (b'}' | b']') => {
                out.push_str(&text[start..at]);
                if roomy(depth) {
                    break_line(out, depth.saturating_sub(1));
                }
                depth = depth.saturating_sub(1);
                out.push(char::from(byte));
                at += 1;
                start = at;
                continue;
            }
            b',' => {
                out.push_str(&text[start..=at]);
                if roomy(depth) {
                    break_line(out, depth);
                }
                at += 1;
                start = at;
                continue;
            }
            b':' => {
                out.push_str(&text[start..=at]);
                if roomy(depth) {
                    out.push(' ');
                }
                at += 1;
                start = at;
                continue;
            }
            b' ' | b'\t' | b'\n' | b'\r' => {
                out.push_str(&text[start..at]);
                at += 1;
                start = at;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    out.push_str(text.get(start..).unwrap_or_default());
}

fn next_token(bytes: &[u8], from: usize) -> usize {
    let space = |b: &u8| matches!(b, b' ' | b'\t' | b'\n' | b'\r');
    from + bytes
        .get(from..)
        .map_or(0, |rest| rest.iter().take_while(|b| space(b)).count())
}

/// Returns text of at most `cap` bytes: the whole, or its head and tail around a note of what is missing.
pub(crate) fn preview(text: String, cap: usize) -> String {
    if text.len() <= cap {
        return text;
    }
    let room = cap.saturating_sub(MARK_BYTES);
    let head = text.floor_char_boundary(room * 2 / 3);
    let tail = text.ceil_char_boundary(text.len() - (room - room * 2 / 3).min(text.len()));
    let cut = tail - head;
    let mark = format!(
        "\n[… preview: {cut} of {} bytes were cut here; print or return less to see all of it …]\n",
        text.len()
    );
    let mut shown = String::with_capacity(cap);
    shown.push_str(&text[..head]);
    shown.push_str(&mark);
    shown.push_str(&text[tail..]);
    // A cap smaller than the note itself still holds.
    let end = shown.floor_char_boundary(cap.min(shown.len()));
    shown.truncate(end);
    shown
}

/// Returns `{logs, result?, warnings?, truncated?}` of at most about `cap` bytes.
///
/// A result nested deeper than `max_depth` is given as its text: few readers of JSON would take it.
pub(crate) fn structured(report: &ProgramReport, cap: usize, max_depth: u32) -> Value {
    let logs_bytes: usize = report.logs.iter().map(|entry| entry.len() + 3).sum();
    let result_bytes = report.result.as_ref().map_or(0, |value| value.as_str().len());
    let mut members = Map::new();
    let mut notes = Vec::new();
    if logs_bytes + result_bytes <= cap {
        members.insert("logs".to_owned(), strings(&report.logs));
        if let Some(result) = &report.result {
            members.insert("result".to_owned(), plain(result, max_depth, &mut notes));
        }
    } else {
        // Each side has half, and what the other one does not need.
        let half = cap / 2;
        let result_room = if logs_bytes <= half {
            cap - logs_bytes
        } else {
            half.max(cap.saturating_sub(logs_bytes))
        };
        let logs_room = if result_bytes <= half {
            cap - result_bytes
        } else {
            cap.saturating_sub(result_room)
        };
        if logs_bytes <= logs_room {
            members.insert("logs".to_owned(), strings(&report.logs));
        } else {
            let whole = report.logs.join("\n");
            notes.push(format!(
                "logs: one text preview of {} entries, {} bytes",
                report.logs.len(),
                whole.len()
            ));
            members.insert("logs".to_owned(), strings(&[preview(whole, logs_room)]));
        }
        if let Some(result) = &report.result {
            if result_bytes <= result_room {
                members.insert("result".to_owned(), plain(result, max_depth, &mut notes));
            } else {
                notes.push(format!("result: text preview of {result_bytes} bytes of JSON"));
                let shown = preview(result.as_str().to_owned(), result_room);
                members.insert("result".to_owned(), Value::String(shown));
            }
        }
    }
    if !report.warnings.is_empty() {
        let shown: Vec<_> = report
            .warnings
            .iter()
            .take(SHOWN_WARNINGS)
            .map(|warning| clip(warning, WARNING_CHARS))
            .collect();
        members.insert("warnings".to_owned(), strings(&shown));
    }
    if !notes.is_empty() {
        members.insert("truncated".to_owned(), Value::String(notes.join("; ")));
    }
    Value::Object(members)
}

fn plain(result: &Json, max_depth: u32, notes: &mut Vec<String>) -> Value {
    if result.depth() <= max_depth {
        return result.to_value();
    }
    notes.push(format!(
        "result: JSON text, as it is nested {} levels deep",
        result.depth()
    ));
    Value::String(result.as_str().to_owned())
}

fn strings(items: &[String]) -> Value {
    items.iter().cloned().map(Value::String).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn indented(text: &str) -> String {
        let mut out = String::new();
        indent(text, &mut out);
        out
    }

    #[test]
    fn values_are_indented_near_their_root_only() {
        assert_eq!(
            indented(r#"{"a":[1,{"b":"x, y: {z}"}],"e":[],"f":{ }}"#),
            "{\n  \"a\": [\n    1,\n    {\n      \"b\": \"x, y: {z}\"\n    }\n  ],\n  \"e\": [],\n  \"f\": {}\n}"
        );
        assert_eq!(indented("null"), "null");
        assert_eq!(
            indented("[[[[[[[1,2],{\"a\":1}]]]]]]"),
            "[\n  [\n    [\n      [\n        [\n          [[1,2],{\"a\":1}]\n        ]\n      ]\n    ]\n  ]\n]"
        );
        let deep = "[".repeat(5000) + &"]".repeat(5000);
        assert!(indented(&deep).len() < 5000 * 2 + 200);
    }

    #[test]
    fn indented_text_is_the_same_json() {
        let text = r#"{"a\"b":"\\","n":[1e5,-0.5,true,null,"é🦀"],"o":{"":{"x":[[[[[1]]]]]}}}"#;
        let before: Value = serde_json::from_str(text).expect("JSON");
        let after: Value = serde_json::from_str(&indented(text)).expect("JSON");
        assert_eq!(before, after);
    }

    #[test]
    fn a_preview_holds_its_cap_and_says_what_is_missing() {
        let text = "é".repeat(10_000);
        for cap in [0, 1, 50, 200, 5_000, 19_999] {
            let shown = preview(text.clone(), cap);
            assert!(shown.len() <= cap, "{cap}: {}", shown.len());
        }
        let shown = preview(text.clone(), 1_000);
        assert!(
            shown.contains("preview: ") && shown.contains("of 20000 bytes"),
            "{shown}"
        );
        assert!(shown.starts_with('é') && shown.ends_with('é'));
        assert_eq!(preview(text.clone(), 20_000), text);
    }
}
