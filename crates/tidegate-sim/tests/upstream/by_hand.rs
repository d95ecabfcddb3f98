//! Cases that fit on a piece of paper.

use tidegate_sim::{Neighbour, Outage, Spread, UpstreamChange};

use super::*;

/// How long a refused call of one request would have to wait, in milliseconds.
#[track_caller]
fn wait_ms(upstream: &mut Upstream, at: u64) -> u128 {
    refused(upstream.receive(&Cost::new(), ms(at))).wait.unwrap().as_millis()
}

#[test]
fn a_fixed_window_forgets_everything_at_its_end() {
    let mut upstream = upstream(&[requests(Model::FixedWindow, 2, 100)]);
    let _ = accepted(upstream.receive(&Cost::new(), ms(90)));
    let _ = accepted(upstream.receive(&Cost::new(), ms(95)));
    assert_eq!(wait_ms(&mut upstream, 99), 1);
    // Four calls within ten milliseconds, and all of them are right.
    let _ = accepted(upstream.receive(&Cost::new(), ms(100)));
    let _ = accepted(upstream.receive(&Cost::new(), ms(100)));
    assert_eq!(wait_ms(&mut upstream, 130), 70);
    // Windows in which nothing came are counted too.
    let _ = accepted(upstream.receive(&Cost::new(), ms(350)));
    let _ = accepted(upstream.receive(&Cost::new(), ms(351)));
    assert_eq!(wait_ms(&mut upstream, 399), 1);
}

#[test]
fn windows_follow_each_other_from_the_start_and_not_from_midnight() {
    let spec = only(&[requests(Model::FixedWindow, 1, 100)]);
    let mut upstream = Upstream::new(&spec, 1, ms(30));
    let _ = accepted(upstream.receive(&Cost::new(), ms(129)));
    let _ = accepted(upstream.receive(&Cost::new(), ms(130)));
    assert_eq!(wait_ms(&mut upstream, 131), 99);
}

#[test]
fn a_sliding_log_frees_each_call_one_window_after_it_came() {
    let mut upstream = upstream(&[requests(Model::SlidingLog, 2, 100)]);
    let _ = accepted(upstream.receive(&Cost::new(), ms(0)));
    let _ = accepted(upstream.receive(&Cost::new(), ms(60)));
    assert_eq!(wait_ms(&mut upstream, 99), 1);
    let _ = accepted(upstream.receive(&Cost::new(), ms(100)));
    assert_eq!(wait_ms(&mut upstream, 100), 60);
}

#[test]
fn a_large_call_waits_for_as_many_entries_of_the_log_as_it_needs() {
    let mut upstream = upstream(&[tokens(Model::SlidingLog, 10, 100)]);
    for (at, units) in [(0, 3), (10, 3), (20, 3)] {
        let _ = accepted(upstream.receive(&of_tokens(units), ms(at)));
    }
    assert_eq!(upstream.fits_at(&of_tokens(1), ms(30)), ms(30));
    assert_eq!(upstream.fits_at(&of_tokens(4), ms(30)), ms(100));
    assert_eq!(upstream.fits_at(&of_tokens(5), ms(30)), ms(110));
    assert_eq!(upstream.fits_at(&of_tokens(10), ms(30)), ms(120));
    assert!(upstream.fits_at(&of_tokens(11), ms(30)).is_never());
}

#[test]
fn a_bucket_and_a_gcra_let_a_burst_go_and_then_one_every_interval() {
    for model in [Model::TokenBucket, Model::Gcra] {
        let mut upstream = upstream(&[UpstreamLimit { burst: Some(3), ..requests(model, 10, 1000) }]);
        for _ in 0..3 {
            let _ = accepted(upstream.receive(&Cost::new(), ms(0)));
        }
        assert_eq!(wait_ms(&mut upstream, 0), 100);
        assert_eq!(wait_ms(&mut upstream, 60), 40);
        let _ = accepted(upstream.receive(&Cost::new(), ms(100)));
        assert_eq!(wait_ms(&mut upstream, 150), 50);
        // Never more than the burst comes together again.
        for _ in 0..3 {
            let _ = accepted(upstream.receive(&Cost::new(), ms(60_000)));
        }
        assert_eq!(wait_ms(&mut upstream, 60_000), 100);
    }
}

