//! What goes through, and how.

use super::client::{post_http2, raw, send};
use super::script::{Script, reply};
use super::*;

#[tokio::test]
async fn a_request_reaches_its_upstream_and_the_reply_its_client() {
    let upstream = upstream(&[]).await;
    let server = sidecar(&upstream.url(), "preset = \"openai\"").await;
    let reply = client::post(&server, "/api/v1/chat/completions", CHAT).await;
    assert_eq!((reply.status.as_u16(), number(&reply, "x-tidegate-attempts")), (200, 1));
    assert_eq!(number(&reply, "x-tidegate-waited-ms"), 0);
    assert_eq!(reply.json()["usage"]["completion_tokens"], 8);
    let records = upstream.records();
    assert_eq!((&*records[0].path, records.len(), records[0].completed), ("/v1/chat/completions", 1, true));
    holds_nothing(&server).await;
}

#[tokio::test]
async fn http2_without_tls_is_spoken_too() {
    let upstream = upstream(&[]).await;
    let server = sidecar(&upstream.url(), "").await;
    let reply = post_http2(&server, "/api/v1/chat/completions", CHAT).await;
    assert_eq!((reply.status.as_u16(), number(&reply, "x-tidegate-attempts")), (200, 1));
    holds_nothing(&server).await;
}

#[tokio::test]
async fn headers_between_neighbours_stay_there_and_hints_go_nowhere() {
    let upstream = Script::says(reply(
        "200 OK",
        "x-theirs: 1\r\nx-gone: 1\r\nconnection: x-gone\r\nkeep-alive: timeout=9\r\nproxy-authenticate: Basic\r\n",
        "sea",
    ))
    .await;
    let server = sidecar(&format!("{}/base", upstream.url()), "").await;
    let headers = [
        ("connection", "x-mine-only"),
        ("x-mine-only", "1"),
        ("te", "trailers"),
        ("proxy-authorization", "Basic secret"),
        ("x-tidegate-loop", "agent-7"),
        ("x-tidegate-priority", "high"),
        ("x-stays", "yes"),
        ("authorization", "Bearer mine"),
    ];
    let reply = send(&server, "PUT", "/api/v1/x%2Fy?q=1&r=%20", &headers, "body").await.expect("an answer");
    assert_eq!((reply.text(), reply.header("x-theirs")), ("sea".into(), Some("1")));
    for name in ["x-gone", "keep-alive", "proxy-authenticate"] {
        assert_eq!(reply.header(name), None, "{name}");
    }
    let request = upstream.requests().remove(0);
    assert!(request.starts_with("PUT /base/v1/x%2Fy?q=1&r=%20 HTTP/1.1\r\n"), "{request}");
    assert!(request.contains(&format!("host: {}\r\n", upstream.url().replace("http://", ""))), "{request}");
    assert!(request.contains("x-stays: yes") && request.contains("authorization: Bearer mine"));
    for gone in ["x-mine-only", "te: ", "proxy-authorization", "x-tidegate", "localhost"] {
        assert!(!request.contains(gone), "{gone} in {request}");
    }
    holds_nothing(&server).await;
}

#[tokio::test]
async fn a_head_and_an_empty_answer_hold_nothing() {
    let upstream = Script::plays(|mut stage| async move {
        let status = if stage.number == 0 { "200 OK" } else { "304 Not Modified" };
        stage.say(&format!("HTTP/1.1 {status}\r\ncontent-length: 5000\r\nconnection: close\r\n\r\n")).await;
    })
    .await;
    let server = sidecar(&upstream.url(), "").await;
    let reply = send(&server, "HEAD", "/api/x", &[], "").await.expect("an answer");
    assert_eq!((reply.status.as_u16(), reply.header("content-length")), (200, Some("5000")));
    let reply = send(&server, "GET", "/api/x", &[], "").await.expect("an answer");
    assert_eq!((reply.status.as_u16(), reply.body.len()), (304, 0));
    holds_nothing(&server).await;
}

#[tokio::test]
async fn a_large_reply_and_a_body_in_chunks_come_whole() {
    let body = "sea ".repeat(1 << 20);
    let upstream = Script::says(reply("200 OK", "", &body)).await;
    let server = sidecar(&upstream.url(), "").await;
    let asked =
        b"POST /api/x HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n\
        3\r\nsea\r\n5\r\n salt\r\n0\r\n\r\n";
    let said = raw(&server, asked).await;
    assert!(said.starts_with("HTTP/1.1 200 OK") && said.ends_with(&body[..40]), "{}", &said[..200]);
    assert_eq!(said.split_once("\r\n\r\n").map(|(_, body)| body.len()), Some(body.len()));
    assert!(upstream.requests()[0].contains("sea salt"), "{:?}", upstream.requests());
    holds_nothing(&server).await;
}

