//! Passwords, second factors and sessions of operators, and access tokens of OpenID providers.
//! Knows no state of the hub: callers pass the stored values and the time.
//!
//! [`IssuerKeys`] reads the keys of a provider on a thread of its own, and [`KeySet::verify`]
//! verifies a token with them.
//!
//! Costs: a password takes 19 MiB and about 20 ms of one core to hash or to verify, so callers
//! bound how many are computed at a time. Everything else takes microseconds.
#![warn(missing_docs)]

mod access_token;
mod issuer_keys;
mod key_set;
mod password;
mod provider;
mod secrets;
mod session;
mod token_key;
mod token_requests;
mod totp;

pub use access_token::{CLOCK_LEEWAY_SECONDS, Claims, TOKEN_BYTES_MAX, TokenFault, TokenRules};
pub use issuer_keys::{
    FILE_INTERVAL, IssuerKeys, IssuerKeysThread, KeyRefresh, KeySource, REFRESH_INTERVAL,
    REFRESH_PATIENCE, REFRESH_REST, RETRY_INTERVAL,
};
pub use key_set::{KEY_SET_BYTES_MAX, KEYS_MAX, KeySet, KeySetError};
pub use password::{PASSWORD_CHARACTERS, PasswordHash, verify_password};
pub use provider::{ANSWER_BYTES_MAX, ProviderClient, ProviderError, TIME_MAX, check_url};
pub use secrets::{SecretsKey, Unreadable};
pub use session::Session;
pub use token_requests::{
    AuthorizationCode, DEVICE_TIME_MAX, DeviceCode, ProviderTokens, RenewalError, TokenRequest,
};
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
