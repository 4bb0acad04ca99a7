//! The wire to one upstream: JSON lines that are checked before `rmcp` sees them.
//!
//! `rmcp` parses every message into typed values, through `serde`'s buffering, with the usual recursion limit, and ends or
//! forgets a connection over things that are none of its business. Here the payloads of calls and listings go past it as
//! text: what surrounds them stays `rmcp`'s. That keeps 10 MB results to one parse, deep results off the stack, and costs
//! an unreadable answer the one call that it answers.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::RoleClient;
use rmcp::model::{
    ClientNotification, ClientRequest, EmptyResult, ErrorCode, ErrorData, GetExtensions, GetMeta,
    JsonRpcError, JsonRpcMessage, RequestId, ServerResult,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::json::{excerpt, parse_shallow};
use crate::lines::{Line, LineReader, LineWriter, MAX_LINE_BYTES, trimmed};

/// Longest message that is not the answer to a call or a listing.
const MAX_OTHER_BYTES: usize = 8 * 1024 * 1024;
/// Lines that are no messages which are logged one by one.
const LOGGED_NOISE: u64 = 5;
const SHOWN_NOISE_CHARS: usize = 120;
/// Longest `data` of an error that is kept.
const MAX_ERROR_DATA_BYTES: usize = 64 * 1024;

/// Arguments as they go on the wire. Travels in the extensions of a request.
#[derive(Clone)]
pub(crate) struct RawArguments(pub(crate) Arc<RawValue>);

/// Where the text of an answer is put. Travels in the extensions of a request.
#[derive(Clone, Default)]
pub(crate) struct RawAnswer(Arc<Mutex<Option<Answer>>>);

/// What came back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The text of `result`.
    Text(String),
    /// Why there is none.
    Unreadable(String),
}

impl RawAnswer {
    pub(crate) fn take(&self) -> Option<Answer> {
        lock(&self.0).take()
    }

    fn set(&self, answer: Answer) {
        *lock(&self.0) = Some(answer);
    }
}

/// How many lines of a server were no messages.
#[derive(Clone, Default)]
pub(crate) struct NoiseCount(Arc<Mutex<u64>>);

impl NoiseCount {
    pub(crate) fn get(&self) -> u64 {
        *lock(&self.0)
    }

    fn add(&self) -> u64 {
        let mut count = lock(&self.0);
        *count += 1;
        *count
    }
}

/// An [`rmcp`] transport over two byte streams.
pub(crate) struct UpstreamTransport<R, W> {
    server: Arc<str>,
    reader: LineReader<R>,
    writer: Arc<LineWriter<W>>,
    pending: HashMap<RequestId, RawAnswer>,
    noise: NoiseCount,
}

/// A message, looked at from outside.
#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct CallFrame<'a> {
    jsonrpc: &'static str,
    id: &'a RequestId,
    method: &'static str,
    params: CallParams<'a>,
}

#[derive(Serialize)]
struct CallParams<'a> {
    name: &'a str,
    arguments: &'a RawValue,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<&'a rmcp::model::RequestMetaObject>,
}

