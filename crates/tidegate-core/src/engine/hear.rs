//! What a reply states of the limits that it is about: what N is, and how the upstream counts. Which limit that is
//! stands in `attribution`.

use super::ended::Told;
use super::lesson::Lesson;
use super::school::ON_ITS_WAY;
use super::{Engine, InFlightCall};
use crate::algorithm::Meter;
use crate::config::Headers;
use crate::learn::evidence::Word;
use crate::learn::mirror::{Mark, Mirror};
use crate::limit::Definition;
use crate::model::dimension::Dimension;
use crate::model::rate::{MAX_UNITS, Rate};
use crate::model::time::Nanos;
use crate::model::{CallId, LimitId, SpecId};

/// A reply that says that a limit is whole again in less than this part of its window tells of a burst, not of N.
pub(super) const BURST_PART: u32 = 4;

impl Engine {
    /// The reply to a call tells of limits; `counted` says that the upstream counted the call. Says whether one of
    /// them had no room for it.
    pub(super) fn hear_told(
        &mut self,
        index: CallId,
        call: &InFlightCall,
        told: &[Told],
        counted: bool,
        now: Nanos,
    ) -> bool {
        if self.upstream.school.due <= now {
            self.review(now);
        }
        let service = self.routing.skeletons[call.skeleton].service;
        let headers = self.routing.services[service].headers;
        let marks = match told.is_empty() {
            true => Vec::new(),
            false => self.take_marks(index),
        };
        let mut explained = false;
        for told in told {
            self.rule_out(call, told, now);
            let Some((limit, slot)) = self.limit_meant(call, told) else { continue };
            let cost = call.units[slot as usize];
            explained |= told.remaining.is_some_and(|remaining| remaining < cost.max(1));
            if headers == Headers::Ignore || !self.learn_units(limit, told, headers, call.at, now) {
                continue;
            }
            let since = self.limits[limit].since;
            let marked = marks.iter().find(|marked| marked.limit == limit && marked.since == since);
            match marked {
                Some(marked) => self.sync(*marked, call.at, told, counted, now),
                None => self.mirror(limit),
            }
        }
        if !told.is_empty() {
            self.see_what_is_due();
        }
        explained
    }

    /// From now on calls are marked when they pass this limit.
    fn mirror(&mut self, limit: LimitId) {
        if self.upstream.school.mirrors.contains_key(&limit) {
            return;
        }
        self.upstream.school.mirrors.insert(limit, Mirror::default());
        self.limits[limit].mirrored = true;
        for skeleton in self.routing.skeletons.ids() {
            if self.routing.skeletons[skeleton].uses.iter().any(|(used, _)| *used == limit) {
                self.see_what_is_mirrored(skeleton);
            }
        }
    }

    /// A reply states N. Says whether what it tells is about this limit at all.
    fn learn_units(&mut self, limit: LimitId, told: &Told, headers: Headers, at: Nanos, now: Nanos) -> bool {
        let index = self.limits[limit].spec;
        let spec = &self.limits.specs[index];
        let Some(rate) = spec.written.rate_of() else { return false };
        let Some(units) = told.limit.filter(|units| *units <= MAX_UNITS) else { return true };
        let lifts = spec.written.lifts || headers == Headers::Authoritative;
        if units < rate.units() && is_burst(told, units, rate) {
            return false;
        }
        // All keys have the same definition, though each may have another limit: then only what is left counts.
        if spec.per_key || (spec.learned.units.unwrap_or(rate.units()), spec.learned.lifts) == (units, lifts)
        {
            return true;
        }
        let before = spec.learned.told(rate.units());
        let learned = &mut self.limits.specs[index].learned;
        (learned.units, learned.lifts) = (Some(units), lifts);
        let in_force = learned.told(rate.units());
        if in_force != before {
            if let Some(mirror) = self.upstream.school.mirrors.get_mut(&limit) {
                mirror.evidence.start_over();
            }
            if in_force < before && matches!(self.limits[limit].meter, Meter::Bucket(_)) {
                // What flowed in too fast since then, at most.
                let since = now.since(at).as_secs_f64() / rate.window().as_secs_f64();
                let too_much = ((before - in_force) as f64 * since.min(1.0)).ceil() as u64;
                self.charge_others(limit, too_much, now);
            }
            self.relearn(index, now);
            let limit = self.limit_name(limit);
            self.tell(Lesson::Units { limit, told: units, in_force });
        }
        true
    }

