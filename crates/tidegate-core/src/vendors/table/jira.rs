//! Jira and Confluence in the cloud.

use super::generic::GENERIC;
use crate::vendors::preset::Confidence::High;
use crate::vendors::preset::{HOUR, Preset, SECOND, bucket, of_endpoint, plain, service, tier};
use crate::vendors::rule::{Meaning, RetryUnit, Scope, rule, sign, sign_value};
use crate::vendors::vendor::{Quirks, Vendor};

pub(super) static VENDOR: Vendor = Vendor {
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
    scope: &[Scope::App, Scope::Tenant],
    quirks: Quirks { points: &["quota", "global-based", "tenant-based"], ..Quirks::NONE },
    preset: Some(&PRESET),
    source: "developer.atlassian.com rate limiting, 2026",
    ..GENERIC
};

static PRESET: Preset = service(
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
);
