//! What `status` shows.

use serde_json::Value;

use super::outcome;
use super::served::{Folder, served};
use super::stand_in::StandIn;

#[test]
fn it_shows_what_was_called_and_what_is_used() {
    let (folder, _api, sidecar) =
        served("0", "requests = \"60/min\"\nconcurrency = 5\n[services.other]\nrequests = \"1/s\"\n");
    assert!(sidecar.get("/api/x").starts_with("HTTP/1."), "one call");
    let (code, said, error) = outcome(&mut folder.tidegate(&["status", "--sidecar", &sidecar.address]));
    assert_eq!((code, &*error), (Some(0), ""));
    assert!(said.contains(&format!("on http://{}", sidecar.address)), "{said}");
    let row = |name: &str| {
        said.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {said}"))
    };
    assert_eq!(row("api ").split_whitespace().nth(1), Some("1"), "granted: {said}");
    assert!(row("api/requests/1m").contains("1.7 %"), "{said}");
    assert!(said.contains("1 service that nobody has called"), "{said}");
    assert!(!said.contains('\x1b'));

    let (code, said, _) = outcome(&mut folder.tidegate(&["status", "--json", "--sidecar", &sidecar.address]));
    let json: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!((code, &json["status"]["services"]["api"]["granted"]), (Some(0), &1.into()));
    assert_eq!(json["limits"][0]["capacity"], 60);
}

#[test]
fn a_limit_of_which_less_is_in_force_shows_what_is_written_too() {
    const LIMITS: &str = r#"{"limits": [
        {"name": "a/requests/1m", "units": 10, "algorithm": "sliding-window", "capacity": 9, "used": 9, "waiting": 2},
        {"name": "b/requests/1m", "units": 60, "algorithm": "token-bucket", "burst": 5, "capacity": 5, "used": 1}]}"#;
    const STATUS: &str =
        r#"{"version": "0", "config": {"error": "tidegate.toml:2:1: unknown key `x`"}, "services": {}}"#;
    let sidecar = StandIn::start(404, "{}", &[("/v1/status", STATUS), ("/v1/limits", LIMITS)]);
    let folder = Folder::with("");
    let (_, said, _) = outcome(&mut folder.tidegate(&["status", "--sidecar", &sidecar.address]));
    let row = |name: &str| {
        said.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {said}"))
    };
    assert!(row("a/requests/1m").contains("9 (10 written)"), "{said}");
    assert!(!row("b/requests/1m").contains("written"), "the burst is what a bucket holds: {said}");
    assert!(said.contains("the config file is refused") && said.contains("tidegate.toml:2:1"), "{said}");
}

#[test]
fn it_shows_who_is_held_back_and_what_is_left_alone() {
    const STATUS: &str = r#"{"version": "0", "uptime_ms": 5000, "calls": 1, "waiting": 3, "connections": 2, "services": {},
        "backoffs": [{"key": "openai", "open_for_ms": 12000, "throttled_for_ms": 22000, "waiting": 3},
                     {"key": "github", "open_for_ms": 0, "throttled_for_ms": 4000, "waiting": 0}],
        "breakers": [{"name": "a", "state": "open", "probe_in_ms": 7000}, {"name": "quiet", "state": "closed"}],
        "learned": [{"limit": "openai/requests/1m", "algorithm": "token-bucket", "in_force": 300, "told": 300, "bucket": 60,
                     "ceiling": 0.9, "others_per_second": 2.5, "jitter_ms": 12.0, "burst": 40}],
        "outputs": [{"service": "openai", "model": "gpt-4o", "expected_output": 80,
                     "advice": {"asked": 4096, "max_tokens": 300}}]}"#;
    let sidecar = StandIn::start(404, "{}", &[("/v1/status", STATUS), ("/v1/limits", r#"{"limits": []}"#)]);
    let folder = Folder::with("");
    let (code, said, error) = outcome(&mut folder.tidegate(&["status", "--sidecar", &sidecar.address]));
    assert_eq!(code, Some(0), "{error}");
    for words in [
        "up for 5.00 s: 1 call, 3 waiting, 2 connections",
        "openai is held back for 12.00 s more, 3 waiting",
        "github is throttled for 4.00 s more",
        "a is left alone, tried again in 7.00 s",
        "openai/requests/1m was learned: 300 by token-bucket; replies tell of 300; it counts as a bucket of 60 does",
        "only 90.0 % goes through; others take 2.5 a second; calls overtake each other by 12 ms",
        "openai gpt-4o: calls ask for 4,096 tokens at most, and 300 would do",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(!said.contains("quiet"), "{said}");
}
