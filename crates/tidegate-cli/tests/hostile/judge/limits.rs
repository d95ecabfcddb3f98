//! Whether a limit was passed, by what arrived at the upstreams.
//!
//! **Rates.** A limit is kept if the arrivals can be explained: if there are times of departure, each at most the measured
//! transport delay before its arrival, that satisfy the limit's definition. Departures are assigned from the first arrival
//! on, each as early as its delay and the limit allow. Where that fails no other assignment can succeed, since an earlier
//! departure never leaves less room for a later one. What `DESIGN.md` rounds (W/256) it rounds against us, so a window
//! never holds more than N, and no allowance is made for it.
//!
//! **Tokens and fixed windows.** Calls of different cost may overtake each other, and it is not known where a fixed window
//! begins. So only what no order and no beginning explains is a fault: more than N tokens that all left within less than the
//! window, or more than (k + 1) N requests within less than k fixed windows.
//!
//! **In flight.** A request counts from its arrival to its end at the upstream. Where the sidecar ended it, the upstream
//! learns of that one transport delay later.

use std::time::Duration;

use crate::delays::Delays;
use crate::limits::{Definition, Written};
use crate::records::{Arrival, At, Call, End, Seen};

/// How a limit was passed, if it was.
pub fn passed(
    limit: &Written,
    covered: &[&Arrival],
    seen @ Seen { calls, .. }: &Seen,
    delays: &Delays,
) -> Option<String> {
    let times: Vec<(At, At)> =
        covered.iter().map(|arrival| (delays.earliest(arrival.at), arrival.at)).collect();
    let (first, last) = match limit.definition {
        Definition::Window { n, window } => window_passed(&times, n, window)?,
        Definition::Bucket { n, window, burst } => bucket_passed(&times, n, window, burst)?,
        Definition::Fixed { n, window } => {
            let windows = |k: u32| crowded(&times, |_| 1, k * window, (k as u64 + 1) * n as u64);
            (1..=4).find_map(windows)?
        }
        Definition::Tokens { n, window } => {
            crowded(&times, |number| served(calls, covered[number]), window, n)?
        }
        Definition::InFlight { n } => in_flight_passed(covered, delays, seen, n)?,
    };
    let (count, span) = (last - first + 1, covered[last].at - covered[first].at);
    let mut text = format!("{} ({:?}) is passed: {count} in {span:?}", limit.name, limit.definition);
    for arrival in &covered[first..=last] {
        let delay = arrival.at - delays.earliest(arrival.at);
        let ended = arrival.end.map(|end| end.at());
        let Arrival { at, call, fate, tokens, .. } = arrival;
        let client = call.map_or("", |call| calls[call].client);
        text += &format!(
            "\n    {at:?} call {call:?} ({client}) [{fate}] {tokens} tokens, until {ended:?}, at most {delay:?} under way"
        );
    }
    Some(text)
}

/// The arrivals that a sliding window cannot explain: the first and the last of them. Each has the earliest and the latest
/// time at which it may have left; they come in the order of the latter.
fn window_passed(times: &[(At, At)], n: usize, window: Duration) -> Option<(usize, usize)> {
    let mut left: Vec<At> = Vec::with_capacity(times.len());
    for (number, earliest) in in_order(times).into_iter().enumerate() {
        let free = number.checked_sub(n).map_or(At::ZERO, |before| left[before] + window);
        let departure = earliest.max(free);
        if departure > times[number].1 {
            return Some((number - n, number));
        }
        left.push(departure);
    }
    None
}

/// The same for a bucket of `burst` that `n` flow into in every `window`.
fn bucket_passed(times: &[(At, At)], n: usize, window: Duration, burst: usize) -> Option<(usize, usize)> {
    let unit = window.as_nanos() as f64 / n as f64;
    let (mut missing, mut last, mut full) = (0.0_f64, 0.0_f64, 0);
    for (number, earliest) in in_order(times).into_iter().enumerate() {
        let earliest = (earliest.as_nanos() as f64).max(last);
        let level = (missing - (earliest - last)).max(0.0);
        if level == 0.0 {
            full = number;
        }
        // In nanoseconds of flow: one unit more must fit.
        let wait = (level + unit - burst as f64 * unit).max(0.0);
        let departure = earliest + wait;
        // Half a microsecond is what sums of floating point may be off by.
        if departure > times[number].1.as_nanos() as f64 + 500.0 {
            return Some((full, number));
        }
        (missing, last) = (level - wait + unit, departure);
    }
    None
}

