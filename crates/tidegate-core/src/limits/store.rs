//! The store of limits: definitions and their instances, by id and by name.

use crate::config::Reserve;
use crate::limits::keys::{KeyLimits, NO_KEY, OF_KEY};
use crate::limits::limit::{Counts, Definition, Limit, Spec};
use crate::limits::meters::UNBOUNDED;
use crate::limits::retired::Retired;
use crate::model::call::Estimated;
use crate::model::effects::{Effects, Served};
use crate::model::priority::Priority;
use crate::model::rate::Algorithm;
use crate::model::route_limit::RouteLimit;
use crate::model::time::Nanos;
use crate::model::{Arena, LimitId, SpecId, Units};
use hashbrown::HashMap;
use std::collections::BTreeSet;
use std::ops::{Index, IndexMut};
use std::sync::Arc;
use std::time::Duration;

/// The level of limits that every loop has for itself.
pub(crate) const LOOP: &str = "loop";

/// Limits of an upstream are mirrored; the others are rules of our own.
pub(crate) fn mirrors(level: &str) -> bool {
    !(level == "global" || level == LOOP || level.starts_with("loop_type:"))
}

/// Of a shorter window, what calls lie apart is more than half a slot.
const SHORT: Duration = Duration::from_secs(30);

/// Whether it matters that calls overtake each other: where units flow at a pace, and, over a network, where all go again
/// as soon as those before them count no longer. In a long window the time that they lie apart is nothing.
pub(crate) fn is_timed(definition: &Definition, remote: bool) -> bool {
    match &definition.counts {
        Counts::Rate { algorithm: Algorithm::TokenBucket, .. } => true,
        Counts::Rate { algorithm: Algorithm::SlidingWindow, burst, rate, .. } => {
            burst.is_some() || remote && rate.window() < SHORT
        }
        _ => false,
    }
}

/// Limits and their definitions.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    pub all: Arena<LimitId, Limit>,
    pub specs: Arena<SpecId, Spec>,
    /// Definitions by name.
    pub spec_names: HashMap<Arc<str>, SpecId>,
    pub key_limits: KeyLimits,
    /// How many configs were in force before this one.
    pub epoch: u32,
    /// Unix time of `Nanos::ZERO`, for calendar windows.
    pub unix_offset: i128,
    /// Units of debt above the bound that were dropped, by limit.
    pub dropped_debt: HashMap<LimitId, u64>,
    /// What the config no longer has, and still counts.
    pub retired: Retired,
    /// The time before which the fast path is open: then a window, a ramp or a slot held from before a restart is due.
    pub attention: Nanos,
    /// By how much calls may overtake each other on their way before replies show it.
    pub apart: Duration,
    /// Limits that changed since their snapshot was taken, if snapshots are kept.
    pub unsaved: Option<BTreeSet<LimitId>>,
}

impl Limits {
    /// Raises the effect that the room of a limit changed, if calls wait there.
    pub fn touch(&self, limit: LimitId, effects: &mut Effects) {
        if self[limit].queue.is_some() {
            effects.touched.push(limit);
        }
    }

    /// Raises the effect that a loop was served more or less than it was charged for, if calls wait at the limit.
    pub fn serve(&self, served: Served, effects: &mut Effects) {
        if self[served.limit].queue.is_some() {
            effects.served.push(served);
        }
    }

    /// Notes that a limit's snapshot is out of date. Returns whether snapshots are kept.
    pub fn note_unsaved(&mut self, limit: LimitId) -> bool {
        let Some(unsaved) = &mut self.unsaved else { return false };
        unsaved.insert(limit);
        true
    }
}

impl Index<LimitId> for Limits {
    type Output = Limit;

    #[inline(always)]
    fn index(&self, limit: LimitId) -> &Limit {
        &self.all[limit]
    }
}

impl IndexMut<LimitId> for Limits {
    #[inline(always)]
    fn index_mut(&mut self, limit: LimitId) -> &mut Limit {
        &mut self.all[limit]
    }
}

impl Limits {
    /// The first limit that `units` can never fit: (limit, cost, capacity). An estimate is brought down.
    pub fn fit_units(
        &self,
        units: &mut Units,
        route: &[RouteLimit],
        class: Priority,
        estimated: Estimated,
    ) -> Option<(LimitId, u64, u64)> {
        for &(limit, slot) in route {
            let held = &self[limit];
            let spec = &self.specs[held.spec];
            let withheld = spec.withheld[class as usize];
            let capacity = match held.meter.capacity() {
                UNBOUNDED => UNBOUNDED,
                most => most - withheld.min(most),
            };
            let cost = units[slot as usize];
            if cost > capacity {
                // What was only learned makes nothing impossible that is allowed: the rest is debt.
                let estimated = estimated.covers(spec.definition.dimension().as_ref());
                if !estimated && cost > spec.most().saturating_sub(withheld).max(capacity) {
                    return Some((limit, cost, capacity));
                }
                units[slot as usize] = capacity;
            }
        }
        None
    }

