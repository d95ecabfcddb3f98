//! Linear.

use super::generic::GENERIC;
use crate::vendors::kind::Kind;
use crate::vendors::preset::Confidence::Medium;
use crate::vendors::preset::{HOUR, Preset, bucket, partly, tier};
use crate::vendors::reset::ResetForm;
use crate::vendors::rule::{Scope, field, sign};
use crate::vendors::vendor::Vendor;
use crate::vendors::words::Field;

pub(super) static VENDOR: Vendor = Vendor {
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
    preset: Some(&PRESET),
    source: "linear.app/developers/rate-limiting, 2026",
    ..GENERIC
};

static PRESET: Preset = partly(
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
);
