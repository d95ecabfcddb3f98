//! The answer to a request: its permit, then its response, and what that says.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tidegate_core::Call;
use tower_service::Service;

use super::BoxError;
use super::outcome::ReadOutcome;
use crate::gate::Acquire;
use crate::gate::Gate;
use crate::gate::Permit;
use crate::outcome::Outcome;
use crate::refused::Refused;

pin_project! {
    /// The response of a limited service. Dropped while it waits it leaves the queue, and once the request is
    /// sent it frees the slot and keeps the cost.
    pub struct Answer<S, Request, O>
    where
        S: Service<Request>,
    {
        #[pin]
        state: State<S, Request, S::Future>,
        outcome: O,
    }
}

pin_project! {
    #[project = At]
    enum State<S, Request, F> {
        Waiting { acquire: Acquire, unsent: Option<(S, Request)> },
        Running { #[pin] response: F, permit: Option<Permit> },
        Refused { refused: Option<Refused> },
    }
}

impl<S, Request, O> Answer<S, Request, O>
where
    S: Service<Request>,
{
    pub(super) fn waiting(gate: &Gate, call: Call, service: S, request: Request, outcome: O) -> Self {
        let acquire = gate.acquire(call);
        Answer { state: State::Waiting { acquire, unsent: Some((service, request)) }, outcome }
    }

    pub(super) fn running(response: S::Future, permit: Permit, outcome: O) -> Self {
        Answer { state: State::Running { response, permit: Some(permit) }, outcome }
    }

    pub(super) fn refused(refused: Refused, outcome: O) -> Self {
        Answer { state: State::Refused { refused: Some(refused) }, outcome }
    }
}

impl<S, Request, O> Future for Answer<S, Request, O>
where
    S: Service<Request>,
    S::Error: Into<BoxError>,
    O: ReadOutcome<S::Response>,
{
    type Output = Result<S::Response, BoxError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let next = match this.state.as_mut().project() {
                At::Waiting { acquire, unsent } => match ready!(Pin::new(acquire).poll(context)) {
                    Ok(permit) => {
                        let (mut service, request) = unsent.take().expect("it goes with the permit, once");
                        State::Running { response: service.call(request), permit: Some(permit) }
                    }
                    Err(refused) => State::Refused { refused: Some(refused) },
                },
                At::Running { response, permit } => {
                    let result = ready!(response.poll(context));
                    let permit = permit.take().expect("not polled after it is done");
                    return Poll::Ready(match result {
                        Ok(response) => {
                            let outcome = this.outcome.read(&response);
                            permit.finish(outcome);
                            Ok(response)
                        }
                        Err(error) => {
                            permit.finish(Outcome::failed());
                            Err(error.into())
                        }
                    });
                }
                At::Refused { refused } => {
                    let refused = refused.take().expect("not polled after it is done");
                    return Poll::Ready(Err(refused.into()));
                }
            };
            this.state.set(next);
        }
    }
}
