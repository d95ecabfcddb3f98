//! Everybody else: code hosts, shops, messengers, trackers.

use super::generic::GENERIC;
use super::rule::{
    clear_phrase, code, family, field, named, named_family, own_code, phrase, rule, sign, sign_value, status,
};
use super::{FieldOf, Meaning, RetryUnit, Scope, Vendor, ZeroLimit};
use crate::vendors::kind::Kind;
use crate::vendors::reset::ResetForm;
use crate::vendors::verdict::Verdict;
use crate::vendors::words::Field;
use crate::vendors::words::{DAY, SECOND};

pub(super) static ROWS: &[Vendor] = &[
    Vendor {
        name: "github",
        signs: &[sign("x-github-*"), sign("x-ratelimit-resource"), sign_value("server", "github.com")],
        sites: &["docs.github.com"],
        reset: ResetForm::EpochSeconds,
        // The second of the reset is not exact: octokit and PyGithub add one as well.
        reset_margin_ms: 1000,
        points: &["graphql"],
        errors: &[phrase(
            Verdict::RateLimited,
            &[403, 429],
            &["secondary rate limit", "rate limit exceeded", "abuse detection"],
        )],
        scope: &[Scope::User, Scope::Bucket],
        source: "github/docs@6032175, 2026-08-07",
        ..GENERIC
    },
    Vendor {
        name: "gitlab",
        signs: &[
            sign("x-gitlab-*"),
            sign("gitlab-lb"),
            sign("gitlab-sv"),
            sign("ratelimit-observed"),
            sign("ratelimit-resettime"),
        ],
        reset: ResetForm::EpochSeconds,
        scope: &[Scope::User, Scope::Address],
        source: "gitlabhq user_and_ip_rate_limits.md@0286e4c, 2026",
        ..GENERIC
    },
    Vendor {
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
        source: "docs.stripe.com/rate-limits, 2026",
        ..GENERIC
    },
    Vendor {
        name: "shopify",
        signs: &[sign("x-shopify-*")],
        headers: &[rule(
            "x-shopify-shop-api-call-limit",
            Meaning::UsedOfLimit(FieldOf {
                field: Field::Used,
                kind: Kind::Requests,
                window_ms: None,
                name: None,
            }),
        )],
        errors: &[code(Verdict::RateLimited, &["throttled"])],
        scope: &[Scope::App, Scope::Tenant],
        source: "shopify.dev limits, 2026",
        ..GENERIC
    },
    Vendor {
        name: "slack",
        signs: &[sign("x-slack-*")],
        scope: &[Scope::App, Scope::Tenant, Scope::Endpoint],
        source: "docs.slack.dev rate limits, 2026",
        ..GENERIC
    },
    Vendor {
        name: "discord",
        signs: &[
            sign("x-ratelimit-bucket"),
            sign("x-ratelimit-scope"),
            sign("x-ratelimit-global"),
            sign("x-ratelimit-reset-after"),
            sign("x-discord-*"),
        ],
        scope: &[Scope::App, Scope::Bucket],
        source: "discord/discord-api-docs@c98d64b, 2026-08-06",
        ..GENERIC
    },
    Vendor {
        name: "x-twitter",
        aliases: &["x", "twitter"],
        signs: &[
            sign("x-app-limit-24hour-*"),
            sign("x-user-limit-24hour-*"),
            sign("x-twitter-*"),
            sign_value("server", "tsa_"),
        ],
        headers: &[
            named_family("x-app-limit-*", Kind::Requests, "app"),
            named_family("x-user-limit-*", Kind::Requests, "user"),
        ],
        reset: ResetForm::EpochSeconds,
        errors: &[
            code(Verdict::QuotaExhausted, &["usagecapexceeded", "usage-capped"]),
            own_code(Verdict::RateLimited, &["88"]),
        ],
        scope: &[Scope::App, Scope::User, Scope::Endpoint],
        source: "xdevplatform/docs@0bfed9f, 2026",
        ..GENERIC
    },
    Vendor {
        name: "reddit",
        signs: &[sign("x-reddit-*"), sign_value("server", "snooserv")],
        reset: ResetForm::Seconds,
        scope: &[Scope::App],
        source: "Reddit Data API wiki and measurements, 2026-08",
        ..GENERIC
    },
    Vendor {
        name: "notion",
        signs: &[sign("x-notion-*")],
        errors: &[
            code(Verdict::QuotaExhausted, &["public_api_request_blocked"]),
            code(Verdict::Overloaded, &["service_overload"]),
        ],
        scope: &[Scope::App, Scope::Tenant],
        source: "developers.notion.com request limits, 2026",
        ..GENERIC
    },
    Vendor {
        name: "cloudflare",
        aliases: &["cloudflare-api"],
        signs: &[sign("cf-auditlog-id")],
        scope: &[Scope::User, Scope::Key],
        source: "developers.cloudflare.com limits, 2026-04; changelog 2025-09-03",
        ..GENERIC
    },
    Vendor {
        name: "confluence-dc",
        aliases: &["jira-dc", "atlassian-dc", "bitbucket-dc"],
        signs: &[sign("x-ratelimit-fillrate"), sign("x-ratelimit-interval-seconds")],
        scope: &[Scope::User],
        source: "confluence.atlassian.com rate limiting (Data Center), 2026",
        ..GENERIC
    },
    Vendor {
        name: "jira",
        aliases: &["confluence", "atlassian", "jira-cloud", "confluence-cloud"],
        signs: &[
            sign("atl-traceid"),
            sign("atl-request-id"),
            sign("x-arequestid"),
            sign("beta-ratelimit"),
            sign("beta-ratelimit-policy"),
            sign("x-beta-ratelimit"),
            sign("x-beta-ratelimit-policy"),
            sign_value("ratelimit-reason", "*-based"),
            sign_value("ratelimit-reason", "jira-"),
        ],
        headers: &[rule("beta-retry-after", Meaning::RetryAfter(RetryUnit::OtherSeconds))],
        points: &["quota", "global-based", "tenant-based"],
        scope: &[Scope::App, Scope::Tenant],
        source: "developer.atlassian.com rate limiting, 2026",
        ..GENERIC
    },
    Vendor {
        name: "salesforce",
        signs: &[sign("sforce-*")],
        headers: &[rule(
            "sforce-limit-info",
            Meaning::NamedUsedOfLimit(FieldOf {
                field: Field::Used,
                kind: Kind::Requests,
                window_ms: Some(DAY),
                name: None,
            }),
        )],
        errors: &[
            clear_phrase(
                Verdict::ConcurrencyLimited,
                &[403],
                &["concurrentrequests", "concurrentperorglongtxn", "concurrent api requests"],
            ),
            code(Verdict::RateLimited, &["request_limit_exceeded"]),
        ],
        scope: &[Scope::Organization],
        source: "developer.salesforce.com API limits, 2026",
        ..GENERIC
    },
    Vendor {
        name: "twilio",
        signs: &[sign("twilio-*")],
        headers: &[field("twilio-concurrent-requests", Field::Used, Kind::Concurrency)],
        errors: &[code(Verdict::ConcurrencyLimited, &["20429"]), status(Verdict::ConcurrencyLimited, &[429])],
        scope: &[Scope::Organization],
        source: "twilio.com/docs error 20429, 2026",
        ..GENERIC
    },
    Vendor {
        name: "hubspot",
        signs: &[sign("x-hubspot-*")],
        headers: &[
            named("x-hubspot-ratelimit-daily", Field::Limit, Kind::Requests, "daily", Some(DAY)),
            named(
                "x-hubspot-ratelimit-daily-remaining",
                Field::Remaining,
                Kind::Requests,
                "daily",
                Some(DAY),
            ),
            named("x-hubspot-ratelimit-max", Field::Limit, Kind::Requests, "interval", None),
            named("x-hubspot-ratelimit-remaining", Field::Remaining, Kind::Requests, "interval", None),
            named(
                "x-hubspot-ratelimit-interval-milliseconds",
                Field::WindowMillis,
                Kind::Requests,
                "interval",
                None,
            ),
            named("x-hubspot-ratelimit-secondly", Field::Limit, Kind::Requests, "secondly", Some(SECOND)),
            named(
                "x-hubspot-ratelimit-secondly-remaining",
                Field::Remaining,
                Kind::Requests,
                "secondly",
                Some(SECOND),
            ),
        ],
        scope: &[Scope::App, Scope::Tenant],
        source: "captured replies, 2026",
        ..GENERIC
    },
    Vendor {
        name: "zendesk",
        signs: &[sign("x-zendesk-*"), sign("zendesk-*")],
        headers: &[
            rule("zendesk-ratelimit-*", Meaning::KeyValues(Kind::Requests)),
            rule("zendesk-ratelimit-inflight-jobs", Meaning::KeyValues(Kind::Concurrency)),
        ],
        scope: &[Scope::Tenant, Scope::Endpoint],
        source: "developer.zendesk.com rate limits, 2026",
        ..GENERIC
    },
    Vendor {
        name: "okta",
        signs: &[sign("x-okta-*")],
        reset: ResetForm::EpochSeconds,
        // Okta's own SDK waits one second more than the reset says.
        reset_margin_ms: 1000,
        zero_limit: ZeroLimit::Concurrency,
        scope: &[Scope::Organization, Scope::Endpoint],
        source: "developer.okta.com rl-best-practices, 2026; okta SDK 3.4.6",
        ..GENERIC
    },
    Vendor {
        name: "linear",
        signs: &[
            sign("x-complexity"),
            sign("x-ratelimit-requests-*"),
            sign("x-ratelimit-complexity-*"),
            sign("x-ratelimit-endpoint-*"),
        ],
        headers: &[field("x-complexity", Field::Cost, Kind::Complexity)],
        reset: ResetForm::EpochMillis,
        scope: &[Scope::User, Scope::App],
        source: "linear.app/developers/rate-limiting, 2026",
        ..GENERIC
    },
    Vendor {
        name: "dockerhub",
        aliases: &["docker", "docker-hub"],
        signs: &[sign("docker-*")],
        headers: &[family("docker-ratelimit-*", Kind::Requests)],
        scope: &[Scope::User, Scope::Address],
        source: "docker/docs pulls.md@000a96d, 2026; measured 2026-09-12",
        ..GENERIC
    },
];
