//! Values as text for people and models: `Point { x: 1, y: 'two' }`.
//!
//! Accessors are shown as such, proxies are looked through, and methods of the language are used as they were before the
//! program could replace them. Depth, items and length are bounded.

use std::fmt::Write as _;

use rquickjs::qjs;

use crate::encode::{is_identifier, push_number};
use crate::engine::State;
use crate::js::{Ctx, JsResult, Kind, PromiseState, Property, Thrown, Value};

/// Levels below the value itself that are shown.
pub(crate) const MAX_DEPTH: usize = 4;
const MAX_ITEMS: usize = 100;
/// The longest string inside a value, in bytes.
const MAX_STRING: usize = 10_000;
/// The longest text of one value, in bytes, give or take a member.
const MAX_TEXT: usize = 100_000;
/// Where lines are broken.
const LINE: usize = 76;

/// Writes a value as `console.log` shows it.
pub(crate) fn inspect(value: &Value<'_>, max_depth: usize) -> JsResult<String> {
    let mut inspector = Inspector {
        ctx: value.ctx(),
        open: Vec::new(),
        circular: Vec::new(),
        left: MAX_TEXT,
        max_depth,
    };
    inspector.value(value, 0)
}

/// Writes a value on one short line, whatever happens.
pub(crate) fn brief(value: &Value<'_>) -> String {
    match inspect(value, 2) {
        Ok(text) if text.len() > 1000 => format!("{}…", &text[..text.floor_char_boundary(1000)]),
        Ok(text) => text,
        Err(Thrown) => {
            drop(value.ctx().take_exception());
            "a value that cannot be shown".to_owned()
        }
    }
}

struct Inspector<'r> {
    ctx: Ctx<'r>,
    /// Addresses of the objects around the current one.
    open: Vec<usize>,
    /// Objects that contain themselves, in the order in which that was noticed.
    circular: Vec<usize>,
    left: usize,
    max_depth: usize,
}

/// An object taken apart.
struct Parts {
    prefix: String,
    brackets: (&'static str, &'static str),
    entries: Vec<String>,
    /// Whether the entries are short scalars that may share lines.
    flows: bool,
}

impl<'r> Inspector<'r> {
    fn value(&mut self, value: &Value<'r>, depth: usize) -> JsResult<String> {
        let text = match value.kind() {
            Kind::Undefined => "undefined".to_owned(),
            Kind::Null => "null".to_owned(),
            Kind::Bool(value) => value.to_string(),
            Kind::Int(value) => value.to_string(),
            Kind::Float(value) => float(value),
            Kind::BigInt => format!("{}n", value.to_text()?),
            Kind::String => quoted(&value.to_text()?),
            Kind::Symbol => symbol(value)?,
            Kind::Object => self.object(value, depth)?,
        };
        self.left = self.left.saturating_sub(text.len());
        Ok(text)
    }

    fn object(&mut self, value: &Value<'r>, depth: usize) -> JsResult<String> {
        let mut value = value.clone();
        for _ in 0..100 {
            if !value.is_proxy() {
                break;
            }
            value = value.proxy_target();
        }
        if value.is_proxy() {
            return Ok("[Proxy]".to_owned());
        }
        let address = value.address();
        if self.open.contains(&address) {
            let number = match self.circular.iter().position(|known| *known == address) {
                Some(at) => at + 1,
                None => {
                    self.circular.push(address);
                    self.circular.len()
                }
            };
            return Ok(format!("[Circular *{number}]"));
        }
        self.open.push(address);
        let parts = self.take_apart(&value, depth);
        self.open.pop();
        let text = join(parts?, depth);
        Ok(match self.circular.iter().position(|known| *known == address) {
            Some(at) => format!("<ref *{}> {text}", at + 1),
            None => text,
        })
    }

