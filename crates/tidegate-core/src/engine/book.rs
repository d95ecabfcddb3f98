//! What is written down before it is spent, so that nothing is spent twice after a crash.
//!
//! With a book, every limit that counts spends from a *promise*: units that are on disk as spent before a call may have
//! them. A *page* is one limit as it is kept: its state, which says everything that was spent until then, and the promise
//! beside it. The driver takes pages, writes them, makes sure that they will be found again whatever happens, and only
//! then says so; from then on what they promise may be spent.
//!
//! What holds at every moment, whichever pages a crash leaves behind: what was spent since the page on disk was taken is at
//! most what that page promises. For
//!
//! * a call goes only for units that are left of promises that are on disk ([`Allotment`]);
//! * of each limit one page at most is on its way;
//! * a page promises what is left of those, which may be spent while it is on its way, and the units that are lent once
//!   it is there. If it gets lost, the page before it still covers what was left;
//! * what is not asked for (debt, others' units that a reply tells of) is taken from the promise too. What the promise does
//!   not cover is owed: nobody goes until a page says it. That much is lost if the crash comes first, as if the reply
//!   had not come yet;
//! * units that come back raise nothing that is on disk, and are not spent again from a promise that was made before
//!   they came back: they counted where they were taken, and would count later than the page knows.
//!
//! After a crash everything promised counts as spent at the restart, which is no earlier than it was: so no window and no
//! bucket has more room than it truly has, at any time.
//!
//! Loops and API keys have limits of their own, made when they first call. They may spend a first promise, the *seed*, at
//! once: that every such limit may have done so is written down once for all of them. After a crash one that is not in
//! the book has spent its seed.
//!
//! If what is on disk is not all that was written there, or cannot be read, it is not known what was spent
//! ([`Unknown`]). Then every limit begins as spent, for a window: the ones that there are at once, those of loops and keys
//! when they are made within a window of the restart.
//!
//! In-flight limits do the same with slots: a page promises how many more may be held than are. Those count as held after
//! a crash, until their calls can be expected to have ended.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;

use super::facts::Facts;
use super::state::Limits;
use super::{Engine, Grant};
use crate::allotment::{Allotment, Loan};
use crate::kept::{Impossible, Kept};
use crate::learn::durations::Durations;
use crate::limit::{Counts, Definition};
use crate::model::time::Nanos;
use crate::model::{LimitId, ServiceId, SpecId};

/// A promise is this part of a limit, or what flows in the time that a page takes, if that is more.
const PART: u64 = 100;
/// It is never more than this part, unless calls wait for more.
const MOST: u64 = 10;
/// At least so many calls.
const CALLS: u64 = 2;
/// The time that a page takes, until it is known better.
const SPAN: Duration = Duration::from_millis(100);
/// Nobody knows how long calls take that are in flight for longer than this.
pub(super) const LONGEST: Duration = Duration::from_secs(60);

/// What is to be written, and what is known to be.
#[derive(Debug)]
pub(crate) struct Book {
    /// Those that are no more, and have a page perhaps.
    pub gone: Vec<Arc<str>>,
    /// Pages of limits that are not there (yet).
    pub unclaimed: HashMap<Arc<str>, Kept>,
    /// What these promise counts as spent.
    pub lost: bool,
    /// When a crash was last found, and what each limit of a loop or key may have spent before that, by their level.
    pub crashed: Option<(Nanos, BTreeMap<Arc<str>, u64>)>,
    /// Slots of calls that were in flight at the crash: until when, where, how many.
    pub orphans: Vec<(Nanos, LimitId, u64)>,
    /// When it was found that what was spent is not known: of any limit, and of those of keys.
    pub unknown: Option<Nanos>,
    pub unknown_keys: Option<Nanos>,
    /// Limits that began as spent, to be told of.
    pub began_spent: Vec<Arc<str>>,
    /// Nothing that was written is on disk any more.
    rewrite: bool,
    /// Something beside limits is to be written.
    pub facts_due: bool,
    /// How long a page takes, twice.
    span: Duration,
    /// How long calls are in flight, by service.
    pub durations: HashMap<ServiceId, Durations>,
}

