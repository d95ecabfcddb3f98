//! Snapshots of limits for the lender that keeps them, and the promises in them.

use crate::funding::book;
use crate::funding::book::{Funding, LONGEST, SPAN, size_of};
use crate::funding::durations::Durations;
use crate::lending::facts::Facts;
use crate::limits::limit::Counts;
use crate::limits::snapshot::Kept;
use crate::limits::store::Limits;
use crate::model::time::Nanos;
use crate::model::{LimitId, SpecId};
use crate::routing::names;
use crate::routing::state::Base;
use crate::scheduler::lanes;
use crate::scheduler::state::Scheduler;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A limit to be written down.
#[derive(Clone, Debug)]
pub struct Page {
    /// Its name.
    pub name: Arc<str>,
    /// How it is kept; nothing if it is no more.
    pub kept: Option<Kept>,
    pub(crate) limit: LimitId,
    /// What may be spent once this is on disk.
    pub(crate) lends: u64,
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

/// A limit wants units from its lender. The answer comes by [`Engine::lend`](crate::Engine::lend) or [`Engine::loan_failed`](crate::Engine::loan_failed);
/// without one it asks again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoanRequest {
    /// Which limit, by name.
    pub limit: Arc<str>,
    /// How many units it wants.
    pub units: u64,
    /// How many it has spent since it last asked.
    pub spent: u64,
}

/// Pages of limits that are not there: those that were found and not claimed, and those that the config no longer has.
pub(crate) fn idle_pages(funding: &Funding, limits: &Limits) -> Vec<Page> {
    let page = |(name, kept): (&Arc<str>, &Kept)| {
        let (name, kept) = (name.clone(), Some(kept.clone()));
        Page { name, kept, limit: LimitId::NIL, lends: 0 }
    };
    let unclaimed = funding.book.iter().flat_map(|book| &book.unclaimed);
    unclaimed.chain(limits.retired.limits()).map(page).collect()
}

/// Whether a page is of a limit that is still there.
pub(crate) fn is_of(base: &Base, page: &Page) -> bool {
    base.funding.funded_limits.contains(&page.limit) && names::limit_name(base, page.limit) == page.name
}

pub(crate) fn page(
    s: &mut Scheduler,
    base: &mut Base,
    limit: LimitId,
    last: bool,
    now: Nanos,
) -> Option<Page> {
    let name = names::limit_name(base, limit);
    let (size, grace, demand) = (
        book::promise_size(&base.funding, &base.limits, limit),
        grace_of(base, limit),
        demand(s, base, limit, now),
    );
    let spec = base.limits[limit].spec;
    let held = &mut base.limits.all[limit];
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
    let kept = Kept::of(&base.limits.specs[spec].definition, &held.meter, promised, grace)?;
    Some(Page { name, kept: Some(kept), limit, lends })
}

/// What every limit of a loop or key may spend before it has a page. As long as some may have spent what was
/// written before, it is not less than that.
pub(crate) fn seeds(base: &Base) -> BTreeMap<Arc<str>, u64> {
    let Some(book) = &base.funding.book else { return BTreeMap::new() };
    let mut seeds = book.crashed.as_ref().map(|(_, seeds)| seeds.clone()).unwrap_or_default();
    for spec in base.limits.specs.ids().filter(|spec| has_instances(base, *spec)) {
        let spec = &base.limits.specs[spec];
        let seed = seeds.entry(spec.seed_name()).or_default();
        *seed = size_of(&spec.definition, 0, SPAN).max(spec.seed).max(*seed);
    }
    seeds
}

/// Lets limits that are made from now on spend these first promises, which are on disk.
pub(crate) fn seeds_written(base: &mut Base, seeds: &BTreeMap<Arc<str>, u64>) {
    for spec in base.limits.specs.ids().filter(|spec| has_instances(base, *spec)).collect::<Vec<_>>() {
        let spec = &mut base.limits.specs[spec];
        spec.seed = seeds.get(&spec.seed_name()).copied().unwrap_or(0);
    }
}

fn has_instances(base: &Base, spec: SpecId) -> bool {
    let held = &base.limits.specs[spec];
    let counts = !matches!(held.definition.counts, Counts::Window | Counts::Breaker(_));
    !held.gone && counts && (held.per_key || base.routing.loop_specs.contains(&spec))
}

/// What those who wait for the lender could spend at once.
pub(crate) fn demand(s: &mut Scheduler, base: &mut Base, limit: LimitId, now: Nanos) -> u64 {
    let need = base.limits[limit].lent.as_ref().map_or(0, |lent| lent.need());
    let waiting = lanes::waiting_at(s, base, limit) as u64;
    let held = &mut base.limits[limit];
    need.max(need.saturating_mul(waiting).min(held.meter.room(0, now)))
}

/// How long calls that hold slots here may be in flight, nearly all of them.
fn grace_of(base: &Base, limit: LimitId) -> Duration {
    let Some(book) = &base.funding.book else { return LONGEST };
    let spec = &base.limits.specs[base.limits[limit].spec];
    let named = spec.level.split('/').next().and_then(|name| names::service_named(base, name));
    let known: Vec<&Durations> = match named {
        Some(service) => book.durations.get(&service).into_iter().collect(),
        None => book.durations.values().collect(),
    };
    known.into_iter().filter_map(Durations::nearly_all).max().unwrap_or(LONGEST).min(LONGEST)
}
