//! A cell: a world, what is measured of it, and what that must reach. The mean over all seeds must meet the target,
//! and no seed may miss it by more than a point.

use std::time::Duration;

use super::measure::{Measure, Seen};
use super::scene::{Scene, WINDOW};

/// One world, measured in one way or in several.
#[derive(Clone, Debug)]
pub struct Cell {
    /// What is simulated.
    pub scene: Scene,
    /// What is measured of it.
    pub rows: Vec<Row>,
}

/// One line of the table.
#[derive(Clone, Debug)]
pub struct Row {
    /// Which part of the requirements it belongs to.
    pub group: String,
    /// What tells it apart from others of its group.
    pub name: String,
    /// What is measured.
    pub measure: Measure,
    /// What that must reach.
    pub target: Target,
}

/// What must be reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// Used at least.
    pub used: f64,
    /// Rejected at most, where anything is said about that.
    pub rejected: Option<f64>,
    /// Whoever says nothing for so many seconds has stalled.
    pub stalled: u64,
}

/// What all seeds came to.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// The mean of what was used, and the least.
    pub used: (f64, f64),
    /// The mean of what was rejected, and the most.
    pub rejected: (f64, f64),
    /// The longest silence.
    pub silence: Duration,
    /// Whether the target is met.
    pub met: bool,
}

/// How far one seed may be from the target.
const POINT: f64 = 0.01;

impl Cell {
    /// A world that is measured in one way.
    pub fn of(row: Row, scene: Scene) -> Cell {
        Cell { scene, rows: vec![row] }
    }

    /// The seconds at which parts of its run begin.
    pub fn phases(&self) -> Vec<u64> {
        let mut moments: Vec<u64> = self.rows.iter().flat_map(|row| row.measure.moments()).collect();
        moments.sort_unstable();
        moments.dedup();
        moments.retain(|at| (1..self.scene.lasts).contains(at));
        moments
    }
}

impl Target {
    /// Used at least, rejected at most, and never silent for a whole window.
    pub fn of(used: f64, rejected: Option<f64>) -> Target {
        Target { used, rejected, stalled: WINDOW }
    }

    /// What all seeds came to.
    ///
    /// # Panics
    /// If there are none.
    pub fn judge(&self, seen: &[Seen]) -> Outcome {
        assert!(!seen.is_empty(), "a cell was played with no seed");
        let mean = |of: fn(&Seen) -> f64| seen.iter().map(of).sum::<f64>() / seen.len() as f64;
        let least = seen.iter().map(|seen| seen.used).fold(f64::MAX, f64::min);
        let most = seen.iter().map(|seen| seen.rejected).fold(0.0, f64::max);
        let used = (mean(|seen| seen.used), least);
        let rejected = (mean(|seen| seen.rejected), most);
        let silence = seen.iter().map(|seen| seen.silence).max().unwrap_or_default();
        let enough = used.0 >= self.used && used.1 >= self.used - POINT;
        let few = self.rejected.is_none_or(|at_most| rejected.0 <= at_most && rejected.1 <= at_most + POINT);
        Outcome { used, rejected, silence, met: enough && few && silence.as_secs() < self.stalled }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met(seen: &[(f64, f64, u64)]) -> bool {
        let seen: Vec<Seen> = seen
            .iter()
            .map(|&(used, rejected, silent)| Seen { used, rejected, silence: Duration::from_secs(silent) })
            .collect();
        Target::of(0.99, Some(0.001)).judge(&seen).met
    }

    #[test]
    fn the_mean_must_meet_the_target_and_no_seed_may_miss_it_by_more_than_a_point() {
        assert!(met(&[(0.981, 0.0, 0), (0.999, 0.002, 0)]));
        assert!(!met(&[(0.985, 0.0, 0), (0.994, 0.0, 0)]), "the mean is below");
        assert!(!met(&[(0.979, 0.0, 0), (1.0, 0.0, 0), (1.0, 0.0, 0)]), "one seed is too far below");
        assert!(!met(&[(1.0, 0.0, 0), (1.0, 0.003, 0)]), "too many are rejected");
        let many: Vec<_> = (0..20).map(|seed| (1.0, if seed == 0 { 0.012 } else { 0.0 }, 0)).collect();
        assert!(!met(&many), "one seed has far too many rejected");
    }

    #[test]
    fn whoever_is_silent_for_a_whole_window_misses_whatever_else_it_reaches() {
        assert!(met(&[(1.0, 0.0, 59)]));
        assert!(!met(&[(1.0, 0.0, 60)]));
    }
}
