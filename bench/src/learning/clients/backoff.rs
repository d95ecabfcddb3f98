//! Exponential backoff and nothing else: everybody calls, and whoever is refused pauses.

use tidegate_sim::Dice;

use super::{Client, full_jitter};

/// No limit at all before the first refusal of each call.
pub struct Backoff;

impl Client for Backoff {
    fn ask(&mut self, _now: f64) -> Result<(), f64> {
        Ok(())
    }

    fn told(&mut self, _sent: f64, _refused: bool, _now: f64) {}

    fn pause(&self, refusals: u32, _hint: Option<f64>, dice: &mut Dice) -> f64 {
        full_jitter(refusals, dice)
    }
}