    fn take_apart(&mut self, value: &Value<'r>, depth: usize) -> JsResult<Parts> {
        let intrinsics = State::of(self.ctx).intrinsics();
        let class = value.class_name();
        let name = constructor_name(value)?;
        if value.is_function() {
            return self.with_fields(value, function_label(value, &class)?, depth, Fields::Extra);
        }
        if value.is_error() || class == "DOMException" {
            let label = crate::failure::brief(value);
            let label = if depth > 0 { format!("[{label}]") } else { label };
            return self.with_fields(value, label, depth, Fields::OfError);
        }
        if let Some(value_of) = intrinsics.and_then(|known| known.value_of(self.ctx, value.class_id())) {
            let primitive = value_of.call(value, &[])?;
            return Ok(label(format!("[{class}: {}]", self.value(&primitive, depth)?)));
        }
        if let Some(intrinsics) = intrinsics {
            if value.class_id() == intrinsics.date_class {
                return Ok(label(match intrinsics.date_to_iso(self.ctx).call(value, &[]) {
                    Ok(text) => text.to_text()?,
                    Err(thrown) => {
                        self.ctx.forget_exception(thrown)?;
                        "Invalid Date".to_owned()
                    }
                }));
            }
            if class == "RegExp" {
                let text = intrinsics
                    .regexp_to_string(self.ctx)
                    .call(value, &[])?
                    .to_text()?;
                return self.with_fields(value, text, depth, Fields::Extra);
            }
        }
        let is_array = value.is_array();
        let shown_name = name.clone().unwrap_or_else(|| class.clone());
        if depth > self.max_depth || self.left == 0 {
            return Ok(label(format!(
                "[{}]",
                if is_array { "Array" } else { &shown_name }
            )));
        }
        if is_array {
            let prefix = match name.as_deref() {
                Some("Array") => String::new(),
                Some(other) => format!("{other}({}) ", value.length()?),
                None => format!("[Array({}): null prototype] ", value.length()?),
            };
            return self.items(value, prefix, depth);
        }
        match class.as_str() {
            "Map" | "Set" => return self.collection(value, &class, &shown_name, depth),
            "Promise" => {
                let inner = match value.promise_state() {
                    PromiseState::Pending => "<pending>".to_owned(),
                    PromiseState::Fulfilled => self.value(&value.promise_result(), depth + 1)?,
                    PromiseState::Rejected => {
                        format!("<rejected> {}", self.value(&value.promise_result(), depth + 1)?)
                    }
                };
                return Ok(braces("Promise ", vec![inner]));
            }
            "ArrayBuffer" | "SharedArrayBuffer" | "DataView" => {
                let len = value.to_bytes().map_or(0, |bytes| bytes.len());
                return Ok(braces(&format!("{class} "), vec![format!("byteLength: {len}")]));
            }
            _ if class.ends_with("Array") => {
                let prefix = format!("{shown_name}({}) ", value.length()?);
                return self.items(value, prefix, depth);
            }
            _ => {}
        }
        let prefix = match name.as_deref() {
            Some("Object") if class == "Object" => String::new(),
            Some("Object") => format!("Object [{class}] "),
            Some(other) => format!("{other} "),
            None => "[Object: null prototype] ".to_owned(),
        };
        let entries = self.fields(value, depth, Fields::All)?;
        Ok(braces(&prefix, entries))
    }

    fn items(&mut self, value: &Value<'r>, prefix: String, depth: usize) -> JsResult<Parts> {
        let len = value.length()?;
        let mut entries = Vec::new();
        let mut flows = true;
        let mut index = 0;
        while index < len && entries.len() < MAX_ITEMS && self.left > 0 {
            let at = u32::try_from(index).unwrap_or(u32::MAX);
            match own_index(value, at)? {
                Some(Property::Data(item)) => {
                    flows &= !item.is_object() && !item.is_string();
                    entries.push(self.value(&item, depth + 1)?);
                    index += 1;
                }
                Some(Property::Accessor { getter, setter }) => {
                    entries.push(accessor(getter, setter).to_owned());
                    index += 1;
                }
                None => {
                    let mut holes = 1;
                    // A hole may be billions long; what is not worth counting is not counted.
                    while index + holes < len
                        && holes < 100_000
                        && !value.has_own_index(u32::try_from(index + holes).unwrap_or(u32::MAX))?
                    {
                        holes += 1;
                    }
                    if holes == 100_000 {
                        holes = len - index;
                    }
                    entries.push(format!("<{holes} empty item{}>", plural(holes)));
                    index += holes;
                }
            }
        }
        if index < len {
            entries.push(format!("... {} more item{}", len - index, plural(len - index)));
        }
        Ok(Parts {
            prefix,
            brackets: ("[", "]"),
            entries,
            flows,
        })
    }

