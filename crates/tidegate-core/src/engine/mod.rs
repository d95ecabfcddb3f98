//! The engine: one atomic decision over all limits of a call, and a fair queue for those that must wait.
//!
//! A state machine without a clock. Whoever drives it calls [`Engine::try_admit`] or [`Engine::enqueue`]
//! for a new call, [`Engine::finish`] or [`Engine::cancel`] when one ends, [`Engine::withdraw`] when a
//! waiting one goes away, and [`Engine::advance`] at [`Engine::next_wake`]; after each of these it hands
//! out what [`Engine::verdicts`] holds. `now` must not go backwards; if it does, the latest time counts.
//!
//! The parts, in the order of a call's way:
//! `route` (which limits apply) → `pass` (fits now? go) → `admit`, `lane` (else wait) → `order` (rank) →
//! `judge` (what holds it) → `pump` (letting go) → `settle` (what it really cost).

mod admit;
mod arrived;
mod attribution;
mod book;
mod bounds;
mod change;
mod circuit;
mod deadlines;
mod ease;
mod effects;
mod ended;
mod explain;
mod facts;
mod feel;
mod grant;
mod hear;
mod held;
mod judge;
mod lane;
mod layout;
mod learned;
mod lend;
mod lesson;
mod line;
mod loop_index;
mod loop_name;
mod loops;
mod names;
mod news;
mod order;
mod others;
mod outlook;
mod pass;
mod predict;
mod pump;
mod reseat;
mod retired;
mod review;
mod revive;
mod roster;
mod route;
mod school;
mod scope;
mod settle;
mod slots;
mod state;
mod status;
mod watch;
mod windows;

use std::collections::BTreeSet;
use std::time::Duration;

pub use book::{Found, Page, Unknown};
pub use change::ChangeError;
pub use circuit::{BreakerState, BreakerStatus};
pub use ended::{Ended, Exhausted, Fate, Told};
pub use explain::{FirstInLine, Passage, Stand, Terms};
pub use facts::Facts;
pub use grant::{AT_ONCE, Departure, Grant};
pub use lane::Arrived;
pub use learned::{Explained, LearnedLimit};
pub use lend::LoanRequest;
pub use lesson::{Lesson, Slowed};
pub use news::News;
pub use outlook::Outlook;
pub use predict::Place;
pub use route::ServiceCounts;
pub use status::LimitStatus;
pub use windows::BackoffStatus;

use self::effects::{Effects, Served};
use self::grant::{InFlightCall, InFlightCalls};
use self::state::{Funding, Limits, Routing, Scheduler, Upstream};
use crate::algorithm::Meter;
use crate::config::Config;
use crate::model::fingerprint::Salt;
use crate::model::refusal::Refusal;
use crate::model::time::Nanos;
use crate::model::{Id, LaneId, SpecId, WaiterId};
pub(crate) use crate::model::{MAX_UNIT_KINDS, SLOT, Units};

/// Shares are kept in millionths.
pub(crate) const MILLION: i128 = 1_000_000;

/// A waiting call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket {
    index: WaiterId,
    generation: u32,
}

impl Ticket {
    /// Its place in a table of waiting calls: no other that waits at the same time has the same, and they are as
    /// small as can be.
    #[must_use]
    pub fn place(self) -> usize {
        self.index.index()
    }
}

/// What became of a call that waited.
#[derive(Debug)]
pub enum Verdict {
    /// It may go.
    Granted(Grant),
    /// It may not, and waits no longer.
    Refused(Refusal),
}

/// What became of a new call that is ready to wait.
#[derive(Debug)]
pub enum Admission {
    /// It may go.
    Granted(Grant),
    /// It waits; a verdict will come.
    Waiting(Ticket),
}

/// The engine.
#[derive(Debug)]
pub struct Engine {
    now: Nanos,
    limits: Limits,
    funding: Funding,
    routing: Routing,
    upstream: Upstream,
    in_flight: InFlightCalls,
    scheduler: Scheduler,
    effects: Effects,
}

impl Engine {
    /// An engine under `config`. `unix` is the wall-clock time at `now`, for calendar windows.
    ///
    /// # Errors
    /// If the config holds what cannot be: a weight that is no positive number, more than seven dimensions
    /// on one route, a limit of zero.
    pub fn new(config: &Config, now: Nanos, unix: Duration) -> Result<Engine, ChangeError> {
        let unix_offset = i128::try_from(unix.as_nanos()).unwrap_or(i128::MAX) - i128::from(now.0);
        let mut engine = Engine {
            now,
            limits: Limits { unix_offset, attention: Nanos::NEVER, ..Limits::default() },
            funding: Funding::default(),
            routing: Routing::default(),
            upstream: Upstream::default(),
            in_flight: InFlightCalls::default(),
            scheduler: Scheduler::default(),
            effects: Effects::default(),
        };
        engine.configure(config)?;
        Ok(engine)
    }

    /// Brings the engine to `now`: lets calls go whose time has come, refuses those whose time is up.
    pub fn advance(&mut self, now: Nanos) {
        let now = self.clock(now);
        if self.limits.attention <= now {
            self.end_tails(now);
        }
        if self.upstream.school.due <= now {
            self.review(now);
            self.plan_what_was_learned(now);
        }
        // A call that fits at its last moment goes; hence grants before refusals.
        if self.scheduler.timers.first().is_some_and(|(wake, _)| wake <= now)
            || !self.scheduler.dirty.is_empty()
            || self.effects.is_pending()
        {
            self.pump(now);
        }
        while let Some((deadline, waiter)) = self.scheduler.deadlines.first() {
            if deadline > now {
                break;
            }
            self.refuse_waiting(waiter, crate::model::refusal::Reason::Timeout, now);
            self.pump(now);
        }
    }

