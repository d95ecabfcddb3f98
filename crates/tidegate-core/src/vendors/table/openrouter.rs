//! OpenRouter.

use super::generic::GENERIC;
use crate::vendors::preset::Confidence::High;
use crate::vendors::preset::{DAY, MINUTE, Preset, fixed, of_model, plain, tier};
use crate::vendors::reset::ResetForm;
use crate::vendors::rule::{Scope, code, sign, sign_value};
use crate::vendors::vendor::{Dialect, ErrorShape, Quirks, Vendor};
use crate::vendors::verdict::Verdict;

pub(super) static VENDOR: Vendor = Vendor {
    name: "openrouter",
    signs: &[sign("x-openrouter-*"), sign_value("server", "openrouter")],
    reset: ResetForm::EpochMillis,
    errors: &[
        // A 402 is a matter of money, except where only the calls in flight have claimed it.
        code(Verdict::QuotaExhausted, &["weight_exceeds_budget"]),
        code(Verdict::RateLimited, &["openrouter_in_flight_budget", "in_flight_budget_exhausted"]),
        code(Verdict::QuotaExhausted, &["openrouter_key_limit", "openrouter_credits"]),
    ],
    scope: &[Scope::Organization, Scope::Model],
    quirks: Quirks {
        // The gateway has answered with 200 before it asks the upstream.
        refuses_in_streams: true,
        ..Quirks::NONE
    },
    dialect: Dialect { error_shape: ErrorShape::OpenAi, takes_stream_options: true, ..Dialect::COMMON },
    preset: Some(&PRESET),
    source: "OpenRouterTeam/docs api_reference/limits.mdx@221d5fb, 2026",
    ..GENERIC
};

static PRESET: Preset = Preset {
    name: "openrouter",
    vendor: "openrouter",
    llm: true,
    upstream: Some("https://openrouter.ai"),
    base_url_env: &[],
    all_tiers: true,
    ramp: None,
    tiers: &[
        tier(
            "free",
            &[
                of_model("*:free", plain("requests", 20, MINUTE)),
                of_model("*:free", fixed("requests", 50, DAY)),
            ],
            "OpenRouterTeam/docs api_reference/limits.mdx",
            "2026",
            High,
        ),
        tier(
            "paid",
            &[
                of_model("*:free", plain("requests", 20, MINUTE)),
                of_model("*:free", fixed("requests", 1000, DAY)),
            ],
            "OpenRouterTeam/docs api_reference/limits.mdx",
            "2026",
            High,
        ),
    ],
};
