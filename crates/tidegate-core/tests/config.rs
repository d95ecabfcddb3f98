//! What a `tidegate.toml` means: the model that each way of writing gives.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use tidegate_core::config::presets;
use tidegate_core::config::units::WrittenRate;
use tidegate_core::config::{
    AlertsConfig, BreakerConfig, BreakerScope, Config, Headers, JitterKind, Limits, LoopTypeConfig, Mode,
    Origin, QueueConfig, Queued, RateLimit, Reserve, RetryConfig, ServiceConfig, SettleRule, StateConfig,
};
use tidegate_core::retry::Growth;
use tidegate_core::{Algorithm, Dimension, Priority, Rate};

/// The example that users are shown, with every section.
const EXAMPLE: &str = r#"listen = "127.0.0.1:8429"

[state]
path = "~/.local/state/tidegate"        # SQLite; or:  redis = "redis://127.0.0.1:6379"

[global]
requests    = "1000/min"
concurrency = 400

[services.openai]
preset   = "openai"                      # upstream URL, header style, counting rule, usage fields, retry rules
requests = ["500/min", "10k/day"]
tokens   = { limit = "200k/min", algorithm = "token-bucket", burst = "200k" }
concurrency = 100
throttled_concurrency = 5
byte_budget = "5MB"
retry   = { max_retries = 5, initial = "1s", max = "60s", jitter = 0.1, budget = 0.2 }
breaker = { failures = 5, open_for = "30s" }
queue   = { timeout = "10m", max_waiting = 10000, aging = "30s", aging_share = 0.1 }
reserve = { high = 0.1 }

[services.openai.endpoints."POST /v1/embeddings"]
requests = "3000/min"

[services.openai.models."gpt-4o*"]       # vendors limit per model; read from the request body
tokens = "30k/min"

[services.local]                         # any other HTTP API
upstream = "http://127.0.0.1:9000"
requests = "120/2s"

[services.git]                           # no upstream: only the permit API and the library
requests = "60/min"
concurrency = 4

[loop_types.interactive]
priority = "high"
weight   = 4

[loop_types.code]
requests = "200/min"

[loops]                                  # every loop id gets its own
requests = "30/min"

[alerts]
approaching = 0.8
webhook = "http://127.0.0.1:9000/hook"
"#;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

fn parse(text: &str) -> Config {
    Config::parse(text, "tidegate.toml").unwrap_or_else(|errors| panic!("{text}\n{errors}"))
}

fn limit(dimension: Dimension, units: u64, window: Duration) -> RateLimit {
    RateLimit::plain(dimension, Rate::new(units, window).expect("a rate in range"))
}

fn requests(units: u64, window: Duration) -> RateLimit {
    limit(Dimension::Requests, units, window)
}

fn only(rates: impl Into<Vec<RateLimit>>) -> Limits {
    Limits { rates: rates.into(), ..Limits::default() }
}

/// The rates that some lines under `[global]` give.
fn rates(lines: &str) -> Vec<RateLimit> {
    parse(&format!("[global]\n{lines}")).global.rates
}

fn service(keys: &str) -> ServiceConfig {
    parse(&format!("[services.s]\n{keys}")).services.remove("s").expect("it was written")
}

#[test]
fn the_memory_for_waiting_requests_is_a_size() {
    let memory = |text: &str| Config::parse(text, "tidegate.toml").unwrap().buffer_memory;
    assert_eq!((memory(""), memory("buffer_memory = \"64MiB\"\n")), (256 << 20, 64 << 20));
}

#[test]
fn tokens_are_read_with_what_they_allow() {
    let text = format!(
        "listen_unix = \"/run/t.sock\"\npermit_lease = \"90s\"\n[auth.tokens.ci]\nsha256 = \"{}\"\n\
         priorities = [\"low\"]\nservices = [\"openai\"]\n[auth.tokens.me]\nsha256 = \"{}\"\nadmin = true\n",
        "0a".repeat(32),
        "FF".repeat(32)
    );
    let config = parse(&text);
    assert_eq!(
        (config.listen_unix.as_deref(), config.permit_lease),
        (Some("/run/t.sock"), Duration::from_secs(90))
    );
    let (ci, me) = (&config.auth.tokens["ci"], &config.auth.tokens["me"]);
    assert_eq!((ci.sha256.0, me.sha256.0), ([10; 32], [255; 32]));
    assert_eq!(
        (&ci.priorities, &ci.services),
        (&Some(vec![Priority::Low]), &Some(vec!["openai".to_owned()]))
    );
    assert_eq!((&me.priorities, &me.services, ci.admin, me.admin), (&None, &None, false, true));
    assert!(!format!("{config:?}").contains("255"), "not even hashes are shown");
}

