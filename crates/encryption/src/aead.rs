//! AES-256-GCM: of aws-lc with the feature, otherwise of RustCrypto. Both have the same results.

pub(crate) use implementation::Key;

/// Length of a key, in bytes.
pub(crate) const KEY_BYTES: usize = 32;
/// Length of a nonce, in bytes.
pub(crate) const NONCE_BYTES: usize = 12;
/// Length of an authentication tag, in bytes.
pub(crate) const TAG_BYTES: usize = 16;

#[cfg(feature = "aws-lc")]
mod implementation {
    use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

    use super::{KEY_BYTES, NONCE_BYTES, TAG_BYTES};

    /// An expanded key.
    pub(crate) struct Key(LessSafeKey);

    impl Key {
        pub(crate) fn new(key: &[u8; KEY_BYTES]) -> Self {
            let key = UnboundKey::new(&AES_256_GCM, key).expect("a key has 32 bytes");
            Self(LessSafeKey::new(key))
        }

        /// Appends ciphertext and tag.
        pub(crate) fn seal(
            &self,
            nonce: [u8; NONCE_BYTES],
            context: &[u8],
            plain: &[u8],
            out: &mut Vec<u8>,
        ) {
            let start = out.len();
            out.extend_from_slice(plain);
            let (nonce, context) = (Nonce::assume_unique_for_key(nonce), Aad::from(context));
            let sealed = self.0.seal_in_place_separate_tag(nonce, context, &mut out[start..]);
            let tag = sealed.expect("the plain bytes are not too long");
            out.extend_from_slice(tag.as_ref());
        }

        /// Appends the plain bytes. Returns whether they are authentic; if not, appends nothing.
        pub(crate) fn open(
            &self,
            nonce: [u8; NONCE_BYTES],
            context: &[u8],
            sealed: &[u8],
            out: &mut Vec<u8>,
        ) -> bool {
            let start = out.len();
            out.extend_from_slice(sealed);
            let (nonce, context) = (Nonce::assume_unique_for_key(nonce), Aad::from(context));
            let opened = self.0.open_in_place(nonce, context, &mut out[start..]).is_ok();
            let plain = if opened { sealed.len() - TAG_BYTES } else { 0 };
            out.truncate(start + plain);
            opened
        }
    }
}

#[cfg(not(feature = "aws-lc"))]
mod implementation {
    use aes_gcm::aead::{Aead, KeyInit, Payload};
    use aes_gcm::{Aes256Gcm, Nonce};

    use super::{KEY_BYTES, NONCE_BYTES};

    /// An expanded key.
    pub(crate) struct Key(Box<Aes256Gcm>);

    impl Key {
        pub(crate) fn new(key: &[u8; KEY_BYTES]) -> Self {
            Self(Box::new(Aes256Gcm::new(&aes_gcm::Key::<Aes256Gcm>::from(*key))))
        }

        /// Appends ciphertext and tag.
        pub(crate) fn seal(
            &self,
            nonce: [u8; NONCE_BYTES],
            context: &[u8],
            plain: &[u8],
            out: &mut Vec<u8>,
        ) {
            let payload = Payload { msg: plain, aad: context };
            let sealed = self.0.encrypt(&Nonce::from(nonce), payload);
            out.extend_from_slice(&sealed.expect("the plain bytes are not too long"));
        }

        /// Appends the plain bytes. Returns whether they are authentic; if not, appends nothing.
        pub(crate) fn open(
            &self,
            nonce: [u8; NONCE_BYTES],
            context: &[u8],
            sealed: &[u8],
            out: &mut Vec<u8>,
        ) -> bool {
            let payload = Payload { msg: sealed, aad: context };
            let opened = self.0.decrypt(&Nonce::from(nonce), payload);
            out.extend_from_slice(opened.as_deref().unwrap_or_default());
            opened.is_ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test case 16 of the specification of GCM by McGrew and Viega.
    #[test]
    fn results_are_those_of_the_specification() {
        let bytes = |hex: &str| -> Vec<u8> {
            let pairs = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair));
            pairs
                .map(|pair| u8::from_str_radix(pair.expect("digits"), 16).expect("hexadecimal"))
                .collect()
        };
        let key = bytes("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308");
        let nonce = bytes("cafebabefacedbaddecaf888");
        let plain = bytes(
            "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449\
             a6b525b16aedf5aa0de657ba637b39",
        );
        let context = bytes("feedfacedeadbeeffeedfacedeadbeefabaddad2");
        let sealed = bytes(
            "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056\
             828838c5f61e6393ba7a0abcc9f66276fc6ece0f4e1768cddf8853bb2d551b",
        );
        let key = Key::new(key[..].try_into().expect("a key"));
        let nonce: [u8; NONCE_BYTES] = nonce[..].try_into().expect("a nonce");
        let mut out = vec![7];
        key.seal(nonce, &context, &plain, &mut out);
        assert_eq!(out[1..], sealed);
        let mut opened = vec![9];
        assert!(key.open(nonce, &context, &sealed, &mut opened));
        assert_eq!(opened[1..], plain);
        assert!(!key.open(nonce, &context[1..], &sealed, &mut opened));
        assert!(!key.open(nonce, &context, &sealed[..TAG_BYTES - 1], &mut opened));
        assert_eq!(opened.len(), 1 + plain.len(), "nothing is left of a failure");
    }
}
