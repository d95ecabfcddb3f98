//! Numbers and times as people read them.

use std::time::Duration;

/// `1,234,567`
#[must_use]
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `99.7 %`; small shares keep the figures that tell them from nothing.
#[must_use]
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        p if p > 0.0 && p < 0.01 => "<0.01 %".into(),
        p if p > 0.0 && p < 1.0 => format!("{p:.2} %"),
        p => format!("{p:.1} %"),
    }
}

/// A part of a whole; nothing of nothing is nothing.
#[must_use]
pub fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// A wait: `0`, `412 µs`, `63 ms`, `9.69 s`, `4m43s`, `3h05m`.
#[must_use]
pub fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    match span.as_nanos() {
        0 => "0".into(),
        nanos if nanos < 1_000_000 => format!("{} µs", nanos.div_ceil(1_000)),
        nanos if nanos < 999_500_000 => format!("{} ms", (nanos + 500_000) / 1_000_000),
        _ if seconds < 100 => format!("{:.2} s", span.as_secs_f64()),
        _ if seconds < 7_200 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ if seconds < 172_800 => format!("{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// A length of time in its largest whole unit: `10 min`, `24 h`, `90 s`.
#[must_use]
pub fn length(span: Duration) -> String {
    let millis = span.as_millis();
    for (unit, name) in [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")] {
        let whole = millis / unit;
        if whole > 0 && millis.is_multiple_of(unit) && (name != "d" || whole > 2) {
            return format!("{whole} {name}");
        }
    }
    format!("{} s", millis as f64 / 1_000.0)
}

/// Milliseconds, for JSON.
#[must_use]
pub fn ms(span: Duration) -> f64 {
    span.as_nanos() as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_told_in_units_that_fit_them() {
        let told = |millis: u64| span(Duration::from_millis(millis));
        assert_eq!([told(0), told(63), told(9_690)], ["0", "63 ms", "9.69 s"]);
        assert_eq!([told(283_000), told(11_100_000)], ["4m43s", "3h05m"]);
        assert_eq!(span(Duration::from_nanos(1)), "1 µs", "something is never nothing");
        assert_eq!(told(1_000), "1.00 s");
    }

    #[test]
    fn lengths_and_numbers_are_told_as_people_do() {
        let told = |seconds| length(Duration::from_secs(seconds));
        assert_eq!([told(600), told(86_400), told(90), told(7 * 86_400)], ["10 min", "24 h", "90 s", "7 d"]);
        assert_eq!([count(7), count(1_000), count(1_234_567)], ["7", "1,000", "1,234,567"]);
        assert_eq!(
            [percent(0.997), percent(0.00001), percent(0.005), percent(0.0)],
            ["99.7 %", "<0.01 %", "0.50 %", "0.0 %"]
        );
    }
}
