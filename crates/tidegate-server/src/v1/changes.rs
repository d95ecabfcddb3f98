//! Changes of limits and backoff windows while the sidecar runs.

use std::collections::BTreeSet;
use std::time::Duration;

use http::{Response, StatusCode};
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::json;
use tidegate::ChangeError;
use tidegate_core::config::nearest;

use super::json_body::read;
use crate::body::{Body, json as answer};
use crate::configured_limits;
use crate::error_format;
use crate::events::Event;
use crate::limit_changes::{NewLimit, RejectedChange};
use crate::v1::Api;

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
pub(super) async fn set_limit(api: &Api, name: &str, body: Incoming) -> Response<Body> {
    let bad = |message: &str| error_format::plain(StatusCode::BAD_REQUEST, "bad_request", message);
    let wanted = match read(api, body).await {
        Ok((Limit { rate: Some(rate), bound: None }, _)) => NewLimit::Rate(rate),
        Ok((Limit { rate: None, bound: Some(bound) }, _)) => NewLimit::Bound(bound),
        Ok(_) => return bad("send {\"rate\": \"500/min\"} or {\"bound\": 10}"),
        Err(response) => return *response,
    };
    match api.shared.config.change_limit(name, &wanted) {
        Ok(()) => {
            let to = match &wanted {
                NewLimit::Rate(rate) => json!({ "rate": rate }),
                NewLimit::Bound(bound) => json!({ "bound": bound }),
            };
            tracing::info!(limit = name, %to, "limit changed");
            api.shared.events.publish(|| Event::LimitChanged { name: name.to_owned(), to });
            answer(StatusCode::OK, &super::limits::named(api, name))
        }
        Err(RejectedChange::Invalid(message)) => bad(&message),
        Err(RejectedChange::Unknown) => {
            let hint = match name.split_once('/') {
                Some((level, rest)) if level.starts_with("loop:") => {
                    format!(": what loops may spend is written once for all of them, loop:*/{rest}")
                }
                _ => did_you_mean(name, &limit_names(api)),
            };
            let message = format!("no limit named `{name}` in the config{hint}");
            error_format::plain(StatusCode::NOT_FOUND, "unknown_limit", &message)
        }
    }
}

/// `POST /v1/limits/{name}/reset`
pub(super) fn reset_limit(api: &Api, name: &str) -> Response<Body> {
    match api.shared.gate.reset_limit(name) {
        Ok(before) => {
            let forgiven = json!({ "name": name, "used_before": before.used, "dropped_debt_before": before.dropped_debt });
            answer(StatusCode::OK, &forgiven)
        }
        Err(error @ ChangeError::NothingToReset(_)) => {
            error_format::plain(StatusCode::BAD_REQUEST, "nothing_to_reset", &error.to_string())
        }
        Err(error) => {
            let hint = if name.starts_with("loop:*") {
                ": name one loop, such as loop:agent-7".to_owned()
            } else {
                let live: Vec<String> =
                    api.shared.gate.limits().iter().map(|limit| limit.name.to_string()).collect();
                did_you_mean(name, &live)
            };
            error_format::plain(StatusCode::NOT_FOUND, "unknown_limit", &format!("{error}{hint}"))
        }
    }
}

/// `PUT /v1/backoff/{key}`
pub(super) async fn set_backoff(api: &Api, key: &str, body: Incoming) -> Response<Body> {
    let Backoff { ms } = match read(api, body).await {
        Ok((backoff, _)) => backoff,
        Err(response) => return *response,
    };
    match api.shared.gate.set_backoff(key, Duration::from_millis(ms)) {
        Ok(()) => answer(StatusCode::OK, &json!({ "key": key, "ms": ms })),
        Err(_) => error_format::plain(
            StatusCode::NOT_FOUND,
            "unknown_key",
            &format!(
                "`{key}` is neither a limit nor the level of one{}",
                did_you_mean(key, &backoff_keys(api))
            ),
        ),
    }
}

/// `DELETE /v1/backoff/{key}`
pub(super) fn clear_backoff(api: &Api, key: &str) -> Response<Body> {
    let cleared = api.shared.gate.clear_backoff(key);
    let mut response = json!({ "key": key, "cleared": cleared });
    if !cleared {
        let known = backoff_keys(api);
        if !known.iter().any(|known| known == key)
            && let Some(near) = nearest(key, known.iter().map(String::as_str))
        {
            response["did_you_mean"] = near.into();
        }
    }
    answer(StatusCode::OK, &response)
}

/// Returns the names of all limits in the config.
fn limit_names(api: &Api) -> Vec<String> {
    configured_limits::limits(&api.shared.config.active().config)
        .into_iter()
        .map(|limit| limit.name)
        .collect()
}

/// Returns the keys that a window can have: the limits, their levels and the services.
fn backoff_keys(api: &Api) -> Vec<String> {
    let services = api.shared.config.active().config.services.keys().cloned().collect::<Vec<_>>();
    let mut keys: BTreeSet<String> = services.into_iter().collect();
    for name in limit_names(api) {
        keys.extend(name.match_indices('/').map(|(end, _)| name[..end].to_owned()));
        keys.insert(name);
    }
    keys.into_iter().collect()
}

/// Returns the known name that was most likely meant, as the end of a sentence.
fn did_you_mean(written: &str, known: &[String]) -> String {
    let near = nearest(written, known.iter().map(String::as_str));
    near.map_or_else(String::new, |near| format!(": did you mean `{near}`?"))
}
