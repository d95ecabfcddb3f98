//! Services that start from a preset: what is the preset's, what is the user's, and what is wrong.

mod marks;

use std::time::Duration;

use marks::assert_errors;
use tidegate_core::config::presets;
use tidegate_core::config::units::WrittenRate;
use tidegate_core::config::{Limits, Origin, RateLimit, ServiceConfig, SettleRule};
use tidegate_core::{Algorithm, Config};

fn service(keys: &str) -> ServiceConfig {
    let text = format!("[services.s]\n{keys}");
    let mut config =
        Config::parse(&text, "tidegate.toml").unwrap_or_else(|errors| panic!("{text}\n{errors}"));
    config.services.remove("s").expect("it was written")
}

/// A level's limits in short: `requests 500/min token-bucket burst 9 *`, with `*` for the preset's.
fn shown(limits: &Limits) -> Vec<String> {
    let star = |origin| if origin == Origin::Preset { " *" } else { "" };
    let rate = |limit: &RateLimit| {
        let algorithm = limit.algorithm.map_or(String::new(), |algorithm| format!(" {}", algorithm.name()));
        let burst = limit.burst.map_or(String::new(), |burst| format!(" burst {burst}"));
        let rate = WrittenRate::from(limit);
        format!("{} {rate}{algorithm}{burst}{}", limit.dimension, star(limit.origin))
    };
    let in_flight = limits.concurrency.map(|n| format!("concurrency {n}{}", star(limits.concurrency_origin)));
    limits.rates.iter().map(rate).chain(in_flight).collect()
}

#[test]
fn a_preset_and_its_tier_are_where_a_service_starts() {
    let openai = presets::by_name("openai").unwrap();
    for tier in openai.tiers {
        let keys = format!("preset = \"openai\"\ntier = \"{}\"", tier.name);
        assert_eq!(service(&keys), openai.service(Some(tier)), "{keys}");
    }
    let first = service("tier = \"Tier-1\"\npreset = \"openai\"");
    assert_eq!(first.tier.as_deref(), Some("tier-1"), "in any order and case, and kept as the table has it");
    assert_eq!(first.upstream.as_deref(), Some("https://api.openai.com"));
    assert_eq!(first.settle, SettleRule::Keep);
    assert_eq!(
        shown(&first.models["gpt-4o*"]),
        ["requests 500/min token-bucket *", "tokens 30k/min token-bucket *"]
    );
}

#[test]
fn a_service_called_as_a_preset_is_that_preset_unless_it_says_otherwise() {
    let named = |text: &str| {
        let config = Config::parse(text, "tidegate.toml").unwrap_or_else(|errors| panic!("{text}\n{errors}"));
        config.services.into_values().next().expect("there is one")
    };
    for keys in
        ["", "requests = \"5/min\"\n", "tier = \"tier-2\"\n", "upstream = \"http://127.0.0.1:9000\"\n"]
    {
        let implied = named(&format!("[services.openai]\n{keys}"));
        assert_eq!(implied, named(&format!("[services.openai]\npreset = \"openai\"\n{keys}")), "{keys}");
    }
    let gateway = named("[services.openai]\nupstream = \"http://127.0.0.1:9000\"\n");
    assert_eq!(gateway.upstream.as_deref(), Some("http://127.0.0.1:9000"), "a key overrides the preset's");
    assert_eq!(gateway.preset.as_deref(), Some("openai"), "and only that key");

    let other = named("[services.openai]\npreset = \"groq\"\n");
    assert_eq!(
        (other.preset.as_deref(), other.upstream.as_deref()),
        (Some("groq"), Some("https://api.groq.com"))
    );
    let none = named("[services.openai]\npreset = \"none\"\nrequests = \"5/min\"\n");
    let plain = named("[services.s]\nrequests = \"5/min\"\n");
    assert_eq!(none, plain);
    assert_eq!(
        named("[services.docker]\n"),
        ServiceConfig::default(),
        "a vendor's other name is a plain word"
    );
    assert_errors(
        "[services.openai]\n",
        &[(
            "preset = \"none\"\ntier = ▲\"tier-1\"",
            "a tier is one of a preset's",
            "add `preset`, or remove `tier`",
        )],
    );
}

