//! Building a dispatch, sharing it and finding it.

use std::time::Duration;

use tidegate::{BackoffWindow, Dispatch, DispatchError, Registry};

use crate::calls::{MS, counts, dispatch, hold, limiter};

#[tokio::test(start_paused = true)]
async fn d6_the_defaults_are_those_of_the_original() {
    let dispatch = dispatch(|builder| builder);
    dispatch.set_backoff(Duration::ZERO);
    let snapshot = dispatch.snapshot();
    let limits =
        [snapshot.concurrency, snapshot.throttled_concurrency, snapshot.bytes].map(|layer| layer.limit);
    assert_eq!(limits, [400, 10, 5 * 1024 * 1024]);
    assert_eq!(snapshot.backoff_left, Duration::from_secs(10));
    dispatch.with_rate_limit(1, || async { assert_eq!(counts(&dispatch), (1, 1, 20)) }).await;
}

#[test]
fn d6_what_cannot_be_is_refused_when_building_naming_the_field() {
    let builder = || Dispatch::builder(limiter());
    let zero = [
        (builder().concurrency(0), "concurrency"),
        (builder().throttled_concurrency(0), "throttled_concurrency"),
        (builder().byte_budget(0), "byte_budget"),
        (builder().byte_penalty_multiplier(0), "byte_penalty_multiplier"),
    ];
    for (builder, name) in zero {
        let error = builder.build().unwrap_err();
        assert!(matches!(error, DispatchError::Invalid { field, value: 0, .. } if field == name), "{error}");
        assert!(error.to_string().starts_with(&format!("`{name}` is 0")), "{error}");
    }
    let error = builder().byte_budget(u64::MAX).build().unwrap_err();
    assert!(matches!(error, DispatchError::Invalid { field: "byte_budget", .. }), "{error}");
    let error = builder().concurrency(4).throttled_concurrency(5).build().unwrap_err();
    assert_eq!(error, DispatchError::ThrottledAboveNormal { throttled: 5, concurrency: 4 });
    assert!(error.to_string().contains("`throttled_concurrency`"), "{error}");
    assert!(builder().concurrency(5).throttled_concurrency(5).build().is_ok());
    let small = builder().concurrency(4).build().unwrap();
    assert_eq!(small.snapshot().throttled_concurrency.limit, 4, "a default is no contradiction");
}

#[tokio::test(start_paused = true)]
async fn d6_dispatches_with_one_key_share_their_counts_and_cannot_differ() {
    let limiter = limiter();
    let builder = || Dispatch::builder(limiter.clone()).key("d6").concurrency(2);
    let (one, other) = (builder().build().unwrap(), builder().build().unwrap());
    assert_eq!(one, other);
    let held = hold(&one, 10).await;
    assert_eq!(counts(&other), (1, 0, 10));
    held.end().await;

    let different = [
        (builder().concurrency(3), "concurrency"),
        (builder().throttled_concurrency(1), "throttled_concurrency"),
        (builder().byte_budget(1), "byte_budget"),
        (builder().backoff_window(MS), "backoff_window"),
        (builder().byte_penalty_multiplier(1), "byte_penalty_multiplier"),
        (Dispatch::builder(Registry::new().for_key("other")).key("d6").concurrency(2), "limiter"),
    ];
    for (builder, field) in different {
        let error = builder.build().unwrap_err();
        assert_eq!(error, DispatchError::Differs { key: "d6".into(), field });
        assert!(error.to_string().contains(&format!("`{field}`")), "{error}");
    }
    drop((one, other));
    assert!(builder().concurrency(3).build().is_ok(), "nobody has the key any more");
}

#[test]
fn d6_a_key_is_one_dispatch_also_for_many_threads_at_once() {
    let limiter = limiter();
    for round in 0..200 {
        let built: Vec<Dispatch> = std::thread::scope(|scope| {
            let build = || Dispatch::builder(limiter.clone()).key(round).build().unwrap();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(build)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(built.iter().all(|dispatch| *dispatch == built[0]));
    }
}

#[tokio::test(start_paused = true)]
async fn d10_a_dispatch_is_shared_by_clone_or_found_by_name() {
    let dispatch = Dispatch::builder(BackoffWindow::for_key("d10")).key("d10").build().unwrap();
    let found = Dispatch::named("d10").unwrap();
    assert_eq!(found, dispatch.clone());
    found.set_backoff(100 * MS);
    assert!(dispatch.snapshot().backoff_active);
    let held = hold(&found, 1).await;
    assert_eq!(counts(&dispatch), (1, 1, 20));
    held.end().await;
}

#[test]
fn d10_an_unknown_name_is_an_error_and_so_is_one_that_nobody_has_any_more() {
    let error = Dispatch::named("d10-unknown").unwrap_err();
    assert_eq!(error, DispatchError::Unknown { key: "d10-unknown".into() });
    assert!(error.to_string().contains("d10-unknown"), "{error}");
    drop(Dispatch::builder(limiter()).key("d10-gone").build().unwrap());
    assert!(Dispatch::named("d10-gone").is_err());
}
