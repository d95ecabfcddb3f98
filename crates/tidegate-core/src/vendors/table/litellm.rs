//! LiteLLM.

use super::generic::GENERIC;
use crate::vendors::rule::sign;
use crate::vendors::vendor::{Dialect, ErrorShape, Vendor};

// Upstream headers come through as `llm_provider-<name>`: the reader takes that prefix off whoever the
// vendor is, and calls those limits `upstream` and the gateway's own `gateway`.
pub(super) static VENDOR: Vendor = Vendor {
    name: "litellm",
    aliases: &["litellm-proxy"],
    signs: &[sign("x-litellm-*"), sign("llm-provider-*")],
    dialect: Dialect { error_shape: ErrorShape::OpenAi, ..Dialect::COMMON },
    source: "litellm 1.108 source, read 2026-11-15",
    ..GENERIC
};
