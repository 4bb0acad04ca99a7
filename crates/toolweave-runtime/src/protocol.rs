//! Frames between a host and a worker, over one stream socket.
//!
//! A frame is a length (4 bytes, little endian, of what follows the kind), a kind (1 byte) and a payload. JSON travels as text
//! and is parsed by the side that needs it. The worker trusts its host; the host trusts nothing: decoding a frame from a
//! worker is total, bounded, and never reads a field as a command.

use std::collections::VecDeque;
use std::io;
use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::guest::{Event, Gone, GuestEnd, GuestOutcome, GuestPort, OutgoingCall, Start};
use crate::{Failure, FailureKind};

const HEADER: usize = 5;
/// Room in a frame beside its JSON text: ids, names.
const FRAME_SLACK: u64 = 64 * 1024;
/// The longest name or path of a member.
pub const MAX_NAME_BYTES: usize = 4096;

const START: u8 = 1;
const ANSWER: u8 = 2;
const CALL: u8 = 17;
const LOG: u8 = 18;
const DONE: u8 = 19;

const OK: u8 = 0;
const REJECTED: u8 = 1;

const NOTHING: u8 = 0;
const VALUE: u8 = 1;
const FAILED: u8 = 2;

/// What a worker says. Every field is as hostile as the program.
#[derive(Debug, PartialEq, Eq)]
pub enum FromWorker {
    Call {
        id: u32,
        namespace: u16,
        known: bool,
        name: String,
        arguments: String,
    },
    Log(String),
    Done(GuestOutcome),
}

/// Encodes the first frame to a worker.
///
/// # Errors
/// A program or a name list of more than 4 GiB.
pub fn encode_start(start: &Start) -> io::Result<Vec<u8>> {
    let payload = serde_json::to_vec(start)?;
    frame(START, &[&payload])
}

/// Encodes the answer to a call.
///
/// # Errors
/// An answer of more than 4 GiB.
pub fn encode_answer(id: u32, outcome: Result<&str, &str>) -> io::Result<Vec<u8>> {
    let (status, text) = match outcome {
        Ok(text) => (OK, text),
        Err(text) => (REJECTED, text),
    };
    frame(ANSWER, &[&id.to_le_bytes(), &[status], text.as_bytes()])
}

fn frame(kind: u8, parts: &[&[u8]]) -> io::Result<Vec<u8>> {
    let length = parts.iter().map(|part| part.len()).sum::<usize>();
    let prefix = u32::try_from(length).map_err(|_| io::Error::other("a frame of more than 4 GiB"))?;
    let mut bytes = Vec::with_capacity(HEADER + length);
    bytes.extend_from_slice(&prefix.to_le_bytes());
    bytes.push(kind);
    for part in parts {
        bytes.extend_from_slice(part);
    }
    Ok(bytes)
}

/// Collects bytes from a worker and cuts them into frames.
#[derive(Debug)]
pub struct Decoder {
    bytes: Vec<u8>,
    /// Where the next frame starts.
    at: usize,
    max_payload: u64,
}

/// A frame longer than the limits allow: the stream cannot be followed any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the worker announced a frame of {length} bytes; the most is {most}")]
pub struct FrameTooLong {
    pub length: u64,
    pub most: u64,
}

impl Decoder {
    /// `max_json_bytes` is the longest JSON text that a frame may carry.
    pub fn new(max_json_bytes: u64) -> Self {
        Self {
            bytes: Vec::new(),
            at: 0,
            max_payload: max_json_bytes.saturating_add(FRAME_SLACK),
        }
    }

    /// Returns where to append what was read.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        if self.at > 0 && self.at == self.bytes.len() {
            self.bytes.clear();
            self.at = 0;
        }
        &mut self.bytes
    }

    /// Returns the next whole frame. `Ok(Some(None))` is a frame that means nothing and was dropped.
    ///
    /// # Errors
    /// [`FrameTooLong`], before anything was allocated for it.
    pub fn next_frame(&mut self) -> Result<Option<Option<FromWorker>>, FrameTooLong> {
        let rest = &self.bytes[self.at..];
        let Some(&[a, b, c, d, kind]) = rest.first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes([a, b, c, d]);
        if u64::from(length) > self.max_payload {
            return Err(FrameTooLong {
                length: u64::from(length),
                most: self.max_payload,
            });
        }
        let end = HEADER + length as usize;
        let Some(payload) = rest.get(HEADER..end) else {
            self.compact();
            return Ok(None);
        };
        let decoded = decode(kind, payload);
        self.at += end;
        Ok(Some(decoded))
    }

    /// Moves the started frame to the front, so that the buffer does not grow with the number of frames.
    fn compact(&mut self) {
        if self.at > 0 {
            self.bytes.drain(..self.at);
            self.at = 0;
        }
    }
}

