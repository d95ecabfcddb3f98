//! How a call ends that was made on the caller's behalf, and what it went through.

use std::fmt;
use std::time::Duration;

use tidegate_core::retry::{Failure, FailureKind};

use crate::refused::Refused;

/// Why there is no value.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ExecuteError<E> {
    /// The gate did not let the call go. It was never made.
    Refused(Refused),
    /// The call failed so, and another attempt would not help, or could do harm. The error is the caller's own,
    /// unchanged.
    Failed(E),
    /// The call failed again and again, or may not wait long enough to try once more.
    Exhausted {
        /// How often it was made.
        attempts: u32,
        /// How long it waited in all, between attempts and for permits.
        waited: Duration,
        /// The error of the last attempt.
        last: E,
        /// Why there is no other attempt.
        why: GaveUp,
        /// Every attempt, the last one included.
        history: Vec<Tried>,
    },
}

/// Why a call that could be made again is not.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum GaveUp {
    /// It was made as often as it may be.
    RetriesSpent,
    /// It may wait no longer.
    TimeSpent,
    /// The upstream does not want to hear from it for longer than it may wait.
    TooFar {
        /// When to come back.
        come_back: Duration,
    },
    /// Too many calls of the service are being made again already.
    BudgetSpent,
    /// What it sent cannot be sent again; see [`Attempt::ends_call`](super::Attempt::ends_call).
    InputGone,
    /// The gate did not let the next attempt go.
    Refused(Box<Refused>),
}

/// One attempt that failed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Tried {
    /// 1 for the first one.
    pub attempt: u32,
    /// How long it waited for its permit.
    pub queued: Duration,
    /// How long it ran.
    pub ran: Duration,
    /// What its failure meant.
    pub failure: Failure,
    /// How long after it the next one was due, if there was to be one.
    pub delay: Option<Duration>,
}

/// A value, and what it took to get it; see [`Execute::with_report`](super::Execute::with_report).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Report<T> {
    /// The value.
    pub value: T,
    /// How often the call was made.
    pub attempts: u32,
    /// How long it waited in all, between attempts and for permits.
    pub waited: Duration,
    /// The attempts that failed before the one that did not.
    pub history: Vec<Tried>,
}

impl<E> ExecuteError<E> {
    /// The caller's own error, if the call was made.
    #[must_use]
    pub fn into_inner(self) -> Option<E> {
        match self {
            ExecuteError::Refused(_) => None,
            ExecuteError::Failed(error) | ExecuteError::Exhausted { last: error, .. } => Some(error),
        }
    }

    /// After how long it makes sense to come back, if somebody said so: the upstream or the gate.
    #[must_use]
    pub fn come_back(&self) -> Option<Duration> {
        match self {
            ExecuteError::Refused(refused) => refused.wait(),
            ExecuteError::Exhausted { why: GaveUp::Refused(refused), .. } => refused.wait(),
            ExecuteError::Exhausted { why: GaveUp::TooFar { come_back }, .. } => Some(*come_back),
            ExecuteError::Exhausted { history, .. } => history.last().and_then(|tried| tried.failure.hint),
            ExecuteError::Failed(_) => None,
        }
    }
}

impl<E: fmt::Display> fmt::Display for ExecuteError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExecuteError::Refused(refused) => refused.fmt(f),
            ExecuteError::Failed(error) => error.fmt(f),
            ExecuteError::Exhausted { attempts, waited, last, why, .. } => {
                let times = if *attempts == 1 { "attempt" } else { "attempts" };
                write!(f, "{attempts} {times} failed, after {waited:.1?} of waiting ({why}): {last}")
            }
        }
    }
}

// Not only for errors that are `std::error::Error`: texts and boxed errors are none.
impl<E: fmt::Debug + fmt::Display> std::error::Error for ExecuteError<E> {}

impl fmt::Display for GaveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GaveUp::RetriesSpent => f.write_str("no retries left"),
            GaveUp::TimeSpent => f.write_str("no time left"),
            GaveUp::TooFar { come_back } => write!(f, "come back in {come_back:.1?}"),
            GaveUp::BudgetSpent => f.write_str("too many retries at once"),
            GaveUp::InputGone => f.write_str("its input cannot be sent again"),
            GaveUp::Refused(refused) => refused.fmt(f),
        }
    }
}

/// One word for what a failure meant.
pub(super) fn word(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Refused => "refused",
        FailureKind::Unreached => "unreached",
        FailureKind::Unsure => "unsure",
        FailureKind::Final => "final",
    }
}
