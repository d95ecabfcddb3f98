//! One window: a deadline in an atomic word, and beside it, under a lock, the line of those who wait; and those
//! who watch it.
//!
//! The word alone says whether the window is open (`now` strictly before it), so asking costs one load. Only
//! waiting and clearing take the lock. There is no task and no thread behind a window: every waiter has a
//! timer of its own, and whoever takes the lock first lets everybody go whose time has come. What can
//! interleave:
//!
//! * *`set` and `set`.* An atomic maximum: the later deadline stays, in whatever order they come.
//! * *`set` and `wait`.* `set` takes no lock and wakes nobody. A waiter that read the older, earlier deadline
//!   wakes at that one, reads the word again and goes on waiting. A `set` that comes after a waiter was let
//!   go is a `set` after `wait` returned.
//! * *`clear` and `wait`.* `clear` lowers the word and wakes everybody inside the lock in which waiters read
//!   the word and leave their wakers. So a waiter either reads the lowered word, or has left its waker before
//!   `clear` looks for it: no wake-up is lost. Everybody is woken, once, because every timer is set too late
//!   now.
//! * *`clear` and `set`.* Whichever changes the word last has the last word; `clear` lowers only a word that
//!   lies ahead, so it never touches a window that has already passed, nor the pace of those who leave it.
//! * *A waiter is dropped.* It leaves the line under the lock. If it was the first, the next one is woken to
//!   set its timer to the time of the first. If it had been let go already, nobody waits for it.
//! * *A waiter is told to go and is never polled again*, as in a runtime that is kept and not run. Being let
//!   go is leaving the line, not acting on it, and those behind have timers of their own, at most a pace
//!   later.
//! * *Eviction.* A waiter holds the window, and the registry keeps it as long as it is open: see the
//!   registry.
//! * *`set` or `clear`, and somebody begins to watch.* Whoever sets or clears changes the word first and looks
//!   for watchers after; whoever watches enters the list first and looks at the word after. So one of them sees
//!   the other. They need no lock for it: entering ends with a change of the word that changes nothing, and
//!   changes of one word have an order. If the watcher's is before the `set`, the `set` sees all that the
//!   watcher did before, its entry included; if it is after, the watcher sees the new deadline.
//! * *`set` and `set`, `set` and `clear`, told in the wrong order.* A watcher is told that something changed and
//!   looks for itself, one look after the other. The last one to be told anything looks after all of them were
//!   done.
//! * *`set` and `clear` between two looks.* Only a `clear` lowers the word, and it notes its time beside it: so
//!   a window that was cleared and one that was cleared and set again can be told apart, and both from one that
//!   has passed.
//! * *A watcher goes away.* It is held weakly, and by whoever tells it only for as long as that takes.
//!
//! The words and the locks are parameters so that a model checker can be put in their place.

use std::sync::Weak;
use std::sync::atomic::AtomicU64;
use std::task::Waker;
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_core::Nanos;

use super::atomic_deadline::AtomicDeadline;
use super::line::{Line, RELEASE, Ticket, Turn, Woken};
use super::watchers::{Followed, List, News, Watch, Watchers, WindowState};
use crate::lock::Lock;

#[derive(Debug, Default)]
pub(super) struct Window<W = AtomicU64, L = Mutex<Line>, M = Mutex<List>> {
    deadline: W,
    line: L,
    watchers: Watchers<W, M>,
}

impl<W: AtomicDeadline, L: Lock<Line>, M: Lock<List>> Window<W, L, M> {
    #[inline]
    pub fn deadline(&self) -> Nanos {
        Nanos(self.deadline.load())
    }

    /// Opens the window or extends it, and says whether that changed it.
    pub fn set(&self, span: Duration, now: Nanos) -> bool {
        // No time at all must not touch the pace of those who are leaving an earlier window.
        !span.is_zero() && self.deadline.raise(now.after(span).0)
    }

    /// Tells those who watch. Whoever changed the window does it, last of all.
    #[inline]
    pub fn tell(&self) {
        self.watchers.tell();
    }

    /// Ends the window, if it is open.
    pub fn clear(&self, clock: impl Fn() -> Nanos) {
        let ended = self.with_line(|line, woken| {
            let now = clock();
            let ended = self.deadline.lower(now.0);
            if ended {
                line.cleared = now;
                line.advance(now, now, None, woken);
                line.rouse_all(woken);
            }
            ended
        });
        if ended {
            self.tell();
        }
    }

