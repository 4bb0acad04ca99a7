//! From types to text: parentheses, comments, lines.

use std::collections::HashSet;

use crate::ir::{Property, TargetId, Ty, TyId};
use crate::limits::MAX_INDENT_LEVELS;
use crate::pool::{Declared, Plan, Pool};
use crate::text;

/// The name of a member that no value has, by which a compiler's message shows that it is about one of these types.
pub const MARK: &str = "~";

/// An object stays on one line up to this column.
const LINE_CHARS: usize = 100;

/// How an object is laid out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// One line if it is short and has no comments, otherwise one property a line.
    Lines,
    /// Always one line.
    OneLine,
    /// One line, for a compiler: every object has the member [`MARK`], and what is unknown may be anything.
    Marked,
    /// One line without names for types. What is beyond these numbers is left out.
    Brief(Brief),
}

/// What a brief line has room for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Brief {
    /// Objects inside objects.
    pub(crate) depth: usize,
    /// Members of one union.
    pub(crate) members: usize,
    /// Properties of one object, the required ones first.
    pub(crate) properties: usize,
}

/// How tightly the place binds that a type is written to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Binding {
    Alone,
    InUnion,
    InIntersection,
    BeforeBrackets,
}

pub(crate) struct Printer<'p> {
    pool: &'p Pool,
    plan: &'p Plan,
    layout: Layout,
    /// Recursive types being written out, where nothing has a name.
    open: Vec<TargetId>,
    /// Text beyond this is not wanted any more.
    budget: usize,
    depth: usize,
}

const RED_ZONE: usize = 128 * 1024;
const MORE_STACK: usize = 2 * 1024 * 1024;

impl<'p> Printer<'p> {
    pub(crate) fn new(pool: &'p Pool, plan: &'p Plan, layout: Layout) -> Self {
        Self {
            pool,
            plan,
            layout,
            open: Vec::new(),
            budget: usize::MAX,
            depth: 0,
        }
    }

    /// Gives up on text longer than `budget`, which the caller notices by its length.
    pub(crate) fn within(mut self, budget: usize) -> Self {
        self.budget = budget;
        self
    }

    /// Returns the text of a type that starts at `column` of a line indented by `margin` levels.
    pub(crate) fn text(&mut self, id: TyId, margin: usize, column: usize) -> String {
        let mut out = String::new();
        self.write(&mut out, id, Binding::Alone, margin, column);
        out
    }

    /// Returns the declarations of the named types.
    pub(crate) fn declarations(&mut self) -> String {
        let mut out = String::new();
        let (pool, plan) = (self.pool, self.plan);
        for &declared in plan.order() {
            let (name, body) = match declared {
                Declared::Recursive(number) => pool.recursive(number),
                Declared::Repeated(id) => (plan.name(id).unwrap_or_default(), id),
            };
            let (doc, body) = self.lift(body, declared == Declared::Repeated(body));
            comment(&mut out, doc.as_deref());
            let head = format!("type {name} = ");
            out.push_str(&head);
            match plan.name(body) {
                // A type under its own comment can have a name of its own.
                Some(other) if declared != Declared::Repeated(body) => out.push_str(other),
                _ => self.write_body(&mut out, body, Binding::Alone, 0, head.len()),
            }
            out.push_str(";\n");
        }
        out
    }

    /// Tells whether `{}` fits a type, so that a call needs no argument.
    pub(crate) fn takes_nothing(&self, id: TyId) -> bool {
        self.fits_empty(id, &mut HashSet::new())
    }

    fn fits_empty(&self, id: TyId, seen: &mut HashSet<TargetId>) -> bool {
        stacker::maybe_grow(RED_ZONE, MORE_STACK, || match self.pool.get(id) {
            Ty::Unknown | Ty::Json | Ty::Open | Ty::Empty | Ty::Map(_) => true,
            Ty::Object(properties) => properties.iter().all(|property| property.optional),
            Ty::Union(members) => members.iter().any(|&id| self.fits_empty(id, seen)),
            Ty::Intersection(parts) => parts.iter().all(|&id| self.fits_empty(id, seen)),
            Ty::Doc(_, inner) => self.fits_empty(*inner, seen),
            Ty::Reference(number) => {
                seen.insert(*number) && self.fits_empty(self.pool.recursive(*number).1, seen)
            }
            _ => false,
        })
    }

    /// Takes the comments off a type as far as they are not those of a named type.
    fn lift(&self, mut id: TyId, own: bool) -> (Option<String>, TyId) {
        let mut docs: Vec<&str> = Vec::new();
        let mut named = !own && self.plan.name(id).is_some();
        while let Ty::Doc(doc, inner) = self.pool.get(id)
            && !named
        {
            if !docs.contains(&doc.as_ref()) {
                docs.push(doc);
            }
            id = *inner;
            named = self.plan.name(id).is_some();
        }
        ((!docs.is_empty()).then(|| docs.join(" ")), id)
    }

