//! Backoff windows in the engine: whom they hold, for how long, and how calls go after them.

mod common;

use std::time::Duration;

use tidegate_core::engine::{Ended, Engine, Exhausted, Fate};
use tidegate_core::{Admission, Call, Config, Dimension, Grant, Nanos, Priority, Reason, Ticket, Verdict};

use common::plain::{LONG, at, engine};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn go(engine: &mut Engine, call: &Call, now: Nanos) -> Grant {
    match engine.enqueue(call, LONG, now).expect("nothing refuses it") {
        Admission::Granted(grant) => grant,
        Admission::Waiting(ticket) => panic!("it waits: {:?}", engine.place(ticket, now)),
    }
}

fn wait(engine: &mut Engine, call: &Call, now: Nanos) -> Ticket {
    match engine.enqueue(call, LONG, now).expect("nothing refuses it") {
        Admission::Granted(_) => panic!("it goes"),
        Admission::Waiting(ticket) => ticket,
    }
}

fn turned_away(wait: Duration) -> Ended {
    Fate::TurnedAway { wait: Some(wait), by: Vec::new(), in_flight: false }.into()
}

fn exhausted(dimension: Dimension, window: Option<Duration>, wait: Duration) -> Ended {
    let by = vec![Exhausted { dimension, window, reset: Some(wait) }];
    Fate::TurnedAway { wait: Some(wait), by, in_flight: false }.into()
}

/// Who goes when, driven by nothing but the engine's own wake-up times.
fn play(engine: &mut Engine, until: Nanos) -> Vec<(u64, Ticket)> {
    let mut gone = Vec::new();
    loop {
        for (ticket, verdict) in engine.verdicts().collect::<Vec<_>>() {
            match verdict {
                Verdict::Granted(grant) => gone.push((grant.granted_at().0 / 1_000_000, ticket)),
                Verdict::Refused(refusal) => panic!("{refusal}"),
            }
        }
        match engine.next_wake() {
            Some(wake) if wake <= until => engine.advance(wake),
            _ => return gone,
        }
    }
}

fn keys(engine: &mut Engine, now: Nanos) -> Vec<String> {
    engine.backoffs(now).into_iter().map(|window| window.key.to_string()).collect()
}

#[test]
fn after_a_429_all_calls_of_the_service_wait_and_then_go_at_a_pace() {
    let mut engine = engine("[services.api]\n[services.other]\n");
    let call = Call::to("api");
    let grant = go(&mut engine, &call, at(0));
    engine.end_call(grant, &turned_away(seconds(2)), at(100));
    assert_eq!(keys(&mut engine, at(100)), ["api"]);
    let tickets: Vec<_> = (0..3).map(|_| wait(&mut engine, &call, at(200))).collect();
    let _other = go(&mut engine, &Call::to("other"), at(200));
    let place = engine.place(tickets[1], at(200)).unwrap();
    assert_eq!(
        (&*place.limit, place.position, place.expected),
        ("api/backoff", 2, Some(Duration::from_millis(1_900)))
    );
    let gone = play(&mut engine, at(10_000));
    assert_eq!(gone, [(2_100, tickets[0]), (2_105, tickets[1]), (2_110, tickets[2])]);
    let _free = go(&mut engine, &call, at(10_000));
}

#[test]
fn those_who_wait_for_a_window_go_by_rank() {
    let mut engine = engine("[services.api]\n");
    engine.set_backoff("api", seconds(5), at(0)).unwrap();
    let low = wait(&mut engine, &Call::to("api").priority(Priority::Low), at(1));
    let high = wait(&mut engine, &Call::to("api").priority(Priority::High), at(2));
    let normal = wait(&mut engine, &Call::to("api"), at(3));
    let order: Vec<Ticket> = play(&mut engine, at(10_000)).into_iter().map(|(_, ticket)| ticket).collect();
    assert_eq!(order, [high, normal, low]);
}

