//! After a restart: limits go on from their snapshots, and what may have been spent since counts as spent.

use crate::funding::book::Funding;
use crate::limits::meters::Meter;
use crate::limits::snapshot::{Impossible, Kept};
use crate::limits::store::Limits;
use crate::model::LimitId;
use crate::model::time::Nanos;
use std::time::Duration;

/// Forgets limits of which nothing counts any more.
pub(crate) fn forget_retired(funding: &mut Funding, limits: &mut Limits, now: Nanos) {
    let offset = limits.unix_offset;
    let mut over = Vec::new();
    limits.retired.limits.retain(|name, kept| {
        let counts = kept.revive(now, offset).is_ok_and(|(_, meter)| meter.full_at() > now);
        if !counts {
            over.push(name.clone());
        }
        counts
    });
    if let Some(book) = &mut funding.book {
        book.gone.extend(over);
    }
}

pub(crate) fn revive(
    funding: &mut Funding,
    limits: &mut Limits,
    limit: LimitId,
    kept: &Kept,
    promised: u64,
    now: Nanos,
) -> Result<(), Impossible> {
    let (old, meter) = kept.revive(now, limits.unix_offset)?;
    let spec = limits[limit].spec;
    let held = match &meter {
        Meter::InFlight(held) => held.used(now),
        _ => 0,
    };
    limits[limit].meter = meter;
    if let Some(grace) = kept.grace() {
        hold_for(funding, limits, limit, held, now.after(grace));
    }
    count_as_spent(funding, limits, limit, promised, kept.grace().unwrap_or_default(), now);
    let (definition, offset) = (limits.specs[spec].definition.clone(), limits.unix_offset);
    definition.change(&mut limits[limit].meter, now, offset, &old);
    Ok(())
}

/// Counts units as spent at `at`; slots as held for so long from then.
pub(crate) fn count_as_spent(
    funding: &mut Funding,
    limits: &mut Limits,
    limit: LimitId,
    units: u64,
    grace: Duration,
    at: Nanos,
) {
    let meter = &mut limits[limit].meter;
    if meter.is_in_flight() {
        meter.take(units, at, at);
        hold_for(funding, limits, limit, units, at.after(grace));
    } else {
        meter.charge(units, at);
    }
}

/// Holds slots of calls whose end will never be reported, until a time.
fn hold_for(funding: &mut Funding, limits: &mut Limits, limit: LimitId, units: u64, until: Nanos) {
    if let Some(book) = funding.book.as_mut().filter(|_| units > 0) {
        book.orphans.push((until, limit, units));
        limits.attention = limits.attention.min(until);
    }
}

/// Forgets snapshots that no limit claimed and that no longer count.
pub(crate) fn forget_what_is_over(funding: &mut Funding, limits: &mut Limits, now: Nanos) {
    let offset = limits.unix_offset;
    let Some(book) = &mut funding.book else { return };
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
