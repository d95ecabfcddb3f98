//! Rates, sizes and durations as people write them.
//!
//! | | |
//! |---|---|
//! | rate | `500/min`, `30k/h`, `2/10s`, `50/250ms`, `1.5k/s`, `10k/day@America/Los_Angeles` |
//! | size | `5MB`, `64KiB`, `5_000_000` |
//! | duration | `250ms`, `30s`, `1m30s`, `2h`, `0` |
//!
//! Numbers take the suffixes `k`, `M`, `G` (10³, 10⁶, 10⁹) and may have a fraction as long as the result is
//! whole; money may keep one down to a millionth. Time units are `ms`, `s`, `sec`, `second`, `m`, `min`,
//! `minute`, `h`, `hour`, `d`, `day` (and `us`, `ns`), with plurals. All arithmetic is exact.
//!
//! `@Zone` ties a window to the calendar of an IANA time zone. That makes sense for `/day`, `/h` and `/min`
//! only: other stretches have no boundary that a calendar and an upstream would agree on. A month has no
//! fixed length and is not a unit.

mod amount;
mod span;
#[cfg(test)]
mod tests;
mod written;

use std::fmt;

pub(super) use amount::Amount;
pub use amount::{parse_count, parse_size, parse_units_of};
pub use span::parse_duration;
pub(super) use written::check_calendar;
pub use written::{WrittenRate, parse_rate, parse_rate_of};

/// Why a text is not the rate, size or duration that it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitError {
    message: String,
    hint: Option<String>,
}

impl UnitError {
    /// That this is wrong.
    pub fn new(message: impl Into<String>) -> UnitError {
        UnitError { message: message.into(), hint: None }
    }

    /// And that this should be written instead.
    #[must_use]
    pub fn hint_with(mut self, hint: impl Into<Option<String>>) -> UnitError {
        self.hint = hint.into();
        self
    }

    /// What is wrong.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What to write instead.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.hint.iter().try_for_each(|hint| write!(f, " ({hint})"))
    }
}

impl std::error::Error for UnitError {}
