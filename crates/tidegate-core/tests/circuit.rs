//! Breakers in the engine: who is held, who is refused, and who probes.

mod common;

use std::time::Duration;

use tidegate_core::engine::{Arrived, BreakerState, Engine, Fate};
use tidegate_core::{Admission, Call, Config, Grant, Nanos, Priority, Reason, Ticket, Verdict};

use common::plain::{LONG, at, engine};

const BREAKER: &str = "[services.api]\nrequests = \"1000/s\"\nconcurrency = 3\n\
                       breaker = { failures = 2, open_for = \"30s\" }\n";

fn go(engine: &mut Engine, call: &Call, now: Nanos) -> Grant {
    engine.try_admit(call, now).expect("it may go")
}

fn wait(engine: &mut Engine, call: &Call, now: Nanos) -> Ticket {
    match engine.enqueue(call, LONG, now).expect("nothing refuses it") {
        Admission::Granted(_) => panic!("it goes"),
        Admission::Waiting(ticket) => ticket,
    }
}

fn fail(engine: &mut Engine, grant: Grant, now: Nanos) {
    engine.end_call(grant, &Fate::Failed { wait: None }.into(), now);
}

/// Two failures, a millisecond each, end at that time.
fn break_it(engine: &mut Engine, call: &Call, now: u64) {
    for ms in [now - 1, now] {
        let grant = go(engine, call, at(ms));
        fail(engine, grant, at(ms));
    }
}

fn state(engine: &mut Engine, now: Nanos) -> BreakerState {
    engine.breakers(now)[0].state
}

/// Who was let go, and as what.
fn gone(engine: &mut Engine) -> Vec<(Ticket, Grant)> {
    let granted = engine.verdicts().map(|(ticket, verdict)| match verdict {
        Verdict::Granted(grant) => (ticket, grant),
        Verdict::Refused(refusal) => panic!("{refusal}"),
    });
    granted.collect()
}

/// Advances to the next wake-up, if that is no later.
fn gone_by(engine: &mut Engine, until: Nanos) -> bool {
    let wake = engine.next_wake().filter(|wake| *wake <= until);
    wake.map(|wake| engine.advance(wake)).is_some()
}

#[test]
fn c1_open_refuses_a_new_call_at_once_with_the_time_of_the_next_probe() {
    let mut engine = engine(BREAKER);
    let call = Call::to("api");
    break_it(&mut engine, &call, 10);
    assert_eq!(state(&mut engine, at(10)), BreakerState::Open { probe_in: Duration::from_secs(30) });
    for refusal in
        [engine.enqueue(&call, LONG, at(1_010)).unwrap_err(), engine.try_admit(&call, at(1_010)).unwrap_err()]
    {
        assert_eq!((&refusal.reason, refusal.wait), (&Reason::CircuitOpen, Some(Duration::from_secs(29))));
        assert_eq!(refusal.limit.as_deref(), Some("api/breaker"));
    }
    let probe = go(&mut engine, &call, at(30_010));
    assert_eq!(state(&mut engine, at(30_010)), BreakerState::HalfOpen { probes: 0 });
    let refusal = engine.enqueue(&call, LONG, at(30_020)).unwrap_err();
    assert_eq!((refusal.reason, refusal.wait), (Reason::CircuitOpen, None), "a probe is out");
    engine.end_call(probe, &Fate::Answered.into(), at(30_030));
    assert_eq!(state(&mut engine, at(30_030)), BreakerState::Closed);
    let _goes = go(&mut engine, &call, at(30_030));
}

#[test]
fn those_who_wait_when_it_opens_go_on_waiting_and_the_first_of_them_probes() {
    let mut engine = engine(BREAKER);
    let call = Call::to("api");
    let running: Vec<_> = (0..3).map(|_| go(&mut engine, &call, at(0))).collect();
    let low = wait(&mut engine, &Call::to("api").priority(Priority::Low), at(1));
    let normal = wait(&mut engine, &call, at(2));
    let high = wait(&mut engine, &Call::to("api").priority(Priority::High), at(3));
    for grant in running {
        fail(&mut engine, grant, at(10));
    }
    // The first failure freed a slot while it was still closed.
    let early = gone(&mut engine);
    assert_eq!(early.iter().map(|(ticket, _)| *ticket).collect::<Vec<_>>(), [high]);
    assert_eq!(engine.breakers(at(11))[0].waiting, 2);
    while gone_by(&mut engine, at(30_009)) {}
    assert!(gone(&mut engine).is_empty(), "nobody before the time of the probe");
    assert_eq!(engine.next_wake(), Some(at(30_010)));
    engine.advance(at(30_010));
    let mut probes = gone(&mut engine);
    let (ticket, probe) = probes.remove(0);
    assert_eq!((ticket, probes.len()), (normal, 0), "the first in line, and nobody else");
    engine.end_call(probe, &Fate::Answered.into(), at(30_050));
    assert_eq!(gone(&mut engine).into_iter().map(|(ticket, _)| ticket).collect::<Vec<_>>(), [low]);
}

