//! The engine's behaviours, one by one, in virtual time.

mod common;

use std::time::Duration;

use common::World;
use tidegate_core::{Call, Config, Cost, Dimension, Nanos, Priority, Reason};

const BUCKET: &str = r#"
[services.api]
requests = { limit = "100/s", algorithm = "token-bucket", burst = 100 }
queue = { max_waiting = 1000000 }
"#;

fn drained(config: &str) -> World {
    let mut world = World::new(config);
    world.call(Call::to("api").requests(100));
    assert_eq!(world.went.len(), 1);
    world
}

#[test]
fn a_call_passes_every_limit_or_consumes_nothing_anywhere() {
    let mut world = World::new(
        "[global]\nrequests = \"10/s\"\n[services.api]\nrequests = { limit = \"5/s\", burst = 5 }\nconcurrency = 3\n",
    );
    for _ in 0..3 {
        world.try_call(&Call::to("api")).expect("fits");
    }
    let refused = world.try_call(&Call::to("api")).expect_err("no slot");
    assert_eq!(refused.limit.as_deref(), Some("api/concurrency"));
    assert_eq!(world.engine.limit("global/requests/1s", world.now).expect("known").used, 3);
    assert_eq!(world.engine.limit("api/requests/1s", world.now).expect("known").used, 3);
}

#[test]
fn a_refusal_names_the_limit_the_wait_and_the_reset() {
    let mut world = drained(BUCKET);
    let refused = world.try_call(&Call::to("api").requests(50)).expect_err("drained");
    assert_eq!(refused.reason, Reason::Timeout);
    assert_eq!(refused.limit.as_deref(), Some("api/requests/1s"));
    assert_eq!(refused.wait, Some(Duration::from_millis(500)));
    assert_eq!(refused.reset, Some(Nanos(1_000_000_000)));
}

#[test]
fn a_stated_cost_that_can_never_fit_is_refused_at_once_and_an_estimate_is_clamped() {
    let mut world = World::new(BUCKET);
    let stated = world.call(Call::to("api").requests(101));
    assert_eq!(world.refused[&stated].reason, Reason::TooLarge { cost: 101, capacity: 100 });
    let estimated = world.call(Call::to("api").requests(101).estimated());
    assert_eq!(world.went_at(estimated), Some(0.0));
    assert_eq!(world.engine.limit("api/requests/1s", world.now).expect("known").used, 100);
}

#[test]
fn a_call_that_names_no_service_goes_to_the_only_one_there_is() {
    let mut world = World::new("[services.api]\nrequests = { limit = \"5/s\", burst = 5 }\n");
    world.try_call(&Call::default()).expect("there is one");
    assert_eq!(world.engine.limit("api/requests/1s", world.now).expect("known").used, 1);
    let two = Config::parse("[services.api]\n[services.other]\n", "two").expect("valid");
    world.engine.reconfigure(&two, world.now).expect("valid");
    let refused = world.try_call(&Call::default()).expect_err("which of them?");
    assert_eq!(refused.reason, Reason::UnknownService("".into()));
    let one = Config::parse("[services.other]\n", "one").expect("valid");
    world.engine.reconfigure(&one, world.now).expect("valid");
    world.try_call(&Call::default()).expect("only one is left");
}

#[test]
fn unknown_services_units_and_bad_costs_are_refused_by_name() {
    let mut world = World::new("[services.api]\nrequests = \"1/s\"\npoints = \"5/s\"\n");
    let reason = |world: &mut World, call: Call| world.try_call(&call).expect_err("refused").reason;
    assert_eq!(reason(&mut world, Call::to("other")), Reason::UnknownService("other".into()));
    let custom = |name: &str| Dimension::Custom(name.into());
    assert_eq!(
        reason(&mut world, Call::to("api").units(custom("pionts"), 1)),
        Reason::UnknownDimension("pionts".into())
    );
    assert_eq!(reason(&mut world, Call::to("api").usd(f64::NAN)), Reason::InvalidCost);
    assert_eq!(reason(&mut world, Call::to("api").tokens(u64::MAX)), Reason::InvalidCost);
    world.try_call(&Call::to("api").units(custom("points"), 5)).expect("a unit that a limit declares");
}

