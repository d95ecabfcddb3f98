//! What replies say about the limits: each convention as its vendor sends it.
//!
//! | style | limits that it mentions | reset | on a 429 |
//! |---|---|---|---|
//! | OpenAI | requests, tokens | `6m0s`, until full | `retry-after`, whole seconds |
//! | Azure | requests, tokens | whole seconds, until full | `retry-after-ms`, `retry-after` |
//! | Anthropic | requests, input, output and all tokens, tokens to the nearest 1000 | RFC 3339, when full | `retry-after` |
//! | GitHub | requests | Unix seconds, when full | `retry-after`, if the limit is hidden |
//! | IETF, drafts to 03 | requests, and the policies of all of them | whole seconds, until full | `Retry-After` |
//! | IETF, drafts from 08 on | all, slots included | whole seconds, until more fits | `Retry-After` |
//! | `Retry-After` only | none | | `Retry-After` |
//!
//! Times are rounded up, so that a caller that believes them does not come too early. Where a style has one place for
//! several limits, the one with the least remaining is told. What is not known (when a slot becomes free) is
//! not said.

use std::time::Duration;

use tidegate_core::{Dimension, Nanos, WindowName};

use super::answer::RefusedBy;
use super::limit::Limit;
use crate::scenario::HeaderStyle;

/// What stands on a reply, by name.
pub type Headers = Vec<(String, String)>;

pub(super) fn headers(
    style: HeaderStyle,
    limits: &[Limit],
    refused: Option<&RefusedBy>,
    now: Nanos,
    unix: Duration,
) -> Headers {
    let told = Told { limits, now, unix };
    let wait = refused.and_then(|by| by.wait);
    let mut headers = Headers::new();
    match style {
        HeaderStyle::OpenAi => told.openai(go_duration, &mut headers),
        HeaderStyle::Azure => {
            if let Some(wait) = wait {
                put(&mut headers, "retry-after-ms", millis(wait));
            }
            told.openai(|reset| seconds(reset).to_string(), &mut headers);
        }
        HeaderStyle::Anthropic => told.anthropic(&mut headers),
        HeaderStyle::GitHub => told.github(&mut headers),
        HeaderStyle::IetfOld => told.ietf_old(&mut headers),
        HeaderStyle::IetfNew => told.ietf_new(&mut headers),
        HeaderStyle::RetryAfter | HeaderStyle::None => {}
    }
    let says_when = match style {
        HeaderStyle::None => false,
        // What its headers tell needs no more words.
        HeaderStyle::GitHub => refused.is_some_and(|by| by.hidden),
        _ => true,
    };
    if let Some(wait) = wait
        && says_when
    {
        put(&mut headers, "retry-after", seconds(wait));
    }
    headers
}

/// What there is to tell.
struct Told<'a> {
    limits: &'a [Limit],
    now: Nanos,
    unix: Duration,
}

