//! Mistral.

use super::generic::GENERIC;
use crate::vendors::kind::Kind;
use crate::vendors::preset::Confidence::Low;
use crate::vendors::preset::{MINUTE, Preset, plain, tier};
use crate::vendors::rule::{Scope, ZeroLimit, family, sign};
use crate::vendors::vendor::{Quirks, Vendor};

pub(super) static VENDOR: Vendor = Vendor {
    name: "mistral",
    aliases: &["mistralai"],
    signs: &[
        sign("mistral-correlation-id"),
        sign("x-ratelimit-limit-req-minute"),
        sign("x-ratelimit-remaining-req-minute"),
        sign("x-ratelimit-tokens-query-cost"),
        sign("ratelimitbysize-*"),
        sign("x-ratelimitbysize-*"),
    ],
    headers: &[family("ratelimitbysize-*", Kind::Tokens), family("x-ratelimitbysize-*", Kind::Tokens)],
    scope: &[Scope::Organization, Scope::Model],
    quirks: Quirks { zero_limit: ZeroLimit::NotInPlan, ..Quirks::NONE },
    preset: Some(&PRESET),
    source: "captured replies, 2026",
    ..GENERIC
};

static PRESET: Preset = Preset {
    name: "mistral",
    vendor: "mistral",
    llm: true,
    upstream: Some("https://api.mistral.ai"),
    base_url_env: &[],
    all_tiers: false,
    ramp: None,
    tiers: &[tier(
        "free",
        &[plain("requests", 50, MINUTE), plain("tokens", 25_000, MINUTE)],
        "captured headers",
        "2026",
        Low,
    )],
};
