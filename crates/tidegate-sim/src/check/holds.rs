//! What holds calls besides limits: the windows and the breakers, as one.

use std::time::Duration;

use tidegate_core::engine::Terms;
use tidegate_core::{Config, Nanos, Refusal};

use super::breakers::Breakers;
use super::calls::Record;
use super::end::End;
use super::happening::Broken;
use super::windows::{Ending, Windows};
use crate::routes::{Kind, Routes};

/// The books of windows and breakers.
#[derive(Debug)]
pub(super) struct Holds {
    pub windows: Windows,
    pub breakers: Breakers,
}

impl Holds {
    pub fn new(config: &Config) -> Holds {
        Holds { windows: Windows::new(config), breakers: Breakers::default() }
    }

    /// Lets a call go: checks that windows and breakers let it, and notes how it went.
    pub fn goes(&mut self, record: &mut Record, routes: &Routes, now: Nanos) -> Result<(), Broken> {
        let kind = routes.kind(record.kind);
        self.windows.goes(record.kind, kind, &record.costs, routes, now)?;
        record.pass = self.breakers.goes(kind, now)?;
        record.throttled = self.windows.throttle(record.kind, kind, routes, now);
        if record.throttled {
            // Its bytes in flight count several times, and that many come back.
            for (used, cost) in kind.limits.iter().zip(&mut record.costs) {
                if matches!(routes.terms(used.limit), Terms::ByteBudget(_)) {
                    *cost = cost.saturating_mul(kind.after.backoff.byte_penalty_multiplier.max(1).into());
                }
            }
        }
        Ok(())
    }

    /// Notes how a call ended. Returns whether that opened or extended a window.
    pub fn ends(&mut self, record: &mut Record, end: &End<'_>, routes: &Routes, now: Nanos) -> bool {
        let kind = routes.kind(record.kind);
        if let Some(pass) = record.pass.take() {
            self.breakers.ends(kind, pass, &end.ended.fate, now);
        }
        let Record { kind: number, ref costs, granted, .. } = *record;
        self.windows.ends(Ending { number, kind, costs, granted, ended: end.ended }, routes, now)
    }

    /// Opens a window by hand for so long, or ends it.
    pub fn set_window(&mut self, key: &str, lasts: Option<Duration>, now: Nanos) {
        match lasts {
            Some(lasts) => self.windows.set(key, lasts, now),
            None => self.windows.clear(key, now),
        }
    }

    /// Returns whether a waiting call has windows or a breaker on its way that another does not meet.
    pub fn hold_besides(&mut self, waits: &Record, other: &Record, routes: &Routes, now: Nanos) -> bool {
        if self.windows.is_empty() && !self.breakers.are_open() {
            return false;
        }
        let (kind, others) = (routes.kind(waits.kind), routes.kind(other.kind));
        let held = self.windows.hold(waits.kind, kind, &waits.costs, routes, now);
        let also = self.windows.hold(other.kind, others, &other.costs, routes, now);
        let throttled = self.windows.tails(waits.kind, kind, routes, now);
        let also_throttled = self.windows.tails(other.kind, others, routes, now);
        if held.iter().any(|window| !also.contains(window))
            || throttled.iter().any(|window| !also_throttled.contains(window))
        {
            return true;
        }
        let breaker = |kind: &Kind| kind.after.breaker.as_ref().map(|(name, _)| name.clone());
        self.breakers.holds(kind) && breaker(kind) != breaker(others)
    }

    /// Returns whether two calls go at the pace of the same window.
    pub fn share_a_pace(&mut self, a: &Record, b: &Record, routes: &Routes, now: Nanos) -> bool {
        let mut held = |record: &Record| {
            self.windows.hold(record.kind, routes.kind(record.kind), &record.costs, routes, now)
        };
        let (one, other) = (held(a), held(b));
        one.iter().any(|window| other.contains(window))
    }

    /// Returns whether the window or the breaker that a refusal names, if it is one, does hold calls.
    pub fn stand_in_the_way(&self, refusal: &Refusal, kind: &Kind, now: Nanos) -> bool {
        let name = refusal.limit.as_deref().unwrap_or_default();
        match name.rsplit_once('/') {
            Some((key, "backoff")) => self.windows.may_hold(key, now),
            Some((_, "breaker")) => self.breakers.holds(kind),
            _ => true,
        }
    }
}
