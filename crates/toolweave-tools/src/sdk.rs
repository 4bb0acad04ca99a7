//! The text through which a model learns to call tools from a program: instructions, then one TypeScript block.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};
use toolweave_codegen::{Detail, Language, Output, ToolDecl};

use crate::observed::Learned;
use crate::registry::{Entry, Snapshot};
use crate::run::{is_hidden_name, shadows_discovery};
use crate::text::clip;
use crate::{ModeError, RUN_CODE, SdkDetail, SdkSection, WireTool};

/// Providers named in the short form, and the characters of each name.
const LISTED_PROVIDERS: usize = 16;
const PROVIDER_CHARS: usize = 32;
/// Unusual names that the notes mention.
const NOTED_NAMES: usize = 5;
const NOTED_CHARS: usize = 64;

/// What a model reads of `run_code` first. Clients cut descriptions, some at 1,024 characters, so this is complete within
/// that, and what matters comes first.
const DESCRIPTION: &str = "Run a TypeScript program that calls tools. Use one program for a whole task: loop, filter \
and combine inside it, and return only what you need.

`code` is the body of an async function; `await` and `return` work at its top level. Call tools as `await \
tools.name({ ... })`: one object in, typed JSON out. A failed call throws `ToolCallError` (`toolName`, `message`). \
Independent reads may overlap with `Promise.all`; calls that change something run alone, in order.

You see only what the program prints with `console.log` and what it returns; images from tools are attached \
afterwards. Each run starts fresh. There are no imports, files, network or processes except through tools. What a \
failed program had already done stays done; the error lists it.";

/// The end of the description by what the `code` parameter shows.
const ALL_SHOWN: &str = "\n\nThe description of `code` declares every tool.";
const NAMES_SHOWN: &str = "\n\nThe description of `code` has a signature of every tool; `await tools.help(\"name\")` \
tells more.";
const DISCOVER: &str = "\n\nFind tools first: `return await tools.search(\"what you need\")` gives names and signatures; \
`await tools.help(\"name\")` tells more.";

const INSTRUCTIONS: &str = "Programs reach tools through the global `tools`.

- `run_code` takes `description` (what the program does, in a few words) and `code`: the body of an async function in \
TypeScript. Types help you and are erased, not checked.
- Call `await tools.name({ ... })`; a name that is no identifier goes in brackets: `tools[\"my-tool.x\"]({ ... })`. \
Arguments are one object of lossless JSON (no NaN, BigInt, Map, Set, function or cycle); none means `{}`.
- A call gives typed JSON. One that fails rejects with `ToolCallError` (`toolName`, `message`); catch it to go on.
- Independent read-only calls overlap under `Promise.all`; calls that change something run alone, in order.
- Only what you print with `console.log` or `return` comes back. Images from tools are attached after the run.";

const DISCOVERY: &str = "- `await tools.search(\"words\", { limit })` finds tools with their signatures, \
`await tools.help(\"name\")` tells everything about one, `tools.list()` gives all names.";

const SEARCH_BLOCK: &str = "type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
declare class ToolCallError extends Error { toolName: string; message: string }
declare const tools: {
  /** Best matches first, by words in names, descriptions and parameters. */
  search(query: string, options?: { limit?: number }): Promise<{ name: string; description: string; signature: string }[]>;
  /** Description, types, effect and provider of one tool. */
  help(name: string): Promise<string>;
  /** The names of all tools. */
  list(): string[];
  /** Every tool, by its name. */
  [name: string]: any;
};";

/// Returns the section for one set of tools.
pub(crate) fn section(
    snapshot: &Snapshot,
    learned: Option<&Learned>,
    language: &str,
    wanted: SdkDetail,
    budget_chars: usize,
) -> Result<SdkSection, ModeError> {
    let language = Language::named(language).map_err(|_| ModeError::UnknownLanguage {
        language: language.to_owned(),
        known: "typescript".to_owned(),
    })?;
    if wanted != SdkDetail::Auto {
        return Ok(SdkSection {
            text: text(snapshot, learned, language, wanted),
            detail: wanted,
            note: format!("`{}` was asked for", name(wanted)),
        });
    }
    let mut tried = Vec::new();
    for detail in [SdkDetail::Full, SdkDetail::Compact] {
        let text = text(snapshot, learned, language, detail);
        let chars = text.chars().count();
        if chars <= budget_chars {
            tried.insert(
                0,
                format!(
                    "auto picked `{}`: {chars} characters fit the budget of {budget_chars}",
                    name(detail)
                ),
            );
            return Ok(SdkSection {
                text,
                detail,
                note: tried.join("; "),
            });
        }
        tried.push(format!("`{}` would take {chars} characters", name(detail)));
    }
    Ok(SdkSection {
        text: text(snapshot, learned, language, SdkDetail::Search),
        detail: SdkDetail::Search,
        note: format!(
            "auto picked `search`: {}, the budget is {budget_chars}",
            tried.join(", ")
        ),
    })
}