impl<R, W> UpstreamTransport<R, W>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    pub(crate) fn new(server: Arc<str>, read: R, write: W, noise: NoiseCount) -> Self {
        Self {
            server,
            reader: LineReader::new(read),
            writer: Arc::new(LineWriter::new(write)),
            pending: HashMap::new(),
            noise,
        }
    }

    /// Writes a message as text, and notes which answers are wanted as text.
    fn encode(&mut self, item: TxJsonRpcMessage<RoleClient>) -> serde_json::Result<Vec<u8>> {
        let mut item = item;
        match &mut item {
            JsonRpcMessage::Request(message) => {
                let extensions = message.request.extensions_mut();
                let answer = extensions.remove::<RawAnswer>();
                let arguments = extensions.remove::<RawArguments>();
                if let Some(answer) = answer {
                    self.pending.insert(message.id.clone(), answer);
                }
                if let (ClientRequest::CallToolRequest(call), Some(arguments)) = (&message.request, arguments)
                {
                    let meta = message.request.get_meta();
                    return serde_json::to_vec(&CallFrame {
                        jsonrpc: "2.0",
                        id: &message.id,
                        method: "tools/call",
                        params: CallParams {
                            name: &call.params.name,
                            arguments: &arguments.0,
                            meta: (!meta.is_empty()).then_some(meta),
                        },
                    });
                }
            }
            JsonRpcMessage::Notification(message) => {
                if let ClientNotification::CancelledNotification(cancelled) = &message.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.pending.remove(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        serde_json::to_vec(&item)
    }

    fn decode(&mut self, line: &[u8]) -> Option<RxJsonRpcMessage<RoleClient>> {
        let line = trimmed(line);
        if line.is_empty() {
            return None;
        }
        let Ok(text) = std::str::from_utf8(line) else {
            return self.decode_damaged(line);
        };
        if let Some(message) = self.decode_text(text) {
            return message;
        }
        // Something printed without a newline may stand right before a message.
        if let Some(at) = text.rfind("{\"jsonrpc\"").filter(|&at| at > 0)
            && let Some(message) = self.decode_text(&text[at..])
        {
            self.report_noise(&text[..at]);
            return message;
        }
        self.report_noise(text);
        None
    }

    /// Returns `None` for what is no message, and `Some(None)` for one that needs no attention.
    fn decode_text(&mut self, text: &str) -> Option<Option<RxJsonRpcMessage<RoleClient>>> {
        let frame: Frame<'_> = serde_json::from_str(text).ok()?;
        if frame.method.is_none() && (frame.result.is_some() || frame.error.is_some()) {
            let id = frame.id.and_then(|id| self.pending_id(id));
            if let Some((id, answer)) = id {
                if let Some(error) = frame.error {
                    return Some(Some(JsonRpcMessage::Error(JsonRpcError::new(
                        Some(id),
                        lenient_error(error.get()),
                    ))));
                }
                answer.set(Answer::Text(frame.result.map_or("{}", RawValue::get).to_owned()));
                return Some(Some(placeholder(id)));
            }
        } else if frame.method.is_none() {
            return None;
        }
        if text.len() > MAX_OTHER_BYTES {
            tracing::warn!(
                server = &*self.server,
                bytes = text.len(),
                "skipped a message that is too long"
            );
            return Some(None);
        }
        match parse_shallow::<RxJsonRpcMessage<RoleClient>>(text) {
            Ok(message) => Some(Some(message)),
            Err(error) => {
                tracing::warn!(
                    server = &*self.server,
                    %error,
                    "skipped a message that cannot be read: {}",
                    excerpt(text, SHOWN_NOISE_CHARS)
                );
                Some(None)
            }
        }
    }

    /// Fails the call that a line with broken UTF-8 answers, if it answers one.
    fn decode_damaged(&mut self, line: &[u8]) -> Option<RxJsonRpcMessage<RoleClient>> {
        let text = String::from_utf8_lossy(line);
        let frame: Option<Frame<'_>> = serde_json::from_str(&text).ok();
        let pending = frame
            .filter(|frame| frame.method.is_none())
            .and_then(|frame| frame.id)
            .and_then(|id| self.pending_id(id));
        let Some((id, answer)) = pending else {
            self.report_noise(&text);
            return None;
        };
        answer.set(Answer::Unreadable("the answer is not valid UTF-8".to_owned()));
        Some(placeholder(id))
    }

    /// Fails the call that a line beyond the limit answers, if its ends show which.
    fn decode_long(
        &mut self,
        head: &[u8],
        tail: &[u8],
        bytes: usize,
    ) -> Option<RxJsonRpcMessage<RoleClient>> {
        let pending = id_at_ends(head, tail).and_then(|id| self.pending.remove_entry(&id));
        let Some((id, answer)) = pending else {
            self.report_noise(&format!("a line of {bytes} bytes"));
            return None;
        };
        answer.set(Answer::Unreadable(format!(
            "the answer is too long: {bytes} bytes > {MAX_LINE_BYTES} bytes"
        )));
        Some(placeholder(id))
    }

    /// Takes out the waiting call with this id; some servers turn numbers into strings.
    fn pending_id(&mut self, raw: &RawValue) -> Option<(RequestId, RawAnswer)> {
        let id: RequestId = serde_json::from_str(raw.get()).ok()?;
        if let Some(found) = self.pending.remove_entry(&id) {
            return Some(found);
        }
        let RequestId::String(text) = id else {
            return None;
        };
        self.pending.remove_entry(&RequestId::Number(text.parse().ok()?))
    }

    fn report_noise(&self, text: &str) {
        let count = self.noise.add();
        if count <= LOGGED_NOISE {
            tracing::warn!(
                server = &*self.server,
                "server `{}` wrote something that is no MCP message to its standard output, skipped: {:?}{}",
                self.server,
                excerpt(text, SHOWN_NOISE_CHARS),
                if count == LOGGED_NOISE {
                    "; further ones are not reported"
                } else {
                    ""
                }
            );
        }
    }
}

impl<R, W> Transport<RoleClient> for UpstreamTransport<R, W>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let line = self.encode(item);
        let writer = self.writer.clone();
        async move { writer.send(line?).await }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let message = match self.reader.next().await {
                Ok(Some(Line::Whole(line))) => self.decode(&line),
                Ok(Some(Line::TooLong { head, tail, bytes })) => self.decode_long(&head, &tail, bytes),
                Ok(None) => return None,
                Err(error) => {
                    tracing::debug!(server = &*self.server, %error, "cannot read from the server");
                    return None;
                }
            };
            if message.is_some() {
                return message;
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.writer.close().await;
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Stands for an answer whose text went another way.
fn placeholder(id: RequestId) -> RxJsonRpcMessage<RoleClient> {
    JsonRpcMessage::response(ServerResult::EmptyResult(EmptyResult {}), id)
}

/// Reads an error object, whatever is wrong with it.
fn lenient_error(text: &str) -> ErrorData {
    #[derive(Deserialize)]
    struct Lenient<'a> {
        #[serde(default)]
        code: Option<f64>,
        #[serde(default)]
        message: Option<String>,
        #[serde(borrow, default)]
        data: Option<&'a RawValue>,
    }
    let Ok(error) = serde_json::from_str::<Lenient<'_>>(text) else {
        return ErrorData::new(
            ErrorCode::INTERNAL_ERROR,
            format!(
                "an error that cannot be read: {}",
                excerpt(text, SHOWN_NOISE_CHARS)
            ),
            None,
        );
    };
    let data = error
        .data
        .filter(|data| data.get().len() <= MAX_ERROR_DATA_BYTES)
        .and_then(|data| parse_shallow::<Value>(data.get()).ok());
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a cast saturates, and the code is only shown"
    )]
    let code = error.code.map_or(ErrorCode::INTERNAL_ERROR.0, |code| code as i32);
    let message = error
        .message
        .unwrap_or_else(|| "an error without a message".to_owned());
    ErrorData::new(ErrorCode(code), message, data)
}

