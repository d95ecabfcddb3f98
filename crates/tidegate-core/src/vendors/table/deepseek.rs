//! DeepSeek.

use super::generic::GENERIC;
use crate::vendors::preset::Confidence::Medium;
use crate::vendors::preset::{Preset, concurrency, of_model, tier};
use crate::vendors::rule::{Scope, code, phrase, sign, status};
use crate::vendors::vendor::{Dialect, ErrorShape, Vendor};
use crate::vendors::verdict::Verdict;

pub(super) static VENDOR: Vendor = Vendor {
    name: "deepseek",
    signs: &[sign("x-ds-trace-id")],
    // What it limits is the number of calls at once.
    errors: &[
        code(Verdict::QuotaExhausted, &["insufficient balance"]),
        phrase(Verdict::QuotaExhausted, &[429], &["insufficient balance"]),
        status(Verdict::ConcurrencyLimited, &[429]),
    ],
    scope: &[Scope::Organization, Scope::Model],
    dialect: Dialect { error_shape: ErrorShape::OpenAi, takes_stream_options: true, ..Dialect::COMMON },
    preset: Some(&PRESET),
    source: "api-docs.deepseek.com, read 2026-10",
    ..GENERIC
};

static PRESET: Preset = Preset {
    name: "deepseek",
    vendor: "deepseek",
    llm: true,
    upstream: Some("https://api.deepseek.com"),
    base_url_env: &[],
    all_tiers: true,
    ramp: None,
    tiers: &[tier(
        "account",
        &[of_model("deepseek-flash*", concurrency(2500)), of_model("deepseek-v4-pro*", concurrency(500))],
        "api-docs.deepseek.com",
        "2026-10",
        Medium,
    )],
};
