//! Upstreams as a scenario describes them: limits, replies, failures and other callers.

use std::time::Duration;

use tidegate_core::{Dimension, Rate};

use super::reserves::Reserves;
use crate::spread::Spread;

/// One upstream: what it allows, how it answers, what goes wrong with it.
#[derive(Clone, Debug, PartialEq)]
pub struct UpstreamSpec {
    /// All of them hold at once.
    pub limits: Vec<UpstreamLimit>,
    /// What its replies say about them.
    pub headers: HeaderStyle,
    /// Whether a refused call counts like an accepted one.
    pub refused_cost: bool,
    /// What it counts of a call's output before that is there.
    pub reserves: Reserves,
    /// From the grant until the request has arrived and is counted.
    pub jitter: Spread,
    /// From then until the reply is back.
    pub latency: Spread,
    /// How many requests it works on at the same time. With more of them replies take longer in proportion; if it
    /// says nothing, never.
    pub knee: Option<u64>,
    /// The share of accepted requests that fail with a 5xx, and count.
    pub errors: f64,
    /// The share of accepted requests whose connection breaks before the reply.
    pub resets: f64,
    /// The share of replies that never come back.
    pub lost: f64,
    /// When it answers everything with a 503, and counts nothing.
    pub outages: Vec<Outage>,
    /// Others on the same key, whom we do not see.
    pub neighbours: Vec<Neighbour>,
    /// Limits that change during the run.
    pub changes: Vec<UpstreamChange>,
}

impl Default for UpstreamSpec {
    fn default() -> Self {
        UpstreamSpec {
            limits: Vec::new(),
            headers: HeaderStyle::RetryAfter,
            refused_cost: false,
            reserves: Reserves::Nothing,
            jitter: Spread::ZERO,
            latency: Spread::ZERO,
            knee: None,
            errors: 0.0,
            resets: 0.0,
            lost: 0.0,
            outages: Vec::new(),
            neighbours: Vec::new(),
            changes: Vec::new(),
        }
    }
}

impl UpstreamSpec {
    /// What the limit at a place of the list gives from one time to another: N/W times the time, with its changes.
    #[must_use]
    pub fn supply(&self, place: usize, from: Duration, to: Duration) -> f64 {
        let Some(limit) = self.limits.get(place) else { return 0.0 };
        let mut changes: Vec<_> = self.changes.iter().filter(|change| change.limit == place).collect();
        changes.sort_by_key(|change| change.at);
        let (mut rate, mut since, mut sum) = (limit.rate, from, 0.0);
        let flows = |rate: Rate, span: Duration| {
            rate.units() as f64 * span.as_secs_f64() / rate.window().as_secs_f64()
        };
        for change in changes {
            let until = change.at.clamp(since, to.max(since));
            sum += flows(rate, until - since);
            (rate, since) = (change.rate, until);
        }
        sum + flows(rate, to.saturating_sub(since))
    }
}

/// One limit of an upstream.
#[derive(Clone, Debug, PartialEq)]
pub struct UpstreamLimit {
    /// How it counts.
    pub model: Model,
    /// What it counts.
    pub dimension: Dimension,
    /// Units per window.
    pub rate: Rate,
    /// The size of a bucket, or how many a GCRA lets through at once; N if it says nothing.
    pub burst: Option<u64>,
    /// Headers do not mention it; the wait that a 429 tells is right all the same.
    pub hidden: bool,
}

/// How an upstream counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// N in each window; windows follow each other from the start.
    FixedWindow,
    /// N in any window, to the nanosecond.
    SlidingLog,
    /// A bucket that refills continuously.
    TokenBucket,
    /// The generic cell rate algorithm: one unit every W/N, `burst` of them at once.
    Gcra,
    /// So many calls at the same time: the rate's units. Its window and the dimension mean nothing, and so
    /// does what a call costs.
    Concurrency,
}

impl Model {
    /// The models that count a rate, by the names that users write.
    pub const NAMED: [(&'static str, Model); 4] = [
        ("fixed-window", Model::FixedWindow),
        ("sliding-log", Model::SlidingLog),
        ("token-bucket", Model::TokenBucket),
        ("gcra", Model::Gcra),
    ];
}

/// What an upstream's replies say about its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderStyle {
    /// `x-ratelimit-limit-requests`, `-remaining-`, `-reset-` with durations until full.
    OpenAi,
    /// Azure OpenAI: `x-ratelimit-remaining-requests`, `-tokens`, `retry-after-ms`.
    Azure,
    /// `anthropic-ratelimit-requests-limit`, `-remaining`, `-reset` with timestamps.
    Anthropic,
    /// `x-ratelimit-limit`, `-remaining`, `-reset` in Unix seconds.
    GitHub,
    /// `RateLimit-Limit`, `RateLimit-Remaining`, `RateLimit-Reset`: the first drafts.
    IetfOld,
    /// `RateLimit` and `RateLimit-Policy` as structured fields: the later drafts.
    IetfNew,
    /// Only `Retry-After`, only on a 429.
    RetryAfter,
    /// A bare 429.
    None,
}

impl HeaderStyle {
    /// All of them, by the names that users write.
    pub const NAMED: [(&'static str, HeaderStyle); 8] = [
        ("openai", HeaderStyle::OpenAi),
        ("azure", HeaderStyle::Azure),
        ("anthropic", HeaderStyle::Anthropic),
        ("github", HeaderStyle::GitHub),
        ("ietf-old", HeaderStyle::IetfOld),
        ("ietf-new", HeaderStyle::IetfNew),
        ("retry-after", HeaderStyle::RetryAfter),
        ("none", HeaderStyle::None),
    ];
}

/// A time during which the upstream is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// When it begins.
    pub at: Duration,
    /// How long it lasts.
    pub lasts: Duration,
}

/// Another caller that uses the same limits: calls of one unit at random times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbour {
    /// How often, on average.
    pub rate: Rate,
    /// From when on.
    pub from: Duration,
    /// Until when, if it ends.
    pub until: Option<Duration>,
    /// What each of its calls costs in units other than requests.
    pub tokens: Spread,
}

/// An upstream's limit that becomes another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpstreamChange {
    /// When.
    pub at: Duration,
    /// Which one, by its place in the list.
    pub limit: usize,
    /// What it becomes.
    pub rate: Rate,
}
