//! Groq.

use super::generic::GENERIC;
use crate::vendors::counting::Counting;
use crate::vendors::kind::Kind;
use crate::vendors::preset::Confidence::High;
use crate::vendors::preset::{DAY, MINUTE, Preset, PresetLimit, bucket, tier};
use crate::vendors::rule::{Scope, phrase, sign, status};
use crate::vendors::vendor::{Dialect, ErrorShape, Vendor};
use crate::vendors::verdict::Verdict;
use crate::vendors::words;

pub(super) static VENDOR: Vendor = Vendor {
    name: "groq",
    signs: &[sign("x-groq-*")],
    sites: &["console.groq.com"],
    windows: &[(Kind::Requests, words::DAY), (Kind::Tokens, words::MINUTE)],
    errors: &[
        // A day's tokens do not come back soon enough to wait for.
        phrase(Verdict::QuotaExhausted, &[429], &["tokens per day (tpd)", "requests per day (rpd)"]),
        status(Verdict::Overloaded, &[498]),
    ],
    scope: &[Scope::Organization, Scope::Model],
    counting: Counting { cached_counts: false, ..Counting::PLAIN },
    dialect: Dialect { error_shape: ErrorShape::OpenAi, takes_stream_options: true, ..Dialect::COMMON },
    preset: Some(&PRESET),
    source: "console.groq.com/docs/rate-limits, 2026",
    ..GENERIC
};

static PRESET: Preset = Preset {
    name: "groq",
    vendor: "groq",
    llm: true,
    upstream: Some("https://api.groq.com"),
    base_url_env: &[("GROQ_BASE_URL", "")],
    all_tiers: false,
    ramp: None,
    tiers: &[tier("free", &GROQ_FREE, "console.groq.com/docs/rate-limits", "2026", High)],
};

static GROQ_FREE: [PresetLimit; 4] = [
    bucket("requests", 1000, DAY),
    bucket("requests", 30, MINUTE),
    bucket("tokens", 8000, MINUTE),
    bucket("tokens", 200_000, DAY),
];
