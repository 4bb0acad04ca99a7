//! One upstream: started, watched, listed, restarted, and called.
//!
//! A single task per server owns its process and its registrations. Everybody else sees a [`Link`].

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use rmcp::ClientHandler;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotification, CancelledNotificationParam,
    ClientCapabilities, ClientConfig, ClientRequest, GetExtensions, Implementation,
    ProgressNotificationParam, ProgressToken, ProtocolVersion, RequestId, SubscriptionFilter,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, NotificationContext, Peer, PeerRequestOptions, RoleClient,
    RunningService, ServiceError, serve_client_with_lifecycle_and_ct,
};
use serde_json::{Map, Value};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use toolweave_tools::{
    CallContext, Concurrency, Effect, ErrorCode, OutputCheck, ProgressSink, Provider, RUN_CODE, Registration,
    Registry, RegistryError, Tool, ToolError, ToolOutput, ToolSpec,
};

use super::config::{Endpoint, UpstreamConfig, UpstreamHost};
use super::listing::{ListedTool, Listing, list_tools};
use super::names::{DEFAULT_PREFIX, distinct_name, name_prefix, tool_name};
use super::process::{Process, StderrTail};
use super::result::{Schema, Source, output, protocol_error};
use super::status::{UpstreamState, UpstreamStatus};
use super::transport::{Answer, NoiseCount, RawAnswer, RawArguments, UpstreamTransport};
use crate::json::{self, excerpt};

/// First wait before a server that failed is started again; doubled each time.
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// A server that ran this long counts as sound: it is started again at once.
const SOUND_AFTER: Duration = Duration::from_secs(10);
/// Shortest time between two listings that a server can bring about.
const RELIST_INTERVAL: Duration = Duration::from_millis(200);
/// How long a call to a vanished tool waits to learn whether it has vanished.
const RELIST_PATIENCE: Duration = Duration::from_secs(5);
/// How long the reason for a closed connection may take to show.
const REASON_PATIENCE: Duration = Duration::from_millis(500);
/// Characters of a server's instructions that are kept.
const MAX_INSTRUCTIONS_CHARS: usize = 16_000;
/// Lines of standard error that an error message quotes.
const QUOTED_STDERR_LINES: usize = 3;

/// What is shared between the task, the tools and whoever asks for the status.
pub(crate) struct Upstream {
    config: UpstreamConfig,
    name: Arc<str>,
    host: UpstreamHost,
    link: watch::Sender<Link>,
    /// Counts listings that ended, whether well or not.
    listed: watch::Sender<u64>,
    /// Asks the task for a new listing.
    relist: Notify,
    /// Asks the task not to wait any longer before it starts the server again.
    hurry: Notify,
    progress: Mutex<HashMap<ProgressToken, ProgressSink>>,
    stderr: StderrTail,
    noise: NoiseCount,
    facts: Mutex<Facts>,
}

/// Whether calls can be made.
#[derive(Clone)]
enum Link {
    Starting,
    Ready(Peer<RoleClient>),
    Failed(Arc<str>),
    Disabled,
    Stopped,
}

/// What is known about a server, for its status.
#[derive(Clone, Default)]
struct Facts {
    protocol: Option<String>,
    server: Option<String>,
    instructions: Option<String>,
    tools: Vec<String>,
    notes: Vec<String>,
    restarts: u32,
}

/// Everything that the task owns.
pub(crate) struct Supervisor {
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) registry: Registry,
    pub(crate) shutdown: CancellationToken,
    /// Servers that come first and could claim the same names.
    pub(crate) before: Vec<Arc<Upstream>>,
}

