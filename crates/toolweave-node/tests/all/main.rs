//! The V8 engine against a real Node. Skipped, with the reason, where there is none that works.
//!
//! The contract suite is that of `toolweave-quickjs`, file by file; what V8 says in other words is in `differences`.

mod attacks;
mod differences;
mod lifecycle;
mod realm;
mod support;

#[path = "../../../toolweave-quickjs/tests/all/globals.rs"]
mod globals;
#[path = "../../../toolweave-quickjs/tests/all/hostile.rs"]
mod hostile;
#[path = "../../../toolweave-quickjs/tests/all/json.rs"]
mod json;
#[path = "../../../toolweave-quickjs/tests/all/language.rs"]
mod language;
#[path = "../../../toolweave-quickjs/tests/all/limits.rs"]
mod limits;
