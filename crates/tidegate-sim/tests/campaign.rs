//! Random scenarios with random configurations and faults: every promise is kept, the same seed gives the same run, and
//! that is the run of which the digest is recorded. `TIDEGATE_SCENARIOS=n` plays so many (300 unless it says otherwise),
//! from `TIDEGATE_SEED` on.

mod digests;

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_sim::{Options, Scenario, prove};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn every_promise_is_kept_in_random_scenarios() {
    let first = number("TIDEGATE_SEED").unwrap_or(0);
    let last = first + number("TIDEGATE_SCENARIOS").unwrap_or(300);
    let next = AtomicU64::new(first);
    let play_all = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= last {
                break;
            }
            play(seed);
        }
    };
    std::thread::scope(|threads| {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        (0..workers).for_each(|_| drop(threads.spawn(play_all)));
    });
}

fn play(seed: u64) {
    let scenario = Scenario::random(seed);
    let report = prove(&scenario, seed, &Options::default()).expect("a valid scenario");
    if let Some(violation) = report.violation {
        let story = violation.story.join("\n  ");
        panic!(
            "seed {seed}, event {}: {}: {}\n  {story}\nreplay: cargo run --release -p tidegate-sim --example campaign -- {seed} 1 {}",
            violation.event,
            violation.invariant.name(),
            violation.message,
            violation.event,
        );
    }
    if let Some(digest) = digests::recorded(&seed.to_string()) {
        assert_eq!(
            format!("{:016x}", report.digest),
            format!("{digest:016x}"),
            "seed {seed} goes differently"
        );
    }
}
