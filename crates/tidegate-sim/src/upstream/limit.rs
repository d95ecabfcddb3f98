//! One limit of an upstream: its definition, and the meter that counts for it.

use tidegate_core::{Cost, Nanos};

use super::concurrency::Concurrency;
use super::fixed_window::FixedWindow;
use super::gcra::Gcra;
use super::meter::Meter;
use super::sliding_log::SlidingLog;
use super::token_bucket::TokenBucket;
use crate::scenario::{Model, UpstreamLimit};

/// A limit as it stands now, and what it has counted.
#[derive(Debug)]
pub(super) struct Limit {
    pub spec: UpstreamLimit,
    pub meter: Box<dyn Meter>,
}

impl Limit {
    /// Creates the limit that `spec` describes, with nothing counted yet.
    pub fn new(spec: &UpstreamLimit, now: Nanos) -> Limit {
        Limit { spec: spec.clone(), meter: meter(spec, now) }
    }

    /// Returns whether the limit counts calls in flight.
    pub fn counts_slots(&self) -> bool {
        self.spec.model == Model::Concurrency
    }

    /// Returns the units that a call of `cost` takes here.
    pub fn units(&self, cost: &Cost) -> u64 {
        if self.counts_slots() { 1 } else { cost.units(&self.spec.dimension) }
    }

    /// Returns the burst that is stated, or N.
    pub fn burst(&self) -> u64 {
        self.spec.burst.unwrap_or(self.spec.rate.units())
    }
}

/// Creates the meter that `limit` describes, with nothing counted yet.
#[must_use]
pub fn meter(limit: &UpstreamLimit, now: Nanos) -> Box<dyn Meter> {
    let burst = limit.burst.unwrap_or(limit.rate.units());
    match limit.model {
        Model::FixedWindow => Box::new(FixedWindow::new(limit.rate, now)),
        Model::SlidingLog => Box::new(SlidingLog::new(limit.rate)),
        Model::TokenBucket => Box::new(TokenBucket::new(limit.rate, burst, now)),
        Model::Gcra => Box::new(Gcra::new(limit.rate, burst)),
        Model::Concurrency => Box::new(Concurrency::new(limit.rate.units())),
    }
}
