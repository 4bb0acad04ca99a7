//! The keywords of one schema node that decide its type, looked up once, and what can be told from them alone.

use serde_json::{Map, Value};

use crate::ir::TyId;

/// The keywords of one node.
#[derive(Clone, Copy, Default)]
pub(crate) struct Keywords<'a> {
    pub(crate) reference: Option<&'a Value>,
    pub(crate) types: Option<&'a Value>,
    pub(crate) constant: Option<&'a Value>,
    pub(crate) enumeration: Option<&'a Value>,
    pub(crate) all_of: Option<&'a Value>,
    pub(crate) any_of: Option<&'a Value>,
    pub(crate) one_of: Option<&'a Value>,
    pub(crate) properties: Option<&'a Value>,
    pub(crate) required: Option<&'a Value>,
    pub(crate) additional_properties: Option<&'a Value>,
    pub(crate) pattern_properties: Option<&'a Value>,
    pub(crate) unevaluated_properties: Option<&'a Value>,
    pub(crate) items: Option<&'a Value>,
    pub(crate) prefix_items: Option<&'a Value>,
    pub(crate) additional_items: Option<&'a Value>,
    pub(crate) min_items: Option<&'a Value>,
    pub(crate) max_items: Option<&'a Value>,
    /// OpenAPI 3.0 writes null beside a type.
    pub(crate) nullable: bool,
    /// Some keyword applies that says more about the same value and is not read.
    pub(crate) conditional: bool,
}

/// A set of JSON types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mask(u8);

/// Which of a node's keywords shape its values.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) literal: bool,
    pub(crate) array: bool,
    pub(crate) object: bool,
}

impl<'a> Keywords<'a> {
    pub(crate) fn read(map: &'a Map<String, Value>) -> Self {
        let mut words = Self::default();
        for (key, value) in map {
            let slot = match key.as_str() {
                "$ref" => &mut words.reference,
                "type" => &mut words.types,
                "const" => &mut words.constant,
                "enum" => &mut words.enumeration,
                "allOf" => &mut words.all_of,
                "anyOf" => &mut words.any_of,
                "oneOf" => &mut words.one_of,
                "properties" => &mut words.properties,
                "required" => &mut words.required,
                "additionalProperties" => &mut words.additional_properties,
                "patternProperties" => &mut words.pattern_properties,
                "unevaluatedProperties" => &mut words.unevaluated_properties,
                "items" => &mut words.items,
                "prefixItems" => &mut words.prefix_items,
                "additionalItems" => &mut words.additional_items,
                "minItems" => &mut words.min_items,
                "maxItems" => &mut words.max_items,
                "nullable" => {
                    words.nullable = value == &Value::Bool(true);
                    continue;
                }
                "if" | "$dynamicRef" | "$recursiveRef" | "dependentSchemas" => {
                    words.conditional = true;
                    continue;
                }
                _ => continue,
            };
            *slot = Some(value);
        }
        words
    }

    /// Returns how many of the keywords are there that put schemas together.
    pub(crate) fn compositions(&self) -> usize {
        [self.reference, self.all_of, self.any_of, self.one_of]
            .iter()
            .flatten()
            .count()
    }

