//! Which tools there are right now.
//!
//! Tools are ordered by the UTF-16 units of their names, as JavaScript's `<` compares and as the SDK prints them.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use tokio::sync::watch;

use crate::schema::Checker;
use crate::{RUN_CODE, Tool, ToolSpec};

/// The live set of tools. Cheap to clone; clones share the set.
#[derive(Clone, Default)]
pub struct Registry {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    live: Mutex<Live>,
    changes: watch::Sender<u64>,
    absence: Arc<OnceLock<Absence>>,
}

/// Says why a tool of that name may be missing, when somebody knows.
pub type Absence = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

#[derive(Default)]
struct Live {
    generation: u64,
    tools: BTreeMap<Arc<str>, Arc<Entry>>,
    /// The whole set as it is now, made when somebody asks.
    snapshot: Option<Arc<Snapshot>>,
}

/// Keeps tools registered. Dropping it removes them, and with them every trace in the SDK and the bindings.
#[must_use = "dropping a registration removes its tools"]
pub struct Registration {
    registry: Weak<Shared>,
    names: Vec<Arc<str>>,
    output: OutputCheck,
}

/// What happens when a result does not match its tool's `outputSchema`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputCheck {
    /// The call fails with `INVALID_TOOL_OUTPUT`.
    #[default]
    Enforce,
    /// The value passes, and the run carries a warning.
    Warn,
    /// Nobody looks.
    Off,
}

/// A tool that cannot be registered. The registry is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    #[error("the name `{RUN_CODE}` is reserved for the tool that takes programs")]
    Reserved,
    #[error("a tool named `{0}` is already registered")]
    Duplicate(String),
    #[error("a tool needs a name")]
    Nameless,
}

/// One registered tool, with what was derived from its declaration.
pub(crate) struct Entry {
    pub(crate) name: Arc<str>,
    pub(crate) tool: Arc<dyn Tool>,
    pub(crate) output_check: OutputCheck,
    /// Successful results so far.
    pub(crate) results: AtomicU32,
    input: OnceLock<Checker>,
    output: OnceLock<Option<Checker>>,
}

/// All tools at one moment, in name order.
pub(crate) struct Snapshot {
    pub(crate) generation: u64,
    pub(crate) entries: Vec<Arc<Entry>>,
    absence: Arc<OnceLock<Absence>>,
}

impl Registry {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds tools, all or none.
    ///
    /// # Errors
    /// A reserved, empty or duplicate name.
    pub fn register(
        &self,
        tools: impl IntoIterator<Item = Arc<dyn Tool>>,
    ) -> Result<Registration, RegistryError> {
        self.register_with(tools, OutputCheck::default())
    }

    /// Adds tools, all or none, and says how strictly their results are held to their output schemas.
    ///
    /// # Errors
    /// A reserved, empty or duplicate name.
    pub fn register_with(
        &self,
        tools: impl IntoIterator<Item = Arc<dyn Tool>>,
        output: OutputCheck,
    ) -> Result<Registration, RegistryError> {
        let mut registration = Registration {
            registry: Arc::downgrade(&self.shared),
            names: Vec::new(),
            output,
        };
        registration.replace(tools)?;
        Ok(registration)
    }

    /// Lets a provider say why a name is missing, for the failure of a call to it. The first one asked for stays.
    pub fn explain_absence(&self, absence: Absence) {
        let _ = self.shared.absence.set(absence);
    }

    pub fn get(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.entry(name).map(|entry| Arc::clone(&entry.tool))
    }

    /// Returns the tools in name order.
    pub fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let snapshot = self.snapshot();
        snapshot
            .entries
            .iter()
            .map(|entry| Arc::clone(&entry.tool))
            .collect()
    }

    /// Returns a number that grows with every change of the set.
    pub fn generation(&self) -> u64 {
        self.shared.lock().generation
    }

    /// Returns a receiver that sees the [`generation`](Self::generation) after each change.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    pub(crate) fn entry(&self, name: &str) -> Option<Arc<Entry>> {
        self.shared.lock().tools.get(name).cloned()
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        let mut live = self.shared.lock();
        if let Some(snapshot) = &live.snapshot {
            return Arc::clone(snapshot);
        }
        let mut entries: Vec<_> = live.tools.values().cloned().collect();
        entries.sort_by(|a, b| by_units(&a.name, &b.name));
        let snapshot = Arc::new(Snapshot {
            generation: live.generation,
            entries,
            absence: Arc::clone(&self.shared.absence),
        });
        live.snapshot = Some(Arc::clone(&snapshot));
        snapshot
    }
}

