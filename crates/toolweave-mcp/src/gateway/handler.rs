//! The gateway as `rmcp` sees it: requests in, a toolbox behind them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ErrorCode as RpcCode, GetPromptRequestParams,
    GetPromptResponse, GetPromptResult, Implementation, ListPromptsResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, Prompt, PromptMessage, ProtocolVersion,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Resource, ResourceContents, Role,
    ServerCapabilities, ServerConfig, SubscriptionFilter, Tool, ToolAnnotations,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolweave_tools::{Effect, ErrorCode, Mode, Presentation, ToolCall, Toolbox, WireTool};

use super::GatewayConfig;
use super::progress::Feed;
use super::result::{Era, render};
use super::transport::{Flights, RawCallArguments};
use crate::json::excerpt;

/// Where the SDK can be read.
pub(crate) const SDK_URI: &str = "toolweave://sdk";
const SDK_PROMPT: &str = "sdk";
const SDK_MIME_TYPE: &str = "text/markdown";
const SDK_DESCRIPTION: &str = "The tools as TypeScript declarations, for programs that run_code takes.";
/// Changes that come in a burst are told once.
const SETTLING: Duration = Duration::from_millis(100);

const CODE_INSTRUCTIONS: &str = "\
Use run_code to work with all tools at once: it runs one TypeScript program that calls them as `await tools.NAME({...})`. \
Do several steps in one program (loops, Promise.all, filtering, joining) instead of one call per step. Only what the \
program prints with console.log or returns comes back, so reduce large data inside the program. Tool errors are \
exceptions that can be caught. Inside a program `tools.search(\"words\")`, `tools.list()` and `tools.help(\"name\")` find \
tools. The declarations of the tools are in the description of the `code` parameter, and as resource toolweave://sdk.";
const NATIVE_INSTRUCTIONS: &str = "The tools of several MCP servers, each under its own name.";

/// What answers a client. One value serves one connection.
#[derive(Clone)]
pub(crate) struct Gateway {
    inner: Arc<Inner>,
}

struct Inner {
    toolbox: Toolbox,
    config: GatewayConfig,
    flights: Flights,
    /// Fires when the client has gone.
    closed: CancellationToken,
    calls: TaskTracker,
    next_call: AtomicU64,
    began: Instant,
    /// What the client last saw or was told of.
    shown: Mutex<Option<Vec<WireTool>>>,
}

