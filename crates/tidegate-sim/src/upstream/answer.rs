//! What an upstream answers to a request, and what it counts about its own answers.

use std::time::Duration;

use tidegate_core::{Cost, Nanos};

/// What became of a request.
#[derive(Debug, PartialEq)]
#[must_use]
pub enum Answer {
    /// It is counted and runs; tell the upstream when it ends.
    Accepted(Held),
    /// A limit refused it.
    Refused(RefusedBy),
    /// It failed with this status: 503 in an outage, uncounted; else 500 or 502, counted.
    Failed(u16),
}

/// What an accepted request holds until it ends, which it does once.
#[derive(Debug, PartialEq)]
#[must_use]
pub struct Held {
    pub(super) at: Nanos,
    pub(super) cost: Cost,
}

impl Held {
    /// When it was counted.
    #[must_use]
    pub fn at(&self) -> Nanos {
        self.at
    }

    /// What was counted for it on arrival.
    #[must_use]
    pub fn cost(&self) -> &Cost {
        &self.cost
    }
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedBy {
    /// The limit, by its place in the list; the one that refuses for longest, if there are several.
    pub limit: usize,
    /// Whether headers do not mention it.
    pub hidden: bool,
    /// How long until it would fit all limits. Nothing if nobody knows, or if it never does.
    pub wait: Option<Duration>,
}

/// What an upstream counts about its own answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamCounts {
    /// Our requests.
    pub us: Tally,
    /// Those of everybody else on the same key.
    pub neighbours: Tally,
}

impl UpstreamCounts {
    pub(super) fn over(limits: usize) -> UpstreamCounts {
        let tally = Tally { units: vec![0; limits], ..Tally::default() };
        UpstreamCounts { us: tally.clone(), neighbours: tally }
    }
}

/// Requests by what became of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// All of them.
    pub received: u64,
    /// Accepted.
    pub accepted: u64,
    /// Refused by a limit.
    pub refused: u64,
    /// Failed with a 5xx.
    pub failed: u64,
    /// Units counted by each limit for what it let through, what failed included, as corrected at the ends;
    /// for slots, how often one was taken.
    pub units: Vec<u64>,
}
