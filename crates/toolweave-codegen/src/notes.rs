//! What a schema says that a type cannot: its description, and the constraints beside the type, in short form.

use serde_json::{Map, Value};

use crate::limits::MAX_NOTE_CHARS;
use crate::text::{quote, shorten};

/// Returns the comment for a schema: its description (or a title that says something), then its constraints in
/// brackets. Not yet made inert.
pub(crate) fn describe(map: &Map<String, Value>, name: Option<&str>) -> Option<String> {
    let mut said = Said::default();
    for (key, value) in map {
        said.note(key, value);
    }
    let description = said
        .description
        .or(said.title.filter(|title| informs(title, name)));
    let notes = said.constraints(description.unwrap_or_default());
    match (description, notes.is_empty()) {
        (None, true) => None,
        (Some(description), true) => Some(description.to_owned()),
        (None, false) => Some(format!("[{}]", notes.join(", "))),
        (Some(description), false) => Some(format!("{description} [{}]", notes.join(", "))),
    }
}

/// Tells whether a title says more than the name it stands beside ("User Id" for `user_id` does not).
fn informs(title: &str, name: Option<&str>) -> bool {
    let letters = |text: &str| -> String {
        text.chars()
            .filter(|c| c.is_alphanumeric())
            .flat_map(char::to_lowercase)
            .collect()
    };
    name.is_some_and(|name| letters(name) != letters(title))
}

/// What the keywords of a schema say in words or numbers.
#[derive(Default)]
struct Said<'a> {
    description: Option<&'a str>,
    title: Option<&'a str>,
    integer: bool,
    tuple: bool,
    format: Option<&'a str>,
    encoding: Option<&'a str>,
    media_type: Option<&'a str>,
    pattern: Option<&'a str>,
    minimum: Option<&'a Value>,
    maximum: Option<&'a Value>,
    above: Option<&'a Value>,
    below: Option<&'a Value>,
    step: Option<&'a Value>,
    length: Range,
    items: Range,
    properties: Range,
    marks: [bool; 4],
    default: Option<&'a Value>,
    examples: Option<&'a Value>,
}

/// A least and a greatest size.
type Range = (Option<u64>, Option<u64>);

const MARKS: [(&str, &str); 4] = [
    ("uniqueItems", "unique"),
    ("deprecated", "deprecated"),
    ("readOnly", "read-only"),
    ("writeOnly", "write-only"),
];

impl<'a> Said<'a> {
    fn note(&mut self, key: &str, value: &'a Value) {
        let text = || value.as_str().filter(|text| !text.trim().is_empty());
        // Generators write the range of exact integers where the author wrote "integer".
        let number = || {
            let exact_range = value
                .as_f64()
                .is_none_or(|number| number.abs() < 9_007_199_254_740_991.0);
            (value.is_number() && exact_range).then_some(value)
        };
        match key {
            "description" => self.description = text(),
            "title" => self.title = text(),
            "type" => self.integer = is_integer(value),
            "prefixItems" => self.tuple = true,
            "items" => self.tuple |= value.is_array(),
            "format" => self.format = text(),
            "contentEncoding" => self.encoding = text(),
            "contentMediaType" => self.media_type = text(),
            "pattern" => self.pattern = text(),
            "minimum" => self.minimum = number(),
            "maximum" => self.maximum = number(),
            "exclusiveMinimum" => self.above = number(),
            "exclusiveMaximum" => self.below = number(),
            "multipleOf" => self.step = number(),
            "minLength" => self.length.0 = value.as_u64(),
            "maxLength" => self.length.1 = value.as_u64(),
            "minItems" => self.items.0 = value.as_u64(),
            "maxItems" => self.items.1 = value.as_u64(),
            "minProperties" => self.properties.0 = value.as_u64(),
            "maxProperties" => self.properties.1 = value.as_u64(),
            "default" => self.default = Some(value).filter(|value| !value.is_null()),
            "examples" => self.examples = value.get(0),
            _ => {
                if let Some(at) = MARKS.iter().position(|(mark, _)| *mark == key) {
                    self.marks[at] = value == &Value::Bool(true);
                }
            }
        }
    }

