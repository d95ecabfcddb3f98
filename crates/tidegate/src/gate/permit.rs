//! Permission to make one call.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::engine::{Departure, Ended};
use tidegate_core::retry::Failure;
use tidegate_core::whole_nanos;
use tidegate_core::{Call, Cost, Grant, Nanos};

use super::shared::Shared;
use crate::outcome::Outcome;
use crate::refused::Refused;

/// Permission to make one call. It is given back exactly once, whatever happens:
/// [`finish`](Permit::finish) says what the call cost, [`cancel`](Permit::cancel) says that it was never
/// made, and dropping it (a panic, an error, a cancelled task) frees its slot and keeps its cost.
#[must_use = "the call may be made while the permit lives"]
pub struct Permit {
    /// Absent once it was given back.
    grant: Option<Grant>,
    /// In nanoseconds.
    waited: u64,
    /// The model that the call asks for, for the window of a 429; not always known.
    model: Option<Arc<str>>,
    gate: Arc<Shared>,
}

impl Permit {
    pub(crate) fn new(grant: Grant, waited: Duration, model: Option<Arc<str>>, gate: Arc<Shared>) -> Permit {
        Permit { grant: Some(grant), waited: whole_nanos(waited), model, gate }
    }

    /// Admits a call now or refuses it.
    pub(super) fn try_acquire(gate: &Arc<Shared>, call: &Call) -> Result<Permit, Refused> {
        gate.try_fast(call, |grant, model| Permit::new(grant, Duration::ZERO, model, gate.clone()))
    }

    /// Admits a call of a simple gate. Apart from `try_acquire`, which is shorter without the price.
    #[inline(never)]
    pub(super) fn try_acquire_priced(gate: &Arc<Shared>, call: &Call) -> Result<Permit, Refused> {
        Permit::try_acquire(gate, &gate.priced(call.clone()))
    }

    /// How long the call waited for it.
    #[must_use]
    pub fn waited(&self) -> Duration {
        Duration::from_nanos(self.waited)
    }

    /// When it was given, by the [gate's clock](crate::Gate::now).
    #[must_use]
    pub fn granted_at(&self) -> Nanos {
        self.grant.as_ref().map_or(Nanos::ZERO, Grant::granted_at)
    }

    pub(crate) fn departure(&self) -> Option<Departure> {
        self.grant.as_ref().map(Grant::departure)
    }

    /// The limit that held the call longest, if it waited.
    #[must_use]
    pub fn held_by(&self) -> Option<Arc<str>> {
        self.grant.as_ref().and_then(|grant| self.gate.with(|engine, _| engine.held_by(grant)))
    }

    /// The call ended so. What it cost less than was reserved returns to where it came from, unless the
    /// service keeps it; what it cost more is debt.
    pub fn finish(self, outcome: Outcome) {
        let (ended, _) = self.read(outcome);
        self.end(&ended);
    }

    /// What an outcome comes to: for the gate, and for trying again.
    pub(crate) fn read(&self, outcome: Outcome) -> (Ended, Failure) {
        self.gate.read(self.grant.as_ref(), outcome.asked_for(self.model.as_ref()))
    }

    /// The call ended so.
    pub(crate) fn end(mut self, ended: &Ended) {
        if let Some(grant) = self.grant.take() {
            self.gate.end(grant, ended);
        }
    }

    /// The upstream has begun to answer, and the rest may take long, as a stream does: a circuit breaker need not wait
    /// for it, and how long the call took is told by this. The permit is still to be finished.
    pub fn answered(&self) {
        if let Some(grant) = &self.grant {
            self.gate.with(|engine, now| engine.answered(grant, now));
        }
    }

    /// The head of a reply is there, and the rest may take long, as a stream does: what it tells of the upstream's limits
    /// counts from now on. The permit is still to be finished.
    pub fn hear(&self, outcome: Outcome) {
        if let Some(grant) = &self.grant {
            self.gate.hear(grant, outcome);
        }
    }

    /// The call goes on and has cost this much so far, as a stream that counts along says. What is above the reservation
    /// is owed from now on, and not only when the call ends, so that nobody goes meanwhile on units that are gone. The
    /// permit is still to be finished, with what the call cost in all.
    ///
    /// ```
    /// use tidegate::{Call, Config, Cost, Dimension, Gate, Outcome};
    ///
    /// let config = Config::parse("[services.api]\ntokens = { limit = \"1000/min\", algorithm = \"token-bucket\" }")?;
    /// let gate = Gate::builder().config(config).build()?;
    /// let permit = gate.try_acquire(&Call::to("api").tokens(100))?;
    /// permit.spent(&Cost::nothing().with(Dimension::Tokens, 700));
    /// assert!(gate.try_acquire(&Call::to("api").tokens(400)).is_err(), "700 are gone");
    /// permit.finish(Outcome::done().tokens(800));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn spent(&self, so_far: &Cost) {
        if let Some(grant) = &self.grant {
            self.gate.with(|engine, now| engine.spent(grant, so_far, now));
        }
    }

    /// The call was never made: everything it reserved comes back.
    pub fn cancel(mut self) {
        if let Some(grant) = self.grant.take() {
            self.gate.cancel(grant);
        }
    }
}

impl Drop for Permit {
    #[inline]
    fn drop(&mut self) {
        if let Some(grant) = self.grant.take() {
            self.gate.release(grant);
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("grant", &self.grant).field("waited", &self.waited()).finish()
    }
}
