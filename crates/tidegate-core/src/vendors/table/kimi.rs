//! Kimi (Moonshot AI).

use super::generic::GENERIC;
use crate::vendors::preset::Confidence::Medium;
use crate::vendors::preset::{MINUTE, Preset, PresetLimit, concurrency, plain, tier};
use crate::vendors::rule::{Scope, code, own_code, phrase, sign};
use crate::vendors::vendor::{Dialect, ErrorShape, Vendor};
use crate::vendors::verdict::Verdict;

pub(super) static VENDOR: Vendor = Vendor {
    name: "kimi",
    aliases: &["moonshot"],
    signs: &[sign("msh-*")],
    errors: &[
        code(Verdict::QuotaExhausted, &["exceeded_current_quota_error"]),
        phrase(Verdict::ConcurrencyLimited, &[429], &["max organization concurrency"]),
        own_code(Verdict::RateLimited, &["rate_limit_reached_error"]),
    ],
    scope: &[Scope::Organization],
    dialect: Dialect { error_shape: ErrorShape::OpenAi, takes_stream_options: true, ..Dialect::COMMON },
    preset: Some(&PRESET),
    source: "coding-plan rate_limits.yaml, 2026-08-28",
    ..GENERIC
};

static PRESET: Preset = Preset {
    name: "kimi",
    vendor: "kimi",
    llm: true,
    upstream: Some("https://api.moonshot.ai"),
    base_url_env: &[],
    all_tiers: false,
    ramp: None,
    tiers: &[
        tier("tier-0", &KIMI[0], KIMI_SOURCE, "2026-08-28", Medium),
        tier("tier-1", &KIMI[1], KIMI_SOURCE, "2026-08-28", Medium),
        tier("tier-2", &KIMI[2], KIMI_SOURCE, "2026-08-28", Medium),
        tier("tier-3", &KIMI[3], KIMI_SOURCE, "2026-08-28", Medium),
        tier("tier-4", &KIMI[4], KIMI_SOURCE, "2026-08-28", Medium),
        tier("tier-5", &KIMI[5], KIMI_SOURCE, "2026-08-28", Medium),
    ],
};

const KIMI_SOURCE: &str = "rizquuula/coding-plan data/rate_limits.yaml";

static KIMI: [[PresetLimit; 3]; 6] = [
    kimi(3, 1, 500_000),
    kimi(200, 50, 2_000_000),
    kimi(500, 100, 3_000_000),
    kimi(5000, 200, 3_000_000),
    kimi(5000, 400, 4_000_000),
    kimi(10_000, 1000, 5_000_000),
];

const fn kimi(rpm: u64, at_once: u64, tpm: u64) -> [PresetLimit; 3] {
    [plain("requests", rpm, MINUTE), concurrency(at_once), plain("tokens", tpm, MINUTE)]
}