impl Gateway {
    pub(crate) fn new(
        toolbox: Toolbox,
        config: GatewayConfig,
        flights: Flights,
        closed: CancellationToken,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                toolbox,
                config,
                flights,
                closed,
                calls: TaskTracker::new(),
                next_call: AtomicU64::new(1),
                began: Instant::now(),
                shown: Mutex::new(None),
            }),
        }
    }

    /// Waits until no call runs any more.
    pub(crate) async fn drained(&self) {
        self.inner.calls.close();
        self.inner.calls.wait().await;
    }

    /// Gives upstreams that are still starting a moment, but only once.
    async fn ready(&self) {
        let inner = &self.inner;
        if let Some(upstreams) = &inner.config.upstreams {
            let left = inner.config.patience.saturating_sub(inner.began.elapsed());
            upstreams.wait_ready(left).await;
        }
    }

    fn present(&self) -> Result<Presentation, ErrorData> {
        self.inner
            .toolbox
            .present()
            .map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }

    fn has_sdk(&self) -> bool {
        self.inner.toolbox.config().mode != Mode::Native
    }

    async fn sdk(&self) -> Result<String, ErrorData> {
        self.ready().await;
        match self.present()?.sdk {
            Some(sdk) => Ok(sdk.text),
            None => Err(ErrorData::resource_not_found(
                "there is no SDK in native mode",
                None,
            )),
        }
    }

    /// Remembers what the client knows. Returns whether that is news.
    fn is_news(&self, tools: Vec<WireTool>) -> bool {
        let mut shown = self.inner.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let news = shown.as_ref().is_some_and(|shown| *shown != tools);
        *shown = Some(tools);
        news
    }

    /// Waits for the next time that the client's picture of the tools has become wrong. `false` when there is none.
    async fn next_news(&self, changes: &mut watch::Receiver<u64>) -> bool {
        loop {
            tokio::select! {
                () = self.inner.closed.cancelled() => return false,
                changed = changes.changed() => if changed.is_err() {
                    return false;
                },
            }
            tokio::time::sleep(SETTLING).await;
            changes.borrow_and_update();
            let listed = self
                .inner
                .shown
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .is_some();
            if listed
                && let Ok(presentation) = self.present()
                && self.is_news(presentation.tools)
            {
                return true;
            }
        }
    }

    /// Follows the registry. What changed before now counts, too: the client may have looked earlier.
    fn changes(&self) -> watch::Receiver<u64> {
        let mut changes = self.inner.toolbox.registry().changes();
        changes.mark_changed();
        changes
    }

    async fn call(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let inner = &self.inner;
        let _running = inner.calls.token();
        self.ready().await;
        let arguments = match (context.extensions.get::<RawCallArguments>(), &request.arguments) {
            (Some(raw), _) => raw.0.to_string(),
            // Transports that hand over parsed arguments.
            (None, Some(arguments)) => serde_json::to_string(arguments).unwrap_or_default(),
            (None, None) => String::new(),
        };
        let feed = context
            .meta
            .get_progress_token()
            .map(|token| Feed::start(context.peer.clone(), token));
        let number = inner.next_call.fetch_add(1, Ordering::Relaxed);
        let result = inner
            .toolbox
            .execute(ToolCall {
                id: Arc::from(format!("mcp-{number}")),
                name: request.name.to_string(),
                arguments,
                cancel: context.ct.clone(),
                progress: feed.as_ref().map(Feed::sink),
                observer: feed.as_ref().map(Feed::observer),
            })
            .await;
        if let Some(feed) = feed {
            feed.finish().await;
        }
        if result.error == Some(ErrorCode::UnknownTool) {
            let message = result
                .content
                .iter()
                .find_map(|block| match block {
                    toolweave_tools::Content::Text(text) => Some(excerpt(text, 1_000)),
                    _ => None,
                })
                .unwrap_or_else(|| format!("unknown tool `{}`", excerpt(&request.name, 100)));
            return Err(ErrorData::new(RpcCode::INVALID_PARAMS, message, None));
        }
        let raw = render(result, era(&context)).map_err(|error| {
            ErrorData::internal_error(format!("the result cannot be written: {error}"), None)
        })?;
        inner.flights.answer(&context.id, raw);
        // Stands in for the text that the transport sends.
        Ok(CallToolResult::success(Vec::new()))
    }
}

fn era(context: &RequestContext<RoleServer>) -> Era {
    match context.protocol_version() {
        Some(version) if !version.has_initialize() => Era::Stateless,
        _ => Era::Initialize,
    }
}

