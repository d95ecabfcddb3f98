//! Numbers with suffixes, exact to a millionth.

use std::fmt;

use super::UnitError;
use crate::config::hint::{did_you_mean, quoted};
use crate::model::dimension::Dimension;
use crate::model::rate::MAX_UNITS;

/// Millionths in one: the grain of every written number, because money is counted in millionths.
const ONE: u128 = 1_000_000;

const COUNT_SUFFIXES: &[(&str, u128)] = &[("", 1), ("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)];

const SIZE_SUFFIXES: &[(&str, u128)] = &[
    ("", 1),
    ("B", 1),
    ("k", 1_000),
    ("kB", 1_000),
    ("KB", 1_000),
    ("M", 1_000_000),
    ("MB", 1_000_000),
    ("G", 1_000_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// A number of things: `400`, `10k`, `1.5M`, `5_000`.
///
/// # Errors
/// If it is not a number, not whole, negative, or beyond 2^63.
pub fn parse_count(text: &str) -> Result<u64, UnitError> {
    Amount::parse(text)?.units(1)
}

/// A number of bytes: `5MB` (10⁶ each), `64KiB` (2¹⁰ each), `5_000_000`.
///
/// # Errors
/// If it is not a number with a known suffix, not whole, negative, or beyond 2^63.
pub fn parse_size(text: &str) -> Result<u64, UnitError> {
    Amount::parse_bytes(text)?.units(1)
}

/// So much of a dimension, in its own units: bytes may be written `5MB`, money may have a fraction.
///
/// # Errors
/// If it is not a number, not a whole number of units, negative, or beyond 2^63.
pub fn parse_units_of(text: &str, dimension: &Dimension) -> Result<u64, UnitError> {
    let amount = if *dimension == Dimension::Bytes { Amount::parse_bytes } else { Amount::parse };
    amount(text)?.units(dimension.scale())
}

/// A number as written, before it is known what it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Amount {
    millionths: u128,
}

impl Amount {
    /// A number with an optional `k`, `M` or `G`.
    pub(crate) fn parse(text: &str) -> Result<Amount, UnitError> {
        Self::parse_suffixed(text, COUNT_SUFFIXES)
    }

    /// A number with an optional byte suffix.
    pub(crate) fn parse_bytes(text: &str) -> Result<Amount, UnitError> {
        Self::parse_suffixed(text, SIZE_SUFFIXES)
    }

    fn parse_suffixed(text: &str, suffixes: &[(&str, u128)]) -> Result<Amount, UnitError> {
        let text = text.trim();
        let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '_' | '.'))).unwrap_or(text.len());
        let (number, suffix) = text.split_at(end);
        if number.is_empty() {
            let what = if suffix.starts_with('-') { "is negative" } else { "is not a number" };
            return Err(UnitError::new(format!("{} {what}", quoted(text))));
        }
        let suffix = suffix.trim_start();
        let Some(&(_, factor)) = suffixes.iter().find(|(name, _)| *name == suffix) else {
            let names = || suffixes.iter().map(|(name, _)| *name).filter(|name| !name.is_empty());
            let hint = did_you_mean(suffix, names())
                .unwrap_or_else(|| format!("use one of {}, or none", names().collect::<Vec<_>>().join(", ")));
            let message = format!("unknown suffix {} in {}", quoted(suffix), quoted(text));
            return Err(UnitError::new(message).hint_with(hint));
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let (Some(whole), Some(fraction)) = (digits(whole), digits(fraction)) else {
            return Err(UnitError::new(format!("{} is not a number", quoted(number))));
        };
        Self::exact(&whole, fraction.trim_end_matches('0'), factor)
            .ok_or_else(|| UnitError::new(format!("{} is too large or too fine a number", quoted(text))))
    }

    /// `whole.fraction * factor`, or nothing if that is out of range or finer than a millionth.
    fn exact(whole: &str, fraction: &str, factor: u128) -> Option<Amount> {
        // Together with the factor (below 10^13) this keeps the fraction's product inside 128 bits.
        if fraction.len() > 18 {
            return None;
        }
        let whole = whole.parse::<u128>().ok()?.checked_mul(factor)?.checked_mul(ONE)?;
        let fraction_digits = u32::try_from(fraction.len()).ok()?;
        let grain = 10u128.checked_pow(fraction_digits)?;
        let part = format!("0{fraction}").parse::<u128>().ok()?.checked_mul(factor)?.checked_mul(ONE)?;
        if part % grain != 0 {
            return None;
        }
        Some(Amount { millionths: whole.checked_add(part / grain)? })
    }

    /// So many of the engine's units, `scale` of which are one written unit.
    pub(crate) fn of(units: u64, scale: u64) -> Amount {
        Amount { millionths: u128::from(units) * ONE / u128::from(scale.max(1)) }
    }

    /// Whether it is a whole number of the engine's units.
    pub(crate) fn is_whole(self, scale: u64) -> bool {
        // A product beyond 128 bits is refused as too large, whatever its fraction.
        self.millionths.checked_mul(u128::from(scale)).is_none_or(|scaled| scaled.is_multiple_of(ONE))
    }

    /// The engine's whole units, `scale` of which are one written unit.
    pub(crate) fn units(self, scale: u64) -> Result<u64, UnitError> {
        if !self.is_whole(scale) {
            return Err(UnitError::new(format!("{self} is not a whole number")));
        }
        self.millionths
            .checked_mul(u128::from(scale))
            .and_then(|scaled| u64::try_from(scaled / ONE).ok())
            .filter(|units| *units <= MAX_UNITS)
            .ok_or_else(|| UnitError::new(format!("{self} is too large: at most 2^63")))
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.millionths / ONE, self.millionths % ONE);
        if fraction > 0 {
            return write!(f, "{whole}.{}", format!("{fraction:06}").trim_end_matches('0'));
        }
        let (suffix, factor) = COUNT_SUFFIXES
            .iter()
            .rev()
            .find(|(_, factor)| whole > 0 && whole.is_multiple_of(*factor))
            .unwrap_or(&("", 1));
        write!(f, "{}{suffix}", whole / factor)
    }
}

/// The digits without their separators, if each separator stands between two digits.
fn digits(text: &str) -> Option<String> {
    let well_formed =
        text.split('_').all(|group| !group.is_empty() && group.bytes().all(|b| b.is_ascii_digit()));
    well_formed.then(|| text.replace('_', ""))
}
