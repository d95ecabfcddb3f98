//! What the engine shows of itself.

use std::sync::Arc;

use super::{Engine, Grant, ServiceCounts};
use crate::config::SettleRule;
use crate::model::LimitId;
use crate::model::call::Call;
use crate::model::time::Nanos;

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

impl Engine {
    /// Every limit, instances of loops and keys included.
    pub fn limits(&mut self, now: Nanos) -> Vec<LimitStatus> {
        let now = self.clock(now);
        let live = self.limits.all.live().filter(|limit| self.limits[*limit].meter.counts());
        let live: Vec<LimitId> = live.collect();
        live.into_iter().map(|limit| self.limit_status(limit, now)).collect()
    }

    /// One limit by name.
    pub fn limit(&mut self, name: &str, now: Nanos) -> Option<LimitStatus> {
        let now = self.clock(now);
        self.limit_named(name).map(|limit| self.limit_status(limit, now))
    }

    /// What became of a service's calls.
    #[must_use]
    pub fn counts(&self, service: &str) -> Option<ServiceCounts> {
        let service = *self.routing.service_index.get(service)?;
        let mut counts = self.routing.services[service].counts;
        let own = self.routing.skeletons.iter().filter(|skeleton| skeleton.service == service);
        counts.granted += own.map(|skeleton| skeleton.granted).sum::<u64>();
        Some(counts)
    }

    /// The service that a call in flight went to. Searched for among all: ask only where it is worth that.
    #[must_use]
    pub fn service_of(&self, grant: &Grant) -> Option<&str> {
        let call = &self.in_flight[grant];
        let service = self.routing.skeletons[call.skeleton].service;
        self.routing.service_index.iter().find(|(_, index)| **index == service).map(|(name, _)| &**name)
    }

    /// The model that a call in flight asked for, where the config knows none like it: only then it is of use to
    /// remember it until the call ends.
    #[inline]
    #[must_use]
    pub fn unknown_model(&self, grant: &Grant, call: &Call) -> Option<Arc<str>> {
        if grant.is_of_unknown_model() { call.shared_model() } else { None }
    }

    /// Whether the service keeps what a call reserved above its cost.
    #[must_use]
    pub fn settle_rule(&self, service: &str) -> Option<SettleRule> {
        let held = &self.routing.services[*self.routing.service_index.get(service)?];
        Some(if held.keep { SettleRule::Keep } else { SettleRule::Refund })
    }

    pub(super) fn limit_status(&mut self, limit: LimitId, now: Nanos) -> LimitStatus {
        let waiting = self.waiting_at(limit);
        let (name, reset) = (self.limit_name(limit), self.reset_of(limit, now));
        let spec = &self.limits.specs[self.limits[limit].spec];
        let capacity = spec.definition.whole();
        let used = self.limits[limit].meter.used(now);
        let dropped_debt = self.limits.dropped_debt.get(&limit).copied().unwrap_or(0);
        LimitStatus { name, capacity, used, dropped_debt, reset, waiting }
    }

    /// How many calls wait because of a limit.
    pub(super) fn waiting_at(&self, limit: LimitId) -> usize {
        let mut waiting = 0;
        if let Some(contention) = &self.limits[limit].contention {
            for class in contention.classes.iter().flatten() {
                self.scheduler.order.each(class.root, &mut |(_, _, lane)| {
                    waiting += self.scheduler.lanes[lane].len as usize;
                    true
                });
            }
        }
        waiting
    }
}
