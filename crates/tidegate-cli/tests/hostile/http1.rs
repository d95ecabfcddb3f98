//! An upstream's side of an HTTP/1.1 connection.

use std::fmt::Write as _;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::reactions::{Reaction, Reply};
use super::upstreams::{Part, Plan, mark_of};
use super::wire;

/// A connection that can be reset.
pub trait Wire: AsyncRead + AsyncWrite + Unpin + Send {
    fn tcp(&self) -> &TcpStream;
}

impl Wire for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }
}

impl Wire for TlsStream<TcpStream> {
    fn tcp(&self) -> &TcpStream {
        self.get_ref().0
    }
}

/// Answers until one side has had enough.
pub async fn serve(stream: impl Wire, part: Part) {
    let mut stream = BufReader::with_capacity(64 << 10, stream);
    while let Some(head) = wire::head(&mut stream).await {
        let plan = part.arrived(mark_of(&head.headers));
        if wire::body(&mut stream, &head, 0).await.is_err() {
            if let Some(open) = &plan.open {
                open.closed();
            }
            return;
        }
        if !react(&mut stream, plan).await {
            return;
        }
    }
}

/// Does what is planned; whether another request may follow.
async fn react(stream: &mut BufReader<impl Wire>, plan: Plan) -> bool {
    let Plan { reaction, reply, latency, open, mut rng } = plan;
    let closed = || {
        if let Some(open) = &open {
            open.closed();
        }
        false
    };
    let sent_whole = || {
        if let Some(open) = &open {
            open.sent_whole();
        }
        true
    };
    tokio::select! {
        () = tokio::time::sleep(latency) => {}
        _ = stream.fill_buf() => return closed(),
    }
    let head = head(&reply, reaction == Reaction::Half);
    match reaction {
        Reaction::Silence => {
            stream.fill_buf().await.ok();
            closed()
        }
        Reaction::Reset => {
            stream.get_ref().tcp().set_zero_linger().ok();
            false
        }
        Reaction::CutHead => {
            let cut = rng.usize(1..head.len());
            stream.get_mut().write_all(&head.as_bytes()[..cut]).await.ok();
            stream.get_mut().flush().await.ok();
            false
        }
        Reaction::CutBody => {
            let cut = rng.usize(..reply.body.len());
            send(stream, &head, &reply.body[..cut]).await;
            stream.get_ref().tcp().set_zero_linger().ok();
            false
        }
        Reaction::Half => {
            send(stream, &head, &reply.body).await;
            false
        }
        Reaction::Dribble => {
            if !send(stream, &head, b"").await {
                return closed();
            }
            let pause = Duration::from_millis(rng.u64(2..20));
            for byte in reply.body.chunks(1) {
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    _ = stream.fill_buf() => return closed(),
                }
                if stream.get_mut().write_all(byte).await.is_err() || stream.get_mut().flush().await.is_err()
                {
                    return closed();
                }
            }
            sent_whole()
        }
        _ if send(stream, &head, &reply.body).await => sent_whole(),
        _ => closed(),
    }
}

async fn send(stream: &mut BufReader<impl Wire>, head: &str, body: &[u8]) -> bool {
    let stream = stream.get_mut();
    stream.write_all(head.as_bytes()).await.is_ok()
        && stream.write_all(body).await.is_ok()
        && stream.flush().await.is_ok()
}

fn head(reply: &Reply, too_long: bool) -> String {
    let length = reply.body.len() + if too_long { 1000 } else { 0 };
    let mut head = format!("HTTP/1.1 {} X\r\ncontent-length: {length}\r\n", reply.status);
    for (name, value) in &reply.headers {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    head + "\r\n"
}
