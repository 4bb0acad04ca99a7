//! What a schema says that a type cannot: its description, and the constraints beside the type, in short form.

use serde_json::{Map, Value};

use crate::limits::MAX_NOTE_CHARS;
use crate::text::shorten;

/// Returns the comment for a schema: its description (or a title that says something), then its constraints in
/// brackets. Not yet made inert.
pub(crate) fn describe(map: &Map<String, Value>, name: Option<&str>) -> Option<String> {
    let description =
        text(map, "description").or_else(|| text(map, "title").filter(|title| informs(title, name)));
    let mut notes = Vec::new();
    constraints(map, description.unwrap_or_default(), &mut notes);
    match (description, notes.is_empty()) {
        (None, true) => None,
        (Some(description), true) => Some(description.to_owned()),
        (None, false) => Some(format!("[{}]", notes.join(", "))),
        (Some(description), false) => Some(format!("{description} [{}]", notes.join(", "))),
    }
}

fn text<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    map.get(key)?.as_str().filter(|text| !text.trim().is_empty())
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

fn constraints(map: &Map<String, Value>, description: &str, notes: &mut Vec<String>) {
    if is_integer(map) {
        notes.push("integer".to_owned());
    }
    for key in ["format", "contentEncoding", "contentMediaType"] {
        if let Some(value) = text(map, key) {
            notes.push(format!(
                "{} {}",
                if key == "format" { key } else { "encoded as" },
                cut(value)
            ));
        }
    }
    numeric_range(map, notes);
    if let Some(step) = map.get("multipleOf").filter(|step| step.is_number()) {
        notes.push(format!("multiple of {step}"));
    }
    if let Some(pattern) = text(map, "pattern") {
        notes.push(format!("pattern {}", cut(pattern)));
    }
    sizes(map, ("minLength", "maxLength"), "characters", notes);
    // A tuple shows its own length.
    if !map.contains_key("prefixItems") && !map.get("items").is_some_and(Value::is_array) {
        sizes(map, ("minItems", "maxItems"), "items", notes);
    }
    sizes(map, ("minProperties", "maxProperties"), "properties", notes);
    for (key, note) in [
        ("uniqueItems", "unique"),
        ("deprecated", "deprecated"),
        ("readOnly", "read-only"),
        ("writeOnly", "write-only"),
    ] {
        if map.get(key) == Some(&Value::Bool(true)) {
            notes.push(note.to_owned());
        }
    }
    if let Some(default) = map.get("default").filter(|value| !value.is_null()) {
        let shown = default.to_string();
        if !(description.to_lowercase().contains("default") && description.contains(shown.trim_matches('"')))
        {
            notes.push(format!("default {}", cut(&shown)));
        }
    }
    if let Some(Value::Array(examples)) = map.get("examples")
        && let Some(example) = examples.first()
    {
        notes.push(format!("example {}", cut(&example.to_string())));
    }
}

fn is_integer(map: &Map<String, Value>) -> bool {
    match map.get("type") {
        Some(Value::String(name)) => name == "integer",
        Some(Value::Array(names)) => {
            let has = |wanted: &str| names.iter().any(|name| name == wanted);
            has("integer") && !has("number")
        }
        _ => false,
    }
}

fn numeric_range(map: &Map<String, Value>, notes: &mut Vec<String>) {
    // Generators write the range of exact integers where the author wrote "integer".
    let exact_range = |value: &&Value| {
        value
            .as_f64()
            .is_none_or(|value| value.abs() < 9_007_199_254_740_991.0)
    };
    let number = |key: &str| map.get(key).filter(|value| value.is_number()).filter(exact_range);
    match (number("minimum"), number("maximum")) {
        (Some(low), Some(high)) => notes.push(format!("{low}..{high}")),
        (Some(low), None) => notes.push(format!(">= {low}")),
        (None, Some(high)) => notes.push(format!("<= {high}")),
        (None, None) => {}
    }
    if let Some(low) = number("exclusiveMinimum") {
        notes.push(format!("> {low}"));
    }
    if let Some(high) = number("exclusiveMaximum") {
        notes.push(format!("< {high}"));
    }
}

fn sizes(map: &Map<String, Value>, keys: (&str, &str), unit: &str, notes: &mut Vec<String>) {
    let size = |key: &str| map.get(key).and_then(Value::as_u64);
    match (size(keys.0).filter(|&low| low > 0), size(keys.1)) {
        (Some(1), None) => notes.push("not empty".to_owned()),
        (Some(low), None) => notes.push(format!(">= {low} {unit}")),
        (None, Some(high)) => notes.push(format!("<= {high} {unit}")),
        (Some(low), Some(high)) if low == high => notes.push(format!("{low} {unit}")),
        (Some(low), Some(high)) => notes.push(format!("{low}..{high} {unit}")),
        (None, None) => {}
    }
}

fn cut(text: &str) -> String {
    shorten(text, MAX_NOTE_CHARS)
}
