//! Writes a log. Appending costs the caller an encoding and a short lock; a thread of its own writes and syncs.
//!
//! Nothing is lost in silence: what cannot be written stays in memory and is tried again; what does not fit into memory
//! is counted, and a `log/gap` event takes its place as soon as there is room.

use std::collections::VecDeque;
use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use jiff::Timestamp;

use crate::json::Fields;
use crate::limits::{
    BATCH_WINDOW, FORMAT_VERSION, MAX_LINE_BYTES, MAX_MEMORY_BYTES, MAX_PENDING_BYTES, MAX_PENDING_EVENTS,
    OVERSIZE_FIELD_BYTES, RETRY_AFTER,
};
use crate::{Error, Event, Json, LogGap, Origin, Reader, Record, SessionHeader, SessionId, TornTail};

/// Decides what of a tool's arguments goes into the log. Gets the tool's name and the arguments as text; returns their
/// replacement, or `None` to keep them.
pub type Redaction = Arc<dyn Fn(&str, &str) -> Option<String> + Send + Sync>;

/// What a new log's header says.
#[derive(Debug, Clone, Default)]
pub struct NewSession {
    /// The version of the program.
    pub product_version: String,
    /// The session's name; a new one where absent.
    pub id: Option<SessionId>,
    /// Where the session works, as a label for people.
    pub cwd: Option<String>,
    /// The session that this one was forked from.
    pub origin: Option<Origin>,
}

/// How a recorder is doing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// The number of the last event that was taken.
    pub last_seq: u64,
    /// The number of the last event that is safely on disk; for a recorder in memory the same as `last_seq`.
    pub durable_seq: u64,
    /// Events that wait for the disk.
    pub pending: usize,
    /// Events that were dropped for want of room.
    pub dropped: u64,
    /// Events in which a field was replaced because the line would have been too long.
    pub shortened: u64,
    /// Why the last write failed, until one succeeds.
    pub error: Option<String>,
}

/// Appends events to a session's log. Clones append to the same log; it is complete when the last one is dropped.
#[derive(Clone, Default)]
pub struct Recorder {
    log: Option<Arc<Handle>>,
    redaction: Option<Redaction>,
}

impl Recorder {
    /// Starts the log of a new session as `<id>.jsonl` in `dir`. The folder and the file are the user's alone.
    ///
    /// # Errors
    /// When the folder or the file cannot be made, or the file exists.
    pub fn create(dir: &Path, session: NewSession) -> Result<Self, Error> {
        let id = session.id.unwrap_or_else(SessionId::generate);
        create_private_dir(dir).map_err(|e| Error::io("create", dir, e))?;
        let path = dir.join(format!("{id}.jsonl"));
        let mut options = OpenOptions::new();
        options.read(true).append(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&path).map_err(|e| Error::io("create", &path, e))?;
        lock_file(&file, &path)?;
        sync_dir(dir).map_err(|e| Error::io("sync", dir, e))?;
        let header = SessionHeader {
            format_version: FORMAT_VERSION,
            product_version: session.product_version,
            session_id: id,
            cwd: session.cwd,
            origin: session.origin,
        };
        let recorder = Self::start(
            header.clone(),
            path,
            Target {
                disk: Box::new(file),
                good_len: 0,
                dirty: false,
            },
            0,
            i64::MIN,
        )?;
        recorder.append(header);
        Ok(recorder)
    }

    /// Opens an existing log to go on with it. An unfinished last line is cut off and reported.
    ///
    /// # Errors
    /// When the file cannot be read or written, is in use, or is damaged anywhere but at its end.
    pub fn open(path: &Path) -> Result<(Self, Option<TornTail>), Error> {
        let mut options = OpenOptions::new();
        options.read(true).append(true);
        let mut file = options.open(path).map_err(|e| Error::io("open", path, e))?;
        lock_file(&file, path)?;
        let mut reader = Reader::open(path)?;
        let mut last_ts = i64::MIN;
        for record in reader.by_ref() {
            last_ts = last_ts.max(record?.ts);
        }
        let (mut good_len, unterminated) = reader.good_end();
        let repair = |e| Error::io("repair", path, e);
        if reader.torn_tail().is_some() {
            file.set_len(good_len).map_err(repair)?;
        }
        if unterminated {
            file.write_all(b"\n").map_err(repair)?;
            good_len += 1;
        }
        let target = Target {
            disk: Box::new(file),
            good_len,
            dirty: false,
        };
        let recorder = Self::start(
            reader.header().clone(),
            path.to_owned(),
            target,
            reader.last_seq(),
            last_ts,
        )?;
        Ok((recorder, reader.torn_tail()))
    }

