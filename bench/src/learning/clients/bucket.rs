//! A token bucket as large as the limit, told N and W: the commonest default. Each call honours `Retry-After` for
//! itself.

use tidegate_sim::Dice;

use super::{Client, full_jitter};

/// A bucket that refills continuously.
pub struct Bucket {
    size: f64,
    /// Units a second.
    rate: f64,
    level: f64,
    at: f64,
}

impl Bucket {
    /// A full one, of so many calls a minute.
    pub fn new(per_minute: u64) -> Bucket {
        let size = per_minute as f64;
        Bucket { size, rate: size / 60.0, level: size, at: 0.0 }
    }
}

impl Client for Bucket {
    fn ask(&mut self, now: f64) -> Result<(), f64> {
        self.level = (self.level + (now - self.at) * self.rate).min(self.size);
        self.at = now;
        if self.level < 1.0 {
            return Err(now + (1.0 - self.level) / self.rate);
        }
        self.level -= 1.0;
        Ok(())
    }

    fn told(&mut self, _sent: f64, _refused: bool, _now: f64) {}

    fn pause(&self, refusals: u32, hint: Option<f64>, dice: &mut Dice) -> f64 {
        hint.unwrap_or_else(|| full_jitter(refusals, dice))
    }
}