impl Upstream {
    pub(crate) fn new(config: UpstreamConfig, host: UpstreamHost) -> Arc<Self> {
        let link = if config.disabled {
            Link::Disabled
        } else {
            Link::Starting
        };
        Arc::new(Self {
            name: Arc::from(config.name.as_str()),
            config,
            host,
            link: watch::Sender::new(link),
            listed: watch::Sender::new(0),
            relist: Notify::new(),
            hurry: Notify::new(),
            progress: Mutex::default(),
            stderr: StderrTail::default(),
            noise: NoiseCount::default(),
            facts: Mutex::default(),
        })
    }

    pub(crate) fn is_disabled(&self) -> bool {
        self.config.disabled
    }

    /// Returns the start of every name of its tools.
    pub(crate) fn prefix(&self) -> String {
        name_prefix(self.template(), &self.name)
    }

    /// Whether its tools' names say whose they are.
    pub(crate) fn has_own_names(&self) -> bool {
        self.template().contains("{server}")
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Waits until the first attempt to start it has ended.
    pub(crate) async fn settled(&self) {
        let mut link = self.link.subscribe();
        let _ = link.wait_for(|link| !matches!(link, Link::Starting)).await;
    }

    /// Returns why it cannot be called, if it cannot.
    pub(crate) fn failure(&self) -> Option<Arc<str>> {
        match &*self.link.borrow() {
            Link::Failed(reason) => Some(reason.clone()),
            Link::Disabled => Some(Arc::from("it is disabled in the configuration")),
            Link::Stopped => Some(Arc::from("it was stopped")),
            Link::Starting | Link::Ready(_) => None,
        }
    }

    pub(crate) fn status(&self) -> UpstreamStatus {
        let (state, reason) = match &*self.link.borrow() {
            Link::Starting => (UpstreamState::Starting, None),
            Link::Ready(_) => (UpstreamState::Ready, None),
            Link::Failed(reason) => (UpstreamState::Failed, Some(reason.to_string())),
            Link::Disabled => (UpstreamState::Disabled, None),
            Link::Stopped => (UpstreamState::Stopped, None),
        };
        let facts = lock(&self.facts).clone();
        UpstreamStatus {
            name: self.name.to_string(),
            state,
            reason,
            tools: facts.tools,
            protocol: facts.protocol,
            server: facts.server,
            instructions: facts.instructions,
            notes: facts.notes,
            restarts: facts.restarts,
            skipped_lines: self.noise.get(),
            stderr: self.stderr.lines(),
        }
    }

    fn template(&self) -> &str {
        self.config.tool_prefix.as_deref().unwrap_or(DEFAULT_PREFIX)
    }

    fn unavailable(&self, reason: &str) -> ToolError {
        ToolError::new(
            ErrorCode::Unavailable,
            format!("server `{}` is not available: {reason}", self.name),
        )
    }

    /// Returns a connection, waiting only while the server is being started.
    async fn peer(&self, cancel: &CancellationToken) -> Result<Peer<RoleClient>, ToolError> {
        let mut link = self.link.subscribe();
        let current = link.borrow().clone();
        let current = if matches!(current, Link::Starting) {
            tokio::select! {
                () = cancel.cancelled() => return Err(aborted()),
                () = tokio::time::sleep(self.config.startup_timeout) => {
                    return Err(self.unavailable("it is still starting"));
                }
                changed = link.wait_for(|link| !matches!(link, Link::Starting)) => match changed {
                    Ok(link) => link.clone(),
                    Err(_) => Link::Stopped,
                },
            }
        } else {
            current
        };
        match current {
            Link::Ready(peer) => Ok(peer),
            Link::Failed(reason) => {
                self.hurry.notify_one();
                Err(self.unavailable(&reason))
            }
            Link::Starting => Err(self.unavailable("it is still starting")),
            Link::Disabled => Err(self.unavailable("it is disabled in the configuration")),
            Link::Stopped => Err(self.unavailable("it was stopped")),
        }
    }

    /// Makes one call.
    async fn call(
        self: &Arc<Self>,
        tool: &UpstreamTool,
        context: &CallContext,
        arguments: Value,
    ) -> Result<ToolOutput, ToolError> {
        let arguments = wire_arguments(arguments)?;
        let peer = self.peer(&context.cancel).await?;
        let answer = RawAnswer::default();
        let mut request = ClientRequest::CallToolRequest(CallToolRequest::new(CallToolRequestParams::new(
            tool.raw_name.clone(),
        )));
        let extensions = request.extensions_mut();
        extensions.insert(arguments);
        extensions.insert(answer.clone());
        let sent = peer.send_cancellable_request(request, PeerRequestOptions::no_options());
        let handle = match sent.await {
            Ok(handle) => handle,
            Err(error) => return Err(self.lost(&tool.raw_name, &error).await),
        };
        let _progress = context
            .progress
            .clone()
            .map(|sink| ProgressEntry::new(self, handle.progress_token.clone(), sink));
        let mut pending = PendingCall {
            peer,
            id: Some(handle.id),
            reason: "the caller no longer wants the answer",
        };
        let source = Source {
            server: &self.name,
            tool: &tool.raw_name,
            schema: if tool.spec.output_schema.is_some() && self.config.output_check == OutputCheck::Enforce {
                Schema::Announced
            } else {
                Schema::None
            },
        };
        let answered = tokio::select! {
            biased;
            () = context.cancel.cancelled() => return Err(aborted()),
            answered = tokio::time::timeout(self.config.timeout, handle.rx) => answered,
        };
        let Ok(answered) = answered else {
            pending.reason = "timed out";
            return Err(ToolError::new(
                ErrorCode::ToolTimeout,
                format!(
                    "server `{}` did not answer `{}` within {} s",
                    self.name,
                    tool.raw_name,
                    self.config.timeout.as_secs_f64()
                ),
            ));
        };
        pending.id = None;
        let result = match answered.unwrap_or(Err(ServiceError::TransportClosed)) {
            Ok(result) => match answer.take() {
                Some(Answer::Text(text)) => output(&text, source),
                Some(Answer::Unreadable(reason)) => Err(ToolError::new(
                    ErrorCode::InvalidToolOutput,
                    format!(
                        "server `{}` answered `{}` with something that cannot be used: {reason}",
                        self.name, tool.raw_name
                    ),
                )),
                // Transports that hand over typed results.
                None => match serde_json::to_string(&result) {
                    Ok(text) => output(&text, source),
                    Err(error) => Err(ToolError::new(ErrorCode::InvalidToolOutput, error.to_string())),
                },
            },
            Err(ServiceError::McpError(error)) => Err(protocol_error(
                error.code.0,
                &error.message,
                error.data.as_ref(),
                source,
            )),
            Err(error) => return Err(self.lost(&tool.raw_name, &error).await),
        };
        match result {
            Err(error) if denies_knowing(&error, &tool.raw_name) => Err(self.vanished(tool, error).await),
            result => result,
        }
    }

    /// Says why an answer will never come.
    async fn lost(&self, tool: &str, error: &ServiceError) -> ToolError {
        let mut link = self.link.subscribe();
        let changed = link.wait_for(|link| !matches!(link, Link::Ready(_)));
        let _ = tokio::time::timeout(REASON_PATIENCE, changed).await;
        let reason = self
            .failure()
            .map_or_else(|| error.to_string(), |reason| reason.to_string());
        ToolError::new(
            ErrorCode::Unavailable,
            format!("server `{}` was lost during `{tool}`: {reason}", self.name),
        )
    }

    /// Looks whether a tool is gone, after its server said that it does not know it.
    async fn vanished(&self, tool: &UpstreamTool, error: ToolError) -> ToolError {
        let mut listed = self.listed.subscribe();
        listed.borrow_and_update();
        self.relist.notify_one();
        let _ = tokio::time::timeout(RELIST_PATIENCE, listed.changed()).await;
        if lock(&self.facts).tools.contains(&tool.spec.name) {
            return error;
        }
        ToolError::new(
            ErrorCode::UnknownTool,
            format!(
                "server `{}` no longer has a tool `{}`; it says: {}",
                self.name, tool.raw_name, error.message
            ),
        )
    }
}

/// A failure that reads as if the server had never heard of the tool.
fn denies_knowing(error: &ToolError, tool: &str) -> bool {
    if error.code != ErrorCode::ToolFailed || error.message.len() > 1_000 {
        return false;
    }
    let text = error.message.to_lowercase();
    text.contains("(error -32601 ")
        || (text.contains(&tool.to_lowercase())
            && ["unknown", "not found", "no such", "does not exist"]
                .iter()
                .any(|words| text.contains(words)))
}

fn aborted() -> ToolError {
    ToolError::new(ErrorCode::Aborted, "the call was cancelled")
}

/// Writes arguments as the wire has them: always an object.
fn wire_arguments(arguments: Value) -> Result<RawArguments, ToolError> {
    let arguments = match arguments {
        Value::Null => Value::Object(Map::new()),
        other => other,
    };
    let invalid = |message: String| ToolError::new(ErrorCode::InvalidArgs, message);
    if !arguments.is_object() {
        return Err(invalid("the arguments must be an object".to_owned()));
    }
    let raw = json::to_raw(&arguments, json::depth(&arguments));
    json::drop_value(arguments);
    let raw = raw.map_err(|error| invalid(format!("the arguments cannot be sent: {error}")))?;
    Ok(RawArguments(Arc::from(raw)))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells the server that nobody waits any more, if nobody does.
struct PendingCall {
    peer: Peer<RoleClient>,
    id: Option<RequestId>,
    reason: &'static str,
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let params = CancelledNotificationParam::new(Some(id), Some(self.reason.to_owned()));
        let notification = CancelledNotification::new(params);
        let peer = self.peer.clone();
        runtime.spawn(async move {
            let _ = peer.send_notification(notification.into()).await;
        });
    }
}

/// Where progress of one call goes, for as long as the call runs.
struct ProgressEntry {
    upstream: Arc<Upstream>,
    token: ProgressToken,
}

impl ProgressEntry {
    fn new(upstream: &Arc<Upstream>, token: ProgressToken, sink: ProgressSink) -> Self {
        lock(&upstream.progress).insert(token.clone(), sink);
        Self {
            upstream: upstream.clone(),
            token,
        }
    }
}

impl Drop for ProgressEntry {
    fn drop(&mut self) {
        lock(&self.upstream.progress).remove(&self.token);
    }
}

/// A tool of an upstream in the registry.
struct UpstreamTool {
    upstream: Arc<Upstream>,
    spec: ToolSpec,
    raw_name: String,
}

#[async_trait]
impl Tool for UpstreamTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn concurrency(&self, _arguments: &Value) -> Concurrency {
        match self.spec.effect {
            Effect::Read => Concurrency::Safe,
            Effect::Write | Effect::Destructive | Effect::Unknown => Concurrency::Exclusive,
        }
    }

