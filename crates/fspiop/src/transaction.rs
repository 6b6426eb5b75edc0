//! The transaction object in the ILP packet of a transfer, as far as fee rules need it.
//!
//! The packet is base64url text. It is an ILPv1 payment or an ILPv4 prepare, whose data is the
//! transaction object as JSON, usually base64url text again (hub-semantics 7.4). Participants write
//! it and the payee's signature of the packet is its fulfilment; the hub forwards it unread.
//!
//! Costs: two allocations of the packet's length and one pass over the JSON, of at most 32,768
//! characters. No input causes a panic.

use std::borrow::Cow;

use base64::Engine as _;
use ledger::{Currency, FspName, TransactionFacts};
use serde::Deserialize;

use crate::body::LENIENT;

/// Type of an ILPv1 payment.
const PAYMENT: u8 = 1;
/// Type of an ILPv4 prepare.
const PREPARE: u8 = 12;
/// Length of the amount in a packet, in bytes.
const AMOUNT_BYTES: usize = 8;
/// Length of expiry and condition in an ILPv4 prepare, in bytes.
const EXPIRY_AND_CONDITION_BYTES: usize = 17 + 32;

/// A transaction object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    scenario: String,
    sub_scenario: Option<String>,
    initiator: String,
    initiator_type: String,
    payer_extensions: Vec<(String, String)>,
    payee_extensions: Vec<(String, String)>,
}

impl Transaction {
    /// Reads the transaction object in the packet of `POST /transfers`; `None` if the body has no
    /// packet, or the packet no such object.
    #[must_use]
    pub fn of_transfer(body: &[u8]) -> Option<Self> {
        let transfer: TransferJson<'_> = serde_json::from_slice(body).ok()?;
        Self::of_packet(&transfer.packet)
    }

    /// Reads the transaction object in the text of a packet.
    #[must_use]
    pub fn of_packet(text: &str) -> Option<Self> {
        let packet = decode(text.as_bytes())?;
        let data = data_of(&packet)?;
        // Data that is not JSON itself is base64url text.
        let json = match data.first()? {
            b'{' => Cow::Borrowed(data),
            _ => Cow::Owned(decode(data)?),
        };
        let json: TransactionJson = serde_json::from_slice(&json).ok()?;
        Some(Self {
            scenario: json.kind.scenario,
            sub_scenario: json.kind.sub_scenario,
            initiator: json.kind.initiator,
            initiator_type: json.kind.initiator_type,
            payer_extensions: json.payer.into_extensions(),
            payee_extensions: json.payee.into_extensions(),
        })
    }

    /// The facts for fee rules. Currency and FSPs are those of the transfer, because the fee is
    /// between them.
    #[must_use]
    pub fn facts(
        &self,
        currency: Currency,
        (payer_fsp, payee_fsp): (FspName, FspName),
    ) -> TransactionFacts<'_> {
        TransactionFacts {
            currency,
            payer_fsp,
            payee_fsp,
            scenario: &self.scenario,
            sub_scenario: self.sub_scenario.as_deref(),
            initiator: &self.initiator,
            initiator_type: &self.initiator_type,
            payer_extensions: borrowed(&self.payer_extensions),
            payee_extensions: borrowed(&self.payee_extensions),
        }
    }
}

fn borrowed(extensions: &[(String, String)]) -> Vec<(&str, &str)> {
    extensions.iter().map(|(key, value)| (&**key, &**value)).collect()
}

#[derive(Deserialize)]
struct TransferJson<'a> {
    #[serde(borrow, rename = "ilpPacket")]
    packet: Cow<'a, str>,
}