#[test]
fn a_large_call_of_a_new_loop_goes_before_the_backlog_of_small_ones() {
    let mut world = drained(BUCKET);
    for number in 0..50 {
        let call = Call::to("api").loop_id(&format!("loop-{number}"));
        world.calls(100, &call);
    }
    let large = world.call(Call::to("api").loop_id("new").requests(80));
    world.run_to(2_000.0);
    let at = world.went_at(large).expect("went");
    assert!(at <= 1_300.0, "{at}");
}

#[test]
fn aborted_calls_leave_no_hole() {
    let mut world = drained(BUCKET);
    let calls = world.calls(10, &Call::to("api").requests(50));
    for call in &calls[..4] {
        world.withdraw(*call);
    }
    for call in &calls[6..] {
        world.withdraw(*call);
    }
    world.run_to(3_000.0);
    assert_eq!(world.went_at(calls[4]), Some(500.0));
    assert_eq!(world.went_at(calls[5]), Some(1_000.0));
}

#[test]
fn withdrawing_head_middle_or_tail_advances_those_behind() {
    for gone in 0..3 {
        let mut world = drained(BUCKET);
        let calls = world.calls(3, &Call::to("api").requests(10));
        world.withdraw(calls[gone]);
        world.run_to(300.0);
        let left: Vec<_> = calls.iter().filter(|call| **call != calls[gone]).collect();
        assert_eq!(world.went_at(*left[0]), Some(100.0));
        assert_eq!(world.went_at(*left[1]), Some(200.0));
    }
}

#[test]
fn priority_goes_before_fair_share_and_fair_share_before_arrival() {
    let mut world = drained(BUCKET);
    let busy = world.calls(3, &Call::to("api").loop_id("busy"));
    let other = world.call(Call::to("api").loop_id("other"));
    let urgent = world.call(Call::to("api").loop_id("busy").priority(Priority::Critical));
    world.run_to(1_000.0);
    assert_eq!(world.order()[1..], [urgent, busy[0], other, busy[1], busy[2]]);
}

#[test]
fn a_heavier_loop_gets_its_weight() {
    let mut world = drained(&format!("{BUCKET}\n[loop_types.heavy]\nweight = 4\n"));
    let heavy = world.calls(100, &Call::to("api").loop_id("h").loop_type("heavy"));
    let light = world.calls(100, &Call::to("api").loop_id("l"));
    world.run_to(500.0);
    let count = |calls: &[usize]| calls.iter().filter(|call| world.went_at(**call).is_some()).count();
    assert_eq!((count(&heavy), count(&light)), (40, 10));
}

#[test]
fn a_loop_returning_from_idle_starts_at_the_current_virtual_time() {
    let mut world = drained(BUCKET);
    world.calls(200, &Call::to("api").loop_id("a"));
    world.run_to(1_000.0);
    let b = world.calls(10, &Call::to("api").loop_id("b"));
    world.run_to(1_200.0);
    let went = b.iter().filter(|call| world.went_at(**call).is_some()).count();
    assert_eq!(went, 10, "half of the 20 that flowed, and not all that it did not use before");
}

#[test]
fn a_loop_that_is_first_at_a_limit_of_its_own_has_no_more_than_its_share_of_a_common_one() {
    let every = r#"requests = { limit = "1/100ms", algorithm = "token-bucket" }"#;
    let config = format!("[services.own]\n{every}\n[services.free]\n[loop_types.both]\n{every}");
    let mut world = World::new(&config);
    let busy = world.calls(4, &Call::to("own").loop_id("busy").loop_type("both"));
    let other = world.call(Call::to("free").loop_id("other").loop_type("both"));
    // Both limits open together, so that the first of each may go, but not both of them.
    world.run_to(1_000.0);
    assert_eq!(world.order(), [busy[0], busy[1], other, busy[2], busy[3]]);
}

#[test]
fn a_full_limit_does_not_block_calls_that_do_not_use_it() {
    let mut world = World::new(
        "[services.api]\nrequests = { limit = \"100/s\", algorithm = \"token-bucket\" }\n[services.api.endpoints.\"POST /slow\"]\nrequests = { limit = \"1/h\", burst = 1 }\n",
    );
    let slow = world.calls(3, &Call::to("api").endpoint("POST /slow").priority(Priority::Critical));
    let fast = world.calls(50, &Call::to("api").endpoint("POST /fast"));
    assert_eq!(world.went_at(slow[0]), Some(0.0));
    assert!(fast.iter().all(|call| world.went_at(*call) == Some(0.0)));
}

