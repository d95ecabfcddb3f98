//! Models of rate-limited upstreams, in virtual time.
//!
//! An [`Upstream`] is what stands behind a service: it counts each request at the moment it arrives, and
//! accepts or refuses it by limits of its own, which the gate in front can only guess. A request passes all of
//! them or is counted by none. Others may use the same limits unseen, limits may change, and it may be down or
//! fail; all of that comes from the [`UpstreamSpec`] and a seed, and happens in the order of time, whenever
//! time is next told.
//!
//! ```text
//!  receive ──► advance ──► down? ──► does it fit all limits? ──► count ──► Accepted(Held) ──► … ──► end
//!              changes,     503       no: 429, by which one,               or a 5xx, counted
//!              neighbours             and when it would
//! ```
//!
//! One file a model: [`FixedWindow`], [`SlidingLog`], [`TokenBucket`], [`Gcra`], [`Concurrency`]; all are
//! [`Meter`]s. What replies say about the limits is in `headers`, a style a vendor. With the feature `upstream`,
//! `http` puts the same models behind a socket.

mod answer;
mod concurrency;
mod fixed_window;
mod gcra;
mod headers;
#[cfg(feature = "upstream")]
pub mod http;
mod limit;
mod meter;
mod neighbours;
mod sliding_log;
mod token_bucket;

pub use answer::{Answer, Held, RefusedBy, Tally, UpstreamCounts};
pub use concurrency::Concurrency;
pub use fixed_window::FixedWindow;
pub use gcra::Gcra;
pub use headers::Headers;
pub use limit::meter;
pub use meter::Meter;
pub use sliding_log::SlidingLog;
pub use token_bucket::TokenBucket;

use std::time::Duration;

use tidegate_core::{Cost, Dimension, Nanos, Rate};

use crate::dice::Dice;
use crate::scenario::{HeaderStyle, Outage, UpstreamChange, UpstreamLimit, UpstreamSpec};
use limit::Limit;
use neighbours::Neighbours;

pub use crate::scenario::Reserves;

/// One upstream with all its limits.
#[derive(Debug)]
pub struct Upstream {
    limits: Vec<Limit>,
    style: HeaderStyle,
    refused_cost: bool,
    errors: f64,
    knee: Option<u64>,
    /// Accepted requests that have not ended.
    running: u64,
    dice: Dice,
    outages: Vec<Outage>,
    /// Those to come, the last first.
    changes: Vec<UpstreamChange>,
    neighbours: Neighbours,
    counts: UpstreamCounts,
    /// What the spec calls the start.
    start: Nanos,
    now: Nanos,
    /// When it next does something by itself.
    next: Nanos,
}

/// What an upstream answers while it is down.
const UNAVAILABLE: u16 = 503;

impl Upstream {
    /// Creates an upstream that has not been called yet. The times of its spec count from `now`.
    #[must_use]
    pub fn new(spec: &UpstreamSpec, seed: u64, now: Nanos) -> Upstream {
        let limits: Vec<_> = spec.limits.iter().map(|limit| Limit::new(limit, now)).collect();
        let mut changes = spec.changes.clone();
        changes.sort_by_key(|change| std::cmp::Reverse(change.at));
        let slots = limits.iter().any(Limit::counts_slots);
        let mut upstream = Upstream {
            style: spec.headers,
            refused_cost: spec.refused_cost,
            errors: spec.errors,
            knee: spec.knee,
            running: 0,
            dice: Dice::part(seed, "upstream", 0),
            outages: spec.outages.clone(),
            changes,
            neighbours: Neighbours::new(&spec.neighbours, slots.then_some(spec.latency), seed, now),
            counts: UpstreamCounts::over(limits.len()),
            limits,
            start: now,
            now,
            next: now,
        };
        upstream.next = upstream.next_event();
        upstream
    }

