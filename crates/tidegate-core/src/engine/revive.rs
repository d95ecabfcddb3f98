//! After a restart: limits go on from where they were.

use std::time::Duration;

use super::Engine;
use crate::algorithm::Meter;
use crate::kept::{Impossible, Kept};
use crate::model::LimitId;
use crate::model::time::Nanos;

impl Engine {
    /// Gives a limit that was just made what was kept of it, or what it may have spent without a page. Says whether there
    /// was anything: then it may spend nothing before that is written down again.
    pub(super) fn claim(&mut self, limit: LimitId, now: Nanos) -> bool {
        let claimed = self.claim_page(limit, now);
        self.begin_as_spent(limit, now) || claimed
    }

    /// Counts a limit as spent if that may be so: what was spent within the last window is not known. Returns whether it is.
    fn begin_as_spent(&mut self, limit: LimitId, now: Nanos) -> bool {
        let spec = &self.limits.specs[self.limits[limit].spec];
        let Some(book) = &self.funding.book else { return false };
        let keyed = if spec.per_key { book.unknown_keys } else { None };
        let Some(at) = book.unknown.max(keyed) else { return false };
        let counts = spec.written.rate_of().map_or(super::book::LONGEST, |rate| rate.window());
        if at.after(counts) <= now {
            return false;
        }
        let spent = spec.definition.whole().saturating_sub(self.limits[limit].meter.used(now));
        self.count_as_spent(limit, spent, super::book::LONGEST, now);
        let name = self.limit_name(limit);
        self.funding.book.iter_mut().for_each(|book| book.began_spent.push(name.clone()));
        true
    }

    /// Gives a limit that was just made its page, or what it may have spent without one.
    fn claim_page(&mut self, limit: LimitId, now: Nanos) -> bool {
        let Some(book) = &self.funding.book else { return false };
        if book.unclaimed.is_empty() && book.crashed.is_none() {
            return false;
        }
        let (name, spec) = (self.limit_name(limit), self.limits[limit].spec);
        let Some(book) = &mut self.funding.book else { return false };
        let seed = match (&book.crashed, self.limits.specs[spec].shared == limit) {
            (Some((at, seeds)), false) => {
                let most = self.limits.specs[spec]
                    .written
                    .rate_of()
                    .map_or(super::book::LONGEST, |rate| rate.window());
                let seed = seeds.get(&self.limits.specs[spec].seed_name()).copied();
                seed.filter(|_| at.after(most) > now).map(|seed| (seed, *at))
            }
            _ => None,
        };
        let lost = book.lost;
        match (book.unclaimed.remove(&name), seed) {
            (Some(kept), seed) => {
                let promised = if lost { kept.promised().max(seed.map_or(0, |(seed, _)| seed)) } else { 0 };
                // It was looked through when it was found.
                let _ = self.revive(limit, &kept, promised, now);
                true
            }
            (None, Some((seed, at))) => {
                let meter = self.limits.specs[spec].definition.meter(at, self.limits.unix_offset);
                self.limits[limit].meter = meter;
                self.count_as_spent(limit, seed, super::book::LONGEST, at);
                true
            }
            (None, None) => false,
        }
    }

    pub(super) fn revive(
        &mut self,
        limit: LimitId,
        kept: &Kept,
        promised: u64,
        now: Nanos,
    ) -> Result<(), Impossible> {
        let (old, meter) = kept.revive(now, self.limits.unix_offset)?;
        let spec = self.limits[limit].spec;
        let held = match &meter {
            Meter::InFlight(held) => held.used(now),
            _ => 0,
        };
        self.limits[limit].meter = meter;
        if let Some(grace) = kept.grace() {
            self.hold_for(limit, held, now.after(grace));
        }
        self.count_as_spent(limit, promised, kept.grace().unwrap_or_default(), now);
        let (definition, offset) = (self.limits.specs[spec].definition.clone(), self.limits.unix_offset);
        definition.change(&mut self.limits[limit].meter, now, offset, &old);
        Ok(())
    }

    /// Counts units as spent at `at`; slots as held for so long from then.
    fn count_as_spent(&mut self, limit: LimitId, units: u64, grace: Duration, at: Nanos) {
        let meter = &mut self.limits[limit].meter;
        if meter.is_in_flight() {
            meter.take(units, at, at);
            self.hold_for(limit, units, at.after(grace));
        } else {
            meter.charge(units, at);
        }
    }

    /// Slots of calls that nobody will report the end of.
    fn hold_for(&mut self, limit: LimitId, units: u64, until: Nanos) {
        if let Some(book) = self.funding.book.as_mut().filter(|_| units > 0) {
            book.orphans.push((until, limit, units));
            self.limits.attention = self.limits.attention.min(until);
        }
    }

    /// Calls that were in flight when the engine before this one ended have ended too by now. Says when the next have.
    pub(super) fn release_orphans(&mut self, now: Nanos) -> Nanos {
        let Some(book) = self.funding.book.as_mut().filter(|book| !book.orphans.is_empty()) else {
            return Nanos::NEVER;
        };
        let over: Vec<_> = book.orphans.extract_if(.., |(until, ..)| *until <= now).collect();
        let next = book.orphans.iter().map(|(until, ..)| *until).min().unwrap_or(Nanos::NEVER);
        for (_, limit, units) in over {
            self.limits[limit].release(units);
            self.effects.touch(limit, &self.limits);
        }
        next
    }

    /// Looks through what nobody has claimed: what no longer matters is forgotten.
    pub(super) fn forget_what_is_over(&mut self, now: Nanos) {
        let offset = self.limits.unix_offset;
        let Some(book) = &mut self.funding.book else { return };
        let mut over = Vec::new();
        for (name, kept) in &book.unclaimed {
            let Ok((_, mut meter)) = kept.revive(now, offset) else { continue };
            let promised = if book.lost { kept.promised() } else { 0 };
            let is_over = match kept.grace() {
                Some(_) => meter.used(now) == 0 && promised == 0,
                None => {
                    meter.charge(promised, now);
                    meter.full_at() <= now
                }
            };
            if is_over {
                over.push(name.clone());
            }
        }
        for name in over {
            book.unclaimed.remove(&name);
            book.gone.push(name);
        }
    }
}