#[test]
fn a_window_only_ever_extends_and_a_clear_ends_it_at_once() {
    let mut engine = engine("[services.api]\n");
    engine.set_backoff("api", seconds(30), at(0)).unwrap();
    engine.set_backoff("api", seconds(5), at(10)).unwrap();
    let ticket = wait(&mut engine, &Call::to("api"), at(20));
    assert_eq!(engine.backoffs(at(20))[0].open_for, Duration::from_millis(29_980));
    assert!(engine.clear_backoff("api", at(500)));
    assert_eq!(play(&mut engine, at(501)), [(500, ticket)]);
    assert!(engine.backoffs(at(500)).is_empty(), "the tail is over as well");
    assert!(!engine.clear_backoff("api", at(500)));
    assert!(!engine.clear_backoff("nobody", at(500)));
}

#[test]
fn the_window_is_that_of_the_limit_that_the_reply_names() {
    let config = "[services.api]\nrequests = [\"100/min\", \"10k/day\"]\ntokens = \"1M/min\"\n\
                  [services.api.models.\"big*\"]\ntokens = \"1k/min\"\n";
    let small = Call::to("api").model("small").tokens(1);
    let big = Call::to("api").model("big-1").tokens(1);
    let window_after = |call: &Call, ended: Ended| {
        let mut engine = engine(config);
        let grant = go(&mut engine, call, at(0));
        engine.end_call(grant, &ended, at(1));
        keys(&mut engine, at(1))
    };
    let minute = Some(seconds(60));
    assert_eq!(
        window_after(&big, exhausted(Dimension::Tokens, minute, seconds(9))),
        ["api/model:big*/tokens/1m"]
    );
    assert_eq!(window_after(&small, exhausted(Dimension::Tokens, None, seconds(9))), ["api/tokens/1m"]);
    assert_eq!(window_after(&big, exhausted(Dimension::Requests, None, seconds(9))), ["api/requests/1m"]);
    // Only the limit per day can take longer than a minute to come back.
    assert_eq!(window_after(&big, exhausted(Dimension::Requests, None, seconds(900))), ["api/requests/1d"]);
    // A limit that we do not count: the model's window.
    assert_eq!(window_after(&big, exhausted(Dimension::Bytes, None, seconds(9))), ["api/model:big*"]);
    assert_eq!(window_after(&small, turned_away(seconds(9))), ["api"], "nobody said which model");
}

#[test]
fn a_model_that_the_config_does_not_name_waits_alone() {
    let mut engine = engine("[services.api]\nconcurrency = 2\n");
    let a = Call::to("api").model("a");
    let b = Call::to("api").model("b");
    let first = go(&mut engine, &a, at(0));
    let second = go(&mut engine, &b, at(0));
    let waiting_a = wait(&mut engine, &a, at(1));
    let waiting_b = wait(&mut engine, &b, at(2));
    engine.end_call(first, &Ended { model: Some("a".into()), ..turned_away(seconds(10)) }, at(10));
    assert_eq!(keys(&mut engine, at(10)), ["api/model:a"]);
    assert_eq!(play(&mut engine, at(11)), [(10, waiting_b)], "the slot goes to the model that may");
    engine.finish(second, None, at(20));
    assert_eq!(play(&mut engine, at(60_000)), [(10_010, waiting_a)]);
}

#[test]
fn a_flood_of_models_does_not_pile_up_windows() {
    let mut engine = engine("[services.api]\n");
    for n in 0..1_000 {
        let now = at(n * 20_000);
        let call = Call::to("api").model(&format!("model-{n}"));
        let grant = go(&mut engine, &call, now);
        let ended = Ended { model: Some(format!("model-{n}").into()), ..turned_away(seconds(1)) };
        engine.end_call(grant, &ended, now);
        assert_eq!(keys(&mut engine, now), [format!("api/model:model-{n}")]);
    }
    // All at once: those that find no room of their own hold the service.
    let now = at(100_000_000);
    for n in 0..100 {
        let name = format!("late-{n}");
        let call = Call::to("api").model(&name);
        let Ok(grant) = engine.try_admit(&call, now) else { break };
        engine.end_call(grant, &Ended { model: Some(name.into()), ..turned_away(seconds(60)) }, now);
    }
    assert!(keys(&mut engine, now).contains(&"api".to_owned()));
}

