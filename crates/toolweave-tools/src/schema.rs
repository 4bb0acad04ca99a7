//! Checks values against the schemas that tools declare, and words every violation so that it can be put right.
//!
//! Schemas come from strangers. One that cannot be compiled, is too large, or could take exponential time is not used
//! at all: the tool works unchecked, and a warning says so. References are never fetched.

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value};
use toolweave_runtime::json::with_stack_for;

use crate::fan::Fan;
use crate::text::{clip, nearest};

/// The largest schema that is compiled, in nodes of its JSON tree.
const MAX_SCHEMA_NODES: usize = 200_000;
/// The deepest schema that is compiled.
const MAX_SCHEMA_DEPTH: u32 = 512;
/// The most checks that one place of a value may cost, by references that fan out.
const MAX_FAN: u64 = 10_000;
/// The most visits that one check may take, estimated as bytes of the value times the ways to its deepest place. A value
/// beyond that is not checked.
const MAX_WORK: u64 = 200_000_000;
/// Backtracking steps of one `pattern` on one string.
const MAX_BACKTRACKS: usize = 100_000;
/// Memory of one compiled `pattern`.
const MAX_PATTERN_BYTES: usize = 1024 * 1024;
/// Violations that are worded; the rest are counted.
const MAX_VIOLATIONS: usize = 12;
/// Characters of a value shown in a message.
const SHOWN_VALUE: usize = 60;
/// Property names shown in a message.
const SHOWN_NAMES: usize = 12;

/// A compiled schema, or the reason why there is none.
pub(crate) struct Checker {
    validator: Option<Validator>,
    depth: u32,
    fan: Option<Fan>,
    /// Why values go unchecked, for the operator and the run's warnings.
    pub(crate) unusable: Option<String>,
}

impl Checker {
    /// Compiles the schema of a tool. Never fails: see [`Checker::unusable`].
    pub(crate) fn compile(tool: &str, side: &str, schema: &Value) -> Self {
        match build(schema) {
            Ok((validator, Shape { depth, fan })) => Self {
                validator,
                depth,
                fan: Some(fan),
                unusable: None,
            },
            Err(reason) => {
                let reason = format!(
                    "the {side} schema of `{tool}` is not checked: {}",
                    clip(&reason, 200)
                );
                tracing::warn!("{reason}");
                Self {
                    validator: None,
                    depth: 0,
                    fan: None,
                    unusable: Some(reason),
                }
            }
        }
    }

    /// Returns every violation of a value, worded; none when it fits. `depth` and `bytes` are those of the value as JSON.
    pub(crate) fn violations(&self, schema: &Value, value: &Value, depth: u32, bytes: usize) -> Vec<String> {
        let Some(validator) = &self.validator else {
            return Vec::new();
        };
        let ways = self.fan.as_ref().map_or(1, |fan| fan.at(depth));
        if ways > 1 && ways.saturating_mul(bytes as u64) > MAX_WORK {
            tracing::debug!(ways, bytes, "a value is too costly to check");
            return Vec::new();
        }
        with_stack_for(depth.max(self.depth), || {
            if validator.is_valid(value) {
                return Vec::new();
            }
            let mut worded = Vec::new();
            let mut more = 0_usize;
            for error in validator.iter_errors(value) {
                if worded.len() == MAX_VIOLATIONS {
                    more += 1;
                } else if let Some(text) = word(&error, schema) {
                    worded.push(text);
                }
            }
            if more > 0 {
                worded.push(format!("and {more} more"));
            }
            worded
        })
    }
}

