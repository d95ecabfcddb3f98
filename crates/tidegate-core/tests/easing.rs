//! Going slower for a time: while an upstream is overloaded, after a rest, and with less in flight.

mod common;

use std::time::Duration;

use tidegate_core::engine::{Ended, Engine, Fate, Lesson, Slowed};
use tidegate_core::{Call, Grant};

use common::plain::{at, engine};

const LIMIT: &str = "api/requests/1m";

fn go(engine: &mut Engine, ms: u64) -> Grant {
    engine.try_admit(&Call::to("api"), at(ms)).expect("it may go")
}

fn failed() -> Ended {
    Fate::Failed { wait: None }.into()
}

fn answered() -> Ended {
    Fate::Answered.into()
}

fn refused(wait: u64) -> Ended {
    let wait = Some(Duration::from_millis(wait));
    Fate::TurnedAway { wait, by: Vec::new(), in_flight: false }.into()
}

/// How many calls go in this stretch if somebody tries every 10 ms; each ends so, 100 ms later.
fn goes(engine: &mut Engine, call: &Call, from: u64, to: u64, ended: impl Fn(u64) -> Ended) -> u64 {
    let (mut number, mut running) = (0, std::collections::VecDeque::new());
    for ms in (from..to).step_by(10) {
        while running.front().is_some_and(|(ends, _, _)| *ends <= ms) {
            if let Some((_, number, grant)) = running.pop_front() {
                engine.end_call(grant, &ended(number), at(ms));
            }
        }
        if let Ok(grant) = engine.try_admit(call, at(ms)) {
            running.push_back((ms + 100, number, grant));
            number += 1;
        }
    }
    for (ends, number, grant) in running {
        engine.end_call(grant, &ended(number), at(ends.max(to)));
    }
    number
}

fn pace(engine: &mut Engine, limit: &str, ms: u64) -> f64 {
    let learned = engine.learned(at(ms));
    learned.iter().find(|learned| &*learned.limit == limit).map_or(1.0, |learned| learned.pace)
}

#[test]
fn an_upstream_that_fails_often_is_asked_less_for_a_time_and_its_limit_stays_as_it_is() {
    let mut engine = engine("[services.api]\nrequests = \"600/min\"\nconcurrency = 10");
    let call = Call::to("api");
    goes(&mut engine, &call, 0, 1_200, |_| failed());
    assert!((pace(&mut engine, LIMIT, 1_200) - 0.6).abs() < 1e-9, "{}", pace(&mut engine, LIMIT, 1_200));
    let known = engine.learned(at(1_200)).into_iter().find(|known| &*known.limit == LIMIT).expect("known");
    assert_eq!((known.told, known.in_force, known.share), (None, 600, 1.0), "nothing is known of another N");
    assert_eq!(engine.limit("api/concurrency", at(1_200)).expect("it is there").capacity, 6);
    let slower = goes(&mut engine, &call, 1_500, 6_500, |_| answered());
    assert!((28..=33).contains(&slower), "six a second instead of ten: {slower}");
    goes(&mut engine, &call, 6_500, 60_000, |_| answered());
    assert_eq!(pace(&mut engine, LIMIT, 60_000), 1.0);
    let whole = goes(&mut engine, &call, 60_000, 65_000, |_| answered());
    assert!((48..=52).contains(&whole), "{whole}");
    let told: Vec<u64> = engine.lessons().iter().filter_map(pace_told).collect();
    assert_eq!(told, [60, 70, 80, 90, 100]);
}

/// What a lesson says of the pace of the service, in hundredths.
fn pace_told(lesson: &Lesson) -> Option<u64> {
    let Lesson::Pace { scope, pace, by: Slowed::Overload } = lesson else { return None };
    assert_eq!(&**scope, "api");
    Some((pace * 100.0).round() as u64)
}

#[test]
fn a_few_failures_are_nobodys_concern() {
    let mut engine = engine("[services.api]\nrequests = \"600/min\"");
    let failing = |number| if number % 10 == 0 { failed() } else { answered() };
    goes(&mut engine, &Call::to("api"), 0, 60_000, failing);
    assert_eq!(pace(&mut engine, LIMIT, 60_000), 1.0);
}

#[test]
fn a_model_that_fails_does_not_slow_the_others() {
    let models = "[services.api.models.\"a*\"]\nrequests = \"600/min\"\n[services.api.models.\"b*\"]\nrequests = \"600/min\"";
    let mut engine = engine(models);
    goes(&mut engine, &Call::to("api").model("a-1"), 0, 1_200, |_| failed());
    assert!(pace(&mut engine, "api/model:a*/requests/1m", 1_200) < 1.0);
    assert_eq!(pace(&mut engine, "api/model:b*/requests/1m", 1_200), 1.0);
}

#[test]
fn a_long_window_is_not_made_smaller_by_a_bad_minute() {
    let mut engine = engine("[services.api]\nrequests = [\"600/min\", \"10k/day\"]");
    goes(&mut engine, &Call::to("api"), 0, 30_000, |_| failed());
    let most = engine.limit("api/requests/1d", at(30_000)).expect("it is there").capacity;
    assert_eq!(most, 10_000);
    let slowest = goes(&mut engine, &Call::to("api"), 30_000, 60_000, |_| failed());
    assert!((25..=40).contains(&slowest), "a tenth of the pace, and never nothing: {slowest}");
}

