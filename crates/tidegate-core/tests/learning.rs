//! What replies teach the engine: N, what others take, how the upstream counts, and limits that nobody states.

mod common;

use std::time::Duration;

use tidegate_core::engine::{Ended, Engine, Fate, LearnedLimit, Lesson, Told};
use tidegate_core::{Algorithm, Call, Cost, Dimension, Grant, Nanos};

use common::plain::{at, engine};

const LIMIT: &str = "api/requests/1m";

/// 600 a minute, more than a call every 100 ms.
fn plain(more: &str) -> Engine {
    engine(&format!("[services.api]\nrequests = \"600/min\"\n{more}"))
}

fn go(engine: &mut Engine, ms: u64) -> Grant {
    engine.try_admit(&Call::to("api"), at(ms)).expect("it may go")
}

/// A reply that tells of requests.
fn told(limit: u64, remaining: u64, reset: impl Into<Option<u64>>) -> Ended {
    let reset = reset.into().map(Duration::from_millis);
    let (limit, remaining) = (Some(limit), Some(remaining));
    let told = Told { dimension: Dimension::Requests, window: None, limit, remaining, reset };
    Ended { told: vec![told], ..Fate::Answered.into() }
}

fn turned_away(ended: Ended) -> Ended {
    Ended { fate: Fate::TurnedAway { wait: Some(Duration::ZERO), by: Vec::new(), in_flight: false }, ..ended }
}

fn used(engine: &mut Engine, ms: u64) -> u64 {
    engine.limit(LIMIT, at(ms)).expect("it is there").used
}

fn learned(engine: &mut Engine, ms: u64) -> LearnedLimit {
    engine.learned(at(ms)).pop().expect("something was learned")
}

/// A first call, of which a reply tells that nothing is missing but itself: from then on calls are marked.
fn mirrored(mut engine: Engine) -> Engine {
    let first = go(&mut engine, 0);
    engine.end_call(first, &told(600, 599, 60_000), at(0));
    engine
}

#[test]
fn what_is_missing_beside_our_own_was_taken_by_others() {
    let mut engine = mirrored(plain(""));
    let call = go(&mut engine, 1_000);
    engine.end_call(call, &told(600, 500, 60_000), at(2_000));
    assert_eq!(used(&mut engine, 2_000), 100, "two of ours, and 98 of others");
    assert_eq!(used(&mut engine, 62_500), 0, "they expire like ours");
}

#[test]
fn replies_about_the_same_missing_units_charge_them_once_and_a_higher_one_gives_them_back() {
    let mut engine = mirrored(plain(""));
    let calls = [1_000, 1_200, 1_400].map(|ms| go(&mut engine, ms));
    for (call, remaining) in calls.into_iter().zip([500, 499, 498]) {
        engine.end_call(call, &told(600, remaining, 60_000), at(2_000));
    }
    assert_eq!(used(&mut engine, 2_000), 102, "98 of others, once");
    let call = go(&mut engine, 2_100);
    engine.end_call(call, &told(600, 595, 60_000), at(2_200));
    assert_eq!(used(&mut engine, 2_200), 5, "it was nobody after all");
}

#[test]
fn what_is_told_about_an_earlier_call_comes_too_late() {
    let mut engine = mirrored(plain(""));
    let [early, late] = [1_000, 1_100].map(|ms| go(&mut engine, ms));
    engine.end_call(late, &told(600, 597, 60_000), at(1_500));
    engine.end_call(early, &told(600, 100, 60_000), at(1_600));
    assert_eq!(used(&mut engine, 1_600), 3);
}

#[test]
fn what_is_restored_sooner_than_our_window_ends_counts_no_longer() {
    let mut engine = mirrored(plain(""));
    let call = go(&mut engine, 1_000);
    engine.end_call(call, &told(600, 500, 20_000), at(2_000));
    assert_eq!(used(&mut engine, 20_900), 100);
    engine.advance(at(21_200));
    assert_eq!(used(&mut engine, 21_200), 2, "the upstream's window is over, ours is not");
}

#[test]
fn headers_lower_what_is_written_and_never_lift_it() {
    let mut engine = plain("");
    let calls = [0, 100, 200].map(|ms| go(&mut engine, ms));
    let in_force = |engine: &mut Engine, call, limit| {
        engine.end_call(call, &told(limit, limit - 1, 60_000), at(300));
        engine.limit(LIMIT, at(300)).expect("it is there").capacity
    };
    let [one, two, three] = calls;
    assert_eq!(in_force(&mut engine, one, 300), 300);
    assert_eq!(in_force(&mut engine, two, 900), 600, "a ceiling");
    assert_eq!(in_force(&mut engine, three, 600), 600);
    let lessons = engine.lessons();
    assert!(
        matches!(lessons[0], Lesson::Units { ref limit, told: 300, in_force: 300 } if **limit == *LIMIT),
        "{lessons:?}"
    );
}

