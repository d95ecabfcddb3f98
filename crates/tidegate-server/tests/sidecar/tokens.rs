//! Tokens: where one is required, and what it allows.

use super::client::{Reply, get, send};
use super::script::{Script, reply};
use super::*;

/// What the hashes below are of.
const USER: &str = "high-token";
const CI: &str = "ci-token";
const ADMIN: &str = "admin-token";

const AUTH: &str = "[auth.tokens.user]\n\
    sha256 = \"8a63032c0b19c00f17fcaed2d0803d8c8f42657f6934b98678d017d2b06a6ad0\"\n\
    [auth.tokens.ci]\npriorities = [\"low\", \"normal\"]\nservices = [\"api\"]\n\
    sha256 = \"948b8c2427cd29047839b8e4a27a08763f8befbafa86be5cce8e46217d75e58a\"\n\
    [auth.tokens.admin]\nadmin = true\n\
    sha256 = \"10a4c7c9fc5206d6f36dc6944a81bb6f4a3cb0e25014ae3b12e6c3e52712292a\"\n";

/// `PATH` is a variable that is always set.
fn config(upstream: &str) -> String {
    format!(
        "{AUTH}[services.api]\nupstream = \"{upstream}\"\nconcurrency = 5\n\
         [services.keyed]\nupstream = \"{upstream}\"\napi_key_env = \"PATH\"\n[services.git]\n\
         [loop_types.chat]\npriority = \"high\"\n"
    )
}

async fn with_tokens(upstream: &str) -> Server {
    let config = Config::parse(&config(upstream)).expect("valid");
    started(Server::builder().config(config).listen("127.0.0.1:0")).await
}

async fn ask(
    server: &Server,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &'static str,
) -> (u16, String) {
    let reply: Reply = send(server, method, path, headers, body).await.expect("an answer");
    let code = serde_json::from_slice::<Value>(&reply.body).ok();
    let code = code.and_then(|said| Some(said["error"]["code"].as_str()?.to_owned()));
    (reply.status.as_u16(), code.unwrap_or_default())
}

