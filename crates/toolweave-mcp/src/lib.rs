//! MCP on both sides: upstream servers whose tools go into a registry, and the gateway that offers a toolbox to clients.
//!
//! The only crate that knows the protocol. It has no policy, runs no programs, and reads neither configuration files nor
//! the environment: both are handed in. Standard streams only; other transports plug in beside them.
#![warn(clippy::disallowed_methods)]

mod gateway;
mod json;
mod lines;
mod upstream;

pub use gateway::{GatewayConfig, serve, serve_stdio};
pub use upstream::{
    Annotations, Endpoint, INHERITED_ENV, StdioCommand, UpstreamConfig, UpstreamHost, UpstreamState,
    UpstreamStatus, Upstreams,
};

/// Why nothing was started, or why a session ended badly.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    #[error("an upstream server needs a name")]
    NamelessUpstream,
    #[error("two upstream servers are named `{0}`")]
    DuplicateUpstream(String),
    #[error("the session with the client ended: {0}")]
    Session(String),
}