#[test]
fn what_follows_a_429_or_a_failure_is_read_from_the_file() {
    let service = service(
        "backoff = { window = \"3s\", byte_penalty_multiplier = 7 }\nfailures_count = true\n\
         breaker = { per = \"endpoint\", queued = \"fail\" }\n",
    );
    assert_eq!(
        (service.backoff.window, service.backoff.byte_penalty_multiplier),
        (Duration::from_secs(3), 7)
    );
    assert!(service.backoff.waits && service.failures_count);
    let breaker = service.breaker.unwrap();
    assert_eq!((breaker.per, breaker.queued), (BreakerScope::Endpoint, Queued::Fail));
}

#[test]
fn the_example_gives_exactly_this_model() {
    let mut expected = Config::default();
    expected.listen = "127.0.0.1:8429".into();
    expected.state = StateConfig::default();
    expected.state.path = Some("~/.local/state/tidegate".into());
    expected.global = Limits { concurrency: Some(400), ..only([requests(1_000, MINUTE)]) };

    let mut openai = ServiceConfig::default();
    openai.preset = Some("openai".into());
    openai.upstream = Some("https://api.openai.com".into());
    openai.settle = SettleRule::Keep;
    openai.failures_count = true;
    let bucket = RateLimit {
        algorithm: Some(Algorithm::TokenBucket),
        burst: Some(200_000),
        ..limit(Dimension::Tokens, 200_000, MINUTE)
    };
    openai.limits = Limits {
        rates: vec![requests(500, MINUTE), requests(10_000, DAY), bucket],
        concurrency: Some(100),
        concurrency_origin: Origin::Written,
        adaptive: None,
        throttled_concurrency: Some(5),
        byte_budget: Some(5_000_000),
        reserve: Reserve { share: [0.0, 0.0, 0.1, 0.0] },
    };
    openai.retry = RetryConfig::default();
    openai.retry.max_retries = Some(5);
    openai.retry.initial = Some(Duration::from_secs(1));
    openai.retry.max = Some(Duration::from_secs(60));
    openai.retry.jitter = Some(0.1);
    openai.retry.budget = Some(0.2);
    let mut breaker = BreakerConfig::default();
    breaker.failures = 5;
    breaker.open_for = Duration::from_secs(30);
    openai.breaker = Some(breaker);
    openai.queue = QueueConfig::default();
    openai.queue.timeout = Some(Duration::from_secs(600));
    openai.queue.max_waiting = 10_000;
    openai.queue.aging = Duration::from_secs(30);
    openai.queue.aging_share = 0.1;
    openai.endpoints = BTreeMap::from([("POST /v1/embeddings".into(), only([requests(3_000, MINUTE)]))]);
    openai.models = BTreeMap::from([("gpt-4o*".into(), only([limit(Dimension::Tokens, 30_000, MINUTE)]))]);

    let mut local = ServiceConfig::default();
    local.upstream = Some("http://127.0.0.1:9000".into());
    local.limits = only([requests(120, Duration::from_secs(2))]);

    let mut git = ServiceConfig::default();
    git.limits = Limits { concurrency: Some(4), ..only([requests(60, MINUTE)]) };

    expected.services =
        BTreeMap::from([("openai".into(), openai), ("local".into(), local), ("git".into(), git)]);

    let mut interactive = LoopTypeConfig::default();
    interactive.priority = Some(Priority::High);
    interactive.weight = 4.0;
    let mut code = LoopTypeConfig::default();
    code.limits = only([requests(200, MINUTE)]);
    expected.loop_types = BTreeMap::from([("interactive".into(), interactive), ("code".into(), code)]);

    expected.loops = only([requests(30, MINUTE)]);
    let mut alerts = AlertsConfig::default();
    alerts.approaching = 0.8;
    alerts.webhook = Some("http://127.0.0.1:9000/hook".into());
    expected.alerts = Some(alerts);

    assert_eq!(parse(EXAMPLE), expected);
}

