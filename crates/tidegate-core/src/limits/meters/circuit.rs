//! A circuit breaker as a call meets it: a limit of slots. Closed it has any number of them, open none, half-open
//! as many as there are probes.

use crate::limits::breaker::{Breaker, BreakerPolicy, Status};
use crate::limits::meters::UNBOUNDED;
use crate::model::time::Nanos;

/// A breaker on the way of calls.
#[derive(Clone, Debug)]
pub struct Circuit(Box<Breaker>);

impl Circuit {
    /// A breaker that is closed.
    #[must_use]
    pub fn new(policy: BreakerPolicy) -> Circuit {
        Circuit(Box::new(Breaker::new(policy)))
    }

    /// The breaker itself.
    #[must_use]
    pub fn breaker(&self) -> &Breaker {
        &self.0
    }

    /// The breaker itself.
    pub fn breaker_mut(&mut self) -> &mut Breaker {
        &mut self.0
    }

    /// No bound on a cost.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        UNBOUNDED
    }

    /// Whether a call may go now.
    #[must_use]
    pub fn fits(&self, _cost: u64, _withheld: u64, now: Nanos) -> bool {
        self.room(0, now) > 0
    }

    /// From when on a call may go; never, if that depends on probes that are out.
    #[must_use]
    pub fn earliest(&self, _cost: u64, _withheld: u64) -> Nanos {
        self.0.opens()
    }

    /// How many calls may go now.
    #[must_use]
    pub fn room(&self, _withheld: u64, now: Nanos) -> u64 {
        match self.0.status(now) {
            Status::Closed => UNBOUNDED,
            Status::Open { .. } => 0,
            Status::HalfOpen { probes } => probes.into(),
        }
    }

    /// A probe is never kept for a call that is bound elsewhere.
    #[must_use]
    pub fn spare(&self, _now: Nanos, _cost: u64, _withheld: u64, _at: Nanos) -> u64 {
        UNBOUNDED
    }

    /// Nothing is counted.
    #[must_use]
    pub fn used(&self, _now: Nanos) -> u64 {
        0
    }

    /// Now: what it holds is no units.
    #[must_use]
    pub fn full_at(&self) -> Nanos {
        Nanos::ZERO
    }
}
