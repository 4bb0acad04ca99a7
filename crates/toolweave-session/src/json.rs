//! JSON that is carried as text, so that its depth and its numbers are nobody's concern on the way.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// A JSON value as text on one line. It is checked for well-formedness, without recursion, and never parsed further here.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Json(Box<RawValue>);

impl Json {
    /// Returns the text as a value.
    ///
    /// # Errors
    /// When the text is not one well-formed JSON value.
    pub fn parse(text: impl Into<String>) -> Result<Self, serde_json::Error> {
        let text = text.into();
        // A raw line break is insignificant white space wherever JSON permits it, and would end the line of the log.
        let text = if text.contains(['\n', '\r']) {
            text.replace(['\n', '\r'], " ")
        } else {
            text
        };
        RawValue::from_string(text).map(Self)
    }

    /// Returns the value that holds `text` as a JSON string.
    pub fn string(text: &str) -> Self {
        Self::encode(text).unwrap_or_default()
    }

    /// Returns anything serializable as a value.
    ///
    /// # Errors
    /// When `value` refuses to be serialized, for example a map with keys that are not strings.
    pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        Self::parse(serde_json::to_string(value)?)
    }

    /// Returns the JSON text.
    pub fn get(&self) -> &str {
        self.0.get()
    }
}

impl Default for Json {
    fn default() -> Self {
        Self(RawValue::NULL.to_owned())
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.get())
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.get())
    }
}

/// Compares the texts: `1` and `1.0` differ.
impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for Json {}

impl From<Box<RawValue>> for Json {
    fn from(raw: Box<RawValue>) -> Self {
        if raw.get().contains(['\n', '\r']) {
            // The value is well formed already, so this cannot fail.
            Self::parse(raw.get()).unwrap_or_default()
        } else {
            Self(raw)
        }
    }
}

/// The fields of an object in their order, each value as text.
pub(crate) struct Fields(pub(crate) Vec<(String, Json)>);

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
