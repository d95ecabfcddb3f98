//! The comparison as a picture: above, what each client used in each world, below, what was rejected.

use std::fmt::Write;

use super::compare::{Column, Line, Shares};

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 14.0;
/// The heights of the two panels, and of what lies above, between and below them.
const ABOVE: f64 = 84.0;
const USED: f64 = 210.0;
const BETWEEN: f64 = 58.0;
const REJECTED: f64 = 150.0;
const BELOW: f64 = 56.0;

/// One for each client: ours stands out, and all can be told apart without seeing red or green.
const COLOURS: [&str; 5] = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#9a9a9a"];
const INK: &str = "#222222";
const GREY: &str = "#666666";
const FAINT: &str = "#dddddd";

/// The picture as SVG.
pub fn svg(columns: &[Column], lines: &[Line]) -> String {
    let height = ABOVE + USED + BETWEEN + REJECTED + BELOW;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\">\n\
         <title>How much of a quota clients use, and how much of what they send is rejected</title>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    legend(&mut out, lines);
    let world = "one limit of 600 calls a minute, more callers than it can serve, ten minutes";
    text(&mut out, (WIDTH - RIGHT, ABOVE - 22.0), "end", 11, GREY, world);
    let used = Panel { top: ABOVE, height: USED, most: 100.0, step: 25, name: "used, % of the quota" };
    let rejected = Panel {
        top: ABOVE + USED + BETWEEN,
        height: REJECTED,
        most: 60.0,
        step: 20,
        name: "rejected, % of calls",
    };
    used.draw(&mut out, lines, |shares| shares.used);
    rejected.draw(&mut out, lines, |shares| shares.rejected);
    for (place, column) in columns.iter().enumerate() {
        let middle = LEFT + (place as f64 + 0.5) * group(columns.len());
        for (row, words) in two_lines(column.name).into_iter().enumerate() {
            let y = height - BELOW + 20.0 + 15.0 * row as f64;
            text(&mut out, (middle, y), "middle", 12, INK, &words);
        }
    }
    out + "</svg>\n"
}

/// A diagram of bars.
struct Panel {
    top: f64,
    height: f64,
    /// What its upper edge stands for, in per cent, and how far apart its lines are.
    most: f64,
    step: u32,
    name: &'static str,
}

impl Panel {
    fn draw(&self, out: &mut String, lines: &[Line], of: fn(&Shares) -> f64) {
        let bottom = self.top + self.height;
        text(out, (LEFT, self.top - 22.0), "start", 13, INK, self.name);
        for level in (0..=self.most as u32).step_by(self.step as usize) {
            let y = bottom - f64::from(level) / self.most * self.height;
            let _ = writeln!(
                out,
                "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\" stroke=\"{FAINT}\"/>",
                WIDTH - RIGHT
            );
            text(out, (LEFT - 8.0, y + 4.0), "end", 11, INK, &level.to_string());
        }
        let columns = lines.first().map_or(0, |line| line.cells.len());
        // A group leaves a bar's width free to its neighbour.
        let bar = group(columns) / (lines.len() as f64 + 1.0);
        for (which, line) in lines.iter().enumerate() {
            for (place, shares) in line.cells.iter().enumerate() {
                let value = of(shares) * 100.0;
                let x = LEFT + place as f64 * group(columns) + (which as f64 + 0.5) * bar;
                let tall = value.min(self.most) / self.most * self.height;
                let (y, wide, fill) = (bottom - tall, bar - 2.0, COLOURS[which % COLOURS.len()]);
                let _ = writeln!(
                    out,
                    "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"{tall:.1}\" fill=\"{fill}\"/>"
                );
                text(out, (x + wide / 2.0, y - 4.0), "middle", 9, INK, &number(value));
            }
        }
    }
}

fn legend(out: &mut String, lines: &[Line]) {
    let mut x = LEFT;
    for (line, colour) in lines.iter().zip(COLOURS) {
        let _ = writeln!(out, "<rect x=\"{x:.1}\" y=\"18\" width=\"12\" height=\"12\" fill=\"{colour}\"/>");
        text(out, (x + 18.0, 28.0), "start", 13, INK, line.name);
        // As wide as letters of this size are on average.
        x += 18.0 + line.name.chars().count() as f64 * 6.9 + 24.0;
    }
}

/// How wide the bars of a world are together.
fn group(columns: usize) -> f64 {
    (WIDTH - LEFT - RIGHT) / columns.max(1) as f64
}

/// To a tenth; all and nothing as whole numbers.
fn number(value: f64) -> String {
    let tenths = format!("{value:.1}");
    if tenths == "100.0" || tenths == "0.0" { format!("{value:.0}") } else { tenths }
}

/// A name in two lines, parted before a `+` or after a comma.
fn two_lines(name: &str) -> Vec<String> {
    match (name.split_once(" + "), name.split_once(", ")) {
        (Some((first, second)), _) => vec![first.to_owned(), format!("+ {second}")],
        (None, Some((first, second))) => vec![format!("{first},"), second.to_owned()],
        (None, None) => vec![name.to_owned()],
    }
}

fn text(out: &mut String, (x, y): (f64, f64), anchor: &str, size: u32, fill: &str, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\" fill=\"{fill}\">{words}</text>"
    );
}
