//! A run as a picture: for each service what went, by priority, against the limit; below it what the upstream
//! refused or failed, and how many waited. Backoff windows, outages and times when the process was down are
//! shaded. Written by hand: no scripts, no fonts of its own, the same report gives the same bytes.

mod axis;
mod bins;
mod canvas;
mod panel;

use std::path::Path;
use std::time::Duration;

use tidegate_core::Priority;

use super::words::{count, length};
use super::{Subject, shown_services};
use crate::report::Report;
use crate::scenario::Scenario;
use axis::TimeAxis;
use bins::Bins;
use canvas::{Anchor, Canvas, Text};
use panel::Panel;

/// Colours that people who see fewer of them can tell apart (after Okabe and Ito).
mod colour {
    pub const INK: &str = "#222222";
    pub const FAINT: &str = "#666666";
    pub const GRID: &str = "#e4e4e4";
    /// By priority, from low to critical.
    pub const PRIORITY: [&str; 4] = ["#56b4e9", "#0072b2", "#e69f00", "#cc79a7"];
    pub const REJECTED: &str = "#d55e00";
    pub const FAILED: &str = "#555555";
    pub const WAITING: &str = "#009e73";
    pub const BACKOFF: &str = "#f7efa0";
    pub const OUTAGE: &str = "#e2e2e2";
}

const WIDTH: f64 = 960.0;
const LEFT: f64 = 74.0;
const RIGHT: f64 = 20.0;
/// Where the legend begins, and the height of its rows.
const LEGEND: f64 = 64.0;
const ROW: f64 = 17.0;
const BOTTOM: f64 = 36.0;
/// Between two services.
const GAP: f64 = 30.0;

/// The picture of a run.
#[must_use]
pub fn svg(subject: &Subject, scenario: &Scenario, report: &Report) -> String {
    let duration = report.duration.max(Duration::from_millis(1));
    let time = TimeAxis::new(duration, LEFT, WIDTH - RIGHT);
    let mut panels = Vec::new();
    for (service, series) in shown_services(report) {
        let outages = scenario.upstreams.get(&service.name).map(|spec| {
            spec.outages
                .iter()
                .map(|outage| (outage.at, outage.at.saturating_add(outage.lasts)))
                .collect::<Vec<_>>()
        });
        panels.push(Panel {
            service,
            bins: Bins::new(&series, report.series.step, duration),
            backoff: series.backoff,
            outages: outages.unwrap_or_default(),
            down: &report.series.down,
        });
    }
    let legend = legend(&panels, report);
    let top = LEGEND + legend.last().map_or(0.0, |entry| entry.y) + 2.2 * ROW;
    let parts: f64 = panels.iter().map(|panel| panel.height() + GAP).sum();
    let height = top + parts.max(2.0 * GAP) - GAP + BOTTOM;

    let mut canvas = Canvas::new(WIDTH, height);
    heading(&mut canvas, subject, report);
    draw_legend(&mut canvas, &legend);
    let mut y = top;
    for panel in &panels {
        panel.draw(&mut canvas, &time, y);
        y += panel.height() + GAP;
    }
    if panels.is_empty() {
        let text = Text { anchor: Anchor::Middle, ..Text::new(13.0) };
        canvas.text(WIDTH / 2.0, top + 10.0, "nothing was called", &text);
    } else {
        let text = Text { anchor: Anchor::Middle, ..Text::new(12.0) };
        canvas.text((LEFT + WIDTH - RIGHT) / 2.0, height - 14.0, time.label(), &text);
    }
    canvas.finish()
}

fn heading(canvas: &mut Canvas, subject: &Subject, report: &Report) {
    let name = Path::new(&subject.file)
        .file_name()
        .map_or(subject.file.as_str().into(), |name| name.to_string_lossy());
    let title = format!("{name}: admissions over time");
    canvas.title(&title);
    canvas.text(LEFT, 28.0, &title, &Text { bold: true, ..Text::new(16.0) });
    let mut line = format!("seed {}, {}", report.seed, length(report.duration));
    let total: u64 = report.priorities.iter().map(|group| group.went).sum();
    line += &format!(", {} calls went, at most {} waiting", count(total), count(report.peak_waiting as u64));
    if !subject.settings.is_empty() {
        line += &format!("; {}", subject.settings_line());
    }
    canvas.text(LEFT, 47.0, &line, &Text { fill: colour::FAINT, ..Text::new(12.0) });
}

/// One line of the legend: what it says, and what stands before it.
struct Entry {
    name: &'static str,
    mark: Mark,
    /// Where it stands, from the first.
    x: f64,
    y: f64,
}

enum Mark {
    Fill(&'static str),
    /// A fill so light that it needs a frame.
    Framed(&'static str),
    Limit,
}

/// What the colours mean, as far as they are used, in as many rows as that takes.
fn legend(panels: &[Panel<'_>], report: &Report) -> Vec<Entry> {
    let any = |used: &dyn Fn(&Bins) -> bool| panels.iter().any(|panel| used(&panel.bins));
    let mut marks: Vec<(&'static str, Mark, bool)> = Vec::new();
    for priority in Priority::ALL.into_iter().rev() {
        let used = any(&|bins| bins.granted.iter().any(|granted| granted[priority as usize] > 0.0));
        marks.push((priority.name(), Mark::Fill(colour::PRIORITY[priority as usize]), used));
    }
    let some = |rates: &[f64]| rates.iter().any(|rate| *rate > 0.0);
    marks.extend([
        ("limit, as an average rate", Mark::Limit, any(&|bins| bins.allowed.iter().any(Option::is_some))),
        ("rejected (429)", Mark::Fill(colour::REJECTED), any(&|bins| some(&bins.rejected))),
        ("failed (5xx)", Mark::Fill(colour::FAILED), any(&|bins| some(&bins.failed))),
        ("waiting", Mark::Fill(colour::WAITING), any(&|bins| some(&bins.waiting))),
        ("backing off", Mark::Framed(colour::BACKOFF), panels.iter().any(|panel| !panel.backoff.is_empty())),
        ("outage", Mark::Framed(colour::OUTAGE), panels.iter().any(|panel| !panel.outages.is_empty())),
        ("our process down", Mark::Framed(canvas::HATCH), !report.series.down.is_empty()),
    ]);
    let (mut x, mut y) = (0.0, 0.0);
    let mut entries = Vec::new();
    for (name, mark, _) in marks.into_iter().filter(|(.., used)| *used) {
        let width = 34.0 + 6.2 * name.chars().count() as f64;
        if x + width > WIDTH - LEFT - RIGHT {
            (x, y) = (0.0, y + ROW);
        }
        entries.push(Entry { name, mark, x, y });
        x += width;
    }
    entries
}

fn draw_legend(canvas: &mut Canvas, entries: &[Entry]) {
    let framed = format!(" stroke=\"{}\" stroke-width=\"0.5\"", colour::FAINT);
    for entry in entries {
        let (x, y) = (LEFT + entry.x, LEGEND + entry.y);
        match entry.mark {
            Mark::Fill(fill) => canvas.rect(x, y, 14.0, 10.0, fill, ""),
            Mark::Framed(fill) => canvas.rect(x, y, 14.0, 10.0, fill, &framed),
            Mark::Limit => canvas.path(&format!("M{x} {}H{}", y + 5.0, x + 15.0), panel::LIMIT_LINE),
        }
        canvas.text(x + 20.0, y + 9.0, entry.name, &Text::new(11.0));
    }
}
