//! What all connections share: the model, the clock that it is asked by, and the records.
//!
//! One lock holds all of it, so records stand in exactly the order in which requests were counted.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tidegate_core::{Cost, Nanos};

use super::errors::Refusal;
use super::record::{Record, ServerCounts};
use super::{Asked, Options};
use crate::dice::Dice;
use crate::scenario::{HeaderStyle, UpstreamSpec};
use crate::spread::Spread;
use crate::upstream::{Answer, Headers, Held, Upstream};

#[derive(Debug)]
pub(super) struct Shared {
    pub style: HeaderStyle,
    pub patience: Duration,
    begun: Instant,
    jitter: Spread,
    latency: Spread,
    lost: f64,
    keep: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(super) struct State {
    pub upstream: Upstream,
    pub records: VecDeque<Record>,
    counts: ServerCounts,
    dice: Dice,
    made: u64,
}

/// What is done with a request.
#[derive(Debug)]
pub(super) enum Decision {
    Accepted(Accepted),
    Refused(Refusal),
    Failed { status: u16, headers: Headers },
}

#[derive(Debug)]
pub(super) struct Accepted {
    pub running: Running,
    pub headers: Headers,
    pub takes: Duration,
    pub lost: bool,
}

impl Shared {
    pub fn new(spec: &UpstreamSpec, options: &Options) -> Shared {
        Shared {
            style: spec.headers,
            patience: options.patience,
            begun: Instant::now(),
            jitter: spec.jitter,
            latency: spec.latency,
            lost: spec.lost,
            keep: options.keep,
            state: Mutex::new(State {
                upstream: Upstream::new(spec, options.seed, Nanos::ZERO),
                records: VecDeque::new(),
                counts: ServerCounts::default(),
                dice: Dice::part(options.seed, "replies", 0),
                made: 0,
            }),
        }
    }

    pub fn now(&self) -> Nanos {
        Nanos::ZERO.after(self.begun.elapsed())
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        // What is inside is whole after each step, so another thread's panic takes nothing away.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn draw_jitter(&self) -> Duration {
        self.jitter.draw_span(&mut self.state().dice)
    }

    /// Decides about a request and records it.
    pub fn receive(self: &Arc<Shared>, asked: &Asked, mut record: Record) -> Decision {
        let cost = asked.cost(self.style);
        let mut state = self.state();
        // Inside the lock: times must not go backwards.
        let now = self.now();
        let answer = state.upstream.receive(&cost, now);
        let by = if let Answer::Refused(by) = &answer { Some(*by) } else { None };
        let headers = state.upstream.headers(by.as_ref(), now, unix_now());
        record.at = now.since(Nanos::ZERO);
        record.cost = cost;
        match answer {
            Answer::Accepted(held) => {
                let takes = self.latency.draw_span(&mut state.dice).mul_f64(state.upstream.slowness());
                let lost = state.dice.happens(self.lost);
                record.status = (!lost).then_some(200);
                state.counts.lost += u64::from(lost);
                state.counts.running += 1;
                let number = state.keep(record, self.keep);
                let settles = asked.settles(self.style);
                let running = Running { shared: self.clone(), held: Some(held), settles, number };
                Decision::Accepted(Accepted { running, headers, takes, lost })
            }
            Answer::Refused(by) => {
                let status = state.upstream.refused_status(&by);
                let limit = state.upstream.limits[by.limit].spec.clone();
                let requested = record.cost.units(&limit.dimension);
                let remaining = state.upstream.remaining(by.limit, now);
                record.status = Some(status);
                state.keep_ended(record, self.keep);
                Decision::Refused(Refusal {
                    status,
                    headers,
                    style: self.style,
                    limit,
                    by,
                    remaining,
                    requested,
                })
            }
            Answer::Failed(status) => {
                record.status = Some(status);
                state.keep_ended(record, self.keep);
                // What is down knows nothing about limits.
                Decision::Failed { status, headers: if status == 503 { Vec::new() } else { headers } }
            }
        }
    }

    /// Records what reaches no limit.
    pub fn malformed(&self, mut record: Record, status: u16) {
        let mut state = self.state();
        record.at = self.now().since(Nanos::ZERO);
        record.status = Some(status);
        state.counts.malformed += 1;
        state.keep_ended(record, self.keep);
    }
}

impl State {
    pub fn counts(&self) -> ServerCounts {
        ServerCounts { upstream: self.upstream.counts().clone(), ..self.counts.clone() }
    }

    fn keep_ended(&mut self, mut record: Record, most: usize) {
        record.ended = Some(record.at);
        record.completed = true;
        self.keep(record, most);
    }

    fn keep(&mut self, mut record: Record, most: usize) -> u64 {
        if let Some(status) = record.status {
            *self.counts.statuses.entry(status).or_default() += 1;
        }
        record.number = self.made;
        self.made += 1;
        self.records.push_back(record);
        while self.records.len() > most {
            self.records.pop_front();
        }
        self.made - 1
    }

    fn record(&mut self, number: u64) -> Option<&mut Record> {
        let first = self.records.front()?.number;
        self.records.get_mut(usize::try_from(number.checked_sub(first)?).ok()?)
    }
}

/// An accepted request until it ends: its slot comes back even if the client goes away.
#[derive(Debug)]
pub(super) struct Running {
    shared: Arc<Shared>,
    held: Option<Held>,
    settles: Cost,
    number: u64,
}

impl Running {
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The answer is whole.
    pub fn finish(mut self) {
        let settles = self.settles.clone();
        self.end(&settles, true);
    }

    /// The work was done and paid for, but its answer gets lost.
    pub fn lose(mut self) {
        let settles = self.settles.clone();
        self.end(&settles, false);
    }

    fn end(&mut self, settles: &Cost, completed: bool) {
        let Some(held) = self.held.take() else { return };
        let mut state = self.shared.state();
        let now = self.shared.now();
        state.upstream.end(held, settles, now);
        state.counts.running -= 1;
        if let Some(record) = state.record(self.number) {
            record.ended = Some(now.since(Nanos::ZERO));
            record.completed = completed;
        }
    }
}

impl Drop for Running {
    /// The client went away: what was counted on arrival stays.
    fn drop(&mut self) {
        self.end(&Cost::nothing(), false);
    }
}

pub(super) fn unix_now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
