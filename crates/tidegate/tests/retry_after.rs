//! R7: what the headers of a refused call say about coming back, one by one.

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use tidegate::retry_after;

fn after(lines: &[(&'static str, &str)]) -> Duration {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(*name, value.parse().unwrap());
    }
    retry_after(&headers)
}

fn millis(lines: &[(&'static str, &str)]) -> u128 {
    after(lines).as_millis()
}

#[test]
fn r7_the_most_precise_word_comes_first() {
    let reset = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "7")];
    let seconds = ("retry-after", "2");
    let exact = ("retry-after-ms", "1873");
    assert_eq!(millis(&[reset[0], reset[1], seconds, exact]), 1873);
    assert_eq!(millis(&[reset[0], reset[1], seconds]), 2000);
    assert_eq!(millis(&reset), 7000);
    assert_eq!(millis(&[]), 1000, "nothing said");
}

#[test]
fn r7_only_the_exhausted_limits_reset_counts() {
    assert_eq!(
        millis(&[
            ("x-ratelimit-remaining-requests", "0"),
            ("x-ratelimit-reset-requests", "3s"),
            ("x-ratelimit-remaining-tokens", "5"),
            ("x-ratelimit-reset-tokens", "6m0s"),
        ]),
        3000
    );
}

#[test]
fn r7_numbers_in_every_form() {
    assert_eq!(millis(&[("retry-after", "0")]), 0);
    assert_eq!(millis(&[("retry-after", "3")]), 3000);
    assert_eq!(millis(&[("retry-after", "2.5")]), 2500);
    assert_eq!(millis(&[("retry-after-ms", "0.5")]), 1);
}

#[test]
fn r7_the_three_forms_of_a_date() {
    let date = ("date", "Sun, 06 Nov 1994 08:49:30 GMT");
    for form in
        ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
    {
        assert_eq!(millis(&[date, ("retry-after", form)]), 7000, "{form}");
    }
    assert_eq!(millis(&[date, ("retry-after", "Sun, 06 Nov 1994 08:49:00 GMT")]), 0, "a past date");
}

#[test]
fn r7_a_date_without_the_replys_own_counts_from_now() {
    let moment = SystemTime::now() + Duration::from_secs(3600);
    let moment = moment.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    // As an epoch, which is the same moment in another form.
    let wait = after(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", &moment.to_string())]);
    assert!(wait.abs_diff(Duration::from_secs(3600)) < Duration::from_secs(10), "{wait:?}");
    assert_eq!(millis(&[("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")]), 0, "a past date");
}

#[test]
fn r7_what_makes_no_sense_is_not_said() {
    for garbage in ["-5", "10abc", "soon", "", "NaN", "inf", "1e999", "--1", "٣"] {
        assert_eq!(millis(&[("retry-after", garbage)]), 1000, "{garbage:?}");
        let reset = [("retry-after", garbage), ("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "7")];
        assert_eq!(millis(&reset), 7000, "{garbage:?}");
    }
}

#[test]
fn r7_the_absurdly_large_is_clamped() {
    let most = Duration::from_secs(366 * 86_400);
    for large in ["99999999999", "18446744073709551615"] {
        assert_eq!(after(&[("retry-after", large)]), most, "{large}");
    }
}
