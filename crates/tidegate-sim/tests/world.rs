//! What the simulator plays is what the scenario says.

use std::path::Path;
use std::time::Duration;

use tidegate_sim::{GroupReport, Options, Report, Scenario, prove, simulate};

fn play(file: &str) -> Report {
    let scenario = scenario(file);
    let report = prove(&scenario, 1, &Options::default()).expect("valid");
    assert_eq!(report.violation, None);
    for group in report.workloads.iter().chain(&report.priorities) {
        assert_eq!(ended(group), group.calls, "every call has one fate: {group:?}");
    }
    report
}

fn scenario(file: &str) -> Scenario {
    Scenario::parse(file, "test", &|_| None, Path::new(".")).expect("valid")
}

fn ended(group: &GroupReport) -> u64 {
    let at_the_gate = group.refused + group.timed_out + group.shed + group.cancelled;
    group.succeeded + at_the_gate + group.given_up + group.crashed + group.unfinished
}

#[test]
fn a_slot_comes_back_when_a_call_has_run() {
    let report = play(
        r#"
        [services.api]
        concurrency = 1
        [simulation]
        duration = "10s"
        [simulation.upstreams.api]
        latency = "500ms"
        [[simulation.workload]]
        name = "two"
        service = "api"
        arrivals = { burst = 2, every = "1m" }
        "#,
    );
    assert_eq!(report.workloads[0].succeeded, 2);
    assert_eq!(report.workloads[0].wait.max, Duration::from_millis(500));
}

#[test]
fn whoever_waits_in_vain_is_counted_as_timed_out_and_whoever_gives_up_as_cancelled() {
    let report = play(
        r#"
        [services.api]
        concurrency = 1
        [simulation]
        duration = "10s"
        [simulation.upstreams.api]
        latency = "5s"
        [[simulation.workload]]
        name = "first"
        service = "api"
        arrivals = { burst = 1, every = "1m" }
        [[simulation.workload]]
        name = "hurried"
        service = "api"
        arrivals = { burst = 3, every = "1m" }
        timeout = "200ms"
        [[simulation.workload]]
        name = "fickle"
        service = "api"
        arrivals = { burst = 4, every = "1m" }
        cancel = 1.0
        patience = "100ms"
        "#,
    );
    assert_eq!((report.workloads[1].timed_out, report.workloads[2].cancelled), (3, 4));
}

#[test]
fn a_call_that_the_upstream_refused_is_made_again_and_succeeds() {
    let report = play(
        r#"
        [services.api]
        requests = { limit = "10/s", algorithm = "token-bucket" }
        retry = { max_retries = 20 }
        [simulation]
        duration = "1m"
        [simulation.upstreams.api]
        limits = [{ requests = "5/s", model = "fixed-window" }]
        latency = "50ms"
        [[simulation.workload]]
        name = "batch"
        service = "api"
        arrivals = { burst = 40, every = "10m" }
        "#,
    );
    let service = report.service("api").expect("it was called");
    assert!(service.rejected > 0);
    assert_eq!(report.workloads[0].succeeded, 40);
    assert_eq!(service.accepted, 40);
}

#[test]
fn a_crash_loses_what_waits_and_runs_and_nothing_else() {
    let report = play(
        r#"
        [services.api]
        requests = "60/min"
        [simulation]
        duration = "1m"
        [simulation.upstreams.api]
        latency = "2s"
        [simulation.faults]
        crashes = [{ at = "10s", down = "5s" }]
        [[simulation.workload]]
        name = "agents"
        service = "api"
        arrivals = { closed = 10, think = "1s" }
        "#,
    );
    let agents = &report.workloads[0];
    assert!((1..=10).contains(&agents.crashed), "{agents:?}");
    assert_eq!(report.series.down, [(Duration::from_secs(10), Duration::from_secs(15))]);
    assert!(agents.succeeded > 40, "{agents:?}");
}

#[test]
fn a_limit_that_is_changed_counts_by_its_new_rate_from_then_on() {
    let report = play(
        r#"
        [services.api]
        requests = "600/min"
        [simulation]
        duration = "10m"
        [simulation.faults]
        changes = [{ at = "5m", limit = "api/requests/1m", to = "300/min" }]
        [[simulation.workload]]
        name = "agents"
        service = "api"
        arrivals = { closed = 20, think = "1s" }
        "#,
    );
    let limit = &report.services[0].limits[0];
    assert_eq!(limit.supply.round(), 4500.0);
    // What was spent under the old rate still counts: half a minute passes before the window has room again.
    assert!((0.95..0.975).contains(&limit.share()), "{limit:?}");
}

