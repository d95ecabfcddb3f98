//! What a service does after a failed call: `retry`, `breaker` and `backoff`.

use super::Check;
use crate::config::path::join;
use crate::config::{BackoffConfig, BreakerConfig, JitterKind, RetryConfig};
use crate::model::growth::Growth;

const TIME: &str = "use a time such as \"30s\"";

impl Check {
    pub(super) fn retry(&mut self, path: &str, retry: &RetryConfig) {
        if retry.initial.is_some_and(|delay| delay.is_zero()) {
            self.report(&join(path, "initial"), "a first delay of 0 never grows", TIME);
        }
        if let (Some(initial), Some(max)) = (retry.initial, retry.max)
            && initial > max
        {
            let message = format!("the first delay, {initial:?}, is above the longest, {max:?}");
            self.report(&join(path, "initial"), message, "lower `initial` or raise `max`");
        } else if retry.max.is_some_and(|delay| delay.is_zero()) {
            self.report(&join(path, "max"), "a longest delay of 0 retries without a pause", TIME);
        }
        if let Some(jitter) = retry.jitter {
            self.share(&join(path, "jitter"), jitter);
            if retry.jitter_kind == Some(JitterKind::Full) {
                let hint = "remove `jitter`, or use another `jitter_kind`";
                self.report(&join(path, "jitter"), "full jitter has no share", hint);
            }
        }
        if retry.backoff == Some(Growth::Decorrelated) {
            let written = [("jitter", retry.jitter.is_some()), ("jitter_kind", retry.jitter_kind.is_some())];
            for (key, _) in written.into_iter().filter(|(_, is_written)| *is_written) {
                let message = "a decorrelated backoff is a spread of its own";
                self.report(&join(path, key), message, format!("remove `{key}`").as_str());
            }
        }
        if retry.max_elapsed.is_some_and(|span| span.is_zero()) {
            let hint = "write max_retries = 0 for no retry";
            self.report(&join(path, "max_elapsed"), "no time at all allows no retry", hint);
        }
        if let Some(budget) = retry.budget
            && !(budget.is_finite() && budget >= 0.0)
        {
            let message = format!("a budget of {budget} is not a share of the calls");
            self.report(&join(path, "budget"), message, "write 20 % as 0.2");
        }
    }

    pub(super) fn breaker(&mut self, path: &str, breaker: &BreakerConfig) {
        if breaker.failures == 0 {
            let message = "a breaker that opens after 0 failures never closes";
            self.report(&join(path, "failures"), message, "use at least 1");
        }
        for (key, rate) in [("failure_rate", breaker.failure_rate), ("slow_rate", breaker.slow_rate)] {
            if let Some(rate) = rate
                && !(rate > 0.0 && rate <= 1.0)
            {
                let message = format!("a share of {rate} is not above 0 and at most 1");
                self.report(&join(path, key), message, "write 50 % as 0.5");
            }
        }
        match (breaker.slow_rate, breaker.slow_after) {
            (Some(_), None) => {
                let message = "it is not said how long a slow call takes";
                self.report(&join(path, "slow_rate"), message, "add `slow_after`, such as \"30s\"");
            }
            (None, Some(_)) => {
                let message = "it is not said what share of slow calls is too many";
                self.report(&join(path, "slow_after"), message, "add `slow_rate`, such as 0.5");
            }
            _ => {}
        }
        if breaker.slow_after.is_some_and(|span| span.is_zero()) {
            self.report(&join(path, "slow_after"), "with a time of 0 every call is slow", TIME);
        }
        if breaker.window.is_zero() {
            self.report(&join(path, "window"), "in no time at all no calls can be counted", TIME);
        }
        if breaker.min_calls == 0 {
            self.report(&join(path, "min_calls"), "of 0 calls no share can be told", "use at least 1");
        }
        if breaker.open_for.is_zero() {
            let message = "a breaker that stays open for no time holds nothing back";
            self.report(&join(path, "open_for"), message, TIME);
        }
        if let Some(max) = breaker.max_open
            && max < breaker.open_for
        {
            let message = format!("the longest time, {max:?}, is below the first, {:?}", breaker.open_for);
            self.report(&join(path, "max_open"), message, "raise `max_open` or lower `open_for`");
        }
        if breaker.probes == 0 {
            self.report(&join(path, "probes"), "without a probe it never closes", "use at least 1");
        }
    }

    pub(super) fn backoff(&mut self, path: &str, backoff: &BackoffConfig) {
        if backoff.byte_penalty_multiplier == 0 {
            let message = "a multiplier of 0 would make bytes free when they should be dear";
            self.report(&join(path, "byte_penalty_multiplier"), message, "use at least 1");
        }
        if backoff.max_wait.is_some_and(|wait| wait.is_zero()) {
            let message = "with a longest wait of 0 no refusal would hold calls back";
            self.report(&join(path, "max_wait"), message, TIME);
        }
    }
}
