//! LLM vendors.
//!
//! Azure comes before OpenAI because its replies carry OpenAI's headers besides its own.

use super::generic::GENERIC;
use super::rule::{
    clear_phrase, code, family, named, named_family, own_code, phrase, rule, sign, sign_value, status,
};
use super::{Admission, Counting, Meaning, Scope, Vendor, ZeroLimit};
use crate::model::settle_rule::SettleRule;
use crate::vendors::kind::Kind;
use crate::vendors::verdict::Verdict;
use crate::vendors::words::Field;
use crate::vendors::words::{DAY, MINUTE};

pub(super) static ROWS: &[Vendor] = &[
    Vendor {
        name: "azure-openai",
        aliases: &["azure", "azure-foundry"],
        signs: &[
            sign("apim-request-id"),
            sign("azureml-model-session"),
            sign("x-ms-region"),
            sign("x-ms-deployment-name"),
            sign("x-ms-rai-invoked"),
        ],
        // A streaming call that is refused arrives as 200 with a retry hint and an error event.
        hint_on_success_refuses: true,
        errors: &[phrase(
            Verdict::Overloaded,
            &[429, 503],
            &["temporarily unable to process your request", "experiencing high demand"],
        )],
        scope: &[Scope::Organization, Scope::Deployment, Scope::Model],
        counting: Counting {
            admission: Admission::InputPlusMax,
            unspent: SettleRule::Keep,
            failures_count: true,
            ..Counting::PLAIN
        },
        source: "MicrosoftDocs/azure-ai-docs quota-1.md 2026-09-16, troubleshoot-errors.md 2026-09-20",
        ..GENERIC
    },
    Vendor {
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
        source: "platform.claude.com rate-limits and errors, 2026-10-04; anthropic-python 2.8.0",
        ..GENERIC
    },
    Vendor {
        name: "google-gemini",
        aliases: &["gemini", "google", "vertex", "google-vertex"],
        signs: &[sign("x-gemini-service-tier"), sign_value("server", "scaffolding on httpserver2")],
        sites: &["generativelanguage.googleapis.com", "ai.google.dev"],
        errors: &[
            // The retry delay is given even where waiting does not help: a day's quota, or none at all.
            code(Verdict::QuotaExhausted, &["generate*perday*", "*perdayperproject*"]),
            clear_phrase(Verdict::QuotaExhausted, &[429], &["limit: 0"]),
            code(Verdict::Overloaded, &["unavailable"]),
        ],
        scope: &[Scope::Project, Scope::Model],
        counting: Counting { admission: Admission::InputOnly, ..Counting::PLAIN },
        source: "ai.google.dev rate-limits, 2026-09",
        ..GENERIC
    },
    Vendor {
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
        zero_limit: ZeroLimit::NotInPlan,
        scope: &[Scope::Organization, Scope::Model],
        source: "captured replies, 2026",
        ..GENERIC
    },
    Vendor {
        name: "groq",
        signs: &[sign("x-groq-*")],
        sites: &["console.groq.com"],
        windows: &[(Kind::Requests, DAY), (Kind::Tokens, MINUTE)],
        errors: &[
            // A day's tokens do not come back soon enough to wait for.
            phrase(Verdict::QuotaExhausted, &[429], &["tokens per day (tpd)", "requests per day (rpd)"]),
            status(Verdict::Overloaded, &[498]),
        ],
        scope: &[Scope::Organization, Scope::Model],
        counting: Counting { cached_counts: false, ..Counting::PLAIN },
        source: "console.groq.com/docs/rate-limits, 2026",
        ..GENERIC
    },
    Vendor {
        name: "cohere",
        signs: &[
            sign("x-endpoint-monthly-call-limit"),
            sign("x-trial-endpoint-call-limit"),
            sign("x-trial-endpoint-call-remaining"),
        ],
        headers: &[
            named("x-endpoint-monthly-call-limit", Field::Limit, Kind::Requests, "month", None),
            named("x-endpoint-monthly-call-remaining", Field::Remaining, Kind::Requests, "month", None),
            named("x-trial-endpoint-call-limit", Field::Limit, Kind::Requests, "trial", Some(MINUTE)),
            named("x-trial-endpoint-call-remaining", Field::Remaining, Kind::Requests, "trial", Some(MINUTE)),
        ],
        errors: &[phrase(Verdict::QuotaExhausted, &[429], &["calls / month", "calls per month"])],
        scope: &[Scope::Key, Scope::Endpoint],
        source: "docs.cohere.com/docs/rate-limits, 2026",
        ..GENERIC
    },
    Vendor {
        name: "deepseek",
        signs: &[sign("x-ds-trace-id")],
        // What it limits is the number of calls at once.
        errors: &[
            code(Verdict::QuotaExhausted, &["insufficient balance"]),
            phrase(Verdict::QuotaExhausted, &[429], &["insufficient balance"]),
            status(Verdict::ConcurrencyLimited, &[429]),
        ],
        scope: &[Scope::Organization, Scope::Model],
        source: "api-docs.deepseek.com, read 2026-10",
        ..GENERIC
    },
    Vendor {
        name: "xai",
        aliases: &["x-ai", "grok"],
        signs: &[sign("x-xai-*"), sign("xai-*")],
        scope: &[Scope::Organization, Scope::Model],
        source: "docs.x.ai/developers/rate-limits.md, 2026-10",
        ..GENERIC
    },
    Vendor {
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
        source: "docs.together.ai/docs/serverless/rate-limits, 2026",
        ..GENERIC
    },
    Vendor {
        name: "aws-bedrock",
        aliases: &["bedrock", "aws"],
        signs: &[sign("x-amzn-bedrock-*"), sign("x-amzn-errortype"), sign("x-amzn-requestid")],
        headers: &[
            rule("x-amzn-errortype", Meaning::ErrorCode),
            rule("x-amzn-bedrock-input-token-count", Meaning::InputTokens),
            rule("x-amzn-bedrock-output-token-count", Meaning::OutputTokens),
        ],
        errors: &[
            code(Verdict::QuotaExhausted, &["servicequotaexceededexception", "servicequotaexceeded"]),
            code(
                Verdict::Overloaded,
                &["modelnotreadyexception", "serviceunavailableexception", "serviceunavailable"],
            ),
            code(
                Verdict::RateLimited,
                &[
                    "throttlingexception",
                    "throttledexception",
                    "requestthrottled",
                    "requestthrottledexception",
                    "requestlimitexceeded",
                    "toomanyrequestsexception",
                    "provisionedthroughputexceededexception",
                    "bandwidthlimitexceeded",
                    "priorrequestnotcomplete",
                    "ec2throttledexception",
                ],
            ),
        ],
        scope: &[Scope::Organization, Scope::Deployment, Scope::Model],
        counting: Counting {
            admission: Admission::InputPlusModelMax,
            cached_counts: false,
            output_weight: 5,
            ..Counting::PLAIN
        },
        source: "docs.aws.amazon.com bedrock quotas-runtime, 2026; botocore 1.44.0",
        ..GENERIC
    },
    Vendor {
        name: "cerebras",
        signs: &[sign("x-cerebras-*")],
        scope: &[Scope::Organization, Scope::Model],
        counting: Counting { admission: Admission::InputPlusModelMax, ..Counting::PLAIN },
        source: "inference-docs.cerebras.ai rate limits, 2026",
        ..GENERIC
    },
    Vendor {
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
        source: "developers.openai.com/api/docs/guides/rate-limits, 2026-10",
        ..GENERIC
    },
    Vendor {
        name: "fireworks",
        aliases: &["fireworks-ai"],
        signs: &[sign("fireworks-*"), sign("x-ratelimit-limit-tokens-prompt")],
        scope: &[Scope::Organization, Scope::Model],
        source: "captured replies, 2026",
        ..GENERIC
    },
    Vendor {
        name: "kimi",
        aliases: &["moonshot"],
        signs: &[sign("msh-*")],
        errors: &[
            code(Verdict::QuotaExhausted, &["exceeded_current_quota_error"]),
            phrase(Verdict::ConcurrencyLimited, &[429], &["max organization concurrency"]),
            own_code(Verdict::RateLimited, &["rate_limit_reached_error"]),
        ],
        scope: &[Scope::Organization],
        source: "coding-plan rate_limits.yaml, 2026-08-28",
        ..GENERIC
    },
    Vendor { name: "nous", source: "captured replies, 2026", ..GENERIC },
];