    fn collection(&mut self, value: &Value<'r>, class: &str, name: &str, depth: usize) -> JsResult<Parts> {
        let Some(intrinsics) = State::of(self.ctx).intrinsics() else {
            return Ok(label(format!("[{class}]")));
        };
        let is_map = class == "Map";
        let collected = intrinsics
            .collect(self.ctx)
            .call(&self.ctx.undefined(), &[value, &self.ctx.bool(is_map)])?;
        let size = collected.get_index(0)?.to_text()?;
        let count = collected.length()?.saturating_sub(1) / if is_map { 2 } else { 1 };
        let mut entries = Vec::new();
        for index in 0..count {
            if self.left == 0 {
                break;
            }
            let at = u32::try_from(index).unwrap_or(0);
            entries.push(if is_map {
                let key = self.value(&collected.get_index(1 + 2 * at)?, depth + 1)?;
                let item = self.value(&collected.get_index(2 + 2 * at)?, depth + 1)?;
                format!("{key} => {item}")
            } else {
                self.value(&collected.get_index(1 + at)?, depth + 1)?
            });
        }
        let total = size.parse::<usize>().unwrap_or(0);
        if total > entries.len() {
            let more = total - entries.len();
            entries.push(format!("... {more} more item{}", plural(more as u64)));
        }
        Ok(braces(&format!("{name}({size}) "), entries))
    }

    /// Shows a label, and the own fields behind it if there are any.
    fn with_fields(
        &mut self,
        value: &Value<'r>,
        text: String,
        depth: usize,
        which: Fields,
    ) -> JsResult<Parts> {
        if depth > self.max_depth {
            return Ok(label(text));
        }
        let entries = self.fields(value, depth, which)?;
        if entries.is_empty() {
            return Ok(label(text));
        }
        Ok(braces(&format!("{text} "), entries))
    }

    fn fields(&mut self, value: &Value<'r>, depth: usize, which: Fields) -> JsResult<Vec<String>> {
        let flags = qjs::JS_GPN_STRING_MASK | qjs::JS_GPN_SYMBOL_MASK | qjs::JS_GPN_ENUM_ONLY;
        let keys = value.keys(flags)?;
        let mut entries = Vec::new();
        for index in 0..keys.len() {
            if entries.len() >= MAX_ITEMS || self.left == 0 {
                let more = keys.len() - index;
                entries.push(format!("... {more} more item{}", plural(more as u64)));
                break;
            }
            let Some(key) = keys.get(index) else { break };
            let name = if key.is_symbol() {
                format!("[{}]", symbol(&key.to_value()?)?)
            } else {
                key.to_text()
            };
            if which == Fields::OfError && matches!(name.as_str(), "name" | "message" | "stack") {
                continue;
            }
            let name = if key.is_symbol() || is_identifier(&name) {
                name
            } else {
                quoted(&name)
            };
            let text = match value.own(&key)? {
                Some(Property::Data(field)) => self.value(&field, depth + 1)?,
                Some(Property::Accessor { getter, setter }) => accessor(getter, setter).to_owned(),
                None => continue,
            };
            entries.push(format!("{name}: {text}"));
        }
        if which == Fields::OfError
            && let Some(Property::Data(cause)) = value.own(&self.ctx.atom("cause")?)?
        {
            entries.push(format!("[cause]: {}", self.value(&cause, depth + 1)?));
        }
        Ok(entries)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fields {
    All,
    Extra,
    OfError,
}

fn own_index<'r>(value: &Value<'r>, index: u32) -> JsResult<Option<Property<'r>>> {
    let key = value.ctx().atom(&index.to_string())?;
    value.own(&key)
}

fn label(text: String) -> Parts {
    Parts {
        prefix: text,
        brackets: ("", ""),
        entries: Vec::new(),
        flows: false,
    }
}

