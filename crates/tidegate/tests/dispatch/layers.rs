//! The three layers: what a call holds, who waits for whom, and what comes back.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate::Dispatch;
use tokio::time::{Instant, sleep};

use crate::calls::{Held, MS, counts, dispatch, hold, limiter, settle};

#[tokio::test(start_paused = true)]
async fn d1_a_call_holds_a_slot_and_its_bytes_and_its_value_is_returned() {
    let dispatch = dispatch(|builder| builder.byte_budget(100));
    let value = dispatch
        .with_rate_limit(10, || async {
            let inside = dispatch.snapshot();
            assert_eq!(counts(&dispatch), (1, 0, 10));
            assert_eq!((inside.concurrency.limit, inside.bytes.limit), (400, 100));
            assert!(!inside.backoff_active);
            "its own"
        })
        .await;
    assert_eq!(value, "its own");
    assert_eq!(counts(&dispatch), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn d1_a_call_that_fails_panics_or_is_dropped_leaves_nothing_behind() {
    let dispatch = dispatch(|builder| builder);
    dispatch.set_backoff(MS);

    let failed: Result<(), &str> = dispatch.with_rate_limit(10, || async { Err("no") }).await;
    assert_eq!(failed, Err("no"));
    assert_eq!(counts(&dispatch), (0, 0, 0));

    let panics = dispatch.clone();
    let panicked =
        tokio::spawn(async move { panics.with_rate_limit(10, || async { panic!("inside") }).await });
    assert!(panicked.await.unwrap_err().is_panic());
    assert_eq!(counts(&dispatch), (0, 0, 0));

    let panics = dispatch.clone();
    let call = || -> std::future::Ready<()> { panic!("before there is a future") };
    let panicked = tokio::spawn(async move { panics.with_rate_limit(10, call).await });
    assert!(panicked.await.unwrap_err().is_panic());
    assert_eq!(counts(&dispatch), (0, 0, 0));

    let dropped = hold(&dispatch, 10).await;
    assert_eq!(counts(&dispatch), (1, 1, 200));
    dropped.abort().await;
    assert_eq!(counts(&dispatch), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn d5_an_oversize_body_passes_and_then_everybody_waits_also_with_no_bytes() {
    let dispatch = dispatch(|builder| builder.byte_budget(100));
    let large = hold(&dispatch, 1_000).await;
    assert_eq!(counts(&dispatch), (1, 0, 1_000));
    let small = Held::start(&dispatch, 0);
    settle().await;
    assert_eq!(dispatch.snapshot().bytes.waiting, 1);
    large.end().await;
    settle().await;
    assert!(small.is_in_flight());
    small.end().await;
}

#[tokio::test(start_paused = true)]
async fn d5_at_a_balance_of_zero_one_more_goes() {
    let dispatch = dispatch(|builder| builder.byte_budget(100));
    let held = [hold(&dispatch, 100).await, hold(&dispatch, 1).await];
    assert_eq!(counts(&dispatch), (2, 0, 101));
    let third = Held::start(&dispatch, 1);
    settle().await;
    assert!(!third.is_in_flight());
    for held in held {
        held.end().await;
    }
    settle().await;
    third.end().await;
}

#[tokio::test(start_paused = true)]
async fn d5_those_who_wait_go_in_order_of_arrival() {
    let dispatch = dispatch(|builder| builder.byte_budget(100));
    let large = hold(&dispatch, 101).await;
    let mut waiting = Vec::new();
    for bytes in [150, 0, 150, 10] {
        waiting.push(Held::start(&dispatch, bytes));
        settle().await;
    }
    large.end().await;
    for (index, first) in (0..4).zip([vec![0], vec![1, 2], vec![2], vec![3]]) {
        settle().await;
        let going: Vec<_> = (index..4).filter(|at| waiting[*at].is_in_flight()).collect();
        assert_eq!(going, first);
        waiting[index].finish().await;
    }
}

#[tokio::test(start_paused = true)]
async fn d8_a_call_that_waits_for_an_inner_layer_holds_no_outer_slot() {
    let dispatch = dispatch(|builder| builder.concurrency(2).throttled_concurrency(1).byte_budget(1_000));
    dispatch.set_backoff(Duration::from_secs(3600));
    let throttled = hold(&dispatch, 1).await;
    let waits = Held::start(&dispatch, 1);
    settle().await;
    assert_eq!(counts(&dispatch), (1, 1, 20), "it took nothing");
    let snapshot = dispatch.snapshot();
    let waiting =
        [snapshot.concurrency, snapshot.throttled_concurrency, snapshot.bytes].map(|layer| layer.waiting);
    assert_eq!(waiting, [0, 1, 0]);
    throttled.end().await;
    settle().await;
    assert!(waits.is_in_flight());
    waits.end().await;
}

#[tokio::test(start_paused = true)]
async fn d9_a_call_waits_for_hours_if_it_must() {
    let dispatch = dispatch(|builder| builder.concurrency(1));
    let start = Instant::now();
    let running = hold(&dispatch, 1).await;
    let queued = Held::start(&dispatch, 1);
    sleep(Duration::from_secs(365 * 86_400)).await;
    assert!(!queued.is_in_flight());
    running.end().await;
    queued.end().await;
    assert_eq!(start.elapsed(), Duration::from_secs(365 * 86_400));
}

#[tokio::test(start_paused = true)]
async fn d9_twenty_thousand_wait_and_all_of_them_go() {
    let dispatch = dispatch(|builder| builder.concurrency(100));
    let start = Instant::now();
    let calls = (0..20_000).map(|_| {
        let dispatch = dispatch.clone();
        tokio::spawn(async move { dispatch.with_rate_limit(1, || sleep(10 * MS)).await })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
    assert_eq!(start.elapsed(), 2_000 * MS);
    assert_eq!(counts(&dispatch), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_may_not_wait_long_is_refused_by_the_layer_that_had_no_room() {
    let dispatch = dispatch(|builder| builder.concurrency(1));
    let held = hold(&dispatch, 1).await;
    let start = Instant::now();
    for (timeout, took) in [(Duration::ZERO, Duration::ZERO), (100 * MS, 100 * MS)] {
        let start = Instant::now();
        let refused = dispatch.with_rate_limit_within(timeout, 1, || async { unreachable!() }).await;
        let refused: tidegate::Refused = refused.map(|(): ()| ()).unwrap_err();
        assert_eq!(refused.limit(), Some("dispatch/concurrency"));
        assert_eq!(start.elapsed(), took);
    }
    held.end().await;
    let went = dispatch.with_rate_limit_within(Duration::ZERO, 1, || sleep(300 * MS)).await;
    assert!(went.is_ok(), "its own time is not bounded");
    assert_eq!(start.elapsed(), 400 * MS);
}

#[test]
fn threads_and_tasks_wait_in_one_queue() {
    let dispatch = Dispatch::builder(limiter()).concurrency(1).build().unwrap();
    let most = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (dispatch, most) = (&dispatch, &most);
            scope.spawn(move || {
                for round in 0..200 {
                    match round % 50 {
                        0 => dispatch.set_backoff(MS),
                        25 => dispatch.limiter().clear(),
                        _ => {}
                    }
                    dispatch.with_rate_limit_blocking(10, || {
                        most.fetch_max(counts(dispatch).0, Ordering::Relaxed);
                    });
                }
            });
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            for _ in 0..200 {
                dispatch.with_rate_limit(10, tokio::task::yield_now).await;
            }
        });
    });
    assert_eq!(most.load(Ordering::Relaxed), 1);
    assert_eq!(counts(&dispatch), (0, 0, 0));
}

#[test]
fn a_blocking_call_that_panics_leaves_nothing_behind() {
    let dispatch = Dispatch::builder(limiter()).build().unwrap();
    let call = || dispatch.with_rate_limit_blocking(10, || panic!("inside"));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).is_err());
    assert_eq!(counts(&dispatch), (0, 0, 0));
}