    /// Returns a recorder that keeps its log in memory, for tests and embedders; see [`records`](Self::records).
    pub fn memory() -> Self {
        let header = SessionHeader {
            format_version: FORMAT_VERSION,
            product_version: env!("CARGO_PKG_VERSION").to_owned(),
            session_id: SessionId::generate(),
            cwd: None,
            origin: None,
        };
        let state = State {
            kept: Some(Vec::new()),
            ..State::new(0, i64::MIN)
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            work: Condvar::new(),
            progress: Condvar::new(),
        });
        let handle = Handle {
            shared,
            header: header.clone(),
            path: None,
            writer: Mutex::new(None),
        };
        let recorder = Self {
            log: Some(Arc::new(handle)),
            redaction: None,
        };
        recorder.append(header);
        recorder
    }

    /// Returns a recorder that keeps nothing.
    pub fn none() -> Self {
        Self::default()
    }

    /// Returns this recorder with a hook that decides what of each call's arguments is kept. Clones made from it have
    /// the hook too. Where the hook panics the arguments are left out.
    pub fn with_redaction(mut self, redaction: Redaction) -> Self {
        self.redaction = Some(redaction);
        self
    }

    /// Appends an event and returns its number, or 0 where it was not taken: nothing is recorded at all, or there is no
    /// more room (see [`Status::dropped`]). Never waits for the disk.
    pub fn append(&self, event: impl Into<Event>) -> u64 {
        let Some(log) = &self.log else { return 0 };
        let mut event = event.into();
        if let Some(redaction) = &self.redaction {
            redact(&mut event, redaction);
        }
        let (body, shortened) = encode(&event);
        let mut state = log.shared.lock();
        state.shortened += u64::from(shortened);
        let idle = state.queue.is_empty();
        let seq = state.push(body);
        drop(state);
        if idle && seq > 0 {
            log.shared.work.notify_one();
        }
        seq
    }

    /// Waits until everything appended so far is safely on disk, and returns the number of the last such event.
    ///
    /// This blocks the thread for as long as a sync takes; asynchronous callers do it on a thread for blocking work.
    ///
    /// # Errors
    /// When the write fails. The events stay in memory and are tried again.
    pub fn flush(&self) -> Result<u64, Error> {
        let Some(log) = &self.log else { return Ok(0) };
        let mut state = log.shared.lock();
        let target = state.next_seq - 1;
        let failures = state.failures;
        while state.durable_seq < target && state.kept.is_none() {
            if state.failures != failures || state.writer_gone {
                let message = state
                    .error
                    .clone()
                    .unwrap_or_else(|| "the writer has stopped".to_owned());
                return Err(Error::Write {
                    message,
                    pending: state.pending(),
                });
            }
            state.flush_waiting += 1;
            log.shared.work.notify_one();
            state = log
                .shared
                .progress
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            state.flush_waiting -= 1;
        }
        Ok(target)
    }

    /// Returns how the recorder is doing.
    pub fn status(&self) -> Status {
        let Some(log) = &self.log else {
            return Status::default();
        };
        let state = log.shared.lock();
        let last_seq = state.next_seq - 1;
        Status {
            last_seq,
            durable_seq: if state.kept.is_some() {
                last_seq
            } else {
                state.durable_seq
            },
            pending: state.pending(),
            dropped: state.dropped,
            shortened: state.shortened,
            error: state.error.clone(),
        }
    }

    /// Returns what went wrong since the last time this was asked, once: a failed write or dropped events.
    pub fn take_trouble(&self) -> Option<Error> {
        let log = self.log.as_ref()?;
        let mut state = log.shared.lock();
        let message = state.trouble.take()?;
        Some(Error::Write {
            message,
            pending: state.pending(),
        })
    }

    /// Returns the session's name, where there is a log.
    pub fn session_id(&self) -> Option<&SessionId> {
        self.log.as_ref().map(|log| &log.header.session_id)
    }

    /// Returns the file, where there is one.
    pub fn path(&self) -> Option<&Path> {
        self.log.as_ref()?.path.as_deref()
    }

    /// Returns the events of a recorder in memory; none for any other.
    ///
    /// # Errors
    /// When a line cannot be read back, which would be a fault of this crate.
    pub fn records(&self) -> Result<Vec<Record>, Error> {
        let lines = self
            .log
            .as_ref()
            .and_then(|log| log.shared.lock().kept.clone())
            .unwrap_or_default();
        if lines.is_empty() {
            Ok(Vec::new())
        } else {
            Reader::new(lines.as_slice())?.collect()
        }
    }

    fn start(
        header: SessionHeader,
        path: PathBuf,
        target: Target,
        last_seq: u64,
        last_ts: i64,
    ) -> Result<Self, Error> {
        let state = Mutex::new(State::new(last_seq, last_ts));
        let shared = Arc::new(Shared {
            state,
            work: Condvar::new(),
            progress: Condvar::new(),
        });
        let for_writer = Arc::clone(&shared);
        let writer = thread::Builder::new()
            .name("session-log".to_owned())
            .spawn(move || write_loop(&for_writer, target))
            .map_err(|e| Error::io("start the writer of", &path, e))?;
        let handle = Handle {
            shared,
            header,
            path: Some(path),
            writer: Mutex::new(Some(writer)),
        };
        Ok(Self {
            log: Some(Arc::new(handle)),
            redaction: None,
        })
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder")
            .field("session_id", &self.session_id())
            .field("path", &self.path())
            .field("redacts", &self.redaction.is_some())
            .finish()
    }
}

