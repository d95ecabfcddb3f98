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

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::change::ChangeError;
use super::ended::Exhausted;
use super::layout::Use;
use super::news::News;
use super::scope::{Overlay, Scope};
use super::{Engine, InFlightCall, SLOT};
use crate::algorithm::Meter;
use crate::limit::Limit;
use crate::model::time::Nanos;
use crate::model::{LimitId, RouteId, RouteTag, ServiceId};

/// More models than this that no pattern names, and their windows are the service's.
const MANY: usize = 64;
/// How long to stay away from an upstream that does not say.
const UNSTATED: Duration = Duration::from_secs(1);
/// The least time for which the second refusal in a row opens a window, and the most that further ones make of it.
const GROWN_FIRST: Duration = Duration::from_millis(50);
const GROWN_MOST: Duration = Duration::from_secs(60);
/// How long after the end of a window its row of refusals still counts.
const ROW_REMEMBERED: Duration = Duration::from_secs(60);
/// After refusals in a row calls are let go again this many times in the time that the window was kept open for.
const RELEASED: u32 = 8;

/// A backoff window.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    until: Nanos,
    /// Until when an operator set it: that is not bounded as what replies ask for is.
    by_hand: Nanos,
    /// How many refusals came in a row, and when the latest of them did.
    refusals: u32,
    refused_at: Nanos,
}

impl Window {
    /// Counts the refusal of a call that was granted at `granted`. Returns the least time for which the window opens.
    fn refused(&mut self, granted: Nanos, now: Nanos) -> Duration {
        if self.refusals == 0 || granted > self.refused_at {
            self.refusals = self.refusals.saturating_add(1);
            self.refused_at = now;
        }
        grown(self.refusals)
    }

    /// Until when its row of refusals counts.
    fn row_ends(&self) -> Nanos {
        if self.refusals == 0 { Nanos::ZERO } else { self.until.after(ROW_REMEMBERED) }
    }
}

/// The least time for which the last of so many refusals in a row opens a window.
fn grown(refusals: u32) -> Duration {
    let doublings = refusals.checked_sub(2).map(|doublings| doublings.min(16));
    doublings.map_or(Duration::ZERO, |doublings| (GROWN_FIRST * (1 << doublings)).min(GROWN_MOST))
}

/// A backoff window as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackoffStatus {
    /// Whose it is.
    pub key: Arc<str>,
    /// How long it is still open; zero if it is over.
    pub open_for: Duration,
    /// How long calls still go throttled.
    pub throttled_for: Duration,
    /// How many calls wait for it.
    pub waiting: usize,
}

impl Engine {
    /// Opens the window of a key for that long from now, or extends it; it never shortens one. The key is a limit's
    /// name or the level before it: `openai`, `openai/model:gpt-4o`, `openai/requests/1m`, `global`.
    ///
    /// # Errors
    /// If there is nothing of that name.
    pub fn set_backoff(&mut self, key: &str, span: Duration, now: Nanos) -> Result<(), ChangeError> {
        let now = self.clock(now);
        self.advance(now);
        let scope = self.scope_named(key).ok_or_else(|| ChangeError::UnknownLimit(key.into()))?;
        let index = self.window_of(scope.clone(), now);
        let window = &mut self.upstream.windows[index];
        window.by_hand = window.by_hand.max(now.after(span));
        self.back_off(scope, span, now);
        self.pump(now);
        Ok(())
    }

    /// Ends the window of a key and the tail after it, and those of all that is below it: `openai` ends that of
    /// `openai/requests/1m` too. Those that wait go at a pace. Says whether there was one.
    pub fn clear_backoff(&mut self, key: &str, now: Nanos) -> bool {
        let now = self.clock(now);
        self.advance(now);
        let scope = self.scope_named(key);
        let is_below = |overlay: &Overlay| {
            let below =
                overlay.key.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            below || Some(&overlay.scope) == scope.as_ref()
        };
        let mut was = false;
        for index in (0..self.upstream.windows.len())
            .filter(|index| is_below(&self.routing.overlays[*index]))
            .collect::<Vec<_>>()
        {
            let (window, overlay) = (&mut self.upstream.windows[index], &mut self.routing.overlays[index]);
            was |= overlay.tail > now;
            let cleared = (window.until > now).then(|| overlay.key.clone());
            window.until = window.until.min(now);
            overlay.tail = overlay.tail.min(now);
            window.by_hand = window.by_hand.min(now);
            window.refusals = 0;
            let limit = overlay.limit;
            if let Meter::Hold(hold) = &mut self.limits[limit].meter {
                hold.open(now);
            }
            self.effects.touch(limit, &self.limits);
            if let Some(key) = cleared {
                self.announce(News::WindowCleared { key });
            }
        }
        self.facts_changed();
        self.end_tails(now);
        self.pump(now);
        was
    }

