//! Signatures of FSPIOP messages (JWS): verified on the way in, made for the hub's own messages
//! (hub-semantics 1.7).
//!
//! Phases of [`verify`]: the header `FSPIOP-Signature` is parsed; its protected header is held
//! against the HTTP headers and against the request itself; the key of `FSPIOP-Source` is looked
//! up in a [`KeyRing`]; the signature is verified over the body as it came and, only when that
//! fails, over the forms to which the reference brings a body first (see [`verify`]). [`sign`]
//! makes the header for a message of the hub. [`Policy`] says which messages need either.
//!
//! Costs, for a body of two kilobytes: RSA with 2048 bits takes 20 us to verify, 18.5 of them hash
//! and key, and 0.3 ms to sign; P-256 takes 59 us and 21 us. The body is hashed through a small
//! buffer, never copied; beside that come three small allocations. See examples/cost.rs.
//!
//! Bounds: [`SIGNATURE_BYTES_MAX`] for the header, [`CANONICAL_BODY_BYTES_MAX`] for bodies that
//! are brought into another form, [`KEYS_PER_PARTICIPANT_MAX`] keys of a ring to try. A forged
//! message costs one verification per key and form of the body: one when there is one key and the
//! body is compact and sorted, three per key at most. Nothing here panics on any input.
//!
//! Nothing but [`KeyRing::load`] and [`KeyDirectory`] does input or output; nothing looks at the
//! clock: neither the age of a message nor the validity of a certificate is judged here.

#![warn(missing_docs)]

mod base64_hash;
mod canonical;
mod crypto;
mod der;
mod directory;
mod key;
mod key_ring;
mod policy;
mod protected_header;
mod request_path;
mod sign;
mod verify;

/// Whether this build verifies and makes signatures; without it no key can be read.
pub const IS_AVAILABLE: bool = cfg!(feature = "signatures");

pub use canonical::{CANONICAL_BODY_BYTES_MAX, canonical};
pub use directory::{KeyDirectory, ReloadReport};
pub use key::{
    Algorithm, KEY_TEXT_BYTES_MAX, KeyError, KeyKind, RSA_BITS_MAX, RSA_BITS_MIN, SigningKey,
    VerificationKey,
};
pub use key_ring::{KEYS_PER_PARTICIPANT_MAX, KeyRing, LoadError, PARTICIPANTS_MAX};
pub use policy::{Policy, SignatureRequirement};
pub use protected_header::SIGNATURE_BYTES_MAX;
pub use sign::{SignError, sign};
pub use verify::{SignatureError, Signed, verify, verify_with};
