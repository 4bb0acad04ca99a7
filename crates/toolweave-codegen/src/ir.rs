//! The types that a schema is turned into before they are printed, in an arena so that depth costs no stack when
//! they are dropped. The arena's constructors keep two promises: a union never holds `unknown`, and an intersection
//! is never wider than the compiler can multiply out.

use crate::limits::{MAX_COMBINATIONS, MAX_UNION_MEMBERS};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct TyId(u32);

/// Index of a type that is referred to: in an arena the node that some `$ref` points at, in a pool a named type.
pub(crate) type TargetId = usize;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Ty {
    Never,
    Unknown,
    /// `JsonValue`.
    Json,
    Null,
    Boolean,
    Number,
    String,
    /// `JsonObject`: any keys, any values.
    Open,
    /// `Record<string, never>`: no key at all.
    Empty,
    /// A literal, as its TypeScript text.
    Literal(Box<str>),
    Array(TyId),
    Tuple {
        elements: Vec<TyId>,
        required: usize,
        rest: Option<TyId>,
    },
    /// Exactly these keys. An open object is the intersection of one with `Open`.
    Object(Vec<Property>),
    /// Any keys, one type of value.
    Map(TyId),
    Union(Vec<TyId>),
    Intersection(Vec<TyId>),
    Reference(TargetId),
    /// A type with a comment before it.
    Doc(Box<str>, TyId),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Property {
    /// The name as it is printed: bare or quoted.
    pub(crate) name: Box<str>,
    pub(crate) optional: bool,
    pub(crate) ty: TyId,
}

impl TyId {
    pub(crate) const NEVER: Self = Self(0);
    pub(crate) const UNKNOWN: Self = Self(1);
    pub(crate) const JSON: Self = Self(2);
    pub(crate) const NULL: Self = Self(3);
    pub(crate) const BOOLEAN: Self = Self(4);
    pub(crate) const NUMBER: Self = Self(5);
    pub(crate) const STRING: Self = Self(6);
    pub(crate) const OPEN: Self = Self(7);
    pub(crate) const EMPTY: Self = Self(8);
    pub(crate) const JSON_ARRAY: Self = Self(9);

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the id of the type at `index`. Limits keep the number of types far below the last id.
    pub(crate) fn at(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(Self::UNKNOWN.0))
    }
}

impl Ty {
    /// How many types have an id of their own everywhere.
    pub(crate) const FIXED: usize = 10;

    /// Returns the types that have an id of their own everywhere, in the order of those ids.
    pub(crate) fn fixed() -> [Self; Self::FIXED] {
        [
            Self::Never,
            Self::Unknown,
            Self::Json,
            Self::Null,
            Self::Boolean,
            Self::Number,
            Self::String,
            Self::Open,
            Self::Empty,
            Self::Array(TyId::JSON),
        ]
    }

    /// Calls `visit` for each type directly inside this one.
    pub(crate) fn each_child(&self, mut visit: impl FnMut(TyId)) {
        match self {
            Self::Array(inner) | Self::Map(inner) | Self::Doc(_, inner) => visit(*inner),
            Self::Tuple { elements, rest, .. } => elements.iter().chain(rest).for_each(|&id| visit(id)),
            Self::Object(properties) => properties.iter().for_each(|property| visit(property.ty)),
            Self::Union(members) | Self::Intersection(members) => members.iter().for_each(|&id| visit(id)),
            _ => {}
        }
    }
}

pub(crate) struct Arena {
    types: Vec<Ty>,
    /// Union members that each type multiplies out to, saturating.
    widths: Vec<usize>,
}

impl Arena {
    pub(crate) fn new() -> Self {
        let types = Vec::from(Ty::fixed());
        let widths = types
            .iter()
            .map(|ty| if matches!(ty, Ty::Json) { 6 } else { 1 })
            .collect();
        Self { types, widths }
    }

    pub(crate) fn len(&self) -> usize {
        self.types.len()
    }

