//! The scheduler against a brute-force reference.
//!
//! The reference knows the rules and none of the machinery: no trees, no timers, no dirty sets. Whenever
//! anything happens, and at every time at which any waiting call could possibly fit or age, it looks at all
//! limits and all calls again. The engine must let the same calls go at the same nanosecond.
//!
//! `TIDEGATE_WORLDS=n` sets how many random worlds are tried, `TIDEGATE_SEED=n` tries one and tells its
//! story.

mod common;
mod reference_model;

use common::World;
use reference_model::{Event, Reference, Scenario};
use tidegate_core::{Cost, Dimension, Nanos};

#[test]
fn the_engine_lets_the_same_calls_go_at_the_same_times_as_brute_force() {
    if let Ok(seed) = std::env::var("TIDEGATE_SEED") {
        let seed = seed.parse().expect("a number");
        println!("{}", Scenario::random(seed).describe());
        compare(seed);
        return;
    }
    let worlds = std::env::var("TIDEGATE_WORLDS").map_or(100_000, |n| n.parse().expect("a number"));
    let threads = 2;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || (0..worlds).filter(|seed| seed % threads == thread).for_each(compare));
        }
    });
}

fn compare(seed: u64) {
    let scenario = Scenario::random(seed);
    let expected = Reference::run(&scenario);
    let found = run_engine(&scenario);
    assert_eq!(
        found,
        expected,
        "seed {seed}: engine (left) and reference (right) differ\n{}",
        scenario.describe()
    );
}

fn run_engine(scenario: &Scenario) -> Vec<(usize, Nanos)> {
    let mut world = World::with(&scenario.config());
    for (at, event) in &scenario.events {
        world.run_to_nanos(Nanos(at.0.saturating_sub(1)));
        world.now = *at;
        world.engine.advance(*at);
        world.collect();
        match event {
            Event::Arrive(call) => drop(world.call(call.to_call())),
            Event::Withdraw(number) => {
                if world.waits(*number) {
                    world.withdraw(*number);
                }
            }
            Event::Finish(number, tokens) => {
                if let Some(grant) = world.held.remove(number) {
                    let actual = tokens.map(|tokens| Cost::nothing().with(Dimension::Tokens, tokens));
                    world.engine.finish(grant, actual.as_ref(), world.now);
                    world.collect();
                }
            }
            Event::Change(index, units) => {
                let (name, limit) = scenario.changed(*index, *units);
                match limit {
                    Some(limit) => world.engine.set_rate(&name, &limit, world.now).expect("a valid change"),
                    None => world.engine.set_in_flight(&name, *units, world.now).expect("a valid change"),
                }
                world.collect();
            }
        }
    }
    world.run_to_nanos(scenario.end);
    world.went
}

#[test]
fn the_comparison_can_fail() {
    // The same story with another limit must not come out the same.
    let differs = (0..50).any(|seed| {
        let scenario = Scenario::random(seed);
        let mut other = scenario.clone();
        other.double_limits();
        run_engine(&other) != Reference::run(&scenario)
    });
    assert!(differs);
}