    async fn call(&self, context: &CallContext, arguments: Value) -> Result<ToolOutput, ToolError> {
        self.upstream.call(self, context, arguments).await
    }
}

/// Answers what a server asks of its client, and hears what it tells.
#[derive(Clone)]
struct Client {
    upstream: Arc<Upstream>,
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new("toolweave", env!("CARGO_PKG_VERSION")),
        )
        .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let sink = lock(&self.upstream.progress).get(&params.progress_token).cloned();
        if let Some(sink) = sink {
            sink(params.progress, params.total, params.message.as_deref());
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.upstream.relist.notify_one();
    }

    #[expect(
        deprecated,
        reason = "servers of every revision but the newest send log messages this way"
    )]
    async fn on_logging_message(
        &self,
        params: rmcp::model::LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let text = excerpt(&params.data.to_string(), 500);
        tracing::debug!(server = &*self.upstream.name, "log: {text}");
    }
}

/// A started server, before it is given to anybody.
struct Started {
    service: RunningService<RoleClient, Client>,
    tools: Listing,
}

/// How a connection ended.
enum End {
    Shutdown,
    Failed(String),
    /// It does not know this way of starting; perhaps the other one.
    OtherEra,
}

impl Supervisor {
    /// Keeps the server running until told to stop.
    pub(crate) async fn run(self) {
        let upstream = self.upstream.clone();
        let mut tools = Tools::new(&self);
        let mut lifecycle = ClientLifecycleMode::Initialize;
        let mut failures: u32 = 0;
        loop {
            let mut ready_since = None;
            let end = self.run_once(&mut tools, &mut lifecycle, &mut ready_since).await;
            let reason = match end {
                End::Shutdown => break,
                End::OtherEra => continue,
                End::Failed(reason) => reason,
            };
            let sound = ready_since.is_some_and(|since: Instant| since.elapsed() > SOUND_AFTER);
            failures = if sound { 0 } else { failures.saturating_add(1) };
            let reason = self.with_stderr(reason);
            tracing::warn!(server = &*upstream.name, "server `{}`: {reason}", upstream.name);
            upstream.link.send_replace(Link::Failed(Arc::from(reason)));
            // Whoever waits for a listing has waited in vain.
            upstream.listed.send_modify(|count| *count += 1);
            let backoff = FIRST_BACKOFF
                .saturating_mul(1 << failures.saturating_sub(1).min(10))
                .min(MAX_BACKOFF);
            let backoff = if failures == 0 { Duration::ZERO } else { backoff };
            let least = backoff.min(FIRST_BACKOFF);
            tokio::select! {
                () = self.shutdown.cancelled() => break,
                () = tokio::time::sleep(backoff) => {}
                () = async {
                    tokio::time::sleep(least).await;
                    upstream.hurry.notified().await;
                } => {}
            }
            lock(&upstream.facts).restarts += 1;
            // A failed server stays failed for its callers until it works: they must not wait for it again and again.
            if failures == 0 {
                upstream.link.send_replace(Link::Starting);
            }
        }
        upstream.link.send_replace(Link::Stopped);
        upstream.listed.send_modify(|count| *count += 1);
    }

