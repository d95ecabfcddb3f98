//! Setting, waiting, clearing, dropping, watching and forgetting under the orders of events that a scheduler can make.
//!
//! The word, the locks and the clock are those of a model checker, which chooses who goes next at each
//! access. A waiter sleeps until its time or its wake-up, whichever comes first. The clock moves a little and
//! then stands still, so a wake-up that is lost leaves a sleeper for ever, which the checker reports.

mod watching;

use std::task::{Wake, Waker};
use std::time::Duration;

use shuttle::sync::atomic::{AtomicBool, AtomicU64 as Checked, Ordering};
use shuttle::sync::{Arc, Condvar, Mutex};
use shuttle::thread;

use tidegate_core::{Nanos, whole_nanos};

use super::atomic_deadline::AtomicDeadline;
use super::line::{Line, PACE, RELEASE, Turn};
use super::shelf::{Shelf, Shelved};
use super::watchers::List;
use super::window::Window;

impl AtomicDeadline for Checked {
    fn load(&self) -> u64 {
        Checked::load(self, Ordering::SeqCst)
    }

    fn raise(&self, at: u64) -> bool {
        self.fetch_max(at, Ordering::SeqCst) < at
    }

    fn lower(&self, at: u64) -> bool {
        self.fetch_min(at, Ordering::SeqCst) > at
    }
}

/// Looks, and then writes. It proves that these tests would notice.
#[derive(Default)]
struct LookThenWrite(Checked);

impl AtomicDeadline for LookThenWrite {
    fn load(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn raise(&self, at: u64) -> bool {
        let earlier = self.0.load(Ordering::SeqCst) < at;
        if earlier {
            self.0.store(at, Ordering::SeqCst);
        }
        earlier
    }

    fn lower(&self, at: u64) -> bool {
        self.0.fetch_min(at, Ordering::SeqCst) > at
    }
}

const START: Nanos = Nanos(1 << 40);
const WINDOW: Duration = Duration::from_millis(10);

/// A window, and a clock with the sleepers on it.
struct World<W> {
    window: Window<W, Mutex<Line>, Mutex<List>>,
    now: Checked,
    bell: Arc<Bell>,
    gone: Checked,
}

/// Rung when time moves and when somebody is woken.
struct Bell {
    rung: Mutex<u64>,
    heard: Condvar,
}

impl Bell {
    fn ring(&self) {
        *self.rung.lock().unwrap() += 1;
        self.heard.notify_all();
    }
}

struct Woken {
    flag: AtomicBool,
    bell: Arc<Bell>,
}

impl Wake for Woken {
    fn wake(self: std::sync::Arc<Self>) {
        self.flag.store(true, Ordering::SeqCst);
        self.bell.ring();
    }
}

impl<W: AtomicDeadline> World<W> {
    fn new() -> World<W> {
        let bell = Arc::new(Bell { rung: Mutex::new(0), heard: Condvar::new() });
        World { window: Window::default(), now: Checked::new(START.0), bell, gone: Checked::new(0) }
    }

    fn now(&self) -> Nanos {
        Nanos(self.now.load(Ordering::SeqCst))
    }

    fn set(&self, span: Duration) {
        if self.window.set(span, self.now()) {
            self.window.tell();
        }
    }

    fn clear(&self) {
        self.window.clear(|| self.now());
    }

    fn pass(&self, span: Duration) {
        self.now.fetch_add(whole_nanos(span), Ordering::SeqCst);
        self.bell.ring();
    }

    /// Waits as a task does; gives up after so many looks.
    fn wait(&self, looks: usize) {
        let woken = std::sync::Arc::new(Woken { flag: AtomicBool::new(false), bell: Arc::clone(&self.bell) });
        let waker = Waker::from(std::sync::Arc::clone(&woken));
        let mut place = None;
        for _ in 0..looks {
            match self.window.turn(&mut place, &waker, || self.now()) {
                Turn::Go => {
                    self.gone.fetch_add(1, Ordering::SeqCst);
                    return;
                }
                Turn::Until(until) => {
                    let mut rung = self.bell.rung.lock().unwrap();
                    while self.now() < until && !woken.flag.swap(false, Ordering::SeqCst) {
                        rung = self.bell.heard.wait(rung).unwrap();
                    }
                }
            }
        }
        if let Some(ticket) = place {
            self.window.leave(ticket, || self.now());
        }
    }
}

type Work<W> = fn(&World<W>);

/// Runs each of `work` and `waiters` in a thread of its own. When the work is done, enough time passes for
/// every window but one that is open for ever; then the waiters must have gone.
fn together<W: AtomicDeadline + Send + Sync + 'static>(
    before: Work<W>,
    work: &[Work<W>],
    waiters: &[Work<W>],
    then: Work<W>,
) {
    let world = Arc::new(World::<W>::new());
    before(&world);
    let start = |work: &[Work<W>]| -> Vec<_> {
        let thread = |&work: &Work<W>| {
            let world = Arc::clone(&world);
            thread::spawn(move || work(&world))
        };
        work.iter().map(thread).collect()
    };
    let (waiters, work) = (start(waiters), start(work));
    work.into_iter().for_each(|thread| thread.join().unwrap());
    world.pass(WINDOW * 2);
    world.pass(RELEASE);
    waiters.into_iter().for_each(|thread| thread.join().unwrap());
    then(&world);
}

