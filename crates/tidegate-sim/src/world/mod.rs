//! The event loop: callers, the real engine, the wire and the upstreams, in virtual time.
//!
//! ```text
//!  source ──► arrive ──► engine ──► went ──► wire ──► upstream ──► wire ──► ended ──► source
//!                          ▲                                          │
//!                          ├── wake (a timer of the engine's) ◄───────┤ settle
//!                          └── again (after a pause) ◄────────────────┘
//! ```
//! Everything that will happen stands in one heap, by time and then by the order in which it was foreseen. An
//! hour takes as long as its events do; what is kept is who waits, who runs, and sums.

mod calls;
mod digest;
mod faults;
mod histogram;
mod lessons;
mod outcome;
mod output;
mod phases;
mod plan;
mod retries;
mod source;
mod spans;
mod story;
mod tally;
mod trouble;
mod wire;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::Duration;

use tidegate_core::engine::ChangeError;
use tidegate_core::learn::Outputs;
use tidegate_core::{Engine, Nanos, Reason, Ticket, Verdict};

use self::calls::CallState;
use self::phases::Phases;
use self::plan::{CallId, Event, Planned, Worker};
use self::retries::Retries;
use self::source::{DraftKey, Source};
use self::story::{Line, Story};
use self::tally::Tally;
use self::trouble::Trouble;
use crate::check::{Broken, Happening, Judge, Ledger};
use crate::dice::Dice;
use crate::report::{Invariant, Report, Violation};
use crate::routes::Routes;
use crate::scenario::{Arrivals, Scenario};
use crate::upstream::Upstream;

/// How a scenario is played.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether every promise is checked at every event.
    pub checks: bool,
    /// Ends the run after this event.
    pub until_event: Option<u64>,
    /// How many of the last events a violation tells.
    pub story: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { checks: true, until_event: None, story: 100 }
    }
}

/// Unix time at the start of a simulation, so that runs do not depend on when they are made.
const UNIX: Duration = Duration::from_secs(1_767_225_600);

/// How many events pass between two looks at the state of all limits, for the digest.
const EVENTS_A_LOOK: u64 = 64;

/// Plays a scenario. The same seed gives the same report, to the last bit.
///
/// # Errors
/// If the config holds what cannot be, or a change or a lender names a limit that is not there.
pub fn simulate(scenario: &Scenario, seed: u64, options: &Options) -> Result<Report, ChangeError> {
    let mut world = World::new(scenario, seed, options)?;
    world.begin();
    let violation = match world.play() {
        Ok(()) => None,
        Err(Stop::Broken(violation)) => Some(violation),
        Err(Stop::Wrong(error)) => return Err(error),
    };
    Ok(world.report(violation))
}

/// Plays a scenario twice: with every promise checked, and once more to see that the same seed gives the same run.
///
/// # Errors
/// As [`simulate`].
pub fn prove(scenario: &Scenario, seed: u64, options: &Options) -> Result<Report, ChangeError> {
    let mut report = simulate(scenario, seed, options)?;
    if options.checks && report.violation.is_none() {
        let again = simulate(scenario, seed, &Options { checks: false, story: 0, ..options.clone() })?;
        if again.digest != report.digest {
            report.violation = Some(Violation {
                invariant: Invariant::Determinism,
                message: format!("another run of seed {seed} went differently"),
                event: report.events,
                at: report.duration,
                story: Vec::new(),
            });
        }
    }
    Ok(report)
}

/// Why a run ends before its time.
#[derive(Debug)]
pub(crate) enum Stop {
    Broken(Violation),
    Wrong(ChangeError),
}