    fn write(&mut self, out: &mut String, id: TyId, binding: Binding, margin: usize, column: usize) {
        if out.len() > self.budget {
            return;
        }
        match self.plan.name(id) {
            Some(name) => out.push_str(name),
            None => self.write_body(out, id, binding, margin, column),
        }
    }

    fn write_body(&mut self, out: &mut String, id: TyId, binding: Binding, margin: usize, column: usize) {
        stacker::maybe_grow(RED_ZONE, MORE_STACK, || {
            self.write_type(out, id, binding, margin, column)
        });
    }

    fn write_type(&mut self, out: &mut String, id: TyId, binding: Binding, margin: usize, column: usize) {
        let pool = self.pool;
        match pool.get(id) {
            Ty::Never => out.push_str("never"),
            Ty::Unknown if self.layout == Layout::Marked => out.push_str("any"),
            Ty::Unknown => out.push_str("unknown"),
            Ty::Json => out.push_str("JsonValue"),
            Ty::Null => out.push_str("null"),
            Ty::Boolean => out.push_str("boolean"),
            Ty::Number => out.push_str("number"),
            Ty::String => out.push_str("string"),
            Ty::Open => out.push_str("JsonObject"),
            Ty::Empty => out.push_str("Record<string, never>"),
            Ty::Literal(literal) => out.push_str(literal),
            Ty::Array(item) => {
                self.write(out, *item, Binding::BeforeBrackets, margin, column);
                out.push_str("[]");
            }
            Ty::Tuple {
                elements,
                required,
                rest,
            } => {
                out.push('[');
                for (at, &element) in elements.iter().enumerate() {
                    if at > 0 {
                        out.push_str(", ");
                    }
                    if at < *required {
                        self.write(out, element, Binding::Alone, margin, column);
                    } else {
                        self.write(out, element, Binding::BeforeBrackets, margin, column);
                        out.push('?');
                    }
                }
                if let Some(rest) = rest {
                    out.push_str(if elements.is_empty() { "..." } else { ", ..." });
                    self.write(out, *rest, Binding::BeforeBrackets, margin, column);
                    out.push_str("[]");
                }
                out.push(']');
            }
            Ty::Object(properties) => self.write_object(out, id, properties, margin, column),
            Ty::Map(value) => {
                // `type A = Record<string, A>` is circular to the compiler; an index signature is not.
                let (before, after) = if self.plan.measure(*value).recursive {
                    ("{ [key: string]: ", " }")
                } else {
                    ("Record<string, ", ">")
                };
                out.push_str(before);
                self.write(out, *value, Binding::Alone, margin, column + before.len());
                out.push_str(after);
            }
            Ty::Union(_) | Ty::Intersection(_) => self.write_combination(out, id, binding, margin, column),
            Ty::Reference(number) => self.write_reference(out, *number, binding, margin, column),
            Ty::Doc(doc, inner) => {
                comment(out, Some(doc));
                self.write(out, *inner, binding, margin, column);
            }
        }
    }

    fn write_reference(
        &mut self,
        out: &mut String,
        number: TargetId,
        binding: Binding,
        margin: usize,
        column: usize,
    ) {
        let (name, body) = self.pool.recursive(number);
        if !matches!(self.layout, Layout::Brief(_)) {
            out.push_str(name);
        } else if self.open.contains(&number) {
            out.push_str("JsonValue");
        } else {
            self.open.push(number);
            self.write(out, body, binding, margin, column);
            self.open.pop();
        }
    }

    fn write_object(
        &mut self,
        out: &mut String,
        id: TyId,
        properties: &[Property],
        margin: usize,
        column: usize,
    ) {
        let lines = match self.layout {
            Layout::Brief(brief) if self.depth >= brief.depth => {
                out.push_str("{…}");
                return;
            }
            Layout::Brief(_) | Layout::OneLine | Layout::Marked => false,
            Layout::Lines => {
                let measure = self.plan.measure(id);
                measure.commented || column + measure.length > LINE_CHARS
            }
        };
        self.depth += 1;
        if lines {
            out.push_str("{\n");
            for property in properties {
                self.write_member(out, property, margin + 1);
            }
            indent(out, margin);
            out.push('}');
        } else {
            let most = match self.layout {
                Layout::Brief(brief) => brief.properties,
                _ => usize::MAX,
            };
            let (required, optional): (Vec<&Property>, Vec<&Property>) = match properties.len() > most {
                true => properties.iter().partition(|property| !property.optional),
                false => (properties.iter().collect(), Vec::new()),
            };
            let mut open = "{ ";
            // A schema may name a member like the mark; it keeps its own type then.
            let taken = || {
                properties
                    .iter()
                    .any(|property| property.name.trim_matches('"') == MARK)
            };
            if self.layout == Layout::Marked && !taken() {
                out.push_str(&format!("{{ \"{MARK}\"?: never"));
                open = "; ";
            }
            for (at, property) in required.into_iter().chain(optional).take(most).enumerate() {
                out.push_str(if at == 0 { open } else { "; " });
                out.push_str(&property.name);
                out.push_str(if property.optional { "?: " } else { ": " });
                self.write(out, property.ty, Binding::Alone, margin, column);
            }
            if properties.len() > most {
                out.push_str("; …");
            }
            out.push_str(" }");
        }
        self.depth -= 1;
    }

