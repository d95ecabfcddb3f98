//! The handler of all requests: checks each one and passes it to the proxy or to the `/v1` API.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{HeaderMap, Request, Response, StatusCode};
use hyper::body::Incoming;

use crate::auth::{Caller, Peer};
use crate::body::Body;
use crate::error_format::{self, ErrorFormat};
use crate::guard::{Denied, Guard};
use crate::proxy::Proxy;
use crate::route::{Route, route};
use crate::services::Service;
use crate::shared::Shared;
use crate::v1::Api;

/// The handler of all requests.
#[derive(Debug)]
pub(crate) struct App {
    pub shared: Arc<Shared>,
    pub proxy: Proxy,
    pub api: Api,
    guard: Guard,
}

impl App {
    pub fn new(shared: Arc<Shared>, proxy: Proxy, api: Api, guard: Guard) -> App {
        App { shared, proxy, api, guard }
    }

    /// Answers one request. A waiting call holds this future, so it must be small: the request is boxed and dropped once it
    /// is read, and is not part of the future twice as an async function's arguments are.
    #[allow(clippy::manual_async_fn, reason = "an async fn would hold the request twice")]
    pub fn answer(
        self: Arc<App>,
        peer: Peer,
        request: Box<Request<Incoming>>,
    ) -> impl Future<Output = Result<Response<Body>, Infallible>> + Send {
        async move {
            if let Err((status, code, message)) = self.check(peer, &request) {
                return Ok(error_format::plain(status, code, message));
            }
            let path = request.uri().path().to_owned();
            let (service, mut prepared, prefix) = match route(&path) {
                // Boxed, since it is larger than the state of a proxied call that waits.
                Ok(Route::Own) => {
                    let mut answer = Box::pin(self.api.answer(peer, *request));
                    let answered = poll_fn(|context| self.unless_refusing(answer.as_mut(), context)).await;
                    return Ok(answered.unwrap_or_else(|| stopping(ErrorFormat::Plain)));
                }
                Err(message) => {
                    return Ok(error_format::plain(StatusCode::BAD_REQUEST, "bad_hint", &message));
                }
                Ok(Route::Service { hints, service, path: rest }) => {
                    if let Some(loop_id) = &hints.loop_id {
                        self.shared.loop_counts.count(loop_id);
                    }
                    let (found, caller) = self.identify(peer, service, request.headers());
                    let caller = match caller {
                        Ok(caller) => caller,
                        Err((status, code, message)) => {
                            let format = found.map_or(ErrorFormat::Plain, |found| found.error_format());
                            return Ok(format.error(status, code, message));
                        }
                    };
                    let Some(found) = found else {
                        let message = format!("no service named `{service}` in the config");
                        return Ok(error_format::plain(StatusCode::NOT_FOUND, "unknown_service", &message));
                    };
                    let prepared = {
                        let prepare = self.proxy.prepare(&found, &caller, &hints, service, rest, *request);
                        let mut prepare = pin!(prepare);
                        poll_fn(|context| self.unless_refusing(prepare.as_mut(), context)).await
                    };
                    let Some(prepared) = prepared else { return Ok(stopping(found.error_format())) };
                    (found, prepared, path.len() - rest.len())
                }
            };
            Ok(match &mut prepared {
                Ok(prepared) => {
                    let mut execute = pin!(prepared.execute(&self.proxy, &service, &path[..prefix]));
                    let response = poll_fn(|context| self.unless_refusing(execute.as_mut(), context)).await;
                    response.unwrap_or_else(|| stopping(service.error_format()))
                }
                Err((status, code, message)) => service.error_format().error(*status, code, message),
            })
        }
    }

    /// Polls the work on an answer, unless the sidecar refuses all open calls. It costs one load: waiting calls are many, and
    /// each of them is woken by its connection when the phase changes.
    fn unless_refusing<F: Future>(
        &self,
        future: Pin<&mut F>,
        context: &mut Context<'_>,
    ) -> Poll<Option<F::Output>> {
        if self.shared.lifecycle.is_refusing() {
            return Poll::Ready(None);
        }
        future.poll(context).map(Some)
    }

    fn check(&self, peer: Peer, request: &Request<Incoming>) -> Result<(), Denied> {
        let any_host = peer == Peer::Unix || self.shared.config.requires_token();
        self.guard.check(request, any_host)
    }

    /// Returns the service of a name, and the caller that the headers identify.
    fn identify(
        &self,
        peer: Peer,
        service: &str,
        headers: &HeaderMap,
    ) -> (Option<Arc<Service>>, Result<Caller, Denied>) {
        let active = self.shared.config.active();
        let found = active.services.get(service).cloned();
        let key_headers = found.as_ref().map_or(&[][..], |found| found.key_headers());
        (found, active.tokens.caller(peer, headers, key_headers))
    }
}

/// Returns the answer to a call that was still open when the time to drain was over.
fn stopping(format: ErrorFormat) -> Response<Body> {
    let message = "tidegate is stopping, and the call was not answered in time";
    format.error(StatusCode::SERVICE_UNAVAILABLE, "stopping", message)
}
