//! What a server says its tools are, read page by page. One bad entry costs that tool.

use std::collections::HashSet;

use rmcp::model::{ClientRequest, GetExtensions, ListToolsRequest, PaginatedRequestParams};
use rmcp::service::{Peer, PeerRequestOptions, RoleClient};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolweave_tools::Effect;

use super::config::Annotations;
use super::transport::{Answer, RawAnswer};
use crate::json::{self, excerpt};

/// Pages that are asked for.
const MAX_PAGES: usize = 1_000;
/// Tools of one server.
const MAX_TOOLS: usize = 10_000;
/// Text of all pages together.
const MAX_LIST_BYTES: usize = 64 * 1024 * 1024;
/// Text of one schema; a larger one is not used.
const MAX_SCHEMA_BYTES: usize = 1024 * 1024;
/// Nesting of one schema; a deeper one is not used.
const MAX_SCHEMA_DEPTH: usize = 64;
/// Characters of a description that are kept.
const MAX_DESCRIPTION_CHARS: usize = 100_000;
/// Characters of a tool's own name.
const MAX_RAW_NAME_CHARS: usize = 1_000;
/// Remarks about one listing.
const MAX_NOTES: usize = 50;

/// A server's tools, and what was wrong with the list.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) tools: Vec<ListedTool>,
    pub(crate) notes: Vec<String>,
    seen: HashSet<String>,
}

/// One tool as its server declares it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ListedTool {
    /// The name on the wire.
    pub(crate) name: String,
    pub(crate) title: Option<String>,
    pub(crate) description: String,
    pub(crate) input_schema: Value,
    pub(crate) output_schema: Option<Value>,
    pub(crate) hints: Hints,
}

/// The annotations that matter here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hints {
    read_only: Option<bool>,
    destructive: Option<bool>,
}

impl Hints {
    /// Returns what the tool is said to do. A tool that is said to be read-only and destructive is destructive.
    pub(crate) fn effect(self, annotations: Annotations) -> Effect {
        match (annotations, self.read_only, self.destructive) {
            (Annotations::Ignored, ..) => Effect::Unknown,
            (Annotations::Trusted, _, Some(true)) => Effect::Destructive,
            (Annotations::Trusted, Some(true), _) => Effect::Read,
            (Annotations::Trusted, _, Some(false)) => Effect::Write,
            (Annotations::Trusted, _, None) => Effect::Unknown,
        }
    }
}

/// Asks for all pages.
///
/// # Errors
/// Why there is no list. What is merely odd about it becomes a note.
pub(crate) async fn list_tools(peer: &Peer<RoleClient>) -> Result<Listing, String> {
    let mut listing = Listing::default();
    let mut cursor: Option<String> = None;
    let mut bytes = 0;
    for page in 1.. {
        let text = match list_page(peer, cursor.clone()).await? {
            Page::Text(text) => text,
            Page::NoTools => return Ok(listing),
        };
        bytes += text.len();
        let next = listing.read_page(&text)?;
        let Some(next) = next else { break };
        let limit = if page == MAX_PAGES {
            Some(format!("{MAX_PAGES} pages"))
        } else if listing.tools.len() > MAX_TOOLS {
            Some(format!("{MAX_TOOLS} tools"))
        } else if bytes > MAX_LIST_BYTES {
            Some(format!("{MAX_LIST_BYTES} bytes"))
        } else if cursor.as_ref() == Some(&next) {
            Some("the same cursor was sent twice".to_owned())
        } else {
            None
        };
        if let Some(limit) = limit {
            listing.note(format!("the tool list was cut off: {limit}"));
            break;
        }
        cursor = Some(next);
    }
    listing.tools.truncate(MAX_TOOLS);
    Ok(listing)
}

enum Page {
    Text(String),
    /// The server does not know the method.
    NoTools,
}

async fn list_page(peer: &Peer<RoleClient>, cursor: Option<String>) -> Result<Page, String> {
    let mut request = ClientRequest::ListToolsRequest(ListToolsRequest {
        params: cursor.map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor))),
        ..Default::default()
    });
    let answer = RawAnswer::default();
    request.extensions_mut().insert(answer.clone());
    let handle = peer
        .send_cancellable_request(request, PeerRequestOptions::no_options())
        .await
        .map_err(|error| format!("tools/list failed: {error}"))?;
    match handle.await_response().await {
        Ok(result) => match answer.take() {
            Some(Answer::Text(text)) => Ok(Page::Text(text)),
            Some(Answer::Unreadable(reason)) => Err(format!("tools/list failed: {reason}")),
            None => serde_json::to_string(&result)
                .map(Page::Text)
                .map_err(|error| format!("tools/list failed: {error}")),
        },
        Err(rmcp::ServiceError::McpError(error))
            if error.code == rmcp::model::ErrorCode::METHOD_NOT_FOUND =>
        {
            Ok(Page::NoTools)
        }
        Err(rmcp::ServiceError::McpError(error)) => Err(format!(
            "tools/list failed: {} (error {})",
            excerpt(&error.message, 500),
            error.code.0
        )),
        Err(error) => Err(format!("tools/list failed: {error}")),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawPage<'a> {
    #[serde(borrow)]
    tools: Vec<&'a RawValue>,
    #[serde(default)]
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawTool<'a> {
    name: String,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(borrow, default)]
    input_schema: Option<&'a RawValue>,
    #[serde(borrow, default)]
    output_schema: Option<&'a RawValue>,
    #[serde(borrow, default)]
    annotations: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawAnnotations {
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    read_only_hint: Option<bool>,
    #[serde(default)]
    destructive_hint: Option<bool>,
}

