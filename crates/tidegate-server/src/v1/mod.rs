//! What the sidecar says of itself: health, limits, status.

mod limits;
mod status;

use http::{Method, Request, Response, StatusCode};

use crate::app::App;
use crate::body::{Body, json};
use crate::shape;

/// Answers a request on one of the sidecar's own routes.
pub(crate) fn answer<B>(app: &App, request: &Request<B>) -> Response<Body> {
    let answer: fn(&App) -> Response<Body> = match request.uri().path() {
        "/healthz" => healthz,
        "/readyz" => readyz,
        "/v1/limits" => |app| json(StatusCode::OK, &limits::of(app)),
        "/v1/status" => |app| json(StatusCode::OK, &status::of(app)),
        _ => return shape::plain(StatusCode::NOT_FOUND, "not_found", "there is nothing of that name here"),
    };
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        answer(app)
    } else {
        shape::plain(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "this can only be read: use GET")
    }
}

/// Also says whose health it is, so that nobody takes another server on this port for a sidecar.
fn healthz(_: &App) -> Response<Body> {
    json(StatusCode::OK, &serde_json::json!({ "ok": true, "tidegate": env!("CARGO_PKG_VERSION") }))
}

fn readyz(app: &App) -> Response<Body> {
    if app.is_ready() {
        return healthz(app);
    }
    shape::plain(StatusCode::SERVICE_UNAVAILABLE, "stopping", "no new calls are taken")
}
