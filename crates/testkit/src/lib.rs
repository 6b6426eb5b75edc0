//! What tests of several crates share. It uses no code of the product, only the specification.
//!
//! - [`http`]: requests and answers of HTTP/1.1, and connections that carry them.
//! - [`server`]: a server that stands in for a participant, and an inbox for what it gets.
//! - [`help`]: rules for the help texts of command lines.
//! - [`s3`]: a real server that speaks S3, and a connection to it that can be cut.
//!
//! No crate that ships depends on this one: `cargo xtask tidy` checks it.
//!
//! Costs and bounds: a server has one thread per connection. A message has 8 MiB at most. A client
//! waits for the time that its test gives it.
#![warn(missing_docs)]

pub mod help;
pub mod http;
pub mod s3;
pub mod server;

use std::net::SocketAddr;

/// Endpoint types of a participant, without their common beginning, and what follows the
/// participant's base URL.
pub const ENDPOINTS: [(&str, &str); 19] = [
    ("PARTICIPANT_PUT", "/participants/{{partyIdType}}/{{partyIdentifier}}"),
    ("PARTICIPANT_PUT_ERROR", "/participants/{{partyIdType}}/{{partyIdentifier}}/error"),
    (
        "PARTICIPANT_SUB_ID_PUT",
        "/participants/{{partyIdType}}/{{partyIdentifier}}/{{partySubIdOrType}}",
    ),
    (
        "PARTICIPANT_SUB_ID_PUT_ERROR",
        "/participants/{{partyIdType}}/{{partyIdentifier}}/{{partySubIdOrType}}/error",
    ),
    ("PARTICIPANT_DELETE", "/participants/{{partyIdType}}/{{partyIdentifier}}"),
    (
        "PARTICIPANT_SUB_ID_DELETE",
        "/participants/{{partyIdType}}/{{partyIdentifier}}/{{partySubIdOrType}}",
    ),
    ("PARTICIPANT_BATCH_PUT", "/participants/{{requestId}}"),
    ("PARTICIPANT_BATCH_PUT_ERROR", "/participants/{{requestId}}/error"),
    ("PARTIES_GET", "/parties/{{partyIdType}}/{{partyIdentifier}}"),
    ("PARTIES_PUT", "/parties/{{partyIdType}}/{{partyIdentifier}}"),
    ("PARTIES_PUT_ERROR", "/parties/{{partyIdType}}/{{partyIdentifier}}/error"),
    ("PARTIES_SUB_ID_GET", "/parties/{{partyIdType}}/{{partyIdentifier}}/{{partySubIdOrType}}"),
    ("PARTIES_SUB_ID_PUT", "/parties/{{partyIdType}}/{{partyIdentifier}}/{{partySubIdOrType}}"),
    (
        "PARTIES_SUB_ID_PUT_ERROR",
        "/parties/{{partyIdType}}/{{partyIdentifier}}/{{partySubIdOrType}}/error",
    ),
    ("QUOTES", ""),
    ("BULK_QUOTES", ""),
    ("TRANSFER_POST", "/transfers"),
    ("TRANSFER_PUT", "/transfers/{{transferId}}"),
    ("TRANSFER_ERROR", "/transfers/{{transferId}}/error"),
];

/// A key that was made for tests, as a PEM text: `private`, `public` or `certificate`.
#[must_use]
pub fn pem(key: &str, form: &str) -> Option<String> {
    let vectors = include_str!("../../jws/tests/vectors/vectors.json");
    let vectors: serde_json::Value = serde_json::from_str(vectors).ok()?;
    vectors["keys"][key][form].as_str().map(str::to_owned)
}

/// The addresses in the line that a switch prints when it is ready: FSPIOP and the admin API.
#[must_use]
pub fn addresses(line: &str) -> Option<(SocketAddr, SocketAddr)> {
    let rest = line.trim_end().strip_prefix("upesi: ready; FSPIOP on http://")?;
    let (fspiop, admin) = rest.split_once(", admin on http://")?;
    Some((fspiop.parse().ok()?, admin.parse().ok()?))
}