fn nothing<W: AtomicDeadline>(_: &World<W>) {}

fn open_for_ever<W: AtomicDeadline>(world: &World<W>) {
    world.set(Duration::MAX);
}

fn open<W: AtomicDeadline>(world: &World<W>) {
    world.set(WINDOW);
}

fn extend<W: AtomicDeadline>(world: &World<W>) {
    world.set(WINDOW * 2);
}

fn clear<W: AtomicDeadline>(world: &World<W>) {
    world.clear();
}

fn let_pass<W: AtomicDeadline>(world: &World<W>) {
    world.pass(WINDOW);
    world.pass(PACE);
}

fn wait<W: AtomicDeadline>(world: &World<W>) {
    world.wait(usize::MAX);
}

fn wait_impatiently<W: AtomicDeadline>(world: &World<W>) {
    world.wait(1);
}

fn open_and_clear<W: AtomicDeadline>(world: &World<W>) {
    world.set(WINDOW);
    world.clear();
}

fn the_longer_stayed<W: AtomicDeadline>(world: &World<W>) {
    assert_eq!(world.window.deadline(), START.after(WINDOW * 2));
}

fn two_went<W: AtomicDeadline>(world: &World<W>) {
    assert_eq!(world.gone.load(Ordering::SeqCst), 2);
}

fn at_least_two_went<W: AtomicDeadline>(world: &World<W>) {
    assert!((2..=3).contains(&world.gone.load(Ordering::SeqCst)));
}

#[test]
fn windows_set_in_every_order_end_with_the_longest() {
    shuttle::check_dfs(|| together::<Checked>(nothing, &[open, extend, open], &[], the_longer_stayed), None);
}

#[test]
#[should_panic(expected = "left: ")]
fn a_window_that_looks_and_then_writes_is_caught() {
    shuttle::check_dfs(|| together::<LookThenWrite>(nothing, &[open, extend], &[], the_longer_stayed), None);
}

#[test]
fn a_clear_at_any_moment_wakes_whoever_waits() {
    let clear = || together::<Checked>(open_for_ever, &[clear], &[wait, wait], two_went);
    shuttle::check_random(clear, 5_000);
    shuttle::check_pct(clear, 5_000, 3);
}

#[test]
fn extensions_and_clears_at_any_moment_strand_nobody() {
    shuttle::check_random(
        || together::<Checked>(open, &[extend, let_pass, clear], &[wait, wait], two_went),
        5_000,
    );
    shuttle::check_random(
        || together::<Checked>(nothing, &[open_and_clear, let_pass], &[wait, wait], two_went),
        5_000,
    );
}

#[test]
fn one_who_gives_up_at_any_moment_strands_nobody() {
    let waiters: [Work<Checked>; 3] = [wait_impatiently, wait, wait];
    shuttle::check_random(move || together(open, &[let_pass], &waiters, at_least_two_went), 5_000);
    shuttle::check_pct(
        move || together(open_for_ever, &[clear, let_pass], &waiters, at_least_two_went),
        5_000,
        3,
    );
}

/// A window as a shelf sees it.
#[derive(Default)]
struct Thing {
    open: AtomicBool,
    on_shelf: AtomicBool,
}

impl Shelved for Thing {
    fn is_needed(&self) -> bool {
        self.open.load(Ordering::SeqCst)
    }

    fn mark(&self, on_shelf: bool) -> bool {
        self.on_shelf.swap(on_shelf, Ordering::SeqCst)
    }
}

/// What a registry does with its shelf, in the order given.
fn opened_while_the_shelf_lets_go(open_first: bool) {
    let shelf = Arc::new(Mutex::new(Shelf::new(0)));
    let thing = std::sync::Arc::new(Thing::default());
    let keep = |shelf: &Mutex<Shelf<Thing>>, thing: &std::sync::Arc<Thing>| {
        let gone = shelf.lock().unwrap().keep(thing);
        drop(gone);
    };
    let setter = {
        let (shelf, thing) = (Arc::clone(&shelf), std::sync::Arc::clone(&thing));
        thread::spawn(move || {
            if open_first {
                thing.open.store(true, Ordering::SeqCst);
                keep(&shelf, &thing);
            } else {
                keep(&shelf, &thing);
                thing.open.store(true, Ordering::SeqCst);
            }
        })
    };
    let flood = {
        let shelf = Arc::clone(&shelf);
        thread::spawn(move || {
            for _ in 0..2 {
                keep(&shelf, &std::sync::Arc::default());
            }
        })
    };
    setter.join().unwrap();
    flood.join().unwrap();
    // The test, and the shelf.
    assert_eq!(std::sync::Arc::strong_count(&thing), 2, "an open window was let go");
}

#[test]
fn a_window_opened_while_the_shelf_lets_go_is_kept() {
    shuttle::check_dfs(|| opened_while_the_shelf_lets_go(true), None);
}

#[test]
#[should_panic(expected = "an open window was let go")]
fn a_window_put_on_the_shelf_before_it_is_open_is_caught() {
    shuttle::check_dfs(|| opened_while_the_shelf_lets_go(false), None);
}
