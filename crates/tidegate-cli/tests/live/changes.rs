//! What `limit` and `backoff` ask of the sidecar.

use serde_json::{Value, json};

use super::outcome;
use super::served::{Folder, served};
use super::stand_in::StandIn;

/// Runs a command against a sidecar that agrees, and gives what it was asked.
fn asked(arguments: &[&str]) -> (String, Value) {
    let sidecar = StandIn::start(200, "{}", &[]);
    let folder = Folder::with(&format!("listen = \"{}\"\n", sidecar.address));
    let (code, said, error) = outcome(&mut folder.tidegate(arguments));
    assert_eq!((code, &*error), (Some(0), ""), "{said}");
    let (line, body) = sidecar.asked.recv().expect("asked");
    (line, serde_json::from_str(&body).unwrap_or_default())
}

#[test]
fn a_limit_is_changed_by_its_name() {
    let name = "openai/endpoint:POST /v1/embeddings/requests/1m";
    let (line, body) = asked(&["limit", "set", name, "500/min"]);
    assert_eq!(line, "PUT /v1/limits/openai%2Fendpoint%3APOST%20%2Fv1%2Fembeddings%2Frequests%2F1m");
    assert_eq!(body, json!({ "rate": "500/min" }));
    let (line, body) = asked(&["limit", "set", "openai/concurrency", "12"]);
    assert_eq!((&*line, body), ("PUT /v1/limits/openai%2Fconcurrency", json!({ "bound": 12 })));
    let (_, body) = asked(&["limit", "set", "openai/byte_budget", "5MB"]);
    assert_eq!(body, json!({ "bound": 5_000_000 }));
}

#[test]
fn a_limit_is_forgiven_by_its_name() {
    let (line, body) = asked(&["limit", "reset", "openai/tokens/1m"]);
    assert_eq!((&*line, body), ("POST /v1/limits/openai%2Ftokens%2F1m/reset", json!({})));
}

#[test]
fn a_window_is_set_and_cleared_by_its_key() {
    let (line, body) = asked(&["backoff", "set", "openai/model:gpt-4o*", "1m30s"]);
    assert_eq!((&*line, body), ("PUT /v1/backoff/openai%2Fmodel%3Agpt-4o%2A", json!({ "ms": 90_000 })));
    let (line, body) = asked(&["backoff", "clear", "openai"]);
    assert_eq!((&*line, body), ("DELETE /v1/backoff/openai", Value::Null));
}

#[test]
fn a_name_that_is_not_known_is_told_with_the_one_that_was_meant() {
    let (folder, _api, sidecar) = served("0", "requests = \"60/min\"\nconcurrency = 5\n");
    let run = |arguments: &[&str]| outcome(folder.tidegate(arguments).args(["--sidecar", &sidecar.address]));
    let (code, _, error) = run(&["limit", "set", "api/request/1m", "9/min"]);
    assert_eq!(code, Some(1));
    assert!(
        error.contains("no limit named `api/request/1m`")
            && error.contains("did you mean `api/requests/1m`?"),
        "{error}"
    );
    let (code, _, error) = run(&["limit", "reset", "api/request/1m"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("did you mean `api/requests/1m`?"), "{error}");
    let (code, _, error) = run(&["backoff", "set", "apy", "9s"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("`apy` is neither") && error.contains("did you mean `api`?"), "{error}");
    let (code, said, _) = run(&["backoff", "clear", "apy"]);
    assert_eq!((code, &*said), (Some(0), "no window is open for apy: did you mean `api`?\n"));
}

#[test]
fn a_window_that_was_not_open_is_not_said_to_be_cleared() {
    let (folder, _api, sidecar) = served("0", "requests = \"60/min\"\n");
    let clear = |more: &[&str]| {
        let mut command = folder.tidegate(&["backoff", "clear", "api", "--sidecar", &sidecar.address]);
        outcome(command.args(more))
    };
    assert_eq!(clear(&[]), (Some(0), "no window is open for api\n".into(), String::new()));
    let json: Value = serde_json::from_str(&clear(&["--json"]).1).expect("JSON");
    assert_eq!(json, json!({ "key": "api", "cleared": false }));
    let set = outcome(&mut folder.tidegate(&["backoff", "set", "api", "60s", "--sidecar", &sidecar.address]));
    assert_eq!(set.0, Some(0));
    assert_eq!(clear(&[]).1, "calls to api are not held back any more\n");
}

#[test]
fn what_the_sidecar_has_against_it_is_told() {
    let sidecar =
        StandIn::start(404, r#"{"error": {"code": "unknown_limit", "message": "no limit named x"}}"#, &[]);
    let folder = Folder::with("");
    let arguments = ["limit", "set", "x/concurrency", "5", "--sidecar", &sidecar.address];
    let (code, said, error) = outcome(&mut folder.tidegate(&arguments));
    assert_eq!((code, &*said, &*error), (Some(1), "", "tidegate: no limit named x\n"));
}

#[test]
fn a_slip_is_told_before_anybody_is_asked() {
    let folder = Folder::with("listen = \"127.0.0.1:1\"\n");
    for (arguments, words) in [
        (&["limit", "set", "openai/requests/1m", "500/mim"][..], "500/mim"),
        (&["limit", "set", "openai/concurrency", "5/s"], "openai/concurrency"),
        (&["backoff", "set", "openai", "soon"], "soon"),
    ] {
        let (code, said, error) = outcome(&mut folder.tidegate(arguments));
        assert_eq!((code, &*said), (Some(2), ""), "{error}");
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn without_a_sidecar_it_says_how_to_start_one() {
    let folder = Folder::with("listen = \"127.0.0.1:1\"\n");
    for arguments in
        [&["status"][..], &["backoff", "clear", "openai"], &["limit", "set", "a/concurrency", "1"]]
    {
        let (code, _, error) = outcome(&mut folder.tidegate(arguments));
        assert_eq!(code, Some(1), "{error}");
        assert!(error.contains("127.0.0.1:1") && error.contains("tidegate serve"), "{error}");
    }
}
