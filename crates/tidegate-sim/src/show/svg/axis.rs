//! Scales with round numbers on them.

use std::time::Duration;

use super::super::words::count;

/// Ticks that an axis has at most.
const TICKS: f64 = 10.0;

/// Time from left to right.
pub struct TimeAxis {
    seconds: f64,
    left: f64,
    right: f64,
    /// Seconds of a unit, and its name.
    unit: (f64, &'static str),
    /// Seconds between ticks.
    step: f64,
}

impl TimeAxis {
    pub fn new(duration: Duration, left: f64, right: f64) -> TimeAxis {
        const STEPS: [f64; 26] = [
            0.001, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0,
            900.0, 1_800.0, 3_600.0, 7_200.0, 10_800.0, 21_600.0, 43_200.0, 86_400.0, 172_800.0, 432_000.0,
        ];
        let seconds = duration.as_secs_f64();
        let unit = match seconds {
            s if s <= 120.0 => (1.0, "seconds"),
            s if s <= 7_200.0 => (60.0, "minutes"),
            s if s <= 172_800.0 => (3_600.0, "hours"),
            _ => (86_400.0, "days"),
        };
        let wide = (seconds / TICKS / 86_400.0).ceil() * 86_400.0;
        let step = STEPS.into_iter().find(|step| seconds / step <= TICKS).unwrap_or(wide);
        TimeAxis { seconds, left, right, unit, step }
    }

    pub fn x(&self, at: Duration) -> f64 {
        self.left + (at.as_secs_f64() / self.seconds).min(1.0) * (self.right - self.left)
    }

    pub fn ends(&self) -> (f64, f64) {
        (self.left, self.right)
    }

    /// Where ticks stand, and what is written at them.
    pub fn ticks(&self) -> impl Iterator<Item = (f64, String)> {
        let last = (self.seconds / self.step + 1e-9).floor() as u32;
        (0..=last).map(|tick| {
            let at = f64::from(tick) * self.step;
            let label = (at / self.unit.0 * 1_000.0).round() / 1_000.0;
            (self.x(Duration::from_secs_f64(at)), format!("{label}"))
        })
    }

    pub fn label(&self) -> &'static str {
        match self.unit.1 {
            "seconds" => "time since the start (seconds)",
            "minutes" => "time since the start (minutes)",
            "hours" => "time since the start (hours)",
            _ => "time since the start (days)",
        }
    }
}

/// Values from the bottom to the top.
pub struct ValueAxis {
    pub most: f64,
    step: f64,
    top: f64,
    height: f64,
}

impl ValueAxis {
    /// An axis that reaches at least to `most`, with about `ticks` ticks.
    pub fn new(most: f64, ticks: f64, top: f64, height: f64) -> ValueAxis {
        let most = if most > 0.0 { most } else { 1.0 };
        let rough = most / ticks;
        let power = 10.0_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0]
            .into_iter()
            .map(|nice| nice * power)
            .find(|step| *step >= rough * 0.999);
        let step = step.unwrap_or(rough);
        ValueAxis { most: (most / step - 1e-9).ceil() * step, step, top, height }
    }

    /// An axis with one tick, for little room.
    pub fn low(most: f64, top: f64, height: f64) -> ValueAxis {
        const NICE: [f64; 9] = [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 8.0, 10.0];
        let power = 10.0_f64.powf(most.max(1e-9).log10().floor());
        let most =
            NICE.into_iter().map(|nice| nice * power).find(|nice| *nice >= most * 0.999).unwrap_or(most);
        ValueAxis { most, step: most, top, height }
    }

    /// An axis for things that there are only whole ones of.
    pub fn whole(most: f64, ticks: f64, top: f64, height: f64) -> ValueAxis {
        let mut axis = ValueAxis::new(most.max(1.0), ticks, top, height);
        if axis.step < 1.0 || axis.step.fract() > 0.0 {
            axis.step = axis.step.ceil();
            axis.most = (axis.most / axis.step).ceil() * axis.step;
        }
        axis
    }

    pub fn y(&self, value: f64) -> f64 {
        self.top + self.height * (1.0 - (value / self.most).clamp(0.0, 1.0))
    }

    pub fn ticks(&self) -> impl Iterator<Item = (f64, String)> {
        let last = (self.most / self.step + 1e-9).floor() as u32;
        (0..=last).map(|tick| {
            let value = f64::from(tick) * self.step;
            (self.y(value), amount(value))
        })
    }
}

/// `0.25`, `5`, `1,200`, `30k`
pub fn amount(value: f64) -> String {
    if value >= 10_000.0 && (value % 1_000.0).abs() < 1e-6 {
        return format!("{}k", count((value / 1_000.0).round() as u64));
    }
    if (value - value.round()).abs() < 1e-9 {
        return count(value.round() as u64);
    }
    format!("{}", (value * 1_000.0).round() / 1_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(seconds: u64) -> (Vec<String>, &'static str) {
        let axis = TimeAxis::new(Duration::from_secs(seconds), 0.0, 100.0);
        (axis.ticks().map(|(_, label)| label).collect(), axis.label())
    }

    #[test]
    fn ticks_are_round_in_a_unit_that_fits() {
        assert_eq!(labels(10).0.last().map(String::as_str), Some("10"));
        assert_eq!(labels(10).1, "time since the start (seconds)");
        assert_eq!(labels(600).0, ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]);
        let (day, unit) = labels(86_400);
        assert_eq!((day[1].as_str(), day.last().map(String::as_str)), ("3", Some("24")));
        assert_eq!(unit, "time since the start (hours)");
        assert!(labels(400 * 86_400).0.len() <= 11);
    }

    #[test]
    fn values_have_a_few_round_ticks_and_room_for_the_largest() {
        let axis = ValueAxis::new(617.0, 4.0, 0.0, 100.0);
        let labels: Vec<String> = axis.ticks().map(|(_, label)| label).collect();
        assert_eq!(labels, ["0", "200", "400", "600", "800"]);
        assert_eq!((axis.y(0.0), axis.y(800.0)), (100.0, 0.0));
        assert_eq!(ValueAxis::new(0.0, 4.0, 0.0, 100.0).most, 1.0, "nothing has an axis too");
        assert_eq!(amount(30_000.0), "30k");
    }
}
