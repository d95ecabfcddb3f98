//! The state of limits, windows, breakers and waiting calls, to be shown.

use crate::model::LimitId;
use crate::model::time::Nanos;
use crate::routing::names;
use crate::routing::state::Base;
use crate::scheduler::lanes;
use crate::scheduler::state::Scheduler;
use std::sync::Arc;
use std::time::Duration;

/// A breaker as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BreakerStatus {
    /// Its name: `openai/breaker`.
    pub name: Arc<str>,
    /// What it does with calls.
    pub state: BreakerState,
    /// How many calls wait for it.
    pub waiting: usize,
}

/// What a breaker does with calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// They go.
    Closed,
    /// They do not; the next probe goes after that long.
    Open {
        /// How long.
        probe_in: Duration,
    },
    /// Some probe whether the upstream is well again.
    HalfOpen {
        /// So many more may.
        probes: u32,
    },
}

/// Where a waiting call stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// 1 for the next to go at the limit that holds it.
    pub position: usize,
    /// The limit that decides its time.
    pub limit: Arc<str>,
    /// How long it is expected to wait from now on; unknown if it waits for a slot.
    pub expected: Option<Duration>,
    /// How long it has waited.
    pub waited: Duration,
}

/// One limit as it stands.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LimitStatus {
    /// Its name.
    pub name: Arc<str>,
    /// The most it allows (N, the burst of a bucket, or the bound in flight).
    pub capacity: u64,
    /// What is spent and still counts; above `capacity` it is debt.
    pub used: u64,
    /// Units that calls cost beyond the bound on debt, and that were dropped.
    pub dropped_debt: u64,
    /// When it is wholly available again, where that can be known.
    pub reset: Option<Nanos>,
    /// How many calls wait because of it.
    pub waiting: usize,
}

/// A backoff window as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackoffStatus {
    /// Whose it is.
    pub key: Arc<str>,
    /// How long it is still open; zero if it is over.
    pub open_for: Duration,
    /// How long calls still go throttled.
    pub throttled_for: Duration,
    /// How many calls wait for it.
    pub waiting: usize,
}

pub(crate) fn limit_status(s: &mut Scheduler, base: &mut Base, limit: LimitId, now: Nanos) -> LimitStatus {
    let waiting = lanes::waiting_at(s, base, limit);
    let (name, reset) = (names::limit_name(base, limit), base.limits.reset_of(limit, now));
    let spec = &base.limits.specs[base.limits[limit].spec];
    let capacity = spec.definition.whole();
    let used = base.limits[limit].meter.used(now);
    let dropped_debt = base.limits.dropped_debt.get(&limit).copied().unwrap_or(0);
    LimitStatus { name, capacity, used, dropped_debt, reset, waiting }
}
