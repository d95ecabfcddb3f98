//! What one reply or report can do is bounded, and an operator can forgive it.

mod common;

use std::time::Duration;

use tidegate_core::Outputs;
use tidegate_core::engine::{ChangeError, Ended, Engine, Fate, Found, LimitStatus, News, Told};
use tidegate_core::limits::snapshot::Kept;
use tidegate_core::{Admission, Call, Config, Cost, Dimension, Grant, Nanos, Verdict};

use common::plain::{LONG, at, engine};

const YEAR: Duration = Duration::from_secs(365 * 86_400);
const HOUR: Duration = Duration::from_secs(3_600);
const MINUTE: u64 = 60_000;
/// Tokens that no call costs.
const ABSURD: u64 = 1_000_000_000_000_000_000;

fn granted(engine: &mut Engine, call: &Call, now: Nanos) -> Grant {
    engine.try_admit(call, now).expect("there is room")
}

fn tokens(units: u64) -> Cost {
    Cost::nothing().with(Dimension::Tokens, units)
}

fn turned_away(wait: Duration) -> Ended {
    Fate::TurnedAway { wait: Some(wait), by: Vec::new(), in_flight: false }.into()
}

fn open_for(engine: &mut Engine, key: &str, now: Nanos) -> Duration {
    let window = engine.backoffs(now).into_iter().find(|window| *window.key == *key);
    window.map_or(Duration::ZERO, |window| window.open_for)
}

fn limit(engine: &mut Engine, name: &str, now: Nanos) -> LimitStatus {
    engine.limit(name, now).expect("a limit")
}

/// When a call of one token goes.
fn goes(engine: &mut Engine, now: Nanos) -> Nanos {
    let ticket = match engine.enqueue(&Call::to("api").tokens(1), YEAR * 100, now).expect("it can wait") {
        Admission::Granted(grant) => {
            let when = grant.granted_at();
            engine.cancel(grant, now);
            return when;
        }
        Admission::Waiting(ticket) => ticket,
    };
    loop {
        let verdict = engine.verdicts().next();
        if let Some((known, verdict)) = verdict {
            let Verdict::Granted(grant) = verdict else { panic!("{verdict:?}") };
            assert_eq!(known, ticket);
            let when = grant.granted_at();
            engine.cancel(grant, when);
            return when;
        }
        engine.advance(engine.next_wake().expect("it waits for a known time"));
    }
}

#[test]
fn a_wait_is_at_most_what_the_longest_window_of_the_service_explains() {
    let day = Duration::from_secs(86_400);
    for (config, longest) in [
        ("[services.api]\n", HOUR),
        ("[services.api]\nrequests = \"60/min\"\n[services.other]\nrequests = \"9/day\"\n", HOUR),
        ("[services.api]\nrequests = [\"60/min\", \"10k/day\"]\n", day + day / 16),
        ("[services.api.models.\"m*\"]\ntokens = \"10k/day\"\n", day + day / 16),
        ("[services.api]\nrequests = \"10k/day\"\nbackoff = { max_wait = \"5m\" }\n", HOUR / 12),
        ("[services.api]\nbackoff = { max_wait = \"30h\" }\n", 30 * HOUR),
    ] {
        for ended in [turned_away(YEAR), turned_away(Duration::MAX), Fate::Failed { wait: Some(YEAR) }.into()]
        {
            let mut engine = engine(config);
            let grant = granted(&mut engine, &Call::to("api"), at(0));
            engine.end_call(grant, &ended, at(0));
            assert_eq!(open_for(&mut engine, "api", at(0)), longest, "{config}");
            let cut = |news: &News| matches!(news, News::WaitCut { service, allowed, .. } if **service == *"api" && *allowed == longest);
            assert!(engine.news().iter().any(cut), "{config}");
            let refusal = engine.try_admit(&Call::to("api"), at(0)).expect_err("the window is open");
            assert_eq!(refusal.wait, Some(longest), "what it is told is when it may go");
        }
        let mut engine = engine(config);
        let grant = granted(&mut engine, &Call::to("api"), at(0));
        engine.end_call(grant, &turned_away(Duration::from_secs(90)), at(0));
        assert_eq!(open_for(&mut engine, "api", at(0)), Duration::from_secs(90), "{config}");
    }
}

