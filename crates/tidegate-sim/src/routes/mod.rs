//! Kinds of calls: those that differ only in what they cost. The engine is asked once for each which limits it
//! passes; from then on a call's costs are found by looking at numbers alone.

mod after;

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_core::config::{Mode, SettleRule};
use tidegate_core::engine::Terms;
use tidegate_core::{Call, Config, Dimension, Engine, Nanos, Priority, Refusal};

use after::After;

pub(crate) use after::Named;

/// Calls that differ only in what they cost.
#[derive(Debug)]
pub(crate) struct Kind {
    /// One of them.
    pub call: Call,
    /// Its service, by its place in the config.
    pub service: usize,
    /// Its base priority.
    pub class: Priority,
    /// The limits that it passes, in order.
    pub limits: Vec<LimitUse>,
    /// Kinds of the same group pass the same limits.
    pub group: u32,
    /// Its loop; calls without one share number 0.
    pub loop_: u32,
    /// Its loop type's weight.
    pub weight: f64,
    /// Its service holds nothing back.
    pub observed: bool,
    /// What it reserves and does not use stays spent.
    pub keep: bool,
    /// In nanoseconds.
    pub aging: u64,
    /// Of a limit's units.
    pub aging_share: f64,
    /// What it meets after a failure.
    pub after: After,
    /// Those limits, that it passes while it goes throttled.
    pub throttles: Vec<u32>,
}

/// One limit on the way of a kind of calls.
#[derive(Clone, Debug)]
pub(crate) struct LimitUse {
    pub limit: u32,
    pub dimension: Option<Dimension>,
    pub withheld: [u64; 4],
    pub in_flight: bool,
    /// The largest cost that can ever fit.
    most: u64,
    /// The largest that is allowed.
    allowed: u64,
}

/// All kinds of calls, and the limits they pass.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    kinds: Vec<Kind>,
    /// Calls whose limits are known, though none of their kind was made yet.
    met: Vec<Call>,
    names: Vec<Arc<str>>,
    terms: Vec<Terms>,
    index: HashMap<Arc<str>, u32>,
    groups: HashMap<Vec<u32>, u32>,
}

impl Routes {
    pub fn kind(&self, kind: u32) -> &Kind {
        &self.kinds[kind as usize]
    }

    pub fn kind_count(&self) -> u32 {
        self.kinds.len() as u32
    }

    pub fn limit_count(&self) -> u32 {
        self.names.len() as u32
    }

    pub fn name(&self, limit: u32) -> &Arc<str> {
        &self.names[limit as usize]
    }

    /// A limit by its name, if a call has met it.
    pub fn find(&self, name: &str) -> Option<u32> {
        self.index.get(name).copied()
    }

    pub fn terms(&self, limit: u32) -> Terms {
        self.terms[limit as usize]
    }

    /// Gets to know the limits that a call passes, before any such call is made.
    pub fn meet(&mut self, call: &Call, engine: &mut Engine, now: Nanos) {
        // A call that cannot be routed passes none.
        if self.limits_of(call, engine, now).is_ok() {
            self.met.push(call.clone());
        }
    }

    /// Finds the way of a new kind of calls, of which `call` is one, made by loop number `loop_`.
    pub fn add(
        &mut self,
        call: Call,
        loop_: u32,
        named: &Named<'_>,
        config: &Config,
        engine: &mut Engine,
        now: Nanos,
    ) -> Result<u32, Refusal> {
        let limits = self.limits_of(&call, engine, now)?;
        let class = engine.priority_of(&call, now)?;
        let key: Vec<u32> = limits.iter().map(|used| used.limit).collect();
        let next = self.groups.len() as u32;
        let group = *self.groups.entry(key).or_insert(next);
        let service = config.services.keys().position(|known| *known == named.service).unwrap_or(0);
        let rules = &config.services[named.service];
        let after = After::of(named, config);
        let throttles = self.throttles_of(&after, engine, now);
        let weight =
            named.loop_type.and_then(|name| config.loop_types.get(name)).map_or(1.0, |held| held.weight);
        self.kinds.push(Kind {
            call,
            service,
            class,
            limits,
            group,
            loop_,
            weight,
            observed: rules.mode == Mode::Observe,
            keep: rules.settle == SettleRule::Keep,
            aging: tidegate_core::whole_nanos(rules.queue.aging).max(1_000_000),
            aging_share: rules.queue.aging_share,
            after,
            throttles,
        });
        Ok(self.kinds.len() as u32 - 1)
    }

