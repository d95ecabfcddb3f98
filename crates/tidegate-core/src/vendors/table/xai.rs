//! xAI.

use super::generic::GENERIC;
use crate::vendors::preset::Confidence::High;
use crate::vendors::preset::{MINUTE, Preset, PresetLimit, SECOND, of_model, plain, tier};
use crate::vendors::rule::{Scope, sign};
use crate::vendors::vendor::{Dialect, ErrorShape, Vendor};

pub(super) static VENDOR: Vendor = Vendor {
    name: "xai",
    aliases: &["x-ai", "grok"],
    signs: &[sign("x-xai-*"), sign("xai-*")],
    scope: &[Scope::Organization, Scope::Model],
    dialect: Dialect { error_shape: ErrorShape::OpenAi, takes_stream_options: true, ..Dialect::COMMON },
    preset: Some(&PRESET),
    source: "docs.x.ai/developers/rate-limits.md, 2026-10",
    ..GENERIC
};

static PRESET: Preset = Preset {
    name: "xai",
    vendor: "xai",
    llm: true,
    upstream: Some("https://api.x.ai"),
    base_url_env: &[],
    all_tiers: false,
    ramp: None,
    tiers: &[
        tier("tier-0", &GROK[0], XAI, "2026-10", High),
        tier("tier-1", &GROK[1], XAI, "2026-10", High),
        tier("tier-2", &GROK[2], XAI, "2026-10", High),
        tier("tier-3", &GROK[3], XAI, "2026-10", High),
        tier("tier-4", &GROK[4], XAI, "2026-10", High),
    ],
};

const XAI: &str = "docs.x.ai/developers/rate-limits.md";

static GROK: [[PresetLimit; 2]; 5] = [
    grok(150, 50_000_000),
    grok(172, 53_000_000),
    grok(208, 60_000_000),
    grok(312, 74_000_000),
    grok(500, 100_000_000),
];

const fn grok(rps: u64, tpm: u64) -> [PresetLimit; 2] {
    [of_model("grok-4*", plain("requests", rps, SECOND)), of_model("grok-4*", plain("tokens", tpm, MINUTE))]
}
