//! GitLab.

use super::generic::GENERIC;
use crate::vendors::preset::{Preset, unlimited};
use crate::vendors::reset::ResetForm;
use crate::vendors::rule::{Scope, sign};
use crate::vendors::vendor::Vendor;

pub(super) static VENDOR: Vendor = Vendor {
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
    preset: Some(&PRESET),
    source: "gitlabhq user_and_ip_rate_limits.md@0286e4c, 2026",
    ..GENERIC
};

static PRESET: Preset = unlimited("gitlab", "gitlab", Some("https://gitlab.com"));
