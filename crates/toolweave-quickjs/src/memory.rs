//! The heap of one engine: counted, capped, and given back as a whole.
//!
//! The engine's own allocator cuts its small objects out of blocks that it asks for here, so counting costs next to nothing.
//! Every block is on a list. When the engine goes away, the blocks go with it: no finalizer runs, nothing that a program
//! did to its heap can trip a check of the engine's tear-down.
#![expect(unsafe_code, reason = "an allocator handed to a C library")]

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, realloc};
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::NonNull;

use rquickjs::qjs;

/// Counts, caps and owns all blocks of one engine.
///
/// Not `Sync`: one engine lives on one thread at a time.
pub(crate) struct Memory {
    used: Cell<usize>,
    peak: Cell<usize>,
    limit: Cell<usize>,
    /// Whether a request was refused since the last [`Memory::forgive`].
    exceeded: Cell<bool>,
    /// Whether a request was ever refused.
    ever_exceeded: Cell<bool>,
    blocks: Cell<Option<NonNull<Header>>>,
}

/// In front of every block.
#[repr(C, align(16))]
struct Header {
    previous: Option<NonNull<Header>>,
    next: Option<NonNull<Header>>,
    size: usize,
}

const HEADER: usize = size_of::<Header>();

/// The functions that the engine calls. Their opaque pointer must be a [`Memory`].
pub(crate) const FUNCTIONS: qjs::JSMallocFunctions = qjs::JSMallocFunctions {
    js_calloc: Some(js_calloc),
    js_malloc: Some(js_malloc),
    js_free: Some(js_free),
    js_realloc: Some(js_realloc),
    js_malloc_usable_size: Some(js_usable_size),
};

impl Memory {
    /// Returns an empty heap that may grow without end.
    pub(crate) fn unlimited() -> Self {
        Self {
            used: Cell::new(0),
            peak: Cell::new(0),
            limit: Cell::new(usize::MAX),
            exceeded: Cell::new(false),
            ever_exceeded: Cell::new(false),
            blocks: Cell::new(None),
        }
    }

    pub(crate) fn set_limit(&self, bytes: usize) {
        self.limit.set(bytes);
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit.get()
    }

    pub(crate) fn used(&self) -> usize {
        self.used.get()
    }

    /// Returns the most bytes held at one time.
    pub(crate) fn peak(&self) -> usize {
        self.peak.get()
    }

