//! Each call as a span, with its attempts inside. Alone in its process: whether a span is wanted is remembered for all threads,
//! and other tests want none.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate::Config;
use tidegate_server::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

/// A span: its name, that of the one around it, and its fields.
#[derive(Clone, Debug, Default)]
struct Seen {
    name: &'static str,
    inside: Option<&'static str>,
    fields: BTreeMap<&'static str, String>,
}

impl Visit for Seen {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.fields.insert(field.name(), format!("{value:?}").trim_matches('"').to_owned());
    }
}

#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<Seen>>>);

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let metadata = attributes.metadata();
        if !metadata.target().starts_with("tidegate") {
            return;
        }
        let inside = context.span(id).and_then(|span| span.parent()).map(|parent| parent.name());
        let mut seen = Seen { name: metadata.name(), inside, ..Seen::default() };
        attributes.record(&mut seen);
        let mut all = self.0.lock().expect("no panic");
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(Number(all.len()));
        }
        all.push(seen);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(Number(number)) = span.extensions().get::<Number>() {
            values.record(&mut self.0.lock().expect("no panic")[*number]);
        }
    }
}

/// Where a span stands among all.
struct Number(usize);

/// An upstream that fails once and then answers.
async fn upstream() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        for status in ["503 Service Unavailable", "200 OK"] {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut head = [0; 4096];
            let _ = stream.read(&mut head).await;
            let words = format!(
                "HTTP/1.1 {status}\r\ncontent-length: 0\r\nretry-after-ms: 1\r\nconnection: close\r\n\r\n"
            );
            stream.write_all(words.as_bytes()).await.ok();
        }
    });
    format!("http://{address}")
}

async fn ask(server: &Server, request: &str) -> String {
    let mut stream = TcpStream::connect(server.address()).await.expect("it listens");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut said = String::new();
    tokio::time::timeout(Duration::from_secs(30), stream.read_to_string(&mut said))
        .await
        .expect("in time")
        .ok();
    said
}

#[tokio::test]
async fn a_call_is_a_span_with_its_attempts_inside_and_holds_no_secret() {
    let spans = Spans::default();
    let _here = tracing::subscriber::set_default(tracing_subscriber::registry().with(spans.clone()));
    let config = format!(
        "[services.api]\nupstream = \"{}\"\n[services.api.endpoints.\"GET /v1/*\"]\nrequests = \"600/min\"\n\
         [services.git]\nrequests = \"1/h\"\n[loop_types.user]\npriority = \"high\"\n",
        upstream().await
    );
    let config = Config::parse(&config).expect("valid");
    let server = Server::builder().config(config).listen("127.0.0.1:0").start().await.expect("it starts");
    let head = "host: localhost\r\nauthorization: Bearer sk-secret\r\nconnection: close\r\n";
    let said =
        ask(&server, &format!("GET /~agent-7:user/api/v1/secret-path?key=sk-secret HTTP/1.1\r\n{head}\r\n"))
            .await;
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    for (cost, status) in [(1, "200"), (5, "413")] {
        let body =
            format!("{{\"service\": \"git\", \"key\": \"sk-secret\", \"cost\": {{\"requests\": {cost}}}}}");
        let length = body.len();
        let said = ask(
            &server,
            &format!("POST /v1/acquire HTTP/1.1\r\n{head}content-length: {length}\r\n\r\n{body}"),
        )
        .await;
        assert!(said.starts_with(&format!("HTTP/1.1 {status}")), "{said}");
    }

    let seen: Vec<Seen> = spans.0.lock().expect("no panic").clone();
    let calls: Vec<&Seen> = seen.iter().filter(|span| span.name == "call").collect();
    let fields = |span: &Seen, names: &[&str]| -> Vec<String> {
        names.iter().map(|name| span.fields.get(name).cloned().unwrap_or_default()).collect()
    };
    let names = ["service", "endpoint", "loop", "loop_type", "priority", "attempts", "status"];
    assert_eq!(fields(calls[0], &names), ["api", "GET /v1/*", "agent-7", "user", "high", "2", "200"]);
    assert!(calls[0].fields["waited_ms"].parse::<u64>().is_ok(), "{:?}", calls[0]);
    assert_eq!(fields(calls[1], &["service", "attempts", "status"]), ["git", "1", "200"]);
    assert_eq!(fields(calls[2], &["service", "attempts", "status"]), ["git", "0", "413"]);
    let attempts: Vec<_> = seen.iter().filter(|span| span.name == "attempt").collect();
    assert_eq!(attempts.len(), 2);
    for (attempt, number) in attempts.iter().zip(["1", "2"]) {
        assert_eq!((attempt.inside, &*attempt.fields["attempt"]), (Some("call"), number), "{attempt:?}");
    }
    assert!(!format!("{seen:?}").contains("secret"), "{seen:?}");
}
