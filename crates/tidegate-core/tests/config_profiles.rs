//! `[profiles.<name>]` and the services that use them.

mod marks;

use marks::{assert_errors, errors_of, unmark};
use tidegate_core::Config;
use tidegate_core::config::SettleRule;
use tidegate_core::reply::{Kind, ResetForm, UnixMillis, Verdict};
use tidegate_core::vendors::{Profiles, ZeroLimit};

fn parse(text: &str) -> Config {
    Config::parse(text, "tidegate.toml").unwrap_or_else(|errors| panic!("{text}\n{errors}"))
}

#[test]
fn every_key_of_a_profile_is_read() {
    let config = parse(
        r#"
        [profiles.prices]
        base = "openai"
        reset = "milliseconds"
        reset_margin = "1s"
        signs = ["X-Prices-*"]
        windows = { requests = "1h", credits = "1m30s" }
        zero_limit = "quota_exhausted"
        hint_on_success_refuses = false
        headers = [{ header = "X-Credits-Left", gives = "remaining", kind = "credits", window = "1d" }]
        [[profiles.prices.errors]]
        status = 403
        code = "no_more_*"
        phrase = "Out of credits"
        verdict = "quota_exhausted"
        [profiles.plain]
        "#,
    );
    let prices = config.profiles.get("prices").unwrap();
    assert_eq!((prices.base.name, prices.reset), ("openai", Some(ResetForm::Millis)));
    assert_eq!((prices.reset_margin_ms, prices.zero_limit), (Some(1_000), Some(ZeroLimit::NotInPlan)));
    assert_eq!(
        (prices.hint_on_success_refuses, &prices.signs[..]),
        (Some(false), &["x-prices-*".into()][..])
    );
    assert!(prices.windows.contains(&(Kind::Requests, 3_600_000)));
    assert!(prices.windows.contains(&(Kind::from_name("credits"), 90_000)));
    assert_eq!(prices.headers[0].0, "x-credits-left");
    let error = &prices.errors[0];
    assert_eq!((error.status, error.code.as_deref()), (Some(403), Some("no_more_*")));
    assert_eq!((error.phrase.as_deref(), error.verdict), (Some("out of credits"), Verdict::QuotaExhausted));
    assert_eq!(config.profiles.get("plain"), Some(&Default::default()));
    assert_eq!(config.profiles.names().collect::<Vec<_>>(), ["plain", "prices"]);
}

#[test]
fn variables_expand_in_profiles_and_are_never_repeated() {
    let text = "[profiles.p]\nbase = \"${V}\"\nreset = \"${R}\"\nsigns = [\"x-${V}-*\"]";
    let env = |good: bool| {
        move |name: &str| match name {
            "V" if good => Some("openai".to_owned()),
            "R" if good => Some("seconds".to_owned()),
            _ => Some("hunter 2".to_owned()),
        }
    };
    let config = Config::parse_with(text, "t", &env(true)).unwrap();
    let profile = config.profiles.get("p").unwrap();
    assert_eq!((profile.base.name, &profile.signs[0][..]), ("openai", "x-openai-*"));
    let errors = errors_of(text, &env(false));
    assert_eq!(errors.len(), 3, "{errors}");
    assert!(!errors.to_string().contains("hunter"), "{errors}");
}

#[test]
fn mistakes_in_a_profile_stand_where_they_are() {
    let window = "write it like \"1h\" or \"1d\"";
    let header = "write it like \"x-credits-left\", or \"x-credits-*\" for all that begin so";
    assert_errors(
        "[profiles.a]\n",
        &[
            ("▲resets = \"auto\"", "unknown key `resets` in [profiles.a]", "did you mean `reset`?"),
            (
                "reset = ▲\"soon\"",
                "unknown reset `soon`",
                "use one of auto, seconds, milliseconds, epoch-seconds, epoch-milliseconds",
            ),
            ("reset = ▲\"second\"", "unknown reset `second`", "did you mean `seconds`?"),
            ("base = ▲\"opnai\"", "`opnai` is not a vendor that tidegate knows", "did you mean `openai`?"),
            (
                "base = ▲\"nobody at all\"",
                "`nobody at all` is not a vendor that tidegate knows",
                "leave `base` out to start from the generic one",
            ),
            (
                "reset_margin = ▲5",
                "`reset_margin` must be a duration, not an integer",
                "write the unit: \"5s\" or \"5ms\"",
            ),
            (
                "windows = { requests = ▲\"long\" }",
                "`long` is not a duration",
                "write whole numbers with units, such as `250ms`, `30s` or `1m30s`",
            ),
            ("windows = { requests = ▲0 }", "a window of 0 counts nothing", window),
            ("signs = ▲\"x-a\"", "`signs` must be an array, not a string", "write signs = [\"x-example-*\"]"),
            ("signs = [\"x-a\", ▲\"x a\"]", "`x a` is not the name of a header", header),
            ("signs = [▲\"*\"]", "`*` is not the name of a header", header),
            (
                "zero_limit = ▲\"never\"",
                "unknown zero_limit `never`",
                "use one of rate_limited, quota_exhausted, concurrency_limited",
            ),
            (
                "hint_on_success_refuses = ▲1",
                "`hint_on_success_refuses` must be a boolean, not an integer",
                "write true or false",
            ),
            (
                "headers = ▲{}",
                "`headers` must be an array, not a table",
                "write [[profiles.a.headers]], with its keys below",
            ),
            (
                "headers = [▲5]",
                "`headers` must be an array of tables, not an integer",
                "write { header = \"x-credits-left\", gives = \"remaining\" }",
            ),
            (
                "headers = [{ header = \"x\", gives = \"limit\" }, ▲{ header = \"x\" }]",
                "profiles.a.headers[1] has no `gives`",
                "add gives = \"remaining\"",
            ),
            (
                "▲[[profiles.a.headers]]\ngives = \"limit\"",
                "profiles.a.headers[0] has no `header`",
                "add header = \"x-credits-left\"",
            ),
            (
                "[[profiles.a.headers]]\nheader = \"x\"\ngives = ▲\"remainin\"",
                "unknown gives `remainin`",
                "did you mean `remaining`?",
            ),
            (
                "[[profiles.a.headers]]\nheader = \"x\"\ngives = \"limit\"\n▲kinds = \"tokens\"",
                "unknown key `kinds` in [profiles.a.headers[0]]",
                "did you mean `kind`?",
            ),
            (
                "▲[[profiles.a.errors]]\nverdict = \"ok\"",
                "this error would match every reply",
                "give it a status, a code or a phrase",
            ),
            (
                "errors = [▲{ status = 429 }]",
                "profiles.a.errors[0] has no `verdict`",
                "add verdict = \"quota_exhausted\"",
            ),
            (
                "errors = [{ status = ▲9, verdict = \"ok\" }]",
                "9 is not an HTTP status",
                "use one from 100 to 599",
            ),
            (
                "errors = [{ code = \"x\", verdict = ▲\"rate-limited\" }]",
                "unknown verdict `rate-limited`",
                "did you mean `rate_limited`?",
            ),
        ],
    );
    assert_errors(
        "",
        &[
            ("[profiles.▲\"\"]", "a profile must have a name", ""),
            (
                "profiles = ▲5",
                "`profiles` must be a table, not an integer",
                "write [profiles], with its keys below",
            ),
        ],
    );
}

