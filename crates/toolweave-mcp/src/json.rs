//! JSON of any depth between text and values, without loss and without overflowing a stack.
//!
//! Text from a peer is looked at once, iteratively, before anything recursive touches it.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// Deepest nesting that is passed on; what the runtime accepts at most.
pub(crate) const MAX_DEPTH: usize = 10_000;
/// Depth up to which the ordinary stack and `serde_json`'s own limit do.
const SHALLOW: usize = 100;
/// Stack for one level, in an unoptimised build, with room to spare.
const STACK_PER_LEVEL: usize = 12 * 1024;

/// Why text cannot become a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum JsonError {
    #[error("{0}")]
    Syntax(String),
    #[error("nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    #[error("the integer {0} is larger than any exact number")]
    Inexact(String),
}

impl From<serde_json::Error> for JsonError {
    fn from(error: serde_json::Error) -> Self {
        let text = error.to_string();
        if text.contains("surrogate") || text.contains("unexpected end of hex escape") {
            let (line, column) = (error.line(), error.column());
            return Self::Syntax(format!(
                "an unpaired surrogate in a string at line {line} column {column}"
            ));
        }
        Self::Syntax(text)
    }
}

/// Parses text of any allowed depth. Integers that would be rounded on the way are refused.
pub(crate) fn parse(text: &str) -> Result<Value, JsonError> {
    let depth = scan(text)?;
    let parsed = if depth < SHALLOW {
        serde_json::from_str(text)
    } else {
        with_stack_for(depth, || {
            let mut reader = serde_json::Deserializer::from_str(text);
            reader.disable_recursion_limit();
            let value = Value::deserialize(&mut reader)?;
            reader.end()?;
            Ok(value)
        })
    };
    parsed.map_err(JsonError::from)
}

/// Parses a small typed message; what is nested deeply is an error.
pub(crate) fn parse_shallow<T: DeserializeOwned>(text: &str) -> Result<T, JsonError> {
    // The limit of `serde_json` itself protects this one.
    serde_json::from_str(text).map_err(JsonError::from)
}

/// Writes a value of any depth.
pub(crate) fn to_raw<T: Serialize + ?Sized>(value: &T, depth: usize) -> Result<Box<RawValue>, JsonError> {
    with_stack_for(depth, || serde_json::value::to_raw_value(value)).map_err(JsonError::from)
}

/// Returns how deep a value is nested.
pub(crate) fn depth(value: &Value) -> usize {
    let mut deepest = 0;
    let mut rest = vec![(value, 1)];
    while let Some((value, level)) = rest.pop() {
        match value {
            Value::Array(items) => {
                deepest = deepest.max(level);
                rest.extend(items.iter().map(|item| (item, level + 1)));
            }
            Value::Object(members) => {
                deepest = deepest.max(level);
                rest.extend(members.values().map(|member| (member, level + 1)));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    deepest
}

/// Drops a value of any depth.
pub(crate) fn drop_value(value: Value) {
    let mut rest = vec![value];
    while let Some(value) = rest.pop() {
        match value {
            Value::Array(items) => rest.extend(items),
            Value::Object(members) => rest.extend(members.into_iter().map(|(_, member)| member)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

/// Shortens text to at most `limit` characters, saying so.
pub(crate) fn excerpt(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}… ({} bytes in all)", &text[..at], text.len()),
    }
}

/// Joins messages for people: `first; second`.
pub(crate) fn joined<T: fmt::Display>(parts: impl IntoIterator<Item = T>, separator: &str) -> String {
    let mut text = String::new();
    for part in parts {
        if !text.is_empty() {
            text.push_str(separator);
        }
        text.push_str(&part.to_string());
    }
    text
}

fn with_stack_for<T>(depth: usize, work: impl FnOnce() -> T) -> T {
    if depth < SHALLOW {
        work()
    } else {
        let needed = depth.min(MAX_DEPTH) * STACK_PER_LEVEL + 1024 * 1024;
        stacker::maybe_grow(needed, needed, work)
    }
}

/// Returns the nesting depth; brackets need not match, the parser looks at that.
fn scan(text: &str) -> Result<usize, JsonError> {
    let bytes = text.as_bytes();
    let (mut at, mut depth, mut deepest) = (0, 0_usize, 0_usize);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at += 1;
                while let Some(&inner) = bytes.get(at) {
                    match inner {
                        b'"' => break,
                        b'\\' => at += 2,
                        _ => at += 1,
                    }
                }
            }
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
                if depth > MAX_DEPTH {
                    return Err(JsonError::TooDeep);
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'-' | b'0'..=b'9' => {
                let start = at;
                while matches!(
                    bytes.get(at + 1),
                    Some(b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-')
                ) {
                    at += 1;
                }
                check_number(&text[start..=at])?;
            }
            _ => {}
        }
        at += 1;
    }
    Ok(deepest)
}

/// Refuses integers that only fit a double, unless the double is exact.
fn check_number(number: &str) -> Result<(), JsonError> {
    let digits = number.strip_prefix('-').unwrap_or(number);
    if digits.len() < 19
        || !digits.bytes().all(|byte| byte.is_ascii_digit())
        || number.parse::<i64>().is_ok()
        || number.parse::<u64>().is_ok()
        || number
            .parse::<f64>()
            .is_ok_and(|double| format!("{double:.0}") == number)
    {
        return Ok(());
    }
    Err(JsonError::Inexact(excerpt(number, 60)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn depth_costs_no_stack() {
        let text = format!("{}{}", r#"{"a":["#.repeat(2_500), "]}".repeat(2_500));
        let value = parse(&text).expect("deep");
        assert_eq!(depth(&value), 5_000);
        assert_eq!(to_raw(&value, 5_000).expect("deep").get(), text);
        drop_value(value);
        assert_eq!(parse(&"[".repeat(1_000_000)), Err(JsonError::TooDeep));
    }

    #[test]
    fn numbers_are_exact_or_refused() {
        for (text, expected) in [
            ("9007199254740993", json!(9_007_199_254_740_993_u64)),
            ("18446744073709551615", json!(u64::MAX)),
            ("-9223372036854775808", json!(i64::MIN)),
            ("[1.5,-0.25e2]", json!([1.5, -25.0])),
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
        assert_eq!(
            parse("[18446744073709551617]"),
            Err(JsonError::Inexact("18446744073709551617".to_owned()))
        );
        assert_eq!(
            parse(r#"{"text":"18446744073709551617 \" ["}"#),
            Ok(json!({"text": "18446744073709551617 \" ["}))
        );
    }

    #[test]
    fn what_is_not_json_is_an_error() {
        for bad in ["", "[", "\"", "\"\\", "{]", "[1 2]", r#""\ud800""#, "[1]x"] {
            assert!(matches!(parse(bad), Err(JsonError::Syntax(_))), "{bad}");
        }
    }
}
