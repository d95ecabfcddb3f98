//! What becomes of calls when the upstream fails, turns them away or is gone.

use std::path::Path;
use std::time::Duration;

use tidegate_sim::{GroupReport, Options, Report, Scenario, prove};

fn play(file: &str) -> Report {
    let scenario = Scenario::parse(file, "test", &|_| None, Path::new(".")).expect("valid");
    let report = prove(&scenario, 1, &Options::default()).expect("it can be played");
    assert_eq!(report.violation, None);
    report
}

/// Everything that was wanted is done, and nothing else became of any call.
fn all_done(group: &GroupReport, calls: u64) {
    assert_eq!((group.calls, group.succeeded), (calls, calls), "{group:?}");
}

#[test]
fn with_five_per_cent_errors_and_resets_nothing_is_lost_and_nothing_done_again_that_was_answered() {
    let report = play(
        r#"
        [services.api]
        requests    = "1200/min"
        concurrency = 50
        [simulation]
        duration = "20m"
        [simulation.upstreams.api]
        limits  = [{ requests = "1200/min", model = "sliding-log" }]
        latency = { p50 = "400ms", p99 = "3s" }
        errors  = 0.05
        resets  = 0.05
        [[simulation.workload]]
        name = "jobs"
        arrivals = { closed = 100, think = "10ms", calls = 100 }
        "#,
    );
    let api = report.service("api").expect("it was called");
    all_done(&report.workloads[0], 10_000);
    // Each failure is one retry, and each retry one more request: nothing else was sent.
    assert_eq!(api.retries, api.failed + api.lost);
    assert_eq!(api.sent, 10_000 + api.retries);
    assert_eq!(api.accepted - api.lost, 10_000, "each was answered once");
    assert_eq!(api.rejected, 0);
    let share = api.retries as f64 / api.sent as f64;
    assert!((0.09..0.11).contains(&share), "{share}");
}

#[test]
fn after_an_outage_of_a_minute_ten_thousand_that_wait_are_no_herd_and_all_finish() {
    let report = play(
        r#"
        [services.api]
        requests = "3000/min"
        breaker  = { failures = 5, open_for = "5s" }
        queue    = { timeout = "30m", max_waiting = 20000 }
        [simulation]
        duration = "15m"
        [simulation.upstreams.api]
        # Ours lets 25 go at once and then 50 a second: not one more in any second, nor in any minute.
        limits = [{ requests = "3000/min", model = "sliding-log" }, { requests = "75/s", model = "sliding-log" }]
        latency = "200ms..800ms"
        outages = [{ at = "30s", lasts = "60s" }]
        [[simulation.workload]]
        name = "jobs"
        arrivals = { burst = 10000, every = "1h" }
        "#,
    );
    let api = report.service("api").expect("it was called");
    all_done(&report.workloads[0], 10_000);
    // The upstream counts every request that it sees, in every window, and never saw one too many.
    assert_eq!(api.rejected, 0);
    assert_eq!(api.accepted, 10_000);
    // What is in flight when it goes down fails, then only probes do.
    assert!(api.failed < 60, "{} failed", api.failed);
    assert!(api.breaker_openings >= 3, "{}", api.breaker_openings);
    // 10,000 take 200 s at that limit; a minute is lost, and at most as long again as the last probe was away.
    let last = report.series.services[0].granted.iter().rposition(|granted| granted.iter().sum::<u64>() > 0);
    let makespan = report.series.step * (last.expect("something went") as u32 + 1);
    assert!(makespan < Duration::from_secs(200 + 60 + 60), "{makespan:?}");
}

#[test]
fn after_a_429_all_stay_away_for_as_long_as_it_says() {
    let report = play(
        r#"
        [services.api]
        requests = { limit = "20/s", algorithm = "token-bucket" }
        [simulation]
        duration = "5m"
        [simulation.upstreams.api]
        limits  = [{ requests = "100/min", model = "fixed-window" }]
        headers = "retry-after"
        latency = "50ms"
        [[simulation.workload]]
        name = "jobs"
        arrivals = { burst = 400, every = "1h" }
        "#,
    );
    let api = report.service("api").expect("it was called");
    all_done(&report.workloads[0], 400);
    assert_eq!(api.windows, 3, "one for each minute that is full");
    assert!(api.in_windows > Duration::from_secs(3 * 50) && api.in_windows < Duration::from_secs(180));
    // Only those that were on their way when the first one was turned away are turned away too.
    assert!(api.rejected <= 3 * 5, "{} rejected", api.rejected);
    assert_eq!(api.retries, api.rejected);
}

