//! From types to text. Decides which referenced types get a name and which are written where they are used, and
//! breaks lines.

use std::collections::{HashMap, HashSet};

use crate::convert::Converted;
use crate::ir::{Property, TargetId, Ty, TyId};
use crate::limits::{MAX_INDENT_LEVELS, MAX_TYPE_NAME_CHARS};
use crate::text;

/// A type that is used more than once is written out each time if it is no longer than this.
const INLINE_CHARS: usize = 24;
/// An object stays on one line up to this column.
const LINE_CHARS: usize = 100;

/// How an object is laid out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// One line if it is short and has no comments, otherwise one property a line.
    Lines,
    /// Always one line.
    OneLine,
    /// One line, with nested objects beyond `depth` and union members beyond `members` left out.
    Brief { depth: usize, members: usize },
}

/// The names of a schema's named types. `None`: written where it is used.
pub(crate) struct Names(Vec<Option<String>>);

impl Names {
    /// Chooses the names: `owner` and the reference's own name, made different from those in `taken`.
    pub(crate) fn choose(
        converted: &Converted<'_>,
        owner: &str,
        fallback: &str,
        taken: &mut HashSet<String>,
    ) -> Self {
        let mut names = vec![None; converted.bodies.len()];
        if names.is_empty() {
            return Self(names);
        }
        let inline = inlined(converted);
        for (target, name) in names.iter_mut().enumerate() {
            if converted.bodies[target].is_none() || inline[target] {
                continue;
            }
            let own = text::pascal(&converted.targets()[target].hint, MAX_TYPE_NAME_CHARS);
            let own = if own.is_empty() { fallback } else { &own };
            let base = format!("{owner}_{own}");
            let mut unique = base.clone();
            let mut count = 1usize;
            while !taken.insert(unique.clone()) {
                count += 1;
                unique = format!("{base}{count}");
            }
            *name = Some(unique);
        }
        Self(names)
    }

    /// Returns no names: every reference is written out.
    pub(crate) fn none(converted: &Converted<'_>) -> Self {
        Self(vec![None; converted.bodies.len()])
    }
}

/// Decides which named types are written where they are used: those that no recursion reaches, and that are used
/// once or are short.
fn inlined(converted: &Converted<'_>) -> Vec<bool> {
    let count = converted.bodies.len();
    let mut users: Vec<Vec<TargetId>> = vec![Vec::new(); count];
    let mut open = vec![0usize; count];
    for (target, body) in converted.bodies.iter().enumerate() {
        let Some(body) = *body else { continue };
        for used in references(converted, body) {
            users[used].push(target);
            open[target] += 1;
        }
    }
    let mut inline = vec![false; count];
    // Leaves first, so that a type is measured after all that it uses.
    let mut ready: Vec<TargetId> = (0..count)
        .filter(|&target| converted.bodies[target].is_some() && open[target] == 0)
        .collect();
    while let Some(target) = ready.pop() {
        if let Some(body) = converted.bodies[target] {
            inline[target] = converted.uses[target] <= 1 || is_short(converted, body, &inline);
        }
        for &user in &users[target] {
            open[user] -= 1;
            if open[user] == 0 {
                ready.push(user);
            }
        }
    }
    inline
}

/// Returns the named types that the text of `root` mentions, each as often as it does.
fn references(converted: &Converted<'_>, root: TyId) -> Vec<TargetId> {
    let mut found = Vec::new();
    let mut work = vec![root];
    while let Some(id) = work.pop() {
        if let Ty::Reference(target) = converted.arena.get(id) {
            found.push(*target);
        }
        each_child(converted.arena.get(id), |child| work.push(child));
    }
    found
}

fn each_child(ty: &Ty, mut visit: impl FnMut(TyId)) {
    match ty {
        Ty::Array(inner) | Ty::Map(inner) | Ty::Doc(_, inner) => visit(*inner),
        Ty::Tuple { elements, rest, .. } => elements.iter().chain(rest).for_each(|&id| visit(id)),
        Ty::Object(properties) => properties.iter().for_each(|property| visit(property.ty)),
        Ty::Union(members) | Ty::Intersection(members) => members.iter().for_each(|&id| visit(id)),
        _ => {}
    }
}

/// Tells whether a type is short enough to be repeated. Looks at a few nodes only.
fn is_short(converted: &Converted<'_>, root: TyId, inline: &[bool]) -> bool {
    let mut length = 0usize;
    let mut work = vec![root];
    while let Some(id) = work.pop() {
        length += match converted.arena.get(id) {
            Ty::Doc(..) => return false,
            Ty::Object(properties) if properties.iter().any(|property| property.doc.is_some()) => {
                return false;
            }
            Ty::Object(properties) => {
                properties
                    .iter()
                    .map(|property| property.name.len() + 3)
                    .sum::<usize>()
                    + 3
            }
            Ty::Literal(literal) => literal.len() + 3,
            Ty::Reference(target) => match converted.bodies[*target] {
                Some(body) if inline[*target] => {
                    work.push(body);
                    0
                }
                _ => INLINE_CHARS / 2,
            },
            Ty::Union(_) | Ty::Intersection(_) => 0,
            Ty::Map(_) => 16,
            Ty::Array(_) | Ty::Tuple { .. } => 2,
            _ => 7,
        };
        if length > INLINE_CHARS {
            return false;
        }
        each_child(converted.arena.get(id), |child| work.push(child));
    }
    true
}

