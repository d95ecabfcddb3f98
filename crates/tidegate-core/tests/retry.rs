//! Trying again: delays, what is worth another try, and when it is enough.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_core::Nanos;
use tidegate_core::config::{JitterKind, RetryConfig};
use tidegate_core::reply::{Reader, Reading, UnixMillis};
use tidegate_core::retry::{
    Backoff, Budget, Decision, DelayBy, Failure, FailureKind, GiveUp, Growth, HINT_FLOOR, Jitter,
    RetryPolicy, Transport, Tries, is_repeatable,
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn backoff(growth: Growth) -> Backoff {
    Backoff { growth, initial: 100 * MS, max: 1000 * MS, jitter: Jitter::None }
}

/// A policy without chance, and without a bound on its budget.
fn plain() -> tidegate_core::retry::RetryPolicyBuilder {
    RetryPolicy::builder().jitter(Jitter::None).budget(0.0, u32::MAX)
}

fn decide(policy: &RetryPolicy, failure: Failure, tries: &Tries) -> Decision {
    policy.decide(&failure, tries, &mut policy.new_budget(), 0, Nanos::ZERO)
}

fn reading(status: u16, headers: &[(&str, &str)], body: &str) -> Reading {
    let lines = headers.iter().map(|(name, value)| (*name, value.as_bytes()));
    Reader::default().read(status, lines, body.as_bytes(), UnixMillis::from_secs(1_763_200_000))
}

fn after(span: Duration, by: DelayBy) -> Decision {
    Decision::Retry { after: span, by }
}

#[test]
fn b1_delays_grow_to_the_cap_and_no_further() {
    let delay = |growth, attempt| backoff(growth).delay(attempt, None, 0).as_millis();
    for (growth, expected) in [
        (Growth::Exponential, [100, 200, 400, 800, 1000]),
        (Growth::Linear, [100, 200, 300, 400, 500]),
        (Growth::Constant, [100, 100, 100, 100, 100]),
    ] {
        assert_eq!([0, 1, 2, 3, 4].map(|attempt| delay(growth, attempt)), expected, "{growth:?}");
    }
    for attempt in [63, 64, 65, 1_000_000_000, u32::MAX] {
        assert_eq!(delay(Growth::Exponential, attempt), 1000);
        assert_eq!(delay(Growth::Linear, attempt), 1000);
        assert_eq!(delay(Growth::Constant, attempt), 100);
    }
}

#[test]
fn b1_a_decorrelated_delay_lies_between_the_first_and_three_times_the_last() {
    let backoff = backoff(Growth::Decorrelated);
    let range = |last| [0, u64::MAX].map(|draw| backoff.delay(7, last, draw).as_millis());
    assert_eq!(range(None), [100, 300]);
    assert_eq!(range(Some(250 * MS)), [100, 750]);
    assert_eq!(range(Some(900 * MS)), [100, 1000]);
    assert_eq!(range(Some(MS)), [100, 300], "a delay that was clipped does not shrink the next");
}

#[test]
fn b2_every_kind_of_jitter_fills_its_range() {
    let (delay, cap) = (1000 * MS, 60 * SECOND);
    for (jitter, low, high) in [
        (Jitter::None, 1000, 1000),
        (Jitter::Factor(0.25), 750, 1000),
        (Jitter::Additive(0.1), 1000, 1100),
        (Jitter::Range { low: 0.5, high: 1.5 }, 500, 1500),
        (Jitter::Symmetric(0.1), 900, 1100),
        (Jitter::Full, 0, 1000),
    ] {
        assert_eq!(jitter.spread(delay, cap, 0).as_millis(), low, "{jitter:?}");
        assert_eq!(jitter.spread(delay, cap, u64::MAX).as_millis(), high, "{jitter:?}");
    }
}

#[test]
fn b2_at_the_cap_delays_are_still_spread() {
    let spread = |draw| Jitter::Symmetric(0.1).spread(60 * SECOND, 60 * SECOND, draw);
    assert_eq!(spread(0), 54 * SECOND);
    assert_eq!(spread(u64::MAX / 2).as_secs_f64().round(), 57.0, "the middle of what the cap leaves");
    assert_eq!(spread(u64::MAX), 60 * SECOND);
    let above = Jitter::Range { low: 2.0, high: 3.0 };
    assert_eq!(above.spread(40 * SECOND, 60 * SECOND, 0), 60 * SECOND);
}

fn any_jitter() -> impl Strategy<Value = Jitter> {
    let share = 0.0..=1.0_f64;
    prop_oneof![
        Just(Jitter::None),
        Just(Jitter::Full),
        share.clone().prop_map(Jitter::Factor),
        share.clone().prop_map(Jitter::Additive),
        share.prop_map(Jitter::Symmetric),
        (0.0..5.0_f64, 0.0..1e300_f64).prop_map(|(low, more)| Jitter::Range { low, high: low + more }),
    ]
}

fn any_span() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        Just(Duration::MAX),
        (0..10_000_u64).prop_map(Duration::from_millis),
        any::<u64>().prop_map(Duration::from_nanos),
    ]
}

