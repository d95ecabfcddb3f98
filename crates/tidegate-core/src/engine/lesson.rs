//! What the engine learned from the upstream, as it happens.

use std::sync::Arc;
use std::time::Duration;

use super::Engine;
use crate::model::time::Nanos;

/// So many are kept for whoever asks; then the oldest go.
const KEPT: usize = 1024;

/// Something was learned about a limit.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Lesson {
    /// Replies state another N than the one that was in force.
    Units {
        /// Which limit.
        limit: Arc<str>,
        /// What they state.
        told: u64,
        /// What is in force now.
        in_force: u64,
    },
    /// The upstream counts as a bucket of this size does; or it turned out not to.
    Bucket {
        /// Which limit.
        limit: Arc<str>,
        /// How much may go at once.
        size: Option<u64>,
    },
    /// Calls were turned away though there should have been room, or are no longer.
    Ceiling {
        /// Which limit.
        limit: Arc<str>,
        /// The share of N that goes through.
        share: f64,
    },
    /// What others take of the same limit, where that changes what we leave alone for them.
    Others {
        /// Which limit.
        limit: Arc<str>,
        /// Units a second.
        rate: f64,
    },
    /// Calls reserve much more than they cost: so much goes at once, that nothing is lost of what they give back.
    Burst {
        /// Which limit.
        limit: Arc<str>,
        /// How much.
        burst: u64,
    },
    /// By how much calls may overtake each other, which is what pacing leaves alone.
    Jitter {
        /// Which limit.
        limit: Arc<str>,
        /// How much.
        apart: Duration,
    },
    /// Calls go at another pace for a time, whatever their limits are.
    Pace {
        /// Which service or model.
        scope: Arc<str>,
        /// The share of the usual pace.
        pace: f64,
        /// Why.
        by: Slowed,
    },
    /// So many calls in flight the upstream copes with.
    InFlight {
        /// Which limit.
        limit: Arc<str>,
        /// How many.
        bound: u64,
    },
    /// Others took units of a limit. Only for those who [keep books](Engine::keep_books).
    Charged {
        /// Which limit.
        limit: Arc<str>,
        /// How many.
        units: u64,
    },
    /// They took less than it seemed. Only for those who keep books.
    Refunded {
        /// Which limit.
        limit: Arc<str>,
        /// How many.
        units: u64,
        /// When these were charged.
        charged: Nanos,
    },
}

/// Why calls go at another pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Slowed {
    /// Too many of them failed.
    Overload,
    /// There were none for a time.
    Idle,
}

impl Engine {
    /// What was learned since this was last asked, oldest first.
    pub fn lessons(&mut self) -> Vec<Lesson> {
        self.upstream.school.lessons.drain(..).collect()
    }

    /// Whether something that was learned is to be looked at again at this time, which changes definitions.
    #[must_use]
    pub fn is_lesson_due(&self, now: Nanos) -> bool {
        self.upstream.school.due <= now
    }

    /// From now on also every unit that is charged for others is told.
    pub fn keep_books(&mut self) {
        self.upstream.school.keeps_books = true;
    }

    pub(super) fn tell(&mut self, lesson: Lesson) {
        self.facts_changed();
        self.notice();
        let lessons = &mut self.upstream.school.lessons;
        if lessons.len() >= KEPT && !self.upstream.school.keeps_books {
            lessons.pop_front();
        }
        lessons.push_back(lesson);
    }
}
