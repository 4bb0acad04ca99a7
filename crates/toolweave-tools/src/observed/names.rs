//! Which property names are names, and which are data that stands in the place of one.
//!
//! A name is kept and shown; data is not. So whatever could be an id, a date, an address, a path or a sentence counts as
//! data, and only what a programmer would write as a name counts as one.

use serde_json::{Map, Value};

use super::shape::Kind;

/// The longest name in bytes.
const MAX_NAME: usize = 64;
/// Digits in a row that a name may have: `base64` and `utf8`, but no ids and no years with months.
const MAX_DIGITS: usize = 4;
/// Changes between letters and digits that a name may have; an id in base 16 or 36 has more.
const MAX_CHANGES: usize = 3;
/// More properties than this, all of one kind, make a map.
const ALIKE: usize = 24;
/// More properties than this make a map, whatever they hold.
const MAX_SAMPLED_NAMES: usize = 256;

/// Returns whether a property name is one that somebody gave to a property, as far as that can be told.
pub(super) fn is_name(name: &str) -> bool {
    let plain = name.strip_prefix(['@', '$']).unwrap_or(name);
    // `@odata.count` is a name, `example.com` is not.
    let dotted = name.starts_with('@');
    if name.len() > MAX_NAME || !plain.starts_with(|c: char| c.is_alphabetic() || c == '_') {
        return false;
    }
    let (mut digits, mut changes) = (0, 0);
    let mut before = None;
    for c in plain.chars() {
        if !(c.is_alphanumeric() || matches!(c, '_' | '-') || (dotted && c == '.')) {
            return false;
        }
        let digit = c.is_numeric();
        digits = if digit { digits + 1 } else { 0 };
        if digits > MAX_DIGITS {
            return false;
        }
        if before.is_some_and(|before| before != digit) {
            changes += 1;
        }
        before = Some(digit);
    }
    changes <= MAX_CHANGES
}

/// Returns whether an object holds entries and not properties.
pub(super) fn is_map(object: &Map<String, Value>) -> bool {
    if object.len() > MAX_SAMPLED_NAMES {
        return true;
    }
    let named = object.keys().filter(|name| is_name(name)).count();
    if named * 2 < object.len() {
        return true;
    }
    if object.len() <= ALIKE {
        return false;
    }
    let mut kinds = object.values().map(Kind::of);
    let first = kinds.next();
    kinds.all(|kind| Some(kind) == first)
}

#[cfg(test)]
mod tests {
    use super::is_name;

    #[test]
    fn names_are_told_from_data() {
        let names = [
            "id",
            "nextCursor",
            "created_at",
            "content-type",
            "_id",
            "$ref",
            "@type",
            "@odata.nextLink",
            "base64",
            "sha256",
            "x86_64",
            "iso8601Date",
            "größe",
            "标题",
            "HTMLURL2",
        ];
        let data = [
            "",
            "2024",
            "2024-01-31",
            "42",
            "user 17",
            "a@b.org",
            "example.com",
            "src/main.rs",
            "12ab",
            "a1b2c3d4",
            "f47ac10b-58cc-4372-a567-0e02b2c3d479",
            "customfield_10010",
            "https://x",
            "Dear Sir",
            "x\ny",
            "🦀",
            "a'b",
            "AKIA1234567890",
        ];
        for name in names {
            assert!(is_name(name), "{name:?}");
        }
        for name in data {
            assert!(!is_name(name), "{name:?}");
        }
        assert!(!is_name(&"a".repeat(65)));
    }
}