#[test]
fn a_third_of_a_nanosecond_is_not_lost() {
    for model in [Model::TokenBucket, Model::Gcra] {
        let limit = UpstreamLimit { burst: Some(1), ..requests(model, 3, 1) };
        let mut upstream = upstream(&[limit]);
        let mut at = Nanos::ZERO;
        let mut times = Vec::new();
        for _ in 0..=3000 {
            at = upstream.fits_at(&Cost::new(), at);
            let _ = accepted(upstream.receive(&Cost::new(), at));
            times.push(at.0);
        }
        assert_eq!(times[1..4], [333_334, 666_668, 1_000_002], "each waits for a whole nanosecond");
        let mut bursty = Upstream::new(&only(&[requests(model, 3, 1)]), 1, Nanos::ZERO);
        for _ in 0..3 {
            let _ = accepted(bursty.receive(&Cost::new(), Nanos::ZERO));
        }
        assert_eq!(bursty.fits_at(&Cost::new(), Nanos::ZERO), Nanos(333_334));
        let three = Cost::new().with(Dimension::Requests, 3);
        assert_eq!(bursty.fits_at(&three, Nanos::ZERO), Nanos(1_000_000), "and three for a whole window");
    }
}

#[test]
fn slots_come_back_when_calls_end_and_nobody_knows_when() {
    let mut upstream = upstream(&[requests(Model::Concurrency, 2, 1000)]);
    let first = accepted(upstream.receive(&Cost::new(), ms(0)));
    let _second = accepted(upstream.receive(&Cost::new(), ms(0)));
    assert_eq!(refused(upstream.receive(&Cost::new(), ms(5_000))).wait, None);
    upstream.end(first, &Cost::nothing(), ms(6_000));
    let _third = accepted(upstream.receive(&Cost::new(), ms(6_000)));
    let _ = refused(upstream.receive(&Cost::new(), ms(6_000)));
}

#[test]
fn a_refused_call_is_counted_by_no_limit_and_the_longest_wait_is_told() {
    let limits = [
        requests(Model::FixedWindow, 10, 1000),
        UpstreamLimit { hidden: true, ..tokens(Model::SlidingLog, 100, 500) },
        tokens(Model::FixedWindow, 1000, 10_000),
    ];
    let mut upstream = upstream(&limits);
    let _ = accepted(upstream.receive(&of_tokens(60), ms(0)));
    let by = refused(upstream.receive(&of_tokens(60), ms(100)));
    assert_eq!((by.limit, by.hidden, by.wait.unwrap().as_millis()), (1, true, 400));
    assert_eq!(upstream.counts().us.units, [1, 60, 60]);
    for _ in 0..9 {
        let _ = accepted(upstream.receive(&of_tokens(0), ms(100)));
    }
    let by = refused(upstream.receive(&of_tokens(60), ms(100)));
    assert_eq!((by.limit, by.hidden, by.wait.unwrap().as_millis()), (0, false, 900));
    let counts = &upstream.counts().us;
    assert_eq!((counts.received, counts.accepted, counts.refused), (12, 10, 2));
    assert_eq!(refused(upstream.receive(&of_tokens(101), ms(100))).wait, None, "it can never fit");
}

#[test]
fn refused_calls_that_cost_keep_the_door_shut() {
    for model in [Model::SlidingLog, Model::TokenBucket, Model::Gcra] {
        let spec = UpstreamSpec { refused_cost: true, ..only(&[requests(model, 10, 1000)]) };
        let mut upstream = Upstream::new(&spec, 1, Nanos::ZERO);
        for _ in 0..10 {
            let _ = accepted(upstream.receive(&Cost::new(), ms(0)));
        }
        // A little faster than the limit's own pace: each refusal costs what would have come free.
        for n in 1..100 {
            let _ = refused(upstream.receive(&Cost::new(), ms(95 * n)));
        }
        // Whoever is silent for a window and what it calls gets in, however long the storm was.
        let _ = accepted(upstream.receive(&Cost::new(), ms(9_405 + 1_100)));
    }
}

