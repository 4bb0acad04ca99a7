//! `read`: a text file, or a window of its lines.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _};

use async_trait::async_trait;
use memchr::{memchr, memchr_iter};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolweave_tools::{CallContext, Effect, Tool, ToolError, ToolOutput, ToolSpec};

use crate::Root;
use crate::call::{self, MAX_SHOWN_BYTES, arguments, arguments_schema, blocking, path_properties};
use crate::root::shown;

/// Most bytes of text that one call returns.
const MAX_TEXT_BYTES: usize = 10 * 1024 * 1024;

/// Largest file that is looked through for a window and counted.
const MAX_FILE_BYTES: u64 = 1024 * 1024 * 1024;

/// Most lines that a model is shown for one call. A program gets all of them.
const MAX_SHOWN_LINES: usize = 2_000;

/// Largest file that is read where the program is driven: handing it over would take longer than reading it.
const MAX_INLINE_BYTES: u64 = 64 * 1024;

/// How much is read between two looks at the token.
const CHUNK_BYTES: usize = 64 * 1024;

/// How far a file is looked into for a NUL, which no text has.
const BINARY_PROBE_BYTES: usize = 8 * 1024;

pub(crate) struct Read {
    root: Root,
    spec: ToolSpec,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    #[serde(alias = "file_path")]
    path: String,
    #[serde(default, deserialize_with = "call::whole")]
    offset: Option<u64>,
    #[serde(default, deserialize_with = "call::whole")]
    limit: Option<u64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Output {
    path: String,
    text: String,
    offset: u64,
    line_count: u64,
    total_lines: u64,
    truncated: bool,
    bytes: u64,
}

impl Read {
    pub(crate) fn new(root: Root) -> Self {
        let input = arguments_schema(
            &[
                path_properties(json!({
                    "type": "string",
                    "description": "File to read, relative to the root folder.",
                })),
                json!({
                    "offset": {
                        "type": "integer", "minimum": 1, "default": 1,
                        "description": "First line to return, counted from 1.",
                    },
                    "limit": {
                        "type": "integer", "minimum": 1,
                        "description": "Most lines to return; all when left out.",
                    },
                }),
            ],
            &[],
        );
        let output = json!({
            "type": "object",
            "properties": {
                "path": { "type": "string" },
                "text": {
                    "type": "string",
                    "description": "The lines exactly as in the file, line ends included, without line numbers \
                        and without a leading byte order mark.",
                },
                "offset": { "type": "integer", "description": "Number of the first line of `text`." },
                "lineCount": { "type": "integer", "description": "Lines in `text`." },
                "totalLines": { "type": "integer", "description": "Lines in the whole file." },
                "truncated": {
                    "type": "boolean",
                    "description": "Whether the file goes on after `text`.",
                },
                "bytes": { "type": "integer", "description": "Size of the whole file." },
            },
            "required": ["path", "text", "offset", "lineCount", "totalLines", "truncated", "bytes"],
            "additionalProperties": false,
        });
        Self {
            root,
            spec: call::spec(
                "read",
                "Read a file",
                "Reads a UTF-8 text file, whole or a window of lines. `text` holds the exact content. Returns at most \
                 10 MiB; use `offset` and `limit` for more. Binary files are refused.",
                Effect::Read,
                input,
                output,
            ),
        }
    }
}

#[async_trait]
impl Tool for Read {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, context: &CallContext, args: Value) -> Result<ToolOutput, ToolError> {
        call::check(&context.cancel)?;
        let args: Arguments = arguments(args)?;
        let path = self.root.relative(&args.path)?;
        let (file, stat) = self.root.open_file(&path)?;
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        let job = Job {
            path: path.to_string(),
            file,
            size,
            offset: args.offset.unwrap_or(1).max(1),
            limit: args.limit.unwrap_or(u64::MAX),
        };
        if size <= MAX_INLINE_BYTES {
            job.run(&context.cancel)
        } else {
            blocking(context, move |cancel| job.run(cancel)).await
        }
    }
}

struct Job {
    path: String,
    file: File,
    size: u64,
    offset: u64,
    limit: u64,
}

