//! What a call is charged whose body is odd, or cannot be read at all.

use super::client::{post, send};
use super::script::{Script, reply};
use super::*;

const MODELS: &str = "tokens = { limit = \"100M/h\", burst = \"100M\" }\n\
    [services.api.models.\"gpt-4o*\"]\nrequests = { limit = \"1000/h\", burst = 1000 }\n\
    [services.api.models.\"o3*\"]\nrequests = { limit = \"1000/h\", burst = 1000 }\n";

/// What was used so far: calls to the two models, and tokens.
async fn used(server: &Server) -> [u64; 3] {
    let limits = get(server, "/v1/limits").await.json();
    ["api/model:gpt-4o*/requests/1h", "api/model:o3*/requests/1h", "api/tokens/1h"].map(|name| {
        let limits = limits["limits"].as_array().expect("a list");
        limits
            .iter()
            .find(|limit| limit["name"] == name)
            .and_then(|limit| limit["used"].as_u64())
            .unwrap_or(0)
    })
}

#[tokio::test]
async fn a_body_that_is_odd_in_one_field_is_charged_like_any_other() {
    let upstream = Script::says(reply("200 OK", "", "well")).await;
    let server = sidecar(&upstream.url(), MODELS).await;
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let odd = [
        ("\"max_tokens\": 100.0", 104),
        ("\"max_tokens\": 1e2", 104),
        ("\"max_tokens\": \"100\"", 104),
        ("\"max_tokens\": -1", 4),
        ("\"max_tokens\": NaN", 4),
        ("\"n\": 1.0", 4),
        ("\"stream\": 1", 4),
        ("\"user\": \"a\", \"user\": \"b\"", 4),
        ("\"generationConfig\": null", 4),
        ("\"user\": \"\\ud83d\"", 4),
        (&format!("\"metadata\": {deep}"), 4),
    ];
    let mut before = used(&server).await;
    for (member, tokens) in odd {
        let chat = format!(
            r#"{{{member}, "model": "gpt-4o", "messages": [{{"role": "user", "content": "What is the sea?"}}]}}"#
        );
        for body in [chat.clone(), format!("\u{feff}{chat}")] {
            assert_eq!(post(&server, "/api/v1/chat/completions", body.clone()).await.text(), "well");
            let request = upstream.requests().pop().expect("asked");
            assert!(request.ends_with(&body), "it goes on as it came: {request}");
            let after = used(&server).await;
            assert_eq!([after[0] - before[0], after[2] - before[2]], [1, tokens], "{body}");
            before = after;
        }
    }
    holds_nothing(&server).await;
}