#[test]
fn a_storm_of_refused_calls_locks_a_bucket_for_one_more_bucket_at_most() {
    for model in [Model::TokenBucket, Model::Gcra] {
        let spec = UpstreamSpec { refused_cost: true, ..only(&[requests(model, 10, 1000)]) };
        let mut upstream = Upstream::new(&spec, 1, Nanos::ZERO);
        for _ in 0..100_000 {
            let _ = upstream.receive(&Cost::new(), ms(0));
        }
        assert_eq!(upstream.fits_at(&Cost::new(), ms(0)), ms(1_100));
    }
}

#[test]
fn what_a_call_did_not_spend_goes_back_to_where_it_was_counted() {
    for model in RATE_MODELS {
        let mut upstream = upstream(&[tokens(model, 100, 1000)]);
        let held = accepted(upstream.receive(&of_tokens(100), ms(0)));
        let _ = refused(upstream.receive(&of_tokens(40), ms(100)));
        upstream.end(held, &of_tokens(60), ms(200));
        let _ = accepted(upstream.receive(&of_tokens(40), ms(200)));
        assert_eq!(upstream.counts().us.units, [100], "{model:?}");
    }
}

#[test]
fn what_comes_back_too_late_mints_nothing() {
    for model in RATE_MODELS {
        let mut upstream = upstream(&[tokens(model, 100, 1000)]);
        let held = accepted(upstream.receive(&of_tokens(100), ms(0)));
        upstream.end(held, &of_tokens(0), ms(3_000));
        let _ = accepted(upstream.receive(&of_tokens(100), ms(3_000)));
        let _ = refused(upstream.receive(&of_tokens(1), ms(3_000)));
        assert_eq!(upstream.counts().us.units, [200], "{model:?}: what was spent stays spent");
    }
}

#[test]
fn what_a_call_spent_above_its_estimate_is_counted_when_it_ends() {
    for model in RATE_MODELS {
        let mut upstream = upstream(&[tokens(model, 100, 1000)]);
        let held = accepted(upstream.receive(&of_tokens(100), ms(0)));
        upstream.end(held, &of_tokens(150), ms(500));
        let free_at = match model {
            Model::FixedWindow | Model::SlidingLog => 1000,
            // 150 spent, of which 50 have flowed in again: it is empty, and the next comes after 10 ms.
            _ => 510,
        };
        assert_eq!(upstream.fits_at(&of_tokens(1), ms(500)), ms(free_at), "{model:?}");
    }
}

#[test]
fn a_cost_that_an_end_does_not_state_stays() {
    let mut upstream = upstream(&[tokens(Model::FixedWindow, 100, 1000)]);
    let held = accepted(upstream.receive(&of_tokens(100), ms(0)));
    upstream.end(held, &Cost::nothing(), ms(1));
    let _ = refused(upstream.receive(&of_tokens(1), ms(2)));
}

#[test]
fn a_changed_limit_keeps_what_it_counted() {
    for model in RATE_MODELS {
        let change = UpstreamChange { at: Duration::from_millis(10), limit: 0, rate: rate(4, 1000) };
        let spec = UpstreamSpec { changes: vec![change], ..only(&[requests(model, 10, 1000)]) };
        let mut upstream = Upstream::new(&spec, 1, Nanos::ZERO);
        for _ in 0..3 {
            let _ = accepted(upstream.receive(&Cost::new(), ms(9)));
        }
        let _ = accepted(upstream.receive(&Cost::new(), ms(10)));
        let _ = refused(upstream.receive(&Cost::new(), ms(10)));
        upstream.change(0, rate(6, 1000), ms(11));
        let _ = accepted(upstream.receive(&Cost::new(), ms(11)));
        let _ = accepted(upstream.receive(&Cost::new(), ms(11)));
        let _ = refused(upstream.receive(&Cost::new(), ms(11)));
        assert_eq!(upstream.limits().next().unwrap().rate, rate(6, 1000));
    }
}

