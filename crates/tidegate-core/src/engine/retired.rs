//! What a config no longer has, and may have again: a limit or a backoff window that a reload removed.
//!
//! What was spent of a limit counts at the upstream for a window, whether the config names the limit or not. So it is kept
//! by the limit's name until it no longer counts, and a limit of that name that comes back takes it up. With a
//! book the limit's page stays on disk for as long, with the promise that it had: after a crash that counts as spent.
//!
//! Slots in flight are not kept: a call that ends after its limit was removed would have nowhere to give its slot back. A
//! limit on calls in flight that comes back counts those that are in flight then.

use std::sync::Arc;

use hashbrown::HashMap;

use super::Engine;
use crate::kept::Kept;
use crate::model::LimitId;
use crate::model::time::Nanos;

/// Limits and windows that were removed and still count.
#[derive(Debug, Default)]
pub(crate) struct Retired {
    limits: HashMap<Arc<str>, Kept>,
    /// Their keys, and until when they hold calls back, throttle them, and were set by an operator.
    windows: Vec<(Arc<str>, [Nanos; 3])>,
}

impl Retired {
    pub fn has(&self, name: &str) -> bool {
        self.limits.contains_key(name)
    }

    pub fn limits(&self) -> impl Iterator<Item = (&Arc<str>, &Kept)> {
        self.limits.iter()
    }

    pub fn windows(&self) -> &[(Arc<str>, [Nanos; 3])] {
        &self.windows
    }
}

impl Engine {
    /// Frees the place of a limit that the config no longer has, and keeps what was spent of it.
    pub(super) fn retire(&mut self, limit: LimitId, now: Nanos) {
        let held = &mut self.limits.all[limit];
        let counts = held.meter.counts() && !held.meter.is_in_flight();
        // Brings it up to now, so that what no longer counts is not kept.
        if counts && held.meter.used(now) > 0 && held.meter.full_at() > now {
            let definition = &self.limits.specs[held.spec].definition;
            let kept = Kept::of(definition, &held.meter, 0, std::time::Duration::ZERO);
            let name = self.limit_name(limit);
            self.limits.retired.limits.extend(kept.map(|kept| (name, kept)));
        }
        self.remove_limit(limit);
    }

    /// Gives a limit that was just made what was spent before one of its name was removed. Returns whether there was
    /// anything.
    pub(super) fn bring_back(&mut self, limit: LimitId, now: Nanos) -> bool {
        if self.limits.retired.limits.is_empty() {
            return false;
        }
        let name = self.limit_name(limit);
        let Some(kept) = self.limits.retired.limits.remove(&name) else { return false };
        self.revive(limit, &kept, 0, now).is_ok()
    }

    /// Keeps a backoff window whose service or limit the config no longer has.
    pub(super) fn retire_window(&mut self, key: Arc<str>, ends: [Nanos; 3]) {
        self.limits.retired.windows.retain(|(known, ..)| *known != key);
        self.limits.retired.windows.push((key, ends));
    }

    /// Opens again the windows whose service or limit came back, and forgets what no longer counts.
    pub(super) fn bring_back_windows(&mut self, now: Nanos) {
        for (key, ends) in std::mem::take(&mut self.limits.retired.windows) {
            let [until, tail, _] = ends;
            if until.max(tail) <= now {
                continue;
            }
            match self.scope_named(&key) {
                Some(_) => self.reopen(&key, ends, now),
                None => self.limits.retired.windows.push((key, ends)),
            }
        }
    }

    /// Forgets limits of which nothing counts any more.
    pub(super) fn forget_retired(&mut self, now: Nanos) {
        let offset = self.limits.unix_offset;
        let mut over = Vec::new();
        self.limits.retired.limits.retain(|name, kept| {
            let counts = kept.revive(now, offset).is_ok_and(|(_, meter)| meter.full_at() > now);
            if !counts {
                over.push(name.clone());
            }
            counts
        });
        if let Some(book) = &mut self.funding.book {
            book.gone.extend(over);
        }
    }
}