#[test]
fn what_is_used_of_an_upstream_is_counted_after_the_warm_up_and_by_the_rate_of_the_time() {
    let report = play(
        r#"
        [services.api]
        requests = "600/min"
        [simulation]
        duration = "10m"
        warmup = "2m"
        [simulation.upstreams.api]
        limits = [{ requests = "1000/min", model = "token-bucket" }]
        changes = [{ at = "6m", limit = 0, to = "2000/min" }]
        [[simulation.workload]]
        name = "agents"
        service = "api"
        arrivals = { closed = 20, think = "1s" }
        "#,
    );
    let service = report.service("api").expect("it was called");
    assert_eq!(service.upstream[0].supply.round(), 4.0 * 1000.0 + 4.0 * 2000.0);
    assert!(service.upstream[0].used.abs_diff(8 * 600) <= 20, "{:?}", service.upstream);
    assert!(service.accepted > 5_900);
}

#[test]
fn a_limit_may_change_before_anybody_calls() {
    let report = play(
        r#"
        [services.api]
        requests = { limit = "6/s", algorithm = "token-bucket", burst = 2 }
        [simulation]
        duration = "10s"
        [simulation.faults]
        changes = [{ at = "1s", limit = "api/requests/1s", to = "8/s" }]
        [[simulation.workload]]
        name = "late"
        service = "api"
        arrivals = { burst = 8, every = "1m" }
        from = "2s"
        "#,
    );
    assert_eq!(report.workloads[0].wait.max, Duration::ZERO, "a changed bucket holds what it is changed to");
}