#[test]
fn each_api_key_has_its_own_window_where_it_has_its_own_limits() {
    let mut engine = engine("[services.api]\nper_key = true\nrequests = \"100/s\"\n");
    let (one, two) = (Call::to("api").key("sk-1"), Call::to("api").key("sk-2"));
    let grant = go(&mut engine, &one, at(0));
    engine.end_call(grant, &turned_away(seconds(5)), at(1));
    let _goes = go(&mut engine, &two, at(2));
    wait(&mut engine, &one, at(3));
    assert!(keys(&mut engine, at(3))[0].starts_with("api/key:"));
}

#[test]
fn a_call_that_cannot_wait_for_the_end_is_told_when_to_come_back() {
    let mut engine = engine("[services.api]\nrequests = \"100/min\"\n");
    engine.set_backoff("api", seconds(300), at(0)).unwrap();
    let refusal = engine.enqueue(&Call::to("api"), seconds(20), at(0)).unwrap_err();
    assert_eq!((refusal.reason.clone(), refusal.wait), (Reason::Hopeless, Some(seconds(300))));
    assert_eq!(refusal.limit.as_deref(), Some("api/backoff"));
    let refusal = engine.try_admit(&Call::to("api"), at(0)).unwrap_err();
    assert_eq!((refusal.reason, refusal.wait), (Reason::Timeout, Some(seconds(300))));
}

#[test]
fn a_refused_call_gets_back_its_tokens_but_not_its_request() {
    for (counts, tokens) in [(false, 0), (true, 7)] {
        let config = format!(
            "[services.api]\nrequests = \"10/min\"\ntokens = \"100/min\"\nfailures_count = {counts}\n"
        );
        let mut engine = engine(&config);
        let grant = go(&mut engine, &Call::to("api").tokens(7), at(0));
        engine.end_call(grant, &turned_away(seconds(1)), at(1));
        assert_eq!(engine.limit("api/requests/1m", at(1)).unwrap().used, 1, "{counts}");
        assert_eq!(engine.limit("api/tokens/1m", at(1)).unwrap().used, tokens, "{counts}");
    }
}

#[test]
fn a_call_that_was_never_sent_gets_everything_back() {
    let mut engine = engine("[services.api]\nrequests = \"10/min\"\ntokens = \"100/min\"\n");
    let grant = go(&mut engine, &Call::to("api").tokens(7), at(0));
    engine.end_call(grant, &Fate::Unreached.into(), at(1));
    assert_eq!(engine.limit("api/requests/1m", at(1)).unwrap().used, 0);
    assert_eq!(engine.limit("api/tokens/1m", at(1)).unwrap().used, 0);
}

/// Sends one call after another, each as soon as the engine lets it go, to an upstream that refuses all of them within
/// `takes` and hints `wait`. Returns when each was sent, in milliseconds.
fn refused_for_ever(
    config: &str,
    wait: Option<Duration>,
    in_flight: bool,
    takes: u64,
    until: Nanos,
) -> Vec<u64> {
    let mut engine = engine(config);
    let call = Call::to("api");
    let mut in_the_air: std::collections::VecDeque<Grant> = Default::default();
    let mut sent = Vec::new();
    let mut now = at(0);
    for _ in 0..20 {
        if let Admission::Granted(grant) = engine.enqueue(&call, seconds(3_600), now).expect("it may wait") {
            sent.push(0);
            in_the_air.push_back(grant);
        }
    }
    loop {
        for (_, verdict) in engine.verdicts().collect::<Vec<_>>() {
            if let Verdict::Granted(grant) = verdict {
                sent.push(grant.granted_at().0 / 1_000_000);
                in_the_air.push_back(grant);
            }
        }
        let reply = in_the_air.front().map(|grant| grant.granted_at().after(Duration::from_millis(takes)));
        let next = [reply, engine.next_wake()].into_iter().flatten().min();
        now = match next {
            Some(next) if next <= until => next.max(now),
            _ => return sent,
        };
        if reply == Some(now) {
            let grant = in_the_air.pop_front().unwrap();
            engine.end_call(grant, &Fate::TurnedAway { wait, by: Vec::new(), in_flight }.into(), now);
            // Its caller asks again at once.
            let again = engine.enqueue(&call, seconds(3_600), now).expect("it may wait");
            if let Admission::Granted(grant) = again {
                sent.push(now.0 / 1_000_000);
                in_the_air.push_back(grant);
            }
        } else {
            engine.advance(now);
        }
    }
}