#[test]
fn a_service_may_believe_headers_in_everything_or_in_nothing() {
    for (mode, capacity, counts) in [("authoritative", 900, 400), ("ignore", 600, 2), ("follow", 600, 100)] {
        let mut engine = mirrored(plain(&format!("headers = \"{mode}\"")));
        let call = go(&mut engine, 1_000);
        engine.end_call(call, &told(900, 500, 60_000), at(1_100));
        let status = engine.limit(LIMIT, at(1_100)).expect("it is there");
        assert_eq!((status.capacity, status.used), (capacity, counts), "{mode}");
    }
}

#[test]
fn a_small_number_that_is_whole_again_at_once_is_a_burst_and_not_n() {
    let mut engine = plain("");
    let call = go(&mut engine, 0);
    engine.end_call(call, &told(10, 9, 100), at(50));
    assert_eq!(engine.limit(LIMIT, at(50)).expect("it is there").capacity, 600);
}

/// Plays a call every 100 ms, as far as they may go, against an upstream that tells so.
fn play(engine: &mut Engine, seconds: u64, tell: impl Fn(u64) -> Ended) {
    for ms in (0..seconds * 1_000).step_by(101) {
        if let Ok(call) = engine.try_admit(&Call::to("api"), at(ms)) {
            engine.end_call(call, &tell(ms), at(ms + 50));
        }
    }
}

#[test]
fn a_bucket_is_known_by_what_it_says_and_its_burst_may_go() {
    let mut engine = plain("");
    play(&mut engine, 10, |_| told(600, 599, 100));
    let known = learned(&mut engine, 10_000);
    assert_eq!((known.bucket, known.algorithm), (Some(600), Some(Algorithm::TokenBucket)));
    let went = (0..700).take_while(|_| engine.try_admit(&Call::to("api"), at(10_000)).is_ok()).count();
    assert!((590..=600).contains(&went), "{went} at once");
}

fn has_bucket(engine: &mut Engine) -> bool {
    engine.learned(at(300_000)).iter().any(|learned| learned.bucket.is_some())
}

#[test]
fn a_window_is_not_taken_for_a_bucket() {
    let mut engine = plain("");
    play(&mut engine, 300, |ms| told(600, 600 - (ms % 60_000) / 101 - 1, 60_000 - ms % 60_000));
    assert!(!has_bucket(&mut engine), "fixed");
    let mut engine = plain("");
    play(&mut engine, 300, |ms| told(600, 599_u64.saturating_sub(ms / 101), 60_000));
    assert!(!has_bucket(&mut engine), "sliding");
}

fn share(engine: &mut Engine, ms: u64) -> f64 {
    engine.learned(at(ms)).pop().map_or(1.0, |learned| learned.share)
}

#[test]
fn a_refusal_that_nothing_explains_lowers_the_ceiling_once_for_an_episode() {
    let mut engine = plain("");
    let refuse = |engine: &mut Engine, call, ms| {
        engine.end_call(call, &turned_away(Fate::Answered.into()), at(ms));
        share(engine, ms)
    };
    let first = go(&mut engine, 0);
    let mut shares = vec![refuse(&mut engine, first, 500)];
    let calls = [1_000, 1_200, 1_400].map(|ms| go(&mut engine, ms));
    shares
        .extend(calls.into_iter().zip([1_500, 1_600, 1_700]).map(|(call, ms)| refuse(&mut engine, call, ms)));
    assert_eq!(shares[0], 1.0, "one alone may be bad luck");
    assert!(shares[1] < 1.0 && shares[1] == shares[3], "{shares:?}");
    let mut now = Nanos::ZERO;
    while share(&mut engine, now.0 / 1_000_000) < 1.0 {
        now = now.after(Duration::from_secs(30));
        engine.advance(now);
        assert!(now < at(600_000), "it goes up again by itself");
    }
}

#[test]
fn a_refusal_that_says_what_is_exhausted_does_not_lower_the_ceiling() {
    let mut engine = plain("");
    for ms in [0, 1_000, 2_000, 3_000] {
        let call = go(&mut engine, ms);
        engine.end_call(call, &turned_away(told(600, 0, 500)), at(ms + 100));
    }
    assert!(engine.learned(at(4_000)).iter().all(|learned| learned.share == 1.0));
}

