//! Slack.

use super::generic::GENERIC;
use crate::vendors::preset::Confidence::High;
use crate::vendors::preset::{MINUTE, Preset, SECOND, of_endpoint, partly, plain, tier};
use crate::vendors::rule::{Scope, sign};
use crate::vendors::vendor::{Dialect, ErrorShape, Vendor};

pub(super) static VENDOR: Vendor = Vendor {
    name: "slack",
    signs: &[sign("x-slack-*")],
    scope: &[Scope::App, Scope::Tenant, Scope::Endpoint],
    dialect: Dialect { error_shape: ErrorShape::Slack, ..Dialect::COMMON },
    preset: Some(&PRESET),
    source: "docs.slack.dev rate limits, 2026",
    ..GENERIC
};

static PRESET: Preset = partly(
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
);
