//! Codes of a second factor: RFC 6238 with SHA-1, 30 s and six digits, the only parameters that
//! every authenticator application supports. A code of the step before or after is accepted, for
//! clocks that differ.

use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;

use crate::{NoRandomBytes, random};

/// Length of a secret, in bytes.
pub const TOTP_SECRET_BYTES: usize = 20;
const STEP_SECONDS: u64 = 30;
const DIGITS: usize = 6;
const CODES: u32 = 1_000_000;
const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// The secret that an authenticator application shares with the hub.
#[derive(Clone, PartialEq, Eq)]
pub struct TotpSecret(pub [u8; TOTP_SECRET_BYTES]);

impl TotpSecret {
    /// A new secret.
    ///
    /// # Errors
    /// [`NoRandomBytes`].
    pub fn new() -> Result<Self, NoRandomBytes> {
        random().map(Self)
    }

    /// Reads a secret that was stored; `None` if it has another length.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The secret as applications take it: base32 without padding.
    #[must_use]
    pub fn to_base32(&self) -> String {
        let mut text = String::new();
        for chunk in self.0.chunks(5) {
            let bits = chunk.iter().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
            for place in (0..8).rev() {
                text.push(char::from(BASE32[(bits >> (place * 5)) as usize & 31]));
            }
        }
        text
    }

    /// The address that applications read from a QR code. `name` is the operator's.
    #[must_use]
    pub fn to_uri(&self, name: &str) -> String {
        format!("otpauth://totp/Upesi:{name}?secret={}&issuer=Upesi", self.to_base32())
    }

    /// The step of a valid code, at a time in seconds since 1970; `None` for any other text. Steps
    /// up to `used` are over: a code is valid once.
    #[must_use]
    pub fn verify(&self, code: &str, seconds: u64, used: Option<u64>) -> Option<u64> {
        let is_code = code.len() == DIGITS && code.bytes().all(|byte| byte.is_ascii_digit());
        let presented = blake3::hash(code.as_bytes());
        let now = seconds / STEP_SECONDS;
        let mut steps = now.saturating_sub(1)..=now + 1;
        let is_it = |step: &u64| {
            // Equality of BLAKE3 hashes is constant-time.
            blake3::hash(self.code(*step).as_bytes()) == presented
                && used.is_none_or(|used| used < *step)
        };
        if is_code { steps.find(is_it) } else { None }
    }

    /// The code at a time in seconds since 1970, as an application shows it.
    #[must_use]
    pub fn code_at(&self, seconds: u64) -> String {
        self.code(seconds / STEP_SECONDS)
    }

    /// The code of a step.
    fn code(&self, step: u64) -> String {
        let mut mac = Hmac::<Sha1>::new_from_slice(&self.0).expect("any length is a key");
        mac.update(&step.to_be_bytes());
        let digest = mac.finalize().into_bytes();
        let at = usize::from(digest[19] & 15);
        let word = [digest[at] & 127, digest[at + 1], digest[at + 2], digest[at + 3]];
        format!("{:06}", u32::from_be_bytes(word) % CODES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The secret of the test vectors of RFC 6238, appendix B.
    fn of_rfc() -> TotpSecret {
        TotpSecret(*b"12345678901234567890")
    }

    #[test]
    fn codes_are_those_of_the_rfc() {
        for (seconds, code) in [
            (59, "287082"),
            (1_111_111_109, "081804"),
            (1_111_111_111, "050471"),
            (1_234_567_890, "005924"),
            (2_000_000_000, "279037"),
            (20_000_000_000, "353130"),
        ] {
            let step = seconds / STEP_SECONDS;
            assert_eq!(of_rfc().verify(code, seconds, None), Some(step), "{code}");
        }
    }

    #[test]
    fn a_code_is_valid_once_and_around_its_step() {
        let secret = of_rfc();
        let (code, step) = ("050471", 1_111_111_111 / STEP_SECONDS);
        let at = |steps: i64, used| {
            let seconds = (step as i64 + steps) as u64 * STEP_SECONDS;
            secret.verify(code, seconds, used).is_some()
        };
        assert_eq!(
            [-2, -1, 0, 1, 2].map(|steps| at(steps, None)),
            [false, true, true, true, false]
        );
        assert!(at(0, Some(step - 1)) && !at(0, Some(step)) && !at(0, Some(step + 1)));
        for wrong in ["", "50471", "0504710", "05047a", "+50471", " 50471", "050472"] {
            assert_eq!(secret.verify(wrong, 1_111_111_111, None), None, "{wrong}");
        }
    }

    #[test]
    fn secrets_are_written_in_base32() {
        assert_eq!(of_rfc().to_base32(), "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ");
        let uri = of_rfc().to_uri("anna");
        assert!(uri.starts_with("otpauth://totp/Upesi:anna?secret=GEZDGNBV"), "{uri}");
        assert!(TotpSecret::new().expect("random bytes") != TotpSecret::new().expect("more"));
        assert!(TotpSecret::from_bytes(&[0; 19]).is_none());
    }
}
