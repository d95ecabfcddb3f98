//! What a service does after a failed call: `retry` and `breaker`.

use super::keys::{BREAKER, RETRY};
use super::walk::{Field, Walk};
use crate::config::{BreakerConfig, JitterKind, RetryConfig};
use crate::retry::Growth;

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
                _ => self.unknown_key(&field, &section.path, BREAKER, None),
            }
        }
    }
}