#[tokio::test]
async fn a_key_from_the_environment_takes_the_place_of_the_callers() {
    // What every test process has.
    let variable = "CARGO_PKG_NAME";
    let upstream = Script::says(reply("200 OK", "", "")).await;
    for (preset, header) in [("openai", "authorization: Bearer "), ("anthropic", "x-api-key: ")] {
        let keys = format!("preset = \"{preset}\"\napi_key_env = \"{variable}\"");
        let server = sidecar(&upstream.url(), &keys).await;
        let headers = [("authorization", "Bearer dummy"), ("x-api-key", "dummy")];
        send(&server, "POST", "/api/v1/x", &headers, CHAT).await.expect("an answer");
        let request = upstream.requests().pop().expect("asked");
        assert!(request.contains(&format!("{header}tidegate-server\r\n")), "{request}");
        assert!(!request.contains("dummy"), "{request}");
        holds_nothing(&server).await;
    }
}

#[tokio::test]
async fn without_a_config_every_preset_with_a_fixed_url_is_served() {
    let server = started(Server::builder().listen("127.0.0.1:0")).await;
    let status = status(&server).await;
    let services = status["services"].as_object().expect("an object");
    assert_eq!(services["openai"]["upstream"], "https://api.openai.com/".trim_end_matches('/'));
    assert!(services.contains_key("anthropic") && services.contains_key("github"));
}

#[tokio::test]
async fn health_and_limits_are_told() {
    let server = sidecar("http://127.0.0.1:1", "requests = \"60/min\"").await;
    for path in ["/healthz", "/readyz"] {
        assert_eq!(client::get(&server, path).await.json()["ok"], true, "{path}");
    }
    let limit = limit(&server, "api/requests/1m").await;
    assert_eq!((limit["from"].as_str(), limit["capacity"].as_u64()), (Some("file"), Some(60)));
    assert_eq!(client::get(&server, "/v1/nothing").await.status, 404);
    assert_eq!(send(&server, "POST", "/v1/status", &[], "").await.expect("an answer").status, 405);
}

#[tokio::test]
async fn an_address_at_the_upstream_leads_through_the_sidecar_and_hints_stay() {
    let own = std::sync::Arc::new(std::sync::OnceLock::<String>::new());
    let known = own.clone();
    let upstream = Script::plays(move |mut stage| {
        let at = known.get().cloned().unwrap_or_default();
        async move {
            let headers =
                format!("location: {at}/base/v1/jobs/5?full=1\r\ncontent-location: /base/v1/jobs/5\r\n");
            let elsewhere = "location: https://elsewhere.example/base/x\r\n".to_owned();
            let headers = if stage.number == 0 { headers } else { elsewhere };
            stage.say(&reply("201 Created", &headers, "")).await;
        }
    })
    .await;
    own.set(upstream.url()).expect("once");
    let server = sidecar(&format!("{}/base", upstream.url()), "").await;
    let made = send(&server, "POST", "/~agent-7,high/api/v1/jobs", &[], "").await.expect("an answer");
    assert_eq!(made.header("location"), Some("/~agent-7,high/api/v1/jobs/5?full=1"));
    assert_eq!(made.header("content-location"), Some("/~agent-7,high/api/v1/jobs/5"));
    let other = send(&server, "POST", "/api/v1/jobs", &[], "").await.expect("an answer");
    assert_eq!(other.header("location"), Some("https://elsewhere.example/base/x"));
    holds_nothing(&server).await;
}

#[tokio::test]
async fn an_empty_body_keeps_its_stated_length() {
    let upstream = Script::says(reply("200 OK", "", "well")).await;
    let server = sidecar(&upstream.url(), "").await;
    for method in ["POST", "PUT", "PATCH"] {
        raw(
            &server,
            format!("{method} /api/x HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").as_bytes(),
        )
        .await;
        send(&server, method, "/api/x", &[("content-length", "0")], "").await.expect("an answer");
    }
    send(&server, "DELETE", "/api/x", &[("content-length", "0")], "").await.expect("an answer");
    send(&server, "GET", "/api/x", &[], "").await.expect("an answer");
    let mut requests = upstream.requests();
    let get = requests.pop().expect("the last one");
    assert!(!get.contains("content-length"), "{get}");
    assert_eq!(requests.len(), 7);
    for request in requests {
        assert_eq!(request.matches("content-length: 0\r\n").count(), 1, "{request}");
        assert!(!request.contains("transfer-encoding"), "{request}");
    }
    holds_nothing(&server).await;
}
