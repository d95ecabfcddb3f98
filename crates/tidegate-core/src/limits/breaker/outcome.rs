//! What the end of a call says about the upstream's health.

use super::BreakerPolicy;
use crate::reply::{Reading, Verdict};

/// What the end of a call says about the upstream's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is well: it answered, be it that the call was wrong.
    Success,
    /// It is not: an error of its own, or no answer.
    Failure,
    /// Nothing: the call was cancelled, or held back by a limit.
    Ignored,
}

impl BreakerPolicy {
    /// What a reply says. A call that was rate limited says nothing, unless the policy counts it as failed.
    ///
    /// ```
    /// use tidegate_core::limits::breaker::{BreakerPolicy, Outcome};
    /// use tidegate_core::reply::{Reader, UnixMillis};
    ///
    /// let policy = BreakerPolicy::default();
    /// let outcome = |status| {
    ///     policy.outcome_of_reply(status, &Reader::default().read(status, [], b"", UnixMillis(0)))
    /// };
    /// assert_eq!(outcome(200), Outcome::Success);
    /// assert_eq!(outcome(404), Outcome::Success);
    /// assert_eq!(outcome(429), Outcome::Ignored);
    /// assert_eq!(outcome(502), Outcome::Failure);
    /// ```
    #[must_use]
    pub fn outcome_of_reply(&self, status: u16, reading: &Reading) -> Outcome {
        let limited =
            matches!(status, 420 | 429) || !matches!(reading.verdict, Verdict::Ok | Verdict::Overloaded);
        match status {
            _ if limited => self.outcome_of_refusal(),
            500.. => Outcome::Failure,
            _ if reading.verdict == Verdict::Overloaded => Outcome::Failure,
            _ => Outcome::Success,
        }
    }

    /// What a call says that was turned away by a limit: nothing, unless the policy counts it as failed.
    #[must_use]
    pub fn outcome_of_refusal(&self) -> Outcome {
        if self.count_rate_limits { Outcome::Failure } else { Outcome::Ignored }
    }
}
