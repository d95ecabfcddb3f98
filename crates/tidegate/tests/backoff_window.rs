//! Backoff windows as their users see them, on paused time.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tidegate::{BackoffWindow, Registry};
use tokio::task::JoinHandle;
use tokio::time::{Instant, advance};

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

fn window() -> BackoffWindow {
    Registry::new().for_key("api")
}

/// Waits in a task of its own, from now on; when it went, in milliseconds after `start`.
async fn waiter(window: &BackoffWindow, start: Instant) -> JoinHandle<u128> {
    let window = window.clone();
    let task = tokio::spawn(async move {
        window.wait().await;
        start.elapsed().as_millis()
    });
    // So that it has its place before anything else happens.
    tokio::task::yield_now().await;
    task
}

async fn waiters(count: usize, window: &BackoffWindow, start: Instant) -> Vec<JoinHandle<u128>> {
    let mut tasks = Vec::new();
    for _ in 0..count {
        tasks.push(waiter(window, start).await);
    }
    tasks
}

async fn went(tasks: Vec<JoinHandle<u128>>) -> Vec<u128> {
    let mut times = Vec::new();
    for task in tasks {
        times.push(task.await.unwrap());
    }
    times
}

#[test]
fn bw1_a_key_is_one_window_also_for_many_threads_at_once() {
    let registry = Registry::new();
    for round in 0..200 {
        let windows: Vec<BackoffWindow> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| registry.for_key(round))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(windows.iter().all(|window| *window == windows[0]));
    }
    windows_are_shared(&BackoffWindow::for_key("bw1"), &BackoffWindow::for_key(String::from("bw1")));
}

fn windows_are_shared(one: &BackoffWindow, other: &BackoffWindow) {
    assert_eq!(one, other);
    one.set(HOUR);
    assert!(other.clone().should_backoff());
    other.clear();
    assert!(!one.should_backoff());
}

#[test]
fn bw1_registries_isolate_and_a_name_is_one_registry() {
    let (one, other) = (Registry::new(), Registry::new());
    one.for_key("k").set(HOUR);
    assert!(!other.for_key("k").should_backoff());
    assert!(!BackoffWindow::for_key("k").should_backoff());

    let named: Vec<Registry> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| Registry::named("bw1"))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let first = named[0].for_key("k");
    assert!(named.iter().all(|registry| registry.for_key("k") == first));
    windows_are_shared(&first, &Registry::named("bw1").for_key("k"));
    assert_ne!(Registry::named("another").for_key("k"), first);
    assert_ne!(Registry::named("bw1").for_key(1), Registry::named("bw1").for_key("1"));
}

