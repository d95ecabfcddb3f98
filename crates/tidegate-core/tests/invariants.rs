//! What must always hold, in large random worlds.
//!
//! `TIDEGATE_WORLDS=n` sets how many worlds each test tries, `TIDEGATE_SEED=n` tries that one alone.

mod common;
mod invariants_world;

use common::dice::{Dice, for_seeds};
use invariants_world::{Entry, Kind, Plan, run};

fn story(kind: Kind, seed: u64) -> Vec<Entry> {
    run(Plan::random(kind, &mut Dice::new(seed)), seed)
}

#[test]
fn every_promise_is_kept_in_any_world() {
    for_seeds(100, |seed| drop(story(Kind::Any, seed)));
}

#[test]
fn nobody_waits_who_fits() {
    for_seeds(100, |seed| drop(story(Kind::Plain, seed)));
}

#[test]
fn the_same_seed_gives_the_same_story() {
    for_seeds(25, |seed| {
        let (first, second) = (story(Kind::Any, seed), story(Kind::Any, seed));
        let differs = first.iter().zip(&second).position(|(a, b)| a != b);
        if let Some(at) = differs {
            panic!("entry {at}: {:?} and then {:?}", first[at], second[at]);
        }
        assert_eq!(first.len(), second.len());
    });
}
