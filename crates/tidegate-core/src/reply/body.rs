//! What bodies say: error codes, how long to wait, which limit was hit, what the call cost.

use std::borrow::Cow;

use super::date::UnixMillis;
use super::json::{Place, Tree, Value};
use super::message;
use super::names::clip;
use super::reading::{Limit, Reading, Violation};
use super::usage::RawUsage;
use super::value::{self, Base, Decimal};
use crate::vendors::kind::Kind;
use crate::vendors::reset::ResetForm;
use crate::vendors::words::{DAY, HOUR, MINUTE};

/// Where errors name themselves, in bodies that are errors whatever their status.
const ERROR_CODES: [&str; 17] = [
    "error.code",
    "error.type",
    "error.status",
    "error.error_type",
    "error.details.error_code",
    "error.metadata.limit_source",
    "error.metadata.reason",
    "error.metadata.error_type",
    "error.innererror.code",
    "error",
    "errors[].code",
    "errors[].type",
    "errors[].errorCode",
    "errors[].extensions.code",
    "errors[].extensions.type",
    "response.error.code",
    "response.error.type",
];

/// Where they do so if the status already says that the call failed: words like `type` mean other things
/// elsewhere.
const FAILED_CODES: [&str; 14] = [
    "code",
    "type",
    "title",
    "status",
    "errorCode",
    "error_code",
    "error_type",
    "errorType",
    "category",
    "policyName",
    "additional_data.rate_limit_reason",
    "__type",
    "detail.code",
    "detail.type",
];

/// Where errors explain themselves.
const MESSAGES: [&str; 10] = [
    "error.message",
    "errors[].message",
    "response.error.message",
    "message",
    "detail",
    "detail.message",
    "error_description",
    "error.metadata.raw",
    "description",
    "error",
];

/// Where they say how many seconds to wait.
const WAIT_SECONDS: [&str; 12] = [
    "retry_after",
    "retryAfter",
    "retry_after_seconds",
    "retryAfterSeconds",
    "error.retry_after",
    "error.retryAfter",
    "error.retry_after_seconds",
    "error.details.retry_after",
    "error.metadata.retry_after",
    "error.metadata.retry_after_seconds",
    "errors[].extensions.retryAfter",
    "parameters.retry_after",
];

/// Where they say how many milliseconds.
const WAIT_MILLIS: [&str; 5] = [
    "retry_after_ms",
    "retryAfterMs",
    "error.retry_after_ms",
    "error.metadata.retry_after_ms",
    "error.retryAfterMs",
];

/// How many codes and messages of one body are kept.
const MAX_FOUND: usize = 32;

/// What was found in a body.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) codes: Vec<String>,
    /// Messages in lower case.
    pub(super) messages: Vec<String>,
    pub(super) retry_after_ms: Option<u64>,
    pub(super) limits: Vec<Limit>,
    /// Limits that only repeat what headers said.
    pub(super) mirrored: Vec<Limit>,
    pub(super) violated: Vec<Violation>,
    pub(super) model: Option<String>,
    pub(super) requested: Option<f64>,
    pub(super) usage: Option<RawUsage>,
}

impl Findings {
    /// Takes in a JSON body or event. `failed` says that it is known to be about a failure.
    pub(super) fn read_tree(&mut self, tree: &Tree, failed: bool, now: UnixMillis) {
        self.read_codes(tree, &ERROR_CODES);
        if failed {
            self.read_codes(tree, &FAILED_CODES);
        }
        let is_error = failed || is_error(tree);
        if is_error {
            for path in MESSAGES {
                for value in tree.at(path) {
                    if let Value::Text(text) = value {
                        self.read_message(text);
                    }
                }
            }
            self.read_google(tree);
            self.read_waits(tree, now);
            self.read_violated(tree);
            self.mirrored.extend(mirrored(tree, now));
        }
        self.limits.extend(graphql_limits(tree, now));
        self.limits.extend(realtime_limits(tree));
        if self.usage.is_none() {
            self.usage = RawUsage::read(tree);
        }
    }

    /// Takes in a body that is only text.
    pub(super) fn read_text(&mut self, text: &str) {
        self.read_message(text);
    }

