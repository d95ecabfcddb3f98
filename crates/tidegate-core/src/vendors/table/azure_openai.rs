//! Azure OpenAI.

use super::generic::GENERIC;
use crate::model::settle_rule::SettleRule;
use crate::vendors::counting::{Admission, Counting};
use crate::vendors::preset::Preset;
use crate::vendors::rule::{Scope, phrase, sign};
use crate::vendors::vendor::{Dialect, ErrorShape, Quirks, Vendor};
use crate::vendors::verdict::Verdict;

pub(super) static VENDOR: Vendor = Vendor {
    name: "azure-openai",
    aliases: &["azure", "azure-foundry"],
    signs: &[
        sign("apim-request-id"),
        sign("azureml-model-session"),
        sign("x-ms-region"),
        sign("x-ms-deployment-name"),
        sign("x-ms-rai-invoked"),
    ],
    errors: &[phrase(
        Verdict::Overloaded,
        &[429, 503],
        &["temporarily unable to process your request", "experiencing high demand"],
    )],
    scope: &[Scope::Organization, Scope::Deployment, Scope::Model],
    counting: Counting {
        admission: Admission::InputPlusMax,
        unspent: SettleRule::Keep,
        failures_count: true,
        ..Counting::PLAIN
    },
    quirks: Quirks {
        // A streaming call that is refused arrives as 200 with a retry hint and an error event.
        hint_on_success_refuses: true,
        ..Quirks::NONE
    },
    dialect: Dialect {
        key_header: Some("api-key"),
        error_shape: ErrorShape::OpenAi,
        takes_stream_options: true,
    },
    preset: Some(&PRESET),
    source: "MicrosoftDocs/azure-ai-docs quota-1.md 2026-09-16, troubleshoot-errors.md 2026-09-20",
    ..GENERIC
};

// Quota is per subscription, region and model, and every resource has an address of its own.
static PRESET: Preset = Preset {
    name: "azure-openai",
    vendor: "azure-openai",
    llm: true,
    upstream: None,
    base_url_env: &[("AZURE_OPENAI_ENDPOINT", "")],
    all_tiers: false,
    ramp: None,
    tiers: &[],
};
