//! Configs that change while calls wait and run.

mod common;

use common::World;
use tidegate_core::config::RateLimit;
use tidegate_core::{Algorithm, Call, Config, Dimension, Engine, Nanos, Priority, Rate};

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
fn calls_in_flight_count_and_leave_nothing_behind_when_keys_get_limits_of_their_own_and_share_again() {
    let config = |per_key: bool| {
        let text = format!("[services.api]\nper_key = {per_key}\nconcurrency = 2\n");
        Config::parse(&text, "test.toml").unwrap()
    };
    let mut engine = Engine::new(&config(false), Nanos::ZERO, Duration::ZERO).unwrap();
    let [one, other] = ["sk-1", "sk-2"].map(|key| Call::to("api").key(key));
    // Whose these are is not known later: nothing depended on it.
    let shared = [0, 1].map(|_| engine.try_admit(&one, Nanos::ZERO).unwrap());
    engine.reconfigure(&config(true), Nanos(1)).unwrap();
    let own = [&one, &one, &other].map(|call| engine.try_admit(call, Nanos(1)).unwrap());
    engine.try_admit(&one, Nanos(1)).expect_err("two of this key");
    for grant in shared {
        engine.finish(grant, None, Nanos(1));
    }
    engine.reconfigure(&config(false), Nanos(2)).unwrap();
    assert_eq!(engine.limit("api/concurrency", Nanos(2)).unwrap().used, 3, "all of all keys");
    engine.try_admit(&one, Nanos(2)).expect_err("there is no room");
    for grant in own {
        engine.finish(grant, None, Nanos(3));
    }
    assert_eq!(engine.limit("api/concurrency", Nanos(3)).unwrap().used, 0);
    let after = [0, 1].map(|_| engine.try_admit(&one, Nanos(4)).expect("both slots are free"));
    engine.try_admit(&one, Nanos(4)).expect_err("and there are no more");
    for grant in after {
        engine.finish(grant, None, Nanos(5));
    }
    assert_eq!(engine.limit("api/concurrency", Nanos(5)).unwrap().used, 0);
}

#[test]
fn a_service_that_is_removed_and_put_back_counts_the_calls_that_are_still_in_flight() {
    let both = with("[services.api]\nconcurrency = 4\n");
    let parse = |text: &str| Config::parse(text, "test.toml").unwrap();
    let mut engine = Engine::new(&parse(&both), Nanos::ZERO, Duration::ZERO).unwrap();
    let call = Call::to("api");
    let [one, two, three, four] = [0; 4].map(|_| engine.try_admit(&call, Nanos::ZERO).unwrap());
    engine.reconfigure(&parse(&with("")), Nanos(1)).unwrap();
    engine.finish(one, None, Nanos(1));
    engine.reconfigure(&parse(&both), Nanos(2)).unwrap();
    assert_eq!(engine.limit("api/concurrency", Nanos(2)).unwrap().used, 3);
    let again = engine.try_admit(&call, Nanos(2)).expect("one slot is free");
    engine.try_admit(&call, Nanos(2)).expect_err("four calls are in flight at the upstream");
    for grant in [two, three, four, again] {
        engine.finish(grant, None, Nanos(3));
    }
    assert_eq!(engine.limit("api/concurrency", Nanos(3)).unwrap().used, 0);
}

/// A service, and another one that always stays.
fn with(service: &str) -> String {
    format!("{service}[services.other]\nrequests = \"5/min\"\n")
}

#[test]
fn a_service_that_is_removed_and_put_back_has_spent_what_it_had() {
    for limit in [
        "{ limit = \"10/min\", burst = 10 }",
        "{ limit = \"10/min\", algorithm = \"token-bucket\" }",
        "{ limit = \"10/min\", algorithm = \"fixed-window\" }",
    ] {
        let both = with(&format!("[services.api]\nrequests = {limit}\n"));
        let mut world = World::new(&both);
        world.calls(10, &Call::to("api"));
        assert_eq!(world.went.len(), 10);
        reload(&mut world, &with(""));
        assert!(world.try_call(&Call::to("api")).is_err(), "there is no such service");
        // Another reload meanwhile forgets nothing.
        world.run_to(1_000.0);
        reload(&mut world, &with(""));
        reload(&mut world, &both);
        assert!(world.try_call(&Call::to("api")).is_err(), "{limit}: what was spent is spent");
        assert_eq!(world.engine.limit("api/requests/1m", world.now).expect("it is back").used.max(9), 10);
        world.run_to(61_000.0);
        world.try_call(&Call::to("api")).expect("a window later it is not");
    }
}

