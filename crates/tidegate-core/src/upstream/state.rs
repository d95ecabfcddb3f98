//! What is known of upstreams: windows, breakers, and what replies teach.
//!
//! The modules of `learning/` are small state machines that know what follows from an observation. `attribution` finds the limit
//! that a reply means, `header_sync` and `external_usage` apply what the reply states, `inference` learns from what happens to
//! calls, and `review` looks at all of it again when that is due. Limits of which no reply states anything cost nothing: only
//! calls that pass a stated limit are marked.

use crate::limits::breaker::Pass;
use crate::model::time::Nanos;
use crate::model::{LimitId, ServiceId, SpecId};
use crate::upstream::event::{Bulletin, Lesson};
use crate::upstream::learning::adaptive::Adaptive;
use crate::upstream::learning::ceiling::{Ceiling, Tally};
use crate::upstream::learning::mirror::{Mark, Mirror};
use crate::upstream::learning::overload::Overload;
use crate::upstream::learning::ramp::Ramp;
use crate::upstream::learning::spread::Spread;
use crate::upstream::window::Window;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// How a call went through a breaker: which one, of which making, and in which of its states.
#[derive(Debug)]
pub(crate) struct Passed {
    pub(crate) breaker: LimitId,
    pub(crate) since: u32,
    pub(crate) pass: Pass,
}

/// Whose pace it is: a service's, or one of its models', by its pattern.
pub(crate) type Paced = (ServiceId, Option<Box<str>>);

/// A call was counted at most so long after it went.
pub(crate) const ON_ITS_WAY: Duration = Duration::from_millis(100);

/// What the engine remembers of replies.
#[derive(Debug)]
pub(crate) struct Learning {
    /// By limit.
    pub(crate) mirrors: BTreeMap<LimitId, Mirror>,
    /// By the place of calls in flight.
    pub(crate) marks: Vec<Vec<Marked>>,
    /// By definition: each N that replies stated with a reset too far away for it to be that definition's.
    pub(crate) other_windows: BTreeMap<SpecId, Vec<u64>>,
    /// By definition.
    pub(crate) ceilings: BTreeMap<SpecId, InferredCeiling>,
    /// By service.
    pub(crate) spreads: BTreeMap<ServiceId, Spread>,
    /// How calls to services and models end.
    pub(crate) overloads: BTreeMap<Paced, Overload>,
    /// By service that starts slowly, and when the first of them is to be looked at.
    pub(crate) ramps: BTreeMap<ServiceId, Ramp>,
    pub(crate) ramp_due: Nanos,
    /// By definition.
    pub(crate) adaptive: BTreeMap<SpecId, Adaptive>,
    /// Definitions that are to be brought to what was learned.
    pub(crate) unplanned: BTreeSet<SpecId>,
    /// When something learned is to be looked at again.
    pub due: Nanos,
    pub lessons: VecDeque<Lesson>,
    pub keeps_books: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Marked {
    pub(crate) limit: LimitId,
    pub(crate) since: u32,
    pub(crate) cost: u64,
    pub(crate) mark: Mark,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct InferredCeiling {
    pub(crate) ceiling: Ceiling,
    pub(crate) tally: Tally,
}

impl Default for Learning {
    fn default() -> Learning {
        Learning {
            mirrors: BTreeMap::new(),
            marks: Vec::new(),
            other_windows: BTreeMap::new(),
            ceilings: BTreeMap::new(),
            spreads: BTreeMap::new(),
            overloads: BTreeMap::new(),
            ramps: BTreeMap::new(),
            ramp_due: Nanos::NEVER,
            adaptive: BTreeMap::new(),
            unplanned: BTreeSet::new(),
            due: Nanos::NEVER,
            lessons: VecDeque::new(),
            keeps_books: false,
        }
    }
}

impl Learning {
    /// What others take of a limit, in units a second.
    pub fn others_at(&self, limit: LimitId) -> f64 {
        self.mirrors.get(&limit).map_or(0.0, Mirror::others)
    }

    pub fn forget(&mut self, limit: LimitId) {
        self.mirrors.remove(&limit);
    }
}

/// What is known of upstreams: windows, breakers, what replies teach.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub windows: Vec<Window>,
    /// What all limits of windows are made from.
    pub window_spec: SpecId,
    /// The breaker that each call in flight went through, and in which of its states.
    pub passes: Vec<Option<Passed>>,
    /// Whether a new call waits for a breaker that is open.
    pub patient: bool,
    /// What replies teach.
    pub learning: Learning,
    /// What happened to windows and breakers.
    pub bulletin: Bulletin,
}

impl Default for Upstream {
    fn default() -> Self {
        Upstream {
            windows: Vec::new(),
            window_spec: SpecId::NIL,
            passes: Vec::new(),
            patient: false,
            learning: Learning::default(),
            bulletin: Bulletin::default(),
        }
    }
}