pub(crate) struct World<'s> {
    scenario: &'s Scenario,
    seed: u64,
    options: &'s Options,
    now: Nanos,
    /// Absent while the process is down.
    engine: Option<Engine>,
    judge: Option<Judge>,
    ledger: Ledger,
    retries: Retries,
    trouble: Trouble,
    routes: Routes,
    kinds: HashMap<DraftKey, Option<u32>>,
    loops: HashMap<String, u32>,
    loop_names: Vec<String>,
    sources: Vec<Source>,
    /// By the place of their service in the config.
    upstreams: Vec<Option<Upstream>>,
    /// What they had counted when the warm-up was over, and where the parts of the run begin.
    warm: Phases,
    phases: Phases,
    service_names: Vec<String>,
    plan: BinaryHeap<Reverse<Planned>>,
    planned: u64,
    events: u64,
    calls: Vec<CallState>,
    free: Vec<u32>,
    tickets: HashMap<Ticket, u32>,
    arrived: u64,
    /// The engine's next wish to be woken, and when that will be.
    armed: Option<(Nanos, Nanos)>,
    clock_offset_ms: i64,
    tally: Tally,
    story: Story,
    wire: Dice,
    timers: Dice,
    lenders: Dice,
    costs: Vec<u64>,
    /// How much output calls have had.
    outputs: Outputs,
}

