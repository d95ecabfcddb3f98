//! The judge's own book of circuit breakers.
//!
//! Kept from how calls ended and from the rules in the config: failures in a row open one, probes close it. What the
//! engine says of its breakers is compared with the book after every event that could change them. Only where the
//! rules are about shares of failed or slow calls is the engine's word taken that one has opened.

use std::collections::HashMap;
use std::time::Duration;

use tidegate_core::config::BreakerConfig;
use tidegate_core::engine::{BreakerState, Fate};
use tidegate_core::limits::breaker::BreakerPolicy;
use tidegate_core::{Engine, Nanos};

use super::happening::Broken;
use crate::report::Invariant;
use crate::routes::Kind;

/// Every breaker that a call has met.
#[derive(Debug, Default)]
pub(super) struct Breakers {
    known: HashMap<String, Breaker>,
}

#[derive(Debug)]
struct Breaker {
    rules: BreakerConfig,
    state: State,
    /// Counts the changes of state: what went before the latest tells nothing about it.
    turns: u64,
    in_a_row: u32,
    openings: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed,
    Open(Nanos),
    HalfOpen { out: u32, well: u32 },
}

/// The state of a breaker that a call went in, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pass {
    turn: u64,
    at: Nanos,
}

impl Breakers {
    /// Whether any breaker is not closed.
    pub fn are_open(&self) -> bool {
        self.known.values().any(|breaker| breaker.state != State::Closed)
    }

    /// Whether the breaker of a kind of calls holds them, or only lets probes through.
    pub fn holds(&self, kind: &Kind) -> bool {
        let breaker = kind.after.breaker.as_ref().and_then(|(name, _)| self.known.get(name));
        breaker.is_some_and(|breaker| breaker.state != State::Closed)
    }

    /// Whether a call of a kind would be refused or would have to wait for the breaker now.
    pub fn shuts_out(&self, kind: &Kind, now: Nanos) -> bool {
        let breaker = kind.after.breaker.as_ref().and_then(|(name, _)| self.known.get(name));
        breaker.is_some_and(|breaker| breaker.lets_none_through(now))
    }

    /// Whether a limit's name is that of the breaker of a kind of calls.
    pub fn is_of(&self, limit: Option<&str>, kind: &Kind) -> bool {
        limit == kind.after.breaker.as_ref().map(|(name, _)| name.as_str())
    }

    /// A call goes.
    pub fn goes(&mut self, kind: &Kind, now: Nanos) -> Result<Option<Pass>, Broken> {
        let Some((name, rules)) = &kind.after.breaker else { return Ok(None) };
        let breaker = self.known.entry(name.clone()).or_insert_with(|| Breaker::new(rules.clone()));
        if breaker.lets_none_through(now) && !kind.observed {
            let message = format!("a call went though `{name}` is {:?}", breaker.stands(now));
            return Err((Invariant::StayingAway, message));
        }
        Ok(Some(breaker.goes(now)))
    }

    /// A call ended.
    pub fn ends(&mut self, kind: &Kind, pass: Pass, fate: &Fate, now: Nanos) {
        let breaker = kind.after.breaker.as_ref().and_then(|(name, _)| self.known.get_mut(name));
        if let Some(breaker) = breaker {
            breaker.ends(pass, fate, now);
        }
    }

    /// What the engine says of its breakers must be what the book says.
    pub fn compare(&mut self, engine: &mut Engine, now: Nanos) -> Result<(), Broken> {
        if self.known.is_empty() {
            return Ok(());
        }
        for said in engine.breakers(now) {
            let Some(breaker) = self.known.get_mut(&*said.name) else { continue };
            let by_share = breaker.rules.failure_rate.is_some() || breaker.rules.slow_rate.is_some();
            let book = breaker.stands(now);
            match said.state {
                state if state == book => {}
                BreakerState::Open { probe_in } if by_share && book == BreakerState::Closed => {
                    breaker.opens_until(now.after(probe_in));
                }
                state => {
                    let message = format!("`{}` is {state:?}; by the book {book:?}", said.name);
                    return Err((Invariant::StayingAway, message));
                }
            }
        }
        Ok(())
    }
}

impl Breaker {
    fn new(rules: BreakerConfig) -> Breaker {
        Breaker { rules, state: State::Closed, turns: 0, in_a_row: 0, openings: 0 }
    }

    /// What it does with calls now.
    fn stands(&self, now: Nanos) -> BreakerState {
        match self.state {
            State::Closed => BreakerState::Closed,
            State::Open(until) if now < until => BreakerState::Open { probe_in: until.since(now) },
            State::Open(_) => BreakerState::HalfOpen { probes: self.rules.probes },
            State::HalfOpen { out, well } => {
                BreakerState::HalfOpen { probes: self.rules.probes.saturating_sub(out + well) }
            }
        }
    }

    fn lets_none_through(&self, now: Nanos) -> bool {
        matches!(self.stands(now), BreakerState::Open { .. } | BreakerState::HalfOpen { probes: 0 })
    }

    fn goes(&mut self, now: Nanos) -> Pass {
        if matches!(self.state, State::Open(until) if now >= until) {
            self.turn(State::HalfOpen { out: 0, well: 0 });
        }
        if let State::HalfOpen { out, .. } = &mut self.state {
            *out += 1;
        }
        Pass { turn: self.turns, at: now }
    }

    fn ends(&mut self, pass: Pass, fate: &Fate, now: Nanos) {
        if pass.turn != self.turns {
            return;
        }
        let well = match fate {
            Fate::Answered => Some(true),
            Fate::Failed { .. } | Fate::Unreached | Fate::Unprocessed => Some(false),
            Fate::TurnedAway { .. } | Fate::OutOfQuota => self.rules.count_rate_limits.then_some(false),
            Fate::Unknown => None,
        };
        let slow = self.rules.slow_after.is_some_and(|slow| now.since(pass.at) >= slow);
        match (self.state, well) {
            (State::Closed, Some(true)) => self.in_a_row = 0,
            (State::Closed, Some(false)) => {
                self.in_a_row += 1;
                if self.in_a_row >= self.rules.failures {
                    self.opens(now);
                }
            }
            (State::HalfOpen { out, well }, None) => self.state = State::HalfOpen { out: out - 1, well },
            (State::HalfOpen { .. }, Some(false)) => self.opens(now),
            (State::HalfOpen { .. }, Some(true)) if slow => self.opens(now),
            (State::HalfOpen { well, .. }, Some(true)) if well + 1 >= self.rules.probes => {
                (self.in_a_row, self.openings) = (0, 0);
                self.turn(State::Closed);
            }
            (State::HalfOpen { out, well }, Some(true)) => {
                self.state = State::HalfOpen { out: out - 1, well: well + 1 };
            }
            (State::Open(_), _) | (State::Closed, None) => {}
        }
    }

    fn opens(&mut self, now: Nanos) {
        let longest = self.rules.max_open.unwrap_or(BreakerPolicy::MAX_OPEN.max(self.rules.open_for));
        let times = 2_u32.checked_pow(self.openings).unwrap_or(u32::MAX);
        let span: Duration = self.rules.open_for.saturating_mul(times).min(longest);
        self.opens_until(now.after(span));
    }

    fn opens_until(&mut self, until: Nanos) {
        self.openings += 1;
        self.turn(State::Open(until));
    }

    fn turn(&mut self, state: State) {
        self.state = state;
        self.turns += 1;
    }
}
