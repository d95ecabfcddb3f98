//! Presets: where a known service is, and the limits it is known to have.
//!
//! A preset's numbers are a first guess with a source and a date. Vendors change them more often than anybody
//! reads their pages, so what a reply says counts for more: headers move a preset's limit both ways, and what
//! stands in the config beside `preset` overrides it.
//!
//! Most limits belong to a tier, and no preset can know whose key it is used with. A service that names no
//! tier gets only what every tier has: a guess at the smallest would hold back everybody else, and where the
//! vendor sends no headers nothing would ever correct it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Origin, RateLimit, ServiceConfig, Unread};
use crate::model::dimension::Dimension;
use crate::model::rate::Rate;
use crate::vendors::{self, Vendor};

pub use crate::vendors::preset::{Confidence, Preset, PresetLimit, Tier};

/// All presets.
pub fn all() -> impl Iterator<Item = &'static Preset> {
    vendors::all().filter_map(|vendor| vendor.preset)
}

/// The value of `preset` for a service that has none although its name is a preset's.
pub const NONE: &str = "none";

/// Returns the preset that a service has by its name alone: the one of exactly that name. Other names of a vendor do
/// not count, since some are plain words (`docker`, `google`, `aws`).
#[must_use]
pub fn of_service(name: &str) -> Option<&'static Preset> {
    all().find(|preset| preset.name == name)
}

/// The services of a config that names none: every preset that is in one place for everybody, by its name.
#[must_use]
pub fn served() -> BTreeMap<String, ServiceConfig> {
    let fixed = all().filter(|preset| preset.upstream.is_some());
    fixed.map(|preset| (preset.name.to_owned(), preset.service(None))).collect()
}

/// The preset of that name; a vendor's other names find it too.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static Preset> {
    all().find(|preset| preset.name.eq_ignore_ascii_case(name)).or_else(|| {
        let vendor = vendors::by_name(name)?;
        all().find(|preset| preset.vendor == vendor.name)
    })
}

impl Preset {
    /// The row of the vendor table that reads its replies.
    #[must_use]
    pub fn vendor(&self) -> &'static Vendor {
        vendors::by_name(self.vendor).unwrap_or(vendors::generic())
    }

    /// What a service with this preset and nothing else in its config is: the address, the counting rule, and
    /// the limits of its tier.
    #[must_use]
    pub fn service(&self, tier: Option<&Tier>) -> ServiceConfig {
        let mut service = ServiceConfig {
            preset: Some(self.name.to_owned()),
            tier: tier.map(|tier| tier.name.to_owned()),
            upstream: self.upstream.map(str::to_owned),
            settle: self.vendor().counting.unspent,
            failures_count: self.vendor().counting.failures_count,
            // What is uploaded to other services than those of models has no tokens.
            unread: if self.llm { Unread::Estimate } else { Unread::Pass },
            ramp: self.ramp.clone(),
            ..ServiceConfig::default()
        };
        for limit in self.limits(tier) {
            limit.add_to(&mut service);
        }
        service
    }
}

