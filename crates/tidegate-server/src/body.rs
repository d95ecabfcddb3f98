//! What the sidecar answers with: words of its own, or an upstream's as they come.

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

use crate::proxy::Proxied;
use crate::v1::Delivery;

/// Why a body broke off. Whoever reads it sees the connection end.
pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

/// The body of an answer.
pub(crate) enum Body {
    /// Words of our own.
    Own(Full<Bytes>),
    /// Words of our own that carry a permit.
    Grant(Full<Bytes>, Delivery),
    /// What happens, as it happens.
    Events(mpsc::Receiver<Bytes>),
    /// An upstream's.
    Proxied(Box<Proxied>),
}

/// An answer of the sidecar's own.
pub(crate) fn json(status: StatusCode, value: &Value) -> Response<Body> {
    let mut response = Response::new(Body::Own(Full::new(format!("{value}\n").into())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
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
                delivery.done();
                Pin::new(body).poll_frame(context).map_err(|never| match never {})
            }
            Body::Events(events) => {
                events.poll_recv(context).map(|words| words.map(|words| Ok(Frame::data(words))))
            }
            Body::Proxied(body) => Pin::new(&mut **body).poll_frame(context),
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
