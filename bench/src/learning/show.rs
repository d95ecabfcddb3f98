//! The table: a line for each group with its worst cell, or a line for each cell.

use super::cell::{Outcome, Row, Target};

/// A row and what became of it.
pub type Judged<'a> = (&'a Row, Outcome);

/// One line for each group.
pub fn summary(judged: &[Judged<'_>]) {
    println!(
        "| | cells met | used at least | mean | worst cell | rejected at most | mean | worst cell | longest silence, s |"
    );
    println!("|---|--:|--:|--:|---|--:|--:|---|--:|");
    for group in groups(judged) {
        let cells: Vec<&Judged<'_>> = judged.iter().filter(|(row, _)| row.group == group).collect();
        let met = cells.iter().filter(|(_, outcome)| outcome.met).count();
        let least = cells.iter().min_by(|(_, a), (_, b)| a.used.0.total_cmp(&b.used.0));
        let most = cells.iter().max_by(|(_, a), (_, b)| a.rejected.0.total_cmp(&b.rejected.0));
        let (Some((low, used)), Some((high, rejected))) = (least, most) else { continue };
        println!(
            "| {group} | {met} of {} {} | {} | {} | {}: {} | {} | {} | {} | {:.0} |",
            cells.len(),
            verdict(met == cells.len()),
            per_cent(low.target.used),
            per_cent(mean(&cells, |outcome| outcome.used.0)),
            per_cent(used.used.0),
            low.name,
            allowed(low.target),
            per_cent(mean(&cells, |outcome| outcome.rejected.0)),
            if rejected.rejected.0 > 0.0 {
                format!("{}: {}", per_cent(rejected.rejected.0), high.name)
            } else {
                "none".into()
            },
            cells.iter().map(|(_, outcome)| outcome.silence.as_secs_f64()).fold(0.0, f64::max),
        );
    }
    let met = judged.iter().filter(|(_, outcome)| outcome.met).count();
    println!("\n{met} of {} cells are met.\n", judged.len());
}

/// One line for each cell.
pub fn all(judged: &[Judged<'_>]) {
    println!("| | cell | used: mean | least | rejected: mean | most | longest silence, s | |");
    println!("|---|---|--:|--:|--:|--:|--:|---|");
    for (row, outcome) in judged {
        println!(
            "| {} | {} | {} | {} | {} | {} | {:.1} | {} |",
            row.group,
            row.name,
            per_cent(outcome.used.0),
            per_cent(outcome.used.1),
            per_cent(outcome.rejected.0),
            per_cent(outcome.rejected.1),
            outcome.silence.as_secs_f64(),
            verdict(outcome.met),
        );
    }
    println!();
}

/// The groups, in order.
fn groups<'a>(judged: &[Judged<'a>]) -> Vec<&'a str> {
    let mut groups: Vec<&str> = Vec::new();
    for (row, _) in judged {
        if !groups.contains(&row.group.as_str()) {
            groups.push(&row.group);
        }
    }
    groups
}

fn mean(cells: &[&Judged<'_>], of: fn(&Outcome) -> f64) -> f64 {
    cells.iter().map(|(_, outcome)| of(outcome)).sum::<f64>() / cells.len() as f64
}

fn allowed(target: Target) -> String {
    target.rejected.map_or("–".into(), per_cent)
}

fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "**missed**" }
}

/// A share to a hundredth of a per cent.
pub fn per_cent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}