/// A limit to be written down.
#[derive(Clone, Debug)]
pub struct Page {
    /// Its name.
    pub name: Arc<str>,
    /// How it is kept; nothing if it is no more.
    pub kept: Option<Kept>,
    limit: LimitId,
    /// What may be spent once this is on disk.
    lends: u64,
}

/// What a driver found on disk.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The latest page of every limit, by name.
    pub limits: Vec<(Arc<str>, Kept)>,
    /// What was written beside them.
    pub facts: Option<Facts>,
    /// Whether those who wrote it did not stop by themselves: what they promised counts as spent.
    pub crashed: bool,
    /// Of which limits it does not say what was spent.
    pub unknown: Unknown,
}

/// Of which limits it is not known what was spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unknown {
    /// All that was written is there.
    #[default]
    None,
    /// Of those that each API key has.
    Keys,
    /// Of all.
    All,
}

impl Engine {
    /// From now on nothing is spent that was not written down first. The driver asks for [pages](Engine::pages), and
    /// says when they are [on disk](Engine::written) or [failed](Engine::not_written). `found` is what it found there:
    /// the engine's time must go on from where it was then, and nothing may have gone through this engine before.
    ///
    /// # Errors
    /// If something that was found can never have been written.
    pub fn keep_book(&mut self, found: Found, now: Nanos) -> Result<(), Impossible> {
        let now = self.clock(now);
        let Found { limits, facts, crashed, unknown } = found;
        for (_, kept) in &limits {
            kept.revive(now, self.limits.unix_offset)?;
        }
        let facts = facts.unwrap_or_default();
        let crashed_at = if crashed { Some(now) } else { facts.crashed_at() };
        let before = facts.unknown_at();
        let (unknown, unknown_keys) = match unknown {
            Unknown::None => before,
            Unknown::Keys => (before.0, Some(now)),
            Unknown::All => (Some(now), before.1),
        };
        let unclaimed = limits.into_iter().collect();
        self.limits.unsaved = Some(BTreeSet::new());
        self.funding.book = Some(Box::new(Book {
            gone: Vec::new(),
            unclaimed,
            lost: crashed,
            crashed: crashed_at.map(|at| (at, facts.seeds.clone())),
            orphans: Vec::new(),
            unknown,
            unknown_keys,
            began_spent: Vec::new(),
            rewrite: false,
            facts_due: true,
            span: SPAN,
            durations: HashMap::new(),
        }));
        // First what was learned: limits are taken up under the definitions that they were kept under.
        self.believe(&facts, now);
        for limit in self.limits.all.live() {
            self.promise_for(limit, now);
        }
        self.forget_what_is_over(now);
        Ok(())
    }

    /// Whether there is something to write.
    #[must_use]
    pub fn has_pages(&self) -> bool {
        let unsaved = self.limits.unsaved.as_ref().is_some_and(|unsaved| !unsaved.is_empty());
        unsaved || self.funding.book.as_ref().is_some_and(|book| !book.gone.is_empty() || book.facts_due)
    }

    /// Returns the names of limits that began as spent since this was last asked: what was really spent is not known.
    pub fn take_begun_as_spent(&mut self) -> Vec<Arc<str>> {
        self.funding.book.as_mut().map(|book| std::mem::take(&mut book.began_spent)).unwrap_or_default()
    }

    /// How long it takes from when a limit asks until its page is on disk, at most as a rule.
    pub fn pages_take(&mut self, span: Duration) {
        if let Some(book) = &mut self.funding.book {
            book.span = (2 * span).clamp(SPAN, Duration::from_secs(2));
        }
    }

