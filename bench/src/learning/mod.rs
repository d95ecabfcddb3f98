//! How much of an upstream's quota is used and how little is rejected: every cell of what tidegate must reach, in the
//! simulator, against its target.
//!
//! ```text
//! cargo run --release -p tidegate-bench -- learning                        # a line for each group, 20 seeds a cell
//! cargo run --release -p tidegate-bench -- learning --all                  # a line for each cell
//! cargo run --release -p tidegate-bench -- learning --seeds 3              # faster, and less sure
//! cargo run --release -p tidegate-bench -- learning --plot docs/learning.svg
//! cargo run --release -p tidegate-bench -- learning --only "bare 429"      # groups and cells named so
//! cargo run --release -p tidegate-bench -- learning --only "alone" --scenario   # their scenarios, for `simulate`
//! ```

mod cell;
mod clients;
mod compare;
mod groups;
mod measure;
mod play;
mod plot;
mod scene;
mod show;

use anyhow::{Context, Result, bail};

use self::cell::Cell;
use crate::harness::Effort;

const USAGE: &str = "tidegate-bench learning [--seeds N] [--all] [--plot FILE] [--only TEXT [--scenario]]";

/// What is asked for.
struct Asked {
    seeds: u64,
    all: bool,
    only: Option<String>,
    scenario: bool,
    plot: Option<String>,
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
    let some = if asked.seeds == 1 { "seed" } else { "seeds" };
    println!(
        "{} {some} a cell: the mean must meet the target, and no seed miss it by more than a point.\n",
        asked.seeds
    );
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
    if asked.only.is_some() {
        return Ok(());
    }
    let columns = compare::columns();
    let lines = compare::compare(&columns, asked.seeds)?;
    compare::show(&columns, &lines);
    if let Some(file) = &asked.plot {
        std::fs::write(file, plot::svg(&columns, &lines)).with_context(|| format!("cannot write {file}"))?;
    }
    Ok(())
}

impl Asked {
    fn from(args: &[&str]) -> Result<Asked> {
        let mut asked = Asked { seeds: 20, all: false, only: None, scenario: false, plot: None };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match (*arg, args.clone().next()) {
                ("--short", _) => asked.seeds = 1,
                ("--all", _) => asked.all = true,
                ("--scenario", _) => asked.scenario = true,
                ("--seeds", Some(seeds)) => asked.seeds = seeds.parse()?,
                ("--only", Some(text)) => asked.only = Some((*text).to_owned()),
                ("--plot", Some(file)) => asked.plot = Some((*file).to_owned()),
                _ => bail!("usage: {USAGE}"),
            }
            if matches!(*arg, "--seeds" | "--only" | "--plot") {
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
