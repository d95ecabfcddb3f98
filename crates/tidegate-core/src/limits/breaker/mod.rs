//! The circuit breaker: an upstream that only fails is left alone for a while.
//!
//! ```text
//!             too many failures, or slow calls
//!   Closed ─────────────────────────────────────► Open ◄──────────┐
//!     ▲                                             │ after a time │ a probe failed:
//!     │ all probes succeeded                        ▼              │ open for twice as long
//!     └───────────────────────────────────────── HalfOpen ─────────┘
//! ```
//!
//! Whoever may go gets a [`Pass`] and hands it back with the outcome. A pass knows the state it is from: what
//! becomes of a call that went before the breaker last changed changes nothing. A pass must always come back,
//! be it as [`Outcome::Ignored`] when a call was cancelled or dropped: a probe that stays out keeps others
//! from trying.

mod outcome;
mod policy;

use std::time::Duration;

use crate::model::recent::Recent;
use crate::model::time::{Nanos, whole_nanos};

pub use crate::model::invalid::InvalidPolicy;
pub use outcome::Outcome;
pub use policy::BreakerPolicy;

/// A circuit breaker.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::Nanos;
/// use tidegate_core::limits::breaker::{Answer, Breaker, BreakerPolicy, Outcome};
///
/// let mut breaker = Breaker::new(BreakerPolicy::default());
/// let second = |n| Nanos::ZERO.after(Duration::from_secs(n));
/// for _ in 0..5 {
///     let Answer::Go(pass) = breaker.ask(second(0)) else { panic!("it is closed") };
///     breaker.report(pass, Outcome::Failure, Duration::from_millis(20), second(0));
/// }
/// assert_eq!(breaker.ask(second(29)), Answer::Refuse { until: Some(second(30)) });
/// let Answer::Probe(pass) = breaker.ask(second(30)) else { panic!("a probe is due") };
/// breaker.report(pass, Outcome::Success, Duration::from_millis(20), second(31));
/// assert!(matches!(breaker.ask(second(31)), Answer::Go(_)));
/// ```
#[derive(Clone, Debug)]
pub struct Breaker {
    policy: BreakerPolicy,
    state: State,
    /// Counts the changes of state.
    epoch: u64,
    /// How often it has opened since it was last closed.
    openings: u32,
}

#[derive(Clone, Debug)]
enum State {
    Closed(Closed),
    Open { until: Nanos },
    HalfOpen(HalfOpen),
}

#[derive(Clone, Debug)]
struct Closed {
    failures_in_a_row: u32,
    recent: Recent<Counts, 10>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    calls: u32,
    failed: u32,
    slow: u32,
}

#[derive(Clone, Debug, Default)]
struct HalfOpen {
    out: u32,
    succeeded: u32,
}

/// The right to make one call. It is handed back with the outcome.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a pass that does not come back keeps others from trying"]
pub struct Pass {
    epoch: u64,
}

/// Whether a call may be made.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// It may.
    Go(Pass),
    /// It may, to see whether the upstream is well again.
    Probe(Pass),
    /// It may not.
    Refuse {
        /// When the next probe may go; `None` while that depends on probes that are out.
        until: Option<Nanos>,
    },
}

/// What a report changed, for those who wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    None,
    /// A probe came back without an answer: another one may go.
    ProbeFreed,
    /// Nobody may go until then.
    Opened {
        /// When the next probe may go.
        until: Nanos,
    },
    /// Everybody may go again.
    Closed,
}

/// What state a breaker is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Everybody may go.
    Closed,
    /// Nobody may go until then.
    Open {
        /// When the next probe may go.
        until: Nanos,
    },
    /// So many probes may go now.
    HalfOpen {
        /// How many.
        probes: u32,
    },
}

impl Breaker {
    /// A breaker that is closed.
    #[must_use]
    pub fn new(policy: BreakerPolicy) -> Breaker {
        let state = State::Closed(Closed::new(&policy));
        Breaker { policy, state, epoch: 0, openings: 0 }
    }

