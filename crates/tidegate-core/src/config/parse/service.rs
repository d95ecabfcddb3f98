//! One service.

use super::keys::{BREAKER, QUEUE, RETRY, SERVICE};
use super::walk::{Field, Walk};
use crate::config::{BreakerConfig, Headers, Mode, QueueConfig, RetryConfig, ServiceConfig, SettleRule};

impl Walk<'_> {
    pub fn service(&mut self, section: &Field<'_>) -> ServiceConfig {
        let mut service = ServiceConfig::default();
        let fields = self.table(section);
        service.limits = self.level(&section.path, &fields, SERVICE);
        for field in &fields {
            match field.name {
                "preset" => service.preset = self.string(field),
                "upstream" => service.upstream = self.string(field),
                "api_key_env" => service.api_key_env = self.string(field),
                "per_key" => service.per_key = self.flag(field).unwrap_or_default(),
                "mode" => {
                    let names = [("enforce", Mode::Enforce), ("observe", Mode::Observe)];
                    service.mode = self.choice(field, &names).unwrap_or_default();
                }
                "headers" => {
                    let names = [
                        ("follow", Headers::Follow),
                        ("authoritative", Headers::Authoritative),
                        ("ignore", Headers::Ignore),
                    ];
                    service.headers = self.choice(field, &names).unwrap_or_default();
                }
                "settle" => {
                    let names = [("refund", SettleRule::Refund), ("keep", SettleRule::Keep)];
                    service.settle = self.choice(field, &names).unwrap_or_default();
                }
                "endpoints" => {
                    for field in self.table(field) {
                        service.endpoints.insert(field.name.to_owned(), self.plain_level(&field));
                    }
                }
                "models" => {
                    for field in self.table(field) {
                        service.models.insert(field.name.to_owned(), self.plain_level(&field));
                    }
                }
                "retry" => service.retry = self.retry(field),
                "breaker" => service.breaker = Some(self.breaker(field)),
                "queue" => service.queue = self.queue(field),
                // All others are the level's, known or not.
                _ => {}
            }
        }
        service
    }

    fn retry(&mut self, section: &Field<'_>) -> RetryConfig {
        let mut retry = RetryConfig::default();
        for field in self.table(section) {
            match field.name {
                "max_retries" => retry.max_retries = self.count_u32(&field),
                "initial" => retry.initial = self.duration(&field),
                "max" => retry.max = self.duration(&field),
                "jitter" => retry.jitter = self.number(&field),
                "budget" => retry.budget = self.number(&field),
                _ => self.unknown_key(&field, &section.path, RETRY, None),
            }
        }
        retry
    }

    fn breaker(&mut self, section: &Field<'_>) -> BreakerConfig {
        let mut breaker = BreakerConfig::default();
        for field in self.table(section) {
            match field.name {
                "failures" => breaker.failures = self.count_u32(&field).unwrap_or(breaker.failures),
                "open_for" => breaker.open_for = self.duration(&field).unwrap_or(breaker.open_for),
                _ => self.unknown_key(&field, &section.path, BREAKER, None),
            }
        }
        breaker
    }

    fn queue(&mut self, section: &Field<'_>) -> QueueConfig {
        let mut queue = QueueConfig::default();
        for field in self.table(section) {
            match field.name {
                "timeout" => queue.timeout = self.duration(&field),
                "max_waiting" => {
                    if let Some(count) = self.count(&field) {
                        // More than memory can address is as good as no bound.
                        queue.max_waiting = usize::try_from(count).unwrap_or(usize::MAX);
                    }
                }
                "aging" => queue.aging = self.duration(&field).unwrap_or(queue.aging),
                "aging_share" => queue.aging_share = self.number(&field).unwrap_or(queue.aging_share),
                _ => self.unknown_key(&field, &section.path, QUEUE, None),
            }
        }
        queue
    }
}
