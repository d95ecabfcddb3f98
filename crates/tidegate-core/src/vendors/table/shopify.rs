//! Shopify.

use super::generic::GENERIC;
use crate::vendors::kind::Kind;
use crate::vendors::preset::Confidence::High;
use crate::vendors::preset::{Preset, PresetLimit, SECOND, bucket, service, tier};
use crate::vendors::rule::{FieldOf, Meaning, Scope, code, rule, sign};
use crate::vendors::vendor::Vendor;
use crate::vendors::verdict::Verdict;
use crate::vendors::words::Field;

pub(super) static VENDOR: Vendor = Vendor {
    name: "shopify",
    signs: &[sign("x-shopify-*")],
    headers: &[rule(
        "x-shopify-shop-api-call-limit",
        Meaning::UsedOfLimit(FieldOf {
            field: Field::Used,
            kind: Kind::Requests,
            window_ms: None,
            name: None,
        }),
    )],
    errors: &[code(Verdict::RateLimited, &["throttled"])],
    scope: &[Scope::App, Scope::Tenant],
    preset: Some(&PRESET),
    source: "shopify.dev limits, 2026",
    ..GENERIC
};

static PRESET: Preset = service(
    "shopify",
    "shopify",
    None,
    &[
        tier("basic", &[leaky(2)], SHOPIFY, "2026", High),
        tier("advanced", &[leaky(4)], SHOPIFY, "2026", High),
        tier("plus", &[leaky(20)], SHOPIFY, "2026", High),
    ],
);

const SHOPIFY: &str = "shopify.dev limits";

/// Shopify's REST bucket: leaks so many a second, holds twenty times that.
const fn leaky(per_second: u64) -> PresetLimit {
    PresetLimit { burst: Some(per_second * 20), ..bucket("requests", per_second, SECOND) }
}
