//! The circuit breaker, by hand and against a naïve model.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_core::Nanos;
use tidegate_core::config::BreakerConfig;
use tidegate_core::limits::breaker::{Answer, Breaker, BreakerPolicy, Effect, Outcome, Pass, Status};
use tidegate_core::reply::{Reader, UnixMillis};

const QUICK: Duration = Duration::from_millis(10);

fn at(seconds: u64) -> Nanos {
    Nanos::ZERO.after(Duration::from_secs(seconds))
}

fn breaker(change: impl FnOnce(&mut BreakerConfig)) -> Breaker {
    let mut config = BreakerConfig::default();
    change(&mut config);
    Breaker::new(BreakerPolicy::from_config(&config).unwrap())
}

fn go(breaker: &mut Breaker, now: Nanos) -> Pass {
    match breaker.ask(now) {
        Answer::Go(pass) => pass,
        other => panic!("{other:?}"),
    }
}

fn probe(breaker: &mut Breaker, now: Nanos) -> Pass {
    match breaker.ask(now) {
        Answer::Probe(pass) => pass,
        other => panic!("{other:?}"),
    }
}

fn fail(breaker: &mut Breaker, times: u32, now: Nanos) -> Effect {
    let mut effect = Effect::None;
    for _ in 0..times {
        let pass = go(breaker, now);
        effect = breaker.report(pass, Outcome::Failure, QUICK, now);
    }
    effect
}

#[test]
fn c1_five_failures_in_a_row_open_it_for_thirty_seconds() {
    let mut breaker = breaker(|_| {});
    assert_eq!(fail(&mut breaker, 4, at(1)), Effect::None);
    assert_eq!(fail(&mut breaker, 1, at(2)), Effect::Opened { until: at(32) });
    assert_eq!(breaker.ask(at(2)), Answer::Refuse { until: Some(at(32)) });
    assert_eq!(breaker.ask(at(31)), Answer::Refuse { until: Some(at(32)) });
    assert_eq!(breaker.status(at(31)), Status::Open { until: at(32) });
    assert_eq!(breaker.status(at(32)), Status::HalfOpen { probes: 1 });
    let _pass = probe(&mut breaker, at(32));
    assert_eq!(breaker.status(at(32)), Status::HalfOpen { probes: 0 });
}

#[test]
fn c1_a_success_in_between_starts_the_count_again() {
    let mut breaker = breaker(|_| {});
    for _ in 0..10 {
        fail(&mut breaker, 4, at(0));
        let pass = go(&mut breaker, at(0));
        breaker.report(pass, Outcome::Success, QUICK, at(0));
    }
    fail(&mut breaker, 4, at(0));
    let pass = go(&mut breaker, at(0));
    breaker.report(pass, Outcome::Ignored, QUICK, at(0));
    assert_eq!(breaker.status(at(0)), Status::Closed);
    assert_eq!(
        fail(&mut breaker, 1, at(0)),
        Effect::Opened { until: at(30) },
        "what is ignored is no success"
    );
}

#[test]
fn c2_half_open_admits_exactly_its_probes() {
    let mut breaker = breaker(|config| config.probes = 3);
    fail(&mut breaker, 5, at(0));
    let probes: Vec<Pass> = (0..3).map(|_| probe(&mut breaker, at(30))).collect();
    for _ in 0..10 {
        assert_eq!(breaker.ask(at(30)), Answer::Refuse { until: None });
    }
    let effects: Vec<Effect> =
        probes.into_iter().map(|pass| breaker.report(pass, Outcome::Success, QUICK, at(31))).collect();
    assert_eq!(effects, [Effect::None, Effect::None, Effect::Closed], "all of them must succeed");
    assert_eq!(breaker.status(at(31)), Status::Closed);
}

#[test]
fn c2_a_probe_that_succeeded_leaves_no_room_for_one_more() {
    let mut breaker = breaker(|config| config.probes = 2);
    fail(&mut breaker, 5, at(0));
    let (one, _other) = (probe(&mut breaker, at(30)), probe(&mut breaker, at(30)));
    breaker.report(one, Outcome::Success, QUICK, at(31));
    assert_eq!(breaker.ask(at(31)), Answer::Refuse { until: None });
}

#[test]
fn c2_a_probe_that_is_cancelled_or_limited_gives_its_place_back() {
    let mut breaker = breaker(|_| {});
    fail(&mut breaker, 5, at(0));
    for second in 30..40 {
        let pass = probe(&mut breaker, at(second));
        assert_eq!(breaker.report(pass, Outcome::Ignored, QUICK, at(second)), Effect::ProbeFreed);
    }
    let pass = probe(&mut breaker, at(40));
    assert_eq!(breaker.report(pass, Outcome::Success, QUICK, at(41)), Effect::Closed);
}

