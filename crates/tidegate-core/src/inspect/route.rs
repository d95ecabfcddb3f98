//! The limits of a call's route as they stand, and which call is first at each. To look changes nothing.

use crate::limits::limit::Counts;
use crate::limits::meters::Meter;
use crate::limits::store::Limits;
use crate::model::call::Call;
use crate::model::dimension::Dimension;
use crate::model::priority::Priority;
use crate::model::rate::{Algorithm, Rate};
use crate::model::time::Nanos;
use crate::model::{LimitId, RouteId, SpecId};
use crate::routing::names;
use crate::routing::state::Base;
use crate::scheduler::decision::Ticket;
use crate::upstream::learned::LearnedLimit;
use std::sync::Arc;
use std::time::Duration;

/// A limit that a call must pass.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Passage {
    /// Its name.
    pub limit: Arc<str>,
    /// What it says.
    pub terms: Terms,
    /// What it counts; nothing if it counts calls in flight.
    pub dimension: Option<Dimension>,
    /// What the call takes there.
    pub cost: u64,
    /// What a call of each priority, from low to critical, must leave alone there.
    pub withheld: [u64; 4],
    /// The largest cost that is allowed: more than can go at once, if only experience says that it cannot. Such a call
    /// reserves what can, and owes the rest.
    pub most: u64,
}

/// What a limit says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terms {
    /// Up to `burst` at once, refilled at `rate`.
    TokenBucket {
        /// How fast it refills.
        rate: Rate,
        /// Its size.
        burst: u64,
    },
    /// Never more than the rate's units in any stretch of its window.
    SlidingWindow {
        /// Units and window.
        rate: Rate,
        /// What may go at once if it is also paced.
        burst: Option<u64>,
    },
    /// The rate's units in each window.
    FixedWindow {
        /// Units and window.
        rate: Rate,
    },
    /// So many calls at the same time.
    Concurrency(u64),
    /// So many bytes at the same time, and one call more.
    ByteBudget(u64),
}

/// How a limit on a call's way stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stand {
    /// What is spent and still counts.
    pub used: u64,
    /// From when to when its window is open, if it is a fixed one.
    pub window: Option<(Nanos, Nanos)>,
}

/// Who is first at a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FirstInLine {
    /// Which limit, by its place on the way that was asked about.
    pub place: usize,
    /// Whose turn is next.
    pub ticket: Ticket,
    /// When, if nobody else took anything; never, if it waits for a slot.
    pub booked: Nanos,
}

impl Terms {
    /// The largest cost that can ever fit; a budget lets anything pass.
    #[must_use]
    pub fn most(&self) -> u64 {
        match self {
            Terms::TokenBucket { burst, .. } => *burst,
            Terms::SlidingWindow { rate, .. } | Terms::FixedWindow { rate } => rate.units(),
            Terms::Concurrency(bound) => *bound,
            Terms::ByteBudget(_) => u64::MAX,
        }
    }

    /// Whether it counts what is in flight.
    #[must_use]
    pub fn is_in_flight(&self) -> bool {
        matches!(self, Terms::Concurrency(_) | Terms::ByteBudget(_))
    }
}

/// A limit on the way of a call, as it stands.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Explained {
    /// Its name.
    pub limit: Arc<str>,
    /// What the call takes there.
    pub cost: u64,
    /// The most that it allows.
    pub capacity: u64,
    /// What is spent and still counts, others' units included.
    pub used: u64,
    /// What the call must leave alone there, by its priority.
    pub withheld: u64,
    /// When the call would fit there if nobody else took anything; `None` if that cannot be known.
    pub fits_in: Option<Duration>,
    /// How many calls wait because of it.
    pub waiting: usize,
    /// What was learned about it.
    pub learned: Option<LearnedLimit>,
}

pub(crate) fn class_of(base: &Base, route_id: RouteId, call: &Call) -> Priority {
    call.said.priority.unwrap_or(base.routing.routes[route_id].terms.priority)
}

pub(crate) fn stand(limits: &mut Limits, limit: LimitId, now: Nanos) -> Stand {
    let meter = &mut limits[limit].meter;
    let used = meter.used(now);
    let window = match meter {
        Meter::Fixed(window) => Some(window.bounds()),
        _ => None,
    };
    Stand { used, window }
}

/// Whether a limit is always on the way of its calls; windows and what holds throttled calls come and go.
pub(crate) fn is_passage(limits: &Limits, limit: LimitId) -> bool {
    let held = &limits[limit];
    let throttles = matches!(limits.specs[held.spec].definition.counts, Counts::Throttled(_));
    held.meter.counts() && !throttles
}

pub(crate) fn passage(base: &Base, limit: LimitId, cost: u64) -> Option<Passage> {
    passage_by(&base.limits, base.limits[limit].spec, names::limit_name(base, limit), cost)
}

pub(crate) fn passage_by(limits: &Limits, spec: SpecId, limit: Arc<str>, cost: u64) -> Option<Passage> {
    let spec = &limits.specs[spec];
    let terms = match spec.definition.counts {
        Counts::Concurrency(bound) => Terms::Concurrency(bound),
        Counts::ByteBudget(bound) => Terms::ByteBudget(bound),
        Counts::Throttled(_) | Counts::Window | Counts::Breaker(_) => return None,
        Counts::Rate { rate, algorithm, burst, .. } => match algorithm {
            Algorithm::TokenBucket => Terms::TokenBucket { rate, burst: burst.unwrap_or(rate.units()) },
            Algorithm::SlidingWindow => Terms::SlidingWindow { rate, burst },
            Algorithm::FixedWindow => Terms::FixedWindow { rate },
        },
    };
    let (withheld, most) = (spec.withheld, spec.most());
    Some(Passage { limit, terms, dimension: spec.definition.dimension(), cost, withheld, most })
}
