//! How the definition of a limit that is in force differs from the one that was written.

use std::time::Duration;

/// The most of N that is left alone for others: the guard must not become the limit.
const MOST_GUARDED: u64 = 50;

/// What calls lie apart that leave on open connections, at most, as long as nobody was turned away.
const SURE: Duration = Duration::from_millis(25);

/// How the definition in force differs from the one that was written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Adjustment {
    /// N, as replies state it, and whether it may lift what is written.
    pub units: Option<u64>,
    pub lifts: bool,
    /// The upstream counts as a bucket of this size does.
    pub bucket: Option<u64>,
    /// What calls reserve before they are known to cost less, twice: a pacer that holds that much loses nothing of what
    /// they give back.
    pub burst: u64,
    /// The share of N that goes through, by having been turned away; at most 1.
    pub share: f64,
    /// Units left alone for what others take before we hear of it.
    pub guard: u64,
    /// By how much calls may overtake each other.
    pub jitter: Duration,
    /// Calls go over a network, and it is told when they leave: what they still lie apart is the network's doing.
    pub remote: bool,
    /// One was turned away.
    pub wary: bool,
    /// The share of the usual pace that is right for the time being; at most 1.
    pub pace: f64,
    /// What may be in flight, where that adapts.
    pub slots: Option<u64>,
}

impl Default for Adjustment {
    fn default() -> Adjustment {
        Adjustment {
            units: None,
            lifts: false,
            bucket: None,
            burst: 0,
            share: 1.0,
            guard: 0,
            jitter: Duration::ZERO,
            remote: false,
            wary: false,
            pace: 1.0,
            slots: None,
        }
    }
}

impl Adjustment {
    /// N as far as it is told; what is written is a ceiling, or a guess.
    pub fn told(&self, written: u64) -> u64 {
        match self.units {
            Some(told) if self.lifts => told,
            Some(told) => told.min(written),
            None => written,
        }
    }

    /// How much longer calls count than they would if all took the same way.
    pub fn slack(&self) -> Duration {
        if self.remote && !self.wary { self.jitter.min(SURE) } else { self.jitter }
    }

    /// What may go in a window of `told` units.
    pub fn in_force(&self, told: u64) -> u64 {
        self.paced(told - self.guard.min(told / MOST_GUARDED))
    }

    /// What of `units` goes through.
    pub fn paced(&self, units: u64) -> u64 {
        if self.share < 1.0 { ((units as f64 * self.share) as u64).max(1) } else { units }
    }

    /// What of `units` goes for the time being.
    pub fn slowed(&self, units: u64) -> u64 {
        if self.pace < 1.0 { ((units as f64 * self.pace) as u64).max(1) } else { units }
    }
}
