//! Calls of a dispatch that are dropped or panic at every point at which they can: nothing is left behind, and
//! nobody waits for longer because of it.

use std::future::{Future, poll_fn};
use std::task::Poll;
use std::time::Duration;

use tidegate::Dispatch;
use tokio::time::{Instant, sleep};

use crate::calls::{MS, counts, dispatch};

/// How a call meets its end.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// Dropped right after it was polled so many times.
    AfterPoll(usize),
    /// Dropped when it is woken for the poll after that, in place of it.
    InsteadOfPoll(usize),
    /// Panics when its own part is polled for that time.
    Panic(usize),
}

/// The future, as far as it comes: what it returned, if it came to its end.
async fn until<F: Future>(end: End, future: F) -> Option<F::Output> {
    let mut future = Box::pin(future);
    let mut polls = 0;
    poll_fn(move |context| {
        if end == End::InsteadOfPoll(polls) || end == End::AfterPoll(0) {
            return Poll::Ready(None);
        }
        polls += 1;
        match future.as_mut().poll(context) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending if end == End::AfterPoll(polls) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Three steps of work, of which one may be the last.
async fn work(end: Option<End>) {
    for step in 0..3 {
        assert!(end != Some(End::Panic(step)), "the call fails");
        sleep(10 * MS).await;
    }
}

/// What happens to the window while calls wait and go.
#[derive(Clone, Copy, Debug)]
enum Weather {
    Fair,
    /// Throttled from before the first call to after the last.
    Throttled,
    /// Throttled in the middle of it, by somebody else.
    Changing,
}

const CALLERS: usize = 4;

/// Plays `CALLERS` calls, one of which comes to that end. When the others were done, and whether that one was.
async fn play(weather: Weather, victim: usize, end: End) -> (Vec<Duration>, bool) {
    let dispatch = dispatch(|builder| {
        let builder = builder.concurrency(2).throttled_concurrency(1).byte_budget(100);
        builder.byte_penalty_multiplier(2).backoff_window(20 * MS)
    });
    let start = Instant::now();
    if let Weather::Throttled = weather {
        dispatch.set_backoff(Duration::from_secs(3600));
    }
    let call = |caller: usize| {
        let dispatch: Dispatch = dispatch.clone();
        tokio::spawn(async move {
            let end = (caller == victim).then_some(end);
            let call = dispatch.with_rate_limit(60, || work(end));
            let done = match end {
                Some(end) => until(end, call).await.is_some(),
                None => {
                    call.await;
                    true
                }
            };
            (start.elapsed(), done)
        })
    };
    let calls: Vec<_> = (0..CALLERS).map(call).collect();
    if let Weather::Changing = weather {
        sleep(15 * MS).await;
        dispatch.limiter().set(10 * MS);
    }
    let (mut others, mut done) = (Vec::new(), false);
    for (caller, call) in calls.into_iter().enumerate() {
        match call.await {
            Ok((_, came_to_its_end)) if caller == victim => done = came_to_its_end,
            Ok((elapsed, _)) => others.push(elapsed),
            Err(error) => assert!(error.is_panic() && caller == victim, "{error}"),
        }
    }
    assert_eq!(counts(&dispatch), (0, 0, 0), "{weather:?}, {victim} at {end:?}");
    let snapshot = dispatch.snapshot();
    for layer in [snapshot.concurrency, snapshot.throttled_concurrency, snapshot.bytes] {
        assert_eq!(layer.waiting, 0, "{weather:?}, {victim} at {end:?}");
    }
    (others, done)
}

/// Plays every end of that kind for every caller, up to the one that comes too late; how many there were.
async fn play_all(weather: Weather, end: fn(usize) -> End) -> usize {
    let mut played = 0;
    for victim in 0..CALLERS {
        let (undisturbed, done) = play(weather, victim, end(usize::MAX)).await;
        assert!(done);
        for at in 0.. {
            let (others, done) = play(weather, victim, end(at)).await;
            for (other, before) in others.iter().zip(&undisturbed) {
                assert!(other <= before, "{weather:?}, {victim} at {:?}: {other:?}, {before:?}", end(at));
            }
            if done {
                break;
            }
            played += 1;
        }
    }
    played
}

#[tokio::test(start_paused = true)]
async fn a_call_dropped_after_any_poll_leaves_nothing_behind() {
    for weather in [Weather::Fair, Weather::Throttled, Weather::Changing] {
        assert!(play_all(weather, End::AfterPoll).await >= 4 * CALLERS, "{weather:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_dropped_before_any_poll_it_was_woken_for_leaves_nothing_behind() {
    for weather in [Weather::Fair, Weather::Throttled, Weather::Changing] {
        assert!(play_all(weather, End::InsteadOfPoll).await >= 4 * CALLERS, "{weather:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_panics_at_any_step_leaves_nothing_behind() {
    for weather in [Weather::Fair, Weather::Throttled, Weather::Changing] {
        assert_eq!(play_all(weather, End::Panic).await, 3 * CALLERS, "{weather:?}");
    }
}
