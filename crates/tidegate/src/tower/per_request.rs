//! Admission in `call`: the request says which call it is.

use std::task::{Context, Poll};

use tidegate_core::Call;
use tower_layer::Layer;
use tower_service::Service;

use super::BoxError;
use super::answer::Answer;
use super::outcome::{HttpReply, ReadOutcome};
use crate::gate::Gate;

/// Puts a gate in front of a service whose requests differ; made by
/// [`GateLayer::for_requests`](super::GateLayer::for_requests).
#[derive(Clone, Debug)]
pub struct PerRequestLayer<C, O = HttpReply> {
    gate: Gate,
    call: C,
    outcome: O,
}

impl<C> PerRequestLayer<C> {
    pub(super) fn new(gate: Gate, call: C) -> PerRequestLayer<C> {
        PerRequestLayer { gate, call, outcome: HttpReply }
    }
}

impl<C, O> PerRequestLayer<C, O> {
    /// How a response tells what became of its call, and what that cost.
    pub fn outcome<R>(self, read: R) -> PerRequestLayer<C, R> {
        PerRequestLayer { gate: self.gate, call: self.call, outcome: read }
    }
}

impl<S, C: Clone, O: Clone> Layer<S> for PerRequestLayer<C, O> {
    type Service = GatedPerRequest<S, C, O>;

    fn layer(&self, inner: S) -> Self::Service {
        let PerRequestLayer { gate, call, outcome } = self.clone();
        GatedPerRequest { inner, gate, call, outcome }
    }
}

/// A service behind a gate that looks at each request; made by
/// [`GateLayer::for_requests`](super::GateLayer::for_requests).
#[derive(Clone, Debug)]
pub struct GatedPerRequest<S, C, O = HttpReply> {
    inner: S,
    gate: Gate,
    call: C,
    outcome: O,
}

impl<S, C, O, Request> Service<Request> for GatedPerRequest<S, C, O>
where
    S: Service<Request> + Clone,
    S::Error: Into<BoxError>,
    C: Fn(&Request) -> Call,
    O: ReadOutcome<S::Response> + Clone,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Answer<S, Request, O>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let call = (self.call)(&request);
        // The clone is not known to be ready: it stays, and the one that is goes with the request.
        let clone = self.inner.clone();
        let ready = std::mem::replace(&mut self.inner, clone);
        Answer::waiting(&self.gate, call, ready, request, self.outcome.clone())
    }
}
