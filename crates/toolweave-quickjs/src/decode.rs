//! From JSON text to a program's value.
//!
//! Values are built through the engine's own interface, so nothing a program has replaced takes part, and `__proto__` is a
//! key like any other. The walk keeps its own stack. The text comes from the host, which has checked it; should it be wrong
//! all the same, that is an error and not a guess.

use std::collections::HashMap;

use crate::engine::State;
use crate::js::{Atom, Ctx, ErrorKind, JsResult, Thrown, Value, flags::PLAIN};

/// Builds the value.
///
/// # Errors
/// An exception is pending: out of memory, or text that is not JSON.
pub(crate) fn decode<'r>(ctx: Ctx<'r>, text: &str) -> JsResult<Value<'r>> {
    // While a large value is built nothing of it is garbage, and looking for cycles in it again and again is half the work.
    let large = text.len() > LARGE;
    let threshold = ctx.gc_threshold();
    if large {
        ctx.set_gc_threshold(usize::MAX);
    }
    let value = Decoder {
        ctx,
        text,
        bytes: text.as_bytes(),
        at: 0,
        keys: HashMap::new(),
        scratch: Vec::new(),
    }
    .read();
    if large {
        let used = State::of(ctx).used_memory();
        ctx.set_gc_threshold(threshold.max(used.saturating_add(used / 2)));
    }
    value
}

/// Text from this length on is worth the trouble.
const LARGE: usize = 64 * 1024;

/// Different keys that are remembered while one text is read.
const MAX_KNOWN_KEYS: usize = 256;

struct Decoder<'t, 'r> {
    ctx: Ctx<'r>,
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
    /// Rows of one shape repeat their keys; interning each once is what makes large results cheap.
    keys: HashMap<&'t str, Atom<'r>>,
    scratch: Vec<u16>,
}

enum Level<'r> {
    Items(Vec<Value<'r>>),
    Fields { object: Value<'r>, key: Atom<'r> },
}

/// A string in the text.
enum Piece<'t> {
    Plain(&'t str),
    /// It had escapes; the units are in the scratch buffer.
    Escaped,
}