#[test]
fn refusals_in_a_row_grow_the_window_whatever_the_hint_says() {
    for wait in [Some(Duration::ZERO), Some(Duration::from_millis(1)), None] {
        for in_flight in [false, true] {
            let sent = refused_for_ever("[services.api]\n", wait, in_flight, 5, at(40_000));
            assert!(sent.len() < 60, "{} calls in 40 s, hint {wait:?}, {in_flight}", sent.len());
            let gaps = sent.windows(2).map(|pair| pair[1] - pair[0]);
            assert!(gaps.max().unwrap() > 5_000, "in the end the window is long: {sent:?}");
        }
    }
}

#[test]
fn attempts_that_are_refused_stay_within_the_limit() {
    let config = "[services.api]\nrequests = { limit = \"10/s\", burst = 10 }\n";
    let sent = refused_for_ever(config, Some(Duration::ZERO), false, 300, at(60_000));
    for (index, from) in sent.iter().enumerate() {
        let together = sent[index..].iter().take_while(|ms| **ms < from + 1_000).count();
        assert!(together <= 10, "{together} within a second of {from} ms");
    }
}

#[test]
fn an_answered_call_ends_the_row_of_refusals() {
    let mut engine = engine("[services.api]\n");
    let call = Call::to("api");
    let mut now = 0;
    for _ in 0..6 {
        let grant = go(&mut engine, &call, at(now));
        engine.end_call(grant, &turned_away(Duration::ZERO), at(now + 1));
        now += 100_000 / 50;
    }
    assert_eq!(engine.backoffs(at(10_001))[0].open_for, Duration::from_millis(800));
    let grant = go(&mut engine, &call, at(now));
    engine.end_call(grant, &Fate::Answered.into(), at(now + 1));
    let grant = go(&mut engine, &call, at(now + 2));
    engine.end_call(grant, &turned_away(Duration::ZERO), at(now + 3));
    let _goes = go(&mut engine, &call, at(now + 3));
}

#[test]
fn calls_that_were_in_flight_together_are_one_refusal() {
    let mut engine = engine("[services.api]\n");
    let grants: Vec<Grant> = (0..50).map(|_| go(&mut engine, &Call::to("api"), at(0))).collect();
    for (grant, ms) in grants.into_iter().zip(1..) {
        engine.end_call(grant, &turned_away(Duration::ZERO), at(ms));
    }
    let _goes = go(&mut engine, &Call::to("api"), at(51));
}

#[test]
fn what_is_freed_by_a_429_goes_to_nobody_who_has_to_stay_away() {
    let mut engine = engine("[services.api]\nconcurrency = 1\n");
    let grant = go(&mut engine, &Call::to("api"), at(0));
    let ticket = wait(&mut engine, &Call::to("api"), at(1));
    engine.end_call(grant, &turned_away(seconds(3)), at(10));
    assert_eq!(play(&mut engine, at(60_000)), [(3_010, ticket)]);
}

#[test]
fn too_many_at_once_throttles_and_holds_nobody() {
    let config = "[services.api]\nconcurrency = 10\nthrottled_concurrency = 1\n";
    let mut engine = engine(config);
    let grant = go(&mut engine, &Call::to("api"), at(0));
    let fate = Fate::TurnedAway { wait: None, by: Vec::new(), in_flight: true };
    engine.end_call(grant, &fate.into(), at(1));
    let _one = go(&mut engine, &Call::to("api"), at(2));
    wait(&mut engine, &Call::to("api"), at(3));
}

