//! What is wrong with a `tidegate.toml`: every error stands where the mistake is, and says what to do.
//!
//! In these texts `▲` marks each place that an error must point to.

mod marks;

use marks::{assert_errors, errors_of, unmark};
use tidegate_core::Config;

#[test]
fn an_error_reads_as_place_message_and_hint() {
    let text = "[services.openai]\n  throtled_concurrency = 5";
    assert_eq!(
        errors_of(text, &|_| None).to_string(),
        "tidegate.toml:2:3: unknown key `throtled_concurrency` in [services.openai]\n  \
         hint: did you mean `throttled_concurrency`?"
    );
}

#[test]
fn columns_are_counted_in_characters_on_every_kind_of_line() {
    let (text, marks) = unmark("\u{feff}# día\r\n[services.\"é\"]\r\nmodels.\"日本\" = { ▲x = 1 }\r\n");
    let errors = errors_of(&text, &|_| None);
    assert_eq!((errors[0].line, errors[0].column), (marks[0].0, marks[0].1));
    assert_eq!((errors[0].line, errors[0].column), (3, 17));
}

#[test]
fn all_mistakes_are_reported_at_once_in_the_order_of_the_file() {
    let (text, marks) = unmark(
        "listen = ▲\"here\"\n[global]\nrequests = ▲\"5/mn\"\nconcurrency = ▲0\n[services.▲v1]\n\
         tokens = [\"5/s\", ▲5, ▲\"6/s\"]\n▲retries = {}\nretry = { jitter = ▲2 }\n[▲stat]\n",
    );
    let errors = errors_of(&text, &|_| None);
    let places: Vec<_> = errors.iter().map(|error| (error.line, error.column)).collect();
    assert_eq!(places, marks, "\n{errors}");
    assert_eq!(errors.to_string().matches("tidegate.toml:").count(), marks.len());
}

#[test]
fn broken_toml_is_reported_in_the_same_form() {
    let unquoted = "put text in quotes, such as \"500/min\"";
    let cases = [
        ("[global\n", (1, 8), "not valid TOML: unclosed table, expected `]`", None),
        ("a = 1\na = 2\n", (2, 1), "not valid TOML: duplicate key", Some("keep one of the two")),
        (
            "listen = here\n",
            (1, 10),
            "not valid TOML: string values must be quoted, expected literal string",
            Some(unquoted),
        ),
    ];
    for (text, place, message, hint) in cases {
        let errors = errors_of(text, &|_| None);
        assert_eq!(errors.len(), 1, "{errors}");
        let error = &errors[0];
        assert_eq!((error.line, error.column), place, "{error}");
        assert_eq!((error.message.as_str(), error.hint.as_deref()), (message, hint));
    }
}

#[test]
fn a_broken_line_is_reported_once_and_each_of_them() {
    let errors = errors_of("b = = 2 3\n[global]\nc = ]\n", &|_| None);
    let lines: Vec<_> = errors.iter().map(|error| error.line).collect();
    assert_eq!(lines, [1, 3], "{errors}");
}