#[test]
fn an_operator_may_open_a_window_for_any_time_and_only_that_survives_a_restart() {
    let config = "[services.api]\n[services.other]\n";
    let mut before = engine(config);
    before.keep_book(Found::default(), at(0)).expect("an empty book");
    before.set_backoff("api", YEAR, at(0)).expect("known");
    before.set_backoff("other", HOUR, at(0)).expect("known");
    let mut facts = serde_json::to_value(before.all_facts(at(0))).expect("facts");
    // As a version wrote it that did not bound what replies ask for.
    let window = facts["windows"].as_array_mut().expect("windows");
    let other = window.iter_mut().find(|window| window["key"] == "other").expect("its window");
    let year = u64::try_from(YEAR.as_nanos()).expect("in range");
    *other = serde_json::json!({ "key": "other", "until_ns": year, "tail_ns": year });
    let mut after = engine(config);
    let facts = Some(serde_json::from_value(facts).expect("facts of an older version"));
    after.keep_book(Found { facts, ..Found::default() }, at(0)).expect("possible");
    assert_eq!(open_for(&mut after, "api", at(0)), YEAR);
    assert_eq!(open_for(&mut after, "other", at(0)), HOUR);
    assert!(after.backoffs(at(0)).iter().all(|window| window.throttled_for <= window.open_for + HOUR));
}

/// The same limit by every algorithm, and how long four times N takes to be paid.
const ALGORITHMS: [(&str, u64); 4] = [
    ("tokens = \"100/min\"", 6 * MINUTE),
    ("tokens = { limit = \"100/min\", burst = 100 }", 6 * MINUTE),
    ("tokens = { limit = \"100/min\", algorithm = \"token-bucket\", burst = 100 }", 6 * MINUTE),
    ("tokens = { limit = \"100/min\", algorithm = \"fixed-window\" }", 6 * MINUTE),
];

#[test]
fn the_debt_of_a_limit_is_at_most_four_times_n_and_what_is_above_is_dropped_and_told() {
    for (tokens_of, paid) in ALGORITHMS {
        let mut engine = engine(&format!("[services.api]\n{tokens_of}\n"));
        let grant = granted(&mut engine, &Call::to("api").tokens(1), at(0));
        engine.finish(grant, Some(&tokens(ABSURD)), at(0));
        let status = limit(&mut engine, "api/tokens/1m", at(0));
        assert!(status.used <= 500, "{tokens_of}: {}", status.used);
        assert_eq!(status.dropped_debt, ABSURD - 500, "{tokens_of}");
        let told = News::DebtDropped { limit: "api/tokens/1m".into(), units: ABSURD - 500 };
        assert!(engine.news().contains(&told), "{tokens_of}");
        assert!(goes(&mut engine, at(0)) <= at(paid), "{tokens_of}");
    }
}

#[test]
fn however_many_absurd_reports_come_the_next_call_goes_within_the_bound() {
    for (tokens_of, paid) in ALGORITHMS {
        let mut engine = engine(&format!("[services.api]\n{tokens_of}\n"));
        let grants: Vec<Grant> = (0..1_000).map(|_| granted(&mut engine, &Call::to("api"), at(0))).collect();
        let mut last = 0;
        for (number, grant) in grants.into_iter().enumerate() {
            last = 1_000 * number as u64;
            engine.finish(grant, Some(&tokens(u64::MAX)), at(last));
        }
        assert!(goes(&mut engine, at(last)) <= at(last + paid), "{tokens_of}");
    }
}

