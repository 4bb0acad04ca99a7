//! A value that is set once and that anyone can wait for, on any executor.

use std::sync::OnceLock;
use tokio::sync::Notify;

#[derive(Debug)]
pub(super) struct Latch<T> {
    value: OnceLock<T>,
    set: Notify,
}

impl<T: Copy> Latch<T> {
    pub(super) fn new() -> Self {
        Self {
            value: OnceLock::new(),
            set: Notify::new(),
        }
    }

    /// Sets the value; a later one is ignored.
    pub(super) fn set(&self, value: T) {
        if self.value.set(value).is_ok() {
            self.set.notify_waiters();
        }
    }

    pub(super) fn get(&self) -> Option<T> {
        self.value.get().copied()
    }

    pub(super) async fn wait(&self) -> T {
        loop {
            let notified = self.set.notified();
            let mut notified = std::pin::pin!(notified);
            // Registered before the look, so that a value set in between still wakes this waiter.
            notified.as_mut().enable();
            if let Some(value) = self.get() {
                return value;
            }
            notified.await;
        }
    }
}
