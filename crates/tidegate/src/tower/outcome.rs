//! What a response says about its call.

use crate::outcome::Outcome;

/// How a response tells what became of its call. Every closure `Fn(&Response) -> Outcome` is one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot tell what became of a call from a `{Response}`",
    note = "for responses other than `http::Response`, say it with `.outcome(|response: &_| Outcome::done())`"
)]
pub trait ReadOutcome<Response> {
    /// What became of the call.
    fn read(&self, response: &Response) -> Outcome;
}

impl<F, Response> ReadOutcome<Response> for F
where
    F: Fn(&Response) -> Outcome,
{
    fn read(&self, response: &Response) -> Outcome {
        self(response)
    }
}

/// Reads HTTP responses: their status and headers. The body has not come yet, so it says nothing of usage.
#[derive(Clone, Copy, Debug, Default)]
pub struct HttpReply;

impl<B> ReadOutcome<http::Response<B>> for HttpReply {
    fn read(&self, response: &http::Response<B>) -> Outcome {
        Outcome::reply(response.status(), response.headers())
    }
}