    /// Puts what was found into the reading of the reply.
    pub(super) fn report(self, reading: &mut Reading) {
        reading.body_retry_after_ms = self.retry_after_ms;
        reading.body_limits = self.limits;
        if reading.limits.is_empty() && reading.body_limits.is_empty() {
            reading.body_limits = self.mirrored;
        }
        reading.violated = self.violated;
        reading.model = self.model;
        reading.requested = self.requested;
    }

    fn read_codes(&mut self, tree: &Tree, paths: &[&str]) {
        for path in paths {
            for value in tree.at(path) {
                let code = match value {
                    Value::Text(text) => code_word(text).to_owned(),
                    Value::Number(number) => number.to_string(),
                    _ => continue,
                };
                // A sentence is no code.
                if !code.is_empty() && code.len() <= 96 && self.codes.len() < MAX_FOUND {
                    self.codes.push(code);
                }
            }
        }
    }

    fn read_message(&mut self, text: &str) {
        if self.messages.len() >= MAX_FOUND {
            return;
        }
        let said = message::read(text);
        self.retry_after_ms = self.retry_after_ms.or(said.retry_after_ms);
        self.model = self.model.take().or(said.model);
        self.requested = self.requested.or(said.requested);
        if let Some(limit) = said.limit
            && !self.limits.contains(&limit)
        {
            self.limits.push(limit);
        }
        self.messages.push(message::beginning(text).to_ascii_lowercase());
    }

    fn read_waits(&mut self, tree: &Tree, now: UnixMillis) {
        let base = Base { date: None, now };
        let found = WAIT_MILLIS
            .iter()
            .find_map(|path| ms(tree.at(path).first()?, 1000, &base))
            .or_else(|| WAIT_SECONDS.iter().find_map(|path| ms(tree.at(path).first()?, 1_000_000, &base)));
        // A field of its own is more exact than prose.
        self.retry_after_ms = found.or(self.retry_after_ms);
    }

    /// `google.rpc.Status`: the delay in `RetryInfo`, what was violated in `QuotaFailure`.
    fn read_google(&mut self, tree: &Tree) {
        for detail in tree.places("error.details[]") {
            if let Some(micros) = detail.text("retryDelay").and_then(value::whole_duration) {
                self.retry_after_ms = Some(value::ceil_ms(micros));
            }
        }
        for violation in tree.places("error.details[].violations[]") {
            let Some(id) = violation.text("quotaId").or_else(|| violation.text("quotaMetric")) else {
                continue;
            };
            if self.violated.len() < MAX_FOUND {
                self.violated.push(google_violation(id, &violation));
                self.codes.push(clip(id).to_owned());
            }
            if self.model.is_none() {
                self.model = violation.text("quotaDimensions.model").map(|model| clip(model).to_owned());
            }
        }
    }

    /// Names of violated policies: the IETF problem type's, HubSpot's, Notion's.
    fn read_violated(&mut self, tree: &Tree) {
        for path in ["violated-policies[]", "policyName", "additional_data.rate_limit_reason"] {
            for value in tree.at(path) {
                if let (Value::Text(name), true) = (value, self.violated.len() < MAX_FOUND) {
                    self.violated.push(Violation {
                        name: clip(name).to_owned(),
                        kind: None,
                        limit: None,
                        window_ms: None,
                    });
                }
            }
        }
    }
}

/// Whether a JSON body says of itself that it is an error.
pub(super) fn is_error(tree: &Tree) -> bool {
    let there = |value: &&Value| !matches!(value, Value::Null | Value::Bool(false));
    tree.at("error").iter().any(there)
        || tree.at("response.error").iter().any(there)
        || !tree.at("errors[]").is_empty()
        || tree.at("ok").first() == Some(&&Value::Bool(false))
}

/// The part of a code that says something: AWS and problem types wrap it into names and URLs.
pub(super) fn code_word(text: &str) -> &str {
    let text = text.trim();
    if let Some((_, word)) = text.rsplit_once('#') {
        return word;
    }
    if let Some(path) = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")) {
        return path.trim_end_matches('/').rsplit('/').next().unwrap_or(path);
    }
    match text.split_once(':') {
        Some((word, rest)) if rest.starts_with("http") => word,
        _ => text,
    }
}

