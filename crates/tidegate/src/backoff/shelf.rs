//! Which windows are kept though nobody may hold them.
//!
//! A registry's map holds its windows weakly: a window that somebody holds is always found, and one that
//! nobody holds is gone. The shelf holds those that must not go: every window that is open, and, so that a
//! key that is looked up again and again is not made again and again, the latest few of all.
//!
//! The shelf is a queue. Whenever something is put on it, the two oldest are looked at: one that is no longer
//! needed leaves, one that is goes to the back. Two for one, so it shrinks to what is needed, and no single
//! call pays for a flood of keys.

use std::collections::VecDeque;
use std::sync::Arc;

/// Something that can stand on a shelf.
pub(super) trait Shelved {
    /// Whether it must stay.
    fn is_needed(&self) -> bool;
    /// Notes whether it stands on the shelf, and says whether it did before. Called by the shelf alone.
    fn mark(&self, on_shelf: bool) -> bool;
}

#[derive(Debug)]
pub(super) struct Shelf<T> {
    things: VecDeque<Arc<T>>,
    /// As many stay, needed or not.
    latest: usize,
}

impl<T: Shelved> Shelf<T> {
    pub fn new(latest: usize) -> Shelf<T> {
        Shelf { things: VecDeque::new(), latest }
    }

    /// Puts a thing on the shelf, if it does not stand there; hands back what may go instead.
    #[must_use = "what is dropped inside a lock may need that lock"]
    pub fn keep(&mut self, thing: &Arc<T>) -> [Option<Arc<T>>; 2] {
        if !thing.mark(true) {
            self.things.push_back(Arc::clone(thing));
        }
        [self.let_one_go(), self.let_one_go()]
    }

    fn let_one_go(&mut self) -> Option<Arc<T>> {
        if self.things.len() <= self.latest {
            return None;
        }
        let oldest = self.things.pop_front()?;
        if oldest.is_needed() {
            self.things.push_back(oldest);
            return None;
        }
        oldest.mark(false);
        Some(oldest)
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.things.len()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[derive(Default)]
    struct Thing {
        needed: AtomicBool,
        on_shelf: AtomicBool,
    }

    impl Shelved for Thing {
        fn is_needed(&self) -> bool {
            self.needed.load(Ordering::Relaxed)
        }

        fn mark(&self, on_shelf: bool) -> bool {
            self.on_shelf.swap(on_shelf, Ordering::Relaxed)
        }
    }

    fn needed() -> Arc<Thing> {
        Arc::new(Thing { needed: true.into(), ..Thing::default() })
    }

    #[test]
    fn what_is_needed_stays_through_any_flood_and_the_rest_goes() {
        let mut shelf = Shelf::new(3);
        let held = [needed(), needed()];
        for thing in &held {
            let _ = shelf.keep(thing);
        }
        for _ in 0..1_000 {
            let _ = shelf.keep(&Arc::new(Thing::default()));
            assert!(shelf.len() <= 2 + 3, "{}", shelf.len());
        }
        assert!(held.iter().all(|thing| Arc::strong_count(thing) == 2));
    }

    #[test]
    fn a_flood_that_is_over_is_cleared_away_by_a_few_more() {
        let mut shelf = Shelf::new(3);
        let flood: Vec<_> = (0..1_000).map(|_| needed()).collect();
        for thing in &flood {
            let _ = shelf.keep(thing);
        }
        assert_eq!(shelf.len(), 1_000);
        flood.iter().for_each(|thing| thing.needed.store(false, Ordering::Relaxed));
        for _ in 0..1_000 {
            let _ = shelf.keep(&Arc::new(Thing::default()));
        }
        assert_eq!(shelf.len(), 3);
        assert!(flood.iter().all(|thing| Arc::strong_count(thing) == 1));
    }

    #[test]
    fn what_is_kept_twice_stands_there_once_and_what_left_may_come_back() {
        let mut shelf = Shelf::new(1);
        let thing = Arc::new(Thing::default());
        let _ = shelf.keep(&thing);
        let _ = shelf.keep(&thing);
        assert_eq!(shelf.len(), 1);
        let _ = shelf.keep(&Arc::new(Thing::default()));
        assert_eq!(Arc::strong_count(&thing), 1, "it has left");
        let _ = shelf.keep(&thing);
        assert_eq!(Arc::strong_count(&thing), 2, "it is back");
    }
}
