//! A tool result as a client gets it.
//!
//! Some clients show a model only `structuredContent`, others only `content`: on success each carries the whole answer. A
//! failure has no `structuredContent`, because it would break the output schema that was announced.

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use toolweave_tools::{Content, ToolResult};

use crate::json::{self, JsonError};

/// Media blocks of one result.
const MAX_MEDIA_BLOCKS: usize = 100;
/// Text of all media blocks of one result.
const MAX_MEDIA_BYTES: usize = 16 * 1024 * 1024;

/// What a client's revision of the protocol can carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    /// Up to 2025-11-25: structured content is an object, results have no type.
    Initialize,
    /// From 2026-07-28 on.
    Stateless,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireResult<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    result_type: Option<&'static str>,
    content: Vec<WireBlock<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_content: Option<&'a Value>,
    is_error: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
enum WireBlock<'a> {
    Text {
        #[serde(rename = "type")]
        kind: &'static str,
        text: std::borrow::Cow<'a, str>,
    },
    Image {
        #[serde(rename = "type")]
        kind: &'static str,
        data: &'a str,
        #[serde(rename = "mimeType")]
        mime_type: &'a str,
    },
    Other(&'a Value),
}

/// Writes a result, and takes it apart.
///
/// # Errors
/// What cannot be written as JSON.
pub(crate) fn render(result: ToolResult, era: Era) -> Result<Box<RawValue>, JsonError> {
    let structured = result
        .structured
        .as_ref()
        .filter(|value| result.error.is_none() && (era == Era::Stateless || value.is_object()));
    let depth = result
        .content
        .iter()
        .filter_map(|block| match block {
            Content::Other { block } => Some(block),
            Content::Text(_) | Content::Image { .. } => None,
        })
        .chain(result.structured.as_ref())
        .map(json::depth)
        .max()
        .unwrap_or(0);
    let mut content = blocks(&result.content);
    if content.is_empty() {
        let text = match result.structured.as_ref().filter(|_| result.error.is_none()) {
            Some(value) => json::to_raw(value, depth)?.get().to_owned(),
            None => String::new(),
        };
        content.push(text_block(text));
    }
    let wire = WireResult {
        result_type: (era == Era::Stateless).then_some("complete"),
        content,
        structured_content: structured,
        is_error: result.error.is_some(),
    };
    let raw = json::to_raw(&wire, depth + 4);
    drop(wire);
    if let Some(value) = result.structured {
        json::drop_value(value);
    }
    for block in result.content {
        if let Content::Other { block } = block {
            json::drop_value(block);
        }
    }
    raw
}

/// Returns the blocks as they go out: all text, and media up to the caps, with a note on what did not fit.
fn blocks(content: &[Content]) -> Vec<WireBlock<'_>> {
    let mut blocks = Vec::with_capacity(content.len());
    let (mut media, mut bytes) = (0, 0);
    let (mut left_out, mut left_out_bytes) = (0_usize, 0);
    for block in content {
        let (size, wire) = match block {
            Content::Text(text) => {
                blocks.push(text_block(text.as_str()));
                continue;
            }
            Content::Image { data, mime_type } => (
                data.len(),
                WireBlock::Image {
                    kind: "image",
                    data,
                    mime_type,
                },
            ),
            Content::Other { block } => (text_size(block), WireBlock::Other(block)),
        };
        if media == MAX_MEDIA_BLOCKS || bytes + size > MAX_MEDIA_BYTES {
            left_out += 1;
            left_out_bytes += size;
            continue;
        }
        media += 1;
        bytes += size;
        blocks.push(wire);
    }
    if left_out > 0 {
        blocks.push(text_block(format!(
            "({left_out} media blocks with {left_out_bytes} bytes were left out: a result carries at most \
             {MAX_MEDIA_BLOCKS} of them and {MAX_MEDIA_BYTES} bytes)"
        )));
    }
    blocks
}

fn text_block<'a>(text: impl Into<std::borrow::Cow<'a, str>>) -> WireBlock<'a> {
    WireBlock::Text {
        kind: "text",
        text: text.into(),
    }
}

/// Returns how much text a block holds.
fn text_size(value: &Value) -> usize {
    let mut size = 0;
    let mut rest = vec![value];
    while let Some(value) = rest.pop() {
        match value {
            Value::String(text) => size += text.len(),
            Value::Array(items) => rest.extend(items),
            Value::Object(members) => rest.extend(members.values()),
            Value::Null | Value::Bool(_) | Value::Number(_) => size += 8,
        }
    }
    size
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolweave_tools::ErrorCode;

    use super::*;

    fn rendered(result: ToolResult, era: Era) -> Value {
        serde_json::from_str(render(result, era).expect("JSON").get()).expect("JSON")
    }

    fn text(text: &str) -> Vec<Content> {
        vec![Content::Text(text.to_owned())]
    }

    #[test]
    fn a_success_says_everything_twice_and_a_failure_once() {
        let success = ToolResult {
            content: text("two"),
            structured: Some(json!({"logs": [], "result": 2})),
            error: None,
        };
        assert_eq!(
            rendered(success.clone(), Era::Initialize),
            json!({
                "content": [{"type": "text", "text": "two"}],
                "structuredContent": {"logs": [], "result": 2},
                "isError": false,
            })
        );
        assert_eq!(
            rendered(success.clone(), Era::Stateless)["resultType"],
            "complete"
        );
        let failure = ToolResult {
            error: Some(ErrorCode::CodeRunFailed),
            ..success
        };
        assert_eq!(
            rendered(failure, Era::Initialize),
            json!({"content": [{"type": "text", "text": "two"}], "isError": true})
        );
    }

    #[test]
    fn structured_content_that_is_no_object_needs_the_newer_revision() {
        let result = ToolResult {
            content: Vec::new(),
            structured: Some(json!([1])),
            error: None,
        };
        assert_eq!(
            rendered(result.clone(), Era::Initialize),
            json!({"content": [{"type": "text", "text": "[1]"}], "isError": false})
        );
        assert_eq!(
            rendered(result, Era::Stateless),
            json!({
                "resultType": "complete",
                "content": [{"type": "text", "text": "[1]"}],
                "structuredContent": [1],
                "isError": false,
            })
        );
    }

    #[test]
    fn media_ride_along_up_to_a_cap_and_the_rest_is_mentioned() {
        let image = |n: usize| Content::Image {
            data: format!("{n:04}"),
            mime_type: "image/png".to_owned(),
        };
        let link = json!({"type": "resource_link", "uri": "a:b", "name": "b"});
        let mut content = text("done");
        content.push(Content::Other { block: link.clone() });
        content.extend((0..200).map(image));
        let result = ToolResult {
            content,
            structured: None,
            error: None,
        };
        let wire = rendered(result, Era::Initialize);
        let blocks = wire["content"].as_array().expect("blocks");
        assert_eq!(blocks.len(), 1 + MAX_MEDIA_BLOCKS + 1);
        assert_eq!(blocks[1], link);
        assert_eq!(
            blocks[2],
            json!({"type": "image", "data": "0000", "mimeType": "image/png"})
        );
        assert_eq!(
            blocks[101],
            json!({"type": "text", "text": "(101 media blocks with 404 bytes were left out: a result carries at most \
                                            100 of them and 16777216 bytes)"})
        );
    }
}
