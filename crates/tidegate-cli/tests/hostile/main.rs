//! Random mixtures of hostile upstreams and clients against the built command, judged by what the upstreams saw.
//!
//! Each world is a config, a mixture of ingredients and a seed. In `cargo test` a few worlds with fixed seeds are played; with
//! `TIDEGATE_HOSTILE_SECONDS=600`, as in `./test.sh --long`, new ones for so long. A world that fails is printed with the
//! command that plays it again. `TIDEGATE_HOSTILE_SEED` sets where the seeds begin, and `TIDEGATE_HOSTILE_ONLY=Kills,Gzip`
//! plays these ingredients together and no others.

#![cfg(target_os = "linux")]

mod clients;
mod delays;
mod http1;
mod http2;
mod ingredients;
mod judge;
mod limits;
mod met;
mod orders;
mod permits;
mod play;
mod probe;
mod process;
mod reactions;
mod records;
mod scene;
mod troubles;
mod upstreams;
mod wire;
mod world;

use std::time::{Duration, Instant};

use fastrand::Rng;
use ingredients::{ALL, Ingredient, dealt};
use limits::Extras;
use play::Played;
use world::World;

/// How many worlds are played in every run of the tests, and for how long each.
const SLICE: usize = 8;
const SLICE_LASTS: Duration = Duration::from_millis(3_600);
/// Where the seeds of the slice begin.
const SLICE_SEED: u64 = 18;
/// How many arrivals the slice has at least, and how often it meets each ingredient: a slice that is thinner shows nothing.
const SLICE_ARRIVALS: usize = 400;
const SLICE_MEETS: usize = 1;

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name}={value} is not a number")))
}

/// The ingredients that were asked for, if any were.
fn only() -> Option<Vec<Ingredient>> {
    let names = std::env::var("TIDEGATE_HOSTILE_ONLY").ok()?;
    let named = |name: &str| Ingredient::named(name).unwrap_or_else(|| panic!("{name} is none of {ALL:?}"));
    Some(names.split(',').filter(|name| !name.is_empty()).map(named).collect())
}

/// Plays a world; the test ends where it fails.
fn must_hold(seed: u64, ingredients: &[Ingredient], duration: Duration) -> Played {
    let since = Instant::now();
    let played = play::play(World::new(seed, ingredients, duration));
    let Played { summary, faults, met, .. } = &played;
    eprintln!("world {seed} {met:?}: {summary}; {:.1?}", since.elapsed());
    if !faults.is_empty() {
        let names: Vec<String> = ingredients.iter().map(|ingredient| format!("{ingredient:?}")).collect();
        panic!(
            "world {seed} fails:\n  {}\nplay it again: TIDEGATE_HOSTILE_SEED={seed} TIDEGATE_HOSTILE_ONLY={} \
             TIDEGATE_HOSTILE_WORLD_SECONDS={} cargo test -p tidegate-cli --test hostile worlds -- --nocapture",
            faults.join("\n  "),
            names.join(","),
            duration.as_secs_f64().ceil(),
        );
    }
    played
}

/// Asserts that the worlds of the slice together had enough load, each ingredient its part of it.
fn was_thick(slice: &[Played]) {
    let arrivals: usize = slice.iter().map(|played| played.arrivals).sum();
    let thin: Vec<&(Ingredient, usize)> =
        slice.iter().flat_map(|played| &played.met).filter(|(_, met)| *met < SLICE_MEETS).collect();
    eprintln!("{arrivals} arrivals in all");
    assert!(arrivals >= SLICE_ARRIVALS, "{arrivals} arrivals");
    assert!(thin.is_empty(), "hardly met: {thin:?}");
}

#[test]
fn worlds_of_hostile_upstreams_and_clients_pass_no_limit() {
    let asked = number("TIDEGATE_HOSTILE_SECONDS").map(Duration::from_secs);
    let lasts = number("TIDEGATE_HOSTILE_WORLD_SECONDS").map(Duration::from_secs);
    let mut seed = number("TIDEGATE_HOSTILE_SEED").unwrap_or_else(|| match asked {
        Some(_) => fastrand::u64(..1 << 32),
        None => SLICE_SEED,
    });
    if let (Some(ingredients), None) = (only(), asked) {
        must_hold(seed, &ingredients, lasts.unwrap_or(SLICE_LASTS));
        return;
    }
    let since = Instant::now();
    let mut slice = Vec::new();
    loop {
        let mut rng = Rng::with_seed(seed);
        eprintln!("worlds from seed {seed} on");
        // The more worlds share the ingredients, the fewer each has.
        let worlds = if asked.is_some() { rng.usize(2..12) } else { SLICE };
        for hand in dealt(&mut rng, worlds, &only().unwrap_or_else(|| ALL.to_vec())) {
            let mut random = || Duration::from_secs(rng.choice([4, 6, 10, 25]).expect("some"));
            let lasts = lasts.unwrap_or_else(|| if asked.is_some() { random() } else { SLICE_LASTS });
            let played = must_hold(seed, &hand, lasts);
            if asked.is_none() {
                slice.push(played);
            }
            seed += 1;
            if asked.is_some_and(|asked| since.elapsed() >= asked) {
                return;
            }
        }
        if asked.is_none() {
            return was_thick(&slice);
        }
    }
}

/// The judge can say no: where the limits hold nothing back, it finds them passed.
#[test]
fn limits_that_hold_nothing_back_are_found_out() {
    let ingredients = [Ingredient::OddBodies, Ingredient::PathAliases];
    let mut world = World::with(1, &ingredients, Duration::from_millis(2_500), Extras::ALL);
    world.observe = true;
    let Played { summary, faults, .. } = play::play(world);
    for limit in
        ["alpha/requests", "of key 1", "beta/requests", "endpoints", "models", "/tokens", "global", "loop:1/"]
    {
        let found = faults.iter().any(|fault| fault.contains(limit) && fault.contains("is passed"));
        assert!(found, "{limit}: {summary} {faults:?}");
    }
}
