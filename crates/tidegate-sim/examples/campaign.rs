//! Plays random scenarios, one for each seed, with every promise checked, and each of them twice.
//!
//! `cargo run --release -p tidegate-sim --example campaign -- [FIRST] [COUNT] [EVENT]` ends with the first promise
//! that is not kept, and tells the last events up to it; with an event it plays no further than that.

use std::process::ExitCode;

use tidegate_sim::{Options, Scenario, prove};

fn main() -> ExitCode {
    let numbers: Option<Vec<u64>> = std::env::args().skip(1).map(|text| text.parse().ok()).collect();
    let Some(numbers) = numbers.filter(|numbers| numbers.len() <= 3) else {
        eprintln!("usage: campaign [FIRST] [COUNT] [EVENT]");
        return ExitCode::from(2);
    };
    let (first, count) = (numbers.first().copied().unwrap_or(0), numbers.get(1).copied().unwrap_or(1_000));
    let until_event = numbers.get(2).copied();
    let (mut events, mut went) = (0, 0);
    for seed in first..first.saturating_add(count) {
        let scenario = Scenario::random(seed);
        let options = Options { until_event, ..Options::default() };
        let report = prove(&scenario, seed, &options).expect("a valid scenario");
        events += report.events;
        went += report.workloads.iter().map(|load| load.went).sum::<u64>();
        if let Some(violation) = &report.violation {
            let (event, what) = (violation.event, violation.invariant.name());
            println!("seed {seed}: {what} broken at event {event}: {}", violation.message);
            violation.story.iter().for_each(|line| println!("  {line}"));
            println!("replay: cargo run --release -p tidegate-sim --example campaign -- {seed} 1 {event}");
            return ExitCode::FAILURE;
        }
    }
    println!("{count} scenarios, {events} events, {went} calls went: every promise was kept");
    ExitCode::SUCCESS
}