#[test]
fn a_slot_is_never_kept_for_a_call_that_is_bound_elsewhere() {
    let mut world = World::new(
        "[global]\nconcurrency = 1\n[services.a]\nrequests = { limit = \"1/s\", algorithm = \"token-bucket\" }\n[services.b]\n",
    );
    let first = world.call(Call::to("a"));
    let bound = world.call(Call::to("a").priority(Priority::Critical));
    let free = world.call(Call::to("b").priority(Priority::Low));
    world.finish(first);
    assert_eq!(world.went_at(free), Some(0.0));
    assert_eq!(world.went_at(bound), None);
    world.run_to(1_500.0);
    assert_eq!(world.went_at(bound), None, "the slot is taken");
    world.finish(free);
    assert_eq!(world.went_at(bound), Some(1_500.0));
}

#[test]
fn a_call_that_lost_its_slot_to_another_keeps_no_units_from_those_that_need_none() {
    let config = "[services.api.endpoints.\"POST /e\"]\n\
                  tokens = { limit = \"10/s\", algorithm = \"token-bucket\", burst = 8 }\n\
                  [services.api.models.m]\nconcurrency = 2\n";
    let mut world = World::new(config);
    let at_endpoint = |tokens| Call::to("api").endpoint("POST /e").tokens(tokens);
    world.call(at_endpoint(5).model("m"));
    let booked = world.call(at_endpoint(5).model("m").priority(Priority::High));
    let small = world.call(at_endpoint(2));
    world.run_to(50.0);
    assert!(world.waits(small), "it would move the other's booking");
    world.call(Call::to("api").model("m"));
    assert_eq!(world.went_at(small), Some(50.0), "nobody knows when a slot comes back");
    assert!(world.waits(booked));
}

#[test]
fn what_a_loop_owes_is_not_paid_by_one_that_comes_after_it() {
    let mut world = World::new(
        "[services.api]\ntokens = { limit = \"40/s\", algorithm = \"token-bucket\", burst = 4 }\n",
    );
    let call = |id: &str| Call::to("api").loop_id(id).tokens(4);
    let spender = world.call(call("spender"));
    let first = world.call(call("first"));
    let grant = world.held.remove(&spender).expect("it went");
    world.engine.finish(grant, Some(&Cost::nothing().with(Dimension::Tokens, 5)), world.now);
    let second = world.call(call("second"));
    let third = world.call(call("third"));
    world.run_to(1_000.0);
    assert_eq!(world.order(), [spender, first, second, third]);
}

#[test]
fn a_small_call_passes_a_large_one_only_if_that_delays_nothing() {
    let config = "[services.api]\nrequests = { limit = \"100/s\", algorithm = \"fixed-window\" }\n";
    let mut world = World::new(config);
    world.call(Call::to("api").requests(90));
    let large = world.call(Call::to("api").requests(20));
    let small = world.call(Call::to("api").requests(10));
    assert_eq!(world.went_at(small), Some(0.0), "the rest of this window is of no use to the large one");
    world.run_to(1_000.0);
    assert_eq!(world.went_at(large), Some(1_000.0));

    let mut world = drained(BUCKET);
    let large = world.call(Call::to("api").requests(20));
    world.run_to(150.0);
    let small = world.call(Call::to("api").requests(10));
    world.run_to(1_000.0);
    assert_eq!(world.went_at(large), Some(200.0));
    assert_eq!(world.went_at(small), Some(300.0));
}

#[test]
fn waiting_raises_rank_but_age_takes_only_its_share() {
    let config = r#"
[services.api]
requests = { limit = "10/s", algorithm = "token-bucket", burst = 10 }
queue = { aging = "1s", aging_share = 0.1, max_waiting = 100000 }
"#;
    let mut world = World::new(config);
    world.call(Call::to("api").requests(10));
    let old = world.calls(1_000, &Call::to("api").priority(Priority::Low));
    // A stream of urgent calls that could take everything.
    let mut urgent = Vec::new();
    for step in 0..600 {
        world.run_to(f64::from(step) * 100.0);
        urgent.push(world.call(Call::to("api").priority(Priority::Critical)));
    }
    world.run_to(60_000.0);
    let went = |calls: &[usize]| calls.iter().filter(|call| world.went_at(**call).is_some()).count();
    let (old, urgent) = (went(&old), went(&urgent));
    assert!(old >= 50, "nothing starves: {old}");
    assert!(old <= 60, "at most a tenth of 600: {old} beside {urgent}");
}