#[test]
fn an_absurd_stream_that_ends_small_gives_back_no_more_than_it_was_charged() {
    for (tokens_of, _) in ALGORITHMS {
        let mut engine = engine(&format!("[services.api]\n{tokens_of}\n"));
        let call = Call::to("api").tokens(1);
        let streamed = granted(&mut engine, &call, at(0));
        let other = granted(&mut engine, &Call::to("api").tokens(0), at(0));
        engine.finish(other, Some(&tokens(99)), at(0));
        engine.spent(&streamed, &tokens(ABSURD), at(0));
        engine.finish(streamed, Some(&tokens(1)), at(0));
        assert_eq!(limit(&mut engine, "api/tokens/1m", at(0)).used, 100, "{tokens_of}");
    }
}

#[test]
fn a_stream_beyond_the_bound_of_one_limit_is_charged_once_at_the_others() {
    let mut engine = engine("[services.api]\ntokens = \"200k/day\"\n[loops]\ntokens = \"1k/min\"\n");
    let streamed = granted(&mut engine, &Call::to("api").loop_id("a").tokens(10), at(0));
    for so_far in (64..=10_000).step_by(64) {
        engine.spent(&streamed, &tokens(so_far), at(so_far));
    }
    let of_day = |engine: &mut Engine| limit(engine, "api/tokens/1d", at(10_000)).used;
    assert_eq!(of_day(&mut engine), 9_984);
    let bounded = limit(&mut engine, "loop:a/tokens/1m", at(10_000));
    assert_eq!(bounded.used + bounded.dropped_debt, 9_984);
    engine.finish(streamed, Some(&tokens(10_000)), at(10_000));
    assert_eq!(of_day(&mut engine), 10_000);
}

#[test]
fn a_limit_that_is_reset_forgets_what_replies_stated() {
    let mut engine = engine("[services.api]\nrequests = \"500/min\"\n");
    let stated = Told {
        dimension: Dimension::Requests,
        window: None,
        limit: Some(1),
        remaining: Some(0),
        reset: None,
    };
    let call = granted(&mut engine, &Call::to("api"), at(0));
    engine.end_call(call, &Ended { fate: Fate::Answered, told: vec![stated], ..Ended::default() }, at(0));
    assert_eq!(limit(&mut engine, "api/requests/1m", at(1)).capacity, 1);
    engine.reset_limit("api/requests/1m", at(1)).expect("there is such a limit");
    assert_eq!(limit(&mut engine, "api/requests/1m", at(1)).capacity, 500);
    let after = granted(&mut engine, &Call::to("api"), at(1));
    engine.finish(after, None, at(1));
}

#[test]
fn a_loop_whose_call_was_absurd_gets_its_share_again() {
    let mut engine = engine("[services.api]\ntokens = { limit = \"100/s\", burst = 100 }\n");
    let by = |name: &str| Call::to("api").loop_id(name).tokens(10);
    let absurd = granted(&mut engine, &by("absurd"), at(0));
    engine.finish(absurd, Some(&tokens(ABSURD)), at(0));
    let mut waiting = std::collections::BTreeMap::new();
    let mut went = [0, 0];
    for now in (0..60_000).step_by(100) {
        for name in ["absurd", "other"] {
            while waiting.values().filter(|of: &&&str| **of == name).count() < 2 {
                match engine.enqueue(&by(name), LONG, at(now)).expect("it can wait") {
                    Admission::Granted(grant) => engine.finish(grant, None, at(now)),
                    Admission::Waiting(ticket) => drop(waiting.insert(ticket, name)),
                }
            }
        }
        engine.advance(at(now));
        for (ticket, verdict) in engine.verdicts().collect::<Vec<_>>() {
            let Verdict::Granted(grant) = verdict else { panic!("{verdict:?}") };
            went[usize::from(waiting.remove(&ticket) == Some("other"))] += 1;
            engine.finish(grant, None, at(now));
        }
    }
    assert!(went[0] > 50, "{went:?}");
}

