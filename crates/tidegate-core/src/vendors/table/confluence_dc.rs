//! Confluence and the other Data Center products of Atlassian.

use super::generic::GENERIC;
use crate::vendors::rule::{Scope, sign};
use crate::vendors::vendor::Vendor;

pub(super) static VENDOR: Vendor = Vendor {
    name: "confluence-dc",
    aliases: &["jira-dc", "atlassian-dc", "bitbucket-dc"],
    signs: &[sign("x-ratelimit-fillrate"), sign("x-ratelimit-interval-seconds")],
    scope: &[Scope::User],
    source: "confluence.atlassian.com rate limiting (Data Center), 2026",
    ..GENERIC
};
