//! Reads a log, one event at a time, and trusts nothing in it.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde::Deserialize;

use crate::json::Fields;
use crate::limits::{FORMAT_VERSION, MAX_LINE_BYTES, MAX_LOADED_LOG_BYTES};
use crate::{Error, Event, Json, SessionHeader, UnknownEvent};

/// One event of a log with its place and time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The event's number in the log, from 1.
    pub seq: u64,
    /// When it was appended, in milliseconds since 1970.
    pub ts: i64,
    /// What happened.
    pub event: Event,
}

/// A last line that a crash left unfinished. Everything before it is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TornTail {
    /// The line, counted from 1.
    pub line: u64,
    /// Where it begins in the file.
    pub offset: u64,
    /// How long it is.
    pub bytes: u64,
}

/// A log that was read to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// The first event's payload.
    pub header: SessionHeader,
    /// All events, the header among them.
    pub records: Vec<Record>,
    /// The unfinished last line, where there is one.
    pub torn: Option<TornTail>,
}

/// Reads a whole log.
///
/// # Errors
/// As [`Reader`], and when the file is larger than [`MAX_LOADED_LOG_BYTES`].
pub fn read_log(path: &Path) -> Result<Log, Error> {
    let bytes = std::fs::metadata(path)
        .map_err(|e| Error::io("read", path, e))?
        .len();
    if bytes > MAX_LOADED_LOG_BYTES {
        return Err(Error::TooLarge {
            bytes,
            limit: MAX_LOADED_LOG_BYTES,
        });
    }
    let mut reader = Reader::open(path)?;
    let records = reader.by_ref().collect::<Result<_, _>>()?;
    Ok(Log {
        header: reader.header().clone(),
        records,
        torn: reader.torn_tail(),
    })
}

/// Iterates over the events of a log, beginning with its header; stops after the first error.
///
/// An unfinished last line is not an error: the iteration ends before it, and [`torn_tail`](Self::torn_tail) tells.
/// A damaged line anywhere else, a hole in the numbering, a newer format and a required event of an unknown type are errors.
#[derive(Debug)]
pub struct Reader<R> {
    from: R,
    header: SessionHeader,
    first: Option<Record>,
    /// Lines that were taken, damaged ones too.
    lines: u64,
    /// Where the next line begins.
    offset: u64,
    last_seq: u64,
    /// The last good line has no line break.
    unterminated: bool,
    torn: Option<TornTail>,
    done: bool,
}

impl Reader<BufReader<File>> {
    /// Opens a log.
    ///
    /// # Errors
    /// When the file cannot be read, or does not begin with a header that this program understands.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(|e| Error::io("open", path, e))?;
        Self::new(BufReader::with_capacity(64 * 1024, file))
    }
}

impl<R: BufRead> Reader<R> {
    /// Reads a log from any source.
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub fn new(from: R) -> Result<Self, Error> {
        let mut reader = Self {
            from,
            header: SessionHeader {
                format_version: FORMAT_VERSION,
                product_version: String::new(),
                session_id: crate::SessionId::generate(),
                cwd: None,
                origin: None,
            },
            first: None,
            lines: 0,
            offset: 0,
            last_seq: 0,
            unterminated: false,
            torn: None,
            done: false,
        };
        match reader.take_record()? {
            None => Err(Error::NoHeader),
            Some(Record {
                seq,
                ts,
                event: Event::SessionHeader(header),
            }) => {
                reader.header = header.clone();
                reader.first = Some(Record {
                    seq,
                    ts,
                    event: Event::SessionHeader(header),
                });
                Ok(reader)
            }
            Some(record) => Err(Error::NotAHeader(record.event.kind().chars().take(100).collect())),
        }
    }

    /// Returns the log's header.
    pub fn header(&self) -> &SessionHeader {
        &self.header
    }

    /// Returns the unfinished last line, once the iteration has ended.
    pub fn torn_tail(&self) -> Option<TornTail> {
        self.torn
    }

    /// Returns the number of the last event that was read.
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// Returns where the last good line ends, and whether it lacks its line break.
    pub(crate) fn good_end(&self) -> (u64, bool) {
        (self.offset, self.unterminated)
    }

