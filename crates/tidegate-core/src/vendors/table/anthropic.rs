//! Anthropic.

use std::time::Duration;

use super::generic::GENERIC;
use crate::model::ramp::RampConfig;
use crate::vendors::counting::Counting;
use crate::vendors::kind::Kind;
use crate::vendors::preset::Confidence::High;
use crate::vendors::preset::{MINUTE, Preset, PresetLimit, bucket, of_model, plain, tier};
use crate::vendors::rule::{Meaning, Scope, clear_phrase, code, family, named_family, rule, sign};
use crate::vendors::vendor::{Dialect, ErrorShape, Vendor};
use crate::vendors::verdict::Verdict;

pub(super) static VENDOR: Vendor = Vendor {
    name: "anthropic",
    aliases: &["claude"],
    signs: &[sign("anthropic-*")],
    headers: &[
        family("anthropic-ratelimit-*", Kind::Requests),
        named_family("anthropic-fast-*", Kind::Tokens, "fast"),
        named_family("anthropic-priority-*", Kind::Tokens, "priority"),
        rule("anthropic-ratelimit-unified-*", Meaning::Utilization { prefix: "unified" }),
    ],
    errors: &[
        // The message may change its wording, so the code decides where there is one.
        code(Verdict::QuotaExhausted, &["enforced_spend_limit_reached"]),
        code(Verdict::RateLimited, &["ramp_limit_exceeded"]),
        clear_phrase(
            Verdict::QuotaExhausted,
            &[400],
            &[
                "you have reached your specified api usage limits",
                "you have reached your specified workspace api usage limits",
            ],
        ),
    ],
    scope: &[Scope::Organization, Scope::Model],
    counting: Counting { cached_counts: false, ..Counting::PLAIN },
    dialect: Dialect { key_header: Some("x-api-key"), error_shape: ErrorShape::Anthropic, ..Dialect::COMMON },
    preset: Some(&PRESET),
    source: "platform.claude.com rate-limits and errors, 2026-10-04; anthropic-python 2.8.0",
    ..GENERIC
};

static PRESET: Preset = Preset {
    name: "anthropic",
    vendor: "anthropic",
    llm: true,
    upstream: Some("https://api.anthropic.com"),
    base_url_env: &[("ANTHROPIC_BASE_URL", "")],
    all_tiers: false,
    // "Acceleration limits" on sharp growth are documented, their numbers are not.
    ramp: Some(RampConfig { idle: Duration::from_secs(300), from: 0.5, over: Duration::from_secs(60) }),
    tiers: &[
        tier("start", &CLAUDE_START, ANTHROPIC, "2026-10", High),
        tier("build", &CLAUDE_BUILD, ANTHROPIC, "2026-10", High),
        tier("scale", &CLAUDE_SCALE, ANTHROPIC, "2026-10", High),
    ],
};

const ANTHROPIC: &str = "platform.claude.com/docs/en/api/rate-limits";

static CLAUDE_START: [PresetLimit; 15] =
    claudes([1000, 500_000, 100_000], [1000, 2_000_000, 400_000], [1000, 100_000, 20_000]);

static CLAUDE_BUILD: [PresetLimit; 15] =
    claudes([2000, 1_500_000, 300_000], [5000, 5_000_000, 1_000_000], [2000, 200_000, 40_000]);

static CLAUDE_SCALE: [PresetLimit; 15] =
    claudes([4000, 4_000_000, 800_000], [10_000, 10_000_000, 2_000_000], [4000, 400_000, 80_000]);

/// The classes of one Claude tier: Fable, the rest, and Haiku 3.5.
const fn claudes(fable: [u64; 3], others: [u64; 3], old: [u64; 3]) -> [PresetLimit; 15] {
    let a = claude("claude-fable-*", fable[0], fable[1], fable[2]);
    let b = claude("claude-opus-*", others[0], others[1], others[2]);
    let c = claude("claude-sonnet-*", others[0], others[1], others[2]);
    let d = claude("claude-haiku-4*", others[0], others[1], others[2]);
    let e = claude("claude-3-5-haiku*", old[0], old[1], old[2]);
    [a[0], a[1], a[2], b[0], b[1], b[2], c[0], c[1], c[2], d[0], d[1], d[2], e[0], e[1], e[2]]
}

/// Requests, input and output tokens a minute of one class of Claude models. Requests stay a plain rate: 60 a
/// minute may be enforced as one a second, so they are paced.
const fn claude(model: &'static str, rpm: u64, itpm: u64, otpm: u64) -> [PresetLimit; 3] {
    [
        of_model(model, plain("requests", rpm, MINUTE)),
        of_model(model, bucket("input_tokens", itpm, MINUTE)),
        of_model(model, bucket("output_tokens", otpm, MINUTE)),
    ]
}
