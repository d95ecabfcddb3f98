//! `N per W`: a number of units in a stretch of time, and the algorithm that counts them.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The shortest window a rate may have.
pub const MIN_WINDOW: Duration = Duration::from_millis(1);
/// The longest window a rate may have.
pub const MAX_WINDOW: Duration = Duration::from_secs(31 * 86_400);
/// The most units a limit, a burst or a cost may have.
pub const MAX_UNITS: u64 = 1 << 63;

/// `units` per `window`, both known to be in range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    units: u64,
    window: Duration,
}

/// Why a rate cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RateError {
    /// Nothing could ever pass.
    #[error("a rate of 0 units lets nothing pass: use at least 1")]
    NoUnits,
    /// Beyond what the arithmetic holds exactly.
    #[error("{0} units are too many: at most 2^63")]
    TooManyUnits(u64),
    /// Too short or too long to be counted.
    #[error("a window of {0:?} is out of range: use 1ms to 31 days")]
    Window(Duration),
}

impl Rate {
    /// A rate of `units` per `window`.
    ///
    /// # Errors
    /// If there are no units or too many, or if the window is shorter than 1 ms or longer than 31 days.
    pub fn new(units: u64, window: Duration) -> Result<Rate, RateError> {
        if units == 0 {
            return Err(RateError::NoUnits);
        }
        if units > MAX_UNITS {
            return Err(RateError::TooManyUnits(units));
        }
        if !(MIN_WINDOW..=MAX_WINDOW).contains(&window) {
            return Err(RateError::Window(window));
        }
        Ok(Rate { units, window })
    }

    /// How many units.
    #[must_use]
    pub fn units(&self) -> u64 {
        self.units
    }

    /// In what stretch of time.
    #[must_use]
    pub fn window(&self) -> Duration {
        self.window
    }
}

/// The window as it stands in limit names: the largest unit that divides it (`1m`, `10s`, `250ms`, `1d`).
pub struct WindowName(pub Duration);

impl fmt::Display for WindowName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u128, &str); 7] = [
            (86_400_000_000_000, "d"),
            (3_600_000_000_000, "h"),
            (60_000_000_000, "m"),
            (1_000_000_000, "s"),
            (1_000_000, "ms"),
            (1_000, "us"),
            (1, "ns"),
        ];
        let nanos = self.0.as_nanos();
        let (size, name) =
            UNITS.into_iter().find(|(size, _)| nanos.is_multiple_of(*size)).unwrap_or((1, "ns"));
        write!(f, "{}{name}", nanos / size)
    }
}

/// How units are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// Never more than N in any stretch of W; short windows are paced as well.
    #[default]
    SlidingWindow,
    /// Up to `burst` at once, refilled continuously.
    TokenBucket,
    /// N per window, aligned to an anchor or to the calendar.
    FixedWindow,
}

impl Algorithm {
    /// The name used in config files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::SlidingWindow => "sliding-window",
            Algorithm::TokenBucket => "token-bucket",
            Algorithm::FixedWindow => "fixed-window",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_out_of_range_names_what_is_wrong() {
        assert_eq!(Rate::new(0, Duration::from_secs(1)), Err(RateError::NoUnits));
        assert!(matches!(Rate::new(1, Duration::ZERO), Err(RateError::Window(_))));
        assert!(matches!(Rate::new(1, Duration::from_secs(32 * 86_400)), Err(RateError::Window(_))));
        assert!(matches!(Rate::new(u64::MAX, Duration::from_secs(1)), Err(RateError::TooManyUnits(_))));
    }

    #[test]
    fn windows_are_named_by_the_largest_unit_that_divides_them() {
        let name = |millis| WindowName(Duration::from_millis(millis)).to_string();
        assert_eq!(name(60_000), "1m");
        assert_eq!(name(10_000), "10s");
        assert_eq!(name(250), "250ms");
        assert_eq!(name(86_400_000), "1d");
        assert_eq!(name(90_000), "90s");
    }
}
