//! What a service does after a failed call: `retry`, `breaker` and `backoff`.

use super::keys::{BACKOFF, BREAKER, RETRY};
use super::walk::{Field, Walk};
use crate::config::{BackoffConfig, BreakerConfig, BreakerScope, JitterKind, Queued, RetryConfig};
use crate::model::growth::Growth;

impl Walk<'_> {
    pub fn retry(&mut self, section: &Field<'_>, retry: &mut RetryConfig) {
        for field in self.table(section) {
            match field.name {
                "max_retries" => retry.max_retries = self.count_u32(&field),
                "backoff" => retry.backoff = self.choice(&field, &Growth::NAMES),
                "initial" => retry.initial = self.duration(&field),
                "max" => retry.max = self.duration(&field),
                "jitter" => retry.jitter = self.number(&field),
                "jitter_kind" => {
                    let names = [
                        ("symmetric", JitterKind::Symmetric),
                        ("factor", JitterKind::Factor),
                        ("additive", JitterKind::Additive),
                        ("full", JitterKind::Full),
                    ];
                    retry.jitter_kind = self.choice(&field, &names);
                }
                "max_elapsed" => retry.max_elapsed = self.duration(&field),
                "budget" => retry.budget = self.number(&field),
                _ => self.unknown_key(&field, &section.path, RETRY, None),
            }
        }
    }

    pub fn breaker(&mut self, section: &Field<'_>, breaker: &mut BreakerConfig) {
        for field in self.table(section) {
            match field.name {
                "failures" => breaker.failures = self.count_u32(&field).unwrap_or(breaker.failures),
                "failure_rate" => breaker.failure_rate = self.number(&field),
                "slow_rate" => breaker.slow_rate = self.number(&field),
                "slow_after" => breaker.slow_after = self.duration(&field),
                "window" => breaker.window = self.duration(&field).unwrap_or(breaker.window),
                "min_calls" => breaker.min_calls = self.count_u32(&field).unwrap_or(breaker.min_calls),
                "open_for" => breaker.open_for = self.duration(&field).unwrap_or(breaker.open_for),
                "max_open" => breaker.max_open = self.duration(&field),
                "probes" => breaker.probes = self.count_u32(&field).unwrap_or(breaker.probes),
                "count_rate_limits" => {
                    breaker.count_rate_limits = self.flag(&field).unwrap_or(breaker.count_rate_limits);
                }
                "per" => {
                    let names = [("service", BreakerScope::Service), ("endpoint", BreakerScope::Endpoint)];
                    breaker.per = self.choice(&field, &names).unwrap_or(breaker.per);
                }
                "queued" => {
                    let names = [("wait", Queued::Wait), ("fail", Queued::Fail)];
                    breaker.queued = self.choice(&field, &names).unwrap_or(breaker.queued);
                }
                _ => self.unknown_key(&field, &section.path, BREAKER, None),
            }
        }
    }

    pub fn backoff(&mut self, section: &Field<'_>, backoff: &mut BackoffConfig) {
        for field in self.table(section) {
            match field.name {
                "window" => backoff.window = self.duration(&field).unwrap_or(backoff.window),
                "byte_penalty_multiplier" => {
                    let stated = self.count_up_to(&field, u16::MAX);
                    backoff.byte_penalty_multiplier = stated.unwrap_or(backoff.byte_penalty_multiplier);
                }
                "max_wait" => backoff.max_wait = self.duration(&field),
                _ => self.unknown_key(&field, &section.path, BACKOFF, None),
            }
        }
    }
}
