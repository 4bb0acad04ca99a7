//! What a program and a model get out of the answer to a tool call (design section 8).
//!
//! A program gets one value:
//! * `structuredContent`, when there is one that is not `null`;
//! * else the text. Several text blocks are joined by newlines. Text that is a JSON object or array becomes that value; a
//!   bare number or word stays text, so that no digit is lost;
//! * media (images, audio, resources, links) as descriptions `{kind, mimeType, bytes, …}`, without their base64. Media
//!   alone is that description, or an array of them; beside text it is `{text, media: […]}`;
//! * `null` for no content at all.
//!
//! A model gets every block, in order, as it came.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use toolweave_tools::{Content, ErrorCode, ToolError, ToolOutput};

use crate::json::{self, JsonError, excerpt, joined};

/// Characters of a failure's text that are passed on.
const MAX_ERROR_CHARS: usize = 50_000;
/// Characters of data shown inside an error.
const SHOWN_DATA_CHARS: usize = 2_000;
/// Blocks of one result that are looked at.
const MAX_BLOCKS: usize = 10_000;
/// Deepest media block that is passed on.
const MAX_BLOCK_DEPTH: usize = 64;

/// Who answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'s> {
    pub(crate) server: &'s str,
    pub(crate) tool: &'s str,
    pub(crate) schema: Schema,
}

/// Whether the tool announced what its results look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Schema {
    Announced,
    None,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallResult<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    structured_content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    is_error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result_type: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Block<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
    #[serde(borrow, default)]
    mime_type: Option<&'a RawValue>,
    #[serde(borrow, default)]
    resource: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource<'a> {
    #[serde(borrow, default)]
    uri: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    mime_type: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    blob: Option<Cow<'a, str>>,
}

/// The blocks of a result, sorted.
#[derive(Default)]
struct Blocks {
    content: Vec<Content>,
    texts: Vec<String>,
    media: Vec<Value>,
}

/// Turns the text of a `tools/call` result into what the call gave.
///
/// # Errors
/// The tool's own failure, or an answer that cannot be used; both name the tool and what to look at.
pub(crate) fn output(text: &str, source: Source<'_>) -> Result<ToolOutput, ToolError> {
    let unreadable = |error: &dyn std::fmt::Display| {
        ToolError::new(
            ErrorCode::InvalidToolOutput,
            format!(
                "server `{}` answered `{}` with something that cannot be read: {error}",
                source.server, source.tool
            ),
        )
    };
    if !text.starts_with('{') {
        return Err(unreadable(&"the result is not an object"));
    }
    let result: CallResult<'_> =
        serde_json::from_str(text).map_err(|error| unreadable(&JsonError::from(error)))?;
    if let Some(kind) = result.result_type.map(RawValue::get)
        && kind != "\"complete\""
    {
        return Err(ToolError::failed(format!(
            "server `{}` asks for more input before `{}` can go on, which is not supported (result type {kind})",
            source.server, source.tool
        )));
    }
    let blocks = match result.content {
        Some(content) => read_blocks(content.get()).map_err(|error| unreadable(&error))?,
        None => Blocks::default(),
    };
    if result.is_error.is_some_and(|flag| flag.get() == "true") {
        return Err(failure(blocks, result.structured_content, source));
    }
    if let Some(structured) = result.structured_content {
        let value = json::parse(structured.get()).map_err(|error| unreadable(&error))?;
        let mut content = blocks.content;
        if content.is_empty() {
            content.push(Content::Text(structured.get().to_owned()));
        }
        return Ok(ToolOutput { value, content });
    }
    let joined_text = blocks.texts.join("\n");
    let value = if blocks.media.is_empty() {
        if blocks.texts.is_empty() {
            Value::Null
        } else {
            from_text(&joined_text)
        }
    } else if blocks.texts.is_empty() {
        let mut media = blocks.media;
        if media.len() == 1 {
            media.remove(0)
        } else {
            Value::Array(media)
        }
    } else {
        json!({"text": joined_text, "media": blocks.media})
    };
    if source.schema == Schema::Announced && !value.is_object() {
        json::drop_value(value);
        let mut error = ToolError::new(
            ErrorCode::InvalidToolOutput,
            format!(
                "`{}` of server `{}` announces an output schema but sent no structuredContent; it sent: {}",
                source.tool,
                source.server,
                excerpt(&joined_text, SHOWN_DATA_CHARS)
            ),
        );
        error.content = blocks.content;
        return Err(error);
    }
    Ok(ToolOutput {
        value,
        content: blocks.content,
    })
}

