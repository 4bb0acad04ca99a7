//! The registry of tools, what a model sees of them, and everything that happens to a call.
//!
//! A [`Registry`] holds [`Tool`]s for as long as their [`Registration`] lives. A [`Toolbox`] presents them in a [`Mode`],
//! renders the SDK, executes outer and nested calls through the same path, and runs programs on a
//! [`toolweave_runtime::CodeRuntime`]. This crate knows no transport, no engine and no file format of a configuration.
#![warn(clippy::disallowed_methods)]

mod fan;
mod observed;
mod output;
mod pipeline;
mod policy;
mod program;
mod registry;
mod run;
mod schedule;
mod schema;
mod sdk;
mod search;
mod text;
mod tool;
mod toolbox;
mod typecheck;

pub use observed::{Forget, Forgotten, MAX_SHAPE_LEVELS, MAX_SHAPE_NODES, MemoryShapes, Shape, ShapeStore};
pub use output::render_value;
pub use policy::{Approval, ApprovalRequest, Approver, CallView, Policy, PostVerdict, Rest, Verdict};
pub use registry::{Absence, OutputCheck, Registration, Registry, RegistryError};
pub use tool::{
    CallContext, Concurrency, Content, Effect, ErrorCode, ProgressSink, Provider, Tool, ToolError,
    ToolOutput, ToolSpec,
};
pub use toolbox::{
    CallRecord, Mode, ModeError, Presentation, ProgramReport, ProgramRequest, ReportedError, RunEvent,
    RunObserver, SdkDetail, SdkSection, ToolCall, ToolHit, ToolResult, Toolbox, ToolboxConfig, WireTool,
};

/// The name of the tool that takes programs. Reserved in every mode.
pub const RUN_CODE: &str = "run_code";
