//! `POST /v1/explain`: what a call would meet, asked with the body of an acquire.

use http::{Response, StatusCode};
use hyper::body::Incoming;

use super::permits::Asked;
use crate::app::App;
use crate::auth::Caller;
use crate::body::{Body, json as answer};
use crate::shape::Shape;

pub(super) async fn call(app: &App, caller: &Caller, body: Incoming) -> Response<Body> {
    let (_, call) = match Asked::read(app, caller, body).await {
        Ok(asked) => asked,
        Err(told) => return *told,
    };
    match crate::explain::call(&app.gate, &call) {
        Ok(told) => answer(StatusCode::OK, &told),
        Err(refused) => Shape::Plain.refused(&refused),
    }
}