    /// Every window that is open or has a tail, by key.
    pub fn backoffs(&mut self, now: Nanos) -> Vec<BackoffStatus> {
        let now = self.clock(now);
        let all = self.upstream.windows.iter().zip(&self.routing.overlays);
        let live = all.filter(|(window, overlay)| overlay.tail > now || window.until > now);
        let mut all: Vec<BackoffStatus> = live
            .map(|(window, overlay)| BackoffStatus {
                key: overlay.key.clone(),
                open_for: window.until.since(now),
                throttled_for: overlay.tail.since(now),
                waiting: self.waiting_at(overlay.limit),
            })
            .collect();
        all.sort_by(|one, other| one.key.cmp(&other.key));
        all
    }

    /// A call was turned away: nobody goes on to what turned it away for as long as that wants.
    pub(super) fn turned_away(
        &mut self,
        call: &InFlightCall,
        by: &[Exhausted],
        model: Option<&str>,
        wait: Option<Duration>,
        now: Nanos,
    ) {
        let span = self.bounded_wait(call, wait.unwrap_or(UNSTATED));
        let mut scopes: Vec<Scope> = Vec::new();
        for exhausted in by {
            let found = self.limit_exhausted(call, exhausted).map(Scope::Limit);
            scopes.extend(found.filter(|scope| !scopes.contains(scope)));
        }
        if scopes.is_empty() {
            scopes.push(self.narrowest(call, model));
        }
        for scope in scopes {
            let index = self.window_of(scope, now);
            let least = self.upstream.windows[index].refused(call.at, now);
            self.open_window(index, span.max(least), least / RELEASED, now);
        }
    }

    /// A call was answered: the row of refusals is over for every window on its way that it went after.
    #[inline]
    pub(super) fn end_rows(&mut self, call: &InFlightCall) {
        if self.upstream.windows.is_empty() {
            return;
        }
        for index in 0..self.upstream.windows.len() {
            let window = &self.upstream.windows[index];
            if window.refusals == 0 || call.at <= window.refused_at {
                continue;
            }
            let slot = self.slot_on(&self.routing.overlays[index].scope, call.skeleton);
            if slot.is_some_and(|slot| slot == SLOT || call.units[slot as usize] > 0) {
                self.upstream.windows[index].refusals = 0;
            }
        }
    }

    /// An upstream that fails asks to be left alone.
    pub(super) fn leave_alone(&mut self, call: &InFlightCall, span: Duration, now: Nanos) {
        let span = self.bounded_wait(call, span);
        let service = self.routing.skeletons[call.skeleton].service;
        self.back_off(Scope::Service(service), span, now);
    }

    fn back_off(&mut self, scope: Scope, span: Duration, now: Nanos) {
        let index = self.window_of(scope, now);
        self.open_window(index, span, Duration::ZERO, now);
    }

    /// Opens a window for `span`, or extends it. After its end calls go at least `pace` apart for a time.
    fn open_window(&mut self, index: usize, span: Duration, pace: Duration, now: Nanos) {
        self.facts_changed();
        let rules = self.rules_of(&self.routing.overlays[index].scope);
        self.begin_to_throttle(index, now);
        let (window, overlay) = (&mut self.upstream.windows[index], &mut self.routing.overlays[index]);
        let before = window.until;
        window.until = window.until.max(now.after(span));
        overlay.tail = overlay.tail.max(window.until.after(rules.window));
        let (until, limit, tail) = (window.until, overlay.limit, overlay.tail);
        if until > before.max(now) {
            let key = overlay.key.clone();
            self.announce(News::WindowOpened { key, until });
        }
        self.limits.attention = self.limits.attention.min(tail);
        if rules.waits
            && let Meter::Hold(hold) = &mut self.limits[limit].meter
        {
            hold.shut(until, pace);
        }
        let concerned = self.concerned(index);
        let free = |skeleton: &RouteId| !self.routing.skeletons[*skeleton].throttled;
        let newly: BTreeSet<RouteId> = concerned.iter().copied().filter(free).collect();
        self.reroute(&newly, now);
        self.effects.revisit.extend(concerned);
    }