#[test]
fn unknown_keys_name_the_known_one_that_was_meant() {
    assert_errors(
        "",
        &[
            ("▲lisen = 1", "unknown key `lisen`", "did you mean `listen`?"),
            ("[▲service.x]", "unknown key `service`", "did you mean `services`?"),
            ("[▲openai]\n", "unknown key `openai`", "a service is written [services.openai]"),
            ("▲\"a\\nb\" = 1", "unknown key `a\\nb`", KEYS_AT_THE_TOP),
            ("▲upstream = \"http://x\"", "unknown key `upstream`", "`upstream` belongs in [services.<name>]"),
            (
                "▲requests = \"5/s\"",
                "unknown key `requests`",
                "`requests` belongs in [global], [loops], a service, an endpoint, a model or a loop type",
            ),
            ("[state]\n▲pth = \"x\"", "unknown key `pth` in [state]", "did you mean `path`?"),
            (
                "[alerts]\n▲mail = \"x\"",
                "unknown key `mail` in [alerts]",
                "the keys here are approaching, webhook",
            ),
            (
                "[global]\n▲preset = \"a/b\"",
                "unknown key `preset` in [global]",
                "`preset` belongs in [services.<name>]",
            ),
            (
                "[loops]\n▲weight = 1",
                "unknown key `weight` in [loops]",
                "`weight` belongs in [loop_types.<name>]",
            ),
            (
                "[loop_types.code]\n▲wieght = 1",
                "unknown key `wieght` in [loop_types.code]",
                "did you mean `weight`?",
            ),
            (
                "[services.s]\nretry = { ▲max_retry = 1 }",
                "unknown key `max_retry` in [services.s.retry]",
                "did you mean `max_retries`?",
            ),
            (
                "[services.s.breaker]\n▲failure = 1",
                "unknown key `failure` in [services.s.breaker]",
                "did you mean `failures`?",
            ),
            (
                "[services.s.queue]\n▲ageing = \"1s\"",
                "unknown key `ageing` in [services.s.queue]",
                "did you mean `aging`?",
            ),
            (
                "[services.s]\n▲max_retries = 5",
                "unknown key `max_retries` in [services.s]",
                "`max_retries` belongs in [services.<name>.retry]",
            ),
            (
                "[services.s.endpoints.\"GET /\"]\n▲reqests = \"1/s\"",
                "unknown key `reqests` in [services.s.endpoints.\"GET /\"]",
                "did you mean `requests`?",
            ),
            (
                "[global]\ntokens = { limit = \"1/s\", ▲brust = 1 }",
                "unknown key `brust` in [global.tokens]",
                "did you mean `burst`?",
            ),
        ],
    );
}

const KEYS_AT_THE_TOP: &str = "the keys here are listen, listen_unix, auth, permit_lease, buffer_memory, state, global, services, loop_types, loops, alerts, profiles, simulation";

#[test]
fn a_slip_is_not_taken_for_a_custom_unit() {
    let custom = "a custom unit needs a plain name and a rate, such as credits = \"100/min\"";
    assert_errors(
        "[services.s]\n",
        &[
            ("▲requets = \"5/min\"", "unknown key `requets` in [services.s]", "did you mean `requests`?"),
            ("▲reqeusts = [\"5/min\"]", "unknown key `reqeusts` in [services.s]", "did you mean `requests`?"),
            (
                "▲token = { limit = \"5/min\" }",
                "unknown key `token` in [services.s]",
                "did you mean `tokens`?",
            ),
            ("▲upstrem = \"http://x\"", "unknown key `upstrem` in [services.s]", "did you mean `upstream`?"),
            ("▲credits = 5", "unknown key `credits` in [services.s]", custom),
            ("▲credits = [\"5/s\", 5]", "unknown key `credits` in [services.s]", custom),
            ("▲credits = [[\"5/s\"]]", "unknown key `credits` in [services.s]", custom),
            ("▲credits = []", "unknown key `credits` in [services.s]", custom),
            ("▲\"my credits\" = \"5/s\"", "unknown key `my credits` in [services.s]", custom),
            ("credits = ▲\"5/mn\"", "unknown unit of time `mn` in `5/mn`", "did you mean `min`?"),
        ],
    );
}

