//! Docker Hub.

use super::generic::GENERIC;
use crate::vendors::kind::Kind;
use crate::vendors::preset::Confidence::Medium;
use crate::vendors::preset::{DAY, Preset, partly, plain, tier};
use crate::vendors::rule::{Scope, family, sign};
use crate::vendors::vendor::Vendor;

pub(super) static VENDOR: Vendor = Vendor {
    name: "dockerhub",
    aliases: &["docker", "docker-hub"],
    signs: &[sign("docker-*")],
    headers: &[family("docker-ratelimit-*", Kind::Requests)],
    scope: &[Scope::User, Scope::Address],
    preset: Some(&PRESET),
    source: "docker/docs pulls.md@000a96d, 2026; measured 2026-09-12",
    ..GENERIC
};

static PRESET: Preset = partly(
    "dockerhub",
    "dockerhub",
    Some("https://registry-1.docker.io"),
    &[tier("anonymous", &[plain("requests", 100, DAY / 4)], "docker/docs pulls.md@000a96d", "2026", Medium)],
);