fn any_growth() -> impl Strategy<Value = Growth> {
    prop_oneof![
        Just(Growth::Exponential),
        Just(Growth::Linear),
        Just(Growth::Constant),
        Just(Growth::Decorrelated)
    ]
}

/// As the arithmetic sees it: 584 years at most.
fn in_range(span: Duration) -> Duration {
    span.min(Duration::from_nanos(u64::MAX))
}

proptest! {
    #[test]
    fn b2_no_delay_is_above_its_cap(
        growth in any_growth(), jitter in any_jitter(), initial in any_span(), more in any_span(),
        attempt in any::<u32>(), last in proptest::option::of(any_span()), draw in any::<u64>(),
    ) {
        let max = initial.saturating_add(more);
        let delay = Backoff { growth, initial, max, jitter }.delay(attempt, last, draw);
        prop_assert!(delay <= in_range(max));
    }

    #[test]
    fn b2_a_spread_is_inside_its_range(share in 0.0..=1.0_f64, ms in 1..100_000_u64, draw in any::<u64>()) {
        let delay = Duration::from_millis(ms);
        let cap = delay * 10;
        let within = |jitter: Jitter, low: f64, high: f64| {
            let got = jitter.spread(delay, cap, draw).as_secs_f64();
            // Rounded to the nanosecond.
            let (low, high) = (delay.as_secs_f64() * low - 2e-9, delay.as_secs_f64() * high + 2e-9);
            (low..=high).contains(&got)
        };
        prop_assert!(within(Jitter::Factor(share), 1.0 - share, 1.0));
        prop_assert!(within(Jitter::Additive(share), 1.0, 1.0 + share));
        prop_assert!(within(Jitter::Symmetric(share), 1.0 - share, 1.0 + share));
        let range = Jitter::Range { low: share, high: share + 1.0 };
        prop_assert!(within(range, share, share + 1.0));
        prop_assert!(within(Jitter::Full, 0.0, 1.0));
    }

    #[test]
    fn r6_a_decision_never_waits_longer_than_there_is_time_nor_shorter_than_the_upstream_asks(
        kind in prop_oneof![
            Just(FailureKind::Refused), Just(FailureKind::Unreached),
            Just(FailureKind::Unsure), Just(FailureKind::Final)
        ],
        hint in proptest::option::of(any_span()), jitter in any_jitter(), growth in any_growth(),
        elapsed in any_span(), wait_left in any_span(), max_elapsed in any_span(),
        retries in any::<u32>(), after_refusals in any::<u32>(), repeatable in any::<bool>(),
        refusals_count in any::<bool>(), draw in any::<u64>(), now in any::<u64>(),
    ) {
        let policy = RetryPolicy::builder()
            .growth(growth)
            .jitter(jitter)
            .refusals_count(refusals_count)
            .as_long_as_there_is_time()
            .max_elapsed(max_elapsed.max(MS))
            .build()
            .unwrap();
        let mut tries = Tries::of(repeatable);
        (tries.retries, tries.after_refusals) = (retries, after_refusals);
        (tries.elapsed, tries.wait_left) = (elapsed, wait_left);
        let failure = Failure { kind, hint };
        match policy.decide(&failure, &tries, &mut policy.new_budget(), draw, Nanos(now)) {
            Decision::Retry { after, by } => {
                prop_assert!(after <= wait_left);
                prop_assert!(after <= max_elapsed.max(MS).saturating_sub(elapsed));
                prop_assert_eq!(by == DelayBy::Upstream, hint.is_some());
                if let Some(hint) = hint {
                    prop_assert!(after >= in_range(hint));
                    prop_assert!(after >= HINT_FLOOR);
                } else {
                    prop_assert!(after <= 60 * SECOND);
                }
                prop_assert!(kind != FailureKind::Final && (kind != FailureKind::Unsure || repeatable));
            }
            Decision::GiveUp(GiveUp::TooFar { come_back }) => {
                prop_assert_eq!(Some(come_back), hint.map(|hint| hint.max(HINT_FLOOR)));
            }
            Decision::GiveUp(_) => {}
        }
    }
}