#[test]
fn a_call_that_must_not_be_repeated_is_given_up_where_it_may_have_been_done_and_only_there() {
    let report = play(
        r#"
        [services.api]
        requests = { limit = "10/s", algorithm = "token-bucket" }
        # So that nobody is given up for having been turned away six times.
        retry = { max_retries = 20 }
        [simulation]
        duration = "5m"
        [simulation.upstreams.api]
        limits  = [{ requests = "5/s", model = "fixed-window" }]
        errors  = 0.1
        resets  = 0.1
        latency = "20ms"
        [[simulation.workload]]
        name = "payments"
        arrivals = { burst = 200, every = "1h" }
        repeatable = false
        "#,
    );
    let (api, payments) = (report.service("api").expect("it was called"), &report.workloads[0]);
    assert!(api.rejected > 0 && api.failed > 0 && api.lost > 0, "{api:?}");
    assert_eq!(api.retries, api.rejected, "what was turned away was not done");
    assert_eq!(payments.given_up, api.failed + api.lost);
    assert_eq!(payments.succeeded + payments.given_up, 200);
}

#[test]
fn a_timeout_bounds_the_time_between_attempts_as_well() {
    let report = play(
        r#"
        [services.api]
        retry = { max_retries = 100, initial = "2s", max = "2s", jitter = 0.0 }
        [simulation]
        duration = "5m"
        [simulation.upstreams.api]
        errors  = 1.0
        latency = "1s"
        [[simulation.workload]]
        name = "jobs"
        arrivals = { burst = 10, every = "1h" }
        timeout = "9s"
        "#,
    );
    let api = report.service("api").expect("it was called");
    assert_eq!(report.workloads[0].given_up, 10);
    // Four pauses of two seconds and one of one: the last attempt comes when no time to wait is left.
    assert_eq!(api.sent, 10 * 6);
}

#[test]
fn when_everything_fails_retries_stay_within_their_budget() {
    // Without a limit, whose pace would be cut, and bound retries before their budget does.
    let report = play(
        r#"
        [services.api]
        retry = { max_retries = 5, initial = "100ms", max = "100ms", budget = 0.2 }
        [simulation]
        duration = "100s"
        [simulation.upstreams.api]
        errors  = 1.0
        latency = "10ms"
        [[simulation.workload]]
        name = "jobs"
        arrivals = { poisson = "50/s" }
        "#,
    );
    let (api, calls) = (report.service("api").expect("it was called"), report.workloads[0].calls);
    let most = calls / 5 + 10 * 110;
    assert!(api.retries <= most && api.retries > most * 9 / 10, "{} of {most}", api.retries);
}

#[test]
fn callers_that_do_not_wait_for_breakers_are_refused_while_one_is_open() {
    let file = |wait: bool| {
        format!(
            r#"
            [services.api]
            breaker = {{ failures = 3, open_for = "10s" }}
            retry   = {{ max_retries = 0 }}
            [simulation]
            duration = "1m"
            wait_for_breakers = {wait}
            [simulation.upstreams.api]
            outages = [{{ at = "10s", lasts = "5s" }}]
            latency = "10ms"
            [[simulation.workload]]
            name = "jobs"
            arrivals = {{ poisson = "10/s" }}
            timeout = "30s"
            "#
        )
    };
    let (patient, hurried) = (play(&file(true)), play(&file(false)));
    for report in [&patient, &hurried] {
        assert_eq!(report.services[0].breaker_openings, 1);
        assert!(report.services[0].failed <= 4, "{:?}", report.services[0]);
    }
    assert_eq!(patient.workloads[0].refused, 0);
    assert!(
        (80..120).contains(&hurried.workloads[0].refused),
        "ten seconds' worth: {:?}",
        hurried.workloads[0]
    );
}

#[test]
fn a_window_that_is_opened_by_hand_holds_everybody_until_it_is_ended() {
    let report = play(
        r#"
        [services.api]
        [services.other]
        [simulation]
        duration = "1m"
        [simulation.faults]
        windows = [{ at = "10s", key = "api", lasts = "1h" }, { at = "25s", key = "api" }]
        [[simulation.workload]]
        name = "held"
        service = "api"
        arrivals = { poisson = "5/s" }
        timeout = "2h"
        [[simulation.workload]]
        name = "free"
        service = "other"
        arrivals = { poisson = "5/s" }
        "#,
    );
    let [held, free] = [&report.workloads[0], &report.workloads[1]];
    assert!(held.wait.max > Duration::from_secs(14) && held.wait.max < Duration::from_secs(16), "{held:?}");
    assert_eq!(free.wait.max, Duration::ZERO);
    assert_eq!(held.succeeded, held.calls);
    let api = report.service("api").expect("it was called");
    assert_eq!((api.windows, api.in_windows), (1, Duration::from_secs(15)));
    assert_eq!(report.series.services[0].backoff, [(Duration::from_secs(10), Duration::from_secs(25))]);
}