    /// Returns the values that `const` or `enum` lists.
    pub(crate) fn enumerated(&self) -> Option<&'a [Value]> {
        match (self.constant, self.enumeration) {
            (Some(value), _) => Some(std::slice::from_ref(value)),
            (None, Some(Value::Array(values))) => Some(values),
            _ => None,
        }
    }

    /// Returns the JSON types that `type`, `const` and `enum` leave possible.
    pub(crate) fn own_types(&self) -> Mask {
        if self.is_malformed() {
            return Mask::ALL;
        }
        let named = match self.types {
            Some(Value::Array(names)) => Mask::all(names.iter().filter_map(Mask::named)),
            Some(name) => Mask::named(name).unwrap_or(Mask::ALL),
            None => Mask::ALL,
        };
        match self.enumerated() {
            Some(values) => Mask::all(values.iter().map(Mask::of)).and(named),
            None => named,
        }
    }

    /// Tells whether a keyword that shapes the type is not what the specification allows there.
    pub(crate) fn is_malformed(&self) -> bool {
        let wrong =
            |value: Option<&Value>, right: fn(&Value) -> bool| value.is_some_and(|value| !right(value));
        let types = |value: &Value| match value {
            Value::Array(names) => !names.is_empty() && names.iter().all(|name| Mask::named(name).is_some()),
            name => Mask::named(name).is_some(),
        };
        let filled = |value: &Value| value.as_array().is_some_and(|list| !list.is_empty());
        wrong(self.types, types)
            || [self.enumeration, self.all_of, self.any_of, self.one_of]
                .iter()
                .any(|list| wrong(*list, filled))
            || wrong(self.properties, Value::is_object)
            || wrong(self.reference, Value::is_string)
            || wrong(self.items, |value| {
                value.is_object() || value.is_boolean() || value.is_array()
            })
            || wrong(self.prefix_items, Value::is_array)
    }

    pub(crate) fn shape(&self, mask: Mask) -> Shape {
        let says_something = |value: &Option<&Value>| match value {
            Some(Value::Object(members)) => !members.is_empty(),
            Some(Value::Array(members)) => !members.is_empty(),
            Some(Value::Bool(value)) => !value,
            _ => false,
        };
        let literal = self.enumerated().is_some();
        let array = [self.items, self.prefix_items].iter().any(says_something)
            || self.max_items.and_then(Value::as_u64) == Some(0);
        let object = [
            self.properties,
            self.required,
            self.additional_properties,
            self.pattern_properties,
            self.unevaluated_properties,
        ];
        Shape {
            literal,
            array: !literal && mask.has(Mask::ARRAY) && array,
            object: !literal && mask.has(Mask::OBJECT) && object.iter().any(says_something),
        }
    }

    /// Returns the names that `required` lists.
    pub(crate) fn required_names(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        list(self.required).filter_map(Value::as_str)
    }
}

/// Returns the members of a keyword that holds a list, none when it holds anything else.
pub(crate) fn list(value: Option<&Value>) -> std::slice::Iter<'_, Value> {
    match value {
        Some(Value::Array(members)) => members.iter(),
        _ => [].iter(),
    }
}

impl Shape {
    pub(crate) fn any(self) -> bool {
        self.literal || self.array || self.object
    }
}

impl Mask {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const NULL: Self = Self(1);
    pub(crate) const BOOLEAN: Self = Self(2);
    pub(crate) const NUMBER: Self = Self(4);
    pub(crate) const STRING: Self = Self(8);
    pub(crate) const ARRAY: Self = Self(16);
    pub(crate) const OBJECT: Self = Self(32);
    pub(crate) const ALL: Self = Self(63);

    /// The scalars, in the order in which they are printed, and their types.
    pub(crate) const SCALARS: [(Self, TyId); 3] = [
        (Self::BOOLEAN, TyId::BOOLEAN),
        (Self::NUMBER, TyId::NUMBER),
        (Self::STRING, TyId::STRING),
    ];

    pub(crate) fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) fn within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(crate) fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn all(masks: impl Iterator<Item = Self>) -> Self {
        masks.fold(Self::NONE, Self::or)
    }

    pub(crate) fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::NULL,
            Value::Bool(_) => Self::BOOLEAN,
            Value::Number(_) => Self::NUMBER,
            Value::String(_) => Self::STRING,
            Value::Array(_) => Self::ARRAY,
            Value::Object(_) => Self::OBJECT,
        }
    }

    fn named(name: &Value) -> Option<Self> {
        Some(match name.as_str()? {
            "null" => Self::NULL,
            "boolean" => Self::BOOLEAN,
            "number" | "integer" => Self::NUMBER,
            "string" => Self::STRING,
            "array" => Self::ARRAY,
            "object" => Self::OBJECT,
            _ => return None,
        })
    }
}