#[test]
fn without_a_tier_only_what_every_tier_has_applies() {
    let none: [&str; 0] = [];
    for (preset, expected) in [
        ("openai", &none[..]),
        ("gemini", &none),
        ("github", &["concurrency 100 *"]),
        ("discord", &["requests 50/s *"]),
    ] {
        let service = service(&format!("preset = \"{preset}\""));
        assert_eq!(shown(&service.limits), expected, "{preset}");
        assert_eq!(service.tier, None);
    }
}

#[test]
fn a_written_dimension_takes_the_place_of_all_the_presets_limits_on_it() {
    let groq = "preset = \"groq\"\ntier = \"free\"\n";
    let tokens = ["tokens 8k/min token-bucket *", "tokens 200k/day token-bucket *"];
    for (keys, expected) in [
        ("", &["requests 1k/day token-bucket *", "requests 30/min token-bucket *", tokens[0], tokens[1]][..]),
        ("requests = \"10/h\"", &["requests 10/h", tokens[0], tokens[1]]),
        ("tokens = [\"1k/s\"]\nrequests = \"5/s\"", &["tokens 1k/s", "requests 5/s"]),
        (
            "credits = \"7/day\"\ntokens = \"1/s\"\nconcurrency = 3",
            &[
                "credits 7/day",
                "tokens 1/s",
                "requests 1k/day token-bucket *",
                "requests 30/min token-bucket *",
                "concurrency 3",
            ],
        ),
    ] {
        assert_eq!(shown(&service(&format!("{groq}{keys}")).limits), expected, "{keys}");
    }
    let github = service("preset = \"github\"\ntier = \"user\"\nconcurrency = 5");
    assert_eq!(shown(&github.limits), ["requests 5k/h fixed-window *", "concurrency 5"]);
}

#[test]
fn levels_do_not_touch_each_other() {
    let openai = service(
        "preset = \"openai\"\ntier = \"tier-1\"\nrequests = \"100/min\"\nmodels.\"gpt-4o*\".tokens = \"1k/min\"\n\
         models.\"gpt-4o*\".concurrency = 2\nmodels.\"o3\".requests = \"5/min\"\nendpoints.\"GET /\".requests = \"1/s\"",
    );
    assert_eq!(shown(&openai.limits), ["requests 100/min"]);
    assert_eq!(
        shown(&openai.models["gpt-4o*"]),
        ["tokens 1k/min token-bucket", "requests 500/min token-bucket *", "concurrency 2"]
    );
    assert_eq!(shown(&openai.models["gpt-4.1*"]).len(), 2);
    assert_eq!(shown(&openai.models["o3"]), ["requests 5/min"]);
    assert_eq!(shown(&openai.endpoints["GET /"]), ["requests 1/s"]);
}

#[test]
fn a_plain_rate_counts_as_the_limit_it_replaces() {
    for (keys, expected) in [
        ("preset = \"shopify\"\ntier = \"basic\"\nrequests = \"1/s\"", "requests 1/s token-bucket burst 40"),
        (
            "preset = \"shopify\"\ntier = \"basic\"\nrequests = { limit = \"4/s\", burst = 9 }",
            "requests 4/s token-bucket burst 9",
        ),
        ("preset = \"shopify\"\ntier = \"basic\"\nrequests = \"60/min\"", "requests 60/min"),
        (
            "preset = \"shopify\"\ntier = \"basic\"\nrequests = { limit = \"4/s\", algorithm = \"sliding-window\" }",
            "requests 4/s sliding-window",
        ),
        ("preset = \"github\"\ntier = \"user\"\nrequests = \"9/h\"", "requests 9/h fixed-window"),
        (
            "preset = \"gemini\"\ntier = \"free\"\nrequests = \"9/day\"",
            "requests 9/day@America/Los_Angeles fixed-window",
        ),
        ("preset = \"gemini\"\ntier = \"free\"\nrequests = \"9/day@UTC\"", "requests 9/day@UTC fixed-window"),
        ("preset = \"shopify\"\nrequests = \"4/s\"", "requests 4/s"),
    ] {
        assert_eq!(shown(&service(keys).limits)[0], expected, "{keys}");
    }
}

