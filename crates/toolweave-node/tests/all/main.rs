//! The V8 engine against real Node processes. Skipped, with the reason, where there is no Node that works.

mod smoke;
mod support;
