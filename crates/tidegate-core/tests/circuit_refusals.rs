//! What those who wait are told when a breaker opens.

use std::time::Duration;

use tidegate_core::engine::{Engine, Fate};
use tidegate_core::{Admission, Call, Config, Nanos, Reason, Verdict};

#[test]
fn whoever_is_refused_because_a_breaker_opens_is_told_so_and_when_to_come_back() {
    let config = "[services.api]\nconcurrency = 1\nbreaker = { failures = 1, open_for = \"30s\", queued = \"fail\" }\n";
    let config = Config::parse(config, "test.toml").expect("the config is right");
    let mut engine = Engine::new(&config, Nanos::ZERO, Duration::ZERO).expect("the config can be");
    let call = Call::to("api");
    let long = Duration::from_secs(3_600);
    let Ok(Admission::Granted(grant)) = engine.enqueue(&call, long, Nanos::ZERO) else { panic!("it goes") };
    assert!(matches!(engine.enqueue(&call, long, Nanos::ZERO), Ok(Admission::Waiting(_))));
    engine.end_call(grant, &Fate::Failed { wait: None }.into(), Nanos(1));
    let Some((_, Verdict::Refused(refusal))) = engine.verdicts().next() else { panic!("it is refused") };
    assert_eq!(refusal.reason, Reason::CircuitOpen);
    assert_eq!(refusal.limit.as_deref(), Some("api/breaker"), "it waited for a slot, which is not why");
    assert_eq!(refusal.wait, Some(Duration::from_secs(30)));
}
