//! Asking a backoff window whether it is open, which every call does.
//!
//! The baseline is what cannot be had for less: one atomic load and one reading of the system's clock, of
//! which nothing is made. Ours is [`BackoffWindow::should_backoff`] on a window that is open, on one that has
//! passed, and on one that was never opened. (Where instructions are counted, the system's clock itself is
//! not: it is read by the kernel there, and not, as in life, by code in the process. That makes the baseline
//! look cheaper than it is.)

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tidegate::{BackoffWindow, Registry};

use crate::harness::{Contender, Effort, compare};
use crate::instructions::{self, Counter};

const HOUR: Duration = Duration::from_secs(3600);
const BASELINE: &str = "an atomic load and `Instant::now()`";
const OPEN: &str = "**tidegate** `should_backoff`, open";
const PASSED: &str = "**tidegate** `should_backoff`, passed";
const FRESH: &str = "**tidegate** `should_backoff`, never opened";

/// Prints the time on one and on two threads, and the instructions.
pub fn table(effort: Effort) -> Result<()> {
    println!("## Backoff window: `should_backoff`\n");
    for threads in [1, 2] {
        let (deadline, open, passed, fresh) = (AtomicU64::new(1), open(), passed(), fresh());
        let contenders = [
            Contender::new(BASELINE, true, move || baseline(&deadline)),
            Contender::new(OPEN, true, move || open.should_backoff()),
            Contender::new(PASSED, true, move || !passed.should_backoff()),
            Contender::new(FRESH, true, move || !fresh.should_backoff()),
        ];
        compare("asked", &contenders, threads, effort);
    }
    let Some(counter) = Counter::find(effort) else { return Ok(()) };
    let times = 10_000;
    let counted = |contender| -> Result<f64> {
        let args = ["backoff", "--count", contender, &times.to_string()];
        Ok(counter.count(&args, &["backoff::repeat"])?[0] as f64 / f64::from(times))
    };
    let base = counted("baseline")?;
    println!("### Instructions\n");
    println!("| | instructions | ratio |\n|---|--:|--:|");
    for (name, contender) in [(BASELINE, "baseline"), (OPEN, "open"), (PASSED, "passed"), (FRESH, "fresh")] {
        let own = counted(contender)?;
        println!("| {name} | {own:.0} | {:.2} |", own / base);
    }
    println!();
    Ok(())
}

/// Does nothing but ask one contender `times` times, for a tool that counts instructions.
pub fn count(contender: &str, times: u64) -> Result<()> {
    let yes = match contender {
        "baseline" => {
            let deadline = AtomicU64::new(1);
            repeat(times, || baseline(&deadline))
        }
        "open" => {
            let window = open();
            repeat(times, || window.should_backoff())
        }
        "passed" => {
            let window = passed();
            repeat(times, || !window.should_backoff())
        }
        "fresh" => {
            let window = fresh();
            repeat(times, || !window.should_backoff())
        }
        other => bail!("no contender `{other}`: use baseline, open, passed or fresh"),
    };
    instructions::end();
    println!("{yes} of {times} as expected");
    Ok(())
}

/// A function of its own, so that a counter can be told to count inside of it only.
#[inline(never)]
fn repeat(times: u64, operation: impl Fn() -> bool) -> u64 {
    (0..times).map(|_| u64::from(black_box(operation()))).sum()
}

fn baseline(deadline: &AtomicU64) -> bool {
    black_box(Instant::now());
    deadline.load(Ordering::Acquire) == 1
}

fn fresh() -> BackoffWindow {
    Registry::new().for_key("api")
}

fn open() -> BackoffWindow {
    let window = fresh();
    window.set(HOUR);
    window
}

fn passed() -> BackoffWindow {
    let window = open();
    window.clear();
    window
}
