//! JSON text that was checked once, and is parsed only by the side that needs it.
//!
//! A [`Json`] is valid, of bounded depth, and loses nothing in a program: no unpaired surrogate, no number that a
//! double cannot hold, no integer that a double would round. Checking is iterative, so depth costs no stack; reading and
//! writing deep trees grows the stack as needed.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What happens to values that JSON cannot say (design section 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JsonMode {
    /// What a TypeScript author expects: `undefined` properties are absent, `-0` is `0`, `toJSON` is honoured, a class
    /// instance is its own enumerable data. What would be lost is refused.
    #[default]
    Standard,
    /// Only what is already lossless JSON crosses (contract D28).
    Strict,
}

/// Depth below which the default stack is certain to do.
const SHALLOW: u32 = 64;
/// Stack for one tree of the greatest depth that [`crate::Limits`] allows, in an unoptimised build.
const DEEP_STACK: usize = 128 * 1024 * 1024;

/// Checked JSON text.
#[derive(Clone, PartialEq, Eq)]
pub struct Json {
    text: String,
    depth: u32,
}

/// Text or a value that cannot cross between program and host. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonError {
    #[error("not JSON: {reason} at byte {offset}")]
    Syntax { offset: usize, reason: &'static str },
    #[error("nested deeper than {0} levels")]
    TooDeep(u32),
    #[error("the number {number} at {place} cannot be held exactly by a JavaScript number")]
    Inexact { number: String, place: String },
    #[error("an unpaired surrogate at byte {0}")]
    Surrogate(usize),
}

impl Json {
    /// Checks text from outside.
    ///
    /// # Errors
    /// See [`JsonError`]; the place of an inexact number is its byte offset.
    pub fn parse(text: String, max_depth: u32) -> Result<Self, JsonError> {
        let depth = Scanner {
            bytes: text.as_bytes(),
            at: 0,
            max_depth,
        }
        .scan()?;
        Ok(Self { text, depth })
    }

    /// Writes a value as compact text.
    ///
    /// # Errors
    /// [`JsonError::Inexact`] with the path of the number, or [`JsonError::TooDeep`].
    pub fn from_value(value: &Value, max_depth: u32) -> Result<Self, JsonError> {
        let depth = check_value(value, max_depth)?;
        let text = with_stack_for(depth, || serde_json::to_string(value)).map_err(|_| JsonError::Syntax {
            offset: 0,
            reason: "a value that serde_json cannot write",
        })?;
        Ok(Self { text, depth })
    }