impl Job {
    fn run(mut self, cancel: &CancellationToken) -> Result<ToolOutput, ToolError> {
        if self.size > MAX_FILE_BYTES {
            return Err(self.too_large());
        }
        let mut window = Window::new(self.offset, self.limit);
        let hint = usize::try_from(self.size).unwrap_or(CHUNK_BYTES);
        // One byte more, so that a small file and its end arrive in one read each.
        let mut chunk = vec![0; hint.saturating_add(1).min(CHUNK_BYTES)];
        let mut read = 0_u64;
        loop {
            call::check(cancel)?;
            let bytes = match self.file.read(&mut chunk) {
                Ok(0) => break,
                Ok(count) => &chunk[..count],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.failed(&error)),
            };
            if read == 0
                && let Some(what) = binary_kind(bytes)
            {
                return Err(ToolError::failed(format!(
                    "`{}` is not UTF-8 text: {what}, {}",
                    shown(&self.path),
                    call::size(self.size)
                )));
            }
            let text = if read == 0 {
                bytes.strip_prefix(BOM).unwrap_or(bytes)
            } else {
                bytes
            };
            read += bytes.len() as u64;
            // The size was only a hint: a file may grow, and those the kernel makes up have none.
            if read > MAX_FILE_BYTES {
                return Err(self.too_large());
            }
            window.take(text);
        }
        self.finish(window, read)
    }

    fn finish(self, window: Window, bytes: u64) -> Result<ToolOutput, ToolError> {
        let total_lines = window.newlines + u64::from(window.open_line);
        let (text, cut) = window.text().map_err(|(line, byte)| {
            ToolError::failed(format!(
                "`{}` is not UTF-8 text: byte 0x{byte:02x} in line {line}",
                shown(&self.path)
            ))
        })?;
        let line_count = count_lines(&text);
        let last = (self.offset - 1).saturating_add(line_count);
        let mut output = Output {
            path: self.path,
            offset: self.offset,
            line_count,
            total_lines,
            truncated: cut || last < total_lines,
            bytes,
            text,
        };
        let shown = render(&output);
        // The text may be large, and encoding would copy it.
        let text = std::mem::take(&mut output.text);
        let mut result = call::output(&output, shown)?;
        result.value["text"] = Value::String(text);
        Ok(result)
    }

    fn too_large(&self) -> ToolError {
        ToolError::failed(format!(
            "`{}` is too large to read: {} > {}; use `grep` to find lines in it",
            shown(&self.path),
            call::size(self.size),
            call::size(MAX_FILE_BYTES)
        ))
    }

    fn failed(&self, error: &io::Error) -> ToolError {
        ToolError::failed(format!("cannot read `{}`: {error}", shown(&self.path)))
    }
}

/// The lines that were asked for, as the file goes by.
struct Window {
    first: u64,
    /// The first line that is not wanted any more.
    end: u64,
    newlines: u64,
    /// Whether bytes came after the last line end.
    open_line: bool,
    bytes: Vec<u8>,
    full: bool,
}

impl Window {
    fn new(offset: u64, limit: u64) -> Self {
        Self {
            first: offset - 1,
            end: (offset - 1).saturating_add(limit),
            newlines: 0,
            open_line: false,
            bytes: Vec::new(),
            full: false,
        }
    }