#[test]
fn a_burst_is_judged_by_what_the_preset_makes_of_its_limit() {
    let bucket = service("preset = \"groq\"\ntier = \"free\"\nrequests = { limit = \"5/min\", burst = 50 }");
    assert_eq!(bucket.limits.rates[0].algorithm, Some(Algorithm::TokenBucket));
    assert_eq!(bucket.limits.rates[0].burst, Some(50));

    let hint = "use at most 5, or algorithm = \"token-bucket\"";
    assert_errors(
        "[services.s]\n",
        &[
            (
                "preset = \"openai\"\nrequests = { limit = \"5/min\", burst = ▲50 }",
                "a burst of 50 is above the limit of 5 per 1m",
                hint,
            ),
            (
                "requests = { limit = \"5/h\", burst = ▲50 }\npreset = \"github\"\ntier = \"user\"",
                "a burst of 50 is above the limit of 5 per 1h",
                hint,
            ),
            (
                "preset = \"groq\"\ntier = \"free\"\nrequests = { limit = \"5/s\", burst = ▲50 }",
                "a burst of 50 is above the limit of 5 per 1s",
                hint,
            ),
        ],
    );
}

#[test]
fn every_other_key_overrides_the_presets() {
    let set = service(
        "preset = \"openai\"\nupstream = \"http://127.0.0.1:9\"\nsettle = \"refund\"\nper_key = true\n\
         retry = { max_retries = 2 }\nbreaker = {}\nqueue = { timeout = \"5s\" }",
    );
    assert_eq!(set.upstream.as_deref(), Some("http://127.0.0.1:9"));
    assert_eq!((set.settle, set.per_key), (SettleRule::Refund, true));
    assert_eq!((set.retry.max_retries, set.retry.initial), (Some(2), None));
    assert_eq!(set.queue.timeout, Some(Duration::from_secs(5)));
    assert!(set.breaker.is_some());
}

#[test]
fn names_that_are_not_known_say_which_are() {
    assert_errors(
        "[services.s]\n",
        &[
            ("preset = ▲\"opnai\"", "unknown preset `opnai`", "did you mean `openai`?"),
            ("preset = ▲\"fireworsk\"", "unknown preset `fireworsk`", "did you mean `fireworks`?"),
            ("preset = ▲\"opnai\"\ntier = \"tier-1\"", "unknown preset `opnai`", "did you mean `openai`?"),
            (
                "preset = \"openai\"\ntier = ▲\"free\"",
                "unknown tier `free` of the preset `openai`",
                "use one of tier-1, tier-2, tier-3, tier-4, tier-5",
            ),
            (
                "tier = ▲\"tier-1\"\npreset = \"azure-openai\"",
                "the preset `azure-openai` knows no tiers",
                "remove `tier`, and write the limits themselves",
            ),
            ("tier = ▲\"tier-1\"", "a tier is one of a preset's", "add `preset`, or remove `tier`"),
            ("preset = \"openai\"\ntier = ▲1", "`tier` must be a string, not an integer", "put it in quotes"),
            (
                "preset = \"github\"\nthrottled_concurrency = ▲101",
                "throttled_concurrency 101 is above the preset's concurrency 100",
                "use at most 100",
            ),
        ],
    );
    assert_errors(
        "",
        &[(
            "[global]\n▲tier = \"x\"",
            "unknown key `tier` in [global]",
            "`tier` belongs in [services.<name>]",
        )],
    );
}