#[test]
fn an_upstream_that_asks_to_be_left_alone_is_left_alone() {
    let mut engine = engine("[services.api]\nrequests = \"100/s\"\n");
    let grant = go(&mut engine, &Call::to("api").model("a"), at(0));
    engine.end_call(grant, &Fate::Failed { wait: Some(seconds(7)) }.into(), at(0));
    let ticket = wait(&mut engine, &Call::to("api").model("b"), at(1));
    assert_eq!(play(&mut engine, at(60_000)), [(7_000, ticket)]);
}

const DISPATCH: &str = "[services.api]\nconcurrency = 4\nthrottled_concurrency = 1\nbyte_budget = 100\n\
                        backoff = { window = \"10s\", byte_penalty_multiplier = 10 }\n";

fn used(engine: &mut Engine, now: Nanos) -> [u64; 3] {
    ["concurrency", "throttled_concurrency", "byte_budget"]
        .map(|name| engine.limit(&format!("api/{name}"), now).unwrap().used)
}

#[test]
fn in_the_tail_calls_go_throttled_and_their_bytes_count_several_times() {
    let mut engine = engine(DISPATCH);
    let call = Call::to("api").bytes(5);
    let before = go(&mut engine, &call, at(0));
    assert_eq!(used(&mut engine, at(0)), [1, 0, 5]);
    engine.set_backoff("api", seconds(2), at(0)).unwrap();
    let first = wait(&mut engine, &call, at(1));
    let second = wait(&mut engine, &call, at(1));
    engine.advance(at(2_000));
    let Some((ticket, Verdict::Granted(throttled))) = engine.verdicts().next() else { panic!("one goes") };
    assert_eq!(ticket, first);
    assert_eq!(engine.byte_penalty(&throttled), Some(10));
    assert_eq!(used(&mut engine, at(2_000)), [2, 1, 55], "the one before is not counted anew");
    engine.finish(before, None, at(2_500));
    assert_eq!(used(&mut engine, at(2_500)), [1, 1, 50]);
    // The mode ends, and with it the bound.
    assert_eq!(play(&mut engine, at(20_000)), [(12_000, second)]);
    assert_eq!(used(&mut engine, at(12_000)), [2, 1, 55]);
    engine.finish(throttled, None, at(12_001));
    assert_eq!(used(&mut engine, at(12_001)), [1, 0, 5], "all that it took comes back");
}

#[test]
fn bytes_of_a_loop_count_several_times_too_where_nothing_else_counts_bytes() {
    let mut engine = engine("[services.api]\n[loops]\nbyte_budget = 100\n");
    engine.set_backoff("api", Duration::ZERO, at(0)).unwrap();
    let grant = go(&mut engine, &Call::to("api").loop_id("a").bytes(5), at(1));
    assert_eq!(engine.limit("loop:a/byte_budget", at(1)).unwrap().used, 100);
    engine.finish(grant, None, at(2));
    assert_eq!(engine.limit("loop:a/byte_budget", at(2)).unwrap().used, 0);
}

#[test]
fn the_tail_ends_though_nobody_waits_for_it() {
    let mut engine = engine(DISPATCH);
    engine.set_backoff("api", Duration::ZERO, at(0)).unwrap();
    let grant = go(&mut engine, &Call::to("api").bytes(5), at(1));
    assert_eq!(used(&mut engine, at(1)), [1, 1, 50]);
    engine.finish(grant, None, at(2));
    assert_eq!(engine.next_wake(), None);
    let _grant = engine.try_admit(&Call::to("api").bytes(5), at(10_000)).unwrap();
    assert_eq!(used(&mut engine, at(10_000)), [1, 0, 5]);
}

#[test]
fn a_service_that_does_not_wait_for_windows_is_throttled_from_their_beginning() {
    let mut config = Config::parse(DISPATCH, "test.toml").unwrap();
    config.services.get_mut("api").unwrap().backoff.waits = false;
    let mut engine = Engine::new(&config, Nanos::ZERO, Duration::ZERO).unwrap();
    engine.set_backoff("api", seconds(2), at(0)).unwrap();
    let _grant = go(&mut engine, &Call::to("api").bytes(5), at(1));
    assert_eq!(used(&mut engine, at(1)), [1, 1, 50]);
    let status = &engine.backoffs(at(1))[0];
    assert_eq!((status.open_for.as_millis(), status.throttled_for.as_millis()), (1_999, 11_999));
}

