//! From the socket to an answer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Either, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::asked::{Asked, Shape};
use super::errors;
use super::events::Events;
use super::record::Record;
use super::state::{Accepted, Decision, Shared, unix_now};
use super::{anthropic, control, openai};
use crate::upstream::Headers;

/// The largest body that is read.
const MAX_BODY: usize = 32 << 20;

pub(super) type Reply = Response<Either<Full<Bytes>, Events>>;

/// The connection is closed without an answer.
#[derive(Debug)]
struct NoAnswer;

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no answer is sent")
    }
}

impl std::error::Error for NoAnswer {}

/// Serves until it is aborted; connections end with it.
pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(connections.spawn(connection(stream, shared.clone()))),
            // Out of file descriptors, most likely: some come back as connections end.
            Err(_) => sleep(Duration::from_millis(20)).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| answer(request, shared.clone()));
    // Whatever a client does wrong ends its own connection and nothing else.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(shared.patience)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn answer(request: Request<Incoming>, shared: Arc<Shared>) -> Result<Reply, NoAnswer> {
    let (parts, body) = request.into_parts();
    let (method, path) = (parts.method.as_str(), parts.uri.path());
    let body = timeout(shared.patience, Limited::new(body, MAX_BODY).collect()).await;
    if let Some(asked) = path.strip_prefix("/_sim/") {
        let body = body.ok().and_then(Result::ok).map(|body| body.to_bytes()).unwrap_or_default();
        let (status, value) = control::answer(method, asked, &body, &shared);
        return Ok(json_reply(status, &value, Vec::new()));
    }
    let shape = Shape::of(method, path);
    let record = Record::new(method, path, &parts.headers);
    let refuse_to_read = |record, status, why: &str| {
        shared.malformed(record, status);
        Ok(json_reply(status, &errors::malformed(shape, why), Vec::new()))
    };
    let body = match body {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            return refuse_to_read(record, 413, "the body is too large");
        }
        // The client broke off in the middle of its body.
        Ok(Err(_)) => return Err(NoAnswer),
        Err(_) => return refuse_to_read(record, 408, "the body took too long"),
    };
    let asked = match Asked::read(method, path, &parts.headers, &body) {
        Ok(asked) => asked,
        Err(why) => return refuse_to_read(record, 400, &why),
    };
    let jitter = shared.draw_jitter();
    if !jitter.is_zero() {
        sleep(jitter).await;
    }
    let id = record.id.clone();
    let reply = match shared.receive(&asked, record) {
        Decision::Accepted(accepted) if asked.stream => stream(&asked, accepted).await?,
        Decision::Accepted(accepted) => whole(&asked, accepted, method, parts.uri.path()).await?,
        Decision::Refused(refusal) => json_reply(refusal.status, &refusal.body(&asked), refusal.headers),
        Decision::Failed { status, headers } => json_reply(status, &errors::failed(shape, status), headers),
    };
    Ok(with_id(reply, id))
}

/// An answer in one piece.
async fn whole(asked: &Asked, accepted: Accepted, method: &str, path: &str) -> Result<Reply, NoAnswer> {
    let number = accepted.running.number();
    sleep(accepted.takes).await;
    if accepted.lost {
        accepted.running.lose();
        return Err(NoAnswer);
    }
    let unix = unix_now().as_secs();
    let value = match asked.shape {
        Shape::Chat => openai::chat(asked, number, unix),
        Shape::Responses => openai::response(asked, number, unix),
        Shape::Embeddings => openai::embeddings(asked),
        Shape::Messages => anthropic::message(asked, number),
        Shape::Other => {
            json!({ "number": number, "method": method, "path": path, "bytes": asked.bytes, "tokens": asked.output })
        }
    };
    accepted.running.finish();
    Ok(json_reply(200, &value, accepted.headers))
}

/// An answer as events, spread over the time that it takes.
async fn stream(asked: &Asked, accepted: Accepted) -> Result<Reply, NoAnswer> {
    let number = accepted.running.number();
    if accepted.lost {
        sleep(accepted.takes).await;
        accepted.running.lose();
        return Err(NoAnswer);
    }
    let unix = unix_now().as_secs();
    let events = match asked.shape {
        Shape::Responses => openai::response_events(asked, number, unix),
        Shape::Messages => anthropic::message_events(asked, number),
        _ => openai::chat_events(asked, number, unix),
    };
    let mut reply = Response::new(Either::Right(Events::new(events, accepted.takes, accepted.running)));
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(with_headers(reply, accepted.headers))
}

fn json_reply(status: u16, value: &Value, headers: Headers) -> Reply {
    let mut reply = Response::new(Either::Left(Full::new(Bytes::from(value.to_string()))));
    *reply.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    with_headers(reply, headers)
}

fn with_headers(mut reply: Reply, headers: Headers) -> Reply {
    for (name, value) in headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            reply.headers_mut().append(name, value);
        }
    }
    reply
}

/// The request's own id, told back.
fn with_id(reply: Reply, id: Option<String>) -> Reply {
    let id = id.map(|id| ("x-sim-id".to_owned(), id));
    with_headers(reply, id.into_iter().collect())
}