#[test]
fn what_a_removed_service_spent_is_forgotten_when_it_no_longer_counts() {
    let both = with("[services.api]\nrequests = { limit = \"10/min\", burst = 10 }\n");
    let mut world = World::new(&both);
    world.calls(10, &Call::to("api"));
    reload(&mut world, &with(""));
    world.run_to(61_000.0);
    reload(&mut world, &both);
    assert_eq!(world.engine.limit("api/requests/1m", world.now).expect("it is back").used, 0);
    for _ in 0..10 {
        world.try_call(&Call::to("api")).expect("all of it is there");
    }
}

#[test]
fn loops_keys_and_models_that_are_removed_and_put_back_have_spent_what_they_had() {
    let config = "[services.api]\nper_key = true\n[services.api.models.\"big*\"]\nrequests = { limit = \"2/min\", burst = 2 }\n\
        [loops]\nrequests = { limit = \"3/min\", burst = 3 }\n";
    let (big, looped) = (Call::to("api").model("big-1").key("sk-1"), Call::to("api").loop_id("a"));
    let mut world = World::new(config);
    for _ in 0..2 {
        world.try_call(&big).expect("fits");
        world.try_call(&looped).expect("fits");
    }
    reload(&mut world, "[services.api]\nper_key = true\n");
    world.try_call(&big).expect("there is no limit");
    reload(&mut world, config);
    assert!(world.try_call(&big).is_err(), "the key's model limit was spent");
    world.try_call(&Call::to("api").model("big-1").key("sk-2")).expect("another key's was not");
    world.try_call(&looped).expect("one is left");
    assert!(world.try_call(&looped).is_err(), "and no more");
}

#[test]
fn a_backoff_window_of_a_removed_service_is_open_when_the_service_comes_back() {
    let both = with("[services.api]\nrequests = \"100/min\"\n");
    let mut world = World::new(&both);
    world.engine.set_backoff("api", Duration::from_secs(30), world.now).expect("a service");
    reload(&mut world, &with(""));
    world.run_to(10_000.0);
    reload(&mut world, &both);
    assert!(world.try_call(&Call::to("api")).is_err(), "the upstream said to wait");
    world.run_to(31_000.0);
    world.try_call(&Call::to("api")).expect("it is over");
}

/// A driver that writes everything at once, and finds it again.
fn written(
    engine: &mut Engine,
    disk: &mut std::collections::BTreeMap<String, tidegate_core::limits::snapshot::Kept>,
    now: Nanos,
) {
    let pages = engine.pages(usize::MAX, now);
    for page in &pages {
        match &page.kept {
            Some(kept) => drop(disk.insert(page.name.to_string(), kept.clone())),
            None => drop(disk.remove(&*page.name)),
        }
    }
    engine.written(&pages, now);
}

#[test]
fn what_a_removed_service_spent_is_on_disk_until_it_no_longer_counts() {
    use tidegate_core::engine::Found;

    let at = |seconds: u64| Nanos(seconds * 1_000_000_000);
    let both = config(&with("[services.api]\nrequests = { limit = \"10/min\", burst = 10 }\n"));
    let mut disk = std::collections::BTreeMap::new();
    let mut engine = Engine::new(&both, at(0), Duration::ZERO).expect("valid");
    engine.keep_book(Found::default(), at(0)).expect("nothing was found");
    for _ in 0..10 {
        written(&mut engine, &mut disk, at(1));
        let grant = engine.try_admit(&Call::to("api"), at(1)).expect("fits");
        engine.finish(grant, None, at(1));
    }
    engine.reconfigure(&config(&with("")), at(2)).expect("valid");
    written(&mut engine, &mut disk, at(3));
    assert!(disk.contains_key("api/requests/1m"), "{:?}", disk.keys());
    // A crash, and a start with the service in the config.
    let found = |disk: &std::collections::BTreeMap<String, tidegate_core::limits::snapshot::Kept>| {
        let limits = disk.iter().map(|(name, kept)| (name.as_str().into(), kept.clone())).collect();
        Found { limits, crashed: true, ..Found::default() }
    };
    let mut second = Engine::new(&both, at(10), Duration::ZERO).expect("valid");
    second.keep_book(found(&disk), at(10)).expect("it was written");
    assert!(second.limit("api/requests/1m", at(10)).expect("in the config").used >= 10);
    // Without a crash it is forgotten in time, on disk too.
    engine.reconfigure(&config(&with("")), at(70)).expect("valid");
    written(&mut engine, &mut disk, at(70));
    assert!(!disk.contains_key("api/requests/1m"), "{:?}", disk.keys());
}

