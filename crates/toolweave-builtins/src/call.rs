//! What the tools share: their declarations, their arguments, and where their work runs.

use std::sync::Arc;

use serde::de::{DeserializeOwned, Error as _, Unexpected};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolweave_tools::{CallContext, Content, Effect, ErrorCode, Provider, ToolError, ToolOutput, ToolSpec};

use crate::RootError;

/// Most characters of one line in text for a model.
pub(crate) const MAX_SHOWN_LINE_CHARS: usize = 2_000;

/// Most bytes of text for a model, for each call. A program gets the whole value.
pub(crate) const MAX_SHOWN_BYTES: usize = 100 * 1024;

impl From<RootError> for ToolError {
    fn from(error: RootError) -> Self {
        Self::failed(error.to_string())
    }
}

/// Declares a tool of this crate.
pub(crate) fn spec(
    name: &str,
    title: &str,
    description: &str,
    effect: Effect,
    input_schema: Value,
    output_schema: Value,
) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        title: Some(title.to_owned()),
        description: description.to_owned(),
        input_schema,
        output_schema: Some(output_schema),
        effect,
        provider: Provider {
            name: Arc::from("builtin"),
            version: Some(Arc::from(env!("CARGO_PKG_VERSION"))),
        },
    }
}

/// Returns the two schema entries for the path of a file. Neither can be required, because either will do; model
/// APIs take no `anyOf` at the top of a schema.
pub(crate) fn path_properties(path: Value) -> Value {
    json!({
        "path": path,
        "file_path": { "type": "string", "description": "Another name for `path`." },
    })
}

/// Returns the schema of an object of arguments.
pub(crate) fn arguments_schema(properties: &[Value], required: &[&str]) -> Value {
    let mut all = serde_json::Map::new();
    for part in properties {
        if let Value::Object(part) = part {
            all.extend(part.clone());
        }
    }
    let mut schema = json!({ "type": "object", "properties": all });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema["additionalProperties"] = json!(false);
    schema
}

/// Reads the arguments of a call.
pub(crate) fn arguments<T: DeserializeOwned>(arguments: Value) -> Result<T, ToolError> {
    serde_json::from_value(arguments)
        .map_err(|error| ToolError::new(ErrorCode::InvalidArgs, format!("invalid arguments: {error}")))
}

/// Reads a whole number that a model may have written as `10.0`.
pub(crate) fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let Some(number) = Option::<serde_json::Number>::deserialize(deserializer)? else {
        return Ok(None);
    };
    if let Some(whole) = number.as_u64() {
        return Ok(Some(whole));
    }
    let float = number.as_f64().unwrap_or(f64::NAN);
    if float.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&float) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the line above admits whole numbers from 0 to 2^53 only"
        )]
        return Ok(Some(float as u64));
    }
    Err(D::Error::invalid_value(
        Unexpected::Float(float),
        &"a whole number that is not negative",
    ))
}

/// Makes a result from a typed value and the text that a model is shown for it.
pub(crate) fn output<T: Serialize>(value: &T, shown: String) -> Result<ToolOutput, ToolError> {
    let value = serde_json::to_value(value)
        .map_err(|error| ToolError::failed(format!("cannot encode the result: {error}")))?;
    Ok(ToolOutput {
        value,
        content: vec![Content::Text(shown)],
    })
}

/// Runs work that blocks away from the threads that drive the program, or right here when nothing drives it.
///
/// The work's token fires with the caller's, and also when the caller stops waiting.
pub(crate) async fn blocking<T, F>(context: &CallContext, work: F) -> Result<T, ToolError>
where
    T: Send + 'static,
    F: FnOnce(&CancellationToken) -> Result<T, ToolError> + Send + 'static,
{
    check(&context.cancel)?;
    let Ok(runtime) = tokio::runtime::Handle::try_current() else {
        return work(&context.cancel);
    };
    let cancel = context.cancel.child_token();
    let _stop = cancel.clone().drop_guard();
    match runtime.spawn_blocking(move || work(&cancel)).await {
        Ok(result) => result,
        Err(error) if error.is_cancelled() => Err(aborted()),
        Err(_) => Err(ToolError::failed("the tool failed inside: this is a bug in it")),
    }
}

/// Fails when nobody wants the answer any more.
pub(crate) fn check(cancel: &CancellationToken) -> Result<(), ToolError> {
    if cancel.is_cancelled() {
        Err(aborted())
    } else {
        Ok(())
    }
}

pub(crate) fn aborted() -> ToolError {
    ToolError::new(ErrorCode::Aborted, "cancelled")
}

/// Cuts a line for a model and says how much is missing.
pub(crate) fn shown_line(line: &str) -> std::borrow::Cow<'_, str> {
    // A character has at least one byte.
    if line.len() <= MAX_SHOWN_LINE_CHARS {
        return line.into();
    }
    match line.char_indices().nth(MAX_SHOWN_LINE_CHARS) {
        None => line.into(),
        Some((cut, _)) => format!("{}… [+{} bytes]", &line[..cut], line.len() - cut).into(),
    }
}

/// Writes a size as people read it.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1_024 {
        return format!("{bytes} bytes");
    }
    let mut unit = 0;
    let mut tenths = bytes.saturating_mul(10) / 1_024;
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1_024;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}
