//! The real engine in virtual time.
//!
//! [`run`] takes a config and a list of calls that arrive, each at its time, and plays them through
//! [`tidegate_core::Engine`] event by event: an arrival, the end of a call, a time at which the engine asked
//! to be woken. An hour takes as long as its events do, and the same input gives the same output, call for
//! call.

#![warn(missing_docs)]

mod check;
mod dice;
mod file;
mod random;
mod report;
mod scenario;
pub mod show;
mod spread;
pub mod upstream;
mod world;

pub use dice::Dice;
pub use file::{ScenarioError, ScenarioFile};
pub use report::*;
pub use scenario::*;
pub use spread::Spread;
pub use world::{Options, simulate};

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use tidegate_core::engine::ChangeError;
use tidegate_core::{Admission, Call, Config, Engine, Grant, Nanos, Refusal, Ticket, Verdict};

/// A call that comes.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// When, from the start.
    pub at: Duration,
    /// What.
    pub call: Call,
    /// How long it may wait.
    pub timeout: Duration,
    /// How long it runs once it may go.
    pub runs: Duration,
}

/// What became of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It went after so long.
    Went {
        /// How long it waited.
        waited: Duration,
    },
    /// It was refused.
    Refused(Refusal),
}

enum Event {
    Arrive(usize),
    End(Grant),
}

/// Plays `arrivals` under `config`; what became of each, in the same order.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::{Call, Config};
/// use tidegate_sim::{Arrival, Fate, run};
///
/// let config = Config::parse("[services.api]\nrequests = \"60/min\"\n", "example")?;
/// let second = Duration::from_secs(1);
/// let arrival = Arrival { at: Duration::ZERO, call: Call::to("api"), timeout: 60 * second, runs: second };
/// let fates = run(&config, &vec![arrival; 3])?;
/// assert_eq!(fates[2], Fate::Went { waited: 2 * second });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the config holds what cannot be.
pub fn run(config: &Config, arrivals: &[Arrival]) -> Result<Vec<Fate>, ChangeError> {
    let mut world = World {
        engine: Engine::new(config, Nanos::ZERO, Duration::ZERO)?,
        now: Nanos::ZERO,
        events: BinaryHeap::new(),
        pending: Vec::new(),
        made: 0,
        free: Vec::new(),
        tickets: std::collections::HashMap::new(),
        fates: vec![None; arrivals.len()],
    };
    for (index, arrival) in arrivals.iter().enumerate() {
        world.schedule(Nanos::ZERO.after(arrival.at), Event::Arrive(index));
    }
    while world.step(arrivals) {}
    // Whoever still waits when nothing more can happen waits for a slot that never comes back.
    Ok(world.fates.into_iter().map(|fate| fate.unwrap_or(Fate::Refused(never()))).collect())
}

struct World {
    engine: Engine,
    now: Nanos,
    /// Time, then the order in which they were made.
    events: BinaryHeap<Reverse<(Nanos, usize, usize)>>,
    pending: Vec<Option<Event>>,
    made: usize,
    free: Vec<usize>,
    tickets: std::collections::HashMap<Ticket, usize>,
    fates: Vec<Option<Fate>>,
}

impl World {
    fn schedule(&mut self, at: Nanos, event: Event) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.pending.push(None);
            self.pending.len() - 1
        });
        self.pending[place] = Some(event);
        self.made += 1;
        self.events.push(Reverse((at, self.made, place)));
    }

    /// Plays the next event; says whether there was one.
    fn step(&mut self, arrivals: &[Arrival]) -> bool {
        let next = self.events.peek().map(|Reverse((at, ..))| *at);
        let wake = self.engine.next_wake().filter(|wake| next.is_none_or(|next| *wake <= next));
        if let Some(wake) = wake {
            self.now = self.now.max(wake);
            self.engine.advance(self.now);
        } else if let Some(Reverse((at, _, place))) = self.events.pop() {
            self.now = self.now.max(at);
            self.free.push(place);
            match self.pending[place].take() {
                Some(Event::Arrive(index)) => self.arrive(index, &arrivals[index], arrivals),
                Some(Event::End(grant)) => self.engine.finish(grant, None, self.now),
                None => {}
            }
        } else {
            return false;
        }
        let verdicts: Vec<_> = self.engine.verdicts().collect();
        for (ticket, verdict) in verdicts {
            if let Some(index) = self.tickets.remove(&ticket) {
                self.decide(index, verdict, arrivals);
            }
        }
        true
    }

    fn arrive(&mut self, index: usize, arrival: &Arrival, arrivals: &[Arrival]) {
        match self.engine.enqueue(&arrival.call, arrival.timeout, self.now) {
            Ok(Admission::Granted(grant)) => self.decide(index, Verdict::Granted(grant), arrivals),
            Ok(Admission::Waiting(ticket)) => drop(self.tickets.insert(ticket, index)),
            Err(refusal) => self.decide(index, Verdict::Refused(refusal), arrivals),
        }
    }

    fn decide(&mut self, index: usize, verdict: Verdict, arrivals: &[Arrival]) {
        self.fates[index] = Some(match verdict {
            Verdict::Granted(grant) => {
                let waited = self.now.since(Nanos::ZERO.after(arrivals[index].at));
                self.schedule(self.now.after(arrivals[index].runs), Event::End(grant));
                Fate::Went { waited }
            }
            Verdict::Refused(refusal) => Fate::Refused(refusal),
        });
    }
}

fn never() -> Refusal {
    Refusal { reason: tidegate_core::Reason::Timeout, limit: None, wait: None, reset: None }
}
