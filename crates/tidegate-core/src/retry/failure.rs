//! What a failed attempt means: whether another one makes sense, and whether it could do harm.

use std::time::Duration;

use crate::reply::{Reading, Verdict};

/// A failed attempt, as far as trying again is concerned.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::reply::{Reader, UnixMillis};
/// use tidegate_core::retry::{Failure, FailureKind};
///
/// let headers: [(&str, &[u8]); 1] = [("retry-after", b"20")];
/// let reading = Reader::default().read(429, headers, b"", UnixMillis(0));
/// let failure = Failure::of_reply(429, &reading);
/// assert_eq!(failure.kind, FailureKind::Refused);
/// assert_eq!(failure.hint, Some(Duration::from_secs(20)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What happened.
    pub kind: FailureKind,
    /// When to come back, by the upstream's own word.
    pub hint: Option<Duration>,
}

/// What happened to an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Turned away for being too much, and so not done: any call may be made again. Not paid from the budget.
    Refused,
    /// It never got there, and so was not done: any call may be made again.
    Unreached,
    /// It may have been done or not: only a call that is repeatable may be made again.
    Unsure,
    /// Another attempt would end the same way.
    Final,
}

/// What can go wrong before there is a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// No connection was made.
    NotConnected,
    /// The connection broke.
    Broken,
    /// There was no reply in time.
    TimedOut,
}

impl Failure {
    /// What a reply means, by its status and all that was read in it. A reply that is no failure is not worth
    /// another try either.
    #[must_use]
    pub fn of_reply(status: u16, reading: &Reading) -> Failure {
        let limited = matches!(reading.verdict, Verdict::RateLimited | Verdict::ConcurrencyLimited);
        let kind = if !reading.is_retryable(status) {
            FailureKind::Final
        } else if limited || matches!(status, 420 | 429) {
            FailureKind::Refused
        } else {
            FailureKind::Unsure
        };
        // A header that says when to retry counts on any reply; a reset or the body only where a limit was
        // met.
        let hint = reading.wait().map(|wait| wait.ms).or(reading.retry_after_ms);
        Failure { kind, hint: hint.map(Duration::from_millis) }
    }

    /// What the lack of a reply means.
    #[must_use]
    pub fn of_transport(transport: Transport) -> Failure {
        let kind = match transport {
            Transport::NotConnected => FailureKind::Unreached,
            Transport::Broken | Transport::TimedOut => FailureKind::Unsure,
        };
        Failure { kind, hint: None }
    }

    /// A failure of that kind, about which nothing was said.
    #[must_use]
    pub fn of_kind(kind: FailureKind) -> Failure {
        Failure { kind, hint: None }
    }

    /// The same, to come back after so long.
    #[must_use]
    pub fn come_back(self, after: Duration) -> Failure {
        Failure { hint: Some(after), ..self }
    }
}

/// Whether a call may be made again though it may have been done already: by its method, because it carries
/// an `Idempotency-Key`, or because its endpoint is marked as one that does no harm twice.
///
/// ```
/// use tidegate_core::retry::is_repeatable;
///
/// assert!(is_repeatable("GET", false, false));
/// assert!(!is_repeatable("POST", false, false));
/// assert!(is_repeatable("POST", true, false));
/// ```
#[must_use]
pub fn is_repeatable(method: &str, idempotency_key: bool, marked: bool) -> bool {
    idempotency_key || marked || matches!(method, "GET" | "HEAD" | "PUT" | "DELETE")
}
