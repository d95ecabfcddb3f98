//! Cloudflare.

use super::generic::GENERIC;
use crate::vendors::preset::Confidence::High;
use crate::vendors::preset::{MINUTE, Preset, of_endpoint, plain, service, tier};
use crate::vendors::rule::{Scope, sign};
use crate::vendors::vendor::Vendor;

pub(super) static VENDOR: Vendor = Vendor {
    name: "cloudflare",
    aliases: &["cloudflare-api"],
    signs: &[sign("cf-auditlog-id")],
    scope: &[Scope::User, Scope::Key],
    preset: Some(&PRESET),
    source: "developers.cloudflare.com limits, 2026-04; changelog 2025-09-03",
    ..GENERIC
};

static PRESET: Preset = service(
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
);
