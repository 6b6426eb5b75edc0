//! Public keys of issuers of access tokens, with the feature `tokens`. Without the feature no key
//! can be read.
//!
//! A key verifies only the algorithms of its own kind, and only the one that the issuer names for
//! it, so that a token cannot choose how its key is used.

#[cfg(not(feature = "tokens"))]
pub(crate) use self::absent::TokenKey;
#[cfg(feature = "tokens")]
pub(crate) use self::present::TokenKey;

/// A signature algorithm of access tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenAlgorithm {
    /// RSA PKCS#1 v1.5 with SHA-256.
    Rs256,
    /// RSA PSS with SHA-256.
    Ps256,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// Ed25519.
    EdDsa,
}

impl TokenAlgorithm {
    /// Reads the value of `alg`. Any other one, such as `none` and those with a shared secret, is
    /// refused.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "RS256" => Some(Self::Rs256),
            "PS256" => Some(Self::Ps256),
            "ES256" => Some(Self::Es256),
            "EdDSA" => Some(Self::EdDsa),
            _ => None,
        }
    }
}

/// The numbers of a key, from its JWK.
#[cfg_attr(not(feature = "tokens"), expect(dead_code, reason = "no key can be made of them"))]
pub(crate) enum KeyParts {
    /// Modulus and exponent.
    Rsa(Vec<u8>, Vec<u8>),
    /// Coordinates of a point on P-256.
    P256(Vec<u8>, Vec<u8>),
    /// A point of Ed25519.
    Ed25519(Vec<u8>),
}

#[cfg(feature = "tokens")]
mod present {
    use aws_lc_rs::signature::{
        ECDSA_P256_SHA256_FIXED, ED25519, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256,
        RSA_PSS_2048_8192_SHA256, RsaPublicKeyComponents,
    };

    use super::{KeyParts, TokenAlgorithm};

    /// Bytes of a coordinate, and of a point of Ed25519.
    const POINT_BYTES: usize = 32;
    /// Sizes of a modulus, in bytes: 2,048 to 8,192 bits.
    const MODULUS_BYTES: std::ops::RangeInclusive<usize> = 256..=1_024;

    /// A parsed key.
    #[derive(Debug)]
    pub(crate) enum TokenKey {
        Rsa { pkcs1: ParsedPublicKey, pss: ParsedPublicKey },
        P256(ParsedPublicKey),
        Ed25519(ParsedPublicKey),
    }

    impl TokenKey {
        /// `None` if the numbers are not a key of an accepted size.
        pub(crate) fn new(parts: KeyParts) -> Option<Self> {
            match parts {
                KeyParts::Rsa(n, e) if MODULUS_BYTES.contains(&n.len()) => {
                    let parts = RsaPublicKeyComponents { n, e };
                    let parse = |it| parts.to_parsed_public_key(it).ok();
                    let pkcs1 = parse(&RSA_PKCS1_2048_8192_SHA256)?;
                    Some(Self::Rsa { pkcs1, pss: parse(&RSA_PSS_2048_8192_SHA256)? })
                }
                KeyParts::P256(x, y) if [x.len(), y.len()] == [POINT_BYTES; 2] => {
                    let point = [&[4], &*x, &*y].concat();
                    ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).ok().map(Self::P256)
                }
                KeyParts::Ed25519(x) if x.len() == POINT_BYTES => {
                    ParsedPublicKey::new(&ED25519, x).ok().map(Self::Ed25519)
                }
                _ => None,
            }
        }

        /// Whether signatures by the algorithm are made with keys of this kind.
        pub(crate) fn fits(&self, algorithm: TokenAlgorithm) -> bool {
            self.parsed(algorithm).is_some()
        }

        pub(crate) fn verifies(
            &self,
            algorithm: TokenAlgorithm,
            text: &[u8],
            signature: &[u8],
        ) -> bool {
            self.parsed(algorithm).is_some_and(|key| key.verify_sig(text, signature).is_ok())
        }

        fn parsed(&self, algorithm: TokenAlgorithm) -> Option<&ParsedPublicKey> {
            match (self, algorithm) {
                (Self::Rsa { pkcs1: key, .. }, TokenAlgorithm::Rs256)
                | (Self::Rsa { pss: key, .. }, TokenAlgorithm::Ps256)
                | (Self::P256(key), TokenAlgorithm::Es256)
                | (Self::Ed25519(key), TokenAlgorithm::EdDsa) => Some(key),
                _ => None,
            }
        }
    }
}

#[cfg(not(feature = "tokens"))]
mod absent {
    use std::convert::Infallible;

    use super::{KeyParts, TokenAlgorithm};

    /// Has no values.
    #[derive(Debug)]
    pub(crate) struct TokenKey(Infallible);

    impl TokenKey {
        pub(crate) fn new(_: KeyParts) -> Option<Self> {
            None
        }

        pub(crate) fn fits(&self, _: TokenAlgorithm) -> bool {
            match self.0 {}
        }

        pub(crate) fn verifies(&self, _: TokenAlgorithm, _text: &[u8], _signature: &[u8]) -> bool {
            match self.0 {}
        }
    }
}
