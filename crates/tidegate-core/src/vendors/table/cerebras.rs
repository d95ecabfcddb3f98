//! Cerebras.

use super::generic::GENERIC;
use crate::vendors::counting::{Admission, Counting};
use crate::vendors::preset::Preset;
use crate::vendors::rule::{Scope, sign};
use crate::vendors::vendor::{Dialect, ErrorShape, Vendor};

pub(super) static VENDOR: Vendor = Vendor {
    name: "cerebras",
    signs: &[sign("x-cerebras-*")],
    scope: &[Scope::Organization, Scope::Model],
    counting: Counting { admission: Admission::InputPlusModelMax, ..Counting::PLAIN },
    dialect: Dialect { error_shape: ErrorShape::OpenAi, takes_stream_options: true, ..Dialect::COMMON },
    preset: Some(&PRESET),
    source: "inference-docs.cerebras.ai rate limits, 2026",
    ..GENERIC
};

static PRESET: Preset = Preset {
    name: "cerebras",
    vendor: "cerebras",
    llm: true,
    upstream: Some("https://api.cerebras.ai"),
    base_url_env: &[("CEREBRAS_BASE_URL", "")],
    all_tiers: false,
    ramp: None,
    tiers: &[],
};
