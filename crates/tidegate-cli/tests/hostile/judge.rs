//! Judges a world by what its upstreams and clients saw.
//!
//! **Rates.** A limit is kept if the arrivals can be explained: if there are times of departure, each at most the measured
//! transport delay before its arrival, that satisfy the limit's definition. Departures are assigned from the first arrival
//! on, each as early as its delay and the limit allow. Where that fails no other assignment can succeed, since an earlier
//! departure never leaves less room for a later one. What `DESIGN.md` rounds (W/256) it rounds against us, so a window
//! never holds more than N, and no allowance is made for it.
//!
//! **In flight.** A request counts from its arrival to its end at the upstream. Where the sidecar ended it, the upstream
//! learns of that one transport delay later.

use std::time::Duration;

use super::delays::Delays;
use super::records::{Arrival, At, CallEnd, End, Seen};
use super::world::{Definition, Kind, World, Written};

/// How long an answer may take beyond the time that a call may wait.
const GRACE: Duration = Duration::from_secs(1);
/// How long the sidecar may try to connect.
const CONNECT: Duration = Duration::from_secs(10);

/// Everything that is wrong.
pub fn faults(world: &World, seen: &Seen) -> Vec<String> {
    let delays = Delays::of(seen);
    let mut faults = seen.faults.clone();
    for limit in &world.limits {
        let mut covered: Vec<&Arrival> = seen
            .arrivals
            .iter()
            .filter(|arrival| !arrival.given_back && covers(limit, arrival, seen))
            .collect();
        covered.sort_by_key(|arrival| arrival.at);
        faults.extend(passed(limit, &covered, seen, &delays));
    }
    let unmarked =
        seen.arrivals.iter().filter(|arrival| arrival.call.is_none_or(|call| call >= seen.calls.len()));
    faults.extend(unmarked.map(|arrival| format!("an arrival that no client sent: {arrival:?}")));
    let mut late = (0..seen.calls.len()).filter_map(|call| unanswered(world, seen, &delays, call));
    faults.extend(late.by_ref().take(5));
    match late.count() {
        0 => {}
        more => faults.push(format!("and {more} more calls without an answer in time")),
    }
    faults
}

fn covers(limit: &Written, arrival: &Arrival, seen: &Seen) -> bool {
    let meant = arrival.call.and_then(|call| seen.calls.get(call)).map(|call| &call.meant);
    meant.is_some_and(|meant| limit.scope.covers(meant))
}

/// How a limit was passed, if it was.
fn passed(
    limit: &Written,
    covered: &[&Arrival],
    Seen { calls, kills, .. }: &Seen,
    delays: &Delays,
) -> Option<String> {
    let times: Vec<(At, At)> =
        covered.iter().map(|arrival| (delays.earliest(arrival.at), arrival.at)).collect();
    let (first, last) = match limit.definition {
        Definition::Window { n, window } => window_passed(&times, n, window)?,
        Definition::Bucket { n, window, burst } => bucket_passed(&times, n, window, burst)?,
        Definition::InFlight { n } => in_flight_passed(covered, delays, kills, n)?,
    };
    let (count, span) = (last - first + 1, covered[last].at - covered[first].at);
    let mut text = format!("{} ({:?}) is passed: {count} in {span:?}", limit.name, limit.definition);
    for arrival in &covered[first..=last] {
        let delay = arrival.at - delays.earliest(arrival.at);
        let ended = arrival.end.map(|end| end.at());
        let Arrival { at, call, fate, .. } = arrival;
        let client = call.map_or("", |call| calls[call].client);
        text += &format!(
            "\n    {at:?} call {call:?} ({client}) [{fate}] until {ended:?}, at most {delay:?} under way"
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

fn in_flight_passed(
    covered: &[&Arrival],
    delays: &Delays,
    kills: &[(At, At)],
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

/// Why the answer to a call is missing or late.
fn unanswered(world: &World, seen: &Seen, delays: &Delays, number: usize) -> Option<String> {
    let call = &seen.calls[number];
    let sent = call.sent?;
    let (until, answered) = match call.ended {
        Some(CallEnd::Answered(at, _)) => (at, true),
        Some(CallEnd::Left(at)) => (at, false),
        Some(CallEnd::Cut(at)) => {
            let killed = seen.kills.iter().any(|(kill, start)| *kill <= at && *start >= call.began);
            return (!killed)
                .then(|| format!("call {number} was cut off without an answer at {at:?}: {call:?}"));
        }
        None => return Some(format!("call {number} has no end: {call:?}")),
    };
    // `timeout` bounds waiting; the time that its attempts took at the upstream comes on top.
    let attempts = seen.arrivals.iter().filter(|arrival| arrival.call == Some(number));
    let ran =
        |arrival: &Arrival| arrival.end.map_or(until, |end| end.at().min(until)).saturating_sub(arrival.at);
    let mut allowed: Duration = attempts.map(ran).sum();
    allowed += call.timeout + GRACE + delays.paused(call.began, until);
    // The way to the sidecar, to the upstream and back.
    allowed += 3 * delays.between(call.began, until);
    if let Some(tries) = world.services[call.meant.service].connects_in_vain() {
        allowed += CONNECT * tries;
    }
    let took = until.saturating_sub(sent);
    (took > allowed).then(|| {
        let what = if answered { "was answered" } else { "had no answer" };
        format!("call {number} {what} after {took:?} where {allowed:?} are allowed: {call:?}")
    })
}

/// What a world has come to, in one line.
pub fn summary(world: &World, seen: &Seen) -> String {
    let answered = |of: std::ops::Range<u16>| {
        let ends = seen.calls.iter().filter_map(|call| call.ended);
        ends.filter(|end| matches!(end, CallEnd::Answered(_, status) if of.contains(status))).count()
    };
    let permits =
        seen.arrivals.iter().filter(|arrival| world.services[arrival.service].kind == Kind::Permits);
    format!(
        "{} calls, {} arrivals and {} permits; {} answered 2xx, {} 4xx, {} 5xx; {} pauses, {} kills; longest probe {:?}",
        seen.calls.len(),
        seen.arrivals.len() - permits.clone().count(),
        permits.count(),
        answered(200..300),
        answered(400..500),
        answered(500..600),
        seen.pauses.len(),
        seen.kills.len(),
        Delays::of(seen).longest(),
    )
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