/// Finds the id of a message of which only the ends are known: servers write it first or last.
fn id_at_ends(head: &[u8], tail: &[u8]) -> Option<RequestId> {
    let head = String::from_utf8_lossy(head);
    let tail = String::from_utf8_lossy(tail);
    let in_head = head
        .find("\"id\":")
        .filter(|&at| head.find("\"result\":").is_none_or(|result| at < result))
        .map(|at| &head[at + 5..]);
    let in_tail = || tail.rfind("\"id\":").map(|at| &tail[at + 5..]);
    let text = in_head.or_else(in_tail)?.trim_start();
    let end = text.find([',', '}'])?;
    serde_json::from_str(text[..end].trim()).ok()
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    type Wire = UpstreamTransport<tokio::io::DuplexStream, tokio::io::DuplexStream>;

    fn transport() -> (Wire, tokio::io::DuplexStream, NoiseCount) {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (unread, _) = tokio::io::duplex(1);
        let noise = NoiseCount::default();
        let transport = UpstreamTransport::new(Arc::from("s"), ours, unread, noise.clone());
        (transport, theirs, noise)
    }

    #[tokio::test]
    async fn answers_to_calls_pass_as_text() {
        let (mut transport, mut server, noise) = transport();
        let deep = format!(
            "{{\"structuredContent\":{}{}}}",
            "[".repeat(6_000),
            "]".repeat(6_000)
        );
        let lines = [
            "Server v1.2 ready!".to_owned(),
            String::new(),
            r#"{"level":"info"}"#.to_owned(),
            format!(
                "{}{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{{\"content\":[]}}}}",
                "x".repeat(200_000)
            ),
            format!("\u{feff}{{\"result\":{deep},\"jsonrpc\":\"2.0\",\"id\":\"2\"}}\r"),
            r#"{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"\ud800"}]}}"#.to_owned(),
            r#"{"jsonrpc":"2.0","id":4,"error":{"code":-32602,"message":"no","data":{"a":1}}}"#.to_owned(),
        ];
        let answers: Vec<RawAnswer> = (1..=5).map(|_| RawAnswer::default()).collect();
        for (id, answer) in (1..).zip(&answers) {
            transport.pending.insert(RequestId::Number(id), answer.clone());
        }
        server
            .write_all((lines.join("\n") + "\n").as_bytes())
            .await
            .expect("room");
        server
            .write_all(b"{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{\"x\":\"\xff\"}}\n")
            .await
            .expect("room");
        drop(server);
        let mut got = Vec::new();
        while let Some(message) = transport.receive().await {
            got.push(match message {
                JsonRpcMessage::Response(response) => response.id.to_string(),
                JsonRpcMessage::Error(error) => format!("{:?} {}", error.error.code, error.error.message),
                other => panic!("{other:?}"),
            });
        }
        assert_eq!(got, ["1", "2", "3", "ErrorCode(-32602) no", "5"]);
        let texts: Vec<Option<Answer>> = answers.iter().map(RawAnswer::take).collect();
        assert_eq!(
            texts,
            [
                Some(Answer::Text(r#"{"content":[]}"#.to_owned())),
                Some(Answer::Text(deep)),
                Some(Answer::Text(
                    r#"{"content":[{"type":"text","text":"\ud800"}]}"#.to_owned()
                )),
                None,
                Some(Answer::Unreadable("the answer is not valid UTF-8".to_owned())),
            ]
        );
        assert_eq!(noise.get(), 3);
    }

    #[test]
    fn the_id_of_a_cut_message_is_found_at_its_ends() {
        for (head, tail, expected) in [
            (
                r#"{"jsonrpc":"2.0","id":7,"result":{"a"#,
                "xxx",
                Some(RequestId::Number(7)),
            ),
            (
                r#"{"result":{"id":1"#,
                r#""},"jsonrpc":"2.0","id":8}"#,
                Some(RequestId::Number(8)),
            ),
            (
                r#"{"result":{"a"#,
                r#""},"id":"q","jsonrpc":"2.0"}"#,
                Some(RequestId::String("q".into())),
            ),
            ("xxx", "yyy", None),
        ] {
            assert_eq!(id_at_ends(head.as_bytes(), tail.as_bytes()), expected, "{head}");
        }
    }

    #[test]
    fn any_error_object_can_be_shown() {
        for (text, code, message) in [
            (r#"{"code":-1,"message":"m"}"#, -1, "m"),
            (r#"{"code":1e300}"#, i32::MAX, "an error without a message"),
            ("7", -32603, "an error that cannot be read: 7"),
        ] {
            let error = lenient_error(text);
            assert_eq!((error.code.0, &*error.message), (code, message), "{text}");
        }
    }
}