fn told(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

#[tokio::test]
async fn nobody_without_a_token_is_served_but_for_health() {
    let upstream = Script::says(reply("200 OK", "", "well")).await;
    let server = with_tokens(&upstream.url()).await;
    for headers in [&[][..], &[("x-tidegate-token", "wrong")], &[("x-tidegate-token", "")]] {
        for (method, path) in [
            ("GET", "/api/x"),
            ("GET", "/~a/api/x"),
            ("GET", "/nobody/x"),
            ("GET", "/v1/status"),
            ("GET", "/v1/limits"),
            ("GET", "/v1/events"),
            ("GET", "/v1/nothing"),
            ("POST", "/v1/acquire"),
            ("PUT", "/v1/limits/api/concurrency"),
            ("DELETE", "/v1/backoff/api"),
            ("DELETE", "/v1/permits/00000000000000000000000000000000"),
        ] {
            assert_eq!(
                ask(&server, method, path, headers, "").await,
                told(401, "unauthorized"),
                "{method} {path}"
            );
        }
    }
    assert_eq!(get(&server, "/healthz").await.status, 200);
    assert_eq!(get(&server, "/readyz").await.status, 200);
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn a_token_is_taken_out_before_a_call_is_forwarded_and_may_stand_where_a_key_is_put() {
    let upstream = Script::says(reply("200 OK", "", "well")).await;
    let server = with_tokens(&upstream.url()).await;
    let token = [("x-tidegate-token", USER), ("authorization", "Bearer sk-theirs")];
    assert_eq!(ask(&server, "GET", "/api/x", &token, "").await.0, 200);
    let bearer = [("authorization", "Bearer high-token")];
    assert_eq!(ask(&server, "GET", "/keyed/x", &bearer, "").await.0, 200);
    assert_eq!(ask(&server, "GET", "/keyed/x", &[("x-api-key", USER)], "").await.0, 200);
    // Where the caller's key is passed on it is no place for a token: it would be passed on too.
    assert_eq!(ask(&server, "GET", "/api/x", &bearer, "").await, told(401, "unauthorized"));
    assert_eq!(ask(&server, "GET", "/v1/status", &bearer, "").await.0, 200);
    let asked = upstream.requests();
    assert_eq!(asked.len(), 3);
    assert!(asked[0].contains("Bearer sk-theirs"), "{}", asked[0]);
    assert!(asked.iter().all(|request| !request.contains(USER)), "{asked:?}");
}

#[tokio::test]
async fn a_token_allows_its_services_and_priorities_however_they_are_said() {
    let upstream = Script::says(reply("200 OK", "", "well")).await;
    let server = with_tokens(&upstream.url()).await;
    let ci = ("x-tidegate-token", CI);
    for (path, more, expected) in [
        ("/api/x", None, told(200, "")),
        ("/api/x", Some(("x-tidegate-priority", "low")), told(200, "")),
        ("/api/x", Some(("x-tidegate-priority", "high")), told(403, "forbidden_priority")),
        ("/api/x", Some(("x-tidegate-loop-type", "chat")), told(403, "forbidden_priority")),
        ("/~a:chat/api/x", None, told(403, "forbidden_priority")),
        ("/~a,critical/api/x", None, told(403, "forbidden_priority")),
        ("/~a:chat,low/api/x", None, told(200, "")),
        ("/keyed/x", None, told(403, "forbidden_service")),
    ] {
        let headers: Vec<_> = std::iter::once(ci).chain(more).collect();
        assert_eq!(ask(&server, "GET", path, &headers, "").await, expected, "{path} {more:?}");
    }
    for (body, expected) in [
        (r#"{"service": "api"}"#, told(200, "")),
        (r#"{"service": "git"}"#, told(403, "forbidden_service")),
        (r#"{"service": "api", "priority": "high"}"#, told(403, "forbidden_priority")),
        (r#"{"service": "api", "loop_type": "chat"}"#, told(403, "forbidden_priority")),
    ] {
        assert_eq!(ask(&server, "POST", "/v1/acquire", &[ci], body).await, expected, "{body}");
    }
    assert_eq!(upstream.requests().len(), 3);
}

#[tokio::test]
async fn only_an_admins_token_changes_limits() {
    let server = with_tokens("http://127.0.0.1:1").await;
    for (method, path, body) in [
        ("PUT", "/v1/limits/api/concurrency", r#"{"bound": 3}"#),
        ("PUT", "/v1/backoff/api", r#"{"ms": 10}"#),
        ("DELETE", "/v1/backoff/api", ""),
    ] {
        let user = [("x-tidegate-token", USER)];
        assert_eq!(ask(&server, method, path, &user, body).await, told(403, "forbidden"), "{method} {path}");
        let admin = [("x-tidegate-token", ADMIN)];
        assert_eq!(ask(&server, method, path, &admin, body).await.0, 200, "{method} {path}");
    }
}

#[tokio::test]
async fn a_permit_belongs_to_the_token_that_it_was_asked_for_with() {
    let server = with_tokens("http://127.0.0.1:1").await;
    let user = [("x-tidegate-token", USER)];
    let granted =
        send(&server, "POST", "/v1/acquire", &user, r#"{"service": "api"}"#).await.expect("an answer");
    let granted = granted.json();
    let path = format!("/v1/permits/{}", granted["permit"].as_str().expect("a permit"));
    let ci = [("x-tidegate-token", CI)];
    assert_eq!(ask(&server, "DELETE", &path, &ci, "").await, told(404, "unknown_permit"));
    assert_eq!(ask(&server, "DELETE", &path, &user, "").await.0, 200);
    assert_eq!(ask(&server, "DELETE", &path, &ci, "").await, told(404, "unknown_permit"));
}

#[tokio::test]
async fn with_tokens_it_may_listen_for_others_and_does_not_lose_them_while_it_does() {
    let config = Config::parse(&config("http://127.0.0.1:1")).expect("valid");
    let server = started(Server::builder().config(config).listen("0.0.0.0:0")).await;
    let error = server.reconfigure(Config::parse("[services.api]\n").expect("valid")).expect_err("no tokens");
    assert!(error.to_string().contains("[auth]"), "{error}");
}

#[tokio::test]
async fn what_a_report_can_do_is_bounded_and_only_an_admin_can_forgive_it() {
    let config =
        format!("{AUTH}[services.api]\n[services.git]\ntokens = {{ limit = \"100/h\", burst = 100 }}\n");
    let config = Config::parse(&config).expect("valid");
    let server = started(Server::builder().config(config).listen("127.0.0.1:0")).await;
    let as_ = async |token: &str, method: &str, path: &str, body: &'static str| {
        let reply = send(&server, method, path, &[("x-tidegate-token", token)], body).await;
        let reply = reply.expect("an answer");
        (reply.status.as_u16(), reply.json())
    };
    let events = client::open(&server, "GET", "/v1/events", &[("x-tidegate-token", ADMIN)], "").await;
    let mut events = events.expect("events");
    let mut permits = Vec::new();
    for _ in 0..2 {
        let (status, granted) = as_(USER, "POST", "/v1/acquire", r#"{"service": "git"}"#).await;
        assert_eq!(status, 200, "{granted}");
        permits.push(format!("/v1/permits/{}/complete", granted["permit"].as_str().expect("a permit")));
    }
    let year = r#"{"status": 429, "headers": {"retry-after": "31536000"}}"#;
    assert_eq!(as_(USER, "POST", &permits[0], year).await.0, 200);
    let status = as_(USER, "GET", "/v1/status", "").await.1;
    let open_for = status["backoffs"][0]["open_for_ms"].as_u64().expect("a window");
    assert!((3_000_000..4_000_000).contains(&open_for), "{status}");
    assert_eq!(as_(ADMIN, "DELETE", "/v1/backoff/git", "").await.0, 200);

    let absurd = r#"{"status": 200, "usage": {"tokens": 1000000000000000000}}"#;
    assert_eq!(as_(USER, "POST", &permits[1], absurd).await.0, 200);
    let limit = as_(USER, "GET", "/v1/limits", "").await.1["limits"][0].clone();
    assert_eq!((&limit["used"], &limit["dropped_debt"]), (&500.into(), &999_999_999_999_999_500_u64.into()));
    let reset = "/v1/limits/git/tokens/1h/reset";
    assert_eq!(as_(USER, "POST", reset, "").await.0, 403);
    let (status, forgiven) = as_(ADMIN, "POST", reset, "").await;
    assert_eq!((status, &forgiven["used_before"]), (200, &500.into()));
    let asked = r#"{"service": "git", "cost": {"tokens": 100}, "timeout_ms": 0}"#;
    assert_eq!(as_(USER, "POST", "/v1/acquire", asked).await.0, 200, "it begins unspent");
    assert_eq!(as_(ADMIN, "POST", "/v1/limits/git/nothing/reset", "").await.0, 404);
    assert_eq!(as_(ADMIN, "PUT", reset, "").await.0, 405);

    let mut said = String::new();
    while !said.contains("event: limit_reset") {
        said.push_str(&events.next().await.expect("an event"));
    }
    assert!(said.contains("event: wait_cut") && said.contains("event: debt_dropped"), "{said}");
}
