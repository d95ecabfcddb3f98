//! What is given back while somebody else holds the gate's lock.
//!
//! A call that has its verdict gets up from its seat, and one that ends may have nothing to give back that anybody waits
//! for. Neither is worth waiting for the gate's lock, which is held for long while hundreds are let go at once. So they lay
//! what they have on the tray, and whoever takes the gate's lock next takes it from there first.
//!
//! *What can go wrong.* A flag tells without a lock whether anything lies there. It is only written under the tray's own
//! lock, together with what it tells of, so the two never differ for long: who reads that nothing lies there, while somebody
//! just lays something down, leaves it to the next. Nothing is lost, and nobody waits for what lies there: see
//! [`Grant::is_quiet`](tidegate_core::Grant::is_quiet). The tray's lock is taken last and held for moments.

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

#[derive(Debug, Default)]
pub(crate) struct Tray<S, L = Mutex<S>, F = AtomicBool> {
    laid: F,
    things: L,
    kind: std::marker::PhantomData<fn() -> S>,
}

impl<S: Default, L: Lock<S>, F: Flag> Tray<S, L, F> {
    /// Lays something down.
    pub fn lay(&self, lay: impl FnOnce(&mut S)) {
        self.things.with(|things| {
            lay(things);
            self.laid.set(true);
        });
    }

    /// Whether something lies there, as far as can be seen from here.
    #[inline(always)]
    pub fn is_laid(&self) -> bool {
        self.laid.is_up()
    }

    /// Takes all that lies there; `spare` lies there instead, which is empty.
    pub fn take(&self, spare: S) -> S {
        self.things.with(|things| {
            self.laid.set(false);
            std::mem::replace(things, spare)
        })
    }
}

#[cfg(test)]
mod races {
    use shuttle::sync::atomic::{AtomicBool, Ordering};
    use shuttle::sync::{Arc, Mutex};
    use shuttle::thread;

    use super::{Flag, Tray};
    use crate::lock::Lock;

    impl Flag for AtomicBool {
        fn is_up(&self) -> bool {
            self.load(Ordering::SeqCst)
        }

        fn set(&self, up: bool) {
            self.store(up, Ordering::SeqCst);
        }
    }

    /// A lock that is none for long enough. It proves that this test would notice.
    #[derive(Default)]
    struct TwoLocks(Mutex<Vec<u32>>);

    impl Lock<Vec<u32>> for TwoLocks {
        fn with<T>(&self, work: impl FnOnce(&mut Vec<u32>) -> T) -> T {
            let mut copy = self.0.lock().unwrap().clone();
            let result = work(&mut copy);
            *self.0.lock().unwrap() = copy;
            result
        }
    }

    /// Two lay something down, one clears the tray whenever it sees something; in the end all is there once.
    fn nothing_is_lost_or_twice<L: Lock<Vec<u32>> + Send + Sync + 'static>() {
        let tray = Arc::new(Tray::<Vec<u32>, L, AtomicBool>::default());
        let lay = |first: u32| {
            let tray = tray.clone();
            thread::spawn(move || (first..first + 2).for_each(|thing| tray.lay(|things| things.push(thing))))
        };
        let (one, other) = (lay(0), lay(2));
        let clear = |tray: &Tray<Vec<u32>, L, AtomicBool>| match tray.is_laid() {
            true => tray.take(Vec::new()),
            false => Vec::new(),
        };
        let mut found = clear(&tray);
        found.extend(clear(&tray));
        one.join().unwrap();
        other.join().unwrap();
        found.extend(clear(&tray));
        found.sort_unstable();
        assert_eq!(found, [0, 1, 2, 3]);
        assert!(!tray.is_laid());
    }

    #[test]
    fn whatever_is_laid_down_is_found_once() {
        shuttle::check_random(nothing_is_lost_or_twice::<Mutex<Vec<u32>>>, 10_000);
        shuttle::check_pct(nothing_is_lost_or_twice::<Mutex<Vec<u32>>>, 10_000, 3);
    }

    #[test]
    #[should_panic(expected = "left")]
    fn a_lock_that_is_none_is_noticed() {
        shuttle::check_random(nothing_is_lost_or_twice::<TwoLocks>, 10_000);
    }
}
