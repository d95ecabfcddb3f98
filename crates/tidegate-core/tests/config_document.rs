//! Values that are put over a file's, and the section that is read beside the config.

use tidegate_core::Config;
use tidegate_core::config::Document;

const TEXT: &str = r#"[services.api]
requests = ["60/min", "500/h"]
queue.aging = "30s"

[simulation]
duration = "10m"
workload = [{ loops = 1 }, { loops = 2 }]
"#;

fn document() -> Document<'static> {
    Document::new(TEXT, "t.toml", &|_| None)
}

fn errors(document: Document<'_>) -> String {
    document.config().expect_err("it is wrong").to_string()
}

#[test]
fn a_value_put_over_the_file_replaces_what_it_says_and_only_that() {
    let config = document().set("services.api.queue.aging", "10s").config().expect("valid");
    let plain = Config::parse(TEXT, "t.toml").expect("valid");
    let api = &config.services["api"];
    assert_eq!(api.queue.aging.as_secs(), 10);
    assert_eq!(api.limits, plain.services["api"].limits);
}

#[test]
fn warnings_stand_where_their_cause_does() {
    let warnings = |text: &str| -> Vec<String> {
        Document::new(text, "t.toml", &|_| None).warnings().iter().map(ToString::to_string).collect()
    };
    let text = "[services.git]\nrequests = \"5/s\"\n[services.azure-openai]\n[services.claude]\n[services.opena]\n\
                [services.openai]\n[services.own]\nupstream = \"http://x\"\n\n[alerts]\n";
    let found = warnings(text);
    let words = [
        ("t.toml:1:", "`git` has no `upstream`", "to forward calls, add `upstream` or `preset`"),
        (
            "t.toml:3:",
            "`azure-openai` has no `upstream`",
            "add `upstream`: every customer of the preset `azure-openai`",
        ),
        ("t.toml:4:", "`claude` has no `upstream`", "did you mean `preset = \"anthropic\"`?"),
        ("t.toml:5:", "`opena` has no `upstream`", "did you mean `preset = \"openai\"`?"),
        ("t.toml:10:", "[alerts] has no effect yet", "hint: remove it"),
    ];
    assert_eq!(found.len(), words.len(), "{found:#?}");
    for (found, (place, message, hint)) in found.iter().zip(words) {
        assert!(found.starts_with(place) && found.contains(message) && found.contains(hint), "{found}");
    }
    assert_eq!(warnings(""), [""; 0], "an empty file serves the presets");
    assert_eq!(warnings("[services.git]\nrequets = 5\n[alerts]\n"), [""; 0], "errors come first");
    assert_eq!(warnings(TEXT), [""; 0], "the services of a simulation are called by nothing else");
}

#[test]
fn numbers_in_a_key_are_items_of_an_array() {
    let config = document().set("services.api.requests.1", "900/h").config().expect("valid");
    let units: Vec<u64> =
        config.services["api"].limits.rates.iter().map(|limit| limit.rate.units()).collect();
    assert_eq!(units, [60, 900]);
    assert_eq!(
        errors(document().set("services.api.requests.2", "900/h")),
        "services.api.requests.2=900/h: there is no item `2`\n  hint: they are numbered from 0 to 1"
    );
}

#[test]
fn a_key_that_the_file_lacks_is_added_and_may_be_written_as_toml_quotes_it() {
    let document =
        document().set("services.api.models.\"gpt-4o*\".tokens", "30k/min").set("loops.concurrency", "3");
    let config = document.config().expect("valid");
    assert_eq!(config.services["api"].models["gpt-4o*"].rates[0].rate.units(), 30_000);
    assert_eq!(config.loops.concurrency, Some(3), "a number is a number");
}

#[test]
fn a_mistake_in_a_value_is_told_by_the_value_and_one_in_the_file_by_its_line() {
    let text = TEXT.replace("30s", "30x");
    let document = Document::new(&text, "t.toml", &|_| None)
        .set("services.api.queu.timeout", "10s")
        .set("services.api.concurrency", "0");
    assert_eq!(
        errors(document),
        "t.toml:3:15: unknown unit of time `x` in `30x`\n  hint: use one of ms, s, min, h, day\n\
         services.api.queu.timeout=10s: unknown key `queu` in [services.api]\n  hint: did you mean `queue`?\n\
         services.api.concurrency=0: a concurrency of 0 lets nothing pass\n  hint: use at least 1, or remove the line for no limit"
    );
    assert!(errors(self::document().set("services..x", "1")).starts_with("services..x=1: not valid TOML"));
}

#[test]
fn a_simulation_is_passed_over_or_read_with_the_config() {
    Config::parse(TEXT, "t.toml").expect("passed over");
    let slip = Config::parse(&TEXT.replace("[simulation]", "[simulatoin]"), "t.toml").expect_err("unknown");
    assert_eq!(slip[0].hint.as_deref(), Some("did you mean `simulation`?"));

    let read = document().config_and_simulation(|walk, config, section| {
        assert_eq!(config.services.len(), 1);
        let fields = walk.table(section.expect("it is there"));
        fields.iter().find(|field| field.name == "duration").and_then(|field| walk.duration(field))
    });
    assert_eq!(read.expect("valid").1.map(|duration| duration.as_secs()), Some(600));
}

#[test]
fn faults_of_both_parts_are_told_together_in_the_order_of_the_file() {
    let text = TEXT.replace("60/min", "60/mon").replace("duration", "duratoin");
    let errors = Document::new(&text, "t.toml", &|_| None)
        .config_and_simulation(|walk, _, section| {
            for field in walk.table(section.expect("it is there")) {
                if field.name != "workload" {
                    walk.no_such_key(&field, "simulation", &["duration", "workload"]);
                }
            }
        })
        .expect_err("both are wrong");
    let places: Vec<_> = errors.iter().map(|error| (error.line, error.column)).collect();
    assert_eq!(places, [(2, 13), (6, 1)]);
    assert_eq!(errors[1].hint.as_deref(), Some("did you mean `duration`?"));
}
