//! Where calls come from: one source for each workload.
//!
//! A source makes calls one at a time, when it is asked: an hour of calls is never held in memory.

use std::time::Duration;

use tidegate_core::{Call, Cost, Dimension, Nanos, Priority};

use crate::dice::Dice;
use crate::scenario::{Arrivals, TracedCall, Workload};
use crate::spread::{Spread, exponential};

/// A call that a source makes, before it is known which kind it is of.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub loop_id: Option<String>,
    pub loop_type: Option<String>,
    pub priority: Option<Priority>,
    pub model: Option<String>,
    /// What it states a cost in.
    pub stated: Vec<Dimension>,
    /// What it will really cost.
    pub real: Cost,
    /// What it is expected to cost.
    pub expected: Cost,
    /// How long it runs, if that is known.
    pub runs: Option<Duration>,
}

/// What a kind of calls is told apart by, within its source.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DraftKey {
    pub source: usize,
    pub loop_id: Option<String>,
    pub loop_type: Option<String>,
    pub priority: Option<Priority>,
    pub model: Option<String>,
}

/// One workload at work.
#[derive(Debug)]
pub(crate) struct Source {
    dice: Dice,
    /// Calls made so far, which names their loops in turn.
    made: u64,
    /// Calls left in the present burst.
    burst: u64,
    begins: Nanos,
    ends: Nanos,
}

impl Source {
    pub fn new(workload: &Workload, number: usize, seed: u64, duration: Duration) -> Source {
        let ends = workload.until.map_or(duration, |until| until.min(duration));
        Source {
            dice: Dice::part(seed, "workload", number as u64),
            made: 0,
            burst: 0,
            begins: Nanos::ZERO.after(workload.from),
            ends: Nanos::ZERO.after(ends),
        }
    }

    /// When the first call comes; workers of a closed loop all begin then.
    pub fn first(&mut self, workload: &Workload) -> Option<Nanos> {
        match &workload.arrivals {
            Arrivals::Closed { .. } => self.within(self.begins),
            Arrivals::Poisson(_) => self.next(workload, self.begins),
            Arrivals::Bursts { size, .. } => {
                self.burst = size.saturating_sub(1);
                if *size > 0 { self.within(self.begins) } else { None }
            }
            Arrivals::Trace(calls) => self.within(self.begins.after(calls.first()?.at)),
        }
    }

    /// When the next call comes after one that came at `now`.
    pub fn next(&mut self, workload: &Workload, now: Nanos) -> Option<Nanos> {
        let next = match &workload.arrivals {
            Arrivals::Closed { .. } => return None,
            Arrivals::Poisson(rate) => {
                let mean = rate.window().as_nanos() as f64 / rate.units() as f64;
                Nanos(now.0.saturating_add(exponential(mean, &mut self.dice)))
            }
            Arrivals::Bursts { every, size } => match self.burst {
                0 => {
                    self.burst = size.saturating_sub(1);
                    now.after(*every)
                }
                _ => {
                    self.burst -= 1;
                    now
                }
            },
            Arrivals::Trace(calls) => self.begins.after(calls.get(self.made as usize)?.at),
        };
        self.within(next)
    }

    /// When a worker whose call is over makes the next one.
    pub fn after_thinking(&mut self, think: &Spread, now: Nanos) -> Option<Nanos> {
        let next = Nanos(now.0.saturating_add(think.draw(&mut self.dice)));
        self.within(next)
    }