#[test]
fn those_who_wait_can_be_refused_when_it_opens() {
    let config =
        format!("{}queue = {{}}\n", BREAKER.replace("failures = 2", "failures = 2, queued = \"fail\""));
    let mut engine = engine(&config);
    let call = Call::to("api");
    let running: Vec<_> = (0..3).map(|_| go(&mut engine, &call, at(0))).collect();
    let waiting: Vec<_> = (0..4).map(|_| wait(&mut engine, &call, at(1))).collect();
    for grant in running {
        fail(&mut engine, grant, at(10));
    }
    let verdicts: Vec<_> = engine.verdicts().collect();
    let refused = verdicts.iter().filter_map(|(ticket, verdict)| match verdict {
        Verdict::Refused(refusal) => Some((*ticket, &refusal.reason)),
        Verdict::Granted(_) => None,
    });
    let expected: Vec<_> = waiting[1..].iter().map(|ticket| (*ticket, &Reason::CircuitOpen)).collect();
    assert_eq!(refused.collect::<Vec<_>>(), expected, "the first went when a slot came free");
    assert_eq!(engine.waiting(), 0);
}

#[test]
fn patient_callers_wait_for_the_probe_if_it_lies_within_their_time() {
    let mut engine = engine(BREAKER);
    engine.wait_for_breakers(true);
    let call = Call::to("api");
    break_it(&mut engine, &call, 10);
    let refusal = engine.enqueue(&call, Duration::from_secs(5), at(20)).unwrap_err();
    assert_eq!(refusal.reason, Reason::CircuitOpen);
    let ticket = wait(&mut engine, &call, at(20));
    engine.advance(at(30_010));
    assert_eq!(gone(&mut engine)[0].0, ticket);
}

#[test]
fn a_call_that_is_tried_again_waits_for_the_probe() {
    let mut engine = engine(BREAKER);
    let call = Call::to("api");
    let arrived: Arrived = engine.arrived(at(0));
    break_it(&mut engine, &call, 10);
    let refusal = engine.enqueue_again(&call, arrived, Duration::from_secs(5), at(20)).unwrap_err();
    assert_eq!(refusal.reason, Reason::CircuitOpen, "its time is over before that");
    let again = engine.enqueue_again(&call, arrived, LONG, at(20)).unwrap();
    assert!(matches!(again, Admission::Waiting(_)));
}

#[test]
fn a_call_whose_time_is_up_while_a_probe_is_out_is_told_what_it_waited_for() {
    let mut engine = engine(BREAKER);
    let call = Call::to("api");
    let arrived = engine.arrived(at(0));
    break_it(&mut engine, &call, 10);
    let probe = go(&mut engine, &call, at(30_010));
    let again = engine.enqueue_again(&call, arrived, Duration::from_secs(5), at(30_020)).unwrap();
    assert!(matches!(again, Admission::Waiting(_)));
    fail(&mut engine, probe, at(30_030));
    engine.advance(at(35_020));
    let Some((_, Verdict::Refused(refusal))) = engine.verdicts().next() else { panic!("its time is up") };
    assert_eq!((refusal.reason, refusal.wait), (Reason::Timeout, Some(Duration::from_millis(55_010))));
}

