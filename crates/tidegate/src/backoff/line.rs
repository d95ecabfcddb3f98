//! Those who wait for a window to pass, in order of arrival, and the pace at which they are let go.
//!
//! Plain data: the time and the window's deadline come in as arguments, and wakers go out, for the caller to wake
//! or to drop once it holds no lock: either may run foreign code.
//!
//! The first goes at the deadline and the others [`PACE`] apart. Where that would take longer than
//! [`RELEASE`] in all, the time that is left is shared out among those who are left; since it is shared out
//! anew whenever one goes, those who come meanwhile only bring everybody closer together.

use std::collections::BTreeMap;
use std::task::Waker;
use std::time::Duration;

use tidegate_core::{Nanos, whole_nanos};

/// How far apart waiters are let go, at most.
pub(super) const PACE: Duration = Duration::from_millis(5);
/// How long it takes to let all of them go, at most.
pub(super) const RELEASE: Duration = Duration::from_secs(1);

/// A place in the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

/// Whether a waiter may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Now.
    Go,
    /// Not yet: it is to ask again then, or when it is woken.
    Until(Nanos),
}

#[derive(Debug, Default)]
pub(super) struct Line {
    /// Who waits. A ticket that is not here has been let go.
    waiting: BTreeMap<Ticket, Waiter>,
    tickets: u64,
    /// How many have been let go, ever.
    gone: u64,
    /// The deadline after which `next` was counted.
    follows: Nanos,
    /// When the first may go, once the window has passed.
    next: Nanos,
    /// When the window was last ended before its time.
    pub cleared: Nanos,
}

#[derive(Debug)]
struct Waiter {
    waker: Waker,
    /// How many will have been let go before it; fewer, if some give up.
    number: u64,
    asleep_until: Nanos,
}

/// Wakers that have left the line.
#[derive(Debug, Default)]
pub(super) struct Woken {
    /// To be woken.
    pub wake: Vec<Waker>,
    /// To be dropped.
    pub unused: Vec<Waker>,
}

impl Line {
    /// Lets go whose time has come, if the window has passed; all but `me` are to be woken.
    pub fn advance(&mut self, deadline: Nanos, now: Nanos, me: Option<Ticket>, woken: &mut Woken) {
        if now < deadline {
            return;
        }
        if self.follows != deadline {
            self.follows = deadline;
            self.next = deadline;
        }
        let end = deadline.after(RELEASE);
        while self.next <= now
            && let Some((ticket, waiter)) = self.waiting.pop_first()
        {
            self.gone += 1;
            let kind = if me == Some(ticket) { &mut woken.unused } else { &mut woken.wake };
            kind.push(waiter.waker);
            let left = u32::try_from(self.waiting.len()).unwrap_or(u32::MAX).max(1);
            let gap = PACE.min(end.since(self.next) / left);
            // Counted from when it was due, since timers are late; but after a long silence not all who were
            // due in it go at once.
            let late = Nanos(now.0.saturating_sub(whole_nanos(PACE)));
            self.next = self.next.max(late).after(gap);
        }
        self.rouse_first(deadline, now, woken);
    }

    /// Whether a newcomer has nobody before it; to be asked after `advance`.
    pub fn is_open(&self, deadline: Nanos, now: Nanos) -> bool {
        now >= deadline && self.waiting.is_empty()
    }

    /// Takes the last place.
    pub fn join(&mut self, waker: Waker) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let number = self.gone + self.waiting.len() as u64;
        // Asleep for no time yet: it is being polled.
        self.waiting.insert(ticket, Waiter { waker, number, asleep_until: Nanos::ZERO });
        ticket
    }

    /// Whether it is its turn; to be asked after `advance`.
    pub fn turn(
        &mut self,
        ticket: Ticket,
        waker: &Waker,
        deadline: Nanos,
        now: Nanos,
        woken: &mut Woken,
    ) -> Turn {
        let due = self.first_due(deadline, now);
        let first = self.waiting.first_key_value().is_some_and(|(first, _)| *first == ticket);
        let Some(waiter) = self.waiting.get_mut(&ticket) else { return Turn::Go };
        if !waiter.waker.will_wake(waker) {
            woken.unused.push(std::mem::replace(&mut waiter.waker, waker.clone()));
        }
        // Those before it go at most this far apart. So it need not be told when its turn comes, and goes in
        // time even if one of them was told to go and never looked.
        let ahead = if first { 0 } else { waiter.number.saturating_sub(self.gone).min(MOST_AHEAD) };
        waiter.asleep_until = due.after(PACE * ahead as u32).min(due.max(deadline.after(RELEASE)));
        Turn::Until(waiter.asleep_until)
    }

    /// Gives a place up. Those behind move up.
    pub fn leave(&mut self, ticket: Ticket, deadline: Nanos, now: Nanos, woken: &mut Woken) {
        woken.unused.extend(self.waiting.remove(&ticket).map(|waiter| waiter.waker));
        self.rouse_first(deadline, now, woken);
    }

    /// Wakes everybody, to look at the clock again.
    pub fn rouse_all(&mut self, woken: &mut Woken) {
        woken.wake.extend(self.waiting.values().map(|waiter| waiter.waker.clone()));
    }

    /// Whoever has become the first may have to go sooner than it thought.
    fn rouse_first(&mut self, deadline: Nanos, now: Nanos, woken: &mut Woken) {
        let due = self.first_due(deadline, now);
        if let Some(mut first) = self.waiting.first_entry()
            && first.get().asleep_until > due
        {
            first.get_mut().asleep_until = due;
            woken.wake.push(first.get().waker.clone());
        }
    }

    fn first_due(&self, deadline: Nanos, now: Nanos) -> Nanos {
        if now < deadline || self.follows != deadline { deadline } else { self.next }
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }
}