impl Checker {
    /// Returns what is wrong with the names of an argument object, by the root of the schema alone: required names that
    /// are not among `names`, when there are no others, and names in `sure` that a closed schema does not have.
    pub(crate) fn name_violations(
        &self,
        schema: &Value,
        names: &[&str],
        sure: &[&str],
        complete: bool,
    ) -> Vec<String> {
        if self.validator.is_none() {
            return Vec::new();
        }
        let mut violations = Vec::new();
        let properties = schema.get("properties").and_then(Value::as_object);
        let closed = schema.get("additionalProperties") == Some(&Value::Bool(false))
            && schema.get("patternProperties").is_none();
        if closed {
            let unexpected: Vec<_> = sure
                .iter()
                .filter(|name| !properties.is_some_and(|known| known.contains_key(**name)))
                .map(|name| (*name).to_owned())
                .collect();
            if !unexpected.is_empty() {
                violations.push(unknown_properties("", &unexpected, Some(schema)));
            }
        }
        if complete {
            for name in required_names(schema)
                .into_iter()
                .filter(|name| !names.contains(name))
            {
                let property = properties.and_then(|properties| properties.get(name));
                violations.push(missing(name, property));
            }
        }
        violations.truncate(MAX_VIOLATIONS);
        violations
    }
}

/// Joins violations into one message.
pub(crate) fn violation_message(head: &str, violations: &[String]) -> String {
    match violations {
        [one] => format!("{head}: {one}"),
        many => {
            let mut text = format!("{head}, {} problems:", many.len());
            for line in many {
                text.push_str("\n- ");
                text.push_str(line);
            }
            text
        }
    }
}

/// Returns the type that a schema asks for, in a few words for a message.
pub(crate) fn type_words(schema: &Value) -> Option<String> {
    let schema = schema.as_object()?;
    if let Some(Value::Array(options)) = schema.get("enum") {
        return Some(format!("one of {}", values(options)));
    }
    if let Some(value) = schema.get("const") {
        return Some(show(value));
    }
    match schema.get("type")? {
        Value::String(one) => Some(article(one)),
        Value::Array(many) => {
            let names: Vec<_> = many.iter().filter_map(Value::as_str).map(article).collect();
            (!names.is_empty()).then(|| names.join(" or "))
        }
        _ => None,
    }
}

/// Returns the parameters of an object schema, required ones first, optional ones marked with `?`.
pub(crate) fn parameter_list(schema: &Value) -> Vec<String> {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return Vec::new();
    };
    let required = required_names(schema);
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    for name in properties.keys() {
        if required.contains(&name.as_str()) {
            first.push(name.clone());
        } else {
            rest.push(format!("{name}?"));
        }
    }
    first.append(&mut rest);
    if first.len() > SHOWN_NAMES {
        first.truncate(SHOWN_NAMES);
        first.push("…".to_owned());
    }
    first
}

struct Shape {
    depth: u32,
    fan: Fan,
}

fn build(schema: &Value) -> Result<(Option<Validator>, Shape), String> {
    let depth = measure(schema)?;
    let fan = Fan::of(schema)?;
    if fan.at(0) > MAX_FAN {
        return Err("its references fan out too far".to_owned());
    }
    let shape = Shape { depth, fan };
    if is_unconstrained(schema) {
        return Ok((None, shape));
    }
    let options = || {
        jsonschema::options().offline().with_pattern_options(
            PatternOptions::fancy_regex()
                .backtrack_limit(MAX_BACKTRACKS)
                .size_limit(MAX_PATTERN_BYTES),
        )
    };
    let built = with_stack_for(depth, || {
        options().build(schema).or_else(|error| {
            // A `$schema` that nobody knows is no reason to check nothing: 2020-12 is what MCP assumes.
            if schema.get("$schema").is_some() && error.to_string().contains("meta-schema") {
                let mut plain = schema.clone();
                if let Value::Object(members) = &mut plain {
                    members.shift_remove("$schema");
                }
                options().build(&plain).map_err(|error| error.to_string())
            } else {
                Err(error.to_string())
            }
        })
    });
    built.map(|validator| (Some(validator), shape))
}