    fn write_member(&mut self, out: &mut String, property: &Property, margin: usize) {
        let (doc, ty) = self.lift(property.ty, false);
        indent(out, margin);
        comment(out, doc.as_deref());
        let start = out.len();
        out.push_str(&property.name);
        out.push_str(if property.optional { "?: " } else { ": " });
        let column = margin.min(MAX_INDENT_LEVELS) * 2 + out.len() - start;
        self.write(out, ty, Binding::Alone, margin, column);
        out.push_str(";\n");
    }

    fn write_combination(
        &mut self,
        out: &mut String,
        id: TyId,
        binding: Binding,
        margin: usize,
        column: usize,
    ) {
        let mut members = self.flatten(id);
        let (inner, separator) = match self.pool.get(id) {
            Ty::Union(_) => (Binding::InUnion, " | "),
            _ => (Binding::InIntersection, " & "),
        };
        if let [only] = members[..] {
            self.write(out, only, binding, margin, column);
            return;
        }
        let mut left_out = false;
        if let Layout::Brief(Brief { members: most, .. }) = self.layout
            && inner == Binding::InUnion
            && members.len() > most
        {
            members.truncate(most);
            left_out = true;
        }
        let parenthesised = match inner {
            Binding::InUnion => binding >= Binding::InIntersection,
            _ => binding == Binding::BeforeBrackets,
        };
        if parenthesised {
            out.push('(');
        }
        for (at, &member) in members.iter().enumerate() {
            if at > 0 {
                out.push_str(separator);
            }
            self.write(out, member, inner, margin, column);
        }
        if left_out {
            out.push_str(" | …");
        }
        if parenthesised {
            out.push(')');
        }
    }

    /// Returns the members of a union, or parts of an intersection, nested ones included and repeated ones not.
    /// `JsonObject` comes last in an intersection, where it reads as "and anything else".
    fn flatten(&self, id: TyId) -> Vec<TyId> {
        let pool = self.pool;
        let is_union = matches!(pool.get(id), Ty::Union(_));
        let mut seen = HashSet::new();
        let mut members = Vec::new();
        let mut open = false;
        let mut work = vec![id];
        while let Some(id) = work.pop() {
            match pool.get(id) {
                Ty::Union(nested) if is_union => work.extend(nested.iter().rev()),
                Ty::Intersection(nested) if !is_union => work.extend(nested.iter().rev()),
                Ty::Open if !is_union => open = true,
                // Looking through a few is quicker than hashing them.
                _ if members.len() < 16 => {
                    if !members.contains(&id) {
                        members.push(id);
                    }
                }
                _ => {
                    if seen.is_empty() {
                        seen.extend(members.iter().copied());
                    }
                    if seen.insert(id) {
                        members.push(id);
                    }
                }
            }
        }
        // A brief line is for reading, and says what a tool knows about only.
        if open && (members.is_empty() || !matches!(self.layout, Layout::Brief(_))) {
            members.push(TyId::OPEN);
        }
        members
    }
}

/// Writes a comment and the space after it, unless nothing is left of it.
pub(crate) fn comment(out: &mut String, doc: Option<&str>) {
    let doc = doc.map(text::comment).unwrap_or_default();
    if !doc.is_empty() {
        out.push_str("/** ");
        out.push_str(&doc);
        out.push_str(" */ ");
    }
}

/// Writes a comment on a line of its own, unless nothing is left of it.
pub(crate) fn comment_line(out: &mut String, doc: Option<&str>, margin: usize) {
    let start = out.len();
    indent(out, margin);
    let indented = out.len();
    comment(out, doc);
    if out.len() == indented {
        out.truncate(start);
    } else {
        out.pop();
        out.push('\n');
    }
}

pub(crate) fn indent(out: &mut String, margin: usize) {
    for _ in 0..margin.min(MAX_INDENT_LEVELS) {
        out.push_str("  ");
    }
}
