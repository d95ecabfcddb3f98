//! Bounds on what one reply or report can do, and the operator's way to forgive what it did.
//!
//! A reply is believed about its own call, but not without bound: an upstream may err, and a caller of the permit API
//! may report anything. So
//!
//! * a wait that a reply or a report asks for lasts at most as long as the service's longest window explains, or as the
//!   config's `backoff.max_wait` says;
//! * the debt of a limit is at most [`MOST_DEBT`](crate::algorithm::MOST_DEBT) times N. What is above that is dropped,
//!   counted by limit, and announced.
//!
//! An operator is not bounded: [`Engine::set_backoff`] opens a window for any time.

use std::time::Duration;

use super::change::ChangeError;
use super::lesson::Lesson;
use super::news::News;
use super::scope::Scope;
use super::status::LimitStatus;
use super::{Engine, InFlightCall};
use crate::model::time::Nanos;
use crate::model::{LimitId, ServiceId};

/// The longest wait that a reply can ask for, if no longer window of its service is known.
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);
/// A window may end this part later than its length says: clocks differ, and a day may have 25 hours.
const LATE_PART: u32 = 16;

impl Engine {
    /// Returns `wait`, which the reply to a call asks for, or the longest wait that its service allows.
    pub(super) fn bounded_wait(&mut self, call: &InFlightCall, wait: Duration) -> Duration {
        let service = self.routing.skeletons[call.skeleton].service;
        let longest = self.longest_wait(service);
        if wait <= longest {
            return wait;
        }
        let service = self.key_of(&Scope::Service(service));
        self.announce(News::WaitCut { service, asked: wait, allowed: longest });
        longest
    }

    /// Returns the longest wait that a reply of a service can ask for.
    pub(super) fn longest_wait(&self, service: ServiceId) -> Duration {
        let held = &self.routing.services[service];
        if let Some(stated) = held.backoff.max_wait {
            return stated;
        }
        let patterns = held.endpoints.iter().chain(&held.models).flat_map(|(_, specs)| specs);
        let rates = held.specs.iter().chain(patterns).filter_map(|spec| {
            let rate = self.limits.specs[*spec].written.rate_of()?;
            Some(rate.window() + rate.window() / LATE_PART)
        });
        rates.max().unwrap_or_default().max(LONGEST_WAIT)
    }

    /// Charges what a call cost above its reservation. Returns how many units count; the rest is dropped and announced.
    pub(super) fn charge_debt(&mut self, limit: LimitId, units: u64, now: Nanos) -> u64 {
        let counted = self.limits[limit].meter.charge(units, now);
        self.charge_lent(limit, counted, now);
        if counted < units {
            self.drop_debt(limit, units - counted);
        }
        counted
    }

    #[cold]
    fn drop_debt(&mut self, limit: LimitId, units: u64) {
        let dropped = self.limits.dropped_debt.entry(limit).or_default();
        *dropped = dropped.saturating_add(units);
        let limit = self.limit_name(limit);
        self.announce(News::DebtDropped { limit, units });
    }

    /// Forgives everything that was spent and is owed at a limit: it begins unspent, and as it is written. What replies and
    /// refusals taught of its N and of how it counts is forgotten. Calls in flight neither refund to it nor charge it when
    /// they end. Returns the limit as it was.
    ///
    /// Backoff windows stay: [`Engine::clear_backoff`] ends those.
    ///
    /// # Errors
    /// Returns an error if there is no such limit, or if it counts what is in flight: slots come back when calls end.
    pub fn reset_limit(&mut self, name: &str, now: Nanos) -> Result<LimitStatus, ChangeError> {
        let now = self.clock(now);
        self.advance(now);
        let limit = self.limit_named(name).ok_or_else(|| ChangeError::UnknownLimit(name.into()))?;
        if self.limits[limit].meter.is_in_flight() {
            return Err(ChangeError::NothingToReset(name.into()));
        }
        let before = self.limit_status(limit, now);
        // Grants of earlier epochs took from what is forgiven.
        self.limits.epoch += 1;
        let held = &mut self.limits.all[limit];
        held.since = self.limits.epoch;
        held.meter.reset(now);
        self.limits.dropped_debt.remove(&limit);
        self.forget_what_replies_taught(limit, now);
        if let Some(mirror) = self.upstream.school.mirrors.get_mut(&limit) {
            mirror.begin_anew();
        }
        self.announce(News::LimitReset { limit: before.name.clone(), used: before.used });
        self.effects.touch(limit, &self.limits);
        self.limits.note_unsaved(limit);
        self.plan_what_was_learned(now);
        self.pump(now);
        Ok(before)
    }

    /// Brings a limit back to what is written of it, as far as replies and refusals moved it.
    fn forget_what_replies_taught(&mut self, limit: LimitId, now: Nanos) {
        let index = self.limits[limit].spec;
        self.upstream.school.other_windows.remove(&index);
        self.unlearn(limit, index, |_| true, now);
        if self.upstream.school.ceilings.remove(&index).is_some() {
            self.limits.specs[index].learned.share = 1.0;
            self.relearn(index, now);
            let name = self.limit_name(limit);
            self.tell(Lesson::Ceiling { limit: name, share: 1.0 });
        }
    }
}