#[test]
fn a_call_that_would_wait_too_long_is_refused_at_arrival_with_the_number() {
    let mut world = drained(BUCKET);
    world.calls(300, &Call::to("api"));
    let late = world.call_within(Call::to("api"), Duration::from_secs(2));
    assert_eq!(world.refused[&late].reason, Reason::Hopeless);
    assert_eq!(world.refused[&late].wait, Some(Duration::from_millis(3_010)));
    let fair = world.call_within(Call::to("api").loop_id("another"), Duration::from_secs(2));
    assert!(!world.refused.contains_key(&fair), "its own share comes in time");
    let urgent = world.call_within(Call::to("api").priority(Priority::High), Duration::from_secs(2));
    assert!(!world.refused.contains_key(&urgent));
}

#[test]
fn a_call_refused_at_arrival_lets_nobody_pass_by_age() {
    let config = "[services.api]\nrequests = { limit = \"10/s\", algorithm = \"token-bucket\", burst = 10 }\n\
                  reserve = { high = 0.5 }\nqueue = { aging = \"200ms\", aging_share = 1.0 }\n";
    let high = |units| Call::to("api").priority(Priority::High).requests(units);
    let mut world = World::new(config);
    world.try_call(&high(10)).expect("full at first");
    let low = world.call(Call::to("api").priority(Priority::Low).requests(2));
    world.run_to(300.0);
    world.try_call(&high(2)).expect("fits");
    world.run_to(600.0);
    let late = world.call_within(high(10), Duration::from_millis(100));
    assert_eq!(world.refused[&late].reason, Reason::Hopeless);
    world.run_to(2_000.0);
    assert_eq!(world.went_at(low), Some(900.0), "when it fits beside the reserve");
}

#[test]
fn nobody_waits_beyond_its_timeout() {
    let mut world = World::new("[services.api]\nconcurrency = 1\n");
    world.call(Call::to("api"));
    let waits = world.call_within(Call::to("api"), Duration::from_secs(5));
    world.run_to(4_999.0);
    assert!(world.refused.is_empty());
    world.run_to(5_000.0);
    assert_eq!(world.refused[&waits].reason, Reason::Timeout);
    assert_eq!(world.refused[&waits].limit.as_deref(), Some("api/concurrency"));
}

#[test]
fn a_full_queue_sheds_the_lowest_rank() {
    let config = "[services.api]\nconcurrency = 1\nqueue = { max_waiting = 4 }\n";
    let mut world = World::new(config);
    world.call(Call::to("api"));
    let hog = world.calls(3, &Call::to("api").loop_id("hog"));
    let modest = world.call(Call::to("api").loop_id("modest"));
    let urgent = world.call(Call::to("api").priority(Priority::High));
    assert_eq!(world.refused[&hog[2]].reason, Reason::QueueFull, "the latest of the loop with most waiting");
    let low = world.call(Call::to("api").priority(Priority::Low));
    assert_eq!(world.refused[&low].reason, Reason::QueueFull, "the newcomer itself ranks lowest");
    assert_eq!(world.refused.len(), 2);
    let _ = (modest, urgent);
}

#[test]
fn position_limit_and_expected_wait_are_known_while_waiting() {
    let mut world = drained(BUCKET);
    let calls = world.calls(5, &Call::to("api").requests(10));
    for (index, call) in calls.iter().enumerate() {
        let place = world.engine.place(world.ticket(*call), world.now).expect("waits");
        assert_eq!(place.position, index + 1);
        assert_eq!(&*place.limit, "api/requests/1s");
        assert_eq!(place.expected, Some(Duration::from_millis(100 * (index as u64 + 1))));
    }
}

