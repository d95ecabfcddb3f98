//! What is read off a run: how much of the supply was used, how much was rejected, and the longest silence.

use std::time::Duration;

use tidegate_sim::{LimitReport, Phase, Report};

/// What one run came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// The share of the supply that was used.
    pub used: f64,
    /// The share of what was sent that was rejected.
    pub rejected: f64,
    /// The longest time in which nothing went.
    pub silence: Duration,
}

/// From when until when, in seconds.
pub type Span = (u64, u64);

/// What is measured of a run.
#[derive(Clone, Debug)]
pub struct Measure {
    /// When what is used counts.
    pub used: Span,
    /// What it is compared with.
    pub of: Supply,
    /// When what is rejected counts.
    pub rejected: Span,
    /// Whether the first part of that may have rejections that nobody could know of beforehand: up to the reply to
    /// the first of them, and for as long as that says.
    pub forgiving: bool,
}

/// What there was to be used.
#[derive(Clone, Copy, Debug)]
pub enum Supply {
    /// N/W times the time. A bucket that was not empty may give more; that counts as all of it.
    Rate,
    /// The same, for what our calls really cost by our own count, after the first window.
    RateByOurCount,
    /// The same, without what others got of it.
    LeftByOthers,
    /// So many units.
    Exactly(f64),
}

impl Measure {
    /// What is used after the first window, and all that is rejected.
    pub fn after_first_window(lasts: u64) -> Measure {
        let used = (super::scene::WINDOW, lasts);
        Measure { used, of: Supply::Rate, rejected: (0, lasts), forgiving: false }
    }

    /// The seconds at which parts of the run must begin, so that it can be read off.
    pub fn moments(&self) -> impl Iterator<Item = u64> {
        [self.used.0, self.used.1, self.rejected.0, self.rejected.1].into_iter()
    }

    /// Reads it off a run.
    pub fn read(&self, report: &Report) -> Seen {
        let phases = &report.services[0].phases;
        let used = inside(phases, self.used).map(|phase| &phase.upstream[0]);
        let all = used.fold((0, 0.0, 0), |(used, supply, others), limit: &LimitReport| {
            (used + limit.used, supply + limit.supply, others + limit.neighbours)
        });
        let (used, supply, others) = all;
        let share = match self.of {
            Supply::Rate => used as f64 / supply,
            Supply::RateByOurCount => report.services[0].limits[0].share(),
            Supply::LeftByOthers => used as f64 / (supply - others as f64),
            Supply::Exactly(units) => used as f64 / units,
        };
        let sent: u64 = inside(phases, self.rejected).map(|phase| phase.sent).sum();
        let rejected = inside(phases, self.rejected).enumerate().map(|(part, phase)| {
            if self.forgiving && part == 0 { phase.rejected_late } else { phase.rejected }
        });
        Seen {
            used: share.min(1.0),
            rejected: rejected.sum::<u64>() as f64 / sent.max(1) as f64,
            silence: silence(report),
        }
    }
}

fn inside(phases: &[Phase], (from, until): Span) -> impl Iterator<Item = &Phase> {
    phases.iter().filter(move |phase| phase.from.as_secs() >= from && phase.until.as_secs() <= until)
}

/// The longest time in which nothing went, to a part of the series.
fn silence(report: &Report) -> Duration {
    let (mut longest, mut silent) = (0, 0);
    for granted in &report.series.services[0].granted {
        silent = if granted.iter().sum::<u64>() > 0 { 0 } else { silent + 1 };
        longest = longest.max(silent);
    }
    report.series.step * longest
}

#[cfg(test)]
mod tests {
    use tidegate_sim::{Series, ServiceReport, ServiceSeries};

    use super::*;

    /// Four parts of a minute, with 100 units each, of which 90, 80, 70 and 60 were ours.
    fn report() -> Report {
        let phase = |minute: u64| Phase {
            from: Duration::from_secs(60 * minute),
            until: Duration::from_secs(60 * minute + 60),
            sent: 100,
            accepted: 90,
            rejected: 10,
            rejected_late: 4,
            upstream: vec![LimitReport {
                name: "requests".into(),
                supply: 100.0,
                used: 90 - 10 * minute,
                neighbours: 20,
            }],
        };
        let granted = [1, 1, 0, 1, 0, 0, 0, 1].map(|count| [count, 0, 0, 0]).into();
        Report {
            seed: 1,
            duration: Duration::from_secs(240),
            events: 0,
            peak_waiting: 0,
            services: vec![ServiceReport { phases: (0..4).map(phase).collect(), ..ServiceReport::default() }],
            priorities: Vec::new(),
            workloads: Vec::new(),
            loops: Vec::new(),
            loop_count: 0,
            series: Series {
                step: Duration::from_secs(30),
                services: vec![ServiceSeries { granted, ..ServiceSeries::default() }],
                down: Vec::new(),
            },
            violation: None,
            digest: 0,
            story: Vec::new(),
        }
    }

    #[test]
    fn what_is_used_counts_in_its_span_and_against_its_supply() {
        let measure = Measure { used: (60, 240), of: Supply::Rate, rejected: (0, 240), forgiving: false };
        let used = |of| Measure { of, ..measure.clone() }.read(&report()).used;
        assert_eq!(used(Supply::Rate), 210.0 / 300.0);
        assert_eq!(used(Supply::LeftByOthers), 210.0 / 240.0);
        assert_eq!(used(Supply::Exactly(420.0)), 0.5);
        assert_eq!(used(Supply::Exactly(100.0)), 1.0, "more than all is all");
    }

    #[test]
    fn what_nobody_could_know_of_is_forgiven_in_the_first_part_only() {
        let measure = Measure { used: (0, 240), of: Supply::Rate, rejected: (60, 240), forgiving: false };
        assert_eq!(measure.read(&report()).rejected, 30.0 / 300.0);
        assert_eq!(Measure { forgiving: true, ..measure }.read(&report()).rejected, 24.0 / 300.0);
    }

    #[test]
    fn silence_is_the_longest_time_without_a_grant() {
        assert_eq!(Measure::after_first_window(240).read(&report()).silence, Duration::from_secs(90));
    }
}
