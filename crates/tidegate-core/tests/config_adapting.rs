//! What the config says of a concurrency that adapts, and of beginning slowly after a rest.

mod marks;

use std::time::Duration;

use tidegate_core::Config;
use tidegate_core::config::{Adaptation, AdaptiveConfig, RampConfig, ServiceConfig};

use marks::assert_errors;

fn service(keys: &str) -> ServiceConfig {
    let text = format!("[services.s]\n{keys}");
    let mut config =
        Config::parse(&text, "tidegate.toml").unwrap_or_else(|errors| panic!("{text}\n{errors}"));
    config.services.remove("s").expect("it was written")
}

#[test]
fn a_concurrency_adapts_up_to_its_most() {
    let limits = service("concurrency = { adaptive = \"gradient\", max = 100 }").limits;
    assert_eq!(limits.concurrency, Some(100));
    assert_eq!(limits.adaptive, Some(AdaptiveConfig { by: Adaptation::Gradient, min: 1, latency: None }));
    let keys = "models.\"a*\".concurrency = { adaptive = \"aimd\", min = 5, max = 50, latency = \"2s\" }";
    let latency = Some(Duration::from_secs(2));
    let adaptive = service(keys).models["a*"].adaptive.clone();
    assert_eq!(adaptive, Some(AdaptiveConfig { by: Adaptation::Aimd, min: 5, latency }));
    assert_eq!(service("concurrency = 5").limits.adaptive, None);
}

#[test]
fn what_cannot_adapt_is_told_with_a_hint() {
    assert_errors(
        "[services.s]\n",
        &[
            (
                "concurrency = ▲{ max = 5 }",
                "a concurrency that adapts needs `adaptive`",
                "add adaptive = \"gradient\"",
            ),
            (
                "concurrency = ▲{ adaptive = \"aimd\" }",
                "a concurrency that adapts needs `max`",
                "add max = 100",
            ),
            (
                "concurrency = { adaptive = ▲\"gradent\", max = 5 }",
                "unknown adaptive `gradent`",
                "did you mean `gradient`?",
            ),
            (
                "concurrency = { adaptive = \"aimd\", max = 5, ▲mim = 1 }",
                "unknown key `mim` in [services.s.concurrency]",
                "did you mean `min`?",
            ),
            (
                "concurrency = { adaptive = \"aimd\", max = 5, min = ▲6 }",
                "the least, 6, is above the most, 5",
                "use at most 5",
            ),
            (
                "concurrency = { adaptive = \"aimd\", max = 5, min = ▲0 }",
                "a least of 0 lets nothing pass",
                "use at least 1",
            ),
            (
                "concurrency = { adaptive = \"gradient\", max = 5, latency = ▲\"1s\" }",
                "a gradient finds out itself how long replies take",
                "remove `latency`, or use adaptive = \"aimd\"",
            ),
        ],
    );
    assert_errors(
        "",
        &[(
            "[global]\n▲concurrency = { adaptive = \"gradient\", max = 5 }",
            "what adapts follows one upstream",
            "write a number here, and let the concurrency of services, endpoints or models adapt",
        )],
    );
}

#[test]
fn a_ramp_is_written_or_the_presets_and_what_is_written_counts() {
    assert_eq!(service("requests = \"5/s\"").ramp, None);
    let ramp = service("ramp = { idle = \"1m\", from = 0.25, over = \"30s\" }").ramp.expect("written");
    assert_eq!((ramp.idle, ramp.from, ramp.over), (Duration::from_secs(60), 0.25, Duration::from_secs(30)));
    assert_eq!(service("ramp = {}").ramp, Some(RampConfig::default()));
    let preset = service("preset = \"anthropic\"").ramp.expect("the vendor turns sharp growth away");
    let lower = service("preset = \"anthropic\"\nramp = { from = 0.1 }").ramp.expect("there");
    assert_eq!((lower.idle, lower.from, lower.over), (preset.idle, 0.1, preset.over));
}

#[test]
fn a_ramp_that_is_none_is_told_with_a_hint() {
    assert_errors(
        "[services.s]\n",
        &[
            (
                "ramp = { from = ▲0 }",
                "a share of 0 is not above 0 and at most 1",
                "write half of the pace as 0.5, and no ramp as 1",
            ),
            (
                "ramp = { idle = ▲\"0s\" }",
                "a ramp with an `idle` of 0 is none",
                "use a time such as \"1m\", or write from = 1",
            ),
            ("ramp = { ▲form = 0.5 }", "unknown key `form` in [services.s.ramp]", "did you mean `from`?"),
        ],
    );
}
