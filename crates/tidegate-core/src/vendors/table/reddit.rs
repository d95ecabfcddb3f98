//! Reddit.

use super::generic::GENERIC;
use crate::vendors::preset::Confidence::High;
use crate::vendors::preset::{MINUTE, Preset, plain, service, tier};
use crate::vendors::reset::ResetForm;
use crate::vendors::rule::{Scope, sign, sign_value};
use crate::vendors::vendor::Vendor;

pub(super) static VENDOR: Vendor = Vendor {
    name: "reddit",
    signs: &[sign("x-reddit-*"), sign_value("server", "snooserv")],
    reset: ResetForm::Seconds,
    scope: &[Scope::App],
    preset: Some(&PRESET),
    source: "Reddit Data API wiki and measurements, 2026-08",
    ..GENERIC
};

static PRESET: Preset = service(
    "reddit",
    "reddit",
    Some("https://oauth.reddit.com"),
    &[tier("oauth", &[plain("requests", 100, MINUTE)], "Reddit Data API wiki", "2026", High)],
);
