//! Whether a failed call is tried again, and after how long.

use std::time::Duration;

use super::budget::Budget;
use super::failure::{Failure, FailureKind};
use super::policy::RetryPolicy;
use crate::model::time::Nanos;

/// The shortest time after which an upstream is asked again, whatever its hint says. It doubles with each retry of a
/// call: an upstream that hints 0 for ever is not hammered.
pub const HINT_FLOOR: Duration = Duration::from_millis(50);

/// What a call has been through so far. Every call has its own.
///
/// ```
/// use tidegate_core::retry::Tries;
///
/// let tries = Tries::of(true);
/// assert_eq!(tries.retries, 0);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tries {
    /// Whether the call may be made again though it may have been done already.
    pub repeatable: bool,
    /// How often it has been tried again.
    pub retries: u32,
    /// Those of `retries` that followed a refusal.
    pub after_refusals: u32,
    /// The delay before the latest attempt.
    pub last_delay: Option<Duration>,
    /// The time since it was first made.
    pub elapsed: Duration,
    /// How much longer it may wait, by its timeout or its deadline.
    pub wait_left: Duration,
}

impl Tries {
    /// A call before its first attempt, with all the time there is.
    #[must_use]
    pub fn of(repeatable: bool) -> Tries {
        Tries {
            repeatable,
            retries: 0,
            after_refusals: 0,
            last_delay: None,
            elapsed: Duration::ZERO,
            wait_left: Duration::MAX,
        }
    }

    /// Notes that it is tried again after such a failure and such a delay. The times are for the caller to
    /// update, who has the clock.
    pub fn again(&mut self, failure: &Failure, delay: Duration) {
        self.retries = self.retries.saturating_add(1);
        if failure.kind == FailureKind::Refused {
            self.after_refusals = self.after_refusals.saturating_add(1);
        }
        self.last_delay = Some(delay);
    }
}

/// What to do after a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Try again.
    Retry {
        /// After so long.
        after: Duration,
        /// Who says so.
        by: DelayBy,
    },
    /// Do not.
    GiveUp(GiveUp),
}

/// Who says how long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelayBy {
    /// The upstream.
    Upstream,
    /// Our own backoff.
    Backoff,
}

/// Why a call is not tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GiveUp {
    /// Another attempt would end the same way.
    Final,
    /// It may have been done, and doing it twice could do harm.
    NotRepeatable,
    /// It has been tried often enough.
    RetriesSpent,
    /// There is no time left.
    TimeSpent,
    /// The upstream does not want to hear from it for longer than it may wait.
    TooFar {
        /// When to come back.
        come_back: Duration,
    },
    /// Too many calls are being tried again already.
    BudgetSpent,
}

impl RetryPolicy {
    /// Decides about a call that failed. One retry is taken from the budget only if that is the answer and it
    /// is to be paid for.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate_core::Nanos;
    /// use tidegate_core::retry::{Decision, DelayBy, Failure, FailureKind, RetryPolicy, Tries};
    ///
    /// let policy = RetryPolicy::default();
    /// let mut budget = policy.new_budget();
    /// let failure = Failure::of_kind(FailureKind::Refused).come_back(Duration::from_secs(20));
    /// assert_eq!(
    ///     policy.decide(&failure, &Tries::of(false), &mut budget, 0, Nanos::ZERO),
    ///     Decision::Retry { after: Duration::from_secs(20), by: DelayBy::Upstream },
    /// );
    /// ```
    #[must_use]
    pub fn decide(
        &self,
        failure: &Failure,
        tries: &Tries,
        budget: &mut Budget,
        draw: u64,
        now: Nanos,
    ) -> Decision {
        let decided = self.may_retry(failure, tries).and_then(|()| self.delay(failure, tries, draw));
        match decided {
            Err(reason) => Decision::GiveUp(reason),
            Ok(_) if failure.kind != FailureKind::Refused && !budget.retry(now) => {
                Decision::GiveUp(GiveUp::BudgetSpent)
            }
            Ok((after, by)) => Decision::Retry { after, by },
        }
    }

    fn may_retry(&self, failure: &Failure, tries: &Tries) -> Result<(), GiveUp> {
        match failure.kind {
            FailureKind::Final => return Err(GiveUp::Final),
            FailureKind::Unsure if !tries.repeatable => return Err(GiveUp::NotRepeatable),
            FailureKind::Unsure | FailureKind::Refused | FailureKind::Unreached => {}
        }
        let free = !self.refusals_count && failure.kind == FailureKind::Refused;
        let counted = if self.refusals_count { 0 } else { tries.after_refusals };
        let spent = self.max_retries.is_some_and(|max| tries.retries.saturating_sub(counted) >= max);
        if spent && !free { Err(GiveUp::RetriesSpent) } else { Ok(()) }
    }

    /// What the upstream asks for, or else our own backoff, within the time that is left.
    fn delay(&self, failure: &Failure, tries: &Tries, draw: u64) -> Result<(Duration, DelayBy), GiveUp> {
        let before_end = self.max_elapsed.map_or(Duration::MAX, |most| most.saturating_sub(tries.elapsed));
        let left = before_end.min(tries.wait_left);
        if let Some(hint) = failure.hint {
            let hint = hint.max(HINT_FLOOR);
            if hint > left {
                // Coming back sooner would be inside the upstream's own window.
                return Err(GiveUp::TooFar { come_back: hint });
            }
            let backoff = self.backoff();
            let floor = (HINT_FLOOR * (1 << tries.retries.min(16))).min(backoff.max);
            let hint = hint.max(floor.min(left));
            return Ok((backoff.jitter.upwards(hint, backoff.max, draw).min(left), DelayBy::Upstream));
        }
        if left.is_zero() {
            return Err(GiveUp::TimeSpent);
        }
        let own = self.backoff().delay(tries.retries, tries.last_delay, draw);
        Ok((own.min(left), DelayBy::Backoff))
    }
}
