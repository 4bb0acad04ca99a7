//! The tool set `std` that the programs of the corpus are written for: 16 tools over a few documents, tickets and keys.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::CorpusError;
use crate::raw::{Fields, json};
use crate::server::{Answer, Outcome, ToolSet};

/// The set with its state: keys that were written, calls that were counted.
#[derive(Debug)]
pub struct StdSet {
    tools: Vec<Value>,
    /// Compact JSON, as everything here: an answer is one line.
    now: String,
    /// Sorted by id.
    docs: Vec<Doc>,
    tickets: Vec<(Ticket, String)>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    keys: BTreeMap<String, String>,
    calls: BTreeMap<String, u64>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Doc {
    id: String,
    title: String,
    tags: Vec<String>,
    updated_at: String,
    text: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Ticket {
    id: String,
    title: String,
    status: String,
    assignee: Option<String>,
    priority: u32,
}

#[derive(Deserialize)]
struct SetFile {
    tools: Vec<Value>,
    data: DataFile,
}

#[derive(Deserialize)]
struct DataFile {
    now: Value,
    docs: Vec<Doc>,
    tickets: Vec<Value>,
    kv: BTreeMap<String, Value>,
}

impl StdSet {
    /// Returns the set with this crate's own small data.
    ///
    /// # Errors
    /// Never, as long as a test of this crate reads the same file.
    pub fn bundled() -> Result<Self, CorpusError> {
        Self::parse(
            include_str!("../fixtures/std-tools.json"),
            Path::new("fixtures/std-tools.json"),
        )
    }

    /// Returns the set with the data of a `std-tools.json`.
    ///
    /// # Errors
    /// When the file cannot be read or has another form.
    pub fn load(path: &Path) -> Result<Self, CorpusError> {
        let text = std::fs::read_to_string(path).map_err(|e| CorpusError::read(path, e))?;
        Self::parse(&text, path)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, CorpusError> {
        let bad = |e| CorpusError::Form {
            path: path.to_owned(),
            source: e,
        };
        let SetFile { tools, data } = serde_json::from_str(text).map_err(bad)?;
        let mut docs = data.docs;
        docs.sort_by(|a, b| a.id.cmp(&b.id));
        let tickets = data.tickets.into_iter().map(|whole| {
            let text = json(&whole);
            Ok((serde_json::from_value(whole)?, text))
        });
        let tickets = tickets.collect::<Result<_, _>>().map_err(bad)?;
        let keys = data
            .kv
            .into_iter()
            .map(|(key, value)| (key, json(&value)))
            .collect();
        let state = Mutex::new(State {
            keys,
            calls: BTreeMap::new(),
        });
        Ok(Self {
            tools,
            now: json(&data.now),
            docs,
            tickets,
            state,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn doc(&self, id: &str) -> Result<&Doc, String> {
        self.docs
            .iter()
            .find(|doc| doc.id == id)
            .ok_or_else(|| format!("document not found: {id}"))
    }

    fn answer(&self, name: &str, args: &Fields) -> Result<Option<String>, String> {
        let value = match name {
            "echo" => format!(
                "{{\"value\":{}}}",
                args.raw("value").ok_or("missing argument `value`")?
            ),
            "add" => {
                let sum = args.required::<f64>("a")? + args.required::<f64>("b")?;
                format!("{{\"sum\":{}}}", number(sum)?)
            }
            "now" => self.now.clone(),
            "fail" => return Err(args.required("message")?),
            "flaky" => self.flaky(args)?,
            "list_docs" => self.list_docs(args)?,
            "read_doc" => json(self.doc(&args.required::<String>("id")?)?),
            "search_docs" => self.search_docs(args)?,
            "doc-stats" => stats(self.doc(&args.required::<String>("id")?)?),
            "kv_get" => {
                let state = self.state();
                let value = state.keys.get(&args.required::<String>("key")?);
                format!(
                    "{{\"found\":{},\"value\":{}}}",
                    value.is_some(),
                    value.map_or("null", String::as_str)
                )
            }
            "kv_put" => {
                let key = args.required::<String>("key")?;
                let value = args.raw("value").ok_or("missing argument `value`")?.to_owned();
                let previous = self.state().keys.insert(key, value);
                format!("{{\"previous\":{}}}", previous.as_deref().unwrap_or("null"))
            }
            "kv_list" => {
                #[derive(Serialize)]
                struct Keys<'a> {
                    keys: Vec<&'a String>,
                }
                json(&Keys {
                    keys: self.state().keys.keys().collect(),
                })
            }
            "big_text" => big_text(args)?,
            "mcp__tickets__list_tickets" => self.list_tickets(args)?,
            "mcp__tickets__get_ticket" => {
                let id = args.required::<String>("id")?;
                let found = self.tickets.iter().find(|(ticket, _)| ticket.id == id);
                found.ok_or_else(|| format!("no such ticket: {id}"))?.1.clone()
            }
            _ => return Ok(None),
        };
        Ok(Some(value))
    }

    fn flaky(&self, args: &Fields) -> Result<String, String> {
        let key = args.required::<String>("key")?;
        let failures = args.required::<u64>("failures")?;
        let mut state = self.state();
        let calls = state.calls.entry(key).or_default();
        *calls += 1;
        if *calls <= failures {
            Err(format!("temporarily unavailable: attempt {calls}"))
        } else {
            Ok(format!("{{\"attempts\":{calls}}}"))
        }
    }

    fn list_docs(&self, args: &Fields) -> Result<String, String> {
        #[derive(Serialize)]
        struct Listed<'a> {
            id: &'a str,
            title: &'a str,
            tags: &'a [String],
            chars: usize,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Page<'a> {
            docs: Vec<Listed<'a>>,
            next_cursor: Option<String>,
        }
        let prefix = args.optional::<String>("prefix")?.unwrap_or_default();
        let limit = args.optional::<usize>("limit")?.unwrap_or(5);
        let offset = match args.optional::<String>("cursor")? {
            None => 0,
            Some(cursor) => offset(&cursor).ok_or_else(|| format!("unknown cursor: {cursor}"))?,
        };
        let found: Vec<&Doc> = self
            .docs
            .iter()
            .filter(|doc| doc.id.starts_with(&prefix))
            .collect();
        let docs = found.iter().skip(offset).take(limit).map(|doc| Listed {
            id: &doc.id,
            title: &doc.title,
            tags: &doc.tags,
            chars: units(&doc.text),
        });
        let next = offset.saturating_add(limit);
        let next_cursor = (next < found.len()).then(|| format!("p{next}"));
        Ok(json(&Page {
            docs: docs.collect(),
            next_cursor,
        }))
    }

    fn search_docs(&self, args: &Fields) -> Result<String, String> {
        #[derive(Serialize)]
        struct Hit<'a> {
            id: &'a str,
            line: usize,
            text: &'a str,
        }
        #[derive(Serialize)]
        struct Found<'a> {
            hits: Vec<Hit<'a>>,
            total: usize,
        }
        let query = args.required::<String>("query")?.to_lowercase();
        let limit = args.optional::<usize>("limit")?.unwrap_or(20);
        let mut hits = Vec::new();
        for doc in &self.docs {
            let lines = doc.text.split('\n').zip(1..);
            let matching = lines.filter(|(text, _)| text.to_lowercase().contains(&query));
            hits.extend(matching.map(|(text, line)| Hit {
                id: &doc.id,
                line,
                text,
            }));
        }
        let total = hits.len();
        hits.truncate(limit);
        Ok(json(&Found { hits, total }))
    }

    fn list_tickets(&self, args: &Fields) -> Result<String, String> {
        #[derive(Serialize)]
        struct Listed<'a> {
            tickets: Vec<&'a Ticket>,
        }
        let status = args.optional::<String>("status")?;
        let assignee = args.optional::<String>("assignee")?;
        let tickets = self.tickets.iter().map(|(ticket, _)| ticket).filter(|ticket| {
            status.as_ref().is_none_or(|status| ticket.status == *status)
                && assignee
                    .as_ref()
                    .is_none_or(|who| ticket.assignee.as_ref() == Some(who))
        });
        Ok(json(&Listed {
            tickets: tickets.collect(),
        }))
    }
}

impl ToolSet for StdSet {
    fn tools(&self) -> Vec<Value> {
        self.tools.clone()
    }