/// So many paces fill a whole release.
const MOST_AHEAD: u64 = (RELEASE.as_millis() / PACE.as_millis()) as u64;

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const DEADLINE: Nanos = Nanos(10 * SECOND);

    /// When each of so many waiters goes, if time is looked at so often.
    fn released(waiters: usize, newcomers: usize, grain: Duration) -> Vec<Duration> {
        let mut line = Line::default();
        let mut waiting: Vec<Ticket> = (0..waiters).map(|_| line.join(Waker::noop().clone())).collect();
        let mut now = DEADLINE;
        let mut gone = Vec::new();
        let mut to_come = newcomers;
        while !waiting.is_empty() {
            line.advance(DEADLINE, now, None, &mut Woken::default());
            waiting.retain(|ticket| {
                let waits = line.waiting.contains_key(ticket);
                if !waits {
                    gone.push(now.since(DEADLINE));
                }
                waits
            });
            if to_come > 0 {
                to_come -= 1;
                assert!(!line.is_open(DEADLINE, now), "a newcomer goes behind those who wait");
                waiting.push(line.join(Waker::noop().clone()));
            }
            now = now.after(grain);
        }
        gone
    }

    #[test]
    fn a_few_go_a_pace_apart() {
        let expected: Vec<_> = (0..201).map(|n| PACE * n).collect();
        assert_eq!(released(201, 0, Duration::from_millis(1)), expected);
        assert_eq!(released(3, 2, Duration::from_millis(1)), expected[..5]);
    }

    #[test]
    fn many_share_the_second_evenly() {
        for waiters in [202, 1_001, 5_001] {
            let gone = released(waiters, 0, Duration::from_micros(100));
            assert_eq!(gone.len(), waiters);
            assert!(*gone.last().unwrap() <= RELEASE, "{waiters}: {:?}", gone.last());
            // In each tenth of the second a tenth of them.
            for tenth in 0..10 {
                let span = RELEASE / 10 * tenth..RELEASE / 10 * (tenth + 1);
                let went = gone.iter().filter(|at| span.contains(at)).count();
                assert!(went.abs_diff(waiters / 10) <= waiters / 200 + 2, "{waiters}: {went} in {span:?}");
            }
        }
    }

    #[test]
    fn newcomers_bring_everybody_closer_and_are_no_herd_at_the_end() {
        let gone = released(1_000, 900, Duration::from_millis(1));
        assert_eq!(gone.len(), 1_900);
        assert!(*gone.last().unwrap() <= RELEASE + Duration::from_millis(1));
        for ms in 0..1_000 {
            let span = Duration::from_millis(ms)..Duration::from_millis(ms + 1);
            let went = gone.iter().filter(|at| span.contains(at)).count();
            assert!(went <= 10, "{went} at {ms} ms");
        }
    }

    #[test]
    fn nobody_is_left_after_the_second_even_if_nobody_looked_before() {
        let mut line = Line::default();
        for _ in 0..50 {
            line.join(Waker::noop().clone());
        }
        line.advance(DEADLINE, DEADLINE.after(RELEASE), None, &mut Woken::default());
        assert_eq!(line.len(), 0);
    }

    #[test]
    fn those_who_were_due_in_a_long_silence_do_not_all_go_at_once() {
        let mut line = Line::default();
        for _ in 0..50 {
            line.join(Waker::noop().clone());
        }
        line.advance(DEADLINE, DEADLINE.after(Duration::from_millis(200)), None, &mut Woken::default());
        assert_eq!(line.len(), 48, "the one that has waited since the deadline, and the one that is due now");
    }
}
