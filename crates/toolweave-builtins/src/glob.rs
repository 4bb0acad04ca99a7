//! `glob`: files by name.

use async_trait::async_trait;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolweave_tools::{CallContext, Effect, ErrorCode, Tool, ToolError, ToolOutput, ToolSpec};

use crate::call::{self, MAX_SHOWN_BYTES, arguments, arguments_schema, blocking};
use crate::root::shown;
use crate::walk::{Walk, WalkEnd, WalkOptions};
use crate::{Root, RootError};

/// Most bytes of a pattern.
const MAX_PATTERN_BYTES: usize = 1_000;

/// Most paths that one call returns, and how many when the caller does not say.
const MAX_PATHS: u64 = 100_000;
const DEFAULT_PATHS: u64 = 10_000;

/// Most bytes of all paths that one call returns.
const MAX_TEXT_BYTES: usize = 16 * 1024 * 1024;

/// Most paths that a model is shown for one call. A program gets all of them.
const MAX_SHOWN_PATHS: usize = 1_000;

pub(crate) struct Glob {
    root: Root,
    spec: ToolSpec,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    pattern: String,
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    hidden: bool,
    #[serde(default)]
    ignored: bool,
    #[serde(default, deserialize_with = "call::whole")]
    limit: Option<u64>,
}

#[derive(Serialize)]
struct Output {
    paths: Vec<String>,
    total: u64,
    truncated: bool,
}

impl Glob {
    pub(crate) fn new(root: Root) -> Self {
        let input = arguments_schema(
            &[json!({
                "pattern": {
                    "type": "string", "minLength": 1,
                    "description": "Glob relative to `path`: `**/*.ts` for any depth, `*.ts` for the folder itself, \
                        `{a,b}`, `[a-z]`, `?`.",
                },
                "path": {
                    "type": "string", "default": ".",
                    "description": "Folder to look in, relative to the root folder.",
                },
                "hidden": {
                    "type": "boolean", "default": false,
                    "description": "Also names that begin with a dot.",
                },
                "ignored": {
                    "type": "boolean", "default": false,
                    "description": "Also what `.gitignore` and `.ignore` leave out.",
                },
                "limit": {
                    "type": "integer", "minimum": 1, "maximum": MAX_PATHS, "default": DEFAULT_PATHS,
                    "description": "Most paths to return.",
                },
            })],
            &["pattern"],
        );
        let output = json!({
            "type": "object",
            "properties": {
                "paths": {
                    "type": "array", "items": { "type": "string" },
                    "description": "Files, relative to the root folder, sorted.",
                },
                "total": { "type": "integer", "description": "Files that match, returned or not." },
                "truncated": {
                    "type": "boolean",
                    "description": "Whether there are more than `paths` has, or the folder is too large to see all.",
                },
            },
            "required": ["paths", "total", "truncated"],
            "additionalProperties": false,
        });
        Self {
            root,
            spec: call::spec(
                "glob",
                "Find files",
                "Finds files by name pattern. Leaves out hidden and git-ignored files unless asked, and does not \
                 follow links. The paths can be given to the other tools as they are.",
                Effect::Read,
                input,
                output,
            ),
        }
    }
}

#[async_trait]
impl Tool for Glob {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, context: &CallContext, args: Value) -> Result<ToolOutput, ToolError> {
        let args: Arguments = arguments(args)?;
        let root = self.root.clone();
        blocking(context, move |cancel| glob(&root, &args, cancel)).await
    }
}

fn glob(root: &Root, args: &Arguments, cancel: &CancellationToken) -> Result<ToolOutput, ToolError> {
    let base = root.relative(args.path.as_deref().unwrap_or("."))?;
    let Pattern { folder, rest } = Pattern::parse(&args.pattern)?;
    let matcher = matcher(&rest, AnyDepth::No)?;
    // An absolute pattern counts from the file system's root, any other from the folder.
    let start = match folder.as_str() {
        "" => base.clone(),
        absolute if absolute.starts_with('/') => root.relative(absolute)?,
        below => root.relative(&base.join(below))?,
    };
    let options = WalkOptions {
        hidden: args.hidden || names_hidden(&rest),
        ignored: args.ignored,
    };
    let limit = args.limit.unwrap_or(DEFAULT_PATHS).min(MAX_PATHS) as usize;
    let mut room = MAX_TEXT_BYTES;
    let mut output = Output {
        paths: Vec::new(),
        total: 0,
        truncated: false,
    };
    match Walk::new(root, start.clone(), options) {
        // A pattern may name a folder that is not there; then nothing matches. An argument may not.
        Err(RootError::Missing { .. } | RootError::NotDirectory { .. }) if start != base => {
            root.open_directory(&base)?;
        }
        Err(error) => return Err(error.into()),
        Ok(walk) => {
            let walked = walk.run(cancel, |found| {
                if matcher.is_match(found.below) {
                    output.total += 1;
                    if output.paths.len() < limit && room > 0 {
                        room = room.saturating_sub(found.path.len());
                        output.paths.push(found.path.to_owned());
                    }
                }
            });
            if walked.end == WalkEnd::Cancelled {
                return Err(call::aborted());
            }
            output.truncated = walked.end == WalkEnd::TooMany || output.total > output.paths.len() as u64;
        }
    }
    let shown = render(&output, &args.pattern);
    call::output(&output, shown)
}

