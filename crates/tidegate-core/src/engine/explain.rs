//! What a call meets on its way: the limits it must pass, how they stand, and who is first in line there.
//! For those who watch the engine; nothing here changes what it decides.

use std::sync::Arc;

use super::layout::Use;
use super::{Engine, Ticket};
use crate::algorithm::Meter;
use crate::limit::Counts;
use crate::model::call::Call;
use crate::model::dimension::Dimension;
use crate::model::priority::Priority;
use crate::model::rate::{Algorithm, Rate};
use crate::model::refusal::Refusal;
use crate::model::time::Nanos;
use crate::model::{LimitId, RouteId, SpecId};

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

impl Engine {
    /// The limits that a call must pass, in the order in which it passes them, and what it would take.
    ///
    /// # Errors
    /// If the call names what is not there.
    pub fn passages(&mut self, call: &Call, now: Nanos) -> Result<Vec<Passage>, Refusal> {
        let now = self.clock(now);
        let skeleton = self.route_for(call, now)?;
        let mut units = self.routing.skeletons[skeleton].layout.units_of(&call.said.cost);
        let loop_ = self.known_loop(call);
        let class = self.class_of(skeleton, call);
        let route = self.route_of(skeleton, loop_);
        if !self.routing.skeletons[skeleton].observe {
            self.fit_units(&mut units, &route, class, call.said.estimated);
        }
        let mut passages: Vec<Passage> =
            route.iter().filter_map(|&(limit, slot)| self.passage(limit, units[slot as usize])).collect();
        if loop_.is_nil()
            && let Some(name) = &call.said.loop_id
        {
            // It gets its own limits when it first calls.
            let slots = &self.routing.skeletons[skeleton].loop_slots;
            for (&spec, &slot) in self.routing.loop_specs.iter().zip(slots) {
                let name = format!("loop:{name}/{}", self.limits.specs[spec].suffix).into();
                passages.extend(self.passage_by(spec, name, units[slot as usize]));
            }
        }
        Ok(passages)
    }

    /// The priority that a call has, its own or its loop type's.
    ///
    /// # Errors
    /// If the call names what is not there.
    pub fn priority_of(&mut self, call: &Call, now: Nanos) -> Result<Priority, Refusal> {
        let skeleton = self.route_for(call, now)?;
        Ok(self.class_of(skeleton, call))
    }

    /// How the limits on a call's way stand, in the order of [`Engine::passages`].
    pub fn stands(&mut self, call: &Call, now: Nanos, into: &mut Vec<Stand>) {
        let now = self.clock(now);
        let Ok(skeleton) = self.route_for(call, now) else { return };
        let loop_ = self.known_loop(call);
        for index in 0..self.routing.skeletons[skeleton].uses.len() {
            let (limit, _) = self.routing.skeletons[skeleton].uses[index];
            if self.is_passage(limit) {
                into.push(self.stand(limit, now));
            }
        }
        if call.said.loop_id.is_some() {
            let mut at = self.routing.loops.all.get(loop_).map_or(LimitId::NIL, |record| record.first);
            for _ in 0..self.routing.loop_specs.len() {
                // A loop that is not there has spent nothing.
                into.push(if at.is_nil() { Stand::default() } else { self.stand(at, now) });
                at = if at.is_nil() { LimitId::NIL } else { self.limits[at].sibling };
            }
        }
    }

    /// Whether every limit on a waiting call's way has room for it; then only those before it hold it back.
    pub fn has_room(&mut self, ticket: Ticket, now: Nanos) -> bool {
        let now = self.clock(now);
        if !self.is_waiting(ticket) {
            return false;
        }
        let run = self.run_of(ticket.index);
        let (lane, units) = (run.lane, run.like.units);
        let route = self.scheduler.lanes[lane].route.clone();
        route.iter().all(|&(limit, slot)| {
            let withheld = self.withheld(limit, lane, now);
            let held = &mut self.limits[limit];
            let cost = units[slot as usize];
            (cost == 0 && !held.meter.is_in_flight()) || held.fits(cost, withheld, now)
        })
    }

    /// Who is first in line at the limits on a call's way where somebody waits.
    pub fn first_in_line(&mut self, call: &Call, now: Nanos, into: &mut Vec<FirstInLine>) {
        let now = self.clock(now);
        let Ok(skeleton) = self.route_for(call, now) else { return };
        let route: Vec<Use> = self.route_of(skeleton, self.known_loop(call));
        let passages = route.into_iter().filter(|(limit, _)| self.is_passage(*limit)).collect::<Vec<_>>();
        for (place, (limit, _)) in passages.into_iter().enumerate() {
            let Some(lane) = self.first(limit, now) else { continue };
            let Some(index) = self.head(lane) else { continue };
            let ticket = Ticket { index, generation: self.scheduler.waiters[index].generation };
            let in_flight = self.limits[limit].meter.is_in_flight();
            let booked = if in_flight { Nanos::NEVER } else { self.booking(lane, now) };
            into.push(FirstInLine { place, ticket, booked });
        }
    }

    fn class_of(&self, skeleton: RouteId, call: &Call) -> Priority {
        call.said.priority.unwrap_or(self.routing.skeletons[skeleton].priority)
    }

    fn stand(&mut self, limit: LimitId, now: Nanos) -> Stand {
        let meter = &mut self.limits[limit].meter;
        let used = meter.used(now);
        let window = match meter {
            Meter::Fixed(window) => Some(window.bounds()),
            _ => None,
        };
        Stand { used, window }
    }

    /// Whether a limit is always on the way of its calls; windows and what holds throttled calls come and go.
    fn is_passage(&self, limit: LimitId) -> bool {
        let held = &self.limits[limit];
        let throttles = matches!(self.limits.specs[held.spec].definition.counts, Counts::Throttled(_));
        held.meter.counts() && !throttles
    }

    fn passage(&self, limit: LimitId, cost: u64) -> Option<Passage> {
        self.passage_by(self.limits[limit].spec, self.limit_name(limit), cost)
    }

    fn passage_by(&self, spec: SpecId, limit: Arc<str>, cost: u64) -> Option<Passage> {
        let spec = &self.limits.specs[spec];
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
}
