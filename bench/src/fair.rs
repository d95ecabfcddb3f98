//! Who goes first when there is too little, in real time: a large call among many small ones, and the calls
//! behind others that went away.
//!
//! All limiters let 100 units a second through, have a burst of 100 and start empty. Each contender has a
//! limiter of its own and they are watched at the same time: they sleep nearly all of it.

use std::future::Future;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use governor::{DefaultDirectRateLimiter, Quota};
use throttle_net::{Queue, Throttle};
use tidegate::{Call, Config, Gate};
use tokio::task::JoinSet;

use crate::harness::{Effort, quantile};

const RATE: u32 = 100;
const LOOPS: usize = 50;
/// Callers of each loop, so that one of them waits while another comes back.
const CALLERS: usize = 2;
const LARGE: u32 = 80;

/// Prints both tables.
pub fn table(effort: Effort) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        large_among_small(effort).await?;
        behind_the_aborted(effort).await
    })
}

async fn large_among_small(effort: Effort) -> Result<()> {
    let (runs, cut_off) = match effort {
        Effort::Full => (3, Duration::from_secs(10)),
        Effort::Short => (1, Duration::from_secs(2)),
    };
    let mut waits = vec![Vec::new(); contenders()?.len()];
    for _ in 0..runs {
        let tasks: Vec<_> = contenders()?
            .into_iter()
            .map(|(_, limiter)| tokio::spawn(wait_of_the_large(limiter, cut_off)))
            .collect();
        for (task, waits) in tasks.into_iter().zip(&mut waits) {
            waits.push(task.await??.as_secs_f64());
        }
    }
    println!(
        "## Fairness: a call of {LARGE} units of a new loop among {LOOPS} backlogged loops of unit calls\n"
    );
    println!("{RATE}/s, burst {RATE}, spent. Cut off after {} s; runs: {runs}.\n", cut_off.as_secs());
    println!("| | median wait, s | longest, s |\n|---|--:|--:|");
    for ((name, _), waits) in contenders()?.iter().zip(&waits) {
        let shown = |share| match quantile(waits, share) {
            seconds if seconds >= cut_off.as_secs_f64() => format!("> {}", cut_off.as_secs()),
            seconds => format!("{seconds:.2}"),
        };
        println!("| {name} | {} | {} |", shown(0.5), shown(1.0));
    }
    println!();
    Ok(())
}

async fn wait_of_the_large(limiter: Limiter, cut_off: Duration) -> Result<Duration> {
    let mut backlog = JoinSet::new();
    for caller in 0..LOOPS * CALLERS {
        let limiter = limiter.clone();
        backlog.spawn(async move {
            loop {
                limiter.pass(caller % LOOPS, 1).await.expect("nobody waits for too long");
            }
        });
    }
    // Until everybody waits, and some have gone.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let start = Instant::now();
    // What does not go in time is dropped, and so is the backlog.
    match tokio::time::timeout(cut_off, limiter.pass(LOOPS, LARGE)).await {
        Ok(result) => result.map(|()| start.elapsed()),
        Err(_) => Ok(cut_off),
    }
}

async fn behind_the_aborted(effort: Effort) -> Result<()> {
    let runs = if effort == Effort::Full { 3 } else { 1 };
    let cut_off = Duration::from_secs(if effort == Effort::Full { 6 } else { 2 });
    let mut times = vec![[Vec::new(), Vec::new()]; contenders()?.len()];
    for _ in 0..runs {
        let tasks: Vec<_> =
            contenders()?.into_iter().map(|(_, limiter)| tokio::spawn(survivors(limiter, cut_off))).collect();
        for (task, times) in tasks.into_iter().zip(&mut times) {
            let [first, second] = task.await??;
            times[0].push(first.as_secs_f64());
            times[1].push(second.as_secs_f64());
        }
    }
    println!("## Cancellation: the first 8 of 10 queued calls of 50 units are aborted\n");
    println!("{RATE}/s, burst {RATE}, spent. When the other two went; runs: {runs}.\n");
    println!("| | first, s | second, s |\n|---|--:|--:|");
    for ((name, _), times) in contenders()?.iter().zip(&times) {
        println!("| {name} | {:.2} | {:.2} |", quantile(&times[0], 0.5), quantile(&times[1], 0.5));
    }
    println!();
    Ok(())
}

