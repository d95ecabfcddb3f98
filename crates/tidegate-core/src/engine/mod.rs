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
pub(crate) mod contention;
mod deadlines;
mod ease;
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
mod status;
mod watch;
mod windows;

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hashbrown::HashMap;

pub use arrived::Arrived;
pub use book::{Found, Page, Unknown};
pub use change::ChangeError;
pub use circuit::{BreakerState, BreakerStatus};
pub use ended::{Ended, Exhausted, Fate, Told};
pub use explain::{FirstInLine, Passage, Stand, Terms};
pub use facts::Facts;
pub use grant::{AT_ONCE, Departure, Grant};
pub use learned::{Explained, LearnedLimit};
pub use lend::LoanRequest;
pub use lesson::{Lesson, Slowed};
pub use news::News;
pub use outlook::Outlook;
pub use predict::Place;
pub use status::{LimitStatus, ServiceCounts};
pub use windows::BackoffStatus;

use self::book::Book;
use self::circuit::Passed;
use self::contention::LaneKey;
use self::deadlines::Deadlines;
use self::grant::{InFlightCall, InFlightCalls};
use self::lane::{Lane, Run, Waiter};
use self::loop_index::LoopIndex;
use self::loops::LoopRecord;
use self::names::KeyLimits;
use self::news::Bulletin;
use self::pump::Candidate;
use self::retired::Retired;
use self::route::{LoopType, Service, Skeleton, SkeletonKey};
use self::school::School;
use self::windows::Window;
use crate::algorithm::Meter;
use crate::call::Shape;
use crate::config::Config;
use crate::fingerprint::Salt;
use crate::limit::{Limit, Spec};
use crate::model::{Arena, BatchId, Id, LaneId, LimitId, LoopId, RouteId, ServiceId, SpecId, WaiterId};
use crate::priority::Priority;
use crate::refusal::Refusal;
use crate::time::Nanos;
use crate::tree::{Sorted, Trees};

/// Kinds of units on one route: at most seven dimensions, and the slot itself.
pub(crate) const MAX_UNIT_KINDS: usize = 8;
/// The kind that counts the call itself: one, whatever it costs.
pub(crate) const SLOT: u8 = 7;
/// Shares are kept in millionths.
pub(crate) const MILLION: i128 = 1_000_000;

/// What a call takes, by kind, in the layout of its route.
pub(crate) type Units = [u64; MAX_UNIT_KINDS];

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
    /// Unix time of `Nanos::ZERO`, for calendar windows.
    unix_offset: i128,
    /// Marks routes found under this config by this engine; no other has the same.
    tag: u32,
    /// How many configs were in force before this one.
    epoch: u32,

    specs: Arena<SpecId, Spec>,
    limits: Arena<LimitId, Limit>,
    global: Vec<SpecId>,
    services: Arena<ServiceId, Service>,
    service_index: HashMap<Box<str>, ServiceId>,
    loop_types: HashMap<Box<str>, LoopType>,
    loop_specs: Vec<SpecId>,
    customs: Vec<Arc<str>>,

    skeletons: Arena<RouteId, Skeleton>,
    key_gc_at: usize,
    skeleton_index: HashMap<SkeletonKey, RouteId>,
    shapes: HashMap<Arc<Shape>, RouteId>,
    /// Definitions by name.
    spec_names: HashMap<Arc<str>, SpecId>,
    key_limits: KeyLimits,
    loops: Arena<LoopId, LoopRecord>,
    loop_index: LoopIndex,
    loop_hasher: hashbrown::DefaultHashBuilder,
    hand: usize,

    lanes: Arena<LaneId, Lane>,
    lane_index: HashMap<(RouteId, LoopId, Priority), LaneId>,
    in_flight: InFlightCalls,
    waiters: Arena<WaiterId, Waiter>,
    runs: Arena<BatchId, Run>,
    waiting: usize,
    seq: u64,
    /// The largest cost that ever waited.
    largest: u64,
    order: Trees<LaneKey, u64>,
    run_order: Trees<(u64, BatchId), Units>,

    windows: Vec<Window>,
    /// What all limits of windows are made from.
    window_spec: SpecId,
    /// When the first of them is to be looked at: it throttles or holds nobody any more.
    windows_due: Nanos,
    /// The breaker that each call in flight went through, and in which of its states.
    passes: Vec<Option<Passed>>,
    /// Whether a new call waits for a breaker that is open.
    patient: bool,
    /// What replies teach.
    school: School,
    /// What happened to windows and breakers.
    bulletin: Bulletin,

    timers: Sorted<(Nanos, LimitId)>,
    deadlines: Deadlines,
    /// Limits to look at, some of them more than once.
    dirty: BinaryHeap<Reverse<LimitId>>,
    /// Empty, but not given back: whom to let go is found anew each time.
    candidates: Vec<(LimitId, Candidate)>,
    verdicts: Vec<(Ticket, Verdict)>,
    loan_requests: Vec<LoanRequest>,
    lent_limits: BTreeSet<LimitId>,
    /// What is written down before it is spent, if anything is.
    book: Option<Box<Book>>,
    /// Units of debt above the bound that were dropped, by limit.
    dropped_debt: HashMap<LimitId, u64>,
    /// What the config no longer has, and still counts.
    retired: Retired,
    /// What API keys are named by.
    salt: Salt,
}