    /// Returns JSON `null`.
    pub fn null() -> Self {
        Self {
            text: "null".to_owned(),
            depth: 0,
        }
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn into_string(self) -> String {
        self.text
    }

    /// Returns how deep the deepest array or object is nested; 0 for a scalar.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Parses the text. Deep trees are read on a grown stack; drop them with [`drop_value`].
    pub fn to_value(&self) -> Value {
        let parsed = if self.depth < SHALLOW {
            serde_json::from_str(&self.text)
        } else {
            with_stack_for(self.depth, || {
                let mut reader = serde_json::Deserializer::from_str(&self.text);
                reader.disable_recursion_limit();
                Value::deserialize(&mut reader)
            })
        };
        parsed.unwrap_or_else(|error| unreachable_text(&error))
    }
}

/// Text that [`Scanner`] accepted is JSON, so this is never reached; a string that says so beats a panic if it ever is.
fn unreachable_text(error: &serde_json::Error) -> Value {
    tracing::error!(%error, "checked JSON text did not parse");
    Value::String(format!("unreadable value: {error}"))
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Runs `work` with stack enough for a tree of that depth.
pub fn with_stack_for<T>(depth: u32, work: impl FnOnce() -> T) -> T {
    if depth < SHALLOW {
        work()
    } else {
        stacker::maybe_grow(DEEP_STACK / 2, DEEP_STACK, work)
    }
}

/// Drops a value of any depth without overflowing the stack.
pub fn drop_value(value: Value) {
    let mut rest = vec![value];
    while let Some(value) = rest.pop() {
        match value {
            Value::Array(items) => rest.extend(items),
            Value::Object(members) => rest.extend(members.into_iter().map(|(_, member)| member)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

/// Returns the depth of a value, or why it cannot cross.
fn check_value(value: &Value, max_depth: u32) -> Result<u32, JsonError> {
    let mut deepest = 0;
    let mut open: Vec<(Step<'_>, Children<'_>)> = Vec::new();
    let mut current = Some((Step::Root, value));
    loop {
        if let Some((step, value)) = current.take() {
            let children = match value {
                Value::Array(items) => Some(Children::Items(items.iter().enumerate())),
                Value::Object(members) => Some(Children::Members(members.iter())),
                Value::Number(number) => {
                    if !is_exact(&number.to_string()) {
                        return Err(JsonError::Inexact {
                            number: number.to_string(),
                            place: path(&open, step),
                        });
                    }
                    None
                }
                Value::Null | Value::Bool(_) | Value::String(_) => None,
            };
            if let Some(children) = children {
                open.push((step, children));
                let depth = u32::try_from(open.len()).unwrap_or(u32::MAX);
                if depth > max_depth {
                    return Err(JsonError::TooDeep(max_depth));
                }
                deepest = deepest.max(depth);
            }
        }
        let Some((_, children)) = open.last_mut() else {
            return Ok(deepest);
        };
        current = children.next();
        if current.is_none() {
            open.pop();
        }
    }
}

#[derive(Clone, Copy)]
enum Step<'v> {
    Root,
    Index(usize),
    Key(&'v str),
}

enum Children<'v> {
    Items(std::iter::Enumerate<std::slice::Iter<'v, Value>>),
    Members(serde_json::map::Iter<'v>),
}

impl<'v> Children<'v> {
    fn next(&mut self) -> Option<(Step<'v>, &'v Value)> {
        match self {
            Self::Items(items) => items.next().map(|(index, value)| (Step::Index(index), value)),
            Self::Members(members) => members.next().map(|(key, value)| (Step::Key(key), value)),
        }
    }
}

fn path(open: &[(Step<'_>, Children<'_>)], last: Step<'_>) -> String {
    use fmt::Write as _;
    let mut text = "$".to_owned();
    for step in open.iter().map(|(step, _)| *step).chain(std::iter::once(last)) {
        let _ = match step {
            Step::Root => Ok(()),
            Step::Index(index) => write!(text, "[{index}]"),
            Step::Key(key) => write!(text, ".{key}"),
        };
    }
    text
}

/// Whether a JavaScript number holds this JSON number: fractions may round as everywhere, integers may not.
fn is_exact(number: &str) -> bool {
    let Ok(double) = number.parse::<f64>() else {
        return false;
    };
    if !double.is_finite() {
        return false;
    }
    let digits = number.strip_prefix('-').unwrap_or(number);
    if digits.len() <= 15 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return true;
    }
    // Exact, or what a JavaScript number of that size writes itself as (2**60 is 1152921504606847000 there).
    format!("{double:.0}") == number || double.to_string() == number || digits.bytes().all(|b| b == b'0')
}

struct Scanner<'t> {
    bytes: &'t [u8],
    at: usize,
    max_depth: u32,
}

impl Scanner<'_> {
    /// Checks the whole text and returns its depth.
    fn scan(mut self) -> Result<u32, JsonError> {
        let mut open: Vec<u8> = Vec::new();
        let mut deepest = 0;
        'value: loop {
            self.space();
            match self.peek() {
                Some(b'{') => {
                    self.at += 1;
                    deepest = self.opened(&mut open, b'}', deepest)?;
                    self.space();
                    if self.peek() != Some(b'}') {
                        self.key()?;
                        continue 'value;
                    }
                }
                Some(b'[') => {
                    self.at += 1;
                    deepest = self.opened(&mut open, b']', deepest)?;
                    self.space();
                    if self.peek() != Some(b']') {
                        continue 'value;
                    }
                }
                Some(b'"') => self.string()?,
                Some(b'-' | b'0'..=b'9') => self.number()?,
                Some(b't') => self.word(b"true")?,
                Some(b'f') => self.word(b"false")?,
                Some(b'n') => self.word(b"null")?,
                _ => return Err(self.wrong("expected a value")),
            }
            loop {
                self.space();
                let Some(&close) = open.last() else {
                    return if self.at == self.bytes.len() {
                        Ok(deepest)
                    } else {
                        Err(self.wrong("text after the value"))
                    };
                };
                match self.peek() {
                    Some(b',') => {
                        self.at += 1;
                        if close == b'}' {
                            self.space();
                            self.key()?;
                        }
                        continue 'value;
                    }
                    Some(byte) if byte == close => {
                        self.at += 1;
                        open.pop();
                    }
                    _ => return Err(self.wrong("expected `,` or a closing bracket")),
                }
            }
        }
    }

    fn opened(&self, open: &mut Vec<u8>, close: u8, deepest: u32) -> Result<u32, JsonError> {
        open.push(close);
        let depth = u32::try_from(open.len()).unwrap_or(u32::MAX);
        if depth > self.max_depth {
            Err(JsonError::TooDeep(self.max_depth))
        } else {
            Ok(deepest.max(depth))
        }
    }

    fn key(&mut self) -> Result<(), JsonError> {
        if self.peek() != Some(b'"') {
            return Err(self.wrong("expected a key"));
        }
        self.string()?;
        self.space();
        if self.peek() != Some(b':') {
            return Err(self.wrong("expected `:`"));
        }
        self.at += 1;
        Ok(())
    }

    fn string(&mut self) -> Result<(), JsonError> {
        self.at += 1;
        let mut high_at = None;
        loop {
            let start = self.at;
            let rest = &self.bytes[start..];
            let plain = rest
                .iter()
                .position(|&b| b == b'"' || b == b'\\' || b < 0x20)
                .unwrap_or(rest.len());
            if plain > 0 && high_at.is_some() {
                return Err(JsonError::Surrogate(start));
            }
            self.at += plain;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return match high_at {
                        None => Ok(()),
                        Some(at) => Err(JsonError::Surrogate(at)),
                    };
                }
                Some(b'\\') => {
                    let at = self.at;
                    let unit = self.escape()?;
                    match (high_at.take(), unit) {
                        (None, Some(0xd800..=0xdbff)) => high_at = Some(at),
                        (None, Some(0xdc00..=0xdfff)) => return Err(JsonError::Surrogate(at)),
                        (None, _) | (Some(_), Some(0xdc00..=0xdfff)) => {}
                        (Some(_), _) => return Err(JsonError::Surrogate(at)),
                    }
                }
                _ => return Err(self.wrong("unterminated string or raw control character")),
            }
        }
    }

    /// Reads one escape and returns its code unit when it is a `\u` escape.
    fn escape(&mut self) -> Result<Option<u16>, JsonError> {
        self.at += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 1;
                Ok(None)
            }
            Some(b'u') => {
                let digits = self
                    .bytes
                    .get(self.at + 1..self.at + 5)
                    .and_then(|hex| std::str::from_utf8(hex).ok());
                let unit = digits
                    .filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))
                    .and_then(|hex| u16::from_str_radix(hex, 16).ok());
                let Some(unit) = unit else {
                    return Err(self.wrong("bad \\u escape"));
                };
                self.at += 5;
                Ok(Some(unit))
            }
            _ => Err(self.wrong("unknown escape")),
        }
    }

    fn number(&mut self) -> Result<(), JsonError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return Err(self.wrong("expected a digit")),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.some_digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.some_digits()?;
        }
        let number = std::str::from_utf8(&self.bytes[start..self.at]).unwrap_or_default();
        if is_exact(number) {
            Ok(())
        } else {
            Err(JsonError::Inexact {
                number: number.to_owned(),
                place: format!("byte {start}"),
            })
        }
    }

    fn some_digits(&mut self) -> Result<(), JsonError> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.wrong("expected a digit"));
        }
        self.digits();
        Ok(())
    }

    fn digits(&mut self) {
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
    }

    fn word(&mut self, word: &[u8]) -> Result<(), JsonError> {
        if self.bytes[self.at..].starts_with(word) {
            self.at += word.len();
            Ok(())
        } else {
            Err(self.wrong("unknown word"))
        }
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn wrong(&self, reason: &'static str) -> JsonError {
        JsonError::Syntax {
            offset: self.at,
            reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn depth(text: &str) -> Result<u32, JsonError> {
        Json::parse(text.to_owned(), 10_000).map(|json| json.depth())
    }

    #[test]
    fn text_is_checked_like_json() {
        for good in [
            "null",
            " [1, -2.5e3 ,\"\\u00e9\\n\" ] ",
            r#"{"a":{"":[]},"b":{}}"#,
            r#""\ud83e\udd80""#,
            "1e308",
            "-0",
        ] {
            assert!(depth(good).is_ok(), "{good}: {:?}", depth(good));
            assert!(serde_json::from_str::<Value>(good).is_ok(), "{good}");
        }
        for bad in [
            "", "[", "[1,]", "{\"a\"}", "{a:1}", "01", "1.", ".5", "nul", "\"\\x\"", "\"\n\"", "1 2", "]",
            "[}", "+1",
        ] {
            assert!(depth(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_would_be_lost_is_refused() {
        assert_eq!(depth(r#""a\ud83d""#), Err(JsonError::Surrogate(2)));
        assert_eq!(depth(r#""\ude00""#), Err(JsonError::Surrogate(1)));
        assert_eq!(depth(r#""\ud83dx\ude00""#), Err(JsonError::Surrogate(7)));
        assert_eq!(depth("9007199254740992"), Ok(0));
        assert!(matches!(
            depth("9007199254740993"),
            Err(JsonError::Inexact { .. })
        ));
        for (number, crosses) in [
            ("1152921504606846976", true),
            ("1152921504606847000", true),
            ("-1152921504606847000", true),
            ("1152921504606847001", false),
            ("12345678901234567890", false),
        ] {
            assert_eq!(depth(number).is_ok(), crosses, "{number}");
        }
        assert!(matches!(depth("1e999"), Err(JsonError::Inexact { .. })));
        let value: Value = serde_json::from_str(r#"{"rows":[{"id":9007199254740993}]}"#).expect("JSON");
        let error = Json::from_value(&value, 100).expect_err("rounded");
        assert_eq!(
            error.to_string(),
            "the number 9007199254740993 at $.rows[0].id cannot be held exactly by a JavaScript number"
        );
    }

    #[test]
    fn depth_costs_no_stack() {
        let text = "[".repeat(10_000) + &"]".repeat(10_000);
        let json = Json::parse(text.clone(), 10_000).expect("at the limit");
        assert_eq!(json.depth(), 10_000);
        let value = json.to_value();
        assert_eq!(
            Json::from_value(&value, 10_000).expect("at the limit").as_str(),
            text
        );
        drop_value(value);
        assert_eq!(
            Json::parse("[".repeat(1_000_000), 10_000),
            Err(JsonError::TooDeep(10_000))
        );
    }

    #[test]
    fn key_order_survives() {
        let value = json!({"z": 1, "a": {"__proto__": 2}});
        let json = Json::from_value(&value, 10).expect("shallow");
        assert_eq!(json.as_str(), r#"{"z":1,"a":{"__proto__":2}}"#);
        assert_eq!(json.depth(), 2);
    }

    proptest! {
        #[test]
        fn the_checker_agrees_with_serde_json(text in r#"[\[\]{}",:0-9eE.\-+ tfnrulasdb\\]{0,24}"#) {
            let ours = depth(&text);
            let theirs = serde_json::from_str::<Value>(&text);
            if ours.is_ok() { prop_assert!(theirs.is_ok(), "{:?}", theirs); }
            if theirs.is_err() { prop_assert!(ours.is_err()); }
        }
    }
}
