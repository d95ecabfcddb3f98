//! Backoff windows, and the throttled mode that follows them.
//!
//! A window belongs to a key: a limit, a model, an endpoint, an API key, a service, a loop type, or everything. It is a
//! limit like any other, which is shut until a time: calls wait there in rank order, are told its name, and are
//! refused at arrival if it lasts longer than they can wait. Most keys never have one, so it joins the routes that
//! it concerns when it opens, and leaves them when its tail is over: calls that meet no 429 pay nothing for it.
//!
//! For the window and for a time after it (the *tail*) calls on those routes go *throttled*: they must also pass the
//! throttled limits of their levels, and their bytes count several times. That is decided when a call is granted,
//! whenever it came; what it took then is written down with it, and that much comes back. A service that does not
//! wait for windows is only throttled by them.
//!
//! Routes of lanes change under calls that wait (`reseat`): a lane is taken out of its queue, gets its new route,
//! and goes back to where it stood. The calls in it are not touched, so it costs as much as there are lanes, however
//! many wait. Only a model that no pattern of the config names needs more: its calls wait among those of all such
//! models, and are seated anew.
//!
//! A hint is a lower bound. An upstream that refuses call after call and says `Retry-After: 0` each time would
//! otherwise be asked as fast as replies come. So a window counts the refusals in a row, and each one doubles the
//! least time for which it opens, up to [`GROWN_MOST`]. Only a call that was granted after the previous refusal adds
//! to the row: calls that were in flight together are one refusal. An answered call ends the row. A window with a row
//! is remembered for [`ROW_REMEMBERED`] after its end, so that a slow upstream does not start it over.

use crate::calls::InFlightCall;
use crate::funding::book;
use crate::limits::limit::Limit;
use crate::limits::meters::Meter;
use crate::model::time::Nanos;
use crate::model::{RouteId, SLOT, ServiceId};
use crate::routing::overlay::{Overlay, Scope};
use crate::routing::state::Base;
use crate::routing::{adopt, build, retire, scope};
use crate::upstream::ended::Exhausted;
use crate::upstream::event::News;
use crate::upstream::state::Upstream;
use crate::upstream::window::Window;
use crate::upstream::{announce, attribution, bounds, throttle};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// More models than this that no pattern names, and their windows are the service's.
const MANY: usize = 64;

/// How long to stay away from an upstream that does not say.
const UNSTATED: Duration = Duration::from_secs(1);

/// After refusals in a row calls are let go again this many times in the time that the window was kept open for.
const RELEASED: u32 = 8;

/// Opens again the windows whose service or limit came back, and forgets what no longer counts.
pub(crate) fn bring_back_windows(u: &mut Upstream, base: &mut Base, now: Nanos) {
    for (key, ends) in std::mem::take(&mut base.limits.retired.windows) {
        let [until, tail, _] = ends;
        if until.max(tail) <= now {
            continue;
        }
        match scope::scope_named(base, &key) {
            Some(_) => reopen(u, base, &key, ends, now),
            None => base.limits.retired.windows.push((key, ends)),
        }
    }
}

/// Opens the windows of what rejected a call, for as long as the reply asks.
pub(crate) fn rejected(
    u: &mut Upstream,
    base: &mut Base,
    call: &InFlightCall,
    by: &[Exhausted],
    model: Option<&str>,
    wait: Option<Duration>,
    now: Nanos,
) {
    let span = bounds::bounded_wait(u, base, call, wait.unwrap_or(UNSTATED));
    let mut scopes: Vec<Scope> = Vec::new();
    for exhausted in by {
        let found = attribution::limit_exhausted(base, call, exhausted).map(Scope::Limit);
        scopes.extend(found.filter(|scope| !scopes.contains(scope)));
    }
    if scopes.is_empty() {
        scopes.push(attribution::narrowest(base, call, model));
    }
    for scope in scopes {
        let index = window_of(u, base, scope, now);
        let least = u.windows[index].refused(call.at, now);
        open_window(u, base, index, span.max(least), least / RELEASED, now);
    }
}

/// A call was answered: the row of refusals is over for every window on its way that it went after.
#[inline]
pub(crate) fn end_rows(u: &mut Upstream, base: &mut Base, call: &InFlightCall) {
    if u.windows.is_empty() {
        return;
    }
    for index in 0..u.windows.len() {
        let window = &u.windows[index];
        if window.refusals == 0 || call.at <= window.refused_at {
            continue;
        }
        let slot = scope::slot_on(base, &base.routing.overlays[index].scope, call.route_id);
        if slot.is_some_and(|slot| slot == SLOT || call.units[slot as usize] > 0) {
            u.windows[index].refusals = 0;
        }
    }
}

/// An upstream that fails asks to be left alone.
pub(crate) fn back_off_service(
    u: &mut Upstream,
    base: &mut Base,
    call: &InFlightCall,
    span: Duration,
    now: Nanos,
) {
    let span = bounds::bounded_wait(u, base, call, span);
    let service = base.routing.routes[call.route_id].service;
    back_off(u, base, Scope::Service(service), span, now);
}

