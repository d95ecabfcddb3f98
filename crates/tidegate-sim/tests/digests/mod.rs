//! The digests of 1,000 random scenarios and of the examples, as they were recorded.
//!
//! A change that keeps the engine's behaviour keeps all of them. A commit that changes a digest names the defect that it
//! mends, and records the digests anew:
//! `cargo run --release -p tidegate-sim --example digests > crates/tidegate-sim/tests/digests/recorded.txt`.

/// A line for each scenario: its seed or its file, and the digest of its run.
const RECORDED: &str = include_str!("recorded.txt");

/// Returns the digest that is recorded for a seed or a file.
pub fn recorded(scenario: &str) -> Option<u64> {
    let lines = RECORDED.lines().filter_map(|line| line.split_once(' '));
    let (_, digest) = lines.into_iter().find(|(known, _)| *known == scenario)?;
    Some(u64::from_str_radix(digest, 16).expect("a digest in hexadecimal"))
}