#[test]
fn r1_the_defaults_are_five_retries_from_one_second_to_a_minute() {
    let policy = RetryPolicy::default();
    assert_eq!(policy.max_retries(), Some(5));
    assert_eq!(policy, RetryPolicy::from_config(&RetryConfig::default()).unwrap());
    let delays =
        |draw| [0, 1, 2, 5, 6, 7].map(|attempt| policy.backoff().delay(attempt, None, draw).as_millis());
    assert_eq!(delays(0), [900, 1_800, 3_600, 28_800, 54_000, 54_000]);
    assert_eq!(delays(u64::MAX), [1_100, 2_200, 4_400, 35_200, 60_000, 60_000]);

    let mut tries = Tries::of(true);
    let failure = Failure::of_kind(FailureKind::Unsure);
    for _ in 0..5 {
        let Decision::Retry { after, .. } = decide(&policy, failure, &tries) else { panic!("{tries:?}") };
        tries.again(&failure, after);
    }
    assert_eq!(decide(&policy, failure, &tries), Decision::GiveUp(GiveUp::RetriesSpent));
}

#[test]
fn r1_no_retries_run_a_call_once() {
    let policy = plain().max_retries(0).build().unwrap();
    let failure = Failure::of_kind(FailureKind::Refused);
    assert_eq!(decide(&policy, failure, &Tries::of(true)), Decision::GiveUp(GiveUp::RetriesSpent));
}

#[test]
fn r1_a_bad_value_is_refused_by_its_name() {
    let field = |builder: tidegate_core::retry::RetryPolicyBuilder| builder.build().unwrap_err().field;
    assert_eq!(field(plain().initial(Duration::ZERO)), "initial");
    assert_eq!(field(plain().initial(2 * SECOND).max(SECOND)), "initial");
    assert_eq!(field(plain().jitter(Jitter::Symmetric(-0.1))), "jitter");
    assert_eq!(field(plain().jitter(Jitter::Factor(1.1))), "jitter");
    assert_eq!(field(plain().jitter(Jitter::Additive(f64::NAN))), "jitter");
    assert_eq!(field(plain().jitter(Jitter::Range { low: 1.0, high: 0.5 })), "jitter");
    assert_eq!(field(plain().jitter(Jitter::Range { low: 0.0, high: f64::INFINITY })), "jitter");
    assert_eq!(field(plain().budget(f64::NAN, 10)), "budget");
    assert_eq!(field(plain().budget(-0.1, 10)), "budget");
    assert_eq!(field(plain().max_elapsed(Duration::ZERO)), "max_elapsed");
}

