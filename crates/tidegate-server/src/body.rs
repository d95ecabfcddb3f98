//! The bodies of the sidecar's answers: its own text, a stream of events, or an upstream's reply.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::Full;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::permits::Delivery;

/// Why a body broke off. Its reader sees the connection end.
pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

/// The body of an upstream's reply.
pub(crate) type ReplyStream = Pin<Box<dyn HttpBody<Data = Bytes, Error = BoxError> + Send>>;

/// The body of an answer.
pub(crate) enum Body {
    /// The sidecar's own text.
    Own(Full<Bytes>),
    /// The sidecar's own text, which carries a permit.
    Grant(Full<Bytes>, Delivery),
    /// Events as they happen.
    Events(mpsc::Receiver<Bytes>),
    /// An upstream's reply.
    Proxied(ReplyStream),
}

/// Returns an answer of the sidecar's own.
pub(crate) fn json(status: StatusCode, value: &Value) -> Response<Body> {
    let mut response = Response::new(Body::Own(Full::new(format!("{value}\n").into())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

impl Body {
    /// Makes a body of the sidecar's own deliver a permit.
    pub fn with_delivery(self, delivery: Delivery) -> Body {
        match self {
            Body::Own(text) => Body::Grant(text, delivery),
            other => other,
        }
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut *self {
            Body::Own(body) => Pin::new(body).poll_frame(context).map_err(|never| match never {}),
            Body::Grant(body, delivery) => {
                delivery.delivered();
                Pin::new(body).poll_frame(context).map_err(|never| match never {})
            }
            Body::Events(events) => {
                events.poll_recv(context).map(|event| event.map(|event| Ok(Frame::data(event))))
            }
            Body::Proxied(body) => body.as_mut().poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Own(body) | Body::Grant(body, _) => body.is_end_stream(),
            Body::Events(_) => false,
            Body::Proxied(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Own(body) | Body::Grant(body, _) => body.size_hint(),
            Body::Events(_) => SizeHint::default(),
            Body::Proxied(body) => body.size_hint(),
        }
    }
}
