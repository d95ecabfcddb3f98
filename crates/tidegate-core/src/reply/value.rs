//! The value grammar: what numbers, durations and points in time look like in header values.
//!
//! One header name is written in many ways (`x-ratelimit-reset` alone has eight), so a value is read by its
//! own shape unless the vendor's profile says which shape to expect. Everything is exact decimal arithmetic
//! in microseconds, rounded up: a time that comes out early is a refused call.

use super::date::{UnixMillis, date_micros};
use crate::vendors::reset::{MAX_MS, ResetForm};

/// Where absolute times are measured from: the reply's own `Date`, else the reader's clock. Parsed only when
/// a value needs it, because most replies speak in durations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Base<'a> {
    pub(crate) date: Option<&'a str>,
    pub(crate) now: UnixMillis,
}

impl Base<'_> {
    pub(crate) fn micros(&self) -> i64 {
        self.date
            .and_then(|date| date_micros(date, self.now))
            .unwrap_or_else(|| self.now.0.saturating_mul(1000))
    }

    /// The time from the reply until that point: zero if it has passed.
    pub(crate) fn until(&self, micros: i64) -> u64 {
        ceil_ms(micros.saturating_sub(self.micros()))
    }
}

/// Microseconds as whole milliseconds: rounded up, not negative, not above [`MAX_MS`].
pub(crate) fn ceil_ms(micros: i64) -> u64 {
    let micros = u64::try_from(micros).unwrap_or(0);
    micros.div_ceil(1000).min(MAX_MS)
}

/// A plain decimal number, kept exactly to the sixth digit and rounded up beyond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    negative: bool,
    whole: u64,
    millionths: u32,
}

impl Decimal {
    /// `12`, `-3`, `57.0`, `.5`; nothing before and nothing after.
    pub(crate) fn parse(text: &str) -> Option<Decimal> {
        let (decimal, rest) = Decimal::parse_prefix(text)?;
        rest.is_empty().then_some(decimal)
    }

    /// The number that `text` begins with, and what follows it.
    fn parse_prefix(text: &str) -> Option<(Decimal, &str)> {
        let bytes = text.as_bytes();
        let negative = bytes.first() == Some(&b'-');
        let start = usize::from(negative);
        let mut at = start;
        let mut whole = 0u64;
        while let Some(digit) = bytes.get(at).map(|b| b.wrapping_sub(b'0')).filter(|d| *d < 10) {
            whole = whole.saturating_mul(10).saturating_add(u64::from(digit));
            at += 1;
        }
        let mut seen = at > start;
        let (mut millionths, mut scale, mut excess) = (0u32, 100_000u32, false);
        if bytes.get(at) == Some(&b'.') && bytes.get(at + 1).is_some_and(u8::is_ascii_digit) {
            at += 1;
            seen = true;
            while let Some(digit) = bytes.get(at).map(|b| b.wrapping_sub(b'0')).filter(|d| *d < 10) {
                millionths += u32::from(digit) * scale;
                excess |= scale == 0 && digit != 0;
                scale /= 10;
                at += 1;
            }
        }
        if !seen {
            return None;
        }
        if excess {
            millionths += 1;
        }
        Some((Decimal { negative, whole, millionths }, &text[at..]))
    }

    /// This many times `unit_micros`, in microseconds, rounded up; negative if the number is.
    pub(crate) fn micros(self, unit_micros: u64) -> i64 {
        let fraction = (u64::from(self.millionths) * unit_micros.min(1 << 40)).div_ceil(1_000_000);
        let size = self.whole.saturating_mul(unit_micros).saturating_add(fraction);
        let size = i64::try_from(size).unwrap_or(i64::MAX);
        if self.negative { -size } else { size }
    }
}

/// A value without the spaces and quotes around it.
fn bare(text: &str) -> &str {
    match text.as_bytes() {
        // Nearly always there is nothing to take off.
        [first, .., last] if first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric() => text,
        _ => text.trim().trim_matches('"'),
    }
}

/// An amount: a plain decimal number, negative ones included.
pub(crate) fn amount(text: &str) -> Option<f64> {
    let text = bare(text);
    let digits = text.strip_prefix('-').unwrap_or(text);
    // The short whole numbers that nearly every header has, without the detour over text.
    if digits.len() <= 15 {
        let mut sum = 0i64;
        let mut plain = !digits.is_empty();
        for byte in digits.bytes() {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                plain = false;
                break;
            }
            sum = sum * 10 + i64::from(digit);
        }
        if plain {
            #[allow(clippy::cast_precision_loss)] // at most 15 digits
            let value = sum as f64;
            return Some(if digits.len() == text.len() { value } else { -value });
        }
    }
    // The shape is checked first because `f64` also takes `inf`, `nan` and `1e9`.
    Decimal::parse(text)?;
    text.parse::<f64>().ok().filter(|value| value.is_finite())
}

