//! `GET /transactions/{id}`: the transaction object that a transfer's ILP packet carries
//! (hub-semantics 4.1, 7.4).
//!
//! The hub reads ILP packets only here: no decision depends on one. The object contains personal
//! data, so reading it requires the token. Costs: one record read from the log.

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use fspiop::{ErrorCode, Refusal};
use ledger::TransferId;
use openapi::schema::reference;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::backend::PrepareBody;
use crate::outcome_errors;
use crate::request::{AdminRequest, EXAMPLE_TRANSFER};
use crate::response::{AdminResponse, HandlerResult};
use crate::route::{Parameter, routes};
use crate::schema::AnyObject;

/// ILPv1: a payment.
const PAYMENT: u8 = 1;
/// ILPv4: a prepare.
const PREPARE: u8 = 12;
/// Bytes of a prepare between its amount and its account: expiry and condition.
const PREPARE_FIXED: usize = 17 + 32;
const AMOUNT_BYTES: usize = 8;

/// Base64url, padded or not, as partners write it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// The transfer in the path.
const ID: Parameter<TransferId> = Parameter::new(
    "id",
    "The transfer.",
    || reference("TransferId"),
    |text| TransferId::parse(text).ok_or_else(not_found),
)
.example(EXAMPLE_TRANSFER);

routes! {
    "/transactions/{id}" [ID] {
        guarded GET showTransaction = show, "Show the transaction object of a transfer" {
            permission: Audit,
            text: "\
                The transaction object in the transfer's ILP packet, digit for digit. Requires \
                the token, because it contains personal data. A packet without a transaction \
                object gets 400 with 3200, and so does a transfer whose message was erased.",
            responses: [200: AnyObject = "The transaction object."],
            refusals: [400 ID_NOT_FOUND],
        }
    }
}

#[derive(Deserialize)]
struct PrepareMembers {
    #[serde(rename = "ilpPacket")]
    ilp_packet: String,
}

/// The transaction object of a transfer.
async fn show(request: &AdminRequest<'_>) -> HandlerResult {
    let id = request.path(&ID)?;
    let body = request.backend.prepare_body(id).await.map_err(outcome_errors::from_unavailable)?;
    let PrepareBody::Stored(body) = body.ok_or_else(not_found)? else {
        let detail = "the message of the transfer was erased; see GET /erasures";
        return Err(Refusal::new(ErrorCode::ID_NOT_FOUND, detail));
    };
    match transaction_object(&body) {
        Some(transaction) => Ok(AdminResponse::ok(&transaction)),
        None => {
            let detail = "the ILP packet does not contain a transaction object";
            Err(Refusal::new(ErrorCode::ID_NOT_FOUND, detail))
        }
    }
}

fn not_found() -> Refusal {
    Refusal::new(ErrorCode::ID_NOT_FOUND, "transaction not found")
}

/// The transaction object within the ILP packet within the body of a prepare, digit for digit
/// (hub-semantics 7.4); `None` if there is no such object.
#[must_use]
pub fn transaction_object(body: &[u8]) -> Option<Box<RawValue>> {
    let body: PrepareMembers = serde_json::from_slice(body).ok()?;
    transaction_of_packet(&body.ilp_packet)
}

/// The transaction object within an ILP packet, as [`transaction_object`].
#[must_use]
pub fn transaction_of_packet(packet: &str) -> Option<Box<RawValue>> {
    let packet = BASE64.decode(packet).ok()?;
    let data = packet_data(&packet)?;
    let decoded = BASE64.decode(data);
    let text = decoded.as_deref().unwrap_or(data);
    let object: &RawValue = serde_json::from_slice(text).ok()?;
    object.get().starts_with('{').then(|| object.to_owned())
}

/// The data of a packet of either version.
fn packet_data(packet: &[u8]) -> Option<&[u8]> {
    let (kind, rest) = packet.split_first()?;
    let (contents, _) = split_length_prefixed(rest)?;
    let fixed = match *kind {
        PAYMENT => AMOUNT_BYTES,
        PREPARE => AMOUNT_BYTES + PREPARE_FIXED,
        _ => return None,
    };
    let (_account, rest) = split_length_prefixed(contents.get(fixed..)?)?;
    Some(split_length_prefixed(rest)?.0)
}

/// Splits length-prefixed bytes from the rest. The prefix is the length if it is below 128, else
/// the number of length bytes, followed by these.
fn split_length_prefixed(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (first, rest) = bytes.split_first()?;
    let (length, rest) = match *first {
        short @ 0..0x80 => (usize::from(short), rest),
        0x80 | 0x85.. => return None,
        long => {
            let (digits, rest) = rest.split_at_checked(usize::from(long - 0x80))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
    };
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_length_prefix(bytes: &[u8]) -> Vec<u8> {
        let length = bytes.len();
        let mut all = match length {
            0..0x80 => vec![length as u8],
            _ => vec![0x82, (length >> 8) as u8, length as u8],
        };
        all.extend_from_slice(bytes);
        all
    }

    fn packet(kind: u8, fixed: usize, data: &[u8]) -> Vec<u8> {
        let contents =
            [&vec![0; fixed][..], &with_length_prefix(b"g.fsp"), &with_length_prefix(data)];
        [&[kind][..], &with_length_prefix(&contents.concat())].concat()
    }

    fn body(packet: &[u8]) -> Vec<u8> {
        format!(r#"{{"ilpPacket":"{}"}}"#, BASE64.encode(packet)).into_bytes()
    }

    #[test]
    fn packets_of_both_versions_are_opened() {
        let object = format!(r#"{{"transactionId":"t","note":"{}"}}"#, "x".repeat(300));
        let coded = BASE64.encode(&object);
        for (name, packet) in [
            ("payment", packet(1, 8, coded.as_bytes())),
            ("payment, plain", packet(1, 8, object.as_bytes())),
            ("prepare", packet(12, 57, coded.as_bytes())),
        ] {
            let found = transaction_object(&body(&packet)).expect(name);
            assert_eq!(found.get(), object, "{name}");
            for cut in 0..packet.len() {
                assert!(transaction_object(&body(&packet[..cut])).is_none(), "{name} cut at {cut}");
            }
        }
    }

    #[test]
    fn packets_without_an_object_are_refused() {
        for packet in [&b""[..], &packet(2, 8, b"{}"), &packet(1, 8, b"[]"), &[1, 0x80], &[1, 0x85]]
        {
            assert!(transaction_object(&body(packet)).is_none(), "{packet:?}");
        }
        assert!(transaction_object(b"{}").is_none());
        assert!(transaction_object(br#"{"ilpPacket":"%"}"#).is_none());
    }
}