fn decode(kind: u8, payload: &[u8]) -> Option<FromWorker> {
    match kind {
        CALL => {
            let (id, rest) = payload.split_first_chunk::<4>()?;
            let (namespace, rest) = rest.split_first_chunk::<2>()?;
            let (&[known], rest) = rest.split_first_chunk::<1>()?;
            let (name_length, rest) = rest.split_first_chunk::<4>()?;
            let name_length = u32::from_le_bytes(*name_length) as usize;
            if name_length > MAX_NAME_BYTES {
                return None;
            }
            let (name, arguments) = rest.split_at_checked(name_length)?;
            Some(FromWorker::Call {
                id: u32::from_le_bytes(*id),
                namespace: u16::from_le_bytes(*namespace),
                known: known != 0,
                name: text(name)?,
                arguments: text(arguments)?,
            })
        }
        LOG => Some(FromWorker::Log(text(payload)?)),
        DONE => {
            let (peak, rest) = payload.split_first_chunk::<8>()?;
            let (&[tag], rest) = rest.split_first_chunk::<1>()?;
            let end = match tag {
                NOTHING => GuestEnd::Nothing,
                VALUE => GuestEnd::Value(text(rest)?),
                FAILED => GuestEnd::Failed(serde_json::from_slice::<Failure>(rest).ok()?),
                _ => return None,
            };
            Some(FromWorker::Done(GuestOutcome {
                end,
                peak_memory_bytes: u64::from_le_bytes(*peak),
            }))
        }
        _ => None,
    }
}

fn text(bytes: &[u8]) -> Option<String> {
    std::str::from_utf8(bytes).ok().map(str::to_owned)
}

/// The worker's end of the socket. Blocking; used after the lockdown, with nothing but `recv`, `send` and `poll`.
#[derive(Debug)]
pub struct SocketPort {
    socket: UnixStream,
    buffer: Vec<u8>,
    /// Where the unread part of `buffer` starts.
    at: usize,
    queued: VecDeque<(u8, Vec<u8>)>,
}

const READ_CHUNK: usize = 64 * 1024;

impl SocketPort {
    pub fn new(socket: UnixStream) -> Self {
        Self {
            socket,
            buffer: Vec::new(),
            at: 0,
            queued: VecDeque::new(),
        }
    }

    /// Waits for the first frame.
    ///
    /// # Errors
    /// [`Gone`] when the host went away, as it does with a standby that is no longer needed.
    pub fn start(&mut self) -> Result<Start, Gone> {
        let (kind, payload) = self.frame(None)?.ok_or(Gone)?;
        if kind != START {
            return Err(Gone);
        }
        serde_json::from_slice(&payload).map_err(|_| Gone)
    }

    /// Sends the last frame.
    ///
    /// # Errors
    /// [`Gone`] when nobody listens any more.
    pub fn done(mut self, outcome: &GuestOutcome) -> Result<(), Gone> {
        let peak = outcome.peak_memory_bytes.to_le_bytes();
        let sent = match &outcome.end {
            GuestEnd::Nothing => frame(DONE, &[&peak, &[NOTHING]]),
            GuestEnd::Value(text) => frame(DONE, &[&peak, &[VALUE], text.as_bytes()]),
            GuestEnd::Failed(failure) => {
                let json = serde_json::to_vec(failure).map_err(|_| Gone)?;
                frame(DONE, &[&peak, &[FAILED], &json])
            }
        };
        self.send(&sent.map_err(|_| Gone)?)
    }

    /// Sends all of `bytes`. While the host is not reading, its own frames are taken in, so that two full sockets never wait
    /// for each other.
    fn send(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        use rustix::event::{PollFd, PollFlags, poll};
        use rustix::net::{SendFlags, send};

        let mut rest = bytes;
        while !rest.is_empty() {
            match send(&self.socket, rest, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(sent) => rest = &rest[sent..],
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => {
                    let ready = {
                        let mut fds = [PollFd::new(&self.socket, PollFlags::IN | PollFlags::OUT)];
                        match poll(&mut fds, None) {
                            Ok(_) | Err(rustix::io::Errno::INTR) => {}
                            Err(_) => return Err(Gone),
                        }
                        fds[0].revents()
                    };
                    if ready.contains(PollFlags::IN) {
                        self.read_some()?;
                        while let Some(frame) = self.cut() {
                            self.queued.push_back(frame);
                        }
                    } else if !ready.contains(PollFlags::OUT) {
                        return Err(Gone);
                    }
                }
                Err(_) => return Err(Gone),
            }
        }
        Ok(())
    }

