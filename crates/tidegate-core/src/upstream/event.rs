//! Events: what happened to windows, breakers and limits, and what was learned.
//!
//! An event tells of a change that a call, a reply or an operator makes: a window opens, is extended or is cleared, a breaker
//! opens or closes. What time alone does (a window runs out, a breaker is due for a probe) follows from the events before it.

use crate::model::time::Nanos;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// At most this many events are kept for observers; then the oldest go.
pub(crate) const KEPT: usize = 1024;

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
    /// Others took units of a limit. Only for those who [keep books](crate::Engine::keep_books).
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

/// Something happened to a window, a breaker or a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum News {
    /// A window opened, or was extended.
    WindowOpened {
        /// Whose it is.
        key: Arc<str>,
        /// How long it lasts, unless it is extended or cleared.
        until: Nanos,
    },
    /// A window was ended before its time.
    WindowCleared {
        /// Whose it is.
        key: Arc<str>,
    },
    /// A breaker opened.
    BreakerOpened {
        /// Its name.
        name: Arc<str>,
        /// When the next probe may go.
        until: Nanos,
    },
    /// A breaker closed.
    BreakerClosed {
        /// Its name.
        name: Arc<str>,
    },
    /// A reply or a report asked for a longer wait than its service allows, and got the longest one.
    WaitCut {
        /// Which service.
        service: Arc<str>,
        /// What it asked for.
        asked: Duration,
        /// What it got.
        allowed: Duration,
    },
    /// A call cost more than the bound on debt lets a limit count: the rest was dropped.
    DebtDropped {
        /// Which limit.
        limit: Arc<str>,
        /// How many units were dropped.
        units: u64,
    },
    /// A limit begins unspent, by an operator's request.
    LimitReset {
        /// Which limit.
        limit: Arc<str>,
        /// Units that counted before.
        used: u64,
    },
}

/// Events for observers.
#[derive(Debug, Default)]
pub(crate) struct Bulletin {
    pub(crate) news: VecDeque<News>,
    /// Whether an event came since the observer last looked.
    pub(crate) noticed: bool,
}