    pub(crate) fn get(&self, id: TyId) -> &Ty {
        &self.types[id.index()]
    }

    pub(crate) fn add(&mut self, ty: Ty) -> TyId {
        self.add_wide(ty, 1)
    }

    /// Adds a reference to a named type whose body is known to be `width` wide.
    pub(crate) fn reference(&mut self, target: TargetId, width: usize) -> TyId {
        self.add_wide(Ty::Reference(target), width)
    }

    pub(crate) fn width(&self, id: TyId) -> usize {
        self.widths[id.index()]
    }

    /// Returns the type under its comments.
    pub(crate) fn bare(&self, mut id: TyId) -> TyId {
        while let Ty::Doc(_, inner) = self.get(id) {
            id = *inner;
        }
        id
    }

    pub(crate) fn documented(&mut self, doc: Option<String>, ty: TyId) -> TyId {
        match doc {
            Some(doc) if !doc.is_empty() => {
                let width = self.width(ty);
                self.add_wide(Ty::Doc(doc.into(), ty), width)
            }
            _ => ty,
        }
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

    pub(crate) fn union(&mut self, members: Vec<TyId>) -> TyId {
        let bare: Vec<TyId> = members.iter().map(|&id| self.bare(id)).collect();
        let widest = [TyId::UNKNOWN, TyId::JSON]
            .into_iter()
            .find(|wide| bare.contains(wide));
        if let Some(wide) = widest {
            return self.absorb(&members, wide);
        }
        let mut kept: Vec<TyId> = members
            .into_iter()
            .zip(bare)
            .filter(|&(_, bare)| bare != TyId::NEVER)
            .map(|(id, _)| id)
            .collect();
        match kept.len() {
            0 => TyId::NEVER,
            1 => kept.remove(0),
            _ => {
                let width = kept
                    .iter()
                    .fold(0usize, |sum, &id| sum.saturating_add(self.width(id)));
                if width > MAX_UNION_MEMBERS {
                    return self.absorb(&kept, TyId::UNKNOWN);
                }
                self.add_wide(Ty::Union(kept), width)
            }
        }
    }

    pub(crate) fn intersection(&mut self, parts: Vec<TyId>) -> TyId {
        let mut kept: Vec<TyId> = Vec::new();
        let mut dropped: Vec<TyId> = Vec::new();
        let mut width = 1usize;
        let mut wide = TyId::JSON;
        for id in parts {
            match self.bare(id) {
                TyId::NEVER => return TyId::NEVER,
                bare @ (TyId::UNKNOWN | TyId::JSON) => {
                    if bare == TyId::UNKNOWN {
                        wide = bare;
                    }
                    dropped.push(id);
                }
                _ => {
                    let product = width.saturating_mul(self.width(id));
                    if product > MAX_COMBINATIONS && !kept.is_empty() {
                        wide = TyId::UNKNOWN;
                        continue;
                    }
                    width = product;
                    kept.push(id);
                }
            }
        }
        match kept.len() {
            0 => self.absorb(&dropped, wide),
            1 => {
                let only = kept[0];
                let doc = self.docs_of(&dropped);
                self.documented(doc, only)
            }
            _ => {
                let doc = self.docs_of(&dropped);
                let ty = self.add_wide(Ty::Intersection(kept), width);
                self.documented(doc, ty)
            }
        }
    }

    /// Returns `wide` with the comments of the types that it swallows.
    fn absorb(&mut self, swallowed: &[TyId], wide: TyId) -> TyId {
        let doc = self.docs_of(swallowed);
        self.documented(doc, wide)
    }

    fn docs_of(&self, ids: &[TyId]) -> Option<String> {
        let docs: Vec<String> = ids.iter().filter_map(|&id| self.undocumented(id).0).collect();
        (!docs.is_empty()).then(|| docs.join(" "))
    }

    fn add_wide(&mut self, ty: Ty, width: usize) -> TyId {
        let id = TyId::at(self.types.len());
        self.types.push(ty);
        self.widths.push(width);
        id
    }
}