impl ServerHandler for Gateway {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed();
        let (capabilities, default) = if self.has_sdk() {
            (
                capabilities.enable_resources().enable_prompts().build(),
                CODE_INSTRUCTIONS,
            )
        } else {
            (capabilities.build(), NATIVE_INSTRUCTIONS)
        };
        let instructions = self.inner.config.instructions.as_deref().unwrap_or(default);
        ServerConfig::new(capabilities)
            .with_server_info(
                Implementation::new("toolweave", env!("CARGO_PKG_VERSION")).with_title("Toolweave"),
            )
            .with_instructions(instructions)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        no_cursor(request)?;
        self.ready().await;
        let tools = self.present()?.tools;
        let wire = tools.iter().map(wire_tool).collect();
        self.is_news(tools);
        Ok(ListToolsResult::with_all_items(wire))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.call(request, context).await.map(CallToolResponse::Complete)
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        no_cursor(request)?;
        if !self.has_sdk() {
            return Ok(ListResourcesResult::with_all_items(Vec::new()));
        }
        let sdk = Resource::new(SDK_URI, SDK_PROMPT)
            .with_title("Toolweave SDK")
            .with_description(SDK_DESCRIPTION)
            .with_mime_type(SDK_MIME_TYPE);
        Ok(ListResourcesResult::with_all_items(vec![sdk]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        if request.uri != SDK_URI || !self.has_sdk() {
            return Err(ErrorData::resource_not_found(
                format!("there is no resource `{}`", excerpt(&request.uri, 200)),
                Some(serde_json::json!({"uri": excerpt(&request.uri, 1_000)})),
            ));
        }
        let text = ResourceContents::text(self.sdk().await?, SDK_URI).with_mime_type(SDK_MIME_TYPE);
        Ok(ReadResourceResult::new(vec![text]).into())
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        no_cursor(request)?;
        if !self.has_sdk() {
            return Ok(ListPromptsResult::with_all_items(Vec::new()));
        }
        let sdk = Prompt::new(SDK_PROMPT, Some(SDK_DESCRIPTION), None).with_title("Toolweave SDK");
        Ok(ListPromptsResult::with_all_items(vec![sdk]))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        if request.name != SDK_PROMPT || !self.has_sdk() {
            return Err(ErrorData::invalid_params(
                format!("there is no prompt `{}`", excerpt(&request.name, 200)),
                None,
            ));
        }
        let message = PromptMessage::new_text(Role::User, self.sdk().await?);
        Ok(GetPromptResult::new(vec![message])
            .with_description(SDK_DESCRIPTION)
            .into())
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let mut changes = self.changes();
        let gateway = self.clone();
        tokio::spawn(async move {
            while gateway.next_news(&mut changes).await {
                if context.peer.notify_tool_list_changed().await.is_err() {
                    return;
                }
            }
        });
    }

    fn accepted_subscription_filter(&self, _requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(SubscriptionFilter::builder().tools_list_changed().build())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.changes();
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                news = self.next_news(&mut changes) => if !news {
                    return Ok(());
                },
            }
            tokio::select! {
                // Nobody confirms what was sent at the very end.
                () = self.inner.closed.cancelled() => return Ok(()),
                sent = context.sink().notify_tool_list_changed() => if sent.is_err() {
                    return Ok(());
                },
            }
        }
    }
}

/// Everything fits one page, so no cursor was ever given out.
fn no_cursor(request: Option<PaginatedRequestParams>) -> Result<(), ErrorData> {
    match request.and_then(|request| request.cursor) {
        None => Ok(()),
        Some(cursor) => Err(ErrorData::invalid_params(
            format!("unknown cursor `{}`", excerpt(&cursor, 100)),
            None,
        )),
    }
}

fn wire_tool(tool: &WireTool) -> Tool {
    let object = |schema: &Value| match schema {
        Value::Object(members) => Some(Arc::new(members.clone())),
        _ => None,
    };
    let input = object(&tool.input_schema).unwrap_or_else(|| {
        let mut open = serde_json::Map::new();
        open.insert("type".to_owned(), "object".into());
        Arc::new(open)
    });
    let mut wire = Tool::new(tool.name.clone(), tool.description.clone(), input);
    if let Some(title) = &tool.title {
        wire = wire.with_title(title.clone());
    }
    if let Some(schema) = tool.output_schema.as_ref().and_then(object) {
        wire = wire.with_raw_output_schema(schema);
    }
    let annotations = match tool.effect {
        Effect::Read => Some(ToolAnnotations::new().read_only(true)),
        Effect::Write => Some(ToolAnnotations::new().read_only(false).destructive(false)),
        Effect::Destructive => Some(ToolAnnotations::new().read_only(false).destructive(true)),
        Effect::Unknown => None,
    };
    match annotations {
        Some(annotations) => wire.with_annotations(annotations),
        None => wire,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_fit_what_clients_show() {
        for text in [CODE_INSTRUCTIONS, NATIVE_INSTRUCTIONS] {
            assert!(text.chars().count() < 2_048, "{}", text.len());
        }
    }
}
