//! Points in time as replies write them: HTTP dates, RFC 3339, JavaScript dates.
//!
//! All of them become milliseconds since 1970, so that the rest of the reader only subtracts. A text that is
//! not a date is `None`; nothing here panics, whatever the bytes.

/// A point in time: milliseconds since 1970-01-01 00:00 UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnixMillis(pub i64);

impl UnixMillis {
    /// That many whole seconds since 1970.
    #[must_use]
    pub fn from_secs(secs: i64) -> UnixMillis {
        UnixMillis(secs.saturating_mul(1000))
    }
}

/// The date in `text`, in microseconds since 1970, in any form that replies use. `now` decides the century
/// of a two-digit year.
pub(crate) fn date_micros(text: &str, now: UnixMillis) -> Option<i64> {
    let text = text.trim();
    if text.as_bytes().first()?.is_ascii_digit() && text.as_bytes().get(4) == Some(&b'-') {
        rfc3339(text)
    } else {
        named_month(text, now)
    }
}

/// `2026-05-18T11:42:16Z`, with any number of fraction digits, any offset or none (then UTC).
fn rfc3339(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let year = digits(bytes.get(0..4)?)?;
    let month = digits(bytes.get(5..7)?)?;
    let day = digits(bytes.get(8..10)?)?;
    if bytes[7] != b'-' {
        return None;
    }
    let mut micros = days_from_civil(year, month, day)?.checked_mul(86_400_000_000)?;
    let Some(separator) = bytes.get(10) else { return Some(micros) };
    if !matches!(separator, b'T' | b't' | b' ') {
        return None;
    }
    let (clock, rest) = clock(bytes.get(11..)?)?;
    micros = micros.checked_add(clock)?;
    let offset = match rest {
        [] | [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), offset @ ..] => {
            let minutes = offset_minutes(offset)?;
            if *sign == b'-' { -minutes } else { minutes }
        }
        _ => return None,
    };
    micros.checked_sub(offset * 60_000_000)
}

/// `11:42`, `11:42:16` or `11:42:16.1234567`: microseconds of the day, and what follows.
fn clock(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let hour = digits(bytes.get(0..2)?)?;
    let minute = digits(bytes.get(3..5)?)?;
    if bytes[2] != b':' || hour > 24 || minute > 59 {
        return None;
    }
    let mut micros = (hour * 3600 + minute * 60) * 1_000_000;
    let mut rest = &bytes[5..];
    if let [b':', a, b, tail @ ..] = rest {
        let second = digits(&[*a, *b])?;
        if second > 60 {
            return None;
        }
        micros += second * 1_000_000;
        rest = tail;
        if let [b'.' | b',', fraction @ ..] = rest {
            let count = fraction.iter().take_while(|b| b.is_ascii_digit()).count();
            if count == 0 {
                return None;
            }
            let mut scale = 100_000;
            for digit in &fraction[..count] {
                micros += i64::from(digit - b'0') * scale;
                scale /= 10;
            }
            // Rounded up beyond the sixth digit: a reset must never come out early.
            if fraction[..count].iter().skip(6).any(|digit| *digit != b'0') {
                micros += 1;
            }
            rest = &fraction[count..];
        }
    }
    Some((micros, rest))
}

/// `0100`, `01:00` or `01`: an offset in minutes.
fn offset_minutes(bytes: &[u8]) -> Option<i64> {
    let (hours, minutes) = match bytes {
        [a, b] => (digits(&[*a, *b])?, 0),
        [a, b, c, d] | [a, b, b':', c, d] => (digits(&[*a, *b])?, digits(&[*c, *d])?),
        _ => return None,
    };
    (hours <= 23 && minutes <= 59).then_some(hours * 60 + minutes)
}