    fn take(&mut self, mut rest: &[u8]) {
        if let Some(&last) = rest.last() {
            self.open_line = last != b'\n';
        }
        // The common case: everything from here on is wanted.
        if self.newlines >= self.first && self.end == u64::MAX {
            self.keep(rest);
            self.newlines += memchr_iter(b'\n', rest).count() as u64;
            return;
        }
        while !rest.is_empty() {
            if self.newlines >= self.end || self.full {
                self.newlines += memchr_iter(b'\n', rest).count() as u64;
                return;
            }
            let newline = memchr(b'\n', rest);
            let (line, after) = rest.split_at(newline.map_or(rest.len(), |at| at + 1));
            if self.newlines >= self.first {
                self.keep(line);
            }
            self.newlines += u64::from(newline.is_some());
            rest = after;
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = MAX_TEXT_BYTES - self.bytes.len();
        if self.full || bytes.is_empty() {
            return;
        }
        self.full = bytes.len() > room;
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Returns the text and whether it was cut; or the line and value of the first byte that is not UTF-8.
    fn text(mut self) -> Result<(String, bool), (u64, u8)> {
        if self.full {
            // Whole lines, unless the only one is too long itself.
            match memchr::memrchr(b'\n', &self.bytes) {
                Some(at) => self.bytes.truncate(at + 1),
                None => {
                    let whole = utf8_prefix(&self.bytes);
                    self.bytes.truncate(whole);
                }
            }
        }
        match String::from_utf8(self.bytes) {
            Ok(text) => Ok((text, self.full)),
            Err(error) => {
                let at = error.utf8_error().valid_up_to();
                let bytes = error.into_bytes();
                let line = self.first + 1 + memchr_iter(b'\n', &bytes[..at]).count() as u64;
                Err((line, bytes[at]))
            }
        }
    }
}

/// Returns where to cut so that no character is cut in two.
fn utf8_prefix(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    }
}

pub(crate) const BOM: &[u8] = b"\xef\xbb\xbf";

fn count_lines(text: &str) -> u64 {
    let ends = memchr_iter(b'\n', text.as_bytes()).count() as u64;
    ends + u64::from(!text.is_empty() && !text.ends_with('\n'))
}

/// Says what a file is when its beginning is not that of a text.
pub(crate) fn binary_kind(head: &[u8]) -> Option<&'static str> {
    const MAGIC: [(&[u8], &str); 16] = [
        (b"\xff\xfe", "UTF-16 text"),
        (b"\xfe\xff", "UTF-16 text"),
        (b"\x89PNG\r\n", "a PNG image"),
        (b"\xff\xd8\xff", "a JPEG image"),
        (b"GIF8", "a GIF image"),
        (b"RIFF", "a RIFF file (WebP, WAV or AVI)"),
        (b"%PDF-", "a PDF document"),
        (b"PK\x03\x04", "a ZIP archive or office document"),
        (b"\x1f\x8b", "a gzip archive"),
        (b"BZh", "a bzip2 archive"),
        (b"\xfd7zXZ", "an xz archive"),
        (b"\x28\xb5\x2f\xfd", "a zstd archive"),
        (b"\x7fELF", "an ELF program"),
        (b"\xcf\xfa\xed\xfe", "a Mach-O program"),
        (b"MZ", "a Windows program"),
        (b"SQLite format 3\0", "an SQLite database"),
    ];
    let probe = &head[..head.len().min(BINARY_PROBE_BYTES)];
    // A text may begin like a program or an archive; only what cannot be text counts by its first bytes.
    let not_text = memchr(0, probe).is_some() || utf8_error(probe);
    not_text.then(|| {
        MAGIC
            .iter()
            .find(|(magic, _)| probe.starts_with(magic))
            .map_or("binary data", |(_, what)| *what)
    })
}

/// Whether a probe begins with bytes that are no UTF-8. Later ones are reported with their line.
fn utf8_error(probe: &[u8]) -> bool {
    let start = &probe[..probe.len().min(4)];
    matches!(std::str::from_utf8(start), Err(error) if error.error_len().is_some() && error.valid_up_to() < 2)
}

/// Numbers the lines for a model, and says what it does not see.
fn render(output: &Output) -> String {
    if output.total_lines == 0 {
        return format!("`{}` is empty", output.path);
    }
    if output.line_count == 0 {
        return format!(
            "nothing at line {}: `{}` has {} lines",
            output.offset, output.path, output.total_lines
        );
    }
    let mut out = String::new();
    let mut next = output.offset;
    for line in output.text.split_inclusive('\n').take(MAX_SHOWN_LINES) {
        let line = line.strip_suffix('\n').unwrap_or(line);
        let line = call::shown_line(line.strip_suffix('\r').unwrap_or(line));
        if out.len() + line.len() > MAX_SHOWN_BYTES {
            break;
        }
        let _ = writeln!(out, "{next:>6}\t{line}");
        next += 1;
    }
    if next <= output.total_lines {
        let _ = write!(
            out,
            "(lines {}-{} of {}; continue with offset {next})",
            output.offset,
            next - 1,
            output.total_lines
        );
    } else {
        out.pop();
    }
    out
}
