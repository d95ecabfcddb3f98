//! Permission to make one call, and what became of it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Cost, Dimension, Grant};

use crate::gate::Shared;

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
    pub fn finish(mut self, outcome: Outcome) {
        if let Some(grant) = self.grant.take() {
            self.gate.finish(grant, Some(&outcome.cost));
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
            self.gate.finish(grant, None);
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("grant", &self.grant).field("waited", &self.waited).finish()
    }
}

/// How a call ended: what it really cost, where that is known.
///
/// ```
/// use tidegate::Outcome;
/// let outcome = Outcome::done().input_tokens(310).output_tokens(95);
/// ```
#[derive(Clone, Debug)]
pub struct Outcome {
    cost: Cost,
}

impl Outcome {
    /// It ended, and cost what was reserved unless more is said.
    #[must_use]
    pub fn done() -> Outcome {
        Outcome { cost: Cost::nothing() }
    }

    /// Tokens it used in all.
    #[must_use]
    pub fn tokens(self, tokens: u64) -> Outcome {
        self.units(Dimension::Tokens, tokens)
    }

    /// Tokens it sent.
    #[must_use]
    pub fn input_tokens(self, tokens: u64) -> Outcome {
        self.units(Dimension::InputTokens, tokens)
    }

    /// Tokens it got.
    #[must_use]
    pub fn output_tokens(self, tokens: u64) -> Outcome {
        self.units(Dimension::OutputTokens, tokens)
    }

    /// Dollars it cost. A negative or not finite number says nothing.
    #[must_use]
    pub fn usd(mut self, dollars: f64) -> Outcome {
        if dollars.is_finite() && dollars >= 0.0 {
            self.cost.set_usd(dollars);
        }
        self
    }

    /// Units of any dimension.
    #[must_use]
    pub fn units(mut self, dimension: Dimension, units: u64) -> Outcome {
        self.cost.set(dimension, units);
        self
    }
}
