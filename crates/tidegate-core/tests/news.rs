//! What happens to windows and breakers is told, whoever looks when.

mod common;

use std::time::Duration;

use common::World;
use tidegate_core::engine::{Ended, Fate, News};
use tidegate_core::{Call, Nanos};

const CONFIG: &str = "[services.api]\nbreaker = { failures = 1, open_for = \"30s\" }\n";

#[test]
fn a_window_that_opens_and_is_cleared_at_once_is_told() {
    let mut world = World::new(CONFIG);
    assert!(!world.engine.take_notice());
    world.engine.set_backoff("api", Duration::from_secs(5), Nanos::ZERO).expect("known");
    world.engine.set_backoff("api", Duration::from_secs(2), Nanos::ZERO).expect("known");
    world.engine.set_backoff("api", Duration::from_secs(7), Nanos::ZERO).expect("known");
    world.engine.clear_backoff("api", Nanos::ZERO);
    world.engine.clear_backoff("api", Nanos::ZERO);
    assert!(world.engine.take_notice() && !world.engine.take_notice(), "once");
    let opened = |s: u64| News::WindowOpened { key: "api".into(), until: Nanos(s * 1_000_000_000) };
    let told = [opened(5), opened(7), News::WindowCleared { key: "api".into() }];
    assert_eq!(world.engine.news(), told, "a shorter window changes nothing, and is no news");
    assert_eq!(world.engine.news(), []);
}

#[test]
fn a_breaker_that_opens_and_closes_is_told() {
    let mut world = World::new(CONFIG);
    for (at, fate) in [(0, Fate::Failed { wait: None }), (30, Fate::Answered)] {
        let now = Nanos(at * 1_000_000_000);
        let grant = world.engine.try_admit(&Call::to("api"), now).expect("it goes");
        world.engine.end_call(grant, &Ended { fate, ..Ended::default() }, now);
    }
    let name = || "api/breaker".into();
    let until = Nanos(30_000_000_000);
    assert_eq!(
        world.engine.news(),
        [News::BreakerOpened { name: name(), until }, News::BreakerClosed { name: name() }]
    );
}
