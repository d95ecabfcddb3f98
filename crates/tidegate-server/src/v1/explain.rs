//! `POST /v1/explain`: explains a call. The body is that of an acquire.

use http::{Response, StatusCode};
use hyper::body::Incoming;

use super::permits::AcquireRequest;
use crate::auth::Caller;
use crate::body::{Body, json as answer};
use crate::error_format::ErrorFormat;
use crate::v1::Api;

pub(super) async fn call(api: &Api, caller: &Caller, body: Incoming) -> Response<Body> {
    let (_, call) = match AcquireRequest::read(api, caller, body).await {
        Ok(request) => request,
        Err(response) => return *response,
    };
    match crate::explain::call(&api.shared.gate, &call) {
        Ok(response) => answer(StatusCode::OK, &response),
        Err(refused) => ErrorFormat::Plain.refused(&refused),
    }
}
