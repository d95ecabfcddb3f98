use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::model::dimension::Dimension;
use crate::model::rate::{MAX_UNITS, Rate};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

fn rate_of(text: &str, dimension: &Dimension) -> Result<Rate, UnitError> {
    parse_rate_of(text, dimension)?.rate(dimension)
}

#[test]
fn rates_are_read_in_every_notation() {
    for (text, units, window) in [
        ("500/min", 500, MINUTE),
        ("30k/h", 30_000, HOUR),
        ("2/10s", 2, 10 * SECOND),
        ("50/250ms", 50, SECOND / 4),
        ("1M/day", 1_000_000, DAY),
        ("120/2s", 120, 2 * SECOND),
        ("1.5k/s", 1_500, SECOND),
        ("0.001G/sec", 1_000_000, SECOND),
        ("1_000/second", 1_000, SECOND),
        ("7/30seconds", 7, 30 * SECOND),
        ("7/m", 7, MINUTE),
        ("7/minute", 7, MINUTE),
        ("7/5minutes", 7, 5 * MINUTE),
        ("7/hour", 7, HOUR),
        ("7/2hours", 7, 2 * HOUR),
        ("7/d", 7, DAY),
        ("7/31days", 7, 31 * DAY),
        ("7/1m30s", 7, Duration::from_secs(90)),
        ("7/ms", 7, Duration::from_millis(1)),
        (" 7 / 10 s ", 7, 10 * SECOND),
        ("9223372036854775808/s", MAX_UNITS, SECOND),
    ] {
        let expected = Rate::new(units, window).expect("a rate in range");
        assert_eq!(rate_of(text, &Dimension::Requests), Ok(expected), "{text}");
        assert_eq!(parse_rate(text).expect("the same").calendar(), None, "{text}");
    }
}

#[test]
fn money_may_have_a_fraction_and_is_counted_in_millionths() {
    let usd = |text| rate_of(text, &Dimension::MicroUsd).map(|rate| rate.units());
    assert_eq!(usd("5.25/day"), Ok(5_250_000));
    assert_eq!(usd("0.000001/s"), Ok(1));
    assert_eq!(usd("1k/day"), Ok(1_000_000_000));
    assert!(usd("0.0000001/s").is_err());
    assert!(usd("9223372036854.775809/s").is_err(), "just above 2^63 millionths");
}

#[test]
fn bytes_take_the_suffixes_of_sizes_and_nothing_else_does() {
    assert_eq!(rate_of("5MB/min", &Dimension::Bytes).map(|rate| rate.units()), Ok(5_000_000));
    assert_eq!(rate_of("64KiB/s", &Dimension::Bytes).map(|rate| rate.units()), Ok(65_536));
    assert!(rate_of("5MB/min", &Dimension::Tokens).is_err());
}

#[test]
fn a_calendar_is_named_as_the_time_zone_database_spells_it() {
    for (text, zone) in [
        ("10k/day@America/Los_Angeles", "America/Los_Angeles"),
        ("10k/24h@america/los_angeles", "America/Los_Angeles"),
        ("10k/h@Asia/Kolkata", "Asia/Kolkata"),
        ("10k/min@UTC", "UTC"),
    ] {
        assert_eq!(parse_rate(text).expect(text).calendar(), Some(zone), "{text}");
    }
}

#[test]
fn a_text_that_is_no_rate_says_why_and_what_to_write() {
    for (text, message, hint) in [
        ("", "`` is not a rate", "write a number and a window, such as `500/min`"),
        ("500", "`500` is not a rate", "write how long: `500/min`"),
        (
            "500 per minute",
            "`500 per minute` is not a rate",
            "write a number and a window, such as `500/min`",
        ),
        ("/min", "`` is not a number", ""),
        ("x/min", "`x` is not a number", ""),
        ("-5/min", "`-5` is negative", ""),
        ("5/", "`5/` has no window", "write how long: `5/min`"),
        ("5/@UTC", "`5/@UTC` has no window", "write how long: `5/min`"),
        ("5/mn", "unknown unit of time `mn` in `5/mn`", "did you mean `min`?"),
        ("5/M", "unknown unit of time `M` in `5/M`", "did you mean `m`?"),
        ("5/parsec", "unknown unit of time `parsec` in `5/parsec`", "use one of ms, s, min, h, day"),
        ("5/week", "unknown unit of time `week` in `5/week`", "write `7d`"),
        ("5/month", "unknown unit of time `month` in `5/month`", "a month has no fixed length: write `30d`"),
        ("5K/min", "unknown suffix `K` in `5K`", "did you mean `k`?"),
        ("5x/min", "unknown suffix `x` in `5x`", "use one of k, M, G, or none"),
        ("5tokens/min", "unknown suffix `tokens` in `5tokens`", "use one of k, M, G, or none"),
        ("5__0/min", "`5__0` is not a number", ""),
        ("1.2.3/min", "`1.2.3` is not a number", ""),
        ("1./min", "`1.` is not a number", ""),
        ("5/0s", "a window of 0d is out of range", "use 1ms to 31d"),
        ("5/999us", "a window of 999us is out of range", "use 1ms to 31d"),
        ("5/32d", "a window of 32d is out of range", "use 1ms to 31d"),
        ("5/day@", "unknown time zone ``", "use an IANA name, such as `UTC` or `America/Los_Angeles`"),
        (
            "5/day@Etc/Unknown",
            "unknown time zone `Etc/Unknown`",
            "use an IANA name, such as `UTC` or `America/Los_Angeles`",
        ),
        ("5/day@Europe/Berln", "unknown time zone `Europe/Berln`", "did you mean `Europe/Berlin`?"),
        (
            "5/2h@UTC",
            "a window of 2h has no place in a calendar",
            "use `/day@UTC`, `/h@UTC` or `/min@UTC`, or leave the zone away",
        ),
        ("0/min", "a rate of 0 lets nothing pass", "use at least 1, or remove the line for no limit"),
        ("0.5/s", "0.5 is not a whole number", "count a longer window: `30/min` instead of `0.5/s`"),
        ("1.0000001/s", "`1.0000001` is too large or too fine a number", ""),
        ("9223372036854775809/s", "9223372036854775809 is too large: at most 2^63", ""),
        ("20G000/s", "unknown suffix `G000` in `20G000`", "use one of k, M, G, or none"),
        ("99999999999999999999999999999999999999G/s", "too large or too fine", ""),
    ] {
        let error = rate_of(text, &Dimension::Requests).expect_err(text);
        assert!(error.message().contains(message), "{text}: {error}");
        assert_eq!(error.hint().unwrap_or_default(), hint, "{text}");
    }
}

