//! The server's own count is what the clients saw.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use serde_json::json;
use tidegate_sim::Spread;

use super::client::{Reply, get, post, send};
use super::*;

/// What one client saw: its id, and the status, if there was an answer.
type Seen = (String, Option<u16>);

async fn call(server: &LimitedServer, number: usize) -> Seen {
    let id = format!("call-{number}");
    let headers = [("x-sim-id", id.as_str()), ("x-sim-output-tokens", "7")];
    let body =
        json!({ "stream": number.is_multiple_of(2), "max_tokens": 20, "messages": [{ "content": "abcd" }] });
    let path = ["/v1/chat/completions", "/v1/messages", "/v1/responses", "/else"][number % 4];
    let reply = send(server, "POST", path, &headers, body.to_string()).await;
    (id, reply.ok().map(|reply: Reply| reply.status.as_u16()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_concurrent_clients_see_exactly_what_the_server_counted() {
    const CALLS: usize = 800;
    let spec = UpstreamSpec {
        latency: Spread::spans(Duration::from_millis(1), Duration::from_millis(60)),
        jitter: Spread::spans(Duration::ZERO, Duration::from_millis(10)),
        errors: 0.1,
        lost: 0.1,
        ..styled(HeaderStyle::OpenAi, &[a_minute(Dimension::Requests, 600), slots(150)])
    };
    let server = Arc::new(started(&spec).await);
    let clients: Vec<_> = (0..CALLS)
        .map(|number| {
            let server = server.clone();
            tokio::spawn(async move { call(&server, number).await })
        })
        .collect();
    let mut seen = HashMap::new();
    for client in clients {
        let (id, status) = client.await.unwrap();
        seen.insert(id, status);
    }
    assert_eq!(seen.len(), CALLS);
    // Call by call, in the records; each exactly once.
    let records = server.records();
    assert_eq!(records.len(), CALLS);
    for record in &records {
        assert_eq!(seen.remove(record.id.as_ref().unwrap()), Some(record.status), "{record:?}");
        assert_eq!(record.completed, record.status.is_some());
        assert!(record.ended >= Some(record.at));
    }
    assert!(records.windows(2).all(|pair| pair[0].at <= pair[1].at && pair[0].number < pair[1].number));
    // And in the sums.
    let counts = server.counts();
    let mut statuses = BTreeMap::new();
    for status in records.iter().filter_map(|record| record.status) {
        *statuses.entry(status).or_insert(0_u64) += 1;
    }
    assert_eq!(counts.statuses, statuses);
    let us = &counts.upstream.us;
    assert_eq!(us.received, CALLS as u64);
    assert_eq!(us.accepted, statuses[&200] + counts.lost);
    assert_eq!(us.refused, statuses[&429]);
    assert_eq!(us.failed, statuses[&500] + statuses[&502]);
    assert_eq!((counts.running, counts.malformed), (0, 0));
    assert!(counts.lost > 0 && us.refused > 0 && us.failed > 0, "{counts:?}");
    assert_eq!(us.units[0], us.accepted + us.failed, "failed requests are counted, refused ones are not");
}

#[tokio::test]
async fn one_connection_carries_many_requests() {
    let server = started(&UpstreamSpec::default()).await;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(server.address()).await.unwrap();
    for number in 0..5 {
        let request = format!("GET /n/{number} HTTP/1.1\r\nhost: x\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut reply = vec![0; 4096];
        let read = stream.read(&mut reply).await.unwrap();
        assert!(String::from_utf8_lossy(&reply[..read]).contains(&format!("/n/{number}")));
    }
    assert_eq!(server.records().len(), 5);
}

#[tokio::test]
async fn what_was_counted_is_told_over_http_too() {
    let mut limits = vec![a_minute(Dimension::Requests, 10), slots(3), a_minute(Dimension::Bytes, 1000)];
    limits[0].model = Model::FixedWindow;
    let server = started(&styled(HeaderStyle::GitHub, &limits)).await;
    let headers = [("authorization", "Bearer sk-secret"), ("x-request-id", "r-1")];
    send(&server, "POST", "/x", &headers, "12345678").await.unwrap();
    let counts = get(&server, "/_sim/counts").await.json();
    assert_eq!(counts["us"]["accepted"], 1);
    assert_eq!(counts["us"]["units"], json!([1, 1, 8]));
    assert_eq!(counts["statuses"], json!({ "200": 1 }));
    assert_eq!(
        counts["limits"][0],
        json!({ "name": "requests/1m", "limit": 10, "remaining": 9, "hidden": false })
    );
    assert_eq!(counts["limits"][1]["remaining"], 3);

    let records = get(&server, "/_sim/records").await;
    assert!(!records.text().contains("secret"));
    let record = &records.json()[0];
    let key = tidegate_core::Salt::default().fingerprint("Bearer sk-secret");
    assert_eq!((&record["id"], &record["key"]), (&json!("r-1"), &json!(key)));
    assert_eq!((&record["cost"]["bytes"], &record["status"]), (&json!(8), &json!(200)));
    assert_eq!(server.records().len(), 1, "what asks for the records is not among them");
}

#[tokio::test]
async fn a_limit_can_be_changed_while_it_runs() {
    let server = started(&styled(HeaderStyle::None, &[a_minute(Dimension::Requests, 2), slots(9)])).await;
    for status in [200, 200, 429] {
        assert_eq!(get(&server, "/").await.status, status);
    }
    let change = json!({ "limit": 0, "to": "4/min" });
    assert_eq!(post(&server, "/_sim/change", &change).await.json()["limits"][0]["limit"], 4);
    for status in [200, 200, 429] {
        assert_eq!(get(&server, "/").await.status, status);
    }
    server.change(0, Rate::new(5, Duration::from_secs(60)).unwrap());
    assert_eq!(get(&server, "/").await.status, 200);
    let change = json!({ "limit": 1, "to": 7 });
    assert_eq!(post(&server, "/_sim/change", &change).await.json()["limits"][1]["limit"], 7);
    for wrong in
        [json!({ "limit": 2, "to": "1/s" }), json!({ "limit": 0, "to": "fast" }), json!([]), json!({})]
    {
        assert_eq!(post(&server, "/_sim/change", &wrong).await.status, 400);
    }
    assert_eq!(get(&server, "/_sim/nothing").await.status, 404);
}

#[tokio::test]
async fn answers_take_as_long_as_they_should() {
    let latency = Duration::from_millis(120);
    let server = started(&UpstreamSpec { latency: Spread::span(latency), ..UpstreamSpec::default() }).await;
    for path in ["/x", "/v1/messages"] {
        let begun = Instant::now();
        post(&server, path, &json!({ "stream": true })).await;
        assert!(begun.elapsed() >= latency, "{path}: {:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn anthropics_output_counts_when_it_was_produced() {
    let limits = [a_minute(Dimension::InputTokens, 1_000), a_minute(Dimension::OutputTokens, 1_000)];
    let server = started(&styled(HeaderStyle::Anthropic, &limits)).await;
    let body = json!({ "max_tokens": 900, "messages": [{ "content": "x".repeat(400) }] }).to_string();
    let reply = send(&server, "POST", "/v1/messages", &[("x-sim-output-tokens", "250")], body).await.unwrap();
    assert_eq!(reply.json()["usage"]["output_tokens"], 250);
    assert_eq!(server.counts().upstream.us.units, [100, 250]);
}

#[tokio::test]
async fn only_so_many_records_are_kept_and_counts_stay_exact() {
    let options = Options { keep: 3, ..Options::default() };
    let server = LimitedServer::start(&UpstreamSpec::default(), options).await.unwrap();
    for _ in 0..8 {
        get(&server, "/").await;
    }
    let numbers: Vec<u64> = server.records().iter().map(|record| record.number).collect();
    assert_eq!((numbers, server.counts().upstream.us.received), (vec![5, 6, 7], 8));
}
