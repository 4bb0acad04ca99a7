//! JSON handled as text, so that the fixture passes on whatever depth and numbers it is sent.

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// The fields of an object in their order, each value as text.
#[derive(Debug, Default)]
pub(crate) struct Fields(Vec<(String, Box<RawValue>)>);

impl Fields {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|e| format!("arguments are not an object: {e}"))
    }

    /// Returns a field's JSON text.
    pub(crate) fn raw(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .rev()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.get())
    }

    /// Returns a field that may be missing.
    pub(crate) fn optional<'a, T: Deserialize<'a>>(&'a self, name: &str) -> Result<Option<T>, String> {
        let Some(text) = self.raw(name) else {
            return Ok(None);
        };
        serde_json::from_str(text)
            .map(Some)
            .map_err(|e| format!("bad argument `{name}`: {e}"))
    }

    /// Returns a field that must be there.
    pub(crate) fn required<'a, T: Deserialize<'a>>(&'a self, name: &str) -> Result<T, String> {
        self.optional(name)?
            .ok_or_else(|| format!("missing argument `{name}`"))
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Fields;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        from.deserialize_map(InOrder)
    }
}

/// Returns the JSON text of plain data.
pub(crate) fn json<T: Serialize + ?Sized>(value: &T) -> String {
    // Plain data with string keys always serializes.
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}

/// Returns how many arrays and objects of well-formed JSON lie within each other.
pub(crate) fn depth(text: &str) -> usize {
    let (mut level, mut deepest, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                level += 1;
                deepest = deepest.max(level);
            }
            b']' | b'}' if !in_string => level = level.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}
