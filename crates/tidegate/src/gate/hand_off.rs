//! The hand-off queue: work that a thread leaves to the holder of the gate's lock.
//!
//! The lock is held for long while hundreds of calls are granted at once. No other thread has to wait for it meanwhile:
//!
//! * *A call that arrives* while the lock is taken is pushed here, and its caller goes on; the lock holder drains the queue
//!   before it unlocks. The queue is *open* only while a holder is certain to drain it. "The queue is empty" and "the queue
//!   is closed" are one step under the queue's own lock, so no call is pushed after the last drain. A thread that takes
//!   the gate's lock finds that all calls that were pushed before are decided or queued. The number of drains is bounded:
//!   otherwise a holder could work for others for ever.
//! * *A call that ends* without freeing anything that a call waits for (see
//!   [`Grant::is_quiet`](tidegate_core::Grant::is_quiet)) is pushed here too; the next thread that takes the gate's lock
//!   releases it. A flag says without a lock whether there are any. It is written only under the queue's lock, together
//!   with the list. A thread that reads an outdated flag leaves the release to the next one.
//! * *Wait slots* are given out and come back here, for calls that arrive and leave without the gate's lock.
//!
//! The queue's lock is held for moments. Its holder takes no other lock but that of a free wait slot.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::lock::Lock;

/// A flag that says whether there are releases.
pub(super) trait Flag: Default {
    fn is_up(&self) -> bool;
    fn set(&self, up: bool);
}

impl Flag for AtomicBool {
    #[inline(always)]
    fn is_up(&self) -> bool {
        self.load(Ordering::Relaxed)
    }

    fn set(&self, up: bool) {
        self.store(up, Ordering::Relaxed);
    }
}

/// A hand-off queue for calls `C` that arrive and grants `R` that are released.
#[derive(Debug)]
pub(super) struct HandOff<C, R, L = Mutex<Pending<C, R>>, F = AtomicBool> {
    any_released: F,
    pending: L,
    kinds: std::marker::PhantomData<fn() -> (C, R)>,
}

/// What was handed off.
#[derive(Debug)]
pub(super) struct Pending<C, R> {
    /// Whether a lock holder will drain the calls.
    open: bool,
    calls: Vec<C>,
    released: Vec<R>,
    free_slots: Vec<u32>,
    /// How many wait slots there are.
    slots: u32,
}

impl<C, R> Default for Pending<C, R> {
    fn default() -> Self {
        Pending { open: false, calls: Vec::new(), released: Vec::new(), free_slots: Vec::new(), slots: 0 }
    }
}

impl<C, R> Pending<C, R> {
    fn slot(&mut self) -> u32 {
        self.free_slots.pop().unwrap_or_else(|| {
            self.slots += 1;
            self.slots - 1
        })
    }
}

impl<C, R, L: Default, F: Default> Default for HandOff<C, R, L, F> {
    fn default() -> Self {
        HandOff { any_released: F::default(), pending: L::default(), kinds: std::marker::PhantomData }
    }
}

impl<C, R, L: Lock<Pending<C, R>>, F: Flag> HandOff<C, R, L, F> {
    /// Opens the queue for calls. The lock holder drains it before it unlocks: see [`HandOff::take_calls`].
    pub fn open(&self) {
        self.pending.with(|pending| pending.open = true);
    }

    /// Pushes a call that `make` makes for its wait slot, and returns the slot. Does nothing if the queue is closed.
    pub fn push_call(&self, make: impl FnOnce(u32) -> C) -> Option<u32> {
        self.pending.with(|pending| {
            if !pending.open {
                return None;
            }
            let slot = pending.slot();
            pending.calls.push(make(slot));
            Some(slot)
        })
    }

    /// Exchanges the calls for `taken`, which is empty. Closes the queue if there is no call, or if this is the `last` drain.
    pub fn take_calls(&self, taken: &mut Vec<C>, last: bool) {
        self.pending.with(|pending| {
            pending.open = !last && !pending.calls.is_empty();
            std::mem::swap(&mut pending.calls, taken);
        });
    }

    /// Pushes a grant that the next lock holder releases.
    pub fn push_release(&self, released: R) {
        self.pending.with(|pending| {
            pending.released.push(released);
            self.any_released.set(true);
        });
    }

    /// Returns whether there are releases, as far as this thread can see without a lock.
    #[inline(always)]
    pub fn has_releases(&self) -> bool {
        self.any_released.is_up()
    }

    /// Exchanges the releases for `taken`, which is empty.
    pub fn take_releases(&self, taken: &mut Vec<R>) {
        self.pending.with(|pending| {
            self.any_released.set(false);
            std::mem::swap(&mut pending.released, taken);
        });
    }