    /// Brings a limit to what was learned. Who waits is planned anew when all that was told is known.
    pub(super) fn relearn(&mut self, spec: SpecId, now: Nanos) {
        if self.put_in_force(spec, now) {
            self.effects.refit = true;
        }
    }

    /// Whether a reply shows that the upstream counts in another way than we do; then what it says is in force.
    pub(super) fn sees_algorithm(
        &mut self,
        limit: LimitId,
        mark: Mark,
        at: Nanos,
        told: &Told,
        now: Nanos,
    ) -> bool {
        let index = self.limits[limit].spec;
        let spec = &self.limits.specs[index];
        let (Some(rate), Some(remaining)) = (spec.written.rate_of(), told.remaining) else { return false };
        if !spec.written.is_guess() || spec.per_key {
            return false;
        }
        let units = spec.learned.told(rate.units());
        // A reply about another N says nothing about how this limit counts.
        if told.limit != Some(units) {
            return false;
        }
        let word = Word { at, remaining, reset: told.reset, used: mark.used, units, window: rate.window() };
        let known = spec.learned.bucket;
        let Some(mirror) = self.upstream.school.mirrors.get_mut(&limit) else { return false };
        // What is written is a ceiling of N in any stretch of W: only replies that state this same N show that the upstream
        // counts otherwise. A preset's N is a guess, and so is how it counts.
        let establishes = units == rate.units() || spec.learned.lifts;
        let size = match known {
            None if !establishes => return false,
            None => match mirror.evidence.hear(word) {
                Some(size) => Some(size),
                None => return false,
            },
            Some(size) if mirror.evidence.supports(size, word) => return false,
            Some(_) => None,
        };
        let uncounted = if comes_late(&spec.written) { mark.in_flight } else { 0 };
        let sent = mirror.sent_after(mark).saturating_add(uncounted);
        mirror.begin_anew();
        mirror.evidence = Default::default();
        self.limits.specs[index].learned.bucket = size;
        self.put_in_force(index, now);
        if let Some(size) = size {
            let since = now.since(at).saturating_sub(ON_ITS_WAY).as_secs_f64();
            let refilled = (since * units as f64 / rate.window().as_secs_f64()) as u64;
            let left = remaining.saturating_add(refilled).min(size).saturating_sub(sent);
            let meter = &mut self.limits[limit].meter;
            let (used, missing) = (meter.used(now), meter.capacity().saturating_sub(left));
            if used > missing {
                meter.refund(used - missing, now, now);
            } else {
                meter.charge(missing - used, now);
                self.charge_lent(limit, missing - used, now);
            }
        }
        self.effects.refit = true;
        let limit = self.limit_name(limit);
        self.tell(Lesson::Bucket { limit, size });
        true
    }
}

/// Whether what is told is how much may go at once and not how much in a window: it is whole again much too soon.
fn is_burst(told: &Told, units: u64, rate: Rate) -> bool {
    let (Some(remaining), Some(reset)) = (told.remaining, told.reset) else { return false };
    let used = units.saturating_sub(remaining);
    let too_soon = used > 0 && reset.mul_f64(units as f64 / used as f64) < rate.window() / BURST_PART;
    let flows = reset.as_secs_f64() * rate.units() as f64 / rate.window().as_secs_f64();
    let size = remaining as f64 + flows;
    too_soon && (size - units as f64).abs() <= (units as f64 / 10.0).max(2.0)
}

/// Whether the upstream knows only in the end how much of it a call takes.
pub(super) fn comes_late(definition: &Definition) -> bool {
    let at_once = [Dimension::Requests, Dimension::InputTokens, Dimension::Bytes];
    definition.dimension().is_some_and(|dimension| !at_once.contains(&dimension))
}