#[test]
fn changing_a_limit_plans_the_waiters_anew_up_and_down() {
    let mut world = drained(BUCKET);
    let calls = world.calls(4, &Call::to("api").requests(50));
    world.run_to(250.0);
    let faster =
        "[services.api]\nrequests = { limit = \"1000/s\", algorithm = \"token-bucket\", burst = 100 }\n";
    let faster = Config::parse(faster, "test.toml").expect("valid");
    world.engine.reconfigure(&faster, world.now).expect("valid");
    world.collect();
    world.run_to(275.0);
    assert_eq!(world.went_at(calls[0]), Some(275.0), "25 of its 50 units were there");
    let slower =
        "[services.api]\nrequests = { limit = \"50/s\", algorithm = \"token-bucket\", burst = 100 }\n";
    world.engine.reconfigure(&Config::parse(slower, "t").expect("valid"), world.now).expect("valid");
    world.collect();
    world.run_to(1_275.0);
    assert_eq!(world.went_at(calls[1]), Some(1_275.0));
}

#[test]
fn a_removed_limit_releases_its_waiters_and_a_lowered_one_refuses_what_cannot_fit() {
    let mut world = drained(BUCKET);
    let calls = world.calls(4, &Call::to("api").requests(50));
    let none = Config::parse("[services.api]\n", "test.toml").expect("valid");
    world.engine.reconfigure(&none, world.now).expect("valid");
    world.collect();
    assert!(calls.iter().all(|call| world.went_at(*call) == Some(0.0)));

    let mut world = drained(BUCKET);
    let call = world.call(Call::to("api").requests(50));
    let small = "[services.api]\nrequests = { limit = \"10/s\", algorithm = \"token-bucket\" }\n";
    world.engine.reconfigure(&Config::parse(small, "t").expect("valid"), world.now).expect("valid");
    world.collect();
    assert_eq!(world.refused[&call].reason, Reason::TooLarge { cost: 50, capacity: 10 });
}

#[test]
fn a_reserve_is_left_alone_by_lower_priorities() {
    let config =
        "[services.api]\nrequests = { limit = \"100/day\", burst = 100 }\nreserve = { high = 0.1 }\n";
    let mut world = World::new(config);
    let normal = (0..100).filter(|_| world.try_call(&Call::to("api")).is_ok()).count();
    assert_eq!(normal, 90);
    let high = Call::to("api").priority(Priority::High);
    let high = (0..100).filter(|_| world.try_call(&high).is_ok()).count();
    assert_eq!(high, 10);
}

#[test]
fn observing_holds_nothing_back_and_counts_everything() {
    let mut world =
        World::new("[services.api]\nmode = \"observe\"\nrequests = { limit = \"5/min\", burst = 5 }\n");
    for _ in 0..8 {
        world.try_call(&Call::to("api")).expect("observed only");
    }
    assert_eq!(world.engine.limit("api/requests/1m", world.now).expect("known").used, 8);
    let counts = world.engine.counts("api").expect("known");
    assert_eq!((counts.granted, counts.would_wait), (8, 3));
}

#[test]
fn a_refund_returns_to_where_it_came_from_and_debt_is_paid_first() {
    let mut world =
        World::new("[services.api]\ntokens = { limit = \"100/s\", algorithm = \"token-bucket\" }\n");
    let grant = world.engine.try_admit(&Call::to("api").tokens(60), world.now).expect("fits");
    world.engine.finish(grant, Some(&Cost::nothing().with(Dimension::Tokens, 20)), world.now);
    let used = |world: &mut World| world.engine.limit("api/tokens/1s", world.now).expect("known").used;
    assert_eq!(used(&mut world), 20);
    let grant = world.engine.try_admit(&Call::to("api").tokens(80), world.now).expect("fits");
    world.engine.finish(grant, Some(&Cost::nothing().with(Dimension::Tokens, 130)), world.now);
    assert_eq!(used(&mut world), 150);
    let next = world.call(Call::to("api").tokens(10));
    world.run_to(1_000.0);
    assert_eq!(world.went_at(next), Some(600.0));
}

#[test]
fn a_service_that_keeps_gives_nothing_back() {
    let mut world = World::new(
        "[services.api]\nsettle = \"keep\"\ntokens = { limit = \"100/s\", algorithm = \"token-bucket\" }\n",
    );
    let grant = world.engine.try_admit(&Call::to("api").tokens(60), world.now).expect("fits");
    world.engine.finish(grant, Some(&Cost::nothing().with(Dimension::Tokens, 20)), world.now);
    assert_eq!(world.engine.limit("api/tokens/1s", world.now).expect("known").used, 60);
    let grant = world.engine.try_admit(&Call::to("api").tokens(40), world.now).expect("fits");
    world.engine.cancel(grant, world.now);
    assert_eq!(world.engine.limit("api/tokens/1s", world.now).expect("known").used, 60);
}