#[test]
fn an_empty_file_serves_every_preset_that_is_in_one_place() {
    let mut expected = Config::default();
    for preset in presets::all().filter(|preset| preset.upstream.is_some()) {
        expected.services.insert(preset.name.to_owned(), preset.service(None));
    }
    for text in ["", "\n", "# nothing\n", "\u{feff}", "[services]\n[loops]\n[global]"] {
        assert_eq!(parse(text), expected, "{text:?}");
    }
    let openai = &expected.services["openai"];
    assert_eq!(openai.upstream.as_deref(), Some("https://api.openai.com"));
    assert!(!expected.services.contains_key("azure-openai"), "every customer has an address of their own");
    assert_eq!(parse("[services.git]").services.len(), 1, "one that is written is all there is");
}

#[test]
fn keys_that_are_not_written_keep_their_defaults() {
    let queue = service("queue = { max_waiting = 5 }").queue;
    assert_eq!((queue.max_waiting, queue.aging, queue.aging_share), (5, Duration::from_secs(30), 0.1));
    let breaker = service("breaker = {}").breaker.expect("it was written");
    assert_eq!(breaker, BreakerConfig::default());
    assert_eq!(service("").breaker, None);
}

#[test]
fn every_rule_about_failures_can_be_set() {
    let retry = service(
        "retry = { max_retries = 0, backoff = \"linear\", initial = \"2s\", max = \"5s\", jitter = 0.2,\
         jitter_kind = \"additive\", max_elapsed = \"1m\", budget = 0.5 }",
    )
    .retry;
    assert_eq!((retry.max_retries, retry.budget, retry.jitter), (Some(0), Some(0.5), Some(0.2)));
    assert_eq!((retry.backoff, retry.jitter_kind), (Some(Growth::Linear), Some(JitterKind::Additive)));
    assert_eq!(retry.max_elapsed, Some(Duration::from_secs(60)));

    let breaker = service(
        "breaker = { failures = 9, failure_rate = 0.5, slow_rate = 0.8, slow_after = \"20s\", window = \"2m\",\
         min_calls = 7, open_for = \"10s\", max_open = \"1m\", probes = 3, count_rate_limits = true }",
    );
    let breaker = breaker.breaker.expect("it was written");
    let mut expected = BreakerConfig::default();
    expected.failures = 9;
    expected.failure_rate = Some(0.5);
    expected.slow_rate = Some(0.8);
    expected.slow_after = Some(Duration::from_secs(20));
    expected.window = Duration::from_secs(120);
    expected.min_calls = 7;
    expected.open_for = Duration::from_secs(10);
    expected.max_open = Some(Duration::from_secs(60));
    expected.probes = 3;
    expected.count_rate_limits = true;
    assert_eq!(breaker, expected);
}

#[test]
fn every_switch_of_a_service_can_be_set() {
    let set = service(
        "mode = \"observe\"\nheaders = \"authoritative\"\nper_key = true\nsettle = \"keep\"\n\
         api_key_env = \"OPENAI_API_KEY\"\nupstream = \"https://user@api.example.com:8443/base\"",
    );
    assert_eq!(
        (set.mode, set.headers, set.per_key, set.settle),
        (Mode::Observe, Headers::Authoritative, true, SettleRule::Keep)
    );
    assert_eq!(set.api_key_env.as_deref(), Some("OPENAI_API_KEY"));
    assert_eq!(set.upstream.as_deref(), Some("https://user@api.example.com:8443/base"));

    let back = service("mode = \"enforce\"\nheaders = \"ignore\"\nper_key = false\nsettle = \"refund\"");
    assert_eq!(
        (back.mode, back.headers, back.per_key, back.settle),
        (Mode::Enforce, Headers::Ignore, false, SettleRule::Refund)
    );
    assert_eq!(service("headers = \"follow\"").headers, Headers::Follow);
}

#[test]
fn every_preset_is_known() {
    for preset in presets::all() {
        assert_eq!(service(&format!("preset = \"{}\"", preset.name)), preset.service(None));
    }
    for (other, name) in [("claude", "anthropic"), ("docker-hub", "dockerhub"), ("OpenAI", "openai")] {
        assert_eq!(service(&format!("preset = \"{other}\"")).preset.as_deref(), Some(name));
    }
}