fn braces(prefix: &str, entries: Vec<String>) -> Parts {
    Parts {
        prefix: prefix.to_owned(),
        brackets: ("{", "}"),
        entries,
        flows: false,
    }
}

/// Puts the entries on one line if they fit, else on several.
fn join(parts: Parts, depth: usize) -> String {
    let Parts {
        prefix,
        brackets: (open, close),
        entries,
        flows,
    } = parts;
    if open.is_empty() {
        return prefix;
    }
    if entries.is_empty() {
        return format!("{prefix}{open}{close}");
    }
    let width: usize = entries.iter().map(|entry| entry.len() + 2).sum::<usize>() + prefix.len() + 2;
    if width + 2 * depth <= LINE && !entries.iter().any(|entry| entry.contains('\n')) {
        return format!("{prefix}{open} {} {close}", entries.join(", "));
    }
    let mut text = format!("{prefix}{open}\n");
    let last = entries.len() - 1;
    let mut column = 0;
    for (index, entry) in entries.iter().enumerate() {
        let comma = if index == last { "" } else { "," };
        if column > 0 && flows && column + entry.len() + 2 <= LINE {
            let _ = write!(text, " {entry}{comma}");
        } else {
            if column > 0 {
                text.push('\n');
                column = 0;
            }
            let _ = write!(text, "  {}{comma}", entry.replace('\n', "\n  "));
        }
        column += entry.len() + 2;
    }
    let _ = write!(text, "\n{close}");
    text
}

/// Returns the name of the constructor, or `None` for an object without a prototype.
fn constructor_name(value: &Value<'_>) -> JsResult<Option<String>> {
    let ctx = value.ctx();
    let (constructor, name) = (ctx.atom("constructor")?, ctx.atom("name")?);
    let mut prototype = value.prototype()?;
    for _ in 0..100 {
        if !prototype.is_object() || prototype.is_proxy() {
            break;
        }
        if let Some(Property::Data(class)) = prototype.own(&constructor)?
            && class.is_object()
            && !class.is_proxy()
            && let Some(Property::Data(name)) = class.own(&name)?
            && name.is_string()
        {
            return name.to_text().map(Some);
        }
        prototype = prototype.prototype()?;
    }
    Ok(None)
}

fn function_label(value: &Value<'_>, class: &str) -> JsResult<String> {
    let ctx = value.ctx();
    let name = match value.own(&ctx.atom("name")?)? {
        Some(Property::Data(name)) if name.is_string() => name.to_text()?,
        _ => String::new(),
    };
    let kind = match class {
        "AsyncFunction" | "GeneratorFunction" | "AsyncGeneratorFunction" => class,
        _ => "Function",
    };
    Ok(if name.is_empty() {
        format!("[{kind} (anonymous)]")
    } else {
        format!("[{kind}: {name}]")
    })
}

fn symbol(value: &Value<'_>) -> JsResult<String> {
    Ok(format!("Symbol({})", value.symbol_text()?))
}

fn float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    if value == 0.0 && value.is_sign_negative() {
        return "-0".to_owned();
    }
    let mut text = String::new();
    push_number(&mut text, value);
    text
}

fn accessor(getter: bool, setter: bool) -> &'static str {
    match (getter, setter) {
        (true, true) => "[Getter/Setter]",
        (false, true) => "[Setter]",
        _ => "[Getter]",
    }
}

fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// Quotes a string with whatever quotes need no escape, single ones first.
fn quoted(text: &str) -> String {
    let (text, more) = if text.len() > MAX_STRING {
        let cut = text.floor_char_boundary(MAX_STRING);
        (&text[..cut], text[cut..].chars().count())
    } else {
        (text, 0)
    };
    let quote = ['\'', '"', '`']
        .into_iter()
        .find(|quote| !text.contains(*quote))
        .unwrap_or('\'');
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if c < ' ' || c == '\u{7f}' => {
                let _ = write!(out, "\\x{:02X}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push(quote);
    if more > 0 {
        let _ = write!(out, "... {more} more character{}", plural(more as u64));
    }
    out
}
