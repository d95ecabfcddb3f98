//! tidegate beside its peers.
//!
//! ```text
//! cargo run --release -p tidegate-bench -- bucket            # the table
//! cargo run --release -p tidegate-bench -- bucket --short    # does it still run? (numbers mean nothing)
//! ```
//!
//! Every table is measured in one process, the contenders in turn, and compared by the ratio of runs that
//! were next to each other: the machine's moods fall on all of them alike.
//!
//! Where even that is too noisy, instructions can be counted. Run this with two different N and divide the
//! difference of the instructions by that of the N:
//!
//! ```text
//! valgrind --tool=callgrind target/release/tidegate-bench bucket --count ours 1000000
//! ```
#![warn(missing_docs)]

mod bucket;
mod harness;

use anyhow::{Result, bail};

const USAGE: &str = "usage: tidegate-bench bucket [--short] | bucket --count CONTENDER N";

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["bucket"] => bucket::table(harness::Effort::Full),
        ["bucket", "--short"] => bucket::table(harness::Effort::Short),
        ["bucket", "--count", contender, times] => bucket::count(contender, times.parse()?),
        _ => bail!(USAGE),
    }
}
