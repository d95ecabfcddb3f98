//! What is kept beside the limits: windows, breakers, lessons.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Engine;
use super::learned::LearnedLimit;
use crate::algorithm::Meter;
use crate::kept::is_zero;
use crate::model::LimitId;
use crate::model::time::{Nanos, whole_nanos};

/// What is kept beside the limits. Times are those of the engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    windows: Vec<KeptWindow>,
    breakers: Vec<KeptBreaker>,
    learned: Vec<LearnedLimit>,
    /// How long nearly all calls are in flight, by service.
    in_flight_ns: BTreeMap<Arc<str>, u64>,
    /// What every limit of a loop or key may spend before it has a page.
    pub(super) seeds: BTreeMap<Arc<str>, u64>,
    /// When a crash was last found: until a window later some loops may have spent their seed before it.
    crashed_ns: Option<u64>,
    /// When it was found that what was spent is not known: until a window later a limit that is made begins as spent.
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown_ns: Option<u64>,
    /// The same of limits that each API key has.
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown_keys_ns: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct KeptWindow {
    key: Arc<str>,
    until_ns: u64,
    /// Until when calls go throttled.
    tail_ns: u64,
    /// Until when an operator set it.
    #[serde(default, skip_serializing_if = "is_zero")]
    by_hand_ns: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct KeptBreaker {
    name: Arc<str>,
    failures: u32,
    openings: u32,
    open_until_ns: Option<u64>,
}

impl Facts {
    pub(super) fn crashed_at(&self) -> Option<Nanos> {
        self.crashed_ns.map(Nanos)
    }

    /// Since when it is not known what was spent: of any limit, and of those of keys.
    pub(super) fn unknown_at(&self) -> (Option<Nanos>, Option<Nanos>) {
        (self.unknown_ns.map(Nanos), self.unknown_keys_ns.map(Nanos))
    }
}

impl Engine {
    /// What is to be kept beside the limits, if that has changed since this was last asked.
    pub fn facts(&mut self, now: Nanos) -> Option<Facts> {
        let now = self.clock(now);
        let book = self.funding.book.as_mut()?;
        std::mem::take(&mut book.facts_due).then(|| self.all_facts(now))
    }

    /// The same, changed or not: for a clean stop.
    pub fn all_facts(&mut self, now: Nanos) -> Facts {
        let now = self.clock(now);
        let retired = self.limits.retired.windows().iter().map(|(key, ends)| (key, *ends));
        let windows = self.window_ends().chain(retired);
        let windows = windows.filter(|(_, [until, tail, _])| *until > now || *tail > now);
        let windows = windows.map(|(key, [until, tail, by_hand])| KeptWindow {
            key: key.clone(),
            until_ns: until.0,
            tail_ns: tail.0,
            by_hand_ns: by_hand.0,
        });
        let seeds = self.seeds();
        let mut facts = Facts { windows: windows.collect(), seeds, ..Facts::default() };
        for spec in self.limits.specs.iter().filter(|spec| !spec.gone && !spec.shared.is_nil()) {
            let Meter::Circuit(circuit) = &self.limits[spec.shared].meter else { continue };
            let (failures, openings, open) = circuit.breaker().known();
            if open.is_some() {
                let (name, open_until_ns) = (self.limit_name(spec.shared), open.map(|until| until.0));
                facts.breakers.push(KeptBreaker { name, failures, openings, open_until_ns });
            }
        }
        // What is learned is a definition's; those of loops and keys learn nothing that is kept, and may be a million.
        let shared = self
            .limits
            .specs
            .iter()
            .filter(|spec| !spec.gone && !spec.shared.is_nil())
            .map(|spec| spec.shared);
        facts.learned = shared.filter_map(|limit| self.learned_of(limit)).collect();
        if let Some(book) = &self.funding.book {
            facts.crashed_ns = book.crashed.as_ref().map(|(at, _)| at.0);
            facts.unknown_ns = book.unknown.map(|at| at.0);
            facts.unknown_keys_ns = book.unknown_keys.map(|at| at.0);
            for (service, durations) in &book.durations {
                let name = self.routing.service_index.iter().find(|(_, index)| *index == service);
                if let Some(((name, _), took)) = name.zip(durations.nearly_all()) {
                    facts.in_flight_ns.insert(name.as_ref().into(), whole_nanos(took));
                }
            }
        }
        facts
    }

    /// These are on disk.
    pub fn facts_written(&mut self, facts: &Facts) {
        self.seeds_written(&facts.seeds);
    }

    /// These may or may not be on disk.
    pub fn facts_not_written(&mut self) {
        self.facts_changed();
    }

    /// Something beside the limits is to be written.
    pub(super) fn facts_changed(&mut self) {
        if let Some(book) = &mut self.funding.book {
            book.facts_due = true;
        }
    }

    /// What was known before a restart.
    pub(super) fn believe(&mut self, facts: &Facts, now: Nanos) {
        for learned in &facts.learned {
            self.remember(learned, now);
        }
        for KeptWindow { key, until_ns, tail_ns, by_hand_ns } in &facts.windows {
            let ends = [until_ns, tail_ns, by_hand_ns].map(|ns| Nanos(*ns));
            match self.scope_named(key) {
                Some(_) => self.reopen(key, ends, now),
                // The config may have it again.
                None => self.retire_window(key.clone(), ends),
            }
        }
        for (service, took) in &facts.in_flight_ns {
            if let Some(service) = self.service_named(service)
                && let Some(book) = &mut self.funding.book
            {
                book.durations.entry(service).or_default().add(Duration::from_nanos(*took));
            }
        }
        for kept in &facts.breakers {
            let named = |limit: &&LimitId| *self.limit_name(**limit) == *kept.name;
            let shared: Vec<LimitId> =
                self.limits.specs.iter().map(|spec| spec.shared).filter(|limit| !limit.is_nil()).collect();
            if let Some(limit) = shared.iter().find(named)
                && let Meter::Circuit(circuit) = &mut self.limits[*limit].meter
            {
                circuit.breaker_mut().believe((kept.failures, kept.openings, kept.open_until_ns.map(Nanos)));
            }
        }
    }
}
