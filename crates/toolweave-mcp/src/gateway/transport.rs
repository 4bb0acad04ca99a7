//! The wire to one client: JSON lines, answered by the book before `rmcp` sees them.
//!
//! What is no valid request is answered here, and costs nothing but itself. Ids are replaced by numbers of our own while a
//! request runs, so that a client may use any id, and any id again. Arguments and results of calls pass `rmcp` as text.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::RoleServer;
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientNotification, ClientRequest, ErrorCode,
    GetExtensions, GetMeta, JsonRpcMessage, ProtocolVersion, RequestId, ServerResult,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use crate::json::{excerpt, parse_shallow};
use crate::lines::{Line, LineReader, LineWriter, MAX_LINE_BYTES, trimmed};

/// Methods that are passed on. A client hears of any other one that it is not known.
const METHODS: &[&str] = &[
    "completion/complete",
    "initialize",
    "logging/setLevel",
    "ping",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/subscribe",
    "resources/templates/list",
    "resources/unsubscribe",
    "server/discover",
    "subscriptions/listen",
    "tools/call",
    "tools/list",
];
/// Requests of one client that may run at once.
const MAX_FLIGHTS: usize = 1_000;

/// The arguments of a `tools/call` as they came; empty when there were none. Travels in the extensions of the request.
#[derive(Clone)]
pub(crate) struct RawCallArguments(pub(crate) Arc<str>);

/// The requests that are being answered.
#[derive(Clone, Default)]
pub(crate) struct Flights(Arc<Mutex<HashMap<i64, Flight>>>);

struct Flight {
    /// The client's id, as it wrote it.
    id: Box<str>,
    /// The text of the result, where it does not come from `rmcp`.
    result: Option<Box<RawValue>>,
}

impl Flights {
    /// Hands over the result of a request. It is dropped if nobody waits for it any more.
    pub(crate) fn answer(&self, id: &RequestId, result: Box<RawValue>) {
        if let RequestId::Number(id) = id
            && let Some(flight) = self.locked().get_mut(id)
        {
            flight.result = Some(result);
        }
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<i64, Flight>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An [`rmcp`] transport over two byte streams.
pub(crate) struct GatewayTransport<R, W> {
    reader: LineReader<R>,
    writer: Arc<LineWriter<W>>,
    flights: Flights,
    next_id: i64,
    /// Whether the client has said which revision it speaks. Until then `rmcp` takes a notification for an offence.
    opened: bool,
    /// Fires when the client has closed its side.
    closed: CancellationToken,
}

/// A message, looked at from outside.
#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(borrow, default)]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<&'a RawValue>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct CallParams<'a> {
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    arguments: Option<&'a RawValue>,
    #[serde(rename = "_meta", borrow, default)]
    meta: Option<&'a RawValue>,
}

/// Keeps a member that is `null` apart from one that is missing.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// An answer given without asking anybody.
struct Refusal<'a> {
    id: Option<&'a RawValue>,
    code: ErrorCode,
    message: String,
}

/// What a line amounts to.
enum Received<'a> {
    Message(Box<RxJsonRpcMessage<RoleServer>>),
    Refused(Refusal<'a>),
    Ignored,
}

impl<'a> Received<'a> {
    fn refused(id: Option<&'a RawValue>, code: ErrorCode, message: impl Into<String>) -> Self {
        Self::Refused(Refusal {
            id,
            code,
            message: message.into(),
        })
    }
}

impl Refusal<'_> {
    fn into_line(self) -> Vec<u8> {
        let error = json!({"code": self.code.0, "message": self.message});
        frame(self.id.map_or("null", RawValue::get), "error", &error.to_string())
    }
}