    /// A request arrives, and is counted or refused. `cost` is what the upstream counts for it on arrival.
    pub fn receive(&mut self, cost: &Cost, now: Nanos) -> Answer {
        let now = self.advance(now);
        self.counts.us.received += 1;
        if self.is_down(now) {
            self.counts.us.failed += 1;
            return Answer::Failed(UNAVAILABLE);
        }
        if let Some(by) = self.refuses(|limit| limit.units(cost), now) {
            self.counts.us.refused += 1;
            return Answer::Refused(by);
        }
        let fails = self.dice.happens(self.errors);
        for (limit, counted) in self.limits.iter_mut().zip(&mut self.counts.us.units) {
            // A request that fails holds no slot: its end would not be told.
            if !(fails && limit.counts_slots()) {
                let units = limit.units(cost);
                limit.meter.take(units, now);
                *counted = counted.saturating_add(units);
            }
        }
        if fails {
            self.counts.us.failed += 1;
            return Answer::Failed(*self.dice.pick(&[500, 502]));
        }
        self.counts.us.accepted += 1;
        self.running += 1;
        Answer::Accepted(Held { at: now, cost: cost.clone() })
    }

    /// An accepted request ended. `actual` is what it really cost, where that differs from what was counted on
    /// arrival: less goes back to where it was counted, if it still counts there; more counts from now on,
    /// fitting or not. What it does not state stays as it was.
    pub fn end(&mut self, held: Held, actual: &Cost, now: Nanos) {
        let now = self.advance(now);
        self.running = self.running.saturating_sub(1);
        for (limit, counted) in self.limits.iter_mut().zip(&mut self.counts.us.units) {
            if limit.counts_slots() {
                limit.meter.give_back(1, held.at, now);
                continue;
            }
            if !actual.states(&limit.spec.dimension) {
                continue;
            }
            let (was, is) = (limit.units(&held.cost), limit.units(actual));
            if is > was {
                limit.meter.take(is - was, now);
                *counted = counted.saturating_add(is - was);
            } else if is < was {
                *counted -= limit.meter.give_back(was - is, held.at, now).min(*counted);
            }
        }
    }

    /// How many times longer than usual a request takes that it has just accepted: what is beyond its knee shares what it
    /// can do.
    #[must_use]
    pub fn slowness(&self) -> f64 {
        self.knee.map_or(1.0, |knee| (self.running as f64 / knee as f64).max(1.0))
    }

    /// What replies say now about the limits, in the upstream's header style; `refused` adds what only a 429
    /// has. `unix` is the time since 1970 at `now`. What neighbours did since time was last told is not in it.
    #[must_use]
    pub fn headers(&self, refused: Option<&RefusedBy>, now: Nanos, unix: Duration) -> Vec<(String, String)> {
        headers::headers(self.style, &self.limits, refused, now, unix)
    }

    /// The status of a reply that refuses: GitHub's own is a 403 where its headers say why, all others' a
    /// 429.
    #[must_use]
    pub fn refused_status(&self, refused: &RefusedBy) -> u16 {
        if self.style == HeaderStyle::GitHub && !refused.hidden { 403 } else { 429 }
    }

    /// Makes a limit another, by its place in the list; what it has counted stays.
    ///
    /// # Panics
    /// If there is no such limit.
    pub fn change(&mut self, limit: usize, rate: Rate, now: Nanos) {
        let now = self.advance(now);
        self.set_rate(limit, rate, now);
    }

    /// Lets happen what the upstream does by itself until `now`, and returns the latest time that it was told.
    pub fn advance(&mut self, now: Nanos) -> Nanos {
        while self.next <= now && !self.next.is_never() {
            let at = self.next;
            self.now = self.now.max(at);
            self.happen(at);
            self.next = self.next_event();
        }
        self.now = self.now.max(now);
        self.now
    }

    /// When it next does something by itself: a neighbour calls, or a limit changes.
    #[must_use]
    pub fn next_event(&self) -> Nanos {
        let change = self.changes.last().map_or(Nanos::NEVER, |change| self.start.after(change.at));
        change.min(self.neighbours.next())
    }

