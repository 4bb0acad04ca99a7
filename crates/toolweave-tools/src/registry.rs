//! Which tools there are right now.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::{RUN_CODE, Tool};

/// The live set of tools. Cheap to clone; clones share the set.
#[derive(Clone, Default)]
pub struct Registry {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    tools: Mutex<BTreeMap<String, Arc<dyn Tool>>>,
}

/// Keeps tools registered. Dropping it removes them, and with them every trace in the SDK and the bindings.
#[must_use = "dropping a registration removes its tools"]
pub struct Registration {
    registry: Weak<Shared>,
    names: Vec<String>,
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
        let tools: Vec<_> = tools.into_iter().collect();
        let mut live = self.shared.lock();
        let mut names = Vec::with_capacity(tools.len());
        for tool in &tools {
            let name = &tool.spec().name;
            if name.is_empty() {
                return Err(RegistryError::Nameless);
            }
            if name == RUN_CODE {
                return Err(RegistryError::Reserved);
            }
            if live.contains_key(name) || names.contains(name) {
                return Err(RegistryError::Duplicate(name.clone()));
            }
            names.push(name.clone());
        }
        for tool in tools {
            live.insert(tool.spec().name.clone(), tool);
        }
        Ok(Registration {
            registry: Arc::downgrade(&self.shared),
            names,
        })
    }

    pub fn get(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.shared.lock().get(name).cloned()
    }

    /// Returns the tools in name order.
    pub fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.shared.lock().values().cloned().collect()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<dyn Tool>>> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let Some(shared) = self.registry.upgrade() else {
            return;
        };
        let mut live = shared.lock();
        for name in &self.names {
            live.remove(name);
        }
    }
}
