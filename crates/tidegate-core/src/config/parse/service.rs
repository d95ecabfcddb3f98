//! One service.

use std::mem::take;

use super::keys::{QUEUE, RAMP, SERVICE};
use super::walk::{Field, Walk};
use crate::config::presets;
use crate::config::{Headers, Mode, QueueConfig, RampConfig, ServiceConfig, SettleRule, Unread};
use crate::vendors::Profiles;

impl Walk<'_> {
    /// A service: what its preset says, and over it key by key what is written. The preset is the one that is written,
    /// else the one that has the service's name; `preset = "none"` is no preset.
    pub(super) fn service(&mut self, section: &Field<'_>, profiles: &Profiles) -> ServiceConfig {
        let fields = self.table(section);
        let mut service = self.start(section.name, &fields, profiles);
        service.limits = self.level(&section.path, &fields, SERVICE).over(take(&mut service.limits));
        for field in &fields {
            match field.name {
                // They said where to start.
                "preset" | "tier" | "profile" => {}
                "upstream" => service.upstream = self.string(field).or(service.upstream),
                "api_key_env" => service.api_key_env = self.string(field),
                "per_key" => service.per_key = self.flag(field).unwrap_or(service.per_key),
                "mode" => {
                    let names = [("enforce", Mode::Enforce), ("observe", Mode::Observe)];
                    service.mode = self.choice(field, &names).unwrap_or(service.mode);
                }
                "headers" => {
                    let names = [
                        ("follow", Headers::Follow),
                        ("authoritative", Headers::Authoritative),
                        ("ignore", Headers::Ignore),
                    ];
                    service.headers = self.choice(field, &names).unwrap_or(service.headers);
                }
                "settle" => {
                    let names = [("refund", SettleRule::Refund), ("keep", SettleRule::Keep)];
                    service.settle = self.choice(field, &names).unwrap_or(service.settle);
                }
                "unread" => service.unread = self.choice(field, &Unread::NAMES).unwrap_or(service.unread),
                "endpoints" => {
                    for field in self.table(field) {
                        let level = service.endpoints.entry(field.name.to_owned()).or_default();
                        *level = self.plain_level(&field).over(take(level));
                    }
                }
                "models" => {
                    for field in self.table(field) {
                        let level = service.models.entry(field.name.to_owned()).or_default();
                        *level = self.plain_level(&field).over(take(level));
                    }
                }
                "retry" => self.retry(field, &mut service.retry),
                "breaker" => self.breaker(field, service.breaker.get_or_insert_default()),
                "backoff" => self.backoff(field, &mut service.backoff),
                "failures_count" => {
                    service.failures_count = self.flag(field).unwrap_or(service.failures_count);
                }
                "queue" => self.queue(field, &mut service.queue),
                "ramp" => self.ramp(field, service.ramp.get_or_insert_default()),
                // All others are the level's, known or not.
                _ => {}
            }
        }
        service
    }

    /// What a service is before its own keys are read. A name that is not known stays as it was written, for
    /// the checks to report.
    fn start(&mut self, name: &str, fields: &[Field<'_>], profiles: &Profiles) -> ServiceConfig {
        let [written, tier, profile] = ["preset", "tier", "profile"]
            .map(|name| fields.iter().find(|field| field.name == name).and_then(|field| self.string(field)));
        let preset = match written {
            Some(written) => Some(written).filter(|written| written != presets::NONE),
            None => presets::of_service(name).map(|preset| preset.name.to_owned()),
        };
        let mut service = match preset.as_deref().and_then(presets::by_name) {
            Some(known) => known.service(tier.as_deref().and_then(|tier| known.tier(tier))),
            None => ServiceConfig::default(),
        };
        service.profile = profile;
        if let (None, Some(base)) = (&preset, service.profile_base(profiles)) {
            service.settle = base.counting.unspent;
            service.failures_count = base.counting.failures_count;
        }
        service.preset = service.preset.or(preset);
        service.tier = service.tier.or(tier);
        service
    }

    fn ramp(&mut self, section: &Field<'_>, ramp: &mut RampConfig) {
        for field in self.table(section) {
            match field.name {
                "idle" => ramp.idle = self.duration(&field).unwrap_or(ramp.idle),
                "from" => ramp.from = self.number(&field).unwrap_or(ramp.from),
                "over" => ramp.over = self.duration(&field).unwrap_or(ramp.over),
                _ => self.unknown_key(&field, &section.path, RAMP, None),
            }
        }
    }

    fn queue(&mut self, section: &Field<'_>, queue: &mut QueueConfig) {
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
    }
}
