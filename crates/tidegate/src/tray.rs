//! What lies beside the gate's lock, for those who do not wait for it.
//!
//! The gate's lock is held for long while hundreds are let go at once. Nobody need stand by meanwhile:
//!
//! * *Who comes* while somebody is at work with the lock leaves its call on the tray and goes on: the one at work sees to
//!   it before it leaves. The tray is *open* as long as that is sure. Whether nobody has come and that the tray is closed
//!   are one step under its own lock, so no call is left on a tray that nobody looks at any more; and whoever gets the
//!   gate's lock finds that all who came before have been seen to. How often the one at work looks is bounded, else it might
//!   work for others for ever.
//! * *Who ends* and gives nothing back that anybody waits for (see [`Grant::is_quiet`](tidegate_core::Grant::is_quiet))
//!   leaves that on the tray, for whoever takes the gate's lock next. A flag tells without a lock whether anything lies
//!   there. It is only written under the tray's lock, together with what it tells of, so the two never differ for long: who
//!   reads that nothing lies there, while somebody just leaves something, leaves it to the next.
//! * *Seats* are given out and come back here, for those who come and go without the gate's lock.
//!
//! The tray's lock is held for moments. Whoever holds it takes no other but a free seat's.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::lock::Lock;

/// A word that says whether anything lies there.
pub(crate) trait Flag: Default {
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

/// A tray for calls `C` that come and calls `E` that ended.
#[derive(Debug)]
pub(crate) struct Tray<C, E, L = Mutex<Laid<C, E>>, F = AtomicBool> {
    any_ended: F,
    laid: L,
    kinds: std::marker::PhantomData<fn() -> (C, E)>,
}

/// What lies on a tray.
#[derive(Debug)]
pub(crate) struct Laid<C, E> {
    /// Whether somebody is at work who will look again.
    open: bool,
    came: Vec<C>,
    ended: Vec<E>,
    free_seats: Vec<u32>,
    /// How many seats there are.
    seats: u32,
}

impl<C, E> Default for Laid<C, E> {
    fn default() -> Self {
        Laid { open: false, came: Vec::new(), ended: Vec::new(), free_seats: Vec::new(), seats: 0 }
    }
}

impl<C, E> Laid<C, E> {
    fn seat(&mut self) -> u32 {
        self.free_seats.pop().unwrap_or_else(|| {
            self.seats += 1;
            self.seats - 1
        })
    }
}

impl<C, E, L: Default, F: Default> Default for Tray<C, E, L, F> {
    fn default() -> Self {
        Tray { any_ended: F::default(), laid: L::default(), kinds: std::marker::PhantomData }
    }
}

impl<C, E, L: Lock<Laid<C, E>>, F: Flag> Tray<C, E, L, F> {
    /// Whoever has the gate's lock is at work, and will see who came before it leaves: see [`Tray::take_who_came`].
    pub fn open(&self) {
        self.laid.with(|laid| laid.open = true);
    }

    /// Leaves a call to the one at work; `sit` makes it, knowing its seat. Nothing happens if nobody is at work or is about
    /// to leave.
    pub fn come(&self, sit: impl FnOnce(u32) -> C) -> Option<u32> {
        self.laid.with(|laid| {
            if !laid.open {
                return None;
            }
            let seat = laid.seat();
            laid.came.push(sit(seat));
            Some(seat)
        })
    }

    /// Exchanges who came for `seen`, which is empty. Closes if nobody came, or if this is the last time that the one at
    /// work looks.
    pub fn take_who_came(&self, seen: &mut Vec<C>, last: bool) {
        self.laid.with(|laid| {
            laid.open = !last && !laid.came.is_empty();
            std::mem::swap(&mut laid.came, seen);
        });
    }

    /// A call ended, which is nobody's concern.
    pub fn end(&self, ended: E) {
        self.laid.with(|laid| {
            laid.ended.push(ended);
            self.any_ended.set(true);
        });
    }

    /// Whether calls ended, as far as can be seen from here.
    #[inline(always)]
    pub fn has_ended(&self) -> bool {
        self.any_ended.is_up()
    }

    /// Exchanges those that ended for `seen`, which is empty.
    pub fn take_ended(&self, seen: &mut Vec<E>) {
        self.laid.with(|laid| {
            self.any_ended.set(false);
            std::mem::swap(&mut laid.ended, seen);
        });
    }

    /// A seat that nobody has.
    pub fn take_seat(&self) -> u32 {
        self.laid.with(Laid::seat)
    }

    /// Whoever had that seat has got up.
    pub fn free_seat(&self, seat: u32) {
        self.laid.with(|laid| laid.free_seats.push(seat));
    }

    /// Every seat that was ever given out.
    pub fn seats(&self) -> std::ops::Range<u32> {
        0..self.laid.with(|laid| laid.seats)
    }
}

#[cfg(test)]
mod races {
    use shuttle::sync::atomic::{AtomicBool, Ordering};
    use shuttle::sync::{Arc, Mutex};
    use shuttle::thread;

    use super::{Flag, Laid, Tray};
    use crate::lock::Lock;

    impl Flag for AtomicBool {
        fn is_up(&self) -> bool {
            self.load(Ordering::SeqCst)
        }

        fn set(&self, up: bool) {
            self.store(up, Ordering::SeqCst);
        }
    }

    type Things = Laid<u32, u32>;

    /// A lock that is none for long enough. It proves that these tests would notice.
    #[derive(Default)]
    struct NoLock(Mutex<Things>);

    impl Lock<Things> for NoLock {
        fn with<T>(&self, work: impl FnOnce(&mut Things) -> T) -> T {
            let Laid { open, came, ended, free_seats, seats } = &*self.0.lock().unwrap();
            let (came, ended, free_seats) = (came.clone(), ended.clone(), free_seats.clone());
            let mut copy = Laid { open: *open, came, ended, free_seats, seats: *seats };
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
        tray: Tray<u32, u32, L, AtomicBool>,
    }

    impl<L: Lock<Things>> Gate<L> {
        /// A call comes, as it does to a gate: those who came before it have been seen.
        fn come(&self, call: u32, looks: u32) {
            let (mut seen, mut came) = match self.seen.try_lock() {
                Ok(seen) => (seen, Vec::new()),
                Err(_) if self.tray.come(|_| call).is_some() => return,
                Err(_) => (self.seen.lock().unwrap(), Vec::new()),
            };
            self.tray.open();
            seen.push(call);
            for look in 1..=looks {
                self.tray.take_who_came(&mut came, look == looks);
                if came.is_empty() {
                    return;
                }
                seen.append(&mut came);
            }
        }

        fn end(&self, call: u32) {
            match self.seen.try_lock() {
                Ok(mut seen) => seen.push(call),
                Err(_) => self.tray.end(call),
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
        if gate.tray.has_ended() {
            gate.tray.take_ended(&mut ended);
        }
        seen.append(&mut ended);
        seen.sort_unstable();
        assert_eq!(*seen, [0, 1, 2, 10, 11, 12, 20, 21, 22], "each of them once");
    }

    #[test]
    fn whoever_leaves_something_on_the_tray_is_seen_once_and_in_turn() {
        for looks in [1, 2, 8] {
            shuttle::check_random(move || all_are_seen_once::<Mutex<Things>>(looks), 5_000);
            shuttle::check_pct(move || all_are_seen_once::<Mutex<Things>>(looks), 5_000, 3);
        }
    }

    #[test]
    #[should_panic]
    fn a_tray_without_a_lock_is_noticed() {
        shuttle::check_random(|| all_are_seen_once::<NoLock>(8), 5_000);
    }
}