impl PresetLimit {
    fn add_to(&self, service: &mut ServiceConfig) {
        let limits = match (self.model, self.endpoint) {
            (Some(model), _) => service.models.entry(model.to_owned()).or_default(),
            (None, Some(endpoint)) => service.endpoints.entry(endpoint.to_owned()).or_default(),
            (None, None) => &mut service.limits,
        };
        if self.dimension == "concurrency" {
            limits.concurrency = Some(self.units);
            limits.concurrency_origin = Origin::Preset;
        } else if let Ok(rate) = Rate::new(self.units, Duration::from_secs(self.window_secs)) {
            limits.rates.push(RateLimit {
                dimension: Dimension::from_name(self.dimension),
                rate,
                algorithm: self.algorithm,
                burst: self.burst,
                calendar: self.calendar.map(str::to_owned),
                reserve: None,
                origin: Origin::Preset,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_a_valid_service() {
        let mut seen = std::collections::HashSet::new();
        for preset in all() {
            assert!(seen.insert(preset.name), "{} is taken twice", preset.name);
            assert!(vendors::by_name(preset.vendor).is_some(), "{} has no vendor", preset.name);
            assert!(preset.upstream.is_none_or(|url| url.starts_with("https://") && !url.ends_with('/')));
            for tier in preset.tiers {
                assert!(
                    tier.date.starts_with("20") && !tier.source.is_empty(),
                    "{} {}",
                    preset.name,
                    tier.name
                );
                let service = preset.service(Some(tier));
                let levels = [&service.limits]
                    .into_iter()
                    .chain(service.models.values())
                    .chain(service.endpoints.values());
                let written: usize =
                    levels.map(|level| level.rates.len() + usize::from(level.concurrency.is_some())).sum();
                assert_eq!(
                    written,
                    tier.limits.len(),
                    "{} {}: a limit is out of range",
                    preset.name,
                    tier.name
                );
            }
        }
    }

    #[test]
    fn a_service_without_a_tier_has_what_every_tier_has() {
        let shared = |name: &str| by_name(name).unwrap().service(None);
        let github = shared("github");
        assert_eq!((github.limits.concurrency, github.limits.rates.len()), (Some(100), 0));
        assert_eq!(shared("openrouter").models["*:free"].rates.len(), 1, "20 a minute, paid or not");
        assert_eq!(shared("discord").limits.rates.len(), 1, "there is one tier");
        assert_eq!(shared("gemini").limits.rates, [], "the free tier is not the only one");
        assert!(shared("anthropic").models.is_empty());
    }

    #[test]
    fn every_service_of_a_preset_passes_the_checks_of_a_config() {
        for preset in all() {
            for tier in preset.tiers.iter().map(Some).chain([None]) {
                let mut config = crate::Config::default();
                config.services.insert(preset.name.to_owned(), preset.service(tier));
                assert_eq!(config.validate(), Ok(()), "{} {tier:?}", preset.name);
            }
        }
    }

    #[test]
    fn generation_may_be_asked_for_twice_and_what_is_stored_may_not() {
        let repeats = |preset: &str, endpoint: &str| by_name(preset).unwrap().repeats(endpoint);
        for (preset, endpoint) in [
            ("openai", "POST /v1/responses"),
            ("openai", "POST /v1/embeddings"),
            ("azure-openai", "POST /openai/deployments/ours/chat/completions?api-version=1"),
            ("anthropic", "POST /v1/messages"),
            ("gemini", "POST /v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"),
            ("gemini", "POST /v1beta/models/gemini-embedding-001:batchEmbedContents"),
        ] {
            assert!(repeats(preset, endpoint), "{preset} {endpoint}");
        }
        for (preset, endpoint) in [
            ("openai", "POST /v1/threads/thread_1/messages"),
            ("openai", "POST /v1/responses/resp_1/cancel"),
            ("openai", "POST /v1/batches"),
            ("anthropic", "POST /v1/messages/batches"),
            ("openai", "PATCH /v1/chat/completions"),
            ("github", "POST /repos/ours/it/embeddings"),
        ] {
            assert!(!repeats(preset, endpoint), "{preset} {endpoint}");
        }
    }

    #[test]
    fn a_preset_is_found_by_its_vendors_other_names() {
        assert_eq!(by_name("openai").unwrap().upstream, Some("https://api.openai.com"));
        assert_eq!(by_name("Gemini").unwrap().name, "gemini");
        assert!(by_name("nobody").is_none());
    }

    #[test]
    fn every_named_vendor_has_a_preset() {
        let shared = ["generic", "generic-gravitee", "litellm", "confluence-dc", "nous"];
        for vendor in vendors::all().filter(|vendor| !shared.contains(&vendor.name)) {
            assert!(by_name(vendor.name).is_some(), "{} has no preset", vendor.name);
        }
    }
}
