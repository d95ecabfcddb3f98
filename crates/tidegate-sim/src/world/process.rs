//! The process that is simulated: the real engine with its judge, its timer, its wall clock and its lenders.

use std::time::Duration;

use tidegate_core::engine::ChangeError;
use tidegate_core::{Engine, Nanos};

use super::digest::Digest;
use super::plan::{Event, Plan};
use crate::check::{Broken, Happening, Judge};
use crate::dice::Dice;
use crate::routes::Routes;
use crate::scenario::{LenderSpec, Scenario};
use crate::spread::Spread;

/// How many events pass between two looks at the state of all limits, for the digest.
const EVENTS_A_LOOK: u64 = 64;

/// The process, up or down.
#[derive(Debug)]
pub(crate) struct Process {
    /// Absent while the process is down.
    pub engine: Option<Engine>,
    /// Absent while the process is down, and if nothing is checked.
    pub judge: Option<Judge>,
    /// The engine's next wish to be woken, and when that will be.
    armed: Option<(Nanos, Nanos)>,
    clock_offset_ms: i64,
    timers: Dice,
    lenders: Dice,
}

impl Process {
    /// Creates a process that is down.
    pub fn new(seed: u64) -> Process {
        Process {
            engine: None,
            judge: None,
            armed: None,
            clock_offset_ms: 0,
            timers: Dice::part(seed, "timers", 0),
            lenders: Dice::part(seed, "lenders", 0),
        }
    }

    /// Starts the process with nothing but its config.
    pub fn start(
        &mut self,
        scenario: &Scenario,
        checks: bool,
        routes: &mut Routes,
        plan: &Plan,
    ) -> Result<(), ChangeError> {
        let now = plan.now();
        let mut engine = Engine::new(&scenario.config, now, self.unix(plan))?;
        for lender in &scenario.faults.lenders {
            if !engine.spend_from_loans(&lender.limit, lender.size, now) {
                return Err(ChangeError::UnknownLimit(lender.limit.clone()));
            }
        }
        engine.wait_for_breakers(scenario.wait_for_breakers);
        if checks {
            engine.keep_books();
        }
        routes.refresh(&mut engine, now);
        let late = scenario.faults.timer_late.as_ref().map_or(0, |late| late.high().saturating_mul(2));
        self.judge = checks.then(|| Judge::new(&scenario.config, late));
        self.engine = Some(engine);
        Ok(())
    }

    /// Stops the process. Returns whether it was up.
    pub fn stop(&mut self) -> bool {
        let was_up = self.engine.take().is_some();
        if was_up {
            (self.judge, self.armed) = (None, None);
        }
        was_up
    }

    /// Returns when the engine's timer fires, if it is set; timers may be `late`.
    pub fn fires_at(&mut self, late: Option<&Spread>) -> Option<Nanos> {
        let wish = self.engine.as_ref()?.next_wake()?;
        match (self.armed, late) {
            (_, None) => Some(wish),
            (Some((known, fires)), _) if known == wish => Some(fires),
            (_, Some(late)) => {
                let fires = Nanos(wish.0.saturating_add(late.draw(&mut self.timers)));
                self.armed = Some((wish, fires));
                Some(fires)
            }
        }
    }

    /// Disarms the timer, which has fired.
    pub fn disarm(&mut self) {
        self.armed = None;
    }

    /// Returns the Unix time by the wall clock of the process.
    pub fn unix(&self, plan: &Plan) -> Duration {
        let step = Duration::from_millis(self.clock_offset_ms.unsigned_abs());
        if self.clock_offset_ms < 0 {
            plan.unix().saturating_sub(step)
        } else {
            plan.unix().saturating_add(step)
        }
    }

    /// Moves the wall clock. The engine is not told.
    pub fn step_clock(&mut self, by_ms: i64) {
        self.clock_offset_ms = self.clock_offset_ms.saturating_add(by_ms);
    }

    /// Asks lenders for what limits want. Returns what each will answer and when.
    pub fn ask_lenders(&mut self, lenders: &[LenderSpec], now: Nanos) -> Vec<(Nanos, Event)> {
        if lenders.is_empty() {
            return Vec::new();
        }
        let requests = self.engine.as_mut().map(Engine::loan_requests).unwrap_or_default();
        let mut answers = Vec::new();
        for request in requests {
            let known = lenders.iter().position(|spec| *spec.limit == *request.limit);
            let Some(lender) = known else { continue };
            let spec = &lenders[lender];
            if self.lenders.happens(spec.forgets) {
                continue;
            }
            let at = Nanos(now.0.saturating_add(spec.delay.draw(&mut self.lenders)));
            let fails = self.lenders.happens(spec.fails);
            answers.push((
                at,
                if fails { Event::LendFails(lender) } else { Event::Lend(lender, request.units) },
            ));
        }
        answers
    }

    /// Checks every promise after an event.
    pub fn check(&mut self, routes: &Routes, event: &Happening, now: Nanos) -> Result<(), Broken> {
        match (&mut self.judge, &mut self.engine) {
            (Some(judge), Some(engine)) => judge.judge(engine, routes, event, now),
            _ => Ok(()),
        }
    }

    /// Checks that all is whole again at `end`, when everything has ended.
    pub fn check_end(&mut self, end: Nanos) -> Result<(), Broken> {
        match (&mut self.judge, &mut self.engine) {
            (Some(judge), Some(engine)) => {
                engine.advance(end);
                judge.check_end(engine, end)
            }
            _ => Ok(()),
        }
    }

    /// Adds to a digest what the engine announces and when it wants to be woken, and now and then the state of its
    /// limits.
    pub fn add_to(&mut self, digest: &mut Digest, plan: &Plan) {
        let Some(engine) = &mut self.engine else { return };
        engine.news().iter().for_each(|news| digest.add_news(news));
        digest.add_wake(engine.next_wake());
        if plan.events().is_multiple_of(EVENTS_A_LOOK) {
            digest.add_limits(engine.limits(plan.now()));
        }
    }
}