#[test]
fn c2_a_probe_that_fails_opens_it_for_longer_each_time_up_to_a_bound() {
    let mut breaker = breaker(|config| config.max_open = Some(Duration::from_secs(100)));
    fail(&mut breaker, 5, at(0));
    let mut now = 30;
    for expected in [60, 100, 100, 100] {
        let pass = probe(&mut breaker, at(now));
        let until = at(now + expected);
        assert_eq!(breaker.report(pass, Outcome::Failure, QUICK, at(now)), Effect::Opened { until });
        now += expected;
    }
    let pass = probe(&mut breaker, at(now));
    breaker.report(pass, Outcome::Success, QUICK, at(now));
    assert_eq!(
        fail(&mut breaker, 5, at(now)),
        Effect::Opened { until: at(now + 30) },
        "and then from the start"
    );
}

#[test]
fn c2_a_hundred_openings_do_not_overflow() {
    let mut breaker = breaker(|config| config.max_open = Some(Duration::MAX));
    fail(&mut breaker, 5, at(0));
    for _ in 0..100 {
        let Status::Open { until } = breaker.status(Nanos::ZERO) else { panic!("it is open") };
        let pass = probe(&mut breaker, until);
        breaker.report(pass, Outcome::Failure, QUICK, until);
    }
}

#[test]
fn c3_a_late_outcome_of_a_call_from_before_changes_nothing() {
    let mut breaker = breaker(|_| {});
    let mut late: Vec<Pass> = (0..4).map(|_| go(&mut breaker, at(0))).collect();
    fail(&mut breaker, 5, at(0));
    let mut report = |breaker: &mut Breaker, outcome, now| {
        assert_eq!(breaker.report(late.pop().unwrap(), outcome, QUICK, now), Effect::None);
    };
    report(&mut breaker, Outcome::Success, at(1));
    assert_eq!(breaker.status(at(1)), Status::Open { until: at(30) }, "open");
    let pass = probe(&mut breaker, at(30));
    report(&mut breaker, Outcome::Failure, at(30));
    report(&mut breaker, Outcome::Ignored, at(30));
    assert_eq!(breaker.status(at(30)), Status::HalfOpen { probes: 0 }, "half open");
    breaker.report(pass, Outcome::Success, QUICK, at(31));
    fail(&mut breaker, 4, at(31));
    report(&mut breaker, Outcome::Failure, at(31));
    assert_eq!(breaker.status(at(31)), Status::Closed, "closed");
}

#[test]
fn c3_a_late_probe_changes_nothing_either() {
    let mut breaker = breaker(|config| config.probes = 2);
    fail(&mut breaker, 5, at(0));
    let (one, other) = (probe(&mut breaker, at(30)), probe(&mut breaker, at(30)));
    let until = at(90);
    assert_eq!(breaker.report(one, Outcome::Failure, QUICK, at(30)), Effect::Opened { until });
    let next = probe(&mut breaker, at(90));
    assert_eq!(breaker.report(other, Outcome::Success, QUICK, at(90)), Effect::None);
    assert_eq!(
        breaker.report(next, Outcome::Success, QUICK, at(91)),
        Effect::None,
        "it still needs a second one"
    );
    assert_eq!(breaker.status(at(91)), Status::HalfOpen { probes: 1 });
}

#[test]
fn a_share_of_failures_opens_it_once_there_are_enough_calls() {
    let mut breaker = breaker(|config| {
        config.failures = u32::MAX;
        config.failure_rate = Some(0.5);
        config.min_calls = 10;
    });
    let mut report = |outcome, second| {
        let pass = go(&mut breaker, at(second));
        breaker.report(pass, outcome, QUICK, at(second))
    };
    for _ in 0..4 {
        report(Outcome::Success, 0);
    }
    for _ in 0..5 {
        assert_eq!(report(Outcome::Failure, 1), Effect::None, "too few calls to tell");
    }
    // A minute later they are forgotten.
    for _ in 0..5 {
        assert_eq!(report(Outcome::Failure, 61), Effect::None);
    }
    for _ in 0..4 {
        assert_eq!(report(Outcome::Success, 62), Effect::None);
    }
    assert_eq!(report(Outcome::Success, 63), Effect::Opened { until: at(93) }, "5 of 10");
}

