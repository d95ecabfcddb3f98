//! Which of our limits a reply states something about.
//!
//! Most replies do not say which window they mean. GitHub states 5,000 requests an hour on every reply, beside any
//! shorter limit that it enforces without a word. A reply moves a limit only if it can be about that limit:
//!
//! * It counts the same unit, at a level that mirrors the upstream.
//! * Its window is the limit's own, if it states one. If it does not, its reset is not further away than the limit
//!   takes to be whole again.
//! * Its N was never seen with a reset that is far beyond that. An hourly limit has its last minute too: its replies
//!   then look like those of a limit per minute. So an N that belongs to a longer window is remembered as such, and
//!   what was believed of it before is forgotten.

use std::time::Duration;

use super::ended::Told;
use super::layout::Use;
use super::lesson::Lesson;
use super::{Engine, InFlightCall};
use crate::limit::{Counts, Definition};
use crate::model::rate::Algorithm;
use crate::model::time::Nanos;
use crate::model::{LimitId, SpecId};

/// Resets are rounded to seconds and arrive late: by so much one may exceed the window.
const ROUNDED: Duration = Duration::from_secs(2);
/// A reset beyond the window's end by more than this cannot be explained by clocks that differ.
const SKEWED: Duration = Duration::from_secs(5);
/// How many N of other windows are remembered for each definition.
const REMEMBERED: usize = 4;

impl Engine {
    /// Returns the limit of a call's route that a reply states something about, and its unit's place. The narrowest
    /// level counts; of several windows the stated one, else the one with that N, else the shortest that lasts until
    /// the reset.
    pub(super) fn limit_meant(&self, call: &InFlightCall, told: &Told) -> Option<Use> {
        let reset = told.reset.unwrap_or_default();
        let candidates = self.candidates(call, told).filter_map(|(limit, slot)| {
            let index = self.limits[limit].spec;
            let spec = &self.limits.specs[index];
            let rate = spec.written.rate_of()?;
            let possible = fits_in(told, &spec.written)
                && (told.window.is_some()
                    || (reset <= whole_after(&spec.written) + ROUNDED && !self.is_ruled_out(index, told)));
            let other = told.limit.is_some_and(|units| units != rate.units());
            let window = rate.window();
            possible.then_some((super::scope::depth(&spec.level), other, window < reset, window, limit, slot))
        });
        candidates.min().map(|(.., limit, slot)| (limit, slot))
    }

    /// Notes for which limits a stated N is out of the question, because its reset is too far away. What was learned
    /// from earlier replies with that N is forgotten.
    pub(super) fn rule_out(&mut self, call: &InFlightCall, told: &Told, now: Nanos) {
        let (Some(units), Some(reset), None) = (told.limit, told.reset, told.window) else { return };
        let too_far: Vec<(LimitId, SpecId)> = self
            .candidates(call, told)
            .map(|(limit, _)| (limit, self.limits[limit].spec))
            .filter(|(_, spec)| {
                let written = &self.limits.specs[*spec].written;
                reset > whole_after(written) * 2 + SKEWED && !self.is_ruled_out(*spec, told)
            })
            .collect();
        for (limit, index) in too_far {
            let ruled_out = self.upstream.school.other_windows.entry(index).or_default();
            if ruled_out.len() == REMEMBERED {
                ruled_out.remove(0);
            }
            ruled_out.push(units);
            self.unlearn(limit, index, |stated| stated == units, now);
        }
    }

    /// Forgets how a limit counts, and its N if `is_wrong` says so of what replies stated.
    pub(super) fn unlearn(
        &mut self,
        limit: LimitId,
        index: SpecId,
        is_wrong: impl Fn(u64) -> bool,
        now: Nanos,
    ) {
        let spec = &mut self.limits.specs[index];
        let Some(written) = spec.written.rate_of() else { return };
        let bucket = spec.learned.bucket.take();
        let stated = spec.learned.units.take_if(|stated| is_wrong(*stated));
        if bucket.is_none() && stated.is_none() {
            return;
        }
        if let Some(mirror) = self.upstream.school.mirrors.get_mut(&limit) {
            mirror.begin_anew();
            mirror.evidence = Default::default();
        }
        self.relearn(index, now);
        let name = self.limit_name(limit);
        if stated.is_some() {
            let in_force = self.limits.specs[index].learned.told(written.units());
            self.tell(Lesson::Units { limit: name.clone(), told: written.units(), in_force });
        }
        if bucket.is_some() {
            self.tell(Lesson::Bucket { limit: name, size: None });
        }
    }

    /// Whether a stated N belongs to another window than this definition's.
    fn is_ruled_out(&self, spec: SpecId, told: &Told) -> bool {
        let ruled_out = self.upstream.school.other_windows.get(&spec);
        told.limit.is_some_and(|units| ruled_out.is_some_and(|ruled_out| ruled_out.contains(&units)))
    }

    /// The limits of a call's route that count what the reply states, in its window if it states one.
    fn candidates(&self, call: &InFlightCall, told: &Told) -> impl Iterator<Item = Use> {
        self.routing.skeletons[call.skeleton].uses.iter().copied().filter(|(limit, _)| {
            let held = &self.limits[*limit];
            let spec = &self.limits.specs[held.spec];
            let Counts::Rate { dimension, rate, .. } = &spec.written.counts else { return false };
            *dimension == told.dimension
                && told.window.is_none_or(|stated| stated == rate.window())
                && super::change::mirrors(&spec.level)
                && held.since <= call.epoch
        })
    }
}

/// Whether what a reply says is left can be left of this limit, if the reply does not state N.
fn fits_in(told: &Told, written: &Definition) -> bool {
    let most = written.rate_of().map_or(0, |rate| rate.units()).max(written.whole());
    told.limit.is_some() || written.lifts || told.remaining.is_none_or(|remaining| remaining <= most)
}

/// How long a limit takes to be whole again: its window, or the time in which a larger bucket fills.
fn whole_after(written: &Definition) -> Duration {
    match &written.counts {
        Counts::Rate { rate, algorithm: Algorithm::TokenBucket, burst: Some(burst), .. } => {
            rate.window().mul_f64((*burst as f64 / rate.units() as f64).max(1.0))
        }
        Counts::Rate { rate, .. } => rate.window(),
        _ => Duration::ZERO,
    }
}
