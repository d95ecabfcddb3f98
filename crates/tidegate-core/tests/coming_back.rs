//! A call that is tried again waits where it would if it had never gone.

mod common;

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use tidegate_core::engine::{Arrived, Engine};
use tidegate_core::{Admission, Call, Grant, Priority, Ticket, Verdict};

use common::plain::{LONG, at, engine};

fn waits(admission: Admission) -> Ticket {
    match admission {
        Admission::Waiting(ticket) => ticket,
        Admission::Granted(grant) => panic!("it should wait, and got {grant:?}"),
    }
}

/// The one call that was let go.
fn gone(engine: &mut Engine) -> (Ticket, Grant) {
    let mut verdicts: Vec<_> = engine.verdicts().collect();
    assert_eq!(verdicts.len(), 1, "{verdicts:?}");
    match verdicts.remove(0) {
        (ticket, Verdict::Granted(grant)) => (ticket, grant),
        (_, Verdict::Refused(refusal)) => panic!("{refusal}"),
    }
}

#[test]
fn a_call_that_comes_back_goes_before_those_that_came_after_it() {
    let mut engine = engine("[services.api]\nconcurrency = 1\n");
    let call = Call::to("api");
    let first = engine.arrived(at(0));
    let Admission::Granted(grant) = engine.enqueue_again(&call, first, LONG, at(0)).unwrap() else {
        panic!("there is room")
    };
    let second = waits(engine.enqueue(&call, LONG, at(1)).unwrap());
    let third = waits(engine.enqueue(&call, LONG, at(2)).unwrap());
    engine.finish(grant, None, at(10));
    let (ticket, grant) = gone(&mut engine);
    assert_eq!(ticket, second);
    let back = waits(engine.enqueue_again(&call, first, LONG, at(20)).unwrap());
    engine.finish(grant, None, at(30));
    let (ticket, grant) = gone(&mut engine);
    assert_eq!(ticket, back, "it came before the third");
    engine.finish(grant, None, at(40));
    assert_eq!(gone(&mut engine).0, third);
}

#[test]
fn a_call_that_comes_back_is_as_old_as_it_is() {
    let config = "[services.api]\nconcurrency = 1\nqueue = { aging = \"1s\", aging_share = 1.0 }\n";
    let mut engine = engine(config);
    let low = Call::to("api").loop_id("low").priority(Priority::Low);
    let high = Call::to("api").loop_id("high").priority(Priority::High);
    let first = engine.arrived(at(0));
    let Admission::Granted(grant) = engine.enqueue_again(&low, first, LONG, at(0)).unwrap() else {
        panic!("there is room")
    };
    let before = [10, 11].map(|ms| waits(engine.enqueue(&high, LONG, at(ms)).unwrap()));
    engine.finish(grant, None, at(20));
    let (ticket, grant) = gone(&mut engine);
    assert_eq!(ticket, before[0]);
    waits(engine.enqueue(&high, LONG, at(3_500)).unwrap());
    engine.finish(grant, None, at(3_990));
    let (ticket, grant) = gone(&mut engine);
    assert_eq!(ticket, before[1]);
    let back = waits(engine.enqueue_again(&low, first, LONG, at(4_005)).unwrap());
    engine.finish(grant, None, at(4_006));
    assert_eq!(gone(&mut engine).0, back, "it has come up by four levels, the other by none");
}

#[test]
fn a_call_that_comes_back_is_forecast_from_its_own_place() {
    let mut engine = engine("[services.api]\nrequests = { limit = \"1/s\", algorithm = \"token-bucket\" }\n");
    let call = Call::to("api");
    let first = engine.arrived(at(0));
    assert!(matches!(engine.enqueue_again(&call, first, LONG, at(0)), Ok(Admission::Granted(_))));
    for ms in 1..=20 {
        waits(engine.enqueue(&call, LONG, at(ms)).unwrap());
    }
    // Behind the others it would wait for 21 s.
    let ticket = waits(engine.enqueue_again(&call, first, Duration::from_secs(5), at(30)).unwrap());
    assert_eq!(engine.place(ticket, at(30)).unwrap().position, 1);
    engine.advance(at(1_000));
    assert_eq!(gone(&mut engine).0, ticket);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 400, ..ProptestConfig::default() })]

    /// One slot, one lane: always the oldest goes, whoever came back meanwhile, withdrew, or costs what.
    #[test]
    fn the_oldest_goes_whatever_comes_back(steps in prop::collection::vec((0u8..6, 1u64..4, any::<u16>()), 1..120)) {
        let mut engine = engine("[services.api]\nconcurrency = 1\nbytes = \"1000000000/s\"\n");
        let mut waiting: BTreeMap<Arrived, (Ticket, u64)> = BTreeMap::new();
        let mut away: Vec<(Arrived, u64)> = Vec::new();
        let mut running: Option<(Arrived, Grant, u64)> = None;
        for (now, (step, cost, pick)) in steps.into_iter().enumerate() {
            let now = at(now as u64);
            let entering = match step {
                0 | 1 => Some((engine.arrived(now), cost)),
                2 | 3 if !away.is_empty() => Some(away.swap_remove(usize::from(pick) % away.len())),
                4 if !waiting.is_empty() => {
                    let (&arrived, _) = waiting.iter().nth(usize::from(pick) % waiting.len()).unwrap();
                    let (ticket, cost) = waiting.remove(&arrived).unwrap();
                    prop_assert!(engine.withdraw(ticket, now));
                    away.push((arrived, cost));
                    None
                }
                _ => {
                    if let Some((arrived, grant, cost)) = running.take() {
                        engine.finish(grant, None, now);
                        away.push((arrived, cost));
                    }
                    None
                }
            };
            if let Some((arrived, cost)) = entering {
                let call = Call::to("api").bytes(cost);
                match engine.enqueue_again(&call, arrived, LONG, now).unwrap() {
                    Admission::Granted(grant) => {
                        prop_assert!(running.is_none() && waiting.is_empty());
                        running = Some((arrived, grant, cost));
                    }
                    Admission::Waiting(ticket) => drop(waiting.insert(arrived, (ticket, cost))),
                }
            }
            for (ticket, verdict) in engine.verdicts().collect::<Vec<_>>() {
                let Verdict::Granted(grant) = verdict else { panic!("nobody is refused") };
                let (&arrived, &(oldest, cost)) = waiting.first_key_value().unwrap();
                prop_assert_eq!(ticket, oldest);
                waiting.remove(&arrived);
                prop_assert!(running.is_none());
                running = Some((arrived, grant, cost));
            }
            prop_assert!(running.is_some() || waiting.is_empty());
        }
    }
}