#[test]
fn r1_a_config_gives_a_policy_and_defaults_bend_to_it() {
    let mut config = RetryConfig::default();
    config.max = Some(500 * MS);
    let policy = RetryPolicy::from_config(&config).unwrap();
    assert_eq!((policy.backoff().initial, policy.backoff().max), (500 * MS, 500 * MS));

    let mut config = RetryConfig::default();
    config.initial = Some(120 * SECOND);
    config.backoff = Some(Growth::Linear);
    config.jitter_kind = Some(JitterKind::Full);
    config.max_elapsed = Some(SECOND);
    config.max_retries = Some(9);
    let policy = RetryPolicy::from_config(&config).unwrap();
    assert_eq!((policy.backoff().initial, policy.backoff().max), (120 * SECOND, 120 * SECOND));
    assert_eq!((policy.backoff().growth, policy.backoff().jitter), (Growth::Linear, Jitter::Full));
    assert_eq!((policy.max_elapsed(), policy.max_retries()), (Some(SECOND), Some(9)));

    config.jitter = Some(f64::NAN);
    config.jitter_kind = Some(JitterKind::Factor);
    assert_eq!(RetryPolicy::from_config(&config).unwrap_err().field, "jitter");
}

#[test]
fn r6_the_time_that_is_left_clips_our_own_delays() {
    let policy = plain().max_elapsed(10 * SECOND).build().unwrap();
    let failure = Failure::of_kind(FailureKind::Refused);
    let mut tries = Tries::of(true);
    tries.retries = 3;
    tries.elapsed = SECOND;
    assert_eq!(decide(&policy, failure, &tries), after(8 * SECOND, DelayBy::Backoff));
    tries.elapsed = 7 * SECOND;
    assert_eq!(decide(&policy, failure, &tries), after(3 * SECOND, DelayBy::Backoff));
    tries.wait_left = 2 * SECOND;
    assert_eq!(decide(&policy, failure, &tries), after(2 * SECOND, DelayBy::Backoff));
    tries.elapsed = 10 * SECOND;
    assert_eq!(decide(&policy, failure, &tries), Decision::GiveUp(GiveUp::TimeSpent));
    tries.elapsed = Duration::MAX;
    assert_eq!(decide(&policy, failure, &tries), Decision::GiveUp(GiveUp::TimeSpent));
}

#[test]
fn r6_the_upstreams_hint_wins_and_is_never_cut_short() {
    let policy = plain().build().unwrap();
    let hint = |span| Failure::of_kind(FailureKind::Refused).come_back(span);
    let mut tries = Tries::of(true);
    tries.retries = 4;
    assert_eq!(decide(&policy, hint(2 * SECOND), &tries), after(2 * SECOND, DelayBy::Upstream));
    let long = 600 * SECOND;
    assert_eq!(decide(&policy, hint(long), &tries), after(long, DelayBy::Upstream), "beyond our own cap");
    // The floor doubles with each retry: 50 ms, 100 ms, … up to our own longest delay.
    assert_eq!(decide(&policy, hint(Duration::ZERO), &tries), after(800 * MS, DelayBy::Upstream));
    assert_eq!(decide(&policy, hint(Duration::ZERO), &Tries::of(true)), after(50 * MS, DelayBy::Upstream));
    let patient = plain().as_long_as_there_is_time().build().unwrap();
    let mut many = Tries::of(true);
    many.retries = u32::MAX;
    let longest = after(patient.backoff().max, DelayBy::Upstream);
    assert_eq!(decide(&patient, hint(Duration::ZERO), &many), longest);
    tries.wait_left = 599 * SECOND;
    let too_far = Decision::GiveUp(GiveUp::TooFar { come_back: long });
    assert_eq!(decide(&policy, hint(long), &tries), too_far, "fails fast, with the time to come back");
    tries.wait_left = Duration::ZERO;
    let too_far = Decision::GiveUp(GiveUp::TooFar { come_back: HINT_FLOOR });
    assert_eq!(decide(&policy, hint(Duration::ZERO), &tries), too_far);
}

