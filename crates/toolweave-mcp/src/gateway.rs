//! A toolbox offered to an MCP client.
//!
//! In mode `code` the client sees one tool, `run_code`, and the SDK as a resource and a prompt. A failed program is a result
//! with `isError`, never a protocol error.

mod handler;
mod progress;
mod result;
mod transport;

use std::time::Duration;

use rmcp::service::{ServerInitializeError, serve_server_with_ct};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use toolweave_tools::Toolbox;

use self::handler::Gateway;
use self::transport::{Flights, GatewayTransport};
use crate::{McpError, Upstreams};

/// How long calls that were cancelled at the end may take to notice.
const LAST_CALLS: Duration = Duration::from_secs(5);

/// Settings of the gateway.
#[derive(Clone, Debug)]
pub struct GatewayConfig {
    /// The servers behind the toolbox: waited for at the start, stopped at the end.
    pub upstreams: Option<Upstreams>,
    /// How long the first answers wait for servers that are still starting.
    pub patience: Duration,
    /// Ends the gateway when it fires.
    pub shutdown: CancellationToken,
    /// What a client is told about the whole, in place of the built-in text.
    pub instructions: Option<String>,
}

impl Default for GatewayConfig {
    fn default() -> Self {
        Self {
            upstreams: None,
            patience: Duration::from_millis(2_500),
            shutdown: CancellationToken::new(),
            instructions: None,
        }
    }
}

/// Serves one client on this process's standard streams, until it closes its side or the configuration says stop. Calls
/// that run then may finish within seconds or are cancelled, and the upstreams are stopped.
///
/// # Errors
/// A protocol failure that ends the session.
pub async fn serve_stdio(toolbox: Toolbox, config: GatewayConfig) -> Result<(), McpError> {
    let (read, write) = rmcp::transport::stdio_pipes();
    serve(toolbox, config, read, write).await
}

/// Serves one client on any pair of byte streams. See [`serve_stdio`].
///
/// # Errors
/// A protocol failure that ends the session.
pub async fn serve<R, W>(toolbox: Toolbox, config: GatewayConfig, read: R, write: W) -> Result<(), McpError>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let upstreams = config.upstreams.clone();
    let shutdown = config.shutdown.child_token();
    let closed = CancellationToken::new();
    let flights = Flights::default();
    let gateway = Gateway::new(toolbox, config, flights.clone(), closed.clone());
    let transport = GatewayTransport::new(read, write, flights, closed.clone());
    let ended = match serve_server_with_ct(gateway.clone(), transport, shutdown).await {
        Ok(service) => match service.waiting().await {
            Ok(_) => Ok(()),
            Err(error) => Err(McpError::Session(error.to_string())),
        },
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => Ok(()),
        Err(error) => Err(McpError::Session(crate::json::excerpt(&error.to_string(), 500))),
    };
    closed.cancel();
    if tokio::time::timeout(LAST_CALLS, gateway.drained()).await.is_err() {
        tracing::warn!("calls were still running at the end");
    }
    if let Some(upstreams) = upstreams {
        upstreams.shutdown().await;
    }
    ended
}