    /// From now on the watcher is told of changes. What came before it has to look for: after this.
    pub fn watch(&self, watcher: Weak<dyn Watch>) {
        self.watchers.add(watcher);
        // Changes nothing, and puts the entry in order with every `set`: see above.
        self.deadline.raise(0);
    }

    /// What became of the window since the last look.
    pub fn follow(&self, followed: &mut Followed, clock: impl Fn() -> Nanos) -> News {
        // Inside the lock, so that no clear comes between the two.
        let state = self.line.with(|line| WindowState { deadline: self.deadline(), cleared: line.cleared });
        followed.follow(state, clock())
    }

    /// Whether a waiter may go. It takes its place in the line, and in `place`, when it first asks.
    pub fn turn(&self, place: &mut Option<Ticket>, waker: &Waker, clock: impl Fn() -> Nanos) -> Turn {
        // Nobody is in the line any more, or will be at the next look: there is nothing to be behind of.
        if place.is_none() && clock() >= self.deadline().after(RELEASE) {
            return Turn::Go;
        }
        let turn = self.with_line(|line, woken| {
            // Inside the lock, so that the line sees time in order.
            let (now, deadline) = (clock(), self.deadline());
            line.advance(deadline, now, *place, woken);
            if place.is_none() && line.is_open(deadline, now) {
                return Turn::Go;
            }
            let ticket = *place.get_or_insert_with(|| line.join(waker.clone()));
            line.turn(ticket, waker, deadline, now, woken)
        });
        if turn == Turn::Go {
            *place = None;
        }
        turn
    }

    /// Gives a place up.
    pub fn leave(&self, ticket: Ticket, clock: impl Fn() -> Nanos) {
        self.with_line(|line, woken| {
            let (now, deadline) = (clock(), self.deadline());
            line.leave(ticket, deadline, now, woken);
        });
    }

    /// Wakes and drops wakers after the lock is released: either may do anything, even wait for this window.
    fn with_line<T>(&self, work: impl FnOnce(&mut Line, &mut Woken) -> T) -> T {
        let mut woken = Woken::default();
        let answer = self.line.with(|line| work(line, &mut woken));
        woken.wake.into_iter().for_each(Waker::wake);
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};
    use std::task::Wake;

    use super::*;

    const NOW: Nanos = Nanos(1 << 40);
    const HOUR: Duration = Duration::from_secs(3600);

    /// Clears the window when the last of its wakers is dropped, as a task might that goes with it.
    struct ClearsAtLast(Arc<Window>);

    impl Wake for ClearsAtLast {
        fn wake(self: Arc<Self>) {}
    }

    impl Drop for ClearsAtLast {
        fn drop(&mut self) {
            self.0.clear(|| NOW);
        }
    }

    /// Does it in a thread, since whoever waits for itself does so for ever.
    fn finishes(work: impl FnOnce(&Arc<Window>) + Send + 'static) {
        let (done, finished) = mpsc::channel();
        std::thread::spawn(move || {
            work(&Arc::default());
            done.send(())
        });
        finished.recv_timeout(Duration::from_secs(20)).expect("it waits for itself");
    }

    /// Takes a place with a waker that nobody else has.
    fn wait_in(window: &Arc<Window>, place: &mut Option<Ticket>) {
        window.set(HOUR, NOW);
        let waker = Waker::from(Arc::new(ClearsAtLast(Arc::clone(window))));
        assert!(matches!(window.turn(place, &waker, || NOW), Turn::Until(_)));
    }

    #[test]
    fn a_waker_that_is_replaced_may_use_the_window_as_it_goes() {
        finishes(|window| {
            let mut place = None;
            wait_in(window, &mut place);
            assert!(matches!(window.turn(&mut place, Waker::noop(), || NOW), Turn::Until(_)));
            assert_eq!(window.deadline(), NOW, "it did");
        });
    }

    #[test]
    fn a_waker_that_leaves_may_use_the_window_as_it_goes() {
        finishes(|window| {
            let mut place = None;
            wait_in(window, &mut place);
            window.leave(place.expect("it waits"), || NOW);
            assert_eq!(window.deadline(), NOW, "it did");
        });
    }
}
