//! Hashes of passwords: Argon2id with the first of the parameters that OWASP recommends, 19 MiB,
//! two passes, one lane. The stored form is a PHC string, which names its parameters.

use std::ops::RangeInclusive;

use argon2::password_hash::phc;
use argon2::{Algorithm, Argon2, Params, PasswordHasher, PasswordVerifier, Version};

use crate::{NoRandomBytes, random};

/// Length of a password, in characters.
pub const PASSWORD_CHARACTERS: RangeInclusive<usize> = 12..=128;
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
const LANES: u32 = 1;
const SALT_BYTES: usize = 16;

/// A stored hash: at most 128 characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PasswordHash(pub String);

impl PasswordHash {
    /// Hashes a password with a new salt.
    ///
    /// # Errors
    /// [`NoRandomBytes`].
    pub fn new(password: &str) -> Result<Self, NoRandomBytes> {
        let salt: [u8; SALT_BYTES] = random()?;
        let hash = hasher().hash_password_with_salt(password.as_bytes(), &salt);
        Ok(Self(hash.expect("the parameters are valid").to_string()))
    }
}

/// Whether a password has the stored hash. Without a stored hash, or with an invalid one, it
/// computes a hash all the same, so that the time does not reveal whether there is a password.
#[must_use]
pub fn verify_password(password: &str, stored: &str) -> bool {
    match phc::PasswordHash::new(stored) {
        Ok(hash) => hasher().verify_password(password.as_bytes(), &hash).is_ok(),
        Err(_) => {
            let salt = [0; SALT_BYTES];
            let _same_time = hasher().hash_password_with_salt(password.as_bytes(), &salt);
            false
        }
    }
}

fn hasher() -> Argon2<'static> {
    let params = Params::new(MEMORY_KIB, PASSES, LANES, None).expect("they are in range");
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_has_its_hash_and_no_other() {
        let password = "correct horse battery staple";
        let hash = PasswordHash::new(password).expect("random bytes").0;
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert!(hash.len() <= 128, "{hash}");
        assert!(verify_password(password, &hash));
        assert!(!verify_password("correct horse battery stapl", &hash));
        assert!(!verify_password("", &hash));
        assert_ne!(PasswordHash::new(password).expect("random bytes").0, hash, "salts differ");
        assert!(!verify_password(password, ""));
        assert!(!verify_password(password, "$argon2id$"));
    }
}