    fn constraints(&self, description: &str) -> Vec<String> {
        let mut notes = Vec::new();
        if self.integer {
            notes.push("integer".to_owned());
        }
        notes.extend(self.format.map(|format| format!("format {}", cut(format))));
        for encoding in [self.encoding, self.media_type].into_iter().flatten() {
            notes.push(format!("encoded as {}", cut(encoding)));
        }
        notes.extend(match (self.minimum, self.maximum) {
            (Some(low), Some(high)) => Some(format!("{low}..{high}")),
            (Some(low), None) => Some(format!(">= {low}")),
            (None, Some(high)) => Some(format!("<= {high}")),
            (None, None) => None,
        });
        notes.extend(self.above.map(|low| format!("> {low}")));
        notes.extend(self.below.map(|high| format!("< {high}")));
        notes.extend(self.step.map(|step| format!("multiple of {step}")));
        notes.extend(self.pattern.map(|pattern| format!("pattern {}", cut(pattern))));
        notes.extend(size(self.length, "characters"));
        // A tuple shows its own length.
        if !self.tuple {
            notes.extend(size(self.items, "items"));
        }
        notes.extend(size(self.properties, "properties"));
        for ((_, mark), set) in MARKS.iter().zip(self.marks) {
            if set {
                notes.push((*mark).to_owned());
            }
        }
        if let Some(default) = self.default {
            let shown = json(default);
            let told = description.contains(shown.trim_matches('"'))
                && (description.contains("efault") || description.contains("DEFAULT"));
            if !told {
                notes.push(format!("default {shown}"));
            }
        }
        notes.extend(self.examples.map(|example| format!("example {}", json(example))));
        notes
    }
}

fn is_integer(types: &Value) -> bool {
    match types {
        Value::String(name) => name == "integer",
        Value::Array(names) => {
            let has = |wanted: &str| names.iter().any(|name| name == wanted);
            has("integer") && !has("number")
        }
        _ => false,
    }
}

fn size(range: Range, unit: &str) -> Option<String> {
    match (range.0.filter(|&low| low > 0), range.1) {
        (Some(1), None) => Some("not empty".to_owned()),
        (Some(low), None) => Some(format!(">= {low} {unit}")),
        (None, Some(high)) => Some(format!("<= {high} {unit}")),
        (Some(low), Some(high)) if low == high => Some(format!("{low} {unit}")),
        (Some(low), Some(high)) => Some(format!("{low}..{high} {unit}")),
        (None, None) => None,
    }
}

/// Returns the beginning of a value's JSON. Reads no deeper than it writes, however deep the value is.
fn json(value: &Value) -> String {
    fn write(out: &mut String, value: &Value) {
        if out.len() > MAX_NOTE_CHARS {
            return;
        }
        match value {
            Value::Array(values) => {
                for (at, value) in values.iter().enumerate() {
                    out.push(if at == 0 { '[' } else { ',' });
                    write(out, value);
                    if out.len() > MAX_NOTE_CHARS {
                        return;
                    }
                }
                out.push_str(if values.is_empty() { "[]" } else { "]" });
            }
            Value::Object(map) => {
                for (at, (name, value)) in map.iter().enumerate() {
                    out.push(if at == 0 { '{' } else { ',' });
                    out.push_str(&format!("{}:", quote(&shorten(name, MAX_NOTE_CHARS))));
                    write(out, value);
                    if out.len() > MAX_NOTE_CHARS {
                        return;
                    }
                }
                out.push_str(if map.is_empty() { "{}" } else { "}" });
            }
            Value::String(text) => out.push_str(&quote(&shorten(text, MAX_NOTE_CHARS))),
            scalar => out.push_str(&scalar.to_string()),
        }
    }
    let mut out = String::new();
    write(&mut out, value);
    cut(&out)
}

fn cut(text: &str) -> String {
    shorten(text, MAX_NOTE_CHARS)
}