    /// Up to `most` pages that are to be written. Each is taken once: it is answered by one of the two below, and until then
    /// there is no other of the same limit.
    pub fn pages(&mut self, most: usize, now: Nanos) -> Vec<Page> {
        let now = self.clock(now);
        let stale: Vec<LimitId> = self.stale_slots().collect();
        let Some(book) = &mut self.funding.book else { return Vec::new() };
        let gone = std::mem::take(&mut book.gone);
        let Limits { all, unsaved, .. } = &mut self.limits;
        let unsaved = unsaved.get_or_insert_default();
        if !unsaved.is_empty() {
            unsaved.extend(stale);
        }
        let is_due = |limit: &LimitId| {
            let lent = all[*limit].lent.as_ref();
            lent.is_some_and(|lent| !lent.is_on_its_way())
        };
        let due: Vec<LimitId> = unsaved.iter().copied().filter(is_due).take(most).collect();
        for limit in &due {
            unsaved.remove(limit);
        }
        let rewrite = std::mem::take(&mut book.rewrite);
        let erased = gone.into_iter().map(|name| Page { name, kept: None, limit: LimitId::NIL, lends: 0 });
        let mut pages: Vec<Page> = erased.collect();
        if rewrite {
            pages.extend(self.idle_pages());
        }
        pages.extend(due.into_iter().filter_map(|limit| self.page(limit, false, now)));
        pages
    }

    /// Nothing can be written, and calls go on all the same: what limits ask for is theirs without a promise.
    pub fn go_without(&mut self, now: Nanos) {
        let now = self.clock(now);
        let Some(unsaved) = &mut self.limits.unsaved else { return };
        for limit in std::mem::take(unsaved) {
            let wanted = self.promise_size(limit).max(self.demand(limit, now));
            if let Some(lent) = &mut self.limits[limit].lent {
                let units = wanted.saturating_sub(lent.left());
                lent.lend(Loan { units, from: Nanos::ZERO, until: Nanos::NEVER }, now);
                self.effects.touch(limit, &self.limits);
            }
        }
        self.pump(now);
    }

    /// What is on disk is no longer true of any limit, or is not there any more.
    pub fn all_pages_due(&mut self) {
        if let Some(book) = &mut self.funding.book {
            self.limits.unsaved.get_or_insert_default().extend(self.funding.lent_limits.iter().copied());
            (book.rewrite, book.facts_due) = (true, true);
        }
    }

    /// Pages of limits that are not there: those that were found and not claimed, and those that the config no longer has.
    fn idle_pages(&self) -> Vec<Page> {
        let page = |(name, kept): (&Arc<str>, &Kept)| {
            let (name, kept) = (name.clone(), Some(kept.clone()));
            Page { name, kept, limit: LimitId::NIL, lends: 0 }
        };
        let unclaimed = self.funding.book.iter().flat_map(|book| &book.unclaimed);
        unclaimed.chain(self.limits.retired.limits()).map(page).collect()
    }

    /// Every limit as it is, with nothing promised: for a clean stop. Nothing goes from now on.
    pub fn last_pages(&mut self, now: Nanos) -> Vec<Page> {
        let now = self.clock(now);
        self.forget_retired(now);
        let Some(book) = &mut self.funding.book else { return Vec::new() };
        self.limits.unsaved.get_or_insert_default().clear();
        let gone = book.gone.iter().map(|name| Page {
            name: name.clone(),
            kept: None,
            limit: LimitId::NIL,
            lends: 0,
        });
        let mut pages: Vec<Page> = gone.collect();
        pages.extend(self.idle_pages());
        let lent: Vec<LimitId> = self.funding.lent_limits.iter().copied().collect();
        pages.extend(lent.into_iter().filter_map(|limit| self.page(limit, true, now)));
        pages
    }

    /// These pages are on disk.
    pub fn written(&mut self, pages: &[Page], now: Nanos) {
        let now = self.clock(now);
        for page in pages {
            if self.is_of(page)
                && let Some(lent) = &mut self.limits[page.limit].lent
            {
                lent.is_written(page.lends, now);
                self.effects.touch(page.limit, &self.limits);
            }
        }
        self.pump(now);
    }

