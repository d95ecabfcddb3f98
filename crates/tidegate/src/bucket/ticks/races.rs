//! The compare-and-swap under every order of events that a scheduler can make.
//!
//! The word and the clock are those of a model checker, which chooses who goes next at each access: a few
//! threads in all orders (21,153 and 8,985 of them), more threads in many random ones.

use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicU64 as Checked, Ordering};
use shuttle::thread;

use super::{Flow, Level, Word};

impl Word for Checked {
    type Number = u64;

    fn new(value: u64) -> Checked {
        Checked::new(value)
    }

    fn load(&self) -> u64 {
        Checked::load(self, Ordering::SeqCst)
    }

    fn swap_if(&self, old: u64, new: u64) -> bool {
        self.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}

/// What many limiters do: looks, and then writes. It proves that these tests would notice.
struct LookThenWrite(Checked);

impl Word for LookThenWrite {
    type Number = u64;

    fn new(value: u64) -> LookThenWrite {
        LookThenWrite(Checked::new(value))
    }

    fn load(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn swap_if(&self, _old: u64, new: u64) -> bool {
        self.0.store(new, Ordering::SeqCst);
        true
    }
}

/// Three units, and one more every two nanoseconds.
const CAPACITY: u64 = 3;
const RATE: u64 = 1;
const INTERVAL: u64 = 2;

struct Bucket<W: Word> {
    level: Level<W>,
    clock: Checked,
    taken: Checked,
}

impl<W: Word> Bucket<W> {
    fn new() -> Bucket<W> {
        let flow = Flow::new(CAPACITY, RATE, INTERVAL);
        let level = Level::over(&flow, (CAPACITY * INTERVAL).into(), 1 << 40);
        Bucket { level, clock: Checked::new(0), taken: Checked::new(0) }
    }

    fn now(&self) -> u64 {
        self.clock.load(Ordering::SeqCst)
    }

    fn take(&self, units: u64) -> bool {
        let took = self.level.take(units, || self.now());
        if took {
            self.taken.fetch_add(units, Ordering::SeqCst);
        }
        took
    }

    fn put_back(&self, units: u64) {
        self.level.put_back(units, || self.now());
        self.taken.fetch_sub(units, Ordering::SeqCst);
    }
}

type Work<W> = fn(&Bucket<W>);

/// Runs each of `work` in a thread of its own, and then `then`.
fn together<W: Word + Send + Sync + 'static>(work: &[Work<W>], then: fn(&Bucket<W>))
where
    W::Number: Send + Sync,
{
    let bucket = Arc::new(Bucket::<W>::new());
    let threads: Vec<_> = work
        .iter()
        .map(|&work| {
            let bucket = Arc::clone(&bucket);
            thread::spawn(move || work(&bucket))
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    then(&bucket);
}

/// With time standing still, what was taken and what is there make up the whole bucket.
fn nothing_minted_and_nothing_lost<W: Word>(bucket: &Bucket<W>) {
    let taken = bucket.taken.load(Ordering::SeqCst);
    assert_eq!(taken + bucket.level.available(|| bucket.now()), CAPACITY);
}

/// With time passing, no more is taken than the bucket held and what flowed.
fn no_more_than_flowed<W: Word>(bucket: &Bucket<W>) {
    let taken = bucket.taken.load(Ordering::SeqCst);
    assert!(taken <= CAPACITY + bucket.now() * RATE / INTERVAL, "{taken} at {}", bucket.now());
}

fn take_one_by_one<W: Word>(bucket: &Bucket<W>) {
    for _ in 0..2 {
        let _ = bucket.take(1);
    }
}

fn take_two_at_once<W: Word>(bucket: &Bucket<W>) {
    let _ = bucket.take(2);
}

fn take_and_put_back<W: Word>(bucket: &Bucket<W>) {
    if bucket.take(2) {
        bucket.put_back(2);
    }
}

fn let_time_pass<W: Word>(bucket: &Bucket<W>) {
    for _ in 0..2 {
        bucket.clock.fetch_add(INTERVAL / 2, Ordering::SeqCst);
    }
}

#[test]
fn takers_in_every_order_get_the_bucket_and_no_more() {
    shuttle::check_dfs(
        || together::<Checked>(&[take_one_by_one, take_two_at_once], nothing_minted_and_nothing_lost),
        None,
    );
}

#[test]
fn what_is_put_back_in_every_order_is_there_again() {
    shuttle::check_dfs(
        || together::<Checked>(&[take_and_put_back, take_two_at_once], nothing_minted_and_nothing_lost),
        None,
    );
    shuttle::check_random(
        || {
            together::<Checked>(
                &[take_and_put_back, take_one_by_one, take_and_put_back, take_two_at_once],
                nothing_minted_and_nothing_lost,
            );
        },
        5_000,
    );
}

#[test]
fn time_that_passes_between_any_two_steps_is_not_counted_twice() {
    shuttle::check_random(
        || {
            together::<Checked>(
                &[take_one_by_one, let_time_pass, take_one_by_one, take_two_at_once, let_time_pass],
                no_more_than_flowed,
            );
        },
        5_000,
    );
    shuttle::check_pct(
        || {
            together::<Checked>(
                &[take_one_by_one, let_time_pass, take_and_put_back, take_two_at_once, let_time_pass],
                no_more_than_flowed,
            );
        },
        5_000,
        3,
    );
}

#[test]
#[should_panic(expected = "left: ")]
fn a_limiter_that_looks_and_then_writes_is_caught() {
    shuttle::check_dfs(
        || together::<LookThenWrite>(&[take_one_by_one, take_two_at_once], nothing_minted_and_nothing_lost),
        None,
    );
}