/// A number with its thousands parted (`1,000,000`). Equal parts are one number repeated (`60,60`), as when
/// lines of one name were joined.
pub(crate) fn grouped(text: &str) -> Option<f64> {
    let mut parts = text.split(',');
    let first = parts.next()?;
    let mut whole = first.to_owned();
    let mut differ = false;
    for part in parts {
        if part.len() != 3 || whole.len() > 15 {
            return None;
        }
        differ |= part != first;
        whole.push_str(part);
    }
    let plain = (1..=3).contains(&first.len()) && whole.bytes().all(|byte| byte.is_ascii_digit());
    if plain && differ { amount(&whole) } else { None }
}

/// A difference of two decimal numbers as a person would write it: 1 − 0.69 is 0.31.
pub(crate) fn difference(a: f64, b: f64) -> f64 {
    let rounded = ((a - b) * 1e9).round() / 1e9;
    // Beyond the range where that rounding means anything the plain difference is exact enough.
    if rounded.is_finite() && (a - b).abs() < 1e6 { rounded } else { a - b }
}

/// A reset in any form, as the time from the reply.
pub(crate) fn reset(text: &str, form: ResetForm, base: &Base<'_>) -> Option<u64> {
    let text = bare(text);
    match Decimal::parse_prefix(text) {
        Some((number, "")) => Some(match form {
            ResetForm::Seconds => ceil_ms(number.micros(1_000_000)),
            ResetForm::Millis => ceil_ms(number.micros(1000)),
            // A small number is no date, whatever the vendor's habit is.
            ResetForm::EpochSeconds if number.whole >= 100_000_000 && number.whole < 1_000_000_000_000 => {
                base.until(number.micros(1_000_000))
            }
            ResetForm::EpochMillis if number.whole >= 100_000_000_000 => base.until(number.micros(1000)),
            _ => by_size(number, base),
        }),
        // The two that nearly every reply of an LLM has; all other durations take the long way.
        Some((number, "ms")) => Some(ceil_ms(number.micros(1000))),
        Some((number, "s")) => Some(ceil_ms(number.micros(1_000_000))),
        _ => whole_duration(text)
            .map(ceil_ms)
            .or_else(|| date_micros(text, base.now).map(|micros| base.until(micros))),
    }
}

/// A bare number whose meaning only its size can tell.
fn by_size(number: Decimal, base: &Base<'_>) -> u64 {
    match number.whole {
        0..1_000_000_000 => ceil_ms(number.micros(1_000_000)),
        1_000_000_000..1_000_000_000_000 => base.until(number.micros(1_000_000)),
        1_000_000_000_000..1_000_000_000_000_000 => base.until(number.micros(1000)),
        1_000_000_000_000_000..1_000_000_000_000_000_000 => base.until(number.micros(1)),
        nanos => base.until(i64::try_from(nanos / 1000).unwrap_or(i64::MAX)),
    }
}

/// A `Retry-After` in seconds, as a date, or (non-standard) with its unit. Negative and garbled ones are
/// absent; a past date is zero.
pub(crate) fn retry_after(text: &str, base: &Base<'_>) -> Option<u64> {
    let text = bare(text);
    if let Some(number) = Decimal::parse(text) {
        if number.negative {
            return None;
        }
        // Some servers put the moment itself there. As a delay that is decades, so a number that names a
        // moment within the next year is taken as one, and any other is a delay to be clamped.
        let micros = number.micros(1_000_000);
        let ahead = micros.saturating_sub(base.micros());
        let year = i64::try_from(MAX_MS * 1000).unwrap_or(i64::MAX);
        if number.whole >= 1_000_000_000 && (-86_400_000_000..year).contains(&ahead) {
            return Some(ceil_ms(ahead));
        }
        return Some(ceil_ms(micros));
    }
    if text.starts_with('-') {
        return None;
    }
    if let Some(micros) = whole_duration(text) {
        return Some(ceil_ms(micros));
    }
    date_micros(text, base.now).map(|micros| base.until(micros))
}

/// A retry header whose number is milliseconds.
pub(crate) fn retry_after_millis(text: &str) -> Option<u64> {
    let number = Decimal::parse(bare(text)).filter(|number| !number.negative)?;
    Some(ceil_ms(number.micros(1000)))
}

/// A duration that fills the whole text.
pub(crate) fn whole_duration(text: &str) -> Option<i64> {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (micros, rest) = duration_prefix(text)?;
    rest.trim().is_empty().then_some(if negative { -micros } else { micros })
}

/// The duration that `text` begins with (`6m0s`, `7.66s`, `12ms`, `26 seconds`), in microseconds and rounded
/// up, and what follows it. A number without a unit is none.
pub(crate) fn duration_prefix(text: &str) -> Option<(i64, &str)> {
    let mut rest = text;
    let mut total = 0i64;
    let mut any = false;
    // A duration has at most one part for each unit; the bound keeps hostile text cheap.
    for _ in 0..8 {
        let Some((number, tail)) =
            Decimal::parse_prefix(rest.trim_start_matches(' ')).filter(|(n, _)| !n.negative)
        else {
            break;
        };
        let tail = tail.strip_prefix(' ').unwrap_or(tail);
        let word = tail.len() - tail.trim_start_matches(|c: char| c.is_alphabetic()).len();
        let micros = match &tail[..word] {
            "ns" => number.micros(1).div_ceil_1000(),
            "us" | "µs" | "μs" => number.micros(1),
            "ms" | "millisecond" | "milliseconds" => number.micros(1000),
            "s" | "sec" | "secs" | "second" | "seconds" => number.micros(1_000_000),
            "m" | "min" | "mins" | "minute" | "minutes" => number.micros(60_000_000),
            "h" | "hr" | "hrs" | "hour" | "hours" => number.micros(3_600_000_000),
            "d" | "day" | "days" => number.micros(86_400_000_000),
            _ => break,
        };
        total = total.saturating_add(micros);
        any = true;
        rest = &tail[word..];
    }
    any.then_some((total, rest))
}

