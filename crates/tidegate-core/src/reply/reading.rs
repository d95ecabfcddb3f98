//! What a reply was understood to say: the result of reading it, as plain values.
//!
//! The field names are the ones of `tidegate explain reply`, which prints a [`Reading`] as it is. Times are
//! whole milliseconds, never negative and never above [`MAX_MS`]; amounts are finite, and a negative
//! `remaining` is kept because it says by how much the limit is overdrawn.

use std::borrow::Cow;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::vendors::kind::Kind;
use crate::vendors::reset::MAX_MS;
use crate::vendors::usage::Usage;
use crate::vendors::verdict::Verdict;

/// One limit as a reply describes it. What the reply does not say is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limit {
    /// What it counts.
    pub kind: Kind,
    /// How much it allows.
    pub limit: Option<f64>,
    /// How much is left; negative when overdrawn, never above `limit`.
    pub remaining: Option<f64>,
    /// When it is restored, counted from the reply. For buckets this is the time until they are *full*.
    pub reset_ms: Option<u64>,
    /// The length of its window.
    pub window_ms: Option<u64>,
    /// What tells it apart from others of its kind: a bucket, a policy, a pool.
    pub name: Option<Cow<'static, str>>,
    /// How much was used.
    pub used: Option<f64>,
    /// What this call cost.
    pub cost: Option<f64>,
    /// The partition key it is counted under.
    pub pk: Option<String>,
    /// How often it is refilled.
    pub interval_ms: Option<u64>,
    /// How much each refill adds.
    pub fill: Option<f64>,
}

impl Limit {
    /// A limit of that kind of which nothing is known yet.
    #[must_use]
    pub fn of(kind: Kind) -> Limit {
        Limit { kind, ..Limit::default() }
    }

    /// Whether nothing is left of it.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.remaining.is_some_and(|left| left <= 0.0)
    }

    /// Whether the reply says anything about it at all.
    pub(crate) fn says_something(&self) -> bool {
        self.limit.is_some()
            || self.remaining.is_some()
            || self.reset_ms.is_some()
            || self.used.is_some()
            || self.fill.is_some()
    }
}

impl Serialize for Limit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // A share keeps its decimal point (`1.0`); everything else that is whole is written as an integer.
        let share = self.kind == Kind::Utilization;
        let amount = |value: Option<f64>| value.map(|value| Amount { value, share });
        let mut out = serializer.serialize_struct("Limit", 11)?;
        out.serialize_field("kind", self.kind.name())?;
        out.serialize_field("limit", &amount(self.limit))?;
        out.serialize_field("remaining", &amount(self.remaining))?;
        out.serialize_field("reset_ms", &self.reset_ms)?;
        out.serialize_field("window_ms", &self.window_ms)?;
        out.serialize_field("name", &self.name)?;
        for (name, value) in [("used", self.used), ("cost", self.cost), ("fill", self.fill)] {
            match amount(value) {
                Some(value) => out.serialize_field(name, &value)?,
                None => out.skip_field(name)?,
            }
        }
        match &self.pk {
            Some(pk) => out.serialize_field("pk", pk)?,
            None => out.skip_field("pk")?,
        }
        match self.interval_ms {
            Some(ms) => out.serialize_field("interval_ms", &ms)?,
            None => out.skip_field("interval_ms")?,
        }
        out.end()
    }
}

/// A number as JSON shows it.
struct Amount {
    value: f64,
    share: bool,
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // 2^53: up to here every whole f64 is the integer it looks like.
        const EXACT: f64 = 9_007_199_254_740_992.0;
        if !self.share && self.value.fract() == 0.0 && self.value.abs() <= EXACT {
            #[allow(clippy::cast_possible_truncation)] // whole and within ±2^53
            serializer.serialize_i64(self.value as i64)
        } else {
            serializer.serialize_f64(self.value)
        }
    }
}

/// A limit that the body says was violated, where it names one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Violation {
    /// The upstream's own name for it.
    pub name: String,
    /// What it counts, if the name tells.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "kind_name")]
    pub kind: Option<Kind>,
    /// How much it allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
    /// The length of its window, if the name tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_ms: Option<u64>,
}

fn kind_name<S: Serializer>(kind: &Option<Kind>, serializer: S) -> Result<S::Ok, S::Error> {
    kind.as_ref().map(Kind::name).serialize(serializer)
}

/// All that was understood from one reply.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Reading {
    /// What it means for the caller.
    pub verdict: Verdict,
    /// When to come back, from headers only.
    pub retry_after_ms: Option<u64>,
    /// When to come back, from the body.
    pub body_retry_after_ms: Option<u64>,
    /// The upstream's own word on whether to retry.
    pub should_retry: Option<bool>,
    /// The limits that the headers describe.
    pub limits: Vec<Limit>,
    /// The limits that the body describes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub body_limits: Vec<Limit>,
    /// The limits that the body names as violated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub violated: Vec<Violation>,
    /// Whose conventions it was read by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor: Option<Cow<'static, str>>,
    /// The model that the body says was limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How much the upstream's own estimate of this call was (to calibrate ours by).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested: Option<f64>,
    /// What the call cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Added to a reset before it is trusted: whole-second resets are up to one second early.
    #[serde(skip)]
    pub(crate) reset_margin_ms: u64,
}