    /// Returns the next frame, or `None` when `until` came first.
    fn frame(&mut self, until: Option<Instant>) -> Result<Option<(u8, Vec<u8>)>, Gone> {
        if let Some(frame) = self.queued.pop_front() {
            return Ok(Some(frame));
        }
        loop {
            if let Some(frame) = self.cut() {
                return Ok(Some(frame));
            }
            if let Some(until) = until
                && !self.readable_before(until)?
            {
                return Ok(None);
            }
            self.read_some()?;
        }
    }

    fn readable_before(&self, until: Instant) -> Result<bool, Gone> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};

        loop {
            let left = until
                .saturating_duration_since(Instant::now())
                .min(Duration::from_secs(3600));
            let timeout = Timespec {
                tv_sec: left.as_secs().cast_signed(),
                tv_nsec: left.subsec_nanos().into(),
            };
            let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
            match poll(&mut fds, Some(&timeout)) {
                Ok(0) if left.is_zero() => return Ok(false),
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(true),
                Err(_) => return Err(Gone),
            }
        }
    }

    fn read_some(&mut self) -> Result<(), Gone> {
        if self.at == self.buffer.len() {
            self.buffer.clear();
            self.at = 0;
        }
        let wanted = self.missing().max(READ_CHUNK);
        let old = self.buffer.len();
        self.buffer.resize(old + wanted, 0);
        let read = loop {
            match self.socket.read(&mut self.buffer[old..]) {
                Ok(read) => break read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break 0,
            }
        };
        self.buffer.truncate(old + read);
        if read == 0 { Err(Gone) } else { Ok(()) }
    }

    /// Returns how many bytes the started frame still needs, so that a large one is read in large pieces.
    fn missing(&self) -> usize {
        const LARGEST_PIECE: usize = 1024 * 1024;
        let rest = &self.buffer[self.at..];
        let Some(&[a, b, c, d]) = rest.first_chunk::<4>() else {
            return 0;
        };
        let whole = HEADER + u32::from_le_bytes([a, b, c, d]) as usize;
        whole.saturating_sub(rest.len()).min(LARGEST_PIECE)
    }

    fn cut(&mut self) -> Option<(u8, Vec<u8>)> {
        let rest = &self.buffer[self.at..];
        let &[a, b, c, d, kind] = rest.first_chunk::<HEADER>()?;
        let end = HEADER + u32::from_le_bytes([a, b, c, d]) as usize;
        if rest.len() < end {
            if self.at > 0 {
                self.buffer.drain(..self.at);
                self.at = 0;
            }
            return None;
        }
        let payload = rest[HEADER..end].to_vec();
        self.at += end;
        Some((kind, payload))
    }
}

impl GuestPort for SocketPort {
    fn call(&mut self, call: OutgoingCall<'_>) -> Result<(), Gone> {
        let name = &call.name[..call.name.floor_char_boundary(MAX_NAME_BYTES.min(call.name.len()))];
        let length = u32::try_from(name.len()).map_err(|_| Gone)?.to_le_bytes();
        let bytes = frame(
            CALL,
            &[
                &call.id.to_le_bytes(),
                &call.namespace.to_le_bytes(),
                &[u8::from(call.known)],
                &length,
                name.as_bytes(),
                call.arguments.as_bytes(),
            ],
        );
        self.send(&bytes.map_err(|_| Gone)?)
    }

    fn log(&mut self, entry: &str) -> Result<(), Gone> {
        let bytes = frame(LOG, &[entry.as_bytes()]).map_err(|_| Gone)?;
        self.send(&bytes)
    }

    fn wait(&mut self, until: Option<Instant>) -> Event {
        loop {
            match self.frame(until) {
                Ok(None) => return Event::Due,
                Ok(Some((ANSWER, payload))) => match answer(payload) {
                    Some(event) => return event,
                    None => return Event::Gone,
                },
                Ok(Some(_)) => {}
                Err(Gone) => return Event::Gone,
            }
        }
    }
}

fn answer(mut payload: Vec<u8>) -> Option<Event> {
    let (&[a, b, c, d, status], _) = payload.split_first_chunk::<5>()?;
    payload.drain(..5);
    let text = String::from_utf8(payload).ok()?;
    let outcome = if status == OK { Ok(text) } else { Err(text) };
    Some(Event::Answer {
        id: u32::from_le_bytes([a, b, c, d]),
        outcome,
    })
}

/// Returns the failure of a run whose worker cannot be followed.
pub(crate) fn protocol_failure(message: String) -> Failure {
    Failure {
        kind: FailureKind::Protocol,
        name: None,
        message,
        position: None,
        stack: Vec::new(),
    }
}