impl Snapshot {
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Entry>> {
        let at = self
            .entries
            .binary_search_by(|entry| by_units(&entry.name, name))
            .ok()?;
        self.entries.get(at)
    }

    /// Returns why a name may be missing.
    pub(crate) fn absence(&self, name: &str) -> Option<String> {
        self.absence.get().and_then(|absence| absence(name))
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| &*entry.name)
    }
}

fn by_units(a: &str, b: &str) -> Ordering {
    a.encode_utf16().cmp(b.encode_utf16())
}

impl Registration {
    /// Puts other tools in the place of this registration's own, all or none and in one step: nobody sees the set
    /// without a tool that is both in the old and the new one.
    ///
    /// # Errors
    /// A reserved, empty or duplicate name. The old tools stay then. Nothing happens when the registry is gone.
    pub fn replace(&mut self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Result<(), RegistryError> {
        let Some(shared) = self.registry.upgrade() else {
            return Ok(());
        };
        // Neither the caller's iterator nor a tool's destructor may run under the lock.
        let tools: Vec<_> = tools.into_iter().collect();
        let mut fresh: BTreeMap<Arc<str>, Arc<Entry>> = BTreeMap::new();
        let mut live = shared.lock();
        for tool in tools {
            let name: Arc<str> = tool.spec().name.as_str().into();
            if name.is_empty() {
                return Err(RegistryError::Nameless);
            }
            if &*name == RUN_CODE {
                return Err(RegistryError::Reserved);
            }
            let taken = live.tools.contains_key(&name) && self.names.binary_search(&name).is_err();
            if taken || fresh.contains_key(&name) {
                return Err(RegistryError::Duplicate(name.to_string()));
            }
            fresh.insert(Arc::clone(&name), Arc::new(Entry::new(name, tool, self.output)));
        }
        let removed = live.remove(&self.names);
        self.names = fresh.keys().cloned().collect();
        live.tools.extend(fresh);
        shared.changed(live);
        drop(removed);
        Ok(())
    }

    /// Returns the names of the tools that this registration keeps, in order.
    pub fn names(&self) -> &[Arc<str>] {
        &self.names
    }
}

impl Entry {
    fn new(name: Arc<str>, tool: Arc<dyn Tool>, output_check: OutputCheck) -> Self {
        Self {
            name,
            tool,
            output_check,
            results: AtomicU32::new(0),
            input: OnceLock::new(),
            output: OnceLock::new(),
        }
    }

    pub(crate) fn spec(&self) -> &ToolSpec {
        self.tool.spec()
    }

    /// Returns the checker of arguments, compiled on first use.
    pub(crate) fn input(&self) -> &Checker {
        self.input
            .get_or_init(|| Checker::compile(&self.name, "input", &self.spec().input_schema))
    }

    /// Returns the checker of results, where the tool declares any and somebody wants to know.
    pub(crate) fn output(&self) -> Option<&Checker> {
        if self.output_check == OutputCheck::Off {
            return None;
        }
        let compiled = self.output.get_or_init(|| {
            let schema = self.spec().output_schema.as_ref()?;
            Some(Checker::compile(&self.name, "output", schema))
        });
        compiled.as_ref()
    }
}

impl Live {
    fn remove(&mut self, names: &[Arc<str>]) -> Vec<Arc<Entry>> {
        names.iter().filter_map(|name| self.tools.remove(name)).collect()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self, mut live: MutexGuard<'_, Live>) {
        live.generation += 1;
        let stale = live.snapshot.take();
        let generation = live.generation;
        drop(live);
        drop(stale);
        // Two changes may get here in either order; the number must not go back.
        self.changes.send_if_modified(|seen| {
            let newer = generation > *seen;
            *seen = generation.max(*seen);
            newer
        });
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let Some(shared) = self.registry.upgrade() else {
            return;
        };
        if self.names.is_empty() {
            return;
        }
        let mut live = shared.lock();
        let removed = live.remove(&self.names);
        shared.changed(live);
        drop(removed);
    }
}
