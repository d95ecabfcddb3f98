//! Whether each call had its answer in time, and all of it.

use std::time::Duration;

use crate::delays::Delays;
use crate::records::{Arrival, At, BodyEnd, Call, CallEnd, End, Seen};
use crate::world::World;

/// How long an answer may take beyond the time that a call may wait.
const GRACE: Duration = Duration::from_secs(1);
/// How long the sidecar may try to connect.
const CONNECT: Duration = Duration::from_secs(10);

/// Why the answer to a call is missing or late.
pub fn unanswered(world: &World, seen: &Seen, delays: &Delays, number: usize) -> Option<String> {
    let call = &seen.calls[number];
    let (until, answered) = match call.ended {
        Some(CallEnd::Answered(at, _)) => (at, true),
        Some(CallEnd::Left(at)) => (at, false),
        Some(CallEnd::Cut(at)) => {
            return (!killed(seen, call, at))
                .then(|| format!("call {number} was cut off without an answer at {at:?}: {call:?}"));
        }
        None => return Some(format!("call {number} has no end: {call:?}")),
    };
    if call.kept_back {
        // Its answer is due when the rest has come, or when the sidecar has had enough of waiting.
        return None;
    }
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
    // The answer to a request that is still being written counts from when it was begun.
    let took = until.saturating_sub(call.sent.unwrap_or(call.began));
    (took > allowed).then(|| {
        let what = if answered { "was answered" } else { "had no answer" };
        format!("call {number} {what} after {took:?} where {allowed:?} are allowed: {call:?}")
    })
}

/// Why the body of an answer is not what it should be: it broke off or stalled although the upstream had written all of it,
/// or had ended it.
pub fn spoiled(seen: &Seen, delays: &Delays, number: usize) -> Option<String> {
    let call = &seen.calls[number];
    let (at, broken) = match call.body? {
        BodyEnd::Whole => return None,
        BodyEnd::Broken(at) => (at, true),
        BodyEnd::Stalled(at) => (at, false),
    };
    if killed(seen, call, at) {
        return None;
    }
    let what = if broken { "broke off" } else { "stalled" };
    let fault =
        |why: &str| Some(format!("the body of the answer to call {number} {what}, and {why}: {call:?}"));
    let attempts = seen.arrivals.iter().filter(|arrival| arrival.call == Some(number));
    let Some(last) = attempts.max_by_key(|arrival| arrival.at) else {
        return fault("it is the sidecar's own");
    };
    let due = |done: At| done + GRACE + delays.paused(done, at) + 3 * delays.between(done, at);
    match (last.whole, last.end) {
        (Some(_), _) if broken => fault("the upstream had written all of it"),
        (Some(done), _) if due(done) < at => fault("the upstream had written all of it"),
        (None, Some(End::Ours(done))) if !broken && due(done) < at => fault("the upstream had ended it"),
        _ => None,
    }
}

/// Whether the sidecar was killed while a call was under way.
fn killed(seen: &Seen, call: &Call, until: At) -> bool {
    seen.kills.iter().any(|(kill, start)| *kill <= until && *start >= call.began)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Meant;

    fn at(millis: u64) -> At {
        Duration::from_millis(millis)
    }

    /// A call with a timeout of 700 ms that was begun at 1 s.
    fn call(sent: Option<u64>, ended: Option<CallEnd>) -> Call {
        let (meant, body) = (Meant::default(), None);
        let began = at(1_000);
        Call {
            meant,
            client: "x",
            timeout: at(700),
            began,
            sent: sent.map(at),
            kept_back: false,
            ended,
            body,
        }
    }

    fn judged(call: Call, arrivals: Vec<Arrival>, kills: Vec<(At, At)>) -> Option<String> {
        let world = World::new(1, &[], at(3_000));
        let seen = Seen { calls: vec![call], arrivals, kills, ..Seen::default() };
        let delays = Delays::of(&seen);
        unanswered(&world, &seen, &delays, 0).or_else(|| spoiled(&seen, &delays, 0))
    }

    fn answered(millis: u64) -> Option<CallEnd> {
        Some(CallEnd::Answered(at(millis), 200))
    }

    #[test]
    fn a_late_a_missing_and_a_cut_answer_are_found() {
        assert_eq!(judged(call(Some(1_001), answered(2_600)), vec![], vec![]), None);
        for late in [answered(2_900), Some(CallEnd::Left(at(2_900))), Some(CallEnd::Cut(at(1_100))), None] {
            assert!(judged(call(Some(1_001), late), vec![], vec![]).is_some(), "{late:?}");
        }
        let killed = vec![(at(1_050), at(1_300))];
        assert_eq!(judged(call(Some(1_001), Some(CallEnd::Cut(at(1_100)))), vec![], killed), None);
        // The time that an attempt took at the upstream comes on top.
        let attempt =
            Arrival { at: at(1_100), call: Some(0), end: Some(End::Ours(at(2_100))), ..Arrival::default() };
        assert_eq!(judged(call(Some(1_001), answered(2_900)), vec![attempt], vec![]), None);
    }

    #[test]
    fn a_request_that_was_not_written_to_its_end_is_judged_too() {
        assert_eq!(judged(call(None, answered(2_600)), vec![], vec![]), None);
        for late in [answered(2_900), Some(CallEnd::Left(at(2_900))), Some(CallEnd::Cut(at(1_100)))] {
            assert!(judged(call(None, late), vec![], vec![]).is_some(), "{late:?}");
        }
        // What a client keeps back on purpose is waited for, and not cut off.
        let kept_back = |ended| Call { kept_back: true, ..call(None, ended) };
        assert_eq!(judged(kept_back(Some(CallEnd::Left(at(30_000)))), vec![], vec![]), None);
        assert!(judged(kept_back(Some(CallEnd::Cut(at(1_100)))), vec![], vec![]).is_some());
    }

    #[test]
    fn a_body_that_stalls_or_breaks_off_without_the_upstreams_doing_is_found() {
        let body = |end| Call { body: Some(end), ..call(Some(1_001), answered(1_200)) };
        let attempt = |whole: Option<u64>, end: Option<End>| {
            vec![Arrival { at: at(1_100), call: Some(0), whole: whole.map(at), end, ..Arrival::default() }]
        };
        let (stalled, broken) = (BodyEnd::Stalled(at(3_700)), BodyEnd::Broken(at(1_300)));
        assert_eq!(judged(body(BodyEnd::Whole), vec![], vec![]), None);
        for (end, arrivals) in [
            (stalled, attempt(Some(1_150), None)),
            (broken, attempt(Some(1_150), None)),
            (stalled, attempt(None, Some(End::Ours(at(1_250))))),
            (broken, vec![]),
            (stalled, vec![]),
        ] {
            assert!(judged(body(end), arrivals.clone(), vec![]).is_some(), "{end:?} {arrivals:?}");
        }
        for (end, arrivals) in [
            (stalled, attempt(None, None)),
            (stalled, attempt(Some(3_500), None)),
            (broken, attempt(None, Some(End::Ours(at(1_250))))),
        ] {
            assert_eq!(judged(body(end), arrivals, vec![]), None, "{end:?}");
        }
        assert_eq!(judged(body(broken), vec![], vec![(at(1_250), at(1_400))]), None);
    }
}
