//! GitHub.

use super::generic::GENERIC;
use crate::vendors::preset::Confidence::High;
use crate::vendors::preset::{HOUR, MINUTE, Preset, concurrency, fixed, of_endpoint, service, tier};
use crate::vendors::reset::ResetForm;
use crate::vendors::rule::{Scope, phrase, sign, sign_value};
use crate::vendors::vendor::{Quirks, Vendor};
use crate::vendors::verdict::Verdict;

pub(super) static VENDOR: Vendor = Vendor {
    name: "github",
    signs: &[sign("x-github-*"), sign("x-ratelimit-resource"), sign_value("server", "github.com")],
    sites: &["docs.github.com"],
    reset: ResetForm::EpochSeconds,
    // The second of the reset is not exact: octokit and PyGithub add one as well.
    reset_margin_ms: 1000,
    errors: &[phrase(
        Verdict::RateLimited,
        &[403, 429],
        &["secondary rate limit", "rate limit exceeded", "abuse detection"],
    )],
    scope: &[Scope::User, Scope::Bucket],
    quirks: Quirks { points: &["graphql"], ..Quirks::NONE },
    preset: Some(&PRESET),
    source: "github/docs@6032175, 2026-08-07",
    ..GENERIC
};

static PRESET: Preset = service(
    "github",
    "github",
    Some("https://api.github.com"),
    &[
        tier(
            "user",
            &[
                fixed("requests", 5000, HOUR),
                of_endpoint("GET /search/*", fixed("requests", 30, MINUTE)),
                concurrency(100),
            ],
            "github/docs@6032175",
            "2026-08-07",
            High,
        ),
        tier(
            "unauthenticated",
            &[fixed("requests", 60, HOUR), concurrency(100)],
            "github/docs@6032175",
            "2026-08-07",
            High,
        ),
        tier(
            "actions-token",
            &[fixed("requests", 1000, HOUR), concurrency(100)],
            "github/docs@6032175",
            "2026-08-07",
            High,
        ),
        tier(
            "enterprise-app",
            &[fixed("requests", 15_000, HOUR), concurrency(100)],
            "github/docs@6032175",
            "2026-08-07",
            High,
        ),
    ],
);