/// What the clones of a recorder share; its drop is the end of the log.
struct Handle {
    shared: Arc<Shared>,
    header: SessionHeader,
    path: Option<PathBuf>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.work.notify_one();
        let writer = self
            .writer
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(writer) = writer {
            // A writer that panicked has lost its batch already; there is nobody left to tell.
            let _ = writer.join();
        }
    }
}

struct Shared {
    state: Mutex<State>,
    /// Wakes the writer.
    work: Condvar,
    /// Wakes those who flush.
    progress: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct State {
    next_seq: u64,
    last_ts: i64,
    queue: VecDeque<Pending>,
    /// Bytes and events in the queue and in the writer's hands.
    pending_bytes: usize,
    in_flight: usize,
    durable_seq: u64,
    /// Events dropped in all, and those that no `log/gap` tells of yet.
    dropped: u64,
    gap: u64,
    shortened: u64,
    flush_waiting: usize,
    closing: bool,
    writer_gone: bool,
    failures: u64,
    error: Option<String>,
    trouble: Option<String>,
    /// The log of a recorder in memory.
    kept: Option<Vec<u8>>,
}

struct Pending {
    seq: u64,
    ts: i64,
    body: String,
}

impl State {
    fn new(last_seq: u64, last_ts: i64) -> Self {
        Self {
            next_seq: last_seq + 1,
            last_ts,
            queue: VecDeque::new(),
            pending_bytes: 0,
            in_flight: 0,
            durable_seq: last_seq,
            dropped: 0,
            gap: 0,
            shortened: 0,
            flush_waiting: 0,
            closing: false,
            writer_gone: false,
            failures: 0,
            error: None,
            trouble: None,
            kept: None,
        }
    }

    fn pending(&self) -> usize {
        self.queue.len() + self.in_flight
    }

    fn has_room(&self, bytes: usize) -> bool {
        match &self.kept {
            Some(kept) => kept.len().saturating_add(bytes) <= MAX_MEMORY_BYTES,
            None => {
                self.pending() < MAX_PENDING_EVENTS
                    && self.pending_bytes.saturating_add(bytes) <= MAX_PENDING_BYTES
            }
        }
    }

