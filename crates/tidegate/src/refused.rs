//! A call that a gate did not let go.

use std::fmt;
use std::time::{Duration, SystemTime};

use tidegate_core::{Reason, Refusal};

/// Why a call may not go: the limit, the wait until it would fit, and the reset. It consumed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    refusal: Refusal,
    reset: Option<SystemTime>,
}

impl Refused {
    pub(crate) fn new(refusal: Refusal, reset: Option<SystemTime>) -> Refused {
        Refused { refusal, reset }
    }

    /// Why.
    #[must_use]
    pub fn reason(&self) -> &Reason {
        &self.refusal.reason
    }

    /// The name of the limit that decided it.
    #[must_use]
    pub fn limit(&self) -> Option<&str> {
        self.refusal.limit.as_deref()
    }

    /// How long until the call would have fitted, where that can be known.
    #[must_use]
    pub fn wait(&self) -> Option<Duration> {
        self.refusal.wait
    }

    /// When that limit is wholly available again, where that can be known.
    #[must_use]
    pub fn reset(&self) -> Option<SystemTime> {
        self.reset
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.refusal.fmt(f)
    }
}

impl std::error::Error for Refused {}
