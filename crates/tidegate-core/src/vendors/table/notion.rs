//! Notion.

use super::generic::GENERIC;
use crate::vendors::preset::Confidence::High;
use crate::vendors::preset::{MINUTE, Preset, fixed, service, tier};
use crate::vendors::rule::{Scope, code, sign};
use crate::vendors::vendor::Vendor;
use crate::vendors::verdict::Verdict;

pub(super) static VENDOR: Vendor = Vendor {
    name: "notion",
    signs: &[sign("x-notion-*")],
    errors: &[
        code(Verdict::QuotaExhausted, &["public_api_request_blocked"]),
        code(Verdict::Overloaded, &["service_overload"]),
    ],
    scope: &[Scope::App, Scope::Tenant],
    preset: Some(&PRESET),
    source: "developers.notion.com request limits, 2026",
    ..GENERIC
};

static PRESET: Preset = service(
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
);