#[test]
fn a_share_of_slow_calls_opens_it_and_a_slow_probe_does_not_close_it() {
    let mut breaker = breaker(|config| {
        config.slow_rate = Some(0.8);
        config.slow_after = Some(Duration::from_secs(5));
        config.min_calls = 5;
    });
    let slow = Duration::from_secs(5);
    for (count, took) in [(1, QUICK), (3, slow)] {
        for _ in 0..count {
            let pass = go(&mut breaker, at(0));
            assert_eq!(breaker.report(pass, Outcome::Success, took, at(0)), Effect::None);
        }
    }
    let pass = go(&mut breaker, at(0));
    assert_eq!(breaker.report(pass, Outcome::Success, slow, at(0)), Effect::Opened { until: at(30) });
    let pass = probe(&mut breaker, at(30));
    assert_eq!(breaker.report(pass, Outcome::Success, slow, at(35)), Effect::Opened { until: at(95) });
    let pass = probe(&mut breaker, at(95));
    assert_eq!(breaker.report(pass, Outcome::Success, QUICK, at(95)), Effect::Closed);
}

#[test]
fn a_rate_limit_is_back_pressure_and_not_a_failure_unless_configured() {
    let outcome = |count_rate_limits, status| {
        let mut config = BreakerConfig::default();
        config.count_rate_limits = count_rate_limits;
        let reading = Reader::default().read(status, [], b"", UnixMillis(0));
        BreakerPolicy::from_config(&config).unwrap().outcome_of_reply(status, &reading)
    };
    for status in [500, 502, 503, 504, 529] {
        assert_eq!(outcome(false, status), Outcome::Failure, "{status}");
    }
    for status in [200, 301, 400, 401, 404, 408, 422] {
        assert_eq!(outcome(false, status), Outcome::Success, "{status}");
    }
    assert_eq!(outcome(false, 429), Outcome::Ignored);
    assert_eq!(outcome(true, 429), Outcome::Failure);
}

#[test]
fn a_bad_value_is_refused_by_its_name() {
    let field = |change: fn(&mut BreakerConfig)| {
        let mut config = BreakerConfig::default();
        change(&mut config);
        BreakerPolicy::from_config(&config).unwrap_err().field
    };
    assert_eq!(field(|config| config.failures = 0), "failures");
    assert_eq!(field(|config| config.failure_rate = Some(f64::NAN)), "failure_rate");
    assert_eq!(field(|config| config.slow_rate = Some(0.5)), "slow_rate");
    assert_eq!(field(|config| config.window = Duration::ZERO), "window");
    assert_eq!(field(|config| config.min_calls = 0), "min_calls");
    assert_eq!(field(|config| config.open_for = Duration::ZERO), "open_for");
    assert_eq!(field(|config| config.max_open = Some(QUICK)), "max_open");
    assert_eq!(field(|config| config.probes = 0), "probes");
}

/// A breaker that remembers everything and works its state out anew each time.
struct Naive {
    config: BreakerConfig,
    /// Counts its changes.
    life: usize,
    state: Naively,
    openings: u32,
}

enum Naively {
    /// Of each call: when, whether it failed, whether it was slow.
    Closed(Vec<(u64, bool, bool)>),
    Open(u64),
    HalfOpen {
        out: u32,
        succeeded: u32,
    },
}

/// In which life, and whether as a probe.
type NaivePass = (usize, bool);

impl Naive {
    fn ask(&mut self, now: u64) -> Result<NaivePass, Option<u64>> {
        if let Naively::Open(until) = self.state
            && now >= until
        {
            self.state = Naively::HalfOpen { out: 0, succeeded: 0 };
            self.life += 1;
        }
        match &mut self.state {
            Naively::Closed(_) => Ok((self.life, false)),
            Naively::Open(until) => Err(Some(*until)),
            Naively::HalfOpen { out, succeeded } if *out + *succeeded < self.config.probes => {
                *out += 1;
                Ok((self.life, true))
            }
            Naively::HalfOpen { .. } => Err(None),
        }
    }