    /// What a call of a kind takes at each of its limits. An estimate is brought down to what can ever fit.
    pub fn costs(&self, number: u32, call: &Call, estimated: bool, into: &mut Vec<u64>) {
        let kind = self.kind(number);
        into.clear();
        into.extend(kind.limits.iter().map(|used| match &used.dimension {
            Some(dimension) => call.cost().units(dimension),
            None => 1,
        }));
        if !kind.observed {
            self.bring_down(number, estimated, into);
        }
    }

    /// Brings costs down to what can ever fit; limits that count the same take the same. What is stated is brought down
    /// only where it is allowed, and experience alone says that it does not fit.
    pub fn bring_down(&self, kind: u32, estimated: bool, costs: &mut [u64]) {
        let kind = self.kind(kind);
        for (used, cost) in kind.limits.iter().zip(costs) {
            if used.dimension.is_some() {
                let same = kind.limits.iter().filter(|other| other.dimension == used.dimension);
                for other in same {
                    let room = other.room(kind.class);
                    let allowed = other.allowed.saturating_sub(other.withheld[kind.class as usize]);
                    if *cost > room && !estimated && *cost > allowed.max(room) {
                        break;
                    }
                    *cost = (*cost).min(room);
                }
            }
        }
    }

    /// Reads all definitions anew, after one was changed.
    pub fn refresh(&mut self, engine: &mut Engine, now: Nanos) {
        for call in self.met.clone() {
            let _ = self.limits_of(&call, engine, now);
        }
        for kind in 0..self.kinds.len() {
            let call = self.kinds[kind].call.clone();
            // What could be routed before can be now: limits change, services do not go.
            if let Ok(limits) = self.limits_of(&call, engine, now) {
                self.kinds[kind].limits = limits;
            }
            let after = self.kinds[kind].after.clone();
            self.kinds[kind].throttles = self.throttles_of(&after, engine, now);
        }
    }

    fn limits_of(&mut self, call: &Call, engine: &mut Engine, now: Nanos) -> Result<Vec<LimitUse>, Refusal> {
        let passages = engine.passages(call, now)?;
        Ok(passages
            .into_iter()
            .map(|passage| LimitUse {
                limit: self.number(&passage.limit, passage.terms),
                dimension: passage.dimension,
                withheld: passage.withheld,
                in_flight: passage.terms.is_in_flight(),
                most: passage.terms.most(),
                allowed: passage.most,
            })
            .collect())
    }

    fn throttles_of(&mut self, after: &After, engine: &mut Engine, now: Nanos) -> Vec<u32> {
        let known = after.throttles.iter().filter_map(|name| engine.limit(name, now));
        known.map(|limit| self.number(&limit.name, Terms::Concurrency(limit.capacity))).collect()
    }

    /// The number of a limit, with what it says now.
    fn number(&mut self, name: &Arc<str>, terms: Terms) -> u32 {
        let next = self.names.len() as u32;
        let limit = *self.index.entry(name.clone()).or_insert(next);
        if limit == next {
            self.names.push(name.clone());
            self.terms.push(terms);
        }
        self.terms[limit as usize] = terms;
        limit
    }
}

impl LimitUse {
    /// The largest cost of a priority that can ever fit.
    fn room(&self, class: Priority) -> u64 {
        match self.most {
            u64::MAX => u64::MAX,
            most => most - self.withheld[class as usize].min(most),
        }
    }
}
