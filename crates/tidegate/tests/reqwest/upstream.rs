//! An upstream that answers as it was told to, and remembers what it was sent.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use http::Extensions;
use http_body_util::BodyExt;
use reqwest::{Body, Request, Response, ResponseBuilderExt};
use reqwest_middleware::{Middleware, Next, Result};
use tokio::time::Instant;

use tidegate::async_trait;

/// Answers in turn; with 200 and nothing when there is none left.
#[derive(Clone, Default)]
pub struct Upstream {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    answers: VecDeque<http::Response<Body>>,
    sent: Vec<Sent>,
}

/// A request as it came.
#[derive(Clone, Debug, PartialEq)]
pub struct Sent {
    pub at: Instant,
    pub body: Vec<u8>,
}

impl Upstream {
    /// Answers so, after what it was told before.
    pub fn then(self, status: u16, headers: &[(&'static str, &str)], body: impl Into<Body>) -> Upstream {
        let mut answer = http::Response::builder().status(status);
        for (name, value) in headers {
            answer = answer.header(*name, *value);
        }
        let answer = answer.body(body.into()).expect("a response");
        self.shared.lock().expect("no panic").answers.push_back(answer);
        self
    }

    pub fn json(self, body: &'static str) -> Upstream {
        self.then(200, &[("content-type", "application/json; charset=utf-8")], body)
    }

    pub fn sent(&self) -> Vec<Sent> {
        self.shared.lock().expect("no panic").sent.clone()
    }
}

#[async_trait]
impl Middleware for Upstream {
    async fn handle(&self, mut request: Request, _: &mut Extensions, _: Next<'_>) -> Result<Response> {
        let body = match request.body_mut().take() {
            Some(body) => body.collect().await?.to_bytes().to_vec(),
            None => Vec::new(),
        };
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        let mut shared = self.shared.lock().expect("no panic");
        shared.sent.push(Sent { at: Instant::now(), body });
        let answer = shared.answers.pop_front().unwrap_or_default();
        let (parts, body) = answer.into_parts();
        let with_url = http::Response::builder().url(request.url().clone()).body(()).expect("a response");
        let mut answer = http::Response::from_parts(parts, body);
        answer.extensions_mut().extend(with_url.into_parts().0.extensions);
        Ok(answer.into())
    }
}
