//! What replies teach, brought to the limits they are about.
//!
//! `learn/` knows what follows from what was heard; here it is found out which limit a reply tells of, and what follows
//! is done to it: others' units are charged to its meter, and its definition in force changes. Limits of which nobody
//! ever told cost nothing: only where a reply has told of a limit are calls marked when they go.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::ended::Told;
use super::lane::Use;
use super::lesson::Lesson;
use super::{Engine, InFlightCall};
use crate::algorithm::Meter;
use crate::config::Headers;
use crate::dimension::Dimension;
use crate::learn::ceiling::{Ceiling, Tally};
use crate::learn::evidence::Word;
use crate::learn::mirror::{Mark, Mirror};
use crate::learn::spread::{self, Spread};
use crate::limit::{Counts, Definition};
use crate::rate::{Algorithm, MAX_UNITS, Rate};
use crate::time::Nanos;
use crate::tree::NIL;

/// What others take is looked at this many times in a window.
const LOOKS: u32 = 20;
/// Less than this share of N is no other.
const NOBODY: f64 = 0.005;
/// A call was counted at most so long after it went.
const ON_ITS_WAY: Duration = Duration::from_millis(100);
/// Of a smaller limit or bucket each reply tells too little: it is paced and no more.
const LEAST: u64 = 8;
/// Where no more go at once or in a window, one that overtakes another may be one too many.
const SMALL: u64 = 100;
/// A pacer lets at most this part of N go at once, whatever calls give back.
const MOST_AT_ONCE: u64 = 16;
/// A reply that says that a limit is whole again in less than this part of its window tells of a burst, not of N.
const BURST_PART: u32 = 4;

/// What the engine remembers of replies.
#[derive(Debug)]
pub(crate) struct School {
    /// By limit.
    mirrors: BTreeMap<u32, Mirror>,
    /// By the place of calls in flight.
    marks: Vec<Vec<Marked>>,
    /// By definition.
    ceilings: BTreeMap<u32, Felt>,
    /// By service.
    spreads: BTreeMap<u32, Spread>,
    /// Definitions that are to be brought to what was learned.
    unplanned: BTreeSet<u32>,
    /// Whether definitions have changed since all was planned.
    replan: bool,
    /// When something learned is to be looked at again.
    pub due: Nanos,
    pub lessons: VecDeque<Lesson>,
    pub keeps_books: bool,
}

#[derive(Clone, Copy, Debug)]
struct Marked {
    limit: u32,
    since: u32,
    cost: u64,
    mark: Mark,
}

#[derive(Clone, Debug, Default)]
struct Felt {
    ceiling: Ceiling,
    tally: Tally,
}

impl Default for School {
    fn default() -> School {
        School {
            mirrors: BTreeMap::new(),
            marks: Vec::new(),
            ceilings: BTreeMap::new(),
            spreads: BTreeMap::new(),
            unplanned: BTreeSet::new(),
            replan: false,
            due: Nanos::NEVER,
            lessons: VecDeque::new(),
            keeps_books: false,
        }
    }
}

impl School {
    /// What others take of a limit, in units a second.
    pub fn others_at(&self, limit: u32) -> f64 {
        self.mirrors.get(&limit).map_or(0.0, Mirror::others)
    }

    pub fn forget(&mut self, limit: u32) {
        self.mirrors.remove(&limit);
    }
}

impl Engine {
    /// Which limits of a route replies have told of.
    pub(super) fn see_what_is_mirrored(&mut self, skeleton: u32) {
        let mirrors = &self.school.mirrors;
        let held = &mut self.skeletons[skeleton as usize];
        held.mirrored = held.uses.iter().copied().filter(|(limit, _)| mirrors.contains_key(limit)).collect();
        held.noted = held.breaker != NIL || !held.mirrored.is_empty();
    }

