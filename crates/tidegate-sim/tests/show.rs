//! A report as people and programs see it.

mod sample;

use std::time::Duration;

use sample::{Run, broken, empty, run};
use serde_json::{Value, json};
use tidegate_sim::show::{Subject, compare, json, list, story, svg, table};

fn subject() -> Subject {
    Subject { file: "agents.toml".into(), settings: Vec::new() }
}

#[test]
fn a_table_tells_what_was_used_who_waited_and_who_got_how_much() {
    let Run { report, .. } = run(1, Duration::from_secs(600));
    assert_eq!(
        table(&subject(), &report),
        "\
agents.toml, seed 7: 10 min in 12,345 events, at most 40 waiting

service-0                  used  units     of
  service-0/requests/1m  99.7 %  5,983  6,000
  upstream: requests/1m  90.0 %  5,400  6,000
  5,983 sent, 5,900 accepted, 60 rejected (1.0 %), 23 failed
  83 retries; 2 backoff windows, 12.50 s in all; 1 breaker opening

priority  calls   went  wait p50      p99    max  refused  timeouts  shed  cancelled  unfinished
high        119    119     63 ms   171 ms  1m50s        0         0     0          0           0
low       6,000  5,864   30.46 s  65.17 s  2h46m        5        11     7          3         110

workload  calls   went  wait p50      p99    max  refused  timeouts  shed  cancelled  unfinished
user        119    119     63 ms   171 ms  1m50s        0         0     0          0           0
agents    6,000  5,864   30.46 s  65.17 s  2h46m        5        11     7          3         110

loop (2 of 50)   went   share
agents-1        4,400  75.0 %  ████████████████████████
agents-2        1,464  25.0 %  ████████
"
    );
}

#[test]
fn a_broken_promise_is_told_with_its_story_and_the_command_that_shows_it_again() {
    let Run { report, .. } = broken();
    let subject = Subject {
        file: "my agents.toml".into(),
        settings: vec![("services.a.queue.aging".into(), "10s".into())],
    };
    let told = table(&subject, &report);
    let (_, told) = told.split_once("NOT KEPT").expect("it is told");
    assert_eq!(
        told,
        ": no overshoot (seed 7, event 4711, at 1m50s)\n  601 of 600 in a minute\nhow it came about:\n  \
         4710  a call came\n  4711  it went\nsee it again: tidegate simulate 'my agents.toml' --seed 7 \
         --sweep services.a.queue.aging=10s --events 4711\n"
    );
    assert_eq!(
        json(&subject, &report)["violation"],
        json!({
            "invariant": "no overshoot", "message": "601 of 600 in a minute", "event": 4711, "at_ms": 110_000.0,
            "story": ["4710  a call came", "4711  it went"],
            "replay": "tidegate simulate 'my agents.toml' --seed 7 --sweep services.a.queue.aging=10s --events 4711",
        })
    );
    assert_eq!(story(&report.story), "  4711  it went\n");
}

#[test]
fn runs_are_compared_side_by_side_even_where_one_has_what_the_other_has_not() {
    let set = |value: &str| Subject {
        file: "agents.toml".into(),
        settings: vec![("services.service-0.queue.aging".into(), value.into())],
    };
    let mut second = broken().report;
    second.services[0].limits.clear();
    second.priorities.remove(0);
    assert_eq!(
        compare(&[(set("10s"), run(1, Duration::from_secs(600)).report), (set("30s"), second)]),
        "\
services.service-0.queue.aging        10s           30s
used service-0/requests/1m         99.7 %             -
rejected by service-0               1.0 %         1.0 %
high wait p50                       63 ms             -
high wait p99                      171 ms             -
high went/calls                   119/119             -
low wait p50                      30.46 s       30.46 s
low wait p99                      65.17 s       65.17 s
low went/calls                  5864/6000     5864/6000
user wait p50                       63 ms         63 ms
user wait p99                      171 ms        171 ms
user went/calls                   119/119       119/119
agents wait p50                   30.46 s       30.46 s
agents wait p99                   65.17 s       65.17 s
agents went/calls               5864/6000     5864/6000
refused                                 5             5
timeouts                               11            11
shed                                    7             7
cancelled                               3             3
unfinished                            110           110
not kept                                -  no overshoot
"
    );
}

#[test]
fn many_runs_are_listed_one_a_line() {
    let mut second = broken().report;
    second.seed = 8;
    assert_eq!(
        list(&[(subject(), run(1, Duration::from_secs(600)).report), (subject(), second)]),
        "\
seed    used  rejected  wait p99  shed  timeouts                promises
7     99.7 %     1.0 %   65.17 s     7        11                    kept
8     99.7 %     1.0 %   65.17 s     7        11  NOT KEPT: no overshoot
"
    );
}

