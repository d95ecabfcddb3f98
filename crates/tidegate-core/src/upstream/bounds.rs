//! Bounds on what one reply or report can do, and the operator's way to forgive what it did.
//!
//! A reply is believed about its own call, but not without bound: an upstream may err, and a caller of the permit API
//! may report anything. So
//!
//! * a wait that a reply or a report asks for lasts at most as long as the service's longest window explains, or as the
//!   config's `backoff.max_wait` says;
//! * the debt of a limit is at most [`MOST_DEBT`](crate::limits::meters::MOST_DEBT) times N. What is above that is dropped,
//!   counted by limit, and announced.
//!
//! An operator is not bounded: [`Engine::set_backoff`](crate::Engine::set_backoff) opens a window for any time.

use crate::calls::InFlightCall;
use crate::funding::loans;
use crate::model::time::Nanos;
use crate::model::{LimitId, ServiceId};
use crate::routing::overlay::Scope;
use crate::routing::state::Base;
use crate::routing::{names, scope};
use crate::upstream::announce;
use crate::upstream::event::News;
use crate::upstream::state::Upstream;
use std::time::Duration;

/// The longest wait that a reply can ask for, if no longer window of its service is known.
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);

/// A window may end this part later than its length says: clocks differ, and a day may have 25 hours.
const LATE_PART: u32 = 16;

/// Returns `wait`, which the reply to a call asks for, or the longest wait that its service allows.
pub(crate) fn bounded_wait(
    u: &mut Upstream,
    base: &mut Base,
    call: &InFlightCall,
    wait: Duration,
) -> Duration {
    let service = base.routing.routes[call.route_id].service;
    let longest = longest_wait(base, service);
    if wait <= longest {
        return wait;
    }
    let service = scope::key_of(base, &Scope::Service(service));
    announce::announce(u, News::WaitCut { service, asked: wait, allowed: longest });
    longest
}

/// Returns the longest wait that a reply of a service can ask for.
pub(crate) fn longest_wait(base: &Base, service: ServiceId) -> Duration {
    let held = &base.routing.services[service];
    if let Some(stated) = held.replies.backoff.max_wait {
        return stated;
    }
    let patterns = held.endpoints.iter().chain(&held.models).flat_map(|(_, specs)| specs);
    let rates = held.specs.iter().chain(patterns).filter_map(|spec| {
        let rate = base.limits.specs[*spec].written.rate_of()?;
        Some(rate.window() + rate.window() / LATE_PART)
    });
    rates.max().unwrap_or_default().max(LONGEST_WAIT)
}

/// Charges what a call cost above its reservation. Returns how many units count; the rest is dropped and announced.
pub(crate) fn charge_debt(u: &mut Upstream, base: &mut Base, limit: LimitId, units: u64, now: Nanos) -> u64 {
    let counted = base.limits[limit].meter.charge(units, now);
    loans::charge_funded(&mut base.funding, &mut base.limits, limit, counted, now);
    if counted < units {
        drop_debt(u, base, limit, units - counted);
    }
    counted
}

#[cold]
fn drop_debt(u: &mut Upstream, base: &mut Base, limit: LimitId, units: u64) {
    let dropped = base.limits.dropped_debt.entry(limit).or_default();
    *dropped = dropped.saturating_add(units);
    let limit = names::limit_name(base, limit);
    announce::announce(u, News::DebtDropped { limit, units });
}