#[test]
fn where_what_was_spent_is_not_known_limits_begin_as_spent_for_one_window() {
    use tidegate_core::engine::{Found, Unknown};

    let at = |seconds: u64| Nanos(seconds * 1_000_000_000);
    let text = "[services.api]\nrequests = { limit = \"100/min\", burst = 100 }\n\
        tokens = { limit = \"1k/min\", algorithm = \"token-bucket\" }\n[services.own]\nper_key = true\n\
        requests = { limit = \"9/min\", burst = 9 }\n[loops]\nrequests = { limit = \"5/min\", burst = 5 }\n";
    for unknown in [Unknown::All, Unknown::Keys] {
        let mut engine = Engine::new(&config(text), at(0), Duration::ZERO).expect("valid");
        engine.keep_book(Found { unknown, ..Found::default() }, at(0)).expect("nothing was found");
        let mut disk = std::collections::BTreeMap::new();
        let mut goes = |engine: &mut Engine, call: &Call, seconds: u64| {
            // The first attempt makes the limit, the second finds its promise.
            (0..2).any(|_| {
                let granted =
                    engine.try_admit(call, at(seconds)).map(|grant| engine.finish(grant, None, at(seconds)));
                for _ in 0..2 {
                    if let Some(facts) = engine.facts(at(seconds)) {
                        engine.facts_written(&facts);
                    }
                    written(engine, &mut disk, at(seconds));
                }
                granted.is_ok()
            })
        };
        let keyed = Call::to("own").key("sk-1");
        let all = unknown == Unknown::All;
        assert_eq!(goes(&mut engine, &Call::to("api"), 1), !all, "{unknown:?}");
        assert_eq!(goes(&mut engine, &Call::to("api").loop_id("new"), 30), !all, "{unknown:?}");
        assert!(!goes(&mut engine, &keyed, 30), "{unknown:?}");
        let names = engine.take_begun_as_spent();
        let told = |name: &str| names.iter().any(|told| told.starts_with(name));
        assert_eq!((told("api/requests"), told("loop:new"), told("own/key:")), (all, all, true), "{names:?}");
        assert!(goes(&mut engine, &Call::to("api").loop_id("newer"), 62), "{unknown:?}");
        assert!(goes(&mut engine, &keyed, 92), "{unknown:?}");
        assert!(engine.take_begun_as_spent().is_empty(), "a window later nothing begins as spent");
    }
}

#[test]
fn slots_on_disk_are_neither_lost_nor_gained_when_a_service_is_put_back() {
    use tidegate_core::engine::Found;

    let at = |seconds: u64| Nanos(seconds * 1_000_000_000);
    let both = config(&with("[services.api]\nconcurrency = 4\n"));
    let mut disk = std::collections::BTreeMap::new();
    let mut engine = Engine::new(&both, at(0), Duration::ZERO).expect("valid");
    engine.keep_book(Found::default(), at(0)).expect("nothing was found");
    let go = |engine: &mut Engine, disk: &mut _, now: u64| {
        for _ in 0..8 {
            written(engine, disk, at(now));
        }
        engine.try_admit(&Call::to("api"), at(now))
    };
    let mut held: Vec<_> = (0..4).map(|_| go(&mut engine, &mut disk, 1).expect("a slot is free")).collect();
    for round in 0..5 {
        let now = 10 * (round + 1);
        engine.reconfigure(&config(&with("")), at(now)).expect("valid");
        written(&mut engine, &mut disk, at(now));
        engine.finish(held.remove(0), None, at(now));
        engine.reconfigure(&both, at(now + 1)).expect("valid");
        assert_eq!(engine.limit("api/concurrency", at(now + 1)).expect("it is back").used, 3);
        held.push(go(&mut engine, &mut disk, now + 2).expect("one slot is free"));
        go(&mut engine, &mut disk, now + 3).expect_err("four calls are in flight");
        // Each slot that comes back can be taken again.
        for _ in 0..8 {
            engine.finish(held.remove(0), None, at(now + 4));
            held.push(go(&mut engine, &mut disk, now + 4).expect("its slot is free"));
        }
        go(&mut engine, &mut disk, now + 5).expect_err("and there are no more");
    }
    for grant in held {
        engine.finish(grant, None, at(100));
    }
    assert_eq!(engine.limit("api/concurrency", at(100)).expect("it is there").used, 0);
}