    async fn run_once(
        &self,
        tools: &mut Tools,
        lifecycle: &mut ClientLifecycleMode,
        ready_since: &mut Option<Instant>,
    ) -> End {
        let upstream = &self.upstream;
        upstream.stderr.clear();
        let Endpoint::Stdio(command) = &upstream.config.endpoint;
        let started = Process::start(&upstream.name, command, &upstream.host, upstream.stderr.clone());
        let (mut process, stdout, stdin) = match started {
            Ok(started) => started,
            Err(reason) => return End::Failed(reason),
        };
        let transport = UpstreamTransport::new(upstream.name.clone(), stdout, stdin, upstream.noise.clone());
        let closing = CancellationToken::new();
        let start = tokio::time::timeout(
            upstream.config.startup_timeout,
            start(upstream.clone(), transport, lifecycle.clone(), closing.clone()),
        );
        let mut refused = false;
        let started = tokio::select! {
            biased;
            () = self.shutdown.cancelled() => Err(None),
            started = start => match started {
                Ok(Ok(started)) => Ok(started),
                Ok(Err(StartError::Wire(reason))) => {
                    let ended = tokio::time::timeout(REASON_PATIENCE, process.ended()).await;
                    Err(Some(ended.map_or(reason, |how| format!("{how} before it was ready"))))
                }
                Ok(Err(StartError::Refused(reason))) => {
                    refused = true;
                    Err(Some(reason))
                }
                Err(_) => Err(Some(format!(
                    "did not answer `initialize` and `tools/list` within {} s",
                    upstream.config.startup_timeout.as_secs_f64()
                ))),
            },
            how = process.ended() => Err(Some(format!("{how} before it was ready"))),
        };
        let started = match started {
            Ok(started) => started,
            Err(reason) => {
                closing.cancel();
                process.stop().await;
                let first_way = matches!(lifecycle, ClientLifecycleMode::Initialize);
                if refused {
                    *lifecycle = if first_way {
                        ClientLifecycleMode::Discover {
                            preferred_versions: vec![ProtocolVersion::LATEST],
                        }
                    } else {
                        ClientLifecycleMode::Initialize
                    };
                }
                return match reason {
                    None => End::Shutdown,
                    Some(reason) if refused && first_way => {
                        tracing::debug!(server = &*upstream.name, "{reason}; trying `server/discover`");
                        End::OtherEra
                    }
                    Some(reason) => End::Failed(reason),
                };
            }
        };
        self.learn(started.service.peer());
        for earlier in &self.before {
            tokio::select! {
                () = self.shutdown.cancelled() => break,
                () = earlier.settled() => {}
            }
        }
        tools.apply(started.tools);
        upstream
            .link
            .send_replace(Link::Ready(started.service.peer().clone()));
        upstream.listed.send_modify(|count| *count += 1);
        *ready_since = Some(Instant::now());
        let end = self.serve(&mut process, started.service, tools).await;
        closing.cancel();
        process.stop().await;
        end
    }

