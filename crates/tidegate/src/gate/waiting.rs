//! The way of a call that is ready to wait: it comes, sits down, looks whether there is a verdict, or goes away.

use std::task::Waker;

use tidegate_core::engine::Place;
use tidegate_core::{Admission, Call, Nanos, Reason, Refusal, Verdict};

use super::shared::{Inner, Shared, timeout_of, wake};
use crate::acquire::{Entered, Turn, Waiting};

/// How often one at work looks who came meanwhile before it leaves the lock to another.
const LOOKS: u32 = 8;

/// A call that came while somebody was at work with the lock.
#[derive(Debug)]
pub(crate) struct Newcomer {
    call: Call,
    turn: Option<Turn>,
    seat: u32,
}

impl Shared {
    pub fn enqueue(&self, call: &Call, turn: Option<Turn>, waker: &Waker) -> Result<Entered, Refusal> {
        let inner = match self.inner.try_lock() {
            Some(inner) => inner,
            None => match self.leave_to_others(call, turn, waker) {
                Some(waiting) => return Ok(Entered::Waiting(waiting)),
                None => self.inner.lock(),
            },
        };
        self.work(inner, |inner, now, wakers| {
            let admission = self.admit(inner, call, turn, now, wakers)?;
            Ok(match admission {
                Admission::Granted(grant) => Entered::Granted(grant),
                Admission::Waiting(ticket) => {
                    let seat = self.tray.take_seat();
                    self.seats.take(seat, waker.clone());
                    inner.usher.note(seat, ticket);
                    Entered::Waiting(Waiting { seat, since: now })
                }
            })
        })
    }

    /// Leaves a call to the one at work with the lock, if there is one.
    #[cold]
    fn leave_to_others(&self, call: &Call, turn: Option<Turn>, waker: &Waker) -> Option<Waiting> {
        let (call, waker) = (call.clone(), waker.clone());
        // Only says since when the call waits: the lock holder dates the call when it takes it.
        let since = self.reading();
        let seat = self.tray.come(|seat| {
            self.seats.take(seat, waker);
            Newcomer { call, turn, seat }
        })?;
        Some(Waiting { seat, since })
    }

    /// Sees to those who came while somebody was at work, in turn.
    pub(super) fn see_to_newcomers(&self, inner: &mut Inner, wakers: &mut Vec<Waker>) {
        let mut came = std::mem::take(&mut inner.came);
        for look in 1..=LOOKS {
            self.tray.take_who_came(&mut came, look == LOOKS);
            if came.is_empty() {
                break;
            }
            let now = self.time(inner);
            for Newcomer { call, turn, seat } in came.drain(..) {
                let verdict = match self.admit(inner, &call, turn, now, wakers) {
                    Ok(Admission::Waiting(ticket)) => {
                        inner.usher.note(seat, ticket);
                        continue;
                    }
                    Ok(Admission::Granted(grant)) => Verdict::Granted(grant),
                    Err(refusal) => Verdict::Refused(refusal),
                };
                wakers.extend(self.seats.decide(seat, verdict));
            }
        }
        inner.came = came;
    }

    /// What the engine says to a call that is ready to wait.
    fn admit(
        &self,
        inner: &mut Inner,
        call: &Call,
        turn: Option<Turn>,
        now: Nanos,
        wakers: &mut Vec<Waker>,
    ) -> Result<Admission, Refusal> {
        let admission = match turn {
            Some(Turn { arrived: Some(arrived), timeout }) => {
                inner.engine.enqueue_again(call, arrived, timeout, now)
            }
            Some(Turn { arrived: None, timeout }) => inner.engine.enqueue(call, timeout, now),
            None => {
                let timeout = timeout_of(call, &inner.engine);
                inner.engine.enqueue(call, timeout, now)
            }
        };
        // Before the call is noted: those who went meanwhile may have had its place in the queue.
        self.deliver(inner, wakers);
        match admission {
            Ok(Admission::Waiting(ticket))
                if self.refuses_to_wait() && inner.engine.withdraw(ticket, now) =>
            {
                // Its place may have been in the way of others, and the next act may be long in coming.
                self.deliver(inner, wakers);
                Err(Refusal::bare(Reason::Unavailable))
            }
            admission => admission,
        }
    }