impl<R, W> GatewayTransport<R, W>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    pub(crate) fn new(read: R, write: W, flights: Flights, closed: CancellationToken) -> Self {
        Self {
            reader: LineReader::new(read),
            writer: Arc::new(LineWriter::new(write)),
            flights,
            next_id: 1,
            opened: false,
            closed,
        }
    }

    fn decode<'a>(&mut self, line: &'a [u8]) -> Received<'a> {
        let line = trimmed(line);
        if line.is_empty() {
            return Received::Ignored;
        }
        let Ok(text) = std::str::from_utf8(line) else {
            return Received::refused(None, ErrorCode::PARSE_ERROR, "parse error: not valid UTF-8");
        };
        if let Err(error) = serde_json::from_str::<&RawValue>(text) {
            return Received::refused(None, ErrorCode::PARSE_ERROR, format!("parse error: {error}"));
        }
        if text.starts_with('[') {
            return Received::refused(
                None,
                ErrorCode::INVALID_REQUEST,
                "invalid request: batches are not part of MCP",
            );
        }
        let frame: Frame<'_> = match serde_json::from_str(text) {
            Ok(frame) if text.starts_with('{') => frame,
            Ok(_) => {
                return Received::refused(None, ErrorCode::INVALID_REQUEST, "invalid request: not an object");
            }
            Err(error) => {
                return Received::refused(
                    None,
                    ErrorCode::INVALID_REQUEST,
                    format!("invalid request: {error}"),
                );
            }
        };
        // Only a string or a number can be echoed; anything else is no id.
        let id = frame.id.filter(|id| {
            id.get()
                .starts_with(|c: char| c == '"' || c == '-' || c.is_ascii_digit())
        });
        let Some(method) = frame.method else {
            // An answer to a request; none was sent.
            return if frame.result.is_some() || frame.error.is_some() {
                Received::Ignored
            } else {
                Received::refused(id, ErrorCode::INVALID_REQUEST, "invalid request: no method")
            };
        };
        let invalid = |message: &str| Received::refused(id, ErrorCode::INVALID_REQUEST, message);
        if frame.id.is_some() && id.is_none() {
            return invalid("invalid request: the id must be a string or a number");
        }
        if frame.jsonrpc.map(RawValue::get) != Some("\"2.0\"") {
            return invalid("invalid request: jsonrpc must be \"2.0\"");
        }
        let Ok(method) = serde_json::from_str::<String>(method.get()) else {
            return invalid("invalid request: the method must be a string");
        };
        match id {
            Some(id) => self.decode_request(id, &method, frame.params),
            None => self.decode_notification(&method, frame.params),
        }
    }

    fn decode_request<'a>(
        &mut self,
        id: &'a RawValue,
        method: &str,
        params: Option<&'a RawValue>,
    ) -> Received<'a> {
        if !METHODS.contains(&method) {
            return Received::refused(
                Some(id),
                ErrorCode::METHOD_NOT_FOUND,
                format!("unknown method `{}`", excerpt(method, 100)),
            );
        }
        let invalid = |reason: &dyn std::fmt::Display| {
            Received::refused(
                Some(id),
                ErrorCode::INVALID_PARAMS,
                format!("invalid params of {method}: {reason}"),
            )
        };
        let (params, arguments) = match (method, params) {
            ("tools/call", Some(params)) => match call_params(params) {
                Ok((params, arguments)) => (Some(params), Some(arguments)),
                Err(reason) => return invalid(&reason),
            },
            ("tools/call", None) => return invalid(&"`name` is missing"),
            (_, Some(params)) => match parse_shallow::<Map<String, Value>>(params.get()) {
                Ok(params) => (Some(Value::Object(params)), None),
                Err(error) => return invalid(&error),
            },
            (_, None) => (None, None),
        };
        if self.flights.locked().len() >= MAX_FLIGHTS {
            return Received::refused(
                Some(id),
                ErrorCode::INTERNAL_ERROR,
                format!("more than {MAX_FLIGHTS} requests are running"),
            );
        }
        let own_id = self.next_id;
        self.next_id += 1;
        let mut message = json!({"jsonrpc": "2.0", "id": own_id, "method": method});
        if let Some(params) = params {
            message["params"] = params;
        }
        let message: RxJsonRpcMessage<RoleServer> = match serde_json::from_value(message) {
            Ok(message) => message,
            Err(error) => return invalid(&error),
        };
        let JsonRpcMessage::Request(mut message) = message else {
            return invalid(&"not a request");
        };
        if let ClientRequest::CustomRequest(_) = &message.request {
            return invalid(&"a member is missing or has the wrong type");
        }
        if let Some(arguments) = arguments {
            message
                .request
                .extensions_mut()
                .insert(RawCallArguments(Arc::from(arguments)));
        }
        self.opened |= opens(&message.request);
        let flight = Flight {
            id: id.get().into(),
            result: None,
        };
        self.flights.locked().insert(own_id, flight);
        Received::Message(Box::new(JsonRpcMessage::Request(message)))
    }

    fn decode_notification<'a>(&self, method: &str, params: Option<&'a RawValue>) -> Received<'a> {
        if !self.opened {
            return Received::Ignored;
        }
        if method == "notifications/cancelled" {
            return self.decode_cancelled(params);
        }
        let mut message = json!({"jsonrpc": "2.0", "method": method});
        if let Some(params) = params {
            match parse_shallow::<Map<String, Value>>(params.get()) {
                Ok(params) => message["params"] = Value::Object(params),
                Err(_) => return Received::Ignored,
            }
        }
        match serde_json::from_value::<RxJsonRpcMessage<RoleServer>>(message) {
            Ok(JsonRpcMessage::Notification(message))
                if !matches!(message.notification, ClientNotification::CustomNotification(_)) =>
            {
                Received::Message(Box::new(JsonRpcMessage::Notification(message)))
            }
            _ => Received::Ignored,
        }
    }

    /// Finds out which request is meant: the newest with that id.
    fn decode_cancelled<'a>(&self, params: Option<&'a RawValue>) -> Received<'a> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Cancelled<'a> {
            #[serde(borrow)]
            request_id: &'a RawValue,
            #[serde(default)]
            reason: Option<String>,
        }
        let Some(cancelled) =
            params.and_then(|params| serde_json::from_str::<Cancelled<'_>>(params.get()).ok())
        else {
            return Received::Ignored;
        };
        let mut flights = self.flights.locked();
        let found = flights
            .iter()
            .filter(|(_, flight)| &*flight.id == cancelled.request_id.get())
            .map(|(own_id, _)| *own_id)
            .max();
        let Some(own_id) = found else {
            return Received::Ignored;
        };
        flights.remove(&own_id);
        let params = CancelledNotificationParam::new(
            Some(RequestId::Number(own_id)),
            cancelled.reason.map(|reason| excerpt(&reason, 200)),
        );
        Received::Message(Box::new(JsonRpcMessage::notification(
            ClientNotification::CancelledNotification(CancelledNotification::new(params)),
        )))
    }

    /// Writes a message as text under the client's own id. `None` if nobody waits for it.
    fn encode(&mut self, item: TxJsonRpcMessage<RoleServer>) -> serde_json::Result<Option<Vec<u8>>> {
        match item {
            JsonRpcMessage::Response(message) => {
                self.opened |= matches!(message.result, ServerResult::InitializeResult(_));
                let Some(flight) = self.land(&message.id) else {
                    return Ok(None);
                };
                if let Some(result) = flight.result {
                    return Ok(Some(frame(&flight.id, "result", result.get())));
                }
                let mut result = message.result;
                if let ServerResult::SubscriptionsListenResult(listened) = &mut result {
                    listened
                        .meta
                        .set_subscription_id(serde_json::from_str(&flight.id)?);
                }
                let text = serde_json::to_string(&result)?;
                Ok(Some(frame(&flight.id, "result", &text)))
            }
            JsonRpcMessage::Error(message) => {
                let error = serde_json::to_string(&message.error)?;
                let id = match &message.id {
                    None => "null".into(),
                    Some(id) => match self.land(id) {
                        Some(flight) => flight.id,
                        None => return Ok(None),
                    },
                };
                Ok(Some(frame(&id, "error", &error)))
            }
            JsonRpcMessage::Notification(mut message) => {
                let listener = message.notification.get_meta().subscription_id();
                if let Some(RequestId::Number(own_id)) = listener
                    && let Some(flight) = self.flights.locked().get(&own_id)
                    && let Ok(id) = serde_json::from_str(&flight.id)
                {
                    message.notification.get_meta_mut().set_subscription_id(id);
                }
                serde_json::to_vec(&JsonRpcMessage::<(), (), _>::Notification(message)).map(Some)
            }
            JsonRpcMessage::Request(message) => serde_json::to_vec(&message).map(Some),
        }
    }

    fn land(&self, id: &RequestId) -> Option<Flight> {
        match id {
            RequestId::Number(id) => self.flights.locked().remove(id),
            RequestId::String(_) => None,
        }
    }
}

