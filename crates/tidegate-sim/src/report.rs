//! What a simulation found out, in numbers. How they are shown is left to whoever shows them.

use std::time::Duration;

use tidegate_core::Priority;

/// One run.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// How long calls came.
    pub duration: Duration,
    /// Events played.
    pub events: u64,
    /// The most that waited at one time.
    pub peak_waiting: usize,
    /// By service, in the order of their names.
    pub services: Vec<ServiceReport>,
    /// By base priority, the highest first; only those that called.
    pub priorities: Vec<GroupReport>,
    /// By workload, in the order of the scenario.
    pub workloads: Vec<GroupReport>,
    /// By loop, by name. Above [`MAX_LOOPS`] only those that got the most and the least.
    pub loops: Vec<LoopReport>,
    /// How many loops there were.
    pub loop_count: usize,
    /// By time.
    pub series: Series,
    /// A promise that was not kept, if checks were on.
    pub violation: Option<Violation>,
    /// A number that stands for everything that happened: equal runs have equal digests.
    pub digest: u64,
    /// The last events, oldest first, as far as they were kept.
    pub story: Vec<String>,
}

/// Loops that a report names at most.
pub const MAX_LOOPS: usize = 64;

/// What became of a service's calls, at the gate and behind it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServiceReport {
    /// Its name.
    pub name: String,
    /// Our limits, as far as they count units over time.
    pub limits: Vec<LimitReport>,
    /// Limits of the upstream.
    pub upstream: Vec<LimitReport>,
    /// Requests that reached the upstream.
    pub sent: u64,
    /// Those it accepted.
    pub accepted: u64,
    /// Those it refused with a 429.
    pub rejected: u64,
    /// Those that failed with a 5xx, outages included.
    pub failed: u64,
    /// Replies that never came back, or whose connection broke.
    pub lost: u64,
    /// Calls that were made again, once for each time.
    pub retries: u64,
    /// Backoff windows that opened.
    pub windows: u64,
    /// How long at least one of them was open.
    pub in_windows: Duration,
    /// How often its breakers opened.
    pub breaker_openings: u64,
    /// The run in the parts that the scenario names, as its upstream counted; from the start to the end. None
    /// without an upstream.
    pub phases: Vec<Phase>,
}

/// A part of the run, as an upstream counted it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Phase {
    /// When it begins.
    pub from: Duration,
    /// When it ends.
    pub until: Duration,
    /// Requests that reached the upstream.
    pub sent: u64,
    /// Those it accepted.
    pub accepted: u64,
    /// Those it refused with a 429.
    pub rejected: u64,
    /// Those of them that came after the reply to the first of them was back and the wait over that it told, if
    /// it did: whoever heeds replies and is told when to come back has none.
    pub rejected_late: u64,
    /// Limits of the upstream.
    pub upstream: Vec<LimitReport>,
}

/// How much of a limit was used after the warm-up.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitReport {
    /// Its name.
    pub name: String,
    /// Units that could have been spent: N/W times the time.
    pub supply: f64,
    /// Units that were.
    pub used: u64,
    /// Units that others on the same key used; of an upstream's limit only.
    pub neighbours: u64,
}

impl LimitReport {
    /// The share that was used; bursts can lift it above 1.
    #[must_use]
    pub fn share(&self) -> f64 {
        if self.supply > 0.0 { self.used as f64 / self.supply } else { 0.0 }
    }
}

/// What became of a group of calls at the gate.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupReport {
    /// Who.
    pub name: String,
    /// Calls that came, retries not counted again.
    pub calls: u64,
    /// Grants.
    pub went: u64,
    /// Calls that the upstream answered well.
    pub succeeded: u64,
    /// Refused at arrival, or when they came back: hopeless, too large, a breaker is open, no service.
    pub refused: u64,
    /// Waited in vain.
    pub timed_out: u64,
    /// Pushed out of a full queue.
    pub shed: u64,
    /// Their caller went away.
    pub cancelled: u64,
    /// Refused by the upstream, failed or lost, for good.
    pub given_up: u64,
    /// Lost in a crash.
    pub crashed: u64,
    /// Neither gone nor ended when the time was up.
    pub unfinished: u64,
    /// How long those waited that went.
    pub wait: Waits,
}

/// Percentiles of waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Half waited no longer.
    pub p50: Duration,
    /// All but one in a hundred.
    pub p99: Duration,
    /// The longest.
    pub max: Duration,
}

/// What one loop got.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopReport {
    /// Its id.
    pub name: String,
    /// Its workload.
    pub workload: String,
    /// Grants.
    pub went: u64,
    /// Its part of all grants of its service.
    pub share: f64,
}

/// The run by time, in equal parts, for pictures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// How long a part is.
    pub step: Duration,
    /// By service, in the order of the report's.
    pub services: Vec<ServiceSeries>,
    /// Spans in which a process was down.
    pub down: Vec<(Duration, Duration)>,
}

/// One service by time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServiceSeries {
    /// Grants, by priority from low to critical.
    pub granted: Vec<[u64; 4]>,
    /// Refused by the upstream.
    pub rejected: Vec<u64>,
    /// Failed by the upstream.
    pub failed: Vec<u64>,
    /// The most that waited.
    pub waiting: Vec<u64>,
    /// What the tightest of our limits on requests allows in a part; nothing if there is none.
    pub allowed: Vec<Option<f64>>,
    /// Spans in which the service's backoff windows were open.
    pub backoff: Vec<(Duration, Duration)>,
}

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which of the promises.
    pub invariant: Invariant,
    /// What was seen.
    pub message: String,
    /// The number of the event that showed it: the run up to it is the shortest that does.
    pub event: u64,
    /// When.
    pub at: Duration,
    /// The last events up to it, oldest first.
    pub story: Vec<String>,
}

/// What must always hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Invariant {
    /// 1: no limit is overshot.
    NoOvershoot,
    /// 2: a refused call changed nothing.
    AllOrNothing,
    /// 3: every permit is released exactly once.
    Conservation,
    /// 4: a waiting call that fits goes.
    WorkConserving,
    /// 5: no grant moves the booking of a higher rank later.
    Rank,
    /// 6: nobody starves, shares are fair, nobody waits beyond the timeout.
    NoStarvation,
    /// 7: the same seed gives the same run.
    Determinism,
    /// Who is asked to stay away does: no call goes through a backoff window that is shut or a breaker that is
    /// open, and no more probes go than there are.
    StayingAway,
}

impl Invariant {
    /// What it is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Invariant::NoOvershoot => "no overshoot",
            Invariant::AllOrNothing => "all or nothing",
            Invariant::Conservation => "conservation",
            Invariant::WorkConserving => "work-conserving",
            Invariant::Rank => "rank",
            Invariant::NoStarvation => "no starvation",
            Invariant::Determinism => "determinism",
            Invariant::StayingAway => "staying away",
        }
    }
}

impl Report {
    /// The group of a priority.
    #[must_use]
    pub fn priority(&self, priority: Priority) -> Option<&GroupReport> {
        self.priorities.iter().find(|group| group.name == priority.name())
    }

    /// A service by name.
    #[must_use]
    pub fn service(&self, name: &str) -> Option<&ServiceReport> {
        self.services.iter().find(|service| service.name == name)
    }
}
