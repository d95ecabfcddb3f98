//! The simulator plays the engine's rules, in virtual time, the same way every time.

use std::time::Duration;

use tidegate_core::{Call, Config, Priority, Reason};
use tidegate_sim::{Arrival, Fate, run};

fn arrival(at: u64, call: Call) -> Arrival {
    let (timeout, runs) = (Duration::from_secs(3_600), Duration::from_millis(500));
    Arrival { at: Duration::from_millis(at), call, timeout, runs }
}

#[test]
fn a_slot_comes_back_when_a_call_has_run() {
    let config = Config::parse("[services.api]\nconcurrency = 1\n", "test").expect("valid");
    let fates = run(&config, &[arrival(0, Call::to("api")), arrival(100, Call::to("api"))]).expect("valid");
    assert_eq!(fates[1], Fate::Went { waited: Duration::from_millis(400) });
}

#[test]
fn a_refusal_is_told_with_its_reason() {
    let config = Config::parse("[services.api]\nconcurrency = 1\n", "test").expect("valid");
    let mut late = arrival(0, Call::to("api"));
    late.timeout = Duration::from_millis(200);
    let fates = run(&config, &[arrival(0, Call::to("api")), late]).expect("valid");
    assert!(matches!(&fates[1], Fate::Refused(refusal) if refusal.reason == Reason::Timeout));
}

#[test]
fn the_same_input_gives_the_same_output() {
    let text = "[services.api]\nrequests = \"600/min\"\nconcurrency = 5\n[loops]\nrequests = \"60/min\"\n";
    let config = Config::parse(text, "test").expect("valid");
    let arrivals: Vec<_> = (0..500)
        .map(|n| {
            let call = Call::to("api").loop_id(&format!("loop-{}", n % 7)).priority(Priority::ALL[n % 4]);
            arrival(n as u64 * 37 % 4_000, call)
        })
        .collect();
    let first = run(&config, &arrivals).expect("valid");
    assert_eq!(first, run(&config, &arrivals).expect("valid"));
    assert!(first.iter().all(|fate| matches!(fate, Fate::Went { .. })));
}