    fn take_record(&mut self) -> Result<Option<Record>, Error> {
        let mut line = Vec::new();
        let limit = MAX_LINE_BYTES as u64 + 1;
        let bytes = self
            .from
            .by_ref()
            .take(limit)
            .read_until(b'\n', &mut line)
            .map_err(Error::Read)? as u64;
        if bytes == 0 {
            return Ok(None);
        }
        self.lines += 1;
        let ended = line.pop_if(|byte| *byte == b'\n').is_some();
        let parsed = if ended || bytes < limit {
            parse_line(&line)
        } else {
            Err(Fault::Content(format!("longer than {MAX_LINE_BYTES} bytes")))
        };
        let (head, record) = match parsed {
            Ok(found) => found,
            Err(Fault::Version(found)) => {
                return Err(Error::Version {
                    found,
                    newest: FORMAT_VERSION,
                });
            }
            Err(Fault::Required(kind)) => {
                return Err(Error::UnknownRequired {
                    line: self.lines,
                    kind,
                });
            }
            Err(Fault::Content(reason)) if ended || bytes == limit => {
                return Err(Error::Damaged {
                    line: self.lines,
                    reason,
                });
            }
            Err(Fault::Damage(reason) | Fault::Content(reason)) => {
                if self.from.fill_buf().map_err(Error::Read)?.is_empty() {
                    self.torn = Some(TornTail {
                        line: self.lines,
                        offset: self.offset,
                        bytes,
                    });
                    return Ok(None);
                }
                return Err(Error::Damaged {
                    line: self.lines,
                    reason,
                });
            }
        };
        let expected = self.last_seq + 1;
        if head != expected {
            return Err(Error::Sequence {
                line: self.lines,
                expected,
                found: head,
            });
        }
        self.offset += bytes;
        self.last_seq = head;
        self.unterminated = !ended;
        Ok(Some(record))
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Record, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(first) = self.first.take() {
            return Some(Ok(first));
        }
        if self.done {
            return None;
        }
        let item = self.take_record().transpose();
        self.done = !matches!(item, Some(Ok(_)));
        item
    }
}

/// The fields that every line has.
#[derive(Deserialize)]
struct Envelope<'a> {
    seq: u64,
    ts: i64,
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(default)]
    required: Option<Json>,
    #[serde(default, rename = "formatVersion")]
    format_version: Option<Json>,
}

enum Fault {
    /// Not JSON: what a crash can leave at the end of a log.
    Damage(String),
    /// JSON, but not an event. A crash does not write that, so it is never cut off.
    Content(String),
    Version(u32),
    Required(String),
}

impl From<serde_json::Error> for Fault {
    fn from(error: serde_json::Error) -> Self {
        // The line that the parser counts is always the first, and the log's own is named already.
        let place = format!(" at line {} column {}", error.line(), error.column());
        let message = error.to_string();
        let reason = match message.strip_suffix(&place) {
            Some(reason) => format!("{reason} (column {})", error.column()),
            None => message,
        };
        if error.is_data() {
            Self::Content(reason)
        } else {
            Self::Damage(reason)
        }
    }
}

fn parse_line(line: &[u8]) -> Result<(u64, Record), Fault> {
    let line = std::str::from_utf8(line).map_err(|e| Fault::Damage(e.to_string()))?;
    let Envelope {
        seq,
        ts,
        kind,
        required,
        format_version,
    } = serde_json::from_str(line)?;
    if kind == "session/header" {
        // Looked at before anything else, since a newer header may have any form.
        let version = format_version.and_then(|version| version.get().parse().ok());
        match version {
            Some(1..=FORMAT_VERSION) => {}
            Some(newer) if newer > FORMAT_VERSION => return Err(Fault::Version(newer)),
            _ => {
                return Err(Fault::Content(
                    "the header has no usable `formatVersion`".to_owned(),
                ));
            }
        }
    }
    let event = match Event::decode(&kind, line) {
        Some(event) => event?.with_roots(),
        None if required.is_some_and(|required| required.get() == "true") => {
            return Err(Fault::Required(kind.chars().take(100).collect()));
        }
        None => {
            let mut fields: Fields = serde_json::from_str(line)?;
            fields
                .0
                .retain(|(name, _)| !matches!(name.as_str(), "seq" | "ts" | "time" | "type"));
            Event::Unknown(UnknownEvent {
                kind: kind.into_owned(),
                payload: Json::encode(&fields)?,
            })
        }
    };
    Ok((seq, Record { seq, ts, event }))
}

impl Event {
    /// Fills in the root call where an old log leaves it out.
    fn with_roots(mut self) -> Self {
        let (root, parent) = match &mut self {
            Self::CodeDispatchStart(start) => (&mut start.root_call_id, &start.parent_call_id),
            Self::CodeDispatch(settle) => (&mut settle.root_call_id, &settle.parent_call_id),
            _ => return self,
        };
        if root.is_empty() {
            root.clone_from(parent);
        }
        self
    }
}