pub(crate) fn back_off(u: &mut Upstream, base: &mut Base, scope: Scope, span: Duration, now: Nanos) {
    let index = window_of(u, base, scope, now);
    open_window(u, base, index, span, Duration::ZERO, now);
}

/// Opens a window for `span`, or extends it. After its end calls go at least `pace` apart for a time.
fn open_window(u: &mut Upstream, base: &mut Base, index: usize, span: Duration, pace: Duration, now: Nanos) {
    book::facts_changed(&mut base.funding);
    let rules = scope::rules_of(base, &base.routing.overlays[index].scope);
    begin_to_throttle(u, base, index, now);
    let (window, overlay) = (&mut u.windows[index], &mut base.routing.overlays[index]);
    let before = window.until;
    window.until = window.until.max(now.after(span));
    overlay.tail = overlay.tail.max(window.until.after(rules.window));
    let (until, limit, tail) = (window.until, overlay.limit, overlay.tail);
    if until > before.max(now) {
        let key = overlay.key.clone();
        announce::announce(u, News::WindowOpened { key, until });
    }
    base.limits.attention = base.limits.attention.min(tail);
    if rules.waits
        && let Meter::Hold(hold) = &mut base.limits[limit].meter
    {
        hold.shut(until, pace);
    }
    let routes_of = scope::routes_of(base, index);
    let free = |route_id: &RouteId| !base.routing.routes[*route_id].throttle.active;
    let newly: BTreeSet<RouteId> = routes_of.iter().copied().filter(free).collect();
    build::reroute(base, &newly, now);
    base.effects.revisit.extend(routes_of);
}

/// A window is about to open. Services of which calls go throttled already go on as they began to.
fn begin_to_throttle(u: &mut Upstream, base: &mut Base, index: usize, now: Nanos) {
    let live = base.routing.overlays.iter().filter(|overlay| overlay.tail > now);
    let throttled: Vec<Option<ServiceId>> =
        live.map(|overlay| scope::service_in(base, &overlay.scope)).collect();
    let own = scope::service_in(base, &base.routing.overlays[index].scope);
    if !throttled.contains(&None) {
        let begins = |service| own.is_none_or(|own| own == service) && !throttled.contains(&Some(service));
        throttle::set_throttle_bounds(u, base, begins, now);
    }
}

/// The window of a scope, made if there is none.
pub(crate) fn window_of(u: &mut Upstream, base: &mut Base, scope: Scope, now: Nanos) -> usize {
    let scope = known_scope(u, base, scope, now);
    if let Some(index) = base.routing.overlays.iter().position(|overlay| overlay.scope == scope) {
        return index;
    }
    let spec = u.window_spec;
    let meter = base.limits.specs[spec].definition.meter(now, base.limits.unix_offset);
    let limit = base.limits.add_limit(Limit::new(spec, &base.limits.specs[spec], meter, base.limits.epoch));
    let key = scope::key_of(base, &scope);
    let never = Nanos::ZERO;
    u.windows.push(Window { until: never, by_hand: never, refusals: 0, refused_at: never });
    base.routing.overlays.push(Overlay { key, scope, limit, tail: never });
    let index = u.windows.len() - 1;
    build::reroute(base, &scope::routes_of(base, index), now);
    index
}

/// A model that no pattern names gets a route of its own, if there are not too many of them already.
fn known_scope(u: &mut Upstream, base: &mut Base, scope: Scope, now: Nanos) -> Scope {
    let Scope::OtherModel(service, model) = scope else { return scope };
    if base.routing.services[service].other_models.contains(&model) {
        return Scope::OtherModel(service, model);
    }
    if base.routing.services[service].other_models.len() >= MANY {
        forget_windows(u, base, now);
    }
    if base.routing.services[service].other_models.len() >= MANY {
        return Scope::Service(service);
    }
    base.routing.services[service].other_models.push(model.clone());
    scope::routes_changed(base);
    base.effects.split.push((service, model.clone()));
    Scope::OtherModel(service, model)
}

/// Forgets windows that are over.
fn forget_windows(u: &mut Upstream, base: &mut Base, now: Nanos) {
    let mut over = BTreeSet::new();
    for index in (0..u.windows.len()).rev() {
        let Overlay { limit, tail, ref scope, .. } = base.routing.overlays[index];
        let held = &base.limits[limit];
        let waited_for = held.queue.as_ref().is_some_and(|queue| queue.bound > 0);
        let row_counts = u.windows[index].row_ends() > now;
        if tail > now || held.meter.full_at() > now || waited_for || row_counts {
            continue;
        }
        let own_route = matches!(scope, Scope::OtherModel(..));
        let routes_of = scope::routes_of(base, index);
        let is_used = |route_id: &RouteId| {
            let held = &base.routing.routes[*route_id];
            held.lanes > 0 || held.in_flight > 0
        };
        if own_route && routes_of.iter().any(is_used) {
            continue;
        }
        u.windows.remove(index);
        let window = base.routing.overlays.remove(index);
        build::reroute(base, &routes_of, now);
        retire::remove_limit(base, window.limit);
        if let Scope::OtherModel(service, model) = window.scope {
            base.routing.services[service].other_models.retain(|known| *known != model);
            over.extend(routes_of);
        }
    }
    if !over.is_empty() {
        base.routing.route_index.retain(|_, route_id| !over.contains(route_id));
        base.routing.routes.free_all(over);
        scope::routes_changed(base);
    }
}

