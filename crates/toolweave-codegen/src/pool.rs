//! All types of one text, each structure once. A structure that would be written out again and again, comments
//! included, gets a name instead, whether a `$ref` shared it or a server repeated it in every tool.

use std::collections::{HashMap, HashSet};

use indexmap::IndexSet;

use crate::convert::Converted;
use crate::ir::{Property, TargetId, Ty, TyId};
use crate::limits::{MAX_NESTING, MAX_TYPE_NAME_CHARS};
use crate::text;

/// Characters that naming a repeated type has to save.
const WORTH_NAMING: usize = 24;
/// Characters of a declaration around its name and body.
const DECLARATION: usize = 12;

pub(crate) struct Pool {
    types: IndexSet<Ty>,
    sizes: Vec<usize>,
    /// The recursive types, by the number in `Ty::Reference`.
    named: Vec<Named>,
    /// What a `$ref` called a type that is written where it is used.
    hints: HashMap<TyId, Box<str>>,
    names: Namer,
}

struct Named {
    name: String,
    body: TyId,
}

/// Which types of a pool have names, and how long every type's text is with them.
pub(crate) struct Plan {
    names: HashMap<TyId, String>,
    /// The named types in the order in which a reader meets them.
    order: Vec<Declared>,
    measures: Vec<Measure>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Declared {
    Recursive(TargetId),
    Repeated(TyId),
}

/// What a type's one-line text is like.
#[derive(Clone, Copy, Default)]
pub(crate) struct Measure {
    pub(crate) length: usize,
    /// Some property in it has a comment.
    pub(crate) commented: bool,
    /// It mentions a recursive type.
    pub(crate) recursive: bool,
}

impl Pool {
    pub(crate) fn new() -> Self {
        let types = IndexSet::from(Ty::fixed());
        let sizes = types.iter().map(own_size).collect();
        Self {
            types,
            sizes,
            named: Vec::new(),
            hints: HashMap::new(),
            names: Namer::default(),
        }
    }

    /// Adds the types of one schema and returns its root.
    pub(crate) fn add(&mut self, converted: &Converted<'_>) -> TyId {
        let inline = inlined(converted);
        let mut numbers = vec![0; inline.len()];
        for (target, number) in numbers.iter_mut().enumerate() {
            if converted.bodies[target].is_some() && !inline[target] {
                *number = self.named.len();
                let name = self.names.unique(&converted.targets()[target].hint);
                self.named.push(Named {
                    name,
                    body: TyId::UNKNOWN,
                });
            }
        }
        let mut adding = Adding {
            pool: self,
            converted,
            inline: &inline,
            numbers: &numbers,
            done: vec![None; converted.arena.len()],
        };
        let root = adding.add(converted.root);
        for (target, body) in converted.bodies.iter().enumerate() {
            if let Some(body) = *body
                && !inline[target]
            {
                let body = adding.add(body);
                adding.pool.named[numbers[target]].body = body;
            }
        }
        root
    }

    pub(crate) fn get(&self, id: TyId) -> &Ty {
        self.types.get_index(id.index()).unwrap_or(&Ty::Unknown)
    }

    pub(crate) fn recursive(&self, number: TargetId) -> (&str, TyId) {
        let named = &self.named[number];
        (&named.name, named.body)
    }

    /// Takes the comments off a type, to be printed elsewhere.
    pub(crate) fn undocumented(&self, mut id: TyId) -> (Option<String>, TyId) {
        let mut docs: Vec<&str> = Vec::new();
        while let Ty::Doc(doc, inner) = self.get(id) {
            if !docs.contains(&doc.as_ref()) {
                docs.push(doc);
            }
            id = *inner;
        }
        ((!docs.is_empty()).then(|| docs.join(" ")), id)
    }

    /// Decides which of the types that `roots` reach get names; with each root what it would be called itself.
    pub(crate) fn plan(&mut self, roots: &[(TyId, &str)]) -> Plan {
        let mut chosen = Vec::new();
        let visits = self.visits(roots);
        for &(visited, hint) in &visits.order {
            let Declared::Repeated(id) = visited else {
                chosen.push((visited, String::new()));
                continue;
            };
            let count = visits.counts[id.index()];
            if count < 2 || is_plain(self.get(id)) {
                continue;
            }
            let hint = self.hints.get(&id).map_or(hint, |hint| &**hint);
            let written_out = (count - 1).saturating_mul(self.sizes[id.index()]);
            let by_name = (count + 1) * (hint.len().clamp(4, MAX_TYPE_NAME_CHARS) + 1) + DECLARATION;
            if written_out > by_name + WORTH_NAMING {
                chosen.push((visited, hint.to_owned()));
            }
        }
        let mut names = HashMap::new();
        let mut order = Vec::new();
        for (declared, hint) in chosen {
            if let Declared::Repeated(id) = declared {
                names.insert(id, self.names.unique(&hint));
            }
            order.push(declared);
        }
        let measures = self.measures(&names);
        Plan {
            names,
            order,
            measures,
        }
    }