#[test]
fn limits_that_cannot_be_say_what_to_write() {
    let rate = "write it like \"500/min\"";
    assert_errors(
        "[global]\n",
        &[
            ("requests = ▲500", "`requests` must be a rate, not an integer", "write how long: \"500/min\""),
            ("requests = ▲-5", "`requests` must be a rate, not an integer", rate),
            ("requests = ▲5.0", "`requests` must be a rate, not a float", rate),
            ("requests = ▲true", "`requests` must be a rate, not a boolean", rate),
            ("requests = ▲[]", "`requests` lists no rates", rate),
            ("requests = [▲[\"5/s\"]]", "`requests` must be a rate, not an array", rate),
            (
                "requests = [\"5/s\", ▲5]",
                "`requests` must be a rate, not an integer",
                "write how long: \"5/min\"",
            ),
            ("requests = ▲\"500\"", "`500` is not a rate", "write how long: `500/min`"),
            (
                "requests = ▲\"0/min\"",
                "a rate of 0 lets nothing pass",
                "use at least 1, or remove the line for no limit",
            ),
            ("requests = ▲\"x/min\"", "`x` is not a number", rate),
            ("requests = ▲\"5/500us\"", "a window of 500us is out of range", "use 1ms to 31d"),
            ("requests = ▲\"5/32d\"", "a window of 32d is out of range", "use 1ms to 31d"),
            ("requests = ▲{ burst = 5 }", "`requests` has no `limit`", "add limit = \"500/min\""),
            ("requests = { limit = ▲5 }", "`limit` must be a rate, not an integer", rate),
            (
                "requests = { limit = \"5/s\", algorithm = ▲\"leaky-bucket\" }",
                "unknown algorithm `leaky-bucket`",
                "use one of sliding-window, token-bucket, fixed-window",
            ),
            (
                "requests = { limit = \"5/s\", algorithm = ▲\"tokenbucket\" }",
                "unknown algorithm `tokenbucket`",
                "did you mean `token-bucket`?",
            ),
            ("concurrency = ▲\"5/s\"", "unknown suffix `/s` in `5/s`", "use one of k, M, G, or none"),
            (
                "concurrency = ▲1.5",
                "`concurrency` must be a whole number, not a float",
                "write it like 100 or \"10k\"",
            ),
            ("concurrency = ▲-1", "`concurrency` must not be negative", "write it like 100 or \"10k\""),
            ("byte_budget = ▲\"5XB\"", "unknown suffix `XB` in `5XB`", "did you mean `B`?"),
            ("concurrency = ▲99999999999999999999", "`99999999999999999999` is too large: at most 2^63", ""),
        ],
    );
    assert_errors(
        "",
        &[("global = ▲5", "`global` must be a table, not an integer", "write [global], with its keys below")],
    );
}

#[test]
fn zero_limits_are_refused() {
    let hint = "use at least 1, or remove the line for no limit";
    assert_errors(
        "[global]\n",
        &[
            ("concurrency = ▲0", "a concurrency of 0 lets nothing pass", hint),
            ("throttled_concurrency = ▲0", "a throttled_concurrency of 0 lets nothing pass", hint),
            ("byte_budget = ▲\"0MB\"", "a byte_budget of 0 lets nothing pass", hint),
            (
                "tokens = { limit = \"5/s\", burst = ▲0 }",
                "a burst of 0 lets nothing pass",
                "use at least 1, or remove it for the default",
            ),
        ],
    );
}

#[test]
fn limits_that_contradict_each_other_are_refused() {
    assert_errors(
        "[services.s]\n",
        &[
            (
                "throttled_concurrency = ▲11\nconcurrency = 10",
                "throttled_concurrency 11 is above concurrency 10",
                "use at most 10",
            ),
            (
                "requests = [\"9/s\", { limit = \"500/min\", burst = ▲501 }]",
                "a burst of 501 is above the limit of 500 per 1m",
                "use at most 500, or algorithm = \"token-bucket\"",
            ),
            (
                "requests = { limit = \"500/min\", burst = ▲\"1k\", algorithm = \"sliding-window\" }",
                "a burst of 1k is above the limit of 500 per 1m",
                "use at most 500, or algorithm = \"token-bucket\"",
            ),
            (
                "preset = \"openai\"\nusd = { limit = \"0.5/h\", burst = ▲0.75, algorithm = \"fixed-window\" }",
                "a burst of 0.75 is above the limit of 0.5 per 1h",
                "use at most 0.5, or algorithm = \"token-bucket\"",
            ),
            (
                "preset = \"openai\"\nrequests = { limit = \"5/day@UTC\", burst = ▲6 }",
                "a burst of 6 is above the limit of 5 per 1d",
                "use at most 5",
            ),
            (
                "requests = [\"5/min\", \"6/h\", ▲\"7/60s\"]",
                "a second limit on requests per 1m",
                "keep the lower one",
            ),
            (
                "requests = [\"5/day\", ▲\"6/day@UTC\"]",
                "a second limit on requests per 1d",
                "keep the lower one",
            ),
            (
                "models.\"a.b\".credits = [\"5/s\", ▲{ limit = \"6/s\" }]",
                "a second limit on credits per 1s",
                "keep the lower one",
            ),
        ],
    );
}