#[test]
fn the_json_has_the_names_that_are_documented() {
    let mut report = run(1, Duration::from_secs(600)).report;
    let series = &mut report.series.services[0];
    series.granted.truncate(2);
    series.allowed.truncate(2);
    for by_step in [&mut series.rejected, &mut series.failed, &mut series.waiting] {
        by_step.truncate(2);
    }
    let group = |name: &str, calls: u64, went: u64, wait: Value, ends: [u64; 5]| {
        json!({
            "name": name, "calls": calls, "went": went, "succeeded": went, "refused": ends[0], "timed_out": ends[1],
            "shed": ends[2], "cancelled": ends[3], "unfinished": ends[4], "given_up": 0, "crashed": 0, "wait_ms": wait,
        })
    };
    let user = json!({ "p50": 63.0, "p99": 171.0, "max": 110_000.0 });
    let agents = json!({ "p50": 30_460.0, "p99": 65_170.0, "max": 9_980_000.0 });
    let groups = |names: [&str; 2]| {
        json!([
            group(names[0], 119, 119, user.clone(), [0; 5]),
            group(names[1], 6_000, 5_864, agents.clone(), [5, 11, 7, 3, 110]),
        ])
    };
    assert_eq!(
        json(&subject(), &report),
        json!({
            "file": "agents.toml", "settings": {}, "seed": 7, "duration_ms": 600_000.0, "events": 12_345,
            "peak_waiting": 40, "digest": "00000000deadbeef",
            "services": [{
                "name": "service-0",
                "limits": [
                    { "name": "service-0/requests/1m", "supply": 6_000.0, "used": 5_983, "used_share": 5_983.0 / 6_000.0 },
                ],
                "upstream": [{
                    "name": "requests/1m", "supply": 6_000.0, "used": 5_400, "used_share": 0.9, "neighbours": 40,
                }],
                "sent": 5_983, "accepted": 5_900, "rejected": 60, "rejected_share": 60.0 / 5_983.0, "failed": 23, "lost": 0,
                "retries": 83, "windows": 2, "windows_ms": 12_500.0, "breaker_openings": 1,
                "phases": [{
                    "from_ms": 60_000.0, "until_ms": 120_000.0,
                    "sent": 620, "accepted": 600, "rejected": 20, "rejected_late": 3,
                    "upstream": [{
                        "name": "requests/1m", "supply": 6000.0, "used": 600, "used_share": 0.1, "neighbours": 40,
                    }],
                }],
            }],
            "priorities": groups(["high", "low"]),
            "workloads": groups(["user", "agents"]),
            "loop_count": 50,
            "loops": [
                { "name": "agents-1", "workload": "agents", "went": 4_400, "share": 0.75 },
                { "name": "agents-2", "workload": "agents", "went": 1_464, "share": 0.25 },
            ],
            "series": {
                "step_ms": 5_000.0,
                "down_ms": [[420_000.0, 432_000.0]],
                "services": [{
                    "name": "service-0",
                    "granted": { "low": [30, 31], "normal": [0, 0], "high": [0, 1], "critical": [0, 0] },
                    "rejected": [0, 0], "failed": [0, 0], "waiting": [0, 1], "allowed": [50.0, 50.0],
                    "backoff_ms": [[120_000.0, 132_000.0]],
                }],
            },
            "violation": null,
        })
    );
}

/// Every tag closes in its order; what is left are the texts.
fn texts(svg: &str) -> Vec<String> {
    let (mut open, mut texts, mut rest) = (Vec::new(), Vec::new(), svg);
    while let Some((before, after)) = rest.split_once('<') {
        if !before.trim().is_empty() {
            texts.push(before.trim().to_owned());
        }
        let (tag, after) = after.split_once('>').expect("a tag ends");
        rest = after;
        let name = tag.split([' ', '/']).find(|part| !part.is_empty()).expect("a tag has a name");
        assert_eq!(tag.matches('"').count() % 2, 0, "quotes close: <{tag}>");
        match (tag.starts_with('/'), tag.ends_with('/')) {
            (true, _) => assert_eq!(open.pop(), Some(name), "tags close in order"),
            (false, false) => open.push(name),
            (false, true) => {}
        }
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "{open:?} {rest}");
    texts
}

#[test]
fn a_picture_is_well_formed_labelled_and_the_same_each_time() {
    let Run { scenario, report } = run(1, Duration::from_secs(600));
    let subject = Subject { file: "a<b>&\"c\".toml".into(), settings: Vec::new() };
    let picture = svg(&subject, &scenario, &report);
    let found = texts(&picture);
    for text in [
        "a&lt;b&gt;&amp;&quot;c&quot;.toml: admissions over time",
        "seed 7, 10 min, 5,983 calls went, at most 40 waiting",
        "time since the start (minutes)",
        "calls per minute",
        "waiting",
        "limit, as an average rate",
        "rejected (429)",
        "failed (5xx)",
        "backing off",
        "outage",
        "our process down",
        "high",
        "low",
        "used 99.7 % of service-0/requests/1m, rejected 1.0 %",
    ] {
        assert!(found.iter().any(|found| found == text), "{text} is not in {found:?}");
    }
    assert!(!found.iter().any(|text| text == "critical"), "nobody was");
    assert!(picture.contains("viewBox=\"0 0 960 "));
    assert!(!picture.contains("<script") && !picture.contains("NaN") && !picture.contains("inf"));
    assert_eq!(picture, svg(&subject, &scenario, &report));
}

#[test]
fn pictures_of_many_services_short_and_long_and_empty_runs_are_well_formed() {
    for (services, duration) in [(4, 10), (4, 86_400), (1, 1), (0, 600)] {
        let Run { scenario, report } = run(services, Duration::from_secs(duration));
        let picture = svg(&subject(), &scenario, &report);
        let panels = texts(&picture).iter().filter(|text| text.starts_with("calls per ")).count();
        assert_eq!(panels, services);
        assert!(!picture.contains("NaN") && !picture.contains("inf"), "{services} services, {duration} s");
    }
    let Run { scenario, report } = empty();
    let found = texts(&svg(&subject(), &scenario, &report));
    assert!(found.contains(&"nothing was called".to_owned()), "{found:?}");
    assert!(table(&subject(), &report).contains("nobody called"));
}
