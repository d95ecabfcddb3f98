//! How much of an upstream's quota is used and how little is rejected: every cell of what tidegate must reach, in the
//! simulator, against its target.
//!
//! ```text
//! cargo run --release -p tidegate-bench -- learning                        # a line for each group, 20 seeds a cell
//! cargo run --release -p tidegate-bench -- learning --all                  # a line for each cell
//! cargo run --release -p tidegate-bench -- learning --seeds 3              # faster, and less sure
//! cargo run --release -p tidegate-bench -- learning --only "bare 429"      # groups and cells named so
//! cargo run --release -p tidegate-bench -- learning --only "alone" --scenario   # their scenarios, for `simulate`
//! ```

mod cell;
mod groups;
mod measure;
mod play;
mod scene;
mod show;

use anyhow::{Result, bail};

use self::cell::Cell;
use crate::harness::Effort;

const USAGE: &str = "tidegate-bench learning [--seeds N] [--all] [--only TEXT] [--scenario]";

/// What is asked for.
struct Asked {
    seeds: u64,
    all: bool,
    only: Option<String>,
    scenario: bool,
}

/// The table, among others.
pub fn table(effort: Effort) -> Result<()> {
    run(if effort == Effort::Short { &["--seeds", "1"] } else { &[] })
}

/// The table as asked for.
pub fn run(args: &[&str]) -> Result<()> {
    let asked = Asked::from(args)?;
    let cells: Vec<Cell> = groups::cells().into_iter().filter_map(|cell| asked.wanted(cell)).collect();
    if asked.scenario {
        for cell in &cells {
            println!("# {}: {}\n{}", cell.rows[0].group, cell.rows[0].name, cell.scene.text(&cell.phases()));
        }
        return Ok(());
    }
    println!("## All of the quota\n");
    let outcomes = play::play(&cells, asked.seeds)?;
    let rows = cells
        .iter()
        .zip(&outcomes)
        .flat_map(|(cell, outcomes)| cell.rows.iter().zip(outcomes.iter().copied()));
    let judged: Vec<_> = rows.collect();
    if asked.all {
        show::all(&judged);
    }
    show::summary(&judged);
    Ok(())
}

impl Asked {
    fn from(args: &[&str]) -> Result<Asked> {
        let mut asked = Asked { seeds: 20, all: false, only: None, scenario: false };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match (*arg, args.clone().next()) {
                ("--short", _) => asked.seeds = 1,
                ("--all", _) => asked.all = true,
                ("--scenario", _) => asked.scenario = true,
                ("--seeds", Some(seeds)) => asked.seeds = seeds.parse()?,
                ("--only", Some(text)) => asked.only = Some((*text).to_owned()),
                _ => bail!("usage: {USAGE}"),
            }
            if matches!(*arg, "--seeds" | "--only") {
                args.next();
            }
        }
        if asked.seeds == 0 {
            bail!("--seeds must be at least 1");
        }
        Ok(asked)
    }

    /// The cell with those of its rows that are asked for.
    fn wanted(&self, mut cell: Cell) -> Option<Cell> {
        if let Some(text) = &self.only {
            cell.rows.retain(|row| format!("{}: {}", row.group, row.name).contains(text));
        }
        (!cell.rows.is_empty()).then_some(cell)
    }
}
