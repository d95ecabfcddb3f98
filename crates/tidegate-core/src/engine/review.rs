//! What was learned, looked at again when it is time, and put into force.

use std::time::Duration;

use super::Engine;
use super::lesson::Lesson;
use crate::learn::mirror::Mirror;
use crate::model::time::Nanos;
use crate::model::{LimitId, SpecId};

impl Engine {
    /// Puts into force what was learned while a call ended; nobody goes yet.
    #[inline]
    pub(super) fn plan_what_was_learned(&mut self, now: Nanos) {
        self.put_learned_in_force(now);
        if self.effects.is_structural() {
            self.restructure(now);
        }
    }

    /// Puts into force what was learned and was left for later.
    #[inline]
    pub(super) fn put_learned_in_force(&mut self, now: Nanos) {
        while let Some(spec) = self.upstream.school.unplanned.pop_first() {
            self.relearn(spec, now);
            let limit = self.limits.specs[spec].shared;
            if !limit.is_nil() {
                let burst = self.limits.specs[spec].learned.burst;
                let limit = self.limit_name(limit);
                self.tell(Lesson::Burst { limit, burst });
            }
        }
    }

    /// Looks at what was learned and is due.
    pub(super) fn review(&mut self, now: Nanos) {
        let mirrored: Vec<LimitId> = self.upstream.school.mirrors.keys().copied().collect();
        for limit in mirrored {
            let spec = &self.limits.specs[self.limits[limit].spec];
            let Some(window) = spec.written.rate_of().map(|rate| rate.window()) else { continue };
            while let Some((units, charged)) =
                self.upstream.school.mirrors.get_mut(&limit).and_then(|mirror| mirror.expired(window, now))
            {
                self.give_back_to_others(limit, units, charged, now);
            }
            let unheard = self.upstream.school.mirrors.get_mut(&limit).and_then(|mirror| mirror.unheard(now));
            if let Some(units) = unheard {
                let charged = self.charge_others(limit, units, now);
                if let Some(mirror) = self.upstream.school.mirrors.get_mut(&limit) {
                    mirror.expect(charged, now);
                }
            }
        }
        let felt: Vec<SpecId> = self.upstream.school.ceilings.keys().copied().collect();
        for spec in felt {
            let Some(rate) = self.limits.specs[spec].written.rate_of() else { continue };
            let units = self.limits.specs[spec].learned.told(rate.units());
            let Some(felt) = self.upstream.school.ceilings.get_mut(&spec) else { continue };
            let through = felt.tally.sum(now) as f64 / units as f64;
            let limit = self.limits.specs[spec].shared;
            if felt.ceiling.look(through, rate.window(), now) && !limit.is_nil() {
                self.feel(spec, limit, now);
            }
        }
        self.review_paces(now);
        self.see_what_is_due();
    }

    pub(super) fn see_what_is_due(&mut self) {
        let window = |limit: &LimitId| {
            let spec = &self.limits.specs[self.limits[*limit].spec];
            spec.written.rate_of().map_or(Duration::ZERO, |rate| rate.window())
        };
        let due = |(limit, mirror): (&LimitId, &Mirror)| mirror.due(window(limit)).min(mirror.next_unheard());
        let mirrors = self.upstream.school.mirrors.iter().map(due);
        let ceilings = self.upstream.school.ceilings.values().map(|felt| felt.ceiling.due());
        let overloads = self.upstream.school.overloads.values().map(|overload| overload.due());
        let ramp = self.upstream.school.ramps.values().map(|ramp| ramp.due()).min().unwrap_or(Nanos::NEVER);
        self.upstream.school.due =
            mirrors.chain(ceilings).chain(overloads).min().unwrap_or(Nanos::NEVER).min(ramp);
        // Before the first call after a rest goes, it is to be known that there was one.
        self.upstream.school.ramp_due = ramp;
        self.limits.attention = self.limits.attention.min(ramp);
    }
}
