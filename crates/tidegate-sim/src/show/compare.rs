//! Several runs side by side.

use super::grid::Grid;
use super::words::{percent, share, span};
use super::{ENDS, Subject};
use crate::report::{GroupReport, Report};
use tidegate_core::Priority;

/// A column for each run, with what was set for it on top; a row for each number that is worth comparing.
#[must_use]
pub fn compare(runs: &[(Subject, Report)]) -> String {
    let mut grid = Grid::default();
    for index in 0..runs.iter().map(|(subject, _)| subject.settings.len()).max().unwrap_or_default() {
        let key = runs.iter().find_map(|(subject, _)| subject.settings.get(index)).map_or("", |(key, _)| key);
        let value =
            |subject: &Subject| subject.settings.get(index).map_or(String::new(), |(_, value)| value.clone());
        row(&mut grid, key.to_owned(), runs, |subject, _| value(subject));
    }
    if runs.iter().any(|(_, report)| report.seed != runs[0].1.seed) {
        row(&mut grid, "seed".into(), runs, |_, report| report.seed.to_string());
    }
    limits(&mut grid, runs);
    for priority in Priority::ALL.into_iter().rev() {
        waits(&mut grid, runs, priority.name(), |report| report.priority(priority));
    }
    // What is swept may change who has which priority; who calls stays.
    let workloads = runs.iter().map(|(_, report)| report.workloads.len()).max().unwrap_or_default();
    if (2..=WORKLOADS).contains(&workloads) {
        for index in 0..workloads {
            let name = runs
                .iter()
                .find_map(|(_, report)| report.workloads.get(index))
                .map_or("", |group| &group.name);
            waits(&mut grid, runs, name, |report| report.workloads.iter().find(|group| group.name == name));
        }
    }
    for end in ENDS {
        let total = |report: &Report| report.priorities.iter().map(end.of).sum::<u64>();
        if end.always || runs.iter().any(|(_, report)| total(report) > 0) {
            row(&mut grid, end.name.into(), runs, |_, report| total(report).to_string());
        }
    }
    if runs.iter().any(|(_, report)| report.violation.is_some()) {
        row(&mut grid, "not kept".into(), runs, |_, report| match &report.violation {
            Some(violation) => violation.invariant.name().into(),
            None => "-".into(),
        });
    }
    grid.text()
}

fn row(
    grid: &mut Grid,
    name: String,
    runs: &[(Subject, Report)],
    cell: impl Fn(&Subject, &Report) -> String,
) {
    grid.row(std::iter::once(name).chain(runs.iter().map(|(subject, report)| cell(subject, report))));
}

/// Used and rejected, for each limit and service that any run has: settings may add and remove them.
fn limits(grid: &mut Grid, runs: &[(Subject, Report)]) {
    let mut services: Vec<&str> = Vec::new();
    for service in runs.iter().flat_map(|(_, report)| &report.services) {
        if service.sent > 0 && !services.contains(&service.name.as_str()) {
            services.push(&service.name);
        }
    }
    for name in services {
        let of = |report: &Report| report.service(name).cloned().unwrap_or_default();
        let mut known: Vec<String> = Vec::new();
        for limit in runs.iter().flat_map(|(_, report)| of(report).limits) {
            if !known.contains(&limit.name) {
                known.push(limit.name);
            }
        }
        for limit in known {
            row(grid, format!("used {limit}"), runs, |_, report| {
                let found = of(report).limits.into_iter().find(|found| found.name == limit);
                found.map_or("-".into(), |found| percent(found.share()))
            });
        }
        row(grid, format!("rejected by {name}"), runs, |_, report| {
            let service = of(report);
            percent(share(service.rejected, service.sent))
        });
    }
}

/// Workloads that are compared at most; beyond that the priorities have to do.
const WORKLOADS: usize = 8;

fn waits(
    grid: &mut Grid,
    runs: &[(Subject, Report)],
    name: &str,
    find: impl for<'r> Fn(&'r Report) -> Option<&'r GroupReport>,
) {
    if runs.iter().all(|(_, report)| find(report).is_none()) {
        return;
    }
    for (what, of) in [("p50", 0), ("p99", 1)] {
        row(grid, format!("{name} wait {what}"), runs, |_, report| match find(report) {
            Some(group) if group.went > 0 => span([group.wait.p50, group.wait.p99][of]),
            _ => "-".into(),
        });
    }
    row(grid, format!("{name} went/calls"), runs, |_, report| {
        find(report).map_or("-".into(), |group| format!("{}/{}", group.went, group.calls))
    });
}