impl<R, W> Transport<RoleServer> for GatewayTransport<R, W>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let line = self.encode(item);
        let writer = self.writer.clone();
        async move {
            match line? {
                Some(line) => writer.send(line).await,
                None => Ok(()),
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let line = match self.reader.next().await {
                Ok(Some(line)) => line,
                end => {
                    if let Err(error) = end {
                        tracing::debug!(%error, "cannot read from the client");
                    }
                    self.closed.cancel();
                    return None;
                }
            };
            let refusal = match &line {
                Line::Whole(line) => match self.decode(line) {
                    Received::Message(message) => return Some(*message),
                    Received::Ignored => continue,
                    Received::Refused(refusal) => refusal.into_line(),
                },
                Line::TooLong { bytes, .. } => Refusal {
                    id: None,
                    code: ErrorCode::INVALID_REQUEST,
                    message: format!("invalid request: {bytes} bytes > {MAX_LINE_BYTES} bytes"),
                }
                .into_line(),
            };
            // On its own task: a write that is dropped half-way would tear the stream.
            let writer = self.writer.clone();
            tokio::spawn(async move { writer.send(refusal).await });
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.closed.cancel();
        self.writer.close().await;
        Ok(())
    }
}

/// Writes an answer. Both parts are JSON already.
fn frame(id: &str, member: &str, text: &str) -> Vec<u8> {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"{member}":{text}}}"#).into_bytes()
}