#[test]
fn c2_half_open_admits_exactly_its_probes_and_takes_back_those_without_an_answer() {
    let mut engine = engine(&BREAKER.replace("failures = 2", "failures = 2, probes = 2"));
    engine.wait_for_breakers(true);
    let call = Call::to("api");
    break_it(&mut engine, &call, 10);
    let tickets: Vec<_> = (0..5).map(|_| wait(&mut engine, &call, at(20))).collect();
    engine.advance(at(30_010));
    let mut probes = gone(&mut engine);
    assert_eq!(probes.iter().map(|(ticket, _)| *ticket).collect::<Vec<_>>(), tickets[..2]);
    // Dropped, cancelled, or held back by a limit: another one probes each time.
    let ends: [fn(&mut Engine, Grant); 3] = [
        |engine, grant| engine.finish(grant, None, at(30_020)),
        |engine, grant| engine.cancel(grant, at(30_020)),
        |engine, grant| {
            let fate = Fate::TurnedAway { wait: Some(Duration::ZERO), by: Vec::new(), in_flight: true };
            engine.end_call(grant, &fate.into(), at(30_020));
        },
    ];
    for (end, next) in ends.into_iter().zip(&tickets[2..]) {
        end(&mut engine, probes.remove(0).1);
        let mut fresh = gone(&mut engine);
        assert_eq!(fresh.iter().map(|(ticket, _)| ticket).collect::<Vec<_>>(), [next]);
        probes.append(&mut fresh);
        assert_eq!(probes.len(), 2);
    }
    let (_, probe) = probes.remove(0);
    fail(&mut engine, probe, at(30_030));
    assert_eq!(state(&mut engine, at(30_030)), BreakerState::Open { probe_in: Duration::from_secs(60) });
}

#[test]
fn c3_what_went_before_it_opened_changes_nothing_later() {
    let mut engine = engine(BREAKER);
    let call = Call::to("api");
    let slow = go(&mut engine, &call, at(0));
    break_it(&mut engine, &call, 10);
    let probe = go(&mut engine, &call, at(30_010));
    engine.end_call(slow, &Fate::Answered.into(), at(30_020));
    assert_eq!(state(&mut engine, at(30_020)), BreakerState::HalfOpen { probes: 0 });
    fail(&mut engine, probe, at(30_030));
    assert_eq!(state(&mut engine, at(30_030)), BreakerState::Open { probe_in: Duration::from_secs(60) });
}

#[test]
fn a_429_is_no_failure_unless_the_config_says_so() {
    for (count, open) in [(false, false), (true, true)] {
        let config = BREAKER.replace("failures = 2", &format!("failures = 2, count_rate_limits = {count}"));
        let mut engine = engine(&config);
        for ms in [0, 2_000] {
            let grant = go(&mut engine, &Call::to("api"), at(ms));
            let fate = Fate::TurnedAway { wait: None, by: Vec::new(), in_flight: false };
            engine.end_call(grant, &fate.into(), at(ms));
        }
        assert_eq!(state(&mut engine, at(2_000)) != BreakerState::Closed, open, "{count}");
    }
}

#[test]
fn each_endpoint_can_have_its_own() {
    let config = "[services.api]\nbreaker = { failures = 2, per = \"endpoint\" }\n\
                  [services.api.endpoints.\"GET /a\"]\n[services.api.endpoints.\"GET /b\"]\n";
    let mut engine = engine(config);
    let [a, b, other] = ["GET /a", "GET /b", "GET /c"].map(|endpoint| Call::to("api").endpoint(endpoint));
    break_it(&mut engine, &a, 10);
    assert!(engine.try_admit(&a, at(11)).is_err());
    let _b = go(&mut engine, &b, at(11));
    let _other = go(&mut engine, &other, at(11));
    let names: Vec<_> = engine.breakers(at(11)).into_iter().map(|breaker| breaker.name.to_string()).collect();
    assert_eq!(names, ["api/breaker", "api/endpoint:GET /a/breaker", "api/endpoint:GET /b/breaker"]);
}

#[test]
fn an_open_breaker_stays_open_under_another_config_and_goes_with_its_rules() {
    let mut engine = engine(BREAKER);
    let call = Call::to("api");
    let before = go(&mut engine, &call, at(0));
    break_it(&mut engine, &call, 10);
    let config = Config::parse(&BREAKER.replace("1000/s", "900/s"), "test.toml").unwrap();
    engine.reconfigure(&config, at(20)).unwrap();
    assert!(engine.try_admit(&call, at(21)).is_err());
    engine.end_call(before, &Fate::Answered.into(), at(22));
    let config = Config::parse("[services.api]\nrequests = \"900/s\"\n", "test.toml").unwrap();
    engine.reconfigure(&config, at(30)).unwrap();
    assert!(engine.breakers(at(30)).is_empty());
    let _goes = go(&mut engine, &call, at(31));
}

