//! Limits that the config no longer has, or that are idle, are retired.

use crate::limits::snapshot::Kept;
use crate::model::time::Nanos;
use crate::model::{LimitId, SpecId};
use crate::routing::state::Base;
use crate::routing::{adopt, names};
use std::collections::BTreeSet;

/// Retires the limits of definitions that are no longer in the config. No call waits at this moment.
pub(crate) fn remove_gone(base: &mut Base, now: Nanos) {
    let gone: BTreeSet<SpecId> =
        base.limits.specs.ids().filter(|spec| base.limits.specs[*spec].gone).collect();
    let loop_owned = |base: &Base, limit: LimitId| !base.limits[limit].owner.is_nil();
    for spec in &gone {
        let shared = std::mem::replace(&mut base.limits.specs[*spec].shared, LimitId::NIL);
        if !shared.is_nil() {
            retire(base, shared, now);
        }
    }
    let keyed = base.limits.key_limits.matching(|spec, _| gone.contains(&spec));
    // While their keys are known: they are part of their names.
    for limit in keyed {
        debug_assert!(!loop_owned(base, limit));
        retire(base, limit, now);
    }
    base.limits.key_limits.forget(|spec, _| gone.contains(&spec));
}

/// Retires a limit at which no call waits. Its id is free again when all machines have forgotten it.
pub(crate) fn remove_limit(base: &mut Base, limit: LimitId) {
    forget_funds(base, limit);
    base.effects.retired.push(limit);
}

/// Forgets what is kept of a limit beside the limit itself.
pub(crate) fn forget_funds(base: &mut Base, limit: LimitId) {
    adopt::erase(base, limit);
    base.limits[limit].lent = None;
    base.funding.funded_limits.remove(&limit);
    base.funding.loan_requests.retain(|(known, ..)| *known != limit);
    base.limits.dropped_debt.remove(&limit);
}

/// Frees the place of a limit that the config no longer has, and keeps what was spent of it.
pub(crate) fn retire(base: &mut Base, limit: LimitId, now: Nanos) {
    let held = &mut base.limits.all[limit];
    let counts = held.meter.counts() && !held.meter.is_in_flight();
    // Brings it up to now, so that what no longer counts is not kept.
    if counts && held.meter.used(now) > 0 && held.meter.full_at() > now {
        let definition = &base.limits.specs[held.spec].definition;
        let kept = Kept::of(definition, &held.meter, 0, std::time::Duration::ZERO);
        let name = names::limit_name(base, limit);
        base.limits.retired.limits.extend(kept.map(|kept| (name, kept)));
    }
    remove_limit(base, limit);
}