/// Returns whether any object satisfies the schema, so that there is nothing to compile.
fn is_unconstrained(schema: &Value) -> bool {
    match schema {
        Value::Bool(true) => true,
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

/// Returns the depth of a schema, or why it is too large.
fn measure(schema: &Value) -> Result<u32, String> {
    let mut deepest = 0;
    let mut nodes = 0_usize;
    let mut open = vec![(schema, 1_u32)];
    while let Some((value, depth)) = open.pop() {
        nodes += 1;
        if nodes > MAX_SCHEMA_NODES {
            return Err(format!("it has more than {MAX_SCHEMA_NODES} nodes"));
        }
        if depth > MAX_SCHEMA_DEPTH {
            return Err(format!("it is nested deeper than {MAX_SCHEMA_DEPTH} levels"));
        }
        deepest = deepest.max(depth);
        match value {
            Value::Array(items) => open.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(members) => open.extend(members.values().map(|member| (member, depth + 1))),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    Ok(deepest)
}

fn required_names(schema: &Value) -> Vec<&str> {
    schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default()
}

/// Words one violation; `None` for one that proves nothing.
fn word(error: &ValidationError<'_>, schema: &Value) -> Option<String> {
    let place = place(error.instance_path().as_str());
    let got = || got(error.instance());
    let at = |rule: String| {
        if place.is_empty() {
            rule
        } else {
            format!("`{place}` {rule}")
        }
    };
    let around = schema_around(error.schema_path().as_str(), schema);
    let text = match error.kind() {
        // A pattern that could not be evaluated says nothing about the value.
        ValidationErrorKind::BacktrackLimitExceeded { .. }
        | ValidationErrorKind::RegexEngineFailure { .. }
        | ValidationErrorKind::Referencing(_) => return None,
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            let property = around
                .and_then(|schema| schema.get("properties"))
                .and_then(|properties| properties.get(name));
            missing(&join(&place, name), property)
        }
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
            unknown_properties(&place, unexpected, around)
        }
        ValidationErrorKind::Type { kind } => at(format!("must be {}, got {}", kind_words(kind), got())),
        ValidationErrorKind::Enum { options } => {
            let options = options.as_array().map(Vec::as_slice).unwrap_or_default();
            at(format!("must be one of {}, got {}", values(options), got()))
        }
        ValidationErrorKind::Constant { expected_value } => {
            at(format!("must be {}, got {}", show(expected_value), got()))
        }
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            at(branches(context, error, schema))
        }
        ValidationErrorKind::OneOfMultipleValid { .. } => at(format!(
            "matches more than one of the forms allowed, got {}",
            got()
        )),
        ValidationErrorKind::Minimum { limit } => at(format!("must be at least {limit}, got {}", got())),
        ValidationErrorKind::Maximum { limit } => at(format!("must be at most {limit}, got {}", got())),
        ValidationErrorKind::ExclusiveMinimum { limit } => {
            at(format!("must be more than {limit}, got {}", got()))
        }
        ValidationErrorKind::ExclusiveMaximum { limit } => {
            at(format!("must be less than {limit}, got {}", got()))
        }
        ValidationErrorKind::MultipleOf { multiple_of } => {
            at(format!("must be a multiple of {multiple_of}, got {}", got()))
        }
        ValidationErrorKind::MinLength { limit } => {
            at(format!("must have at least {limit} characters, got {}", got()))
        }
        ValidationErrorKind::MaxLength { limit } => at(format!(
            "must have at most {limit} characters, got {}",
            length(error.instance())
        )),
        ValidationErrorKind::MinItems { limit } => at(format!(
            "must have at least {limit} items, got {}",
            length(error.instance())
        )),
        ValidationErrorKind::MaxItems { limit } => at(format!(
            "must have at most {limit} items, got {}",
            length(error.instance())
        )),
        ValidationErrorKind::MinProperties { limit } => at(format!(
            "must have at least {limit} properties, got {}",
            length(error.instance())
        )),
        ValidationErrorKind::MaxProperties { limit } => at(format!(
            "must have at most {limit} properties, got {}",
            length(error.instance())
        )),
        ValidationErrorKind::UniqueItems => at("must not repeat an item".to_owned()),
        ValidationErrorKind::Pattern { pattern } => at(format!(
            "must match the pattern {}, got {}",
            clip(pattern, 120),
            got()
        )),
        ValidationErrorKind::Format { format } => at(format!(
            "must be in the format `{}`, got {}",
            clip(format, 40),
            got()
        )),
        ValidationErrorKind::FalseSchema => at("is not allowed here".to_owned()),
        _ => at(clip(&error.masked_with("the value").to_string(), 200)),
    };
    Some(text)
}

/// Words the failure of a union by what the branch that came closest asks for.
fn branches(
    context: &[Vec<ValidationError<'static>>],
    error: &ValidationError<'_>,
    schema: &Value,
) -> String {
    let depth = |error: &ValidationError<'_>| error.instance_path().as_str().matches('/').count();
    let types: Option<Vec<String>> = context
        .iter()
        .map(|branch| match branch.as_slice() {
            [only] if only.instance_path() == error.instance_path() => match only.kind() {
                ValidationErrorKind::Type { kind } => Some(kind_words(kind)),
                ValidationErrorKind::Constant { expected_value } => Some(show(expected_value)),
                ValidationErrorKind::Enum { options } => Some(format!(
                    "one of {}",
                    values(options.as_array().map(Vec::as_slice).unwrap_or_default())
                )),
                _ => None,
            },
            _ => None,
        })
        .collect();
    if let Some(types) = types.filter(|types| !types.is_empty() && types.len() <= SHOWN_NAMES) {
        return format!("must be {}, got {}", types.join(" or "), got(error.instance()));
    }
    // A branch that fails deep inside, or in few places, is the one that was meant.
    let meant = context
        .iter()
        .filter(|branch| !branch.is_empty())
        .max_by_key(|branch| {
            let wrong_type = branch.iter().any(|inner| {
                inner.instance_path() == error.instance_path()
                    && matches!(inner.kind(), ValidationErrorKind::Type { .. })
            });
            let deepest = branch.iter().map(depth).max().unwrap_or(0);
            (!wrong_type, deepest, std::cmp::Reverse(branch.len()))
        });
    let hints: Vec<_> = meant
        .into_iter()
        .flatten()
        .filter_map(|inner| match inner.kind() {
            // One level is enough to repair a call, and keeps this from running away.
            ValidationErrorKind::AnyOf { .. } | ValidationErrorKind::OneOfNotValid { .. } => None,
            _ => word(inner, schema),
        })
        .take(3)
        .collect();
    let forms = context.len();
    if hints.is_empty() {
        format!(
            "matches none of the {forms} forms allowed, got {}",
            got(error.instance())
        )
    } else {
        format!(
            "matches none of the {forms} forms allowed; closest: {}",
            hints.join(", ")
        )
    }
}

fn missing(path: &str, schema: Option<&Value>) -> String {
    match schema.and_then(type_words) {
        Some(wanted) => format!("`{path}` is missing ({wanted})"),
        None => format!("`{path}` is missing"),
    }
}

fn unknown_properties(place: &str, unexpected: &[String], around: Option<&Value>) -> String {
    let allowed: Vec<&str> = around
        .and_then(|schema| schema.get("properties"))
        .and_then(Value::as_object)
        .map(|properties| properties.keys().map(String::as_str).collect())
        .unwrap_or_default();
    let names: Vec<_> = unexpected
        .iter()
        .take(SHOWN_NAMES)
        .map(|name| {
            let path = join(place, name);
            match nearest(name, allowed.iter().copied(), 1).first() {
                Some(near) => format!("`{path}` (closest: `{near}`)"),
                None => format!("`{path}`"),
            }
        })
        .collect();
    let known = if allowed.is_empty() {
        "none".to_owned()
    } else {
        let shown = allowed[..allowed.len().min(SHOWN_NAMES)].join(", ");
        if allowed.len() > SHOWN_NAMES {
            format!("{shown}, …")
        } else {
            shown
        }
    };
    let noun = if names.len() == 1 {
        "property"
    } else {
        "properties"
    };
    format!("unknown {noun} {}; known: {known}", names.join(", "))
}

/// Returns the schema object that holds the keyword at the end of a schema path.
fn schema_around<'s>(path: &str, schema: &'s Value) -> Option<&'s Value> {
    let (parent, _) = path.rsplit_once('/')?;
    schema.pointer(parent)
}

