//! A scenario file says what it says, and its mistakes are told where they are.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tidegate_core::{Dimension, Priority, Rate};
use tidegate_sim::upstream::Reserves;
use tidegate_sim::{
    Arrivals, ClockStep, Crash, Dice, HeaderStyle, LenderSpec, LiveChange, Model, NewLimit, Outage, Scenario,
    ScenarioFile, Spread, UpstreamLimit, UpstreamSpec, WindowByHand,
};

fn parse(text: &str) -> Scenario {
    Scenario::parse(text, "s.toml", &|_| None, Path::new(".")).unwrap_or_else(|errors| panic!("{errors}"))
}

fn errors(text: &str) -> Vec<String> {
    match Scenario::parse(text, "s.toml", &|_| None, Path::new(".")) {
        Ok(_) => panic!("it is wrong:\n{text}"),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

/// What is wrong with a `[simulation]` that has these lines, beside a service `api`; its first line is 4.
fn wrong(lines: &str) -> Vec<String> {
    errors(&format!("[services.api]\nrequests = \"60/min\"\nconcurrency = 4\n{lines}"))
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn per_minute(units: u64) -> Rate {
    Rate::new(units, seconds(60)).expect("a rate")
}

const FULL: &str = r#"
[services.openai]
preset = "none"
requests = "600/min"
tokens = { limit = "200k/min", algorithm = "token-bucket", burst = "100k" }
credits = "10/min"
concurrency = 9
[services.git]
requests = "60/min"

[simulation]
duration = "10m"
warmup = "1m"
phases = ["5m", "8m"]
seed = 7
wait_for_breakers = false

[simulation.upstreams.openai]
limits = [ { requests = "600/min" },
           { tokens = "200k/min", model = "token-bucket", burst = "250k" },
           { requests = "10/s", model = "sliding-log", hidden = true }, { concurrency = 20 } ]
headers = "openai"
refused_cost = true
reserves = "max_tokens-kept"
jitter = "20ms..80ms"
latency = { p50 = "400ms", p99 = "3s" }
errors = 0.05
resets = 0.02
lost = 0.001
outages = [{ at = "2m", lasts = "60s" }]
neighbours = [{ requests = "180/min", from = "2m", until = "5m", tokens = "100..500" }]
changes = [{ at = "5m", to = "300/min" }, { at = "6m", limit = 3, to = 5 }]

[[simulation.workload]]
name = "user"
service = "openai"
arrivals = { poisson = "12/min" }
loops = 3
loop_type = "interactive"
priority = "high"
models = { "gpt-4o" = 3, "gpt-4o-mini" = 1 }
endpoint = "POST /v1/chat/completions"
key = "a"
tokens = "200..2k"
credits = 2
estimate = "100..150"
estimated = true
timeout = "60s"
cancel = 0.01
patience = "1s..5s"
repeatable = false
from = "10s"
until = "5m"

[[simulation.workload]]
service = "git"
input_tokens = { from = 200, to = "4k", log = true }
output_tokens = { from = 5, to = 9 }
max_tokens = 8
unknown_output = true
arrivals = { closed = 5, think = "1s", calls = 100 }

[[simulation.workload]]
service = "git"
models = "one"
arrivals = { burst = 500, every = "60s" }

[simulation.faults]
crashes = [{ at = "3m", down = "5s" }]
clock_steps = [{ at = "4m", by = "-30s" }]
lenders = [{ limit = "openai/requests/1m", size = 50, delay = "5ms..50ms", fails = 0.1, forgets = 0.05, usable = "20s" }]
timer_late = "0ms..5ms"
changes = [{ at = "5m", limit = "openai/tokens/1m", to = "300k/min" }, { at = "6m", limit = "openai/concurrency", to = 2 }]
windows = [{ at = "7m", key = "openai/model:gpt-4o", lasts = "20s" }, { at = "8m", key = "git" }]
"#;

#[test]
fn every_key_arrives_where_it_belongs() {
    let scenario = parse(FULL);
    assert_eq!((scenario.duration, scenario.warmup), (seconds(600), seconds(60)));
    assert_eq!(scenario.phases, [seconds(300), seconds(480)]);
    assert!(!scenario.wait_for_breakers);
    let limit =
        |model, dimension, rate, burst, hidden| UpstreamLimit { model, dimension, rate, burst, hidden };
    let second = Rate::new(10, seconds(1)).expect("a rate");
    let openai = &scenario.upstreams["openai"];
    assert_eq!(
        openai.limits,
        [
            limit(Model::FixedWindow, Dimension::Requests, per_minute(600), None, false),
            limit(Model::TokenBucket, Dimension::Tokens, per_minute(200_000), Some(250_000), false),
            limit(Model::SlidingLog, Dimension::Requests, second, None, true),
            limit(
                Model::Concurrency,
                Dimension::Requests,
                Rate::new(20, seconds(1)).expect("a rate"),
                None,
                false
            ),
        ]
    );
    assert_eq!((openai.headers, openai.refused_cost), (HeaderStyle::OpenAi, true));
    assert_eq!(openai.jitter, Spread::Between(20_000_000, 80_000_000));
    assert_eq!(openai.latency, Spread::Tailed { p50: 400_000_000, p99: 3_000_000_000 });
    assert_eq!(openai.reserves, Reserves::MaxTokensKept);
    assert_eq!((openai.errors, openai.resets, openai.lost), (0.05, 0.02, 0.001));
    assert_eq!(openai.outages, [Outage { at: seconds(120), lasts: seconds(60) }]);
    let neighbour = openai.neighbours[0];
    assert_eq!((neighbour.rate, neighbour.tokens), (per_minute(180), Spread::Between(100, 500)));
    assert_eq!((neighbour.from, neighbour.until), (seconds(120), Some(seconds(300))));
    let changes: Vec<_> = openai.changes.iter().map(|change| (change.limit, change.rate.units())).collect();
    assert_eq!(changes, [(0, 300), (3, 5)]);

    let user = &scenario.workloads[0];
    assert_eq!((user.name.as_str(), user.service.as_str(), user.loops), ("user", "openai", 3));
    assert_eq!(user.arrivals, Arrivals::Poisson(per_minute(12)));
    assert_eq!((user.loop_type.as_deref(), user.priority), (Some("interactive"), Some(Priority::High)));
    assert_eq!(user.models, [("gpt-4o".to_owned(), 3.0), ("gpt-4o-mini".to_owned(), 1.0)]);
    assert_eq!(
        (user.endpoint.as_deref(), user.key.as_deref()),
        (Some("POST /v1/chat/completions"), Some("a"))
    );
    assert_eq!(
        user.cost,
        [
            (Dimension::Tokens, Spread::Between(200, 2_000)),
            (Dimension::from_name("credits"), Spread::Exactly(2)),
        ]
    );
    assert_eq!((user.estimate, user.estimated), (Spread::Between(100, 150), true));
    assert_eq!((user.timeout, user.cancel, user.repeatable), (Some(seconds(60)), 0.01, false));
    assert_eq!(user.patience, Spread::spans(seconds(1), seconds(5)));
    assert_eq!((user.from, user.until), (seconds(10), Some(seconds(300))));
    let [_, git, burst] = scenario.workloads.as_slice() else { panic!("{:?}", scenario.workloads) };
    let think = Spread::span(seconds(1));
    assert_eq!(git.arrivals, Arrivals::Closed { workers: 5, think, calls: Some(100) });
    assert_eq!(git.name, "workload 2");
    assert_eq!(
        git.cost,
        [
            (Dimension::InputTokens, Spread::LogBetween(200, 4_000)),
            (Dimension::OutputTokens, Spread::Between(5, 9)),
        ]
    );
    assert_eq!((git.max_tokens, git.unknown_output), (Some(8), true));
    assert_eq!((user.max_tokens, user.unknown_output), (None, false));
    assert_eq!(burst.arrivals, Arrivals::Bursts { every: seconds(60), size: 500 });
    assert_eq!(burst.models, [("one".to_owned(), 1.0)]);

    let faults = &scenario.faults;
    assert_eq!(faults.crashes, [Crash { at: seconds(180), down: seconds(5) }]);
    assert_eq!(faults.clock_steps, [ClockStep { at: seconds(240), by_ms: -30_000 }]);
    assert_eq!(faults.timer_late, Some(Spread::Between(0, 5_000_000)));
    assert_eq!(
        faults.lenders,
        [LenderSpec {
            limit: "openai/requests/1m".into(),
            size: 50,
            delay: Spread::Between(5_000_000, 50_000_000),
            fails: 0.1,
            forgets: 0.05,
            usable: seconds(20),
        }]
    );
    assert_eq!(
        faults.changes,
        [
            LiveChange {
                at: seconds(300),
                limit: "openai/tokens/1m".into(),
                to: NewLimit::Rate(per_minute(300_000))
            },
            LiveChange { at: seconds(360), limit: "openai/concurrency".into(), to: NewLimit::InFlight(2) },
        ]
    );
    let window = |at, key: &str, lasts| WindowByHand { at: seconds(at), key: key.into(), lasts };
    assert_eq!(
        faults.windows,
        [window(420, "openai/model:gpt-4o", Some(seconds(20))), window(480, "git", None)]
    );
}

#[test]
fn a_window_of_what_is_not_there_is_told() {
    let lines = "[[simulation.workload]]\narrivals = { closed = 1 }\n[simulation.faults]\n\
                 windows = [{ at = \"1m\", key = \"ap\" }, { key = \"api\", lasts = \"5s\" }]\n";
    let wrong = wrong(lines);
    assert_eq!(wrong.len(), 2, "{wrong:?}");
    assert!(wrong[0].contains("nothing is called `ap`"), "{wrong:?}");
    assert!(wrong[1].contains("at = "), "{wrong:?}");
}

#[test]
fn what_is_not_said_has_its_default() {
    let text = "[services.api]\nrequests = \"60/min\"\n[[simulation.workload]]\narrivals = { closed = 1 }\n\
                [simulation.upstreams.api]\n";
    let scenario = parse(text);
    assert_eq!((scenario.duration, scenario.warmup), (seconds(600), Duration::ZERO));
    assert_eq!(scenario.upstreams["api"], UpstreamSpec::default());
    assert!(scenario.wait_for_breakers);
    let workload = &scenario.workloads[0];
    assert_eq!((workload.name.as_str(), workload.service.as_str(), workload.loops), ("workload 1", "api", 0));
    assert!(workload.repeatable);
    let think = Spread::span(Duration::from_millis(100));
    assert_eq!(workload.arrivals, Arrivals::Closed { workers: 1, think, calls: None });
    let document = tidegate_core::config::Document::new(text, "s.toml", &|_| None);
    assert_eq!(ScenarioFile::read(&document, Path::new(".")).expect("valid").seed, 1);
}

#[test]
fn an_upstream_can_have_the_limits_of_the_config() {
    let text =
        FULL.replace("limits = [ { requests = \"600/min\" },\n", "limits = \"as-configured\"\nx = [\n");
    let (before, after) = text.split_once("x = [").expect("replaced");
    let text = format!("{before}{}", &after[after.find("headers").expect("there")..]);
    let text =
        text.replace("changes = [{ at = \"5m\", to = \"300/min\" }, { at = \"6m\", limit = 3, to = 5 }]", "");
    let limits = &parse(&text).upstreams["openai"].limits;
    let shape: Vec<_> =
        limits.iter().map(|limit| (limit.model, limit.dimension.name(), limit.burst)).collect();
    assert_eq!(
        shape,
        [
            (Model::SlidingLog, "requests", None),
            (Model::TokenBucket, "tokens", Some(100_000)),
            (Model::SlidingLog, "credits", None),
            (Model::Concurrency, "requests", None),
        ]
    );
}

#[test]
fn mistakes_of_the_config_and_of_the_simulation_are_told_together() {
    let text = "[services.api]\nrequets = \"60/min\"\n[simulation]\nduratoin = \"1m\"\n\
                [[simulation.workload]]\nname = \"a\"\nservice = \"apo\"\narrivals = { poison = \"5/min\" }\ntokns = 5\n";
    assert_eq!(
        errors(text),
        [
            "s.toml:2:1: unknown key `requets` in [services.api]\n  hint: did you mean `requests`?",
            "s.toml:4:1: unknown key `duratoin` in [simulation]\n  hint: did you mean `duration`?",
            "s.toml:7:11: unknown service `apo`\n  hint: did you mean `api`?",
            "s.toml:8:14: unknown key `poison` in [simulation.workload[0].arrivals]\n  hint: did you mean `poisson`?",
            "s.toml:9:1: unknown key `tokns` in [simulation.workload[0]]\n  hint: did you mean `tokens`?",
        ]
    );
}

#[test]
fn a_value_out_of_range_is_told_where_it_stands() {
    const CALLS: &str = "[[simulation.workload]]\narrivals = { poisson = \"5/min\" }\n";
    for (lines, expected) in [
        ("[simulation]\nduration = \"0s\"\n", "5:12: `duration` must not be 0"),
        ("[simulation]\nduration = \"400d\"\n", "5:12: a simulation lasts a year at most"),
        ("[simulation]\nwarmup = \"10m\"\n", "5:10: `warmup` is not before the end of the simulation"),
        ("[simulation]\nphases = [\"10m\"]\n", "5:11: `phases` is not before the end of the simulation"),
        (
            "[simulation]\nphases = [\"5m\", \"5m\"]\n",
            "5:17: a part of the run must begin after the one before it",
        ),
        ("[simulation.upstreams.apo]\n", "4:23: unknown key `apo` in [simulation.upstreams]"),
        ("[simulation.upstreams.api]\nerrors = 1.5\n", "5:10: a share of 1.5 is not between 0 and 1"),
        ("[simulation.upstreams.api]\nlost = -0.1\n", "5:8: a share of -0.1 is not between 0 and 1"),
        ("[simulation.upstreams.api]\njitter = \"80ms..20ms\"\n", "5:10: `80ms..20ms` goes backwards"),
        (
            "[simulation.upstreams.api]\nlatency = { p50 = \"2s\", p99 = \"1s\" }\n",
            "5:31: the p99 is below the p50",
        ),
        (
            "[simulation.upstreams.api]\nlatency = { p50 = \"2s\" }\n",
            "5:11: simulation.upstreams.api.latency has no `p99`",
        ),
        ("[simulation.upstreams.api]\nheaders = \"opnai\"\n", "5:11: unknown headers `opnai`"),
        ("[simulation.upstreams.api]\nlimits = \"as-configurd\"\n", "5:10: unknown limits `as-configurd`"),
        (
            "[simulation.upstreams.api]\nlimits = [{ requests = \"0/min\" }]\n",
            "5:24: a rate of 0 lets nothing pass",
        ),
        ("[simulation.upstreams.api]\nlimits = [{ model = \"gcra\" }]\n", "5:11: this limit counts nothing"),
        (
            "[simulation.upstreams.api]\nlimits = [{ requests = \"9/min\", burst = 3 }]\n",
            "5:33: only a bucket and a gcra have a burst",
        ),
        (
            "[simulation.upstreams.api]\nlimits = [{ requests = \"9/min\", tokens = \"9/min\" }]\n",
            "5:33: a limit counts one thing",
        ),
        (
            "[simulation.upstreams.api]\nlimits = [{ requests = \"9/day@UTC\" }]\n",
            "5:24: `requests` cannot follow a calendar",
        ),
        (
            "[simulation.upstreams.api]\nlimits = [{ concurrency = 3, model = \"gcra\" }]\n",
            "5:30: calls in flight are counted in one way only",
        ),
        (
            "[simulation.upstreams.api]\noutages = [{ at = \"1h\", lasts = \"1s\" }]\n",
            "5:19: `at` is not before the end",
        ),
        (
            "[simulation.upstreams.api]\noutages = [{ at = \"1m\", lasts = \"0s\" }]\n",
            "5:33: `lasts` must not be 0",
        ),
        (
            "[simulation.upstreams.api]\nchanges = [{ at = \"1m\", limit = 1, to = \"5/min\" }]\n",
            "5:33: there is no limit 1",
        ),
        (
            "[simulation.upstreams.api]\nneighbours = [{ requests = \"5/min\", from = \"2m\", until = \"1m\" }]\n",
            "5:58: `until` is not after `from`",
        ),
        (
            "[simulation.faults]\nlenders = [{ limit = \"api/requets/1m\", size = 5 }]\n",
            "5:22: unknown limit `api/requets/1m`",
        ),
        (
            "[simulation.faults]\nlenders = [{ limit = \"api/requests/1m\", size = 0 }]\n",
            "5:48: `size` must not be 0",
        ),
        (
            "[simulation.faults]\nclock_steps = [{ at = \"1m\", by = \"soon\" }]\n",
            "5:34: `soon` is not a duration",
        ),
        (
            "[simulation.faults]\nchanges = [{ at = \"1m\", limit = \"api/concurrency\", to = 0 }]\n",
            "5:57: `to` must not be 0",
        ),
    ] {
        let told = wrong(&format!("{lines}{CALLS}"));
        assert_eq!(told.len(), 1, "{lines}{told:?}");
        assert!(told[0].starts_with(&format!("s.toml:{expected}")), "{lines}{}", told[0]);
    }
}

#[test]
fn a_workload_out_of_range_is_told_where_it_stands() {
    const FIRST: &str = "[[simulation.workload]]\n";
    const CALLS: &str = "arrivals = { poisson = \"5/min\" }\n";
    for (lines, expected) in [
        ("name = \"a\"\n", "4:1: simulation.workload[0] has no `arrivals`"),
        ("arrivals = \"5/min\"\n", "5:12: `arrivals` must be a table"),
        ("arrivals = { poisson = \"0/min\" }\n", "5:24: a rate of 0 lets nothing pass"),
        ("arrivals = { closed = 0 }\n", "5:23: `closed` must not be 0"),
        ("arrivals = { closed = 2000000 }\n", "5:23: 2000000 are more than can be simulated"),
        (
            "arrivals = { closed = 50000 }\nloops = 50000\n",
            "5:12: all loops together have more workers than can be simulated",
        ),
        ("arrivals = { burst = 5 }\n", "5:12: simulation.workload[0].arrivals has no `every`"),
        ("arrivals = { burst = 5, every = \"0s\" }\n", "5:33: `every` must not be 0"),
        (
            "arrivals = { closed = 1, poisson = \"5/min\" }\n",
            "5:26: calls come by `closed` or by `poisson`, not by both",
        ),
        (
            "arrivals = { closed = 1, think = 0 }\n",
            "5:12: this workload neither thinks nor waits for a reply",
        ),
        ("arrivals = { trace = \"gone.csv\" }\n", "5:22: cannot read the trace `gone.csv`"),
    ] {
        let told = wrong(&format!("{FIRST}{lines}"));
        assert_eq!(told.len(), 1, "{lines}{told:?}");
        assert!(told[0].starts_with(&format!("s.toml:{expected}")), "{lines}{}", told[0]);
    }
    for (line, expected) in [
        ("priority = \"urgent\"", "6:12: unknown priority `urgent`"),
        ("cancel = 2", "6:10: a share of 2 is not between 0 and 1"),
        ("models = { a = 0 }", "6:16: a weight of 0 is not above 0"),
        ("endpoint = \"/v1\"", "6:12: this is not an endpoint"),
        ("tokens = -1", "6:10: `-1` is negative"),
        ("tokens = true", "6:10: `tokens` must be a number or a spread of them, not a boolean"),
        ("from = \"20m\"", "6:8: `from` is not before the end of the simulation"),
        ("until = \"0s\"", "6:9: `until` is not after `from`"),
        ("tokens = { from = 5, to = 4 }", "6:27: this range goes backwards"),
        ("tokens = { from = 0, to = 4, log = true }", "6:19: 0 has no size"),
        ("tokens = { from = 5 }", "6:10: simulation.workload[0].tokens has no `to`"),
        (
            "tokens = { from = 5, p99 = 7, to = 9 }",
            "6:22: unknown key `p99` in [simulation.workload[0].tokens]",
        ),
        ("max_tokens = 9\nunknown_output = true", "4:1: simulation.workload[0] has no `output_tokens`"),
        ("output_tokens = 9\nunknown_output = true", "4:1: simulation.workload[0] has no `max_tokens`"),
        (
            "tokens = 9\noutput_tokens = 9\nmax_tokens = 9\nunknown_output = true",
            "9:18: `tokens` says how much the output will be",
        ),
        ("sheep = 5", "6:1: unknown key `sheep` in [simulation.workload[0]]"),
    ] {
        let told = wrong(&format!("{FIRST}{CALLS}{line}\n"));
        assert_eq!(told.len(), 1, "{line}{told:?}");
        assert!(told[0].starts_with(&format!("s.toml:{expected}")), "{line}: {}", told[0]);
    }
    let twice = format!("{FIRST}name = \"a\"\n{CALLS}{FIRST}name = \"a\"\n{CALLS}");
    assert!(wrong(&twice)[0].starts_with("s.toml:8:8: there are two workloads named `a`"));
}

#[test]
fn a_file_in_which_nobody_calls_is_a_mistake() {
    assert!(errors("[services.api]\n")[0].starts_with("s.toml:1:1: there is no [simulation] in this file"));
    assert!(wrong("[simulation]\n")[0].starts_with("s.toml:4:2: nobody calls in this simulation"));
    let two = "[services.a]\n[services.b]\n[[simulation.workload]]\narrivals = { closed = 1 }\n";
    assert!(
        errors(two)[0].starts_with("s.toml:3:1: simulation.workload[0] does not say which service it calls")
    );
}

#[test]
fn no_text_makes_the_reader_panic() {
    let pieces: Vec<&str> = FULL.split_inclusive([' ', '\n', ',', '"', '=']).collect();
    for seed in 0..2_000 {
        let mut dice = Dice::new(seed);
        let mut text = pieces.clone();
        for _ in 0..=dice.below(6) {
            let at = dice.below(text.len() as u64) as usize;
            let strange =
                ["", "0", "-1", "1e400", "18446744073709551615d", "\"..\"", "[]", "{}", "[[", "é", "true"];
            match dice.below(3) {
                0 => drop(text.remove(at)),
                1 => text[at] = *dice.pick::<&str>(&strange),
                _ => text.insert(at, *dice.pick::<&str>(&pieces)),
            }
        }
        let text = text.concat();
        if let Err(errors) = Scenario::parse(&text, "s.toml", &|_| None, Path::new(".")) {
            assert!(errors.iter().all(|error| error.line >= 1 && !error.message.is_empty()), "{errors}");
        }
    }
}

/// A folder that is gone when the test is.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_trace_lies_beside_the_file_and_its_bad_lines_are_told() {
    let folder = Folder(std::env::temp_dir().join(format!("tidegate-sim-trace-{}", std::process::id())));
    std::fs::create_dir_all(&folder.0).expect("a folder");
    let path = folder.0.join("s.toml");
    let text = "[services.api]\ncredits = \"5/min\"\n[[simulation.workload]]\narrivals = { trace = \"calls.csv\" }\n";
    std::fs::write(&path, text).expect("written");

    std::fs::write(folder.0.join("calls.csv"), "at,credits\n1,2\n2,3\n").expect("written");
    let Arrivals::Trace(calls) = &Scenario::load(&path).expect("valid").workloads[0].arrivals.clone() else {
        panic!("not a trace");
    };
    assert_eq!((calls.len(), calls[1].at, calls[1].cost[0].1), (2, seconds(1), 3));

    std::fs::write(folder.0.join("calls.csv"), "at,credits\n1,2\n2,x\n").expect("written");
    let told = Scenario::load(&path).expect_err("a bad line").to_string();
    assert_eq!(told, format!("{}:4:22: calls.csv, line 3: `x` is not a number", path.display()));
    assert!(
        Scenario::load(folder.0.join("gone.toml")).expect_err("gone").to_string().starts_with("cannot read")
    );
}
