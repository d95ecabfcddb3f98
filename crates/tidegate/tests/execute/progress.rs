//! What a waiting call tells of itself.

use super::*;

#[tokio::test(start_paused = true)]
async fn r4_progress_is_told_before_each_wait_and_once_a_second_during_it() {
    let gate = plain();
    let start = Instant::now();
    let mut told: Vec<(u32, u64, Progress)> = Vec::new();
    let op = |attempt: tidegate::Attempt| async move {
        if attempt.number() <= 2 { Err(too_fast()) } else { Ok(()) }
    };
    let call = gate.execute(Call::default().tokens(10), op).on_progress(|progress| {
        told.push((progress.attempt, start.elapsed().as_secs(), progress.clone()));
    });
    call.await.expect("done");
    let when: Vec<(u32, u64)> = told.iter().map(|(attempt, second, _)| (*attempt, *second)).collect();
    assert_eq!(when, [(2, 0), (3, 1), (3, 2)], "a wait of one second, and one of two");
    let last = &told[2].2;
    assert_eq!((last.delay, last.expected_wait), (Some(2 * SECOND), Some(SECOND)));
    assert_eq!((last.limit.as_deref(), last.position), (None, None));
    assert_eq!(last.tokens_left, Some(1000), "what was refused cost nothing");
    assert_eq!(last.to_string(), "attempt 3 in 1.0s, 1000 left");
}

#[tokio::test(start_paused = true)]
async fn r4_progress_is_told_in_the_queue_too() {
    let gate = plain();
    gate.try_acquire(Call::default().tokens(1000)).expect("full at first").finish(Outcome::done());
    let mut told = Vec::new();
    let call = gate.execute(Call::default().tokens(4), |_| async { Ok::<_, Failed>(()) });
    call.on_progress(|progress| told.push(progress.clone())).await.expect("in time");
    assert_eq!(told.len(), 3, "4 tokens take 2.4 seconds: {told:?}");
    let whole = Some(2400 * MS);
    assert_eq!((told[0].attempt, told[0].position), (1, Some(1)));
    assert_eq!((told[0].delay, told[0].expected_wait), (whole, whole));
    assert_eq!((told[2].delay, told[2].expected_wait, told[2].tokens_left), (whole, Some(400 * MS), Some(3)));
    assert_eq!(told[0].to_string(), "attempt 1 in 2.4s, number 1 in line at `simple/tokens/1m`, 0 left");
}

#[tokio::test(start_paused = true)]
async fn r4_a_listener_that_panics_is_told_no_more_and_harms_nobody() {
    let gate = plain();
    let (panicked, told) = (AtomicU32::new(0), AtomicU32::new(0));
    let op = |attempt: tidegate::Attempt| async move {
        if attempt.number() <= 2 { Err(too_fast()) } else { Ok("data") }
    };
    let call = gate.execute(Call::default(), op).on_progress(|_| {
        panicked.fetch_add(1, Ordering::Relaxed);
        panic!("the listener's own trouble");
    });
    let call = call.on_progress(|_| {
        told.fetch_add(1, Ordering::Relaxed);
    });
    assert_eq!(call.await.expect("done"), "data");
    assert_eq!((panicked.into_inner(), told.into_inner()), (1, 3));
}

#[tokio::test(start_paused = true)]
async fn r4_progress_as_a_stream_ends_with_the_call() {
    let gate = plain();
    let mut call = gate.execute(Call::default(), |attempt| async move {
        if attempt.is_retry() { Ok(()) } else { Err(too_fast()) }
    });
    let mut progress = call.progress();
    // Lent and not given: the stream ends though what told it is still there.
    (&mut call).await.expect("done");
    assert_eq!(progress.next().await.expect("told before it waited").attempt, 2);
    let end = tokio::time::timeout(SECOND, progress.next()).await;
    assert_eq!(end.expect("the stream ends too"), None);
}
