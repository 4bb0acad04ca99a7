//! From a program's value to JSON text, without loss or with a reason.
//!
//! This never goes through anything a program can replace: keys, values and classes are read through the engine's own
//! interface. Getters, `toJSON` and proxy traps do run, as the language wants it; what they throw becomes a refusal.
//! The walk keeps its own stack, so depth is a matter of the limit and not of the machine.
//!
//! | value | standard | strict |
//! | --- | --- | --- |
//! | `undefined` property | absent | refused |
//! | `undefined` array element | `null` | refused |
//! | hole in an array | refused | refused |
//! | `NaN`, infinities, BigInt, function, symbol | refused | refused |
//! | `-0` | `0` | refused |
//! | `Date`, `URL`, anything with `toJSON` | what `toJSON` returns | refused |
//! | boxed number, string, boolean | the primitive | refused |
//! | `Error` | `name`, `message`, `cause`, `errors` and own enumerable data | refused |
//! | class instance | own enumerable data | refused |
//! | `Map`, `Set`, promise, binary data, other engine objects | refused, with the fix | refused |
//! | symbol keys, hidden keys, extra keys on arrays | left out | refused |
//! | cycle, unpaired surrogate, too deep, too long | refused | refused |

use std::collections::HashSet;
use std::fmt::Write as _;

use rquickjs::qjs;
use toolweave_runtime::JsonMode;

use crate::engine::Intrinsics;
use crate::js::{Ctx, JsResult, Keys, Kind, Property, Thrown, Value};

/// What bounds one value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) mode: JsonMode,
    pub(crate) max_bytes: usize,
    pub(crate) max_depth: usize,
}

/// Why a value has no JSON text.
pub(crate) enum Refusal {
    /// The value at `path` (empty for the root) cannot be said.
    Value { path: String, reason: String },
    /// The text would be longer than allowed.
    TooLong(usize),
    /// The run is being stopped; the exception is pending.
    Stopped(Thrown),
}

/// The text of a value, or that it is `undefined`.
pub(crate) enum Encoded {
    Undefined,
    Text(String),
}

/// Writes one value.
pub(crate) fn encode<'r>(
    ctx: Ctx<'r>,
    intrinsics: &Intrinsics,
    value: &Value<'r>,
    bounds: Bounds,
) -> Result<Encoded, Refusal> {
    let mut encoder = Encoder::new(ctx, intrinsics, bounds);
    if encoder.write(value.clone())? {
        Ok(Encoded::Text(encoder.out))
    } else {
        Ok(Encoded::Undefined)
    }
}

/// Writes an argument list as a JSON array. Trailing `undefined` arguments are absent; paths start inside the argument.
pub(crate) fn encode_arguments<'r>(
    ctx: Ctx<'r>,
    intrinsics: &Intrinsics,
    arguments: impl Iterator<Item = Value<'r>>,
    bounds: Bounds,
) -> Result<String, Refusal> {
    let mut encoder = Encoder::new(ctx, intrinsics, bounds);
    let mut arguments: Vec<Value<'r>> = arguments.collect();
    while arguments.last().is_some_and(Value::is_undefined) {
        arguments.pop();
    }
    encoder.out.push('[');
    for (index, argument) in arguments.into_iter().enumerate() {
        if index > 0 {
            encoder.out.push(',');
        }
        encoder.argument = index;
        if !encoder.write(argument)? {
            match bounds.mode {
                JsonMode::Standard => encoder.out.push_str("null"),
                JsonMode::Strict => return Err(encoder.refuse("is undefined")),
            }
        }
    }
    encoder.out.push(']');
    Ok(encoder.out)
}

impl Refusal {
    /// Says what is wrong with `what` ("the result", "the argument").
    pub(crate) fn describe(&self, what: &str) -> String {
        match self {
            Self::Value { path, reason } if path.is_empty() => format!("{what} {reason}"),
            Self::Value { path, reason } => format!("{what} has no JSON form: `{path}` {reason}"),
            Self::TooLong(most) => format!("{what} is more than {most} bytes of JSON"),
            Self::Stopped(_) => format!("{what} was not read to its end"),
        }
    }
}