/// The earliest departures, none before that of an earlier arrival: requests of one limit may overtake each other, but
/// which of two equal ones left first makes no difference.
fn in_order(times: &[(At, At)]) -> Vec<At> {
    let mut earliest: Vec<At> = times.iter().map(|(earliest, _)| *earliest).collect();
    for number in (1..earliest.len()).rev() {
        earliest[number - 1] = earliest[number - 1].min(earliest[number]);
    }
    earliest
}

/// The tokens that an arrival is judged by: what was served of it, if its call said what it may cost. Else what it cost is
/// known when it is over, and is debt.
fn served(calls: &[Call], arrival: &Arrival) -> u64 {
    let stated = arrival.call.and_then(|call| calls[call].meant.tokens);
    stated.map_or(0, |_| arrival.tokens)
}

/// The arrivals that must all have left within less than `span` and weigh more than `most`: the first and the last of them.
fn crowded(
    times: &[(At, At)],
    weight: impl Fn(usize) -> u64,
    span: Duration,
    most: u64,
) -> Option<(usize, usize)> {
    times.iter().enumerate().find_map(|(first, (from, _))| {
        let inside = |number: &usize| times[*number].0 >= *from && times[*number].1 < *from + span;
        let crowd: Vec<usize> = (0..times.len()).filter(inside).collect();
        let weighs: u64 = crowd.iter().map(|number| weight(*number)).sum();
        (weighs > most).then(|| (crowd[0].min(first), *crowd.last().unwrap_or(&first)))
    })
}

