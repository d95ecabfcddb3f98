//! What the engine remembers of replies, and the marks of calls that go.
//!
//! `learn/` knows what follows from what was heard; `hear` finds out which limit a reply tells of, `others` charges what
//! somebody else took of it, `feel` learns from what happens to calls, and `review` looks at all of it again when it is
//! time. Limits of which nobody ever told cost nothing: only where a reply has told of a limit are calls marked when
//! they go.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::ease::Paced;
use super::layout::Use;
use super::lesson::Lesson;
use super::{Engine, Grant, InFlightCall};
use crate::learn::adaptive::Adaptive;
use crate::learn::ceiling::{Ceiling, Tally};
use crate::learn::mirror::{Mark, Mirror};
use crate::learn::overload::Overload;
use crate::learn::ramp::Ramp;
use crate::learn::spread::Spread;
use crate::model::time::Nanos;
use crate::model::{CallId, Id, LimitId, RouteId, ServiceId, SpecId};

/// A call was counted at most so long after it went.
pub(super) const ON_ITS_WAY: Duration = Duration::from_millis(100);

/// What the engine remembers of replies.
#[derive(Debug)]
pub(crate) struct School {
    /// By limit.
    pub(super) mirrors: BTreeMap<LimitId, Mirror>,
    /// By the place of calls in flight.
    marks: Vec<Vec<Marked>>,
    /// By definition: each N that replies stated with a reset too far away for it to be that definition's.
    pub(super) other_windows: BTreeMap<SpecId, Vec<u64>>,
    /// By definition.
    pub(super) ceilings: BTreeMap<SpecId, Felt>,
    /// By service.
    pub(super) spreads: BTreeMap<ServiceId, Spread>,
    /// How calls to services and models end.
    pub(super) overloads: BTreeMap<Paced, Overload>,
    /// By service that starts slowly, and when the first of them is to be looked at.
    pub(super) ramps: BTreeMap<ServiceId, Ramp>,
    pub(super) ramp_due: Nanos,
    /// By definition.
    pub(super) adaptive: BTreeMap<SpecId, Adaptive>,
    /// Definitions that are to be brought to what was learned.
    pub(super) unplanned: BTreeSet<SpecId>,
    /// When something learned is to be looked at again.
    pub due: Nanos,
    pub lessons: VecDeque<Lesson>,
    pub keeps_books: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Marked {
    pub(super) limit: LimitId,
    pub(super) since: u32,
    pub(super) cost: u64,
    pub(super) mark: Mark,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Felt {
    pub(super) ceiling: Ceiling,
    pub(super) tally: Tally,
}

impl Default for School {
    fn default() -> School {
        School {
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

impl School {
    /// What others take of a limit, in units a second.
    pub fn others_at(&self, limit: LimitId) -> f64 {
        self.mirrors.get(&limit).map_or(0.0, Mirror::others)
    }

    pub fn forget(&mut self, limit: LimitId) {
        self.mirrors.remove(&limit);
    }
}

impl Engine {
    /// Which limits of a route replies have told of.
    pub(super) fn see_what_is_mirrored(&mut self, skeleton: RouteId) {
        let held = &mut self.routing.skeletons[skeleton];
        let ramps = self.routing.services[held.service].ramps;
        let mirrored = |(limit, _): &Use| self.limits[*limit].mirrored;
        held.mirrored = held.uses.iter().copied().filter(mirrored).collect();
        held.noted = ramps || !held.breaker.is_nil() || !held.mirrored.is_empty();
    }

    /// A call goes, of which something is to be remembered.
    #[inline(never)]
    pub(super) fn note(&mut self, grant: &Grant, now: Nanos) {
        let index = grant.index();
        let InFlightCall { skeleton, units, .. } = self.in_flight[grant];
        let held = &self.routing.skeletons[skeleton];
        let breaker = held.breaker;
        let mut marks = std::mem::take(self.marks_of(index));
        let Engine { limits, routing, upstream, .. } = self;
        let (skeletons, school) = (&routing.skeletons, &mut upstream.school);
        marks.clear();
        for &(limit, slot) in &skeletons[skeleton].mirrored {
            let (held, cost) = (&mut limits[limit], units[slot as usize]);
            let Some(mirror) = school.mirrors.get_mut(&limit) else { continue };
            let mark = mirror.mark(cost, held.meter.used(now));
            marks.push(Marked { limit, since: held.since, cost, mark });
        }
        if !marks.is_empty() {
            *self.marks_of(index) = marks;
        }
        if !breaker.is_nil() {
            self.note_pass(index, breaker);
        }
        if !self.upstream.school.ramps.is_empty() {
            self.sets_out(self.routing.skeletons[skeleton].service, now);
        }
    }

    fn marks_of(&mut self, index: CallId) -> &mut Vec<Marked> {
        let marks = &mut self.upstream.school.marks;
        if marks.len() <= index.index() {
            marks.resize_with(index.index() + 1, Vec::new);
        }
        &mut marks[index.index()]
    }

    /// A call ended of which no reply told.
    #[inline]
    pub(super) fn unmark(&mut self, index: CallId) {
        if self.is_marked(index) {
            self.take_marks(index);
        }
    }

    #[inline]
    pub(super) fn is_marked(&self, index: CallId) -> bool {
        self.upstream.school.marks.get(index.index()).is_some_and(|marks| !marks.is_empty())
    }

    pub(super) fn take_marks(&mut self, index: CallId) -> Vec<Marked> {
        let marks = std::mem::take(self.marks_of(index));
        for marked in &marks {
            if let Some(mirror) = self.upstream.school.mirrors.get_mut(&marked.limit) {
                mirror.ends(marked.cost);
            }
        }
        marks
    }
}
