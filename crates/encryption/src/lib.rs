//! Encryption at rest.
//!
//! A *master key*, which is kept outside of the data directory, wraps *data keys*. The wrapped data
//! keys are in the file [`KEY_FILE`] of the data directory. Data keys encrypt frames of the log,
//! snapshots, rows of the store, archives and copies; see [`ports::Cipher`] for the stored form.
//!
//! # Phases
//! 1. [`Keyring::open`] reads the file and opens the newest data key, which shows whether the
//!    master key is the right one.
//! 2. The first encryption of a process makes a data key. Its wrapped form is durable before it is
//!    used. [`Keyring::renew`] makes another one for the next period.
//! 3. [`Keyring::with_participants`] makes keys of their own for some participants, together with
//!    each new key. [`Keyring::destroy`] forgets those that no content needs any more.
//! 4. [`Keyring::rewrap`] wraps all data keys with another master key. Nothing else is rewritten.
//!
//! # Promises
//! - A data key encrypts only in the process that made it, with a nonce that counts up. No nonce
//!   is used twice under a key, also when a torn end of the log is truncated after a crash and the
//!   same log indexes are written again, when a full disk takes an append back, and when erasure
//!   rewrites a segment.
//! - The file is replaced as a whole. A crash leaves its old or its new form.
//! - A running switch needs its master key only for a new data key, and for data keys that it has
//!   not used yet.
#![warn(missing_docs)]

mod aead;
mod command;
mod key_file;
mod keyring;
mod master_key;
#[cfg_attr(
    not(all(feature = "pkcs11", not(target_feature = "crt-static"))),
    expect(dead_code, reason = "a program without PKCS#11 only checks the URI")
)]
mod pkcs11_uri;
mod source;
#[cfg(all(feature = "pkcs11", not(target_feature = "crt-static")))]
mod token_key;
#[cfg(not(all(feature = "pkcs11", not(target_feature = "crt-static"))))]
#[path = "no_token_key.rs"]
mod token_key;

pub use key_file::{DestroyedKey, KEY_FILE, KeyFile, KeyFileError, WrappedKey};
pub use keyring::{Keyring, KeyringError, MasterKeys};
pub use master_key::{LocalKey, MasterKey, MasterKeyError};
pub use source::SourcedKey;
pub use token_key::TokenKey;
