//! The literal value of a call's argument as far as the text shows it.

use std::fmt::Write as _;

use swc_ecma_ast::{Expr, Lit, ObjectLit, Prop, PropName, PropOrSpread, UnaryOp};

/// Entries of arrays and objects that one argument keeps at most; what lies beyond is [`Literal::Unknown`].
const MAX_NODES: usize = 2_000;

/// Levels of arrays and objects that are kept.
const MAX_DEPTH: usize = 64;

/// A value as it stands in the program. What depends on running it is [`Literal::Unknown`].
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// Depends on running the program.
    Unknown,
    /// `undefined`, which JSON does not have.
    Undefined,
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, which may be infinite.
    Number(f64),
    /// A string or a template without substitutions.
    String(String),
    /// An array.
    Array {
        /// The items that the text shows.
        items: Vec<Literal>,
        /// Whether `items` are all items: false with a spread.
        complete: bool,
    },
    /// An object.
    Object {
        /// In source order, a repeated key overwritten in place.
        entries: Vec<(String, Literal)>,
        /// Whether `entries` are all properties: false with a spread or a computed key.
        complete: bool,
    },
}

impl Literal {
    /// Returns the value as JSON text, or nothing where a part of it is not known or not JSON.
    pub fn to_json(&self) -> Option<String> {
        let mut out = String::new();
        self.write_json(&mut out)?;
        Some(out)
    }

    fn write_json(&self, out: &mut String) -> Option<()> {
        match self {
            Self::Unknown | Self::Undefined => return None,
            Self::Null => out.push_str("null"),
            Self::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Self::Number(value) if value.is_finite() => {
                // Rust prints the shortest digits that read back as the same number, and never an exponent.
                write!(out, "{value}").ok()?;
            }
            Self::Number(_) => return None,
            Self::String(value) => write_string(value, out),
            Self::Array { complete: false, .. } | Self::Object { complete: false, .. } => return None,
            Self::Array { items, .. } => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    item.write_json(out)?;
                }
                out.push(']');
            }
            Self::Object { entries, .. } => {
                out.push('{');
                // An undefined property is an absent one.
                let present = entries.iter().filter(|(_, value)| *value != Self::Undefined);
                for (index, (key, value)) in present.enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    write_string(key, out);
                    out.push(':');
                    value.write_json(out)?;
                }
                out.push('}');
            }
        }
        Some(())
    }

    pub(crate) fn of(expr: &Expr) -> Self {
        read(expr, &mut MAX_NODES.clone(), MAX_DEPTH)
    }
}

fn write_string(value: &str, out: &mut String) {
    out.push('"');
    for c in value.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if (c as u32) < 0x20 => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
}

fn read(expr: &Expr, left: &mut usize, depth: usize) -> Literal {
    let Some(next) = left.checked_sub(1) else {
        return Literal::Unknown;
    };
    *left = next;
    let Some(depth) = depth.checked_sub(1) else {
        return Literal::Unknown;
    };
    match peel(expr) {
        Expr::Lit(Lit::Null(_)) => Literal::Null,
        Expr::Lit(Lit::Bool(value)) => Literal::Bool(value.value),
        Expr::Lit(Lit::Num(value)) => Literal::Number(value.value),
        Expr::Lit(Lit::Str(value)) => match value.value.as_str() {
            Some(text) => Literal::String(text.to_owned()),
            None => Literal::Unknown,
        },
        Expr::Ident(ident) if &*ident.sym == "undefined" => Literal::Undefined,
        Expr::Unary(unary) if unary.op == UnaryOp::Minus => match read(&unary.arg, left, depth) {
            Literal::Number(value) => Literal::Number(-value),
            _ => Literal::Unknown,
        },
        Expr::Tpl(template) => match template_text(template) {
            Some(text) => Literal::String(text),
            None => Literal::Unknown,
        },
        Expr::Array(array) => {
            let mut items = Vec::new();
            let mut complete = true;
            for item in &array.elems {
                match item {
                    Some(item) if item.spread.is_none() => items.push(read(&item.expr, left, depth)),
                    // A hole is an error at run time, a spread is any number of items.
                    _ => complete = false,
                }
            }
            Literal::Array { items, complete }
        }
        Expr::Object(object) => read_object(object, left, depth),
        _ => Literal::Unknown,
    }
}

fn read_object(object: &ObjectLit, left: &mut usize, depth: usize) -> Literal {
    let mut entries: Vec<(String, Literal)> = Vec::new();
    let mut complete = true;
    for prop in &object.props {
        let PropOrSpread::Prop(prop) = prop else {
            // A spread may overwrite what stands before it.
            for (_, value) in &mut entries {
                *value = Literal::Unknown;
            }
            complete = false;
            continue;
        };
        let (key, value) = match &**prop {
            Prop::Shorthand(ident) => (Some(ident.sym.to_string()), Literal::Unknown),
            Prop::KeyValue(pair) => (key_text(&pair.key), read(&pair.value, left, depth)),
            Prop::Method(method) => (key_text(&method.key), Literal::Unknown),
            Prop::Getter(getter) => (key_text(&getter.key), Literal::Unknown),
            Prop::Setter(setter) => (key_text(&setter.key), Literal::Unknown),
            Prop::Assign(_) => (None, Literal::Unknown),
        };
        match key {
            // `__proto__: value` sets the prototype and is no property.
            Some(key) if key == "__proto__" => complete = false,
            Some(key) => match entries.iter().position(|(known, _)| *known == key) {
                Some(index) => entries[index].1 = value,
                None if entries.len() < MAX_NODES => entries.push((key, value)),
                None => complete = false,
            },
            None => complete = false,
        }
    }
    Literal::Object { entries, complete }
}

/// Returns the text of a property name that is written out.
pub(crate) fn key_text(key: &PropName) -> Option<String> {
    match key {
        PropName::Ident(name) => Some(name.sym.to_string()),
        PropName::Str(text) => text.value.as_str().map(str::to_owned),
        PropName::Num(number) if number.value.fract() == 0.0 && number.value.abs() < 1e15 => {
            Some(number.value.to_string())
        }
        PropName::Computed(computed) => string_of(&computed.expr),
        PropName::Num(_) | PropName::BigInt(_) => None,
    }
}

/// Returns the text of a string literal or of a template without substitutions.
pub(crate) fn string_of(expr: &Expr) -> Option<String> {
    match peel(expr) {
        Expr::Lit(Lit::Str(text)) => text.value.as_str().map(str::to_owned),
        Expr::Tpl(template) => template_text(template),
        _ => None,
    }
}

fn template_text(template: &swc_ecma_ast::Tpl) -> Option<String> {
    match (&template.exprs[..], &template.quasis[..]) {
        ([], [only]) => only.cooked.as_ref()?.as_str().map(str::to_owned),
        _ => None,
    }
}

/// Removes parentheses and everything that only TypeScript sees.
pub(crate) fn peel(mut expr: &Expr) -> &Expr {
    loop {
        expr = match expr {
            Expr::Paren(inner) => &inner.expr,
            Expr::TsAs(inner) => &inner.expr,
            Expr::TsNonNull(inner) => &inner.expr,
            Expr::TsConstAssertion(inner) => &inner.expr,
            Expr::TsSatisfies(inner) => &inner.expr,
            Expr::TsTypeAssertion(inner) => &inner.expr,
            Expr::TsInstantiation(inner) => &inner.expr,
            _ => return expr,
        };
    }
}