impl Told<'_> {
    fn openai(&self, reset: impl Fn(Duration) -> String, headers: &mut Headers) {
        let shown: Vec<_> = [Dimension::Requests, Dimension::Tokens]
            .into_iter()
            .filter_map(|dimension| Some((self.tightest(&dimension)?, dimension)))
            .collect();
        for (limit, dimension) in &shown {
            put(headers, &format!("x-ratelimit-limit-{dimension}"), size(limit));
        }
        for (limit, dimension) in &shown {
            put(headers, &format!("x-ratelimit-remaining-{dimension}"), self.remaining(limit));
        }
        for (limit, dimension) in &shown {
            put(headers, &format!("x-ratelimit-reset-{dimension}"), reset(self.until_full(limit)));
        }
    }

    fn anthropic(&self, headers: &mut Headers) {
        let mut sum = None::<(u64, u64, Duration)>;
        for dimension in [Dimension::Requests, Dimension::InputTokens, Dimension::OutputTokens] {
            let Some(limit) = self.tightest(&dimension) else { continue };
            let told = (size(limit), self.remaining(limit), self.until_full(limit));
            if dimension != Dimension::Requests {
                let (size, left, reset) = sum.unwrap_or_default();
                sum = Some((size + told.0, left + told.1, reset.max(told.2)));
            }
            self.anthropic_limit(&dimension, told, headers);
        }
        let all = self.tightest(&Dimension::Tokens);
        let all = all.map(|limit| (size(limit), self.remaining(limit), self.until_full(limit)));
        if let Some(told) = all.or(sum) {
            self.anthropic_limit(&Dimension::Tokens, told, headers);
        }
    }

    fn anthropic_limit(
        &self,
        dimension: &Dimension,
        (size, left, reset): (u64, u64, Duration),
        headers: &mut Headers,
    ) {
        let left =
            if *dimension == Dimension::Requests { left } else { left.saturating_add(500) / 1000 * 1000 };
        let name = dimension.name().replace('_', "-");
        put(headers, &format!("anthropic-ratelimit-{name}-limit"), size);
        put(headers, &format!("anthropic-ratelimit-{name}-remaining"), left);
        put(headers, &format!("anthropic-ratelimit-{name}-reset"), rfc3339(seconds(self.unix + reset)));
    }

    fn github(&self, headers: &mut Headers) {
        let Some(limit) = self.tightest(&Dimension::Requests) else { return };
        let remaining = self.remaining(limit);
        put(headers, "x-ratelimit-limit", size(limit));
        put(headers, "x-ratelimit-remaining", remaining);
        put(headers, "x-ratelimit-used", size(limit) - remaining);
        put(headers, "x-ratelimit-reset", seconds(self.unix + self.until_full(limit)));
        put(headers, "x-ratelimit-resource", "core");
    }

    fn ietf_old(&self, headers: &mut Headers) {
        let Some(tightest) = self.tightest(&Dimension::Requests) else { return };
        let mut quota = size(tightest).to_string();
        for limit in self.rates(&Dimension::Requests) {
            if let Some(window) = whole_seconds(limit) {
                quota += &format!(", {};w={window}", size(limit));
            }
        }
        put(headers, "RateLimit-Limit", quota);
        put(headers, "RateLimit-Remaining", self.remaining(tightest));
        put(headers, "RateLimit-Reset", seconds(self.until_full(tightest)));
    }

    fn ietf_new(&self, headers: &mut Headers) {
        let mut policies = Vec::new();
        let mut states = Vec::new();
        for limit in self.limits.iter().filter(|limit| !limit.spec.hidden) {
            let (name, unit) = match &limit.spec.dimension {
                _ if limit.counts_slots() => ("concurrency".to_owned(), "concurrent-requests"),
                Dimension::Bytes => (named("content-bytes", limit), "content-bytes"),
                dimension => (named(dimension.name(), limit), dimension.name()),
            };
            let mut policy = format!("\"{name}\";q={}", size(limit));
            if unit != "requests" {
                policy += &format!(";qu=\"{unit}\"");
            }
            if let Some(window) = whole_seconds(limit) {
                policy += &format!(";w={window}");
            }
            policies.push(policy);
            let mut state = format!("\"{name}\";r={}", self.remaining(limit));
            if let Some(more) = limit.meter.more_at(self.now) {
                state += &format!(";t={}", seconds(more.since(self.now)));
            }
            states.push(state);
        }
        if !policies.is_empty() {
            put(headers, "RateLimit-Policy", policies.join(", "));
            put(headers, "RateLimit", states.join(", "));
        }
    }

    /// The limit of a dimension that leaves least, of those that headers mention.
    fn tightest(&self, dimension: &Dimension) -> Option<&Limit> {
        self.rates(dimension).min_by_key(|limit| self.remaining(limit))
    }

    /// The limits of a dimension that headers mention, slots apart.
    fn rates(&self, dimension: &Dimension) -> impl Iterator<Item = &Limit> {
        let rate = move |limit: &&Limit| {
            limit.spec.dimension == *dimension && !limit.spec.hidden && !limit.counts_slots()
        };
        self.limits.iter().filter(rate)
    }

    fn remaining(&self, limit: &Limit) -> u64 {
        limit.meter.remaining(self.now).min(size(limit))
    }

    fn until_full(&self, limit: &Limit) -> Duration {
        limit.meter.full_at(self.now).since(self.now)
    }
}

/// What headers call the limit: N, however many of them may come at once.
fn size(limit: &Limit) -> u64 {
    limit.spec.rate.units()
}

fn put(headers: &mut Headers, name: &str, value: impl ToString) {
    headers.push((name.to_owned(), value.to_string()));
}

fn named(unit: &str, limit: &Limit) -> String {
    format!("{unit}-{}", WindowName(limit.spec.rate.window()))
}

/// A window that can be written as whole seconds.
fn whole_seconds(limit: &Limit) -> Option<u64> {
    let window = limit.spec.rate.window();
    (!limit.counts_slots() && window.subsec_nanos() == 0).then_some(window.as_secs())
}

pub(super) fn seconds(span: Duration) -> u64 {
    span.as_secs() + u64::from(span.subsec_nanos() > 0)
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// As Go prints a duration that is a whole number of milliseconds: `0s`, `12ms`, `7.66s`, `2m52.8s`, `1h0m0s`.
pub(super) fn go_duration(span: Duration) -> String {
    let millis = millis(span);
    if (1..1000).contains(&millis) {
        return format!("{millis}ms");
    }
    let (hours, minutes) = (millis / 3_600_000, millis / 60_000 % 60);
    let mut text = String::new();
    if hours > 0 {
        text += &format!("{hours}h");
    }
    if hours > 0 || minutes > 0 {
        text += &format!("{minutes}m");
    }
    text += &(millis / 1000 % 60).to_string();
    if !millis.is_multiple_of(1000) {
        text += format!(".{:03}", millis % 1000).trim_end_matches('0');
    }
    text + "s"
}

/// `2026-04-12T21:16:46Z`; nothing beyond the years that have four digits.
fn rfc3339(unix: u64) -> String {
    let latest = jiff::Timestamp::MAX.as_second();
    let second = i64::try_from(unix).unwrap_or(latest).min(latest);
    jiff::Timestamp::from_second(second).unwrap_or(jiff::Timestamp::MAX).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_go_does() {
        let text = |millis| go_duration(Duration::from_millis(millis));
        for (millis, expected) in [
            (0, "0s"),
            (12, "12ms"),
            (1_000, "1s"),
            (7_660, "7.66s"),
            (172_800, "2m52.8s"),
            (360_000, "6m0s"),
            (692_334, "11m32.334s"),
            (3_600_500, "1h0m0.5s"),
        ] {
            assert_eq!(text(millis), expected);
        }
        assert_eq!(go_duration(Duration::from_nanos(1)), "1ms");
    }

    #[test]
    fn times_are_rounded_up() {
        assert_eq!(seconds(Duration::from_nanos(1)), 1);
        assert_eq!(millis(Duration::from_nanos(1_000_001)), 2);
        assert_eq!(rfc3339(1_776_028_606), "2026-04-12T21:16:46Z");
    }
}
