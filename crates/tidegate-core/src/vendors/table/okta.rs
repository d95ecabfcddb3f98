//! Okta.

use super::generic::GENERIC;
use crate::vendors::preset::Confidence::Medium;
use crate::vendors::preset::{Preset, concurrency, partly, tier};
use crate::vendors::reset::ResetForm;
use crate::vendors::rule::{Scope, ZeroLimit, sign};
use crate::vendors::vendor::{Quirks, Vendor};

pub(super) static VENDOR: Vendor = Vendor {
    name: "okta",
    signs: &[sign("x-okta-*")],
    reset: ResetForm::EpochSeconds,
    // Okta's own SDK waits one second more than the reset says.
    reset_margin_ms: 1000,
    scope: &[Scope::Organization, Scope::Endpoint],
    quirks: Quirks { zero_limit: ZeroLimit::Concurrency, ..Quirks::NONE },
    preset: Some(&PRESET),
    source: "developer.okta.com rl-best-practices, 2026; okta SDK 3.4.6",
    ..GENERIC
};

static PRESET: Preset = partly(
    "okta",
    "okta",
    None,
    &[tier("org", &[concurrency(75)], "developer.okta.com rl-best-practices", "2026", Medium)],
);
