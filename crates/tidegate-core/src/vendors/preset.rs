//! A preset: where a vendor's service is, and the limits it is known to have.
//!
//! The numbers are a first guess with a source and a date. `config::presets` makes a service of them.

use crate::model::ramp::RampConfig;
use crate::model::rate::Algorithm;

/// A known service.
#[derive(Debug)]
pub struct Preset {
    /// The name that `preset = "…"` uses.
    pub name: &'static str,
    /// The vendor whose replies it sends, by name: header style, counting rule, usage fields.
    pub vendor: &'static str,
    /// Whether it serves language models: their uploads have tokens, and generation may be asked for twice.
    pub llm: bool,
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

impl Preset {
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
}

// The functions below only make the tables short enough to be read as tables.

pub(super) const SECOND: u64 = 1;
pub(super) const MINUTE: u64 = 60;
pub(super) const HOUR: u64 = 3600;
pub(super) const DAY: u64 = 86_400;

pub(super) const fn plain(dimension: &'static str, units: u64, window_secs: u64) -> PresetLimit {
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

pub(super) const fn of_model(model: &'static str, limit: PresetLimit) -> PresetLimit {
    PresetLimit { model: Some(model), ..limit }
}

pub(super) const fn of_endpoint(endpoint: &'static str, limit: PresetLimit) -> PresetLimit {
    PresetLimit { endpoint: Some(endpoint), ..limit }
}

pub(super) const fn bucket(dimension: &'static str, units: u64, window_secs: u64) -> PresetLimit {
    PresetLimit { algorithm: Some(Algorithm::TokenBucket), ..plain(dimension, units, window_secs) }
}

pub(super) const fn fixed(dimension: &'static str, units: u64, window_secs: u64) -> PresetLimit {
    PresetLimit { algorithm: Some(Algorithm::FixedWindow), ..plain(dimension, units, window_secs) }
}

pub(super) const fn concurrency(units: u64) -> PresetLimit {
    plain("concurrency", units, 0)
}

pub(super) const fn tier(
    name: &'static str,
    limits: &'static [PresetLimit],
    source: &'static str,
    date: &'static str,
    confidence: Confidence,
) -> Tier {
    Tier { name, limits, source, date, confidence }
}

/// A service without known limits or with limits that every customer negotiates.
pub(super) const fn unlimited(
    name: &'static str,
    vendor: &'static str,
    upstream: Option<&'static str>,
) -> Preset {
    Preset { name, vendor, llm: false, upstream, base_url_env: &[], all_tiers: false, ramp: None, tiers: &[] }
}

/// A service whose every tier is listed.
pub(super) const fn service(
    name: &'static str,
    vendor: &'static str,
    upstream: Option<&'static str>,
    tiers: &'static [Tier],
) -> Preset {
    Preset { name, vendor, llm: false, upstream, base_url_env: &[], all_tiers: true, ramp: None, tiers }
}

/// A service with more tiers than are listed.
pub(super) const fn partly(
    name: &'static str,
    vendor: &'static str,
    upstream: Option<&'static str>,
    tiers: &'static [Tier],
) -> Preset {
    Preset { all_tiers: false, ..service(name, vendor, upstream, tiers) }
}
