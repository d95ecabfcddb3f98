//! What nobody says, learned from what happens to calls: ceilings, how far calls lie apart, what they give back.

use std::time::Duration;

use super::lesson::Lesson;
use super::school::Felt;
use super::{Engine, InFlightCall};
use crate::learn::ceiling::{Ceiling, Tally};
use crate::learn::spread;
use crate::limit::{Counts, Definition};
use crate::model::dimension::Dimension;
use crate::model::rate::Algorithm;
use crate::model::time::Nanos;
use crate::model::{LimitId, SpecId};

/// Where no more go at once or in a window, one that overtakes another may be one too many.
const SMALL: u64 = 100;
/// A pacer lets at most this part of N go at once, whatever calls give back.
const MOST_AT_ONCE: u64 = 16;

/// Of a shorter window, what calls lie apart is more than half a slot.
const SHORT: Duration = Duration::from_secs(30);

impl Engine {
    /// Calls go over a network, and it is told when they [leave](Engine::left): until replies show by how much they overtake
    /// each other, they may do so by as much as they ever do. To be said before the first call.
    pub fn expect_a_network(&mut self, now: Nanos) {
        let now = self.clock(now);
        self.limits.apart = spread::MOST;
        for index in self.limits.specs.ids() {
            if self.expect_apart(index) {
                self.put_in_force(index, now);
            }
        }
    }

    /// What is taken for granted of a limit that is new. Says whether there is anything.
    pub(super) fn expect_apart(&mut self, index: SpecId) -> bool {
        let apart = self.limits.apart;
        let spec = &mut self.limits.specs[index];
        let expected = !apart.is_zero()
            && spec.learned.jitter.is_zero()
            && super::change::mirrors(&spec.level)
            && is_timed(&spec.written, true);
        if expected {
            (spec.learned.jitter, spec.learned.remote) = (apart, true);
        }
        expected
    }

    /// A call was turned away: calls may lie further apart than was thought.
    pub(super) fn grow_wary(&mut self, call: &InFlightCall, now: Nanos) {
        if self.limits.apart.is_zero() {
            return;
        }
        for (limit, _) in self.routing.skeletons[call.skeleton].uses.clone() {
            let index = self.limits[limit].spec;
            let learned = &mut self.limits.specs[index].learned;
            if learned.remote && !std::mem::replace(&mut learned.wary, true) {
                self.relearn(index, now);
            }
        }
    }

    /// A call was turned away, and nothing that was told says why.
    pub(super) fn turned_away_unexplained(&mut self, call: &InFlightCall, now: Nanos) {
        let Some(limit) = self.most_likely(call) else { return };
        let index = self.limits[limit].spec;
        let Some(rate) = self.limits.specs[index].written.rate_of() else { return };
        let units = self.limits.specs[index].learned.told(rate.units());
        if self.limits.specs[index].learned.bucket.take().is_some() {
            // Whatever it is, it does not like what a bucket would.
            if let Some(mirror) = self.upstream.school.mirrors.get_mut(&limit) {
                mirror.begin_anew();
                mirror.evidence.give_up();
            }
            self.relearn(index, now);
            let limit = self.limit_name(limit);
            self.tell(Lesson::Bucket { limit, size: None });
        }
        let felt = self.upstream.school.ceilings.entry(index).or_insert_with(|| Felt {
            tally: Tally::new(rate.window(), units, now),
            ceiling: Ceiling::default(),
        });
        let through = felt.tally.sum(now) as f64 / units as f64;
        if felt.ceiling.refused(call.at, through, rate.window(), now) {
            self.feel(index, limit, now);
        } else if self.limits.specs[index].learned.jitter.is_zero()
            && self.limits.specs[index].written.whole() <= SMALL
        {
            // It may be that it overtook another, which matters where few go: nobody knows yet by how much they do.
            self.limits.specs[index].learned.jitter = spread::MOST;
            self.relearn(index, now);
            let limit = self.limit_name(limit);
            self.tell(Lesson::Jitter { limit, apart: spread::MOST });
        }
        self.see_what_is_due();
    }