/// A pattern, split where its wildcards begin.
struct Pattern {
    /// Folders without a wildcard. Looking starts there.
    folder: String,
    /// The rest, relative to that folder.
    rest: String,
}

impl Pattern {
    fn parse(pattern: &str) -> Result<Self, ToolError> {
        check_pattern(pattern)?;
        let names: Vec<&str> = pattern.split('/').collect();
        if names.contains(&"..") {
            return Err(ToolError::failed(format!(
                "the pattern `{}` has a `..`: patterns find files below `path` only",
                shown(pattern)
            )));
        }
        let absolute = pattern.starts_with('/');
        let names: Vec<&str> = names
            .into_iter()
            .filter(|name| !name.is_empty() && *name != ".")
            .collect();
        let mut literal = names
            .iter()
            .take_while(|name| !name.contains(['*', '?', '[', ']', '{', '}', '\\']))
            .count();
        let folder_only = pattern.ends_with('/');
        if literal == names.len() && !folder_only {
            literal = literal.saturating_sub(1);
        }
        let rest = names[literal..].join("/");
        let mut folder = names[..literal].join("/");
        if absolute {
            folder.insert(0, '/');
        }
        Ok(Self {
            folder,
            rest: match (rest.is_empty(), folder_only) {
                (true, _) => "**".to_owned(),
                (false, true) => format!("{rest}/**"),
                (false, false) => rest,
            },
        })
    }
}

/// Where a pattern without a slash matches.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnyDepth {
    Yes,
    No,
}

/// Compiles a pattern. A failure says what is wrong with it.
pub(crate) fn matcher(pattern: &str, any_depth: AnyDepth) -> Result<GlobSet, ToolError> {
    check_pattern(pattern)?;
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    let deep;
    let full = if any_depth == AnyDepth::Yes && !pattern.contains('/') {
        deep = format!("**/{pattern}");
        &deep
    } else {
        pattern
    };
    let wrong = |error: &globset::Error| {
        ToolError::new(
            ErrorCode::InvalidArgs,
            format!("the pattern `{}` is not a glob: {}", shown(pattern), error.kind()),
        )
    };
    let glob = GlobBuilder::new(full)
        .literal_separator(true)
        .backslash_escape(true)
        .empty_alternates(true)
        .build()
        .map_err(|error| wrong(&error))?;
    GlobSetBuilder::new()
        .add(glob)
        .build()
        .map_err(|error| wrong(&error))
}

/// Whether a pattern itself asks for a name that begins with a dot.
pub(crate) fn names_hidden(pattern: &str) -> bool {
    pattern.split(['/', '{', ',']).any(|name| name.starts_with('.'))
}

fn check_pattern(pattern: &str) -> Result<(), ToolError> {
    let problem = if pattern.is_empty() {
        "is empty".to_owned()
    } else if pattern.len() > MAX_PATTERN_BYTES {
        format!("is too long: {} bytes > {MAX_PATTERN_BYTES}", pattern.len())
    } else if pattern.contains('\0') {
        "contains a NUL character".to_owned()
    } else {
        return Ok(());
    };
    Err(ToolError::new(
        ErrorCode::InvalidArgs,
        format!("the pattern {problem}"),
    ))
}

fn render(output: &Output, pattern: &str) -> String {
    if output.total == 0 {
        let pattern = shown(pattern);
        return if output.truncated {
            format!("no file matches `{pattern}` among the first that were looked at: give a smaller `path`")
        } else {
            format!("no file matches `{pattern}`")
        };
    }
    let mut out = String::new();
    let mut lines = 0;
    for path in &output.paths {
        if lines == MAX_SHOWN_PATHS || out.len() + path.len() > MAX_SHOWN_BYTES {
            break;
        }
        out.push_str(path);
        out.push('\n');
        lines += 1;
    }
    if output.truncated || lines < output.paths.len() {
        out.push_str(&format!(
            "({lines} of {} files; narrow the pattern)",
            output.total
        ));
    } else {
        out.pop();
    }
    out
}