    /// Follows a running server.
    async fn serve(
        &self,
        process: &mut Process,
        service: RunningService<RoleClient, Client>,
        tools: &mut Tools,
    ) -> End {
        let upstream = &self.upstream;
        let peer = service.peer().clone();
        let subscription = follow_changes(upstream.clone(), peer.clone());
        let mut waiting = std::pin::pin!(service.waiting());
        let mut subscription = std::pin::pin!(subscription);
        loop {
            tokio::select! {
                biased;
                () = self.shutdown.cancelled() => return End::Shutdown,
                how = process.ended() => return End::Failed(how),
                _ = &mut waiting => {
                    let ended = tokio::time::timeout(REASON_PATIENCE, process.ended()).await;
                    return End::Failed(ended.unwrap_or_else(|_| "closed its standard output".to_owned()));
                }
                () = &mut subscription => {}
                () = upstream.relist.notified() => {
                    tokio::time::sleep(RELIST_INTERVAL).await;
                    let listing =
                        tokio::time::timeout(upstream.config.startup_timeout, list_tools(&peer)).await;
                    match listing {
                        Ok(Ok(listing)) => tools.apply(listing),
                        Ok(Err(reason)) => self.relist_failed(&reason),
                        Err(_) => self.relist_failed("tools/list was not answered in time"),
                    }
                    upstream.listed.send_modify(|count| *count += 1);
                }
            }
        }
    }