    /// Takes an event and returns its number, or counts it as dropped and returns 0.
    fn push(&mut self, body: String) -> u64 {
        if !self.has_room(body.len()) {
            self.dropped += 1;
            self.gap += 1;
            if self.gap == 1 {
                self.trouble = Some("events were dropped because too many wait for the disk".to_owned());
            }
            return 0;
        }
        self.note_gap();
        self.enqueue(body)
    }

    fn note_gap(&mut self) {
        if self.gap > 0 {
            let (body, _) = encode(&Event::LogGap(LogGap {
                dropped: std::mem::take(&mut self.gap),
            }));
            self.enqueue(body);
        }
    }

    fn enqueue(&mut self, body: String) -> u64 {
        let seq = self.next_seq;
        self.next_seq += 1;
        // The clock may be set back while a log is open; the log's own time stands still then.
        self.last_ts = self.last_ts.max(Timestamp::now().as_millisecond());
        let event = Pending {
            seq,
            ts: self.last_ts,
            body,
        };
        match &mut self.kept {
            Some(kept) => event.write_to(kept),
            None => {
                self.pending_bytes += event.body.len();
                self.queue.push_back(event);
            }
        }
        seq
    }
}

impl Pending {
    fn write_to(&self, out: &mut Vec<u8>) {
        let Self { seq, ts, body } = self;
        let time = Timestamp::from_millisecond(*ts).unwrap_or_default();
        // Writing to a vector cannot fail.
        let _ = writeln!(out, "{{\"seq\":{seq},\"ts\":{ts},\"time\":\"{time:.3}\",{body}");
    }
}

/// Returns everything of an event's line that follows its number and time, and whether it had to be shortened.
fn encode(event: &Event) -> (String, bool) {
    let kind = Json::string(event.kind());
    let payload = event.payload().unwrap_or_else(|error| {
        // Payloads are plain data and raw JSON, which always serialize.
        format!("{{\"unencodable\":{}}}", Json::string(&error.to_string()))
    });
    // The envelope in front has less than a hundred bytes.
    let limit = MAX_LINE_BYTES - 100 - kind.get().len().min(MAX_LINE_BYTES / 2);
    let (payload, shortened) = if payload.len() <= limit {
        (payload, false)
    } else {
        (shorten(&payload, limit), true)
    };
    let rest = payload.strip_prefix('{').unwrap_or("}");
    let comma = if rest.trim_start().starts_with('}') {
        ""
    } else {
        ","
    };
    (format!("\"type\":{kind}{comma}{rest}"), shortened)
}

/// Replaces large fields of a payload by a note with their size.
fn shorten(payload: &str, limit: usize) -> String {
    let Ok(Fields(mut fields)) = serde_json::from_str(payload) else {
        return "{}".to_owned();
    };
    for (_, value) in &mut fields {
        let bytes = value.get().len();
        if bytes > OVERSIZE_FIELD_BYTES {
            *value = Json::string(&format!(
                "[not recorded: {bytes} bytes, more than a line of the log may hold]"
            ));
        }
    }
    match serde_json::to_string(&Fields(fields)) {
        Ok(text) if text.len() <= limit => text,
        _ => "{}".to_owned(),
    }
}

fn redact(event: &mut Event, redaction: &Redaction) {
    let replace = |name: &str, arguments: &str| {
        catch_unwind(AssertUnwindSafe(|| redaction(name, arguments)))
            .unwrap_or_else(|_| Some("\"[not recorded: redaction failed]\"".to_owned()))
    };
    let (name, arguments) = match event {
        Event::ToolCall(call) => {
            if let Some(replacement) = replace(&call.name, &call.arguments) {
                call.arguments = replacement;
            }
            return;
        }
        Event::CodeDispatchStart(start) => (&start.name, &mut start.arguments),
        Event::CodeDispatch(settle) => (&settle.name, &mut settle.arguments),
        Event::ApprovalAsked(asked) => (&asked.name, &mut asked.arguments),
        _ => return,
    };
    if let Some(replacement) = replace(name, arguments.get()) {
        *arguments = Json::parse(replacement.as_str()).unwrap_or_else(|_| Json::string(&replacement));
    }
}

/// What the writer needs of a file.
trait Disk: Send {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    fn sync(&mut self) -> io::Result<()>;
    fn cut(&mut self, len: u64) -> io::Result<()>;
}

impl Disk for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }

    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }
}

