//! An upstream's side of an HTTP/2 connection.

use std::future::poll_fn;
use std::time::Duration;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{Request, Response};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio_rustls::server::TlsStream;

use super::reactions::Reaction;
use super::upstreams::{Part, Plan, mark_of};

/// Answers streams until one side shuts the connection down.
pub async fn serve(stream: TlsStream<TcpStream>, part: Part) {
    let mut builder = h2::server::Builder::new();
    if let Some(streams) = part.max_streams() {
        builder.max_concurrent_streams(streams);
    }
    let Ok(mut connection) = builder.handshake::<_, Bytes>(stream).await else { return };
    let mut streams = JoinSet::new();
    let (goes, mut going) = unbounded_channel::<bool>();
    loop {
        tokio::select! {
            accepted = connection.accept() => {
                let Some(Ok((request, respond))) = accepted else { return };
                let plan = part.arrived(mark_of(request.headers()));
                // Of a connection that goes away it is not known what was written.
                let goes = (goes.clone(), part.goes_away());
                streams.spawn(react(request, respond, plan, goes));
            }
            Some(politely) = going.recv() => {
                if politely {
                    connection.graceful_shutdown();
                } else {
                    connection.abrupt_shutdown(Reason::NO_ERROR);
                }
            }
        }
    }
}

async fn react(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    plan: Plan,
    (goes, goes_away): (UnboundedSender<bool>, bool),
) {
    let Plan { reaction, reply, latency, open, mut rng } = plan;
    let closed = || {
        if let Some(open) = &open {
            open.closed();
        }
    };
    if reaction == Reaction::RefusedStream {
        respond.send_reset(Reason::REFUSED_STREAM);
        return;
    }
    let mut body = request.into_body();
    while let Some(bytes) = body.data().await {
        let Ok(bytes) = bytes else { return closed() };
        body.flow_control().release_capacity(bytes.len()).ok();
    }
    tokio::select! {
        () = tokio::time::sleep(latency) => {}
        _ = poll_fn(|context| respond.poll_reset(context)) => return closed(),
    }
    match reaction {
        Reaction::GoAway => {
            goes.send(rng.bool()).ok();
        }
        Reaction::Silence => {
            poll_fn(|context| respond.poll_reset(context)).await.ok();
            return closed();
        }
        Reaction::Reset | Reaction::CutHead => {
            respond.send_reset(Reason::INTERNAL_ERROR);
            return;
        }
        _ => {}
    }
    let mut response = Response::builder().status(reply.status);
    for (name, value) in &reply.headers {
        response = response.header(*name, value);
    }
    let response = response.body(()).expect("a response");
    let Ok(mut sending) = respond.send_response(response, false) else { return closed() };
    let sent = match reaction {
        Reaction::CutBody | Reaction::Half => {
            let part = reply.body.slice(..reply.body.len() / 2);
            sending.send_data(part, false).ok();
            sending.send_reset(Reason::CANCEL);
            true
        }
        Reaction::Dribble => {
            let mut sent = true;
            for start in 0..reply.body.len() {
                tokio::time::sleep(Duration::from_millis(10)).await;
                sent = sent && write(&mut sending, reply.body.slice(start..=start)).await;
            }
            sent && sending.send_data(Bytes::new(), true).is_ok()
        }
        _ => write(&mut sending, reply.body).await && sending.send_data(Bytes::new(), true).is_ok(),
    };
    match (&open, reaction) {
        (Some(open), _) if !sent => open.closed(),
        (Some(open), reaction) if !goes_away && !matches!(reaction, Reaction::CutBody | Reaction::Half) => {
            open.sent_whole();
        }
        _ => {}
    }
}

/// Writes as the window allows; whether all of it was.
async fn write(sending: &mut SendStream<Bytes>, mut body: Bytes) -> bool {
    while !body.is_empty() {
        sending.reserve_capacity(body.len());
        let Some(Ok(room)) = poll_fn(|context| sending.poll_capacity(context)).await else { return false };
        if sending.send_data(body.split_to(room.min(body.len())), false).is_err() {
            return false;
        }
    }
    true
}