/// Separates the arguments of a call from the rest of its parameters.
fn call_params(params: &RawValue) -> Result<(Value, &str), String> {
    if !params.get().starts_with('{') {
        return Err("not an object".to_owned());
    }
    let params: CallParams<'_> = serde_json::from_str(params.get()).map_err(|error| error.to_string())?;
    let name: String = match params.name.map(|name| serde_json::from_str(name.get())) {
        Some(Ok(name)) => name,
        Some(Err(_)) => return Err("`name` must be a string".to_owned()),
        None => return Err("`name` is missing".to_owned()),
    };
    let mut rest = Map::new();
    rest.insert("name".to_owned(), Value::String(name));
    if let Some(meta) = params.meta {
        let meta: Map<String, Value> =
            parse_shallow(meta.get()).map_err(|error| format!("`_meta`: {error}"))?;
        rest.insert("_meta".to_owned(), Value::Object(meta));
    }
    Ok((Value::Object(rest), params.arguments.map_or("", RawValue::get)))
}

/// Whether a request begins a session without `initialize`, as `rmcp` sees it.
fn opens(request: &ClientRequest) -> bool {
    if matches!(
        request,
        ClientRequest::InitializeRequest(_)
            | ClientRequest::DiscoverRequest(_)
            | ClientRequest::PingRequest(_)
    ) {
        return false;
    }
    let meta = request.get_meta();
    meta.missing_required_keys(&ProtocolVersion::V_2026_07_28)
        .is_empty()
        && meta
            .protocol_version()
            .is_some_and(|version| ProtocolVersion::KNOWN_VERSIONS.contains(&version))
}
