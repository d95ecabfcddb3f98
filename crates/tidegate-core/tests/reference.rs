//! The scheduler against a brute-force reference.
//!
//! The reference knows the rules and none of the machinery: no trees, no timers, no dirty sets. Whenever
//! anything happens, and at every time at which any waiting call could possibly fit or age, it looks at all
//! limits and all calls again. The engine must let the same calls go at the same nanosecond.
//!
//! `TIDEGATE_WORLDS=n` sets how many random worlds of each kind are tried; `TIDEGATE_SEED=n` tries that one
//! alone, or with both set as many from that one on.

mod common;
mod reference_model;

use std::collections::BTreeSet;
use std::time::Duration;

use common::World;
use reference_model::{Event, Reference, Scenario};
use tidegate_core::{Cost, Dimension, Nanos};

#[test]
fn the_engine_lets_the_same_calls_go_at_the_same_times_as_brute_force() {
    compare_all(100_000, Scenario::random);
}

#[test]
fn and_so_it_does_where_many_calls_alike_wait_behind_each_other() {
    compare_all(50_000, Scenario::crowded);
}

fn compare_all(worlds: u64, scenario: fn(u64) -> Scenario) {
    let number = |name| std::env::var(name).ok().map(|n| n.parse().expect("a number"));
    let (first, worlds) = match number("TIDEGATE_SEED") {
        Some(seed) => (seed, number("TIDEGATE_WORLDS").unwrap_or(1)),
        None => (0, number("TIDEGATE_WORLDS").unwrap_or(worlds)),
    };
    let threads = 2;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let seeds = (first..first + worlds).filter(move |seed| seed % threads == thread);
            scope.spawn(move || seeds.for_each(|seed| compare(seed, &scenario(seed))));
        }
    });
}

fn compare(seed: u64, scenario: &Scenario) {
    assert_eq!(
        by_time(scenario, run_engine(scenario)),
        by_time(scenario, Reference::run(scenario)),
        "seed {seed}: engine (left) and reference (right) differ\n{}",
        scenario.describe()
    );
}

/// Whether a call went before those that its arrival let go is not known from outside: at the times of arrivals the
/// order is that of the numbers.
fn by_time(scenario: &Scenario, mut went: Vec<(usize, Nanos)>) -> Vec<(usize, Nanos)> {
    let arrivals = scenario.events.iter().filter(|(_, event)| matches!(event, Event::Arrive(_)));
    let arrivals: BTreeSet<Nanos> = arrivals.map(|(at, _)| *at).collect();
    went.sort_by_key(|(number, at)| (*at, if arrivals.contains(at) { *number } else { 0 }));
    went
}

fn run_engine(scenario: &Scenario) -> Vec<(usize, Nanos)> {
    let mut world = World::with(&scenario.config());
    for (at, event) in &scenario.events {
        pass_time(&mut world, *at);
        happen(&mut world, scenario, event);
    }
    world.run_to_nanos(scenario.end);
    world.went
}

fn pass_time(world: &mut World, until: Nanos) {
    world.run_to_nanos(Nanos(until.0.saturating_sub(1)));
    world.now = until;
    world.engine.advance(until);
    world.collect();
}

fn happen(world: &mut World, scenario: &Scenario, event: &Event) {
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

#[test]
fn a_call_that_is_refused_at_arrival_changed_nothing() {
    let mut hopeless = 0;
    for seed in 0..20_000 {
        let scenario = Scenario::crowded(seed);
        let (with, refused) = run_impatient(&scenario, &BTreeSet::new());
        let (without, _) = run_impatient(&scenario, &refused);
        assert_eq!(
            with,
            without,
            "seed {seed}: with the refused {refused:?} and without\n{}",
            scenario.describe()
        );
        hopeless += refused.len();
    }
    assert!(hopeless > 10_000, "only {hopeless} calls were refused");
}

/// The scenario with calls that wait for 10 ms at most, apart from those in `left_out`; and which were refused.
fn run_impatient(scenario: &Scenario, left_out: &BTreeSet<usize>) -> (Vec<(usize, Nanos)>, BTreeSet<usize>) {
    let mut world = World::with(&scenario.config());
    let mut refused = BTreeSet::new();
    let mut number = 0;
    for (at, event) in &scenario.events {
        pass_time(&mut world, *at);
        match event {
            Event::Arrive(_) if left_out.contains(&number) => world.skip(),
            Event::Arrive(call) if number % 2 == 1 => {
                world.call_within(call.to_call(), Duration::from_millis(10));
                refused.extend(world.refused.contains_key(&number).then_some(number));
            }
            event => happen(&mut world, scenario, event),
        }
        number += usize::from(matches!(event, Event::Arrive(_)));
    }
    world.run_to_nanos(scenario.end);
    (world.went, refused)
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
