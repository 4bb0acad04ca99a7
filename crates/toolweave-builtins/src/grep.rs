//! `grep`: lines by content.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};

use async_trait::async_trait;
use grep_matcher::Matcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkFinish, SinkMatch,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolweave_tools::{CallContext, Effect, ErrorCode, Tool, ToolError, ToolOutput, ToolSpec};

use crate::call::{self, MAX_SHOWN_BYTES, arguments, arguments_schema, blocking};
use crate::glob::{AnyDepth, matcher, names_hidden};
use crate::root::shown;
use crate::walk::{Walk, WalkEnd, WalkOptions};
use crate::{Root, RootError};

/// Most bytes of a regular expression, and of the program that it is compiled to.
const MAX_PATTERN_BYTES: usize = 10_000;
const MAX_REGEX_BYTES: usize = 10 * 1024 * 1024;

/// Most matches that one call returns, and how many when the caller does not say.
const MAX_MATCHES: u64 = 10_000;
const DEFAULT_MATCHES: u64 = 1_000;

/// Most bytes of text in all matches of one call.
const MAX_TEXT_BYTES: usize = 8 * 1024 * 1024;

/// Most lines around a match.
const MAX_CONTEXT: u64 = 100;

/// Most characters of a line, and how many when the caller does not say.
const MAX_LINE_CHARS: u64 = 10_000;
const DEFAULT_LINE_CHARS: u64 = 1_000;

/// Most bytes of one line that is looked at. A file with a longer one is skipped.
const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

