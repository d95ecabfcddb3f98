//! How a call ended, and what that means for those that come after it.

use crate::model::call::Cost;
use crate::model::dimension::Dimension;
use crate::reply::{Kind, Limit, Reading, Verdict};
use std::sync::Arc;
use std::time::Duration;

/// How a call ended.
///
/// ```
/// use tidegate_core::engine::{Ended, Fate};
/// use tidegate_core::reply::{Reader, UnixMillis};
///
/// let headers = [("retry-after", "20".as_bytes())];
/// let reading = Reader::default().read(429, headers, b"", UnixMillis(0));
/// let ended = Ended::by_reply(429, &reading);
/// assert!(matches!(ended.fate, Fate::TurnedAway { wait: Some(wait), .. } if wait.as_secs() == 20));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ended {
    /// What it really cost, in the dimensions that it states.
    pub cost: Option<Cost>,
    /// What became of it.
    pub fate: Fate,
    /// The model that it asked for, or that the reply names.
    pub model: Option<Arc<str>>,
    /// What the reply tells of the upstream's limits.
    pub told: Vec<Told>,
}

/// What a reply tells of a limit of the upstream.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// What it counts.
    pub dimension: Dimension,
    /// Its window, if that is known.
    pub window: Option<Duration>,
    /// How much it allows.
    pub limit: Option<u64>,
    /// How much was left.
    pub remaining: Option<u64>,
    /// When it is restored, if that is known.
    pub reset: Option<Duration>,
}

/// What became of a call at the upstream.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Fate {
    /// Unknown: the call was dropped on its way.
    #[default]
    Unknown,
    /// The upstream answered it, be it that the call was wrong.
    Answered,
    /// It never got there: everything that it reserved comes back.
    Unreached,
    /// It was sent, and the upstream says that it did not process it (an HTTP/2 stream that was refused). Tokens and bytes
    /// come back. The request stays spent: attempts that are sent stay within the limit.
    Unprocessed,
    /// The upstream failed: an error of its own, or no answer at all.
    Failed {
        /// How long it wants to be left alone, if it said.
        wait: Option<Duration>,
    },
    /// Turned away by a limit of the upstream, and so not done.
    TurnedAway {
        /// How long to stay away, if it said.
        wait: Option<Duration>,
        /// The limits that it named as exhausted.
        by: Vec<Exhausted>,
        /// Only too many at once: whatever ends makes room.
        in_flight: bool,
    },
    /// Used up or never granted: waiting does not help.
    OutOfQuota,
}

/// A limit of the upstream that a reply names as exhausted.
#[derive(Clone, Debug, PartialEq)]
pub struct Exhausted {
    /// What it counts.
    pub dimension: Dimension,
    /// Its window, if that is known.
    pub window: Option<Duration>,
    /// When it is restored, if that is known.
    pub reset: Option<Duration>,
}

impl Ended {
    /// What a reply says.
    #[must_use]
    pub fn by_reply(status: u16, reading: &Reading) -> Ended {
        let hint = reading.wait().map(|wait| wait.ms).or(reading.retry_after_ms);
        let wait = hint.map(Duration::from_millis);
        let fate = match (reading.verdict, status) {
            (Verdict::QuotaExhausted, _) => Fate::OutOfQuota,
            (Verdict::RateLimited, _) | (Verdict::Ok, 420 | 429) => {
                let by = reading.exhausted().filter_map(Exhausted::named).collect();
                Fate::TurnedAway { wait, by, in_flight: false }
            }
            (Verdict::ConcurrencyLimited, _) => Fate::TurnedAway { wait, by: Vec::new(), in_flight: true },
            (Verdict::Overloaded, _) | (Verdict::Ok, 500..) => Fate::Failed { wait },
            (Verdict::Ok, _) => Fate::Answered,
        };
        let told = reading.limits.iter().filter_map(Told::by).collect();
        Ended { cost: None, fate, model: reading.model.as_deref().map(Into::into), told }
    }

    /// The same, with what it really cost.
    #[must_use]
    pub fn cost(self, cost: Cost) -> Ended {
        Ended { cost: Some(cost), ..self }
    }
}

impl From<Fate> for Ended {
    fn from(fate: Fate) -> Ended {
        Ended { fate, ..Ended::default() }
    }
}

impl Exhausted {
    fn named(limit: &Limit) -> Option<Exhausted> {
        let Told { dimension, window, reset, .. } = Told::of(limit)?;
        Some(Exhausted { dimension, window, reset })
    }
}

impl Told {
    /// What a reply tells, if it tells how much there is or how much is left.
    fn by(limit: &Limit) -> Option<Told> {
        Told::of(limit).filter(|told| told.limit.is_some() || told.remaining.is_some())
    }

    fn of(limit: &Limit) -> Option<Told> {
        let dimension = match &limit.kind {
            Kind::Requests => Dimension::Requests,
            Kind::Tokens => Dimension::Tokens,
            Kind::InputTokens => Dimension::InputTokens,
            Kind::OutputTokens => Dimension::OutputTokens,
            Kind::ContentBytes => Dimension::Bytes,
            Kind::Concurrency | Kind::Utilization => return None,
            other => Dimension::from_name(other.name()),
        };
        let millis = |ms: Option<u64>| ms.map(Duration::from_millis);
        // What is left in parts of a unit cannot be spent; what is overdrawn is nothing.
        let whole = |amount: Option<f64>| amount.map(|amount| amount.max(0.0) as u64);
        Some(Told {
            dimension,
            window: millis(limit.window_ms),
            limit: whole(limit.limit).filter(|limit| *limit > 0),
            remaining: whole(limit.remaining),
            reset: millis(limit.reset_ms),
        })
    }
}
