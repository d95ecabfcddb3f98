//! Calls in flight: what each reserved, and the grant that names it.

use crate::model::effects::Served;
use crate::model::priority::Priority;
use crate::model::time::Nanos;
use crate::model::{Arena, CallId, LimitId, LoopId, RouteId, Units};
use crate::routing::route::Route;
use hashbrown::HashMap;
use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

/// Permission to go. It is given back exactly once: it cannot be copied, and both ways of ending it
/// ([`Engine::finish`](crate::Engine::finish), [`Engine::cancel`](crate::Engine::cancel)) take it.
// Two words, which go in registers: written to memory in parts and read as a whole, it would take as long as two limits.
// What else is known of the call is in the engine.
#[derive(Debug)]
#[must_use = "a grant that is dropped keeps its slots for ever: finish or cancel it"]
pub struct Grant {
    at: Nanos,
    /// One more than the place of the call in flight, and above it what is to be known without the engine.
    key: NonZeroU32,
}

/// The bits of a key that say whether a call is quiet, and whether the config has no pattern for its model. The rest are
/// enough for a thousand million calls in flight.
const QUIET: u32 = 1 << 31;

const UNKNOWN_MODEL: u32 = 1 << 30;

/// A call in flight: what it took, from where, under which config.
#[derive(Clone, Debug)]
pub(crate) struct InFlightCall {
    pub units: Units,
    pub at: Nanos,
    /// The time from which its units count: when it left if that is reported, else when it was granted.
    pub counted: Nanos,
    pub route_id: RouteId,
    pub loop_: LoopId,
    pub epoch: u32,
    /// The limit that held it longest, if it waited.
    pub held_by: LimitId,
    /// How many times its bytes count in flight, if it went throttled; else zero.
    pub penalty: u16,
    /// Whether something is remembered of it until it ends.
    pub noted: bool,
    pub class: Priority,
}

/// Who leaves as soon after it was let go has left at once.
pub const AT_ONCE: std::time::Duration = std::time::Duration::from_millis(1);

/// Which call it is that has left: see [`Engine::left`](crate::Engine::left).
#[derive(Clone, Copy, Debug)]
pub struct Departure {
    pub(crate) index: CallId,
    pub(crate) at: Nanos,
}

impl Grant {
    #[inline(always)]
    fn new(index: CallId, at: Nanos, unknown_model: bool) -> Grant {
        let notes = if unknown_model { UNKNOWN_MODEL } else { 0 };
        Grant { at, key: NonZeroU32::MIN.saturating_add(index.number()) | notes }
    }

    /// Its call's place among those in flight.
    #[inline(always)]
    pub(crate) fn index(&self) -> CallId {
        CallId::from_number((self.key.get() & !(QUIET | UNKNOWN_MODEL)) - 1)
    }

    pub(crate) fn quiet(self) -> Grant {
        Grant { key: self.key | QUIET, ..self }
    }

    /// What to say when the call has left.
    #[must_use]
    pub fn departure(&self) -> Departure {
        Departure { index: self.index(), at: self.at }
    }

    /// Whether the end of a call that cost what it reserved is nobody's concern: it holds no slot that another could
    /// have, and nothing is to be remembered of it. Then it may be finished at any time.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.key.get() & QUIET != 0
    }

    /// Whether the config has no pattern for the model that the call asks for.
    #[inline(always)]
    pub(crate) fn is_of_unknown_model(&self) -> bool {
        self.key.get() & UNKNOWN_MODEL != 0
    }

    /// When it was given.
    #[must_use]
    pub fn granted_at(&self) -> Nanos {
        self.at
    }
}

/// All calls in flight.
#[derive(Debug, Default)]
pub(crate) struct InFlightCalls {
    calls: Arena<CallId, InFlightCall>,
    /// Units that a call reserved while it ran and that not all of its limits counted, because of the bound on debt. A
    /// call with an entry is `noted`.
    uncounted: HashMap<CallId, Units>,
}

