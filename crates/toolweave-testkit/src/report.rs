//! What the fixture server saw, kept as one JSON file that is complete whenever somebody looks.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde_json::value::RawValue;

use crate::raw;

/// Calls and messages that are kept one by one; the counts go on.
const MOST_KEPT: usize = 20_000;

/// Arguments above this size, or so deep that ordinary tools could not read the report, are replaced by their size.
const MOST_ARGUMENT_BYTES: usize = 64 * 1024;
const MOST_ARGUMENT_DEPTH: usize = 100;

/// Up to this many calls the file is rewritten at every change, then only now and then and at the end.
const ALWAYS_WRITTEN: usize = 200;
const WRITE_EVERY: Duration = Duration::from_millis(50);

/// Collects calls and messages.
#[derive(Debug)]
pub(crate) struct Report {
    path: Option<PathBuf>,
    start: Instant,
    written: Option<Instant>,
    by_request: BTreeMap<String, usize>,
    live: usize,
    live_writes: usize,
    seen: Seen,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Seen {
    /// When the server started, in milliseconds since 1970; all other times count from there.
    started_at: u128,
    /// The most calls that were under way at once.
    peak: usize,
    /// Whether a call of a tool without `readOnlyHint` ever overlapped another call.
    write_overlapped: bool,
    /// The deepest `value` that the tool `deep` was sent.
    depth: usize,
    /// What the tool `mark` was sent, in order.
    marks: Vec<Box<RawValue>>,
    /// The argument `id` of each cancelled call, or the request's own id.
    cancelled: Vec<Box<RawValue>>,
    total_calls: u64,
    calls: Vec<Call>,
    messages: Vec<Message>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Call {
    request: Box<RawValue>,
    tool: String,
    arguments: Box<RawValue>,
    start_ms: f64,
    end_ms: Option<f64>,
    cancelled: bool,
    #[serde(skip)]
    read_only: bool,
    #[serde(skip)]
    label: Option<Box<RawValue>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    at_ms: f64,
    method: String,
}

impl Report {
    pub(crate) fn new(path: Option<PathBuf>) -> Self {
        let started_at = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_millis();
        Self {
            path,
            start: Instant::now(),
            written: None,
            by_request: BTreeMap::new(),
            live: 0,
            live_writes: 0,
            seen: Seen {
                started_at,
                ..Seen::default()
            },
        }
    }

    pub(crate) fn message(&mut self, method: &str) {
        if self.seen.messages.len() < MOST_KEPT {
            let at_ms = self.now();
            self.seen.messages.push(Message {
                at_ms,
                method: method.to_owned(),
            });
        }
        self.write(false);
    }

    pub(crate) fn call(&mut self, request: &RawValue, tool: &str, arguments: &str, read_only: bool) {
        self.seen.total_calls += 1;
        self.live += 1;
        self.live_writes += usize::from(!read_only);
        self.seen.peak = self.seen.peak.max(self.live);
        self.seen.write_overlapped |= self.live > 1 && self.live_writes > 0;
        let fields = raw::Fields::parse(arguments).unwrap_or_default();
        let field = |name: &str| fields.raw(name).and_then(keep);
        if tool == "deep" {
            self.seen.depth = self.seen.depth.max(fields.raw("value").map_or(0, raw::depth));
        }
        if tool == "mark" && self.seen.marks.len() < MOST_KEPT {
            self.seen.marks.extend(field("n"));
        }
        if self.seen.calls.len() < MOST_KEPT {
            let omitted = || to_raw(format!("{{\"omittedBytes\":{}}}", arguments.len()));
            let call = Call {
                request: request.to_owned(),
                tool: tool.to_owned(),
                arguments: keep(arguments).unwrap_or_else(omitted),
                start_ms: self.now(),
                end_ms: None,
                cancelled: false,
                read_only,
                label: field("id"),
            };
            self.by_request
                .insert(request.get().to_owned(), self.seen.calls.len());
            self.seen.calls.push(call);
        }
        self.write(false);
    }

    pub(crate) fn end(&mut self, request: &str, read_only: bool, cancelled: bool) {
        self.live = self.live.saturating_sub(1);
        self.live_writes = self.live_writes.saturating_sub(usize::from(!read_only));
        let now = self.now();
        if let Some(call) = self
            .by_request
            .remove(request)
            .and_then(|at| self.seen.calls.get_mut(at))
        {
            call.end_ms = Some(now);
            call.cancelled = cancelled;
            debug_assert_eq!(call.read_only, read_only);
            if cancelled {
                self.seen
                    .cancelled
                    .push(call.label.clone().unwrap_or_else(|| call.request.clone()));
            }
        }
        self.write(false);
    }

    /// Writes the file; at the end always, before that not too often.
    pub(crate) fn write(&mut self, at_end: bool) {
        let Some(path) = &self.path else { return };
        let due = self.seen.calls.len() <= ALWAYS_WRITTEN
            || self
                .written
                .is_none_or(|written| written.elapsed() >= WRITE_EVERY);
        if !(due || at_end) {
            return;
        }
        let partial = path.with_extension("partial");
        // A report that cannot be written is missed by the test that wants it; the server must go on.
        let _ = std::fs::write(&partial, raw::json(&self.seen) + "\n")
            .and_then(|()| std::fs::rename(&partial, path));
        self.written = Some(Instant::now());
    }

    fn now(&self) -> f64 {
        self.start.elapsed().as_secs_f64() * 1000.0
    }
}

fn keep(text: &str) -> Option<Box<RawValue>> {
    let fits = text.len() <= MOST_ARGUMENT_BYTES && raw::depth(text) <= MOST_ARGUMENT_DEPTH;
    fits.then(|| to_raw(text.to_owned()))
}

fn to_raw(text: String) -> Box<RawValue> {
    RawValue::from_string(text).unwrap_or_default()
}
