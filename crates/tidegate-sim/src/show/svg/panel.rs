//! One service: admissions, what came back wrong, and who waited.

use std::time::Duration;

use super::super::words::{percent, share};
use super::axis::{TimeAxis, ValueAxis, amount};
use super::bins::Bins;
use super::canvas::{Anchor, Canvas, HATCH, Text, number};
use super::colour;
use crate::report::ServiceReport;

pub const LIMIT_LINE: &str = "fill=\"none\" stroke=\"#222222\" stroke-width=\"1.5\" stroke-dasharray=\"5 3\"";

const HEAD: f64 = 14.0;
const ADMISSIONS: f64 = 170.0;
const TROUBLE: f64 = 30.0;
const WAITING: f64 = 64.0;
/// Between the parts.
const SPACE: f64 = 14.0;
/// For what a part says above itself.
const CAPTION: f64 = 8.0;
/// For the numbers below.
const FOOT: f64 = 18.0;

pub struct Panel<'r> {
    pub service: &'r ServiceReport,
    pub bins: Bins,
    pub backoff: Vec<(Duration, Duration)>,
    pub outages: Vec<(Duration, Duration)>,
    pub down: &'r [(Duration, Duration)],
}

impl Panel<'_> {
    pub fn height(&self) -> f64 {
        let trouble = if self.has_trouble() { CAPTION + TROUBLE + SPACE } else { 0.0 };
        HEAD + ADMISSIONS + SPACE + trouble + WAITING + FOOT
    }

    pub fn draw(&self, canvas: &mut Canvas, time: &TimeAxis, top: f64) {
        let (left, _) = time.ends();
        canvas.text(left, top, &self.service.name, &Text { bold: true, ..Text::new(13.0) });
        let offset = left + 12.0 + 7.6 * self.service.name.chars().count() as f64;
        canvas.text(offset, top, &self.summary(), &Text { fill: colour::FAINT, ..Text::new(11.0) });

        let mut y = top + HEAD;
        let (went, allowed) = (self.bins.most_granted(), self.bins.most_allowed());
        // A limit far above all that went would press it flat.
        let in_sight = allowed <= went * 4.0 || went == 0.0;
        let most = if in_sight { went.max(allowed) } else { went };
        let unit = RateUnit::of(most);
        self.admissions(canvas, time, y, most, &unit);
        y += ADMISSIONS + SPACE;
        if self.has_trouble() {
            self.trouble(canvas, time, y + CAPTION, &unit);
            y += CAPTION + TROUBLE + SPACE;
        }
        self.waiting(canvas, time, y);
        for (x, label) in time.ticks() {
            let text = Text { anchor: Anchor::Middle, fill: colour::FAINT, ..Text::new(11.0) };
            canvas.text(x, y + WAITING + 14.0, &label, &text);
        }
    }

    fn summary(&self) -> String {
        let tightest = self.service.limits.iter().max_by(|a, b| a.share().total_cmp(&b.share()));
        let used = tightest.map(|limit| format!("used {} of {}, ", percent(limit.share()), limit.name));
        let rejected = percent(share(self.service.rejected, self.service.sent));
        format!("{}rejected {rejected}", used.unwrap_or_default())
    }

    fn has_trouble(&self) -> bool {
        self.bins.rejected.iter().chain(&self.bins.failed).any(|rate| *rate > 0.0)
    }

    /// What went, on an axis that reaches to `most`.
    fn admissions(&self, canvas: &mut Canvas, time: &TimeAxis, top: f64, most: f64, unit: &RateUnit) {
        let RateUnit { per, name: unit } = *unit;
        let axis = ValueAxis::new(most * per * 1.04, 4.0, top, ADMISSIONS);
        self.frame(canvas, time, &axis, (top, ADMISSIONS), &format!("calls per {unit}"));

        let mut below = vec![0.0; self.bins.granted.len()];
        // The highest priority lies at the bottom, where its height is easiest to read.
        for priority in [3, 2, 1, 0] {
            let above: Vec<f64> = below
                .iter()
                .zip(&self.bins.granted)
                .map(|(below, granted)| below + granted[priority] * per)
                .collect();
            if above != below {
                let d = self.band(time, &axis, &above, &below);
                canvas.path(&d, &format!("fill=\"{}\"", colour::PRIORITY[priority]));
            }
            below = above;
        }
        let allowed = self.bins.most_allowed();
        if allowed <= most {
            canvas.path(&self.limit_line(time, &axis, per), LIMIT_LINE);
        } else {
            let note = format!("limit: {} per {unit}, above this picture", amount((allowed * per).round()));
            let text = Text { anchor: Anchor::End, ..Text::new(11.0) };
            canvas.text(time.ends().1 - 4.0, top + 12.0, &note, &text);
        }
    }

    fn trouble(&self, canvas: &mut Canvas, time: &TimeAxis, top: f64, unit: &RateUnit) {
        let sums: Vec<f64> = self.bins.rejected.iter().zip(&self.bins.failed).map(|(a, b)| a + b).collect();
        let most = sums.iter().copied().fold(0.0, f64::max);
        let RateUnit { per, name: unit } = *unit;
        let axis = ValueAxis::low(most * per, top, TROUBLE);
        self.frame(canvas, time, &axis, (top, TROUBLE), "");
        // Its name would not fit beside it.
        let caption = format!("rejected and failed per {unit}");
        canvas.text(time.ends().0, top - 4.0, &caption, &Text { fill: colour::FAINT, ..Text::new(10.0) });
        let zero = vec![0.0; sums.len()];
        let rejected: Vec<f64> = self.bins.rejected.iter().map(|rate| rate * per).collect();
        let both: Vec<f64> = sums.iter().map(|rate| rate * per).collect();
        canvas.path(&self.band(time, &axis, &both, &rejected), &format!("fill=\"{}\"", colour::FAILED));
        canvas.path(&self.band(time, &axis, &rejected, &zero), &format!("fill=\"{}\"", colour::REJECTED));
    }

    fn waiting(&self, canvas: &mut Canvas, time: &TimeAxis, top: f64) {
        let most = self.bins.waiting.iter().copied().fold(0.0, f64::max);
        let axis = ValueAxis::whole(most, 2.0, top, WAITING);
        self.frame(canvas, time, &axis, (top, WAITING), "waiting");
        let zero = vec![0.0; self.bins.waiting.len()];
        let style =
            format!("fill=\"{0}\" fill-opacity=\"0.35\" stroke=\"{0}\" stroke-width=\"1\"", colour::WAITING);
        canvas.path(&self.band(time, &axis, &self.bins.waiting, &zero), &style);
    }

    /// Shades, grid, numbers and the name of an axis.
    fn frame(
        &self,
        canvas: &mut Canvas,
        time: &TimeAxis,
        axis: &ValueAxis,
        (top, height): (f64, f64),
        name: &str,
    ) {
        let (left, right) = time.ends();
        let shades =
            [(colour::BACKOFF, self.backoff.as_slice()), (colour::OUTAGE, &self.outages), (HATCH, self.down)];
        for (fill, spans) in shades {
            for (from, until) in spans {
                let (from, until) = (time.x(*from), time.x(*until));
                canvas.rect(from, top, (until - from).max(1.0), height, fill, "");
            }
        }
        for (x, _) in time.ticks() {
            canvas.line((x, top), (x, top + height), colour::GRID);
        }
        for (y, label) in axis.ticks() {
            canvas.line((left, y), (right, y), if label == "0" { colour::FAINT } else { colour::GRID });
            let text = Text { anchor: Anchor::End, fill: colour::FAINT, ..Text::new(11.0) };
            canvas.text(left - 6.0, y + 4.0, &label, &text);
        }
        if !name.is_empty() {
            let text = Text { anchor: Anchor::Middle, upright: true, ..Text::new(11.0) };
            canvas.text(22.0, top + height / 2.0, name, &text);
        }
    }

    /// The area between two rows of steps.
    fn band(&self, time: &TimeAxis, axis: &ValueAxis, above: &[f64], below: &[f64]) -> String {
        let edges = &self.bins.edges;
        let mut d = String::new();
        // Runs of parts in which there is something, so that nothing is not drawn as a line.
        let mut index = 0;
        while index < above.len() {
            if above[index] <= below[index] {
                index += 1;
                continue;
            }
            let from = index;
            while index < above.len() && above[index] > below[index] {
                index += 1;
            }
            d += &format!("M{} {}", number(time.x(edges[from])), number(axis.y(below[from])));
            for part in from..index {
                d += &format!("V{}H{}", number(axis.y(above[part])), number(time.x(edges[part + 1])));
            }
            for part in (from..index).rev() {
                d += &format!("V{}H{}", number(axis.y(below[part])), number(time.x(edges[part])));
            }
            d.push('Z');
        }
        d
    }

    fn limit_line(&self, time: &TimeAxis, axis: &ValueAxis, per: f64) -> String {
        let mut d = String::new();
        let mut last = None;
        for (index, allowed) in self.bins.allowed.iter().enumerate() {
            let y = allowed.map(|allowed| number(axis.y(allowed * per)));
            let (from, until) =
                (number(time.x(self.bins.edges[index])), number(time.x(self.bins.edges[index + 1])));
            match (&y, &last) {
                (Some(y), None) => d += &format!("M{from} {y}H{until}"),
                (Some(y), Some(before)) if y == before => d += &format!("H{until}"),
                (Some(y), Some(_)) => d += &format!("V{y}H{until}"),
                (None, _) => {}
            }
            last = y;
        }
        d
    }
}

/// The unit of time in which rates are numbers that people read easily.
struct RateUnit {
    /// Its seconds.
    per: f64,
    name: &'static str,
}

impl RateUnit {
    fn of(per_second: f64) -> RateUnit {
        match per_second {
            rate if rate >= 20.0 => RateUnit { per: 1.0, name: "second" },
            rate if rate >= 0.05 => RateUnit { per: 60.0, name: "minute" },
            _ => RateUnit { per: 3_600.0, name: "hour" },
        }
    }
}