    /// A call goes, of which something is to be remembered.
    #[inline(never)]
    pub(super) fn note(&mut self, index: u32, now: Nanos) {
        let InFlightCall { skeleton, units, .. } = self.in_flight[index as usize];
        let held = &self.skeletons[skeleton as usize];
        let breaker = held.breaker;
        let mut marks = std::mem::take(self.marks_of(index));
        let Engine { skeletons, limits, school, .. } = self;
        marks.clear();
        for &(limit, slot) in &skeletons[skeleton as usize].mirrored {
            let (held, cost) = (&mut limits[limit as usize], units[slot as usize]);
            let Some(mirror) = school.mirrors.get_mut(&limit) else { continue };
            let mark = mirror.mark(cost, held.meter.used(now));
            marks.push(Marked { limit, since: held.since, cost, mark });
        }
        if !marks.is_empty() {
            *self.marks_of(index) = marks;
        }
        if breaker != NIL {
            self.note_pass(index, breaker);
        }
    }

    fn marks_of(&mut self, index: u32) -> &mut Vec<Marked> {
        let marks = &mut self.school.marks;
        if marks.len() <= index as usize {
            marks.resize_with(index as usize + 1, Vec::new);
        }
        &mut marks[index as usize]
    }

    /// A call ended of which no reply told.
    #[inline]
    pub(super) fn unmark(&mut self, index: u32) {
        if self.school.marks.get(index as usize).is_some_and(|marks| !marks.is_empty()) {
            self.take_marks(index);
        }
    }

    fn take_marks(&mut self, index: u32) -> Vec<Marked> {
        let marks = std::mem::take(self.marks_of(index));
        for marked in &marks {
            if let Some(mirror) = self.school.mirrors.get_mut(&marked.limit) {
                mirror.ends(marked.cost);
            }
        }
        marks
    }