/// The file as the writer sees it.
struct Target {
    disk: Box<dyn Disk>,
    /// Where the last batch that was written and synced ends.
    good_len: u64,
    /// A failed write may have left something behind `good_len`.
    dirty: bool,
}

impl Target {
    fn write(&mut self, batch: &[Pending]) -> io::Result<()> {
        const CHUNK: usize = 1024 * 1024;
        if self.dirty {
            self.disk.cut(self.good_len)?;
        }
        self.dirty = true;
        let mut written = 0;
        let mut buffer = Vec::new();
        for event in batch {
            event.write_to(&mut buffer);
            if buffer.len() >= CHUNK {
                self.disk.append(&buffer)?;
                written += buffer.len() as u64;
                buffer.clear();
            }
        }
        self.disk.append(&buffer)?;
        written += buffer.len() as u64;
        self.disk.sync()?;
        self.good_len += written;
        self.dirty = false;
        Ok(())
    }
}

fn write_loop(shared: &Shared, mut target: Target) {
    let _gone = MarkGone(shared);
    loop {
        let mut state = shared.lock();
        let mut since = None;
        loop {
            if state.closing || (state.flush_waiting > 0 && !state.queue.is_empty()) {
                break;
            }
            if state.queue.is_empty() {
                state = shared.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let window = if state.error.is_some() {
                RETRY_AFTER
            } else {
                BATCH_WINDOW
            };
            let waited = since.get_or_insert_with(Instant::now).elapsed();
            if waited >= window {
                break;
            }
            let rest = window - waited;
            state = shared
                .work
                .wait_timeout(state, rest)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        if state.closing {
            state.note_gap();
            if state.queue.is_empty() {
                return;
            }
        }
        let last_try = state.closing;
        let batch = Vec::from(std::mem::take(&mut state.queue));
        state.in_flight = batch.len();
        drop(state);

        let outcome = target.write(&batch);

        let mut state = shared.lock();
        state.in_flight = 0;
        match outcome {
            Ok(()) => {
                state.pending_bytes -= batch.iter().map(|event| event.body.len()).sum::<usize>();
                state.durable_seq = batch.last().map_or(state.durable_seq, |event| event.seq);
                state.error = None;
            }
            Err(error) => {
                let newer = std::mem::replace(&mut state.queue, batch.into());
                state.queue.extend(newer);
                state.failures += 1;
                let message = error.to_string();
                if state.error.as_ref() != Some(&message) {
                    state.trouble = Some(message.clone());
                }
                state.error = Some(message);
                if last_try {
                    return;
                }
            }
        }
        drop(state);
        shared.progress.notify_all();
    }
}

/// Tells those who flush that nobody writes any more, whatever the reason.
struct MarkGone<'a>(&'a Shared);

impl Drop for MarkGone<'_> {
    fn drop(&mut self) {
        self.0.lock().writer_gone = true;
        self.0.progress.notify_all();
    }
}

fn lock_file(file: &File, path: &Path) -> Result<(), Error> {
    if !cfg!(unix) {
        // Locks are mandatory elsewhere, and would keep readers of a running session out.
        return Ok(());
    }
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(Error::Busy(path.to_owned())),
        // Some file systems have no locks; the log is no worse for it.
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
        Err(TryLockError::Error(error)) => Err(Error::io("lock", path, error)),
    }
}

fn create_private_dir(dir: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

/// Makes the name of a new file durable.
fn sync_dir(dir: &Path) -> io::Result<()> {
    if cfg!(unix) {
        File::open(dir)?.sync_all()
    } else {
        Ok(())
    }
}

#[cfg(test)]
#[path = "recorder_tests.rs"]
mod tests;
