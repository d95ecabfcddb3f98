//! The promises, checked at every event from the outside.
//!
//! The [`Judge`] keeps [books](book) of what was granted, one at each limit's [desk](desks), and a [roll] of the
//! [calls] that wait. It reads definitions and routes from the engine, but counts and ranks for itself:
//!
//! 1. *No overshoot*: at every grant each limit's definition holds over its book.
//! 2. *All or nothing*: after a refusal what the engine says is used is what the books say.
//! 3. *Conservation*: what ends was in flight, once; every ticket gets one verdict; at the end all is whole.
//! 4. *Work-conserving*: a call that has room everywhere and still waits shares a limit on a rate with one
//!    that has none.
//! 5. *Rank*: no call passes one of the same route that ranks before it and costs no more; no lower rank
//!    moves the booking of the first in line.
//! 6. *No starvation*: [age](aging) gets its share and no more, [loops](fair) get theirs, no call waits
//!    beyond the timeout.
//!
//! Besides limits, windows and breakers [hold](holds) calls: no call goes through a [window](windows) that is shut,
//! faster than its pace, or through a [breaker](breakers) that is open. The [ledger] sees to it that no call
//! is lost and none is made again that was answered.
//!
//! The seventh, that the same seed gives the same run, takes two runs. Some of 5 and 6 can only be told from
//! outside where one limit is all there is on a route; there they are exact.

mod aging;
mod book;
mod breakers;
mod calls;
mod desks;
mod end;
mod fair;
mod grants;
mod happening;
mod holds;
mod ledger;
mod rank;
mod refusals;
mod roll;
mod windows;
mod work;

use std::time::Duration;

use tidegate_core::{Config, Engine, Nanos};

use self::calls::Calls;
use self::desks::Desks;
use self::happening::Moment;
use self::holds::Holds;
use crate::report::Invariant;
use crate::routes::Routes;

pub(crate) use self::end::End;
pub(crate) use self::happening::{Broken, Happening, Newcomer};
pub(crate) use self::ledger::Ledger;

/// Watches the engine.
#[derive(Debug)]
pub(crate) struct Judge {
    desks: Desks,
    calls: Calls,
    holds: Holds,
}

impl Judge {
    /// Creates a judge over an engine that has done nothing yet, whose timers are at most `late`.
    pub fn new(config: &Config, late: u64) -> Judge {
        Judge { desks: Desks::default(), calls: Calls::new(late), holds: Holds::new(config) }
    }

    /// Notes that a call is about to ask.
    pub fn arrives(&mut self, call: u32, new: &Newcomer<'_>, deadline: Nanos) {
        self.calls.arrives(call, new, deadline);
    }

    /// Notes that a call is about to give back what it holds. Returns whether bookings may move: more was spent than
    /// reserved, or calls that wait may be held for longer.
    pub fn ends(
        &mut self,
        call: u32,
        end: &End<'_>,
        engine: &mut Engine,
        routes: &Routes,
        now: Nanos,
    ) -> Result<bool, Broken> {
        let record = &mut self.calls[call];
        self.desks.turn(engine, routes, record.kind, now)?;
        let unsettled = grants::give_back(record, &mut self.desks, end, routes, now)?;
        if self.holds.ends(record, end, routes, now) {
            self.desks.disturb();
        }
        Ok(unsettled)
    }

    /// Notes that a window is opened by hand for so long, or ended.
    pub fn window_by_hand(&mut self, key: &str, lasts: Option<Duration>, now: Nanos) {
        self.desks.disturb();
        self.holds.set_window(key, lasts, now);
    }

    /// Notes that a waiting call's caller went away.
    pub fn withdrawn(&mut self, call: u32, routes: &Routes) {
        self.calls.leaves(call, routes, &mut self.desks);
    }

    /// Notes that others took units of a limit, as the engine says.
    pub fn charged(
        &mut self,
        limit: u32,
        units: u64,
        engine: &mut Engine,
        routes: &Routes,
        now: Nanos,
    ) -> Result<(), Broken> {
        self.desks.charged(limit, units, engine, routes, now)
    }

    /// Notes that others took less than was charged for them then.
    pub fn refunded(&mut self, limit: u32, units: u64, charged: Nanos) {
        self.desks.refunded(limit, units, charged);
    }

    /// Notes that a limit's definition may have changed.
    pub fn redefined(&mut self, routes: &Routes, now: Nanos) {
        self.desks.redefined(routes, now);
        self.calls.bring_down(routes);
    }

    /// Checks every promise after an event.
    pub fn judge(
        &mut self,
        engine: &mut Engine,
        routes: &Routes,
        event: &Happening,
        now: Nanos,
    ) -> Result<(), Broken> {
        let Judge { desks, calls, holds } = self;
        let moment = Moment { event, routes, now };
        desks.open(routes, now);
        let touched = calls.touched(event);
        for &kind in &touched {
            desks.turn(engine, routes, kind, now)?;
        }
        // It may go in the same instant, when its coming pushes out another.
        if let Some((call, ticket)) = event.waits {
            calls.joins(call, ticket, routes, desks);
        }
        grants::note(calls, desks, holds, &moment)?;
        rank::check(calls, desks, holds, &moment)?;
        if event.ended.is_some() || !event.granted.is_empty() {
            holds.breakers.compare(engine, now)?;
            if holds.breakers.are_open() {
                desks.disturb();
            }
        }
        refusals::check(calls, desks, holds, &moment)?;
        let waiting = engine.waiting();
        if waiting != calls.roll.len() {
            let message = format!("{waiting} calls wait, and {} should", calls.roll.len());
            return Err((Invariant::Conservation, message));
        }
        for &kind in &touched {
            desks.compare(engine, kind, &moment)?;
        }
        desks.compare_throttles(engine, routes, now)?;
        if event.unsettled && !holds.windows.is_empty() {
            holds.windows.compare(engine, now)?;
        }
        rank::check_bookings(calls, desks, holds, engine, &touched, &moment)?;
        calls.check_deadlines(now)?;
        if event.current {
            work::check(calls, desks, holds, engine, &touched, &moment)?;
        }
        Ok(())
    }

    /// Checks that all is whole again when nothing is in flight or waits and all windows have passed.
    pub fn check_end(&mut self, engine: &mut Engine, now: Nanos) -> Result<(), Broken> {
        for limit in engine.limits(now) {
            if limit.used != 0 || limit.waiting != 0 {
                let message = format!("`{}` has {} used when all is over", limit.name, limit.used);
                return Err((Invariant::Conservation, message));
            }
        }
        Ok(())
    }
}