    /// A window is about to open. Services of which calls go throttled already go on as they began to.
    fn begin_to_throttle(&mut self, index: usize, now: Nanos) {
        let live = self.routing.overlays.iter().filter(|overlay| overlay.tail > now);
        let throttled: Vec<Option<ServiceId>> = live.map(|overlay| self.service_in(&overlay.scope)).collect();
        let own = self.service_in(&self.routing.overlays[index].scope);
        if !throttled.contains(&None) {
            let begins =
                |service| own.is_none_or(|own| own == service) && !throttled.contains(&Some(service));
            self.judge_herds(begins, now);
        }
    }

    /// The window of a scope, made if there is none.
    fn window_of(&mut self, scope: Scope, now: Nanos) -> usize {
        let scope = self.known_scope(scope, now);
        if let Some(index) = self.routing.overlays.iter().position(|overlay| overlay.scope == scope) {
            return index;
        }
        let spec = self.upstream.window_spec;
        let meter = self.limits.specs[spec].definition.meter(now, self.limits.unix_offset);
        let limit = self.add_limit(Limit::new(spec, &self.limits.specs[spec], meter, self.limits.epoch));
        let key = self.key_of(&scope);
        let never = Nanos::ZERO;
        self.upstream.windows.push(Window { until: never, by_hand: never, refusals: 0, refused_at: never });
        self.routing.overlays.push(Overlay { key, scope, limit, tail: never });
        let index = self.upstream.windows.len() - 1;
        self.reroute(&self.concerned(index), now);
        index
    }

    /// A model that no pattern names gets a route of its own, if there are not too many of them already.
    fn known_scope(&mut self, scope: Scope, now: Nanos) -> Scope {
        let Scope::OtherModel(service, model) = scope else { return scope };
        if self.routing.services[service].other_models.contains(&model) {
            return Scope::OtherModel(service, model);
        }
        if self.routing.services[service].other_models.len() >= MANY {
            self.forget_windows(now);
        }
        if self.routing.services[service].other_models.len() >= MANY {
            return Scope::Service(service);
        }
        self.routing.services[service].other_models.push(model.clone());
        self.routes_changed();
        self.effects.split.push((service, model.clone()));
        Scope::OtherModel(service, model)
    }

    /// Forgets windows that are over.
    fn forget_windows(&mut self, now: Nanos) {
        let mut over = BTreeSet::new();
        for index in (0..self.upstream.windows.len()).rev() {
            let Overlay { limit, tail, ref scope, .. } = self.routing.overlays[index];
            let held = &self.limits[limit];
            let waited_for = held.contention.as_ref().is_some_and(|contention| contention.bound > 0);
            let row_counts = self.upstream.windows[index].row_ends() > now;
            if tail > now || held.meter.full_at() > now || waited_for || row_counts {
                continue;
            }
            let own_route = matches!(scope, Scope::OtherModel(..));
            let concerned = self.concerned(index);
            let is_used = |skeleton: &RouteId| {
                let held = &self.routing.skeletons[*skeleton];
                held.lanes > 0 || held.in_flight > 0
            };
            if own_route && concerned.iter().any(is_used) {
                continue;
            }
            self.upstream.windows.remove(index);
            let window = self.routing.overlays.remove(index);
            self.reroute(&concerned, now);
            self.remove_limit(window.limit);
            if let Scope::OtherModel(service, model) = window.scope {
                self.routing.services[service].other_models.retain(|known| *known != model);
                over.extend(concerned);
            }
        }
        if !over.is_empty() {
            self.routing.skeleton_index.retain(|_, skeleton| !over.contains(skeleton));
            self.routing.skeletons.free_all(over);
            self.routes_changed();
        }
    }

    /// Calls and shapes no longer know their routes.
    pub(super) fn routes_changed(&mut self) {
        self.routing.shapes.clear();
        self.routing.tag = RouteTag::fresh();
    }

    /// The throttled time of some windows is over.
    pub(super) fn end_tails(&mut self, now: Nanos) {
        let orphans = self.release_orphans(now);
        let is_over = |index: &usize| self.routing.overlays[*index].tail <= now;
        let over: Vec<usize> = (0..self.upstream.windows.len()).filter(is_over).collect();
        let concerned = over.into_iter().flat_map(|index| self.concerned(index));
        let throttled = |skeleton: &RouteId| self.routing.skeletons[*skeleton].throttled;
        let freed: BTreeSet<RouteId> = concerned.filter(throttled).collect();
        self.reroute(&freed, now);
        self.forget_windows(now);
        // Those that are left: when they throttle nobody any more, and when they hold nobody any more.
        let ends = self.upstream.windows.iter().zip(&self.routing.overlays).flat_map(|(window, overlay)| {
            [overlay.tail, self.limits[overlay.limit].meter.full_at(), window.row_ends()]
        });
        let ends = ends.chain([self.upstream.school.ramp_due, orphans]).filter(|end| *end > now);
        self.limits.attention = ends.min().unwrap_or(Nanos::NEVER);
    }