/// How tightly the place binds that a type is written to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Binding {
    Alone,
    InUnion,
    InIntersection,
    BeforeBrackets,
}

pub(crate) struct Printer<'c, 'a> {
    converted: &'c Converted<'a>,
    names: &'c Names,
    layout: Layout,
    measured: HashMap<TyId, Measure>,
    /// Named types being written out, to notice recursion where nothing has a name.
    open: Vec<TargetId>,
    /// Text beyond this is not wanted any more.
    budget: usize,
    depth: usize,
}

/// What a type's one-line text is like.
#[derive(Clone, Copy, Default)]
struct Measure {
    length: usize,
    /// Some property has a comment, which wants a line of its own.
    commented: bool,
    /// It mentions a named type.
    named: bool,
}

const RED_ZONE: usize = 128 * 1024;
const MORE_STACK: usize = 2 * 1024 * 1024;

impl<'c, 'a> Printer<'c, 'a> {
    pub(crate) fn new(converted: &'c Converted<'a>, names: &'c Names, layout: Layout) -> Self {
        Self {
            converted,
            names,
            layout,
            measured: HashMap::new(),
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
        let names = self.names;
        for (target, name) in names.0.iter().enumerate() {
            let (Some(name), Some(body)) = (name, self.converted.bodies[target]) else {
                continue;
            };
            let (doc, body) = self.converted.arena.undocumented(body);
            comment_line(&mut out, doc.as_deref(), 0);
            let head = format!("type {name} = ");
            out.push_str(&head);
            self.write(&mut out, body, Binding::Alone, 0, head.len());
            out.push_str(";\n");
        }
        out
    }

    /// Tells whether `{}` fits a type, so that a call needs no argument.
    pub(crate) fn takes_nothing(&self, id: TyId) -> bool {
        let mut seen = HashSet::new();
        self.fits_empty(id, &mut seen)
    }

    fn fits_empty(&self, id: TyId, seen: &mut HashSet<TyId>) -> bool {
        stacker::maybe_grow(RED_ZONE, MORE_STACK, || match self.converted.arena.get(id) {
            Ty::Unknown | Ty::Json | Ty::Open | Ty::Empty | Ty::Map(_) => true,
            Ty::Object(properties) => properties.iter().all(|property| property.optional),
            Ty::Union(members) => members.iter().any(|&id| self.fits_empty(id, seen)),
            Ty::Intersection(parts) => parts.iter().all(|&id| self.fits_empty(id, seen)),
            Ty::Doc(_, inner) => self.fits_empty(*inner, seen),
            Ty::Reference(target) => {
                seen.insert(id)
                    && self.converted.bodies[*target].is_some_and(|body| self.fits_empty(body, seen))
            }
            _ => false,
        })
    }

    fn write(&mut self, out: &mut String, id: TyId, binding: Binding, margin: usize, column: usize) {
        if out.len() > self.budget {
            return;
        }
        stacker::maybe_grow(RED_ZONE, MORE_STACK, || {
            self.write_type(out, id, binding, margin, column)
        });
    }

    fn write_type(&mut self, out: &mut String, id: TyId, binding: Binding, margin: usize, column: usize) {
        let converted = self.converted;
        match converted.arena.get(id) {
            Ty::Never => out.push_str("never"),
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
                let (before, after) = if self.measure(*value).named {
                    ("{ [key: string]: ", " }")
                } else {
                    ("Record<string, ", ">")
                };
                out.push_str(before);
                self.write(out, *value, Binding::Alone, margin, column + before.len());
                out.push_str(after);
            }
            Ty::Union(_) | Ty::Intersection(_) => self.write_combination(out, id, binding, margin, column),
            Ty::Reference(target) => self.write_reference(out, *target, binding, margin, column),
            Ty::Doc(doc, inner) => {
                let doc = text::comment(doc);
                if !doc.is_empty() {
                    out.push_str("/** ");
                    out.push_str(&doc);
                    out.push_str(" */ ");
                }
                self.write(out, *inner, binding, margin, column);
            }
        }
    }

