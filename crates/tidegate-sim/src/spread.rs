//! How a quantity varies: always the same, between two values evenly or by size, or with a long tail.

use std::time::Duration;

use crate::dice::Dice;

/// A distribution of whole numbers; durations are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spread {
    /// Always this.
    Exactly(u64),
    /// Equally likely between the two, both included.
    Between(u64, u64),
    /// Between the two, both included, every size equally likely: as many from 100 to 200 as from 1,000 to 2,000.
    LogBetween(u64, u64),
    /// Log-normal: half are below `p50`, all but one in a hundred below `p99`.
    Tailed {
        /// The median.
        p50: u64,
        /// What one in a hundred exceeds.
        p99: u64,
    },
}

/// The 99th percentile of the standard normal distribution.
const Z99: f64 = 2.326_347_874;

impl Spread {
    /// Nothing at all.
    pub const ZERO: Spread = Spread::Exactly(0);

    /// Always this long.
    #[must_use]
    pub fn span(span: Duration) -> Spread {
        Spread::Exactly(nanos(span))
    }

    /// Equally likely between two durations.
    #[must_use]
    pub fn spans(from: Duration, to: Duration) -> Spread {
        Spread::Between(nanos(from), nanos(to))
    }

    /// One value.
    pub fn draw(&self, dice: &mut Dice) -> u64 {
        match *self {
            Spread::Exactly(value) => value,
            Spread::Between(from, to) => {
                from.saturating_add(dice.below(to.saturating_sub(from).saturating_add(1)))
            }
            Spread::LogBetween(from, to) => {
                // Each whole number stands for what lies between it and the next.
                let (low, high) = (from.max(1) as f64, to.max(from).max(1) as f64 + 1.0);
                ((low * (high / low).powf(dice.unit())) as u64).clamp(from, to.max(from))
            }
            Spread::Tailed { p50, p99 } => {
                let median = p50.max(1) as f64;
                let sigma = (p99.max(p50).max(1) as f64 / median).ln() / Z99;
                (median * (sigma * normal(dice)).exp()).round() as u64
            }
        }
    }

    /// One value as a duration.
    pub fn draw_span(&self, dice: &mut Dice) -> Duration {
        Duration::from_nanos(self.draw(dice))
    }

    /// A value that is rarely exceeded.
    #[must_use]
    pub fn high(&self) -> u64 {
        match *self {
            Spread::Exactly(value)
            | Spread::Between(_, value)
            | Spread::LogBetween(_, value)
            | Spread::Tailed { p99: value, .. } => value,
        }
    }
}

/// A draw from the standard normal distribution, by Box and Muller's transform.
fn normal(dice: &mut Dice) -> f64 {
    let (radius, angle) = (1.0 - dice.unit(), dice.unit());
    (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
}

/// How long until the next of events that come at random, `mean` nanoseconds apart on average.
pub(crate) fn exponential(mean: f64, dice: &mut Dice) -> u64 {
    (-mean * (1.0 - dice.unit()).ln()).round() as u64
}

fn nanos(span: Duration) -> u64 {
    tidegate_core::whole_nanos(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(spread: Spread) -> Vec<u64> {
        let mut dice = Dice::new(3);
        let mut drawn: Vec<u64> = (0..20_000).map(|_| spread.draw(&mut dice)).collect();
        drawn.sort_unstable();
        drawn
    }

    #[test]
    fn a_tail_has_the_median_and_the_percentile_that_it_states() {
        let drawn = sorted(Spread::Tailed { p50: 400, p99: 3_000 });
        assert!((390..=410).contains(&drawn[10_000]), "{}", drawn[10_000]);
        assert!((2_700..=3_300).contains(&drawn[19_800]), "{}", drawn[19_800]);
    }

    #[test]
    fn a_range_is_even_and_includes_its_ends() {
        let drawn = sorted(Spread::Between(10, 19));
        assert_eq!((drawn[0], drawn[19_999]), (10, 19));
        let low = drawn.iter().filter(|value| **value < 15).count();
        assert!((9_700..=10_300).contains(&low), "{low}");
    }

    #[test]
    fn a_range_by_size_has_as_many_below_its_geometric_mean_as_above_and_includes_its_ends() {
        let drawn = sorted(Spread::LogBetween(200, 4_000));
        assert!((870..=920).contains(&drawn[10_000]), "{}", drawn[10_000]);
        let small = sorted(Spread::LogBetween(2, 3));
        assert_eq!((small[0], small[19_999]), (2, 3));
    }

    #[test]
    fn times_between_random_events_have_their_mean() {
        let mut dice = Dice::new(5);
        let sum: u64 = (0..20_000).map(|_| exponential(1e6, &mut dice)).sum();
        assert!((19_500_000_000..=20_500_000_000).contains(&sum), "{sum}");
    }
}
