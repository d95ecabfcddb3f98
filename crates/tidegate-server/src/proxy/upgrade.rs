//! Upgrades of connections, such as WebSockets.
//!
//! The request for an upgrade is forwarded with the call, which waits like any other. If the upstream agrees, bytes are
//! copied both ways. The permit is held until both sides have closed, until neither has sent anything for the upstream
//! timeout, or until the sidecar drops all connections. If the upstream does not agree, its reply is a normal reply.

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

/// The size of the buffer for each direction.
const BUFFER: usize = 16 << 10;

/// A client's request to upgrade its connection.
pub(super) struct UpgradeRequest {
    client: OnUpgrade,
    protocol: HeaderValue,
    place: Option<ConnectionPlace>,
}

/// The upstream's side of an upgrade that it agreed to.
pub(super) struct AgreedUpgrade {
    pub upstream: OnUpgrade,
    pub permit: KeptPermit,
}

impl UpgradeRequest {
    /// Reads the upgrade that a request asks for.
    pub fn of(request: &mut Request<Incoming>) -> Option<UpgradeRequest> {
        let headers = request.headers();
        let names_upgrade = |value: &HeaderValue| {
            let options = value.to_str().unwrap_or_default().split(',');
            options.map(str::trim).any(|option| option.eq_ignore_ascii_case("upgrade"))
        };
        let protocol = headers.get(UPGRADE)?.clone();
        // h2c concerns one connection only, and a client can speak HTTP/2 to the sidecar without an upgrade.
        let ours = protocol.as_bytes().eq_ignore_ascii_case(b"h2c");
        let wants =
            request.version() == Version::HTTP_11 && headers.get_all(CONNECTION).iter().any(names_upgrade);
        (wants && !ours).then(|| {
            let place = request.extensions_mut().remove();
            UpgradeRequest { client: hyper::upgrade::on(request), protocol, place }
        })
    }

    /// Adds the request for an upgrade to the headers for the upstream.
    pub fn insert(&self, headers: &mut HeaderMap) {
        insert(headers, self.protocol.clone());
    }

    /// Copies bytes both ways in a task of its own. The client's 101 reply is the beginning.
    pub fn start(self, agreed: AgreedUpgrade, shared: &Shared, counted: Option<Counted>) {
        // Invariant: there is a permit, since the attempt succeeded.
        let Some(permit) = agreed.permit.take() else { return };
        let phase = shared.lifecycle.subscribe();
        let (client, upstream, timeout) = (self.client, agreed.upstream, shared.timeouts.upstream);
        tokio::spawn(async move {
            let _counted = (counted, self.place);
            copy_both(client, upstream, timeout, phase).await;
            permit.finish(Outcome::done());
        });
    }
}

/// Sets the headers of an upgrade, which belong to one connection.
pub(super) fn insert(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, protocol);
}

async fn copy_both(
    client: OnUpgrade,
    upstream: OnUpgrade,
    timeout: Duration,
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
        tokio::join!(copy(from_client, to_upstream, &moved), copy(from_upstream, to_client, &moved))
    };
    let silent = async {
        while moved.swap(false, Ordering::Relaxed) {
            tokio::time::sleep(timeout).await;
        }
    };
    tokio::select! {
        _ = both => {}
        () = silent => debug!("nothing came from either side for too long"),
        _ = phase.wait_for(|phase| *phase == Phase::Cut) => {}
    }
}

/// Copies bytes in one direction until that side closes.
async fn copy(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, moved: &AtomicBool) {
    let mut buffer = vec![0; BUFFER];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        moved.store(true, Ordering::Relaxed);
        if to.write_all(&buffer[..read]).await.is_err() || to.flush().await.is_err() {
            break;
        }
    }
    to.shutdown().await.ok();
}