#[test]
fn a_limit_may_be_a_string_a_table_or_an_array_of_both() {
    let plain = requests(500, MINUTE);
    assert_eq!(rates("requests = \"500/min\""), std::slice::from_ref(&plain));
    assert_eq!(rates("requests = { limit = \"500/min\" }"), std::slice::from_ref(&plain));
    assert_eq!(
        rates("requests = [{ limit = \"500/min\", algorithm = \"sliding-window\", burst = 1 }, \"9k/h\"]"),
        [
            RateLimit { algorithm: Some(Algorithm::SlidingWindow), burst: Some(1), ..plain.clone() },
            requests(9_000, HOUR)
        ]
    );
    assert_eq!(
        rates("[[global.requests]]\nlimit = \"500/min\"\nreserve = { low = 0, critical = 0.25 }"),
        [RateLimit { reserve: Some(Reserve { share: [0.0, 0.0, 0.0, 0.25] }), ..plain }]
    );
}

#[test]
fn limits_keep_the_order_of_the_file() {
    let names = |lines| rates(lines).iter().map(|rate| rate.dimension.to_string()).collect::<Vec<_>>();
    assert_eq!(
        names("tokens = \"1/s\"\nbytes = \"1/s\"\nrequests = \"1/s\""),
        ["tokens", "bytes", "requests"]
    );
}

#[test]
fn every_dimension_is_counted_in_its_own_units() {
    for (line, expected) in [
        ("input_tokens = \"1M/min\"", limit(Dimension::InputTokens, 1_000_000, MINUTE)),
        ("output_tokens = \"8k/min\"", limit(Dimension::OutputTokens, 8_000, MINUTE)),
        ("bytes = \"5MB/min\"", limit(Dimension::Bytes, 5_000_000, MINUTE)),
        ("usd = \"2.50/day\"", limit(Dimension::MicroUsd, 2_500_000, DAY)),
        ("credits = \"100/min\"", limit(Dimension::Custom("credits".into()), 100, MINUTE)),
        ("gpu-seconds = [\"100/min\"]", limit(Dimension::Custom("gpu-seconds".into()), 100, MINUTE)),
        ("points = { limit = \"100/min\" }", limit(Dimension::Custom("points".into()), 100, MINUTE)),
    ] {
        assert_eq!(rates(line), [expected], "{line}");
    }
}

#[test]
fn a_burst_is_counted_in_the_units_of_its_limit() {
    for (line, burst) in [
        ("usd = { limit = \"5/day\", burst = \"0.25\" }", 250_000),
        ("usd = { limit = \"5/day\", burst = 0.25 }", 250_000),
        ("usd = { limit = \"5/day\", burst = 2 }", 2_000_000),
        ("bytes = { limit = \"5MB/s\", burst = \"64KiB\" }", 65_536),
        ("tokens = { limit = \"5k/s\", burst = \"1.5k\" }", 1_500),
        ("tokens = { limit = \"5/s\", algorithm = \"token-bucket\", burst = 50 }", 50),
    ] {
        assert_eq!(rates(line)[0].burst, Some(burst), "{line}");
    }
}

#[test]
fn a_calendar_rate_is_a_fixed_window_even_unsaid() {
    for line in [
        "requests = \"10k/day@America/Los_Angeles\"",
        "requests = { limit = \"10k/day@America/Los_Angeles\" }",
        "requests = { limit = \"10k/day@america/los_angeles\", algorithm = \"fixed-window\" }",
    ] {
        let expected = RateLimit {
            algorithm: Some(Algorithm::FixedWindow),
            calendar: Some("America/Los_Angeles".into()),
            ..requests(10_000, DAY)
        };
        assert_eq!(rates(line), [expected], "{line}");
    }
}

#[test]
fn endpoints_and_models_are_matched_by_pattern() {
    for pattern in ["GET /", "* /v1/files/*", "M-SEARCH /x", "POST /v1/*/messages"] {
        let service = service(&format!("endpoints.\"{pattern}\".concurrency = 1"));
        assert_eq!(service.endpoints[pattern].concurrency, Some(1), "{pattern}");
    }
    for pattern in ["*", "gpt-4o*", "openai/gpt-4o:free", "claude-3.5"] {
        let service = service(&format!("models.\"{pattern}\".concurrency = 1"));
        assert_eq!(service.models[pattern].concurrency, Some(1), "{pattern}");
    }
}

#[test]
fn zero_is_the_one_duration_that_needs_no_unit() {
    for zero in ["0", "\"0\"", "\"0s\""] {
        let timeout = service(&format!("queue.timeout = {zero}")).queue.timeout;
        assert_eq!(timeout, Some(Duration::ZERO), "{zero}");
    }
}