/// Turns a JSON-RPC error into a failure.
pub(crate) fn protocol_error(
    code: i32,
    message: &str,
    data: Option<&Value>,
    source: Source<'_>,
) -> ToolError {
    let data = match data {
        None | Some(Value::Null) => String::new(),
        Some(data) => format!("; data: {}", excerpt(&data.to_string(), SHOWN_DATA_CHARS)),
    };
    ToolError::failed(format!(
        "{} (error {code} from server `{}`){data}",
        excerpt(message, MAX_ERROR_CHARS),
        source.server
    ))
}

/// Returns the value of a text: itself, unless it is a JSON object or array.
fn from_text(text: &str) -> Value {
    let trimmed = text.trim();
    if trimmed.starts_with(['{', '['])
        && let Ok(value) = json::parse(trimmed)
    {
        return value;
    }
    Value::String(text.to_owned())
}

fn failure(blocks: Blocks, structured: Option<&RawValue>, source: Source<'_>) -> ToolError {
    let message = if blocks.texts.iter().any(|text| !text.trim().is_empty()) {
        excerpt(&blocks.texts.join("\n"), MAX_ERROR_CHARS)
    } else if let Some(structured) = structured {
        excerpt(structured.get(), MAX_ERROR_CHARS)
    } else if !blocks.media.is_empty() {
        let media = joined(&blocks.media, ", ");
        format!("failed with {}", excerpt(&media, SHOWN_DATA_CHARS))
    } else {
        format!(
            "`{}` of server `{}` failed without saying why",
            source.tool, source.server
        )
    };
    let mut error = ToolError::failed(message);
    error.content = blocks.content;
    error
}

fn read_blocks(text: &str) -> Result<Blocks, JsonError> {
    let mut blocks = Blocks::default();
    if text.starts_with('"') {
        blocks.push_text(serde_json::from_str(text)?);
        return Ok(blocks);
    }
    let raw: Vec<&RawValue> = serde_json::from_str(text)?;
    let left_out = raw.len().saturating_sub(MAX_BLOCKS);
    for raw in raw.into_iter().take(MAX_BLOCKS) {
        blocks.read(raw)?;
    }
    if left_out > 0 {
        blocks.push_text(format!("({left_out} more content blocks were left out)"));
    }
    Ok(blocks)
}

impl Blocks {
    fn push_text(&mut self, text: String) {
        self.content.push(Content::Text(text.clone()));
        self.texts.push(text);
    }

    fn read(&mut self, raw: &RawValue) -> Result<(), JsonError> {
        let block: Block<'_> = serde_json::from_str(raw.get())?;
        let kind = block.kind.as_deref().unwrap_or("text");
        if kind == "text" {
            self.push_text(string(block.text)?.unwrap_or_default());
            return Ok(());
        }
        let mime_type = string(block.mime_type)?;
        match (kind, string(block.data)?, block.resource) {
            ("image", Some(data), _) => {
                let mime_type = mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
                self.media
                    .push(json!({"kind": "image", "mimeType": mime_type, "bytes": decoded_len(&data)}));
                self.content.push(Content::Image { data, mime_type });
                return Ok(());
            }
            (_, Some(data), _) => {
                self.media
                    .push(json!({"kind": kind, "mimeType": mime_type, "bytes": decoded_len(&data)}));
            }
            (_, None, Some(resource)) => self.media.push(describe_resource(resource)?),
            ("resource_link", ..) => self.media.push(describe_link(raw)?),
            _ => self.media.push(json!({"kind": kind, "bytes": raw.get().len()})),
        }
        let value = json::parse(raw.get())?;
        if json::depth(&value) > MAX_BLOCK_DEPTH {
            json::drop_value(value);
            self.content.push(Content::Text(format!(
                "(a content block of type {kind} was left out: nested deeper than {MAX_BLOCK_DEPTH} levels)"
            )));
        } else {
            self.content.push(Content::Other { block: value });
        }
        Ok(())
    }
}

