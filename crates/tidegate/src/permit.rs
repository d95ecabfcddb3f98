//! Permission to make one call.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Grant;
use tidegate_core::retry::{Failure, FailureKind};

use crate::gate::Shared;
use crate::outcome::Outcome;

/// Permission to make one call. It is given back exactly once, whatever happens:
/// [`finish`](Permit::finish) says what the call cost, [`cancel`](Permit::cancel) says that it was never
/// made, and dropping it (a panic, an error, a cancelled task) frees its slot and keeps its cost.
#[must_use = "the call may be made while the permit lives"]
pub struct Permit {
    /// Gone once it was given back.
    grant: Option<Grant>,
    waited: Duration,
    gate: Arc<Shared>,
}

impl Permit {
    pub(crate) fn new(grant: Grant, waited: Duration, gate: Arc<Shared>) -> Permit {
        Permit { grant: Some(grant), waited, gate }
    }

    /// How long the call waited for it.
    #[must_use]
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// The call ended so. What it cost less than was reserved returns to where it came from, unless the
    /// service keeps it; what it cost more is debt.
    pub fn finish(self, outcome: Outcome) {
        self.conclude(outcome);
    }

    /// The same, and what the outcome means for trying again.
    pub(crate) fn conclude(mut self, outcome: Outcome) -> Failure {
        match self.grant.take() {
            Some(grant) => self.gate.conclude(grant, outcome),
            // Whoever takes the grant takes the permit too, so it is always there.
            None => Failure::of_kind(FailureKind::Final),
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
        f.debug_struct("Permit").field("grant", &self.grant).field("waited", &self.waited).finish()
    }
}