#[test]
fn each_loop_has_its_own_limits_and_is_forgotten_only_when_that_forgives_nothing() {
    let mut world = World::new("[services.api]\n[loops]\nrequests = \"2/min\"\n");
    let call = |id: &str| Call::to("api").loop_id(id);
    for _ in 0..2 {
        world.try_call(&call("limited")).expect("fits");
    }
    let refused = world.try_call(&call("limited")).expect_err("its minute is used up");
    assert_eq!(refused.limit.as_deref(), Some("loop:limited/requests/1m"));
    // A flood of other ids does not make it forgotten.
    for number in 0..10_000 {
        world.try_call(&call(&format!("other-{number}"))).expect("fits");
    }
    world.try_call(&call("limited")).expect_err("still used up");
    assert_eq!(world.engine.live_loops(), 10_001);
    for number in world.order() {
        world.finish(number);
    }
    // When their minute is over the others make room for new ones.
    world.run_to(120_000.0);
    for number in 0..10_000 {
        world.try_call(&call(&format!("new-{number}"))).expect("fits");
    }
    assert!(world.engine.live_loops() < 15_100, "{}", world.engine.live_loops());
    world.try_call(&call("limited")).expect("a new minute");
}

#[test]
fn the_most_specific_pattern_applies_and_all_that_matches_shares_it() {
    let mut world = World::new(
        "[services.api]\n[services.api.models.\"gpt-4o*\"]\nrequests = { limit = \"3/h\", burst = 3 }\n[services.api.models.\"gpt-4o-mini*\"]\nrequests = { limit = \"1/h\", burst = 1 }\n",
    );
    let call = |model: &str| Call::to("api").model(model);
    world.try_call(&call("gpt-4o")).expect("fits");
    world.try_call(&call("gpt-4o-2024")).expect("fits");
    world.try_call(&call("gpt-4o-mini")).expect("fits");
    let refused = world.try_call(&call("gpt-4o-mini-2")).expect_err("shared");
    assert_eq!(refused.limit.as_deref(), Some("api/model:gpt-4o-mini*/requests/1h"));
    world.try_call(&call("gpt-4o-x")).expect("fits");
    world.try_call(&call("gpt-4o")).expect_err("three in all");
    world.try_call(&call("other")).expect("no limit");
}

#[test]
fn a_call_that_names_two_models_passes_the_limits_of_both_or_none() {
    let mut world = World::new(
        "[services.api]\n[services.api.models.\"a*\"]\nrequests = { limit = \"3/h\", burst = 3 }\n[services.api.models.\"b*\"]\nrequests = { limit = \"2/h\", burst = 2 }\n",
    );
    let both = Call::to("api").model("a").other_model("b");
    world.try_call(&both).expect("fits");
    world.try_call(&Call::to("api").model("b").other_model("a-2")).expect("fits");
    let refused = world.try_call(&both).expect_err("b is used up");
    assert_eq!(refused.limit.as_deref(), Some("api/model:b*/requests/1h"));
    assert_eq!(world.engine.limit("api/model:a*/requests/1h", world.now).expect("known").used, 2);
    world.try_call(&Call::to("api").model("other").other_model("a")).expect("a has one left");
    world.try_call(&Call::to("api").model("a").other_model("a-2")).expect_err("a is used up");
    world.try_call(&Call::to("api").model("other").other_model("others")).expect("no limit");
}

#[test]
fn a_window_of_either_model_holds_a_call_that_names_two() {
    let mut world = World::new("[services.api]\n[services.api.models.\"a*\"]\nrequests = \"1000/h\"\n");
    let call = Call::to("api").model("decoy").other_model("a").timeout(Duration::ZERO);
    world.try_call(&call).expect("fits");
    world.engine.set_backoff("api/model:a*", Duration::from_secs(5), world.now).expect("known");
    world.try_call(&call).expect_err("a backs off");
    world.engine.set_backoff("api/model:plain", Duration::from_secs(5), world.now).expect("known");
    world.try_call(&Call::to("api").model("x").other_model("plain")).expect_err("plain backs off");
    world.try_call(&Call::to("api").model("x").other_model("y")).expect("neither does");
}

