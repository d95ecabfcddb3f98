//! A disk that fails, and one that hangs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tidegate_core::engine::Found;

use super::{Batch, OnFailure, StateError, Store};
use crate::chance::Chance;
use crate::clock::ClockSource;
use crate::gate::Shared;
use crate::{Call, Config, Gate, Outcome, Reason};

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
    let mood = Arc::new(Mood::default());
    let config =
        Config::parse("[services.api]\nrequests = { limit = \"1000/h\", burst = 1000 }\n").expect("valid");
    let shared =
        Shared::new(config, ClockSource::cheap(), Chance::default(), false, true, None).expect("valid");
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