#[test]
fn calendars_take_known_zones_and_whole_days_hours_or_minutes() {
    let algorithm = "use \"fixed-window\", or leave the algorithm away";
    let windows = "use `/day@UTC`, `/h@UTC` or `/min@UTC`, or leave the zone away";
    assert_errors(
        "[global]\n",
        &[
            (
                "requests = ▲\"5/day@Europe/Berln\"",
                "unknown time zone `Europe/Berln`",
                "did you mean `Europe/Berlin`?",
            ),
            ("requests = ▲\"5/2h@UTC\"", "a window of 2h has no place in a calendar", windows),
            ("requests = ▲\"5/7d@UTC\"", "a window of 7d has no place in a calendar", windows),
            ("requests = ▲\"5/s@UTC\"", "a window of 1s has no place in a calendar", windows),
            (
                "requests = { limit = \"5/day@UTC\", algorithm = ▲\"token-bucket\" }",
                "a token-bucket cannot follow a calendar",
                algorithm,
            ),
            (
                "requests = [{ limit = \"5/day@UTC\", algorithm = ▲\"sliding-window\" }]",
                "a sliding-window cannot follow a calendar",
                algorithm,
            ),
        ],
    );
}

#[test]
fn reserves_leave_something_for_everyone() {
    assert_errors(
        "[global]\n",
        &[
            ("reserve = { high = ▲1.0 }", "a reserve of 1 is not from 0 to below 1", "write 10 % as 0.1"),
            ("reserve = { high = ▲10 }", "a reserve of 10 is not from 0 to below 1", "write 10 % as 0.1"),
            ("reserve = { high = ▲-0.1 }", "a reserve of -0.1 is not from 0 to below 1", "write 10 % as 0.1"),
            ("reserve = { low = ▲nan }", "a reserve of NaN is not from 0 to below 1", "write 10 % as 0.1"),
            (
                "▲reserve = { high = 0.5, critical = 0.5 }",
                "reserves of 1 in all leave nothing for anyone else",
                "keep their sum below 1",
            ),
            ("reserve = { ▲hihg = 0.1 }", "unknown priority `hihg` in a reserve", "did you mean `high`?"),
            (
                "reserve = { ▲urgent = 0.1 }",
                "unknown priority `urgent` in a reserve",
                "use one of low, normal, high, critical",
            ),
            (
                "reserve = ▲0.1",
                "`reserve` must be a table, not a float",
                "write [global.reserve], with its keys below",
            ),
            ("reserve = { high = ▲\"a\" }", "`a` is not a number", "write it like 0.1"),
            (
                "tokens = [\"5/h\", { limit = \"5/s\", reserve = { low = 0.1, high = ▲2 } }]",
                "a reserve of 2 is not from 0 to below 1",
                "write 10 % as 0.1",
            ),
            (
                "tokens = [{ limit = \"5/s\", ▲reserve = { low = 0.5, high = 0.5 } }]",
                "reserves of 1 in all leave nothing for anyone else",
                "keep their sum below 1",
            ),
        ],
    );
}

#[test]
fn a_problem_of_one_rate_stands_at_it_even_after_a_rate_that_was_unreadable() {
    let (text, marks) = unmark(
        "[global]\ntokens = [{ limit = ▲\"x\", reserve = { high = 0.1 } }, \
         { limit = \"5/s\", reserve = { high = ▲2 } }, \"1/h\"]",
    );
    let places: Vec<_> = errors_of(&text, &|_| None).iter().map(|error| (error.line, error.column)).collect();
    assert_eq!(places, marks);
}

