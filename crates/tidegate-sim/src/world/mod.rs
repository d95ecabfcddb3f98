//! The event loop: callers, the real engine, the wire and the upstreams, in virtual time.
//!
//! ```text
//!  callers ──► attempts ──► process ──► decisions ──► wire ──► replies ──► over ──► callers
//!                 ▲          (engine)                             │
//!                 └── again (after a pause) ◄─────────────────────┘
//! ```
//! [`World`] has a part for each of these, which owns its state: the [plan] with the clock, the
//! [process] with the engine and its judge, the [callers], the [calls] that are not over, the
//! [wire] with the upstreams, and the [tally]. What happens to them is in functions, each of which uses
//! only those below it: [`over`], [`decisions`], [`attempts`], [`replies`], [`faults`], and [`run`] on top.
//!
//! Everything that will happen stands in one heap, by time and then by the order in which it was foreseen. An
//! hour takes as long as its events do; what is kept is the calls that wait or run, and sums.

mod attempts;
mod callers;
mod calls;
mod decisions;
mod digest;
mod faults;
mod histogram;
mod lessons;
mod options;
mod outcome;
mod output;
mod over;
mod phases;
mod plan;
mod process;
mod replies;
mod retries;
mod run;
mod source;
mod spans;
mod state;
mod story;
mod tally;
mod trouble;
mod wire;

use tidegate_core::engine::ChangeError;

use self::state::{Stop, World};
use crate::report::{Invariant, Report, Violation};
use crate::scenario::Scenario;

pub use self::options::Options;

/// Plays a scenario. The same seed gives the same report, to the last bit.
///
/// # Errors
/// Returns an error if the config is invalid, or if a change or a lender names a limit that does not exist.
pub fn simulate(scenario: &Scenario, seed: u64, options: &Options) -> Result<Report, ChangeError> {
    let mut world = World::new(scenario, seed, options)?;
    run::begin(&mut world);
    let violation = match run::play(&mut world) {
        Ok(()) => None,
        Err(Stop::Broken(violation)) => Some(violation),
        Err(Stop::Wrong(error)) => return Err(error),
    };
    Ok(outcome::report(world, seed, violation))
}

/// Plays a scenario twice: with every promise checked, and once more to see that the same seed gives the same run.
///
/// # Errors
/// As [`simulate`].
pub fn prove(scenario: &Scenario, seed: u64, options: &Options) -> Result<Report, ChangeError> {
    let mut report = simulate(scenario, seed, options)?;
    if options.checks && report.violation.is_none() {
        let again = simulate(scenario, seed, &Options { checks: false, story: 0, ..options.clone() })?;
        if again.digest != report.digest {
            report.violation = Some(Violation {
                invariant: Invariant::Determinism,
                message: format!("another run of seed {seed} went differently"),
                event: report.events,
                at: report.duration,
                story: Vec::new(),
            });
        }
    }
    Ok(report)
}