    /// Returns a wait slot that no call has.
    pub fn take_slot(&self) -> u32 {
        self.pending.with(Pending::slot)
    }

    /// Takes back the slot of a call that has left it.
    pub fn free_slot(&self, slot: u32) {
        self.pending.with(|pending| pending.free_slots.push(slot));
    }

    /// Returns every slot that was ever given out.
    pub fn slots(&self) -> std::ops::Range<u32> {
        0..self.pending.with(|pending| pending.slots)
    }
}

#[cfg(test)]
mod races {
    use shuttle::sync::atomic::{AtomicBool, Ordering};
    use shuttle::sync::{Arc, Mutex};
    use shuttle::thread;

    use super::{Flag, HandOff, Pending};
    use crate::lock::Lock;

    impl Flag for AtomicBool {
        fn is_up(&self) -> bool {
            self.load(Ordering::SeqCst)
        }

        fn set(&self, up: bool) {
            self.store(up, Ordering::SeqCst);
        }
    }

    type Things = Pending<u32, u32>;

    /// A lock that protects nothing. It shows that these tests would notice.
    #[derive(Default)]
    struct NoLock(Mutex<Things>);

    impl Lock<Things> for NoLock {
        fn with<T>(&self, work: impl FnOnce(&mut Things) -> T) -> T {
            let Pending { open, calls, released, free_slots, slots } = &*self.0.lock().unwrap();
            let (calls, released, free_slots) = (calls.clone(), released.clone(), free_slots.clone());
            let mut copy = Pending { open: *open, calls, released, free_slots, slots: *slots };
            thread::yield_now();
            let result = work(&mut copy);
            *self.0.lock().unwrap() = copy;
            result
        }
    }

    /// Which calls the gate has seen.
    #[derive(Default)]
    struct Gate<L> {
        seen: Mutex<Vec<u32>>,
        hand_off: HandOff<u32, u32, L, AtomicBool>,
    }

    impl<L: Lock<Things>> Gate<L> {
        /// A call arrives, as at a gate: calls that arrived before it have been seen.
        fn come(&self, call: u32, looks: u32) {
            let (mut seen, mut came) = match self.seen.try_lock() {
                Ok(seen) => (seen, Vec::new()),
                Err(_) if self.hand_off.push_call(|_| call).is_some() => return,
                Err(_) => (self.seen.lock().unwrap(), Vec::new()),
            };
            self.hand_off.open();
            seen.push(call);
            for look in 1..=looks {
                self.hand_off.take_calls(&mut came, look == looks);
                if came.is_empty() {
                    return;
                }
                seen.append(&mut came);
            }
        }

        fn end(&self, call: u32) {
            match self.seen.try_lock() {
                Ok(mut seen) => seen.push(call),
                Err(_) => self.hand_off.push_release(call),
            }
        }
    }

    fn all_are_seen_once<L: Lock<Things> + Send + Sync + 'static>(looks: u32) {
        let gate = Arc::new(Gate::<L>::default());
        let caller = |first: u32| {
            let gate = gate.clone();
            thread::spawn(move || {
                gate.come(first, looks);
                gate.end(first + 1);
                gate.come(first + 2, looks);
            })
        };
        let callers = [0, 10, 20].map(caller);
        for caller in callers {
            caller.join().unwrap();
        }
        let mut seen = gate.seen.lock().unwrap();
        let came = |first: &u32| seen.iter().position(|call| call == first);
        for first in [0, 10, 20] {
            assert!(came(&first).is_some() && came(&first) < came(&(first + 2)), "{first}: {seen:?}");
        }
        let mut ended = Vec::new();
        if gate.hand_off.has_releases() {
            gate.hand_off.take_releases(&mut ended);
        }
        seen.append(&mut ended);
        seen.sort_unstable();
        assert_eq!(*seen, [0, 1, 2, 10, 11, 12, 20, 21, 22], "each of them once");
    }

    #[test]
    fn everything_that_is_handed_off_is_seen_once_and_in_order() {
        for looks in [1, 2, 8] {
            shuttle::check_random(move || all_are_seen_once::<Mutex<Things>>(looks), 5_000);
            shuttle::check_pct(move || all_are_seen_once::<Mutex<Things>>(looks), 5_000, 3);
        }
    }

    #[test]
    #[should_panic]
    fn a_queue_without_a_lock_is_noticed() {
        shuttle::check_random(|| all_are_seen_once::<NoLock>(8), 5_000);
    }
}
