//! A queue that drains: how long it takes, what it burns, and in whose order.
//!
//! *Makespan* is the time from the first enqueue to the last grant; the ideal is (n − burst)/rate. Each waiter
//! is a task of its own on a runtime of two workers, and all limiters have the same rate and burst. *CPU* is
//! what the whole process used meanwhile, helper threads of the limiter included.
//!
//! *Displacement* is how far from its place in the order of arrival a call was granted. There everything runs
//! on one thread, whose tasks are polled in the order they were spawned and woken: so the order of arrival
//! is sure, and so is that of the grants as the tasks see them.

use std::future::Future;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use governor::{DefaultDirectRateLimiter, Quota};
use throttle_net::{Queue, Throttle};
use tidegate::{Call, Config, Gate};
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use crate::harness::{Effort, cpu_seconds, quantile};

/// What is asked of every limiter.
#[derive(Clone, Copy)]
struct Load {
    waiters: usize,
    rate: u32,
    burst: u32,
}

impl Load {
    fn ideal(self) -> f64 {
        (self.waiters as f64 - f64::from(self.burst)) / f64::from(self.rate)
    }
}

/// Prints the makespans, then the displacements.
pub fn table(effort: Effort) -> Result<()> {
    let (waiters, runs) = match effort {
        Effort::Full => (100_000, 5),
        Effort::Short => (10_000, 1),
    };
    let load = Load { waiters, rate: 200_000, burst: 2_000 };
    println!("## Queue: {} waiters on {}/s, burst {}\n", load.waiters, load.rate, load.burst);
    println!("Ideal: {:.0} ms. Median of {runs}.\n", load.ideal() * 1e3);
    makespans(load, runs)?;

    let waiters = if effort == Effort::Full { 5_000 } else { 1_000 };
    let load = Load { waiters, rate: 5_000, burst: 50 };
    println!("## Order: {} waiters on {}/s, burst {}\n", load.waiters, load.rate, load.burst);
    displacements(load)
}

/// Drains queues of one limiter, for a profiler.
pub fn run(contender: &str, waiters: usize, runs: usize) -> Result<()> {
    let load = Load { waiters, rate: 200_000, burst: 2_000 };
    for _ in 0..runs {
        let (_, queue) = contenders(load)?
            .into_iter()
            .find(|(name, _)| name.contains(contender))
            .with_context(|| format!("no contender `{contender}`"))?;
        let run = queue.drain(waiters)?;
        println!("{:.3} of ideal, {:.0} ms CPU", run.seconds / load.ideal(), run.cpu * 1e3);
    }
    Ok(())
}

fn contenders(load: Load) -> Result<Vec<(&'static str, Box<dyn Waited>)>> {
    Ok(vec![
        ("**tidegate** `acquire`, token bucket", ours(load, "token-bucket")?),
        ("tidegate `acquire`, paced sliding window", ours(load, "sliding-window")?),
        ("governor 0.10 `until_ready`", governor(load)?),
        ("leaky-bucket 1.1 `acquire_one`", leaky(load)),
    ])
}

fn makespans(load: Load, runs: usize) -> Result<()> {
    let names: Vec<_> = contenders(load)?.into_iter().map(|(name, _)| name).collect();
    // Not counted: 100,000 tasks grow the heaps of the system's allocator page by page, once in a process, whoever is first.
    for (_, queue) in contenders(load)? {
        queue.drain(load.waiters)?;
    }
    let mut found = vec![Vec::new(); names.len()];
    for round in 0..runs {
        for turn in 0..names.len() {
            let which = (turn + round) % names.len();
            // Made anew each time: a bucket starts full.
            let (_, queue) = contenders(load)?.swap_remove(which);
            found[which].push(queue.drain(load.waiters)?);
        }
    }
    println!("| | makespan, ms | of ideal | worst | CPU, ms |");
    println!("|---|--:|--:|--:|--:|");
    for (name, runs) in names.iter().zip(&found) {
        let seconds: Vec<f64> = runs.iter().map(|run| run.seconds).collect();
        let cpu: Vec<f64> = runs.iter().map(|run| run.cpu).collect();
        println!(
            "| {name} | {:.0} | {:.3} | {:.3} | {:.0} |",
            quantile(&seconds, 0.5) * 1e3,
            quantile(&seconds, 0.5) / load.ideal(),
            quantile(&seconds, 1.0) / load.ideal(),
            quantile(&cpu, 0.5) * 1e3,
        );
    }
    println!();
    Ok(())
}

fn displacements(load: Load) -> Result<()> {
    println!("| | mean displacement | largest |");
    println!("|---|--:|--:|");
    let queues = [
        ("**tidegate** `acquire`, token bucket", ours(load, "token-bucket")?),
        ("governor 0.10 `until_ready`", governor(load)?),
        ("leaky-bucket 1.1 `acquire_one`", leaky(load)),
        ("throttle-net 2.0 `Throttle::acquire`", throttle(load)),
        ("throttle-net 2.0 `Queue::acquire`", throttle_queue(load)),
    ];
    for (name, queue) in queues {
        let order = queue.order(load.waiters)?;
        let distances: Vec<usize> = order.iter().enumerate().map(|(rank, at)| rank.abs_diff(*at)).collect();
        let mean = distances.iter().sum::<usize>() as f64 / distances.len() as f64;
        println!("| {name} | {mean:.2} | {} |", distances.iter().max().copied().unwrap_or_default());
    }
    println!();
    Ok(())
}

