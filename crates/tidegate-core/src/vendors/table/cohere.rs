//! Cohere.

use super::generic::GENERIC;
use crate::vendors::kind::Kind;
use crate::vendors::preset::Confidence::High;
use crate::vendors::preset::{MINUTE, Preset, of_endpoint, plain, tier};
use crate::vendors::rule::{Scope, named, phrase, sign};
use crate::vendors::vendor::Vendor;
use crate::vendors::verdict::Verdict;
use crate::vendors::words;
use crate::vendors::words::Field;

pub(super) static VENDOR: Vendor = Vendor {
    name: "cohere",
    signs: &[
        sign("x-endpoint-monthly-call-limit"),
        sign("x-trial-endpoint-call-limit"),
        sign("x-trial-endpoint-call-remaining"),
    ],
    headers: &[
        named("x-endpoint-monthly-call-limit", Field::Limit, Kind::Requests, "month", None),
        named("x-endpoint-monthly-call-remaining", Field::Remaining, Kind::Requests, "month", None),
        named("x-trial-endpoint-call-limit", Field::Limit, Kind::Requests, "trial", Some(words::MINUTE)),
        named(
            "x-trial-endpoint-call-remaining",
            Field::Remaining,
            Kind::Requests,
            "trial",
            Some(words::MINUTE),
        ),
    ],
    errors: &[phrase(Verdict::QuotaExhausted, &[429], &["calls / month", "calls per month"])],
    scope: &[Scope::Key, Scope::Endpoint],
    preset: Some(&PRESET),
    source: "docs.cohere.com/docs/rate-limits, 2026",
    ..GENERIC
};

static PRESET: Preset = Preset {
    name: "cohere",
    vendor: "cohere",
    llm: true,
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
};