pub(crate) struct Grep {
    root: Root,
    spec: ToolSpec,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Arguments {
    pattern: String,
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    glob: Option<String>,
    #[serde(default)]
    literal: bool,
    #[serde(default)]
    ignore_case: bool,
    #[serde(default, deserialize_with = "call::whole")]
    before: Option<u64>,
    #[serde(default, deserialize_with = "call::whole")]
    after: Option<u64>,
    #[serde(default)]
    hidden: bool,
    #[serde(default)]
    ignored: bool,
    #[serde(default, deserialize_with = "call::whole")]
    limit: Option<u64>,
    #[serde(default, deserialize_with = "call::whole")]
    max_line_length: Option<u64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Output {
    matches: Vec<Line>,
    total: u64,
    truncated: bool,
    files_searched: u64,
    files_skipped: u64,
}

#[derive(Serialize)]
struct Line {
    path: String,
    line: u64,
    column: u64,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<Vec<String>>,
}

impl Grep {
    pub(crate) fn new(root: Root) -> Self {
        let context = |what: &str| {
            json!({
                "type": "integer", "minimum": 0, "maximum": MAX_CONTEXT, "default": 0,
                "description": format!("Lines to return {what} each match."),
            })
        };
        let input = arguments_schema(
            &[json!({
                "pattern": {
                    "type": "string", "minLength": 1,
                    "description": "Regular expression (Rust syntax: no look-around, no back-references), matched \
                        within one line.",
                },
                "path": {
                    "type": "string", "default": ".",
                    "description": "File or folder to search, relative to the root folder.",
                },
                "glob": {
                    "type": "string",
                    "description": "Search only files that match: `*.ts` at any depth, `src/**/*.ts` relative to \
                        `path`.",
                },
                "literal": {
                    "type": "boolean", "default": false,
                    "description": "Take `pattern` as plain text.",
                },
                "ignoreCase": { "type": "boolean", "default": false },
                "before": context("before"),
                "after": context("after"),
                "hidden": {
                    "type": "boolean", "default": false,
                    "description": "Also names that begin with a dot.",
                },
                "ignored": {
                    "type": "boolean", "default": false,
                    "description": "Also what `.gitignore` and `.ignore` leave out.",
                },
                "limit": {
                    "type": "integer", "minimum": 1, "maximum": MAX_MATCHES, "default": DEFAULT_MATCHES,
                    "description": "Most matches to return.",
                },
                "maxLineLength": {
                    "type": "integer", "minimum": 1, "maximum": MAX_LINE_CHARS, "default": DEFAULT_LINE_CHARS,
                    "description": "Most characters of a line to return.",
                },
            })],
            &["pattern"],
        );
        let lines =
            |what: &str| json!({ "type": "array", "items": { "type": "string" }, "description": what });
        let output = json!({
            "type": "object",
            "properties": {
                "matches": {
                    "type": "array",
                    "description": "One for each line that matches, by path and line.",
                    "items": {
                        "type": "object",
                        "properties": {
                            "path": { "type": "string" },
                            "line": { "type": "integer", "description": "Counted from 1." },
                            "column": {
                                "type": "integer",
                                "description": "Character of the line where the first match begins, from 1.",
                            },
                            "text": { "type": "string", "description": "The line, without its end." },
                            "before": lines("Lines before, when asked for."),
                            "after": lines("Lines after, when asked for."),
                        },
                        "required": ["path", "line", "column", "text"],
                        "additionalProperties": false,
                    },
                },
                "total": { "type": "integer", "description": "Lines that match, returned or not." },
                "truncated": {
                    "type": "boolean",
                    "description": "Whether there are more than `matches` has, or the folder is too large to see all.",
                },
                "filesSearched": { "type": "integer" },
                "filesSkipped": { "type": "integer", "description": "Binary files and those that cannot be read." },
            },
            "required": ["matches", "total", "truncated", "filesSearched", "filesSkipped"],
            "additionalProperties": false,
        });
        Self {
            root,
            spec: call::spec(
                "grep",
                "Search in files",
                "Finds lines by regular expression in a file or in all files below a folder. Leaves out binary, hidden \
                 and git-ignored files unless asked, and does not follow links.",
                Effect::Read,
                input,
                output,
            ),
        }
    }
}

#[async_trait]
impl Tool for Grep {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, context: &CallContext, args: Value) -> Result<ToolOutput, ToolError> {
        let args: Arguments = arguments(args)?;
        let root = self.root.clone();
        blocking(context, move |cancel| grep(&root, &args, cancel)).await
    }
}

fn grep(root: &Root, args: &Arguments, cancel: &CancellationToken) -> Result<ToolOutput, ToolError> {
    let path = root.relative(args.path.as_deref().unwrap_or("."))?;
    let regex = compile(args)?;
    let filter = match &args.glob {
        Some(glob) => Some(matcher(glob, AnyDepth::Yes)?),
        None => None,
    };
    let mut search = Search::new(regex, args, cancel);
    let options = WalkOptions {
        hidden: args.hidden || args.glob.as_deref().is_some_and(names_hidden),
        ignored: args.ignored,
    };
    let mut complete = true;
    match Walk::new(root, path.clone(), options) {
        Err(RootError::NotDirectory { .. }) => {
            let (file, _) = root.open_file(&path)?;
            if filter.is_none_or(|filter| {
                let name = path.components().last().unwrap_or_default();
                filter.is_match(name) || filter.is_match(path.as_str())
            }) {
                search.file(path.as_str(), file);
            }
        }
        Err(error) => return Err(error.into()),
        Ok(walk) => {
            let walked = walk.run(cancel, |found| {
                if filter.as_ref().is_none_or(|filter| filter.is_match(found.below)) {
                    match found.open() {
                        Ok(file) => search.file(found.path, file),
                        Err(_) => search.output.files_skipped += 1,
                    }
                }
            });
            complete = walked.end != WalkEnd::TooMany;
            search.output.files_skipped += walked.skipped;
        }
    }
    call::check(cancel)?;
    let mut output = search.output;
    output.truncated = !complete || output.total > output.matches.len() as u64;
    let shown = render(&output);
    call::output(&output, shown)
}

fn compile(args: &Arguments) -> Result<RegexMatcher, ToolError> {
    let invalid = |message: String| Err(ToolError::new(ErrorCode::InvalidArgs, message));
    if args.pattern.is_empty() {
        return invalid("the pattern is empty".to_owned());
    }
    if args.pattern.len() > MAX_PATTERN_BYTES {
        let bytes = args.pattern.len();
        return invalid(format!(
            "the pattern is too long: {bytes} bytes > {MAX_PATTERN_BYTES}"
        ));
    }
    let compiled = RegexMatcherBuilder::new()
        .case_insensitive(args.ignore_case)
        .fixed_strings(args.literal)
        .multi_line(true)
        .crlf(true)
        .line_terminator(Some(b'\n'))
        .size_limit(MAX_REGEX_BYTES)
        .dfa_size_limit(MAX_REGEX_BYTES)
        .build(&args.pattern);
    match compiled {
        Ok(regex) => Ok(regex),
        Err(error) => invalid(match error.kind() {
            grep_regex::ErrorKind::NotAllowed(_) => {
                "the pattern has a line end in it, but matches are within one line: search for one of the lines and \
                 use `before` and `after`"
                    .to_owned()
            }
            _ => format!(
                "cannot use the pattern as a regular expression (set `literal` to search for plain text): {}",
                position(&args.pattern).unwrap_or_else(|| error.to_string())
            ),
        }),
    }
}

/// Says what is wrong with a pattern and where; the matcher's own message counts from a pattern that it changed.
fn position(pattern: &str) -> Option<String> {
    let (what, span) = match regex_syntax::ParserBuilder::new()
        .utf8(false)
        .build()
        .parse(pattern)
    {
        Err(regex_syntax::Error::Parse(error)) => (error.kind().to_string(), *error.span()),
        Err(regex_syntax::Error::Translate(error)) => (error.kind().to_string(), *error.span()),
        _ => return None,
    };
    let culprit = pattern
        .get(span.start.offset..span.end.offset)
        .unwrap_or_default();
    let at = pattern[..span.start.offset.min(pattern.len())].chars().count() + 1;
    Some(format!("{what}, at character {at}: `{}`", shown(culprit)))
}

/// A search over many files.
struct Search<'a> {
    regex: RegexMatcher,
    searcher: Searcher,
    cancel: &'a CancellationToken,
    limit: usize,
    line_chars: usize,
    before: u64,
    after: u64,
    /// Bytes of text that may still be returned.
    room: usize,
    output: Output,
}

