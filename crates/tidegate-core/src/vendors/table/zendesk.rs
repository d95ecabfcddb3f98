//! Zendesk.

use super::generic::GENERIC;
use crate::vendors::kind::Kind;
use crate::vendors::preset::Confidence::High;
use crate::vendors::preset::{MINUTE, Preset, plain, service, tier};
use crate::vendors::rule::{Meaning, Scope, rule, sign};
use crate::vendors::vendor::Vendor;

pub(super) static VENDOR: Vendor = Vendor {
    name: "zendesk",
    signs: &[sign("x-zendesk-*"), sign("zendesk-*")],
    headers: &[
        rule("zendesk-ratelimit-*", Meaning::KeyValues(Kind::Requests)),
        rule("zendesk-ratelimit-inflight-jobs", Meaning::KeyValues(Kind::Concurrency)),
    ],
    scope: &[Scope::Tenant, Scope::Endpoint],
    preset: Some(&PRESET),
    source: "developer.zendesk.com rate limits, 2026",
    ..GENERIC
};

static PRESET: Preset = service(
    "zendesk",
    "zendesk",
    None,
    &[
        tier("team", &[plain("requests", 200, MINUTE)], ZENDESK, "2026", High),
        tier("professional", &[plain("requests", 400, MINUTE)], ZENDESK, "2026", High),
        tier("enterprise", &[plain("requests", 700, MINUTE)], ZENDESK, "2026", High),
        tier("high-volume", &[plain("requests", 2500, MINUTE)], ZENDESK, "2026", High),
    ],
);

const ZENDESK: &str = "developer.zendesk.com rate limits";
