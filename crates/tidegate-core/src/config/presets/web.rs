//! Presets of everybody else.

use super::Confidence::{High, Medium};
use super::{
    DAY, HOUR, MINUTE, Preset, PresetLimit, SECOND, Tier, bucket, concurrency, fixed, of_endpoint, plain,
    tier,
};

/// A service without known limits or with limits that every customer negotiates.
const fn unlimited(name: &'static str, vendor: &'static str, upstream: Option<&'static str>) -> Preset {
    Preset { name, vendor, upstream, base_url_env: &[], all_tiers: false, ramp: None, tiers: &[] }
}

/// A service whose every tier is listed.
const fn service(
    name: &'static str,
    vendor: &'static str,
    upstream: Option<&'static str>,
    tiers: &'static [Tier],
) -> Preset {
    Preset { name, vendor, upstream, base_url_env: &[], all_tiers: true, ramp: None, tiers }
}

/// A service with more tiers than are listed.
const fn partly(
    name: &'static str,
    vendor: &'static str,
    upstream: Option<&'static str>,
    tiers: &'static [Tier],
) -> Preset {
    Preset { all_tiers: false, ..service(name, vendor, upstream, tiers) }
}

/// Shopify's REST bucket: leaks so many a second, holds twenty times that.
const fn leaky(per_second: u64) -> PresetLimit {
    PresetLimit { burst: Some(per_second * 20), ..bucket("requests", per_second, SECOND) }
}

const SHOPIFY: &str = "shopify.dev limits";
const ZENDESK: &str = "developer.zendesk.com rate limits";

pub(super) static PRESETS: &[Preset] = &[
    service(
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
    ),
    unlimited("gitlab", "gitlab", Some("https://gitlab.com")),
    service(
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
    ),
    service(
        "shopify",
        "shopify",
        None,
        &[
            tier("basic", &[leaky(2)], SHOPIFY, "2026", High),
            tier("advanced", &[leaky(4)], SHOPIFY, "2026", High),
            tier("plus", &[leaky(20)], SHOPIFY, "2026", High),
        ],
    ),
    partly(
        "slack",
        "slack",
        Some("https://slack.com"),
        &[tier(
            "app",
            &[
                of_endpoint("* /api/chat.postMessage", plain("requests", 1, SECOND)),
                of_endpoint("* /api/conversations.history", plain("requests", 1, MINUTE)),
                of_endpoint("* /api/conversations.replies", plain("requests", 1, MINUTE)),
            ],
            "docs.slack.dev rate limits (new commercial apps outside the marketplace)",
            "2026",
            High,
        )],
    ),
    service(
        "discord",
        "discord",
        Some("https://discord.com"),
        &[tier(
            "bot",
            &[plain("requests", 50, SECOND)],
            "discord/discord-api-docs@c98d64b",
            "2026-08-06",
            High,
        )],
    ),
    unlimited("x", "x-twitter", Some("https://api.x.com")),
    service(
        "reddit",
        "reddit",
        Some("https://oauth.reddit.com"),
        &[tier("oauth", &[plain("requests", 100, MINUTE)], "Reddit Data API wiki", "2026", High)],
    ),
    service(
        "notion",
        "notion",
        Some("https://api.notion.com"),
        &[
            tier(
                "free-and-plus",
                &[fixed("requests", 180, MINUTE)],
                "developers.notion.com request limits",
                "2026",
                High,
            ),
            tier(
                "business",
                &[fixed("requests", 600, MINUTE)],
                "developers.notion.com request limits",
                "2026",
                High,
            ),
        ],
    ),
    service(
        "cloudflare",
        "cloudflare",
        Some("https://api.cloudflare.com"),
        &[tier(
            "user",
            &[
                plain("requests", 1200, 5 * MINUTE),
                of_endpoint("POST /client/v4/graphql", plain("requests", 320, 5 * MINUTE)),
            ],
            "developers.cloudflare.com limits",
            "2026-04",
            High,
        )],
    ),
    service(
        "jira",
        "jira",
        None,
        &[tier(
            "cloud",
            &[
                of_endpoint("GET /*", bucket("requests", 100, SECOND)),
                of_endpoint("POST /*", bucket("requests", 100, SECOND)),
                of_endpoint("PUT /*", bucket("requests", 50, SECOND)),
                of_endpoint("DELETE /*", bucket("requests", 50, SECOND)),
                plain("points", 65_000, HOUR),
            ],
            "developer.atlassian.com rate limiting",
            "2026",
            High,
        )],
    ),
    service(
        "salesforce",
        "salesforce",
        None,
        &[tier(
            "org",
            &[concurrency(25)],
            "developer.salesforce.com API limits (calls of 20 s and more)",
            "2026",
            Medium,
        )],
    ),
    unlimited("twilio", "twilio", Some("https://api.twilio.com")),
    unlimited("hubspot", "hubspot", Some("https://api.hubapi.com")),
    service(
        "zendesk",
        "zendesk",
        None,
        &[
            tier("team", &[plain("requests", 200, MINUTE)], ZENDESK, "2026", High),
            tier("professional", &[plain("requests", 400, MINUTE)], ZENDESK, "2026", High),
            tier("enterprise", &[plain("requests", 700, MINUTE)], ZENDESK, "2026", High),
            tier("high-volume", &[plain("requests", 2500, MINUTE)], ZENDESK, "2026", High),
        ],
    ),
    partly(
        "okta",
        "okta",
        None,
        &[tier("org", &[concurrency(75)], "developer.okta.com rl-best-practices", "2026", Medium)],
    ),
    partly(
        "linear",
        "linear",
        Some("https://api.linear.app"),
        &[tier(
            "api-key",
            &[bucket("requests", 2500, HOUR), bucket("complexity", 250_000, HOUR)],
            "linear.app/developers/rate-limiting; its published numbers differ, these are the lowest",
            "2026",
            Medium,
        )],
    ),
    partly(
        "dockerhub",
        "dockerhub",
        Some("https://registry-1.docker.io"),
        &[tier(
            "anonymous",
            &[plain("requests", 100, DAY / 4)],
            "docker/docs pulls.md@000a96d",
            "2026",
            Medium,
        )],
    ),
];