#[test]
fn sizes_are_decimal_or_binary_as_their_suffix_says() {
    for (text, bytes) in [
        ("5MB", 5_000_000),
        ("5 MB", 5_000_000),
        ("64KiB", 65_536),
        ("5_000_000", 5_000_000),
        ("0", 0),
        ("1kB", 1_000),
        ("1KB", 1_000),
        ("1.5MiB", 1_572_864),
        ("2G", 2_000_000_000),
        ("1TiB", 1 << 40),
        ("7B", 7),
    ] {
        assert_eq!(parse_size(text), Ok(bytes), "{text}");
    }
    for (text, hint) in [("5mb", Some("did you mean `MB`?")), ("0.5B", None), ("", None), ("MB", None)] {
        let error = parse_size(text).expect_err(text);
        assert_eq!(error.hint(), hint, "{text}");
    }
}

#[test]
fn durations_add_up_from_large_units_to_small() {
    for (text, expected) in [
        ("250ms", SECOND / 4),
        ("2h", 2 * HOUR),
        ("30s", 30 * SECOND),
        ("1m30s", Duration::from_secs(90)),
        ("1d 2h 3min", DAY + 2 * HOUR + 3 * MINUTE),
        ("0", Duration::ZERO),
        ("0s", Duration::ZERO),
        ("1500us", Duration::from_micros(1_500)),
    ] {
        assert_eq!(parse_duration(text), Ok(expected), "{text}");
    }
}

#[test]
fn a_text_that_is_no_duration_says_why_and_what_to_write() {
    let example = "write whole numbers with units, such as `250ms`, `30s` or `1m30s`";
    let order = "write the larger units first and each once, such as `1m30s`";
    for (text, message, hint) in [
        ("", "a duration must not be empty", "write `30s`"),
        ("30", "`30` has no unit of time", "did you mean `30s` or `30ms`?"),
        ("1m30", "`1m30` has no unit of time", "did you mean `1m30s` or `1m30ms`?"),
        ("1.5h", "`1.5h` is not a duration", example),
        ("-1s", "`-1s` is not a duration", example),
        ("soon", "`soon` is not a duration", example),
        ("30s1m", "the units of `30s1m` are not in order", order),
        ("1s1s", "the units of `1s1s` are not in order", order),
        ("30x", "unknown unit of time `x` in `30x`", "use one of ms, s, min, h, day"),
        ("99999999999999999999d", "`99999999999999999999d` is too long a time", ""),
        ("18446744073709551615d", "`18446744073709551615d` is too long a time", ""),
    ] {
        let error = parse_duration(text).expect_err(text);
        assert_eq!((error.message(), error.hint().unwrap_or_default()), (message, hint), "{text}");
    }
}

#[test]
fn a_rate_is_written_back_in_its_shortest_form() {
    for (text, written) in [
        ("500/60s", "500/min"),
        ("30000/hour", "30k/h"),
        ("2/10s", "2/10s"),
        ("50/250ms", "50/250ms"),
        ("1000k/24h", "1M/day"),
        ("1.5k/s", "1500/s"),
        ("7/120s", "7/2m"),
        ("5.250/d", "5.25/day"),
        ("10k/day@america/los_angeles", "10k/day@America/Los_Angeles"),
    ] {
        assert_eq!(parse_rate(text).expect(text).to_string(), written, "{text}");
    }
}

proptest! {
    #[test]
    fn a_rate_written_back_reads_as_itself(
        units in 1..=MAX_UNITS,
        nanos in 1_000_000..=2_678_400_000_000_000u64,
        round in prop_oneof![Just(1u64), Just(1_000_000), Just(1_000_000_000), Just(60_000_000_000)],
        money in any::<bool>(),
    ) {
        let dimension = if money { Dimension::MicroUsd } else { Dimension::Tokens };
        let window = Duration::from_nanos((nanos / round * round).max(1_000_000));
        let rate = Rate::new(units, window).expect("both are in range");
        let limit = crate::config::RateLimit {
            dimension: dimension.clone(),
            rate,
            algorithm: None,
            burst: None,
            calendar: None,
            reserve: None,
            origin: crate::config::Origin::Written,
        };
        let text = WrittenRate::from(&limit).to_string();
        prop_assert_eq!(rate_of(&text, &dimension), Ok(rate), "{}", text);
    }

    #[test]
    fn no_text_makes_the_readers_panic(text in "\\PC*", near in "[-0-9kMGBi._/ @smhdUTC]{0,24}") {
        for text in [text, near] {
            let _ = (parse_rate(&text), parse_size(&text), parse_count(&text), parse_duration(&text));
            let _ = (rate_of(&text, &Dimension::Bytes), rate_of(&text, &Dimension::MicroUsd));
        }
    }
}