impl Listing {
    /// Adds one page and returns the cursor of the next.
    fn read_page(&mut self, text: &str) -> Result<Option<String>, String> {
        let page: RawPage<'_> = serde_json::from_str(text)
            .map_err(|error| format!("tools/list answered with something that cannot be read: {error}"))?;
        for raw in page.tools {
            match serde_json::from_str::<RawTool<'_>>(raw.get()) {
                Ok(tool) => self.add(tool),
                Err(error) => self.note(format!(
                    "a tool was left out: {error} in {}",
                    excerpt(raw.get(), 200)
                )),
            }
        }
        Ok(page.next_cursor.filter(|cursor| !cursor.is_empty()))
    }

    fn add(&mut self, raw: RawTool<'_>) {
        if raw.name.is_empty() || raw.name.chars().nth(MAX_RAW_NAME_CHARS).is_some() {
            self.note(format!(
                "a tool was left out: unusable name `{}`",
                excerpt(&raw.name, 100)
            ));
            return;
        }
        if !self.seen.insert(raw.name.clone()) {
            self.note(format!(
                "`{}` is listed twice; the first one counts",
                excerpt(&raw.name, 100)
            ));
            return;
        }
        let annotations: RawAnnotations = raw
            .annotations
            .and_then(|raw| json::parse_shallow(raw.get()).ok())
            .unwrap_or_default();
        let input_schema = self.schema(&raw.name, "inputSchema", raw.input_schema);
        let output_schema = raw
            .output_schema
            .and_then(|schema| self.schema(&raw.name, "outputSchema", Some(schema)));
        self.tools.push(ListedTool {
            title: raw.title.or(annotations.title).map(|title| excerpt(&title, 500)),
            description: excerpt(raw.description.as_deref().unwrap_or(""), MAX_DESCRIPTION_CHARS),
            // Without a usable schema a tool takes any object.
            input_schema: input_schema.unwrap_or_else(|| json!({"type": "object"})),
            output_schema,
            hints: Hints {
                read_only: annotations.read_only_hint,
                destructive: annotations.destructive_hint,
            },
            name: raw.name,
        });
    }

    fn schema(&mut self, tool: &str, which: &str, raw: Option<&RawValue>) -> Option<Value> {
        let tool = excerpt(tool, 100);
        let Some(raw) = raw else {
            self.note(format!("`{tool}` has no {which}"));
            return None;
        };
        if raw.get().len() > MAX_SCHEMA_BYTES {
            self.note(format!(
                "{which} of `{tool}` is not used: {} bytes > {MAX_SCHEMA_BYTES} bytes",
                raw.get().len()
            ));
            return None;
        }
        let value = match json::parse(raw.get()) {
            Ok(value) => value,
            Err(error) => {
                self.note(format!("{which} of `{tool}` is not used: {error}"));
                return None;
            }
        };
        if json::depth(&value) > MAX_SCHEMA_DEPTH {
            json::drop_value(value);
            self.note(format!(
                "{which} of `{tool}` is not used: nested deeper than {MAX_SCHEMA_DEPTH} levels"
            ));
            return None;
        }
        if !value.is_object() {
            self.note(format!("{which} of `{tool}` is not used: not an object"));
            return None;
        }
        Some(value)
    }

    fn note(&mut self, note: String) {
        if self.notes.len() < MAX_NOTES {
            self.notes.push(note);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_entry_costs_itself() {
        let deep = "{\"items\":".repeat(200) + "{}" + &"}".repeat(200);
        let page = format!(
            r#"{{"tools":[
                {{"name":"good","description":"d","inputSchema":{{"type":"object"}},"annotations":{{"readOnlyHint":true,"title":"T"}}}},
                {{"name":7}},
                {{"name":"good","inputSchema":{{}}}},
                {{"name":"bare"}},
                {{"name":"deep","inputSchema":{deep},"outputSchema":true}}
            ],"nextCursor":"n"}}"#
        );
        let mut listing = Listing::default();
        assert_eq!(listing.read_page(&page), Ok(Some("n".to_owned())));
        let names: Vec<_> = listing
            .tools
            .iter()
            .map(|tool| {
                (
                    tool.name.as_str(),
                    tool.title.as_deref(),
                    tool.output_schema.is_some(),
                )
            })
            .collect();
        assert_eq!(
            names,
            [
                ("good", Some("T"), false),
                ("bare", None, false),
                ("deep", None, false)
            ]
        );
        assert_eq!(listing.tools[2].input_schema, json!({"type": "object"}));
        assert_eq!(
            listing.notes,
            [
                "a tool was left out: invalid type: integer `7`, expected a string at line 1 column 9 in {\"name\":7}",
                "`good` is listed twice; the first one counts",
                "`bare` has no inputSchema",
                "inputSchema of `deep` is not used: nested deeper than 64 levels",
                "outputSchema of `deep` is not used: not an object",
            ]
        );
        assert!(listing.read_page("{}").is_err());
    }

    #[test]
    fn hints_decide_the_effect() {
        for (read_only, destructive, expected) in [
            (None, None, Effect::Unknown),
            (Some(true), None, Effect::Read),
            (Some(true), Some(false), Effect::Read),
            (Some(true), Some(true), Effect::Destructive),
            (Some(false), None, Effect::Unknown),
            (Some(false), Some(false), Effect::Write),
            (None, Some(true), Effect::Destructive),
        ] {
            let hints = Hints {
                read_only,
                destructive,
            };
            assert_eq!(hints.effect(Annotations::Trusted), expected, "{hints:?}");
            assert_eq!(hints.effect(Annotations::Ignored), Effect::Unknown);
        }
    }
}