#[test]
fn debt_that_an_older_version_kept_is_bounded_when_it_is_restored() {
    let minute = 60_000_000_000_u64;
    let missing = u128::from(ABSURD) * u128::from(minute);
    let level = format!(
        r#"{{"missing": {}, "missing_high": {}, "at_ns": 0}}"#,
        missing as u64,
        (missing >> 64) as u64
    );
    let rate = r#""limit": 100, "window_ns": 60000000000"#;
    for (tokens_of, kept) in [
        (
            "tokens = \"100/min\"",
            format!(
                r#""sliding-window": {{{rate}, "burst": 1, "pacer": {level}, "slots": [[0, {ABSURD}], [0, {ABSURD}]]}}"#
            ),
        ),
        (
            "tokens = { limit = \"100/min\", algorithm = \"token-bucket\", burst = 100 }",
            format!(r#""token-bucket": {{{rate}, "burst": 100, "level": {level}}}"#),
        ),
        (
            "tokens = { limit = \"100/min\", algorithm = \"fixed-window\" }",
            format!(
                r#""fixed-window": {{{rate}, "used": {ABSURD}, "debt": {ABSURD}, "opened_ns": 0, "closes_ns": {minute}}}"#
            ),
        ),
    ] {
        let mut engine = engine(&format!("[services.api]\n{tokens_of}\n"));
        let kept: Kept = serde_json::from_str(&format!("{{\"counts\": {{{kept}}}}}")).expect("a page");
        let found = Found { limits: vec![("api/tokens/1m".into(), kept)], ..Found::default() };
        engine.keep_book(found, at(0)).expect("possible");
        let pages = engine.pages(usize::MAX, at(0));
        engine.written(&pages, at(0));
        assert!(limit(&mut engine, "api/tokens/1m", at(0)).used <= 500, "{tokens_of}");
        assert!(goes(&mut engine, at(0)) <= at(6 * MINUTE), "{tokens_of}");
    }
}

#[test]
fn a_lower_n_leaves_no_more_debt_than_four_times_that() {
    for algorithm in ["token-bucket", "fixed-window"] {
        let config = |units: u64| {
            let text = format!(
                "[services.api]\ntokens = {{ limit = \"{units}/min\", algorithm = \"{algorithm}\" }}\n"
            );
            Config::parse(&text, "test.toml").expect("valid")
        };
        let mut engine = Engine::new(&config(1_000_000), at(0), Duration::ZERO).expect("valid");
        let grant = granted(&mut engine, &Call::to("api").tokens(1_000_000), at(0));
        engine.finish(grant, Some(&tokens(5_000_000)), at(0));
        engine.reconfigure(&config(10), at(0)).expect("valid");
        assert!(goes(&mut engine, at(0)) <= at(6 * MINUTE), "{algorithm}");
    }
}

#[test]
fn what_comes_back_after_n_was_lowered_does_not_lift_the_debt_that_is_left() {
    for algorithm in ["token-bucket", "fixed-window"] {
        let config = |units: u64| {
            let limit = format!("{{ limit = \"{units}/min\", algorithm = \"{algorithm}\" }}");
            Config::parse(&format!("[services.api]\ntokens = {limit}\n"), "test.toml").expect("valid")
        };
        let mut engine = Engine::new(&config(1_000), at(0), Duration::ZERO).expect("valid");
        let kept = granted(&mut engine, &Call::to("api").tokens(500), at(0));
        let refunded = granted(&mut engine, &Call::to("api").tokens(400), at(0));
        engine.reconfigure(&config(10), at(0)).expect("valid");
        engine.finish(refunded, Some(&tokens(1)), at(1));
        engine.finish(kept, None, at(1));
        assert!(engine.try_admit(&Call::to("api").tokens(1), at(2)).is_err(), "{algorithm}: 501 are spent");
    }
}

#[test]
fn a_limit_that_is_reset_begins_unspent_and_lets_those_go_that_wait_for_it() {
    for (tokens_of, _) in ALGORITHMS {
        let mut engine = engine(&format!("[services.api]\n{tokens_of}\nconcurrency = 5\n"));
        let in_flight = granted(&mut engine, &Call::to("api").tokens(1), at(0));
        let absurd = granted(&mut engine, &Call::to("api").tokens(0), at(0));
        engine.finish(absurd, Some(&tokens(ABSURD)), at(0));
        let Ok(Admission::Waiting(ticket)) = engine.enqueue(&Call::to("api").tokens(1), LONG, at(1)) else {
            panic!("it goes: {tokens_of}");
        };
        engine.news();
        let before = engine.reset_limit("api/tokens/1m", at(2)).expect("a limit");
        assert_eq!((before.used, before.dropped_debt), (500, ABSURD - 499), "{tokens_of}");
        let verdicts: Vec<_> = engine.verdicts().collect();
        assert!(matches!(&verdicts[..], [(known, Verdict::Granted(_))] if *known == ticket), "{tokens_of}");
        assert_eq!(engine.news(), [News::LimitReset { limit: "api/tokens/1m".into(), used: 500 }]);
        // What went before the reset neither comes back to it nor is charged to it.
        engine.finish(in_flight, Some(&tokens(70)), at(3));
        let status = limit(&mut engine, "api/tokens/1m", at(3));
        assert_eq!((status.used, status.dropped_debt), (1, 0), "{tokens_of}");
        assert_eq!(limit(&mut engine, "api/concurrency", at(3)).used, 1, "its slot is free");
    }
}

#[test]
fn a_reset_is_written_down() {
    let mut before =
        engine("[services.api]\ntokens = { limit = \"100/min\", algorithm = \"token-bucket\" }\n");
    before.keep_book(Found::default(), at(0)).expect("an empty book");
    let write = |engine: &mut Engine, now: Nanos| {
        let pages = engine.pages(usize::MAX, now);
        engine.written(&pages, now);
        pages
    };
    write(&mut before, at(0));
    let grant = granted(&mut before, &Call::to("api").tokens(1), at(0));
    before.finish(grant, Some(&tokens(ABSURD)), at(0));
    write(&mut before, at(0));
    before.reset_limit("api/tokens/1m", at(1)).expect("a limit");
    let pages = write(&mut before, at(1));
    let limits = pages.into_iter().filter_map(|page| Some((page.name.clone(), page.kept?))).collect();
    let mut after =
        engine("[services.api]\ntokens = { limit = \"100/min\", algorithm = \"token-bucket\" }\n");
    after.keep_book(Found { limits, ..Found::default() }, at(2)).expect("possible");
    assert_eq!(limit(&mut after, "api/tokens/1m", at(2)).used, 0);
}

#[test]
fn what_cannot_be_reset_is_named() {
    let mut engine = engine("[services.api]\nconcurrency = 5\n");
    let unknown = engine.reset_limit("api/requests/1m", at(0)).expect_err("unknown");
    assert_eq!(unknown, ChangeError::UnknownLimit("api/requests/1m".into()));
    let in_flight = engine.reset_limit("api/concurrency", at(0)).expect_err("slots");
    assert_eq!(in_flight, ChangeError::NothingToReset("api/concurrency".into()));
}

#[test]
fn an_absurd_output_is_not_what_the_next_calls_are_expected_to_have() {
    let (mut outputs, call) = (Outputs::default(), Call::to("api").model("m"));
    (0..20).for_each(|_| outputs.hear(&call, 500, None));
    outputs.hear(&call, ABSURD, None);
    assert_eq!(outputs.expected(&call), Some(500));
    assert_eq!(Outputs::from_kept(outputs.kept()).expected(&call), Some(500));
}
