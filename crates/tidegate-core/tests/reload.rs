//! Configs that change while calls wait and run.

mod common;

use common::World;
use tidegate_core::config::RateLimit;
use tidegate_core::rate::{Algorithm, Rate};
use tidegate_core::{Call, Config, Dimension, Engine, Nanos, Priority};

use std::time::Duration;

const BUCKET: &str = r#"
[services.api]
requests = { limit = "100/s", algorithm = "token-bucket", burst = 100 }
"#;

fn config(text: &str) -> Config {
    Config::parse(text, "test.toml").unwrap_or_else(|errors| panic!("{errors}"))
}

fn reload(world: &mut World, text: &str) {
    world.engine.reconfigure(&config(text), world.now).expect("a valid config");
    world.collect();
}

fn drained(text: &str) -> World {
    let mut world = World::new(text);
    world.call(Call::to("api").requests(100));
    assert_eq!(world.went.len(), 1);
    world
}

#[test]
fn a_waiting_call_keeps_its_loop_and_its_priority_over_a_reload() {
    let mut world = drained(BUCKET);
    let low = world.calls(3, &Call::to("api").loop_id("a").priority(Priority::Low));
    let high = world.calls(3, &Call::to("api").loop_id("b").priority(Priority::High));
    let normal = world.calls(3, &Call::to("api").loop_id("c"));
    reload(&mut world, BUCKET);
    world.run_to(1_000.0);
    assert_eq!(world.order()[1..], [&high[..], &normal[..], &low[..]].concat());
}

#[test]
fn a_waiting_estimate_is_brought_down_when_its_limit_is_lowered() {
    let mut world = drained(BUCKET);
    let call = world.call(Call::to("api").requests(80).estimated());
    let lowered = RateLimit {
        dimension: Dimension::Requests,
        rate: Rate::new(50, Duration::from_secs(1)).expect("in range"),
        algorithm: Some(Algorithm::TokenBucket),
        burst: Some(50),
        calendar: None,
        reserve: None,
        origin: Default::default(),
    };
    world.engine.set_rate("api/requests/1s", &lowered, world.now).expect("valid");
    world.collect();
    world.run_to(10_000.0);
    assert_eq!(world.went_at(call), Some(2_000.0), "a debt of 50 first, then all it can have");
}

#[test]
fn a_limit_changed_to_another_window_counts_in_that_window() {
    let mut world = World::new("[services.api]\nrequests = { limit = \"10/s\", burst = 10 }\n");
    let slower = RateLimit {
        dimension: Dimension::Requests,
        rate: Rate::new(10, Duration::from_secs(100)).expect("in range"),
        algorithm: None,
        burst: Some(10),
        calendar: None,
        reserve: None,
        origin: Default::default(),
    };
    world.engine.set_rate("api/requests/1s", &slower, world.now).expect("valid");
    let calls = world.calls(20, &Call::to("api"));
    world.run_to(99_000.0);
    assert_eq!(world.went.len(), 10);
    world.run_to(101_000.0);
    assert!(world.went_at(calls[19]).is_some());
}

#[test]
fn calls_set_free_by_a_reload_go_in_the_order_in_which_they_came() {
    let mut world = drained(BUCKET);
    let calls: Vec<usize> =
        (0..50).map(|n| world.call(Call::to("api").loop_id(&format!("{}", n % 7)))).collect();
    reload(&mut world, "[services.api]\n");
    assert_eq!(world.order()[1..], calls);
}

#[test]
fn dimensions_may_come_and_go_over_many_reloads() {
    let text = |n: usize| format!("[services.api]\nconcurrency = 3\nrequests = \"9/h\"\nunit{n} = \"5/h\"\n");
    let mut world = World::new(&text(0));
    for n in 0..30 {
        reload(&mut world, &text(n));
        let unit = Dimension::Custom(format!("unit{n}").into());
        let call = Call::to("api").units(unit, 4);
        let went = world.went.len();
        world.try_call(&call).expect("fits");
        let refused = world.try_call(&call).expect_err("only one unit is left");
        assert_eq!(refused.limit.as_deref(), Some(&*format!("api/unit{n}/1h")));
        // Every third one stays in flight over the next two reloads.
        let (number, _) = world.went[went];
        if n % 3 != 0 {
            world.finish(number);
        }
        for old in world.held.keys().copied().filter(|held| held + 4 < number).collect::<Vec<_>>() {
            world.finish(old);
        }
        world.now = Nanos(world.now.0 + 4_000_000_000_000);
        world.engine.advance(world.now);
    }
}

#[test]
fn calls_in_flight_leave_nothing_behind_when_keys_get_limits_of_their_own_and_share_again() {
    let config = |per_key: bool| {
        let text = format!("[services.api]\nper_key = {per_key}\nconcurrency = 2\n");
        Config::parse(&text, "test.toml").unwrap()
    };
    let mut engine = Engine::new(&config(false), Nanos::ZERO, Duration::ZERO).unwrap();
    let call = Call::to("api").key("sk-1");
    let before = [0, 1].map(|_| engine.try_admit(&call, Nanos::ZERO).unwrap());
    engine.reconfigure(&config(true), Nanos(1)).unwrap();
    let between = [0, 1].map(|_| engine.try_admit(&call, Nanos(1)).unwrap());
    engine.reconfigure(&config(false), Nanos(2)).unwrap();
    let after = engine.try_admit(&call, Nanos(2)).unwrap();
    for grant in before.into_iter().chain(between) {
        engine.finish(grant, None, Nanos(3));
    }
    assert_eq!(engine.limit("api/concurrency", Nanos(3)).unwrap().used, 1, "the one that took from it");
    engine.finish(after, None, Nanos(4));
    assert_eq!(engine.limit("api/concurrency", Nanos(4)).unwrap().used, 0);
}
