//! Plays random scenarios, one for each seed, with every promise checked, and each of them twice.
//!
//! `cargo run --release -p tidegate-sim --example campaign -- [FIRST] [COUNT]`; with a third argument it plays one
//! seed up to that event and tells the last events.

use tidegate_sim::{Options, Scenario, simulate};

fn main() -> std::process::ExitCode {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u64>().expect("a number"));
    let first = numbers.next().unwrap_or(0);
    let count = numbers.next().unwrap_or(1_000);
    let until_event = numbers.next();
    let (mut events, mut went, mut broken) = (0, 0, 0);
    for seed in first..first + count {
        let scenario = Scenario::random(seed);
        let options = Options { until_event, ..Options::default() };
        let report = simulate(&scenario, seed, &options).expect("a valid scenario");
        events += report.events;
        went += report.workloads.iter().map(|load| load.went).sum::<u64>();
        if let Some(violation) = &report.violation {
            broken += 1;
            println!("seed {seed}: {} broken at event {}", violation.invariant.name(), violation.event);
            println!("  {}", violation.message);
            println!(
                "  replay: cargo run --release -p tidegate-sim --example campaign -- {seed} 1 {}",
                violation.event
            );
            if count == 1 {
                violation.story.iter().for_each(|line| println!("  {line}"));
            }
            continue;
        }
        let again = simulate(&scenario, seed, &Options { checks: false, until_event, story: 0 });
        if again.expect("a valid scenario").digest != report.digest {
            broken += 1;
            println!("seed {seed}: determinism broken: two runs differ");
        }
    }
    println!("{count} scenarios, {events} events, {went} calls went, {broken} broken");
    std::process::ExitCode::from(u8::from(broken > 0))
}
