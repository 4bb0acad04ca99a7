//! `console`: one log entry per call, sent to the host before the call returns.
//!
//! Levels are not told apart in the text. What is built on top of logging (tables, counters, timers, groups) is in the
//! prelude.

use std::fmt::Write as _;

use crate::encode::{Encoded, encode};
use crate::engine::State;
use crate::inspect::{self, MAX_DEPTH};
use crate::js::{Args, Ctx, JsResult, Kind, Value};

/// `console.log` and its relatives.
pub(crate) fn log<'r>(ctx: Ctx<'r>, _: &Value<'r>, args: &Args<'_, 'r>) -> JsResult<Value<'r>> {
    let values: Vec<Value<'r>> = args.iter().collect();
    let text = format(&values)?;
    send(ctx, &text)?;
    Ok(ctx.undefined())
}

/// Sends text that is already formatted, for the prelude.
pub(crate) fn print<'r>(ctx: Ctx<'r>, _: &Value<'r>, args: &Args<'_, 'r>) -> JsResult<Value<'r>> {
    send(ctx, &args.get(0).to_text()?)?;
    Ok(ctx.undefined())
}

/// Formats like `console.log` does, for the prelude.
pub(crate) fn format_values<'r>(ctx: Ctx<'r>, _: &Value<'r>, args: &Args<'_, 'r>) -> JsResult<Value<'r>> {
    let values: Vec<Value<'r>> = args.iter().collect();
    ctx.string(&format(&values)?)
}

/// Shows one value to the depth given second, for the prelude.
pub(crate) fn inspect<'r>(ctx: Ctx<'r>, _: &Value<'r>, args: &Args<'_, 'r>) -> JsResult<Value<'r>> {
    let depth = match args.get(1).kind() {
        Kind::Int(depth) => usize::try_from(depth).unwrap_or(0).min(10),
        Kind::Null | Kind::Float(_) => 10,
        _ => MAX_DEPTH,
    };
    ctx.string(&inspect::inspect(&args.get(0), depth)?)
}

/// Moves the left edge of log lines, for the prelude.
pub(crate) fn indent<'r>(ctx: Ctx<'r>, _: &Value<'r>, args: &Args<'_, 'r>) -> JsResult<Value<'r>> {
    let state = State::of(ctx);
    let indent = state.indent.get();
    state.indent.set(if args.get(0).to_bool() {
        (indent + 2).min(100)
    } else {
        indent.saturating_sub(2)
    });
    Ok(ctx.undefined())
}

fn send(ctx: Ctx<'_>, text: &str) -> JsResult<()> {
    let state = State::of(ctx);
    match state.indent.get() {
        0 => state.send_log(ctx, text),
        indent => {
            let edge = " ".repeat(indent);
            state.send_log(
                ctx,
                &format!("{edge}{}", text.replace('\n', &format!("\n{edge}"))),
            )
        }
    }
}

/// Joins arguments with spaces. Strings stand as they are; a first string may have placeholders.
fn format(values: &[Value<'_>]) -> JsResult<String> {
    let mut out = String::new();
    let mut rest = values.iter();
    if let [first, _, ..] = values
        && first.is_string()
    {
        rest.next();
        let template = first.to_text()?;
        let mut parts = template.split('%');
        out.push_str(parts.next().unwrap_or_default());
        let mut literal = false;
        for part in parts {
            if std::mem::take(&mut literal) {
                out.push_str(part);
                continue;
            }
            let Some(directive) = part.chars().next() else {
                // `%%`, or a sign at the very end.
                out.push('%');
                literal = true;
                continue;
            };
            let tail = &part[directive.len_utf8()..];
            if matches!(directive, 's' | 'd' | 'i' | 'f' | 'j' | 'o' | 'O' | 'c')
                && let Some(value) = rest.next()
            {
                out.push_str(&placeholder(directive, value)?);
                out.push_str(tail);
            } else {
                out.push('%');
                out.push_str(part);
            }
        }
        if rest.len() > 0 {
            out.push(' ');
        }
    }
    for (index, value) in rest.enumerate() {
        if index > 0 {
            out.push(' ');
        }
        if value.is_string() {
            out.push_str(&value.to_text()?);
        } else {
            out.push_str(&inspect::inspect(value, MAX_DEPTH)?);
        }
    }
    Ok(out)
}

/// Returns the JSON of a value, if it has one.
fn json(value: &Value<'_>) -> Option<String> {
    let state = State::of(value.ctx());
    match encode(value.ctx(), state.intrinsics()?, value, state.bounds.get()) {
        Ok(Encoded::Text(text)) => Some(text),
        Ok(Encoded::Undefined) | Err(_) => None,
    }
}

fn placeholder(directive: char, value: &Value<'_>) -> JsResult<String> {
    let shown = || inspect::inspect(value, if directive == 's' { 0 } else { MAX_DEPTH });
    let number = |value: f64| {
        let mut text = String::new();
        if value.is_finite() {
            crate::encode::push_number(&mut text, value);
        } else {
            let _ = write!(
                text,
                "{}",
                if value.is_nan() {
                    "NaN"
                } else if value > 0.0 {
                    "Infinity"
                } else {
                    "-Infinity"
                }
            );
        }
        text
    };
    Ok(match (directive, value.kind()) {
        ('c', _) => String::new(),
        ('s', Kind::String) => value.to_text()?,
        ('d' | 'i' | 'f', Kind::BigInt | Kind::Symbol | Kind::Object) => "NaN".to_owned(),
        ('d' | 'f', _) => number(value.to_number()?),
        ('i', _) => number(value.to_number()?.trunc()),
        ('j', _) => match json(value) {
            Some(text) => text,
            None => shown()?,
        },
        _ => shown()?,
    })
}
