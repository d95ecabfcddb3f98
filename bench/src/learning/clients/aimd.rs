//! Additive increase, multiplicative decrease: the rate grows by 0.2 calls a second every second, and is cut to 0.7
//! of itself by a refusal, once for all calls that were on their way then. It is told nothing.

use tidegate_sim::Dice;

use super::{Client, full_jitter};

/// Calls a second that are added every second.
const STEP: f64 = 0.2;
/// What a refusal leaves of the rate.
const CUT: f64 = 0.7;
/// The rate that it begins with, and never falls below a tenth of.
const FIRST: f64 = 1.0;

/// A pace that follows refusals.
pub struct Aimd {
    rate: f64,
    /// When the next call may go.
    next: f64,
    /// When the rate last changed, and when it was last cut.
    changed: f64,
    cut: f64,
}

impl Aimd {
    /// One that has seen nothing yet.
    pub fn new() -> Aimd {
        Aimd { rate: FIRST, next: 0.0, changed: 0.0, cut: 0.0 }
    }
}

impl Client for Aimd {
    fn ask(&mut self, now: f64) -> Result<(), f64> {
        if now < self.next {
            return Err(self.next);
        }
        self.next = now + 1.0 / self.rate;
        Ok(())
    }

    fn told(&mut self, sent: f64, refused: bool, now: f64) {
        if refused {
            if sent >= self.cut {
                self.rate = (self.rate * CUT).max(FIRST / 10.0);
                (self.cut, self.changed) = (now, now);
            }
        } else if now >= self.changed + 1.0 {
            self.rate += STEP;
            self.changed = now;
        }
    }

    fn pause(&self, refusals: u32, hint: Option<f64>, dice: &mut Dice) -> f64 {
        hint.unwrap_or_else(|| full_jitter(refusals, dice))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_were_on_their_way_when_the_rate_was_cut_do_not_cut_it_again() {
        let mut aimd = Aimd { rate: 10.0, ..Aimd::new() };
        aimd.told(4.0, true, 5.0);
        aimd.told(4.9, true, 5.5);
        assert_eq!(aimd.rate, 7.0);
        aimd.told(5.1, true, 6.0);
        assert!((aimd.rate - 4.9).abs() < 1e-9, "{}", aimd.rate);
    }

    #[test]
    fn the_rate_grows_by_a_step_every_second_in_which_calls_succeed() {
        let mut aimd = Aimd::new();
        (1..=40).for_each(|quarter| aimd.told(0.0, false, f64::from(quarter) / 4.0));
        assert!((aimd.rate - 3.0).abs() < 1e-9, "{}", aimd.rate);
    }
}
