//! What was learned about limits, to be shown, and to be kept for the next start.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Engine;
use crate::learn::Learned;
use crate::limit::Counts;
use crate::model::call::Call;
use crate::model::rate::Algorithm;
use crate::model::refusal::Refusal;
use crate::model::time::Nanos;
use crate::model::{LimitId, ServiceId, SpecId};

/// What was learned about a limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct LearnedLimit {
    /// Its name.
    pub limit: Arc<str>,
    /// N as it is written.
    pub written: u64,
    /// N as replies state it, if they do.
    pub told: Option<u64>,
    /// What is in force: what may go in a window, or flows into a bucket in that time.
    pub in_force: u64,
    /// How it counts now; a bound on what is in flight does not count in any of these ways.
    pub algorithm: Option<Algorithm>,
    /// The upstream was seen to count as a bucket of this size does.
    pub bucket: Option<u64>,
    /// The share of N that goes through, by having been turned away without a reason; 1 if that did not happen.
    pub share: f64,
    /// What others take of the same limit, in units a second.
    pub others: f64,
    /// By how much calls may overtake each other on their way.
    pub jitter: Duration,
    /// What goes at once so that nothing is lost of what calls reserve and do not use; 0 if that is nothing special.
    pub burst: u64,
    /// The share of the usual pace at which calls go for a time: the upstream is overloaded, or was not called for long.
    pub pace: f64,
    /// The time that nine of ten replies of the service keep to, if that is known.
    pub latency: Option<Duration>,
}

/// A limit on the way of a call, as it stands.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Explained {
    /// Its name.
    pub limit: Arc<str>,
    /// What the call takes there.
    pub cost: u64,
    /// The most that it allows.
    pub capacity: u64,
    /// What is spent and still counts, others' units included.
    pub used: u64,
    /// What the call must leave alone there, by its priority.
    pub withheld: u64,
    /// When the call would fit there if nobody else took anything; `None` if that cannot be known.
    pub fits_in: Option<Duration>,
    /// How many calls wait because of it.
    pub waiting: usize,
    /// What was learned about it.
    pub learned: Option<LearnedLimit>,
}

impl Engine {
    /// Every limit about which something was learned.
    pub fn learned(&mut self, now: Nanos) -> Vec<LearnedLimit> {
        self.clock(now);
        self.limits.all.live().filter_map(|limit| self.learned_of(limit)).collect()
    }

    /// What was learned about a limit before, by another engine or before a restart. It is in force at once, and what
    /// replies say goes before it.
    pub fn remember(&mut self, learned: &LearnedLimit, now: Nanos) -> bool {
        let now = self.clock(now);
        let Some(limit) = self.limit_named(&learned.limit) else { return false };
        let index = self.limits[limit].spec;
        let spec = &mut self.limits.specs[index];
        if spec.written.rate_of().is_none() {
            return self.resume_adaptive(index, learned.in_force, now);
        }
        if spec.per_key {
            return false;
        }
        let held = &mut spec.learned;
        (held.units, held.lifts) = (learned.told.filter(|told| *told > 0), spec.written.lifts);
        (held.bucket, held.burst) = (learned.bucket, learned.burst);
        if !learned.jitter.is_zero() {
            held.jitter = learned.jitter;
        }
        if self.put_in_force(index, now) {
            self.replan_all(now);
        }
        let service = self.service_at(index);
        if let (Some(took), Some(service)) = (learned.latency, service) {
            self.upstream.school.spreads.entry(service).or_default().remember(took);
        }
        true
    }

    /// The limits that a call must pass, in the order in which it passes them, and how they stand.
    ///
    /// # Errors
    /// If the call names what is not there.
    pub fn explain(&mut self, call: &Call, now: Nanos) -> Result<Vec<Explained>, Refusal> {
        let now = self.clock(now);
        let class = self.priority_of(call, now)?;
        let passages = self.passages(call, now)?;
        let explained = passages.into_iter().map(|passage| {
            let withheld = passage.withheld[class as usize];
            let Some(limit) = self.limit_named(&passage.limit) else {
                // A loop that never called has its limits to itself.
                let capacity = passage.terms.most();
                let (cost, fits_in) = (passage.cost, Some(Duration::ZERO));
                let limit = passage.limit;
                return Explained {
                    limit,
                    cost,
                    capacity,
                    used: 0,
                    withheld,
                    fits_in,
                    waiting: 0,
                    learned: None,
                };
            };
            let waiting = self.waiting_at(limit);
            let held = &mut self.limits[limit];
            let fits_in = match held.fits(passage.cost, withheld, now) {
                true => Some(Duration::ZERO),
                false => {
                    let at = held.earliest(passage.cost, withheld, now);
                    (!at.is_never() && !held.meter.is_in_flight()).then(|| at.since(now))
                }
            };
            let used = held.meter.used(now);
            let learned = self.learned_of(limit);
            let (limit, cost, capacity) = (passage.limit, passage.cost, passage.terms.most());
            Explained { limit, cost, capacity, used, withheld, fits_in, waiting, learned }
        });
        Ok(explained.collect())
    }

    pub(super) fn learned_of(&self, limit: LimitId) -> Option<LearnedLimit> {
        let index = self.limits[limit].spec;
        let spec = &self.limits.specs[index];
        let (written, in_force, algorithm) = match (spec.written.rate_of(), &spec.definition.counts) {
            (Some(written), Counts::Rate { rate, algorithm, .. }) => {
                (written.units(), rate.units(), Some(*algorithm))
            }
            (None, Counts::Concurrency(bound)) => (spec.written.whole(), *bound, None),
            _ => return None,
        };
        let others = self.upstream.school.others_at(limit);
        // What is taken for granted before the first reply was not learned.
        let jitter =
            Some(spec.learned.jitter).filter(|jitter| *jitter != self.limits.apart).unwrap_or_default();
        let known = Learned { jitter, remote: false, wary: false, ..spec.learned.clone() };
        if known == Learned::default() && others == 0.0 {
            return None;
        }
        Some(LearnedLimit {
            limit: self.limit_name(limit),
            written,
            told: spec.learned.units,
            in_force,
            algorithm,
            bucket: spec.learned.bucket,
            share: spec.learned.share,
            others,
            jitter,
            burst: spec.learned.burst,
            pace: spec.learned.pace,
            latency: self.service_at(index).and_then(|service| {
                self.upstream.school.spreads.get(&service).and_then(|spread| spread.most_keep_to())
            }),
        })
    }

    /// The service whose limits a definition is one of.
    pub(super) fn service_at(&self, spec: SpecId) -> Option<ServiceId> {
        let level = &self.limits.specs[spec].level;
        self.routing.service_index.get(level.split('/').next().unwrap_or_default()).copied()
    }
}
