//! A limit that was just made takes up its snapshot, what a removed limit of its name had spent, and its first promise.

use crate::funding::{book, loans, restore};
use crate::limits::allowance::{Allowance, Loan};
use crate::model::LimitId;
use crate::model::time::Nanos;
use crate::routing::names;
use crate::routing::state::Base;

/// A limit was made: from the first it spends only what is promised.
pub(crate) fn promise_for(base: &mut Base, limit: LimitId, now: Nanos) {
    let came_back = bring_back(base, limit, now);
    if base.funding.book.is_none() || !base.limits[limit].meter.counts() {
        return;
    }
    base.limits[limit].lent =
        Some(Box::new(Allowance::new(book::promise_size(&base.funding, &base.limits, limit), now)));
    base.funding.funded_limits.insert(limit);
    base.limits.see_if_plain(limit);
    let seed = base.limits.specs[base.limits[limit].spec].seed;
    let is_new = !came_back && !claim(base, limit, now);
    if is_new
        && seed > 0
        && let Some(lent) = &mut base.limits[limit].lent
    {
        lent.lend(Loan { units: seed, from: Nanos::ZERO, until: Nanos::NEVER }, now);
    }
    loans::want_loan(&mut base.funding, &mut base.limits, limit, 1, now);
}

/// A limit is no more: neither should its page be, unless what was spent of it still counts.
pub(crate) fn erase(base: &mut Base, limit: LimitId) {
    if base.funding.book.is_some() && base.funding.funded_limits.contains(&limit) {
        let name = names::limit_name(base, limit);
        let retired = base.limits.retired.has(&name);
        let Some(book) = &mut base.funding.book else { return };
        base.limits.unsaved.get_or_insert_default().remove(&limit);
        book.orphans.retain(|(_, held, _)| *held != limit);
        if !retired {
            book.gone.push(name);
        }
    }
}

/// Gives a limit that was just made what was spent before one of its name was removed. Returns whether there was
/// anything.
fn bring_back(base: &mut Base, limit: LimitId, now: Nanos) -> bool {
    if base.limits.retired.limits.is_empty() {
        return false;
    }
    let name = names::limit_name(base, limit);
    let Some(kept) = base.limits.retired.limits.remove(&name) else { return false };
    restore::revive(&mut base.funding, &mut base.limits, limit, &kept, 0, now).is_ok()
}

/// Gives a limit that was just made what was kept of it, or what it may have spent without a page. Says whether there
/// was anything: then it may spend nothing before that is written down again.
fn claim(base: &mut Base, limit: LimitId, now: Nanos) -> bool {
    let claimed = claim_page(base, limit, now);
    begin_as_spent(base, limit, now) || claimed
}

/// Counts a limit as spent if that may be so: what was spent within the last window is not known. Returns whether it is.
fn begin_as_spent(base: &mut Base, limit: LimitId, now: Nanos) -> bool {
    let spec = &base.limits.specs[base.limits[limit].spec];
    let Some(book) = &base.funding.book else { return false };
    let keyed = if spec.per_key { book.unknown_keys } else { None };
    let Some(at) = book.unknown.max(keyed) else { return false };
    let counts = spec.written.rate_of().map_or(crate::funding::book::LONGEST, |rate| rate.window());
    if at.after(counts) <= now {
        return false;
    }
    let spent = spec.definition.whole().saturating_sub(base.limits[limit].meter.used(now));
    restore::count_as_spent(
        &mut base.funding,
        &mut base.limits,
        limit,
        spent,
        crate::funding::book::LONGEST,
        now,
    );
    let name = names::limit_name(base, limit);
    base.funding.book.iter_mut().for_each(|book| book.began_spent.push(name.clone()));
    true
}

/// Gives a limit that was just made its page, or what it may have spent without one.
fn claim_page(base: &mut Base, limit: LimitId, now: Nanos) -> bool {
    let Some(book) = &base.funding.book else { return false };
    if book.unclaimed.is_empty() && book.crashed.is_none() {
        return false;
    }
    let (name, spec) = (names::limit_name(base, limit), base.limits[limit].spec);
    let Some(book) = &mut base.funding.book else { return false };
    let seed = match (&book.crashed, base.limits.specs[spec].shared == limit) {
        (Some((at, seeds)), false) => {
            let most = base.limits.specs[spec]
                .written
                .rate_of()
                .map_or(crate::funding::book::LONGEST, |rate| rate.window());
            let seed = seeds.get(&base.limits.specs[spec].seed_name()).copied();
            seed.filter(|_| at.after(most) > now).map(|seed| (seed, *at))
        }
        _ => None,
    };
    let lost = book.lost;
    match (book.unclaimed.remove(&name), seed) {
        (Some(kept), seed) => {
            let promised = if lost { kept.promised().max(seed.map_or(0, |(seed, _)| seed)) } else { 0 };
            // It was looked through when it was found.
            let _ = restore::revive(&mut base.funding, &mut base.limits, limit, &kept, promised, now);
            true
        }
        (None, Some((seed, at))) => {
            let meter = base.limits.specs[spec].definition.meter(at, base.limits.unix_offset);
            base.limits[limit].meter = meter;
            restore::count_as_spent(
                &mut base.funding,
                &mut base.limits,
                limit,
                seed,
                crate::funding::book::LONGEST,
                at,
            );
            true
        }
        (None, None) => false,
    }
}

/// Calls that were in flight when the engine before this one ended have ended too by now. Says when the next have.
pub(crate) fn release_orphans(base: &mut Base, now: Nanos) -> Nanos {
    let Some(book) = base.funding.book.as_mut().filter(|book| !book.orphans.is_empty()) else {
        return Nanos::NEVER;
    };
    let over: Vec<_> = book.orphans.extract_if(.., |(until, ..)| *until <= now).collect();
    let next = book.orphans.iter().map(|(until, ..)| *until).min().unwrap_or(Nanos::NEVER);
    for (_, limit, units) in over {
        base.limits[limit].release(units);
        base.limits.touch(limit, &mut base.effects);
    }
    next
}
