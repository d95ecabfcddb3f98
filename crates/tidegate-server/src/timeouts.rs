//! How long the sidecar waits for clients and upstreams.

use std::time::Duration;

/// How long the sidecar waits for clients and upstreams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For the head of a client's request. A connection without a request for this long is closed.
    pub client_head: Duration,
    /// For the next bytes of a client's body, and for a client that reads none of its reply.
    pub client: Duration,
    /// For a connection to an upstream: name look-up, TCP, proxy, TLS and HTTP/2 settings together.
    pub connect: Duration,
    /// For the head of an upstream's reply, and for the first event of a stream that may be a refusal.
    pub upstream_head: Duration,
    /// For the next bytes of an upstream's reply.
    pub upstream: Duration,
    /// For the next call on an HTTP/1.1 connection to an upstream, before it is closed. HTTP/2 connections are kept for
    /// 90 s.
    pub upstream_idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            client_head: Duration::from_secs(75),
            client: Duration::from_secs(60),
            connect: Duration::from_secs(10),
            // Models may compute for minutes before the first byte.
            upstream_head: Duration::from_secs(900),
            upstream: Duration::from_secs(300),
            upstream_idle: Duration::from_secs(60),
        }
    }
}
