//! `POST /v1/explain`: what a call would meet, asked with the body of an acquire.

use http::{Response, StatusCode};
use hyper::body::Incoming;

use super::permits::Asked;
use crate::auth::Caller;
use crate::body::{Body, json as answer};
use crate::shape::Shape;
use crate::v1::Api;

pub(super) async fn call(api: &Api, caller: &Caller, body: Incoming) -> Response<Body> {
    let (_, call) = match Asked::read(api, caller, body).await {
        Ok(asked) => asked,
        Err(told) => return *told,
    };
    match crate::explain::call(&api.shared.gate, &call) {
        Ok(told) => answer(StatusCode::OK, &told),
        Err(refused) => Shape::Plain.refused(&refused),
    }
}