    fn report(&mut self, (life, _): NaivePass, outcome: Outcome, slow: bool, now: u64) {
        if life != self.life {
            return;
        }
        let (failed, ignored) = (outcome == Outcome::Failure, outcome == Outcome::Ignored);
        match &mut self.state {
            Naively::Open(_) => unreachable!("nobody goes while it is open"),
            Naively::Closed(_) if ignored => {}
            Naively::Closed(calls) => {
                calls.push((now, failed, slow));
                let in_a_row = calls.iter().rev().take_while(|(_, failed, _)| *failed).count();
                // A tenth of the window is one second here.
                let recent: Vec<_> = calls.iter().filter(|(at, ..)| at + 10 > now).collect();
                let share = |count: usize| count as f64 / recent.len() as f64;
                let failing = share(recent.iter().filter(|call| call.1).count());
                let slow = share(recent.iter().filter(|call| call.2).count());
                let enough = recent.len() >= self.config.min_calls as usize;
                let bad = in_a_row >= self.config.failures as usize
                    || enough && self.config.failure_rate.is_some_and(|rate| failing >= rate)
                    || enough && self.config.slow_rate.is_some_and(|rate| slow >= rate);
                if bad {
                    self.open(now);
                }
            }
            Naively::HalfOpen { out, .. } if ignored => *out -= 1,
            Naively::HalfOpen { .. } if failed || slow => self.open(now),
            Naively::HalfOpen { out, succeeded } => {
                *out -= 1;
                *succeeded += 1;
                if *succeeded == self.config.probes {
                    self.state = Naively::Closed(Vec::new());
                    self.life += 1;
                    self.openings = 0;
                }
            }
        }
    }

    fn open(&mut self, now: u64) {
        let mut span = self.config.open_for;
        for _ in 0..self.openings {
            span = (span * 2).min(Duration::from_secs(1000));
        }
        let span = span.min(self.config.max_open.unwrap_or(Duration::from_secs(300)));
        self.openings += 1;
        self.state = Naively::Open(now + span.as_secs());
        self.life += 1;
    }
}

#[derive(Clone, Debug)]
enum Step {
    Pass(u64),
    Ask,
    Report { which: usize, outcome: Outcome, slow: bool },
}

fn any_step() -> impl Strategy<Value = Step> {
    let outcome = prop_oneof![
        3 => Just(Outcome::Failure),
        3 => Just(Outcome::Success),
        1 => Just(Outcome::Ignored)
    ];
    prop_oneof![
        2 => prop_oneof![Just(1_u64), 0..20_u64].prop_map(Step::Pass),
        4 => Just(Step::Ask),
        4 => (any::<usize>(), outcome, proptest::bool::weighted(0.3))
            .prop_map(|(which, outcome, slow)| Step::Report { which, outcome, slow }),
    ]
}

proptest! {
    #[test]
    fn the_breaker_does_what_a_naive_one_does(
        failures in 1..5_u32,
        // Eighths, so that shares are exact.
        failure_rate in proptest::option::of((1..=8_u32).prop_map(|eighths| f64::from(eighths) / 8.0)),
        slow_rate in proptest::option::of((1..=8_u32).prop_map(|eighths| f64::from(eighths) / 8.0)),
        min_calls in 1..10_u32,
        open_for in 1..10_u64,
        probes in 1..4_u32,
        steps in proptest::collection::vec(any_step(), 1..200),
    ) {
        let mut config = BreakerConfig::default();
        config.failures = failures;
        config.failure_rate = failure_rate;
        config.slow_rate = slow_rate;
        config.slow_after = slow_rate.map(|_| Duration::from_secs(5));
        config.min_calls = min_calls;
        config.open_for = Duration::from_secs(open_for);
        config.max_open = Some(Duration::from_secs(30));
        config.window = Duration::from_secs(10);
        config.probes = probes;
        let mut breaker = Breaker::new(BreakerPolicy::from_config(&config).unwrap());
        let mut naive = Naive { config, life: 0, state: Naively::Closed(Vec::new()), openings: 0 };
        let mut out: Vec<(Pass, NaivePass)> = Vec::new();
        let mut now = 0;
        for step in steps {
            match step {
                Step::Pass(seconds) => now += seconds,
                Step::Ask => match (breaker.ask(at(now)), naive.ask(now)) {
                    (Answer::Go(pass), Ok(naively @ (_, false)))
                    | (Answer::Probe(pass), Ok(naively @ (_, true))) => out.push((pass, naively)),
                    (Answer::Refuse { until }, Err(expected)) => prop_assert_eq!(until, expected.map(at)),
                    (answer, expected) => prop_assert!(false, "{:?}, not {:?}", answer, expected),
                },
                Step::Report { which, outcome, slow } => {
                    if !out.is_empty() {
                        let (pass, naively) = out.swap_remove(which % out.len());
                        let took = if slow { Duration::from_secs(5) } else { QUICK };
                        breaker.report(pass, outcome, took, at(now));
                        naive.report(naively, outcome, slow && slow_rate.is_some(), now);
                    }
                }
            }
        }
    }
}
