//! A disk that fails, and one that hangs.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tidegate_core::engine::Found;

use super::{Batch, OnFailure, StateError, Store};
use crate::chance::Chance;
use crate::clock::ClockSource;
use crate::gate::Shared;
use crate::{Call, Config, Gate, ManualClock, Outcome, Reason};

/// What a disk does at the moment.
#[derive(Default)]
struct Mood {
    fails: AtomicBool,
    hangs: Mutex<bool>,
    goes_on: Condvar,
    written: AtomicU64,
}

struct Disk(Arc<Mood>);

impl Store for Disk {
    fn write(&mut self, _batch: &Batch<'_>) -> Result<(), StateError> {
        let mut hangs = self.0.hangs.lock();
        self.0.goes_on.wait_while(&mut hangs, |hangs| *hangs);
        drop(hangs);
        if self.0.fails.load(Ordering::SeqCst) {
            return Err(StateError::Disk {
                path: "state.db".into(),
                cause: "database or disk is full".into(),
            });
        }
        self.0.written.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

fn gate(on_failure: OnFailure) -> (Gate, Arc<Mood>) {
    let config = "[services.api]\nrequests = { limit = \"1000/h\", burst = 1000 }\n";
    gate_on(ClockSource::cheap(), config, on_failure)
}

fn gate_on(clock: ClockSource, config: &str, on_failure: OnFailure) -> (Gate, Arc<Mood>) {
    let mood = Arc::new(Mood::default());
    let config = Config::parse(config).expect("valid");
    let shared = Shared::new(config, clock, Chance::default(), false, true, None).expect("valid");
    let disk = Box::new(Disk(mood.clone()));
    let shared = shared.keep_with(Found::default(), BTreeMap::new(), "state.db".into(), on_failure, disk);
    (Gate { shared }, mood)
}

/// Spends until the promise is used up, and says how much that was.
fn spend(gate: &Gate, most: usize) -> usize {
    let went = (0..most)
        .take_while(|_| gate.try_acquire(Call::to("api")).map(|it| it.finish(Outcome::done())).is_ok());
    went.count()
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn nothing_goes_that_is_not_on_disk() {
    let (gate, mood) = gate(OnFailure::Refuse);
    *mood.hangs.lock() = true;
    let went = spend(&gate, 1_000);
    assert!((2..=20).contains(&went), "{went} went on a promise of a hundredth");
    *mood.hangs.lock() = false;
    mood.goes_on.notify_all();
    until("it is promised more", || spend(&gate, 1) == 1);
}

#[test]
fn on_a_full_disk_calls_are_refused_if_that_is_asked_for() {
    let (gate, mood) = gate(OnFailure::Refuse);
    mood.fails.store(true, Ordering::SeqCst);
    spend(&gate, 1_000);
    until("it is known", || gate.state_trouble().is_some());
    spend(&gate, 1_000);
    let trouble = gate.state_trouble().expect("the disk is full");
    assert!(trouble.contains("full") && trouble.contains("Free some space"), "{trouble}");
    let refused = gate.acquire_blocking(Call::to("api")).expect_err("nothing can be promised");
    assert_eq!(*refused.reason(), Reason::Unavailable);
    mood.fails.store(false, Ordering::SeqCst);
    until("it is well again", || gate.state_trouble().is_none() && spend(&gate, 1) == 1);
}

#[test]
fn on_a_full_disk_calls_go_on_in_memory_else_and_are_written_down_later() {
    let (gate, mood) = gate(OnFailure::Memory);
    mood.fails.store(true, Ordering::SeqCst);
    spend(&gate, 1_000);
    until("it is known", || gate.state_trouble().is_some());
    for _ in 0..200 {
        gate.acquire_blocking(Call::to("api")).expect("it goes on").finish(Outcome::done());
    }
    let before = mood.written.load(Ordering::SeqCst);
    mood.fails.store(false, Ordering::SeqCst);
    until("it is written again", || mood.written.load(Ordering::SeqCst) > before);
    until("it is well again", || gate.state_trouble().is_none());
    gate.acquire_blocking(Call::to("api")).expect("it goes on").finish(Outcome::done());
}

#[test]
fn a_disk_that_hangs_for_seconds_holds_up_nobody_who_goes_on_in_memory() {
    let (gate, mood) = gate(OnFailure::Memory);
    *mood.hangs.lock() = true;
    spend(&gate, 1_000);
    let begun = Instant::now();
    for _ in 0..100 {
        gate.acquire_blocking(Call::to("api")).expect("it goes on").finish(Outcome::done());
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let trouble = gate.state_trouble().expect("the disk hangs");
    assert!(trouble.contains("has not answered"), "{trouble}");
    *mood.hangs.lock() = false;
    mood.goes_on.notify_all();
    gate.close().expect("the disk is well again");
}

#[test]
fn an_error_at_the_end_is_told() {
    let (gate, mood) = gate(OnFailure::Memory);
    mood.fails.store(true, Ordering::SeqCst);
    assert!(gate.close().is_err());
}

/// Counts how often it is woken.
#[derive(Default)]
struct Woken(AtomicU64);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A call that is refused because it would have to wait is taken out of the queue again. That brings the queue up to the
/// present time: what becomes of the others by that must reach them at once, and not with the next act, which may never come.
#[test]
fn what_a_call_that_may_not_wait_brings_about_for_others_is_told_at_once() {
    let clock = ManualClock::new();
    // A slot is waited for without a time: a call that joins the queue does not look whether anything is due.
    let (gate, _) = gate_on(clock.clone().into(), "[services.api]\nconcurrency = 1\n", OnFailure::Refuse);
    let held = gate.try_acquire(Call::to("api")).expect("it is free");
    let call = || Call::to("api").timeout(Duration::from_millis(900));
    let woken = [0, 1].map(|_| Arc::new(Woken::default()));
    let mut waiting = gate.acquire(call());
    let waker = woken[0].clone().into();
    assert!(Pin::new(&mut waiting).poll(&mut Context::from_waker(&waker)).is_pending());
    // From now on nothing is written any more, so calls may not begin to wait, and the thread that writes does nothing.
    gate.close().expect("the disk is well");
    // The gate's timer sleeps on the real clock: the next call is the first to see that the time of this one is over.
    clock.advance(Duration::from_millis(950));
    let waker = woken[1].clone().into();
    let refused = Pin::new(&mut gate.acquire(call())).poll(&mut Context::from_waker(&waker));
    let Poll::Ready(Err(refused)) = refused else { panic!("it may not wait: {refused:?}") };
    assert_eq!(*refused.reason(), Reason::Unavailable);
    assert_eq!(woken[0].0.load(Ordering::SeqCst), 1, "the one that waited is told that its time is over");
    let waker = woken[0].clone().into();
    let Poll::Ready(Err(late)) = Pin::new(&mut waiting).poll(&mut Context::from_waker(&waker)) else {
        panic!("its time is over")
    };
    assert_eq!(*late.reason(), Reason::Timeout);
    drop(held);
}