/// Returns `run_code` as it goes on the wire.
pub(crate) fn run_code_tool(section: &SdkSection) -> WireTool {
    let end = match section.detail {
        SdkDetail::Full | SdkDetail::Auto => ALL_SHOWN,
        SdkDetail::Compact => NAMES_SHOWN,
        SdkDetail::Search => DISCOVER,
    };
    WireTool {
        name: RUN_CODE.to_owned(),
        title: Some("Run code".to_owned()),
        description: format!("{DESCRIPTION}{end}"),
        input_schema: json!({
            "type": "object",
            "properties": {
                "description": {
                    "type": "string",
                    "minLength": 1,
                    "description": "What the program does, in a few words, for the person who watches.",
                },
                "code": {
                    "type": "string",
                    "minLength": 1,
                    "description": section.text,
                },
                "timeoutMs": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "Gives up after this many milliseconds; optional, the configured limit holds anyway.",
                },
            },
            "required": ["description", "code"],
            "additionalProperties": false,
        }),
        output_schema: Some(output_schema()),
        effect: crate::Effect::Unknown,
    }
}

/// Returns the schema of what `run_code` gives as structured content.
fn output_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "logs": {
                "type": "array",
                "items": { "type": "string" },
                "description": "What the program printed, one entry a call.",
            },
            "result": { "description": "What the program returned; absent when it returned nothing." },
            "warnings": {
                "type": "array",
                "items": { "type": "string" },
                "description": "What looks wrong with the program although it ran.",
            },
            "truncated": {
                "type": "string",
                "description": "Which parts are previews of something larger.",
            },
        },
        "required": ["logs"],
    })
}

/// Returns a tool as the code generator takes it. What was observed counts where nothing is declared.
pub(crate) fn declaration<'a>(entry: &'a Entry, observed: Option<&'a Value>) -> ToolDecl<'a> {
    let spec = entry.spec();
    ToolDecl {
        name: &entry.name,
        description: &spec.description,
        input: &spec.input_schema,
        output: match (&spec.output_schema, observed) {
            (Some(schema), _) => Output::Declared(schema),
            (None, Some(schema)) => Output::Observed(schema),
            (None, None) => Output::Unknown,
        },
    }
}

pub(crate) fn name(detail: SdkDetail) -> &'static str {
    match detail {
        SdkDetail::Full => "full",
        SdkDetail::Compact => "compact",
        SdkDetail::Search => "search",
        SdkDetail::Auto => "auto",
    }
}

fn text(snapshot: &Snapshot, learned: Option<&Learned>, language: Language, detail: SdkDetail) -> String {
    let mut text = INSTRUCTIONS.to_owned();
    if detail != SdkDetail::Full {
        text.push('\n');
        text.push_str(DISCOVERY);
    }
    notes(snapshot, &mut text);
    let block = match detail {
        SdkDetail::Search => {
            providers(snapshot, &mut text);
            SEARCH_BLOCK.to_owned()
        }
        SdkDetail::Full | SdkDetail::Auto => declared(snapshot, learned, language, Detail::Full),
        SdkDetail::Compact => declared(snapshot, learned, language, Detail::Compact),
    };
    // A description may hold a fence of its own; ours is longer than any.
    let fence = "`".repeat(longest_ticks(&block).max(2) + 1);
    let _ = write!(text, "\n\n{fence}ts\n{}\n{fence}", block.trim_end());
    text
}

fn declared(snapshot: &Snapshot, learned: Option<&Learned>, language: Language, detail: Detail) -> String {
    let observed: Vec<_> = snapshot
        .entries
        .iter()
        .map(|entry| learned.and_then(|learned| learned.pinned(entry)))
        .collect();
    let tools: Vec<_> = snapshot
        .entries
        .iter()
        .zip(&observed)
        .map(|(entry, observed)| declaration(entry, observed.as_deref()))
        .collect();
    language.declarations(&tools, detail)
}

/// Mentions tools that cannot be called like the others.
fn notes(snapshot: &Snapshot, text: &mut String) {
    let quoted = |names: Vec<&str>| {
        let mut shown: Vec<_> = names
            .iter()
            .take(NOTED_NAMES)
            .map(|name| format!("`{}`", clip(name, NOTED_CHARS)))
            .collect();
        if names.len() > NOTED_NAMES {
            shown.push("…".to_owned());
        }
        shown.join(", ")
    };
    let hidden: Vec<_> = snapshot.names().filter(|name| is_hidden_name(name)).collect();
    if !hidden.is_empty() {
        let _ = write!(
            text,
            "\n- Call {} as `tools.$call(\"name\", {{ ... }})`.",
            quoted(hidden)
        );
    }
    let shadowing: Vec<_> = snapshot.names().filter(|name| shadows_discovery(name)).collect();
    if !shadowing.is_empty() {
        let _ = write!(
            text,
            "\n- {} here are ordinary tools; to discover tools use `tools.$search`, `tools.$help`, `tools.$list`.",
            quoted(shadowing)
        );
    }
}

/// Says in one line where tools come from, since the short form names none of them.
fn providers(snapshot: &Snapshot, text: &mut String) {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in &snapshot.entries {
        *counts.entry(&entry.spec().provider.name).or_default() += 1;
    }
    let more = counts.len().saturating_sub(LISTED_PROVIDERS);
    let listed: Vec<_> = counts
        .into_iter()
        .take(LISTED_PROVIDERS)
        .map(|(provider, count)| format!("{} ({count})", clip(provider, PROVIDER_CHARS)))
        .collect();
    let _ = write!(
        text,
        "\n- {} tools, by provider: {}",
        snapshot.entries.len(),
        listed.join(", ")
    );
    if more > 0 {
        let _ = write!(text, ", and {more} more");
    }
    text.push('.');
}

fn longest_ticks(text: &str) -> usize {
    let (mut longest, mut run) = (0, 0);
    for byte in text.bytes() {
        run = if byte == b'`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}
