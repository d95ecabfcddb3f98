//! A reply as the client has it, and as everybody else does.

use ::reqwest::{Body, Response, ResponseBuilderExt};

use crate::wire::ReplyBody;

pub(super) fn to_http(reply: Response) -> http::Response<Body> {
    // A reply does not take its URL along when it is taken apart: only a builder can give it one.
    let url = http::Response::builder().url(reply.url().clone()).body(()).map(http::Response::into_parts);
    let mut reply = http::Response::from(reply);
    if let Ok((with_url, ())) = url {
        reply.extensions_mut().extend(with_url.extensions);
    }
    reply
}

pub(super) fn from_http(reply: http::Response<ReplyBody<Body>>) -> Response {
    reply.map(Body::wrap).into()
}
