//! Rates: a number, a slash, a window, and perhaps the calendar that the window follows.

use std::fmt;
use std::sync::LazyLock;
use std::time::Duration;

use jiff::tz::TimeZoneDatabase;

use super::span::{self, parse_duration};
use super::{Amount, UnitError};
use crate::config::RateLimit;
use crate::config::hint::{did_you_mean, quoted};
use crate::model::dimension::Dimension;
use crate::model::rate::{MAX_WINDOW, MIN_WINDOW, Rate, RateError, WindowName};

/// The bundled time zones and no others: what a config means does not depend on the machine that reads it.
static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// A rate as written: what its number counts is for the dimension to say.
///
/// `Display` writes it back in its shortest form.
///
/// ```
/// use tidegate_core::config::units::parse_rate;
///
/// let written = parse_rate("10_000 / 60s")?;
/// assert_eq!(written.to_string(), "10k/min");
/// # Ok::<(), tidegate_core::config::units::UnitError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenRate {
    amount: Amount,
    window: Duration,
    calendar: Option<String>,
}

impl WrittenRate {
    /// The window, between 1 ms and 31 days.
    #[must_use]
    pub fn window(&self) -> Duration {
        self.window
    }

    /// The time zone whose calendar bounds the window, by its IANA name.
    #[must_use]
    pub fn calendar(&self) -> Option<&str> {
        self.calendar.as_deref()
    }

    /// The rate in the units of that dimension.
    ///
    /// # Errors
    /// If it is not a whole number of them, or none, or too many.
    pub fn rate(&self, dimension: &Dimension) -> Result<Rate, UnitError> {
        if !self.amount.is_whole(dimension.scale()) {
            let hint = "count a longer window: `30/min` instead of `0.5/s`".to_owned();
            return Err(UnitError::new(format!("{} is not a whole number", self.amount)).hint_with(hint));
        }
        Rate::new(self.amount.units(dimension.scale())?, self.window).map_err(|error| match error {
            RateError::NoUnits => UnitError::new("a rate of 0 lets nothing pass")
                .hint_with("use at least 1, or remove the line for no limit".to_owned()),
            other => UnitError::new(other.to_string()),
        })
    }
}

impl From<&RateLimit> for WrittenRate {
    /// What to write in a config file to get this limit's rate.
    fn from(limit: &RateLimit) -> WrittenRate {
        WrittenRate {
            amount: Amount::of(limit.rate.units(), limit.dimension.scale()),
            window: limit.rate.window(),
            calendar: limit.calendar.clone(),
        }
    }
}

impl fmt::Display for WrittenRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.amount)?;
        match self.window {
            DAY => f.write_str("day")?,
            HOUR => f.write_str("h")?,
            MINUTE => f.write_str("min")?,
            second if second == Duration::from_secs(1) => f.write_str("s")?,
            other => WindowName(other).fmt(f)?,
        }
        self.calendar.iter().try_for_each(|zone| write!(f, "@{zone}"))
    }
}

/// Reads `N/window` or `N/window@Zone`, such as `500/min` or `10k/day@America/Los_Angeles`.
///
/// # Errors
/// If the number, the window or the zone is missing or unknown, if the window is out of range, or if it is
/// tied to a calendar and not one day, hour or minute.
pub fn parse_rate(text: &str) -> Result<WrittenRate, UnitError> {
    parse(text, Amount::parse)
}

/// The same for a limit whose dimension is known: bytes may be written `5MB/min` too.
///
/// # Errors
/// As [`parse_rate`].
pub fn parse_rate_of(text: &str, dimension: &Dimension) -> Result<WrittenRate, UnitError> {
    parse(text, if *dimension == Dimension::Bytes { Amount::parse_bytes } else { Amount::parse })
}

fn parse(text: &str, amount: fn(&str) -> Result<Amount, UnitError>) -> Result<WrittenRate, UnitError> {
    let Some((number, per)) = text.split_once('/') else {
        let hint = match amount(text) {
            Ok(_) => format!("write how long: `{}/min`", text.trim()),
            Err(_) => "write a number and a window, such as `500/min`".into(),
        };
        return Err(UnitError::new(format!("{} is not a rate", quoted(text))).hint_with(hint));
    };
    let amount = amount(number)?;
    let (window, zone) = match per.split_once('@') {
        Some((window, zone)) => (window.trim(), Some(zone.trim())),
        None => (per.trim(), None),
    };
    let window = if window.is_empty() {
        let hint = format!("write how long: `{}/min`", number.trim());
        return Err(UnitError::new(format!("{} has no window", quoted(text))).hint_with(hint));
    } else if window.starts_with(|c: char| c.is_ascii_digit()) {
        parse_duration(window)?
    } else {
        Duration::from_nanos(span::unit(window, text)?)
    };
    if !(MIN_WINDOW..=MAX_WINDOW).contains(&window) {
        let message = format!("a window of {} is out of range", WindowName(window));
        return Err(UnitError::new(message).hint_with("use 1ms to 31d".to_owned()));
    }
    let calendar = zone.map(|zone| check_calendar(window, zone)).transpose()?;
    Ok(WrittenRate { amount, window, calendar })
}

/// Whether a window can follow that zone's calendar; the zone's name as the database spells it.
pub(crate) fn check_calendar(window: Duration, zone: &str) -> Result<String, UnitError> {
    let known = ZONES.get(zone).ok();
    let Some(name) = known.as_ref().and_then(|zone| zone.iana_name()) else {
        let names: Vec<String> = ZONES.available().map(|name| name.as_str().to_owned()).collect();
        let hint = did_you_mean(zone, names.iter().map(String::as_str))
            .unwrap_or_else(|| "use an IANA name, such as `UTC` or `America/Los_Angeles`".into());
        return Err(UnitError::new(format!("unknown time zone {}", quoted(zone))).hint_with(hint));
    };
    if ![DAY, HOUR, MINUTE].contains(&window) {
        let message = format!("a window of {} has no place in a calendar", WindowName(window));
        let hint = format!("use `/day@{name}`, `/h@{name}` or `/min@{name}`, or leave the zone away");
        return Err(UnitError::new(message).hint_with(hint));
    }
    Ok(name.to_owned())
}
