//! Reads ILPv1 payments, the packets of FSPIOP 1.x.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use fspiop::ilp::{Payment, push_packet};
use ledger::{Amount, Currency};
use serde_json::Value;

const PAYMENT: u8 = 1;
const AMOUNT_BYTES: usize = 8;

/// The content of a packet.
pub(super) struct Packet {
    amount: Vec<u8>,
    /// The transaction object; null if it is not JSON.
    pub(super) transaction: Value,
}

impl Packet {
    /// Parses the text of a packet; `None` if it is not a payment.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let bytes = decode(text.as_bytes())?;
        let (&PAYMENT, rest) = bytes.split_first()? else { return None };
        let (contents, _) = prefixed(rest)?;
        let (amount, rest) = contents.split_at_checked(AMOUNT_BYTES)?;
        let (_account, rest) = prefixed(rest)?;
        let (data, _) = prefixed(rest)?;
        let transaction = decode(data).and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let transaction = transaction.or_else(|| serde_json::from_slice(data).ok());
        Some(Self { amount: amount.to_vec(), transaction: transaction.unwrap_or(Value::Null) })
    }

    /// Whether it is a payment of this amount.
    pub(super) fn is_of(&self, amount: Amount, currency: Currency) -> bool {
        let mut text = Vec::new();
        let expected = Payment { amount, currency, account: b"", transaction: b"" };
        push_packet(&mut text, &mut Vec::new(), &expected);
        let expected = String::from_utf8(text).ok().and_then(|text| Self::parse(&text));
        expected.is_some_and(|expected| expected.amount == self.amount)
    }
}

fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let padding = text.iter().rev().take_while(|&&byte| byte == b'=').count();
    URL_SAFE_NO_PAD.decode(&text[..text.len() - padding]).ok()
}

/// A text with its length before it, and the rest.
fn prefixed(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (length.iter().fold(0, |sum, &byte| sum << 8 | usize::from(byte)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_read_and_their_amount_compared() {
        let [amount, other] = ["12.5", "12.4"].map(|text| Amount::parse(text).expect("an amount"));
        let currency = Currency::parse("USD").expect("a currency");
        let transaction = format!("{{\"note\":\"{}\"}}", "x".repeat(300));
        let payment =
            Payment { amount, currency, account: b"g.b", transaction: transaction.as_bytes() };
        let mut text = Vec::new();
        push_packet(&mut text, &mut Vec::new(), &payment);
        let text = String::from_utf8(text).expect("base64url");
        let packet = Packet::parse(&text).expect("a packet");
        assert_eq!(packet.transaction["note"].as_str().map(str::len), Some(300));
        assert!(packet.is_of(amount, currency) && !packet.is_of(other, currency));
        for wrong in ["", "AQ", "DIIB", &text[..40], "no base64!"] {
            assert!(Packet::parse(wrong).is_none(), "{wrong}");
        }
    }
}