#[test]
fn variables_expand_in_every_kind_of_string() {
    let env = |name: &str| match name {
        "RATE" => Some("500/min".to_owned()),
        "N" => Some("7".to_owned()),
        "SHARE" => Some("0.25".to_owned()),
        "MODE" => Some("observe".to_owned()),
        "HOST" => Some("disk".to_owned()),
        _ => None,
    };
    let text = "[state]\npath = \"/mnt/pa$$word/${HOST}\"\n[services.s]\nrequests = \"${RATE}\"\n\
                tokens = { limit = \"${N}k/min\", burst = \"${N}\" }\nconcurrency = \"${N}\"\n\
                byte_budget = \"${N}MB\"\nmode = \"${MODE}\"\nreserve = { high = \"${SHARE}\" }\n\
                queue = { timeout = \"${N}s\" }\nmodels.\"${N}\" = {}\n\
                [alerts]\nwebhook = \"http://x/$${HOST}\"";
    let config = Config::parse_with(text, "t", &env).unwrap_or_else(|errors| panic!("{errors}"));
    let service = &config.services["s"];
    assert_eq!(config.state.path.as_deref(), Some("/mnt/pa$$word/disk"));
    assert_eq!(config.alerts.unwrap().webhook.as_deref(), Some("http://x/${HOST}"));
    assert_eq!(service.limits.rates[0], requests(500, MINUTE));
    assert_eq!((service.limits.rates[1].rate.units(), service.limits.rates[1].burst), (7_000, Some(7)));
    assert_eq!((service.limits.concurrency, service.limits.byte_budget), (Some(7), Some(7_000_000)));
    assert_eq!(service.mode, Mode::Observe);
    assert_eq!(service.limits.reserve.share[Priority::High as usize], 0.25);
    assert_eq!(service.queue.timeout, Some(Duration::from_secs(7)));
    assert!(service.models.contains_key("${N}"), "keys are left as they are");
}

#[test]
fn a_limit_can_be_written_back() {
    let limits = rates("requests = \"500/60s\"\nusd = \"2.50/day@utc\"");
    let written: Vec<String> = limits.iter().map(|limit| WrittenRate::from(limit).to_string()).collect();
    assert_eq!(written, ["500/min", "2.5/day@UTC"]);
}

#[test]
fn a_config_built_in_rust_meets_the_same_checks() {
    let mut config = parse(EXAMPLE);
    assert_eq!(config.validate(), Ok(()));

    let openai = config.services.get_mut("openai").expect("it is in the example");
    openai.limits.concurrency = Some(0);
    openai.limits.rates[1].calendar = Some("Mars/Phobos".into());
    openai.limits.rates.push(limit(Dimension::Custom("to kens".into()), 1, MINUTE));
    openai.queue.aging_share = f64::NAN;
    openai.endpoints.insert("nowhere".into(), Limits::default());
    config.loop_types.get_mut("code").expect("it is in the example").weight = f64::NAN;
    config.alerts.get_or_insert_default().approaching = f64::INFINITY;

    let problems = config.validate().expect_err("all of these are wrong");
    let mut paths: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
    paths.sort_unstable();
    assert_eq!(
        paths,
        [
            "alerts.approaching",
            "loop_types.code.weight",
            "services.openai.\"to kens\"",
            "services.openai.concurrency",
            "services.openai.endpoints.nowhere",
            "services.openai.queue.aging_share",
            "services.openai.requests[1]",
            "services.openai.throttled_concurrency",
        ]
    );
    let concurrency = problems.iter().find(|problem| problem.path.ends_with("openai.concurrency"));
    assert_eq!(
        concurrency.map(ToString::to_string).as_deref(),
        Some(
            "services.openai.concurrency: a concurrency of 0 lets nothing pass \
             (use at least 1, or remove the line for no limit)"
        )
    );
}

/// The example, and what else a file can have.
fn everything() -> String {
    let more = r#"
[services.hub]
preset = "github"
tier = "user"
profile = "ours"
requests = { limit = "500/h", burst = 9 }

[profiles.ours]
base = "github"
reset = "milliseconds"
reset_margin = "1s"
signs = ["x-ours-*"]
windows = { requests = "1h" }
zero_limit = "quota_exhausted"
hint_on_success_refuses = true
headers = [{ header = "x-left", gives = "remaining", kind = "credits", window = "1d", name = "daily" }]
errors = [{ status = 403, code = "gone", phrase = "no more", verdict = "quota_exhausted" }]
"#;
    format!("{EXAMPLE}{more}")
}