trait DivCeil {
    fn div_ceil_1000(self) -> i64;
}

impl DivCeil for i64 {
    fn div_ceil_1000(self) -> i64 {
        self / 1000 + i64::from(self % 1000 != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMillis = UnixMillis(1_763_200_000_000);
    const BASE: Base<'_> = Base { date: None, now: NOW };

    fn auto(text: &str) -> Option<u64> {
        reset(text, ResetForm::Auto, &BASE)
    }

    #[test]
    fn a_reset_is_read_by_its_shape() {
        let cases = [
            ("12ms", 12),
            ("1s", 1000),
            ("7.66s", 7660),
            ("2m59.56s", 179_560),
            ("6m0s", 360_000),
            ("1h30m", 5_400_000),
            ("500ns", 1),
            ("1500µs", 2),
            ("58", 58_000),
            ("0.98", 980),
            ("11.382867097854614", 11_383),
            ("1763200060", 60_000),
            ("1763200060.123", 60_123),
            ("1763200060000", 60_000),
            ("1763200060000000", 60_000),
            ("2025-11-15T09:47:40Z", 60_000),
            ("Sat, 15 Nov 2025 09:47:40 GMT", 60_000),
            ("\"58\"", 58_000),
            ("-5", 0),
            ("-5s", 0),
            ("99999999999", MAX_MS),
            ("999999999", MAX_MS),
        ];
        for (text, ms) in cases {
            assert_eq!(auto(text), Some(ms), "{text}");
        }
        for text in ["", "lots", "s", "5x", "1m5", "--5", "1e3", "inf", "NaN", "5 5"] {
            assert_eq!(auto(text), None, "{text}");
        }
    }

    #[test]
    fn a_profile_can_say_what_a_bare_number_is() {
        assert_eq!(reset("600000", ResetForm::Millis, &BASE), Some(600_000));
        assert_eq!(reset("1763200060", ResetForm::Seconds, &BASE), Some(MAX_MS));
        assert_eq!(reset("58", ResetForm::EpochSeconds, &BASE), Some(58_000));
        assert_eq!(reset("6m0s", ResetForm::Millis, &BASE), Some(360_000));
    }

    #[test]
    fn absolute_times_are_judged_against_the_replys_own_date() {
        let base = Base { date: Some("Sat, 15 Nov 2025 09:47:30 GMT"), now: NOW };
        assert_eq!(reset("1763200060", ResetForm::Auto, &base), Some(10_000));
        let unreadable = Base { date: Some("yesterday"), now: NOW };
        assert_eq!(reset("1763200060", ResetForm::Auto, &unreadable), Some(60_000));
    }

    #[test]
    fn retry_after_in_every_form() {
        let read = |text| retry_after(text, &BASE);
        assert_eq!(read("120"), Some(120_000));
        assert_eq!(read(" 2.0 "), Some(2000));
        assert_eq!(read("0"), Some(0));
        assert_eq!(read("30s"), Some(30_000));
        assert_eq!(read("Fri, 31 Dec 1999 23:59:59 GMT"), Some(0));
        assert_eq!(read("1763200005"), Some(5000));
        assert_eq!(read("99999999999999999999999"), Some(MAX_MS));
        for text in ["", "soon", "-5", "10abc", "-5s", "1e3", "inf"] {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(retry_after_millis("1873"), Some(1873));
        assert_eq!(retry_after_millis("0.5"), Some(1));
        assert_eq!(retry_after_millis("-1"), None);
    }

    #[test]
    fn amounts_are_plain_finite_numbers() {
        assert_eq!(amount("57.0"), Some(57.0));
        assert_eq!(amount("-27689"), Some(-27_689.0));
        assert_eq!(amount("9223372036854775807"), Some(9_223_372_036_854_775_807.0));
        for text in ["", "lots", "inf", "nan", "1e5", "0x10", "1,000", "-", "."] {
            assert_eq!(amount(text), None, "{text}");
        }
        assert_eq!(amount(&"9".repeat(400)), None);
        assert_eq!(grouped("1,000"), Some(1000.0));
        assert_eq!(grouped("12,345,678"), Some(12_345_678.0));
        for text in ["60, 60", "60,60", "100,100", "1000,000", "1,00", "1", "a,000", "335,335"] {
            assert_eq!(grouped(text), None, "{text}");
        }
        assert_eq!(difference(1.0, 0.69), 0.31);
        assert_eq!(difference(1.0, 1.02), -0.02);
    }
}
