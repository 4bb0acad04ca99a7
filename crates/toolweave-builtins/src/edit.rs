//! `edit`: one exact piece of a text file for another.

use async_trait::async_trait;
use memchr::{memchr_iter, memmem};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolweave_tools::{CallContext, Effect, Tool, ToolError, ToolOutput, ToolSpec};

use crate::Root;
use crate::beneath::Parents;
use crate::call::{self, arguments, arguments_schema, blocking, path_properties};
use crate::diff;
use crate::read::binary_kind;
use crate::replace::read_all;
use crate::root::{RelPath, RootError, shown};
use crate::write::MAX_CONTENT_BYTES;

/// Most line numbers that an error lists.
const MAX_LISTED: usize = 10;

/// Most lines and bytes of a file's text that an error repeats.
const MAX_QUOTED_LINES: usize = 20;
const MAX_QUOTED_BYTES: usize = 2_000;

/// Most pairs of lines that are compared to explain why a text is not there.
const MAX_COMPARED: usize = 2_000_000;

pub(crate) struct Edit {
    root: Root,
    spec: ToolSpec,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Arguments {
    #[serde(alias = "file_path")]
    path: String,
    old: String,
    new: String,
    #[serde(default)]
    replace_all: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Output {
    path: String,
    replacements: u64,
    bytes_before: u64,
    bytes_after: u64,
    diff: String,
    diff_truncated: bool,
}

impl Edit {
    pub(crate) fn new(root: Root) -> Self {
        let input = arguments_schema(
            &[
                path_properties(json!({
                    "type": "string",
                    "description": "File to change, relative to the root folder.",
                })),
                json!({
                    "old": {
                        "type": "string", "minLength": 1,
                        "description": "Text to replace, exactly as in the file: no line numbers, same \
                            indentation. Must occur once unless `replaceAll` is set.",
                    },
                    "new": { "type": "string", "description": "Text to put in its place." },
                    "replaceAll": {
                        "type": "boolean", "default": false,
                        "description": "Replace every occurrence.",
                    },
                }),
            ],
            &["old", "new"],
        );
        let output = json!({
            "type": "object",
            "properties": {
                "path": { "type": "string" },
                "replacements": { "type": "integer" },
                "bytesBefore": { "type": "integer" },
                "bytesAfter": { "type": "integer" },
                "diff": { "type": "string", "description": "Unified diff, at most 16 KiB." },
                "diffTruncated": { "type": "boolean" },
            },
            "required": ["path", "replacements", "bytesBefore", "bytesAfter", "diff", "diffTruncated"],
            "additionalProperties": false,
        });
        Self {
            root,
            spec: call::spec(
                "edit",
                "Edit a file",
                "Replaces an exact piece of text in a file (at most 10 MiB). Fails without a change when the text is \
                 missing, or occurs more than once and `replaceAll` is not set; the error tells the lines.",
                Effect::Write,
                input,
                output,
            ),
        }
    }
}

#[async_trait]
impl Tool for Edit {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, context: &CallContext, args: Value) -> Result<ToolOutput, ToolError> {
        let args: Arguments = arguments(args)?;
        let path = self.root.relative(&args.path)?;
        let root = self.root.clone();
        blocking(context, move |cancel| edit(&root, &path, &args, cancel)).await
    }
}

fn edit(
    root: &Root,
    path: &RelPath,
    args: &Arguments,
    cancel: &CancellationToken,
) -> Result<ToolOutput, ToolError> {
    let name = shown(path.as_str());
    if args.old.is_empty() {
        return Err(ToolError::failed(
            "`old` is empty: give the text to replace, or use `write` for the whole file",
        ));
    }
    if args.old == args.new {
        return Err(ToolError::failed(
            "`old` and `new` are the same: there is nothing to change",
        ));
    }
    let _alone = root.lock_writing();
    call::check(cancel)?;
    let slot = root.slot(path, Parents::Existing)?;
    let Some(mut existing) = slot.existing()? else {
        return Err(root.error(path, rustix::io::Errno::NOENT).into());
    };
    let size = u64::try_from(existing.stat.st_size).unwrap_or(0);
    let bytes = read_all(&mut existing.file, size, MAX_CONTENT_BYTES)
        .map_err(|source| RootError::Io {
            path: name.clone(),
            source,
        })?
        .ok_or_else(|| {
            ToolError::failed(format!(
                "`{name}` is too large to edit: {} > {}",
                call::size(size),
                call::size(MAX_CONTENT_BYTES as u64)
            ))
        })?;
    if let Some(what) = binary_kind(&bytes) {
        return Err(ToolError::failed(format!("`{name}` is not UTF-8 text: {what}")));
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| ToolError::failed(format!("`{name}` is not UTF-8 text and cannot be edited")))?;

    let (after, replacements) = replaced(&text, args, &name)?;
    call::check(cancel)?;
    slot.unchanged(&existing.stat)?;
    slot.replace(after.as_bytes(), Some(&existing.stat))?;

    let diff = diff::unified(path.as_str(), &text, &after);
    let output = Output {
        path: path.to_string(),
        replacements: replacements as u64,
        bytes_before: text.len() as u64,
        bytes_after: after.len() as u64,
        diff: diff.text,
        diff_truncated: diff.truncated,
    };
    let times = if replacements == 1 {
        "1 replacement".to_owned()
    } else {
        format!("{replacements} replacements")
    };
    let more = if output.diff_truncated {
        "(the diff goes on)\n"
    } else {
        ""
    };
    let shown = format!("edited `{}`: {times}\n{}{more}", output.path, output.diff);
    call::output(&output, shown)
}

/// Returns the new text and the number of replacements.
fn replaced(text: &str, args: &Arguments, name: &str) -> Result<(String, usize), ToolError> {
    let mut old = args.old.clone();
    let mut new = args.new.clone();
    let mut places = occurrences(text, &old);
    // Models write `\n` whatever the file has; its line ends stay as they are.
    if places.is_empty() && text.contains("\r\n") && old.contains('\n') && !old.contains('\r') {
        old = old.replace('\n', "\r\n");
        new = new.replace("\r\n", "\n").replace('\n', "\r\n");
        places = occurrences(text, &old);
    }
    match places.len() {
        0 => return Err(ToolError::failed(not_found(text, &args.old, name))),
        1 => {}
        _ if args.replace_all => {}
        count => {
            return Err(ToolError::failed(format!(
                "`old` occurs {count} times in `{name}`, in {}: add lines around it until it is unique, or set \
                 `replaceAll`",
                lines_of(text, &places)
            )));
        }
    }
    // Checked by arithmetic, before anything of that size exists.
    let grown =
        (text.len() - places.len() * old.len()).saturating_add(places.len().saturating_mul(new.len()));
    if grown > MAX_CONTENT_BYTES {
        return Err(ToolError::failed(format!(
            "`{name}` would become too large: {} > {}",
            call::size(grown as u64),
            call::size(MAX_CONTENT_BYTES as u64)
        )));
    }
    let mut after = String::with_capacity(grown);
    let mut from = 0;
    for &place in &places {
        after.push_str(&text[from..place]);
        after.push_str(&new);
        from = place + old.len();
    }
    after.push_str(&text[from..]);
    Ok((after, places.len()))
}

fn occurrences(text: &str, old: &str) -> Vec<usize> {
    memmem::find_iter(text.as_bytes(), old.as_bytes()).collect()
}

fn lines_of(text: &str, places: &[usize]) -> String {
    let mut lines = Vec::new();
    let mut line = 1;
    let mut from = 0;
    for &place in places.iter().take(MAX_LISTED) {
        line += memchr_iter(b'\n', &text.as_bytes()[from..place]).count();
        from = place;
        lines.push(line.to_string());
    }
    let more = if places.len() > MAX_LISTED { ", …" } else { "" };
    format!("lines {}{more}", lines.join(", "))
}

/// Explains a text that is not there by what comes nearest.
fn not_found(text: &str, old: &str, name: &str) -> String {
    let wanted: Vec<&str> = old.trim_matches('\n').lines().collect();
    let lines: Vec<&str> = text.lines().collect();
    // The place where the most lines in a row agree when white space does not count.
    let (mut agree, mut start) = (0, 0);
    let mut budget = MAX_COMPARED;
    if wanted.first().is_some_and(|first| !first.trim().is_empty()) {
        for at in 0..lines.len() {
            let pairs = lines[at..].iter().zip(&wanted).take(budget);
            let here = pairs.take_while(|(have, want)| alike(have, want)).count();
            budget = budget.saturating_sub(here + 1);
            if here > agree {
                (agree, start) = (here, at);
            }
            if agree == wanted.len() || budget == 0 {
                break;
            }
        }
    }
    if agree == 0 {
        return format!(
            "`old` is not in `{name}`, nor anything that differs in white space only: read the file again"
        );
    }
    let end = (start + wanted.len()).min(lines.len());
    let found = &lines[start..end];
    if agree == wanted.len() {
        return format!(
            "`old` is not in `{name}`; what differs from it in white space only, at {}:\n{}",
            span(start, end),
            quoted(found)
        );
    }
    format!(
        "`old` is not in `{name}`: it differs from line {} of its {} on; the file has, at {}:\n{}",
        agree + 1,
        wanted.len(),
        span(start, end),
        quoted(found)
    )
}

/// Whether two lines are the same but for white space.
fn alike(a: &str, b: &str) -> bool {
    a.split_whitespace().eq(b.split_whitespace())
}

fn span(start: usize, end: usize) -> String {
    if end - start == 1 {
        format!("line {end}")
    } else {
        format!("lines {}-{end}", start + 1)
    }
}

fn quoted(lines: &[&str]) -> String {
    let mut out = String::new();
    for (at, line) in lines.iter().enumerate() {
        if at == MAX_QUOTED_LINES || out.len() + line.len() > MAX_QUOTED_BYTES {
            out.push('…');
            return out;
        }
        out.push_str(line);
        out.push('\n');
    }
    out.pop();
    out
}
