//! Interledger as used by Mojaloop: packet, fulfilment, condition (hub-semantics 7.4).
//!
//! The packet is an ILPv1 payment: type 1, a length, the amount in minor units as eight bytes, the
//! payee's account, and the transaction object as base64url text, without extensions. The
//! fulfilment is an HMAC over the packet's text with the payee's key. The condition is the
//! fulfilment's SHA-256.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use ledger::{Amount, Currency};
use sha2::{Digest, Sha256};

const PAYMENT: u8 = 1;

/// The payee's secret key.
pub struct Secret(Hmac<Sha256>);

impl Secret {
    /// A key of any length.
    #[must_use]
    pub fn new(key: &[u8]) -> Self {
        Self(Hmac::new_from_slice(key).expect("HMAC takes keys of every length"))
    }

    /// The secret of a simulated FSP. It is derived from the name, so that simulated payers can
    /// compute terms without a quote. Never use it for real money.
    #[must_use]
    pub fn of(fsp: &str) -> Self {
        Self::new(&Sha256::digest(format!("upesi simulated fsp {fsp}")))
    }

    /// The fulfilment of a packet's text.
    #[must_use]
    pub fn fulfilment(&self, packet: &[u8]) -> [u8; 32] {
        let mut mac = self.0.clone();
        mac.update(packet);
        mac.finalize().into_bytes().into()
    }
}

/// The condition of a fulfilment.
#[must_use]
pub fn condition(fulfilment: &[u8; 32]) -> [u8; 32] {
    Sha256::digest(fulfilment).into()
}

/// The content of a packet.
pub struct Payment<'a> {
    /// The amount of the transfer.
    pub amount: Amount,
    /// Its currency.
    pub currency: Currency,
    /// `g.<fsp>.<type>.<id>`, in lower case.
    pub account: &'a [u8],
    /// The transaction object as JSON.
    pub transaction: &'a [u8],
}

/// Appends the text of a packet (base64url without padding).
pub fn push_packet(out: &mut Vec<u8>, scratch: &mut Vec<u8>, payment: &Payment<'_>) {
    let data_length = base64_length(payment.transaction.len());
    let contents = 8
        + length_prefix(payment.account.len()).1
        + payment.account.len()
        + length_prefix(data_length).1
        + data_length
        + 1;
    scratch.clear();
    scratch.push(PAYMENT);
    push_length(scratch, contents);
    scratch.extend_from_slice(&minor_units(payment.amount, payment.currency).to_be_bytes());
    push_length(scratch, payment.account.len());
    scratch.extend_from_slice(payment.account);
    push_length(scratch, data_length);
    push_base64(scratch, payment.transaction);
    scratch.push(0);
    push_base64(out, scratch);
}

/// Appends base64url without padding.
pub fn push_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    out.resize(start + base64_length(bytes.len()), 0);
    let written = URL_SAFE_NO_PAD.encode_slice(bytes, &mut out[start..]);
    debug_assert_eq!(written.ok(), Some(out.len() - start), "the length is exact");
}

/// Parses 32 bytes of base64url; `None` for anything else.
#[must_use]
pub fn read_digest(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 33];
    let length = URL_SAFE_NO_PAD.decode_slice(text.trim_end_matches('='), &mut bytes).ok()?;
    (length == 32).then(|| bytes[..32].try_into().expect("32 bytes were asked for"))
}

/// The amount in the currency's smallest unit, rounded down.
fn minor_units(amount: Amount, currency: Currency) -> u64 {
    let places = match currency.as_str() {
        "BIF" | "CLP" | "DJF" | "GNF" | "ISK" | "JPY" | "KMF" | "KRW" | "PYG" | "RWF" | "UGX"
        | "VND" | "VUV" | "XAF" | "XOF" | "XPF" => 0,
        "BHD" | "IQD" | "JOD" | "KWD" | "LYD" | "OMR" | "TND" => 3,
        _ => 2,
    };
    let units = amount.units() / 10_i128.pow(ledger::SCALE - places);
    u64::try_from(units).unwrap_or(0)
}

/// Length of `bytes` bytes as base64url without padding.
#[must_use]
pub const fn base64_length(bytes: usize) -> usize {
    (bytes * 4).div_ceil(3)
}

/// A length in octet encoding rules: one byte below 128, otherwise the number of length bytes and
/// these bytes.
fn length_prefix(length: usize) -> ([u8; 3], usize) {
    debug_assert!(length < 1 << 16, "packets stay below 64 KB");
    match length {
        0..0x80 => ([length as u8, 0, 0], 1),
        0x80..0x100 => ([0x81, length as u8, 0], 2),
        _ => ([0x82, (length >> 8) as u8, length as u8], 3),
    }
}

fn push_length(out: &mut Vec<u8>, length: usize) {
    let (bytes, count) = length_prefix(length);
    out.extend_from_slice(&bytes[..count]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(account: &[u8], transaction: &[u8]) -> Vec<u8> {
        let payment = Payment {
            amount: Amount::parse("12.3456").expect("an amount"),
            currency: Currency::parse("USD").expect("a currency"),
            account,
            transaction,
        };
        let mut text = Vec::new();
        push_packet(&mut text, &mut Vec::new(), &payment);
        URL_SAFE_NO_PAD.decode(text).expect("base64url")
    }

    #[test]
    fn packet_is_an_ilp_payment() {
        let bytes = packet(b"g.fsp202.msisdn.1", b"{}");
        let mut expected = vec![1, 31, 0, 0, 0, 0, 0, 0, 4, 210, 17];
        expected.extend_from_slice(b"g.fsp202.msisdn.1");
        expected.extend_from_slice(b"\x03e30\0");
        assert_eq!(bytes, expected);
    }

    #[test]
    fn lengths_of_long_packets_use_more_bytes() {
        for length in [1, 90, 100, 150, 200, 400, 1_000] {
            let bytes = packet(b"g.a", &vec![b'x'; length]);
            let (prefix, contents) = match bytes[1] {
                0x81 => (3, usize::from(bytes[2])),
                0x82 => (4, usize::from(bytes[2]) << 8 | usize::from(bytes[3])),
                short => (2, usize::from(short)),
            };
            assert_eq!(bytes.len() - prefix, contents, "{length}");
        }
    }

    #[test]
    fn fulfilment_depends_on_packet_and_secret_and_meets_the_condition() {
        let (one, two) = (Secret::new(b"one"), Secret::new(b"two"));
        let fulfilment = one.fulfilment(b"packet");
        assert_eq!(fulfilment, one.fulfilment(b"packet"));
        assert_ne!(fulfilment, one.fulfilment(b"other"));
        assert_ne!(fulfilment, two.fulfilment(b"packet"));
        let mut text = Vec::new();
        push_base64(&mut text, &condition(&fulfilment));
        let text = String::from_utf8(text).expect("ASCII");
        assert_eq!(text.len(), 43);
        assert_eq!(read_digest(&text), Some(condition(&fulfilment)));
        assert_eq!(read_digest(&text[1..]), None);
    }
}