#[tokio::test]
async fn a_body_that_names_two_models_is_held_to_the_limits_of_both() {
    let upstream = Script::says(reply("200 OK", "", "well")).await;
    let server = sidecar(&upstream.url(), MODELS).await;
    post(&server, "/api/v1/chat/completions", r#"{"model": "cheap", "model": "gpt-4o"}"#).await;
    post(&server, "/api/v1/chat/completions", r#"{"model": "o3", "Model": "gpt-4o", "model": "o3"}"#).await;
    assert_eq!(used(&server).await[..2], [2, 1]);
    let many = r#"{"model": "cheap", "model": "o3", "model": "gpt-4o", "model": "cheap"}"#;
    let refused = post(&server, "/api/v1/chat/completions", many).await;
    assert_eq!((refused.status.as_u16(), upstream.requests().len()), (400, 2), "{}", refused.text());
    holds_nothing(&server).await;
}

type Headers = &'static [(&'static str, &'static str)];

/// A body that cannot be read as a whole, with its headers and the status if such bodies are refused.
fn unread() -> [(Vec<u8>, Headers, u16); 3] {
    let large = format!(r#"{{"model": "gpt-4o", "input": "{}"}}"#, "sea ".repeat(9 << 18));
    let text = "model=gpt-4o&prompt=".to_owned() + &"sea+".repeat(1_000);
    let gzip = [b"\x1f\x8b".as_slice(), &[0x5a; 3_998]].concat();
    [
        (large.into_bytes(), &[], 413),
        (text.into_bytes(), &[("content-type", "application/x-www-form-urlencoded")], 415),
        (gzip, &[("content-encoding", "gzip")], 415),
    ]
}

#[tokio::test]
async fn a_body_that_cannot_be_read_is_charged_by_its_length_and_by_the_model_that_it_begins_with() {
    let upstream = Script::says(reply("200 OK", "", "well")).await;
    let server = sidecar(&upstream.url(), MODELS).await;
    for (body, headers, _) in unread() {
        let before = used(&server).await;
        let (length, compressed) = (body.len() as u64, body.starts_with(b"\x1f"));
        let reply = send(&server, "POST", "/api/v1/responses", headers, body).await.expect("an answer");
        assert_eq!(reply.text(), "well");
        let after = used(&server).await;
        assert_eq!(after[2] - before[2], length.div_ceil(4));
        assert_eq!(after[0] - before[0], u64::from(!compressed));
    }
    holds_nothing(&server).await;
}

#[tokio::test]
async fn what_becomes_of_a_body_that_cannot_be_read_is_for_the_config_to_say() {
    let upstream = Script::says(reply("200 OK", "", "well")).await;
    let passing = sidecar(&upstream.url(), &format!("unread = \"pass\"\n{MODELS}")).await;
    let refusing = sidecar(&upstream.url(), &format!("unread = \"refuse\"\n{MODELS}")).await;
    for (body, headers, status) in unread() {
        let reply = send(&passing, "POST", "/api/x", headers, body.clone()).await.expect("an answer");
        assert_eq!(reply.text(), "well");
        let sent = upstream.requests().len();
        let reply = send(&refusing, "POST", "/api/x", headers, body).await.expect("an answer");
        assert_eq!((reply.status.as_u16(), upstream.requests().len()), (status, sent), "{}", reply.text());
        assert!(reply.text().contains("cannot be accounted for"), "{}", reply.text());
    }
    assert_eq!(used(&passing).await, [2, 0, 0], "models are known all the same");
    assert_eq!(post(&refusing, "/api/x", CHAT).await.text(), "well");
    assert_eq!(send(&refusing, "GET", "/api/x", &[], "").await.expect("an answer").text(), "well");
    for server in [&passing, &refusing] {
        holds_nothing(server).await;
    }
}

#[tokio::test]
async fn aliases_of_a_path_share_a_limit_and_are_forwarded_as_they_came() {
    let upstream = Script::says(reply("200 OK", "", "well")).await;
    let keys =
        "[services.api.endpoints.\"POST /v1/chat\"]\nrequests = { limit = \"1000/h\", burst = 1000 }\n";
    let server = sidecar(&upstream.url(), keys).await;
    let aliases = ["/v1/chat", "/v1/%63hat", "//v1/chat", "/v1/chat/", "/v1//%63h%61t/"];
    for alias in aliases {
        assert_eq!(post(&server, &format!("/api{alias}"), "{}").await.text(), "well", "{alias}");
        let request = upstream.requests().pop().expect("asked");
        assert!(request.starts_with(&format!("POST {alias} HTTP/1.1\r\n")), "{request}");
    }
    assert_eq!(limit(&server, "api/endpoint:POST /v1/chat/requests/1h").await["used"], aliases.len());
    let asked = r#"{"service": "api", "endpoint": "POST /v1/./ch%61t"}"#;
    assert_eq!(post(&server, "/v1/acquire", asked).await.status, 200);
    assert_eq!(limit(&server, "api/endpoint:POST /v1/chat/requests/1h").await["used"], aliases.len() + 1);
}

#[tokio::test]
async fn a_service_without_a_path_is_held_to_the_limits_of_its_root() {
    let upstream = Script::says(reply("200 OK", "", "well")).await;
    let keys = "[services.api.endpoints.\"POST /\"]\nrequests = { limit = \"1000/h\", burst = 1000 }\n\
        [services.api.endpoints.\"* /*\"]\nrequests = { limit = \"1000/h\", burst = 1000 }\n";
    let server = sidecar(&upstream.url(), keys).await;
    for path in ["/api", "/api/", "/~a/api", "/api?x=1"] {
        assert_eq!(post(&server, path, "{}").await.text(), "well", "{path}");
    }
    assert_eq!(limit(&server, "api/endpoint:POST //requests/1h").await["used"], 4);
    assert_eq!(send(&server, "GET", "/api", &[], "").await.expect("an answer").text(), "well");
    assert_eq!(limit(&server, "api/endpoint:* /*/requests/1h").await["used"], 1);
    holds_nothing(&server).await;
}
