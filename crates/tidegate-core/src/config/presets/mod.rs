//! Presets: where a known service is, and the limits it is known to have.
//!
//! A preset's numbers are a first guess with a source and a date. Vendors change them more often than anybody
//! reads their pages, so what a reply says counts for more: headers move a preset's limit both ways, and what
//! stands in the config beside `preset` overrides it.
//!
//! Most limits belong to a tier, and no preset can know whose key it is used with. A service that names no
//! tier gets only what every tier has: a guess at the smallest would hold back everybody else, and where the
//! vendor sends no headers nothing would ever correct it.

mod llm;
mod repeatable;
mod web;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::config::{Origin, RampConfig, RateLimit, ServiceConfig, Unread};
use crate::model::dimension::Dimension;
use crate::model::rate::{Algorithm, Rate};
use crate::vendors::{Vendor, by_name as vendor_by_name, generic};

/// A known service.
#[derive(Debug)]
pub struct Preset {
    /// The name that `preset = "…"` uses.
    pub name: &'static str,
    /// The vendor whose replies it sends, by name: header style, counting rule, usage fields.
    pub vendor: &'static str,
    /// Where it is, unless every customer has an address of their own.
    pub upstream: Option<&'static str>,
    /// Environment variables that SDKs take their base URL from, and the path that belongs behind it.
    pub base_url_env: &'static [(&'static str, &'static str)],
    /// Whether `tiers` are all that the vendor has: only then does what they share hold for everybody.
    pub all_tiers: bool,
    /// How calls begin again after a time without any, if the vendor turns sharp growth away.
    pub ramp: Option<RampConfig>,
    /// Its tiers or plans, the smallest first.
    pub tiers: &'static [Tier],
}

/// The limits of one tier or plan.
#[derive(Debug)]
pub struct Tier {
    /// What the vendor calls it.
    pub name: &'static str,
    /// Its limits.
    pub limits: &'static [PresetLimit],
    /// Where the numbers are from.
    pub source: &'static str,
    /// Of when they are (year, month and perhaps day).
    pub date: &'static str,
    /// How sure they are.
    pub confidence: Confidence,
}

/// How sure a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confidence {
    /// From the vendor's own pages.
    High,
    /// Second-hand, or old.
    Medium,
    /// Seen by somebody once.
    Low,
}

impl Confidence {
    /// How it is called in text for a person.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Confidence::High => "high",
            Confidence::Medium => "medium",
            Confidence::Low => "low",
        }
    }
}

/// One limit of a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PresetLimit {
    /// The models it is for, as a pattern; none means the whole service.
    pub model: Option<&'static str>,
    /// The endpoint it is for, as a pattern; none means all.
    pub endpoint: Option<&'static str>,
    /// What it counts; `concurrency` has no window.
    pub dimension: &'static str,
    /// How much.
    pub units: u64,
    /// In what stretch of time, in seconds.
    pub window_secs: u64,
    /// How the vendor counts, if it is known not to be as a plain rate is.
    pub algorithm: Option<Algorithm>,
    /// How much may go at once, if it is not the whole limit.
    pub burst: Option<u64>,
    /// The time zone whose day it counts by.
    pub calendar: Option<&'static str>,
}

/// All presets.
pub fn all() -> impl Iterator<Item = &'static Preset> {
    llm::PRESETS.iter().chain(web::PRESETS)
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
        let vendor = vendor_by_name(name)?;
        all().find(|preset| preset.vendor == vendor.name)
    })
}

impl Preset {
    /// The row of the vendor table that reads its replies.
    #[must_use]
    pub fn vendor(&self) -> &'static Vendor {
        vendor_by_name(self.vendor).unwrap_or(generic())
    }

    fn is_llm(&self) -> bool {
        llm::PRESETS.iter().any(|preset| preset.name == self.name)
    }

    /// The tier of that name.
    #[must_use]
    pub fn tier(&self, name: &str) -> Option<&'static Tier> {
        self.tiers.iter().find(|tier| tier.name.eq_ignore_ascii_case(name))
    }

    /// The limits of a tier; without one, those that every tier has.
    pub fn limits(&self, tier: Option<&Tier>) -> impl Iterator<Item = &'static PresetLimit> {
        let (some, others) = match tier {
            Some(tier) => (tier.limits, &[][..]),
            None => match self.tiers {
                [first, others @ ..] if self.all_tiers => (first.limits, others),
                _ => (&[][..], &[][..]),
            },
        };
        some.iter().filter(move |limit| others.iter().all(|tier| tier.limits.contains(limit)))
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
            unread: if self.is_llm() { Unread::Estimate } else { Unread::Pass },
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

// The functions below only make the tables short enough to be read as tables.

const SECOND: u64 = 1;
const MINUTE: u64 = 60;
const HOUR: u64 = 3600;
const DAY: u64 = 86_400;

const fn plain(dimension: &'static str, units: u64, window_secs: u64) -> PresetLimit {
    PresetLimit {
        model: None,
        endpoint: None,
        dimension,
        units,
        window_secs,
        algorithm: None,
        burst: None,
        calendar: None,
    }
}

const fn of_model(model: &'static str, limit: PresetLimit) -> PresetLimit {
    PresetLimit { model: Some(model), ..limit }
}

const fn of_endpoint(endpoint: &'static str, limit: PresetLimit) -> PresetLimit {
    PresetLimit { endpoint: Some(endpoint), ..limit }
}

const fn bucket(dimension: &'static str, units: u64, window_secs: u64) -> PresetLimit {
    PresetLimit { algorithm: Some(Algorithm::TokenBucket), ..plain(dimension, units, window_secs) }
}

const fn fixed(dimension: &'static str, units: u64, window_secs: u64) -> PresetLimit {
    PresetLimit { algorithm: Some(Algorithm::FixedWindow), ..plain(dimension, units, window_secs) }
}

const fn concurrency(units: u64) -> PresetLimit {
    plain("concurrency", units, 0)
}

const fn tier(
    name: &'static str,
    limits: &'static [PresetLimit],
    source: &'static str,
    date: &'static str,
    confidence: Confidence,
) -> Tier {
    Tier { name, limits, source, date, confidence }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_a_valid_service() {
        let mut seen = std::collections::HashSet::new();
        for preset in all() {
            assert!(seen.insert(preset.name), "{} is taken twice", preset.name);
            assert!(vendor_by_name(preset.vendor).is_some(), "{} has no vendor", preset.name);
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
        for vendor in crate::vendors::all().filter(|vendor| !shared.contains(&vendor.name)) {
            assert!(by_name(vendor.name).is_some(), "{} has no preset", vendor.name);
        }
    }
}