    /// Returns the plan in which nothing that is written out twice gets a name.
    pub(crate) fn plain_plan(&self) -> Plan {
        let names = HashMap::new();
        let measures = self.measures(&names);
        Plan {
            names,
            order: Vec::new(),
            measures,
        }
    }

    /// Counts how often each type is written, the inside of a type only the first time.
    fn visits<'v>(&'v self, roots: &[(TyId, &'v str)]) -> Visits<'v> {
        let mut visits = Visits {
            counts: vec![0; self.types.len()],
            order: Vec::new(),
        };
        let mut recursive = HashSet::new();
        let mut work: Vec<(TyId, &str)> = roots.iter().rev().copied().collect();
        while let Some((id, hint)) = work.pop() {
            let count = &mut visits.counts[id.index()];
            *count += 1;
            if *count > 1 {
                continue;
            }
            visits.order.push((Declared::Repeated(id), hint));
            let first = work.len();
            match self.get(id) {
                Ty::Reference(number) => {
                    if recursive.insert(*number) {
                        visits.order.push((Declared::Recursive(*number), hint));
                        let named = &self.named[*number];
                        work.push((named.body, named.name.as_str()));
                    }
                }
                Ty::Object(properties) => {
                    work.extend(properties.iter().map(|property| (property.ty, &*property.name)));
                }
                ty => ty.each_child(|child| work.push((child, hint))),
            }
            work[first..].reverse();
        }
        visits
    }

    fn measures(&self, names: &HashMap<TyId, String>) -> Vec<Measure> {
        let mut measures: Vec<Measure> = Vec::with_capacity(self.types.len());
        // What is inside a type has a lower number than the type.
        for (index, ty) in self.types.iter().enumerate() {
            let mut all = Measure {
                length: own_size(ty),
                commented: false,
                recursive: false,
            };
            match ty {
                Ty::Reference(number) => {
                    all = Measure {
                        length: self.named[*number].name.len(),
                        commented: false,
                        recursive: true,
                    };
                }
                Ty::Object(properties) => {
                    all.commented = properties.iter().any(|property| {
                        matches!(self.get(property.ty), Ty::Doc(..)) && !names.contains_key(&property.ty)
                    });
                }
                _ => {}
            }
            ty.each_child(|child| {
                let one = measures.get(child.index()).copied().unwrap_or_default();
                let name = names.get(&child);
                all.length = all.length.saturating_add(name.map_or(one.length, String::len));
                all.commented |= one.commented && name.is_none();
                all.recursive |= one.recursive;
            });
            debug_assert_eq!(measures.len(), index);
            measures.push(all);
        }
        measures
    }

    fn intern(&mut self, ty: Ty) -> TyId {
        let mut size = own_size(&ty);
        ty.each_child(|child| size = size.saturating_add(self.sizes[child.index()]));
        let (index, new) = self.types.insert_full(ty);
        if new {
            self.sizes.push(size);
        }
        TyId::at(index)
    }
}

impl Plan {
    pub(crate) fn name(&self, id: TyId) -> Option<&str> {
        if self.names.is_empty() {
            None
        } else {
            self.names.get(&id).map(String::as_str)
        }
    }

    pub(crate) fn order(&self) -> &[Declared] {
        &self.order
    }

    pub(crate) fn measure(&self, id: TyId) -> Measure {
        self.measures.get(id.index()).copied().unwrap_or_default()
    }
}

struct Visits<'v> {
    counts: Vec<usize>,
    /// Each type when it is first met, and what stands for its name there.
    order: Vec<(Declared, &'v str)>,
}

/// Gives out names for types, each once. They start with `$`, so that none is a global's or a program's own.
#[derive(Default)]
struct Namer {
    counts: HashMap<String, usize>,
}

impl Namer {
    fn unique(&mut self, hint: &str) -> String {
        let own = text::pascal(hint, MAX_TYPE_NAME_CHARS);
        // A digit at the end would make "A1" and the first "A" after another the same.
        let end = if own.ends_with(|c: char| c.is_ascii_digit()) {
            "_"
        } else {
            ""
        };
        let base = if own.is_empty() {
            "$Type".to_owned()
        } else {
            format!("${own}{end}")
        };
        let count = self.counts.entry(base.clone()).or_insert(0);
        *count += 1;
        if *count == 1 {
            base
        } else {
            format!("{base}{count}")
        }
    }
}

struct Adding<'p, 'c, 'a> {
    pool: &'p mut Pool,
    converted: &'c Converted<'a>,
    inline: &'c [bool],
    numbers: &'c [TargetId],
    done: Vec<Option<TyId>>,
}

const RED_ZONE: usize = 128 * 1024;
const MORE_STACK: usize = 2 * 1024 * 1024;

impl Adding<'_, '_, '_> {
    fn add(&mut self, id: TyId) -> TyId {
        if id.index() < Ty::FIXED {
            return id;
        }
        if let Some(known) = self.done[id.index()] {
            return known;
        }
        let added = stacker::maybe_grow(RED_ZONE, MORE_STACK, || self.add_new(id));
        self.done[id.index()] = Some(added);
        added
    }

