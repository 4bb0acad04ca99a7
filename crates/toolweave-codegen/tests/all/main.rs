//! What the declarations look like, schema by schema; and that no schema, however odd, breaks them.

#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]
#![expect(clippy::print_stderr, reason = "a test that cannot run says so")]

mod block;
mod cases;
mod corpus;
mod hostile;
mod mapping;
mod suite;
mod support;

/// Returns the JSON types that every type's text relies on.
fn block_prelude() -> String {
    let block = toolweave_codegen::declarations(&[], toolweave_codegen::Detail::Full);
    block.lines().take(2).map(|line| format!("{line}\n")).collect()
}