#[derive(Deserialize)]
struct TransactionJson {
    payer: PartyJson,
    payee: PartyJson,
    #[serde(rename = "transactionType")]
    kind: KindJson,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct KindJson {
    scenario: String,
    sub_scenario: Option<String>,
    initiator: String,
    initiator_type: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PartyJson {
    party_id_info: PartyIdInfoJson,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PartyIdInfoJson {
    extension_list: Option<ExtensionListJson>,
}

#[derive(Deserialize)]
struct ExtensionListJson {
    extension: Vec<ExtensionJson>,
}

#[derive(Deserialize)]
struct ExtensionJson {
    key: String,
    value: String,
}

impl PartyJson {
    fn into_extensions(self) -> Vec<(String, String)> {
        let list = self.party_id_info.extension_list.map(|list| list.extension);
        let pair = |entry: ExtensionJson| (entry.key, entry.value);
        list.unwrap_or_default().into_iter().map(pair).collect()
    }
}

fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let end = text.iter().rposition(|byte| *byte != b'=').map_or(0, |at| at + 1);
    LENIENT.decode(&text[..end]).ok()
}

/// The data of a packet.
fn data_of(packet: &[u8]) -> Option<&[u8]> {
    let (kind, rest) = packet.split_first()?;
    let (contents, _) = prefixed(rest)?;
    let fixed = match *kind {
        PAYMENT => AMOUNT_BYTES,
        PREPARE => AMOUNT_BYTES + EXPIRY_AND_CONDITION_BYTES,
        _ => return None,
    };
    let (_account, rest) = prefixed(contents.get(fixed..)?)?;
    prefixed(rest).map(|(data, _)| data)
}

/// Bytes after their length in octet encoding rules, and the rest.
fn prefixed(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (first, rest) = bytes.split_first()?;
    let (length, rest) = match *first {
        0..0x80 => (usize::from(*first), rest),
        long => {
            let (digits, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
            let digits = match digits {
                [] | [_, _, _, _, ..] => return None,
                digits => digits,
            };
            (digits.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        }
    };
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::{URL_SAFE, URL_SAFE_NO_PAD};

    use super::*;

    const WALLETS: &str = r#"{
        "transactionId": "85feac2f-39b2-491b-817e-4a03203d4f14",
        "payer": {"name": "A", "partyIdInfo": {"partyIdType": "MSISDN", "partyIdentifier": "1",
            "fspId": "dfsp1", "extensionList": {"extension": [
                {"key": "accountType", "value": "Wallet"}, {"key": "a", "value": "\u00e9"}]}}},
        "payee": {"partyIdInfo": {"fspId": "dfsp2"}},
        "transactionType": {"scenario": "TRANSFER", "subScenario": "LOCAL", "initiator": "PAYER",
            "initiatorType": "CONSUMER"}
    }"#;

    fn with_length(out: &mut Vec<u8>, bytes: &[u8]) {
        match bytes.len() {
            short @ 0..0x80 => out.push(short as u8),
            long => out.extend([0x82, (long >> 8) as u8, long as u8]),
        }
        out.extend_from_slice(bytes);
    }

    fn packet(kind: u8, fixed: usize, data: &[u8]) -> Vec<u8> {
        let mut contents = vec![0; fixed];
        with_length(&mut contents, b"g.dfsp2.msisdn.1");
        with_length(&mut contents, data);
        let mut packet = vec![kind];
        with_length(&mut packet, &contents);
        packet
    }

    fn text(data: &[u8]) -> String {
        URL_SAFE_NO_PAD.encode(packet(PAYMENT, AMOUNT_BYTES, data))
    }

    #[test]
    fn transaction_is_read_from_both_versions_of_packets() {
        let data = URL_SAFE_NO_PAD.encode(WALLETS);
        let fourth = AMOUNT_BYTES + EXPIRY_AND_CONDITION_BYTES;
        let texts = [
            text(data.as_bytes()),
            text(WALLETS.as_bytes()),
            text(URL_SAFE.encode(WALLETS).as_bytes()),
            URL_SAFE.encode(packet(PREPARE, fourth, data.as_bytes())),
        ];
        let usd = Currency::parse("USD").expect("a currency");
        let fsp = |name| FspName::new(name).expect("a name");
        for text in texts {
            let body = format!(r#"{{"transferId": "x", "ilpPacket": "{text}"}}"#);
            let read = Transaction::of_transfer(body.as_bytes()).expect("it has a transaction");
            let facts = read.facts(usd, (fsp("dfsp1"), fsp("dfsp2")));
            assert_eq!(
                facts,
                TransactionFacts {
                    currency: usd,
                    payer_fsp: fsp("dfsp1"),
                    payee_fsp: fsp("dfsp2"),
                    scenario: "TRANSFER",
                    sub_scenario: Some("LOCAL"),
                    initiator: "PAYER",
                    initiator_type: "CONSUMER",
                    payer_extensions: vec![("accountType", "Wallet"), ("a", "\u{e9}")],
                    payee_extensions: vec![],
                }
            );
        }
    }

    #[test]
    fn packets_without_a_transaction_have_none() {
        let sound = text(WALLETS.as_bytes());
        assert!(Transaction::of_packet(&sound).is_some());
        let missing = |member: &str| text(WALLETS.replace(member, "x").as_bytes());
        let other_type = URL_SAFE_NO_PAD.encode(packet(2, AMOUNT_BYTES, WALLETS.as_bytes()));
        let faulty = [
            String::new(),
            "AYIBgQAAAAAAAASw".to_owned(),
            "*".to_owned(),
            other_type,
            text(b""),
            text(b"{}"),
            text(b"***"),
            missing("transactionType"),
            missing("initiatorType"),
            missing("partyIdInfo"),
            missing("\"value\""),
            URL_SAFE_NO_PAD.encode([PAYMENT, 0x80]),
            URL_SAFE_NO_PAD.encode([PAYMENT, 0x84, 0, 0, 0, 1, 0]),
        ];
        for text in faulty {
            assert_eq!(Transaction::of_packet(&text), None, "{text}");
        }
        let decoded = URL_SAFE_NO_PAD.decode(&sound).expect("base64url");
        for length in 0..decoded.len() {
            let cut = URL_SAFE_NO_PAD.encode(&decoded[..length]);
            assert_eq!(Transaction::of_packet(&cut), None, "{length}");
        }
        for body in ["", "{}", r#"{"ilpPacket": 1}"#] {
            assert_eq!(Transaction::of_transfer(body.as_bytes()), None, "{body}");
        }
    }
}