    fn relist_failed(&self, reason: &str) {
        tracing::warn!(
            server = &*self.upstream.name,
            "server `{}` keeps its last known tools: {reason}",
            self.upstream.name
        );
        lock(&self.upstream.facts).notes = vec![format!("the last known tools are used: {reason}")];
    }

    /// Keeps what the server said about itself.
    fn learn(&self, peer: &Peer<RoleClient>) {
        let Some(info) = peer.peer_info() else { return };
        let mut facts = lock(&self.upstream.facts);
        facts.protocol = Some(info.protocol_version.to_string());
        facts.server = info
            .server_info
            .as_ref()
            .map(|server| excerpt(&format!("{} {}", server.name, server.version), 200));
        facts.instructions = info
            .instructions
            .as_ref()
            .map(|text| excerpt(text, MAX_INSTRUCTIONS_CHARS));
    }

    /// Adds the end of standard error to a reason.
    fn with_stderr(&self, reason: String) -> String {
        let lines = self.upstream.stderr.lines();
        if lines.is_empty() {
            return reason;
        }
        let quoted = &lines[lines.len().saturating_sub(QUOTED_STDERR_LINES)..];
        format!("{reason}; its standard error ends: {}", quoted.join(" | "))
    }
}

/// Why a start failed.
enum StartError {
    /// The connection did not hold.
    Wire(String),
    /// The server answered, and said no.
    Refused(String),
}

