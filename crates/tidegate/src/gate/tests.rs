//! Calls that arrive while the gate's lock is taken.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake};
use std::time::Duration;

use super::{Acquire, Gate, Permit};
use crate::Call;
use crate::config::Config;
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

/// Polls each call once, in order, while another thread holds the gate's lock. If a call waited for the lock, this would
/// never return.
fn arrive_meanwhile(gate: &Gate, callers: &mut [Caller]) {
    gate.shared.with(|_, _| {
        std::thread::scope(|scope| {
            let come = || callers.iter_mut().for_each(|caller| assert!(caller.poll().is_pending()));
            scope.spawn(come).join().expect("they need not wait");
        });
    });
}

#[test]
fn calls_that_arrive_while_the_lock_is_taken_are_decided_in_order() {
    let gate = gate();
    let mut callers = [0, 1, 2].map(|_| Caller::new(&gate, Call::to("api")));
    arrive_meanwhile(&gate, &mut callers);
    assert_eq!(callers.each_ref().map(Caller::woken), [1, 0, 0], "one goes, the others wait");
    assert_eq!((gate.shared.waiting(), callers[2].acquire.place().map(|place| place.position)), (2, Some(2)));
    let Poll::Ready(Ok(permit)) = callers[0].poll() else { panic!("it was let go") };
    assert!(permit.waited() < Duration::from_secs(10), "it waited for the lock holder only");
    drop(permit);
    assert_eq!(callers.each_ref().map(Caller::woken), [1, 1, 0]);
    assert!(matches!(callers[1].poll(), Poll::Ready(Ok(_))));
    assert!(matches!(callers[2].poll(), Poll::Ready(Ok(_))), "the slot was free again at once");
}

#[test]
fn a_handed_off_call_that_is_refused_is_woken() {
    let gate = gate();
    let held = gate.try_acquire(Call::to("api")).expect("it is free");
    let call = |nth| match nth {
        0 => Call::to("api").timeout(Duration::ZERO),
        1 => Call::to("nobody"),
        _ => Call::to("api"),
    };
    let mut callers = [0, 1, 2, 3, 4, 5].map(|nth| Caller::new(&gate, call(nth)));
    arrive_meanwhile(&gate, &mut callers);
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
fn a_handed_off_call_that_is_dropped_leaves_nothing_behind() {
    let gate = gate();
    // One that was let go and never looked, one that waits.
    let mut callers = vec![Caller::new(&gate, Call::to("api")), Caller::new(&gate, Call::to("api"))];
    arrive_meanwhile(&gate, &mut callers);
    assert_eq!((callers[0].woken(), gate.shared.waiting()), (1, 1));
    callers.pop();
    assert_eq!(gate.shared.waiting(), 0);
    callers.pop();
    assert_eq!(gate.shared.limit("api/concurrency").expect("it is there").used, 0);
    assert_eq!(gate.counts("api").expect("it is there").granted, 1);
    // Their slots are given to others.
    let mut others = [0, 1].map(|_| Caller::new(&gate, Call::to("api")));
    arrive_meanwhile(&gate, &mut others);
    assert_eq!(others.each_ref().map(Caller::woken), [1, 0]);
    assert_eq!(gate.shared.hand_off.slots(), 0..2);
}

/// From many threads at once: each call goes once or is withdrawn, and nothing is in flight in the end.
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
