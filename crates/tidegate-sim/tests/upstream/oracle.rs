//! A client that knows the model exactly uses all of it, and is never refused.
//!
//! Where the time from sending to arrival is only known by a bound J, it counts what it sent from the latest
//! arrival, and trusts the next to come at the earliest: a log's entry begins to count J later, a fixed window
//! gets nothing in its last J, and a bucket is believed to be smaller by what flows in J.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tidegate_sim::upstream::meter;
use tidegate_sim::{Dice, Spread};

use super::*;

/// The least share of the supply that is used.
const USED: f64 = 0.985;

/// Sends costs from `costs` as early as the oracle dares, for `windows` windows; the share that was used.
fn play(limit: &UpstreamLimit, costs: Spread, jitter: u64, windows: u64) -> f64 {
    let window = limit.rate.window().as_nanos() as u64;
    let end = Nanos(windows * window);
    let bucket = matches!(limit.model, Model::TokenBucket | Model::Gcra);
    let flows = (u128::from(limit.rate.units()) * u128::from(jitter)).div_ceil(u128::from(window)) as u64;
    let believed = match bucket {
        true => {
            UpstreamLimit { burst: Some(limit.burst.unwrap_or(limit.rate.units()) - flows), ..limit.clone() }
        }
        false => limit.clone(),
    };
    let mut mirror = meter(&believed, Nanos::ZERO);
    let mut dice = Dice::new(11);
    let (mut at, mut arrivals) = (Nanos::ZERO, Vec::new());
    loop {
        let cost = costs.draw(&mut dice);
        at = mirror.fits_at(cost, at);
        if limit.model == Model::FixedWindow && at.0 + jitter >= mirror.full_at(at).0 {
            at = mirror.full_at(at);
        }
        if at >= end {
            break;
        }
        mirror.take(cost, if bucket { at } else { Nanos(at.0 + jitter) });
        arrivals.push((Nanos(at.0 + dice.below(jitter + 1)), cost));
    }
    arrivals.sort();
    let mut upstream = upstream(std::slice::from_ref(limit));
    for (at, cost) in arrivals {
        let _ = accepted(upstream.receive(&Cost::new().with(limit.dimension.clone(), cost), at));
    }
    upstream.counts().us.units[0] as f64 / (windows * limit.rate.units()) as f64
}

const JITTERS: [u64; 3] = [0, 20_000_000, 80_000_000];

#[test]
fn an_oracle_uses_a_limit_on_requests_without_a_refusal() {
    for jitter in JITTERS {
        for model in RATE_MODELS {
            for units in [30, 60, 200, 600, 3000] {
                let share = play(&requests(model, units, 60_000), Spread::Exactly(1), jitter, 20);
                assert!(share >= USED, "{units}/min {model:?}, {jitter} ns of jitter: {share}");
            }
        }
        let gcra = UpstreamLimit { burst: Some(10), ..requests(Model::Gcra, 600, 60_000) };
        let share = play(&gcra, Spread::Exactly(1), jitter, 20);
        assert!(share >= USED, "GCRA with a burst of 10, {jitter} ns of jitter: {share}");
    }
}

#[test]
fn an_oracle_uses_a_limit_on_tokens_without_a_refusal() {
    for jitter in JITTERS {
        for model in RATE_MODELS {
            let share = play(&tokens(model, 200_000, 60_000), Spread::Between(100, 2_000), jitter, 20);
            assert!(share >= USED, "{model:?}, {jitter} ns of jitter: {share}");
        }
    }
}

#[test]
fn an_oracle_keeps_all_slots_busy_without_a_refusal() {
    const SLOTS: u64 = 20;
    let duration = ms(600_000).0;
    let runs = Spread::spans(Duration::from_secs(2), Duration::from_secs(8));
    for jitter in JITTERS {
        let mut upstream = upstream(&[requests(Model::Concurrency, SLOTS, 1000)]);
        let mut dice = Dice::new(2);
        // When each worker's request arrives or ends: ends first, as the reply is known before the next is sent.
        let mut events: BinaryHeap<Reverse<(u64, bool, u64)>> =
            (0..SLOTS).map(|worker| Reverse((dice.below(jitter + 1), true, worker))).collect();
        let mut running = std::collections::HashMap::new();
        let mut busy = 0;
        while let Some(Reverse((at, arrives, worker))) =
            events.pop().filter(|Reverse((at, ..))| *at < duration)
        {
            if arrives {
                running.insert(worker, accepted(upstream.receive(&Cost::new(), Nanos(at))));
                let end = at + runs.draw(&mut dice);
                busy += end.min(duration) - at;
                events.push(Reverse((end, false, worker)));
            } else {
                upstream.end(running.remove(&worker).unwrap(), &Cost::nothing(), Nanos(at));
                events.push(Reverse((at + dice.below(jitter + 1), true, worker)));
            }
        }
        let share = busy as f64 / (SLOTS * duration) as f64;
        assert!(share >= USED, "{jitter} ns of jitter: {share}");
    }
}

#[test]
fn an_oracle_uses_the_narrowest_of_several_limits_without_a_refusal() {
    let hidden = UpstreamLimit { hidden: true, ..requests(Model::SlidingLog, 10, 1_000) };
    let limits =
        [requests(Model::FixedWindow, 600, 60_000), hidden, tokens(Model::TokenBucket, 600_000, 60_000)];
    let mut upstream = upstream(&limits);
    let (mut at, mut dice) = (Nanos::ZERO, Dice::new(4));
    loop {
        let cost = of_tokens(dice.below(1_500));
        at = upstream.fits_at(&cost, at);
        if at >= ms(600_000) {
            break;
        }
        let _ = accepted(upstream.receive(&cost, at));
    }
    let share = upstream.counts().us.accepted as f64 / 6_000.0;
    assert!(share >= USED, "{share}");
}
