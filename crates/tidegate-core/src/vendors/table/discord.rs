//! Discord.

use super::generic::GENERIC;
use crate::vendors::preset::Confidence::High;
use crate::vendors::preset::{Preset, SECOND, plain, service, tier};
use crate::vendors::rule::{Scope, sign};
use crate::vendors::vendor::Vendor;

pub(super) static VENDOR: Vendor = Vendor {
    name: "discord",
    signs: &[
        sign("x-ratelimit-bucket"),
        sign("x-ratelimit-scope"),
        sign("x-ratelimit-global"),
        sign("x-ratelimit-reset-after"),
        sign("x-discord-*"),
    ],
    scope: &[Scope::App, Scope::Bucket],
    preset: Some(&PRESET),
    source: "discord/discord-api-docs@c98d64b, 2026-08-06",
    ..GENERIC
};

static PRESET: Preset = service(
    "discord",
    "discord",
    Some("https://discord.com"),
    &[tier("bot", &[plain("requests", 50, SECOND)], "discord/discord-api-docs@c98d64b", "2026-08-06", High)],
);
