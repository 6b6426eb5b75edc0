//! Passwords, second factors and sessions of operators. Knows no HTTP and no state: callers pass
//! the stored values and the time.
//!
//! Costs: a password takes 19 MiB and about 20 ms of one core to hash or to verify, so callers
//! bound how many are computed at a time. Everything else takes microseconds.
#![warn(missing_docs)]

mod password;
mod secrets;
mod session;
mod totp;

pub use password::{PASSWORD_CHARACTERS, PasswordHash, verify_password};
pub use secrets::{SecretsKey, Unreadable};
pub use session::Session;
pub use totp::{TOTP_SECRET_BYTES, TotpSecret};

/// The operating system gave no random bytes.
#[derive(Debug, thiserror::Error)]
#[error("the operating system gives no random bytes")]
pub struct NoRandomBytes;

fn random<const N: usize>() -> Result<[u8; N], NoRandomBytes> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|_| NoRandomBytes)?;
    Ok(bytes)
}
