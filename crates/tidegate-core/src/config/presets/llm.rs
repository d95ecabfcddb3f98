//! Presets of LLM vendors.

use std::time::Duration;

use super::Confidence::{High, Low, Medium};
use super::{
    DAY, MINUTE, Preset, PresetLimit, SECOND, bucket, concurrency, fixed, of_endpoint, of_model, plain, tier,
};
use crate::config::RampConfig;
use crate::model::rate::Algorithm;

const OPENAI_MODELS: &str = "model pages, by rizquuula/coding-plan data/rate_limits.yaml";
const OPENAI_TIER_1: &str =
    "model pages, by rizquuula/coding-plan data/rate_limits.yaml; older models by texts of 429s (2026)";
const ANTHROPIC: &str = "platform.claude.com/docs/en/api/rate-limits";

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

/// Requests, input and output tokens a minute of one class of Claude models. Requests stay a plain rate: 60 a
/// minute may be enforced as one a second, so they are paced.
const fn claude(model: &'static str, rpm: u64, itpm: u64, otpm: u64) -> [PresetLimit; 3] {
    [
        of_model(model, plain("requests", rpm, MINUTE)),
        of_model(model, bucket("input_tokens", itpm, MINUTE)),
        of_model(model, bucket("output_tokens", otpm, MINUTE)),
    ]
}

/// The classes of one Claude tier: Fable, the rest, and Haiku 3.5.
const fn claudes(fable: [u64; 3], others: [u64; 3], old: [u64; 3]) -> [PresetLimit; 15] {
    let a = claude("claude-fable-*", fable[0], fable[1], fable[2]);
    let b = claude("claude-opus-*", others[0], others[1], others[2]);
    let c = claude("claude-sonnet-*", others[0], others[1], others[2]);
    let d = claude("claude-haiku-4*", others[0], others[1], others[2]);
    let e = claude("claude-3-5-haiku*", old[0], old[1], old[2]);
    [a[0], a[1], a[2], b[0], b[1], b[2], c[0], c[1], c[2], d[0], d[1], d[2], e[0], e[1], e[2]]
}

const fn kimi(rpm: u64, at_once: u64, tpm: u64) -> [PresetLimit; 3] {
    [plain("requests", rpm, MINUTE), concurrency(at_once), plain("tokens", tpm, MINUTE)]
}

const fn grok(rps: u64, tpm: u64) -> [PresetLimit; 2] {
    [of_model("grok-4*", plain("requests", rps, SECOND)), of_model("grok-4*", plain("tokens", tpm, MINUTE))]
}

static CLAUDE_START: [PresetLimit; 15] =
    claudes([1000, 500_000, 100_000], [1000, 2_000_000, 400_000], [1000, 100_000, 20_000]);
static CLAUDE_BUILD: [PresetLimit; 15] =
    claudes([2000, 1_500_000, 300_000], [5000, 5_000_000, 1_000_000], [2000, 200_000, 40_000]);
static CLAUDE_SCALE: [PresetLimit; 15] =
    claudes([4000, 4_000_000, 800_000], [10_000, 10_000_000, 2_000_000], [4000, 400_000, 80_000]);

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

static GROQ_FREE: [PresetLimit; 4] = [
    bucket("requests", 1000, DAY),
    bucket("requests", 30, MINUTE),
    bucket("tokens", 8000, MINUTE),
    bucket("tokens", 200_000, DAY),
];

static GEMINI_FREE: [PresetLimit; 3] = [
    plain("requests", 5, MINUTE),
    plain("tokens", 250_000, MINUTE),
    PresetLimit {
        algorithm: Some(Algorithm::FixedWindow),
        calendar: Some("America/Los_Angeles"),
        ..plain("requests", 20, DAY)
    },
];

static GROK: [[PresetLimit; 2]; 5] = [
    grok(150, 50_000_000),
    grok(172, 53_000_000),
    grok(208, 60_000_000),
    grok(312, 74_000_000),
    grok(500, 100_000_000),
];