#[test]
fn calls_begin_slowly_after_a_rest_where_the_config_asks_for_it() {
    let ramp = "[services.api]\nrequests = { limit = \"600/min\", algorithm = \"token-bucket\", burst = 100 }\n\
                ramp = { idle = \"1m\", from = 0.2, over = \"20s\" }";
    let mut engine = engine(ramp);
    let call = Call::to("api");
    for rest in [0, 120_000] {
        let at_once = in_flight(&mut engine, rest);
        assert_eq!(at_once.len(), 20, "a fifth of what the bucket would let go at once");
        at_once.into_iter().for_each(|grant| engine.end_call(grant, &answered(), at(rest + 100)));
        assert!((pace(&mut engine, LIMIT, rest + 100) - 0.2).abs() < 1e-9);
        goes(&mut engine, &call, rest + 100, rest + 25_000, |_| answered());
        assert_eq!(pace(&mut engine, LIMIT, rest + 25_000), 1.0);
        let whole = goes(&mut engine, &call, rest + 40_000, rest + 50_000, |_| answered());
        assert!((95..=205).contains(&whole), "{whole}");
    }
    let told = engine.lessons();
    let whole = |told: &Lesson| matches!(told, Lesson::Pace { by: Slowed::Idle, pace, .. } if *pace == 1.0);
    assert_eq!(told.iter().filter(|told| whole(told)).count(), 2, "once for each rest");
}

#[test]
fn what_the_vendors_preset_asks_for_the_config_can_take_back() {
    let preset = "[services.api]\npreset = \"anthropic\"\nrequests = \"600/min\"\n";
    assert!(pace(&mut engine(preset), LIMIT, 0) < 1.0);
    assert_eq!(pace(&mut engine(&format!("{preset}ramp = {{ from = 1 }}")), LIMIT, 0), 1.0);
}

/// Calls that take a second each, ten of which go in that time; then one is turned away.
fn throttled(more: &str) -> Engine {
    let config = format!("[services.api]\nrequests = {{ limit = \"600/min\", burst = 600 }}\n{more}");
    let mut engine = engine(&config);
    for second in 0..10 {
        let grant = go(&mut engine, second * 1_000);
        engine.end_call(grant, &answered(), at(second * 1_000 + 1_000));
    }
    let grant = go(&mut engine, 10_000);
    engine.end_call(grant, &refused(0), at(11_000));
    engine
}

/// How many may be in flight at this time.
fn in_flight(engine: &mut Engine, ms: u64) -> Vec<Grant> {
    std::iter::from_fn(|| engine.try_admit(&Call::to("api"), at(ms)).ok()).take(100).collect()
}

#[test]
fn throttled_calls_are_as_many_as_the_rate_lets_go_while_a_reply_takes() {
    let mut engine = throttled("");
    let mut running = Vec::new();
    for ms in (11_010..13_000).step_by(10) {
        running.extend(in_flight(&mut engine, ms));
    }
    assert_eq!(running.len(), 10, "ten a second, for the second that a reply takes");
    let one = running.pop().expect("one");
    engine.end_call(one, &answered(), at(13_000));
    assert_eq!(in_flight(&mut engine, 13_010).len(), 1, "whatever ends makes room for another");
    // The tail of the window is over: they go as they like, and those that went throttled give back what they took.
    assert!(in_flight(&mut engine, 22_000).len() > 50);
    for grant in running {
        engine.end_call(grant, &answered(), at(22_500));
    }
    assert_eq!(engine.limit("api/throttled_concurrency", at(22_500)).expect("it is there").used, 1);
}

/// Also when what replies take is found to be more meanwhile, and a route is taken for the first time.
#[test]
fn how_many_go_throttled_does_not_depend_on_who_looks() {
    let bound = |looks: bool| {
        let mut engine = throttled("[loop_types.code]\npriority = \"low\"");
        let other = Call::to("api").loop_type("code");
        let slow: Vec<Grant> = (0..8).map(|nth| go(&mut engine, 11_010 + nth * 100)).collect();
        if looks {
            engine.passages(&other, at(12_000)).expect("a way");
        }
        for grant in slow {
            engine.end_call(grant, &answered(), at(18_000));
        }
        let _grant = engine.try_admit(&other, at(18_100)).expect("it may go");
        engine.limit("api/throttled_concurrency", at(18_100)).expect("it is there").capacity
    };
    assert_eq!((bound(false), bound(true)), (10, 10));
}

#[test]
fn a_throttled_concurrency_that_is_set_is_the_one_that_counts() {
    let mut engine = throttled("throttled_concurrency = 3");
    let mut running = Vec::new();
    for ms in (11_010..13_000).step_by(10) {
        running.extend(in_flight(&mut engine, ms));
    }
    assert_eq!(running.len(), 3);
}

#[test]
fn what_adapts_is_remembered_after_a_restart() {
    let config = "[services.api]\nconcurrency = { adaptive = \"aimd\", min = 2, max = 50 }";
    let mut first = engine(config);
    let capacity = |engine: &mut Engine, ms| engine.limit("api/concurrency", at(ms)).expect("there").capacity;
    let before = capacity(&mut first, 0);
    for second in 0..20 {
        let running = in_flight(&mut first, second * 1_000);
        running.into_iter().for_each(|grant| first.end_call(grant, &answered(), at(second * 1_000 + 100)));
    }
    let learned = first.learned(at(20_000)).pop().expect("something was learned");
    assert!(learned.in_force > before, "it rose while it was reached: {}", learned.in_force);
    let mut second = engine(config);
    assert!(second.remember(&learned, at(0)));
    assert_eq!(capacity(&mut second, 0), learned.in_force);
}