/// The throttled time of some windows is over.
pub(crate) fn end_tails(u: &mut Upstream, base: &mut Base, now: Nanos) {
    let orphans = adopt::release_orphans(base, now);
    let is_over = |index: &usize| base.routing.overlays[*index].tail <= now;
    let over: Vec<usize> = (0..u.windows.len()).filter(is_over).collect();
    let routes_of = over.into_iter().flat_map(|index| scope::routes_of(base, index));
    let throttled = |route_id: &RouteId| base.routing.routes[*route_id].throttle.active;
    let freed: BTreeSet<RouteId> = routes_of.filter(throttled).collect();
    build::reroute(base, &freed, now);
    forget_windows(u, base, now);
    // Those that are left: when they no longer throttle calls, and when they no longer hold calls.
    let ends = u.windows.iter().zip(&base.routing.overlays).flat_map(|(window, overlay)| {
        [overlay.tail, base.limits[overlay.limit].meter.full_at(), window.row_ends()]
    });
    let ends = ends.chain([u.learning.ramp_due, orphans]).filter(|end| *end > now);
    base.limits.attention = ends.min().unwrap_or(Nanos::NEVER);
}

/// Returns every window's key and its ends: its own, that of its tail, and the one that an operator set.
pub(crate) fn window_ends<'a>(
    u: &'a Upstream,
    base: &'a Base,
) -> impl Iterator<Item = (&'a Arc<str>, [Nanos; 3])> {
    let all = u.windows.iter().zip(&base.routing.overlays);
    all.map(|(window, overlay)| (&overlay.key, [window.until, overlay.tail, window.by_hand]))
}

/// Opens a window that was open before a restart. Versions before the bound on waits may have kept a longer one.
pub(crate) fn reopen(
    u: &mut Upstream,
    base: &mut Base,
    key: &str,
    [until, tail, by_hand]: [Nanos; 3],
    now: Nanos,
) {
    let Some(scope) = scope::scope_named(base, key).filter(|_| tail > now || until > now) else { return };
    let longest =
        scope::service_in(base, &scope).map(|service| now.after(bounds::longest_wait(base, service)));
    let until = longest.map_or(until, |longest| until.min(longest.max(by_hand)));
    back_off(u, base, scope.clone(), until.since(now), now);
    let found = base.routing.overlays.iter().position(|overlay| overlay.scope == scope);
    if let Some(index) = found {
        let (window, overlay) = (&mut u.windows[index], &mut base.routing.overlays[index]);
        overlay.tail = tail.min(overlay.tail).max(window.until);
        window.by_hand = by_hand;
    }
}

/// After another config came into force: windows of what is gone go too.
pub(crate) fn keep_windows(u: &mut Upstream, base: &mut Base, now: Nanos) {
    for index in (0..u.windows.len()).rev() {
        let overlay = &base.routing.overlays[index];
        let scope = scope::scope_named(base, &overlay.key).filter(|_| overlay.tail > now);
        match scope {
            Some(scope) => base.routing.overlays[index].scope = scope,
            None => {
                let Window { until, by_hand, .. } = u.windows.remove(index);
                let Overlay { limit, key, tail, .. } = base.routing.overlays.remove(index);
                retire::remove_limit(base, limit);
                base.limits.retire_window(key.clone(), [until, tail, by_hand]);
                if until > now {
                    announce::announce(u, News::WindowCleared { key });
                }
            }
        }
    }
    for service in base.routing.services.iter_mut() {
        service.other_models.clear();
    }
    for overlay in &base.routing.overlays {
        if let Scope::OtherModel(service, model) = &overlay.scope {
            base.routing.services[*service].other_models.push(model.clone());
        }
    }
    let (services, routes) = (&base.routing.services, &base.routing.routes);
    let mut unused = BTreeSet::new();
    base.routing.route_index.retain(|key, route_id| {
        let held = &routes[*route_id];
        let known = &services[held.service].other_models;
        let gone = key.other_model.as_ref().is_some_and(|model| !known.contains(model));
        let drops = gone && held.in_flight == 0 && held.lanes == 0;
        if drops {
            unused.insert(*route_id);
        }
        !drops
    });
    base.routing.routes.free_all(unused);
}
