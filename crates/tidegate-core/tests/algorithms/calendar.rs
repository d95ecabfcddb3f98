//! Fixed windows that follow a calendar: they turn when the clocks of their zone do.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use tidegate_core::Nanos;
use tidegate_core::limits::meters::{Boundary, FixedWindow, MOST_DEBT, Meter};

use crate::fixed::FixedModel;
use crate::model::{any_units, cases, follow, plans, rate};

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// A window of `length` in `zone`, on a driver whose origin is `origin`.
fn calendar(zone: &str, units: u64, length: u64, origin: Timestamp) -> FixedWindow {
    let zone = TimeZone::get(zone).expect("a zone of the database");
    let boundary = Boundary::Calendar { zone, offset: origin.as_nanosecond() };
    FixedWindow::new(rate(units, length), boundary, Nanos::ZERO)
}

fn at(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

/// The turns after `from`, as local times.
fn turns(zone: &str, length: u64, from: &str, count: usize) -> Vec<String> {
    let origin = at(from);
    let mut window = calendar(zone, 3, length, origin);
    let mut now = Nanos::ZERO;
    let mut turns = Vec::new();
    for _ in 0..count {
        window.take(3, now);
        let turn = window.earliest(1, 0);
        assert!(
            !window.fits(1, 0, Nanos(turn.0 - 1)) && window.fits(3, 0, turn),
            "a full window until {turn:?}"
        );
        now = turn;
        let turn = origin + SignedDuration::from_nanos(turn.0 as i64);
        turns.push(turn.to_zoned(TimeZone::get(zone).expect("it")).strftime("%m-%d %H:%M %:z").to_string());
    }
    turns
}

/// Looks at the local clock minute by minute until it shows another stretch of time, or the same again.
fn next_turn_by_watching_the_clock(zone: &TimeZone, length: u64, from: Timestamp) -> Timestamp {
    let (length, minute) = ((length / SECOND) as i64, SignedDuration::from_mins(1));
    let offset = |at: Timestamp| i64::from(zone.to_offset(at).seconds());
    let local = |at: Timestamp| at.as_second() + offset(at);
    let mut at = Timestamp::from_second(from.as_second().div_euclid(60) * 60).expect("a time");
    loop {
        at += minute;
        let just_before = at - SignedDuration::from_nanos(1);
        let shown = local(at).div_euclid(length) > local(just_before).div_euclid(length);
        let again = local(at).rem_euclid(length) == 0 && offset(just_before) - offset(at) >= length;
        if shown || again {
            return at;
        }
    }
}

proptest! {
    #![proptest_config(cases(300))]

    /// Around the days on which clocks change, in all zones, since all of them differ by whole minutes.
    #[test]
    fn windows_turn_when_the_local_clock_does(
        zone in any::<Index>(),
        year in 1973_i16..2100,
        near in -2 * DAY as i64..2 * DAY as i64,
        length in select(vec![MINUTE, HOUR, DAY]),
    ) {
        let zones: Vec<_> = jiff::tz::db().available().map(|name| name.to_string()).collect();
        let name = zone.get(&zones);
        let zone = TimeZone::get(name).expect("a zone of the database");
        let around = jiff::civil::date(year, 1, 1).to_zoned(zone.clone()).expect("a day").timestamp();
        let changed = zone.following(around).next().map_or(around, |change| change.timestamp());
        let origin = changed + SignedDuration::from_nanos(near);
        let window = full(calendar(name, 3, length, origin));
        let turn = origin + SignedDuration::from_nanos(window.earliest(1, 0).0 as i64);
        let watched = next_turn_by_watching_the_clock(&zone, length, origin);
        prop_assert_eq!(turn, watched, "{} after {}", name, origin);
    }
}

proptest! {
    #![proptest_config(cases(40))]

    /// UTC has no such days: its windows are those of an anchor, with debts, refunds, years and all.
    #[test]
    fn the_calendar_of_utc_is_an_anchor(
        units in any_units(),
        length in select(vec![MINUTE, HOUR, DAY]),
        origin in 0_u64..4_000_000_000,
        plan in plans(30, false),
    ) {
        let meter = calendar("UTC", units, length, at("1970-01-01T00:00:00Z") + SignedDuration::from_secs(origin as i64));
        let anchor = (length - origin * SECOND % length) % length;
        follow(Meter::Fixed(meter), FixedModel::new(units, length, anchor), length, 0, &plan);
    }
}

proptest! {
    #![proptest_config(cases(40))]

    /// Looked at in every window or only in the last, and told from the first.
    #[test]
    fn every_turn_pays_n_of_the_debt_also_when_clocks_change(
        (name, near) in select(vec![
            ("America/Los_Angeles", "2025-03-09T10:00:00Z"),
            ("America/Los_Angeles", "2025-11-02T09:00:00Z"),
            ("Australia/Lord_Howe", "2025-04-05T15:00:00Z"),
            ("Australia/Lord_Howe", "2025-10-04T15:30:00Z"),
            ("America/Sao_Paulo", "2018-11-04T03:00:00Z"),
            ("Asia/Kathmandu", "2025-01-01T00:00:00Z"),
        ]),
        before in 0_u64..6 * HOUR,
        units in 1_u64..50,
        spent in 1_u64..500,
    ) {
        let zone = TimeZone::get(name).expect("a zone of the database");
        let origin = at(near) - SignedDuration::from_nanos(before as i64);
        let mut window = calendar(name, units, HOUR, origin);
        // More is beyond the bound on debt.
        let spent = spent.min(units * (1 + MOST_DEBT));
        window.take(spent, Nanos::ZERO);
        let untouched = window.clone();
        let mut turn = origin;
        for passed in 1..12 {
            turn = next_turn_by_watching_the_clock(&zone, HOUR, turn);
            let now = Nanos(turn.duration_since(origin).as_nanos() as u64);
            let owed = spent.saturating_sub(passed * units);
            prop_assert_eq!((window.used(now), untouched.clone().used(now)), (owed, owed), "turn {}", passed);
            if owed < units && spent.saturating_sub((passed - 1) * units) >= units {
                prop_assert_eq!(untouched.earliest(units - owed, 0), now);
            }
            if owed == 0 {
                prop_assert!(untouched.full_at() <= now);
            }
        }
    }
}

fn full(mut window: FixedWindow) -> FixedWindow {
    window.take(window.capacity(), Nanos::ZERO);
    window
}

#[test]
fn a_day_in_los_angeles_has_23_24_or_25_hours() {
    assert_eq!(
        turns("America/Los_Angeles", DAY, "2025-03-08T20:00:00Z", 3),
        ["03-09 00:00 -08:00", "03-10 00:00 -07:00", "03-11 00:00 -07:00"]
    );
    assert_eq!(
        turns("America/Los_Angeles", DAY, "2025-11-01T20:00:00Z", 3),
        ["11-02 00:00 -07:00", "11-03 00:00 -08:00", "11-04 00:00 -08:00"]
    );
}

#[test]
fn an_hour_that_the_clocks_repeat_is_an_hour_each_time() {
    assert_eq!(
        turns("America/Los_Angeles", HOUR, "2025-11-02T07:30:00Z", 4),
        ["11-02 01:00 -07:00", "11-02 01:00 -08:00", "11-02 02:00 -08:00", "11-02 03:00 -08:00"]
    );
    assert_eq!(
        turns("America/Los_Angeles", HOUR, "2025-03-09T09:30:00Z", 2),
        ["03-09 03:00 -07:00", "03-09 04:00 -07:00"]
    );
}

#[test]
fn hours_in_kathmandu_turn_at_a_quarter_past_of_utc() {
    assert_eq!(
        turns("Asia/Kathmandu", HOUR, "2025-06-01T00:00:00Z", 2),
        ["06-01 06:00 +05:45", "06-01 07:00 +05:45"]
    );
    assert_eq!(turns("Asia/Kathmandu", DAY, "2025-06-01T00:00:00Z", 1), ["06-02 00:00 +05:45"]);
}

/// Clocks there go forward and back by half an hour: from 02:00 to 02:30, and from 02:00 to 01:30.
#[test]
fn hours_on_lord_howe_turn_at_whole_hours_after_the_clocks_have_changed() {
    assert_eq!(
        turns("Australia/Lord_Howe", HOUR, "2025-10-04T14:45:00Z", 4),
        ["10-05 02:30 +11:00", "10-05 03:00 +11:00", "10-05 04:00 +11:00", "10-05 05:00 +11:00"]
    );
    assert_eq!(
        turns("Australia/Lord_Howe", HOUR, "2025-04-05T14:15:00Z", 3),
        ["04-06 02:00 +10:30", "04-06 03:00 +10:30", "04-06 04:00 +10:30"]
    );
    assert_eq!(
        turns("Australia/Lord_Howe", HOUR, "2025-04-05T15:15:00Z", 2),
        ["04-06 02:00 +10:30", "04-06 03:00 +10:30"],
        "from the half hour that came twice"
    );
    assert_eq!(
        turns("Australia/Lord_Howe", DAY, "2025-04-05T12:00:00Z", 2),
        ["04-06 00:00 +11:00", "04-07 00:00 +10:30"]
    );
}

#[test]
fn a_day_without_midnight_begins_when_its_clocks_do() {
    assert_eq!(
        turns("America/Sao_Paulo", DAY, "2018-11-03T12:00:00Z", 3),
        ["11-04 01:00 -02:00", "11-05 00:00 -02:00", "11-06 00:00 -02:00"]
    );
    assert_eq!(
        turns("America/Sao_Paulo", DAY, "2018-02-17T12:00:00Z", 2),
        ["02-18 00:00 -03:00", "02-19 00:00 -03:00"],
        "the evening before came twice"
    );
}

#[test]
fn a_midnight_that_comes_twice_begins_one_day_only() {
    assert_eq!(
        turns("America/Havana", DAY, "2025-11-01T12:00:00Z", 2),
        ["11-02 00:00 -04:00", "11-03 00:00 -05:00"]
    );
    assert_eq!(
        turns("America/Havana", DAY, "2025-11-02T05:30:00Z", 1),
        ["11-03 00:00 -05:00"],
        "from the hour that came twice"
    );
}

/// At 00:01 the clocks went back to 23:01 of the day before, whose end came again.
#[test]
fn a_day_that_came_again_ends_at_its_own_midnight() {
    assert_eq!(
        turns("America/St_Johns", DAY, "2010-11-07T03:00:00Z", 2),
        ["11-07 00:00 -03:30", "11-08 00:00 -03:30"]
    );
}

#[test]
fn a_day_that_a_country_skipped_is_skipped() {
    assert_eq!(
        turns("Pacific/Apia", DAY, "2011-12-29T20:00:00Z", 2),
        ["12-31 00:00 +14:00", "01-01 00:00 +14:00"]
    );
}

/// The config's `10k/day@America/Los_Angeles`, as seen by calls: full again at the next local midnight.
#[test]
fn ten_thousand_a_day_are_back_at_midnight_in_los_angeles() {
    let mut window = calendar("America/Los_Angeles", 10_000, DAY, at("2025-11-02T06:59:59Z"));
    window.take(10_000, Nanos::ZERO);
    assert_eq!(window.earliest(1, 0), Nanos(SECOND), "the last second of Saturday");
    window.take(10_000, Nanos(SECOND));
    assert_eq!(window.full_at(), Nanos(SECOND + 25 * HOUR), "Sunday has 25 hours");
    window.refund(10_000, Nanos::ZERO, Nanos(2 * SECOND));
    assert_eq!(window.room(0, Nanos(2 * SECOND)), 0, "Saturday's refund freed units of Sunday");
    window.refund(1_000, Nanos(SECOND), Nanos(HOUR));
    assert_eq!(window.room(0, Nanos(HOUR)), 1_000);
    window.take(21_000, Nanos(HOUR));
    // 20k are owed: Monday and Tuesday pay.
    assert_eq!(window.earliest(1, 0), Nanos(SECOND + (25 + 48) * HOUR));
    assert_eq!(window.room(0, Nanos(SECOND + (25 + 48) * HOUR)), 10_000);
}

/// Counting the minutes of years one by one would take seconds.
#[test]
fn a_debt_of_a_hundred_years_is_bounded_and_a_queue_of_a_hundred_years_is_told_at_once() {
    let mut window = calendar("Europe/Berlin", 1, MINUTE, at("2025-01-01T00:00:00Z"));
    let minutes = 100 * 365 * DAY / MINUTE;
    let queue = window.flows_by(minutes.into(), 0, Nanos::ZERO);
    assert_eq!(queue, Nanos((minutes - 1) * MINUTE));
    window.take(1 + minutes, Nanos::ZERO);
    assert_eq!(window.earliest(1, 0), Nanos(5 * MINUTE), "four windows pay");
    for (now, used) in [(MINUTE, 4), (4 * MINUTE, 1), (5 * MINUTE, 0), (99 * 365 * DAY, 0)] {
        assert_eq!(window.clone().used(Nanos(now)), used, "at {now}");
    }
}

/// The end of the day that the wall shows, in Unix seconds of UTC.
fn day_end(unix: i64) -> i64 {
    (unix.div_euclid(86_400) + 1) * 86_400
}

proptest! {
    #![proptest_config(cases(200))]

    /// The wall clock is set forwards and backwards, and every day of the calendar still has one allowance.
    #[test]
    fn however_the_clock_is_set_no_day_has_a_second_allowance(
        plan in prop::collection::vec((1_u64..8 * 3600, -40_i64 * 3600..20 * 3600, 0_u32..4, 0_u64..7), 1..12),
    ) {
        let mut unix: i64 = 1_700_000_000;
        let mut window = calendar("UTC", 10, DAY, Timestamp::from_second(unix).expect("a time"));
        let mut now = Nanos::ZERO;
        let mut spent = std::collections::BTreeMap::<i64, u64>::new();
        for (passes, step, steps, tries) in plan {
            now = Nanos(now.0 + passes * SECOND);
            unix += passes as i64;
            if steps == 0 {
                unix += step;
                window.follow(i128::from(unix) * i128::from(SECOND) - i128::from(now.0), now);
            }
            for _ in 0..tries {
                if window.fits(1, 0, now) {
                    window.take(1, now);
                    *spent.entry(day_end(unix)).or_default() += 1;
                }
            }
            prop_assert!(spent.values().all(|spent| *spent <= 10), "{:?}", spent);
            prop_assert!(window.bounds().1 <= Nanos(now.0 + DAY), "it ends with the day that the wall shows");
        }
    }
}

/// However many stretches the clock is set back over.
#[test]
fn a_clock_that_is_set_back_by_months_gives_no_second_allowance() {
    let mut window = calendar("UTC", 10, DAY, at("2026-03-01T10:00:00Z"));
    let mut now = Nanos::ZERO;
    for _ in 0..100 {
        assert!(window.fits(10, 0, now));
        window.take(10, now);
        now = Nanos(now.0 + DAY);
    }
    window.follow(at("2026-03-02T10:00:00Z").as_nanosecond() - i128::from(now.0), now);
    for day in 1..100 {
        assert!(!window.fits(1, 0, now), "day {day} once more");
        now = Nanos(now.0 + DAY);
    }
    assert!(window.fits(10, 0, now), "a day that was not there yet");
}

#[test]
fn a_clock_that_was_years_ahead_and_is_put_right_locks_no_one_out() {
    let mut window = calendar("UTC", 10, DAY, at("2026-03-01T10:00:00Z"));
    let offset = |unix: &str, now: Nanos| at(unix).as_nanosecond() - i128::from(now.0);
    window.take(10, Nanos::ZERO);
    let now = Nanos(SECOND);
    window.follow(offset("2035-03-01T10:00:00Z", now), now);
    window.take(10, now);
    let now = Nanos(2 * SECOND);
    window.follow(offset("2026-03-01T10:00:02Z", now), now);
    assert!(!window.fits(1, 0, now), "this day was used up");
    let midnight = Nanos(14 * HOUR);
    assert_eq!(window.earliest(10, 0), midnight, "and the next one is a day like any other");
    assert!(window.fits(10, 0, midnight));
}

#[test]
fn after_a_sleep_over_midnight_the_window_turns_and_after_one_before_it_only_its_end_moves() {
    let mut window = calendar("America/Los_Angeles", 10, DAY, at("2026-03-01T20:00:00Z"));
    window.take(10, Nanos::ZERO);
    let now = Nanos(SECOND);
    // Eight hours passed on the wall, and none on the counter.
    assert!(window.follow(at("2026-03-02T04:00:01Z").as_nanosecond() - i128::from(SECOND), now));
    assert!(!window.fits(1, 0, now));
    assert_eq!(window.earliest(1, 0), Nanos(4 * HOUR), "midnight in Los Angeles");
    assert!(
        window.follow(at("2026-03-02T09:00:02Z").as_nanosecond() - i128::from(2 * SECOND), Nanos(2 * SECOND))
    );
    assert!(window.fits(10, 0, Nanos(2 * SECOND)));
}
