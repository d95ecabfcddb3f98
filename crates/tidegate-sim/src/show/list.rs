//! Many runs, one a line.

use super::Subject;
use super::grid::Grid;
use super::words::{percent, share, span};
use crate::report::{Report, ServiceReport};

/// A line for each run, with what was set for it, its seed, and the few numbers that tell whether it is worth a
/// closer look.
#[must_use]
pub fn list(runs: &[(Subject, Report)]) -> String {
    let mut grid = Grid::default();
    let keys: Vec<&str> = runs
        .first()
        .map(|(of, _)| of.settings.iter().map(|(key, _)| key.as_str()).collect())
        .unwrap_or_default();
    let names = ["used", "rejected", "wait p99", "shed", "timeouts", "promises"].into_iter();
    grid.row(["seed"].into_iter().chain(keys).chain(names));
    for (subject, report) in runs {
        let used = report.services.iter().flat_map(|service| &service.limits).map(|limit| limit.share());
        let sum = |of: fn(&ServiceReport) -> u64| report.services.iter().map(of).sum::<u64>();
        let rejected = share(sum(|service| service.rejected), sum(|service| service.sent));
        let wait = report.priorities.iter().map(|group| group.wait.p99).max().unwrap_or_default();
        let kept = report
            .violation
            .as_ref()
            .map_or("kept".into(), |broken| format!("NOT KEPT: {}", broken.invariant.name()));
        let numbers = [
            percent(used.fold(0.0, f64::max)),
            percent(rejected),
            span(wait),
            report.priorities.iter().map(|group| group.shed).sum::<u64>().to_string(),
            report.priorities.iter().map(|group| group.timed_out).sum::<u64>().to_string(),
            kept,
        ];
        let values = subject.settings.iter().map(|(_, value)| value.clone());
        grid.row(std::iter::once(report.seed.to_string()).chain(values).chain(numbers));
    }
    grid.text()
}
