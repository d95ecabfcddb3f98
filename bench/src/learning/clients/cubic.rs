//! CUBIC as the "adaptive" retry mode of the AWS SDKs has it. It is told nothing.
//!
//! The first refusal switches on a token bucket that holds what flows in a second. After a refusal it fills at 0.7 of
//! the rate at which replies came in or, if that is less, at which it filled; from then on, t seconds later, at
//! C·(t − K)³ + W, where W is the rate before the cut, C is 0.4, and K is such that the curve begins at the cut. It
//! never fills faster than twice the measured rate, nor slower than one call in two seconds. The measured rate is taken
//! every half a second, and four fifths of it are the latest one.

use tidegate_sim::Dice;

use super::{Client, full_jitter};

const BETA: f64 = 0.7;
const SCALE: f64 = 0.4;
/// How much the latest rate counts in the measured one.
const LATEST: f64 = 0.8;
/// How often the rate is measured, in seconds.
const EVERY: f64 = 0.5;
const SLOWEST: f64 = 0.5;

/// A bucket whose rate follows a cubic curve.
pub struct Cubic {
    /// Whether anything was refused yet.
    on: bool,
    fill: f64,
    size: f64,
    level: f64,
    filled: f64,
    /// Replies a second, when that was measured, and replies since.
    measured: f64,
    measured_at: f64,
    replies: f64,
    /// The rate before the last cut, when that was, and how long the curve takes back to it.
    peak: f64,
    cut_at: f64,
    back_after: f64,
}

impl Cubic {
    /// One that has seen nothing yet.
    pub fn new() -> Cubic {
        Cubic {
            on: false,
            fill: SLOWEST,
            size: 1.0,
            level: 0.0,
            filled: 0.0,
            measured: 0.0,
            measured_at: 0.0,
            replies: 0.0,
            peak: 0.0,
            cut_at: 0.0,
            back_after: 0.0,
        }
    }

    fn refill(&mut self, now: f64) {
        self.level = (self.level + (now - self.filled) * self.fill).min(self.size);
        self.filled = now;
    }

    fn measure(&mut self, now: f64) {
        self.replies += 1.0;
        let part = (now / EVERY).floor() * EVERY;
        if part > self.measured_at {
            let latest = self.replies / (part - self.measured_at);
            self.measured = LATEST * latest + (1.0 - LATEST) * self.measured;
            (self.measured_at, self.replies) = (part, 0.0);
        }
    }

    /// The rate before the cut, and the one it is cut to.
    fn cut(&mut self, now: f64) -> f64 {
        self.peak = if self.on { self.measured.min(self.fill) } else { self.measured };
        self.cut_at = now;
        self.back_after = (self.peak * (1.0 - BETA) / SCALE).cbrt();
        self.on = true;
        self.peak * BETA
    }
}

impl Client for Cubic {
    fn ask(&mut self, now: f64) -> Result<(), f64> {
        if !self.on {
            return Ok(());
        }
        self.refill(now);
        if self.level < 1.0 {
            return Err(now + (1.0 - self.level) / self.fill);
        }
        self.level -= 1.0;
        Ok(())
    }

    fn told(&mut self, _sent: f64, refused: bool, now: f64) {
        self.measure(now);
        let rate = if refused {
            self.cut(now)
        } else {
            SCALE * (now - self.cut_at - self.back_after).powi(3) + self.peak
        };
        self.refill(now);
        let rate = rate.min(2.0 * self.measured);
        (self.fill, self.size) = (rate.max(SLOWEST), rate.max(1.0));
        self.level = self.level.min(self.size);
    }

    fn pause(&self, refusals: u32, _hint: Option<f64>, dice: &mut Dice) -> f64 {
        full_jitter(refusals, dice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten replies a second up to `until`.
    fn steady(cubic: &mut Cubic, from: f64, until: f64) {
        let mut now = from;
        while now < until {
            cubic.told(0.0, false, now);
            now += 0.1;
        }
    }

    #[test]
    fn nothing_is_held_back_before_the_first_refusal() {
        let mut cubic = Cubic::new();
        assert!((0..1000).all(|_| cubic.ask(0.0) == Ok(())));
    }

    #[test]
    fn a_refusal_cuts_to_seven_tenths_of_the_measured_rate_and_the_curve_leads_back_to_it() {
        let mut cubic = Cubic::new();
        steady(&mut cubic, 0.0, 20.0);
        cubic.told(0.0, true, 20.0);
        assert!((cubic.fill - 7.0).abs() < 0.3, "{}", cubic.fill);
        // K = ∛(10 · 0.3 / 0.4) = 1.96 s
        steady(&mut cubic, 20.1, 22.0);
        assert!((cubic.fill - 10.0).abs() < 0.5, "{}", cubic.fill);
        steady(&mut cubic, 22.1, 30.0);
        assert!((cubic.fill - 20.0).abs() < 0.5, "twice what is measured: {}", cubic.fill);
    }
}
