//! The life of a call behind the gate: it waits in its slot, starts, tells of itself, and ends. Also what the rest of the
//! crate asks of the engine. All of it goes through the verbs of `shared`.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use tidegate_core::engine::{Arrived, ChangeError, Ended, LimitStatus, Place};
use tidegate_core::reply::UnixMillis;
use tidegate_core::retry::Failure;
use tidegate_core::{Call, Grant, Nanos, Verdict};

use super::inner::timeout_of;
use super::shared::{Shared, wake};
use super::timer::{Timed, Timer};
use crate::config::Config;
use crate::outcome::Outcome;
use crate::rules::Rules;
use crate::simple::priced;

/// Waiting.
impl Shared {
    /// Takes the decision about a waiting call, if there is one. Otherwise `waker` will be woken.
    pub fn poll_slot(&self, slot: u32, waker: &Waker) -> Option<Verdict> {
        let verdict = self.slots.poll(slot, waker).ok()?;
        self.hand_off.free_slot(slot);
        Some(verdict)
    }

    /// Withdraws a waiting call. A grant that is already in its slot is cancelled: the call never left.
    pub fn abandon(&self, slot: u32) {
        let unused = self.locked(self.inner.lock(), |inner, now, wakers| {
            let unused = match self.slots.leave(slot) {
                Ok(Verdict::Granted(grant)) => {
                    inner.engine.cancel(grant, now);
                    None
                }
                Ok(Verdict::Refused(_)) => None,
                Err(waker) => {
                    if let Some(ticket) = inner.slot_index.ticket_of(slot) {
                        inner.engine.withdraw(ticket, now);
                    }
                    waker
                }
            };
            self.publish(inner, wakers);
            unused
        });
        self.hand_off.free_slot(slot);
        drop(unused);
    }

    /// Returns where a waiting call stands in the queue.
    pub fn place(&self, slot: u32) -> Option<Place> {
        self.locked(self.inner.lock(), |inner, now, wakers| {
            let ticket = inner.slot_index.ticket_of(slot);
            let place = ticket.and_then(|ticket| inner.engine.place(ticket, now));
            self.publish_if_any(inner, wakers);
            place
        })
    }
}

/// Calls.
impl Shared {
    /// Returns the call with the price that this gate gives it.
    pub fn priced(&self, call: Call) -> Call {
        if self.simple { priced(&call).unwrap_or(call) } else { call }
    }

    /// Returns the rank of a call that may be made more than once, and how long it may wait in all.
    pub fn arrive(&self, call: &Call) -> (Arrived, Duration) {
        self.with(|engine, now| (engine.arrived(now), timeout_of(call, engine)))
    }

    /// Returns what an outcome means for the engine, and for trying again.
    pub fn read(&self, grant: Option<&Grant>, outcome: Outcome) -> (Ended, Failure) {
        match outcome.into_known() {
            Ok(known) => known,
            Err(unread) => {
                let inner = self.lock();
                let service = grant.and_then(|grant| inner.engine.service_of(grant)).map(str::to_owned);
                drop(inner);
                let (rules, service) = (self.rules(), service.unwrap_or_default());
                unread.read(&rules.reader(&service), rules.counting(&service), self.unix())
            }
        }
    }

    /// Applies the limits that the head of a reply states, while the call goes on.
    pub fn hear(&self, grant: &Grant, outcome: Outcome) {
        let (ended, _) = self.read(Some(grant), outcome);
        if !ended.told.is_empty() {
            self.with(|engine, now| engine.hear(grant, &ended, now));
        }
    }

    /// Ends a call with its outcome.
    pub fn end(&self, grant: Grant, ended: &Ended) {
        self.with(|engine, now| engine.end_call(grant, ended, now));
    }

    /// Gives everything back that a call reserved: it was never made.
    pub fn cancel(&self, grant: Grant) {
        self.with(|engine, now| engine.cancel(grant, now));
    }

    /// Returns the output that a call is expected to have, from experience; never more than it asks for.
    #[cfg(feature = "wire")]
    pub fn expected_output(&self, call: &Call, asked: &tidegate_core::request::Asked) -> Option<u64> {
        let mut outputs = self.outputs.lock();
        let most = asked.estimate.max_output;
        if let Some(most) = most {
            outputs.asks(call, most);
        }
        outputs.expected(call).map(|expected| most.map_or(expected, |most| expected.min(most)))
    }

    /// Returns what is left of the rate limit on the call's route of which the smallest share is left.
    pub fn tightest(&self, call: &Call) -> Option<u64> {
        self.with(|engine, now| {
            let passages = engine.passages(call, now).ok()?;
            let mut stands = Vec::with_capacity(passages.len());
            engine.stands(call, now, &mut stands);
            let rates = passages.iter().zip(&stands).filter(|(passage, _)| !passage.terms.is_in_flight());
            let left = rates.map(|(passage, stand)| {
                let most = passage.terms.most();
                (most.saturating_sub(stand.used), most)
            });
            let share = |left: u64, most: u64| left as f64 / most as f64;
            let tightest = left.min_by(|one, other| share(one.0, one.1).total_cmp(&share(other.0, other.1)));
            tightest.map(|(left, _)| left)
        })
    }
}

/// The config and the time.
impl Shared {
    /// Puts another config in force.
    pub fn reconfigure(&self, config: &Config) -> Result<(), ChangeError> {
        // Held meanwhile, so that of two configs at once the engine and the rules keep the same one.
        let mut rules = self.rules.write();
        self.with(|engine, now| engine.reconfigure(config, now))?;
        // The config may have calendar limits now.
        self.inner.lock().wall_due = Nanos::ZERO;
        *rules = Arc::new(rules.under(config.clone()));
        Ok(())
    }

    /// Changes the rate of a limit.
    pub fn set_rate(&self, name: &str, rate: &tidegate_core::config::RateLimit) -> Result<(), ChangeError> {
        self.with(|engine, now| engine.set_rate(name, rate, now))?;
        // The limit may follow a calendar now.
        self.inner.lock().wall_due = Nanos::ZERO;
        Ok(())
    }

    /// Returns what the config says about calls that failed.
    pub fn rules(&self) -> Arc<Rules> {
        self.rules.read().clone()
    }

    /// Returns one limit as it stands.
    pub fn limit(&self, name: &str) -> Option<LimitStatus> {
        self.with(|engine, now| engine.limit(name, now))
    }

    /// Returns how many calls wait.
    pub fn waiting(&self) -> usize {
        self.lock().engine.waiting()
    }

    /// Does what is due.
    pub fn advance(&self) {
        self.with(|engine, now| engine.advance(now));
    }

    /// Converts an engine time to one that tokio's timers take.
    pub fn instant(&self, at: Nanos) -> tokio::time::Instant {
        self.clock.instant(at)
    }

    /// Returns the wall clock's time, for what replies say about time.
    fn unix(&self) -> UnixMillis {
        UnixMillis(i64::try_from(self.clock.wall().as_millis()).unwrap_or(i64::MAX))
    }
}

impl Timed for Shared {
    fn timer(&self) -> &Arc<Timer> {
        &self.timer
    }

    fn advance(&self) {
        Shared::advance(self);
    }

    fn now(&self) -> Nanos {
        Shared::now(self)
    }

    fn instant(&self, at: Nanos) -> tokio::time::Instant {
        Shared::instant(self, at)
    }

    fn waiting(&self) -> usize {
        Shared::waiting(self)
    }

    fn wake_waiters(&self) {
        wake(self.hand_off.slots().filter_map(|slot| self.slots.waker(slot)).collect());
    }
}
