//! What a waiting call costs as the queue grows: to enqueue, to grant, to cancel.
//!
//! The engine alone, in virtual time, with the deepest queue of each line filled beforehand: either all of
//! one lane, or spread over a thousand loops. Calls are granted one at a time, each at the moment that the
//! engine asked to be woken, which is the dearest way to be granted; cancelled ones come from anywhere in
//! the queue.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tidegate::Config;
use tidegate_core::{Admission, Call, Engine, Nanos, Ticket, Verdict};

use crate::harness::{Effort, quantile};
use crate::instructions::{self, Counter};

const LOOPS: usize = 1_000;
/// Operations of a kind in a row: few enough that the depth stays what it is called.
const ROW: usize = 100;
const OPERATIONS: [&str; 3] = ["curve::World::enqueue", "curve::World::grant", "curve::World::cancel"];

const CONFIG: &str = "[services.api]\n\
    requests = { limit = \"1000/s\", algorithm = \"token-bucket\", burst = 1000 }\n\
    queue = { max_waiting = 10000000, timeout = \"1d\" }\n";

/// Prints the time and the instructions by depth.
pub fn table(effort: Effort) -> Result<()> {
    let (depths, rounds): (&[usize], _) = match effort {
        Effort::Full => (&[1_000, 10_000, 100_000, 1_000_000], 51),
        Effort::Short => (&[1_000, 10_000], 3),
    };
    println!("## A long queue: enqueue, grant and cancel by its depth\n");
    println!("### Time, ns\n");
    lines(depths, |depth, loops| times(depth, loops, rounds))?;
    let Some(counter) = Counter::find(effort) else { return Ok(()) };
    println!("### Instructions\n");
    lines(depths, |depth, loops| {
        let args = ["curve", "--count", &loops.to_string(), &depth.to_string()];
        let totals = counter.count(&args, &OPERATIONS)?;
        totals.into_iter().map(|total| Ok(total as f64 / ROW as f64)).collect()
    })
}

/// Fills a queue and does a row of each operation, for a tool that counts instructions in them.
pub fn count(loops: usize, depth: usize) -> Result<()> {
    let mut world = World::new(depth, loops)?;
    world.enqueue(ROW);
    world.grant(ROW);
    world.cancel(ROW);
    instructions::end();
    println!("{ROW} of each at a depth of {depth} in {loops} loops");
    Ok(())
}

/// One line for each depth, with one lane and with many loops, and how the deepest compares with the first.
fn lines(depths: &[usize], measure: impl Fn(usize, usize) -> Result<Vec<f64>>) -> Result<()> {
    println!("| waiting | 1 lane: enqueue | grant | cancel | {LOOPS} loops: enqueue | grant | cancel |");
    println!("|--:|--:|--:|--:|--:|--:|--:|");
    let mut found: Vec<Vec<f64>> = Vec::new();
    for &depth in depths {
        let mut line = measure(depth, 1)?;
        line.extend(measure(depth, LOOPS)?);
        let cells: Vec<String> = line.iter().map(|cost| format!("{cost:.0}")).collect();
        println!("| {depth} | {} |", cells.join(" | "));
        found.push(line);
    }
    if let (Some(first), Some(last)) = (found.first(), found.last()) {
        let ratios: Vec<String> =
            last.iter().zip(first).map(|(last, first)| format!("{:.2}", last / first)).collect();
        println!("| ratio | {} |", ratios.join(" | "));
    }
    println!();
    Ok(())
}

fn times(depth: usize, loops: usize, rounds: usize) -> Result<Vec<f64>> {
    let mut world = World::new(depth, loops)?;
    let mut nanos = [Vec::new(), Vec::new(), Vec::new()];
    let each = |start: Instant, count: usize| start.elapsed().as_nanos() as f64 / count as f64;
    for _ in 0..rounds {
        let start = Instant::now();
        world.enqueue(ROW);
        nanos[0].push(each(start, ROW));
        let start = Instant::now();
        world.grant(ROW / 2);
        nanos[1].push(each(start, ROW / 2));
        let start = Instant::now();
        world.cancel(ROW / 2);
        nanos[2].push(each(start, ROW / 2));
        if world.engine.waiting() != depth {
            bail!("{} wait, not {depth}", world.engine.waiting());
        }
    }
    Ok(nanos.iter().map(|nanos| quantile(nanos, 0.5)).collect())
}

/// An engine with a queue.
struct World {
    engine: Engine,
    now: Nanos,
    calls: Vec<Call>,
    /// Whose turn it is to enqueue.
    next: usize,
    tickets: Vec<Ticket>,
    random: u64,
}

impl World {
    fn new(depth: usize, loops: usize) -> Result<World> {
        let (config, now) = (Config::parse(CONFIG)?, Nanos::ZERO);
        let mut engine = Engine::new(&config, now, Duration::ZERO)?;
        let all = engine.try_admit(&Call::to("api").requests(1_000), now)?;
        engine.finish(all, None, now);
        let calls = (0..loops).map(|loop_| Call::to("api").loop_id(&format!("loop-{loop_}"))).collect();
        let mut world = World { engine, now, calls, next: 0, tickets: Vec::new(), random: 1 };
        // Deeper at first, so that no table has to grow while it is measured.
        world.fill(depth + 2 * ROW);
        world.cancel_all(2 * ROW);
        Ok(world)
    }

    fn fill(&mut self, depth: usize) {
        for _ in 0..depth {
            self.enqueue_one();
        }
    }

    // Each a function of its own, so that a counter can be told to count inside of it only.

    #[inline(never)]
    fn enqueue(&mut self, count: usize) {
        for _ in 0..count {
            self.enqueue_one();
        }
    }

    #[inline(always)]
    fn enqueue_one(&mut self) {
        let call = &self.calls[self.next];
        self.next = (self.next + 1) % self.calls.len();
        match self.engine.enqueue(call, Duration::from_secs(86_400), self.now) {
            Ok(Admission::Waiting(ticket)) => self.tickets.push(ticket),
            other => panic!("a call that must wait did not: {other:?}"),
        }
    }

    #[inline(never)]
    fn grant(&mut self, count: usize) {
        for _ in 0..count {
            self.now = self.engine.next_wake().expect("somebody waits");
            self.engine.advance(self.now);
            let mut granted = 0;
            let verdicts: Vec<_> = self.engine.verdicts().collect();
            for (_, verdict) in verdicts {
                let Verdict::Granted(grant) = verdict else { panic!("refused: {verdict:?}") };
                self.engine.finish(grant, None, self.now);
                granted += 1;
            }
            assert_eq!(granted, 1, "one unit, one grant");
        }
    }

    #[inline(never)]
    fn cancel(&mut self, count: usize) {
        self.cancel_all(count);
    }

    #[inline(always)]
    fn cancel_all(&mut self, count: usize) {
        for _ in 0..count {
            loop {
                self.random = self
                    .random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let place = ((self.random >> 33) % self.tickets.len() as u64) as usize;
                // Those that were granted meanwhile are not waiting.
                if self.engine.withdraw(self.tickets.swap_remove(place), self.now) {
                    break;
                }
            }
        }
    }
}
