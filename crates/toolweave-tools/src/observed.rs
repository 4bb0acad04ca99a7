//! Learns what tools give that do not say so themselves.
//!
//! Of a successful result the [`Shape`] is kept: kinds and property names, never a value. What is learnt is shown, marked
//! as observed, and enforced nowhere. Where shapes stay between processes is a [`ShapeStore`]'s affair.

mod names;
mod sample;
mod shape;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

pub use shape::{MAX_SHAPE_LEVELS, MAX_SHAPE_NODES, Shape};

use crate::Provider;
use crate::registry::Entry;

/// Every one of so many first results of a tool is looked at, and one in [`LATER`] afterwards.
const FIRST: u32 = 64;
const LATER: u32 = 16;
/// Tools whose types in the SDK are held still. Further ones are shown without.
const MAX_PINNED: usize = 20_000;
/// Tools that are remembered without a file.
const MAX_REMEMBERED: usize = 20_000;

/// Keeps shapes. Called in the middle of calls: no method but [`forget`](Self::forget) may wait for anything slow.
pub trait ShapeStore: Send + Sync {
    /// Returns the newest that is known about a tool.
    fn load(&self, provider: &Provider, tool: &str) -> Option<Shape>;

    /// Adds one result to what is known.
    fn observe(&self, provider: &Provider, tool: &str, shape: Shape);

    /// Removes what is known, and returns of which tools.
    fn forget(&self, what: &Forget) -> Vec<Forgotten>;
}

/// What is to be forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Forget {
    /// One tool by its name, in every version of its server.
    Tool(String),
    /// All tools of a provider, in every version.
    Server(String),
    All,
}

impl Forget {
    /// Returns whether this is about a tool of a provider.
    pub fn concerns(&self, provider: &Provider, tool: &str) -> bool {
        match self {
            Self::Tool(name) => name == tool,
            Self::Server(name) => **name == *provider.name,
            Self::All => true,
        }
    }
}

/// A tool whose results are no longer known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forgotten {
    pub provider: Provider,
    pub tool: String,
}

/// Shapes by server, version and tool.
type Known = BTreeMap<(Arc<str>, Option<Arc<str>>, String), Shape>;

/// What was shown of a tool when it was first mentioned.
type Pins = HashMap<(Provider, Arc<str>), Option<Arc<Value>>>;

/// Keeps shapes for as long as it lives.
#[derive(Default)]
pub struct MemoryShapes {
    known: Mutex<Known>,
}

impl MemoryShapes {
    pub fn new() -> Self {
        Self::default()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ShapeStore for MemoryShapes {
    fn load(&self, provider: &Provider, tool: &str) -> Option<Shape> {
        self.known().get(&key(provider, tool)).cloned()
    }

    fn observe(&self, provider: &Provider, tool: &str, shape: Shape) {
        let mut known = self.known();
        let key = key(provider, tool);
        if let Some(mine) = known.get_mut(&key) {
            mine.merge(&shape);
        } else if known.len() < MAX_REMEMBERED {
            known.insert(key, shape);
        }
    }

    fn forget(&self, what: &Forget) -> Vec<Forgotten> {
        let mut forgotten = Vec::new();
        self.known().retain(|(name, version, tool), _| {
            let provider = Provider {
                name: Arc::clone(name),
                version: version.clone(),
            };
            let gone = what.concerns(&provider, tool);
            if gone {
                forgotten.push(Forgotten {
                    provider,
                    tool: tool.clone(),
                });
            }
            !gone
        });
        forgotten
    }
}

fn key(provider: &Provider, tool: &str) -> (Arc<str>, Option<Arc<str>>, String) {
    (
        Arc::clone(&provider.name),
        provider.version.clone(),
        tool.to_owned(),
    )
}

/// A store as one toolbox uses it.
pub(crate) struct Learned {
    store: Arc<dyn ShapeStore>,
    /// What the SDK says, unchanged for as long as this process lives: a text that changed with every call would cost
    /// every client its prompt cache.
    pinned: Mutex<Pins>,
}

impl Learned {
    pub(crate) fn new(store: Arc<dyn ShapeStore>) -> Self {
        Self {
            store,
            pinned: Mutex::default(),
        }
    }

    /// Learns from a result, where the tool promises nothing about it.
    pub(crate) fn observe(&self, entry: &Entry, value: &Value) {
        if entry.spec().output_schema.is_some() {
            return;
        }
        let before = entry.results.fetch_add(1, Ordering::Relaxed);
        if before < FIRST || before.is_multiple_of(LATER) {
            self.store
                .observe(&entry.spec().provider, &entry.name, Shape::of(value));
        }
    }

    /// Returns the schema of what has been seen up to now.
    pub(crate) fn newest(&self, entry: &Entry) -> Option<Value> {
        if entry.spec().output_schema.is_some() {
            return None;
        }
        let shape = self.store.load(&entry.spec().provider, &entry.name)?;
        Some(shape.schema())
    }

    /// Returns the schema that was the newest when this was first asked.
    pub(crate) fn pinned(&self, entry: &Entry) -> Option<Arc<Value>> {
        if entry.spec().output_schema.is_some() {
            return None;
        }
        let key = (entry.spec().provider.clone(), Arc::clone(&entry.name));
        if let Some(known) = self.pins().get(&key) {
            return known.clone();
        }
        let newest = self.newest(entry).map(Arc::new);
        let mut pins = self.pins();
        if pins.len() >= MAX_PINNED {
            return None;
        }
        pins.entry(key).or_insert(newest).clone()
    }

    fn pins(&self) -> MutexGuard<'_, Pins> {
        self.pinned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
