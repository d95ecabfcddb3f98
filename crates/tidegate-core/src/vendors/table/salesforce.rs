//! Salesforce.

use super::generic::GENERIC;
use crate::vendors::kind::Kind;
use crate::vendors::preset::Confidence::Medium;
use crate::vendors::preset::{Preset, concurrency, service, tier};
use crate::vendors::rule::{FieldOf, Meaning, Scope, clear_phrase, code, rule, sign};
use crate::vendors::vendor::Vendor;
use crate::vendors::verdict::Verdict;
use crate::vendors::words::{DAY, Field};

pub(super) static VENDOR: Vendor = Vendor {
    name: "salesforce",
    signs: &[sign("sforce-*")],
    headers: &[rule(
        "sforce-limit-info",
        Meaning::NamedUsedOfLimit(FieldOf {
            field: Field::Used,
            kind: Kind::Requests,
            window_ms: Some(DAY),
            name: None,
        }),
    )],
    errors: &[
        clear_phrase(
            Verdict::ConcurrencyLimited,
            &[403],
            &["concurrentrequests", "concurrentperorglongtxn", "concurrent api requests"],
        ),
        code(Verdict::RateLimited, &["request_limit_exceeded"]),
    ],
    scope: &[Scope::Organization],
    preset: Some(&PRESET),
    source: "developer.salesforce.com API limits, 2026",
    ..GENERIC
};

static PRESET: Preset = service(
    "salesforce",
    "salesforce",
    None,
    &[tier(
        "org",
        &[concurrency(25)],
        "developer.salesforce.com API limits (calls of 20 s and more)",
        "2026",
        Medium,
    )],
);