impl<'t, 'r> Decoder<'t, 'r> {
    fn read(mut self) -> JsResult<Value<'r>> {
        let mut levels: Vec<Level<'r>> = Vec::new();
        'value: loop {
            self.space();
            let mut value = match self.peek() {
                Some(b'{') => {
                    self.at += 1;
                    self.space();
                    let object = self.ctx.object()?;
                    if self.peek() == Some(b'}') {
                        self.at += 1;
                        object
                    } else {
                        let key = self.key()?;
                        levels.push(Level::Fields { object, key });
                        continue 'value;
                    }
                }
                Some(b'[') => {
                    self.at += 1;
                    self.space();
                    if self.peek() == Some(b']') {
                        self.at += 1;
                        self.ctx.array(Vec::new())?
                    } else {
                        levels.push(Level::Items(Vec::new()));
                        continue 'value;
                    }
                }
                Some(b'"') => match self.string()? {
                    Piece::Plain(text) => self.ctx.string(text)?,
                    Piece::Escaped => self.escaped()?,
                },
                Some(b't') => self.word("true", self.ctx.bool(true))?,
                Some(b'f') => self.word("false", self.ctx.bool(false))?,
                Some(b'n') => self.word("null", self.ctx.null())?,
                Some(_) => self.number()?,
                None => return Err(self.wrong()),
            };
            loop {
                self.space();
                match levels.pop() {
                    None => {
                        return if self.at == self.bytes.len() {
                            Ok(value)
                        } else {
                            Err(self.wrong())
                        };
                    }
                    Some(Level::Items(mut items)) => {
                        items.push(value);
                        match self.next() {
                            Some(b',') => {
                                levels.push(Level::Items(items));
                                continue 'value;
                            }
                            Some(b']') => value = self.ctx.array(items)?,
                            _ => return Err(self.wrong()),
                        }
                    }
                    Some(Level::Fields { object, key }) => {
                        object.define(&key, value, PLAIN)?;
                        match self.next() {
                            Some(b',') => {
                                self.space();
                                let key = self.key()?;
                                levels.push(Level::Fields { object, key });
                                continue 'value;
                            }
                            Some(b'}') => value = object,
                            _ => return Err(self.wrong()),
                        }
                    }
                }
            }
        }
    }

    fn key(&mut self) -> JsResult<Atom<'r>> {
        let key = match self.string()? {
            Piece::Plain(text) => {
                if let Some(known) = self.keys.get(text) {
                    known.clone()
                } else {
                    let key = self.ctx.atom(text)?;
                    if self.keys.len() < MAX_KNOWN_KEYS {
                        self.keys.insert(text, key.clone());
                    }
                    key
                }
            }
            Piece::Escaped => {
                let text = String::from_utf16(&self.scratch).map_err(|_| self.wrong())?;
                self.ctx.atom(&text)?
            }
        };
        self.space();
        match self.next() {
            Some(b':') => Ok(key),
            _ => Err(self.wrong()),
        }
    }

    /// Reads a string. The result borrows the text unless there are escapes.
    fn string(&mut self) -> JsResult<Piece<'t>> {
        if self.next() != Some(b'"') {
            return Err(self.wrong());
        }
        let start = self.at;
        match memchr::memchr2(b'"', b'\\', &self.bytes[start..]) {
            Some(len) => self.at += len,
            None => return Err(self.wrong()),
        }
        if self.peek() == Some(b'"') {
            let text = &self.text[start..self.at];
            self.at += 1;
            return Ok(Piece::Plain(text));
        }
        self.scratch.clear();
        let mut plain = start;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.scratch.extend(self.text[plain..self.at].encode_utf16());
                    self.at += 1;
                    return Ok(Piece::Escaped);
                }
                Some(b'\\') => {
                    self.scratch.extend(self.text[plain..self.at].encode_utf16());
                    self.at += 1;
                    let unit = match self.next() {
                        Some(b'u') => {
                            let digits = self.text.get(self.at..self.at + 4).ok_or_else(|| self.wrong())?;
                            let unit = u16::from_str_radix(digits, 16).map_err(|_| self.wrong())?;
                            self.at += 4;
                            unit
                        }
                        Some(b'n') => 10,
                        Some(b'r') => 13,
                        Some(b't') => 9,
                        Some(b'b') => 8,
                        Some(b'f') => 12,
                        Some(byte @ (b'"' | b'\\' | b'/')) => u16::from(byte),
                        _ => return Err(self.wrong()),
                    };
                    self.scratch.push(unit);
                    plain = self.at;
                }
                Some(_) => self.at += 1,
                None => return Err(self.wrong()),
            }
        }
    }

    fn escaped(&self) -> JsResult<Value<'r>> {
        // Narrow strings stay narrow, which halves what most texts take.
        match String::from_utf16(&self.scratch) {
            Ok(text) => self.ctx.string(&text),
            Err(_) => self.ctx.string_from_utf16(&self.scratch),
        }
    }

    fn number(&mut self) -> JsResult<Value<'r>> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')) {
            self.at += 1;
        }
        let text = &self.text[start..self.at];
        if text.len() < 10
            && let Ok(value) = text.parse::<i32>()
            && (value != 0 || !text.starts_with('-'))
        {
            return Ok(self.ctx.int(value));
        }
        match text.parse::<f64>() {
            Ok(value) => Ok(self.ctx.number(value)),
            Err(_) => Err(self.wrong()),
        }
    }

    fn word(&mut self, word: &str, value: Value<'r>) -> JsResult<Value<'r>> {
        if self.bytes[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            Ok(value)
        } else {
            Err(self.wrong())
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

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek();
        self.at += usize::from(byte.is_some());
        byte
    }

    fn wrong(&self) -> Thrown {
        self.ctx.throw(
            ErrorKind::Syntax,
            &format!("the host sent text that is not JSON (byte {})", self.at),
        )
    }
}
