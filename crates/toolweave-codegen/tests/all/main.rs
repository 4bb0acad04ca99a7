//! What the declarations look like, schema by schema; and that no schema breaks them.

mod mapping;
