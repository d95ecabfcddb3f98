//! What goes wrong on our side: the process dies, the clock jumps, limits change, lenders are slow.

use std::time::Duration;

use tidegate_core::allotment::Loan;
use tidegate_core::config::RateLimit;
use tidegate_core::engine::{ChangeError, Terms};
use tidegate_core::rate::Algorithm;
use tidegate_core::{Engine, Nanos};

use super::calls::Stage;
use super::story::Line;
use super::tally::{Fate, dimension_in};
use super::{Event, Stop, Trouble, UNIX, World};
use crate::check::{Happening, Judge};
use crate::scenario::NewLimit;

/// A lender that failed is asked again after this.
const ASK_AGAIN: Duration = Duration::from_millis(100);

impl World<'_> {
    /// A process begins with nothing but its config.
    pub(super) fn start_engine(&mut self) -> Result<(), ChangeError> {
        let mut engine = Engine::new(&self.scenario.config, self.now, self.unix())?;
        for lender in &self.scenario.faults.lenders {
            if !engine.spend_from_loans(&lender.limit, lender.size, self.now) {
                return Err(ChangeError::UnknownLimit(lender.limit.clone()));
            }
        }
        engine.wait_for_breakers(self.scenario.wait_for_breakers);
        if self.options.checks {
            engine.keep_books();
        }
        self.routes.refresh(&mut engine, self.now);
        let late = self.scenario.faults.timer_late.as_ref().map_or(0, |late| late.high().saturating_mul(2));
        self.judge = self.options.checks.then(|| Judge::new(&self.scenario.config, late));
        self.engine = Some(engine);
        self.ask_lenders();
        Ok(())
    }

    /// The process dies: whatever waits or runs is lost to it.
    pub(super) fn crash(&mut self, number: usize) -> Result<(), Stop> {
        if self.engine.take().is_none() {
            return Ok(());
        }
        let crash = self.scenario.faults.crashes[number];
        self.note(Line::Crashed);
        self.judge = None;
        self.trouble = Trouble::default();
        (0..self.service_names.len()).for_each(|service| self.tally.backs_off_until(service, self.now));
        self.armed = None;
        self.tickets.clear();
        for place in 0..self.calls.len() as u32 {
            let state = &mut self.calls[place as usize];
            let orphan = match std::mem::replace(&mut state.stage, Stage::Over) {
                Stage::Over => continue,
                Stage::Orphan(held) => {
                    state.stage = Stage::Orphan(held);
                    continue;
                }
                Stage::Sent(_) => Some(Stage::Orphan(None)),
                Stage::Answered(_, reply) => Some(Stage::Orphan(reply.held())),
                Stage::Waiting(_) => {
                    self.tally.waits(self.routes.kind(state.kind).service, -1, self.now);
                    None
                }
                Stage::Resting => None,
            };
            let (no, source, kind, worker) = (state.no, state.source, state.kind, state.worker);
            self.tally.count(source, self.routes.kind(kind).class, Fate::Crashed);
            self.ledger.over(no).map_err(|broken| self.broken_by(broken))?;
            self.worker_goes_on(source, worker, crash.down);
            match orphan {
                Some(stage) => self.calls[place as usize].stage = stage,
                None => self.vacate(place),
            }
        }
        let (from, to) = (self.now.since(Nanos::ZERO), self.now.after(crash.down).since(Nanos::ZERO));
        self.tally.down.push((from, to.min(self.scenario.duration)));
        self.foresee(self.now.after(crash.down), Event::Restart);
        Ok(())
    }

    pub(super) fn restart(&mut self) -> Result<(), Stop> {
        self.note(Line::Restarted);
        self.tally.supply_until(&self.routes, self.now);
        self.start_engine().map_err(Stop::Wrong)?;
        self.tally.limits_are(&self.routes, self.now);
        Ok(())
    }

    pub(super) fn step_clock(&mut self, number: usize) -> Result<(), Stop> {
        self.clock_offset_ms =
            self.clock_offset_ms.saturating_add(self.scenario.faults.clock_steps[number].by_ms);
        self.let_go_what_is_due()?;
        self.note(Line::ClockStepped);
        let unix = self.unix();
        if let Some(engine) = &mut self.engine {
            engine.set_wall_clock(self.now, unix);
        }
        self.collect(Happening { unsettled: true, current: true, ..Happening::default() })
    }

    /// One of our limits becomes another.
    pub(super) fn change(&mut self, number: usize) -> Result<(), Stop> {
        let change = &self.scenario.faults.changes[number];
        self.let_go_what_is_due()?;
        let Some(engine) = &mut self.engine else { return Ok(()) };
        let changed = match change.to {
            NewLimit::InFlight(bound) => engine.set_in_flight(&change.limit, bound, self.now),
            NewLimit::Rate(rate) => {
                let known =
                    (0..self.routes.limit_count()).find(|limit| **self.routes.name(*limit) == *change.limit);
                let algorithm = known.and_then(|limit| match self.routes.terms(limit) {
                    Terms::TokenBucket { .. } => Some(Algorithm::TokenBucket),
                    Terms::FixedWindow { .. } => Some(Algorithm::FixedWindow),
                    _ => None,
                });
                let plain = RateLimit::plain(dimension_in(&change.limit), rate);
                let limit = RateLimit { algorithm, ..plain };
                engine.set_rate(&change.limit, &limit, self.now)
            }
        };
        changed.map_err(Stop::Wrong)?;
        self.tally.supply_until(&self.routes, self.now);
        self.routes.refresh(engine, self.now);
        if let Some(judge) = &mut self.judge {
            judge.redefined(&self.routes, self.now);
        }
        self.tally.limits_are(&self.routes, self.now);
        self.note(Line::Changed);
        self.collect(Happening { unsettled: true, current: true, ..Happening::default() })
    }

    /// Somebody opens or ends a backoff window.
    pub(super) fn window_by_hand(&mut self, number: usize) -> Result<(), Stop> {
        let window = &self.scenario.faults.windows[number];
        self.let_go_what_is_due()?;
        if let Some(judge) = &mut self.judge {
            judge.window_by_hand(&window.key, window.lasts, self.now);
        }
        let Some(engine) = &mut self.engine else { return Ok(()) };
        match window.lasts {
            Some(lasts) => engine.set_backoff(&window.key, lasts, self.now).map_err(Stop::Wrong)?,
            None => drop(engine.clear_backoff(&window.key, self.now)),
        }
        self.note(Line::Window);
        match window.lasts {
            Some(_) => self.note_trouble(),
            None => self.window_ended(&window.key),
        }
        self.collect(Happening { unsettled: true, current: true, ..Happening::default() })
    }

    /// Before something changes, those whose time had come go, late as the timer may be.
    pub(super) fn let_go_what_is_due(&mut self) -> Result<(), Stop> {
        let Some(engine) = &mut self.engine else { return Ok(()) };
        engine.advance(self.now);
        self.collect(Happening { current: true, ..Happening::default() })
    }

    // ---- lenders ----

    /// Passes on what limits ask of their lenders.
    pub(super) fn ask_lenders(&mut self) {
        if self.scenario.faults.lenders.is_empty() {
            return;
        }
        let requests = self.engine.as_mut().map(Engine::loan_requests).unwrap_or_default();
        for request in requests {
            let specs = &self.scenario.faults.lenders;
            let Some(lender) = specs.iter().position(|spec| *spec.limit == *request.limit) else { continue };
            let spec = &specs[lender];
            if self.lenders.happens(spec.forgets) {
                continue;
            }
            let at = Nanos(self.now.0.saturating_add(spec.delay.draw(&mut self.lenders)));
            let fails = self.lenders.happens(spec.fails);
            self.foresee(
                at,
                if fails { Event::LendFails(lender) } else { Event::Lend(lender, request.units) },
            );
        }
    }

    pub(super) fn lend(&mut self, lender: usize, units: u64) -> Result<(), Stop> {
        let spec = &self.scenario.faults.lenders[lender];
        self.note(Line::Lent { units });
        if let Some(engine) = &mut self.engine {
            let loan = Loan { units, from: self.now, until: self.now.after(spec.usable) };
            engine.lend(&spec.limit, loan, self.now);
        }
        self.collect(Happening { unsettled: true, ..Happening::default() })
    }

    pub(super) fn lend_fails(&mut self, lender: usize) -> Result<(), Stop> {
        let spec = &self.scenario.faults.lenders[lender];
        self.note(Line::NotLent);
        if let Some(engine) = &mut self.engine {
            engine.loan_failed(&spec.limit, self.now.after(ASK_AGAIN), self.now);
        }
        self.collect(Happening { unsettled: true, ..Happening::default() })
    }

    pub(super) fn unix(&self) -> Duration {
        let unix = UNIX + self.now.since(Nanos::ZERO);
        let step = Duration::from_millis(self.clock_offset_ms.unsigned_abs());
        if self.clock_offset_ms < 0 { unix.saturating_sub(step) } else { unix.saturating_add(step) }
    }
}
