//! One decision over a whole route: four levels, eight limits, all or nothing.
//!
//! The peer does the same eight checks one after the other, with six governors and two of tokio's semaphores,
//! and gives the two slots back; had one of them refused, what the others took would be lost. Ours is one
//! [`Gate::try_acquire`] and the drop of its permit. Every call costs one unit everywhere, which is what
//! governor is fastest at, and nothing is ever refused.

use std::num::NonZeroU32;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use governor::{DefaultDirectRateLimiter, Quota};
use tidegate::{Call, Config, Gate};
use tokio::sync::Semaphore;

use crate::harness::{Contender, Effort, compare};
use crate::instructions::{self, Counter};

const PER_MINUTE: u32 = 600_000_000;
const SLOTS: usize = 1_000_000;

const ROUTE: &str = r#"
[global]
requests = "600000000/min"
concurrency = 1000000

[services.api]
requests = "600000000/min"
tokens = "600000000/min"

[services.api.endpoints."POST /v1/chat"]
requests = "600000000/min"
concurrency = 1000000

[services.api.models."gpt*"]
requests = "600000000/min"
tokens = "600000000/min"
"#;

/// Prints the time on one and on two threads, and the instructions.
pub fn table(effort: Effort) -> Result<()> {
    println!("## Gate: `try_acquire` and release over 4 levels with 8 limits\n");
    for threads in [1, 2] {
        let (peers, (gate, call)) = (peers()?, ours()?);
        let contenders = [
            Contender::new("6 × governor 0.10 `check`, 2 × tokio `Semaphore`", true, move || peers.pass()),
            Contender::new("**tidegate** `try_acquire`, atomic", true, move || {
                gate.try_acquire(&call).is_ok()
            }),
        ];
        compare("granted and released", &contenders, threads, effort);
    }
    let Some(counter) = Counter::find(effort) else { return Ok(()) };
    let times = 10_000;
    let counted = |contender| -> Result<f64> {
        let totals = counter.count(&["gate", "--count", contender, &times.to_string()], &["gate::repeat"])?;
        Ok(totals[0] as f64 / f64::from(times))
    };
    let (peers, ours) = (counted("peers")?, counted("ours")?);
    println!("### Instructions\n");
    println!("| | instructions | ratio |\n|---|--:|--:|");
    println!("| 6 × governor 0.10 `check`, 2 × tokio `Semaphore` | {peers:.0} | 1.00 |");
    println!("| **tidegate** `try_acquire`, atomic | {ours:.0} | {:.2} |\n", ours / peers);
    Ok(())
}

/// Does nothing but `times` decisions of one contender, for a tool that counts instructions.
pub fn count(contender: &str, times: u64) -> Result<()> {
    let granted = match contender {
        "ours" => {
            settle(ours)?;
            let (gate, call) = ours()?;
            repeat(times, || gate.try_acquire(&call).is_ok())
        }
        "peers" => {
            settle(peers)?;
            let peers = peers()?;
            repeat(times, || peers.pass())
        }
        other => bail!("no contender `{other}`: use ours or peers"),
    };
    instructions::end();
    println!("{granted} of {times} granted");
    Ok(())
}

/// A counting tool slows the clocks down so much that a scale for the processor's counter is only found after
/// some time, so the first of a process is thrown away.
fn settle<T>(make: impl Fn() -> Result<T>) -> Result<()> {
    drop(make()?);
    std::thread::sleep(Duration::from_millis(100));
    Ok(())
}

/// A function of its own, so that a counter can be told to count inside of it only.
#[inline(never)]
fn repeat(times: u64, operation: impl Fn() -> bool) -> u64 {
    let mut granted = 0;
    for _ in 0..times {
        granted += u64::from(std::hint::black_box(operation()));
    }
    granted
}

fn ours() -> Result<(Gate, Call)> {
    let gate = Gate::builder().config(Config::parse(ROUTE)?).build()?;
    let call = Call::to("api").endpoint("POST /v1/chat").model("gpt-4o").tokens(1);
    let limits = gate.limits();
    anyhow::ensure!(limits.len() == 8, "the route has {} limits", limits.len());
    drop(gate.try_acquire(&call)?);
    // A limit that the route misses would be a check that is not paid for.
    let passed = gate.limits().iter().filter(|limit| limit.used > 0).count();
    anyhow::ensure!(passed == 6, "the call passed {passed} of 6 rates");
    Ok((gate, call))
}

fn peers() -> Result<Peers> {
    let rate = NonZeroU32::new(PER_MINUTE).context("it is not zero")?;
    Ok(Peers {
        rates: std::array::from_fn(|_| governor::RateLimiter::direct(Quota::per_minute(rate))),
        slots: [Semaphore::new(SLOTS), Semaphore::new(SLOTS)],
    })
}

struct Peers {
    rates: [DefaultDirectRateLimiter; 6],
    slots: [Semaphore; 2],
}

impl Peers {
    fn pass(&self) -> bool {
        let (Ok(_first), Ok(_second)) = (self.slots[0].try_acquire(), self.slots[1].try_acquire()) else {
            return false;
        };
        self.rates.iter().all(|rate| rate.check().is_ok())
    }
}