#[test]
fn all_mistakes_are_told_with_those_of_the_rest_of_the_file() {
    let (text, marks) = unmark(
        "listen = ▲\"here\"\n[profiles.a]\nreset = ▲\"soon\"\nbase = ▲\"nobody\"\n[profiles.b]\nsigns = [▲\"\", ▲5]\n\
         [services.s]\nprofile = ▲\"c\"\n",
    );
    let errors = errors_of(&text, &|_| None);
    let places: Vec<_> = errors.iter().map(|error| (error.line, error.column)).collect();
    assert_eq!(places, marks, "\n{errors}");

    let profiles = Profiles::parse(&text, "tidegate.toml").unwrap_err();
    assert_eq!(profiles.len(), 4, "read alone, only the profiles are looked at\n{profiles}");
}

#[test]
fn a_service_names_a_profile_of_the_file_or_a_vendor() {
    let text = "[services.a]\nprofile = \"ours\"\n[services.b]\nprofile = \"azure\"\n[profiles.ours]\nbase = \"openai\"\n";
    let config = parse(text);
    assert_eq!(config.services["a"].profile.as_deref(), Some("ours"));
    assert_eq!(config.services["a"].settle, SettleRule::Keep, "counted as its base counts");
    assert_eq!(config.services["b"].settle, SettleRule::Keep);
    assert_eq!(
        parse("[services.a]\nprofile = \"openai\"\nsettle = \"refund\"").services["a"].settle,
        SettleRule::Refund
    );
    assert_eq!(
        parse("[services.a]\npreset = \"openai\"\nprofile = \"generic\"").services["a"].settle,
        SettleRule::Keep,
        "how replies are written says nothing against the preset's counting"
    );

    assert_errors(
        "[profiles.ours]\n[services.s]\n",
        &[
            ("profile = ▲\"our\"", "unknown profile `our`", "did you mean `ours`?"),
            ("profile = ▲\"opnai\"", "unknown profile `opnai`", "did you mean `openai`?"),
            (
                "profile = ▲\"something else\"",
                "unknown profile `something else`",
                "write it as [profiles.<name>], or name a vendor",
            ),
        ],
    );
}

#[test]
fn a_profile_stands_before_the_vendor_of_its_name() {
    let reset_ms = |config: &Config, service: &str| {
        let headers = [("x-ratelimit-remaining-requests", &b"1"[..]), ("x-ratelimit-reset-requests", b"250")];
        config.reader(service).read(200, headers, b"", UnixMillis(0)).limits[0].reset_ms
    };
    let services = "[services.own]\nupstream = \"http://x\"\n[services.named]\nprofile = \"openai\"\n\
                    [services.preset]\npreset = \"openai\"\n";
    let config = parse(services);
    for service in ["own", "named", "preset", "nobody"] {
        assert_eq!(reset_ms(&config, service), Some(250_000), "{service}");
    }
    let config =
        parse(&format!("{services}[profiles.openai]\nbase = \"openai\"\nreset = \"milliseconds\"\n"));
    for (service, expected) in [("own", 250_000), ("named", 250), ("preset", 250)] {
        assert_eq!(reset_ms(&config, service), Some(expected), "{service}");
    }
}

#[test]
fn the_examples_of_the_page_are_right() {
    let page = include_str!("../../../docs/vendors.md");
    let blocks = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let text: String = blocks.collect();
    let config = parse(&text);
    assert!(config.profiles.get("prisjakt").is_some());
    assert_eq!(config.services["openai"].tier.as_deref(), Some("tier-2"));
    assert_eq!(config.services["prices"].profile.as_deref(), Some("prisjakt"));
}
