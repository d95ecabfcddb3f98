//! Random spread, so that those who failed together do not come back together.
//!
//! Chance comes in as a number of 64 bits, of which each is as likely as any other.

use std::time::Duration;

use crate::model::time::whole_nanos;

/// How a delay is spread.
///
/// Whatever the kind, what comes out is never negative and never above the cap. A range that reaches over the
/// cap is cut off there, and drawn from as it is then: were what lies above moved onto the cap, half of those
/// whose delay is the cap would wait exactly that long, and come back together.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::retry::Jitter;
///
/// let (delay, cap) = (Duration::from_millis(1000), Duration::from_secs(60));
/// let draw = u64::MAX / 2; // the middle
/// assert_eq!(Jitter::Symmetric(0.1).spread(delay, cap, 0).as_millis(), 900);
/// assert_eq!(Jitter::Symmetric(0.1).spread(delay, cap, draw).as_millis(), 1000);
/// assert_eq!(Jitter::Symmetric(0.1).spread(delay, cap, u64::MAX).as_millis(), 1100);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Jitter {
    /// Exactly the delay.
    None,
    /// Up to this share less.
    Factor(f64),
    /// Up to this share more.
    Additive(f64),
    /// Between two multiples of the delay.
    Range {
        /// The smaller one.
        low: f64,
        /// The larger one.
        high: f64,
    },
    /// Up to this share less or more.
    Symmetric(f64),
    /// Anything from nothing to the delay.
    Full,
}

impl Jitter {
    /// A delay as it is drawn.
    #[must_use]
    pub fn spread(self, delay: Duration, cap: Duration, draw: u64) -> Duration {
        let (low, high) = self.multiples();
        let [delay, cap] = [delay, cap].map(whole_nanos);
        let [low, high] = [low, high].map(|share| times(delay, share).min(cap));
        Duration::from_nanos(between(low, high, draw))
    }

    /// A delay that somebody else asked for: at least that, and more by up to the share of this kind, but by
    /// no more than `most`.
    #[must_use]
    pub fn upwards(self, asked: Duration, most: Duration, draw: u64) -> Duration {
        let share = match self {
            Jitter::None => 0.0,
            Jitter::Factor(share) | Jitter::Additive(share) | Jitter::Symmetric(share) => share,
            Jitter::Range { low, high } => high - low,
            // It says how little to wait; here that is not for us to choose.
            Jitter::Full => 0.1,
        };
        let asked = whole_nanos(asked);
        let more = times(asked, share).min(whole_nanos(most));
        Duration::from_nanos(asked.saturating_add(between(0, more, draw)))
    }

    /// What is wrong with it, if anything.
    pub(super) fn problem(self) -> Option<&'static str> {
        let is_share = |share: f64| (0.0..=1.0).contains(&share);
        match self {
            Jitter::None | Jitter::Full => None,
            Jitter::Factor(share) | Jitter::Symmetric(share) | Jitter::Additive(share) => {
                (!is_share(share)).then_some("use a share between 0 and 1, such as 0.1")
            }
            Jitter::Range { low, high } => {
                (!(low.is_finite() && high.is_finite() && 0.0 <= low && low <= high))
                    .then_some("use two multiples that are not negative, the smaller one first")
            }
        }
    }

    fn multiples(self) -> (f64, f64) {
        match self {
            Jitter::None => (1.0, 1.0),
            Jitter::Factor(share) => (1.0 - share, 1.0),
            Jitter::Additive(share) => (1.0, 1.0 + share),
            Jitter::Range { low, high } => (low, high),
            Jitter::Symmetric(share) => (1.0 - share, 1.0 + share),
            Jitter::Full => (0.0, 1.0),
        }
    }
}

/// A share of a time. What is negative or no number at all is nothing, what is too much is the most there is.
fn times(nanos: u64, share: f64) -> u64 {
    if share == 1.0 { nanos } else { (nanos as f64 * share).round() as u64 }
}

/// A number of the range, both ends included, each as likely as any other.
pub(super) fn between(low: u64, high: u64, draw: u64) -> u64 {
    let numbers = u128::from(high.saturating_sub(low)) + 1;
    // Less than `numbers`, so at most the difference.
    low + ((u128::from(draw) * numbers) >> 64) as u64
}