    /// The verdict on a waiting call, if there is one; else `waker` will be woken.
    pub fn look(&self, seat: u32, waker: &Waker) -> Option<Verdict> {
        let verdict = self.seats.look(seat, waker).ok()?;
        self.tray.free_seat(seat);
        Some(verdict)
    }

    /// A waiting call goes away. If it was granted meanwhile, it never left.
    pub fn leave(&self, seat: u32) {
        let unused = self.work(self.inner.lock(), |inner, now, wakers| {
            let unused = match self.seats.leave(seat) {
                Ok(Verdict::Granted(grant)) => {
                    inner.engine.cancel(grant, now);
                    None
                }
                Ok(Verdict::Refused(_)) => None,
                Err(waker) => {
                    if let Some(ticket) = inner.usher.ticket_of(seat) {
                        inner.engine.withdraw(ticket, now);
                    }
                    waker
                }
            };
            self.deliver(inner, wakers);
            unused
        });
        self.tray.free_seat(seat);
        drop(unused);
    }

    pub fn place(&self, seat: u32) -> Option<Place> {
        self.work(self.inner.lock(), |inner, now, wakers| {
            let place = inner.usher.ticket_of(seat).and_then(|ticket| inner.engine.place(ticket, now));
            self.deliver_if_any(inner, wakers);
            place
        })
    }

    /// Has every waiting call look again.
    pub fn wake_waiters(&self) {
        wake(self.tray.seats().filter_map(|seat| self.seats.waker(seat)).collect());
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Wake};
    use std::time::Duration;

    use super::*;
    use crate::acquire::Acquire;
    use crate::config::Config;
    use crate::gate::Gate;
    use crate::permit::Permit;
    use crate::refused::Refused;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A call that waits, and how often it was woken.
    struct Caller {
        acquire: Acquire,
        woken: Arc<Woken>,
    }

    impl Caller {
        fn new(gate: &Gate, call: Call) -> Caller {
            Caller { acquire: gate.acquire(call), woken: Arc::default() }
        }

        fn poll(&mut self) -> Poll<Result<Permit, Refused>> {
            let waker = self.woken.clone().into();
            Pin::new(&mut self.acquire).poll(&mut Context::from_waker(&waker))
        }

        fn woken(&self) -> usize {
            self.woken.0.load(Ordering::SeqCst)
        }
    }

    /// One slot.
    fn gate() -> Gate {
        let config =
            Config::parse("[services.api]\nconcurrency = 1\nqueue = { max_waiting = 3 }").expect("valid");
        Gate::builder().config(config).build().expect("valid")
    }

    /// Has each of them polled once, in turn, while somebody is at work with the gate's lock. Had they to wait for it, this
    /// would never end.
    fn come_meanwhile(gate: &Gate, callers: &mut [Caller]) {
        gate.shared.act(|_, _| {
            std::thread::scope(|scope| {
                let come = || callers.iter_mut().for_each(|caller| assert!(caller.poll().is_pending()));
                scope.spawn(come).join().expect("they need not wait");
            });
        });
    }

    #[test]
    fn who_comes_while_somebody_is_at_work_is_seen_to_in_turn() {
        let gate = gate();
        let mut callers = [0, 1, 2].map(|_| Caller::new(&gate, Call::to("api")));
        come_meanwhile(&gate, &mut callers);
        assert_eq!(callers.each_ref().map(Caller::woken), [1, 0, 0], "one goes, the others wait");
        assert_eq!(
            (gate.shared.waiting(), callers[2].acquire.place().map(|place| place.position)),
            (2, Some(2))
        );
        let Poll::Ready(Ok(permit)) = callers[0].poll() else { panic!("it was let go") };
        assert!(permit.waited() < Duration::from_secs(10), "it waited for the lock holder only");
        drop(permit);
        assert_eq!(callers.each_ref().map(Caller::woken), [1, 1, 0]);
        assert!(matches!(callers[1].poll(), Poll::Ready(Ok(_))));
        assert!(matches!(callers[2].poll(), Poll::Ready(Ok(_))), "the slot was free again at once");
    }

