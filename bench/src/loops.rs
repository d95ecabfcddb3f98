//! A million loops with a limit each: what one weighs, and what a decision costs among so many.
//!
//! *Bytes* are those that the allocator was asked for and has not been given back, less the text of the ids;
//! what it rounds them up to is not in it. *Decisions* are `try_admit` and `finish` (through the gate:
//! `try_acquire` and drop), each by a loop drawn from a shuffled list so that every loop calls once in
//! twelve seconds, which leaves five calls in its window at any time. The calls are made in small batches
//! before the clock starts, so that what is compared is the decision and not the memory of the caller.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tidegate::{Clock, Config, Gate, ManualClock};
use tidegate_core::{Call, Engine, Nanos};

use crate::harness::{Effort, quantile};
use crate::instructions::{self, Counter};
use crate::weight;

const CONFIG: &str = "[services.api]\n[loops]\nrequests = \"30/min\"\n";
const FEW: usize = 1_000;
const BATCH: usize = 500;
/// Every loop calls once in this time.
const ROUND: u64 = 12_000_000_000;
/// Rounds until a window is as full as it gets.
const FULL_AFTER: usize = 6;

/// Prints the memory, the time and the instructions.
pub fn table(effort: Effort) -> Result<()> {
    let many = if effort == Effort::Full { 1_000_000 } else { 20_000 };
    println!("## Loops: {many} live loops of `requests = \"30/min\"` each\n");
    memory(many)?;
    time(many, effort)?;
    count_many(many, effort)
}

/// Makes `loops` loops that are known, then lets `decisions` of them decide, for a tool that counts
/// instructions in `decide`.
pub fn count(driver: &str, loops: usize, decisions: usize) -> Result<()> {
    let mut world = World::new(driver, loops)?;
    // Full windows in all of a million loops would take a counting tool very long: each has called once.
    for _ in 0..loops / BATCH {
        let calls = world.next_calls(BATCH);
        world.decide_all(&calls);
    }
    let calls = world.next_calls(decisions);
    world.decide(&calls);
    instructions::end();
    println!("{decisions} decisions among {loops} loops");
    Ok(())
}

fn memory(many: usize) -> Result<()> {
    println!("| calls in its window | bytes for each loop beyond its id |\n|---|--:|");
    let id = |index: usize| format!("loop-{index:07}");
    let before = weight::live_bytes();
    let config = Config::parse(CONFIG)?;
    let mut engine = Engine::new(&config, Nanos::ZERO, Duration::ZERO)?;
    let call = Call::to("api");
    for round in 0..30 {
        // Further apart than a slot of the window, so that each call is remembered by itself.
        let now = Nanos(round * 1_000_000_000);
        for index in 0..many {
            let grant = engine.try_admit(&call.clone().loop_id(&id(index)), now)?;
            engine.finish(grant, None, now);
        }
        if round == 0 || round == 29 {
            let ids = many * id(0).len();
            let bytes = (weight::live_bytes() - before - ids as isize) as f64 / many as f64;
            println!("| {} | {bytes:.0} |", round + 1);
        }
    }
    weight::stop();
    anyhow::ensure!(engine.live_loops() == many, "{} loops live", engine.live_loops());
    println!();
    Ok(())
}

fn time(many: usize, effort: Effort) -> Result<()> {
    let runs = if effort == Effort::Full { 31 } else { 3 };
    println!("| | ns with {FEW} | ns with {many} | ratio |\n|---|--:|--:|--:|");
    for driver in ["engine", "gate"] {
        let mut worlds = [World::new(driver, FEW)?, World::new(driver, many)?];
        for world in &mut worlds {
            for _ in 0..FULL_AFTER * world.ids.len() / BATCH {
                world.batch(BATCH);
            }
        }
        let mut nanos = [Vec::new(), Vec::new()];
        for run in 0..runs {
            for turn in 0..2 {
                let which = (run + turn) % 2;
                let took: Duration = (0..20).map(|_| worlds[which].batch(BATCH)).sum();
                nanos[which].push(took.as_nanos() as f64 / (20 * BATCH) as f64);
            }
        }
        let ratios: Vec<f64> = nanos[1].iter().zip(&nanos[0]).map(|(many, few)| many / few).collect();
        println!(
            "| through the {driver} | {:.0} | {:.0} | {:.2} |",
            quantile(&nanos[0], 0.5),
            quantile(&nanos[1], 0.5),
            quantile(&ratios, 0.5),
        );
    }
    println!();
    Ok(())
}