#[test]
fn a_lender_that_fails_and_forgets_costs_time_but_no_promise() {
    let report = play(
        r#"
        [services.api]
        requests = "600/min"
        [simulation]
        duration = "2m"
        [simulation.faults]
        lenders = [{ limit = "api/requests/1m", size = 20, delay = "5ms..50ms", fails = 0.2, forgets = 0.1, usable = "10s" }]
        timer_late = "0ms..5ms"
        [[simulation.workload]]
        name = "agents"
        service = "api"
        arrivals = { closed = 20, think = "1s" }
        "#,
    );
    assert!(report.services[0].limits[0].share() > 0.8, "{:?}", report.services[0].limits);
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_another_run() {
    let scenario = Scenario::random(4);
    let shown = |seed: u64| {
        let report = simulate(&scenario, seed, &Options::default()).expect("valid");
        (format!("{report:?}"), report.digest)
    };
    assert_eq!(shown(7), shown(7));
    assert_ne!(shown(7).1, shown(8).1);
}

#[test]
fn a_run_can_be_ended_after_any_event_and_tells_what_happened_up_to_it() {
    let scenario = Scenario::random(4);
    let options = Options { until_event: Some(50), ..Options::default() };
    let report = simulate(&scenario, 1, &options).expect("valid");
    assert_eq!(report.events, 50);
    assert!(
        report.story.last().is_some_and(|line| line.starts_with("event 50 ")),
        "{:?}",
        report.story.last()
    );
}

#[test]
fn the_parts_of_a_run_add_up_to_the_run_and_each_has_its_own_supply() {
    let report = play(
        r#"
        [services.api]
        requests = "60/min"
        [simulation]
        duration = "6m"
        phases = ["1m", "3m"]
        [simulation.upstreams.api]
        limits = [{ requests = "60/min", model = "token-bucket" }]
        latency = "300ms..1500ms"
        neighbours = [{ requests = "20/min", from = "1m" }]
        changes = [{ at = "3m", to = "30/min" }]
        [[simulation.workload]]
        arrivals = { closed = 30 }
        "#,
    );
    let service = report.service("api").expect("it was called");
    let minutes = |at: Duration| at.as_secs() / 60;
    let spans: Vec<_> = service.phases.iter().map(|part| (minutes(part.from), minutes(part.until))).collect();
    assert_eq!(spans, [(0, 1), (1, 3), (3, 6)]);
    let sums = service.phases.iter().fold((0, 0, 0), |(sent, accepted, rejected), part| {
        (sent + part.sent, accepted + part.accepted, rejected + part.rejected)
    });
    assert_eq!(sums, (service.sent, service.accepted, service.rejected));
    let limits: Vec<_> = service.phases.iter().map(|part| &part.upstream[0]).collect();
    assert_eq!(limits.iter().map(|limit| limit.supply).collect::<Vec<_>>(), [60.0, 120.0, 90.0]);
    assert_eq!(limits.iter().map(|limit| limit.used).sum::<u64>(), service.upstream[0].used);
    assert_eq!(limits[0].neighbours, 0);
    assert!((25..=55).contains(&limits[1].neighbours), "{}", limits[1].neighbours);
    assert_eq!((service.phases[0].rejected, service.phases[2].rejected > 0), (0, true));
}

#[test]
fn whoever_is_told_when_to_come_back_is_never_rejected_late_and_whoever_is_not_told_may_be() {
    let after_the_change = |headers: &str| {
        let report = play(&format!(
            r#"
            [services.api]
            requests = "60/min"
            [simulation]
            duration = "2m"
            phases = ["90s"]
            [simulation.upstreams.api]
            limits = [{{ requests = "60/min", model = "fixed-window" }}]
            headers = "{headers}"
            latency = "1s"
            changes = [{{ at = "90s", to = "30/min" }}]
            [[simulation.workload]]
            arrivals = {{ closed = 90 }}
            "#
        ));
        let service = report.service("api").expect("it was called");
        (service.phases[1].rejected, service.phases[1].rejected_late)
    };
    let (told, late) = after_the_change("retry-after");
    assert!(told > 0 && late == 0, "{told} rejected, {late} of them late");
    let (_, late) = after_the_change("none");
    assert!(late > 0);
}

/// Two calls at once, of which nobody knows that they say 100 tokens each, on an upstream of 1,500 a minute.
fn two_calls_of_unknown_output(upstream: &str) -> Report {
    play(&format!(
        r#"
        [services.api]
        tokens = {{ limit = "9k/min", algorithm = "token-bucket" }}
        [simulation]
        duration = "30s"
        [simulation.upstreams.api]
        limits = [{{ tokens = "1500/min" }}]
        headers = "none"
        latency = "2s"
        {upstream}
        [[simulation.workload]]
        arrivals = {{ burst = 2, every = "1h" }}
        input_tokens = 100
        output_tokens = 100
        max_tokens = 1000
        unknown_output = true
        "#
    ))
}

#[test]
fn output_that_nobody_knows_counts_at_the_upstream_when_it_is_there() {
    let report = two_calls_of_unknown_output("");
    let service = report.service("api").expect("it was called");
    assert_eq!((service.accepted, service.rejected), (2, 0));
    assert_eq!((service.upstream[0].used, service.limits[0].used), (400, 400));
}

#[test]
fn an_upstream_that_reserves_output_takes_the_second_call_when_the_first_has_ended() {
    let report = two_calls_of_unknown_output("reserves = \"max_tokens\"");
    let service = report.service("api").expect("it was called");
    assert_eq!(service.accepted, 2);
    assert!(service.rejected > 0, "1,100 and 1,100 are more than 1,500");
    assert_eq!((service.upstream[0].used, service.limits[0].used), (400, 400));
}

#[test]
fn an_upstream_that_keeps_what_it_reserved_takes_no_second_call() {
    let report = two_calls_of_unknown_output("reserves = \"max_tokens-kept\"");
    let service = report.service("api").expect("it was called");
    assert_eq!((service.accepted, service.upstream[0].used), (1, 1_100));
}

#[test]
fn what_is_reserved_for_unknown_output_is_what_the_vendor_counts() {
    let waited = |profile: &str| {
        let report = play(&format!(
            r#"
            [services.api]
            profile = "{profile}"
            tokens = {{ limit = "3k/min", algorithm = "token-bucket" }}
            [simulation]
            duration = "2m"
            [simulation.upstreams.api]
            latency = "1m"
            [[simulation.workload]]
            arrivals = {{ burst = 2, every = "1h" }}
            input_tokens = 2000
            output_tokens = 10
            max_tokens = 1000
            unknown_output = true
            "#
        ));
        report.workloads[0].wait.max
    };
    // Gemini counts 2,000 tokens, Azure 3,000: the second call waits for as many as are missing, 50 a second.
    assert_eq!(waited("google-gemini").as_secs(), 20);
    assert_eq!(waited("azure-openai").as_secs(), 60);
}
