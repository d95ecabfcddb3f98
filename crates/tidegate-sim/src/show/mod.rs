//! A [`Report`] for people and programs: tables for a terminal, JSON, and a picture.
//!
//! All of them are plain functions from a report to text, and the same report gives the same text.

mod compare;
mod grid;
mod json;
mod list;
mod svg;
mod table;
pub mod words;

use crate::report::{GroupReport, Report, ServiceReport, ServiceSeries, Violation};

pub use compare::compare;
pub use grid::Grid;
pub use json::json;
pub use list::list;
pub use svg::svg;
pub use table::{broken, story, table};

/// What was simulated, as whoever wants to simulate it again must name it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// The file.
    pub file: String,
    /// Keys whose values were replaced, with what they were replaced by.
    pub settings: Vec<(String, String)>,
}

impl Subject {
    /// The command that plays a run again, up to the event at which a promise was broken.
    #[must_use]
    pub fn replay(&self, report: &Report, violation: &Violation) -> String {
        let mut command = format!("tidegate simulate {} --seed {}", quoted(&self.file), report.seed);
        for (key, value) in &self.settings {
            command += &format!(" --sweep {}", quoted(&format!("{key}={value}")));
        }
        command + &format!(" --events {}", violation.event)
    }

    /// The settings in a line; nothing if there are none.
    #[must_use]
    pub fn settings_line(&self) -> String {
        let settings: Vec<String> =
            self.settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
        settings.join(" ")
    }
}

/// The services worth showing, with how they went over time: those that somebody called, or, if there are few
/// and nobody called any, all.
fn shown_services(report: &Report) -> Vec<(&ServiceReport, ServiceSeries)> {
    let series = |index: usize| report.series.services.get(index).cloned().unwrap_or_default();
    let all = report.services.iter().enumerate().map(|(index, service)| (service, series(index)));
    let called = |(service, series): &(&ServiceReport, ServiceSeries)| {
        service.sent > 0 || series.waiting.iter().any(|waiting| *waiting > 0)
    };
    let shown: Vec<_> = all.clone().filter(called).collect();
    if shown.is_empty() && report.services.len() <= FEW { all.collect() } else { shown }
}

const FEW: usize = 8;

/// One way in which calls end that did not go well.
struct End {
    name: &'static str,
    of: fn(&GroupReport) -> u64,
    /// Shown even if there were none: that is good news.
    always: bool,
}

const ENDS: [End; 7] = [
    End { name: "refused", of: |group| group.refused, always: true },
    End { name: "timeouts", of: |group| group.timed_out, always: true },
    End { name: "shed", of: |group| group.shed, always: true },
    End { name: "cancelled", of: |group| group.cancelled, always: true },
    End { name: "given up", of: |group| group.given_up, always: false },
    End { name: "crashed", of: |group| group.crashed, always: false },
    End { name: "unfinished", of: |group| group.unfinished, always: false },
];

/// A word that a shell reads as it is.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