    /// Whether a call may be made now.
    pub fn ask(&mut self, now: Nanos) -> Answer {
        match self.status(now) {
            Status::Open { until } => return Answer::Refuse { until: Some(until) },
            Status::HalfOpen { probes: 0 } => return Answer::Refuse { until: None },
            Status::Closed | Status::HalfOpen { .. } => {}
        }
        self.take(now);
        match self.state {
            State::HalfOpen(_) => Answer::Probe(self.pass()),
            State::Closed(_) | State::Open { .. } => Answer::Go(self.pass()),
        }
    }

    /// A call goes, whether it may or not.
    pub(crate) fn take(&mut self, now: Nanos) {
        if matches!(self.state, State::Open { until } if now >= until) {
            self.turn_to(State::HalfOpen(HalfOpen::default()));
        }
        if let State::HalfOpen(probes) = &mut self.state {
            probes.out = probes.out.saturating_add(1);
        }
    }

    /// The call that was about to go at this moment did not.
    pub(crate) fn undo(&mut self) {
        if let State::HalfOpen(probes) = &mut self.state {
            probes.out = probes.out.saturating_sub(1);
        }
    }

    /// The pass of a call that goes in the present state.
    pub(crate) fn pass(&self) -> Pass {
        Pass { epoch: self.epoch }
    }

    /// From when on a call may go; never, if that depends on probes that are out.
    pub(crate) fn opens(&self) -> Nanos {
        match &self.state {
            State::Closed(_) => Nanos::ZERO,
            State::Open { until } => *until,
            State::HalfOpen(probes) if probes.free(&self.policy) > 0 => Nanos::ZERO,
            State::HalfOpen(_) => Nanos::NEVER,
        }
    }

    /// What it knows of the upstream: failures in a row, how often it has opened, and until when it is open. Who probes
    /// meanwhile is not known after a restart, so a probe is due then.
    pub(crate) fn known(&self) -> (u32, u32, Option<Nanos>) {
        match &self.state {
            State::Closed(closed) => (closed.failures_in_a_row, 0, None),
            State::Open { until } => (0, self.openings, Some(*until)),
            State::HalfOpen(_) => (0, self.openings, Some(Nanos::ZERO)),
        }
    }

    /// The other way round, in a breaker that is new.
    pub(crate) fn believe(&mut self, (failures, openings, open): (u32, u32, Option<Nanos>)) {
        self.openings = openings;
        match (open, &mut self.state) {
            (Some(until), _) => self.turn_to(State::Open { until }),
            (None, State::Closed(closed)) => closed.failures_in_a_row = failures,
            (None, _) => {}
        }
    }

    /// Puts other rules into force. What it knows of the upstream stays.
    pub(crate) fn change(&mut self, policy: BreakerPolicy) {
        if let State::Closed(closed) = &mut self.state
            && policy.window != self.policy.window
        {
            closed.recent = Recent::over(policy.window);
        }
        self.policy = policy;
        // Fewer probes may be asked for than have succeeded already.
        if matches!(&self.state, State::HalfOpen(probes) if probes.succeeded >= self.policy.probes) {
            self.close();
        }
    }

    /// Hands a pass back: what became of the call, and how long it took.
    pub fn report(&mut self, pass: Pass, outcome: Outcome, took: Duration, now: Nanos) -> Effect {
        if pass.epoch != self.epoch {
            return Effect::None;
        }
        match &self.state {
            State::Closed(_) => self.report_closed(outcome, took, now),
            State::HalfOpen(_) => self.report_half_open(outcome, took, now),
            // It opened in an epoch in which no pass was given out.
            State::Open { .. } => Effect::None,
        }
    }

