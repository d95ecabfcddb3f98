//! What `explain call` says.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::outcome;
use super::served::{Folder, Process, served};

const CONFIG: &str = "listen = \"127.0.0.1:1\"
[global]
requests = \"100/s\"
[services.api]
upstream = \"http://127.0.0.1:9\"
requests = \"60/min\"
tokens = \"1k/min\"
concurrency = 4
reserve = { high = 0.5 }
[services.api.models.\"big*\"]
requests = \"10/min\"
[loops]
requests = \"30/min\"
";

fn explained(folder: &Folder, sidecar: Option<&str>, arguments: &[&str]) -> Value {
    let mut command = folder.tidegate(&["explain", "call", "--service", "api"]);
    command.args(arguments).args(sidecar.map(|address| ["--sidecar", address]).into_iter().flatten());
    let (code, said, error) = outcome(&mut command);
    assert_eq!(code, Some(0), "{error}");
    serde_json::from_str(&said).expect("JSON")
}

fn names(explained: &Value) -> Vec<&str> {
    explained["limits"]
        .as_array()
        .expect("limits")
        .iter()
        .filter_map(|limit| limit["name"].as_str())
        .collect()
}

#[test]
fn the_config_alone_says_which_limits_apply_and_which_lets_the_fewest_go() {
    let folder = Folder::with(CONFIG);
    let plain = explained(&folder, None, &[]);
    assert_eq!((&plain["live"], &plain["binding"]), (&json!(false), &json!("api/requests/1m")));
    let model = explained(&folder, None, &["--model", "big-1", "--loop", "me"]);
    assert_eq!(model["binding"], "api/model:big*/requests/1m");
    for name in ["global/requests/1s", "api/requests/1m", "api/concurrency", "loop:me/requests/1m"] {
        assert!(names(&model).contains(&name), "{name} of {model}");
    }
    let tokens = explained(&folder, None, &["--tokens", "400"]);
    assert_eq!(tokens["binding"], "api/tokens/1m", "two and a half a minute");
    assert_eq!(explained(&folder, None, &["--priority", "high"])["priority"], "high");
}

#[test]
fn what_is_wrong_ends_with_2() {
    let folder = Folder::with(CONFIG);
    for (arguments, words) in [
        (&["--service", "nobody"][..], "nobody"),
        (&["--service", "api", "--priority", "urgent"], "urgent"),
        (&[], "--service"),
    ] {
        let (code, _, error) = outcome(folder.tidegate(&["explain", "call"]).args(arguments));
        assert_eq!(code, Some(2), "{error}");
        assert!(error.contains(words), "{error}");
    }
    let (_its, _api, sidecar) = served("0", "");
    let other = Folder::with("[services.mine]\nrequests = \"1/s\"\n");
    let arguments = ["explain", "call", "--service", "mine", "--sidecar", &sidecar.address];
    let (code, _, error) = outcome(&mut other.tidegate(&arguments));
    assert!(code == Some(2) && error.contains("another config"), "{error}");
}

#[test]
fn a_service_that_is_misspelt_is_told_with_the_one_that_may_be_meant() {
    let (folder, _api, sidecar) = served("0", "");
    for more in [&[][..], &["--sidecar", &sidecar.address]] {
        let (code, _, error) = outcome(folder.tidegate(&["explain", "call", "--service", "apy"]).args(more));
        assert_eq!(code, Some(2), "{error}");
        assert!(error.contains("has no service `apy`: did you mean `api`? Known are api"), "{error}");
        assert!(!error.contains("another config"), "{error}");
    }
    let nowhere = Folder::with(CONFIG);
    let (code, _, error) = outcome(&mut nowhere.tidegate(&["explain", "call", "--service", "apy"]));
    assert!(
        code == Some(2) && error.contains("the config has no service `apy`: did you mean `api`?"),
        "{error}"
    );
}

#[test]
fn a_call_that_fits_goes_now() {
    let (folder, _api, sidecar) = served("0", "requests = \"60/min\"\n");
    let said = explained(&folder, Some(&sidecar.address), &[]);
    assert_eq!(
        (&said["live"], &said["goes_now"], &said["expected_wait_ms"]),
        (&json!(true), &json!(true), &json!(0))
    );
    assert_eq!(said["binding"], Value::Null);
}

#[test]
fn a_call_behind_others_is_told_its_position_and_its_wait() {
    let (folder, _api, sidecar) =
        served("0", "requests = { limit = \"6/min\", algorithm = \"token-bucket\", burst = 1 }\n");
    assert!(sidecar.get("/api/x").starts_with("HTTP/1."), "it takes the one that is there");
    let _second = waiting(&sidecar, "/api/y");
    let said = explained(&folder, Some(&sidecar.address), &[]);
    assert_eq!((&said["binding"], &said["position"]), (&json!("api/requests/1m"), &json!(2)), "{said}");
    let wait = said["expected_wait_ms"].as_u64().expect("known");
    assert!(
        (15_000..=20_000).contains(&wait),
        "two calls, ten seconds each, of which some have passed: {said}"
    );
    let mut command =
        folder.tidegate(&["explain", "call", "--service", "api", "--text", "--sidecar", &sidecar.address]);
    let (_, text, _) = outcome(&mut command);
    assert!(text.contains("api/requests/1m binds") && text.contains("position: 2"), "{text}");
    assert!(text.contains(", with 1 call ahead of it: ") && text.contains("wait if first"), "{text}");
    assert!(text.contains("tidegate limit set 'api/requests/1m'"), "{text}");
}

#[test]
fn a_loop_type_that_the_config_does_not_know_is_a_warning() {
    let known = Folder::with(&format!("{CONFIG}[loop_types.code]\nweight = 2\n"));
    let explain = |loop_type| {
        outcome(&mut known.tidegate(&["explain", "call", "--service", "api", "--loop-type", loop_type]))
    };
    let (code, _, error) = explain("cod");
    assert_eq!(code, Some(0));
    assert!(
        error.contains("no loop type is called `cod`") && error.contains("did you mean `code`?"),
        "{error}"
    );
    assert_eq!(explain("code").2, "");
}

#[test]
fn nobody_knows_how_long_a_slot_takes() {
    let (folder, _api, sidecar) = served("30s", "concurrency = 1\n");
    let _first = sidecar.begin("/api/x");
    let began = Instant::now();
    let said = loop {
        let said = explained(&folder, Some(&sidecar.address), &[]);
        if said["goes_now"] == false || began.elapsed() > Duration::from_secs(20) {
            break said;
        }
    };
    assert_eq!(
        (&said["binding"], &said["expected_wait_ms"]),
        (&json!("api/concurrency"), &Value::Null),
        "{said}"
    );
    assert_eq!(said["freed_by"], "the end of one of 1 in flight");
}

#[test]
fn an_open_window_holds_calls_back() {
    let (folder, _api, sidecar) = served("0", "requests = \"60/min\"\n");
    let arguments = ["backoff", "set", "api", "60s", "--sidecar", &sidecar.address];
    assert_eq!(outcome(&mut folder.tidegate(&arguments)).0, Some(0));
    let said = explained(&folder, Some(&sidecar.address), &[]);
    assert_eq!((&said["binding"], &said["position"]), (&json!("api/backoff"), &json!(1)), "{said}");
    assert!(said["expected_wait_ms"].as_u64().is_some_and(|ms| ms > 30_000), "{said}");
    assert!(said["freed_by"].as_str().expect("words").contains("tidegate backoff clear 'api'"), "{said}");
}

#[test]
fn what_can_never_fit_is_told_with_and_without_a_sidecar() {
    let (_folder, _api, sidecar) = served("0", "tokens = \"1k/min\"\n");
    let folder = Folder::with("listen = \"127.0.0.1:1\"\n[services.api]\ntokens = \"1k/min\"\n");
    for address in [Some(&*sidecar.address), None] {
        let said = explained(&folder, address, &["--tokens", "1001"]);
        assert_eq!(said["live"], address.is_some());
        assert_eq!((&said["fits"], &said["binding"]), (&json!(false), &json!("api/tokens/1m")), "{said}");
    }
}

/// Begins a call, and waits until it waits.
fn waiting(sidecar: &Process, path: &str) -> std::net::TcpStream {
    let stream = sidecar.begin(path);
    let began = Instant::now();
    while !sidecar.get("/v1/status").contains("\"waiting\":1") {
        assert!(began.elapsed() < Duration::from_secs(20), "nobody waits");
    }
    stream
}
