//! JSON Schema in, TypeScript out; pure.