#[test]
fn services_have_names_that_can_stand_in_a_url() {
    let url = "use letters, digits, `-` and `_`";
    for name in ["v1", "metrics", "healthz", "readyz"] {
        let message = format!("a service cannot be named `{name}`: the sidecar answers there itself");
        assert_errors("", &[(&format!("[services.▲{name}]"), &message, "use another name")]);
    }
    assert_errors(
        "",
        &[
            ("[services.▲\"a~b\"]", "the service name `a~b` cannot stand in a URL", url),
            ("[services.▲\"a/b\"]", "the service name `a/b` cannot stand in a URL", url),
            ("[services.▲\"a b\"]", "the service name `a b` cannot stand in a URL", url),
            ("[services.▲\"\"]", "a service must have a name", "name it after its API, such as `openai`"),
            (
                "[services]\nx = ▲5",
                "`x` must be a table, not an integer",
                "write [services.x], with its keys below",
            ),
            (
                "▲[[services]]",
                "`services` must be a table, not an array",
                "write [services], with its keys below",
            ),
        ],
    );
}

#[test]
fn patterns_that_match_nothing_are_refused() {
    let endpoint = "write a method and a path, such as `POST /v1/embeddings` or `* /v1/files/*`";
    let model = "write a model's name, with `*` for anything, such as `gpt-4o*`";
    assert_errors(
        "[services.s]\n",
        &[
            (
                "endpoints.▲\"/v1/x\" = {}",
                "`/v1/x` is not an endpoint pattern",
                "name the method too: `* /v1/x`",
            ),
            (
                "endpoints.▲\"post /x\" = {}",
                "`post /x` is not an endpoint pattern",
                "did you mean `POST /x`?",
            ),
            ("endpoints.▲\"POST\" = {}", "`POST` is not an endpoint pattern", endpoint),
            ("endpoints.▲\"POST x\" = {}", "`POST x` is not an endpoint pattern", endpoint),
            ("endpoints.▲\"POST  /x\" = {}", "`POST  /x` is not an endpoint pattern", endpoint),
            ("endpoints.▲\"P*T /x\" = {}", "`P*T /x` is not an endpoint pattern", endpoint),
            ("endpoints.▲\" /x\" = {}", "` /x` is not an endpoint pattern", endpoint),
            ("endpoints.▲\"GET /x?y=1\" = {}", "`GET /x?y=1` is not an endpoint pattern", endpoint),
            (
                "endpoints = { ▲\"GET /x\" = {}, \"GET /%78/\" = {} }",
                "`GET /x` is the same endpoint as `GET /%78/`",
                "keep one of the two",
            ),
            ("endpoints.▲\"\" = {}", "`` is not an endpoint pattern", endpoint),
            ("models.▲\"\" = {}", "`` is not a model pattern", model),
            ("models.▲\"gpt 4\" = {}", "`gpt 4` is not a model pattern", model),
        ],
    );
}

