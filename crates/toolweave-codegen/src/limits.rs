//! The sizes that a schema's author chooses and this crate bounds. What lies beyond a cap is printed wider,
//! never narrower, so that every value the schema accepts still fits the type.

/// Schema nodes read from one schema; the nodes beyond it become `unknown`.
pub const MAX_NODES: usize = 200_000;

/// Schemas inside schemas that are read, however they are nested; deeper nodes become `unknown`.
pub const MAX_DEPTH: usize = 50_000;

/// Levels of brackets that a type may have; what is inside the last becomes `unknown`. The deepest schema seen in the
/// wild has 14, and the compiler's own stack ends at a few hundred.
pub const MAX_NESTING: usize = 100;

/// Members of one `enum` printed; a longer one becomes the plain types of its members.
pub const MAX_ENUM_MEMBERS: usize = 1_000;

/// Properties of one object printed; the rest is covered by an open record.
pub const MAX_PROPERTIES: usize = 5_000;

/// Elements of one tuple; a longer one becomes an array of anything.
pub const MAX_TUPLE_ELEMENTS: usize = 100;

/// Members that one union may have, nested ones counted, before it is widened.
pub const MAX_UNION_MEMBERS: usize = 20_000;

/// Combinations that an intersection of unions may multiply out to before some of them are left out. TypeScript
/// gives up at 100 000.
pub const MAX_COMBINATIONS: usize = 4_096;

/// Characters of a default, pattern or example quoted in a comment.
pub const MAX_NOTE_CHARS: usize = 160;

/// Characters of one signature line.
pub const MAX_SIGNATURE_CHARS: usize = 600;

/// Characters of a named type's name, a number that tells it from another aside.
pub const MAX_TYPE_NAME_CHARS: usize = 60;

/// Levels that still add indentation. Deeper ones stay at this margin, so that text grows with the schema and
/// not with its square.
pub const MAX_INDENT_LEVELS: usize = 16;
