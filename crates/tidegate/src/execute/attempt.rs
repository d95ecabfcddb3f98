//! One attempt, as the caller's own code sees it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::outcome::Outcome;

/// One attempt at a call: which one it is, and where to say how it ended.
///
/// An attempt that says nothing is judged by what it returns: a value is a success, and what an error means is
/// for [`classify`](super::Execute::classify) to say.
#[derive(Debug)]
pub struct Attempt {
    pub(super) number: u32,
    pub(super) queued: Duration,
    pub(super) waited: Duration,
    pub(super) said: Said,
}

impl Attempt {
    /// 1 for the first one.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Whether an earlier one failed.
    #[must_use]
    pub fn is_retry(&self) -> bool {
        self.number > 1
    }

    /// How long this attempt waited for its permit.
    #[must_use]
    pub fn queued(&self) -> Duration {
        self.queued
    }

    /// How long the call has waited in all, between attempts and for permits.
    #[must_use]
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Says how the attempt ended, or what is known so far; the last word counts.
    ///
    /// What is said goes to the gate, which settles the cost and learns from the reply. If the attempt then
    /// returns an error it also decides whether another one follows; a value that it returns is a success in
    /// any case.
    pub fn report(&self, outcome: Outcome) {
        *self.said.0.lock() = Some(outcome);
    }
}

/// What an attempt said about itself. Each has its own: a task that it left behind cannot speak for the next.
#[derive(Clone, Default)]
pub(super) struct Said(Arc<Mutex<Option<Outcome>>>);

impl Said {
    pub fn take(&self) -> Option<Outcome> {
        self.0.lock().take()
    }
}

impl fmt::Debug for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Said")
    }
}
