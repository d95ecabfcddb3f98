//! `POST /v1/explain`: what a call would meet, asked with the body of an acquire.

use http::{Response, StatusCode};
use hyper::body::Incoming;

use super::permits::Asked;
use super::read::read;
use crate::app::App;
use crate::auth::Caller;
use crate::body::{Body, json as answer};
use crate::shape::{self, Shape};

pub(super) async fn call(app: &App, caller: &Caller, body: Incoming) -> Response<Body> {
    let asked: Asked = match read(body, app.times.client).await {
        Ok((asked, _)) => asked,
        Err(told) => return *told,
    };
    let call = match asked.call() {
        Ok(call) => call,
        Err((code, message)) => return shape::plain(StatusCode::BAD_REQUEST, code, &message),
    };
    if let Err((status, code, message)) = caller.may_call(&call, &app.in_force().config) {
        return shape::plain(status, code, message);
    }
    match crate::explain::call(&app.gate, &call) {
        Ok(told) => answer(StatusCode::OK, &told),
        Err(refused) => Shape::Plain.refused(&refused),
    }
}