    fn call(&self, name: &str, arguments: &str) -> Option<Answer> {
        let outcome = Fields::parse(arguments).and_then(|args| {
            if name == "sleep" {
                sleep(&args).map(Some)
            } else {
                Ok(self.answer(name, &args)?.map(now))
            }
        });
        match outcome {
            Ok(answer) => answer,
            Err(message) => Some(Answer::Now(Outcome::Failed(message))),
        }
    }
}

fn now(value: String) -> Answer {
    Answer::Now(Outcome::Value(value))
}

fn sleep(args: &Fields) -> Result<Answer, String> {
    let ms = args.required::<u64>("ms")?;
    if ms > 60_000 {
        return Err(format!("bad argument `ms`: {ms} > 60000"));
    }
    let label = args.optional::<String>("label")?;
    let value = format!("{{\"sleptMs\":{ms},\"label\":{}}}", json(&label));
    Ok(Answer::After(Duration::from_millis(ms), Outcome::Value(value)))
}

fn big_text(args: &Fields) -> Result<String, String> {
    const MOST: usize = 20_000_000;
    let chars = args.required::<usize>("chars")?;
    if chars > MOST {
        return Err(format!("bad argument `chars`: {chars} > {MOST}"));
    }
    let text: String = ('a'..='z').cycle().take(chars).collect();
    Ok(format!("{{\"text\":\"{text}\"}}"))
}

fn stats(doc: &Doc) -> String {
    let lines = if doc.text.is_empty() {
        0
    } else {
        doc.text.split('\n').count()
    };
    let words = doc
        .text
        .split(is_js_space)
        .filter(|word| !word.is_empty())
        .count();
    let chars = units(&doc.text);
    format!(
        "{{\"id\":{},\"lines\":{lines},\"words\":{words},\"chars\":{chars}}}",
        json(&doc.id)
    )
}

/// Returns whether a program's `\s` matches: Unicode white space with the byte order mark and without NEL.
fn is_js_space(c: char) -> bool {
    c == '\u{feff}' || (c.is_whitespace() && c != '\u{85}')
}

/// Returns the length that a program sees.
fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

fn offset(cursor: &str) -> Option<usize> {
    let digits = cursor.strip_prefix('p')?;
    if digits.bytes().all(|b| b.is_ascii_digit()) {
        digits.parse().ok()
    } else {
        None
    }
}

/// Returns a number's JSON text, whole numbers without a point.
fn number(value: f64) -> Result<String, String> {
    if !value.is_finite() {
        return Err("the sum is not a finite number".to_owned());
    }
    if value.fract() == 0.0 && value.abs() < 1e15 {
        Ok(format!("{}", value + 0.0))
    } else {
        Ok(json(&value))
    }
}