/// How long to wait, and who said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// How long, in milliseconds.
    pub ms: u64,
    /// Who said so.
    pub from: WaitSource,
}

/// Where a [`Wait`] was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitSource {
    /// A header that says when to retry.
    RetryAfter,
    /// The reset of the limit that is exhausted.
    Reset,
    /// The body.
    Body,
}

impl Reading {
    /// When the same call may pass, by the upstream's own word: a retry header, else the reset of what is
    /// exhausted, else the body. `None` when it does not say, or when no wait would help.
    #[must_use]
    pub fn wait(&self) -> Option<Wait> {
        if matches!(self.verdict, Verdict::Ok | Verdict::QuotaExhausted) {
            return None;
        }
        self.header_wait().or(self.body_retry_after_ms.map(|ms| Wait { ms, from: WaitSource::Body }))
    }

    /// The part of [`Reading::wait`] that headers give, whatever the verdict.
    pub(crate) fn header_wait(&self) -> Option<Wait> {
        if let Some(ms) = self.retry_after_ms {
            return Some(Wait { ms, from: WaitSource::RetryAfter });
        }
        // Only an exhausted limit's reset says when to come back: the others describe buckets that are
        // merely not full. A reset that comes alone is a suggestion to retry then.
        let alone = |limit: &Limit| limit.limit.is_none() && limit.remaining.is_none();
        self.limits
            .iter()
            .filter(|limit| limit.is_exhausted() || (self.limits.len() == 1 && alone(limit)))
            .filter_map(|limit| limit.reset_ms)
            .max()
            .map(|ms| Wait { ms: (ms + self.reset_margin_ms).min(MAX_MS), from: WaitSource::Reset })
    }

    /// The limits that are exhausted, wherever the reply said so.
    pub fn exhausted(&self) -> impl Iterator<Item = &Limit> {
        self.limits.iter().chain(&self.body_limits).filter(|limit| limit.is_exhausted())
    }

    /// Whether a call that may be repeated should be, by all that the reply says: the upstream's own word, else
    /// the verdict, else the status (408, 409, 429 and 5xx are worth another try).
    #[must_use]
    pub fn is_retryable(&self, status: u16) -> bool {
        self.should_retry.unwrap_or(match self.verdict {
            Verdict::Ok => matches!(status, 408 | 409 | 429 | 500..=599),
            Verdict::QuotaExhausted => false,
            Verdict::RateLimited | Verdict::Overloaded | Verdict::ConcurrencyLimited => true,
        })
    }

    /// Whether sending the same call again makes sense, as far as limits go: the upstream's own word, else
    /// the verdict.
    #[must_use]
    pub fn retry_makes_sense(&self) -> bool {
        self.should_retry.unwrap_or(matches!(
            self.verdict,
            Verdict::RateLimited | Verdict::Overloaded | Verdict::ConcurrencyLimited
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_upstreams_word_on_retrying_overrides_everything() {
        let reading = |verdict, should_retry| Reading { verdict, should_retry, ..Reading::default() };
        assert!(reading(Verdict::Ok, None).is_retryable(500));
        assert!(reading(Verdict::Ok, None).is_retryable(409));
        assert!(!reading(Verdict::Ok, None).is_retryable(400));
        assert!(!reading(Verdict::Ok, Some(false)).is_retryable(500));
        assert!(reading(Verdict::Ok, Some(true)).is_retryable(400));
        assert!(reading(Verdict::RateLimited, None).is_retryable(403));
        assert!(!reading(Verdict::QuotaExhausted, None).is_retryable(429));
    }

    #[test]
    fn only_what_is_exhausted_is_waited_for() {
        let limit = |remaining, reset_ms| Limit {
            remaining: Some(remaining),
            reset_ms: Some(reset_ms),
            ..Limit::default()
        };
        let mut reading = Reading { verdict: Verdict::RateLimited, ..Reading::default() };
        reading.limits = vec![limit(5.0, 90_000), limit(0.0, 2000)];
        assert_eq!(reading.wait(), Some(Wait { ms: 2000, from: WaitSource::Reset }));
        reading.retry_after_ms = Some(7);
        assert_eq!(reading.wait(), Some(Wait { ms: 7, from: WaitSource::RetryAfter }));
        reading.verdict = Verdict::QuotaExhausted;
        assert_eq!(reading.wait(), None);
    }

    #[test]
    fn numbers_are_written_as_a_person_would() {
        let limit = Limit { limit: Some(60.0), remaining: Some(0.5), ..Limit::default() };
        let json = serde_json::to_string(&limit).unwrap();
        assert_eq!(
            json,
            r#"{"kind":"requests","limit":60,"remaining":0.5,"reset_ms":null,"window_ms":null,"name":null}"#
        );
        let share = Limit { limit: Some(1.0), ..Limit::of(Kind::Utilization) };
        assert!(serde_json::to_string(&share).unwrap().contains(r#""limit":1.0"#));
    }
}
