//! `write`: a whole file, new or in place of the old one.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolweave_tools::{CallContext, Effect, Tool, ToolError, ToolOutput, ToolSpec};

use crate::Root;
use crate::beneath::Parents;
use crate::call::{self, arguments, arguments_schema, blocking, path_properties};
use crate::diff;
use crate::replace::read_all;
use crate::root::{RelPath, shown};

/// Most bytes that one call writes, and most of an old content that it is compared with.
pub(crate) const MAX_CONTENT_BYTES: usize = 10 * 1024 * 1024;

pub(crate) struct Write {
    root: Root,
    spec: ToolSpec,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    #[serde(alias = "file_path")]
    path: String,
    content: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Output {
    path: String,
    operation: Operation,
    bytes_before: Option<u64>,
    bytes_after: u64,
    diff: Option<String>,
    diff_truncated: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Operation {
    Created,
    Replaced,
}

impl Write {
    pub(crate) fn new(root: Root) -> Self {
        let input = arguments_schema(
            &[
                path_properties(json!({
                    "type": "string",
                    "description": "File to write, relative to the root folder. Missing folders are made.",
                })),
                json!({
                    "content": { "type": "string", "description": "The whole new content, at most 10 MiB." },
                }),
            ],
            &["content"],
        );
        let output = json!({
            "type": "object",
            "properties": {
                "path": { "type": "string" },
                "operation": { "type": "string", "enum": ["created", "replaced"] },
                "bytesBefore": {
                    "type": ["integer", "null"],
                    "description": "Size of the old file; null when there was none.",
                },
                "bytesAfter": { "type": "integer" },
                "diff": {
                    "type": ["string", "null"],
                    "description": "Unified diff against the old file, at most 16 KiB; null for a new file, and \
                        for an old one that is not text or is larger than 10 MiB.",
                },
                "diffTruncated": { "type": "boolean" },
            },
            "required": ["path", "operation", "bytesBefore", "bytesAfter", "diff", "diffTruncated"],
            "additionalProperties": false,
        });
        Self {
            root,
            spec: call::spec(
                "write",
                "Write a file",
                "Writes a file, making it or replacing all of its content at once; the old content stays until the \
                 new one is complete. To change a part of a file use `edit`.",
                Effect::Write,
                input,
                output,
            ),
        }
    }
}

#[async_trait]
impl Tool for Write {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, context: &CallContext, args: Value) -> Result<ToolOutput, ToolError> {
        let args: Arguments = arguments(args)?;
        let path = self.root.relative(&args.path)?;
        if args.path.ends_with('/') {
            return Err(ToolError::failed(format!(
                "`{}` ends in a slash, and so names a folder: folders are made with the files in them",
                shown(&args.path)
            )));
        }
        if args.content.len() > MAX_CONTENT_BYTES {
            return Err(ToolError::failed(format!(
                "the content for `{}` is too large: {} > {}",
                shown(path.as_str()),
                call::size(args.content.len() as u64),
                call::size(MAX_CONTENT_BYTES as u64)
            )));
        }
        let root = self.root.clone();
        blocking(context, move |cancel| write(&root, &path, &args.content, cancel)).await
    }
}

fn write(
    root: &Root,
    path: &RelPath,
    content: &str,
    cancel: &CancellationToken,
) -> Result<ToolOutput, ToolError> {
    let _alone = root.lock_writing();
    call::check(cancel)?;
    let slot = root.slot(path, Parents::Create)?;
    let mut existing = slot.existing()?;
    let mut before = None;
    if let Some(existing) = &mut existing {
        let size = u64::try_from(existing.stat.st_size).unwrap_or(0);
        let bytes = read_all(&mut existing.file, size, MAX_CONTENT_BYTES).map_err(|error| {
            ToolError::failed(format!("cannot read the old `{}`: {error}", shown(path.as_str())))
        })?;
        before = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    }
    call::check(cancel)?;
    slot.replace(
        content.as_bytes(),
        existing.as_ref().map(|existing| &existing.stat),
    )?;
    let diff = before.map(|before| diff::unified(path.as_str(), &before, content));
    let output = Output {
        path: path.to_string(),
        operation: if existing.is_some() {
            Operation::Replaced
        } else {
            Operation::Created
        },
        bytes_before: existing.map(|existing| u64::try_from(existing.stat.st_size).unwrap_or(0)),
        bytes_after: content.len() as u64,
        diff_truncated: diff.as_ref().is_some_and(|diff| diff.truncated),
        diff: diff.map(|diff| diff.text),
    };
    let shown = render(&output);
    call::output(&output, shown)
}

fn render(output: &Output) -> String {
    let size = call::size(output.bytes_after);
    let path = &output.path;
    match (output.operation, output.diff.as_deref()) {
        (Operation::Created, _) => format!("created `{path}` ({size})"),
        (Operation::Replaced, Some("")) if !output.diff_truncated => {
            format!("replaced `{path}` ({size}): the content is the same as before")
        }
        (Operation::Replaced, Some(diff)) => {
            let more = if output.diff_truncated {
                "(the diff goes on)\n"
            } else {
                ""
            };
            format!("replaced `{path}` ({size})\n{diff}{more}")
        }
        (Operation::Replaced, None) => format!("replaced `{path}` ({size})"),
    }
}
