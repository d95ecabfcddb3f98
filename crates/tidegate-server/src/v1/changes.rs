//! What can be changed while it runs: limits and backoff windows.

use std::time::Duration;

use http::{Response, StatusCode};
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::json;

use super::read::read;
use crate::app::App;
use crate::body::{Body, json as answer};
use crate::events::Event;
use crate::live::{NoChange, Wanted};
use crate::shape;

/// The body of `PUT /v1/limits/{name}`: one of the two.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Limit {
    rate: Option<String>,
    bound: Option<u64>,
}

/// The body of `PUT /v1/backoff/{key}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Backoff {
    ms: u64,
}

/// `PUT /v1/limits/{name}`
pub(super) async fn set_limit(app: &App, name: &str, body: Incoming) -> Response<Body> {
    let bad = |message: &str| shape::plain(StatusCode::BAD_REQUEST, "bad_request", message);
    let wanted = match read(body, app.times.client).await {
        Ok((Limit { rate: Some(rate), bound: None }, _)) => Wanted::Rate(rate),
        Ok((Limit { rate: None, bound: Some(bound) }, _)) => Wanted::Bound(bound),
        Ok(_) => return bad("send {\"rate\": \"500/min\"} or {\"bound\": 10}"),
        Err(told) => return *told,
    };
    match app.change(name, &wanted) {
        Ok(()) => {
            let to = match &wanted {
                Wanted::Rate(rate) => json!({ "rate": rate }),
                Wanted::Bound(bound) => json!({ "bound": bound }),
            };
            tracing::info!(limit = name, %to, "limit changed");
            app.events.tell(|| Event::LimitChanged { name: name.to_owned(), to });
            answer(StatusCode::OK, &super::limits::named(app, name))
        }
        Err(NoChange::Wrong(message)) => bad(&message),
        Err(NoChange::Unknown) => {
            let hint = match name.split_once('/') {
                Some((level, rest)) if level.starts_with("loop:") => {
                    format!(": what loops may spend is written once for all of them, loop:*/{rest}")
                }
                _ => String::new(),
            };
            let message = format!("no limit named `{name}` in the config{hint}");
            shape::plain(StatusCode::NOT_FOUND, "unknown_limit", &message)
        }
    }
}

/// `PUT /v1/backoff/{key}`
pub(super) async fn set_backoff(app: &App, key: &str, body: Incoming) -> Response<Body> {
    let Backoff { ms } = match read(body, app.times.client).await {
        Ok((backoff, _)) => backoff,
        Err(told) => return *told,
    };
    match app.gate.set_backoff(key, Duration::from_millis(ms)) {
        Ok(()) => answer(StatusCode::OK, &json!({ "key": key, "ms": ms })),
        Err(_) => shape::plain(
            StatusCode::NOT_FOUND,
            "unknown_key",
            &format!("`{key}` is neither a limit nor the level of one"),
        ),
    }
}

/// `DELETE /v1/backoff/{key}`
pub(super) fn clear_backoff(app: &App, key: &str) -> Response<Body> {
    answer(StatusCode::OK, &json!({ "key": key, "cleared": app.gate.clear_backoff(key) }))
}