#[test]
fn a_call_that_never_got_there_is_a_failure_and_costs_nothing() {
    let mut engine = engine(BREAKER);
    let call = Call::to("api");
    for ms in [1, 2] {
        let grant = go(&mut engine, &call, at(ms));
        engine.end_call(grant, &Fate::Unreached.into(), at(ms));
        assert_eq!(engine.limit("api/requests/1s", at(ms)).unwrap().used, 0);
    }
    assert!(matches!(state(&mut engine, at(2)), BreakerState::Open { .. }));
}

#[test]
fn fewer_probes_under_another_config_do_not_leave_it_half_open() {
    let two = BREAKER.replace("failures = 2", "failures = 2, probes = 2");
    let mut engine = engine(&two);
    let call = Call::to("api");
    break_it(&mut engine, &call, 10);
    let probe = go(&mut engine, &call, at(30_010));
    engine.end_call(probe, &Fate::Answered.into(), at(30_020));
    engine.reconfigure(&Config::parse(BREAKER, "test.toml").unwrap(), at(30_030)).unwrap();
    assert_eq!(state(&mut engine, at(30_030)), BreakerState::Closed);
}

#[test]
fn a_probe_answers_to_the_breaker_it_went_through_whatever_its_calls_go_through_now() {
    let service = format!("{BREAKER}[services.api.endpoints.\"GET /a\"]\n");
    let endpoint = service.replace("failures = 2", "failures = 2, per = \"endpoint\"");
    let (a, other) = (Call::to("api").endpoint("GET /a"), Call::to("api"));
    let parse = |text: &str| Config::parse(text, "test.toml").unwrap();

    let mut widely = engine(&service);
    break_it(&mut widely, &a, 10);
    let probe = go(&mut widely, &a, at(30_010));
    widely.reconfigure(&parse(&endpoint), at(30_020)).unwrap();
    widely.end_call(probe, &Fate::Answered.into(), at(30_030));
    assert_eq!(state(&mut widely, at(30_030)), BreakerState::Closed);

    let mut narrowly = engine(&endpoint);
    break_it(&mut narrowly, &a, 10);
    break_it(&mut narrowly, &other, 20);
    let probe = go(&mut narrowly, &a, at(30_010));
    let _own = go(&mut narrowly, &other, at(30_020));
    narrowly.reconfigure(&parse(&service), at(30_030)).unwrap();
    narrowly.end_call(probe, &Fate::Answered.into(), at(30_040));
    assert_eq!(
        state(&mut narrowly, at(30_040)),
        BreakerState::HalfOpen { probes: 0 },
        "its own is still out"
    );
}

#[test]
fn a_probe_that_is_being_answered_closes_it_though_it_is_still_in_flight() {
    let mut engine = engine(BREAKER);
    engine.wait_for_breakers(true);
    let call = Call::to("api");
    break_it(&mut engine, &call, 10);
    let waiting = wait(&mut engine, &call, at(20));
    engine.advance(at(30_010));
    let (_, probe) = gone(&mut engine).remove(0);
    let next = wait(&mut engine, &call, at(30_020));
    engine.answered(&probe, at(30_050));
    assert_eq!(state(&mut engine, at(30_050)), BreakerState::Closed);
    assert_eq!(gone(&mut engine).into_iter().map(|(ticket, _)| ticket).collect::<Vec<_>>(), [next]);
    assert_ne!(waiting, next);
    fail(&mut engine, probe, at(90_000));
    assert_eq!(state(&mut engine, at(90_000)), BreakerState::Closed, "it has had its say");
}

#[test]
fn calls_that_the_upstream_did_not_process_open_no_breaker() {
    let mut engine = engine(BREAKER);
    for ms in 0..10 {
        let grant = go(&mut engine, &Call::to("api"), at(ms));
        engine.end_call(grant, &Fate::Unprocessed.into(), at(ms));
    }
    assert_eq!(
        state(&mut engine, at(10)),
        BreakerState::Closed,
        "the upstream closes connections in good form"
    );
}
