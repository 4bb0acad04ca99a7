//! MCP servers that are called for their tools.
//!
//! Every server has a task of its own: one that is missing, slow, noisy or broken costs its own tools and nothing else.

mod config;
mod listing;
mod names;
mod process;
mod result;
mod server;
mod status;
mod transport;

use std::sync::Arc;
use std::time::Duration;

pub use config::{Annotations, Endpoint, INHERITED_ENV, StdioCommand, UpstreamConfig, UpstreamHost};
pub use status::{UpstreamState, UpstreamStatus};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use toolweave_tools::Registry;

use self::server::{Supervisor, Upstream};
use crate::McpError;

/// The running upstreams. Clones share them; when the last one is dropped they are stopped.
#[derive(Clone)]
pub struct Upstreams {
    shared: Arc<Shared>,
}

struct Shared {
    upstreams: Vec<Arc<Upstream>>,
    tasks: TaskTracker,
    shutdown: CancellationToken,
    _stop_on_drop: DropGuard,
}

impl Upstreams {
    /// Starts all servers at once, and returns without waiting for any. Their tools appear in the registry as they become
    /// ready, and stay in it while a server that worked is being started again.
    ///
    /// Has to be called on a `tokio` runtime.
    ///
    /// # Errors
    /// Two servers with one name, or a name that is empty. Nothing was started.
    pub fn start(
        configs: Vec<UpstreamConfig>,
        host: &UpstreamHost,
        registry: &Registry,
    ) -> Result<Self, McpError> {
        for (index, config) in configs.iter().enumerate() {
            if config.name.is_empty() {
                return Err(McpError::NamelessUpstream);
            }
            if configs[..index].iter().any(|other| other.name == config.name) {
                return Err(McpError::DuplicateUpstream(config.name.clone()));
            }
        }
        let shutdown = CancellationToken::new();
        let shared = Shared {
            upstreams: configs
                .into_iter()
                .map(|config| Upstream::new(config, host.clone()))
                .collect(),
            tasks: TaskTracker::new(),
            _stop_on_drop: shutdown.clone().drop_guard(),
            shutdown,
        };
        let mut before: Vec<Arc<Upstream>> = Vec::new();
        for upstream in shared.upstreams.iter().filter(|upstream| !upstream.is_disabled()) {
            let supervisor = Supervisor {
                upstream: upstream.clone(),
                registry: registry.clone(),
                shutdown: shared.shutdown.clone(),
                before: if upstream.has_own_names() {
                    Vec::new()
                } else {
                    before.clone()
                },
            };
            if !upstream.has_own_names() {
                before.push(upstream.clone());
            }
            shared.tasks.spawn(supervisor.run());
        }
        shared.tasks.close();
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Waits until every server is ready or has failed once, at most that long. Returns whether all have settled.
    pub async fn wait_ready(&self, at_most: Duration) -> bool {
        let all = async {
            for upstream in &self.shared.upstreams {
                upstream.settled().await;
            }
        };
        tokio::time::timeout(at_most, all).await.is_ok()
    }

    /// Returns how each server is doing, in the order of the configuration.
    pub fn status(&self) -> Vec<UpstreamStatus> {
        self.shared
            .upstreams
            .iter()
            .map(|upstream| upstream.status())
            .collect()
    }

    /// Returns why a name that is not in the registry may be missing: it belongs to a server that is not available.
    pub fn explain_missing(&self, name: &str) -> Option<String> {
        self.shared
            .upstreams
            .iter()
            .filter(|upstream| upstream.has_own_names() && name.starts_with(&upstream.prefix()))
            .find_map(|upstream| {
                let reason = upstream.failure()?;
                Some(format!("server `{}` is not available: {reason}", upstream.name()))
            })
    }

    /// Stops all servers and waits until their processes are gone.
    pub async fn shutdown(&self) {
        self.shared.shutdown.cancel();
        self.shared.tasks.wait().await;
    }
}

impl std::fmt::Debug for Upstreams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.status().iter().map(|status| (&status.name, status.state)))
            .finish()
    }
}