#[test]
fn r6_hints_are_spread_upwards_only() {
    let policy = RetryPolicy::default();
    let at = |hint, wait_left, draw| {
        let failure = Failure::of_kind(FailureKind::Refused).come_back(hint);
        let mut tries = Tries::of(true);
        tries.wait_left = wait_left;
        match policy.decide(&failure, &tries, &mut policy.new_budget(), draw, Nanos::ZERO) {
            Decision::Retry { after, .. } => after,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(at(10 * SECOND, Duration::MAX, 0), 10 * SECOND);
    assert_eq!(at(10 * SECOND, Duration::MAX, u64::MAX), 11 * SECOND);
    assert_eq!(at(10 * SECOND, 10_500 * MS, u64::MAX), 10_500 * MS, "within the time that is left");
    let hours = 10 * 3600 * SECOND;
    assert_eq!(at(hours, Duration::MAX, u64::MAX), hours + 60 * SECOND, "by no more than our longest delay");
}

#[test]
fn r7_who_says_when_to_come_back() {
    let reset = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "7")];
    let body = r#"{"error": {"message": "Please try again in 9s."}}"#;
    let hint = |headers: &[(&str, &str)], body| Failure::of_reply(429, &reading(429, headers, body)).hint;
    let (exact, seconds) = (("retry-after-ms", "1873"), ("retry-after", "2"));
    assert_eq!(hint(&[reset[0], reset[1], seconds, exact], body), Some(1873 * MS));
    assert_eq!(hint(&[reset[0], reset[1], seconds], body), Some(2 * SECOND));
    assert_eq!(hint(&reset, body), Some(7 * SECOND));
    assert_eq!(hint(&[], body), Some(9 * SECOND));
    assert_eq!(hint(&[("retry-after", "10abc")], ""), None, "then it is our own backoff");
    let unwell = Failure::of_reply(503, &reading(503, &[seconds], ""));
    assert_eq!(unwell.hint, Some(2 * SECOND), "a retry header counts on any reply");
}

#[test]
fn r7_what_is_worth_another_try() {
    let kind =
        |status, headers: &[(&str, &str)]| Failure::of_reply(status, &reading(status, headers, "")).kind;
    for status in [408, 409, 500, 502, 503, 504, 529] {
        assert_eq!(kind(status, &[]), FailureKind::Unsure, "{status}");
        assert_eq!(kind(status, &[("x-should-retry", "false")]), FailureKind::Final, "{status}");
    }
    assert_eq!(kind(429, &[]), FailureKind::Refused);
    assert_eq!(kind(429, &[("x-should-retry", "false")]), FailureKind::Final);
    for status in [200, 400, 401, 404, 422] {
        assert_eq!(kind(status, &[]), FailureKind::Final, "{status}");
        assert_eq!(kind(status, &[("x-should-retry", "true")]), FailureKind::Unsure, "{status}");
    }
    let github = [("retry-after", "60"), ("x-ratelimit-remaining", "0")];
    assert_eq!(kind(403, &github), FailureKind::Refused, "a limit by another status");
}

#[test]
fn r7_only_what_can_do_no_harm_is_done_twice() {
    let policy = plain().build().unwrap();
    let may = |failure, repeatable| {
        matches!(decide(&policy, failure, &Tries::of(repeatable)), Decision::Retry { .. })
    };
    for transport in [Transport::Broken, Transport::TimedOut] {
        assert!(may(Failure::of_transport(transport), true));
        assert!(!may(Failure::of_transport(transport), false));
    }
    assert!(may(Failure::of_transport(Transport::NotConnected), false), "it never left");
    assert!(may(Failure::of_reply(429, &reading(429, &[], "")), false), "it was refused");
    let word = Failure::of_reply(500, &reading(500, &[("x-should-retry", "true")], ""));
    let decision = decide(&policy, word, &Tries::of(false));
    assert_eq!(
        decision,
        Decision::GiveUp(GiveUp::NotRepeatable),
        "the word is on the status, not on the call"
    );

    for (method, repeatable) in
        [("GET", true), ("HEAD", true), ("PUT", true), ("DELETE", true), ("POST", false), ("PATCH", false)]
    {
        assert_eq!(is_repeatable(method, false, false), repeatable, "{method}");
        assert!(is_repeatable(method, true, false) && is_repeatable(method, false, true), "{method}");
    }
}

