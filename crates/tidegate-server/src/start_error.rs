//! Why a sidecar does not start, or does not take a config.

use std::net::SocketAddr;

use tidegate::{ChangeError, ConfigError, StateError};

use crate::outbound_proxies::ProxyError;
use crate::services::UpstreamError;

/// Why a sidecar does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The address cannot be listened on.
    #[error("cannot listen on {listen}: {cause}")]
    Listen {
        /// The address.
        listen: String,
        /// The cause. It is part of the text and so no `source`: reporters that print the chain would print it twice.
        cause: std::io::Error,
    },
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Workers(std::io::Error),
    /// Other machines could spend the quota.
    #[error(
        "{0} can be reached from other machines, and every program that reaches it may spend your quota: listen on \
         127.0.0.1, give out tokens in [auth], or say --insecure-listen if that is what you want"
    )]
    Exposed(SocketAddr),
    /// A service cannot be forwarded to.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    /// A proxy that the environment names cannot be used.
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    /// The config file cannot be read or is invalid.
    #[error(transparent)]
    File(#[from] ConfigError),
    /// The config is invalid.
    #[error(transparent)]
    Config(#[from] ChangeError),
    /// The state file cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
}