async fn start<R, W>(
    upstream: Arc<Upstream>,
    transport: UpstreamTransport<R, W>,
    lifecycle: ClientLifecycleMode,
    closing: CancellationToken,
) -> Result<Started, StartError>
where
    R: tokio::io::AsyncRead + Unpin + Send + 'static,
    W: tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let method = match lifecycle {
        ClientLifecycleMode::Initialize => "initialize",
        _ => "server/discover",
    };
    let client = Client { upstream };
    let service = serve_client_with_lifecycle_and_ct(client, transport, lifecycle, closing)
        .await
        .map_err(|error| match error {
            ClientInitializeError::JsonRpcError(error) => StartError::Refused(format!(
                "refused `{method}`: {} (error {})",
                excerpt(&error.message, 500),
                error.code.0
            )),
            ClientInitializeError::ConnectionClosed(_) => StartError::Wire(format!(
                "closed its standard output before it answered `{method}`"
            )),
            ClientInitializeError::ExpectedInitResult(_) | ClientInitializeError::ExpectedInitResponse(_) => {
                StartError::Refused(format!("answered `{method}` with something else"))
            }
            other => StartError::Wire(excerpt(&other.to_string(), 500)),
        })?;
    let tools = list_tools(service.peer()).await.map_err(StartError::Wire)?;
    Ok(Started { service, tools })
}

/// Hears of changed tools from a server of the revision that sends such news only to those who listen.
async fn follow_changes(upstream: Arc<Upstream>, peer: Peer<RoleClient>) {
    let listens = peer
        .peer_info()
        .is_some_and(|info| !info.protocol_version.has_initialize());
    if listens {
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        match peer.listen(filter).await {
            Ok(mut subscription) => {
                while let Ok(Some(_)) = subscription.next().await {
                    upstream.relist.notify_one();
                }
            }
            Err(error) => {
                tracing::debug!(server = &*upstream.name, %error, "changes cannot be followed");
            }
        }
    }
    std::future::pending().await
}

/// The registered tools of one server.
struct Tools {
    upstream: Arc<Upstream>,
    registry: Registry,
    registration: Option<Registration>,
    /// By raw name.
    live: BTreeMap<String, Arc<UpstreamTool>>,
}

impl Tools {
    fn new(supervisor: &Supervisor) -> Self {
        Self {
            upstream: supervisor.upstream.clone(),
            registry: supervisor.registry.clone(),
            registration: None,
            live: BTreeMap::new(),
        }
    }

