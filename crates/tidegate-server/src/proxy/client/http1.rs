//! An HTTP/1.1 connection, which carries one call at a time and is driven by the task of that call.

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1};
use hyper_util::rt::TokioIo;

use super::connector::Stream;
use crate::proxy::request_body::OutgoingBody;
use crate::workers::WorkerId;

/// It makes progress only while it is polled: by [`send`](Http1::send), then by [`drive`](Http1::drive).
pub(super) struct Http1 {
    sender: http1::SendRequest<OutgoingBody>,
    /// None once the connection has ended, so that an unsent request comes back.
    driver: Option<Driver>,
    /// Whether a proxy is at the other end.
    pub to_proxy: bool,
    /// The thread whose runtime polls the socket. Other threads may use the connection, and are woken from there.
    pub worker: WorkerId,
}

/// Reads and writes on the connection.
type Driver = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send + Sync>>;

impl Http1 {
    pub async fn new(stream: Stream, to_proxy: bool) -> hyper::Result<Http1> {
        let (sender, driver) = http1::handshake(TokioIo::new(stream)).await?;
        Ok(Http1 {
            sender,
            driver: Some(Box::pin(driver.with_upgrades())),
            to_proxy,
            worker: WorkerId::current(),
        })
    }

    /// Sends a request and waits for the head of its reply.
    pub async fn send(
        &mut self,
        request: Request<OutgoingBody>,
    ) -> Result<Response<Incoming>, TrySendError<Request<OutgoingBody>>> {
        let mut reply = pin!(self.sender.try_send_request(request));
        poll_fn(|context| {
            drive(&mut self.driver, context);
            // The reply comes through the driver, which was polled just now and wakes this task when there is more.
            reply.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        })
        .await
    }

    /// Returns whether the last call is over and another can be sent. Notices if the upstream has closed the connection.
    pub fn is_ready(&mut self, context: &mut Context<'_>) -> bool {
        self.drive(context);
        self.driver.is_some() && self.sender.is_ready()
    }

    /// Reads and writes as far as possible.
    pub fn drive(&mut self, context: &mut Context<'_>) {
        drive(&mut self.driver, context);
    }

    /// Leaves the connection to an upgrade: it will speak another protocol.
    pub fn let_go(self) {
        if let Some(driver) = self.driver {
            tokio::spawn(driver);
        }
    }
}

/// Polls the driver. Errors show in the reply or its body.
fn drive(driver: &mut Option<Driver>, context: &mut Context<'_>) {
    if let Some(moving) = driver
        && let Poll::Ready(_) = moving.as_mut().poll(context)
    {
        *driver = None;
    }
}

impl fmt::Debug for Http1 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http1").field("to_proxy", &self.to_proxy).finish_non_exhaustive()
    }
}
