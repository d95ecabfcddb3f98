//! Callers and their rights: tokens, of which only hashes are stored.
//!
//! A token is sent in `x-tidegate-token`. The sidecar's own routes also take it as a bearer token. A service whose key the
//! sidecar holds also takes it in place of that key, so that a program only needs another key. A token is never looked for
//! in a header that is forwarded.
//!
//! Every token of the config is compared in constant time, so the duration reveals nothing about any of them.

use std::net::IpAddr;
use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, StatusCode};
use ring::digest::{SHA256, digest};
use subtle::ConstantTimeEq;
use tidegate::{Call, Config, Priority};
use tidegate_core::config::TokenConfig;

use crate::guard::Denied;
use crate::permits::{Origin, ShareOwner};

const TOKEN: HeaderName = HeaderName::from_static("x-tidegate-token");

/// All tokens of a config. Without any, callers need none.
#[derive(Debug, Default)]
pub(crate) struct Tokens(Vec<Arc<Token>>);

/// One token, the name of its holder and its rights.
#[derive(Debug)]
pub(crate) struct Token {
    holder: Arc<str>,
    may: TokenConfig,
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A program that connected by TCP from this address: this machine's own, unless the sidecar is open to others.
    Tcp(IpAddr),
    /// A program that opened the Unix socket. Only the user that started the sidecar may.
    #[cfg_attr(not(unix), allow(dead_code))]
    Unix,
}

/// The holder of a token, or a caller that is identified by its address.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    token: Option<Arc<Token>>,
    from: Origin,
}

impl Tokens {
    pub fn new(config: &Config) -> Tokens {
        let token = |(holder, may): (&String, &TokenConfig)| {
            Arc::new(Token { holder: holder.as_str().into(), may: may.clone() })
        };
        Tokens(config.auth.tokens.iter().map(token).collect())
    }

    /// Returns whether callers must show a token.
    pub fn are_required(&self) -> bool {
        !self.0.is_empty()
    }

    /// Identifies the caller that sent these headers. `key_headers` are those that are not forwarded, so one of them may
    /// carry the token.
    pub fn caller(
        &self,
        peer: Peer,
        headers: &HeaderMap,
        key_headers: &[HeaderName],
    ) -> Result<Caller, Denied> {
        let from = peer.origin();
        if peer == Peer::Unix || !self.are_required() {
            return Ok(Caller { token: None, from });
        }
        let mut shown =
            headers.get(&TOKEN).into_iter().chain(key_headers.iter().flat_map(|name| headers.get(name)));
        let found = shown.find_map(|value| {
            let value = value.as_bytes();
            self.of(value.strip_prefix(b"Bearer ").unwrap_or(value))
        });
        match found {
            Some(token) => Ok(Caller { token: Some(token.clone()), from }),
            None => Err((
                StatusCode::UNAUTHORIZED,
                "unauthorized",
                "a token is needed here: send a valid one in x-tidegate-token",
            )),
        }
    }

    fn of(&self, shown: &[u8]) -> Option<&Arc<Token>> {
        let hash = digest(&SHA256, shown);
        let mut found = None;
        for token in &self.0 {
            if bool::from(token.may.sha256.0.ct_eq(hash.as_ref())) {
                found = Some(token);
            }
        }
        found
    }
}

impl Peer {
    /// Returns the origin of a caller without a token.
    fn origin(self) -> Origin {
        match self {
            Peer::Tcp(address) => Origin::Address(address),
            Peer::Unix => Origin::Socket,
        }
    }
}

/// The headers of the sidecar's own routes that may carry a token.
pub(crate) const OWN_HEADERS: [HeaderName; 1] = [AUTHORIZATION];

impl Caller {
    /// Returns the name of the token's holder.
    pub fn holder(&self) -> Option<&Arc<str>> {
        self.token.as_ref().map(|token| &token.holder)
    }

    /// Returns the owner of the share of permits and memory that calls of this loop take from.
    pub fn share_owner(&self, loop_id: Option<&str>) -> ShareOwner {
        let origin = self.holder().map_or_else(|| self.from.clone(), |holder| Origin::Token(holder.clone()));
        ShareOwner::new(origin, loop_id)
    }

    /// Checks whether this call may be made. The priority that counts is the one that the call would have, from the call or
    /// its loop type.
    pub fn may_call(&self, call: &Call, config: &Config) -> Result<(), Denied> {
        let Some(token) = &self.token else { return Ok(()) };
        if token.may.services.as_ref().is_some_and(|all| all.iter().all(|name| name != call.service())) {
            let message = "the token is not for this service";
            return Err((StatusCode::FORBIDDEN, "forbidden_service", message));
        }
        let of_type = || config.loop_types.get(call.stated_loop_type()?)?.priority;
        let priority: Priority = call.stated_priority().or_else(of_type).unwrap_or_default();
        if token.may.priorities.as_ref().is_some_and(|all| !all.contains(&priority)) {
            let message = "the token is not for calls of this priority";
            return Err((StatusCode::FORBIDDEN, "forbidden_priority", message));
        }
        Ok(())
    }

    /// Checks whether the caller may change limits and backoff windows.
    pub fn may_change(&self) -> Result<(), Denied> {
        match &self.token {
            Some(token) if !token.may.admin => {
                let message = "the token is not for changing limits: that takes one with `admin = true`";
                Err((StatusCode::FORBIDDEN, "forbidden", message))
            }
            _ => Ok(()),
        }
    }
}
