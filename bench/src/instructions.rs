//! Counting instructions, where clocks are too noisy to decide.
//!
//! The table runs itself once more under valgrind's callgrind, with one of its `--count` modes, and has it
//! count inside of chosen functions only, so that what it takes to set the stage is not counted.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::harness::Effort;

/// Where counting ends. (Told to dump both before and after one function, callgrind forgets the former.)
#[inline(never)]
pub fn end() {
    std::hint::black_box(());
}

/// Valgrind, if it is here.
pub struct Counter {
    program: PathBuf,
    folder: PathBuf,
}

impl Counter {
    /// Says so in the table if there is no valgrind; a short run counts nothing.
    pub fn find(effort: Effort) -> Option<Counter> {
        if effort == Effort::Short {
            return None;
        }
        let works = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status();
        if !works.is_ok_and(|status| status.success()) {
            println!("(No instructions counted: valgrind is not installed.)\n");
            return None;
        }
        let program = std::env::current_exe().ok()?;
        let folder = std::env::temp_dir().join(format!("tidegate-bench-{}", std::process::id()));
        Some(Counter { program, folder })
    }

    /// The instructions spent in each of `functions` of this program, which are called in that order, once each
    /// and one right after the other and then [`end`], when it is run with `args`.
    pub fn count(&self, args: &[&str], functions: &[&str]) -> Result<Vec<u64>> {
        std::fs::create_dir_all(&self.folder)?;
        let counted = self.count_into(args, functions);
        std::fs::remove_dir_all(&self.folder)?;
        counted
    }

    fn count_into(&self, args: &[&str], functions: &[&str]) -> Result<Vec<u64>> {
        let out = self.folder.join("counted");
        let mut valgrind = Command::new("valgrind");
        valgrind.arg("--tool=callgrind").arg(format!("--callgrind-out-file={}", out.display()));
        // The counts start again with every dump, so the second file has what the first function took.
        for function in functions.iter().chain(&["instructions::end"]) {
            valgrind.arg(format!("--dump-before=tidegate_bench::{function}"));
        }
        let run = valgrind.arg(&self.program).args(args).output()?;
        ensure!(run.status.success(), "valgrind failed: {}", String::from_utf8_lossy(&run.stderr));
        (0..functions.len())
            .map(|index| {
                let text = std::fs::read_to_string(self.folder.join(format!("counted.{}", index + 2)))?;
                let total = text.lines().find_map(|line| line.strip_prefix("totals: "));
                Ok(total.context("callgrind wrote no total")?.trim().parse()?)
            })
            .collect()
    }
}