#[test]
fn what_was_only_learned_makes_no_call_impossible() {
    let mut engine = engine("[services.api]\ntokens = { limit = \"100/min\", algorithm = \"token-bucket\" }");
    let small = Call::to("api").tokens(1);
    for ms in [0, 1_000, 2_000] {
        let call = engine.try_admit(&small, at(ms)).expect("it may go");
        engine.end_call(call, &turned_away(Fate::Answered.into()), at(ms + 500));
    }
    let status = engine.limit("api/tokens/1m", at(3_000)).expect("it is there");
    assert!(status.capacity < 100, "some is left alone: {}", status.capacity);
    let all = Call::to("api").tokens(100);
    let _whole = engine.try_admit(&all, at(120_000)).expect("all of it is allowed, and goes");
    let more = engine.try_admit(&Call::to("api").tokens(101), at(240_000)).expect_err("that is not");
    assert_eq!(more.reason.code(), "too_large");
}

#[test]
fn what_was_learned_can_be_kept_for_the_next_start() {
    let mut before = plain("");
    play(&mut before, 10, |_| told(500, 499, 120));
    let kept = learned(&mut before, 10_000);
    let mut after = plain("");
    assert!(after.remember(&kept, at(0)));
    let again = learned(&mut after, 0);
    assert_eq!((again.told, again.bucket), (Some(500), kept.bucket));
    assert_eq!(
        after.limit(LIMIT, at(0)).map(|limit| limit.capacity),
        before.limit(LIMIT, at(10_000)).map(|l| l.capacity)
    );
}

/// A bucket of a thousand tokens, nearly all of which is there again only after a long time.
fn tokens() -> Engine {
    engine("[services.api]\ntokens = { limit = \"1000/h\", algorithm = \"token-bucket\" }")
}

fn costing(tokens: u64) -> Cost {
    Cost::nothing().with(Dimension::Tokens, tokens)
}

fn tokens_used(engine: &mut Engine, ms: u64) -> u64 {
    engine.limit("api/tokens/1h", at(ms)).expect("it is there").used
}

#[test]
fn what_a_stream_has_cost_above_its_reservation_is_owed_at_once_and_settled_once() {
    let mut engine = tokens();
    let stream = engine.try_admit(&Call::to("api").tokens(100), at(0)).expect("it may go");
    engine.spent(&stream, &costing(60), at(10));
    assert_eq!(tokens_used(&mut engine, 10), 100, "more may come: nothing is given back yet");
    for so_far in [300, 300, 700] {
        engine.spent(&stream, &costing(so_far), at(20));
        assert_eq!(tokens_used(&mut engine, 20), so_far);
    }
    assert!(engine.try_admit(&Call::to("api").tokens(400), at(20)).is_err(), "they are gone already");
    let ended = Ended { cost: Some(costing(800)), ..Fate::Answered.into() };
    engine.end_call(stream, &ended, at(30));
    assert_eq!(tokens_used(&mut engine, 30), 800, "what it cost in all, and no more");
}

#[test]
fn a_stream_that_cost_less_than_was_counted_gives_the_rest_back() {
    let mut engine = tokens();
    let stream = engine.try_admit(&Call::to("api").tokens(100), at(0)).expect("it may go");
    engine.spent(&stream, &costing(500), at(10));
    let ended = Ended { cost: Some(costing(450)), ..Fate::Answered.into() };
    engine.end_call(stream, &ended, at(20));
    assert_eq!(tokens_used(&mut engine, 20), 450);
}

#[test]
fn a_stream_that_was_cut_keeps_what_it_had_cost_by_then() {
    let mut engine = tokens();
    let stream = engine.try_admit(&Call::to("api").tokens(100), at(0)).expect("it may go");
    engine.spent(&stream, &costing(500), at(10));
    engine.finish(stream, None, at(20));
    assert_eq!(tokens_used(&mut engine, 20), 500);
}

/// Ten in two seconds, all at once if need be.
fn at_once() -> Engine {
    let requests = r#"{ limit = "10/2s", algorithm = "sliding-window", burst = 10 }"#;
    let mut engine = engine(&format!("[services.api]\nrequests = {requests}\n"));
    engine.expect_a_network(at(0));
    engine
}

fn goes(engine: &mut Engine, ms: u64) -> bool {
    engine.try_admit(&Call::to("api"), at(ms)).is_ok()
}

