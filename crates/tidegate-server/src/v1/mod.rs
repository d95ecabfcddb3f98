//! The sidecar's own API: permits, changes of limits, status.

mod changes;
mod events;
mod explain;
mod json_body;
mod limits;
mod permits;
mod status;

use std::sync::Arc;

use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;

use crate::auth::{OWN_HEADERS, Peer};
use crate::body::{Body, json};
use crate::config_file::ConfigFile;
use crate::error_format;
use crate::permits::Permits;
use crate::route::decoded;
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
            Err((status, code, message)) => return error_format::plain(status, code, message),
        };
        match (ApiRoute::parse(&path), method) {
            (Ok(ApiRoute::Limits), _) if reads => json(StatusCode::OK, &limits::json(self)),
            (Ok(ApiRoute::Status), _) if reads => json(StatusCode::OK, &status::json(self)),
            (Ok(ApiRoute::Loop(name)), _) if reads => json(
                StatusCode::OK,
                &serde_json::json!({ "loop": name, "calls": self.shared.loop_counts.calls(&name) }),
            ),
            (Ok(ApiRoute::Events), Method::GET) => events::stream(self),
            (Ok(ApiRoute::Explain), Method::POST) => explain::call(self, &caller, body).await,
            (Ok(ApiRoute::Acquire), Method::POST) => permits::acquire(self, &caller, body).await,
            (Ok(ApiRoute::Complete(id)), Method::POST) => permits::complete(self, &caller, id, body).await,
            (Ok(ApiRoute::Renew(id)), Method::POST) => permits::renew(self, &caller, id),
            (Ok(ApiRoute::Permit(id)), Method::DELETE) => permits::cancel(self, &caller, id),
            (Ok(ApiRoute::Limit(name)), Method::PUT) => match caller.may_change() {
                Ok(()) => changes::set_limit(self, &name, body).await,
                Err((status, code, message)) => error_format::plain(status, code, message),
            },
            (Ok(ApiRoute::Reset(name)), Method::POST) => match caller.may_change() {
                Ok(()) => changes::reset_limit(self, &name),
                Err((status, code, message)) => error_format::plain(status, code, message),
            },
            (Ok(ApiRoute::Backoff(key)), method @ (Method::PUT | Method::DELETE)) => {
                match caller.may_change() {
                    Ok(()) if method == Method::PUT => changes::set_backoff(self, &key, body).await,
                    Ok(()) => changes::clear_backoff(self, &key),
                    Err((status, code, message)) => error_format::plain(status, code, message),
                }
            }
            (Ok(ApiRoute::Unknown), _) => {
                error_format::plain(StatusCode::NOT_FOUND, "not_found", "there is nothing of that name here")
            }
            (Ok(_), _) => {
                let message = "this is not what can be done here: docs/sidecar.md lists the routes";
                error_format::plain(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
            }
            (Err(message), _) => error_format::plain(StatusCode::BAD_REQUEST, "bad_path", &message),
        }
    }
}

/// The sidecar's own routes.
#[derive(Debug, PartialEq)]
enum ApiRoute<'p> {
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
    Unknown,
}

impl<'p> ApiRoute<'p> {
    /// Reads a path. Names have slashes in them, encoded or not.
    fn parse(path: &'p str) -> Result<ApiRoute<'p>, String> {
        if let Some(name) = path.strip_prefix("/v1/limits/") {
            return match name.strip_suffix("/reset") {
                Some(name) => decoded(name).map(ApiRoute::Reset),
                None => decoded(name).map(ApiRoute::Limit),
            };
        }
        if let Some(key) = path.strip_prefix("/v1/backoff/") {
            return decoded(key).map(ApiRoute::Backoff);
        }
        if let Some(name) = path.strip_prefix("/v1/loops/") {
            return decoded(name).map(ApiRoute::Loop);
        }
        if let Some(permit) = path.strip_prefix("/v1/permits/") {
            return Ok(match permit.split_once('/') {
                None => ApiRoute::Permit(permit),
                Some((id, "complete")) => ApiRoute::Complete(id),
                Some((id, "renew")) => ApiRoute::Renew(id),
                Some(_) => ApiRoute::Unknown,
            });
        }
        Ok(match path {
            "/healthz" | "/readyz" => ApiRoute::Health,
            "/v1/status" => ApiRoute::Status,
            "/v1/limits" => ApiRoute::Limits,
            "/v1/events" => ApiRoute::Events,
            "/v1/acquire" => ApiRoute::Acquire,
            "/v1/explain" => ApiRoute::Explain,
            _ => ApiRoute::Unknown,
        })
    }
}

/// Answers with the program's name and version, so that another server on this port is not taken for a sidecar.
fn healthz() -> Response<Body> {
    json(StatusCode::OK, &serde_json::json!({ "ok": true, "tidegate": env!("CARGO_PKG_VERSION") }))
}

fn readyz(api: &Api) -> Response<Body> {
    if api.shared.lifecycle.is_ready() {
        return healthz();
    }
    error_format::plain(StatusCode::SERVICE_UNAVAILABLE, "stopping", "no new calls are taken")
}
