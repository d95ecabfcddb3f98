//! What the sidecar answers itself: permits, changes, and what it says of its own state.

mod changes;
mod events;
mod explain;
mod limits;
mod permits;
mod read;
mod status;

use std::sync::Arc;

use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;

use crate::auth::{OWN_HEADERS, Peer};
use crate::body::{Body, json};
use crate::config_file::ConfigFile;
use crate::permits::Permits;
use crate::route::decoded;
use crate::shape;
use crate::shared::Shared;

/// Answers requests on the sidecar's own routes.
#[derive(Debug)]
pub(crate) struct Api {
    shared: Arc<Shared>,
    permits: Arc<Permits>,
    config_file: Option<Arc<ConfigFile>>,
}

impl Api {
    pub fn new(shared: Arc<Shared>, config_file: Option<Arc<ConfigFile>>) -> Api {
        Api { shared, permits: Arc::new(Permits::new()), config_file }
    }

    /// Ends permits whose lease is over, for as long as the future is polled.
    pub fn expire_permits(&self) -> impl Future<Output = ()> + use<> {
        self.permits.clone().expire()
    }

    /// Answers one request.
    pub async fn answer(&self, peer: Peer, request: Request<Incoming>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let (method, path) = (parts.method, parts.uri.path().to_owned());
        let reads = matches!(method, Method::GET | Method::HEAD);
        match &*path {
            "/healthz" if reads => return healthz(),
            "/readyz" if reads => return readyz(self),
            _ => {}
        }
        let caller = self.shared.config.active().tokens.caller(peer, &parts.headers, &OWN_HEADERS);
        let caller = match caller {
            Ok(caller) => caller,
            Err((status, code, message)) => return shape::plain(status, code, message),
        };
        match (Own::of(&path), method) {
            (Ok(Own::Limits), _) if reads => json(StatusCode::OK, &limits::of(self)),
            (Ok(Own::Status), _) if reads => json(StatusCode::OK, &status::of(self)),
            (Ok(Own::Loop(name)), _) if reads => json(
                StatusCode::OK,
                &serde_json::json!({ "loop": name, "calls": self.shared.came.calls(&name) }),
            ),
            (Ok(Own::Events), Method::GET) => events::stream(self),
            (Ok(Own::Explain), Method::POST) => explain::call(self, &caller, body).await,
            (Ok(Own::Acquire), Method::POST) => permits::acquire(self, &caller, body).await,
            (Ok(Own::Complete(id)), Method::POST) => permits::complete(self, &caller, id, body).await,
            (Ok(Own::Renew(id)), Method::POST) => permits::renew(self, &caller, id),
            (Ok(Own::Permit(id)), Method::DELETE) => permits::cancel(self, &caller, id),
            (Ok(Own::Limit(name)), Method::PUT) => match caller.may_change() {
                Ok(()) => changes::set_limit(self, &name, body).await,
                Err((status, code, message)) => shape::plain(status, code, message),
            },
            (Ok(Own::Reset(name)), Method::POST) => match caller.may_change() {
                Ok(()) => changes::reset_limit(self, &name),
                Err((status, code, message)) => shape::plain(status, code, message),
            },
            (Ok(Own::Backoff(key)), method @ (Method::PUT | Method::DELETE)) => match caller.may_change() {
                Ok(()) if method == Method::PUT => changes::set_backoff(self, &key, body).await,
                Ok(()) => changes::clear_backoff(self, &key),
                Err((status, code, message)) => shape::plain(status, code, message),
            },
            (Ok(Own::Nothing), _) => {
                shape::plain(StatusCode::NOT_FOUND, "not_found", "there is nothing of that name here")
            }
            (Ok(_), _) => {
                let message = "this is not what can be done here: docs/sidecar.md lists the routes";
                shape::plain(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
            }
            (Err(message), _) => shape::plain(StatusCode::BAD_REQUEST, "bad_path", &message),
        }
    }
}

/// The sidecar's own routes.
#[derive(Debug, PartialEq)]
enum Own<'p> {
    Health,
    Status,
    Limits,
    Limit(std::borrow::Cow<'p, str>),
    Reset(std::borrow::Cow<'p, str>),
    Backoff(std::borrow::Cow<'p, str>),
    Loop(std::borrow::Cow<'p, str>),
    Events,
    Acquire,
    Explain,
    Permit(&'p str),
    Complete(&'p str),
    Renew(&'p str),
    Nothing,
}

impl<'p> Own<'p> {
    /// What a path means. Names have slashes in them, encoded or not.
    fn of(path: &'p str) -> Result<Own<'p>, String> {
        if let Some(name) = path.strip_prefix("/v1/limits/") {
            return match name.strip_suffix("/reset") {
                Some(name) => decoded(name).map(Own::Reset),
                None => decoded(name).map(Own::Limit),
            };
        }
        if let Some(key) = path.strip_prefix("/v1/backoff/") {
            return decoded(key).map(Own::Backoff);
        }
        if let Some(name) = path.strip_prefix("/v1/loops/") {
            return decoded(name).map(Own::Loop);
        }
        if let Some(permit) = path.strip_prefix("/v1/permits/") {
            return Ok(match permit.split_once('/') {
                None => Own::Permit(permit),
                Some((id, "complete")) => Own::Complete(id),
                Some((id, "renew")) => Own::Renew(id),
                Some(_) => Own::Nothing,
            });
        }
        Ok(match path {
            "/healthz" | "/readyz" => Own::Health,
            "/v1/status" => Own::Status,
            "/v1/limits" => Own::Limits,
            "/v1/events" => Own::Events,
            "/v1/acquire" => Own::Acquire,
            "/v1/explain" => Own::Explain,
            _ => Own::Nothing,
        })
    }
}

/// Also says whose health it is, so that nobody takes another server on this port for a sidecar.
fn healthz() -> Response<Body> {
    json(StatusCode::OK, &serde_json::json!({ "ok": true, "tidegate": env!("CARGO_PKG_VERSION") }))
}

fn readyz(api: &Api) -> Response<Body> {
    if api.shared.lifecycle.is_ready() {
        return healthz();
    }
    shape::plain(StatusCode::SERVICE_UNAVAILABLE, "stopping", "no new calls are taken")
}
