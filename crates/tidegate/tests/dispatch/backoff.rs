//! After a 429: when calls go throttled, and what that means for them.

use std::time::Duration;

use tidegate::Dispatch;
use tokio::time::{Instant, advance, sleep};

use crate::calls::{Held, MS, counts, dispatch, hold, limiter, settle};

const TAIL: Duration = Duration::from_secs(10);

#[tokio::test(start_paused = true)]
async fn d2_after_set_backoff_a_call_holds_a_throttled_slot_too_and_its_bytes_count_several_times() {
    let limiter = limiter();
    let dispatch = Dispatch::builder(limiter.clone()).byte_penalty_multiplier(10).build().unwrap();
    dispatch.set_backoff(100 * MS);
    let snapshot = dispatch.snapshot();
    assert!(snapshot.backoff_active);
    assert_eq!((snapshot.window_left, snapshot.backoff_left), (100 * MS, 100 * MS + TAIL));
    assert!(limiter.should_backoff());
    assert_eq!(limiter.remaining(), 100 * MS);
    dispatch.with_rate_limit(5, || async { assert_eq!(counts(&dispatch), (1, 1, 50)) }).await;
    assert_eq!(counts(&dispatch), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn d2_a_call_gives_back_what_it_took_though_the_mode_changed_meanwhile() {
    let dispatch = dispatch(|builder| builder.byte_penalty_multiplier(10));
    let before = hold(&dispatch, 5).await;
    dispatch.set_backoff(100 * MS);
    let throttled = hold(&dispatch, 5).await;
    assert_eq!(counts(&dispatch), (2, 1, 55));
    before.end().await;
    assert_eq!(counts(&dispatch), (1, 1, 50));
    dispatch.clear_backoff();
    let after = hold(&dispatch, 5).await;
    assert_eq!(counts(&dispatch), (2, 1, 55));
    throttled.end().await;
    assert_eq!(counts(&dispatch), (1, 0, 5));
    after.end().await;
    assert_eq!(counts(&dispatch), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn d3_a_window_set_by_somebody_else_throttles_this_dispatch_too() {
    let limiter = limiter();
    let dispatch = Dispatch::builder(limiter.clone()).build().unwrap();
    limiter.set(100 * MS);
    // Nobody asked the dispatch anything meanwhile: it was told.
    dispatch.with_rate_limit(5, || async { assert_eq!(counts(&dispatch), (1, 1, 100)) }).await;
    assert!(dispatch.snapshot().backoff_active);
}

#[tokio::test(start_paused = true)]
async fn d3_a_window_that_was_open_before_the_dispatch_was_there_counts_and_one_that_has_passed_does_not() {
    let limiter = limiter();
    limiter.set(100 * MS);
    let during = Dispatch::builder(limiter.clone()).build().unwrap();
    during.with_rate_limit(5, || async { assert_eq!(counts(&during), (1, 1, 100)) }).await;
    assert_eq!(during.snapshot().backoff_left, 100 * MS + TAIL);
    advance(100 * MS).await;
    let after = Dispatch::builder(limiter).build().unwrap();
    assert!(!after.snapshot().backoff_active);
    assert!(during.snapshot().backoff_active, "in its tail");
}

#[tokio::test(start_paused = true)]
async fn d3_one_dispatch_sets_the_window_of_all_that_share_it() {
    let limiter = limiter();
    let [one, other] = [(); 2].map(|()| Dispatch::builder(limiter.clone()).build().unwrap());
    one.set_backoff(100 * MS);
    other.with_rate_limit(5, || async { assert_eq!(counts(&other), (1, 1, 100)) }).await;
    assert_eq!(other.snapshot(), one.snapshot());
    other.clear_backoff();
    assert!(!one.snapshot().backoff_active);
    assert!(!limiter.should_backoff());
}

#[tokio::test(start_paused = true)]
async fn d4_throttled_mode_lasts_for_the_window_and_the_tail_after_it() {
    let dispatch = dispatch(|builder| builder.backoff_window(200 * MS));
    dispatch.set_backoff(100 * MS);
    for (passed, active, window_left, left) in
        [(99, true, 1, 201), (1, true, 0, 200), (199, true, 0, 1), (1, false, 0, 0)]
    {
        advance(passed * MS).await;
        let snapshot = dispatch.snapshot();
        assert_eq!(snapshot.backoff_active, active, "{snapshot:?}");
        assert_eq!((snapshot.window_left, snapshot.backoff_left), (window_left * MS, left * MS));
        let throttled = u64::from(active);
        dispatch.with_rate_limit(0, || async { assert_eq!(counts(&dispatch), (1, throttled, 0)) }).await;
    }
}

#[tokio::test(start_paused = true)]
async fn d4_no_time_at_all_still_leaves_the_tail() {
    let dispatch = dispatch(|builder| builder);
    dispatch.set_backoff(Duration::ZERO);
    assert!(!dispatch.limiter().should_backoff());
    let snapshot = dispatch.snapshot();
    assert!(snapshot.backoff_active);
    assert_eq!((snapshot.window_left, snapshot.backoff_left), (Duration::ZERO, TAIL));
    advance(TAIL).await;
    assert!(!dispatch.snapshot().backoff_active);
}

#[tokio::test(start_paused = true)]
async fn d4_a_window_set_by_others_leaves_the_same_tail() {
    let limiter = limiter();
    let dispatch = Dispatch::builder(limiter.clone()).build().unwrap();
    limiter.set(100 * MS);
    advance(100 * MS).await;
    assert!(!limiter.should_backoff());
    assert_eq!(dispatch.snapshot().backoff_left, TAIL);
    advance(TAIL - MS).await;
    assert!(dispatch.snapshot().backoff_active);
    advance(MS).await;
    assert!(!dispatch.snapshot().backoff_active);
}

#[tokio::test(start_paused = true)]
async fn d4_the_later_end_always_wins() {
    let limiter = limiter();
    let dispatch = Dispatch::builder(limiter.clone()).build().unwrap();
    dispatch.set_backoff(500 * MS);
    limiter.set(100 * MS);
    dispatch.set_backoff(Duration::ZERO);
    assert_eq!(dispatch.snapshot().backoff_left, 500 * MS + TAIL);
    limiter.set(700 * MS);
    assert_eq!(dispatch.snapshot().backoff_left, 700 * MS + TAIL);
    advance(700 * MS + TAIL - MS).await;
    dispatch.set_backoff(Duration::ZERO);
    assert_eq!(dispatch.snapshot().backoff_left, TAIL);
}

#[tokio::test(start_paused = true)]
async fn d4_a_clear_ends_window_and_tail() {
    let limiter = limiter();
    let dispatch = Dispatch::builder(limiter.clone()).build().unwrap();
    dispatch.set_backoff(100 * MS);
    limiter.clear();
    assert!(!dispatch.snapshot().backoff_active, "cleared by somebody else");
    dispatch.set_backoff(100 * MS);
    advance(200 * MS).await;
    dispatch.clear_backoff();
    assert!(!dispatch.snapshot().backoff_active, "cleared in the tail");
    limiter.set(100 * MS);
    limiter.clear();
    limiter.set(50 * MS);
    assert_eq!(dispatch.snapshot().backoff_left, 50 * MS + TAIL, "set again after it was cleared");
}

#[tokio::test(start_paused = true)]
async fn d7_an_open_window_puts_nobody_to_sleep() {
    let dispatch = dispatch(|builder| builder);
    dispatch.set_backoff(Duration::from_secs(3600));
    let start = Instant::now();
    for _ in 0..100 {
        dispatch.with_rate_limit(10, || async {}).await;
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn d7_while_throttled_as_many_go_as_may_and_the_others_wait_for_them() {
    let dispatch = dispatch(|builder| builder.throttled_concurrency(2));
    dispatch.set_backoff(Duration::from_secs(3600));
    let start = Instant::now();
    let calls = (0..6).map(|_| {
        let dispatch = dispatch.clone();
        tokio::spawn(async move {
            dispatch.with_rate_limit(1, || sleep(100 * MS)).await;
            start.elapsed().as_millis()
        })
    });
    let mut ends = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        ends.push(call.await.unwrap());
    }
    assert_eq!(ends, [100, 100, 200, 200, 300, 300]);
}

#[tokio::test(start_paused = true)]
async fn d9_calls_that_queued_before_the_429_go_out_throttled() {
    let dispatch = dispatch(|builder| builder.concurrency(2).throttled_concurrency(1));
    let running = [hold(&dispatch, 1).await, hold(&dispatch, 1).await];
    let queued = [Held::start(&dispatch, 1), Held::start(&dispatch, 1)];
    settle().await;
    assert_eq!(dispatch.snapshot().concurrency.waiting, 2);
    dispatch.set_backoff(Duration::from_secs(3600));
    for running in running {
        running.end().await;
    }
    settle().await;
    assert_eq!(counts(&dispatch), (1, 1, 20));
    assert_eq!(queued.each_ref().map(Held::is_in_flight), [true, false]);
    for queued in queued {
        queued.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn d9_calls_that_queued_while_throttled_go_as_soon_as_that_is_over() {
    let dispatch = dispatch(|builder| builder.throttled_concurrency(1).backoff_window(200 * MS));
    dispatch.set_backoff(100 * MS);
    let start = Instant::now();
    let running = hold(&dispatch, 1).await;
    let went =
        |dispatch: Dispatch| async move { dispatch.with_rate_limit(1, || async { start.elapsed() }).await };
    let queued = [tokio::spawn(went(dispatch.clone())), tokio::spawn(went(dispatch.clone()))];
    for queued in queued {
        assert_eq!(queued.await.unwrap(), 300 * MS, "at the end of the tail, without a poll in between");
    }
    running.end().await;

    dispatch.set_backoff(Duration::from_secs(3600));
    let running = hold(&dispatch, 1).await;
    let queued = Held::start(&dispatch, 1);
    settle().await;
    assert!(!queued.is_in_flight());
    dispatch.limiter().clear();
    settle().await;
    assert!(queued.is_in_flight(), "somebody else's clear is at once");
    queued.end().await;
    running.end().await;
}
