//! Those who want to know when a window is set or cleared, and how they follow it.
//!
//! Watchers are told *that* something changed and never what: two changes may be told in either order, so
//! whoever is told looks for itself, and what it finds is the latest there is. They are held weakly: one that
//! is gone is forgotten when the next change is told, or the next watcher comes.

use std::fmt;
use std::sync::Weak;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_core::Nanos;

use super::atomic_deadline::AtomicDeadline;
use crate::lock::Lock;

/// Somebody who wants to know of changes.
pub(crate) trait Watch: Send + Sync {
    /// The window was extended or cleared. Called by whoever did that, with no lock of the window held.
    fn changed(&self);
}

/// Those who watch one window.
pub(super) type List = Vec<Weak<dyn Watch>>;

#[derive(Default)]
pub(super) struct Watchers<W = AtomicU64, L = Mutex<List>> {
    /// Not zero once anybody has come: most windows are watched by nobody, and need no lock to tell.
    any: W,
    list: L,
}

impl<W: AtomicDeadline, L: Lock<List>> Watchers<W, L> {
    pub fn add(&self, watcher: Weak<dyn Watch>) {
        self.list.with(|list| {
            list.retain(is_there);
            list.push(watcher);
        });
        self.any.raise(1);
    }

    #[inline]
    pub fn tell(&self) {
        if self.any.load() != 0 {
            self.tell_each();
        }
    }

    fn tell_each(&self) {
        let there = self.list.with(|list| {
            list.retain(is_there);
            list.iter().filter_map(Weak::upgrade).collect::<Vec<_>>()
        });
        // Not inside the lock: a watcher may do anything, even go away or have others watch this window.
        for watcher in there {
            watcher.changed();
        }
    }
}

impl<W, L> fmt::Debug for Watchers<W, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watchers").finish_non_exhaustive()
    }
}

fn is_there(watcher: &Weak<dyn Watch>) -> bool {
    watcher.strong_count() > 0
}

/// How far somebody has followed a window.
#[derive(Debug, Default)]
pub(crate) struct Followed(Option<WindowState>);

/// What became of a window since somebody last looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct News {
    /// Whether it was ended before its time.
    pub cleared: bool,
    /// If it was opened or extended, after that: how long it is still open, which is zero if it has passed
    /// meanwhile.
    pub extended: Option<Duration>,
}

/// What a window has been through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WindowState {
    pub deadline: Nanos,
    /// When it was last ended before its time.
    pub cleared: Nanos,
}

impl Followed {
    /// Takes note of how it stands, and says what is new. One who has just begun to follow hears of a window
    /// that is open, and not of one that has passed.
    pub(super) fn follow(&mut self, is: WindowState, now: Nanos) -> News {
        let (cleared, extended) = match self.0.replace(is) {
            None => (false, is.deadline > now),
            // Only a clear lowers a deadline, and it leaves it at its own time: beyond that it was set after.
            Some(was) if is.cleared != was.cleared || is.deadline < was.deadline => {
                (true, is.deadline > is.cleared)
            }
            Some(was) => (false, is.deadline > was.deadline),
        };
        News { cleared, extended: extended.then(|| is.deadline.since(now)) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::backoff::{BackoffWindow, Registry};

    const SECOND: Duration = Duration::from_secs(1);

    /// Sets the window it watches once more when it is told, and counts.
    struct Eager {
        window: BackoffWindow,
        told: AtomicU32,
    }

    impl Watch for Eager {
        fn changed(&self) {
            if self.told.fetch_add(1, Ordering::Relaxed) == 0 {
                self.window.set(SECOND * 60);
            }
        }
    }

    #[test]
    fn a_watcher_may_change_the_window_it_is_told_of_and_hears_of_changes_only() {
        let window = Registry::new().for_key("k");
        let watcher = Arc::new(Eager { window: window.clone(), told: AtomicU32::new(0) });
        window.watch(Arc::downgrade(&watcher) as Weak<dyn Watch>);
        window.clear();
        assert_eq!(watcher.told.load(Ordering::Relaxed), 0, "there was nothing to clear");
        window.set(SECOND);
        assert_eq!(watcher.told.load(Ordering::Relaxed), 2, "and its own");
        window.set(SECOND);
        assert_eq!(watcher.told.load(Ordering::Relaxed), 2, "that changed nothing");
        window.clear();
        assert_eq!(watcher.told.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn watchers_that_are_gone_are_forgotten() {
        let watchers = Watchers::<AtomicU64, Mutex<List>>::default();
        let window = Registry::new().for_key("k");
        let watcher = || Arc::new(Eager { window: window.clone(), told: AtomicU32::new(1) });
        let stays = watcher();
        watchers.add(Arc::downgrade(&stays) as Weak<dyn Watch>);
        for _ in 0..100 {
            watchers.add(Arc::downgrade(&watcher()) as Weak<dyn Watch>);
        }
        assert_eq!(watchers.list.lock().len(), 2, "the one that stays, and the latest");
        watchers.tell();
        assert_eq!(watchers.list.lock().len(), 1);
        assert_eq!(stays.told.load(Ordering::Relaxed), 2);
    }

    const NOW: Nanos = Nanos(1_000);

    fn state(deadline: u64, cleared: u64) -> WindowState {
        WindowState { deadline: Nanos(deadline), cleared: Nanos(cleared) }
    }

    /// What is new at `is` for one who saw `was`.
    fn news(was: WindowState, is: WindowState) -> (bool, Option<u128>) {
        let mut followed = Followed(Some(was));
        let news = followed.follow(is, NOW);
        let again = followed.follow(is, NOW);
        assert_eq!(again, News { cleared: false, extended: None }, "nothing is told twice");
        (news.cleared, news.extended.map(|left| left.as_nanos()))
    }

    #[test]
    fn one_who_begins_to_follow_hears_of_an_open_window_and_not_of_a_passed_one() {
        let first = |deadline| Followed::default().follow(state(deadline, 0), NOW);
        assert_eq!(first(0), News { cleared: false, extended: None });
        assert_eq!(first(1_000), News { cleared: false, extended: None });
        assert_eq!(first(1_007), News { cleared: false, extended: Some(Duration::from_nanos(7)) });
    }

    #[test]
    fn an_extension_is_news_even_if_it_has_passed_meanwhile() {
        assert_eq!(news(state(500, 0), state(1_200, 0)), (false, Some(200)));
        assert_eq!(news(state(500, 0), state(900, 0)), (false, Some(0)));
        assert_eq!(news(state(1_200, 400), state(1_200, 400)), (false, None));
    }

    #[test]
    fn a_clear_is_told_apart_from_a_window_that_was_set_after_it() {
        assert_eq!(news(state(1_200, 0), state(990, 990)), (true, None));
        assert_eq!(news(state(1_200, 0), state(1_100, 990)), (true, Some(100)));
        assert_eq!(news(state(1_200, 0), state(1_300, 990)), (true, Some(300)));
        assert_eq!(news(state(1_200, 0), state(995, 990)), (true, Some(0)));
    }

    #[test]
    fn two_clears_in_one_nanosecond_are_two() {
        assert_eq!(news(state(1_200, 990), state(990, 990)), (true, None));
    }
}