#[test]
fn aliases_of_a_path_share_the_limit_of_its_endpoint() {
    let mut world = World::new(
        "[services.api]\n[services.api.endpoints.\"POST /v1/chat/\"]\nrequests = { limit = \"4/h\", burst = 4 }\n",
    );
    let call = |path: &str| Call::to("api").endpoint(&format!("POST {path}"));
    for path in ["/v1/chat", "/v1/%63hat", "//v1/chat", "/v1/chat/"] {
        world.try_call(&call(path)).expect("fits");
    }
    for path in ["/v1/chat", "/v1/c%68at/", "/v1//chat", "/v1/x/../chat"] {
        let refused = world.try_call(&call(path)).expect_err("four in all");
        assert_eq!(refused.limit.as_deref(), Some("api/endpoint:POST /v1/chat//requests/1h"), "{path}");
    }
    world.try_call(&call("/v1/chats")).expect("another one");
}

#[test]
fn a_guess_at_the_tokens_leaves_the_bytes_what_they_are() {
    let mut world = World::new(
        "[services.api]\ntokens = { limit = \"10/h\", burst = 10 }\nbytes = { limit = \"10/h\", burst = 10 }\n",
    );
    let refused =
        world.try_call(&Call::to("api").tokens(50).bytes(50).estimated_tokens()).expect_err("50 bytes");
    assert_eq!(refused.limit.as_deref(), Some("api/bytes/1h"));
    world
        .try_call(&Call::to("api").tokens(50).bytes(5).estimated_tokens())
        .expect("the tokens are brought down");
}

#[test]
fn a_call_that_is_changed_after_it_went_takes_another_route() {
    let mut world =
        World::new("[services.api]\n[services.api.models.m]\nrequests = { limit = \"1/h\", burst = 1 }\n");
    let call = Call::to("api");
    world.try_call(&call).expect("no limit");
    world.try_call(&call.clone()).expect("no limit");
    let call = call.model("m");
    world.try_call(&call).expect("fits");
    world.try_call(&call.clone()).expect_err("one an hour");
    world.try_call(&call.model("other")).expect("no limit");
}

#[test]
fn each_key_has_its_own_instance_where_the_config_says_so() {
    let mut world = World::new("[services.api]\nper_key = true\nrequests = { limit = \"1/h\", burst = 1 }\n");
    world.try_call(&Call::to("api").key("a")).expect("fits");
    world.try_call(&Call::to("api").key("b")).expect("fits");
    let refused = world.try_call(&Call::to("api").key("a")).expect_err("used up");
    let name = refused.limit.expect("named");
    assert!(
        name.starts_with("api/key:") && name.ends_with("/requests/1h") && !name.contains(":a/"),
        "{name}"
    );
    for number in 0..20_000 {
        world.try_call(&Call::to("api").key(&format!("key-{number}"))).expect("fits");
    }
    world.try_call(&Call::to("api").key("a")).expect_err("a flood of keys forgives nothing");
}

#[test]
fn a_plain_rate_is_paced_where_it_mirrors_an_upstream_and_only_counts_where_it_is_our_own() {
    let mut world = World::new(
        "[services.api]\nrequests = \"60/min\"\n[services.own]\n[loop_types.t]\nrequests = \"60/min\"\n",
    );
    let paced = world.calls(3, &Call::to("api"));
    world.run_to(5_000.0);
    let at: Vec<_> = paced.iter().map(|call| world.went_at(*call).expect("went")).collect();
    assert_eq!(at, [0.0, 1_000.0, 2_000.0]);
    let own = world.calls(60, &Call::to("own").loop_type("t"));
    assert!(own.iter().all(|call| world.went_at(*call) == Some(5_000.0)));
}

#[test]
fn a_loop_type_gives_its_calls_their_priority() {
    let mut world = drained(&format!("{BUCKET}\n[loop_types.interactive]\npriority = \"high\"\n"));
    let low = world.calls(2, &Call::to("api"));
    let user = world.call(Call::to("api").loop_type("interactive"));
    world.run_to(100.0);
    assert_eq!(world.order()[1..], [user, low[0], low[1]]);
}