    fn write_reference(
        &mut self,
        out: &mut String,
        target: TargetId,
        binding: Binding,
        margin: usize,
        column: usize,
    ) {
        match (&self.names.0[target], self.converted.bodies[target]) {
            (Some(name), _) => out.push_str(name),
            (None, Some(body)) if !self.open.contains(&target) => {
                self.open.push(target);
                self.write(out, body, binding, margin, column);
                self.open.pop();
            }
            (None, _) => out.push_str("JsonValue"),
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
            Layout::Brief { depth, .. } if self.depth >= depth => {
                out.push_str("{…}");
                return;
            }
            Layout::Brief { .. } | Layout::OneLine => false,
            Layout::Lines => {
                let measure = self.measure(id);
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
            for (at, property) in properties.iter().enumerate() {
                out.push_str(if at == 0 { "{ " } else { "; " });
                out.push_str(&property.name);
                out.push_str(if property.optional { "?: " } else { ": " });
                self.write(out, property.ty, Binding::Alone, margin, column);
            }
            out.push_str(" }");
        }
        self.depth -= 1;
    }

    fn write_member(&mut self, out: &mut String, property: &Property, margin: usize) {
        comment_line(out, property.doc.as_deref(), margin);
        indent(out, margin);
        let start = out.len();
        out.push_str(&property.name);
        out.push_str(if property.optional { "?: " } else { ": " });
        let column = margin.min(MAX_INDENT_LEVELS) * 2 + out.len() - start;
        self.write(out, property.ty, Binding::Alone, margin, column);
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
        let (mut members, inner, separator) = match self.converted.arena.get(id) {
            Ty::Union(_) => (self.flatten(id), Binding::InUnion, " | "),
            _ => (self.flatten(id), Binding::InIntersection, " & "),
        };
        if let [only] = members[..] {
            self.write(out, only, binding, margin, column);
            return;
        }
        let mut left_out = false;
        if let Layout::Brief { members: most, .. } = self.layout
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
        #[derive(PartialEq, Eq, Hash)]
        enum Seen<'t> {
            Type(TyId),
            Literal(&'t str),
            Reference(TargetId),
        }
        let arena = &self.converted.arena;
        let is_union = matches!(arena.get(id), Ty::Union(_));
        let mut seen = HashSet::new();
        let mut members = Vec::new();
        let mut open = false;
        let mut work = vec![id];
        while let Some(id) = work.pop() {
            let key = match arena.get(id) {
                Ty::Union(nested) if is_union => {
                    work.extend(nested.iter().rev());
                    continue;
                }
                Ty::Intersection(nested) if !is_union => {
                    work.extend(nested.iter().rev());
                    continue;
                }
                Ty::Open if !is_union => {
                    open = true;
                    continue;
                }
                Ty::Literal(literal) => Seen::Literal(literal),
                Ty::Reference(target) => Seen::Reference(*target),
                _ => Seen::Type(id),
            };
            if seen.insert(key) {
                members.push(id);
            }
        }
        if open {
            members.push(TyId::OPEN);
        }
        members
    }

    fn measure(&mut self, id: TyId) -> Measure {
        if let Some(&known) = self.measured.get(&id) {
            return known;
        }
        let measure = stacker::maybe_grow(RED_ZONE, MORE_STACK, || self.measure_type(id));
        self.measured.insert(id, measure);
        measure
    }

    fn measure_type(&mut self, id: TyId) -> Measure {
        let converted = self.converted;
        let mut all = Measure::default();
        match converted.arena.get(id) {
            Ty::Literal(literal) => all.length = literal.len(),
            Ty::Doc(doc, inner) => {
                all = self.measure(*inner);
                all.length += doc.len() + 8;
            }
            Ty::Object(properties) => {
                all.length = 2;
                for property in properties {
                    let one = self.measure(property.ty);
                    all.length = all.length.saturating_add(one.length + property.name.len() + 4);
                    all.commented |= one.commented || property.doc.is_some();
                    all.named |= one.named;
                }
            }
            Ty::Reference(target) => match (&self.names.0[*target], converted.bodies[*target]) {
                (Some(name), _) => {
                    all = Measure {
                        length: name.len(),
                        commented: false,
                        named: true,
                    }
                }
                (None, Some(body)) if !self.open.contains(target) => {
                    self.open.push(*target);
                    all = self.measure(body);
                    self.open.pop();
                }
                _ => all.length = 9,
            },
            Ty::Union(members) | Ty::Intersection(members) => {
                for &member in members {
                    let one = self.measure(member);
                    all.length = all.length.saturating_add(one.length + 3);
                    all.commented |= one.commented;
                    all.named |= one.named;
                }
            }
            ty => {
                all.length = 8;
                let mut children = Vec::new();
                each_child(ty, |child| children.push(child));
                for child in children {
                    let one = self.measure(child);
                    all.length = all.length.saturating_add(one.length + 2);
                    all.commented |= one.commented;
                    all.named |= one.named;
                }
            }
        }
        all
    }
}

/// Writes a comment on a line of its own, unless nothing is left of it.
pub(crate) fn comment_line(out: &mut String, doc: Option<&str>, margin: usize) {
    let doc = doc.map(text::comment).unwrap_or_default();
    if !doc.is_empty() {
        indent(out, margin);
        out.push_str("/** ");
        out.push_str(&doc);
        out.push_str(" */\n");
    }
}

pub(crate) fn indent(out: &mut String, margin: usize) {
    for _ in 0..margin.min(MAX_INDENT_LEVELS) {
        out.push_str("  ");
    }
}