/// Every form that spells the month: the three of RFC 9110 §5.6.7 and JavaScript's `Date.toString()`.
///
/// They differ in the order of their parts and not in what the parts look like, so the parts are recognised
/// one by one: `Sun, 06 Nov 1994 08:49:37 GMT`, `Sunday, 06-Nov-94 08:49:37 GMT`,
/// `Sun Nov  6 08:49:37 1994`, `Tue Feb 16 2021 09:02:42 GMT+0100 (Central European Standard Time)`.
fn named_month(text: &str, now: UnixMillis) -> Option<i64> {
    let (mut year, mut month, mut day, mut time, mut offset) = (None, None, None, None, 0);
    for part in text.split([' ', ',']).filter(|part| !part.is_empty()).take(12) {
        let bytes = part.as_bytes();
        if bytes[0] == b'(' {
            break;
        }
        if bytes.contains(&b':') && bytes[0].is_ascii_digit() {
            let (micros, rest) = clock(bytes)?;
            if !rest.is_empty() || time.replace(micros).is_some() {
                return None;
            }
        } else if bytes[0].is_ascii_digit() && bytes.contains(&b'-') {
            let mut parts = part.splitn(3, '-');
            day = Some(digits(parts.next()?.as_bytes())?);
            month = Some(month_number(parts.next()?)?);
            year = Some(full_year(parts.next()?, now)?);
        } else if bytes[0].is_ascii_digit() {
            match bytes.len() {
                1 | 2 if day.is_none() => day = Some(digits(bytes)?),
                4 if year.is_none() => year = Some(digits(bytes)?),
                _ => return None,
            }
        } else if matches!(bytes[0], b'+' | b'-') {
            let minutes = offset_minutes(&bytes[1..])?;
            offset = if bytes[0] == b'-' { -minutes } else { minutes };
        } else if let Some(number) = month_number(part) {
            if month.replace(number).is_some() {
                return None;
            }
        } else if let Some(zone) = part.strip_prefix("GMT").or_else(|| part.strip_prefix("UTC")) {
            if let [sign @ (b'+' | b'-'), rest @ ..] = zone.as_bytes() {
                let minutes = offset_minutes(rest)?;
                offset = if *sign == b'-' { -minutes } else { minutes };
            } else if !zone.is_empty() {
                return None;
            }
        } else if !is_weekday(part) && !matches!(part, "Z" | "gmt" | "utc") {
            return None;
        }
    }
    let days = days_from_civil(year?, month?, day?)?;
    days.checked_mul(86_400_000_000)?.checked_add(time?)?.checked_sub(offset * 60_000_000)
}

fn month_number(text: &str) -> Option<i64> {
    const MONTHS: [&str; 12] =
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let start = text.get(0..3)?;
    if !text.bytes().all(|b| b.is_ascii_alphabetic()) {
        return None;
    }
    MONTHS.iter().position(|month| start.eq_ignore_ascii_case(month)).map(|index| index as i64 + 1)
}

fn is_weekday(text: &str) -> bool {
    const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
    text.get(0..3).is_some_and(|start| DAYS.iter().any(|day| start.eq_ignore_ascii_case(day)))
}

/// A two-digit year that would lie more than 50 years ahead means the last one with those digits.
fn full_year(text: &str, now: UnixMillis) -> Option<i64> {
    let year = digits(text.as_bytes())?;
    if text.len() != 2 {
        return Some(year);
    }
    let this_year = 1970 + now.0.div_euclid(31_556_952_000);
    let mut full = this_year - this_year.rem_euclid(100) + year;
    if full > this_year + 50 {
        full -= 100;
    }
    Some(full)
}

fn digits(bytes: &[u8]) -> Option<i64> {
    if bytes.is_empty() || bytes.len() > 6 {
        return None;
    }
    bytes.iter().try_fold(0i64, |sum, b| b.is_ascii_digit().then(|| sum * 10 + i64::from(b - b'0')))
}

/// Days since 1970-01-01 in the Gregorian calendar; `None` for a day that does not exist.
fn days_from_civil(year: i64, month: i64, day: i64) -> Option<i64> {
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let length = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        _ => return None,
    };
    if !(1..=length).contains(&day) || !(1..=9999).contains(&year) {
        return None;
    }
    // Years counted from March put the leap day last, so that month lengths follow one formula.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMillis = UnixMillis(1_763_200_000_000);

    fn secs(text: &str) -> Option<i64> {
        date_micros(text, NOW).map(|micros| micros / 1_000_000)
    }

    #[test]
    fn the_three_http_forms_are_one_moment() {
        for text in
            ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
        {
            assert_eq!(secs(text), Some(784_111_777), "{text}");
        }
    }

    #[test]
    fn other_spellings_seen_in_the_wild() {
        assert_eq!(
            secs("Tue Feb 16 2021 09:02:42 GMT+0100 (Central European Standard Time)"),
            secs("2021-02-16T08:02:42Z")
        );
        assert_eq!(secs("Fri, 16 Dec 2022 12:53:25 UTC"), secs("2022-12-16 12:53:25"));
        assert_eq!(secs("2026-05-18T13:42:16.1234567+02:00"), secs("2026-05-18T11:42:16Z"));
        assert_eq!(date_micros("2026-05-18T11:42:16.0000001Z", NOW).unwrap() % 1_000_000, 1);
        assert_eq!(secs("2000-02-29T00:00:00Z"), Some(951_782_400));
    }

    #[test]
    fn what_is_not_a_date_is_none() {
        for text in [
            "",
            "soon",
            "2026-02-30T00:00:00Z",
            "2026-13-01",
            "Mon, 99 Foo 2026",
            "Nov",
            "2026-05-18T",
            "2026-05-18T25:00:00Z",
            "12 34",
            "ü",
            "(",
            "1-2-3",
            "Sun, 06 Nov 1994",
        ] {
            assert_eq!(secs(text), None, "{text}");
        }
    }
}
