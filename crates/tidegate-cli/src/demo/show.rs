//! The demo as text: a table that is drawn over itself on a terminal, lines elsewhere, a summary at the end.

use std::time::Duration;

use serde_json::{Value, json};

use super::jobs::LOOPS;
use super::tally::{Count, LoopCount};

/// The names of the two sides, in the order in which they are shown.
const SIDES: [&str; 2] = ["without tidegate", "with tidegate"];

/// The cells of a bar.
const BAR: u32 = 10;

pub fn opening(rate: u64) -> String {
    let loops: Vec<String> =
        LOOPS.iter().map(|of| format!("{} ({}, {} jobs)", of.name, of.priority, of.jobs)).collect();
    format!(
        "Two equal APIs, each takes {rate} requests a second. The same three loops on both:\n{}.\n\n",
        loops.join(", ")
    )
}

/// Returns the table, drawn `over` the one before it.
pub fn frame(sides: &[Count; 2], over: bool) -> String {
    let table = table(sides);
    let up = if over { format!("\x1b[{}A", table.lines().count()) } else { String::new() };
    // Each line is cleared to its end: the old text may have been longer.
    up + &table.lines().map(|line| format!("{line}\x1b[K\n")).collect::<String>()
}

/// Returns the state in one line.
pub fn line(at: Duration, sides: &[Count; 2]) -> String {
    let side = |(name, of): (&&str, &Count)| {
        format!("{name} {} done, {} lost, {} refused", of.done(), of.lost(), of.refused)
    };
    let both: Vec<String> = SIDES.iter().zip(sides).map(side).collect();
    format!("{:4.1} s  {}\n", at.as_secs_f64(), both.join("; "))
}

/// Returns the summary, and the table unless it is on the screen already.
pub fn summary(sides: &[Count; 2], drawn: bool) -> String {
    let mut text = if drawn { frame(sides, true) } else { format!("\n{}", table(sides)) };
    text.push('\n');
    for (name, side) in SIDES.iter().zip(sides) {
        let jobs: u32 = LOOPS.iter().map(|of| of.jobs).sum();
        let work = match side.lost() {
            0 => format!("all {jobs} jobs done"),
            lost => format!("{} of {jobs} jobs done, {lost} lost", side.done()),
        };
        text += &format!(
            "{name:16}  {work}, in {}\n{:16}  {} requests refused with 429; the user's slowest call took {}\n",
            seconds(side.took),
            "",
            side.refused,
            seconds(side.loops[0].slowest)
        );
    }
    text + "\nFor your own programs: `tidegate serve`, and http://127.0.0.1:8429/openai/v1 as the base URL;\n\
            or `tidegate run -- python agent.py`, with no change at all.\n"
}

pub fn json(sides: &[Count; 2]) -> Value {
    let of_loop = |(of, count): (&super::jobs::Loop, &LoopCount)| {
        json!({
            "loop": of.name,
            "priority": of.priority,
            "jobs": of.jobs,
            "done": count.done,
            "lost": count.lost,
            "slowest_ms": count.slowest.as_millis() as u64,
        })
    };
    let side = |of: &Count| {
        json!({
            "done": of.done(),
            "lost": of.lost(),
            "refused": of.refused,
            "took_ms": of.took.as_millis() as u64,
            "loops": LOOPS.iter().zip(&of.loops).map(of_loop).collect::<Vec<_>>(),
        })
    };
    json!({ "without": side(&sides[0]), "with": side(&sides[1]) })
}

fn table(sides: &[Count; 2]) -> String {
    let [without, with] = sides.each_ref().map(|side| side.loops.as_slice());
    let mut text = format!("{:16} {:^29}   {:^29}\n", "", SIDES[0], SIDES[1]);
    let head = format!("{:10} {:>4} {:>4} {:>8}", "", "done", "lost", "slowest");
    text += &format!("{:16} {head}   {head}\n", "loop");
    for (number, of) in LOOPS.iter().enumerate() {
        let who = format!("{} ({})", of.name, of.priority);
        text +=
            &format!("{who:16} {}   {}\n", cells(&without[number], of.jobs), cells(&with[number], of.jobs));
    }
    let all = |side: &Count| format!("{:10} {:>4} {:>4} {:>8}", "", side.done(), side.lost(), "");
    text += &format!("{:16} {}   {}\n", "in all", all(&sides[0]), all(&sides[1]));
    let refused = |side: &Count| format!("{:10} {:>4} {:>13}", "", side.refused, "");
    text += &format!("{:16} {}   {}\n", "429s", refused(&sides[0]), refused(&sides[1]));
    let time = |side: &Count| {
        let state = if side.over { "over after" } else { "" };
        format!("{state:10} {:>18}", seconds(side.took))
    };
    text += &format!("{:16} {}   {}\n", "time", time(&sides[0]), time(&sides[1]));
    text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn cells(count: &LoopCount, jobs: u32) -> String {
    let (done, lost) = (count.done * BAR / jobs, (count.done + count.lost) * BAR / jobs);
    let bar: String = (0..BAR)
        .map(|cell| {
            if cell < done {
                '█'
            } else if cell < lost {
                '×'
            } else {
                '·'
            }
        })
        .collect();
    format!("{bar} {:>4} {:>4} {:>8}", count.done, count.lost, seconds(count.slowest))
}

fn seconds(span: Duration) -> String {
    format!("{:.2} s", span.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(done: [u32; 3], lost: [u32; 3]) -> Count {
        let loops = done.into_iter().zip(lost).map(|(done, lost)| LoopCount {
            done,
            lost,
            slowest: Duration::from_millis(250),
        });
        Count { loops: loops.collect(), refused: 31, took: Duration::from_secs(7), over: true }
    }

    #[test]
    fn a_frame_covers_the_one_before_it_and_fits_a_terminal() {
        let sides = [count([3, 20, 9], [9, 44, 55]), count([12, 64, 64], [0, 0, 0])];
        let (first, second) = (frame(&sides, false), frame(&sides, true));
        assert_eq!(second, format!("\x1b[{}A{first}", first.lines().count()));
        assert!(table(&sides).lines().all(|line| line.chars().count() < 80), "{}", table(&sides));
    }

    #[test]
    fn lost_work_is_told() {
        let sides = [count([3, 20, 9], [9, 44, 55]), count([12, 64, 64], [0, 0, 0])];
        let said = summary(&sides, false);
        assert!(
            said.contains("32 of 140 jobs done, 108 lost") && said.contains("all 140 jobs done"),
            "{said}"
        );
        assert_eq!(json(&sides)["without"]["lost"], 108);
    }
}
