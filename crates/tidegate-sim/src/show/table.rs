//! One run as tables for a terminal.

use super::grid::Grid;
use super::words::{count, length, percent, share, span};
use super::{ENDS, End, Subject, shown_services};
use crate::report::{GroupReport, LimitReport, Report, ServiceReport};

/// Cells of the longest bar.
const BAR: f64 = 24.0;

/// A run: how much of each limit was used, what was rejected, how long whom waited, who got how much; and, if
/// a promise was not kept, how that came about and how to see it again.
#[must_use]
pub fn table(subject: &Subject, report: &Report) -> String {
    let mut parts = vec![heading(subject, report)];
    parts.extend(shown_services(report).into_iter().map(|(found, _)| service(found)));
    if report.priorities.is_empty() {
        parts.push("nobody called\n".into());
    } else {
        parts.push(groups("priority", &report.priorities));
        parts.push(groups("workload", &report.workloads));
    }
    if !report.loops.is_empty() {
        parts.push(loops(report));
    }
    parts.extend(broken(subject, report));
    parts.join("\n")
}

fn heading(subject: &Subject, report: &Report) -> String {
    let mut line = format!(
        "{}, seed {}: {} in {} events, at most {} waiting\n",
        subject.file,
        report.seed,
        length(report.duration),
        count(report.events),
        count(report.peak_waiting as u64),
    );
    if !subject.settings.is_empty() {
        line += &format!("with {}\n", subject.settings_line());
    }
    line
}

fn service(service: &ServiceReport) -> String {
    let mut grid = Grid::default();
    grid.row([service.name.as_str(), "used", "units", "of"]);
    let limit = |name: String, limit: &LimitReport| {
        [name, percent(limit.share()), count(limit.used), count(limit.supply.round() as u64)]
    };
    for of in &service.limits {
        grid.row(limit(format!("  {}", of.name), of));
    }
    for of in &service.upstream {
        grid.row(limit(format!("  upstream: {}", of.name), of));
    }
    let mut line = format!("  {} sent, {} accepted", count(service.sent), count(service.accepted));
    line += &format!(
        ", {} rejected ({})",
        count(service.rejected),
        percent(share(service.rejected, service.sent))
    );
    for (number, what) in [(service.failed, "failed"), (service.lost, "replies lost")] {
        if number > 0 {
            line += &format!(", {} {what}", count(number));
        }
    }
    line.push('\n');
    line += &after_failures(service);
    if service.limits.is_empty() && service.upstream.is_empty() {
        return format!("{}\n{line}", service.name);
    }
    grid.text() + &line
}

/// What came of calls that did not go well; nothing if all did.
fn after_failures(service: &ServiceReport) -> String {
    let counted = |number: u64, one: &str, many: &str| {
        (number > 0).then(|| format!("{} {}", count(number), if number == 1 { one } else { many }))
    };
    let windows = counted(service.windows, "backoff window", "backoff windows");
    let parts = [
        counted(service.retries, "retry", "retries"),
        windows.map(|windows| format!("{windows}, {} in all", span(service.in_windows))),
        counted(service.breaker_openings, "breaker opening", "breaker openings"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { String::new() } else { format!("  {}\n", parts.join("; ")) }
}

fn groups(what: &str, groups: &[GroupReport]) -> String {
    let shown: Vec<&End> =
        ENDS.iter().filter(|end| end.always || groups.iter().any(|group| (end.of)(group) > 0)).collect();
    let mut grid = Grid::default();
    let names = [what, "calls", "went", "wait p50", "p99", "max"].into_iter();
    grid.row(names.chain(shown.iter().map(|end| end.name)));
    for group in groups {
        let wait = if group.went == 0 {
            ["-", "-", "-"].map(str::to_owned)
        } else {
            [group.wait.p50, group.wait.p99, group.wait.max].map(span)
        };
        let numbers = [group.name.clone(), count(group.calls), count(group.went)];
        grid.row(numbers.into_iter().chain(wait).chain(shown.iter().map(|end| count((end.of)(group)))));
    }
    grid.text()
}

fn loops(report: &Report) -> String {
    let most = report.loops.iter().map(|found| found.share).fold(0.0, f64::max);
    let mut grid = Grid::default();
    let title = if report.loop_count > report.loops.len() {
        format!("loop ({} of {})", report.loops.len(), count(report.loop_count as u64))
    } else {
        "loop".into()
    };
    grid.row([title, "went".into(), "share".into(), String::new()]);
    for found in &report.loops {
        grid.row([found.name.clone(), count(found.went), percent(found.share), bar(found.share, most)]);
    }
    grid.text()
}

/// A bar to an eighth of a cell, padded so that all of them begin at the same place.
fn bar(part: f64, most: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = if most > 0.0 { (part / most * BAR * 8.0).round() as usize } else { 0 };
    let bar = "█".repeat(eighths / 8) + EIGHTHS[eighths % 8];
    format!("{bar:<width$}", width = BAR as usize)
}

/// Which promise was not kept, how that came about, and the command that shows it again; nothing if all were.
#[must_use]
pub fn broken(subject: &Subject, report: &Report) -> Option<String> {
    let violation = report.violation.as_ref()?;
    Some(format!(
        "NOT KEPT: {} (seed {}, event {}, at {})\n  {}\nhow it came about:\n{}see it again: {}\n",
        violation.invariant.name(),
        report.seed,
        violation.event,
        span(violation.at),
        violation.message,
        story(&violation.story),
        subject.replay(report, violation),
    ))
}

/// What happened last, line by line.
#[must_use]
pub fn story(lines: &[String]) -> String {
    lines.iter().map(|line| format!("  {line}\n")).collect()
}
