//! tidegate beside its peers.
//!
//! ```text
//! cargo run --release -p tidegate-bench -- all               # every table
//! cargo run --release -p tidegate-bench -- bucket            # one of them
//! cargo run --release -p tidegate-bench -- learning --seeds 3   # the simulated worlds with fewer seeds than 20
//! cargo run --release -p tidegate-bench -- all --short       # does it still run? (numbers mean nothing)
//! ```
//!
//! Every table is measured in one process, the contenders in turn, and compared by the ratio of runs that
//! were next to each other: the machine's moods fall on all of them alike.
//!
//! Where even that is too noisy, instructions are counted. Most tables do so themselves if valgrind is
//! installed; by hand, run one of the `--count` modes with two different N and divide the difference of the
//! instructions by that of the N:
//!
//! ```text
//! valgrind --tool=callgrind target/release/tidegate-bench bucket --count ours 1000000
//! ```
#![warn(missing_docs)]

mod backoff;
mod bucket;
#[cfg(unix)]
mod clients;
mod curve;
mod fair;
mod gate;
mod harness;
mod instructions;
mod learning;
#[cfg(unix)]
mod load;
mod loops;
#[cfg(unix)]
mod permits;
#[cfg(unix)]
mod proxy;
mod queue;
mod simulate;
mod state;
#[cfg(unix)]
mod streams;
mod weight;

use anyhow::{Result, bail};

use harness::Effort;

const USAGE: &str = "usage: tidegate-bench TABLE [--short]
       TABLE is all, bucket, backoff, gate, queue, fair, loops, curve, simulate, state, learning, permits, proxy,
       streams or clients
       tidegate-bench learning [--seeds N] [--all] [--plot FILE] [--only TEXT [--scenario]]
       tidegate-bench bucket|backoff|gate --count CONTENDER N
       tidegate-bench loops --count engine|gate LOOPS N
       tidegate-bench curve --count LOOPS WAITERS
       tidegate-bench queue --run CONTENDER WAITERS RUNS
       tidegate-bench proxy --instructions [--short]
       tidegate-bench clients --trace COLUMN";

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["learning", ref how @ ..] => learning::run(how),
        [name] => tables(name, Effort::Full),
        [name, "--short"] => tables(name, Effort::Short),
        ["bucket", "--count", contender, times] => bucket::count(contender, times.parse()?),
        ["backoff", "--count", contender, times] => backoff::count(contender, times.parse()?),
        ["gate", "--count", contender, times] => gate::count(contender, times.parse()?),
        ["loops", "--count", driver, loops, times] => loops::count(driver, loops.parse()?, times.parse()?),
        ["curve", "--count", loops, waiters] => curve::count(loops.parse()?, waiters.parse()?),
        ["queue", "--run", contender, waiters, runs] => {
            queue::run(contender, waiters.parse()?, runs.parse()?)
        }
        #[cfg(unix)]
        ["proxy", "--instructions"] => proxy::instructions(Effort::Full),
        #[cfg(unix)]
        ["proxy", "--instructions", "--short"] => proxy::instructions(Effort::Short),
        #[cfg(unix)]
        ["clients", "--trace", column] => clients::trace(column),
        _ => bail!(USAGE),
    }
}

type Table = fn(Effort) -> Result<()>;

fn tables(name: &str, effort: Effort) -> Result<()> {
    let known: &[(&str, Table)] = &[
        ("bucket", bucket::table),
        ("backoff", backoff::table),
        ("gate", gate::table),
        ("queue", queue::table),
        ("fair", fair::table),
        ("loops", loops::table),
        ("curve", curve::table),
        ("simulate", simulate::table),
        ("state", state::table),
        ("learning", learning::table),
        #[cfg(unix)]
        ("permits", permits::table),
        #[cfg(unix)]
        ("proxy", proxy::table),
        #[cfg(unix)]
        ("streams", streams::table),
        #[cfg(unix)]
        ("clients", clients::table),
    ];
    let wanted: Vec<_> = known.iter().filter(|(known, _)| name == "all" || name == *known).collect();
    if wanted.is_empty() {
        bail!(USAGE);
    }
    wanted.into_iter().try_for_each(|(_, table)| table(effort))
}
