//! The world: all parts of a run, and what is told about it. Each part owns its state; what happens to them is in the
//! modules above.

use tidegate_core::Nanos;
use tidegate_core::engine::ChangeError;

use super::callers::Callers;
use super::calls::Calls;
use super::options::Options;
use super::plan::{Event, Plan};
use super::process::Process;
use super::story::{Line, Story};
use super::tally::Tally;
use super::trouble::Trouble;
use super::wire::Wire;
use crate::check::{Broken, Ledger};
use crate::report::{Invariant, Violation};
use crate::routes::Routes;
use crate::scenario::{Scenario, UpstreamSpec};

/// Why a run ends before its time.
#[derive(Debug)]
pub(crate) enum Stop {
    Broken(Violation),
    Wrong(ChangeError),
}

/// All parts of a run.
#[derive(Debug)]
pub(crate) struct World<'s> {
    pub scenario: &'s Scenario,
    pub options: &'s Options,
    /// The names of services, by their places in the config.
    pub services: Vec<String>,
    pub plan: Plan,
    pub process: Process,
    pub routes: Routes,
    pub callers: Callers,
    pub calls: Calls,
    pub wire: Wire,
    pub ledger: Ledger,
    pub tally: Tally,
    pub trouble: Trouble,
    pub story: Story,
    /// What one call takes at each of its limits, kept to be filled again.
    pub costs: Vec<u64>,
}

impl<'s> World<'s> {
    /// Creates a world in which the process has just started.
    pub fn new(scenario: &'s Scenario, seed: u64, options: &'s Options) -> Result<World<'s>, ChangeError> {
        let services: Vec<String> = scenario.config.services.keys().cloned().collect();
        let mut world = World {
            scenario,
            options,
            plan: Plan::default(),
            process: Process::new(seed),
            routes: Routes::default(),
            callers: Callers::new(scenario, seed),
            calls: Calls::default(),
            wire: Wire::new(scenario, &services, seed),
            ledger: Ledger::default(),
            tally: Tally::new(scenario.workloads.len(), &services, scenario.duration, scenario.warmup),
            trouble: Trouble::default(),
            story: Story::new(options.story),
            costs: Vec::new(),
            services,
        };
        world.start_process()?;
        Ok(world)
    }

    /// Starts the process with nothing but its config.
    pub fn start_process(&mut self) -> Result<(), ChangeError> {
        self.process.start(self.scenario, self.options.checks, &mut self.routes, &self.plan)?;
        self.ask_lenders();
        Ok(())
    }

    /// Passes on what limits ask of their lenders.
    pub fn ask_lenders(&mut self) {
        let answers = self.process.ask_lenders(&self.scenario.faults.lenders, self.plan.now());
        answers.into_iter().for_each(|(at, event)| self.plan.foresee(at, event));
    }

    pub fn now(&self) -> Nanos {
        self.plan.now()
    }

    pub fn foresee(&mut self, at: Nanos, event: Event) {
        self.plan.foresee(at, event);
    }

    /// Returns the service that a call is to, by its place in the config.
    pub fn service(&self, place: u32) -> usize {
        self.routes.kind(self.calls[place].kind).service
    }

    /// Returns what stands behind the service that a call is to.
    pub fn spec(&self, place: u32) -> Option<&'s UpstreamSpec> {
        self.scenario.upstreams.get(&self.services[self.service(place)])
    }

    /// Finds what a call takes at each of its limits, and leaves it in `costs`.
    pub fn find_costs(&mut self, place: u32) {
        let state = &self.calls[place];
        let estimated = self.scenario.workloads[state.source].estimated;
        self.routes.costs(state.kind, &state.call, estimated, &mut self.costs);
    }

    /// Reads definitions of limits anew, after one was changed.
    pub fn limits_changed(&mut self) {
        let now = self.now();
        let Some(engine) = &mut self.process.engine else { return };
        self.tally.supply_until(&self.routes, now);
        self.routes.refresh(engine, now);
        if let Some(judge) = &mut self.process.judge {
            judge.redefined(&self.routes, now);
        }
        self.tally.limits_are(&self.routes, now);
    }

    /// Counts windows and breakers that have opened.
    pub fn note_trouble(&mut self) {
        let now = self.now();
        if let Some(engine) = &mut self.process.engine {
            self.trouble.note(engine, &self.scenario.config, &self.services, &mut self.tally, now);
        }
    }

    /// Writes down what happened.
    pub fn note(&mut self, line: Line) {
        self.story.note(self.plan.events(), self.plan.now(), line);
    }

    /// Ends the run if a promise was not kept.
    pub fn keeps(&self, kept: Result<(), Broken>) -> Result<(), Stop> {
        kept.map_err(|(invariant, message)| self.broken(invariant, message))
    }

    /// Returns the violation that ends the run.
    pub fn broken(&self, invariant: Invariant, message: String) -> Stop {
        Stop::Broken(Violation {
            invariant,
            message,
            event: self.plan.events(),
            at: self.now().since(Nanos::ZERO),
            story: self.tell(),
        })
    }

    /// Returns the last events as sentences.
    pub fn tell(&self) -> Vec<String> {
        self.story.tell(|kind| {
            let kind = self.routes.kind(kind);
            let who = match kind.loop_ {
                0 => String::new(),
                loop_ => format!(", loop {}", self.callers.loop_names()[loop_ as usize]),
            };
            format!("{}{who}, {}", kind.call.service(), kind.class.name())
        })
    }
}