fn count_many(many: usize, effort: Effort) -> Result<()> {
    let Some(counter) = Counter::find(effort) else { return Ok(()) };
    println!("| | instructions with {FEW} | instructions with {many} | ratio |\n|---|--:|--:|--:|");
    for driver in ["engine", "gate"] {
        let decisions = 1_000;
        let counted = |loops: usize| -> Result<f64> {
            let args = ["loops", "--count", driver, &loops.to_string(), &decisions.to_string()];
            Ok(counter.count(&args, &["loops::World::decide"])?[0] as f64 / f64::from(decisions))
        };
        let (few, many) = (counted(FEW)?, counted(many)?);
        println!("| through the {driver} | {few:.0} | {many:.0} | {:.2} |", many / few);
    }
    println!();
    Ok(())
}

/// Loops that call in turn, in an order without pattern.
struct World {
    driver: Driver,
    clock: ManualClock,
    ids: Vec<Box<str>>,
    /// Where in the order the next call comes from.
    next: usize,
    template: Call,
}

enum Driver {
    Engine(Box<Engine>),
    Gate(Gate),
}

impl World {
    fn new(driver: &str, loops: usize) -> Result<World> {
        let config = Config::parse(CONFIG)?;
        let clock = ManualClock::new();
        let driver = match driver {
            "engine" => Driver::Engine(Box::new(Engine::new(&config, Nanos::ZERO, Duration::ZERO)?)),
            "gate" => Driver::Gate(Gate::builder().config(config).clock(clock.clone()).build()?),
            other => bail!("no driver `{other}`: use engine or gate"),
        };
        let mut ids: Vec<Box<str>> = (0..loops).map(|index| format!("loop-{index:07}").into()).collect();
        shuffle(&mut ids);
        Ok(World { driver, clock, ids, next: 0, template: Call::to("api") })
    }

    /// Lets the next few decide, and says how long they took.
    fn batch(&mut self, size: usize) -> Duration {
        let calls = self.next_calls(size);
        let start = Instant::now();
        self.decide(&calls);
        start.elapsed()
    }

    fn next_calls(&mut self, size: usize) -> Vec<Call> {
        (0..size)
            .map(|_| {
                let call = self.template.clone().loop_id(&self.ids[self.next]);
                self.next = (self.next + 1) % self.ids.len();
                call
            })
            .collect()
    }

    /// A function of its own, so that a counter can be told to count inside of it only.
    #[inline(never)]
    fn decide(&mut self, calls: &[Call]) {
        self.decide_all(calls);
    }

    #[inline(always)]
    fn decide_all(&mut self, calls: &[Call]) {
        let step = Duration::from_nanos(ROUND / self.ids.len() as u64);
        for call in calls {
            self.clock.advance(step);
            match &mut self.driver {
                Driver::Engine(engine) => {
                    let now = self.clock.now();
                    let grant = engine.try_admit(call, now).expect("it is within its limit");
                    engine.finish(grant, None, now);
                }
                Driver::Gate(gate) => drop(gate.try_acquire(call).expect("it is within its limit")),
            }
        }
    }
}

/// Fisher and Yates with a generator of no importance: the same order in every run.
fn shuffle<T>(items: &mut [T]) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for index in (1..items.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        items.swap(index, ((state >> 33) % (index as u64 + 1)) as usize);
    }
}