    /// Returns whether the program still stands at its cap after a refusal.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.exceeded.get()
    }

    pub(crate) fn was_ever_exhausted(&self) -> bool {
        self.ever_exceeded.get()
    }

    /// Forgets a refusal if the program has since given a quarter of its memory back, or never came near the cap because
    /// one absurd request was refused.
    pub(crate) fn forgive(&self) {
        if self.used.get() / 3 < self.limit.get() / 4 {
            self.exceeded.set(false);
        }
    }

    /// Takes `more` bytes out of what is left, or remembers that they could not be had.
    fn take(&self, more: usize) -> bool {
        let used = self.used.get().saturating_add(more);
        if used > self.limit.get() {
            self.exceeded.set(true);
            self.ever_exceeded.set(true);
            return false;
        }
        self.used.set(used);
        self.peak.set(self.peak.get().max(used));
        true
    }

    fn give_back(&self, bytes: usize) {
        self.used.set(self.used.get() - bytes);
    }

    fn allocate(&self, size: usize, obtain: unsafe fn(Layout) -> *mut u8) -> *mut c_void {
        let Some(layout) = layout(size) else {
            return std::ptr::null_mut();
        };
        if !self.take(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the layout has at least the size of a header.
        let block = unsafe { obtain(layout) }.cast::<Header>();
        let Some(block) = NonNull::new(block) else {
            self.give_back(layout.size());
            self.exceeded.set(true);
            self.ever_exceeded.set(true);
            return std::ptr::null_mut();
        };
        // SAFETY: the block is ours, aligned, and holds a header and `size` bytes behind it.
        unsafe {
            block.write(Header {
                previous: None,
                next: None,
                size,
            });
            self.link(block);
            block.as_ptr().add(1).cast()
        }
    }

    /// # Safety
    /// `block` is a live block that is on no list.
    unsafe fn link(&self, mut block: NonNull<Header>) {
        let head = self.blocks.get();
        // SAFETY: `block` is live, and so is every block on the list.
        unsafe {
            block.as_mut().previous = None;
            block.as_mut().next = head;
            if let Some(mut head) = head {
                head.as_mut().previous = Some(block);
            }
        }
        self.blocks.set(Some(block));
    }

    /// # Safety
    /// `block` is on this list.
    unsafe fn unlink(&self, block: NonNull<Header>) {
        // SAFETY: `block` and its neighbours are live blocks of the list.
        unsafe {
            let Header { previous, next, .. } = *block.as_ptr();
            match previous {
                Some(mut previous) => previous.as_mut().next = next,
                None => self.blocks.set(next),
            }
            if let Some(mut next) = next {
                next.as_mut().previous = previous;
            }
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let mut next = self.blocks.take();
        while let Some(block) = next {
            // SAFETY: every block on the list was allocated by `allocate` with this layout, and nobody uses it any more.
            unsafe {
                next = block.as_ref().next;
                if let Some(layout) = layout(block.as_ref().size) {
                    dealloc(block.as_ptr().cast(), layout);
                }
            }
        }
    }
}

fn layout(size: usize) -> Option<Layout> {
    Layout::from_size_align(size.checked_add(HEADER)?, align_of::<Header>()).ok()
}

/// # Safety
/// `opaque` is the [`Memory`] given to `JS_NewRuntime2`, which outlives the runtime.
unsafe fn memory<'m>(opaque: *mut c_void) -> &'m Memory {
    // SAFETY: see above.
    unsafe { &*opaque.cast::<Memory>() }
}

/// # Safety
/// `pointer` came from `allocate` and was not freed.
unsafe fn header(pointer: *mut c_void) -> NonNull<Header> {
    // SAFETY: `allocate` put a header right in front of what it returned.
    unsafe { NonNull::new_unchecked(pointer.cast::<Header>().sub(1)) }
}

unsafe extern "C" fn js_calloc(opaque: *mut c_void, count: qjs::size_t, size: qjs::size_t) -> *mut c_void {
    let Some(bytes) = (count as usize).checked_mul(size as usize) else {
        return std::ptr::null_mut();
    };
    // SAFETY: called by the engine with the pointer it was given.
    unsafe { memory(opaque) }.allocate(bytes, alloc_zeroed)
}

unsafe extern "C" fn js_malloc(opaque: *mut c_void, size: qjs::size_t) -> *mut c_void {
    // SAFETY: called by the engine with the pointer it was given.
    unsafe { memory(opaque) }.allocate(size as usize, alloc)
}

unsafe extern "C" fn js_free(opaque: *mut c_void, pointer: *mut c_void) {
    if pointer.is_null() {
        return;
    }
    // SAFETY: the engine frees what it got from here, once.
    unsafe {
        let memory = memory(opaque);
        let block = header(pointer);
        memory.unlink(block);
        if let Some(layout) = layout(block.as_ref().size) {
            memory.give_back(layout.size());
            dealloc(block.as_ptr().cast(), layout);
        }
    }
}

unsafe extern "C" fn js_realloc(opaque: *mut c_void, pointer: *mut c_void, size: qjs::size_t) -> *mut c_void {
    if pointer.is_null() {
        // SAFETY: the arguments are passed on.
        return unsafe { js_malloc(opaque, size) };
    }
    if size == 0 {
        // SAFETY: the arguments are passed on.
        unsafe { js_free(opaque, pointer) };
        return std::ptr::null_mut();
    }
    // SAFETY: the engine resizes what it got from here. On failure the old block stays as it was.
    unsafe {
        let memory = memory(opaque);
        let block = header(pointer);
        let (Some(old), Some(new)) = (layout(block.as_ref().size), layout(size as usize)) else {
            return std::ptr::null_mut();
        };
        if new.size() > old.size() && !memory.take(new.size() - old.size()) {
            return std::ptr::null_mut();
        }
        memory.unlink(block);
        match NonNull::new(realloc(block.as_ptr().cast(), old, new.size()).cast::<Header>()) {
            Some(mut moved) => {
                moved.as_mut().size = size as usize;
                memory.link(moved);
                if new.size() < old.size() {
                    memory.give_back(old.size() - new.size());
                }
                moved.as_ptr().add(1).cast()
            }
            None => {
                memory.link(block);
                if new.size() > old.size() {
                    memory.give_back(new.size() - old.size());
                }
                std::ptr::null_mut()
            }
        }
    }
}

unsafe extern "C" fn js_usable_size(pointer: *const c_void) -> qjs::size_t {
    if pointer.is_null() {
        return 0;
    }
    // SAFETY: the engine asks about what it got from here.
    unsafe { header(pointer.cast_mut()).as_ref().size as qjs::size_t }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_counted_capped_and_given_back() {
        let memory = Memory::unlimited();
        let opaque = (&raw const memory).cast_mut().cast::<c_void>();
        // SAFETY: the pointers are used as the engine would use them.
        unsafe {
            let a = js_malloc(opaque, 1000);
            let b = js_calloc(opaque, 10, 100);
            assert_eq!(memory.used.get(), 2 * (1000 + HEADER));
            let a = js_realloc(opaque, a, 3000);
            assert_eq!(js_usable_size(a), 3000);
            js_free(opaque, b);
            assert_eq!(memory.used.get(), 3000 + HEADER);
            memory.set_limit(4000);
            assert!(js_malloc(opaque, 1 << 40).is_null());
            assert!(js_realloc(opaque, a, 5000).is_null());
            assert!(memory.is_exhausted());
            memory.forgive();
            assert!(memory.is_exhausted(), "more than three quarters are still held");
            let _a = js_realloc(opaque, a, 100);
            memory.forgive();
            assert!(!memory.is_exhausted() && memory.was_ever_exhausted());
            assert_eq!(memory.peak(), 4000 + 2 * HEADER);
        }
    }
}
