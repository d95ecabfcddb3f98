//! The engine in virtual time: calls come, time passes, and what became of each is written down.
#![allow(dead_code, reason = "each test file uses its own part")]

pub mod dice;
pub mod plain;

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::{Admission, Call, Config, Engine, Grant, Nanos, Refusal, Ticket, Verdict};

pub struct World {
    pub engine: Engine,
    pub now: Nanos,
    tickets: BTreeMap<Ticket, usize>,
    pub held: BTreeMap<usize, Grant>,
    /// When each call went, in the order in which they went.
    pub went: Vec<(usize, Nanos)>,
    pub refused: BTreeMap<usize, Refusal>,
    calls: usize,
}

impl World {
    pub fn new(config: &str) -> World {
        let config = Config::parse(config, "test.toml").unwrap_or_else(|errors| panic!("{errors}"));
        World::with(&config)
    }

    pub fn with(config: &Config) -> World {
        let engine =
            Engine::new(config, Nanos::ZERO, Duration::from_secs(1_700_000_000)).expect("valid config");
        World {
            engine,
            now: Nanos::ZERO,
            tickets: BTreeMap::new(),
            held: BTreeMap::new(),
            went: Vec::new(),
            refused: BTreeMap::new(),
            calls: 0,
        }
    }

    /// Makes a call that waits up to a day; its number.
    pub fn call(&mut self, call: Call) -> usize {
        self.call_within(call, Duration::from_secs(100 * 86_400))
    }

    pub fn call_within(&mut self, call: Call, timeout: Duration) -> usize {
        let number = self.calls;
        self.calls += 1;
        match self.engine.enqueue(&call, timeout, self.now) {
            Ok(Admission::Granted(grant)) => self.note(number, Verdict::Granted(grant)),
            Ok(Admission::Waiting(ticket)) => drop(self.tickets.insert(ticket, number)),
            Err(refusal) => self.note(number, Verdict::Refused(refusal)),
        }
        self.collect();
        number
    }

    /// Leaves a number out, for a call that is not made.
    pub fn skip(&mut self) {
        self.calls += 1;
    }

    pub fn calls(&mut self, count: usize, call: &Call) -> Vec<usize> {
        (0..count).map(|_| self.call(call.clone())).collect()
    }

    pub fn try_call(&mut self, call: &Call) -> Result<(), Refusal> {
        let number = self.calls;
        self.calls += 1;
        let grant = self.engine.try_admit(call, self.now)?;
        self.note(number, Verdict::Granted(grant));
        self.collect();
        Ok(())
    }

    pub fn withdraw(&mut self, number: usize) {
        let ticket = self.ticket(number);
        self.tickets.remove(&ticket);
        assert!(self.engine.withdraw(ticket, self.now));
        self.collect();
    }

    pub fn finish(&mut self, number: usize) {
        let grant = self.held.remove(&number).expect("a call that went");
        self.engine.finish(grant, None, self.now);
        self.collect();
    }

    pub fn waits(&self, number: usize) -> bool {
        self.tickets.values().any(|known| *known == number)
    }

    pub fn ticket(&self, number: usize) -> Ticket {
        *self.tickets.iter().find(|(_, known)| **known == number).expect("a waiting call").0
    }

    /// Lets time pass to `millis` after the start, doing what is due on the way.
    pub fn run_to(&mut self, millis: f64) {
        self.run_to_nanos(Nanos((millis * 1e6) as u64));
    }

    pub fn run_to_nanos(&mut self, until: Nanos) {
        let mut steps = 0;
        while let Some(wake) = self.engine.next_wake().filter(|wake| *wake <= until) {
            self.now = self.now.max(wake);
            self.engine.advance(self.now);
            self.collect();
            steps += 1;
            assert!(steps < 2_000_000, "the engine wants to be woken for ever at {:?}", self.now);
        }
        self.now = self.now.max(until);
    }

    pub fn collect(&mut self) {
        let verdicts: Vec<_> = self.engine.verdicts().collect();
        for (ticket, verdict) in verdicts {
            let number = self.tickets.remove(&ticket).expect("a known ticket");
            self.note(number, verdict);
        }
    }

    fn note(&mut self, number: usize, verdict: Verdict) {
        match verdict {
            Verdict::Granted(grant) => {
                self.went.push((number, self.now));
                self.held.insert(number, grant);
            }
            Verdict::Refused(refusal) => drop(self.refused.insert(number, refusal)),
        }
    }

    /// When a call went, in milliseconds.
    pub fn went_at(&self, number: usize) -> Option<f64> {
        self.went.iter().find(|(known, _)| *known == number).map(|(_, at)| at.0 as f64 / 1e6)
    }

    pub fn order(&self) -> Vec<usize> {
        self.went.iter().map(|(number, _)| *number).collect()
    }
}
