//! Weighing memory: how many bytes the allocator was asked for and has not been given back.
//!
//! It counts only while somebody weighs. At all other times it costs one load of a flag that nobody writes,
//! so it does not get in the way of what is timed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};

#[global_allocator]
static ALLOCATOR: Scales = Scales;

static WEIGHING: AtomicBool = AtomicBool::new(false);
static LIVE: AtomicIsize = AtomicIsize::new(0);

/// The system's allocator with a counter.
struct Scales;

/// Bytes asked for and not given back since this was first called.
pub fn live_bytes() -> isize {
    WEIGHING.store(true, Ordering::Relaxed);
    LIVE.load(Ordering::Relaxed)
}

/// Stops counting.
pub fn stop() {
    WEIGHING.store(false, Ordering::Relaxed);
}

fn add(bytes: usize, sign: isize) {
    if WEIGHING.load(Ordering::Relaxed) {
        LIVE.fetch_add(bytes as isize * sign, Ordering::Relaxed);
    }
}

#[allow(unsafe_code, reason = "an allocator cannot be written without; this one only counts")]
// SAFETY: every call is passed on unchanged to the system's allocator, which keeps the contract.
unsafe impl GlobalAlloc for Scales {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size(), 1);
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        add(layout.size(), -1);
        // SAFETY: as above.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size(), 1);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        add(layout.size(), -1);
        add(size, 1);
        // SAFETY: as above.
        unsafe { System.realloc(ptr, layout, size) }
    }
}