    /// The next call; `loop_` is the loop that makes it where workers belong to loops.
    pub fn draft(&mut self, workload: &Workload, loop_: Option<u64>) -> Draft {
        let number = self.made;
        self.made += 1;
        let traced = match &workload.arrivals {
            Arrivals::Trace(calls) => calls.get(number as usize),
            _ => None,
        };
        let loop_ = loop_.or((workload.loops > 0).then(|| number % workload.loops.max(1)));
        let real = self.cost(workload, traced);
        let expected = self.expected(workload, &real);
        Draft {
            loop_id: traced
                .and_then(|call| call.loop_id.clone())
                .or_else(|| loop_.map(|number| format!("{}-{number}", workload.name))),
            loop_type: traced.and_then(|call| call.loop_type.clone()).or_else(|| workload.loop_type.clone()),
            priority: traced.and_then(|call| call.priority).or(workload.priority),
            model: traced.and_then(|call| call.model.clone()).or_else(|| self.model(workload)),
            stated: workload
                .cost
                .iter()
                .map(|(dimension, _)| dimension)
                .chain(traced.iter().flat_map(|call| &call.cost).map(|(dimension, _)| dimension))
                .cloned()
                .collect(),
            real,
            expected,
            runs: traced.and_then(|call| call.runs),
        }
    }

    /// Whether a waiting call's caller will go away, and after how long.
    pub fn patience(&mut self, workload: &Workload) -> Option<Duration> {
        self.dice.happens(workload.cancel).then(|| workload.patience.draw_span(&mut self.dice))
    }

    fn cost(&mut self, workload: &Workload, traced: Option<&TracedCall>) -> Cost {
        let mut cost = Cost::new();
        for (dimension, spread) in &workload.cost {
            let drawn = spread.draw(&mut self.dice);
            let most = workload.max_tokens.filter(|_| *dimension == Dimension::OutputTokens);
            cost.set(dimension.clone(), most.map_or(drawn, |most| drawn.min(most)));
        }
        for (dimension, units) in traced.iter().flat_map(|call| &call.cost) {
            cost.set(dimension.clone(), *units);
        }
        cost
    }

    fn expected(&mut self, workload: &Workload, real: &Cost) -> Cost {
        let mut expected = real.clone();
        if workload.estimate == Spread::Exactly(100) {
            return expected;
        }
        let per_cent = u128::from(workload.estimate.draw(&mut self.dice));
        for (dimension, _) in workload.cost.iter().filter(|(known, _)| *known != Dimension::Requests) {
            let units = u128::from(real.units(dimension)) * per_cent / 100;
            expected.set(dimension.clone(), u64::try_from(units).unwrap_or(u64::MAX));
        }
        expected
    }

    fn model(&mut self, workload: &Workload) -> Option<String> {
        let all: f64 = workload.models.iter().map(|(_, weight)| weight).sum();
        let mut left = if workload.models.len() > 1 { self.dice.unit() * all } else { 0.0 };
        for (model, weight) in &workload.models {
            if left < *weight {
                return Some(model.clone());
            }
            left -= weight;
        }
        workload.models.last().map(|(model, _)| model.clone())
    }

    fn within(&self, at: Nanos) -> Option<Nanos> {
        (at < self.ends).then_some(at)
    }
}

impl Draft {
    /// A call of a workload that belongs to no loop and costs nothing special.
    pub fn plain(workload: &Workload) -> Draft {
        Draft {
            loop_id: None,
            loop_type: workload.loop_type.clone(),
            priority: workload.priority,
            model: None,
            stated: Vec::new(),
            real: Cost::new(),
            expected: Cost::new(),
            runs: None,
        }
    }

    pub fn key(&self, source: usize) -> DraftKey {
        DraftKey {
            source,
            loop_id: self.loop_id.clone(),
            loop_type: self.loop_type.clone(),
            priority: self.priority,
            model: self.model.clone(),
        }
    }

    /// A call of this kind, whatever it costs.
    pub fn call(&self, workload: &Workload) -> Call {
        let mut call = Call::to(&workload.service);
        if let Some(endpoint) = &workload.endpoint {
            call = call.endpoint(endpoint);
        }
        if let Some(model) = &self.model {
            call = call.model(model);
        }
        if let Some(key) = &workload.key {
            call = call.key(key);
        }
        if let Some(id) = &self.loop_id {
            call = call.loop_id(id);
        }
        if let Some(loop_type) = &self.loop_type {
            call = call.loop_type(loop_type);
        }
        if let Some(priority) = self.priority {
            call = call.priority(priority);
        }
        if workload.estimated { call.estimated() } else { call }
    }
}