#[test]
fn the_rules_of_a_service_are_kept_in_range() {
    let time = "use a time such as \"30s\"";
    let duration = "write it like \"250ms\", \"30s\" or \"2h\"";
    assert_errors(
        "[services.s]\n",
        &[
            ("preset = ▲\"opnai\"", "unknown preset `opnai`", "did you mean `openai`?"),
            ("mode = ▲\"observed\"", "unknown mode `observed`", "did you mean `observe`?"),
            ("mode = ▲\"x\"", "unknown mode `x`", "use one of enforce, observe"),
            ("headers = ▲\"ignored\"", "unknown headers `ignored`", "did you mean `ignore`?"),
            ("settle = ▲\"refunds\"", "unknown settle `refunds`", "did you mean `refund`?"),
            ("per_key = ▲\"yes\"", "`per_key` must be a boolean, not a string", "write true or false"),
            ("preset = ▲5", "`preset` must be a string, not an integer", "put it in quotes"),
            ("retry.jitter = ▲1.1", "a share of 1.1 is not between 0 and 1", "write 10 % as 0.1"),
            ("retry.jitter = ▲-0.1", "a share of -0.1 is not between 0 and 1", "write 10 % as 0.1"),
            ("retry.budget = ▲inf", "a budget of inf is not a share of the calls", "write 20 % as 0.2"),
            ("retry.max_retries = ▲4294967296", "4294967296 is too large: at most 4294967295", ""),
            (
                "retry = { initial = ▲\"2m\", max = \"60s\" }",
                "the first delay, 120s, is above the longest, 60s",
                "lower `initial` or raise `max`",
            ),
            (
                "retry.initial = ▲5",
                "`initial` must be a duration, not an integer",
                "write the unit: \"5s\" or \"5ms\"",
            ),
            ("retry.initial = ▲1.5", "`initial` must be a duration, not a float", duration),
            (
                "retry.initial = ▲\"5 parsecs\"",
                "unknown unit of time `parsecs` in `5 parsecs`",
                "use one of ms, s, min, h, day",
            ),
            ("retry.initial = ▲0", "a first delay of 0 never grows", time),
            ("retry.max = ▲\"0s\"", "a longest delay of 0 retries without a pause", time),
            (
                "retry.backoff = ▲\"exponentially\"",
                "unknown backoff `exponentially`",
                "did you mean `exponential`?",
            ),
            (
                "retry.jitter_kind = ▲\"gauss\"",
                "unknown jitter_kind `gauss`",
                "use one of symmetric, factor, additive, full",
            ),
            (
                "retry = { jitter_kind = \"full\", jitter = ▲0.1 }",
                "full jitter has no share",
                "remove `jitter`, or use another `jitter_kind`",
            ),
            (
                "retry = { backoff = \"decorrelated\", jitter = ▲0.1 }",
                "a decorrelated backoff is a spread of its own",
                "remove `jitter`",
            ),
            (
                "retry.max_elapsed = ▲0",
                "no time at all allows no retry",
                "write max_retries = 0 for no retry",
            ),
            ("breaker.failure_rate = ▲0", "a share of 0 is not above 0 and at most 1", "write 50 % as 0.5"),
            (
                "breaker.slow_rate = ▲0.5",
                "it is not said how long a slow call takes",
                "add `slow_after`, such as \"30s\"",
            ),
            (
                "breaker.slow_after = ▲\"5s\"",
                "it is not said what share of slow calls is too many",
                "add `slow_rate`, such as 0.5",
            ),
            ("breaker = { slow_rate = 0.5, slow_after = ▲0 }", "with a time of 0 every call is slow", time),
            ("breaker.window = ▲0", "in no time at all no calls can be counted", time),
            ("breaker.min_calls = ▲0", "of 0 calls no share can be told", "use at least 1"),
            (
                "breaker.max_open = ▲\"5s\"",
                "the longest time, 5s, is below the first, 30s",
                "raise `max_open` or lower `open_for`",
            ),
            ("breaker.probes = ▲0", "without a probe it never closes", "use at least 1"),
            (
                "backoff.byte_penalty_multiplier = ▲0",
                "a multiplier of 0 would make bytes free when they should be dear",
                "use at least 1",
            ),
            ("backoff.byte_penalty_multiplier = ▲65536", "65536 is too large: at most 65535", ""),
            (
                "breaker.count_rate_limits = ▲1",
                "`count_rate_limits` must be a boolean, not an integer",
                "write true or false",
            ),
            ("breaker.failures = ▲0", "a breaker that opens after 0 failures never closes", "use at least 1"),
            ("breaker.open_for = ▲0", "a breaker that stays open for no time holds nothing back", time),
            ("queue.aging = ▲\"0s\"", "with an aging of 0 every call would outrank every other", time),
            ("queue.aging_share = ▲1.5", "a share of 1.5 is not between 0 and 1", "write 10 % as 0.1"),
            ("queue.aging_share = ▲nan", "a share of NaN is not between 0 and 1", "write 10 % as 0.1"),
            ("queue.max_waiting = ▲-1", "`max_waiting` must not be negative", "write it like 100 or \"10k\""),
        ],
    );
}