impl InFlightCalls {
    /// Remembers what a call took that goes now: by which route, for which loop and under which config.
    #[inline(always)]
    pub fn record(
        &mut self,
        held: &mut Route,
        (route_id, loop_, epoch): (RouteId, LoopId, u32),
        class: Priority,
        units: &Units,
        at: Nanos,
    ) -> Grant {
        held.in_flight += 1;
        held.granted += 1;
        let Route { penalty, noted, .. } = *held;
        let (units, counted, held_by) = (*units, at, LimitId::NIL);
        let call =
            InFlightCall { units, at, counted, route_id, loop_, epoch, held_by, penalty, noted, class };
        let index = self.calls.insert(call);
        Grant::new(index, at, held.key.model.is_none())
    }

    /// Returns all calls that are in flight.
    pub fn iter(&self) -> impl Iterator<Item = &InFlightCall> {
        self.calls.live().map(|call| &self.calls[call])
    }

    /// Its place may be another's.
    #[inline(always)]
    pub fn forget(&mut self, grant: &Grant) {
        self.calls.free(grant.index());
    }

    /// Grows what a call reserved by `more`, of which some limit did not count `uncounted`.
    pub fn grow(&mut self, grant: &Grant, more: &Units, uncounted: &Units) {
        let call = &mut self.calls[grant.index()];
        add(&mut call.units, more);
        if uncounted.iter().any(|units| *units > 0) {
            call.noted = true;
            add(self.uncounted.entry(grant.index()).or_default(), uncounted);
        }
    }

    /// Returns the part of what a call reserved that no refund may give back, because some limit never counted it.
    pub fn take_uncounted(&mut self, grant: &Grant) -> Units {
        match self.uncounted.is_empty() {
            true => Units::default(),
            false => self.uncounted.remove(&grant.index()).unwrap_or_default(),
        }
    }

    /// A call has left. Its units count from now on, if they have counted for some time already and it is still in
    /// flight: this is what they counted as before.
    pub fn leaves_late(&mut self, departure: Departure, now: Nanos) -> Option<InFlightCall> {
        let call = self.calls.get(departure.index)?;
        let is_late = call.at == departure.at && now.since(call.counted) >= AT_ONCE;
        // Looked through last, and for few: it is as long as there were ever calls at once.
        if !is_late || self.calls.is_free(departure.index) {
            return None;
        }
        let call = &mut self.calls[departure.index];
        let before = call.clone();
        call.counted = now;
        Some(before)
    }
}

impl InFlightCall {
    /// Returns the correction of the fair share of the call's loop at a limit.
    pub fn served(&self, limit: LimitId, units: i128) -> Served {
        Served { limit, loop_: self.loop_, route: self.route_id, class: self.class as u8, units }
    }
}

fn add(units: &mut Units, more: &Units) {
    for (units, more) in units.iter_mut().zip(more) {
        *units = units.saturating_add(*more);
    }
}

impl Index<&Grant> for InFlightCalls {
    type Output = InFlightCall;

    #[inline(always)]
    fn index(&self, grant: &Grant) -> &InFlightCall {
        &self.calls[grant.index()]
    }
}

impl IndexMut<&Grant> for InFlightCalls {
    #[inline(always)]
    fn index_mut(&mut self, grant: &Grant) -> &mut InFlightCall {
        &mut self.calls[grant.index()]
    }
}

/// A call on its way in: where it goes, for whom, and what it takes.
pub(crate) struct Arrival {
    pub route_id: RouteId,
    pub loop_: LoopId,
    pub class: Priority,
    pub units: Units,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Through memory it would be slower: see there.
    #[test]
    fn a_grant_goes_in_two_registers() {
        assert_eq!(size_of::<Option<Grant>>(), 16);
    }

    #[test]
    fn a_quiet_grant_is_of_the_same_call() {
        let grant = Grant::new(CallId::from_number(41), Nanos(7), true);
        assert!(!grant.is_quiet());
        let grant = grant.quiet();
        assert!(grant.is_quiet() && grant.is_of_unknown_model());
        assert_eq!((grant.index().number(), grant.granted_at()), (41, Nanos(7)));
    }
}