    /// Applies the effects that machines raised, all but the retirement of limits, which follows dispatch.
    fn apply_effects(&mut self, now: Nanos) {
        if !self.effects.is_pending() {
            return;
        }
        self.restructure(now);
        for Served { limit, loop_, route, class, units } in std::mem::take(&mut self.effects.served) {
            self.charge_flow(limit, (loop_, route, class), units, false, LaneId::NIL);
        }
        for limit in std::mem::take(&mut self.effects.touched) {
            self.touched(limit);
        }
    }

    /// Applies the effects that change where calls wait, and which of them can go at all.
    fn restructure(&mut self, now: Nanos) {
        for (service, model) in std::mem::take(&mut self.effects.split) {
            let waiting = self.unseat_model(service, &model);
            self.seat_again(waiting, now);
        }
        let routes = std::mem::take(&mut self.effects.reroute);
        self.rebind(&routes, now);
        let routes = std::mem::take(&mut self.effects.revisit);
        for lane in self.lanes_of(&routes) {
            let route = self.scheduler.lanes[lane].route.clone();
            self.mark_route(&route);
        }
        if std::mem::take(&mut self.effects.refit) {
            self.fit_all(now);
        }
        for breaker in std::mem::take(&mut self.effects.refuse) {
            self.refuse_all_at(breaker, now);
        }
    }

    /// Frees the ids of limits that were retired, once no machine refers to them.
    fn purge_retired(&mut self) {
        for limit in std::mem::take(&mut self.effects.retired) {
            self.arm(limit, Nanos::NEVER);
            self.limits[limit].contention = None;
            self.scheduler.dirty.retain(|marked| marked.0 != limit);
            self.upstream.school.forget(limit);
            self.limits.all.free(limit);
        }
    }

    /// When [`Engine::advance`] should be called next, if at all.
    #[must_use]
    pub fn next_wake(&self) -> Option<Nanos> {
        let timer = self.scheduler.timers.first().map(|(wake, _)| wake);
        let deadline = self.scheduler.deadlines.first().map(|(deadline, _)| deadline);
        // Nobody who does not wait cares when a tail ends: whoever comes next sees to it.
        let tail = (self.scheduler.waiting > 0 && !self.limits.attention.is_never())
            .then_some(self.limits.attention);
        let lesson = (self.scheduler.waiting > 0 && !self.upstream.school.due.is_never())
            .then_some(self.upstream.school.due);
        [timer, deadline, tail, lesson].into_iter().flatten().min()
    }

    /// What became of waiting calls since this was last asked.
    pub fn verdicts(&mut self) -> std::vec::Drain<'_, (Ticket, Verdict)> {
        self.scheduler.verdicts.drain(..)
    }

    /// Whether there is a verdict to hand out.
    #[must_use]
    pub fn has_verdicts(&self) -> bool {
        !self.scheduler.verdicts.is_empty()
    }

    /// How many calls wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.scheduler.waiting
    }

    /// Sets the salt of the fingerprints that API keys are named by. To be done before the first call.
    pub fn set_salt(&mut self, salt: Salt) {
        self.routing.salt = salt;
    }

    /// Returns the fingerprint by which an API key is named here.
    #[must_use]
    pub fn fingerprint(&self, secret: &str) -> String {
        self.routing.salt.fingerprint(secret)
    }

    /// The latest time the engine has seen.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// The wall clock shows `unix` at `now`. Calendar windows end when it shows their end; a step of it never gives a
    /// stretch of the calendar a second allowance.
    pub fn set_wall_clock(&mut self, now: Nanos, unix: Duration) {
        let now = self.clock(now);
        self.limits.unix_offset = i128::try_from(unix.as_nanos()).unwrap_or(i128::MAX) - i128::from(now.0);
        let calendars: BTreeSet<SpecId> =
            self.limits.specs.ids().filter(|spec| self.limits.specs[*spec].has_calendar()).collect();
        if calendars.is_empty() {
            return;
        }
        for limit in self.limits.all.ids() {
            let held = &mut self.limits.all[limit];
            if calendars.contains(&held.spec)
                && let Meter::Fixed(window) = &mut held.meter
                && window.follow(self.limits.unix_offset, now)
                && !self.limits.all.is_free(limit)
            {
                self.effects.touch(limit, &self.limits);
                self.limits.note_unsaved(limit);
            }
        }
        self.pump(now);
    }

    /// Returns what the wall clock shows at `now`, as far as the engine knows.
    #[must_use]
    pub fn wall_clock(&self, now: Nanos) -> Duration {
        let unix = u64::try_from(i128::from(now.0) + self.limits.unix_offset).unwrap_or(0);
        Duration::from_nanos(unix)
    }

    /// Returns whether any limit follows a calendar, and so the wall clock.
    #[must_use]
    pub fn has_calendars(&self) -> bool {
        self.limits.specs.iter().any(|spec| !spec.gone && spec.has_calendar())
    }

    /// Takes the time: it never goes backwards.
    #[inline]
    fn clock(&mut self, now: Nanos) -> Nanos {
        self.now = self.now.max(now);
        self.now
    }
}