#[test]
fn a_window_survives_another_config_as_long_as_what_it_is_for() {
    let mut engine = engine("[services.api]\nrequests = \"100/s\"\n[services.old]\n");
    engine.set_backoff("api", seconds(20), at(0)).unwrap();
    engine.set_backoff("api/requests/1s", seconds(30), at(0)).unwrap();
    engine.set_backoff("old", seconds(20), at(0)).unwrap();
    let ticket = wait(&mut engine, &Call::to("api"), at(1));
    let config = Config::parse("[services.api]\nconcurrency = 5\n", "test.toml").unwrap();
    engine.reconfigure(&config, at(10)).unwrap();
    assert_eq!(keys(&mut engine, at(10)), ["api"]);
    assert_eq!(play(&mut engine, at(60_000)), [(20_000, ticket)]);
}

#[test]
fn a_key_that_names_nothing_is_an_error() {
    let mut engine =
        engine("[services.api]\nrequests = \"100/s\"\nthrottled_concurrency = 1\n[loop_types.code]\n");
    for key in [
        "nobody",
        "api/throttled_concurrency",
        "api/endpoint:GET /x",
        "api/key:1234",
        "loop_type:none",
        "",
        "api/requests/1h",
    ] {
        assert!(engine.set_backoff(key, seconds(1), at(0)).is_err(), "{key}");
    }
    for key in ["global", "loop_type:code", "api/model:anything", "api/requests/1s", "api"] {
        assert!(engine.set_backoff(key, seconds(1), at(0)).is_ok(), "{key}");
    }
}

#[test]
fn a_window_over_everything_or_a_loop_type_holds_just_that() {
    let mut engine = engine("[services.a]\n[services.b]\n[loop_types.code]\n");
    engine.set_backoff("loop_type:code", seconds(5), at(0)).unwrap();
    wait(&mut engine, &Call::to("a").loop_type("code"), at(1));
    let _goes = go(&mut engine, &Call::to("a"), at(2));
    engine.set_backoff("global", seconds(5), at(3)).unwrap();
    wait(&mut engine, &Call::to("b"), at(4));
}

#[test]
fn what_was_saved_up_during_a_window_does_not_go_at_once() {
    // Paced at one call in 100 ms, five of which may go at once.
    let mut engine = engine("[services.api]\nrequests = { limit = \"600/min\", burst = 5 }\n");
    engine.set_backoff("api", seconds(2), at(0)).unwrap();
    let tickets: Vec<_> = (0..4).map(|_| wait(&mut engine, &Call::to("api"), at(1))).collect();
    let gone: Vec<_> = play(&mut engine, at(10_000)).into_iter().map(|(ms, _)| ms).collect();
    assert_eq!((gone.len(), gone), (tickets.len(), vec![2_000, 2_100, 2_200, 2_300]));
}

#[test]
fn a_model_of_a_pattern_is_held_by_its_own_name_too_and_all_below_a_key_is_cleared_with_it() {
    let mut engine = engine("[services.api]\n[services.api.models.\"big*\"]\ntokens = \"1k/s\"\n");
    engine.set_backoff("api/model:big-1", seconds(60), at(0)).unwrap();
    assert_eq!(keys(&mut engine, at(0)), ["api/model:big*"]);
    wait(&mut engine, &Call::to("api").model("big-1").tokens(1), at(1));
    assert!(engine.clear_backoff("api/model:big-1", at(2)));
    engine.set_backoff("api/model:big*/tokens/1s", seconds(60), at(3)).unwrap();
    assert!(!engine.clear_backoff("ap", at(4)));
    assert!(engine.clear_backoff("api", at(4)));
    assert!(engine.backoffs(at(4)).is_empty());
}

