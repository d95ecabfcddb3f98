//! Fingerprints of secrets: what stands for an API key in names, in logs and on disk.
//!
//! A fingerprint is HMAC-SHA256 under a salt, cut to 64 bits. Without the salt, nothing can be tried against it. The salt
//! lies beside the fingerprints on disk, so the hash must also be hard to undo for one who has both: that is why it
//! is no SipHash, which promises nothing once its key is known. A key that can be guessed can still be found by one who
//! has the salt; real API keys cannot.
//!
//! The salt comes from the driver, since this crate has no randomness of its own. It is made once with the state, so that
//! limits of a key are found again after a restart; without state each process has its own.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The key under which fingerprints are made. Without one given, it is all zeros: fit for simulations only.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Salt([u8; 32]);

impl Salt {
    /// A salt of these bytes, which should be random.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Salt {
        Salt(bytes)
    }

    /// Returns the salt as 64 hex digits, to be kept.
    #[must_use]
    pub fn to_hex(&self) -> String {
        hex(&self.0)
    }

    /// Returns the salt of 64 hex digits.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Salt> {
        let digits = text.as_bytes();
        if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Salt(bytes))
    }

    /// Returns sixteen hex digits that stand for a secret.
    ///
    /// ```
    /// use tidegate_core::Salt;
    ///
    /// let salt = Salt::new([7; 32]);
    /// assert_eq!(salt.fingerprint("sk-1"), salt.fingerprint("sk-1"));
    /// assert_ne!(salt.fingerprint("sk-1"), Salt::new([8; 32]).fingerprint("sk-1"));
    /// ```
    #[must_use]
    pub fn fingerprint(&self, secret: &str) -> String {
        // A block of the hash: HMAC fills shorter keys up with zeros.
        let mut block = [0; 64];
        block[..32].copy_from_slice(&self.0);
        let mut mac = Hmac::<Sha256>::new((&block).into());
        mac.update(secret.as_bytes());
        hex(&mac.finalize().into_bytes()[..8])
    }
}

impl fmt::Debug for Salt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Salt(…)")
    }
}

/// A secret that a call carries. It is never shown.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Secret(Box<str>);

impl Secret {
    pub fn new(secret: &str) -> Secret {
        Secret(secret.into())
    }

    pub fn fingerprint(&self, salt: &Salt) -> Box<str> {
        salt.fingerprint(&self.0).into()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, test case 2 has a key of 4 bytes; HMAC fills keys up with zeros, so this is the same.
    #[test]
    fn it_is_the_hmac_of_the_rfc() {
        let mut key = [0; 32];
        key[..4].copy_from_slice(b"Jefe");
        let print = Salt::new(key).fingerprint("what do ya want for nothing?");
        assert_eq!(print, "5bdcc146bf60754e");
    }

    #[test]
    fn a_salt_is_kept_as_hex_and_shown_to_no_one() {
        let salt = Salt::new([0xa5; 32]);
        assert_eq!(Salt::from_hex(&salt.to_hex()), Some(salt));
        assert_eq!(Salt::from_hex("a5"), None);
        assert_eq!(Salt::from_hex(&"+".repeat(64)), None);
        assert!(!format!("{salt:?} {:?}", Secret::new("sk-1")).contains("sk-1"));
        assert!(!format!("{salt:?}").contains("a5"));
    }
}
