//! The conventions that many share: `X-RateLimit-*`, the IETF drafts, `Retry-After`, common error codes.

use crate::vendors::counting::Counting;
use crate::vendors::kind::Kind;
use crate::vendors::reset::ResetForm;
use crate::vendors::rule::{Meaning, RetryUnit, clear_phrase, code, family, named_family, rule};
use crate::vendors::vendor::{Dialect, ErrorShape, Quirks, Vendor};
use crate::vendors::verdict::Verdict;

/// What a row says where it says nothing of its own.
pub(super) const GENERIC: Vendor = Vendor {
    name: "generic",
    aliases: &[],
    signs: &[],
    sites: &[],
    headers: &[],
    reset: ResetForm::Auto,
    reset_margin_ms: 0,
    windows: &[],
    quirks: Quirks::NONE,
    errors: &[],
    scope: &[],
    counting: Counting::PLAIN,
    dialect: Dialect::COMMON,
    preset: None,
    source: "",
};

pub(super) static VENDOR: Vendor = Vendor {
    name: "generic",
    aliases: &["rfc9110", "ietf", "express-rate-limit", "kong", "aspnetcore", "lemlist", "airweave", "unifi"],
    headers: &[
        // With no more words (`X-Rate-Limit: 700`) it is the limit itself.
        family("x-ratelimit*", Kind::Requests),
        family("x-rate-limit*", Kind::Requests),
        family("ratelimit-*", Kind::Requests),
        family("rate-limit-*", Kind::Requests),
        named_family("x-quota-*", Kind::Requests, "quota"),
        rule("ratelimit", Meaning::RateLimit),
        rule("ratelimit-policy", Meaning::RateLimitPolicy),
        rule("x-ratelimit-policy", Meaning::RateLimitPolicy),
        rule("ratelimit-reason", Meaning::Reason),
        rule("x-ratelimit-reason", Meaning::Reason),
        rule("date", Meaning::Date),
        rule("age", Meaning::Age),
        rule("retry-after-ms", Meaning::RetryAfter(RetryUnit::Millis)),
        rule("x-ms-retry-after-ms", Meaning::RetryAfter(RetryUnit::OtherMillis)),
        rule("x-amz-retry-after", Meaning::RetryAfter(RetryUnit::OtherMillis)),
        rule("requestlimit-default-retryafter", Meaning::RetryAfter(RetryUnit::OtherMillis)),
        rule("retry-after", Meaning::RetryAfter(RetryUnit::Standard)),
        rule("x-retry-after", Meaning::RetryAfter(RetryUnit::OtherSeconds)),
        rule("x-ratelimit-retry-after", Meaning::RetryAfter(RetryUnit::OtherSeconds)),
        rule("x-rate-limit-retry-after", Meaning::RetryAfter(RetryUnit::OtherSeconds)),
        rule("ratelimit-retry-after", Meaning::RetryAfter(RetryUnit::OtherSeconds)),
        rule("x-should-retry", Meaning::ShouldRetry),
    ],
    errors: &[
        code(
            Verdict::QuotaExhausted,
            &[
                "insufficient_quota",
                "billing_hard_limit_reached",
                "billing_not_active",
                "billing_error",
                "insufficient_balance",
                "insufficient_funds",
                "insufficient_credits",
                "payment_required",
                "402",
            ],
        ),
        code(
            Verdict::ConcurrencyLimited,
            &["concurrency_limit_exceeded", "too_many_concurrent_requests", "concurrent_limit_exceeded"],
        ),
        code(
            Verdict::Overloaded,
            &[
                "overloaded_error",
                "overloaded",
                "server_overloaded",
                "engine_overloaded",
                "engine_overloaded_error",
                "service_unavailable",
                "temporary-reduced-capacity",
                "503",
                "529",
            ],
        ),
        code(
            Verdict::RateLimited,
            &[
                "rate_limit_exceeded",
                "rate_limit_error",
                "rate_limited",
                "rate_limit",
                "ratelimited",
                "ratelimit",
                "throttled",
                "throttling",
                "slow_down",
                "slowdown",
                "too_many_requests",
                "toomanyrequests",
                "resource_exhausted",
                "quota-exceeded",
                "abnormal-usage-detected",
                "429",
            ],
        ),
        clear_phrase(Verdict::RateLimited, &[403], &["rate limit exceeded", "rate limit reached"]),
    ],
    dialect: Dialect { error_shape: ErrorShape::Plain, ..Dialect::COMMON },
    source: "RFC 9110; draft-ietf-httpapi-ratelimit-headers-03 (2022) to -11 (2026-05-23)",
    ..GENERIC
};
