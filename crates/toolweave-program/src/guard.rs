//! Runs the recursive parser where it cannot hurt: on a stack that is large enough, behind a net for panics.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

/// Stack that the deepest of all passes needs per level; a debug build has larger frames.
const STACK_PER_LEVEL: usize = if cfg!(debug_assertions) {
    10 * 1024
} else {
    5 * 1024
};

/// Stack that a flat program needs.
const STACK_BASE: usize = 384 * 1024;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// The code inside panicked; nothing was printed.
#[derive(Debug)]
pub(crate) struct Panicked;

/// Runs `inner` with stack for so many levels.
pub(crate) fn guarded<T>(levels: u32, inner: impl FnOnce() -> T) -> Result<T, Panicked> {
    install_hook();
    let need = STACK_BASE + levels as usize * STACK_PER_LEVEL;
    let enough = stacker::remaining_stack().is_some_and(|left| left >= need);
    let outer = QUIET.replace(true);
    // The tree lives and dies inside, nothing of it is seen after a panic.
    let result = catch_unwind(AssertUnwindSafe(|| {
        if enough {
            inner()
        } else {
            stacker::grow(need, inner)
        }
    }));
    QUIET.set(outer);
    result.map_err(|_| Panicked)
}

/// Puts a hook before the one that is there: silent for panics that [`guarded`] catches, the same for others.
fn install_hook() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.try_with(Cell::get).unwrap_or(false) {
                before(info);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::panic, reason = "the panic is what is tested")]
    fn a_panic_becomes_an_error() {
        assert!(guarded(1, || -> u8 { panic!("inside") }).is_err());
        assert_eq!(guarded(100_000, || 7).ok(), Some(7));
    }
}