/// A time that a field gives as a number or as text.
fn ms(value: &Value, unit_micros: u64, base: &Base<'_>) -> Option<u64> {
    let text = match value {
        // Over its shortest text, so that 1336.57 is what was written and not the nearest binary fraction.
        Value::Number(number) => Cow::Owned(number.to_string()),
        Value::Text(text) => Cow::Borrowed(&**text),
        _ => return None,
    };
    match Decimal::parse(text.trim()) {
        Some(number) => Some(number.micros(unit_micros)).filter(|micros| *micros >= 0).map(value::ceil_ms),
        None => value::retry_after(&text, base),
    }
}

fn google_violation(id: &str, violation: &Place<'_>) -> Violation {
    let window_ms = [("PerMinute", MINUTE), ("PerDay", DAY), ("PerHour", HOUR)];
    let metric = violation.text("quotaMetric").unwrap_or(id);
    let kind = if id.contains("InputToken") || metric.contains("input_token") {
        Some(Kind::InputTokens)
    } else if id.contains("Token") || metric.contains("token") {
        Some(Kind::Tokens)
    } else if id.contains("Request") || metric.contains("request") {
        Some(Kind::Requests)
    } else {
        None
    };
    Violation {
        name: clip(id).to_owned(),
        kind,
        limit: violation.number("quotaValue"),
        window_ms: window_ms.iter().find(|(part, _)| id.contains(part)).map(|(_, ms)| *ms),
    }
}

/// Points that GraphQL APIs tell in the body: Shopify's `extensions.cost`, GitHub's `rateLimit`.
fn graphql_limits(tree: &Tree, now: UnixMillis) -> Vec<Limit> {
    let base = Base { date: None, now };
    let shopify = tree.places("extensions.cost").into_iter().filter_map(|cost| {
        Some(Limit {
            limit: Some(cost.number("throttleStatus.maximumAvailable")?),
            remaining: cost.number("throttleStatus.currentlyAvailable"),
            fill: cost.number("throttleStatus.restoreRate"),
            interval_ms: cost.number("throttleStatus.restoreRate").map(|_| 1000),
            cost: cost.number("actualQueryCost").or_else(|| cost.number("requestedQueryCost")),
            ..Limit::of(Kind::Points)
        })
    });
    let github = tree.places("data.rateLimit").into_iter().filter_map(|state| {
        Some(Limit {
            limit: state.number("limit"),
            remaining: Some(state.number("remaining")?),
            used: state.number("used"),
            cost: state.number("cost"),
            reset_ms: state.text("resetAt").and_then(|at| value::reset(at, ResetForm::Auto, &base)),
            ..Limit::of(Kind::Points)
        })
    });
    shopify.chain(github).collect()
}

/// OpenAI's realtime event `rate_limits.updated`.
fn realtime_limits(tree: &Tree) -> Vec<Limit> {
    if tree.text("type") != Some("rate_limits.updated") {
        return Vec::new();
    }
    let limits = tree.places("rate_limits[]").into_iter().filter_map(|state| {
        Some(Limit {
            limit: state.number("limit"),
            remaining: state.number("remaining"),
            reset_ms: state
                .number("reset_seconds")
                .and_then(|s| Some(value::ceil_ms(Decimal::parse(&s.to_string())?.micros(1_000_000)))),
            ..Limit::of(Kind::from_name(clip(state.text("name")?)))
        })
    });
    limits.collect()
}

/// Rate-limit headers that OpenRouter repeats in the body.
fn mirrored(tree: &Tree, now: UnixMillis) -> Vec<Limit> {
    let base = Base { date: None, now };
    let headers = tree.places("error.metadata.headers").into_iter();
    let limits = headers.map(|headers| {
        let mut limit = Limit::default();
        for (name, value) in headers.members() {
            match name.to_ascii_lowercase().as_str() {
                "x-ratelimit-limit" => limit.limit = value.number(),
                "x-ratelimit-remaining" => limit.remaining = value.number(),
                "x-ratelimit-reset" => {
                    limit.reset_ms = match value {
                        Value::Text(text) => value::reset(text, ResetForm::Auto, &base),
                        Value::Number(number) => value::reset(&number.to_string(), ResetForm::Auto, &base),
                        _ => None,
                    }
                }
                _ => {}
            }
        }
        limit
    });
    limits.filter(Limit::says_something).collect()
}
