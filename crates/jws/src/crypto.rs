//! Hashes and signatures of a cryptographic library, with the feature `signatures`. Without the
//! feature, reading a key fails with an error that names it.

#[cfg(not(feature = "signatures"))]
pub(crate) use self::absent::{Hash, Private, Public, fingerprint, hasher};
#[cfg(feature = "signatures")]
pub(crate) use self::present::{Hash, Private, Public, fingerprint, hasher};

#[cfg(feature = "signatures")]
mod present {
    use aws_lc_rs::digest::{self, SHA256, SHA384, SHA512};
    use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
    use aws_lc_rs::rsa::KeySize;
    use aws_lc_rs::signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair,
        ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
        RSA_PKCS1_2048_8192_SHA512, RSA_PKCS1_SHA256, RsaKeyPair, VerificationAlgorithm,
    };
    use rustls_pki_types::pem::SectionKind;

    use crate::der::KeyKind;
    use crate::key::{Algorithm, KeyError};

    /// The digest of the signed text.
    pub(crate) type Hash = digest::Digest;

    /// Computes the digest.
    pub(crate) type Hasher = digest::Context;

    pub(crate) fn hasher(algorithm: Algorithm) -> Hasher {
        Hasher::new(match algorithm {
            Algorithm::Rs256 | Algorithm::Es256 => &SHA256,
            Algorithm::Rs384 => &SHA384,
            Algorithm::Rs512 => &SHA512,
        })
    }

    /// SHA-256 of a key.
    pub(crate) fn fingerprint(der: &[u8]) -> [u8; 32] {
        digest::digest(&SHA256, der).as_ref().try_into().expect("SHA-256 has 32 bytes")
    }

    /// A public key, parsed for each algorithm that supports it.
    pub(crate) enum Public {
        /// For RS256, RS384 and RS512.
        Rsa([ParsedPublicKey; 3]),
        P256(ParsedPublicKey),
    }

    impl Public {
        pub(crate) fn parse(kind: KeyKind, der: &[u8]) -> Result<Self, KeyError> {
            let parse = |algorithm: &'static dyn VerificationAlgorithm| {
                ParsedPublicKey::new(algorithm, der).map_err(|_| KeyError::Damaged)
            };
            match kind {
                KeyKind::Rsa { .. } => Ok(Self::Rsa([
                    parse(&RSA_PKCS1_2048_8192_SHA256)?,
                    parse(&RSA_PKCS1_2048_8192_SHA384)?,
                    parse(&RSA_PKCS1_2048_8192_SHA512)?,
                ])),
                KeyKind::P256 => Ok(Self::P256(parse(&ECDSA_P256_SHA256_FIXED)?)),
                KeyKind::Other => Err(KeyError::Unsupported),
            }
        }

        pub(crate) fn verifies(&self, algorithm: Algorithm, hash: &Hash, signature: &[u8]) -> bool {
            self.parsed(algorithm).is_some_and(|key| key.verify_digest_sig(hash, signature).is_ok())
        }

        pub(crate) fn fits(&self, algorithm: Algorithm) -> bool {
            self.parsed(algorithm).is_some()
        }

        fn parsed(&self, algorithm: Algorithm) -> Option<&ParsedPublicKey> {
            match (self, algorithm) {
                (Self::Rsa([key, _, _]), Algorithm::Rs256)
                | (Self::Rsa([_, key, _]), Algorithm::Rs384)
                | (Self::Rsa([_, _, key]), Algorithm::Rs512)
                | (Self::P256(key), Algorithm::Es256) => Some(key),
                _ => None,
            }
        }
    }

    /// A private key.
    pub(crate) enum Private {
        Rsa(RsaKeyPair),
        P256(EcdsaKeyPair),
    }

    impl Private {
        pub(crate) fn parse(kind: SectionKind, der: &[u8]) -> Result<Self, KeyError> {
            let elliptic = || {
                EcdsaKeyPair::from_private_key_der(&ECDSA_P256_SHA256_FIXED_SIGNING, der)
                    .map(Self::P256)
            };
            let key = match kind {
                SectionKind::RsaPrivateKey => RsaKeyPair::from_der(der).map(Self::Rsa),
                SectionKind::EcPrivateKey => elliptic(),
                _ => RsaKeyPair::from_pkcs8(der).map(Self::Rsa).or_else(|_| elliptic()),
            };
            key.map_err(|_| KeyError::Unsupported)
        }

        /// A new key in PKCS#8: on P-256 for ES256, else RSA of 2,048 bits. `None` if the library
        /// fails.
        pub(crate) fn generate(algorithm: Algorithm) -> Option<Vec<u8>> {
            if algorithm == Algorithm::Es256 {
                let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).ok()?;
                return Some(key.to_pkcs8v1().ok()?.as_ref().to_vec());
            }
            let key = RsaKeyPair::generate(KeySize::Rsa2048).ok()?;
            let der: Pkcs8V1Der<'_> = key.as_der().ok()?;
            Some(der.as_ref().to_vec())
        }

        pub(crate) const fn algorithm(&self) -> Algorithm {
            match self {
                Self::Rsa(_) => Algorithm::Rs256,
                Self::P256(_) => Algorithm::Es256,
            }
        }

        pub(crate) fn public_der(&self) -> Result<Vec<u8>, KeyError> {
            let public = match self {
                Self::Rsa(key) => key.public_key().as_der(),
                Self::P256(key) => key.public_key().as_der(),
            };
            public.map(|der| der.as_ref().to_vec()).map_err(|_| KeyError::Damaged)
        }

        /// `None` only if the library fails, for lack of memory or randomness.
        pub(crate) fn sign(&self, hash: &Hash) -> Option<Vec<u8>> {
            match self {
                Self::Rsa(key) => {
                    let mut signature = vec![0; key.public_modulus_len()];
                    key.sign_digest(&RSA_PKCS1_SHA256, hash, &mut signature).ok()?;
                    Some(signature)
                }
                Self::P256(key) => Some(key.sign_digest(hash).ok()?.as_ref().to_vec()),
            }
        }
    }
}

