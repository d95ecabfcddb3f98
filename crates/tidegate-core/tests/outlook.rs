//! What a call would meet that has not come yet, and what held one that went.

mod common;

use std::time::Duration;

use common::World;
use common::dice::{Dice, for_seeds};
use tidegate_core::engine::Outlook;
use tidegate_core::{Call, Priority};

const CONFIG: &str = r#"
[services.api]
requests = { limit = "10/s", algorithm = "token-bucket", burst = 2 }
concurrency = 5

[services.slots]
concurrency = 1
"#;

fn outlook(world: &mut World, call: &Call) -> Outlook {
    world.engine.outlook(call, world.now).expect("it could go")
}

fn waits(outlook: Outlook) -> (String, usize, Option<u128>) {
    let Outlook::Waits { limit, position, expected } = outlook else { panic!("it would go") };
    (limit.to_string(), position, expected.map(|span| span.as_millis()))
}

#[test]
fn a_call_that_fits_would_go_and_asking_takes_nothing() {
    let mut world = World::new(CONFIG);
    let before = world.engine.limits(world.now);
    for _ in 0..10 {
        assert_eq!(outlook(&mut world, &Call::to("api").loop_id("a")), Outlook::Goes);
    }
    assert_eq!(world.engine.limits(world.now), before);
    assert_eq!(world.engine.counts("api"), Some(Default::default()));
}

#[test]
fn one_that_does_not_fit_is_told_what_it_would_be_told_in_the_queue() {
    let mut world = World::new(CONFIG);
    world.call(Call::to("api").requests(2));
    let limit = "api/requests/1s".to_owned();
    assert_eq!(waits(outlook(&mut world, &Call::to("api"))), (limit.clone(), 1, Some(100)));
    world.call(Call::to("api"));
    assert_eq!(waits(outlook(&mut world, &Call::to("api"))), (limit.clone(), 2, Some(200)));
    let urgent = Call::to("api").priority(Priority::High);
    assert_eq!(
        waits(outlook(&mut world, &urgent)),
        (limit, 1, Some(100)),
        "it would go before the one that waits"
    );
    assert_eq!(world.engine.waiting(), 1, "nobody but that one has come");
}

#[test]
fn nobody_knows_how_long_a_slot_takes_but_how_long_a_window_lasts_is_known() {
    let mut world = World::new(CONFIG);
    world.call(Call::to("slots"));
    assert_eq!(waits(outlook(&mut world, &Call::to("slots"))), ("slots/concurrency".into(), 1, None));
    world.engine.set_backoff("api", Duration::from_secs(12), world.now).expect("known");
    assert_eq!(waits(outlook(&mut world, &Call::to("api"))), ("api/backoff".into(), 1, Some(12_000)));
}

#[test]
fn what_can_never_fit_is_told_so() {
    let mut world = World::new(CONFIG);
    let never = Outlook::Never { limit: "api/requests/1s".into(), capacity: 2 };
    assert_eq!(outlook(&mut world, &Call::to("api").requests(3)), never);
    assert!(world.engine.outlook(&Call::to("nobody"), world.now).is_err());
}

#[test]
fn the_limit_that_held_a_call_longest_is_known_though_another_did_at_first() {
    let mut world = World::new(CONFIG);
    let first = world.call(Call::to("api").requests(2));
    assert_eq!(world.engine.held_by(&world.held[&first]), None, "it did not wait");
    let second = world.call(Call::to("api"));
    let third = world.call(Call::to("api"));
    world.run_to(50.0);
    world.engine.set_backoff("api", Duration::from_secs(10), world.now).expect("known");
    world.run_to(12_000.0);
    for call in [second, third] {
        assert_eq!(world.engine.held_by(&world.held[&call]).as_deref(), Some("api/backoff"));
    }
    let fourth = world.call(Call::to("api").requests(2));
    let fifth = world.call(Call::to("api"));
    world.run_to(13_000.0);
    assert_eq!(world.engine.held_by(&world.held[&fourth]), None);
    assert_eq!(world.engine.held_by(&world.held[&fifth]).as_deref(), Some("api/requests/1s"));
}

/// Random calls; with `curious`, somebody asks all the time what calls would meet.
fn grants(seed: u64, curious: bool) -> Vec<(usize, tidegate_core::Nanos)> {
    let mut dice = Dice::new(seed);
    let mut questions = Dice::new(seed ^ 0xa5);
    let mut world = World::new(
        "[global]\nconcurrency = 3\n[services.api]\nrequests = { limit = \"10/s\", burst = 2 }\n\
         tokens = { limit = \"100/s\", algorithm = \"token-bucket\", burst = 60 }\nreserve = { high = 0.2 }\n\
         [services.b]\nrequests = { limit = \"5/s\", algorithm = \"fixed-window\" }\n[loops]\nrequests = \"8/s\"\n",
    );
    let any = |dice: &mut Dice| {
        let call = Call::to(dice.pick(&["api", "b"])).loop_id(dice.pick(&["x", "y", "z"]));
        let call = call.priority(dice.pick(&[Priority::Low, Priority::Normal, Priority::High]));
        call.tokens(1 + dice.below(40))
    };
    let mut time = 0;
    for _ in 0..60 {
        time += dice.below(80);
        world.run_to(time as f64);
        world.call(any(&mut dice));
        if dice.one_in(2)
            && let Some((call, _)) = world.held.first_key_value()
        {
            let call = *call;
            world.finish(call);
        }
        if curious {
            for _ in 0..3 {
                let call = any(&mut questions);
                world.engine.outlook(&call, world.now).ok();
            }
        }
    }
    world.run_to((time + 60_000) as f64);
    world.went
}

#[test]
fn whoever_asks_changes_nothing_for_those_who_wait() {
    for_seeds(400, |seed| assert_eq!(grants(seed, true), grants(seed, false)));
}