struct Encoder<'i, 'r> {
    ctx: Ctx<'r>,
    intrinsics: &'i Intrinsics,
    bounds: Bounds,
    out: String,
    levels: Vec<Level<'r>>,
    /// Addresses of the objects in `levels`.
    open: HashSet<usize>,
    /// Which argument is being written.
    argument: usize,
}

struct Level<'r> {
    object: Value<'r>,
    /// The address that stands in `open`.
    address: usize,
    members: Members<'r>,
    next: usize,
    empty: bool,
}

enum Members<'r> {
    Items { len: usize },
    Fields(Keys<'r>),
}

/// What stands before the next value of a level.
enum Step<'r> {
    Value(Value<'r>),
    Close,
}

impl<'i, 'r> Encoder<'i, 'r> {
    fn new(ctx: Ctx<'r>, intrinsics: &'i Intrinsics, bounds: Bounds) -> Self {
        Self {
            ctx,
            intrinsics,
            bounds,
            out: String::new(),
            levels: Vec::new(),
            open: HashSet::new(),
            argument: 0,
        }
    }

    /// Writes a value and all it holds. Returns `false`, with nothing written, for `undefined`.
    fn write(&mut self, root: Value<'r>) -> Result<bool, Refusal> {
        let mut current = root;
        let mut written = false;
        loop {
            if !self.value(current)? && !written {
                return Ok(false);
            }
            written = true;
            if self.out.len() > self.bounds.max_bytes {
                return Err(Refusal::TooLong(self.bounds.max_bytes));
            }
            loop {
                if self.levels.is_empty() {
                    return Ok(true);
                }
                match self.step()? {
                    Step::Value(value) => {
                        current = value;
                        break;
                    }
                    Step::Close => {
                        if let Some(level) = self.levels.pop() {
                            self.open.remove(&level.address);
                            self.out.push(match level.members {
                                Members::Items { .. } => ']',
                                Members::Fields(_) => '}',
                            });
                        }
                    }
                }
            }
        }
    }