    /// The reply to a call tells of limits; `counted` says that the upstream counted the call. Says whether one of
    /// them had no room for it.
    pub(super) fn hear_told(
        &mut self,
        index: u32,
        call: &InFlightCall,
        told: &[Told],
        counted: bool,
        now: Nanos,
    ) -> bool {
        if self.school.due <= now {
            self.review(now);
        }
        let service = self.skeletons[call.skeleton as usize].service;
        let headers = self.services[service as usize].headers;
        let marks = match told.is_empty() {
            true => Vec::new(),
            false => self.take_marks(index),
        };
        let mut explained = false;
        for told in told {
            let Some((limit, slot)) = self.mirrored_limit(call, told) else { continue };
            let cost = call.units[slot as usize];
            explained |= told.remaining.is_some_and(|remaining| remaining < cost.max(1));
            if headers == Headers::Ignore || !self.learn_units(limit, told, headers, call.at, now) {
                continue;
            }
            let since = self.limits[limit as usize].since;
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
    fn mirror(&mut self, limit: u32) {
        if self.school.mirrors.contains_key(&limit) {
            return;
        }
        self.school.mirrors.insert(limit, Mirror::default());
        for skeleton in 0..self.skeletons.len() as u32 {
            if self.skeletons[skeleton as usize].uses.iter().any(|(used, _)| *used == limit) {
                self.see_what_is_mirrored(skeleton);
            }
        }
    }

    /// The limit on a call's way that a reply tells of, and what counts there. The narrowest level counts; of several
    /// windows the stated one, else the one with that N, else the shortest that lasts until the reset.
    fn mirrored_limit(&self, call: &InFlightCall, told: &Told) -> Option<Use> {
        let reset = told.reset.unwrap_or_default();
        let candidates = self.skeletons[call.skeleton as usize].uses.iter().filter_map(|&(limit, slot)| {
            let held = &self.limits[limit as usize];
            let spec = &self.specs[held.spec as usize];
            let Counts::Rate { dimension, rate, .. } = &spec.written.counts else { return None };
            let window = rate.window();
            let stated = told.window.is_none_or(|stated| stated == window);
            let is_it = *dimension == told.dimension && stated && super::change::mirrors(&spec.level);
            let other = told.limit.is_some_and(|units| units != rate.units());
            let fits = (super::scope::depth(&spec.level), other, window < reset, window);
            (is_it && held.since <= call.epoch).then_some((fits, limit, slot))
        });
        candidates.min().map(|(_, limit, slot)| (limit, slot))
    }

    /// A reply states N. Says whether what it tells is about this limit at all.
    fn learn_units(&mut self, limit: u32, told: &Told, headers: Headers, at: Nanos, now: Nanos) -> bool {
        let index = self.limits[limit as usize].spec;
        let spec = &self.specs[index as usize];
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
        let learned = &mut self.specs[index as usize].learned;
        (learned.units, learned.lifts) = (Some(units), lifts);
        let in_force = learned.told(rate.units());
        if in_force != before {
            if let Some(mirror) = self.school.mirrors.get_mut(&limit) {
                mirror.evidence.start_over();
            }
            if in_force < before && matches!(self.limits[limit as usize].meter, Meter::Bucket(_)) {
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
    fn relearn(&mut self, spec: u32, now: Nanos) {
        if self.put_in_force(spec, now) {
            self.school.replan = true;
        }
    }

    /// What a reply says is left, beside what we took.
    fn sync(&mut self, marked: Marked, at: Nanos, told: &Told, counted: bool, now: Nanos) {
        let Marked { limit, cost, mut mark, .. } = marked;
        let Some(mirror) = self.school.mirrors.get_mut(&limit) else { return };
        if !mirror.is_news(mark, at, now) {
            return;
        }
        let Some(remaining) = told.remaining else { return };
        if !counted {
            mark.used = mark.used.saturating_sub(cost);
        }
        if self.sees_algorithm(limit, mark, at, told, now) {
            return;
        }
        let spec = &self.specs[self.limits[limit as usize].spec as usize];
        let Some(rate) = spec.written.rate_of() else { return };
        let units = spec.learned.told(rate.units());
        let window = rate.window();
        if let (Meter::Fixed(fixed), Some(reset)) = (&mut self.limits[limit as usize].meter, told.reset)
            && fixed.ends_by(now.after(reset), now)
        {
            self.touched(limit);
        }
        let spec = &self.specs[self.limits[limit as usize].spec as usize];
        let (whole, until) = match &self.limits[limit as usize].meter {
            Meter::Bucket(_) => {
                (spec.learned.bucket.unwrap_or(spec.written.whole()).min(units), Nanos::NEVER)
            }
            // It was counted in a window that is over.
            Meter::Fixed(fixed) if at < fixed.bounds().0 => return,
            Meter::Fixed(_) => (units, Nanos::NEVER),
            _ => (units, told.reset.map_or(Nanos::NEVER, |reset| lasts(at, reset, window))),
        };
        if until <= now || whole < LEAST {
            return;
        }
        let Some(mirror) = self.school.mirrors.get_mut(&limit) else { return };
        mirror.heard_now(at, until, window, now);
        if remaining.saturating_add(cost) >= whole {
            mirror.was_whole();
        }
        let more = mirror.correction(mark, whole, remaining);
        // What comes as a call goes on is not counted yet: nothing of that may be given back.
        let uncounted = if comes_late(&spec.written) { i128::from(mark.in_flight) } else { 0 };
        if more > 0 && until != Nanos::NEVER && is_sudden(more, units, until.since(at), window) {
            return;
        }
        if more > 0 {
            let more = u64::try_from(more).unwrap_or(u64::MAX);
            let charged = self.charge_others(limit, more, now);
            if let Some(mirror) = self.school.mirrors.get_mut(&limit) {
                mirror.charge(charged, until, now);
            }
        } else if more + uncounted < 0 {
            let less = u64::try_from(-(more + uncounted)).unwrap_or(u64::MAX);
            self.refund_others(limit, less, now);
        }
        self.leave_room_for_others(limit, window, now);
    }

    /// Charges what others took to a limit; says how much of it counts there.
    fn charge_others(&mut self, limit: u32, units: u64, now: Nanos) -> u64 {
        let units = self.limits[limit as usize].meter.charge_others(units, now);
        self.charge_lent(limit, units, now);
        if units > 0 {
            self.touched(limit);
            if self.school.keeps_books {
                let limit = self.limit_name(limit);
                self.tell(Lesson::Charged { limit, units });
            }
        }
        units
    }

    fn refund_others(&mut self, limit: u32, units: u64, now: Nanos) {
        let mut left = units;
        while let Some((units, charged)) =
            self.school.mirrors.get_mut(&limit).and_then(|mirror| mirror.take_back(left)).filter(|_| left > 0)
        {
            left -= units;
            self.give_back_to_others(limit, units, charged, now);
        }
    }

    fn give_back_to_others(&mut self, limit: u32, units: u64, charged: Nanos, now: Nanos) {
        self.limits[limit as usize].meter.refund(units, charged, now);
        self.touched(limit);
        if self.school.keeps_books {
            let limit = self.limit_name(limit);
            self.tell(Lesson::Refunded { limit, units, charged });
        }
    }

    /// Whether a reply shows that the upstream counts in another way than we do; then what it says is in force.
    fn sees_algorithm(&mut self, limit: u32, mark: Mark, at: Nanos, told: &Told, now: Nanos) -> bool {
        let index = self.limits[limit as usize].spec;
        let spec = &self.specs[index as usize];
        let (Some(rate), Some(remaining)) = (spec.written.rate_of(), told.remaining) else { return false };
        if !spec.written.is_guess() || spec.per_key {
            return false;
        }
        let units = spec.learned.told(rate.units());
        let word = Word { at, remaining, reset: told.reset, used: mark.used, units, window: rate.window() };
        let known = spec.learned.bucket;
        let Some(mirror) = self.school.mirrors.get_mut(&limit) else { return false };
        let size = match known {
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
        self.specs[index as usize].learned.bucket = size;
        self.put_in_force(index, now);
        if let Some(size) = size {
            let since = now.since(at).saturating_sub(ON_ITS_WAY).as_secs_f64();
            let refilled = (since * units as f64 / rate.window().as_secs_f64()) as u64;
            let left = remaining.saturating_add(refilled).min(size).saturating_sub(sent);
            let meter = &mut self.limits[limit as usize].meter;
            let (used, missing) = (meter.used(now), meter.capacity().saturating_sub(left));
            if used > missing {
                meter.refund(used - missing, now, now);
            } else {
                meter.charge(missing - used, now);
                self.charge_lent(limit, missing - used, now);
            }
        }
        self.school.replan = true;
        let limit = self.limit_name(limit);
        self.tell(Lesson::Bucket { limit, size });
        true
    }

    /// What others take before we hear of it is left alone.
    fn leave_room_for_others(&mut self, limit: u32, window: Duration, now: Nanos) {
        let index = self.limits[limit as usize].spec;
        let Some(mirror) = self.school.mirrors.get_mut(&limit) else { return };
        let Some(others) = mirror.look(window, window / LOOKS, now) else { return };
        // They come as they like: what we expect of them is charged, and twice by what that may differ left alone.
        let unheard = others * mirror.lag();
        let spec = &self.specs[index as usize];
        let Some(rate) = spec.written.rate_of().filter(|_| !spec.per_key) else { return };
        // A bucket may be small, and what is left alone in it is not lost.
        let margin = if matches!(self.limits[limit as usize].meter, Meter::Bucket(_)) { 2.0 } else { 2.5 };
        let guard = match others * window.as_secs_f64() < rate.units() as f64 * NOBODY {
            true => 0,
            false => (margin * unheard.sqrt()).ceil() as u64,
        };
        let before = spec.learned.guard;
        if guard.abs_diff(before) > before / 4 {
            self.specs[index as usize].learned.guard = guard;
            self.relearn(index, now);
            let limit = self.limit_name(limit);
            self.tell(Lesson::Others { limit, rate: others });
        }
    }

    /// A call was turned away, and nothing that was told says why.
    pub(super) fn turned_away_unexplained(&mut self, call: &InFlightCall, now: Nanos) {
        let Some(limit) = self.most_likely(call) else { return };
        let index = self.limits[limit as usize].spec;
        let Some(rate) = self.specs[index as usize].written.rate_of() else { return };
        let units = self.specs[index as usize].learned.told(rate.units());
        if self.specs[index as usize].learned.bucket.take().is_some() {
            // Whatever it is, it does not like what a bucket would.
            if let Some(mirror) = self.school.mirrors.get_mut(&limit) {
                mirror.begin_anew();
                mirror.evidence.give_up();
            }
            self.relearn(index, now);
            let limit = self.limit_name(limit);
            self.tell(Lesson::Bucket { limit, size: None });
        }
        let felt = self.school.ceilings.entry(index).or_insert_with(|| Felt {
            tally: Tally::new(rate.window(), units, now),
            ceiling: Ceiling::default(),
        });
        let through = felt.tally.sum(now) as f64 / units as f64;
        if felt.ceiling.refused(call.at, through, rate.window(), now) {
            self.feel(index, limit, now);
        } else if self.specs[index as usize].learned.jitter.is_zero()
            && self.specs[index as usize].written.whole() <= SMALL
        {
            // It may be that it overtook another, which matters where few go: nobody knows yet by how much they do.
            self.specs[index as usize].learned.jitter = spread::MOST;
            self.relearn(index, now);
            let limit = self.limit_name(limit);
            self.tell(Lesson::Jitter { limit, apart: spread::MOST });
        }
        self.see_what_is_due();
    }

    /// A call went through: so much the upstream allows.
    #[inline]
    pub(super) fn went_through(&mut self, call: &InFlightCall, now: Nanos) {
        if self.school.ceilings.is_empty() {
            return;
        }
        for &(limit, slot) in &self.skeletons[call.skeleton as usize].uses {
            if let Some(felt) = self.school.ceilings.get_mut(&self.limits[limit as usize].spec) {
                felt.tally.add(call.units[slot as usize], now);
            }
        }
    }

    fn feel(&mut self, spec: u32, limit: u32, now: Nanos) {
        let Some(felt) = self.school.ceilings.get(&spec) else { return };
        let share = felt.ceiling.share();
        if share >= 1.0 && felt.ceiling.due().is_never() {
            self.school.ceilings.remove(&spec);
        }
        self.specs[spec as usize].learned.share = share;
        self.relearn(spec, now);
        let limit = self.limit_name(limit);
        self.tell(Lesson::Ceiling { limit, share });
    }

    /// The limit that most likely turned a call away: on calls rather than on what they cost, the narrowest, the
    /// shortest.
    fn most_likely(&self, call: &InFlightCall) -> Option<u32> {
        let candidates = self.skeletons[call.skeleton as usize].uses.iter().filter_map(|&(limit, slot)| {
            let spec = &self.specs[self.limits[limit as usize].spec as usize];
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
        let service = self.skeletons[call.skeleton as usize].service;
        let spread = self.school.spreads.entry(service).or_default();
        let Some(apart) = spread.hear(now.since(call.at)) else { return };
        let uses = self.skeletons[call.skeleton as usize].uses.clone();
        for (limit, _) in uses {
            let index = self.limits[limit as usize].spec;
            let spec = &self.specs[index as usize];
            let before = spec.learned.jitter;
            let differs = apart.abs_diff(before) > (before / 4).max(Duration::from_millis(2));
            if !differs || !super::change::mirrors(&spec.level) || !is_paced(&spec.definition) {
                continue;
            }
            self.specs[index as usize].learned.jitter = apart;
            self.relearn(index, now);
            let limit = self.limit_name(limit);
            self.tell(Lesson::Jitter { limit, apart });
        }
    }

    /// A call gives back a part of what it reserved: a pacer must be able to hold that.
    pub(super) fn keep_what_comes_back(&mut self, limit: u32, reserved: u64) {
        let index = self.limits[limit as usize].spec;
        let spec = &mut self.specs[index as usize];
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
            self.school.unplanned.insert(index);
        }
    }

    /// Puts into force what was learned while a call ended; nobody goes yet.
    #[inline]
    pub(super) fn plan_what_was_learned(&mut self, now: Nanos) {
        while let Some(spec) = self.school.unplanned.pop_first() {
            self.relearn(spec, now);
            let limit = self.specs[spec as usize].shared;
            if limit != NIL {
                let burst = self.specs[spec as usize].learned.burst;
                let limit = self.limit_name(limit);
                self.tell(Lesson::Burst { limit, burst });
            }
        }
        if std::mem::take(&mut self.school.replan) {
            self.fit_all(now);
        }
    }

    /// Looks at what was learned and is due.
    pub(super) fn review(&mut self, now: Nanos) {
        let mirrored: Vec<u32> = self.school.mirrors.keys().copied().collect();
        for limit in mirrored {
            let spec = &self.specs[self.limits[limit as usize].spec as usize];
            let Some(window) = spec.written.rate_of().map(|rate| rate.window()) else { continue };
            while let Some((units, charged)) =
                self.school.mirrors.get_mut(&limit).and_then(|mirror| mirror.expired(window, now))
            {
                self.give_back_to_others(limit, units, charged, now);
            }
            let unheard = self.school.mirrors.get_mut(&limit).and_then(|mirror| mirror.unheard(now));
            if let Some(units) = unheard {
                let charged = self.charge_others(limit, units, now);
                if let Some(mirror) = self.school.mirrors.get_mut(&limit) {
                    mirror.expect(charged, now);
                }
            }
        }
        let felt: Vec<u32> = self.school.ceilings.keys().copied().collect();
        for spec in felt {
            let Some(rate) = self.specs[spec as usize].written.rate_of() else { continue };
            let units = self.specs[spec as usize].learned.told(rate.units());
            let Some(felt) = self.school.ceilings.get_mut(&spec) else { continue };
            let through = felt.tally.sum(now) as f64 / units as f64;
            let limit = self.specs[spec as usize].shared;
            if felt.ceiling.look(through, rate.window(), now) && limit != NIL {
                self.feel(spec, limit, now);
            }
        }
        self.see_what_is_due();
        self.plan_what_was_learned(now);
    }

    fn see_what_is_due(&mut self) {
        let window = |limit: &u32| {
            let spec = &self.specs[self.limits[*limit as usize].spec as usize];
            spec.written.rate_of().map_or(Duration::ZERO, |rate| rate.window())
        };
        let due = |(limit, mirror): (&u32, &Mirror)| mirror.due(window(limit)).min(mirror.next_unheard());
        let mirrors = self.school.mirrors.iter().map(due);
        let ceilings = self.school.ceilings.values().map(|felt| felt.ceiling.due());
        self.school.due = mirrors.chain(ceilings).min().unwrap_or(Nanos::NEVER);
    }
}

/// Whether so much cannot have been taken by others since we last heard and be there again so soon: then what is told
/// is how much may go at once, and not how much is left of a window.
fn is_sudden(more: i128, units: u64, restored: Duration, window: Duration) -> bool {
    more > i128::from(units / 10) && restored < window / BURST_PART
}

/// Until when what a reply tells about a call that went at `at` holds: until the limit is restored, or as long as what
/// was taken counts anyway.
fn lasts(at: Nanos, reset: Duration, window: Duration) -> Nanos {
    if reset < window.mul_f64(0.95) { at.after(reset + ON_ITS_WAY) } else { Nanos::NEVER }
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
fn comes_late(definition: &Definition) -> bool {
    let at_once = [Dimension::Requests, Dimension::InputTokens, Dimension::Bytes];
    definition.dimension().is_some_and(|dimension| !at_once.contains(&dimension))
}

/// Whether units flow at a pace, so that it matters whether calls overtake each other.
fn is_paced(definition: &Definition) -> bool {
    match &definition.counts {
        Counts::Rate { algorithm: Algorithm::TokenBucket, .. } => true,
        Counts::Rate { algorithm: Algorithm::SlidingWindow, burst, .. } => burst.is_some(),
        _ => false,
    }
}
