//! Tokens of operators: `upesi_`, the id in 16 hexadecimal digits, `_`, and 32 random bytes in
//! base64url. The prefix lets secret scanners find a published token.
//!
//! The log and the state have only the BLAKE3 hash of the random bytes. A fast hash is sufficient,
//! because 256 random bits cannot be guessed.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ledger::{Digest, OperatorTokenId};

const PREFIX: &str = "upesi_";
const ID_DIGITS: usize = 16;
const SECRET_BYTES: usize = 32;

/// A token with its secret.
pub(crate) struct OperatorTokenText {
    pub(crate) id: OperatorTokenId,
    secret: [u8; SECRET_BYTES],
}

impl OperatorTokenText {
    /// A new token.
    ///
    /// # Errors
    /// If the operating system gives no random bytes.
    pub(crate) fn new() -> Result<Self, getrandom::Error> {
        let mut id = [0; 8];
        let mut secret = [0; SECRET_BYTES];
        getrandom::fill(&mut id)?;
        getrandom::fill(&mut secret)?;
        Ok(Self { id: OperatorTokenId(u64::from_be_bytes(id)), secret })
    }

    /// Parses a presented token; `None` if it has another form.
    pub(crate) fn parse(presented: &[u8]) -> Option<Self> {
        let rest = std::str::from_utf8(presented).ok()?.strip_prefix(PREFIX)?;
        let (id, secret) = rest.split_once('_')?;
        let id = parse_id(id)?;
        let secret = URL_SAFE_NO_PAD.decode(secret).ok()?.try_into().ok()?;
        Some(Self { id, secret })
    }

    /// The hash of its secret.
    pub(crate) fn hash(&self) -> Digest {
        Digest(*blake3::hash(&self.secret).as_bytes())
    }

    /// Whether a stored hash is that of its secret; takes the same time for every hash.
    pub(crate) fn matches(&self, stored: &Digest) -> bool {
        // Equality of BLAKE3 hashes is constant-time.
        blake3::hash(&self.secret) == blake3::Hash::from_bytes(stored.0)
    }
}

impl fmt::Display for OperatorTokenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}_{}", id_text(self.id), URL_SAFE_NO_PAD.encode(self.secret))
    }
}

/// An id as paths, lists and the audit trail show it.
pub(crate) fn id_text(id: OperatorTokenId) -> String {
    format!("{:016x}", id.0)
}

/// Parses an id; `None` unless it is 16 lower-case hexadecimal digits.
pub(crate) fn parse_id(text: &str) -> Option<OperatorTokenId> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() != ID_DIGITS || !text.bytes().all(is_digit) {
        return None;
    }
    u64::from_str_radix(text, 16).ok().map(OperatorTokenId)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_round_trip() {
        let token = OperatorTokenText::new().expect("random bytes");
        let text = token.to_string();
        assert_eq!(text.len(), PREFIX.len() + ID_DIGITS + 1 + 43);
        let parsed = OperatorTokenText::parse(text.as_bytes()).expect("its own text");
        assert_eq!((parsed.id, parsed.secret), (token.id, token.secret));
        assert!(parsed.matches(&token.hash()));
        let other = OperatorTokenText::new().expect("random bytes");
        assert!(!other.matches(&token.hash()) && other.id != token.id);
    }

    #[test]
    fn other_texts_are_not_tokens() {
        let secret = "A".repeat(43);
        let good = format!("upesi_0123456789abcdef_{secret}");
        assert!(OperatorTokenText::parse(good.as_bytes()).is_some());
        for text in [
            String::new(),
            "upesi_".to_owned(),
            format!("Upesi_0123456789abcdef_{secret}"),
            format!("upesi_0123456789abcdef{secret}"),
            format!("upesi_0123456789ABCDEF_{secret}"),
            format!("upesi_+123456789abcdef_{secret}"),
            format!("upesi_123456789abcdef_{secret}"),
            format!("upesi_0123456789abcdef_{secret}A"),
            format!("upesi_0123456789abcdef_{}", &secret[1..]),
            format!("upesi_0123456789abcdef_{secret}="),
            format!("upesi_0123456789abcdef_{}+", &secret[1..]),
            // Bits after the last byte.
            format!("upesi_0123456789abcdef_{}B", &secret[1..]),
        ] {
            assert!(OperatorTokenText::parse(text.as_bytes()).is_none(), "{text}");
        }
        assert!(OperatorTokenText::parse(b"upesi_\xff").is_none());
    }
}