impl Engine {
    /// An engine under `config`. `unix` is the wall-clock time at `now`, for calendar windows.
    ///
    /// # Errors
    /// If the config holds what cannot be: a weight that is no positive number, more than seven dimensions
    /// on one route, a limit of zero.
    pub fn new(config: &Config, now: Nanos, unix: Duration) -> Result<Engine, ChangeError> {
        let mut engine = Engine {
            now,
            unix_offset: i128::try_from(unix.as_nanos()).unwrap_or(i128::MAX) - i128::from(now.0),
            tag: fresh_tag(),
            epoch: 0,
            specs: Arena::default(),
            limits: Arena::default(),
            global: Vec::new(),
            services: Arena::default(),
            service_index: HashMap::new(),
            loop_types: HashMap::new(),
            loop_specs: Vec::new(),
            customs: Vec::new(),
            skeletons: Arena::default(),
            key_gc_at: route::MAX_KEY_SKELETONS,
            skeleton_index: HashMap::new(),
            shapes: HashMap::new(),
            spec_names: HashMap::new(),
            key_limits: KeyLimits::default(),
            loops: Arena::default(),
            loop_index: LoopIndex::default(),
            loop_hasher: hashbrown::DefaultHashBuilder::default(),
            hand: 0,
            lanes: Arena::default(),
            lane_index: HashMap::new(),
            in_flight: InFlightCalls::default(),
            waiters: Arena::default(),
            runs: Arena::default(),
            waiting: 0,
            seq: 0,
            largest: 1,
            order: Trees::default(),
            run_order: Trees::default(),
            windows: Vec::new(),
            window_spec: SpecId::NIL,
            windows_due: Nanos::NEVER,
            passes: Vec::new(),
            patient: false,
            school: School::default(),
            bulletin: Bulletin::default(),
            timers: Sorted::default(),
            deadlines: Deadlines::default(),
            dirty: BinaryHeap::new(),
            candidates: Vec::new(),
            verdicts: Vec::new(),
            loan_requests: Vec::new(),
            lent_limits: BTreeSet::new(),
            book: None,
            dropped_debt: HashMap::new(),
            retired: Retired::default(),
            salt: Salt::default(),
        };
        engine.configure(config)?;
        Ok(engine)
    }

    /// Brings the engine to `now`: lets calls go whose time has come, refuses those whose time is up.
    pub fn advance(&mut self, now: Nanos) {
        let now = self.clock(now);
        if self.windows_due <= now {
            self.end_tails(now);
        }
        if self.school.due <= now {
            self.review(now);
        }
        // A call that fits at its last moment goes; hence grants before refusals.
        if self.timers.first().is_some_and(|(wake, _)| wake <= now) || !self.dirty.is_empty() {
            self.pump(now);
        }
        while let Some((deadline, waiter)) = self.deadlines.first() {
            if deadline > now {
                break;
            }
            self.refuse_waiting(waiter, crate::refusal::Reason::Timeout, now);
            self.pump(now);
        }
    }

    /// When [`Engine::advance`] should be called next, if at all.
    #[must_use]
    pub fn next_wake(&self) -> Option<Nanos> {
        let timer = self.timers.first().map(|(wake, _)| wake);
        let deadline = self.deadlines.first().map(|(deadline, _)| deadline);
        // Nobody who does not wait cares when a tail ends: whoever comes next sees to it.
        let tail = (self.waiting > 0 && !self.windows_due.is_never()).then_some(self.windows_due);
        let lesson = (self.waiting > 0 && !self.school.due.is_never()).then_some(self.school.due);
        [timer, deadline, tail, lesson].into_iter().flatten().min()
    }

    /// What became of waiting calls since this was last asked.
    pub fn verdicts(&mut self) -> std::vec::Drain<'_, (Ticket, Verdict)> {
        self.verdicts.drain(..)
    }

    /// Whether there is a verdict to hand out.
    #[must_use]
    pub fn has_verdicts(&self) -> bool {
        !self.verdicts.is_empty()
    }

    /// How many calls wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Sets the salt of the fingerprints that API keys are named by. To be done before the first call.
    pub fn set_salt(&mut self, salt: Salt) {
        self.salt = salt;
    }

    /// Returns the fingerprint by which an API key is named here.
    #[must_use]
    pub fn fingerprint(&self, secret: &str) -> String {
        self.salt.fingerprint(secret)
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
        self.unix_offset = i128::try_from(unix.as_nanos()).unwrap_or(i128::MAX) - i128::from(now.0);
        let calendars: BTreeSet<SpecId> =
            self.specs.ids().filter(|spec| self.specs[*spec].has_calendar()).collect();
        if calendars.is_empty() {
            return;
        }
        for limit in self.limits.ids() {
            let held = &mut self.limits[limit];
            if calendars.contains(&held.spec)
                && let Meter::Fixed(window) = &mut held.meter
                && window.follow(self.unix_offset, now)
                && !self.limits.is_free(limit)
            {
                self.touched(limit);
                self.page_due(limit);
            }
        }
        self.pump(now);
    }

    /// Returns what the wall clock shows at `now`, as far as the engine knows.
    #[must_use]
    pub fn wall_clock(&self, now: Nanos) -> Duration {
        let unix = u64::try_from(i128::from(now.0) + self.unix_offset).unwrap_or(0);
        Duration::from_nanos(unix)
    }

    /// Returns whether any limit follows a calendar, and so the wall clock.
    #[must_use]
    pub fn has_calendars(&self) -> bool {
        self.specs.iter().any(|spec| !spec.gone && spec.has_calendar())
    }

    /// Takes the time: it never goes backwards.
    #[inline]
    fn clock(&mut self, now: Nanos) -> Nanos {
        self.now = self.now.max(now);
        self.now
    }
}

/// A number that no other engine and no other config has had.
fn fresh_tag() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