#[test]
fn everything_is_a_config() {
    assert_eq!(parse(&everything()).validate(), Ok(()));
}

/// The text with one stretch of it replaced by something else.
fn mutated() -> impl Strategy<Value = String> {
    let text = everything();
    let boundaries: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    let last = boundaries.len() - 1;
    let values = ["0", "-1", "nan", "inf", "1e999", "0xff", "\"${X}\"", "[]", "{}", "\"\"", "true"];
    let put = prop_oneof![
        Just(String::new()),
        "\\PC{0,4}",
        "[-0-9\"'=\\[\\]{}.,#$/@\\n ]{1,6}",
        prop::sample::select(values.to_vec()).prop_map(str::to_owned),
    ];
    (0..=last, 0usize..24, put).prop_map(move |(from, length, put)| {
        let to = (from + length).min(last);
        format!("{}{put}{}", &text[..boundaries[from]], &text[boundaries[to]..])
    })
}

/// The text with one value of it replaced by a value of any kind.
fn revalued() -> impl Strategy<Value = String> {
    let lines: Vec<String> = everything().lines().map(str::to_owned).collect();
    let with_value: Vec<usize> = (0..lines.len()).filter(|i| lines[*i].contains(" = ")).collect();
    let values = [
        "0",
        "-1",
        "1",
        "9223372036854775807",
        "nan",
        "-inf",
        "1e999",
        "0.5",
        "0xff",
        "true",
        "[]",
        "[[]]",
        "{}",
        "[\"5/s\", 5]",
        "{ limit = 5 }",
        "{ limit = \"5/s\", burst = -1 }",
        "{ high = 2 }",
        "1979-05-27",
        "\"\"",
        "\"${X}/s\"",
        "\"${X}\"",
        "\"${\"",
        "\"5/day@UTC\"",
        "\"99999999999999999999G/31d\"",
    ];
    (prop::sample::select(with_value), prop::sample::select(values.to_vec())).prop_map(
        move |(line, value)| {
            let mut lines = lines.clone();
            let key = lines[line].split(" = ").next().unwrap_or_default().to_owned();
            lines[line] = format!("{key} = {value}");
            lines.join("\n")
        },
    )
}

/// Whatever the text, the answer is a config that passes its own checks, or errors that point into the text.
fn answers(text: &str) -> Result<(), TestCaseError> {
    match Config::parse_with(text, "t", &|_| Some("7".into())) {
        Ok(config) => prop_assert_eq!(config.validate(), Ok(())),
        Err(errors) => {
            prop_assert!(!errors.is_empty());
            let lines: Vec<&str> = text.split('\n').collect();
            for error in errors.iter() {
                prop_assert!((1..=lines.len()).contains(&error.line), "{}", error);
                let columns = lines[error.line - 1].chars().count() + 1;
                prop_assert!((1..=columns).contains(&error.column), "{}", error);
                prop_assert!(!error.message.contains('\n'), "{}", error);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn no_text_makes_the_parser_panic(text in "(?s).{0,200}") {
        answers(&text)?;
    }

    #[test]
    fn no_damage_to_the_example_makes_the_parser_panic(text in mutated()) {
        answers(&text)?;
    }

    #[test]
    fn no_value_in_the_example_makes_the_parser_panic(text in revalued()) {
        answers(&text)?;
    }
}

#[test]
fn what_the_docs_show_can_be_written() {
    for (name, text) in [
        ("README.md", include_str!("../../../README.md")),
        ("docs/design.md", include_str!("../../../docs/design.md")),
    ] {
        let blocks = text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
        let configs: Vec<&str> = blocks.filter(|block| !block.contains("[dependencies]")).collect();
        assert!(!configs.is_empty(), "{name} shows none");
        for config in configs {
            Config::parse(config, name).unwrap_or_else(|errors| panic!("{errors}\n{config}"));
        }
    }
}

#[test]
fn every_service_that_the_readme_shows_can_be_forwarded_to() {
    let text = include_str!("../../../README.md");
    let blocks = text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    for block in blocks.filter(|block| !block.contains("[dependencies]")) {
        let config = Config::parse(block, "README.md").expect("valid");
        assert_eq!(config.warnings(), [], "{block}");
    }
}
