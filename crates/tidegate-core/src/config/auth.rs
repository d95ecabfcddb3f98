//! Who may use a sidecar: tokens, of which only a hash is ever written down.

use std::collections::BTreeMap;
use std::fmt;

use super::units::UnitError;
use crate::model::priority::Priority;

/// Who may use a sidecar. Without tokens everybody may who reaches it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuthConfig {
    /// The tokens, by the names of those who hold them.
    pub tokens: BTreeMap<String, TokenConfig>,
}

/// What the holder of one token may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenConfig {
    /// The SHA-256 of the token.
    pub sha256: TokenHash,
    /// The priorities that calls may have; all if that was not written.
    pub priorities: Option<Vec<Priority>>,
    /// The services that calls may go to; all if that was not written.
    pub services: Option<Vec<String>>,
    /// Whether limits and backoff windows may be changed with it.
    pub admin: bool,
}

/// The SHA-256 of a token. It is compared by whoever has a comparison that takes the same time for all.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct TokenHash(pub [u8; 32]);

impl TokenHash {
    /// Reads 64 hex digits.
    ///
    /// # Errors
    /// If it is anything else; what was written is not repeated, since it may be the token itself.
    pub fn parse(text: &str) -> Result<TokenHash, UnitError> {
        let wrong = || UnitError::new("this is not a SHA-256: it has 64 hex digits");
        let mut hash = [0; 32];
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        for (byte, digits) in hash.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| wrong())?;
        }
        Ok(TokenHash(hash))
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash(…)")
    }
}
