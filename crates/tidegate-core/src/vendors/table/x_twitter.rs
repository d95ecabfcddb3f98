//! X (Twitter).

use super::generic::GENERIC;
use crate::vendors::kind::Kind;
use crate::vendors::preset::{Preset, unlimited};
use crate::vendors::reset::ResetForm;
use crate::vendors::rule::{Scope, code, named_family, own_code, sign, sign_value};
use crate::vendors::vendor::Vendor;
use crate::vendors::verdict::Verdict;

pub(super) static VENDOR: Vendor = Vendor {
    name: "x-twitter",
    aliases: &["x", "twitter"],
    signs: &[
        sign("x-app-limit-24hour-*"),
        sign("x-user-limit-24hour-*"),
        sign("x-twitter-*"),
        sign_value("server", "tsa_"),
    ],
    headers: &[
        named_family("x-app-limit-*", Kind::Requests, "app"),
        named_family("x-user-limit-*", Kind::Requests, "user"),
    ],
    reset: ResetForm::EpochSeconds,
    errors: &[
        code(Verdict::QuotaExhausted, &["usagecapexceeded", "usage-capped"]),
        own_code(Verdict::RateLimited, &["88"]),
    ],
    scope: &[Scope::App, Scope::User, Scope::Endpoint],
    preset: Some(&PRESET),
    source: "xdevplatform/docs@0bfed9f, 2026",
    ..GENERIC
};

static PRESET: Preset = unlimited("x", "x-twitter", Some("https://api.x.com"));