#[test]
fn refusals_need_not_count() {
    let policy = plain().max_retries(1).refusals_count(false).build().unwrap();
    let (refused, unsure) = (Failure::of_kind(FailureKind::Refused), Failure::of_kind(FailureKind::Unsure));
    let mut tries = Tries::of(true);
    for _ in 0..100 {
        assert!(matches!(decide(&policy, refused, &tries), Decision::Retry { .. }));
        tries.again(&refused, SECOND);
    }
    assert!(matches!(decide(&policy, unsure, &tries), Decision::Retry { .. }));
    tries.again(&unsure, SECOND);
    assert_eq!(decide(&policy, unsure, &tries), Decision::GiveUp(GiveUp::RetriesSpent));
    assert!(matches!(decide(&policy, refused, &tries), Decision::Retry { .. }));
}

#[test]
fn the_budget_is_a_fifth_of_the_calls_and_ten_a_second() {
    let mut budget = Budget::default();
    let at = |seconds| Nanos::ZERO.after(seconds * SECOND);
    assert_eq!(budget.left(at(100)), 100, "ten a second over ten seconds");
    for _ in 0..1_000 {
        budget.call(at(100));
    }
    assert_eq!(budget.left(at(100)), 300);
    let taken = (0..1_000).filter(|_| budget.retry(at(105))).count();
    assert_eq!(taken, 300);
    assert_eq!(budget.left(at(109)), 0);
    assert_eq!(budget.left(at(110)), 0, "the calls are forgotten, their retries are not yet");
    assert_eq!(budget.left(at(115)), 100);
}

#[test]
fn a_refusal_costs_no_budget_and_everything_else_does() {
    let policy = RetryPolicy::builder().budget(0.0, 1).build().unwrap();
    let mut budget = policy.new_budget();
    let mut decide =
        |kind| policy.decide(&Failure::of_kind(kind), &Tries::of(true), &mut budget, 0, Nanos::ZERO);
    for _ in 0..100 {
        assert!(matches!(decide(FailureKind::Refused), Decision::Retry { .. }));
        assert!(matches!(decide(FailureKind::Final), Decision::GiveUp(GiveUp::Final)));
    }
    for _ in 0..5 {
        assert!(matches!(decide(FailureKind::Unsure), Decision::Retry { .. }));
        assert!(matches!(decide(FailureKind::Unreached), Decision::Retry { .. }));
    }
    assert_eq!(decide(FailureKind::Unsure), Decision::GiveUp(GiveUp::BudgetSpent));
    assert_eq!(decide(FailureKind::Unreached), Decision::GiveUp(GiveUp::BudgetSpent));
    assert!(matches!(decide(FailureKind::Refused), Decision::Retry { .. }));
}

proptest! {
    /// Against a list of everything that happened.
    #[test]
    fn the_budget_counts_what_happened_in_the_last_ten_seconds(
        share in 0.0..2.0_f64,
        per_second in 0..3_u32,
        steps in proptest::collection::vec((0..3_000_u64, any::<bool>()), 1..200),
    ) {
        let mut budget = Budget::new(share, per_second);
        let millionths = (share * 1e6).round() as u128;
        let (mut calls, mut retries, mut ms) = (Vec::new(), Vec::new(), 0_u64);
        for (wait, is_call) in steps {
            ms += wait;
            let now = Nanos(ms * 1_000_000);
            let second = ms / 1000;
            if is_call {
                budget.call(now);
                calls.push(second);
            } else {
                let recent = |seconds: &[u64]| seconds.iter().filter(|at| **at + 10 > second).count() as u128;
                let allowed = recent(&calls) * millionths / 1_000_000 + u128::from(per_second) * 10;
                let expected = recent(&retries) < allowed;
                prop_assert_eq!(budget.retry(now), expected);
                if expected {
                    retries.push(second);
                }
            }
        }
    }
}