#[test]
fn another_window_keeps_what_was_counted_too() {
    for model in RATE_MODELS {
        let mut upstream = upstream(&[requests(model, 10, 1000)]);
        for _ in 0..10 {
            let _ = accepted(upstream.receive(&Cost::new(), ms(0)));
        }
        upstream.change(0, rate(10, 100), ms(0));
        let _ = refused(upstream.receive(&Cost::new(), ms(9)));
        let _ = accepted(upstream.receive(&Cost::new(), ms(100)));
    }
}

#[test]
fn an_upstream_that_is_down_counts_nothing_and_one_that_fails_does() {
    let outage = Outage { at: Duration::from_millis(10), lasts: Duration::from_millis(5) };
    let spec =
        UpstreamSpec { outages: vec![outage], errors: 1.0, ..only(&[requests(Model::FixedWindow, 1, 1000)]) };
    let mut upstream = Upstream::new(&spec, 1, Nanos::ZERO);
    assert_eq!(upstream.receive(&Cost::new(), ms(10)), Answer::Failed(503));
    assert_eq!(upstream.receive(&Cost::new(), Nanos(ms(15).0 - 1)), Answer::Failed(503));
    assert!(matches!(upstream.receive(&Cost::new(), ms(15)), Answer::Failed(500 | 502)));
    let _ = refused(upstream.receive(&Cost::new(), ms(16)));
    let counts = &upstream.counts().us;
    assert_eq!((counts.received, counts.accepted, counts.refused, counts.failed), (4, 0, 1, 3));
    assert_eq!(counts.units, [1]);
}

#[test]
fn a_failed_request_gives_its_slot_back_at_once() {
    let spec = UpstreamSpec { errors: 1.0, ..only(&[requests(Model::Concurrency, 1, 1000)]) };
    let mut upstream = Upstream::new(&spec, 1, Nanos::ZERO);
    for _ in 0..3 {
        assert!(matches!(upstream.receive(&Cost::new(), ms(0)), Answer::Failed(500 | 502)));
    }
}

#[test]
fn errors_come_as_often_as_stated() {
    let spec = UpstreamSpec { errors: 0.05, ..UpstreamSpec::default() };
    let mut upstream = Upstream::new(&spec, 1, Nanos::ZERO);
    for _ in 0..100_000 {
        let _ = upstream.receive(&Cost::new(), ms(0));
    }
    assert!((4_700..5_300).contains(&upstream.counts().us.failed), "{}", upstream.counts().us.failed);
}

fn neighbour(units: u64, millis: u64) -> Neighbour {
    Neighbour { rate: rate(units, millis), from: Duration::ZERO, until: None, tokens: Spread::Exactly(7) }
}

#[test]
fn neighbours_come_as_often_as_stated_between_their_times() {
    let from = Duration::from_secs(100);
    let until = Some(Duration::from_secs(1_100));
    let spec = UpstreamSpec {
        neighbours: vec![Neighbour { from, until, ..neighbour(10, 1000) }],
        ..only(&[tokens(Model::FixedWindow, 1 << 60, 1000)])
    };
    let mut upstream = Upstream::new(&spec, 1, Nanos::ZERO);
    upstream.advance(ms(100_000));
    assert_eq!(upstream.counts().neighbours.received, 0);
    upstream.advance(ms(9_000_000));
    let counts = &upstream.counts().neighbours;
    // Poisson: 10,000 ± 3 standard deviations.
    assert!((9_700..=10_300).contains(&counts.received), "{}", counts.received);
    assert_eq!((counts.accepted, counts.units[0]), (counts.received, 7 * counts.received));
    assert_eq!(upstream.counts().us.received, 0);
}