    /// When a limit is wholly available again.
    pub fn reset_of(&self, limit: LimitId, now: Nanos) -> Option<Nanos> {
        let full = self[limit].meter.full_at();
        (!full.is_never()).then(|| full.max(now))
    }

    /// In-flight limits of which far fewer slots are held than when that was written: after a crash those would count. It is
    /// written whenever there is something to write.
    pub fn stale_slots(&self) -> impl Iterator<Item = LimitId> + '_ {
        let shared =
            self.specs.iter().filter(|spec| !spec.gone && !spec.shared.is_nil()).map(|spec| spec.shared);
        shared.filter(|limit| {
            let held = &self[*limit];
            held.meter.is_in_flight() && held.lent.as_ref().is_some_and(|lent| lent.is_plenty())
        })
    }

    /// Each key gets its own instances of a limit, or they share one again: calls in flight took from the others, and
    /// will not give back to these. What is in flight is counted anew, by [`Engine::count_calls_in_flight`](crate::Engine::count_calls_in_flight).
    pub fn start_anew(&mut self, spec: SpecId, now: Nanos) {
        let definition = &self.specs[spec].definition;
        for limit in self.all.iter_mut().filter(|limit| limit.spec == spec) {
            limit.since = self.epoch;
            if limit.meter.is_in_flight() {
                limit.meter = definition.meter(now, self.unix_offset);
            }
        }
    }

    /// What is taken for granted of a limit that is new. Says whether there is anything.
    pub fn expect_apart(&mut self, index: SpecId) -> bool {
        let apart = self.apart;
        let spec = &mut self.specs[index];
        let expected = !apart.is_zero()
            && spec.learned.jitter.is_zero()
            && crate::limits::store::mirrors(&spec.level)
            && is_timed(&spec.written, true);
        if expected {
            (spec.learned.jitter, spec.learned.remote) = (apart, true);
        }
        expected
    }

    /// Whether `cost` only fits a limit because its lane's age lets it take what is reserved for others.
    pub fn takes_reserved(&mut self, limit: LimitId, class: Priority, cost: u64, now: Nanos) -> bool {
        let held = &mut self.all[limit];
        let withheld = self.specs[held.spec].withheld[class as usize];
        withheld > 0 && cost > 0 && !held.meter.fits(cost, withheld, now)
    }

    /// Whether a limit keeps a share for some priorities.
    pub fn reserves(&self, limit: LimitId) -> bool {
        self.specs[self[limit].spec].definition.reserve() != Reserve::default()
    }

    /// How much of what is lent to a limit may go to others while a call of `cost` is first.
    pub fn funded_spare(&self, limit: LimitId, cost: u64, now: Nanos) -> u64 {
        let lent = self[limit].lent.as_ref();
        lent.map_or(UNBOUNDED, |lent| lent.spare(cost, now))
    }

    pub fn add_limit(&mut self, limit: Limit) -> LimitId {
        self.all.insert_lean(limit)
    }

    /// Finds `openai/key:1f…/model:gpt-4o*/tokens/1m`.
    pub fn key_limit_named(&self, name: &str) -> Option<LimitId> {
        let (service, of_key) = name.split_once(OF_KEY)?;
        self.specs.ids().find_map(|index| {
            let spec = &self.specs[index];
            let (own, rest) = spec.service_and_rest();
            if !spec.per_key || spec.gone || own != service {
                return None;
            }
            match of_key.strip_suffix(rest)? {
                "" => Some(spec.shared).filter(|limit| !limit.is_nil()),
                NO_KEY => self.key_limits.get(index, ""),
                key => self.key_limits.get(index, key),
            }
        })
    }

    /// Finds out anew whether room is all that matters at a limit.
    pub fn see_if_plain(&mut self, limit: LimitId) {
        let held = &mut self.all[limit];
        let reserved = self.specs[held.spec].withheld != [0; 4];
        let open = !reserved && held.queue.is_none();
        (held.plain, held.promised) = (open && held.lent.is_none(), open && held.lent.is_some());
    }

    /// Keeps a backoff window whose service or limit the config no longer has.
    pub fn retire_window(&mut self, key: Arc<str>, ends: [Nanos; 3]) {
        self.retired.windows.retain(|(known, ..)| *known != key);
        self.retired.windows.push((key, ends));
    }

    /// The limit on throttled calls of a level.
    pub fn throttle_of(&self, level: &str) -> Option<SpecId> {
        let is_it = |spec: &Spec| {
            !spec.gone && *spec.level == *level && matches!(spec.definition.counts, Counts::Throttled(_))
        };
        self.specs.ids().find(|index| is_it(&self.specs[*index]))
    }
}