#[test]
fn a_burst_that_leaves_late_counts_from_when_it_left() {
    let mut engine = at_once();
    let burst: Vec<Grant> = (0..10).map(|_| go(&mut engine, 0)).collect();
    for grant in &burst {
        engine.left(grant.departure(), at(300));
    }
    assert!(!goes(&mut engine, 2_300), "they may have arrived then");
    // A slot and 25 ms for the way.
    assert!(goes(&mut engine, 2_300 + 8 + 32));
    burst.into_iter().for_each(|grant| engine.cancel(grant, at(2_400)));
    assert_eq!(engine.limit("api/requests/2s", at(2_400)).expect("it is there").used, 1, "given back whole");
}

#[test]
fn a_burst_that_leaves_after_its_window_counts_all_the_same() {
    let mut engine = at_once();
    let burst: Vec<Grant> = (0..10).map(|_| go(&mut engine, 0)).collect();
    // The process was stopped between the grants and the sockets.
    for grant in &burst {
        engine.left(grant.departure(), at(5_000));
    }
    assert!(!goes(&mut engine, 5_001) && !goes(&mut engine, 7_000), "the upstream has just got ten");
    assert!(goes(&mut engine, 7_000 + 8 + 32));
    burst.into_iter().for_each(|grant| engine.finish(grant, None, at(7_100)));
}

#[test]
fn who_left_at_once_or_ended_long_ago_counts_as_ever() {
    let mut engine = at_once();
    let (first, second) = (go(&mut engine, 0), go(&mut engine, 0));
    engine.left(first.departure(), Nanos(900_000));
    let departure = second.departure();
    engine.finish(second, None, at(100));
    engine.left(departure, at(130));
    let third = go(&mut engine, 150);
    engine.left(departure, at(400));
    assert_eq!(engine.limit("api/requests/2s", at(2_040)).expect("it is there").used, 1);
    engine.finish(third, None, at(2_050));
    engine.finish(first, None, at(2_050));
}

#[test]
fn whoever_was_turned_away_leaves_more_time_for_the_way() {
    let mut engine = at_once();
    let burst: Vec<Grant> = (0..10).map(|_| go(&mut engine, 0)).collect();
    burst.into_iter().for_each(|grant| engine.end_call(grant, &Fate::Answered.into(), at(60)));
    let early = go(&mut engine, 2_040);
    engine.end_call(early, &turned_away(told(10, 0, 20)), at(2_041));
    for _ in 0..10 {
        let again = go(&mut engine, 4_200);
        engine.end_call(again, &Fate::Answered.into(), at(4_200));
    }
    assert!(!goes(&mut engine, 6_240), "not after 25 ms any more");
    assert!(goes(&mut engine, 6_280), "but after 60");
}

#[test]
fn over_a_network_a_bucket_keeps_what_may_overtake_its_burst() {
    let bucket = r#"{ limit = "120/2s", algorithm = "token-bucket", burst = 120 }"#;
    let config = format!("[services.api]\nrequests = {bucket}\n");
    let capacity =
        |engine: &mut Engine| engine.limit("api/requests/2s", at(0)).expect("it is there").capacity;
    let mut near = engine(&config);
    assert_eq!(capacity(&mut near), 120);
    near.expect_a_network(at(0));
    assert_eq!(capacity(&mut near), 116, "60 ms of 60 a second");
    near.reconfigure(
        &tidegate_core::Config::parse(&config.replace("120", "240"), "t").expect("valid"),
        at(1),
    )
    .expect("valid");
    assert_eq!(capacity(&mut near), 232, "whatever its numbers are");
}

/// Twenty in two seconds, written; replies tell of 5,000 an hour, as GitHub's do.
fn hourly(seconds_left: u64, calls: u64) -> Ended {
    told(5_000, 5_000 - calls, seconds_left * 1_000)
}

#[test]
fn replies_about_another_window_move_nothing() {
    for begins in [3_600, 3, 1] {
        let mut engine = engine("[services.api]\nrequests = \"20/2s\"\n");
        let mut sent: Vec<u64> = Vec::new();
        let mut calls = 0;
        for ms in 0..20_000 {
            while let Ok(grant) = engine.try_admit(&Call::to("api"), at(ms)) {
                calls += 1;
                let left = (begins + 3_599 - ms / 1_000) % 3_600 + 1;
                engine.end_call(grant, &hourly(left, calls), at(ms));
                sent.push(ms);
            }
        }
        for (index, from) in sent.iter().enumerate() {
            let together = sent[index..].iter().take_while(|ms| **ms < from + 2_000).count();
            assert!(together <= 20, "{together} within two seconds of {from} ms");
        }
        assert!(sent.len() >= 190, "all of the quota is spent: {}", sent.len());
    }
}

