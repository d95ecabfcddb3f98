//! OpenAI.

use super::generic::GENERIC;
use crate::model::settle_rule::SettleRule;
use crate::vendors::counting::{Admission, Counting};
use crate::vendors::preset::Confidence::Medium;
use crate::vendors::preset::{DAY, MINUTE, Preset, PresetLimit, bucket, of_model, tier};
use crate::vendors::rule::{Scope, code, phrase, sign};
use crate::vendors::vendor::{Dialect, ErrorShape, Vendor};
use crate::vendors::verdict::Verdict;

pub(super) static VENDOR: Vendor = Vendor {
    name: "openai",
    aliases: &["open-ai"],
    signs: &[sign("openai-*")],
    sites: &["platform.openai.com", "help.openai.com"],
    errors: &[
        code(Verdict::Overloaded, &["resource_unavailable"]),
        phrase(Verdict::Overloaded, &[429], &["resource unavailable"]),
    ],
    scope: &[Scope::Organization, Scope::Project, Scope::Model],
    counting: Counting {
        admission: Admission::LargerOfInputAndMax,
        unspent: SettleRule::Keep,
        failures_count: true,
        ..Counting::PLAIN
    },
    dialect: Dialect { error_shape: ErrorShape::OpenAi, takes_stream_options: true, ..Dialect::COMMON },
    preset: Some(&PRESET),
    source: "developers.openai.com/api/docs/guides/rate-limits, 2026-10",
    ..GENERIC
};

static PRESET: Preset = Preset {
    name: "openai",
    vendor: "openai",
    llm: true,
    upstream: Some("https://api.openai.com"),
    base_url_env: &[("OPENAI_BASE_URL", "/v1"), ("OPENAI_API_BASE", "/v1")],
    all_tiers: false,
    ramp: None,
    tiers: &[
        tier("tier-1", &GPT_1, OPENAI_TIER_1, "2026-08-28", Medium),
        tier("tier-2", &GPT_2, OPENAI_MODELS, "2026-08-28", Medium),
        tier("tier-3", &GPT_3, OPENAI_MODELS, "2026-08-28", Medium),
        tier("tier-4", &GPT_4, OPENAI_MODELS, "2026-08-28", Medium),
        tier("tier-5", &GPT_5, OPENAI_MODELS, "2026-08-28", Medium),
    ],
};

const OPENAI_MODELS: &str = "model pages, by rizquuula/coding-plan data/rate_limits.yaml";

const OPENAI_TIER_1: &str =
    "model pages, by rizquuula/coding-plan data/rate_limits.yaml; older models by texts of 429s (2026)";

static GPT_1: [PresetLimit; 13] = {
    let new = gpt(500, 500_000, 500, 500_000);
    [
        new[0],
        new[1],
        new[2],
        new[3],
        new[4],
        new[5],
        of_model("gpt-4.1*", bucket("requests", 500, MINUTE)),
        of_model("gpt-4.1*", bucket("tokens", 30_000, MINUTE)),
        of_model("gpt-4o*", bucket("requests", 500, MINUTE)),
        of_model("gpt-4o*", bucket("tokens", 30_000, MINUTE)),
        of_model("gpt-4o-mini*", bucket("requests", 500, MINUTE)),
        of_model("gpt-4o-mini*", bucket("requests", 10_000, DAY)),
        of_model("gpt-4o-mini*", bucket("tokens", 200_000, MINUTE)),
    ]
};

static GPT_2: [PresetLimit; 6] = gpt(5000, 1_000_000, 5000, 2_000_000);

static GPT_3: [PresetLimit; 6] = gpt(5000, 2_000_000, 5000, 4_000_000);

static GPT_4: [PresetLimit; 6] = gpt(10_000, 4_000_000, 10_000, 10_000_000);

static GPT_5: [PresetLimit; 6] = gpt(15_000, 40_000_000, 30_000, 180_000_000);

/// Requests and tokens a minute of the GPT-5.6 models, and of those that differ.
const fn gpt(rpm: u64, tpm: u64, luna_rpm: u64, luna_tpm: u64) -> [PresetLimit; 6] {
    [
        of_model("gpt-5.6-sol*", bucket("requests", rpm, MINUTE)),
        of_model("gpt-5.6-sol*", bucket("tokens", tpm, MINUTE)),
        of_model("gpt-5.6-terra*", bucket("requests", rpm, MINUTE)),
        of_model("gpt-5.6-terra*", bucket("tokens", tpm, MINUTE)),
        of_model("gpt-5.6-luna*", bucket("requests", luna_rpm, MINUTE)),
        of_model("gpt-5.6-luna*", bucket("tokens", luna_tpm, MINUTE)),
    ]
}