#[test]
fn what_neighbours_do_does_not_depend_on_how_often_one_looks() {
    let spec = UpstreamSpec {
        neighbours: vec![neighbour(10, 1000), neighbour(3, 1000)],
        latency: Spread::spans(Duration::from_millis(1), Duration::from_millis(900)),
        ..only(&[requests(Model::SlidingLog, 11, 1000), requests(Model::Concurrency, 4, 1000)])
    };
    let mut often = Upstream::new(&spec, 5, Nanos::ZERO);
    let mut once = Upstream::new(&spec, 5, Nanos::ZERO);
    for at in 0..60_000 {
        often.advance(ms(at));
    }
    once.advance(ms(59_999));
    assert_eq!(often.counts(), once.counts());
    assert!(once.counts().neighbours.refused > 0 && once.counts().neighbours.accepted > 0);
    let other = Upstream::new(&spec, 6, Nanos::ZERO);
    assert_ne!(other.next_event(), Upstream::new(&spec, 5, Nanos::ZERO).next_event());
}

#[test]
fn neighbours_take_what_we_then_miss() {
    let spec = UpstreamSpec {
        neighbours: vec![neighbour(30, 1000)],
        ..only(&[requests(Model::FixedWindow, 100, 1000)])
    };
    let mut upstream = Upstream::new(&spec, 1, Nanos::ZERO);
    let ours =
        (0..10_000).filter(|at| matches!(upstream.receive(&Cost::new(), ms(*at)), Answer::Accepted(_)));
    let ours = ours.count() as u64;
    assert_eq!(ours + upstream.counts().neighbours.accepted, 10 * 100);
    assert!(upstream.counts().neighbours.accepted > 0);
}

#[test]
fn the_log_holds_what_is_in_the_window_and_one_entry_a_nanosecond() {
    use tidegate_sim::upstream::{Meter, SlidingLog};
    let mut log = SlidingLog::new(rate(1_000_000, 1000));
    for at in 0..10_000 {
        for _ in 0..5 {
            log.take(1, ms(at));
        }
    }
    assert_eq!(log.len(), 1000);
}

#[test]
fn the_largest_numbers_saturate_instead_of_panicking() {
    let most = 1 << 63;
    for model in [RATE_MODELS.as_slice(), &[Model::Concurrency]].concat() {
        let limit = UpstreamLimit { burst: Some(u64::MAX), ..tokens(model, most, 2_678_400_000) };
        let spec = UpstreamSpec { refused_cost: true, ..only(&[limit]) };
        let mut upstream = Upstream::new(&spec, 1, Nanos::ZERO);
        for at in [Nanos::ZERO, Nanos(u64::MAX / 2), Nanos(u64::MAX - 1), Nanos::NEVER] {
            for _ in 0..4 {
                if let Answer::Accepted(held) = upstream.receive(&of_tokens(u64::MAX), at) {
                    upstream.end(held, &of_tokens(0), at);
                }
                let _ = upstream.receive(&of_tokens(most), at);
                let _ = upstream.headers(None, at, Duration::MAX / 2);
            }
            upstream.change(0, rate(1, 1), at);
            let _ = upstream.fits_at(&of_tokens(1), at);
            upstream.change(0, rate(most, 2_678_400_000), at);
        }
    }
}

#[test]
#[ignore = "takes time: cargo test --release -p tidegate-sim --test upstream -- --ignored --nocapture"]
fn an_accepted_request_takes_well_under_a_microsecond() {
    const CALLS: u64 = 2_000_000;
    for model in RATE_MODELS {
        let mut upstream = upstream(&[requests(model, 60_000, 60_000), tokens(model, 60_000_000, 60_000)]);
        let cost = of_tokens(900);
        let begun = std::time::Instant::now();
        for call in 0..CALLS {
            let held = accepted(upstream.receive(&cost, Nanos(call * 1_000_000)));
            upstream.end(held, &Cost::nothing(), Nanos(call * 1_000_000));
        }
        let each = begun.elapsed() / CALLS as u32;
        println!("{model:?}: {each:?} from receive to end, over two limits");
        assert!(each < Duration::from_nanos(500), "{model:?}: {each:?}");
    }
}
