//! Tokens of sessions: signed, so that no server stores them.
//!
//! A token is `upesi_session_` and, in base64url, 32 bytes of authentication code, the generation
//! in 4 bytes, the expiry in 8 bytes, and the operator's name. The generation rises when the
//! sessions of the operator end. The caller compares it with that of the operator.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::SecretsKey;

const PREFIX: &str = "upesi_session_";
const CODE_BYTES: usize = 32;
/// Longest token, in bytes.
const TOKEN_BYTES_MAX: usize = 512;

/// A session of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The operator.
    pub operator: String,
    /// The operator's generation when the session began.
    pub generation: u32,
    /// Its end, in microseconds since 1970.
    pub expires: u64,
}

impl Session {
    /// Whether a text has the form of a token of a session.
    #[must_use]
    pub fn is_token(text: &[u8]) -> bool {
        text.starts_with(PREFIX.as_bytes())
    }

    /// The token of the session.
    #[must_use]
    pub fn token(&self, key: &SecretsKey) -> String {
        let content = self.content();
        let signed = [&key.sign(&content).as_bytes()[..], &content].concat();
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(signed))
    }

    /// The session of a token; `None` unless the key signed it. The caller checks expiry and
    /// generation.
    #[must_use]
    pub fn read(token: &[u8], key: &SecretsKey) -> Option<Self> {
        if TOKEN_BYTES_MAX < token.len() {
            return None;
        }
        let text = token.strip_prefix(PREFIX.as_bytes())?;
        let signed = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (code, content) = signed.split_first_chunk::<CODE_BYTES>()?;
        // Equality of BLAKE3 hashes is constant-time.
        if key.sign(content) != *code {
            return None;
        }
        let (generation, rest) = content.split_first_chunk()?;
        let (expires, name) = rest.split_first_chunk()?;
        Some(Self {
            operator: std::str::from_utf8(name).ok()?.to_owned(),
            generation: u32::from_le_bytes(*generation),
            expires: u64::from_le_bytes(*expires),
        })
    }

    fn content(&self) -> Vec<u8> {
        let Self { operator, generation, expires } = self;
        [&generation.to_le_bytes()[..], &expires.to_le_bytes(), operator.as_bytes()].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_with_its_key_only() {
        let key = SecretsKey::new("one");
        let session = Session { operator: "anna".to_owned(), generation: 7, expires: 1 << 50 };
        let token = session.token(&key);
        assert!(Session::is_token(token.as_bytes()));
        assert_eq!(Session::read(token.as_bytes(), &key), Some(session));
        assert_eq!(Session::read(token.as_bytes(), &SecretsKey::new("two")), None);
        for at in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(Session::read(&changed, &key), None, "byte {at}");
            assert_eq!(Session::read(&token.as_bytes()[..at], &key), None, "{at} bytes");
        }
        let long = format!("{token}{}", "A".repeat(TOKEN_BYTES_MAX));
        assert_eq!(Session::read(long.as_bytes(), &key), None);
    }
}
