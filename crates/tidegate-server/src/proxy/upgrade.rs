//! Connections that become something else, such as WebSockets.
//!
//! The upgrade_request is passed on with the call, which waits its turn like any other. If the upstream agrees, bytes go both ways as
//! they come, and the permit is held until the connection is over: until both sides have closed, or nothing came from either
//! for as long as an upstream may be silent, or the sidecar is told to end at once. If it does not agree, its reply is a
//! reply.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::header::{CONNECTION, UPGRADE};
use http::{HeaderMap, HeaderValue, Request, Version};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tidegate::Outcome;
use tidegate::execute::KeptPermit;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use tracing::debug;

use crate::lifecycle::{ConnectionPlace, Counted, Phase};
use crate::shared::Shared;

/// As many bytes are on their way in each direction.
const BUFFER: usize = 16 << 10;

/// What a client wants its connection to become.
pub(super) struct UpgradeRequest {
    client: OnUpgrade,
    protocol: HeaderValue,
    place: Option<ConnectionPlace>,
}

/// An upstream that agreed.
pub(super) struct AgreedUpgrade {
    pub upstream: OnUpgrade,
    pub permit: KeptPermit,
}

impl UpgradeRequest {
    /// What a request wants, if it wants that.
    pub fn of(request: &mut Request<Incoming>) -> Option<UpgradeRequest> {
        let headers = request.headers();
        let says = |value: &HeaderValue| {
            let words = value.to_str().unwrap_or_default().split(',');
            words.map(str::trim).any(|word| word.eq_ignore_ascii_case("upgrade"))
        };
        let protocol = headers.get(UPGRADE)?.clone();
        // HTTP/2 without TLS is between two neighbours, and a client can have it from us without asking.
        let ours = protocol.as_bytes().eq_ignore_ascii_case(b"h2c");
        let wants = request.version() == Version::HTTP_11 && headers.get_all(CONNECTION).iter().any(says);
        (wants && !ours).then(|| {
            let place = request.extensions_mut().remove();
            UpgradeRequest { client: hyper::upgrade::on(request), protocol, place }
        })
    }

    /// Has the upstream asked for it.
    pub fn put(&self, headers: &mut HeaderMap) {
        put(headers, self.protocol.clone());
    }

    /// Passes on what both say from now on, in a task of its own: the client's answer is its beginning.
    pub fn start(self, agreed: AgreedUpgrade, shared: &Shared, counted: Option<Counted>) {
        // There is one: the attempt succeeded.
        let Some(permit) = agreed.permit.take() else { return };
        let phase = shared.lifecycle.subscribe();
        let (client, upstream, patience) = (self.client, agreed.upstream, shared.timeouts.upstream);
        tokio::spawn(async move {
            let _counted = (counted, self.place);
            carry(client, upstream, patience, phase).await;
            permit.finish(Outcome::done());
        });
    }
}

/// Says in a head that the connection becomes something else, which is between neighbours.
pub(super) fn put(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, protocol);
}

async fn carry(
    client: OnUpgrade,
    upstream: OnUpgrade,
    patience: Duration,
    mut phase: watch::Receiver<Phase>,
) {
    let (client, upstream) = match tokio::try_join!(client, upstream) {
        Ok((client, upstream)) => (TokioIo::new(client), TokioIo::new(upstream)),
        Err(error) => return debug!(%error, "a connection did not become what it should"),
    };
    let (from_client, to_client) = tokio::io::split(client);
    let (from_upstream, to_upstream) = tokio::io::split(upstream);
    let moved = AtomicBool::new(true);
    let both = async {
        tokio::join!(pass(from_client, to_upstream, &moved), pass(from_upstream, to_client, &moved))
    };
    let silent = async {
        while moved.swap(false, Ordering::Relaxed) {
            tokio::time::sleep(patience).await;
        }
    };
    tokio::select! {
        _ = both => {}
        () = silent => debug!("nothing came from either side for too long"),
        _ = phase.wait_for(|phase| *phase == Phase::Cut) => {}
    }
}

/// Passes bytes on in one direction until that side has no more to say.
async fn pass(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, moved: &AtomicBool) {
    let mut buffer = vec![0; BUFFER];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        moved.store(true, Ordering::Relaxed);
        if to.write_all(&buffer[..read]).await.is_err() || to.flush().await.is_err() {
            break;
        }
    }
    to.shutdown().await.ok();
}