fn in_flight_passed(
    covered: &[&Arrival],
    delays: &Delays,
    Seen { kills, .. }: &Seen,
    n: usize,
) -> Option<(usize, usize)> {
    let end = |arrival: &Arrival| {
        let end = match arrival.end {
            None => At::MAX,
            Some(End::Ours(at)) => at,
            Some(End::Theirs(at)) => delays.earliest(at),
        };
        // A permit does not survive a kill. Its slot does for as long as calls usually take, and no longer.
        let killed = kills.iter().map(|(kill, _)| *kill).find(|kill| *kill >= arrival.at);
        killed.map_or(end, |kill| end.min(kill))
    };
    for (number, arrival) in covered.iter().enumerate() {
        let open = (0..=number).filter(|other| *other == number || end(covered[*other]) > arrival.at);
        let open: Vec<usize> = open.collect();
        if open.len() > n {
            return Some((open[0], number));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(2);

    fn times(millis: &[u64], delay: u64) -> Vec<(At, At)> {
        let at = |millis: &u64| Duration::from_millis(*millis);
        millis.iter().map(|millis| (at(&millis.saturating_sub(delay)), at(millis))).collect()
    }

    #[test]
    fn a_window_is_half_open() {
        assert_eq!(window_passed(&times(&[0, 500, 2000, 2500], 0), 2, WINDOW), None);
        assert_eq!(window_passed(&times(&[0, 500, 1999], 0), 2, WINDOW), Some((0, 2)));
    }

    #[test]
    fn a_delay_explains_what_it_can_and_no_more() {
        let bunched = [100, 200, 2090, 2190, 4100];
        assert_eq!(window_passed(&times(&bunched, 20), 2, WINDOW), None);
        assert_eq!(window_passed(&times(&bunched, 5), 2, WINDOW), Some((0, 2)));
        // Ten at once where two fit: no delay below the window explains that.
        assert!(window_passed(&times(&[5000; 10], 1500), 2, WINDOW).is_some());
        // Every window is filled a little too early, which a delay explains once and not again and again.
        let fast: Vec<u64> = (0..40).map(|number| 3000 + number * 970).collect();
        assert!(window_passed(&times(&fast, 50), 2, WINDOW).is_some());
    }

    #[test]
    fn a_bucket_lets_its_burst_go_and_then_its_rate() {
        assert_eq!(bucket_passed(&times(&[0, 0, 0, 0, 1000, 2000], 0), 2, WINDOW, 4), None);
        assert_eq!(bucket_passed(&times(&[0, 0, 0, 0, 900], 0), 2, WINDOW, 4), Some((0, 4)));
        assert_eq!(bucket_passed(&times(&[1000, 1000, 1000, 1000, 1900], 100), 2, WINDOW, 4), None);
    }

    #[test]
    fn a_fixed_window_may_begin_anywhere_and_holds_no_more_than_n() {
        let fixed =
            |millis: &[u64], k: u32| crowded(&times(millis, 0), |_| 1, k * WINDOW, (k as u64 + 1) * 2);
        // Two at the end of a window and two at the beginning of the next one.
        assert_eq!(fixed(&[1900, 1950, 2000, 2050], 1), None);
        assert_eq!(fixed(&[1900, 1950, 2000, 2050, 2100], 1), Some((0, 4)));
        assert_eq!(fixed(&[1900, 1950, 2000, 2050, 4000, 4100], 2), None);
        assert_eq!(fixed(&[1900, 1950, 2000, 2050, 4000, 4100, 4200], 2), Some((0, 6)));
    }

    #[test]
    fn tokens_are_summed_over_what_must_have_left_within_a_window() {
        let tokens = |delay: u64, of: [u64; 3]| {
            crowded(&times(&[1000, 1500, 2990], delay), |number| of[number], WINDOW, 100)
        };
        assert_eq!(tokens(0, [40, 40, 20]), None);
        assert_eq!(tokens(0, [40, 40, 21]), Some((0, 2)));
        // The first one may have left 20 ms before it arrived, and so more than a window before the last one.
        assert_eq!(tokens(20, [40, 40, 21]), None);
        assert_eq!(tokens(20, [0, 90, 21]), Some((1, 2)));
    }

    fn arrival(at: u64, end: Option<End>) -> Arrival {
        Arrival { at: Duration::from_millis(at), end, ..Arrival::default() }
    }

    #[test]
    fn more_in_flight_than_there_are_slots_is_found() {
        let at = Duration::from_millis;
        let delays = Delays::of(&Seen::default());
        let found = |arrivals: &[Arrival], kills: &[(At, At)]| {
            let seen = Seen { kills: kills.to_vec(), ..Seen::default() };
            in_flight_passed(&arrivals.iter().collect::<Vec<_>>(), &delays, &seen, 2)
        };
        let ours = |end: u64| Some(End::Ours(at(end)));
        let one_after_another = [arrival(0, ours(500)), arrival(100, ours(900)), arrival(500, ours(700))];
        assert_eq!(found(&one_after_another, &[]), None);
        let at_once = [arrival(0, ours(501)), arrival(100, ours(900)), arrival(500, ours(700))];
        assert_eq!(found(&at_once, &[]), Some((0, 2)));
        let endless = [arrival(0, None), arrival(100, None), arrival(60_000, None)];
        assert_eq!(found(&endless, &[]), Some((0, 2)));
        // A kill ends what was in flight. What the sidecar ends is free one transport delay before the upstream sees it.
        assert_eq!(found(&endless, &[(at(50_000), at(50_500))]), None);
        let theirs = |end: u64| Some(End::Theirs(at(end)));
        let seen_late = [arrival(0, theirs(510)), arrival(100, None), arrival(500, None)];
        assert_eq!(found(&seen_late, &[]), None);
        let too_late = [arrival(0, theirs(600)), arrival(100, None), arrival(500, None)];
        assert_eq!(found(&too_late, &[]), Some((0, 2)));
    }

    #[test]
    fn what_arrives_right_after_a_pause_may_have_left_before_it_and_nothing_else_may() {
        let at = Duration::from_millis;
        let mut seen = Seen { pauses: vec![(at(5000), at(6300))], ..Seen::default() };
        seen.probes = vec![(at(4990), Some(at(6301))), (at(6310), Some(at(6312)))];
        let delays = Delays::of(&seen);
        assert!(delays.earliest(at(6310)) < at(5000));
        assert!(delays.earliest(at(6340)) > at(6300));
        assert!(delays.earliest(at(4999)) > at(4900));
    }
}
