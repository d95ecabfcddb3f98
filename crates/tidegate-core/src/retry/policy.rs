//! The rules by which a call is tried again, known to make sense.

use std::time::Duration;

use super::backoff::Backoff;
use super::budget::Budget;
use super::jitter::Jitter;
use crate::config::{JitterKind, RetryConfig};
use crate::model::growth::Growth;
use crate::model::invalid::InvalidPolicy;

/// When and how often a failed call is tried again.
///
/// By default five times, after one second doubling to a minute, ±10 %, within a budget of 20 % of all calls
/// and ten retries a second.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::retry::RetryPolicy;
///
/// let policy = RetryPolicy::builder().max_retries(3).initial(Duration::from_millis(200)).build()?;
/// assert_eq!(policy.max_retries(), Some(3));
/// let wrong = RetryPolicy::builder().initial(Duration::ZERO).build().unwrap_err();
/// assert_eq!(wrong.field, "initial");
/// # Ok::<(), tidegate_core::retry::InvalidPolicy>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RetryPolicy {
    pub(super) max_retries: Option<u32>,
    pub(super) refusals_count: bool,
    pub(super) backoff: Backoff,
    pub(super) max_elapsed: Option<Duration>,
    budget: (f64, u32),
}

/// Makes a [`RetryPolicy`], which is checked in the end.
#[derive(Clone, Debug)]
#[must_use = "nothing happens until it is built"]
pub struct RetryPolicyBuilder(RetryPolicy);

impl RetryPolicy {
    /// The default rules, to be changed one by one.
    pub fn builder() -> RetryPolicyBuilder {
        RetryPolicyBuilder(RetryPolicy::default())
    }

    /// The rules that a config gives: what it does not say is as it is by default. A default bends to what is
    /// written: a longest delay of half a second is also the first one.
    ///
    /// # Errors
    /// If a rule makes no sense; a config that was read from a file is known to.
    pub fn from_config(config: &RetryConfig) -> Result<RetryPolicy, InvalidPolicy> {
        let default = Backoff::default();
        let max = config.max.unwrap_or(default.max.max(config.initial.unwrap_or_default()));
        let share = config.jitter.unwrap_or(0.1);
        let jitter = match config.jitter_kind.unwrap_or_default() {
            JitterKind::Symmetric => Jitter::Symmetric(share),
            JitterKind::Factor => Jitter::Factor(share),
            JitterKind::Additive => Jitter::Additive(share),
            JitterKind::Full => Jitter::Full,
        };
        let mut policy = RetryPolicy::builder()
            .growth(config.backoff.unwrap_or_default())
            .initial(config.initial.unwrap_or(default.initial.min(max)))
            .max(max)
            .jitter(jitter)
            .budget(config.budget.unwrap_or(Budget::SHARE), Budget::PER_SECOND);
        policy.0.max_retries = config.max_retries.or(policy.0.max_retries);
        policy.0.max_elapsed = config.max_elapsed;
        policy.build()
    }

    /// How often a call is tried again; `None` as long as there is time.
    #[must_use]
    pub fn max_retries(&self) -> Option<u32> {
        self.max_retries
    }

    /// The same, with other words on whether attempts that were refused count among the retries.
    #[must_use]
    pub fn refusals_count(mut self, count: bool) -> RetryPolicy {
        self.refusals_count = count;
        self
    }

    /// The delays between attempts.
    #[must_use]
    pub fn backoff(&self) -> &Backoff {
        &self.backoff
    }

    /// How long after its start a call may still be tried again.
    #[must_use]
    pub fn max_elapsed(&self) -> Option<Duration> {
        self.max_elapsed
    }

    /// A fresh budget of this policy, to be shared by all calls that it is for.
    #[must_use]
    pub fn new_budget(&self) -> Budget {
        Budget::new(self.budget.0, self.budget.1)
    }
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy {
            max_retries: Some(5),
            refusals_count: true,
            backoff: Backoff::default(),
            max_elapsed: None,
            budget: (Budget::SHARE, Budget::PER_SECOND),
        }
    }
}

impl RetryPolicyBuilder {
    /// How often a call is tried again: 0 runs it once.
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.0.max_retries = Some(retries);
        self
    }

    /// Only time bounds how often a call is tried again.
    pub fn as_long_as_there_is_time(mut self) -> Self {
        self.0.max_retries = None;
        self
    }

    /// Whether attempts that were refused for being too much count among the retries. By default they do;
    /// where every call has a timeout it is better that they do not, since they did not fail.
    pub fn refusals_count(mut self, count: bool) -> Self {
        self.0.refusals_count = count;
        self
    }

    /// How delays grow.
    pub fn growth(mut self, growth: Growth) -> Self {
        self.0.backoff.growth = growth;
        self
    }

    /// The first delay.
    pub fn initial(mut self, delay: Duration) -> Self {
        self.0.backoff.initial = delay;
        self
    }

    /// The longest delay of our own; the upstream may ask for more.
    pub fn max(mut self, delay: Duration) -> Self {
        self.0.backoff.max = delay;
        self
    }

    /// How delays are spread.
    pub fn jitter(mut self, jitter: Jitter) -> Self {
        self.0.backoff.jitter = jitter;
        self
    }

    /// How long after its start a call may still be tried again.
    pub fn max_elapsed(mut self, span: Duration) -> Self {
        self.0.max_elapsed = Some(span);
        self
    }

    /// How many retries there may be over all calls: a share of them, and some every second besides.
    pub fn budget(mut self, share: f64, per_second: u32) -> Self {
        self.0.budget = (share, per_second);
        self
    }

    /// The policy.
    ///
    /// # Errors
    /// If a field is out of range or contradicts another: it is named.
    pub fn build(self) -> Result<RetryPolicy, InvalidPolicy> {
        let RetryPolicy { backoff, budget: (share, _), max_elapsed, .. } = &self.0;
        let Backoff { initial, max, jitter, .. } = *backoff;
        let wrong = |field, problem: String| Err(InvalidPolicy::new(field, problem));
        if initial.is_zero() {
            return wrong("initial", "a first delay of 0 never grows: use at least 1ms".into());
        }
        if initial > max {
            let problem = format!("the first delay, {initial:?}, is above the longest, {max:?}");
            return wrong("initial", problem);
        }
        if let Some(problem) = jitter.problem() {
            return wrong("jitter", format!("{jitter:?} cannot be: {problem}"));
        }
        if !(share.is_finite() && *share >= 0.0) {
            return wrong("budget", format!("{share} is not a share of the calls: write 20 % as 0.2"));
        }
        if max_elapsed.is_some_and(|span| span.is_zero()) {
            return wrong("max_elapsed", "no time at all allows no retry: use max_retries = 0".into());
        }
        Ok(self.0)
    }
}
