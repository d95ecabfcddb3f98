//! Bodies of requests to the sidecar's own routes: a small JSON object without unknown fields.

use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde::de::DeserializeOwned;

use crate::body::Body;
use crate::error_format;
use crate::lifecycle::Phase;
use crate::v1::Api;

/// The longest body.
const MAX_BODY: usize = 64 << 10;
/// How long the rest of a body may take when the sidecar stops. Such a request holds no permit yet.
const REST_WHEN_STOPPING: Duration = Duration::from_millis(900);

/// Reads a body. An empty one counts as `{}`.
///
/// # Errors
/// Returns the answer to a request whose body is too long, too slow or invalid.
pub(super) async fn read<T: DeserializeOwned>(
    api: &Api,
    body: Incoming,
) -> Result<(T, Bytes), Box<Response<Body>>> {
    let response = |status, code, message: &str| Box::new(error_format::plain(status, code, message));
    let stopping = async {
        api.shared.lifecycle.subscribe().wait_for(|phase| *phase != Phase::Serving).await.ok();
        tokio::time::sleep(REST_WHEN_STOPPING).await;
    };
    let collected = tokio::select! {
        biased;
        collected = tokio::time::timeout(api.shared.timeouts.client, Limited::new(body, MAX_BODY).collect()) => collected,
        () = stopping => {
            let message = "tidegate is stopping, and the body of the request did not come in time";
            return Err(response(StatusCode::SERVICE_UNAVAILABLE, "stopping", message));
        }
    };
    let bytes = match collected {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            return Err(response(
                StatusCode::PAYLOAD_TOO_LARGE,
                "body_too_large",
                "the body is longer than 64 KiB",
            ));
        }
        Ok(Err(_)) => {
            return Err(response(
                StatusCode::BAD_REQUEST,
                "broken_body",
                "the body of the request broke off",
            ));
        }
        Err(_) => {
            let message = "the body of the request did not come in time";
            return Err(response(StatusCode::REQUEST_TIMEOUT, "slow_body", message));
        }
    };
    let text: &[u8] = if bytes.iter().all(u8::is_ascii_whitespace) { b"{}" } else { &bytes };
    match serde_json::from_slice(text) {
        Ok(value) => Ok((value, bytes)),
        Err(error) => Err(response(StatusCode::BAD_REQUEST, "bad_request", &format!("the body: {error}"))),
    }
}