#[test]
fn an_api_key_whose_window_is_open_is_not_forgotten() {
    let mut engine = engine(
        "[services.api]\nper_key = true\nrequests = { limit = \"100/s\", algorithm = \"token-bucket\" }\n",
    );
    let victim = Call::to("api").key("victim");
    let grant = go(&mut engine, &victim, at(0));
    engine.end_call(grant, &exhausted(Dimension::Requests, None, LONG), at(0));
    for n in 0..8_400 {
        let (call, now) = (Call::to("api").key(&format!("key-{n}")), at(1_000 + n * 20));
        let grant = engine.try_admit(&call, now).expect("another key's window is none of its business");
        engine.finish(grant, None, now);
    }
    assert!(engine.try_admit(&Call::to("api").key("victim"), at(400_000)).is_err());
}

#[test]
fn windows_leave_the_way_of_calls_when_they_are_over_and_fair_shares_as_they_were() {
    let config =
        "[services.api]\ntokens = { limit = \"100/s\", algorithm = \"token-bucket\", burst = 100 }\n";
    let mut engine = engine(config);
    let _first = go(&mut engine, &Call::to("api").tokens(100), at(0));
    let call = |loop_: &str, tokens| Call::to("api").loop_id(loop_).tokens(tokens);
    let mut costs = std::collections::HashMap::new();
    for n in 0..300 {
        costs.insert(wait(&mut engine, &call("small", 10), at(0)), 10);
        if n < 60 {
            costs.insert(wait(&mut engine, &call("big", 100), at(0)), 100);
        }
    }
    // Windows of a model that nobody asks for, and others that hold nobody, come and go.
    for n in 1..=60 {
        engine.set_backoff(&format!("api/model:m{n}"), Duration::from_millis(1), at(n * 150)).unwrap();
        engine.set_backoff("api", Duration::ZERO, at(n * 150)).unwrap();
    }
    let mut served = std::collections::HashMap::from([(10, 0), (100, 0)]);
    for (_, ticket) in play(&mut engine, at(9_000)) {
        *served.get_mut(&costs[&ticket]).unwrap() += costs[&ticket];
    }
    let difference: i64 = served[&10] - served[&100];
    assert!(difference.abs() <= 110, "{served:?}");
}

#[test]
fn a_throttled_call_that_fits_would_not_wait() {
    let mut engine = engine(&DISPATCH.replace("concurrency = 4", "mode = \"observe\"\nconcurrency = 4"));
    engine.set_backoff("api", Duration::ZERO, at(0)).unwrap();
    let _one = go(&mut engine, &Call::to("api"), at(1));
    assert_eq!(engine.counts("api").unwrap().would_wait, 0);
    let _two = go(&mut engine, &Call::to("api"), at(1));
    assert_eq!(engine.counts("api").unwrap().would_wait, 1);
}

/// Twenty a second, ten of them at once. At 0.6 s all are spent, and a window is open for 0.1 s: one unit is free at
/// 1.003 s, nine more at 1.023 s, and the other ten at 1.523 s. The pacer fills at one unit every 50 ms.
fn spent_and_shut() -> Engine {
    let mut engine = engine("[services.api]\nrequests = { limit = \"20/s\", burst = 10 }");
    for (ms, taken) in [(0, 1), (20, 9), (520, 10)] {
        let grant = go(&mut engine, &Call::to("api").requests(taken), at(ms));
        engine.finish(grant, None, at(ms));
    }
    engine.set_backoff("api", Duration::from_millis(100), at(600)).expect("a service");
    engine
}

#[test]
fn the_first_after_a_window_empties_no_pacer_that_one_before_it_is_booked_for() {
    let mut engine = spent_and_shut();
    let large = wait(&mut engine, &Call::to("api").requests(8), at(600));
    let small = wait(&mut engine, &Call::to("api"), at(600));
    let gone = play(&mut engine, at(3_000));
    assert_eq!(gone[0], (1_023, large));
    assert_eq!(gone[1].1, small);
}

#[test]
fn the_first_after_a_window_goes_before_one_for_which_the_pacer_fills_again_in_time() {
    let mut engine = spent_and_shut();
    let large = wait(&mut engine, &Call::to("api").requests(12), at(600));
    let small = wait(&mut engine, &Call::to("api"), at(600));
    assert_eq!(play(&mut engine, at(3_000)), [(1_003, small), (1_523, large)]);
}
