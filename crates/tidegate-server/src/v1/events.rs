//! `GET /v1/events`: events as they happen.
//!
//! Each subscriber has a task that puts events into a short channel, whose other end is the body of the answer. A
//! subscriber that does not read delays only its own task, and is told how many events it missed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use serde_json::json;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

use crate::body::Body;
use crate::error_format;
use crate::events::Event;
use crate::v1::Api;

/// How many events wait for a slow subscriber before it begins to lag.
const CAPACITY: usize = 64;
/// How often something is sent to a quiet subscriber. Otherwise a lost connection would go unnoticed.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

pub(super) fn stream(api: &Api) -> Response<Body> {
    let events = api.shared.events.subscribe();
    // Checked after the subscription began, so that no subscriber misses the end.
    if !api.shared.lifecycle.is_ready() {
        return error_format::plain(
            StatusCode::SERVICE_UNAVAILABLE,
            "stopping",
            "nothing more will happen here",
        );
    }
    let (sender, receiver) = mpsc::channel(CAPACITY);
    tokio::spawn(forward_events(events, sender));
    let mut response = Response::new(Body::Events(receiver));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

async fn forward_events(mut events: Receiver<Arc<Event>>, subscriber: mpsc::Sender<Bytes>) {
    let mut text = Bytes::from_static(b": tidegate\n\n");
    let mut ends = false;
    while subscriber.send(text).await.is_ok() && !ends {
        let next = tokio::select! {
            next = tokio::time::timeout(KEEP_ALIVE, events.recv()) => next,
            () = subscriber.closed() => return,
        };
        text = match next {
            Ok(Ok(event)) => {
                ends = *event == Event::Stopping;
                let (kind, value) = event.name_and_json();
                line(kind, &value)
            }
            Ok(Err(RecvError::Lagged(missed))) => line("lagged", &json!({ "missed": missed })),
            Ok(Err(RecvError::Closed)) => return,
            Err(_) => Bytes::from_static(b":\n\n"),
        };
    }
}

/// Formats one event. JSON has no line breaks, so each event is one line of data.
fn line(kind: &str, value: &serde_json::Value) -> Bytes {
    format!("event: {kind}\ndata: {value}\n\n").into()
}
