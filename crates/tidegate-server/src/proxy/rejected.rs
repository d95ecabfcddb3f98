//! Why a request is not forwarded.

use http::StatusCode;
use tidegate_core::request::Why;

use super::request_body::BodyError;
use crate::services::NoUrl;

/// Why a request is not forwarded: status, code and message.
pub(super) type Rejected = (StatusCode, &'static str, String);

/// Returns the error for an invalid request.
pub(super) fn bad_request(code: &'static str, message: &str) -> Rejected {
    (StatusCode::BAD_REQUEST, code, message.to_owned())
}

/// Returns the error for a request that has no URL at its service.
pub(super) fn no_url(error: &NoUrl, service: &str) -> Rejected {
    match error {
        NoUrl::NoUpstream => (
            StatusCode::NOT_FOUND,
            "no_upstream",
            format!("the service `{service}` has no upstream to forward to"),
        ),
        NoUrl::Outside => bad_request("bad_path", "the path leads out of the service"),
    }
}

/// Returns the error for a request whose body did not come.
pub(super) fn no_body(error: &BodyError) -> Rejected {
    match error {
        BodyError::Slow => {
            (StatusCode::REQUEST_TIMEOUT, "slow_body", "the body of the request did not come in time".into())
        }
        BodyError::Broken => bad_request("broken_body", "the body of the request broke off"),
    }
}

/// Returns the error for a call whose body cannot be accounted for.
pub(super) fn unaccountable(why: Why) -> Rejected {
    let status = match why {
        Why::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Why::NoRoom => StatusCode::SERVICE_UNAVAILABLE,
        Why::Compressed | Why::NotJson | Why::Streamed => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        Why::ManyModels => StatusCode::BAD_REQUEST,
    };
    let code = if why == Why::ManyModels { "bad_request" } else { "unread_body" };
    (status, code, format!("the body of the request {}, so the call cannot be accounted for", why.words()))
}
