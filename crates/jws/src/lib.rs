//! JWS signatures of FSPIOP messages: verified for inbound messages, made for messages from the hub
//! (hub-semantics 1.7).
//!
//! Phases of [`verify`]: the header `FSPIOP-Signature` is parsed. Its protected header is compared
//! with the HTTP headers and the request. The key of `FSPIOP-Source` is looked up in a [`KeyRing`].
//! The signature is verified over the received body. Only if that fails, it is verified over the
//! canonical forms of the reference (see [`verify`]). [`sign`] makes the header for a message from
//! the hub. [`Policy`] determines the messages that need a signature. [`sign_statement`] signs
//! other texts, for readers with any JOSE library.
//!
//! Costs, for a body of 2 kB: RSA with 2048 bits takes 20 µs to verify, 18.5 µs of them for hash
//! and key, and 0.3 ms to sign; P-256 takes 59 µs and 21 µs. The body is hashed through a small
//! buffer without a copy. There are three small allocations. See examples/cost.rs.
//!
//! Bounds: [`SIGNATURE_BYTES_MAX`] for the header, [`CANONICAL_BODY_BYTES_MAX`] for canonicalised
//! bodies, [`KEYS_PER_PARTICIPANT_MAX`] keys to try. A forged message costs one verification per
//! key and form of the body: one with one key and a compact, sorted body, at most three per key. No
//! input causes a panic.
//!
//! Only [`KeyRing::load`] and [`KeyDirectory`] perform I/O. Nothing reads the clock: neither the
//! age of a message nor the validity of a certificate is checked.

#![warn(missing_docs)]

mod base64_hash;
mod canonical;
mod compact;
mod crypto;
mod der;
mod hub_keys;
mod key;
mod key_directory;
mod key_ring;
mod policy;
mod protected_header;
mod request_path;
mod sign;
mod verify;

/// Whether this build supports signatures. Without them, no key can be read.
pub const IS_AVAILABLE: bool = cfg!(feature = "signatures");

pub use canonical::{CANONICAL_BODY_BYTES_MAX, canonical};
pub use compact::{STATEMENT_BYTES_MAX, StatementError, sign_statement, verify_statement};
pub use hub_keys::HubKeys;
pub use key::{
    Algorithm, KEY_TEXT_BYTES_MAX, KeyError, KeyKind, RSA_BITS_MAX, RSA_BITS_MIN, SigningKey,
    VerificationKey, pem,
};
pub use key_directory::{KeyDirectory, ReloadReport};
pub use key_ring::{KEYS_PER_PARTICIPANT_MAX, KeyRing, LoadError, PARTICIPANTS_MAX};
pub use policy::{Policy, SignatureRequirement};
pub use protected_header::SIGNATURE_BYTES_MAX;
pub use sign::{SignError, sign};
pub use verify::{SignatureError, Signed, SignedForm, verify, verify_with};