impl<'a> Search<'a> {
    fn new(regex: RegexMatcher, args: &Arguments, cancel: &'a CancellationToken) -> Self {
        let before = args.before.unwrap_or(0).min(MAX_CONTEXT);
        let after = args.after.unwrap_or(0).min(MAX_CONTEXT);
        Self {
            regex,
            searcher: SearcherBuilder::new()
                .line_number(true)
                .before_context(before as usize)
                .after_context(after as usize)
                .binary_detection(BinaryDetection::quit(0))
                .heap_limit(Some(MAX_LINE_BYTES))
                .build(),
            cancel,
            limit: args.limit.unwrap_or(DEFAULT_MATCHES).min(MAX_MATCHES) as usize,
            line_chars: args
                .max_line_length
                .unwrap_or(DEFAULT_LINE_CHARS)
                .min(MAX_LINE_CHARS) as usize,
            before,
            after,
            room: MAX_TEXT_BYTES,
            output: Output {
                matches: Vec::new(),
                total: 0,
                truncated: false,
                files_searched: 0,
                files_skipped: 0,
            },
        }
    }

    fn file(&mut self, path: &str, file: File) {
        let mut lines = Lines {
            path,
            regex: &self.regex,
            line_chars: self.line_chars,
            before: self.before,
            after: self.after,
            wanted: self.limit.saturating_sub(self.output.matches.len()),
            room: self.room,
            recent: VecDeque::new(),
            matches: Vec::new(),
            total: 0,
            binary: false,
        };
        let reader = Cancellable {
            file,
            cancel: self.cancel,
        };
        let searched = self.searcher.search_reader(&self.regex, reader, &mut lines);
        if searched.is_err() || lines.binary {
            self.output.files_skipped += 1;
            return;
        }
        self.output.files_searched += 1;
        self.output.total += lines.total;
        // Once something did not fit, nothing later is returned either: what there is has no gaps.
        if (lines.matches.len() as u64) < lines.total {
            self.limit = 0;
        }
        self.room = lines.room;
        self.output.matches.append(&mut lines.matches);
    }
}

/// A file that cannot be read any further once nobody wants it.
struct Cancellable<'a> {
    file: File,
    cancel: &'a CancellationToken,
}

impl Read for Cancellable<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancel.is_cancelled() {
            return Err(io::Error::other("cancelled"));
        }
        self.file.read(buffer)
    }
}

/// The matches of one file.
struct Lines<'a> {
    path: &'a str,
    regex: &'a RegexMatcher,
    line_chars: usize,
    before: u64,
    after: u64,
    /// How many matches may still be returned, and bytes of their text.
    wanted: usize,
    room: usize,
    /// The lines just passed, for those that come before a match.
    recent: VecDeque<(u64, String)>,
    matches: Vec<Line>,
    total: u64,
    binary: bool,
}

impl Lines<'_> {
    fn full(&self) -> bool {
        self.matches.len() >= self.wanted || self.room == 0
    }

    /// Takes a line around or at a match, for the matches that it is near to.
    fn pass(&mut self, number: u64, text: &str) {
        if self.after > 0 {
            // Only the last matches can be near.
            for line in self.matches.iter_mut().rev() {
                if number.saturating_sub(line.line) > self.after {
                    break;
                }
                if let Some(after) = &mut line.after {
                    self.room = self.room.saturating_sub(text.len());
                    after.push(text.to_owned());
                }
            }
        }
        if self.before > 0 {
            self.recent.push_back((number, text.to_owned()));
            while self.recent.len() as u64 > self.before {
                self.recent.pop_front();
            }
        }
    }
}

