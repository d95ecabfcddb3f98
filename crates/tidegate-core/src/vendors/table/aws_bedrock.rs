//! AWS Bedrock.

use super::generic::GENERIC;
use crate::vendors::counting::{Admission, Counting};
use crate::vendors::preset::Preset;
use crate::vendors::rule::{Meaning, Scope, code, rule, sign};
use crate::vendors::vendor::{Dialect, ErrorShape, Vendor};
use crate::vendors::verdict::Verdict;

pub(super) static VENDOR: Vendor = Vendor {
    name: "aws-bedrock",
    aliases: &["bedrock", "aws"],
    signs: &[sign("x-amzn-bedrock-*"), sign("x-amzn-errortype"), sign("x-amzn-requestid")],
    headers: &[
        rule("x-amzn-errortype", Meaning::ErrorCode),
        rule("x-amzn-bedrock-input-token-count", Meaning::InputTokens),
        rule("x-amzn-bedrock-output-token-count", Meaning::OutputTokens),
    ],
    errors: &[
        code(Verdict::QuotaExhausted, &["servicequotaexceededexception", "servicequotaexceeded"]),
        code(
            Verdict::Overloaded,
            &["modelnotreadyexception", "serviceunavailableexception", "serviceunavailable"],
        ),
        code(
            Verdict::RateLimited,
            &[
                "throttlingexception",
                "throttledexception",
                "requestthrottled",
                "requestthrottledexception",
                "requestlimitexceeded",
                "toomanyrequestsexception",
                "provisionedthroughputexceededexception",
                "bandwidthlimitexceeded",
                "priorrequestnotcomplete",
                "ec2throttledexception",
            ],
        ),
    ],
    scope: &[Scope::Organization, Scope::Deployment, Scope::Model],
    counting: Counting {
        admission: Admission::InputPlusModelMax,
        cached_counts: false,
        output_weight: 5,
        ..Counting::PLAIN
    },
    dialect: Dialect { error_shape: ErrorShape::Aws, ..Dialect::COMMON },
    preset: Some(&PRESET),
    source: "docs.aws.amazon.com bedrock quotas-runtime, 2026; botocore 1.44.0",
    ..GENERIC
};

// Quotas are per account, region and model; every region has an address of its own.
static PRESET: Preset = Preset {
    name: "bedrock",
    vendor: "aws-bedrock",
    llm: true,
    upstream: None,
    base_url_env: &[("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "")],
    all_tiers: false,
    ramp: None,
    tiers: &[],
};