/// When the two calls that are left went, in the order they did.
async fn survivors(limiter: Limiter, cut_off: Duration) -> Result<[Duration; 2]> {
    let start = Instant::now();
    let mut tasks = Vec::new();
    for _ in 0..10 {
        let limiter = limiter.clone();
        tasks.push(tokio::spawn(async move {
            let _ = tokio::time::timeout(cut_off, limiter.pass(0, 50)).await;
            start.elapsed()
        }));
        // One after the other, so that the last two to come are the ones that stay.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let left = tasks.split_off(8);
    for task in &tasks {
        task.abort();
    }
    let mut times = [Duration::ZERO; 2];
    for (time, task) in times.iter_mut().zip(left) {
        *time = task.await?;
    }
    times.sort();
    Ok(times)
}

/// A limiter, emptied.
#[derive(Clone)]
struct Limiter(Arc<dyn Fn(usize, u32) -> Wait + Send + Sync>);

type Wait = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

impl Limiter {
    /// Waits for `units`, as a call of one of the loops.
    fn pass(&self, loop_: usize, units: u32) -> Wait {
        self.0(loop_, units)
    }
}

fn contenders() -> Result<[(&'static str, Limiter); 5]> {
    Ok([
        ("**tidegate** `acquire`", ours()?),
        ("governor 0.10 `until_n_ready`", governor()?),
        ("leaky-bucket 1.1 `acquire`", leaky()),
        ("throttle-net 2.0 `Throttle::acquire_with_cost`", throttle()),
        ("throttle-net 2.0 `Queue::acquire_with_cost`", throttle_queue()),
    ])
}

fn ours() -> Result<Limiter> {
    let config = format!(
        "[services.api]\n\
         requests = {{ limit = \"{RATE}/s\", algorithm = \"token-bucket\", burst = {RATE} }}\n"
    );
    let gate = Gate::builder().config(Config::parse(&config)?).build()?;
    drop(gate.try_acquire(Call::to("api").requests(RATE.into()))?);
    Ok(Limiter(Arc::new(move |loop_, units| {
        let call = Call::to("api").loop_id(&format!("loop-{loop_}")).requests(units.into());
        let wait = gate.acquire(call);
        Box::pin(async move { wait.await.map(drop).map_err(Into::into) })
    })))
}

fn governor() -> Result<Limiter> {
    let rate = NonZeroU32::new(RATE).context("it is not zero")?;
    let limiter: DefaultDirectRateLimiter = governor::RateLimiter::direct(Quota::per_second(rate));
    anyhow::ensure!(limiter.check_n(rate)?.is_ok(), "it starts full");
    let limiter = Arc::new(limiter);
    Ok(Limiter(Arc::new(move |_, units| {
        let limiter = limiter.clone();
        Box::pin(async move {
            let units = NonZeroU32::new(units).context("it is not zero")?;
            Ok(limiter.until_n_ready(units).await?)
        })
    })))
}

fn leaky() -> Limiter {
    let limiter = leaky_bucket::RateLimiter::builder()
        .refill(1)
        .interval(Duration::from_secs(1) / RATE)
        .max(RATE as usize)
        .initial(0)
        .build();
    let limiter = Arc::new(limiter);
    Limiter(Arc::new(move |_, units| {
        let wait = limiter.clone().acquire_owned(units as usize);
        Box::pin(async move {
            wait.await;
            Ok(())
        })
    }))
}

fn throttle() -> Limiter {
    let limiter = Arc::new(Throttle::builder().per_second(RATE).burst(RATE).initial(0).build());
    Limiter(Arc::new(move |_, units| {
        let limiter = limiter.clone();
        Box::pin(async move { Ok(limiter.acquire_with_cost(units).await?) })
    }))
}

fn throttle_queue() -> Limiter {
    let throttle = Throttle::builder().per_second(RATE).burst(RATE).initial(0).build();
    let queue: Arc<Queue<Throttle, usize>> = Arc::new(Queue::builder().build(throttle));
    Limiter(Arc::new(move |loop_, units| {
        let queue = queue.clone();
        Box::pin(async move { Ok(queue.acquire_with_cost(loop_, 0, None, units).await?) })
    }))
}