    /// When a request of `cost` would be accepted, if no other request came: never, if that cannot be known.
    #[must_use]
    pub fn fits_at(&self, cost: &Cost, now: Nanos) -> Nanos {
        let fits = |limit: &Limit| limit.meter.fits_at(limit.units(cost), now);
        self.limits.iter().map(fits).max().unwrap_or(now)
    }

    /// How much of a limit is left now, by its place in the list.
    ///
    /// # Panics
    /// If there is no such limit.
    #[must_use]
    pub fn remaining(&self, limit: usize, now: Nanos) -> u64 {
        self.limits[limit].meter.remaining(now)
    }

    /// What came, and what became of it.
    #[must_use]
    pub fn counts(&self) -> &UpstreamCounts {
        &self.counts
    }

    /// The limits as they stand now.
    pub fn limits(&self) -> impl ExactSizeIterator<Item = &UpstreamLimit> {
        self.limits.iter().map(|limit| &limit.spec)
    }

    /// Which limit refuses a request that costs so much, and until when. Where several do, it is the one that
    /// does so for longest. If refused requests cost, they are counted here.
    fn refuses(&mut self, units: impl Fn(&Limit) -> u64, now: Nanos) -> Option<RefusedBy> {
        let mut by: Option<(usize, Nanos)> = None;
        for (place, limit) in self.limits.iter().enumerate() {
            let fits_at = limit.meter.fits_at(units(limit), now);
            if fits_at > now && by.is_none_or(|(_, longest)| fits_at > longest) {
                by = Some((place, fits_at));
            }
        }
        let (limit, fits_at) = by?;
        if self.refused_cost {
            for limit in &mut self.limits {
                let units = units(limit);
                limit.meter.take_refused(units, now);
            }
        }
        let wait = (!fits_at.is_never()).then(|| fits_at.since(now));
        Some(RefusedBy { limit, hidden: self.limits[limit].spec.hidden, wait })
    }

    /// What is due at `at`.
    fn happen(&mut self, at: Nanos) {
        while let Some(change) = self.changes.pop_if(|change| self.start.after(change.at) <= at) {
            if change.limit < self.limits.len() {
                self.set_rate(change.limit, change.rate, at);
            }
        }
        for _ in 0..self.neighbours.ended(at) {
            for limit in self.limits.iter_mut().filter(|limit| limit.counts_slots()) {
                limit.meter.give_back(1, at, at);
            }
        }
        while let Some(tokens) = self.neighbours.call(at) {
            self.receive_neighbour(tokens, at);
        }
    }

    fn receive_neighbour(&mut self, tokens: u64, now: Nanos) {
        let units = |limit: &Limit| match limit.spec.dimension {
            _ if limit.counts_slots() => 1,
            Dimension::Requests => 1,
            _ => tokens,
        };
        self.counts.neighbours.received += 1;
        if self.is_down(now) {
            self.counts.neighbours.failed += 1;
        } else if self.refuses(units, now).is_some() {
            self.counts.neighbours.refused += 1;
        } else {
            for (limit, counted) in self.limits.iter_mut().zip(&mut self.counts.neighbours.units) {
                let units = units(limit);
                limit.meter.take(units, now);
                *counted = counted.saturating_add(units);
            }
            self.counts.neighbours.accepted += 1;
            self.neighbours.accepted(now);
        }
    }

    fn set_rate(&mut self, limit: usize, rate: Rate, now: Nanos) {
        let limit = &mut self.limits[limit];
        limit.spec.rate = rate;
        let burst = limit.burst();
        limit.meter.change(rate, burst, now);
    }

    fn is_down(&self, now: Nanos) -> bool {
        self.outages.iter().any(|outage| {
            let begins = self.start.after(outage.at);
            begins <= now && now < begins.after(outage.lasts)
        })
    }
}