/// Returns the text of a member that should be text, and is nothing if it is something else.
fn string(raw: Option<&RawValue>) -> Result<Option<String>, JsonError> {
    match raw.map(RawValue::get) {
        Some(text) if text.starts_with('"') => Ok(Some(serde_json::from_str(text)?)),
        _ => Ok(None),
    }
}

fn describe_resource(raw: &RawValue) -> Result<Value, JsonError> {
    let resource: Resource<'_> = serde_json::from_str(raw.get())?;
    let mut description = Map::new();
    description.insert("kind".to_owned(), "resource".into());
    insert(&mut description, "uri", resource.uri);
    insert(&mut description, "mimeType", resource.mime_type);
    let bytes = match (&resource.text, &resource.blob) {
        (Some(text), _) => text.len(),
        (None, Some(blob)) => decoded_len(blob),
        (None, None) => 0,
    };
    description.insert("bytes".to_owned(), bytes.into());
    // Text is what a program came for; it never reaches a model by itself.
    insert(&mut description, "text", resource.text);
    Ok(Value::Object(description))
}

fn describe_link(raw: &RawValue) -> Result<Value, JsonError> {
    let link: Map<String, Value> = json::parse_shallow(raw.get())?;
    let mut description = Map::new();
    description.insert("kind".to_owned(), "resource_link".into());
    for (from, to) in [
        ("uri", "uri"),
        ("name", "name"),
        ("title", "title"),
        ("description", "description"),
        ("mimeType", "mimeType"),
        ("size", "bytes"),
    ] {
        if let Some(value @ (Value::String(_) | Value::Number(_))) = link.get(from) {
            description.insert(to.to_owned(), value.clone());
        }
    }
    Ok(Value::Object(description))
}

fn insert(object: &mut Map<String, Value>, key: &str, text: Option<Cow<'_, str>>) {
    if let Some(text) = text {
        object.insert(key.to_owned(), Value::String(text.into_owned()));
    }
}