#[tokio::test(start_paused = true)]
async fn bw2_a_window_is_active_strictly_before_its_deadline() {
    let window = window();
    assert!(!window.should_backoff());
    assert_eq!(window.remaining(), Duration::ZERO);
    window.set(100 * MS);
    assert!(window.should_backoff());
    advance(50 * MS).await;
    assert!(window.should_backoff());
    assert_eq!(window.remaining(), 50 * MS);
    advance(50 * MS - Duration::from_nanos(1)).await;
    assert!(window.should_backoff());
    advance(Duration::from_nanos(1)).await;
    assert!(!window.should_backoff());
    advance(50 * MS).await;
    assert!(!window.should_backoff());
    assert_eq!(window.remaining(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn bw3_a_wait_lasts_for_what_is_left() {
    let window = window();
    window.wait().await;
    let start = Instant::now();
    window.set(100 * MS);
    advance(20 * MS).await;
    window.wait().await;
    assert_eq!(start.elapsed(), 100 * MS);
    window.wait().await;
    assert_eq!(start.elapsed(), 100 * MS, "nobody waits and it is not open: at once");
}

#[tokio::test(start_paused = true)]
async fn bw3_an_extension_is_waited_for_too() {
    let window = window();
    let start = Instant::now();
    window.set(100 * MS);
    let task = waiter(&window, start).await;
    advance(60 * MS).await;
    window.set(100 * MS);
    advance(50 * MS).await;
    window.set(70 * MS);
    assert_eq!(task.await.unwrap(), 180);
}

#[tokio::test(start_paused = true)]
async fn bw4_only_a_longer_window_changes_a_window() {
    let window = window();
    window.set(100 * MS);
    advance(10 * MS).await;
    window.set(5 * MS);
    assert_eq!(window.remaining(), 90 * MS);
    window.set(Duration::ZERO);
    assert_eq!(window.remaining(), 90 * MS);

    window.set(30_000 * MS);
    window.set(60_000 * MS);
    assert_eq!(window.remaining(), 60_000 * MS);

    advance(61_000 * MS).await;
    window.set(Duration::ZERO);
    assert!(!window.should_backoff());
    window.set(7 * MS);
    assert_eq!(window.remaining(), 7 * MS, "an expired window is simply replaced");
}

#[tokio::test(start_paused = true)]
async fn bw5_a_clear_wakes_at_once() {
    let window = window();
    let start = Instant::now();
    window.set(HOUR);
    let tasks = waiters(3, &window, start).await;
    advance(20 * MS).await;
    window.clear();
    assert!(!window.should_backoff());
    assert_eq!(went(tasks).await, [20, 25, 30]);
    window.clear();
    assert!(!window.should_backoff());
}

#[tokio::test(start_paused = true)]
async fn bw5_a_window_set_after_a_clear_holds_those_who_have_not_gone() {
    let window = window();
    let start = Instant::now();
    window.set(HOUR);
    let tasks = waiters(4, &window, start).await;
    window.clear();
    tokio::time::sleep(7 * MS).await;
    window.set(50 * MS);
    assert_eq!(went(tasks).await, [0, 5, 57, 62]);
}

#[tokio::test(start_paused = true)]
async fn bw6_the_first_goes_at_the_deadline_and_the_rest_5_ms_apart() {
    let window = window();
    let start = Instant::now();
    window.set(100 * MS);
    let mut tasks = waiters(3, &window, start).await;
    tokio::time::sleep(101 * MS).await;
    tasks.push(waiter(&window, start).await);
    assert_eq!(went(tasks).await, [100, 105, 110, 115], "the newcomer goes behind them");
}

#[tokio::test(start_paused = true)]
async fn bw6_a_thousand_are_gone_within_a_second() {
    let window = window();
    let start = Instant::now();
    window.set(100 * MS);
    let mut tasks = waiters(1_000, &window, start).await;
    tokio::time::sleep(600 * MS).await;
    let newcomer = tasks.len();
    tasks.push(waiter(&window, start).await);
    let times = went(tasks).await;
    assert_eq!(times[0], 100);
    assert!(times.is_sorted(), "in order of arrival");
    assert!(times.iter().all(|at| *at <= 1_100), "{:?}", times.last());
    assert!(times[newcomer] >= times[newcomer - 1]);
    for ms in 100..1_100 {
        let herd = times.iter().filter(|at| **at == ms).count();
        assert!(herd <= 3, "{herd} at {ms} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn bw6_a_window_opened_while_waiters_leave_holds_the_rest() {
    let window = window();
    let start = Instant::now();
    window.set(100 * MS);
    let tasks = waiters(4, &window, start).await;
    tokio::time::sleep(107 * MS).await;
    window.set(200 * MS);
    assert_eq!(went(tasks).await, [100, 105, 307, 312]);
}

#[tokio::test(start_paused = true)]
async fn bw6_no_time_changes_nothing_for_those_who_leave() {
    let window = window();
    let start = Instant::now();
    window.set(100 * MS);
    let tasks = waiters(3, &window, start).await;
    tokio::time::sleep(101 * MS).await;
    window.set(Duration::ZERO);
    window.clear();
    assert_eq!(went(tasks).await, [100, 105, 110]);
}

#[tokio::test(start_paused = true)]
async fn bw6_a_duration_beyond_the_clock_saturates() {
    let window = window();
    let start = Instant::now();
    window.set(Duration::MAX);
    assert!(window.should_backoff());
    assert!(window.remaining() > HOUR * 24 * 365 * 100);
    window.set(Duration::MAX);
    let task = waiter(&window, start).await;
    advance(HOUR).await;
    assert!(!task.is_finished());
    window.clear();
    assert_eq!(task.await.unwrap(), HOUR.as_millis());
}

#[tokio::test(start_paused = true)]
async fn bw6_an_idle_key_is_a_fresh_one_and_an_open_one_is_not_forgotten() {
    let registry = Registry::new();
    registry.for_key("limited").set(HOUR);
    let held = registry.for_key("held");
    for flood in 0..5_000 {
        let _ = registry.for_key(flood);
    }
    assert_eq!(registry.for_key("limited").remaining(), HOUR);
    assert_eq!(registry.for_key("held"), held);
    let keys = format!("{registry:?}");
    assert!(keys.contains("keys: 102"), "{keys}: 1024 of them stay, and those that must");
}

/// Of three waiters one is dropped, whichever and after however many polls: the other two go as if it had
/// never come, or, if it had gone before, as they would have.
#[tokio::test(start_paused = true)]
async fn a_wait_dropped_at_any_poll_leaves_no_gap() {
    for dropped in 0..3_usize {
        for polls in 0..=16 {
            let window = window();
            let start = Instant::now();
            window.set(100 * MS);
            let mut times = Vec::new();
            {
                let mut waits: Vec<_> = (0..3).map(|_| Some(Box::pin(window.wait()))).collect();
                let mut left = polls;
                // Polled in turn, once a millisecond and whenever the clock moves.
                while waits.iter().any(Option::is_some) {
                    for (index, slot) in waits.iter_mut().enumerate() {
                        if index == dropped && left == 0 {
                            *slot = None;
                        }
                        let Some(wait) = slot else { continue };
                        if index == dropped {
                            left -= 1;
                        }
                        if poll_once(wait.as_mut()).is_ready() {
                            times.push((index, start.elapsed().as_millis()));
                            *slot = None;
                        }
                    }
                    advance(if start.elapsed() < 98 * MS { 49 * MS } else { MS }).await;
                }
            }
            let others: Vec<u128> = times.iter().filter(|(i, _)| *i != dropped).map(|(_, at)| *at).collect();
            let gone_before = times.iter().any(|(i, _)| *i == dropped);
            let expected = match (gone_before, dropped) {
                (false, _) => vec![100, 105],
                (true, 0) => vec![105, 110],
                (true, 1) => vec![100, 110],
                (true, _) => vec![100, 105],
            };
            assert_eq!(others, expected, "waiter {dropped} dropped after {polls} polls");
        }
    }
}

fn poll_once<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// The same with real wake-ups: the second one is told when the first goes away.
#[tokio::test(start_paused = true)]
async fn a_task_aborted_at_any_moment_lets_the_others_move_up() {
    for moment in [0, 50, 99] {
        for first in 0..3_usize {
            let window = window();
            let start = Instant::now();
            window.set(100 * MS);
            let mut tasks = waiters(3, &window, start).await;
            tokio::time::sleep(Duration::from_millis(moment)).await;
            tasks.remove(first).abort();
            assert_eq!(went(tasks).await, [100, 105], "{first} aborted at {moment} ms");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_who_was_told_to_go_and_never_looks_costs_only_its_own_turn() {
    let window = window();
    let start = Instant::now();
    window.set(100 * MS);
    let mut stalled = pin!(window.wait());
    assert!(poll_once(stalled.as_mut()).is_pending());
    let tasks = waiters(2, &window, start).await;
    assert_eq!(went(tasks).await, [105, 110]);
    assert!(poll_once(stalled.as_mut()).is_ready());

    window.set(HOUR);
    let start = Instant::now();
    let mut tasks = waiters(1, &window, start).await;
    let mut stalled = pin!(window.wait());
    assert!(poll_once(stalled.as_mut()).is_pending());
    tasks.extend(waiters(2, &window, start).await);
    window.clear();
    assert_eq!(went(tasks).await, [0, 10, 15]);
}

#[test]
fn threads_wait_in_the_same_line() {
    let window = window();
    let start = std::time::Instant::now();
    window.set(50 * MS);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    window.wait_blocking();
                    start.elapsed()
                })
            })
            .collect();
        let mut times: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        times.sort();
        for (index, time) in times.iter().enumerate() {
            assert!(*time >= 50 * MS + 5 * MS * index as u32, "{times:?}");
        }
    });
}

#[test]
fn a_blocked_thread_is_woken_by_a_clear() {
    let window = window();
    window.set(HOUR);
    std::thread::scope(|scope| {
        let blocked = scope.spawn(|| window.wait_blocking());
        std::thread::sleep(10 * MS);
        window.clear();
        blocked.join().unwrap();
    });
}

#[test]
fn a_runtime_that_is_kept_and_not_run_holds_nobody_back() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let (idle, busy) = (runtime(), runtime());
    let window = window();
    window.set(50 * MS);
    let (first, other) = (window.clone(), window.clone());
    idle.block_on(async {
        tokio::spawn(async move { first.wait().await });
        tokio::task::yield_now().await;
    });
    let done = busy.block_on(async { tokio::time::timeout(5_000 * MS, other.wait()).await });
    assert!(done.is_ok(), "it waited for one that nobody runs");
}

/// Asks the window something when the last waker is gone, as a task might that goes with it.
struct AsksWhenDropped(BackoffWindow);

impl Wake for AsksWhenDropped {
    fn wake(self: Arc<Self>) {}
}

impl Drop for AsksWhenDropped {
    fn drop(&mut self) {
        self.0.clear();
    }
}

#[test]
fn a_waker_may_use_the_window_while_it_is_dropped() {
    let (done, finished) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _inside = runtime.enter();
        let window = window();
        let waker = || Waker::from(Arc::new(AsksWhenDropped(window.clone())));
        window.set(HOUR);
        let mut wait = Box::pin(window.wait());
        for _ in 0..2 {
            assert!(wait.as_mut().poll(&mut Context::from_waker(&waker())).is_pending());
            window.set(HOUR);
        }
        drop(wait);
        done.send(()).unwrap();
    });
    finished.recv_timeout(60_000 * MS).expect("it waits for itself");
}
