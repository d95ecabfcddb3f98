//! The queue at a limit: made when a call waits there, dropped when none does.

use crate::limits::queue::{Class, Queue};
use crate::limits::store::Limits;
use crate::model::LimitId;

/// Above this many limits whose first lanes pass through one limit, only those whose time comes soon enough
/// to matter are looked at. Below it all are, so that a small world is judged exactly.
pub(crate) const MANY: usize = 64;

/// Other limits whose first lanes may pass through one; some of them, if they are many.
pub(crate) fn through(limits: &Limits, limit: LimitId) -> Vec<LimitId> {
    let queue = limits[limit].queue.as_ref();
    let through = queue.filter(|held| !held.through.is_empty());
    through.map_or(Vec::new(), |held| held.through.keys().copied().take(MANY).collect())
}

/// Whether what happens at a limit matters to lanes that pass through it and are bound at `bound`: by their
/// bookings, by slots that are no longer there, or by what it reserves.
pub(crate) fn concerns(limits: &Limits, limit: LimitId, bound: LimitId) -> bool {
    let in_flight = |limit: LimitId| limits[limit].meter.is_in_flight();
    in_flight(limit) || !in_flight(bound) || limits.reserves(limit)
}

/// Everything about waiting at a limit, made if it is not there.
pub(crate) fn queue_at(limits: &mut Limits, limit: LimitId) -> &mut Queue {
    let limit = &mut limits[limit];
    (limit.plain, limit.promised) = (false, false);
    limit.queue.get_or_insert_default()
}

pub(crate) fn class(limits: &Limits, limit: LimitId, class: u8) -> Option<&Class> {
    limits[limit].queue.as_ref()?.classes[class as usize].as_deref()
}