#[test]
fn loop_types_have_a_known_priority_and_a_weight_above_zero() {
    let weight = "use a number above 0, such as 4";
    assert_errors(
        "[loop_types.code]\n",
        &[
            ("priority = ▲\"hgih\"", "unknown priority `hgih`", "did you mean `high`?"),
            ("priority = ▲\"urgent\"", "unknown priority `urgent`", "use one of low, normal, high, critical"),
            ("priority = ▲\"High\"", "unknown priority `High`", "did you mean `high`?"),
            ("weight = ▲0", "a weight of 0 shares nothing out", weight),
            ("weight = ▲-1", "a weight of -1 shares nothing out", weight),
            ("weight = ▲nan", "a weight of NaN shares nothing out", weight),
            ("weight = ▲inf", "a weight of inf shares nothing out", weight),
            ("weight = ▲1e999", "a weight of inf shares nothing out", weight),
            ("weight = ▲true", "`weight` must be a number, not a boolean", "write it like 0.1"),
        ],
    );
    assert_errors("", &[("[loop_types.▲\"\"]", "a loop type must have a name", "")]);
}

#[test]
fn addresses_are_checked_and_never_repeated() {
    let listen = ("this is not an address to listen on", "write a host and a port, such as `127.0.0.1:8429`");
    for address in [
        "",
        "localhost",
        ":80",
        "host:",
        "host:99999",
        "host:+80",
        "::1:80",
        "[]:80",
        "a b:80",
        "http://x:80",
    ] {
        assert_errors("", &[(&format!("listen = ▲\"{address}\""), listen.0, listen.1)]);
    }
    let http = ("this is not an http:// or https:// URL", "write it like `https://api.example.com`");
    for url in [
        "",
        "api.example.com",
        "ftp://x",
        "http://",
        "http:///path",
        "http://:80",
        "http://user@",
        "http://a b",
    ] {
        assert_errors("[services.s]\n", &[(&format!("upstream = ▲\"{url}\""), http.0, http.1)]);
        assert_errors("[alerts]\n", &[(&format!("webhook = ▲\"{url}\""), http.0, http.1)]);
    }
    assert_errors(
        "[services.s]\n",
        &[(
            "api_key_env = ▲\"sk-12345\"",
            "this is not the name of an environment variable",
            "name the variable that holds the key, such as `OPENAI_API_KEY`",
        )],
    );
}

#[test]
fn redis_is_refused_until_it_is_supported() {
    let hint = "remove `redis`: each machine then has limits of its own, to be written as its share";
    let unsupported = "Redis is not supported yet: every machine would have the whole quota to itself";
    for text in [
        "redis = ▲\"redis://x\"",
        "path = \"y\"\nredis = ▲\"rediss://u:p@x:1\"",
        "redis = ▲\"unix:///run/r\"",
    ] {
        assert_errors("[state]\n", &[(text, unsupported, hint)]);
    }
    let wrong = "this is not the URL of a Redis, and Redis is not supported yet";
    for url in ["", "127.0.0.1:6379", "http://x", "redis://", "unix://relative"] {
        assert_errors("[state]\n", &[(&format!("redis = ▲\"{url}\""), wrong, hint)]);
    }
    let mut built = Config::default();
    built.state.redis = Some("redis://127.0.0.1:6379".into());
    assert_eq!(built.validate().unwrap_err()[0].path, "state.redis", "built in Rust it is refused as well");
}

#[test]
fn the_folder_of_the_state_file_has_a_name() {
    assert_errors("[state]\n", &[("path = ▲\"\"", "the folder of the state file is empty", "name a folder")]);
}

#[test]
fn alerts_come_at_a_share_of_the_limit() {
    for (written, shown) in [("0", "0"), ("80", "80"), ("1.01", "1.01"), ("nan", "NaN"), ("-0.5", "-0.5")] {
        let message = format!("a share of {shown} is not above 0 and at most 1");
        assert_errors("[alerts]\n", &[(&format!("approaching = ▲{written}"), &message, "write 80 % as 0.8")]);
    }
}

