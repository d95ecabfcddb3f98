//! Fireworks AI.

use super::generic::GENERIC;
use crate::vendors::preset::Preset;
use crate::vendors::rule::{Scope, sign};
use crate::vendors::vendor::{Dialect, ErrorShape, Vendor};

pub(super) static VENDOR: Vendor = Vendor {
    name: "fireworks",
    aliases: &["fireworks-ai"],
    signs: &[sign("fireworks-*"), sign("x-ratelimit-limit-tokens-prompt")],
    scope: &[Scope::Organization, Scope::Model],
    dialect: Dialect { error_shape: ErrorShape::OpenAi, takes_stream_options: true, ..Dialect::COMMON },
    preset: Some(&PRESET),
    source: "captured replies, 2026",
    ..GENERIC
};

static PRESET: Preset = Preset {
    name: "fireworks",
    vendor: "fireworks",
    llm: true,
    upstream: Some("https://api.fireworks.ai"),
    base_url_env: &[],
    all_tiers: false,
    ramp: None,
    tiers: &[],
};