    /// Makes the registered tools those of a listing, in one step. A tool that did not change stays as it is.
    fn apply(&mut self, listing: Listing) {
        let upstream = self.upstream.clone();
        let provider = self.provider();
        let mut notes = listing.notes;
        let mut tools: Vec<Arc<UpstreamTool>> = listing
            .tools
            .into_iter()
            .map(|declared| {
                let known = self.live.get(&declared.name);
                let name = match known {
                    Some(known) => known.spec.name.clone(),
                    None => tool_name(upstream.template(), &upstream.name, &declared.name),
                };
                let fresh = UpstreamTool::new(&upstream, declared, name, &provider);
                match known {
                    Some(known) if known.spec == fresh.spec => known.clone(),
                    _ => Arc::new(fresh),
                }
            })
            .collect();
        while let Err(error) = self.replace(&tools) {
            let taken = match &error {
                RegistryError::Duplicate(name) => name.as_str(),
                RegistryError::Reserved => RUN_CODE,
                RegistryError::Nameless => "",
            };
            // The later one gives way.
            let Some(at) = tools.iter().rposition(|tool| tool.spec.name == taken) else {
                notes.push(format!("no tool can be used: {error}"));
                tools.clear();
                continue;
            };
            let raw_name = tools[at].raw_name.clone();
            let name = distinct_name(taken, &upstream.name, &raw_name);
            if tools.iter().any(|tool| tool.spec.name == name) || name == taken {
                notes.push(format!("`{}` was left out: {error}", excerpt(&raw_name, 100)));
                tools.remove(at);
                continue;
            }
            notes.push(format!(
                "`{}` is called `{name}`: the name `{taken}` is taken",
                excerpt(&raw_name, 100)
            ));
            tools[at] = Arc::new(tools[at].renamed(name));
        }
        for note in &notes {
            tracing::warn!(server = &*upstream.name, "server `{}`: {note}", upstream.name);
        }
        let mut facts = lock(&upstream.facts);
        facts.tools = tools.iter().map(|tool| tool.spec.name.clone()).collect();
        facts.notes = notes;
        drop(facts);
        self.live = tools
            .into_iter()
            .map(|tool| (tool.raw_name.clone(), tool))
            .collect();
    }

    fn replace(&mut self, tools: &[Arc<UpstreamTool>]) -> Result<(), RegistryError> {
        let same = self.registration.is_some()
            && tools.len() == self.live.len()
            && tools.iter().all(|tool| {
                self.live
                    .get(&tool.raw_name)
                    .is_some_and(|live| Arc::ptr_eq(live, tool))
            });
        if same {
            return Ok(());
        }
        let tools = tools.iter().map(|tool| tool.clone() as Arc<dyn Tool>);
        match &mut self.registration {
            Some(registration) => registration.replace(tools),
            empty => {
                let output_check = self.upstream.config.output_check;
                *empty = Some(self.registry.register_with(tools, output_check)?);
                Ok(())
            }
        }
    }

    fn provider(&self) -> Provider {
        let facts = lock(&self.upstream.facts);
        Provider {
            name: self.upstream.name.clone(),
            version: facts.server.as_deref().map(Arc::from),
        }
    }
}

impl UpstreamTool {
    fn new(upstream: &Arc<Upstream>, declared: ListedTool, name: String, provider: &Provider) -> Self {
        Self {
            upstream: upstream.clone(),
            spec: ToolSpec {
                name,
                title: declared.title,
                description: declared.description,
                input_schema: declared.input_schema,
                output_schema: declared.output_schema,
                effect: declared.hints.effect(upstream.config.annotations),
                provider: provider.clone(),
            },
            raw_name: declared.name,
        }
    }

    fn renamed(&self, name: String) -> Self {
        Self {
            upstream: self.upstream.clone(),
            spec: ToolSpec {
                name,
                ..self.spec.clone()
            },
            raw_name: self.raw_name.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_tool_is_told_from_an_ordinary_failure() {
        for (message, expected) in [
            ("Unknown tool: move (error -32602 from server `s`)", true),
            ("MCP error -32602: Tool move not found", true),
            ("Method not found (error -32601 from server `s`)", true),
            ("file not found", false),
            ("move failed", false),
        ] {
            assert_eq!(
                denies_knowing(&ToolError::failed(message), "move"),
                expected,
                "{message}"
            );
        }
    }

    #[test]
    fn arguments_are_an_object_on_the_wire() {
        for (arguments, expected) in [
            (Value::Null, Ok("{}")),
            (serde_json::json!({"z": 1, "a": 2}), Ok(r#"{"z":1,"a":2}"#)),
            (serde_json::json!([1]), Err("the arguments must be an object")),
        ] {
            let got = wire_arguments(arguments)
                .map(|raw| raw.0.get().to_owned())
                .map_err(|error| error.message);
            assert_eq!(got.as_deref().map_err(String::as_str), expected);
        }
    }
}