    /// These pages may or may not be on disk; the limits ask again at `retry`.
    pub fn not_written(&mut self, pages: &[Page], retry: Nanos, now: Nanos) {
        self.clock(now);
        for page in pages {
            if page.kept.is_none() {
                self.funding.book.iter_mut().for_each(|book| book.gone.push(page.name.clone()));
            } else if self.is_of(page)
                && let Some(lent) = &mut self.limits[page.limit].lent
            {
                lent.fail(retry);
                self.limits.note_unsaved(page.limit);
                self.arm_sooner(page.limit, retry.max(self.now));
            }
        }
    }

    /// In-flight limits of which far fewer slots are held than when that was written: after a crash those would count. It is
    /// written whenever there is something to write.
    fn stale_slots(&self) -> impl Iterator<Item = LimitId> + '_ {
        let shared = self
            .limits
            .specs
            .iter()
            .filter(|spec| !spec.gone && !spec.shared.is_nil())
            .map(|spec| spec.shared);
        shared.filter(|limit| {
            let held = &self.limits[*limit];
            held.meter.is_in_flight() && held.lent.as_ref().is_some_and(|lent| lent.is_plenty())
        })
    }

    /// Whether a page is of a limit that is still there.
    fn is_of(&self, page: &Page) -> bool {
        self.funding.lent_limits.contains(&page.limit) && self.limit_name(page.limit) == page.name
    }

    fn page(&mut self, limit: LimitId, last: bool, now: Nanos) -> Option<Page> {
        let name = self.limit_name(limit);
        let (size, grace, demand) = (self.promise_size(limit), self.grace_of(limit), self.demand(limit, now));
        let spec = self.limits[limit].spec;
        let held = &mut self.limits.all[limit];
        let lent = held.lent.as_mut()?;
        lent.resize(size);
        if held.meter.is_in_flight() {
            // Slots come back to it, and so it grows.
            lent.trim(size);
        }
        let left = lent.page(now);
        let (lends, promised) = match last {
            true => {
                lent.give_up();
                (0, 0)
            }
            false => {
                let lends = size.max(demand).saturating_sub(left);
                (lends, left.saturating_add(lends))
            }
        };
        // Brings it up to now, so that what no longer counts is not kept.
        held.meter.used(now);
        let kept = Kept::of(&self.limits.specs[spec].definition, &held.meter, promised, grace)?;
        Some(Page { name, kept: Some(kept), limit, lends })
    }

    /// A limit was made: from the first it spends only what is promised.
    pub(super) fn promise_for(&mut self, limit: LimitId, now: Nanos) {
        let came_back = self.bring_back(limit, now);
        if self.funding.book.is_none() || !self.limits[limit].meter.counts() {
            return;
        }
        self.limits[limit].lent = Some(Box::new(Allotment::new(self.promise_size(limit), now)));
        self.funding.lent_limits.insert(limit);
        self.see_if_plain(limit);
        let seed = self.limits.specs[self.limits[limit].spec].seed;
        let is_new = !came_back && !self.claim(limit, now);
        if is_new
            && seed > 0
            && let Some(lent) = &mut self.limits[limit].lent
        {
            lent.lend(Loan { units: seed, from: Nanos::ZERO, until: Nanos::NEVER }, now);
        }
        self.want_loan(limit, 1, now);
    }

    /// A limit is no more: neither should its page be, unless what was spent of it still counts.
    pub(super) fn erase(&mut self, limit: LimitId) {
        if self.funding.book.is_some() && self.funding.lent_limits.contains(&limit) {
            let name = self.limit_name(limit);
            let retired = self.limits.retired.has(&name);
            let Some(book) = &mut self.funding.book else { return };
            self.limits.unsaved.get_or_insert_default().remove(&limit);
            book.orphans.retain(|(_, held, _)| *held != limit);
            if !retired {
                book.gone.push(name);
            }
        }
    }

    /// Units count that nobody asked for.
    pub(super) fn charge_lent(&mut self, limit: LimitId, units: u64, now: Nanos) {
        if let Some(lent) = &mut self.limits[limit].lent {
            lent.charge(units, now);
            self.want_loan(limit, 0, now);
        }
    }

    /// How much a limit is promised at a time.
    fn promise_size(&self, limit: LimitId) -> u64 {
        let Some(book) = &self.funding.book else { return CALLS };
        let held = &self.limits[limit];
        let taken = held.lent.as_ref().map_or(0, |lent| lent.at_a_time(book.span));
        size_of(&self.limits.specs[held.spec].definition, taken, book.span)
    }

    /// What every limit of a loop or key may spend before it has a page. As long as some may have spent what was
    /// written before, it is not less than that.
    pub(super) fn seeds(&self) -> BTreeMap<Arc<str>, u64> {
        let Some(book) = &self.funding.book else { return BTreeMap::new() };
        let mut seeds = book.crashed.as_ref().map(|(_, seeds)| seeds.clone()).unwrap_or_default();
        for spec in self.limits.specs.ids().filter(|spec| self.has_instances(*spec)) {
            let spec = &self.limits.specs[spec];
            let seed = seeds.entry(spec.seed_name()).or_default();
            *seed = size_of(&spec.definition, 0, SPAN).max(spec.seed).max(*seed);
        }
        seeds
    }

    /// These are on disk: whoever comes from now on may spend them.
    pub(super) fn seeds_written(&mut self, seeds: &BTreeMap<Arc<str>, u64>) {
        for spec in self.limits.specs.ids().filter(|spec| self.has_instances(*spec)).collect::<Vec<_>>() {
            let spec = &mut self.limits.specs[spec];
            spec.seed = seeds.get(&spec.seed_name()).copied().unwrap_or(0);
        }
    }

    fn has_instances(&self, spec: SpecId) -> bool {
        let held = &self.limits.specs[spec];
        let counts = !matches!(held.definition.counts, Counts::Window | Counts::Breaker(_));
        !held.gone && counts && (held.per_key || self.routing.loop_specs.contains(&spec))
    }

    /// What those who wait for the lender could spend at once.
    fn demand(&mut self, limit: LimitId, now: Nanos) -> u64 {
        let need = self.limits[limit].lent.as_ref().map_or(0, |lent| lent.need());
        let waiting = self.waiting_at(limit) as u64;
        let held = &mut self.limits[limit];
        need.max(need.saturating_mul(waiting).min(held.meter.room(0, now)))
    }

    /// How long calls that hold slots here may be in flight, nearly all of them.
    fn grace_of(&self, limit: LimitId) -> Duration {
        let Some(book) = &self.funding.book else { return LONGEST };
        let spec = &self.limits.specs[self.limits[limit].spec];
        let named = spec.level.split('/').next().and_then(|name| self.service_named(name));
        let known: Vec<&Durations> = match named {
            Some(service) => book.durations.get(&service).into_iter().collect(),
            None => book.durations.values().collect(),
        };
        known.into_iter().filter_map(Durations::nearly_all).max().unwrap_or(LONGEST).min(LONGEST)
    }

    /// A call ended after so long.
    pub(super) fn note_duration(&mut self, grant: &Grant, now: Nanos) {
        let call = &self.in_flight[grant];
        let (service, took) = (self.routing.skeletons[call.skeleton].service, now.since(call.at));
        if let Some(book) = &mut self.funding.book {
            book.durations.entry(service).or_default().add(took);
        }
    }
}

/// How much is promised at a time, where `taken` was in the time that a page takes.
fn size_of(definition: &Definition, taken: u64, span: Duration) -> u64 {
    let whole = definition.whole();
    let flows = definition.rate_of().map_or(0, |rate| {
        (rate.units() as f64 * span.as_secs_f64() / rate.window().as_secs_f64()).ceil() as u64
    });
    // Slots have no rate but that at which they are taken.
    let most = if definition.rate_of().is_some() { (whole / MOST).max(flows) } else { whole };
    (whole / PART).max(flows).max(taken.min(most)).max(CALLS)
}