impl<'s> World<'s> {
    fn new(scenario: &'s Scenario, seed: u64, options: &'s Options) -> Result<World<'s>, ChangeError> {
        let names: Vec<String> = scenario.config.services.keys().cloned().collect();
        let upstream = |name: &String| {
            let spec = scenario.upstreams.get(name)?;
            Some(Upstream::new(spec, Dice::part(seed, name, 0).draw(), Nanos::ZERO))
        };
        let source = |(number, workload)| Source::new(workload, number, seed, scenario.duration);
        let mut world = World {
            scenario,
            seed,
            options,
            now: Nanos::ZERO,
            engine: None,
            judge: None,
            ledger: Ledger::default(),
            retries: Retries::new(&scenario.config, seed),
            trouble: Trouble::default(),
            routes: Routes::default(),
            kinds: HashMap::new(),
            loops: HashMap::new(),
            loop_names: vec![String::new()],
            sources: scenario.workloads.iter().enumerate().map(source).collect(),
            upstreams: names.iter().map(upstream).collect(),
            warm: Phases::new(&[scenario.warmup], names.len()),
            phases: Phases::new(&scenario.phases, names.len()),
            tally: Tally::new(scenario.workloads.len(), &names, scenario.duration, scenario.warmup),
            service_names: names,
            plan: BinaryHeap::new(),
            planned: 0,
            events: 0,
            calls: Vec::new(),
            free: Vec::new(),
            tickets: HashMap::new(),
            arrived: 0,
            armed: None,
            clock_offset_ms: 0,
            story: Story::new(options.story),
            wire: Dice::part(seed, "wire", 0),
            timers: Dice::part(seed, "timers", 0),
            lenders: Dice::part(seed, "lenders", 0),
            costs: Vec::new(),
            outputs: Outputs::default(),
        };
        world.start_engine()?;
        Ok(world)
    }

    /// Foresees what is known from the beginning.
    fn begin(&mut self) {
        let scenario = self.scenario;
        for (number, workload) in scenario.workloads.iter().enumerate() {
            let Some(first) = self.sources[number].first(workload) else { continue };
            match workload.arrivals {
                Arrivals::Closed { workers, .. } => {
                    for loop_ in 0..workload.loops.max(1) {
                        for worker in 0..workers {
                            let worker = Worker { loop_, number: worker, made: 0 };
                            self.foresee(first, Event::Work(number, worker));
                        }
                    }
                }
                _ => self.foresee(first, Event::Arrive(number)),
            }
        }
        self.meet_limits();
        let faults = &scenario.faults;
        for (number, crash) in faults.crashes.iter().enumerate() {
            self.foresee(Nanos::ZERO.after(crash.at), Event::Crash(number));
        }
        for (number, step) in faults.clock_steps.iter().enumerate() {
            self.foresee(Nanos::ZERO.after(step.at), Event::StepClock(number));
        }
        for (number, change) in faults.changes.iter().enumerate() {
            self.foresee(Nanos::ZERO.after(change.at), Event::Change(number));
        }
        for (number, window) in faults.windows.iter().enumerate() {
            self.foresee(Nanos::ZERO.after(window.at), Event::Window(number));
        }
    }

    /// Gets to know the limits that calls will pass, so that they are counted from the beginning.
    fn meet_limits(&mut self) {
        let scenario = self.scenario;
        for workload in &scenario.workloads {
            let models = workload.models.iter().map(|(model, _)| Some(model.clone()));
            for model in models.chain([None]) {
                let call = source::Draft { model, ..source::Draft::plain(workload) }.call(workload);
                if let Some(engine) = &mut self.engine {
                    self.routes.meet(&call, engine, self.now);
                }
            }
        }
        self.tally.limits_are(&self.routes, self.now);
    }

    fn foresee(&mut self, at: Nanos, event: Event) {
        self.planned += 1;
        self.plan.push(Reverse(Planned { at: at.max(self.now), seq: self.planned, event }));
    }

    fn play(&mut self) -> Result<(), Stop> {
        let end = Nanos::ZERO.after(self.scenario.duration);
        loop {
            if self.options.until_event.is_some_and(|last| self.events >= last) {
                return Ok(());
            }
            let wake = self.arm();
            let next = self.plan.peek().map(|Reverse(planned)| planned.at);
            let wakes = wake.is_some_and(|wake| next.is_none_or(|next| wake <= next));
            let Some(at) = (if wakes { wake } else { next }).filter(|at| *at < end) else { break };
            self.now = self.now.max(at);
            self.events += 1;
            if wakes {
                self.wake()?;
            } else if let Some(Reverse(planned)) = self.plan.pop() {
                self.happen(planned.event)?;
            }
            self.digest_engine();
        }
        self.now = end;
        self.end()
    }

    /// When the engine's timer fires, if it is set.
    fn arm(&mut self) -> Option<Nanos> {
        let wish = self.engine.as_ref()?.next_wake()?;
        match (self.armed, &self.scenario.faults.timer_late) {
            (_, None) => Some(wish),
            (Some((known, fires)), _) if known == wish => Some(fires),
            (_, Some(late)) => {
                let fires = Nanos(wish.0.saturating_add(late.draw(&mut self.timers)));
                self.armed = Some((wish, fires));
                Some(fires)
            }
        }
    }

    fn wake(&mut self) -> Result<(), Stop> {
        self.armed = None;
        self.note(Line::Woke);
        if let Some(engine) = &mut self.engine {
            engine.advance(self.now);
        }
        self.collect(Happening { current: true, ..Happening::default() })?;
        match self.engine.as_ref().and_then(Engine::next_wake) {
            Some(again) if again <= self.now => {
                let message = "the engine is woken, and wants to be woken again at once".to_owned();
                Err(self.broken(Invariant::WorkConserving, message))
            }
            _ => Ok(()),
        }
    }

    fn happen(&mut self, event: Event) -> Result<(), Stop> {
        if matches!(event, Event::Arrive(_) | Event::Work(..) | Event::Again(_)) {
            self.catch_up()?;
        }
        match event {
            Event::Arrive(source) => {
                let scenario = self.scenario;
                self.make_call(source, None)?;
                if let Some(next) = self.sources[source].next(&scenario.workloads[source], self.now) {
                    self.foresee(next, Event::Arrive(source));
                }
                Ok(())
            }
            Event::Work(source, worker) => self.make_call(source, Some(worker)),
            Event::Reach(call) => self.reach(call),
            Event::Reply(call) => self.reply(call),
            Event::Again(call) => self.again(call),
            Event::GiveUp(call) => self.give_up(call),
            Event::Crash(number) => self.crash(number),
            Event::Restart => self.restart(),
            Event::StepClock(number) => self.step_clock(number),
            Event::Change(number) => self.change(number),
            Event::Lend(lender, units) => self.lend(lender, units),
            Event::LendFails(lender) => self.lend_fails(lender),
            Event::Window(number) => self.window_by_hand(number),
        }
    }

    /// Hands out what the engine decided, and has it judged.
    fn collect(&mut self, mut event: Happening) -> Result<(), Stop> {
        let Some(engine) = &mut self.engine else { return Ok(()) };
        let verdicts: Vec<_> = engine.verdicts().collect();
        self.tally.waiting_now(engine.waiting());
        // What is lent runs out as time passes, and bookings with it.
        event.unsettled |= !self.scenario.faults.lenders.is_empty();
        event.current = self.scenario.faults.timer_late.is_none() || event.current;
        for (ticket, verdict) in verdicts {
            let Some(call) = self.tickets.remove(&ticket) else {
                let message = "a verdict for a call that does not wait".to_owned();
                return Err(self.broken(Invariant::Conservation, message));
            };
            self.tally.waits(self.routes.kind(self.calls[call as usize].kind).service, -1, self.now);
            match verdict {
                Verdict::Granted(grant) => {
                    event.granted.push(call);
                    self.went(call, grant);
                }
                Verdict::Refused(refusal) => {
                    self.note(Line::Refused { no: self.calls[call as usize].no, why: refusal.reason.code() });
                    self.story.digest.add_refusal(&refusal);
                    event.refused.push((call, refusal));
                }
            }
        }
        self.ask_lenders();
        event.unsettled |= self.learn()?;
        let judged = match (&mut self.judge, &mut self.engine) {
            (Some(judge), Some(engine)) => judge.judge(engine, &self.routes, &event, self.now),
            _ => Ok(()),
        };
        judged.map_err(|broken| self.broken_by(broken))?;
        for (call, refusal) in event.refused {
            self.refused(call, &refusal.reason, refusal.wait)?;
        }
        Ok(())
    }

    /// Takes into the digest what the engine announces and when it wants to be woken, and now and then the state of its
    /// limits.
    fn digest_engine(&mut self) {
        let Some(engine) = &mut self.engine else { return };
        let digest = &mut self.story.digest;
        engine.news().iter().for_each(|news| digest.add_news(news));
        digest.add_wake(engine.next_wake());
        if self.events.is_multiple_of(EVENTS_A_LOOK) {
            digest.add_limits(engine.limits(self.now));
        }
    }

    fn note(&mut self, line: Line) {
        self.story.note(self.events, self.now, line);
    }

    fn broken_by(&self, (invariant, message): Broken) -> Stop {
        self.broken(invariant, message)
    }

    fn broken(&self, invariant: Invariant, message: String) -> Stop {
        Stop::Broken(Violation {
            invariant,
            message,
            event: self.events,
            at: self.now.since(Nanos::ZERO),
            story: self.tell(),
        })
    }

    fn tell(&self) -> Vec<String> {
        self.story.tell(|kind| {
            let kind = self.routes.kind(kind);
            let who = match kind.loop_ {
                0 => String::new(),
                loop_ => format!(", loop {}", self.loop_names[loop_ as usize]),
            };
            format!("{}{who}, {}", kind.call.service(), kind.class.name())
        })
    }

    /// What runs or waits is given up, and then all must be whole again.
    fn end(&mut self) -> Result<(), Stop> {
        self.give_up_everything()?;
        let end = self.now.after(Duration::from_secs(3600 * 24 * 365 * 20));
        let wrong = match (&mut self.judge, &mut self.engine) {
            (Some(judge), Some(engine)) => {
                engine.advance(end);
                judge.check_end(engine, end)
            }
            _ => Ok(()),
        };
        wrong.map_err(|broken| self.broken_by(broken))
    }
}

/// Whether a refusal came at arrival or after a wait decides what it is called.
fn fate(reason: &Reason) -> tally::Fate {
    match reason {
        Reason::Timeout => tally::Fate::TimedOut,
        Reason::QueueFull => tally::Fate::Shed,
        _ => tally::Fate::Refused,
    }
}
