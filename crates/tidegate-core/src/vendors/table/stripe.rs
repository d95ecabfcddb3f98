//! Stripe.

use super::generic::GENERIC;
use crate::vendors::preset::Confidence::High;
use crate::vendors::preset::{Preset, SECOND, of_endpoint, plain, service, tier};
use crate::vendors::rule::{Meaning, Scope, code, own_code, rule, sign};
use crate::vendors::vendor::{Dialect, ErrorShape, Vendor};
use crate::vendors::verdict::Verdict;

pub(super) static VENDOR: Vendor = Vendor {
    name: "stripe",
    signs: &[sign("stripe-*")],
    headers: &[
        rule("stripe-should-retry", Meaning::ShouldRetry),
        rule("stripe-rate-limited-reason", Meaning::ErrorCode),
    ],
    errors: &[
        code(Verdict::ConcurrencyLimited, &["global-concurrency", "endpoint-concurrency"]),
        // Two calls fought over one object: nothing was too fast.
        code(Verdict::Overloaded, &["lock_timeout"]),
        own_code(Verdict::RateLimited, &["global-rate", "endpoint-rate", "resource-specific"]),
    ],
    scope: &[Scope::Organization, Scope::Endpoint],
    dialect: Dialect { error_shape: ErrorShape::OpenAi, ..Dialect::COMMON },
    preset: Some(&PRESET),
    source: "docs.stripe.com/rate-limits, 2026",
    ..GENERIC
};

static PRESET: Preset = service(
    "stripe",
    "stripe",
    Some("https://api.stripe.com"),
    &[
        tier("sandbox", &[plain("requests", 25, SECOND)], "docs.stripe.com/rate-limits", "2026", High),
        tier(
            "live",
            &[
                plain("requests", 100, SECOND),
                of_endpoint("* /v1/files*", plain("requests", 20, SECOND)),
                of_endpoint("GET /v1/*/search", plain("requests", 20, SECOND)),
            ],
            "docs.stripe.com/rate-limits",
            "2026",
            High,
        ),
    ],
);
