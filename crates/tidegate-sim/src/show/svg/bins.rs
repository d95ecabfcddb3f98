//! A service over time, in as many parts as a picture can show, as rates per second.

use std::time::Duration;

use crate::report::ServiceSeries;

/// Parts that can still be told apart.
const MOST: u64 = 240;
/// Fewer would hide what happened when.
const LEAST: u64 = 24;
/// Calls that a part should have: of ten calls one more or less looks like a limit that does not hold.
const CALLS: u64 = 40;

pub struct Bins {
    /// When each begins, and after the last one when that ends.
    pub edges: Vec<Duration>,
    /// Calls per second that went, by priority.
    pub granted: Vec<[f64; 4]>,
    pub rejected: Vec<f64>,
    pub failed: Vec<f64>,
    pub allowed: Vec<Option<f64>>,
    /// The most that waited.
    pub waiting: Vec<f64>,
}

impl Bins {
    pub fn new(series: &ServiceSeries, step: Duration, duration: Duration) -> Bins {
        let starts = |index: usize| Duration::from_secs_f64(step.as_secs_f64() * index as f64).min(duration);
        let steps = if step.is_zero() { 0 } else { series.granted.len() };
        let parts = (0..steps).take_while(|index| starts(*index) < duration).count();
        let went: u64 = series.granted.iter().flatten().sum();
        let wanted = (went / CALLS).clamp(LEAST, MOST);
        let merged = parts.div_ceil(wanted as usize).max(1);
        let mut bins = Bins {
            edges: vec![Duration::ZERO],
            granted: Vec::new(),
            rejected: Vec::new(),
            failed: Vec::new(),
            allowed: Vec::new(),
            waiting: Vec::new(),
        };
        for from in (0..parts).step_by(merged) {
            let until = (from + merged).min(parts);
            let seconds = (starts(until) - starts(from)).as_secs_f64().max(1e-9);
            let sum = |of: &[u64]| of.iter().skip(from).take(until - from).sum::<u64>() as f64 / seconds;
            let went = &series.granted[from..until];
            bins.edges.push(starts(until));
            bins.granted.push(
                [0, 1, 2, 3].map(|p| went.iter().map(|granted| granted[p]).sum::<u64>() as f64 / seconds),
            );
            bins.rejected.push(sum(&series.rejected));
            bins.failed.push(sum(&series.failed));
            // What is allowed is said of a whole step, which the end may cut short. A limit that is not known
            // in all steps holds in the others.
            let known: Vec<f64> =
                series.allowed.iter().skip(from).take(until - from).flatten().copied().collect();
            let whole = step.as_secs_f64() * known.len() as f64;
            bins.allowed.push((!known.is_empty()).then(|| known.iter().sum::<f64>() / whole));
            let most = series.waiting.iter().skip(from).take(until - from).max();
            bins.waiting.push(most.copied().unwrap_or_default() as f64);
        }
        bins
    }

    /// The most that went in a part.
    pub fn most_granted(&self) -> f64 {
        self.granted.iter().map(|granted| granted.iter().sum()).fold(0.0, f64::max)
    }

    /// The most that was allowed in a part.
    pub fn most_allowed(&self) -> f64 {
        self.allowed.iter().flatten().copied().fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(steps: usize) -> ServiceSeries {
        ServiceSeries {
            granted: vec![[1, 0, 0, 2]; steps],
            rejected: vec![1; steps],
            failed: vec![0; steps],
            waiting: (0..steps as u64).collect(),
            allowed: vec![Some(4.0); steps],
            backoff: Vec::new(),
        }
    }

    #[test]
    fn many_steps_become_few_without_changing_rates_or_peaks() {
        let bins = Bins::new(&series(1_440), Duration::from_secs(60), Duration::from_secs(86_400));
        assert_eq!(bins.granted.len(), 103, "so that each has forty calls");
        assert_eq!(bins.granted[7], [1.0 / 60.0, 0.0, 0.0, 2.0 / 60.0]);
        assert_eq!(bins.allowed[7], Some(4.0 / 60.0));
        assert_eq!(bins.waiting.last(), Some(&1_439.0));
        assert_eq!(bins.edges.len(), 104);
    }

    #[test]
    fn a_last_step_that_is_cut_short_keeps_its_rate() {
        let bins = Bins::new(&series(2), Duration::from_secs(2), Duration::from_secs(3));
        assert_eq!(bins.granted[1][0], 1.0, "one call in the one second that is left");
        assert_eq!(bins.allowed[1], Some(2.0));
    }

    #[test]
    fn nothing_is_nothing() {
        let bins = Bins::new(&ServiceSeries::default(), Duration::ZERO, Duration::from_secs(3));
        assert!(bins.granted.is_empty() && bins.most_granted() == 0.0 && bins.most_allowed() == 0.0);
    }
}
