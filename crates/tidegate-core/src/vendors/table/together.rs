//! Together AI.

use super::generic::GENERIC;
use crate::vendors::kind::Kind;
use crate::vendors::preset::Confidence::Medium;
use crate::vendors::preset::{MINUTE, Preset, plain, tier};
use crate::vendors::rule::{Scope, code, family, sign};
use crate::vendors::vendor::{Dialect, ErrorShape, Vendor};
use crate::vendors::verdict::Verdict;

pub(super) static VENDOR: Vendor = Vendor {
    name: "together",
    aliases: &["togetherai", "together-ai"],
    signs: &[
        sign("x-together-*"),
        sign("x-tokenlimit-*"),
        sign("x-ratelimit-limit-dynamic"),
        sign("x-ratelimit-remaining-dynamic"),
    ],
    headers: &[family("x-tokenlimit-*", Kind::Tokens)],
    errors: &[code(Verdict::RateLimited, &["dynamic_request_limited", "dynamic_token_limited"])],
    scope: &[Scope::Organization, Scope::Model],
    dialect: Dialect { error_shape: ErrorShape::OpenAi, takes_stream_options: true, ..Dialect::COMMON },
    preset: Some(&PRESET),
    source: "docs.together.ai/docs/serverless/rate-limits, 2026",
    ..GENERIC
};

static PRESET: Preset = Preset {
    name: "together",
    vendor: "together",
    llm: true,
    upstream: Some("https://api.together.xyz"),
    base_url_env: &[("TOGETHER_BASE_URL", "/v1")],
    all_tiers: false,
    ramp: None,
    tiers: &[tier(
        "base",
        &[plain("requests", 60, MINUTE)],
        "docs.together.ai/docs/serverless/rate-limits; grows with use",
        "2026",
        Medium,
    )],
};
