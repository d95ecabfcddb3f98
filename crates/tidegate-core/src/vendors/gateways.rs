//! Gateways: they speak for themselves and for whoever is behind them, so their signs come first.

use super::generic::GENERIC;
use super::rule::{code, sign, sign_value};
use super::{Scope, Vendor};
use crate::vendors::reset::ResetForm;
use crate::vendors::verdict::Verdict;

pub(super) static ROWS: &[Vendor] = &[
    // Upstream headers come through as `llm_provider-<name>`: the reader takes that prefix off whoever the
    // vendor is, and calls those limits `upstream` and the gateway's own `gateway`.
    Vendor {
        name: "litellm",
        aliases: &["litellm-proxy"],
        signs: &[sign("x-litellm-*"), sign("llm-provider-*")],
        source: "litellm 1.108 source, read 2026-11-15",
        ..GENERIC
    },
    Vendor {
        name: "openrouter",
        signs: &[sign("x-openrouter-*"), sign_value("server", "openrouter")],
        reset: ResetForm::EpochMillis,
        errors: &[
            // A 402 is a matter of money, except where only the calls in flight have claimed it.
            code(Verdict::QuotaExhausted, &["weight_exceeds_budget"]),
            code(Verdict::RateLimited, &["openrouter_in_flight_budget", "in_flight_budget_exhausted"]),
            code(Verdict::QuotaExhausted, &["openrouter_key_limit", "openrouter_credits"]),
        ],
        scope: &[Scope::Organization, Scope::Model],
        source: "OpenRouterTeam/docs api_reference/limits.mdx@221d5fb, 2026",
        ..GENERIC
    },
    Vendor {
        name: "generic-gravitee",
        aliases: &["gravitee"],
        signs: &[sign("x-gravitee-*")],
        reset: ResetForm::EpochMillis,
        source: "Gravitee rate-limit policy replies, 2023-03-23",
        ..GENERIC
    },
];
