//! Google Gemini.

use super::generic::GENERIC;
use crate::model::rate::Algorithm;
use crate::vendors::counting::{Admission, Counting};
use crate::vendors::preset::Confidence::Low;
use crate::vendors::preset::{DAY, MINUTE, Preset, PresetLimit, plain, tier};
use crate::vendors::rule::{Scope, clear_phrase, code, sign, sign_value};
use crate::vendors::vendor::{Dialect, ErrorShape, Vendor};
use crate::vendors::verdict::Verdict;

pub(super) static VENDOR: Vendor = Vendor {
    name: "google-gemini",
    aliases: &["gemini", "google", "vertex", "google-vertex"],
    signs: &[sign("x-gemini-service-tier"), sign_value("server", "scaffolding on httpserver2")],
    sites: &["generativelanguage.googleapis.com", "ai.google.dev"],
    errors: &[
        // The retry delay is given even where waiting does not help: a day's quota, or none at all.
        code(Verdict::QuotaExhausted, &["generate*perday*", "*perdayperproject*"]),
        clear_phrase(Verdict::QuotaExhausted, &[429], &["limit: 0"]),
        code(Verdict::Overloaded, &["unavailable"]),
    ],
    scope: &[Scope::Project, Scope::Model],
    counting: Counting { admission: Admission::InputOnly, ..Counting::PLAIN },
    dialect: Dialect {
        key_header: Some("x-goog-api-key"),
        error_shape: ErrorShape::Google,
        ..Dialect::COMMON
    },
    preset: Some(&PRESET),
    source: "ai.google.dev rate-limits, 2026-09",
    ..GENERIC
};

static PRESET: Preset = Preset {
    name: "gemini",
    vendor: "google-gemini",
    llm: true,
    upstream: Some("https://generativelanguage.googleapis.com"),
    base_url_env: &[("GOOGLE_GEMINI_BASE_URL", "")],
    all_tiers: false,
    ramp: None,
    tiers: &[tier("free", &GEMINI_FREE, "reports; no longer published", "2026-09", Low)],
};

static GEMINI_FREE: [PresetLimit; 3] = [
    plain("requests", 5, MINUTE),
    plain("tokens", 250_000, MINUTE),
    PresetLimit {
        algorithm: Some(Algorithm::FixedWindow),
        calendar: Some("America/Los_Angeles"),
        ..plain("requests", 20, DAY)
    },
];