#[test]
fn a_paced_limit_loses_nothing_to_late_timers() {
    let mut world = World::new("[services.api]\nrequests = { limit = \"1000/s\", burst = 1 }\n");
    world.calls(500, &Call::to("api"));
    // A driver that wakes 3 ms late every time.
    while world.went.len() < 500 {
        let wake = world.engine.next_wake().expect("somebody waits");
        world.now = Nanos(wake.0 + 3_000_000);
        world.engine.advance(world.now);
        world.collect();
    }
    let took = world.now.0 as f64 / 1e6;
    assert!(took <= 499.0 + 3.5, "{took}");
}

#[test]
fn what_cannot_be_is_refused_by_the_name_of_its_field_and_changes_nothing() {
    let valid = Config::parse(BUCKET, "test.toml").expect("valid");
    let mut world = World::with(&valid);
    let break_it = |change: &dyn Fn(&mut Config)| {
        let mut config = valid.clone();
        change(&mut config);
        config
    };
    let limits = |config: &mut Config, change: &dyn Fn(&mut tidegate_core::config::Limits)| {
        change(&mut config.services.get_mut("api").expect("there").limits);
    };
    let bad = [
        ("services.api.concurrency", break_it(&|c| limits(c, &|l| l.concurrency = Some(0)))),
        ("services.api.requests", break_it(&|c| limits(c, &|l| l.rates[0].burst = Some(0)))),
        ("services.api.reserve", break_it(&|c| limits(c, &|l| l.reserve.share[2] = f64::NAN))),
        ("loop_types.x.weight", {
            let mut config = valid.clone();
            let mut loop_type = tidegate_core::config::LoopTypeConfig::default();
            loop_type.weight = f64::NAN;
            config.loop_types.insert("x".into(), loop_type);
            config
        }),
    ];
    world.call(Call::to("api").requests(100));
    let waits = world.call(Call::to("api").requests(10));
    for (field, config) in bad {
        let error = world.engine.reconfigure(&config, world.now).expect_err("it cannot be");
        assert!(error.to_string().contains(field), "{error} does not name {field}");
        let error =
            tidegate_core::Engine::new(&config, Nanos::ZERO, Duration::ZERO).expect_err("it cannot be");
        assert!(error.to_string().contains(field), "{error}");
    }
    world.run_to(100.0);
    assert_eq!(world.went_at(waits), Some(100.0), "the old config is in force as a whole");
}

#[test]
fn a_loop_that_calls_under_two_loop_types_is_shed_and_forecast_all_the_same() {
    let types = "[loop_types.heavy]\nweight = 4\n[loop_types.light]\nweight = 1\n";
    let config = BUCKET.replace("1000000", "4");
    let mut world = drained(&format!("{config}\n{types}"));
    let call = |kind: &str| Call::to("api").loop_id("both").loop_type(kind);
    let mut calls = Vec::new();
    for kind in ["light", "heavy", "light", "heavy"] {
        calls.push(world.call(call(kind)));
    }
    let shed = world.call(call("heavy"));
    assert_eq!(world.refused[&shed].reason, Reason::QueueFull);
    for call in [calls[0], calls[2], calls[1], calls[3]] {
        world.withdraw(call);
    }
    let alone = world.calls(2, &call("light"));
    let place = world.engine.place(world.ticket(alone[1]), world.now).expect("waits");
    assert_eq!(place.expected, Some(Duration::from_millis(20)));
}

#[test]
fn a_debt_counts_for_the_fair_share_also_where_estimates_are_kept() {
    let mut world = World::new(
        "[services.api]\nsettle = \"keep\"\ntokens = { limit = \"100/s\", algorithm = \"token-bucket\", burst = 100 }\n",
    );
    let cheat = Call::to("api").loop_id("cheat").tokens(10);
    let honest = Call::to("api").loop_id("honest").tokens(10);
    world.call(Call::to("api").tokens(90));
    let first = world.call(cheat.clone());
    let cheats = world.calls(10, &cheat);
    let honests = world.calls(10, &honest);
    let grant = world.held.remove(&first).expect("went");
    world.engine.finish(grant, Some(&Cost::nothing().with(Dimension::Tokens, 60)), world.now);
    world.collect();
    world.run_to(1_000.0);
    let went = |calls: &[usize]| calls.iter().filter(|call| world.went_at(**call).is_some()).count();
    assert_eq!((went(&cheats), went(&honests)), (0, 5), "50 units ahead");
}