    /// Returns every window's key and its ends: its own, that of its tail, and the one that an operator set.
    pub(super) fn window_ends(&self) -> impl Iterator<Item = (&Arc<str>, [Nanos; 3])> {
        let all = self.upstream.windows.iter().zip(&self.routing.overlays);
        all.map(|(window, overlay)| (&overlay.key, [window.until, overlay.tail, window.by_hand]))
    }

    /// Opens a window that was open before a restart. Versions before the bound on waits may have kept a longer one.
    pub(super) fn reopen(&mut self, key: &str, [until, tail, by_hand]: [Nanos; 3], now: Nanos) {
        let Some(scope) = self.scope_named(key).filter(|_| tail > now || until > now) else { return };
        let longest = self.service_in(&scope).map(|service| now.after(self.longest_wait(service)));
        let until = longest.map_or(until, |longest| until.min(longest.max(by_hand)));
        self.back_off(scope.clone(), until.since(now), now);
        let found = self.routing.overlays.iter().position(|overlay| overlay.scope == scope);
        if let Some(index) = found {
            let (window, overlay) = (&mut self.upstream.windows[index], &mut self.routing.overlays[index]);
            overlay.tail = tail.min(overlay.tail).max(window.until);
            window.by_hand = by_hand;
        }
    }

    /// After another config came into force: windows of what is gone go too.
    pub(super) fn keep_windows(&mut self, now: Nanos) {
        for index in (0..self.upstream.windows.len()).rev() {
            let overlay = &self.routing.overlays[index];
            let scope = self.scope_named(&overlay.key).filter(|_| overlay.tail > now);
            match scope {
                Some(scope) => self.routing.overlays[index].scope = scope,
                None => {
                    let Window { until, by_hand, .. } = self.upstream.windows.remove(index);
                    let Overlay { limit, key, tail, .. } = self.routing.overlays.remove(index);
                    self.remove_limit(limit);
                    self.retire_window(key.clone(), [until, tail, by_hand]);
                    if until > now {
                        self.announce(News::WindowCleared { key });
                    }
                }
            }
        }
        for service in self.routing.services.iter_mut() {
            service.other_models.clear();
        }
        for overlay in &self.routing.overlays {
            if let Scope::OtherModel(service, model) = &overlay.scope {
                self.routing.services[*service].other_models.push(model.clone());
            }
        }
        let (services, skeletons) = (&self.routing.services, &self.routing.skeletons);
        let mut unused = BTreeSet::new();
        self.routing.skeleton_index.retain(|key, skeleton| {
            let held = &skeletons[*skeleton];
            let known = &services[held.service].other_models;
            let gone = key.other_model.as_ref().is_some_and(|model| !known.contains(model));
            let drops = gone && held.in_flight == 0 && held.lanes == 0;
            if drops {
                unused.insert(*skeleton);
            }
            !drops
        });
        self.routing.skeletons.free_all(unused);
    }

    /// Whether a window belongs to a limit.
    pub(super) fn has_window(&self, limit: LimitId) -> bool {
        self.routing.overlays.iter().any(|overlay| overlay.scope == Scope::Limit(limit))
    }

    /// What the windows add to a route: the limits, and whether its calls go throttled.
    pub(super) fn windows_on(&self, skeleton: RouteId, now: Nanos) -> (Vec<Use>, bool) {
        let on_it = self
            .routing
            .overlays
            .iter()
            .filter_map(|window| Some((window, self.slot_on(&window.scope, skeleton)?)));
        let mut throttled = false;
        let uses = on_it.map(|(window, slot)| {
            throttled |= window.tail > now;
            (window.limit, slot)
        });
        let uses = uses.collect();
        (uses, throttled)
    }

    /// The routes that a window is on.
    fn concerned(&self, index: usize) -> BTreeSet<RouteId> {
        let window = &self.routing.overlays[index];
        let known = self.routing.skeleton_index.values().copied();
        known.filter(|skeleton| self.slot_on(&window.scope, *skeleton).is_some()).collect()
    }
}