    #[test]
    fn who_came_so_and_is_not_let_in_is_told() {
        let gate = gate();
        let held = gate.try_acquire(Call::to("api")).expect("it is free");
        let call = |nth| match nth {
            0 => Call::to("api").timeout(Duration::ZERO),
            1 => Call::to("nobody"),
            _ => Call::to("api"),
        };
        let mut callers = [0, 1, 2, 3, 4, 5].map(|nth| Caller::new(&gate, call(nth)));
        come_meanwhile(&gate, &mut callers);
        assert_eq!(callers.each_ref().map(Caller::woken), [1, 1, 0, 0, 0, 1]);
        let reason = |caller: &mut Caller| match caller.poll() {
            Poll::Ready(Err(refused)) => refused.reason().code(),
            other => panic!("{other:?}"),
        };
        assert_eq!(reason(&mut callers[0]), "timeout");
        assert_eq!(reason(&mut callers[1]), "unknown_service");
        assert_eq!(reason(&mut callers[5]), "queue_full");
        drop(held);
    }

    #[test]
    fn who_came_so_and_goes_away_leaves_nothing_behind() {
        let gate = gate();
        // One that was let go and never looked, one that waits.
        let mut callers = vec![Caller::new(&gate, Call::to("api")), Caller::new(&gate, Call::to("api"))];
        come_meanwhile(&gate, &mut callers);
        assert_eq!((callers[0].woken(), gate.shared.waiting()), (1, 1));
        callers.pop();
        assert_eq!(gate.shared.waiting(), 0);
        callers.pop();
        assert_eq!(gate.shared.limit("api/concurrency").expect("it is there").used, 0);
        assert_eq!(gate.counts("api").expect("it is there").granted, 1);
        // Their seats are given to others.
        let mut others = [0, 1].map(|_| Caller::new(&gate, Call::to("api")));
        come_meanwhile(&gate, &mut others);
        assert_eq!(others.each_ref().map(Caller::woken), [1, 0]);
        assert_eq!(gate.shared.tray.seats(), 0..2);
    }

    /// From many threads at once: each call goes once or is withdrawn, and in the end nobody has anything.
    #[test]
    fn in_a_crowd_of_threads_nothing_is_lost() {
        let config = "[services.api]\nrequests = { limit = \"1G/s\", algorithm = \"token-bucket\", burst = 50 }\nconcurrency = 3";
        let gate = Gate::builder().config(Config::parse(config).expect("valid")).build().expect("valid");
        let went = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (gate, went) = (&gate, &went);
                scope.spawn(move || {
                    for nth in 0..500 {
                        if (thread + nth) % 5 == 0 {
                            let mut caller = Caller::new(gate, Call::to("api"));
                            went.fetch_add(usize::from(caller.poll().is_ready()), Ordering::SeqCst);
                            continue;
                        }
                        let permit = gate.acquire_blocking(Call::to("api")).expect("its turn comes");
                        went.fetch_add(1, Ordering::SeqCst);
                        if nth % 3 == 0 {
                            std::thread::yield_now();
                        }
                        drop(permit);
                    }
                });
            }
        });
        assert!(went.load(Ordering::SeqCst) >= 1_600);
        assert_eq!(gate.shared.waiting(), 0);
        assert_eq!(gate.shared.limit("api/concurrency").expect("it is there").used, 0);
        assert_eq!(gate.counts("api").map(|counts| counts.granted >= 1_600), Some(true));
    }
}