#[test]
fn a_bucket_of_another_n_does_not_turn_a_written_window_into_a_bucket() {
    let mut engine = engine("[services.api]\nrequests = \"60/min\"\n");
    let mut sent: Vec<u64> = Vec::new();
    // A bucket of 50 a minute, of which so many thousandths are missing.
    let mut missing = 0_u64;
    for ms in 0..300_000 {
        missing = missing.saturating_sub(u64::from(ms % 6 != 0));
        // Calls come in bursts of half a minute.
        while ms % 60_000 < 30_000
            && let Ok(grant) = engine.try_admit(&Call::to("api"), at(ms))
        {
            missing += 1_000;
            let left = 50 - missing.div_ceil(1_000).min(50);
            engine.end_call(grant, &told(50, left, missing * 60 / 50), at(ms));
            sent.push(ms);
        }
    }
    for (index, from) in sent.iter().enumerate() {
        let together = sent[index..].iter().take_while(|ms| **ms < from + 60_000).count();
        assert!(together <= 60, "{together} within a minute of {from} ms");
    }
    assert!(sent.len() >= 100, "{}", sent.len());
}

#[test]
fn what_remains_of_more_than_n_is_not_about_a_limit() {
    let window = "{ limit = \"10/min\", algorithm = \"fixed-window\" }";
    let mut engine = engine(&format!("[services.api]\nrequests = {window}\n"));
    for n in 0..10 {
        let call = go(&mut engine, 0);
        let mut reply = told(5_000, 4_999 - n, 10_000);
        reply.told[0].limit = None;
        engine.end_call(call, &reply, at(0));
    }
    assert!(engine.try_admit(&Call::to("api"), at(30_000)).is_err(), "the minute is not over");
}

#[test]
fn a_smaller_hourly_limit_does_not_become_the_limit_of_a_minute() {
    let mut engine = plain("");
    // In its last minute it may be either.
    let call = go(&mut engine, 0);
    engine.end_call(call, &told(100, 99, 30_000), at(10));
    assert_eq!(engine.limit(LIMIT, at(10)).expect("it is there").capacity, 100);
    let call = go(&mut engine, 31_000);
    engine.end_call(call, &told(100, 99, 3_600_000), at(31_010));
    assert_eq!(engine.limit(LIMIT, at(31_010)).expect("it is there").capacity, 600, "it is another's");
    let call = go(&mut engine, 32_000);
    engine.end_call(call, &told(100, 98, 30_000), at(32_010));
    assert_eq!(engine.limit(LIMIT, at(32_010)).expect("it is there").capacity, 600, "and stays so");
}

#[test]
fn another_n_does_not_end_a_written_fixed_window_early() {
    let window = "{ limit = \"10/min\", algorithm = \"fixed-window\" }";
    let mut engine = engine(&format!("[services.api]\nrequests = {window}\n"));
    for n in 0..10 {
        let call = go(&mut engine, 0);
        engine.end_call(call, &told(5_000, 4_999 - n, 10_000), at(0));
    }
    assert!(engine.try_admit(&Call::to("api"), at(30_000)).is_err(), "the minute is not over");
}

#[test]
fn only_an_answer_frees_a_request_that_was_refused() {
    let mut engine = mirrored(plain(""));
    let refused = go(&mut engine, 1_000);
    engine.end_call(refused, &turned_away(told(600, 599, 59_000)), at(1_010));
    assert_eq!(used(&mut engine, 1_010), 2, "the attempt was sent");
    let refused = go(&mut engine, 1_200);
    engine.end_call(refused, &turned_away(told(600, 599, 59_000)), at(1_210));
    assert_eq!(used(&mut engine, 1_210), 3, "a refusal is no sign of room");
    let answered = go(&mut engine, 2_000);
    engine.end_call(answered, &told(600, 598, 58_000), at(2_010));
    assert_eq!(used(&mut engine, 2_010), 2, "the upstream did not count them");
}

#[test]
fn what_remains_of_another_n_frees_no_refused_request() {
    let mut engine = mirrored(plain(""));
    let refused = go(&mut engine, 1_000);
    engine.end_call(refused, &turned_away(told(5_000, 4_999, 59_000)), at(1_010));
    let answered = go(&mut engine, 2_000);
    engine.end_call(answered, &told(5_000, 4_998, 58_000), at(2_010));
    assert_eq!(used(&mut engine, 2_010), 3);
}
