//! Durations.

use std::time::Duration;

use super::UnitError;
use crate::config::hint::{did_you_mean, quoted};

/// Every name of a unit of time, in nanoseconds; of two that are equally near a slip, the first is offered.
const UNITS: &[(&str, u64)] = &[
    ("min", 60 * SECOND),
    ("m", 60 * SECOND),
    ("minute", 60 * SECOND),
    ("minutes", 60 * SECOND),
    ("s", SECOND),
    ("sec", SECOND),
    ("second", SECOND),
    ("seconds", SECOND),
    ("h", 3_600 * SECOND),
    ("hour", 3_600 * SECOND),
    ("hours", 3_600 * SECOND),
    ("d", 86_400 * SECOND),
    ("day", 86_400 * SECOND),
    ("days", 86_400 * SECOND),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];
const SECOND: u64 = 1_000_000_000;

/// A stretch of time: `250ms`, `30s`, `1m30s`, `2h`; a bare number only if it is `0`.
///
/// # Errors
/// If a number or a unit is missing or unknown, or the units do not go from large to small.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    let text = text.trim();
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut total = Some(Duration::ZERO);
    let mut last_unit = u64::MAX;
    let mut rest = text;
    while !rest.is_empty() {
        let (number, after) = split_where(rest, |c| !c.is_ascii_digit());
        let (name, after) = split_where(after, |c| c.is_ascii_digit());
        if number.is_empty() || name.starts_with('.') {
            let hint = "write whole numbers with units, such as `250ms`, `30s` or `1m30s`".to_owned();
            return Err(UnitError::new(format!("{} is not a duration", quoted(text))).hint_with(hint));
        }
        if name.is_empty() {
            let hint = format!("did you mean `{text}s` or `{text}ms`?");
            return Err(UnitError::new(format!("{} has no unit of time", quoted(text))).hint_with(hint));
        }
        let unit = unit(name.trim(), text)?;
        if unit >= last_unit {
            let hint = "write the larger units first and each once, such as `1m30s`".to_owned();
            let message = format!("the units of {} are not in order", quoted(text));
            return Err(UnitError::new(message).hint_with(hint));
        }
        last_unit = unit;
        total = total.and_then(|total| total.checked_add(times(number.parse().ok()?, unit)?));
        rest = after;
    }
    match total {
        Some(total) if !text.is_empty() => Ok(total),
        Some(_) => Err(UnitError::new("a duration must not be empty").hint_with("write `30s`".to_owned())),
        None => Err(UnitError::new(format!("{} is too long a time", quoted(text)))),
    }
}

/// The length of the unit of that name, in nanoseconds; `whole` is what it was written in.
pub(super) fn unit(name: &str, whole: &str) -> Result<u64, UnitError> {
    if let Some((_, nanos)) = UNITS.iter().find(|(known, _)| *known == name) {
        return Ok(*nanos);
    }
    let hint = match name {
        "w" | "week" | "weeks" => "write `7d`".to_owned(),
        "mo" | "month" | "months" => "a month has no fixed length: write `30d`".to_owned(),
        _ => did_you_mean(name, UNITS.iter().map(|(known, _)| *known))
            .unwrap_or_else(|| "use one of ms, s, min, h, day".into()),
    };
    Err(UnitError::new(format!("unknown unit of time {} in {}", quoted(name), quoted(whole))).hint_with(hint))
}

fn times(number: u64, nanos: u64) -> Option<Duration> {
    let total = u128::from(number).checked_mul(u128::from(nanos))?;
    let seconds = u64::try_from(total / u128::from(SECOND)).ok()?;
    let rest = u32::try_from(total % u128::from(SECOND)).ok()?;
    Some(Duration::new(seconds, rest))
}

fn split_where(text: &str, is_end: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(is_end).unwrap_or(text.len()))
}
