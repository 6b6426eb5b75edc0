//! Helpers shared by the tests of several crates. They use only the specification, no product code.
//!
//! - [`http`]: HTTP/1.1 requests, responses and connections.
//! - [`server`]: a server in the role of a participant, and an inbox of its requests.
//! - [`issuer`]: an issuer of access tokens.
//! - [`s3`]: a real S3 server, and a connection to it that can be cut.
//! - [`cli_help`]: rules for the help texts of command lines.
//!
//! No crate that ships depends on this one: `cargo xtask tidy` checks it.
//!
//! Costs and bounds: a server has one thread per connection. A message has at most 8 MiB. A client
//! has a timeout that its test chooses.
#![warn(missing_docs)]

pub mod cli_help;
pub mod http;
pub mod issuer;
pub mod s3;
pub mod server;

use std::net::SocketAddr;

/// Endpoint types of a participant, without their common prefix, and the path after the
/// participant's base URL.
pub const ENDPOINTS: [(&str, &str); 22] = [
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
    ("BULK_TRANSFER_POST", "/bulkTransfers"),
    ("BULK_TRANSFER_PUT", "/bulkTransfers/{{id}}"),
    ("BULK_TRANSFER_ERROR", "/bulkTransfers/{{id}}/error"),
    ("TRANSFER_POST", "/transfers"),
    ("TRANSFER_PUT", "/transfers/{{transferId}}"),
    ("TRANSFER_ERROR", "/transfers/{{transferId}}/error"),
];

/// A test key as PEM text: `private`, `public` or `certificate`.
#[must_use]
pub fn pem(key: &str, form: &str) -> Option<String> {
    let vectors = include_str!("../../jws/tests/vectors/vectors.json");
    let vectors: serde_json::Value = serde_json::from_str(vectors).ok()?;
    vectors["keys"][key][form].as_str().map(str::to_owned)
}

/// The addresses in the line that a switch prints when it is ready: FSPIOP and admin API, each over
/// HTTP or HTTPS.
#[must_use]
pub fn addresses(line: &str) -> Option<(SocketAddr, SocketAddr)> {
    let rest = line.trim_end().strip_prefix("upesi: ready; FSPIOP on ")?;
    let (fspiop, admin) = rest.split_once(", admin on ")?;
    let address = |url: &str| url.split_once("://")?.1.parse().ok();
    Some((address(fspiop)?, address(admin)?))
}