static KIMI: [[PresetLimit; 3]; 6] = [
    kimi(3, 1, 500_000),
    kimi(200, 50, 2_000_000),
    kimi(500, 100, 3_000_000),
    kimi(5000, 200, 3_000_000),
    kimi(5000, 400, 4_000_000),
    kimi(10_000, 1000, 5_000_000),
];

const XAI: &str = "docs.x.ai/developers/rate-limits.md";
const KIMI_SOURCE: &str = "rizquuula/coding-plan data/rate_limits.yaml";

pub(super) static PRESETS: &[Preset] = &[
    Preset {
        name: "openai",
        vendor: "openai",
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
    },
    // Quota is per subscription, region and model, and every resource has an address of its own.
    Preset {
        name: "azure-openai",
        vendor: "azure-openai",
        upstream: None,
        base_url_env: &[("AZURE_OPENAI_ENDPOINT", "")],
        all_tiers: false,
        ramp: None,
        tiers: &[],
    },
    Preset {
        name: "anthropic",
        vendor: "anthropic",
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
    },
    Preset {
        name: "gemini",
        vendor: "google-gemini",
        upstream: Some("https://generativelanguage.googleapis.com"),
        base_url_env: &[("GOOGLE_GEMINI_BASE_URL", "")],
        all_tiers: false,
        ramp: None,
        tiers: &[tier("free", &GEMINI_FREE, "reports; no longer published", "2026-09", Low)],
    },
    Preset {
        name: "mistral",
        vendor: "mistral",
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
    },
    Preset {
        name: "groq",
        vendor: "groq",
        upstream: Some("https://api.groq.com"),
        base_url_env: &[("GROQ_BASE_URL", "")],
        all_tiers: false,
        ramp: None,
        tiers: &[tier("free", &GROQ_FREE, "console.groq.com/docs/rate-limits", "2026", High)],
    },
    Preset {
        name: "cohere",
        vendor: "cohere",
        upstream: Some("https://api.cohere.com"),
        base_url_env: &[("CO_API_URL", "")],
        all_tiers: true,
        ramp: None,
        tiers: &[
            tier(
                "trial",
                &[
                    of_endpoint("POST /v2/chat", plain("requests", 20, MINUTE)),
                    of_endpoint("POST /v2/rerank", plain("requests", 10, MINUTE)),
                    of_endpoint("POST /v2/embed", plain("inputs", 2000, MINUTE)),
                ],
                "docs.cohere.com/docs/rate-limits",
                "2026",
                High,
            ),
            tier(
                "production",
                &[
                    of_endpoint("POST /v2/chat", plain("requests", 500, MINUTE)),
                    of_endpoint("POST /v2/rerank", plain("requests", 1000, MINUTE)),
                    of_endpoint("POST /v2/embed", plain("inputs", 2000, MINUTE)),
                ],
                "docs.cohere.com/docs/rate-limits",
                "2026",
                High,
            ),
        ],
    },
    Preset {
        name: "deepseek",
        vendor: "deepseek",
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
    },
    Preset {
        name: "openrouter",
        vendor: "openrouter",
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
    },
    Preset {
        name: "xai",
        vendor: "xai",
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
    },
    Preset {
        name: "together",
        vendor: "together",
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
    },
    // Quotas are per account, region and model; every region has an address of its own.
    Preset {
        name: "bedrock",
        vendor: "aws-bedrock",
        upstream: None,
        base_url_env: &[("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "")],
        all_tiers: false,
        ramp: None,
        tiers: &[],
    },
    Preset {
        name: "cerebras",
        vendor: "cerebras",
        upstream: Some("https://api.cerebras.ai"),
        base_url_env: &[("CEREBRAS_BASE_URL", "")],
        all_tiers: false,
        ramp: None,
        tiers: &[],
    },
    Preset {
        name: "fireworks",
        vendor: "fireworks",
        upstream: Some("https://api.fireworks.ai"),
        base_url_env: &[],
        all_tiers: false,
        ramp: None,
        tiers: &[],
    },
    Preset {
        name: "kimi",
        vendor: "kimi",
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
    },
];