/// Returns how many bytes base64 text stands for.
fn decoded_len(base64: &str) -> usize {
    let digits = base64
        .bytes()
        .filter(|byte| !byte.is_ascii_whitespace() && *byte != b'=')
        .count();
    digits / 4 * 3 + (digits % 4).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(result: &Value, schema: Schema) -> Result<Value, String> {
        call_text(&result.to_string(), schema)
    }

    fn call_text(result: &str, schema: Schema) -> Result<Value, String> {
        let source = Source {
            server: "s",
            tool: "t",
            schema,
        };
        output(result, source)
            .map(|output| output.value)
            .map_err(|error| format!("{}: {}", error.code, error.message))
    }

    #[test]
    fn a_result_becomes_one_value() {
        let text = |text: &str| json!({"type": "text", "text": text});
        let image = json!({"type": "image", "data": "AAECAw==", "mimeType": "image/png"});
        for (result, expected) in [
            (
                json!({"structuredContent": {"n": 1}, "content": [text("other")]}),
                json!({"n": 1}),
            ),
            (json!({"structuredContent": {"n": 1}}), json!({"n": 1})),
            (json!({"structuredContent": [1]}), json!([1])),
            (
                json!({"structuredContent": null, "content": [text("x")]}),
                json!("x"),
            ),
            (json!({"content": [text("{\"a\":[1]}")]}), json!({"a": [1]})),
            (json!({"content": [text(" [1, 2]\n")]}), json!([1, 2])),
            (
                json!({"content": [text("12345678901234567890")]}),
                json!("12345678901234567890"),
            ),
            (json!({"content": [text("true")]}), json!("true")),
            (json!({"content": [text("{not json")]}), json!("{not json")),
            (
                json!({"content": [text("{\"a\":1}"), text("{\"b\":2}")]}),
                json!("{\"a\":1}\n{\"b\":2}"),
            ),
            (json!({"content": [text("")]}), json!("")),
            (json!({"content": []}), json!(null)),
            (json!({}), json!(null)),
            (json!({"content": "just text"}), json!("just text")),
            (
                json!({"content": [image]}),
                json!({"kind": "image", "mimeType": "image/png", "bytes": 4}),
            ),
            (
                json!({"content": [text("see"), image, {"type": "audio", "data": "AAE=", "mimeType": "audio/wav"}]}),
                json!({"text": "see", "media": [
                    {"kind": "image", "mimeType": "image/png", "bytes": 4},
                    {"kind": "audio", "mimeType": "audio/wav", "bytes": 2},
                ]}),
            ),
            (
                json!({"content": [
                    {"type": "resource", "resource": {"uri": "a:b", "mimeType": "text/plain", "text": "body"}},
                    {"type": "resource", "resource": {"uri": "a:c", "blob": "AAEC"}},
                    {"type": "resource_link", "uri": "a:d", "name": "d", "size": 9, "_meta": {}},
                    {"type": "hologram", "x": 1},
                ]}),
                json!([
                    {"kind": "resource", "uri": "a:b", "mimeType": "text/plain", "bytes": 4, "text": "body"},
                    {"kind": "resource", "uri": "a:c", "bytes": 3},
                    {"kind": "resource_link", "uri": "a:d", "name": "d", "bytes": 9},
                    {"kind": "hologram", "bytes": 25},
                ]),
            ),
        ] {
            assert_eq!(call(&result, Schema::None), Ok(expected), "{result}");
        }
    }

    #[test]
    fn a_failure_says_what_the_tool_said() {
        let text = |text: &str| json!({"type": "text", "text": text});
        for (result, expected) in [
            (
                json!({"isError": true, "content": [text("nope"), text("really")]}),
                "TOOL_FAILED: nope\nreally",
            ),
            (
                json!({"isError": true, "structuredContent": {"why": 1}}),
                "TOOL_FAILED: {\"why\":1}",
            ),
            (
                json!({"isError": true, "content": [text(" ")], "structuredContent": {"why": 1}}),
                "TOOL_FAILED: {\"why\":1}",
            ),
            (
                json!({"isError": true}),
                "TOOL_FAILED: `t` of server `s` failed without saying why",
            ),
            (
                json!({"resultType": "input_required", "content": []}),
                "TOOL_FAILED: server `s` asks for more input before `t` can go on, which is not supported (result type \"input_required\")",
            ),
        ] {
            assert_eq!(
                call(&result, Schema::Announced),
                Err(expected.to_owned()),
                "{result}"
            );
        }
    }

    #[test]
    fn an_announced_schema_is_owed_structured_content() {
        let text = json!({"content": [{"type": "text", "text": "n is 1"}]});
        assert_eq!(
            call(&text, Schema::Announced),
            Err("INVALID_TOOL_OUTPUT: `t` of server `s` announces an output schema but sent no structuredContent; \
                 it sent: n is 1"
                .to_owned())
        );
        let object = json!({"content": [{"type": "text", "text": "{\"n\":1}"}]});
        assert_eq!(call(&object, Schema::Announced), Ok(json!({"n": 1})));
    }

    #[test]
    fn an_unreadable_answer_names_its_source() {
        for (text, reason) in [
            (r#"{"structuredContent":{"a":"\ud800"}}"#, "an unpaired surrogate"),
            (
                r#"{"structuredContent":[18446744073709551617]}"#,
                "larger than any exact number",
            ),
            (r#"{"content":[{"type":"text","text":"\udc00"}]}"#, "surrogate"),
            (r#"{"content":7}"#, "invalid type"),
            ("[]", "not an object"),
        ] {
            let error = call_text(text, Schema::None).expect_err(text);
            assert!(
                error.starts_with(
                    "INVALID_TOOL_OUTPUT: server `s` answered `t` with something that cannot be read: "
                ) && error.contains(reason),
                "{error}"
            );
        }
        let deep = format!(
            r#"{{"structuredContent":{}{}}}"#,
            "[".repeat(5_000),
            "]".repeat(5_000)
        );
        json::drop_value(call_text(&deep, Schema::None).expect("deep"));
    }

    #[test]
    fn blocks_reach_a_direct_caller_as_they_came() {
        let link = json!({"type": "resource_link", "uri": "a:b", "name": "b"});
        let result = json!({"content": [{"type": "image", "data": "AA==", "mimeType": "image/gif"}, link]});
        let source = Source {
            server: "s",
            tool: "t",
            schema: Schema::None,
        };
        let image = Content::Image {
            data: "AA==".to_owned(),
            mime_type: "image/gif".to_owned(),
        };
        assert_eq!(
            output(&result.to_string(), source).expect("fine").content,
            [image, Content::Other { block: link }]
        );
    }
}
