//! The keys of an issuer of access tokens: a JWK set (RFC 7517).
//!
//! Keys for encryption, of other kinds, or with errors are skipped. Bounds: [`KEY_SET_BYTES_MAX`]
//! and [`KEYS_MAX`].

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use crate::token_key::{KeyParts, TokenAlgorithm, TokenKey};

/// Maximum length of a key set, in bytes.
pub const KEY_SET_BYTES_MAX: usize = 256 * 1024;
/// Maximum number of keys of a set.
pub const KEYS_MAX: usize = 64;

/// The public keys of an issuer.
#[derive(Debug)]
pub struct KeySet {
    keys: Vec<NamedKey>,
}

/// A key, its id, and the algorithm that the issuer restricts it to.
#[derive(Debug)]
struct NamedKey {
    id: Option<String>,
    algorithm: Option<String>,
    key: TokenKey,
}

/// Why a text is not a key set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeySetError {
    /// Longer than [`KEY_SET_BYTES_MAX`].
    #[error("the key set is longer than 262144 bytes")]
    TooLong,
    /// Not an object with an array `keys`.
    #[error("the key set is not a JSON object with an array \"keys\"")]
    Malformed,
    /// More than [`KEYS_MAX`].
    #[error("the key set has more than 64 keys")]
    TooMany,
    /// None of its keys can verify a token.
    #[error("the key set has no usable key: RSA from 2048 bits, P-256 or Ed25519")]
    Empty,
    /// Built without the feature `tokens`.
    #[error("this build has no signatures: build it with --features signatures")]
    Unavailable,
}

/// Why no key of a set can verify a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoKey {
    /// The set has none with this id, or the token names none and several could be meant.
    Unknown,
    /// The key is not for this algorithm.
    Unfit,
}

impl KeySet {
    /// Reads a JWK set.
    ///
    /// # Errors
    /// Any [`KeySetError`].
    pub fn parse(text: &[u8]) -> Result<Self, KeySetError> {
        if !cfg!(feature = "tokens") {
            return Err(KeySetError::Unavailable);
        }
        if KEY_SET_BYTES_MAX < text.len() {
            return Err(KeySetError::TooLong);
        }
        let set: Value = serde_json::from_slice(text).map_err(|_| KeySetError::Malformed)?;
        let keys = set.get("keys").and_then(Value::as_array).ok_or(KeySetError::Malformed)?;
        if KEYS_MAX < keys.len() {
            return Err(KeySetError::TooMany);
        }
        let keys: Vec<_> = keys.iter().filter_map(|key| NamedKey::read(key.as_object()?)).collect();
        match keys.is_empty() {
            true => Err(KeySetError::Empty),
            false => Ok(Self { keys }),
        }
    }

    /// The key that a token names. A token that names none is accepted if only one key fits.
    pub(crate) fn find(
        &self,
        id: Option<&str>,
        algorithm: (&str, TokenAlgorithm),
    ) -> Result<&TokenKey, NoKey> {
        let fitting = |key: &&NamedKey| key.fits(algorithm);
        let named = self.keys.iter().filter(|key| id.is_none() || key.id.as_deref() == id);
        let mut fits = named.clone().filter(fitting);
        match (fits.next(), fits.next()) {
            (Some(key), None) => Ok(&key.key),
            (Some(_), Some(_)) => Err(NoKey::Unknown),
            (None, _) if named.count() == 0 => Err(NoKey::Unknown),
            (None, _) => Err(NoKey::Unfit),
        }
    }
}

impl NamedKey {
    /// `None` for a key that cannot verify tokens.
    fn read(key: &Map<String, Value>) -> Option<Self> {
        let text = |name: &str| key.get(name).and_then(Value::as_str);
        let is_for_signatures = text("use").is_none_or(|usage| usage == "sig");
        let verifies = key.get("key_ops").and_then(Value::as_array);
        let verifies = verifies.is_none_or(|all| all.iter().any(|it| it == "verify"));
        // A private key does not belong here: each reader of it could make tokens.
        if !is_for_signatures || !verifies || key.contains_key("d") {
            return None;
        }
        let number = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?).ok();
        let parts = match (text("kty")?, text("crv")) {
            ("RSA", _) => KeyParts::Rsa(number("n")?, number("e")?),
            ("EC", Some("P-256")) => KeyParts::P256(number("x")?, number("y")?),
            ("OKP", Some("Ed25519")) => KeyParts::Ed25519(number("x")?),
            _ => return None,
        };
        Some(Self {
            id: text("kid").map(str::to_owned),
            algorithm: text("alg").map(str::to_owned),
            key: TokenKey::new(parts)?,
        })
    }

    fn fits(&self, (name, algorithm): (&str, TokenAlgorithm)) -> bool {
        self.algorithm.as_deref().is_none_or(|only| only == name) && self.key.fits(algorithm)
    }
}
