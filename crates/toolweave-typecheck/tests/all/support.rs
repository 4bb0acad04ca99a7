//! The compiler, where there is one, and declarations to check against.

use std::path::PathBuf;

use toolweave_typecheck::{Compiler, Declarations, Found, Policy, TypeChecker};

/// Declarations as they are made for a few tools.
pub(crate) const TOOLS: &str = r#"
type JsonValue = any;
type JsonObject = { [key: string]: any };
type $Doc = { "~"?: never; id: string; title: string; status: "open" | "closed"; tags: string[] };
interface Tools {
  read_doc: (args: { "~"?: never; id: string; mode?: "text" | "html"; limit?: number; page?: { "~"?: never; from?: number } }) => Promise<$Doc>;
  list_docs: (args?: { "~"?: never; prefix?: string }) => Promise<{ "~"?: never; docs: $Doc[]; next: string | null }>;
  put_docs: (args: { "~"?: never; docs: $Doc[]; tags: string[] }) => Promise<{ "~"?: never; ok: true; count: number } | { "~"?: never; ok: false; error: string }>;
  untyped: (args?: { "~"?: never; q?: string }) => Promise<any>;
  open: (args: { "~"?: never; id: string } & JsonObject) => Promise<{ "~"?: never; id: string } & JsonObject>;
  list: () => string[];
}
declare const tools: Tools;
declare const sdk: Tools;
"#;

pub(crate) fn declarations() -> Declarations {
    Declarations::new(TOOLS)
}

/// Returns the compiler that the person running the tests has, or says that there is none.
pub(crate) fn compiler() -> Option<Compiler> {
    #[expect(
        clippy::disallowed_methods,
        reason = "a test finds the compiler where the person running it says"
    )]
    let (named, path) = (std::env::var_os("TOOLWEAVE_TSC"), std::env::var_os("PATH"));
    let found = match named.map(PathBuf::from) {
        Some(named) => Compiler::at(&named).map_or(Found::Nothing, Found::Compiler),
        None => Compiler::find(&path.unwrap_or_default()),
    };
    let usable = found.clone().usable().filter(|compiler| !compiler.is_too_old());
    if usable.is_none() {
        #[expect(
            clippy::print_stderr,
            reason = "the reason of a skipped test belongs into its output"
        )]
        {
            eprintln!("skipped: {} ($TOOLWEAVE_TSC names one)", found.describe());
        }
    }
    usable
}

pub(crate) fn checker() -> Option<TypeChecker> {
    let checker = TypeChecker::new(compiler()?, Vec::new(), Policy::Auto);
    // Tests share few processors with much else.
    Some(checker.with_cap(std::time::Duration::from_secs(60)))
}
