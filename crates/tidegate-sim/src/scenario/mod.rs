//! What is simulated: a config, the upstreams behind it, the callers, and what goes wrong.

mod reserves;
mod upstream;

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::{Config, Dimension, Priority, Rate};

use crate::spread::Spread;

pub use reserves::Reserves;
pub use upstream::{HeaderStyle, Model, Neighbour, Outage, UpstreamChange, UpstreamLimit, UpstreamSpec};

/// A whole simulation, but for its seed.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The limits and rules of the gate.
    pub config: Config,
    /// How long calls come. What still waits or runs then is given up.
    pub duration: Duration,
    /// What is used is counted from here on.
    pub warmup: Duration,
    /// Where new parts of the run begin, in order: what upstreams count is told for each.
    pub phases: Vec<Duration>,
    /// What really limits, by service. A service without one accepts everything at once.
    pub upstreams: BTreeMap<String, UpstreamSpec>,
    /// The callers.
    pub workloads: Vec<Workload>,
    /// What goes wrong on our side.
    pub faults: Faults,
    /// Whether a new call waits for a breaker that is open, as in a sidecar; else it is refused at once, as in the
    /// library.
    pub wait_for_breakers: bool,
}

/// A kind of caller.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// What reports call it.
    pub name: String,
    /// Which service it calls.
    pub service: String,
    /// Which endpoint, if that matters.
    pub endpoint: Option<String>,
    /// Which models, each with how often it is called compared with the others.
    pub models: Vec<(String, f64)>,
    /// With which API key.
    pub key: Option<String>,
    /// How many loops of this kind there are; with none its calls have no loop id.
    pub loops: u64,
    /// Their loop type.
    pub loop_type: Option<String>,
    /// Their priority, if they state one.
    pub priority: Option<Priority>,
    /// When they call.
    pub arrivals: Arrivals,
    /// What a call really costs, by dimension; one request if it says nothing.
    pub cost: Vec<(Dimension, Spread)>,
    /// The most output tokens that a call asks for, and gets.
    pub max_tokens: Option<u64>,
    /// Whether it is only known at the end how many they are.
    pub unknown_output: bool,
    /// What it is expected to cost, in per cent of what it really does.
    pub estimate: Spread,
    /// Whether that is said to be an estimate, and so is clamped to what can ever fit.
    pub estimated: bool,
    /// How long a call may wait; the service's own if it says nothing.
    pub timeout: Option<Duration>,
    /// The share of calls whose caller goes away while they wait, and after how long.
    pub cancel: f64,
    /// How long such a caller waits.
    pub patience: Spread,
    /// Whether a call may be made again though it may have been done already.
    pub repeatable: bool,
    /// From when on it calls.
    pub from: Duration,
    /// Until when, if it stops before the end.
    pub until: Option<Duration>,
}

impl Workload {
    /// Callers of `service` without any loops, limits or manners.
    #[must_use]
    pub fn new(name: &str, service: &str, arrivals: Arrivals) -> Workload {
        Workload {
            name: name.into(),
            service: service.into(),
            endpoint: None,
            models: Vec::new(),
            key: None,
            loops: 0,
            loop_type: None,
            priority: None,
            arrivals,
            cost: Vec::new(),
            max_tokens: None,
            unknown_output: false,
            estimate: Spread::Exactly(100),
            estimated: false,
            timeout: None,
            cancel: 0.0,
            patience: Spread::ZERO,
            repeatable: true,
            from: Duration::ZERO,
            until: None,
        }
    }
}

/// When calls come.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// Each of so many workers (of each loop) calls, waits for the reply, thinks, and calls again.
    Closed {
        /// Workers of each loop.
        workers: u64,
        /// Between a reply and the next call.
        think: Spread,
        /// How many calls each worker makes, if it ever ends.
        calls: Option<u64>,
    },
    /// At random, so often on average, all loops together.
    Poisson(Rate),
    /// So many at once, again and again.
    Bursts {
        /// From one burst to the next.
        every: Duration,
        /// Calls in each.
        size: u64,
    },
    /// As recorded.
    Trace(Vec<TracedCall>),
}

/// A recorded call. What it does not say, the workload does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TracedCall {
    /// When, from the start of the workload.
    pub at: Duration,
    /// Its loop.
    pub loop_id: Option<String>,
    /// Its loop type.
    pub loop_type: Option<String>,
    /// Its priority.
    pub priority: Option<Priority>,
    /// Its model.
    pub model: Option<String>,
    /// What it cost, by dimension.
    pub cost: Vec<(Dimension, u64)>,
    /// How long it ran.
    pub runs: Option<Duration>,
}

/// What goes wrong on our side of the wire.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// The process dies: what waits and runs is lost, and memory begins anew.
    pub crashes: Vec<Crash>,
    /// The wall clock is set.
    pub clock_steps: Vec<ClockStep>,
    /// Limits that spend from a lender that is slow, fails or forgets.
    pub lenders: Vec<LenderSpec>,
    /// How late timers fire.
    pub timer_late: Option<Spread>,
    /// Limits of ours that are changed.
    pub changes: Vec<LiveChange>,
    /// Backoff windows that are opened or ended by hand.
    pub windows: Vec<WindowByHand>,
}

/// A process that dies and comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    /// When it dies.
    pub at: Duration,
    /// How long until it is back. Calls that come meanwhile are refused.
    pub down: Duration,
}

/// The wall clock jumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockStep {
    /// When.
    pub at: Duration,
    /// By how many milliseconds, forwards or backwards.
    pub by_ms: i64,
}

/// A lender of units to one limit.
#[derive(Clone, Debug, PartialEq)]
pub struct LenderSpec {
    /// Which limit, by name.
    pub limit: String,
    /// Units that it lends at a time.
    pub size: u64,
    /// How long it takes to answer.
    pub delay: Spread,
    /// The share of requests that fail.
    pub fails: f64,
    /// The share of requests that are never answered.
    pub forgets: f64,
    /// How long what it lends may be used.
    pub usable: Duration,
}

/// A limit of ours that becomes another.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveChange {
    /// When.
    pub at: Duration,
    /// Which, by name.
    pub limit: String,
    /// What it becomes.
    pub to: NewLimit,
}

/// What a limit becomes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NewLimit {
    /// Another rate.
    Rate(Rate),
    /// Another bound in flight.
    InFlight(u64),
}

/// A backoff window that is opened or ended by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowByHand {
    /// When.
    pub at: Duration,
    /// Whose it is: a limit's name or the level before it.
    pub key: String,
    /// How long it is open from then on; `None` ends it.
    pub lasts: Option<Duration>,
}
