//! Admission in `poll_ready`: a permit first, then the request.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tidegate_core::Call;
use tower_layer::Layer;
use tower_service::Service;

use super::BoxError;
use super::answer::Answer;
use super::outcome::{HttpReply, ReadOutcome};
use super::per_request::PerRequestLayer;
use crate::gate::Acquire;
use crate::gate::Gate;
use crate::gate::Permit;
use crate::refused::Refused;

/// Puts a gate in front of a service whose requests are all the same [`Call`]; see the [module](super).
#[derive(Clone, Debug)]
pub struct GateLayer<O = HttpReply> {
    gate: Gate,
    call: Call,
    outcome: O,
}

impl GateLayer {
    /// Every request is this call: its service, loop, priority, expected cost and timeout.
    pub fn new(gate: Gate, call: Call) -> GateLayer {
        GateLayer { gate, call, outcome: HttpReply }
    }

    /// Each request says itself which call it is; it waits inside `call` then, and `poll_ready` holds nobody
    /// back.
    ///
    /// ```
    /// use http::{Request, Response};
    /// use tidegate::tower::GateLayer;
    /// use tidegate::{Call, Config, Gate};
    /// use tower::{ServiceBuilder, ServiceExt, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    /// # let config = "[services.api]\nrequests = \"500/min\"\nbyte_budget = \"5MB\"\n";
    /// # let gate = Gate::from_config(Config::parse(config)?).await?;
    /// # let client = service_fn(|_: Request<String>| async { Ok::<_, std::io::Error>(Response::new("fine")) });
    /// let layer = GateLayer::for_requests(gate, |request: &Request<String>| {
    ///     let endpoint = format!("{} {}", request.method(), request.uri().path());
    ///     Call::to("api").endpoint(&endpoint).bytes(request.body().len() as u64)
    /// });
    /// let limited = ServiceBuilder::new().layer(layer).service(client);
    /// limited.oneshot(Request::new("hello".to_owned())).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn for_requests<C>(gate: Gate, call: C) -> PerRequestLayer<C> {
        PerRequestLayer::new(gate, call)
    }
}

impl<O> GateLayer<O> {
    /// How a response tells what became of its call, and what that cost.
    pub fn outcome<R>(self, read: R) -> GateLayer<R> {
        GateLayer { gate: self.gate, call: self.call, outcome: read }
    }
}

impl<S, O: Clone> Layer<S> for GateLayer<O> {
    type Service = Gated<S, O>;

    fn layer(&self, inner: S) -> Gated<S, O> {
        let GateLayer { gate, call, outcome } = self.clone();
        Gated { inner, gate, call, outcome, admission: Admission::None }
    }
}

/// A service behind a gate; made by [`GateLayer::new`].
///
/// A permit that it holds counts until the service is called or dropped: whoever asks whether it is ready should
/// soon do one of both.
#[derive(Debug)]
pub struct Gated<S, O = HttpReply> {
    inner: S,
    gate: Gate,
    call: Call,
    outcome: O,
    admission: Admission,
}

#[derive(Debug)]
enum Admission {
    None,
    Waiting(Acquire),
    Held(Unsent),
    Refused(Refused),
}

/// A permit whose call has not left: dropped, it gives all back.
#[derive(Debug)]
struct Unsent(Option<Permit>);

impl<S, O> Gated<S, O> {
    /// Waits for a permit or a refusal.
    fn poll_admission(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if matches!(self.admission, Admission::None) {
            self.admission = Admission::Waiting(self.gate.acquire(&self.call));
        }
        if let Admission::Waiting(acquire) = &mut self.admission {
            self.admission = match ready!(Pin::new(acquire).poll(context)) {
                Ok(permit) => Admission::Held(Unsent(Some(permit))),
                Err(refused) => Admission::Refused(refused),
            };
        }
        Poll::Ready(())
    }

    fn admission(&mut self) -> Result<Permit, Refused> {
        match std::mem::replace(&mut self.admission, Admission::None) {
            Admission::Held(Unsent(ref mut permit)) => Ok(permit.take().expect("it is only taken here")),
            // That may have been long ago.
            Admission::Refused(refused) => self.gate.try_acquire(&self.call).map_err(|_| refused),
            Admission::None | Admission::Waiting(_) => {
                panic!("called before `poll_ready` said that it is ready")
            }
        }
    }
}

impl<S, O, Request> Service<Request> for Gated<S, O>
where
    S: Service<Request>,
    S::Error: Into<BoxError>,
    O: ReadOutcome<S::Response> + Clone,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Answer<S, Request, O>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        let inner = self.inner.poll_ready(context);
        if !matches!(inner, Poll::Ready(Ok(()))) {
            self.admission = Admission::None;
            return inner.map_err(Into::into);
        }
        self.poll_admission(context).map(Ok)
    }

    /// # Panics
    /// If `poll_ready` has not said that it is ready.
    fn call(&mut self, request: Request) -> Self::Future {
        let admission = self.admission();
        let outcome = self.outcome.clone();
        match admission {
            Ok(permit) => Answer::running(self.inner.call(request), permit, outcome),
            Err(refused) => Answer::refused(refused, outcome),
        }
    }
}

impl<S: Clone, O: Clone> Clone for Gated<S, O> {
    /// The same limits; a permit or a place in the queue stays where it is.
    fn clone(&self) -> Self {
        Gated {
            inner: self.inner.clone(),
            gate: self.gate.clone(),
            call: self.call.clone(),
            outcome: self.outcome.clone(),
            admission: Admission::None,
        }
    }
}

impl Drop for Unsent {
    fn drop(&mut self) {
        if let Some(permit) = self.0.take() {
            permit.cancel();
        }
    }
}