/// Turns a JSON pointer into the path that a program would write.
fn place(pointer: &str) -> String {
    let mut text = String::new();
    for step in pointer.split('/').skip(1) {
        let step = step.replace("~1", "/").replace("~0", "~");
        if !step.is_empty() && step.bytes().all(|b| b.is_ascii_digit()) {
            text.push_str(&format!("[{step}]"));
        } else {
            text = join(&text, &step);
        }
        if text.len() > 200 {
            return clip(&text, 200);
        }
    }
    text
}

fn join(place: &str, name: &str) -> String {
    let plain = !name.is_empty()
        && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '$')
        && !name.starts_with(|c: char| c.is_ascii_digit());
    match (place.is_empty(), plain) {
        (true, _) => clip(name, 80),
        (false, true) => format!("{place}.{}", clip(name, 80)),
        (false, false) => format!("{place}[{}]", show(&Value::String(name.to_owned()))),
    }
}

fn kind_words(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(one) => article(&one.to_string()),
        TypeKind::Multiple(set) => {
            let names: Vec<_> = set.iter().map(|one| article(&one.to_string())).collect();
            names.join(" or ")
        }
    }
}

fn article(type_name: &str) -> String {
    match type_name {
        "null" => "null".to_owned(),
        "integer" | "array" | "object" => format!("an {type_name}"),
        other => format!("a {}", clip(other, 40)),
    }
}