    /// Moves to the next member of the innermost level and writes what precedes it.
    fn step(&mut self) -> Result<Step<'r>, Refusal> {
        let Some(level) = self.levels.last_mut() else {
            return Ok(Step::Close);
        };
        match &level.members {
            Members::Items { len } => {
                if level.next == *len {
                    return Ok(Step::Close);
                }
                let index = level.next;
                level.next += 1;
                let narrow = u32::try_from(index).unwrap_or(u32::MAX);
                let value = level.object.get_index(narrow);
                if index > 0 {
                    self.out.push(',');
                }
                let value = self.contain(value)?;
                if value.is_undefined() {
                    let object = self.levels.last().map(|level| level.object.clone());
                    let present = object.map_or(Ok(false), |object| object.has_own_index(narrow));
                    if !self.contain(present)? {
                        return Err(self.refuse("is a hole in the array: fill it, or use null"));
                    }
                    if self.bounds.mode == JsonMode::Strict {
                        return Err(self.refuse("is undefined: use null"));
                    }
                    return Ok(Step::Value(self.ctx.null()));
                }
                Ok(Step::Value(value))
            }
            Members::Fields(_) => self.step_field(),
        }
    }

    fn step_field(&mut self) -> Result<Step<'r>, Refusal> {
        loop {
            let Some(level) = self.levels.last_mut() else {
                return Ok(Step::Close);
            };
            let Members::Fields(keys) = &level.members else {
                return Ok(Step::Close);
            };
            let Some(key) = keys.get(level.next) else {
                return Ok(Step::Close);
            };
            level.next += 1;
            let value = level.object.get(&key);
            let value = self.contain(value)?;
            let value = self.replace(value, || key.to_text())?;
            if value.is_undefined() {
                if self.bounds.mode == JsonMode::Strict {
                    return Err(self.refuse("is undefined: leave the property out"));
                }
                continue;
            }
            if let Some(level) = self.levels.last_mut() {
                if !level.empty {
                    self.out.push(',');
                }
                level.empty = false;
            }
            let out = &mut self.out;
            let fits = key.with_utf8(|bytes| push_string(out, bytes));
            if !self.contain(fits)? {
                return Err(self.refuse("is a key with an unpaired surrogate"));
            }
            self.out.push(':');
            return Ok(Step::Value(value));
        }
    }

    /// Applies `toJSON`.
    fn replace(&mut self, value: Value<'r>, key: impl FnOnce() -> String) -> Result<Value<'r>, Refusal> {
        if self.bounds.mode == JsonMode::Strict || !value.is_object() {
            return Ok(value);
        }
        let to_json = value.get_str(c"toJSON");
        let to_json = self.contain(to_json)?;
        if !to_json.is_function() {
            return Ok(value);
        }
        let key = self.ctx.string(&key());
        let key = self.contain(key)?;
        let replaced = to_json.call(&value, &[&key]);
        let replaced = self.contain_as(replaced, "has a toJSON that threw")?;
        if replaced.kind() == Kind::Null && value.class_id() == self.intrinsics.date_class {
            return Err(self.refuse("is an invalid Date"));
        }
        Ok(replaced)
    }

    /// Writes a scalar, or opens a level. Returns `false` for `undefined`.
    fn value(&mut self, value: Value<'r>) -> Result<bool, Refusal> {
        // Fields were replaced before their key was written; the root and array elements are replaced here.
        let value = match self.levels.last() {
            Some(Level {
                members: Members::Fields(_),
                ..
            }) => value,
            level => {
                let index = level.map_or(0, |level| level.next.saturating_sub(1));
                self.replace(value, || index.to_string())?
            }
        };
        match value.kind() {
            Kind::Undefined => {
                if self.levels.is_empty() {
                    return Ok(false);
                }
                if self.bounds.mode == JsonMode::Strict {
                    return Err(self.refuse("is undefined"));
                }
                self.out.push_str("null");
            }
            Kind::Null => self.out.push_str("null"),
            Kind::Bool(value) => self.out.push_str(if value { "true" } else { "false" }),
            Kind::Int(value) => self.out.push_str(itoa::Buffer::new().format(value)),
            Kind::Float(value) => self.float(value)?,
            Kind::BigInt => {
                return Err(
                    self.refuse("is a BigInt: use String(value), or Number(value) if it is small enough")
                );
            }
            Kind::Symbol => return Err(self.refuse("is a symbol: use a string")),
            Kind::String => {
                let out = &mut self.out;
                let fits = value.with_utf8(|bytes| push_string(out, bytes));
                if !self.contain(fits)? {
                    return Err(self.refuse(
                        "is a string with an unpaired surrogate: cut strings between characters, for example with \
                         Array.from(text), or call text.toWellFormed()",
                    ));
                }
            }
            Kind::Object => self.object(value)?,
        }
        Ok(true)
    }

    fn float(&mut self, value: f64) -> Result<(), Refusal> {
        if !value.is_finite() {
            return Err(self.refuse(&format!(
                "is {}: check the arithmetic, or use null",
                if value.is_nan() {
                    "NaN"
                } else if value > 0.0 {
                    "Infinity"
                } else {
                    "-Infinity"
                }
            )));
        }
        if value == 0.0 && value.is_sign_negative() && self.bounds.mode == JsonMode::Strict {
            return Err(self.refuse("is -0: use 0"));
        }
        push_json_number(&mut self.out, value);
        Ok(())
    }

    fn object(&mut self, value: Value<'r>) -> Result<(), Refusal> {
        let standard = self.bounds.mode == JsonMode::Standard;
        if value.is_function() {
            return Err(self.refuse("is a function: call it, or leave it out"));
        }
        let class = value.class_id();
        let mut is_array = value.is_array();
        if value.is_proxy() {
            if !standard {
                return Err(self.refuse("is a Proxy"));
            }
            is_array = self.is_array_behind_proxies(&value);
        } else if is_array || class == self.intrinsics.object_class {
            if !standard {
                self.check_plain(&value, is_array)?;
            } else if let Some(reason) = self.intrinsics.opaque_reason(&value) {
                return Err(self.refuse(&reason));
            }
        } else if !standard {
            return Err(self.refuse(&why_not(&value)));
        } else if value.is_error() {
            return self.error(value);
        } else if let Some(primitive) = self.unboxed(&value)? {
            return self.value(primitive).map(drop);
        } else {
            let reason = if class == self.intrinsics.namespace_class {
                "is the object that holds the tools, not data".to_owned()
            } else {
                why_not(&value)
            };
            return Err(self.refuse(&reason));
        }
        let members = if is_array {
            let len = value.length();
            Members::Items {
                len: usize::try_from(self.contain(len)?).unwrap_or(usize::MAX),
            }
        } else {
            let keys = value.keys(qjs::JS_GPN_STRING_MASK | qjs::JS_GPN_ENUM_ONLY);
            Members::Fields(self.contain(keys)?)
        };
        self.open_level(value, members)
    }

    fn open_level(&mut self, object: Value<'r>, members: Members<'r>) -> Result<(), Refusal> {
        let address = object.address();
        if !self.open.insert(address) {
            return Err(self.refuse("is a circular reference to an object that contains it"));
        }
        if self.levels.len() >= self.bounds.max_depth {
            let path = shorten(&self.path());
            return Err(Refusal::Value {
                path,
                reason: format!("is nested deeper than {} levels", self.bounds.max_depth),
            });
        }
        self.out.push(match members {
            Members::Items { .. } => '[',
            Members::Fields(_) => '{',
        });
        self.levels.push(Level {
            object,
            address,
            members,
            next: 0,
            empty: true,
        });
        Ok(())
    }

    /// Writes an error as its name, its message, what it carries and its own enumerable data.
    fn error(&mut self, error: Value<'r>) -> Result<(), Refusal> {
        let plain = self.error_as_object(&error);
        let plain = self.contain(plain)?;
        let keys = plain.keys(qjs::JS_GPN_STRING_MASK | qjs::JS_GPN_ENUM_ONLY);
        let keys = self.contain(keys)?;
        // The copy is new each time; only the error itself tells a cycle.
        let address = error.address();
        if self.open.contains(&address) {
            return Err(self.refuse("is a circular reference to an object that contains it"));
        }
        self.open_level(plain, Members::Fields(keys))?;
        if let Some(level) = self.levels.last_mut() {
            self.open.remove(&level.address);
            level.address = address;
            self.open.insert(address);
        }
        Ok(())
    }

    fn error_as_object(&self, error: &Value<'r>) -> JsResult<Value<'r>> {
        use crate::js::flags::PLAIN;
        let plain = self.ctx.object()?;
        for key in ["name", "message"] {
            let key = self.ctx.atom(key)?;
            let text = error.get(&key)?;
            plain.define(
                &key,
                if text.is_string() {
                    text
                } else {
                    self.ctx.string("Error")?
                },
                PLAIN,
            )?;
        }
        for key in ["cause", "errors"] {
            if let Some(value) = own_data(error, key)?
                && !value.is_undefined()
            {
                plain.define_str(key, value, PLAIN)?;
            }
        }
        let keys = error.keys(qjs::JS_GPN_STRING_MASK | qjs::JS_GPN_ENUM_ONLY)?;
        for index in 0..keys.len() {
            if let Some(key) = keys.get(index) {
                let value = error.get(&key)?;
                plain.define(&key, value, PLAIN)?;
            }
        }
        Ok(plain)
    }

    fn unboxed(&mut self, value: &Value<'r>) -> Result<Option<Value<'r>>, Refusal> {
        let Some(value_of) = self.intrinsics.value_of(self.ctx, value.class_id()) else {
            return Ok(None);
        };
        let primitive = value_of.call(value, &[]);
        self.contain(primitive).map(Some)
    }

    fn is_array_behind_proxies(&self, value: &Value<'r>) -> bool {
        let mut target = value.clone();
        for _ in 0..100 {
            if !target.is_proxy() {
                break;
            }
            target = target.proxy_target();
        }
        target.is_array()
    }

    /// Checks that an object is what a literal makes (strict mode).
    fn check_plain(&mut self, value: &Value<'r>, is_array: bool) -> Result<(), Refusal> {
        let prototype = value.prototype();
        let prototype = self.contain(prototype)?;
        let bare = prototype.kind() == Kind::Null && !is_array;
        if !bare && !self.intrinsics.is_prototype_of_literals(&prototype, is_array) {
            return Err(self.refuse("is a class instance, not plain data"));
        }
        let flags = qjs::JS_GPN_STRING_MASK | qjs::JS_GPN_SYMBOL_MASK | qjs::JS_GPN_SET_ENUM;
        let keys = value.keys(flags);
        let keys = self.contain(keys)?;
        let len = value.length();
        let len = if is_array { self.contain(len)? } else { 0 };
        if is_array {
            return match keys.len() as u64 {
                count if count > len + 1 => Err(self.refuse("is an array with extra properties")),
                // A missing element is reported with its index when its turn comes.
                _ => Ok(()),
            };
        }
        for index in 0..keys.len() {
            let Some((key, enumerable)) = keys.entry(index) else {
                break;
            };
            if key.is_symbol() {
                return Err(self.refuse("has a symbol as a key"));
            }
            if !enumerable {
                let key = key.to_text();
                return Err(self.refuse(&format!("has the hidden property {key}")));
            }
        }
        Ok(())
    }

    /// Turns what program code threw into a refusal.
    fn contain<T>(&mut self, result: JsResult<T>) -> Result<T, Refusal> {
        self.contain_as(result, "could not be read")
    }

    fn contain_as<T>(&mut self, result: JsResult<T>, what: &str) -> Result<T, Refusal> {
        match result {
            Ok(value) => Ok(value),
            Err(Thrown) => {
                let thrown = self.ctx.take_exception();
                if thrown.is_uncatchable() {
                    return Err(Refusal::Stopped(self.ctx.throw_value(thrown)));
                }
                let text = crate::failure::brief(&thrown);
                Err(self.refuse(&format!("{what}: {text}")))
            }
        }
    }

    fn refuse(&self, reason: &str) -> Refusal {
        Refusal::Value {
            path: shorten(&self.path()),
            reason: reason.to_owned(),
        }
    }

    /// Returns where the walk stands: `summary.tags`, `list[3].x`.
    fn path(&self) -> String {
        let mut path = String::new();
        if self.argument > 0 {
            let _ = write!(path, "arguments[{}]", self.argument);
        }
        for level in &self.levels {
            let index = level.next.saturating_sub(1);
            match &level.members {
                Members::Items { .. } => {
                    let _ = write!(path, "[{index}]");
                }
                Members::Fields(keys) => {
                    let key = keys.get(index).map(|key| key.to_text()).unwrap_or_default();
                    if is_identifier(&key) {
                        if !path.is_empty() {
                            path.push('.');
                        }
                        path.push_str(&key);
                    } else {
                        let _ = write!(path, "[{key:?}]");
                    }
                }
            }
        }
        path
    }
}

/// Says why an engine object has no JSON form, and what to do about it.
fn why_not(value: &Value<'_>) -> String {
    if value.is_promise() {
        return "is a promise: an await is missing".to_owned();
    }
    let name = value.class_name();
    let fix = match name.as_str() {
        "Map" => "use Object.fromEntries(map), or Array.from(map)",
        "Set" => "use Array.from(set)",
        "WeakMap" | "WeakSet" | "WeakRef" => "it cannot be listed",
        "RegExp" => "use its source, or String(regexp)",
        "ArrayBuffer" | "SharedArrayBuffer" | "DataView" => {
            "send text, or Array.from(new Uint8Array(buffer)) for the numbers"
        }
        "Date" => "use date.toISOString()",
        "Error" => "use its name and message",
        "Number" | "String" | "Boolean" => "use the primitive, value.valueOf()",
        "Arguments" => "use Array.from(arguments)",
        "Generator" | "AsyncGenerator" => "use Array.from(generator), or collect its items in a loop",
        _ if name.ends_with("Array") => "use Array.from(array) for the numbers, or send text",
        _ if name.ends_with("Iterator") || name.ends_with("Iterator Wrap") || name.contains("Iterator") => {
            "use Array.from(iterator)"
        }
        _ => "turn it into plain data first",
    };
    format!("is {}, which JSON cannot hold: {fix}", article(&name))
}

fn article(name: &str) -> String {
    let vowel = name.starts_with(['A', 'E', 'I', 'O', 'U', 'a', 'e', 'i', 'o']) && !name.starts_with("Ui");
    format!("{} {name}", if vowel { "an" } else { "a" })
}

/// Appends a finite number as JSON. An integer beyond 2^53 has all its digits, so that no reader takes it for another one.
fn push_json_number(out: &mut String, value: f64) {
    if value.abs() >= 9_007_199_254_740_992.0 && value.abs() < 1e21 {
        let _ = write!(out, "{value:.0}");
    } else {
        push_number(out, value);
    }
}

/// Appends a number as ECMAScript writes it.
pub(crate) fn push_number(out: &mut String, value: f64) {
    const SAFE: f64 = 9_007_199_254_740_992.0;
    if value == value.trunc() && value.abs() < SAFE {
        #[expect(clippy::cast_possible_truncation, reason = "an integer below 2^53")]
        out.push_str(itoa::Buffer::new().format(value as i64));
    } else {
        out.push_str(dragonbox_ecma::Buffer::new().format_finite(value));
    }
}

/// Appends a quoted string. Returns `false`, with the text in an undefined state, if the bytes are not UTF-8.
pub(crate) fn push_string(out: &mut String, bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return false;
    };
    out.reserve(text.len() + 2);
    out.push('"');
    let mut start = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        if byte >= b' ' && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.push_str(&text[start..at]);
        start = at + 1;
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            8 => out.push_str("\\b"),
            12 => out.push_str("\\f"),
            _ => {
                let _ = write!(out, "\\u{byte:04x}");
            }
        }
    }
    out.push_str(&text[start..]);
    out.push('"');
    true
}

pub(crate) fn is_identifier(text: &str) -> bool {
    let mut chars = text.chars();
    chars
        .next()
        .is_some_and(|c| c.is_alphabetic() || c == '_' || c == '$')
        && chars.all(|c| c.is_alphanumeric() || c == '_' || c == '$')
}

/// Keeps the two ends of a long path.
fn shorten(path: &str) -> String {
    const HALF: usize = 100;
    if path.len() <= 2 * HALF + 3 {
        return path.to_owned();
    }
    let (head, tail) = (
        path.floor_char_boundary(HALF),
        path.ceil_char_boundary(path.len() - HALF),
    );
    format!("{}…{}", &path[..head], &path[tail..])
}

/// Reads an own data property without running program code.
pub(crate) fn own_data<'r>(object: &Value<'r>, key: &str) -> JsResult<Option<Value<'r>>> {
    let key = object.ctx().atom(key)?;
    Ok(match object.own(&key)? {
        Some(Property::Data(value)) => Some(value),
        Some(Property::Accessor { .. }) | None => None,
    })
}
