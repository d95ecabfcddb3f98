//! Twilio.

use super::generic::GENERIC;
use crate::vendors::kind::Kind;
use crate::vendors::preset::{Preset, unlimited};
use crate::vendors::rule::{Scope, code, field, sign, status};
use crate::vendors::vendor::Vendor;
use crate::vendors::verdict::Verdict;
use crate::vendors::words::Field;

pub(super) static VENDOR: Vendor = Vendor {
    name: "twilio",
    signs: &[sign("twilio-*")],
    headers: &[field("twilio-concurrent-requests", Field::Used, Kind::Concurrency)],
    errors: &[code(Verdict::ConcurrencyLimited, &["20429"]), status(Verdict::ConcurrencyLimited, &[429])],
    scope: &[Scope::Organization],
    preset: Some(&PRESET),
    source: "twilio.com/docs error 20429, 2026",
    ..GENERIC
};

static PRESET: Preset = unlimited("twilio", "twilio", Some("https://api.twilio.com"));