    fn add_new(&mut self, id: TyId) -> TyId {
        let all = |adding: &mut Self, ids: &[TyId]| ids.iter().map(|&id| adding.add(id)).collect();
        let converted = self.converted;
        let ty = match converted.arena.get(id) {
            Ty::Array(item) => Ty::Array(self.add(*item)),
            Ty::Map(value) => Ty::Map(self.add(*value)),
            Ty::Doc(doc, inner) => Ty::Doc(doc.clone(), self.add(*inner)),
            Ty::Union(members) => Ty::Union(all(self, members)),
            Ty::Intersection(parts) => Ty::Intersection(all(self, parts)),
            Ty::Tuple {
                elements,
                required,
                rest,
            } => Ty::Tuple {
                elements: all(self, elements),
                required: *required,
                rest: rest.map(|rest| self.add(rest)),
            },
            Ty::Object(properties) => Ty::Object(
                properties
                    .iter()
                    .map(|property| Property {
                        name: property.name.clone(),
                        optional: property.optional,
                        ty: self.add(property.ty),
                    })
                    .collect(),
            ),
            Ty::Reference(target) => match converted.bodies[*target] {
                Some(body) if self.inline[*target] => {
                    let body = self.add(body);
                    let hint = &converted.targets()[*target].hint;
                    self.pool
                        .hints
                        .entry(body)
                        .or_insert_with(|| hint.as_str().into());
                    return body;
                }
                Some(_) => Ty::Reference(self.numbers[*target]),
                None => return TyId::UNKNOWN,
            },
            ty => ty.clone(),
        };
        self.pool.intern(ty)
    }
}

/// Decides which referenced types are written where they are used: those that reach no recursion. (Whether one of
/// them is repeated too often is the plan's business.)
fn inlined(converted: &Converted<'_>) -> Vec<bool> {
    let count = converted.bodies.len();
    let mut users: Vec<Vec<TargetId>> = vec![Vec::new(); count];
    let mut open = vec![0usize; count];
    for (target, body) in converted.bodies.iter().enumerate() {
        let Some(body) = *body else { continue };
        each_reference(converted, body, |used, _| {
            users[used].push(target);
            open[target] += 1;
        });
    }
    let mut inline = vec![false; count];
    let mut heights = vec![0usize; count];
    // Leaves first, so that a type's height is known before those that use it.
    let mut ready: Vec<TargetId> = (0..count)
        .filter(|&target| converted.bodies[target].is_some() && open[target] == 0)
        .collect();
    while let Some(target) = ready.pop() {
        if let Some(body) = converted.bodies[target] {
            let mut height = 0;
            let own = each_reference(converted, body, |used, depth| {
                height = height.max(depth + if inline[used] { heights[used] } else { 0 });
            });
            heights[target] = height.max(own);
            inline[target] = heights[target] < MAX_NESTING / 2;
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

/// Calls `visit` with each reference in the text of `root` and its depth there; returns the text's own depth.
fn each_reference(converted: &Converted<'_>, root: TyId, mut visit: impl FnMut(TargetId, usize)) -> usize {
    let mut deepest = 0;
    let mut work = vec![(root, 0usize)];
    while let Some((id, depth)) = work.pop() {
        deepest = deepest.max(depth);
        match converted.arena.get(id) {
            Ty::Reference(target) => visit(*target, depth),
            ty @ (Ty::Doc(..) | Ty::Union(_)) => ty.each_child(|child| work.push((child, depth))),
            ty => ty.each_child(|child| work.push((child, depth + 1))),
        }
    }
    deepest
}

/// Tells the types that are as short as a name.
fn is_plain(ty: &Ty) -> bool {
    matches!(
        ty,
        Ty::Never
            | Ty::Unknown
            | Ty::Json
            | Ty::Null
            | Ty::Boolean
            | Ty::Number
            | Ty::String
            | Ty::Open
            | Ty::Empty
            | Ty::Literal(_)
            | Ty::Reference(_)
    )
}

/// Returns the length of a type's one-line text without the types inside.
fn own_size(ty: &Ty) -> usize {
    match ty {
        Ty::Null => 4,
        Ty::Never => 5,
        Ty::Number | Ty::String => 6,
        Ty::Unknown | Ty::Boolean => 7,
        Ty::Json => 9,
        Ty::Open => 10,
        Ty::Empty => 21,
        Ty::Literal(literal) => literal.len(),
        Ty::Array(_) => 2,
        Ty::Map(_) => 16,
        Ty::Tuple { elements, .. } => 2 * elements.len() + 6,
        Ty::Object(properties) => {
            2 + properties
                .iter()
                .map(|property| property.name.len() + 4)
                .sum::<usize>()
        }
        Ty::Union(members) | Ty::Intersection(members) => 3 * members.len(),
        Ty::Reference(_) => 12,
        Ty::Doc(doc, _) => doc.len() + 8,
    }
}