fn ours(load: Load, algorithm: &str) -> Result<Box<dyn Waited>> {
    let config = format!(
        "[services.api]\n\
         requests = {{ limit = \"{}/s\", algorithm = \"{algorithm}\", burst = {} }}\n\
         queue = {{ max_waiting = 1000000 }}\n",
        load.rate, load.burst
    );
    let gate = Gate::builder().config(Config::parse(&config)?).build()?;
    let call = Call::to("api");
    Ok(Box::new(move || {
        let (gate, call) = (gate.clone(), call.clone());
        // The permit is given back at once.
        async move { gate.acquire(call).await.map(drop).map_err(Into::into) }
    }))
}

fn governor(load: Load) -> Result<Box<dyn Waited>> {
    let not_zero = |units| NonZeroU32::new(units).context("it is not zero");
    let quota = Quota::per_second(not_zero(load.rate)?).allow_burst(not_zero(load.burst)?);
    let limiter: Arc<DefaultDirectRateLimiter> = Arc::new(governor::RateLimiter::direct(quota));
    Ok(Box::new(move || {
        let limiter = limiter.clone();
        async move {
            limiter.until_ready().await;
            Ok(())
        }
    }))
}

/// One millisecond is the finest interval that its timer knows.
fn leaky(load: Load) -> Box<dyn Waited> {
    let limiter = leaky_bucket::RateLimiter::builder()
        .refill((load.rate / 1_000) as usize)
        .interval(Duration::from_millis(1))
        .max(load.burst as usize)
        .initial(load.burst as usize)
        .build();
    let limiter = Arc::new(limiter);
    Box::new(move || {
        let limiter = limiter.clone();
        async move {
            limiter.acquire_one().await;
            Ok(())
        }
    })
}

fn throttle(load: Load) -> Box<dyn Waited> {
    let limiter = Arc::new(Throttle::builder().per_second(load.rate).burst(load.burst).build());
    Box::new(move || {
        let limiter = limiter.clone();
        async move { Ok(limiter.acquire().await?) }
    })
}

fn throttle_queue(load: Load) -> Box<dyn Waited> {
    let throttle = Throttle::builder().per_second(load.rate).burst(load.burst).build();
    let queue: Arc<Queue<Throttle, ()>> = Arc::new(Queue::builder().capacity(1_000_000).build(throttle));
    Box::new(move || {
        let queue = queue.clone();
        async move { Ok(queue.acquire((), 0, None).await?) }
    })
}

/// How one queue drained.
#[derive(Clone, Copy)]
struct Drained {
    seconds: f64,
    cpu: f64,
}

/// A limiter that can be waited for. Implemented by what makes one call's wait, so that each limiter's tasks
/// are of their own type and no larger than its users have them.
trait Waited {
    /// Has so many wait, and times it.
    fn drain(&self, waiters: usize) -> Result<Drained>;

    /// In what order calls were granted, by their places in the order of arrival.
    fn order(&self, waiters: usize) -> Result<Vec<usize>>;
}

impl<M, F> Waited for M
where
    M: Fn() -> F + Clone + Send + 'static,
    F: Future<Output = Result<()>> + Send + 'static,
{
    fn drain(&self, waiters: usize) -> Result<Drained> {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let (done, last) = oneshot::channel();
        let left = Arc::new((AtomicUsize::new(waiters), Mutex::new(Some(done))));
        let wait = self.clone();
        let cpu = cpu_seconds();
        let start = Instant::now();
        let spawner = async move {
            for _ in 0..waiters {
                let (wait, left) = (wait(), left.clone());
                tokio::spawn(async move {
                    wait.await.expect("nobody waits for too long");
                    if left.0.fetch_sub(1, Ordering::AcqRel) == 1 {
                        let done = left.1.lock().expect("nobody panics").take();
                        let _ = done.expect("only one is the last").send(start.elapsed());
                    }
                });
            }
        };
        let elapsed = runtime.block_on(on_a_worker(spawner, last))?;
        Ok(Drained { seconds: elapsed.as_secs_f64(), cpu: cpu_seconds() - cpu })
    }

    fn order(&self, waiters: usize) -> Result<Vec<usize>> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let granted = Arc::new(Mutex::new(Vec::with_capacity(waiters)));
        runtime.block_on(async {
            let mut tasks = Vec::with_capacity(waiters);
            for place in 0..waiters {
                let (wait, granted) = (self(), granted.clone());
                tasks.push(tokio::spawn(async move {
                    wait.await?;
                    granted.lock().expect("nobody panics").push(place);
                    anyhow::Ok(())
                }));
            }
            for task in tasks {
                task.await??;
            }
            anyhow::Ok(())
        })?;
        Ok(std::mem::take(&mut *granted.lock().expect("nobody panics")))
    }
}

/// Spawning from a worker is what a server does, and spares the run a third thread on two cores.
async fn on_a_worker(
    spawner: impl Future<Output = ()> + Send + 'static,
    last: oneshot::Receiver<Duration>,
) -> Result<Duration> {
    tokio::spawn(spawner).await?;
    Ok(last.await?)
}