#[cfg(not(feature = "signatures"))]
mod absent {
    use std::convert::Infallible;

    use rustls_pki_types::pem::SectionKind;

    use crate::der::KeyKind;
    use crate::key::{Algorithm, KeyError};

    pub(crate) struct Hash;

    pub(crate) struct Hasher;

    pub(crate) fn hasher(_: Algorithm) -> Hasher {
        Hasher
    }

    impl Hasher {
        pub(crate) fn update(&mut self, _part: &[u8]) {}

        pub(crate) fn finish(self) -> Hash {
            Hash
        }
    }

    pub(crate) fn fingerprint(_der: &[u8]) -> [u8; 32] {
        [0; 32]
    }

    /// Has no values.
    pub(crate) struct Public(Infallible);

    impl Public {
        pub(crate) fn parse(_: KeyKind, _der: &[u8]) -> Result<Self, KeyError> {
            Err(KeyError::Absent)
        }

        pub(crate) fn verifies(&self, _: Algorithm, _: &Hash, _signature: &[u8]) -> bool {
            match self.0 {}
        }

        pub(crate) fn fits(&self, _: Algorithm) -> bool {
            match self.0 {}
        }
    }

    /// Has no values.
    pub(crate) struct Private(Infallible);

    impl Private {
        pub(crate) fn parse(_: SectionKind, _der: &[u8]) -> Result<Self, KeyError> {
            Err(KeyError::Absent)
        }

        pub(crate) fn generate(_: Algorithm) -> Option<Vec<u8>> {
            None
        }

        pub(crate) const fn algorithm(&self) -> Algorithm {
            match self.0 {}
        }

        pub(crate) fn public_der(&self) -> Result<Vec<u8>, KeyError> {
            match self.0 {}
        }

        pub(crate) fn sign(&self, _: &Hash) -> Option<Vec<u8>> {
            match self.0 {}
        }
    }
}