#[test]
fn a_variable_that_cannot_be_read_is_named() {
    assert_errors(
        "",
        &[
            (
                "listen = ▲\"${LISTEN}\"",
                "the environment variable `LISTEN` is not set",
                "set it, or write `$${` for a plain `${`",
            ),
            (
                "[global]\nrequests = [\"5/s\", ▲\"${N}/min\"]",
                "the environment variable `N` is not set",
                "set it, or write `$${` for a plain `${`",
            ),
            (
                "listen = ▲\"${LISTEN\"",
                "`${` without its `}`",
                "close it with `}`, or write `$${` for a plain `${`",
            ),
            (
                "listen = ▲\"${A-B}\"",
                "`A-B` is not the name of an environment variable",
                "write `${NAME}`, with letters, digits and `_`, or `$${` for a plain `${`",
            ),
        ],
    );
}

#[test]
fn what_a_variable_held_is_never_repeated() {
    let secret = "hunter2";
    let text = "listen = \"${S}\"\n[state]\nredis = \"${S}\"\n[global]\nrequests = \"${S}\"\ntokens = \"5/day@${S}\"\n\
                concurrency = \"${S}\"\nbyte_budget = \"${S}\"\nreserve = { high = \"${S}\" }\n\
                usd = { limit = \"1/s\", burst = \"${S}\", algorithm = \"${S}\" }\n[services.s]\npreset = \"${S}\"\n\
                upstream = \"${S}\"\nmode = \"${S}\"\nqueue = { timeout = \"${S}\" }\n[loop_types.t]\npriority = \"${S}\"\n\
                [alerts]\nwebhook = \"${S}\"";
    let errors = errors_of(text, &|_| Some(secret.into()));
    assert_eq!(errors.len(), text.matches("${S}").count(), "{errors}");
    assert!(!errors.to_string().contains(secret), "{errors}");
    let preset = errors.iter().find(|error| error.message.contains("preset"));
    assert_eq!(preset.map(|error| error.message.as_str()), Some("unknown preset `${S}`"));
    assert!(errors.iter().any(|error| error.message == "`${S}` does not expand to a rate"), "{errors}");
}

#[test]
fn what_is_wrong_with_tokens_is_told_and_none_is_repeated() {
    let hash = "0".repeat(64);
    for (text, words) in [
        ("[auth.tokens.ci]\nsha256 = ▲\"hunter2\"\n".to_owned(), "this is not a SHA-256"),
        ("[auth.tokens]\nci = ▲{}\n".to_owned(), "auth.tokens.ci has no `sha256`"),
        (
            format!("[auth.tokens.ci]\nsha256 = \"{hash}\"\npriorities = [▲\"urgent\"]\n"),
            "unknown priorities `urgent`",
        ),
        (format!("[auth.tokens.ci]\nsha256 = \"{hash}\"\npriorities = ▲[]\n"), "no priority is allowed"),
        (
            format!("[auth.tokens.ci]\nsha256 = \"{hash}\"\nservices = ▲[\"opnai\"]\n"),
            "no service named `opnai`",
        ),
        (
            format!("[auth.tokens.a]\nsha256 = \"{hash}\"\n[auth.tokens.b]\nsha256 = ▲\"{hash}\"\n"),
            "another token has the same hash",
        ),
        ("[auth]\n▲token = 1\n".to_owned(), "unknown key `token` in [auth]"),
        ("permit_lease = ▲\"0s\"\n".to_owned(), "ends before the work begins"),
        ("listen_unix = ▲\"\"\n".to_owned(), "the path of the socket is empty"),
    ] {
        let (text, marks) = unmark(&text);
        let errors = errors_of(&text, &|_| None);
        assert_eq!((errors[0].line, errors[0].column), (marks[0].0, marks[0].1), "{text}{errors}");
        let said = errors.to_string();
        assert!(said.contains(words) && !said.contains("hunter2"), "{said}");
    }
}
