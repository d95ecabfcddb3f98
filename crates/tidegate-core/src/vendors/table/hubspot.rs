//! HubSpot.

use super::generic::GENERIC;
use crate::vendors::kind::Kind;
use crate::vendors::preset::{Preset, unlimited};
use crate::vendors::rule::{Scope, named, sign};
use crate::vendors::vendor::Vendor;
use crate::vendors::words::{DAY, Field, SECOND};

pub(super) static VENDOR: Vendor = Vendor {
    name: "hubspot",
    signs: &[sign("x-hubspot-*")],
    headers: &[
        named("x-hubspot-ratelimit-daily", Field::Limit, Kind::Requests, "daily", Some(DAY)),
        named("x-hubspot-ratelimit-daily-remaining", Field::Remaining, Kind::Requests, "daily", Some(DAY)),
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
    preset: Some(&PRESET),
    source: "captured replies, 2026",
    ..GENERIC
};

static PRESET: Preset = unlimited("hubspot", "hubspot", Some("https://api.hubapi.com"));