    /// What state it is in now.
    #[must_use]
    pub fn status(&self, now: Nanos) -> Status {
        match &self.state {
            State::Closed(_) => Status::Closed,
            State::Open { until } if now < *until => Status::Open { until: *until },
            State::Open { .. } => Status::HalfOpen { probes: self.policy.probes },
            State::HalfOpen(probes) => Status::HalfOpen { probes: probes.free(&self.policy) },
        }
    }

    /// Whether everybody may go, and leaves nothing to be counted.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed(_))
    }

    /// Its rules.
    #[must_use]
    pub fn policy(&self) -> &BreakerPolicy {
        &self.policy
    }

    fn report_closed(&mut self, outcome: Outcome, took: Duration, now: Nanos) -> Effect {
        let slow = self.is_slow(took);
        let State::Closed(closed) = &mut self.state else { return Effect::None };
        match outcome {
            Outcome::Ignored => return Effect::None,
            Outcome::Success => closed.failures_in_a_row = 0,
            Outcome::Failure => closed.failures_in_a_row += 1,
        }
        let counts = closed.recent.now(now);
        counts.calls = counts.calls.saturating_add(1);
        counts.failed = counts.failed.saturating_add(u32::from(outcome == Outcome::Failure));
        counts.slow = counts.slow.saturating_add(u32::from(slow));
        if closed.is_too_bad(&self.policy) { self.open(now) } else { Effect::None }
    }

    fn report_half_open(&mut self, outcome: Outcome, took: Duration, now: Nanos) -> Effect {
        let slow = self.is_slow(took);
        let State::HalfOpen(probes) = &mut self.state else { return Effect::None };
        probes.out = probes.out.saturating_sub(1);
        match outcome {
            Outcome::Ignored => Effect::ProbeFreed,
            Outcome::Failure => self.open(now),
            // An upstream that was left alone for being slow is not well again as long as it is slow.
            Outcome::Success if slow => self.open(now),
            Outcome::Success => {
                probes.succeeded += 1;
                if probes.succeeded < self.policy.probes { Effect::None } else { self.close() }
            }
        }
    }

    fn open(&mut self, now: Nanos) -> Effect {
        let first = u128::from(whole_nanos(self.policy.open_for));
        let grown = u64::try_from(first << self.openings.min(64)).unwrap_or(u64::MAX);
        let span = Duration::from_nanos(grown).min(self.policy.max_open);
        let until = now.after(span);
        self.openings = self.openings.saturating_add(1);
        self.turn_to(State::Open { until });
        Effect::Opened { until }
    }

    fn close(&mut self) -> Effect {
        self.openings = 0;
        self.turn_to(State::Closed(Closed::new(&self.policy)));
        Effect::Closed
    }

    fn turn_to(&mut self, state: State) {
        self.state = state;
        self.epoch += 1;
    }

    fn is_slow(&self, took: Duration) -> bool {
        self.policy.slow.is_some_and(|slow| took >= slow.after)
    }
}

impl Closed {
    fn new(policy: &BreakerPolicy) -> Closed {
        Closed { failures_in_a_row: 0, recent: Recent::over(policy.window) }
    }

    fn is_too_bad(&self, policy: &BreakerPolicy) -> bool {
        if self.failures_in_a_row >= policy.failures {
            return true;
        }
        let calls = self.recent.sum(|counts| counts.calls.into());
        let reaches = |count: u64, rate: f64| count as f64 >= rate * calls as f64;
        let too_many = |rate: Option<f64>, count: fn(&Counts) -> u64| {
            rate.is_some_and(|rate| reaches(self.recent.sum(count), rate))
        };
        calls >= u64::from(policy.min_calls)
            && (too_many(policy.failure_rate, |counts| counts.failed.into())
                || too_many(policy.slow.map(|slow| slow.rate), |counts| counts.slow.into()))
    }
}

impl HalfOpen {
    /// How many more probes may go.
    fn free(&self, policy: &BreakerPolicy) -> u32 {
        policy.probes.saturating_sub(self.out.saturating_add(self.succeeded))
    }
}
