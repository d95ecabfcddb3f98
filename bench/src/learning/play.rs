//! Plays cells, every seed of each, on all processors.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;
use tidegate_sim::{Options, simulate};

use super::cell::{Cell, Outcome};
use super::measure::Seen;

/// What became of each row of each cell.
pub fn play(cells: &[Cell], seeds: u64) -> Result<Vec<Vec<Outcome>>> {
    let runs: Vec<(&Cell, u64)> =
        cells.iter().flat_map(|cell| (1..=seeds).map(move |seed| (cell, seed))).collect();
    let seen = on_all_processors(&runs, |(cell, seed)| one(cell, *seed))?;
    let by_cell = cells.iter().zip(seen.chunks(seeds as usize));
    let outcomes = by_cell.map(|(cell, seen)| {
        let judged = cell.rows.iter().enumerate().map(|(row, of)| {
            let seen: Vec<Seen> = seen.iter().map(|rows| rows[row]).collect();
            of.target.judge(&seen)
        });
        judged.collect()
    });
    Ok(outcomes.collect())
}

/// What each row of a cell saw with one seed.
fn one(cell: &Cell, seed: u64) -> Result<Vec<Seen>> {
    let scenario = cell.scene.scenario(&cell.phases())?;
    let report = simulate(&scenario, seed, &quickly())?;
    Ok(cell.rows.iter().map(|row| row.measure.read(&report)).collect())
}

/// Without checks: the engine's promises are kept elsewhere.
pub fn quickly() -> Options {
    Options { checks: false, story: 0, ..Options::default() }
}

/// Does something to each, in whatever order, and returns what came of it in theirs.
pub fn on_all_processors<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Result<R>)>> = Mutex::new(Vec::with_capacity(items.len()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((place, item)) = take(&next, items) {
                    let result = work(item);
                    done.lock().expect("no other thread panicked").push((place, result));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("a thread that panics ends the scope");
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}

fn take<'t, T>(next: &AtomicUsize, items: &'t [T]) -> Option<(usize, &'t T)> {
    let place = next.fetch_add(1, Ordering::Relaxed);
    Some((place, items.get(place)?))
}