impl Sink for Lines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.total += 1;
        let number = found.line_number().unwrap_or(0);
        let bytes = without_end(found.bytes());
        let at = match self.regex.find(bytes) {
            Ok(Some(at)) => at.start(),
            _ => 0,
        };
        if self.full() {
            // Later lines can still belong to the matches that are returned.
            if self.after > 0 {
                let text = cut(bytes, 0, self.line_chars);
                self.pass(number, &text);
            }
            // The text budget may run out with a match still wanted; no later one shall take its place.
            self.wanted = self.wanted.min(self.matches.len());
            return Ok(true);
        }
        let text = cut(bytes, at, self.line_chars);
        let before: Vec<String> = self
            .recent
            .iter()
            .filter(|(line, _)| number - line <= self.before)
            .map(|(_, text)| text.clone())
            .collect();
        self.pass(number, &text);
        let used = text.len() + self.path.len() + before.iter().map(String::len).sum::<usize>();
        self.room = self.room.saturating_sub(used);
        self.matches.push(Line {
            path: self.path.to_owned(),
            line: number,
            column: chars(&bytes[..at]) as u64 + 1,
            text,
            before: (self.before > 0).then_some(before),
            after: (self.after > 0).then(Vec::new),
        });
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, line: &SinkContext<'_>) -> Result<bool, io::Error> {
        let wanted = match line.kind() {
            SinkContextKind::Before => !self.full(),
            SinkContextKind::After | SinkContextKind::Other => true,
        };
        if wanted {
            let text = cut(without_end(line.bytes()), 0, self.line_chars);
            self.pass(line.line_number().unwrap_or(0), &text);
        }
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, io::Error> {
        self.binary = true;
        Ok(false)
    }

    fn finish(&mut self, _: &Searcher, end: &SinkFinish) -> Result<(), io::Error> {
        self.binary |= end.binary_byte_offset().is_some();
        Ok(())
    }
}

fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Returns a line, or of a long one the part that has the match, with marks where something is missing.
fn cut(line: &[u8], at: usize, most_chars: usize) -> String {
    // A character has at least one byte.
    if line.len() <= most_chars {
        return String::from_utf8_lossy(line).into_owned();
    }
    // Some of what is before the match, and more of what is after.
    let lead = most_chars / 4;
    let from = if at <= lead || chars(&line[..at]) <= most_chars - lead {
        0
    } else {
        boundary(line, at - lead)
    };
    // More bytes than that many characters have.
    let to = boundary(line, line.len().min(from + most_chars * 4 + 4));
    let text = String::from_utf8_lossy(&line[from..to]);
    let end = text.char_indices().nth(most_chars).map(|(end, _)| end);
    let mut out = String::new();
    if from > 0 {
        out.push('…');
    }
    out.push_str(&text[..end.unwrap_or(text.len())]);
    if to < line.len() || end.is_some() {
        out.push('…');
    }
    out
}

fn chars(bytes: &[u8]) -> usize {
    String::from_utf8_lossy(bytes).chars().count()
}

/// Goes back to where a character begins.
fn boundary(line: &[u8], at: usize) -> usize {
    let continues = |at: usize| line.get(at).is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000);
    (at.saturating_sub(3)..=at)
        .rev()
        .find(|&at| !continues(at))
        .unwrap_or(at)
}

/// Groups the matches by file for a model.
fn render(output: &Output) -> String {
    let files = output.files_searched;
    if output.matches.is_empty() {
        let more = if output.truncated {
            "; not all files were looked at"
        } else {
            ""
        };
        return format!("no match ({files} files searched{more})");
    }
    let mut out = String::new();
    let mut path = "";
    let mut shown = 0;
    let mut last = 0;
    for found in &output.matches {
        if out.len() + found.text.len() > MAX_SHOWN_BYTES {
            break;
        }
        if path != found.path {
            path = &found.path;
            last = 0;
            let _ = writeln!(out, "{path}");
        }
        let before = found.before.as_deref().unwrap_or_default();
        for (number, text) in (found.line - before.len() as u64..).zip(before) {
            if number > last {
                let _ = writeln!(out, "{number}- {text}");
            }
        }
        // A match that was shown as a line after another one is shown again, as a match.
        let _ = writeln!(out, "{}: {}", found.line, found.text);
        last = found.line;
        let after = found.after.as_deref().unwrap_or_default();
        let next = output
            .matches
            .get(shown + 1)
            .filter(|next| next.path == found.path);
        for (number, text) in (found.line + 1..).zip(after) {
            if next.is_none_or(|next| number < next.line) {
                let _ = writeln!(out, "{number}- {text}");
                last = number;
            }
        }
        shown += 1;
    }
    if shown < output.matches.len() || output.truncated {
        let _ = write!(
            out,
            "({shown} of {} matching lines; narrow the search)",
            output.total
        );
    } else {
        let _ = write!(out, "({shown} matching lines, {files} files searched)");
    }
    out
}