    /// A call went through: so much the upstream allows.
    #[inline]
    pub(super) fn went_through(&mut self, call: &InFlightCall, now: Nanos) {
        if self.upstream.school.ceilings.is_empty() {
            return;
        }
        for &(limit, slot) in &self.routing.skeletons[call.skeleton].uses {
            if let Some(felt) = self.upstream.school.ceilings.get_mut(&self.limits[limit].spec) {
                felt.tally.add(call.units[slot as usize], now);
            }
        }
    }

    pub(super) fn feel(&mut self, spec: SpecId, limit: LimitId, now: Nanos) {
        let Some(felt) = self.upstream.school.ceilings.get(&spec) else { return };
        let share = felt.ceiling.share();
        if share >= 1.0 && felt.ceiling.due().is_never() {
            self.upstream.school.ceilings.remove(&spec);
        }
        self.limits.specs[spec].learned.share = share;
        self.relearn(spec, now);
        let limit = self.limit_name(limit);
        self.tell(Lesson::Ceiling { limit, share });
    }

    /// The limit that most likely turned a call away: on calls rather than on what they cost, the narrowest, the
    /// shortest.
    fn most_likely(&self, call: &InFlightCall) -> Option<LimitId> {
        let candidates = self.routing.skeletons[call.skeleton].uses.iter().filter_map(|&(limit, slot)| {
            let spec = &self.limits.specs[self.limits[limit].spec];
            let Counts::Rate { dimension, rate, .. } = &spec.written.counts else { return None };
            let counts =
                call.units[slot as usize] > 0 && super::change::mirrors(&spec.level) && !spec.per_key;
            let rank = (*dimension != Dimension::Requests, super::scope::depth(&spec.level), rate.window());
            counts.then_some((rank, limit))
        });
        candidates.min().map(|(_, limit)| limit)
    }

    /// A reply took so long: how far may calls lie apart?
    pub(super) fn took(&mut self, call: &InFlightCall, now: Nanos) {
        let service = self.routing.skeletons[call.skeleton].service;
        let spread = self.upstream.school.spreads.entry(service).or_default();
        let Some(apart) = spread.hear(now.since(call.at)) else { return };
        let uses = self.routing.skeletons[call.skeleton].uses.clone();
        for (limit, _) in uses {
            let index = self.limits[limit].spec;
            let spec = &self.limits.specs[index];
            let before = spec.learned.jitter;
            let differs = apart.abs_diff(before) > (before / 4).max(Duration::from_millis(2));
            if !differs
                || !super::change::mirrors(&spec.level)
                || !is_timed(&spec.definition, !self.limits.apart.is_zero())
            {
                continue;
            }
            self.limits.specs[index].learned.jitter = apart;
            self.relearn(index, now);
            let limit = self.limit_name(limit);
            self.tell(Lesson::Jitter { limit, apart });
        }
    }

    /// A call gives back a part of what it reserved: a pacer must be able to hold that.
    pub(super) fn keep_what_comes_back(&mut self, limit: LimitId, reserved: u64) {
        let index = self.limits[limit].spec;
        let spec = &mut self.limits.specs[index];
        let Counts::Rate { algorithm: Algorithm::SlidingWindow, burst: Some(burst), rate, .. } =
            spec.definition.counts
        else {
            return;
        };
        let most = rate.units() / MOST_AT_ONCE;
        let wanted = reserved.saturating_mul(2).min(most);
        if wanted > burst && super::change::mirrors(&spec.level) {
            // Half as much again, so that calls that grow do not have everything planned anew each time.
            spec.learned.burst = (wanted + wanted / 2).min(most);
            self.upstream.school.unplanned.insert(index);
        }
    }
}

/// Whether it matters that calls overtake each other: where units flow at a pace, and, over a network, where all go again
/// as soon as those before them count no longer. In a long window the time that they lie apart is nothing.
fn is_timed(definition: &Definition, remote: bool) -> bool {
    match &definition.counts {
        Counts::Rate { algorithm: Algorithm::TokenBucket, .. } => true,
        Counts::Rate { algorithm: Algorithm::SlidingWindow, burst, rate, .. } => {
            burst.is_some() || remote && rate.window() < SHORT
        }
        _ => false,
    }
}