/// Names the type of a value, and shows it when it is short.
pub(crate) fn got(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => format!("the boolean {}", show(value)),
        Value::Number(_) => format!("the number {}", show(value)),
        Value::String(_) => format!("the string {}", show(value)),
        Value::Array(items) => format!("an array of {}", items.len()),
        Value::Object(_) => "an object".to_owned(),
    }
}

fn length(value: &Value) -> String {
    match value {
        Value::String(text) => text.chars().count().to_string(),
        Value::Array(items) => items.len().to_string(),
        Value::Object(members) => Map::len(members).to_string(),
        other => got(other),
    }
}

fn values(options: &[Value]) -> String {
    let mut shown: Vec<_> = options.iter().take(SHOWN_NAMES).map(show).collect();
    if options.len() > SHOWN_NAMES {
        shown.push("…".to_owned());
    }
    shown.join(", ")
}

/// Returns a short form of a value.
fn show(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("an array of {}", items.len()),
        Value::Object(_) => "an object".to_owned(),
        Value::String(text) => {
            // Cut before writing: the value may be megabytes.
            let cut = clip(text, SHOWN_VALUE);
            Value::String(cut).to_string()
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schemas_of_real_servers_are_checked() {
        let Some(shared) = toolweave_testkit::shared_dir(env!("CARGO_MANIFEST_DIR")) else {
            return;
        };
        let folder = shared.join("corpus/mcp-tools");
        let (mut all, mut unusable) = (0_usize, Vec::new());
        for file in std::fs::read_dir(folder).expect("a folder") {
            let path = file.expect("an entry").path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let text = std::fs::read(&path).expect("a file");
            let listed: Value = serde_json::from_slice(&text).expect("JSON");
            for tool in listed["tools"].as_array().into_iter().flatten() {
                for side in ["inputSchema", "outputSchema"] {
                    let Some(schema) = tool.get(side) else { continue };
                    all += 1;
                    let name = tool["name"].as_str().unwrap_or_default();
                    unusable.extend(Checker::compile(name, side, schema).unusable);
                }
            }
        }
        assert!(all > 2_000, "{all}");
        assert!(
            unusable.len() * 200 < all,
            "{} of {all}: {unusable:#?}",
            unusable.len()
        );
    }
}
