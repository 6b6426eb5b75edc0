//! The terms of an offer, and of a transfer that accepts it.

use ledger::{Amount, Currency};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::schema::Scalar;

/// The members of `PUT /quotes/{ID}` or `POST /transfers` that must agree.
#[derive(Deserialize)]
struct Terms<'a> {
    #[serde(borrow, alias = "transferAmount")]
    amount: TermsAmount<'a>,
    #[serde(borrow, rename = "ilpPacket")]
    packet: Scalar<'a>,
    #[serde(borrow)]
    condition: Scalar<'a>,
}

#[derive(Deserialize)]
struct TermsAmount<'a> {
    #[serde(borrow)]
    amount: Scalar<'a>,
    #[serde(borrow)]
    currency: Scalar<'a>,
}

/// SHA-256 of the amount, the ILP packet and the condition of a valid body; `None` if one of them
/// is not a text.
#[must_use]
pub fn quote_terms(body: &[u8]) -> Option<[u8; 32]> {
    let terms: Terms<'_> = serde_json::from_slice(body).ok()?;
    let amount = Amount::parse(&terms.amount.amount.0)?;
    let currency = Currency::parse(&terms.amount.currency.0)?;
    let mut hasher = Sha256::new();
    hasher.update(amount.units().to_le_bytes());
    for text in [currency.as_str(), &terms.packet.0, &terms.condition.0] {
        hasher.update((text.len() as u64).to_le_bytes());
        hasher.update(text);
    }
    Some(hasher.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::quote_terms;

    #[test]
    fn an_offer_and_its_transfer_have_equal_terms() {
        let terms = |name: &str, amount: &str, packet: &str, condition: &str| {
            let money = format!(r#"{{"currency":"USD","amount":{amount}}}"#);
            let body = format!(
                r#"{{"{name}":{money},"ilpPacket":"{packet}","condition":"{condition}","x":[1]}}"#
            );
            quote_terms(body.as_bytes())
        };
        let offer = terms("transferAmount", r#""10""#, "AYI", "c");
        assert!(offer.is_some());
        assert_eq!(terms("amount", r#""10""#, "AYI", "c"), offer);
        assert_eq!(terms("amount", "10", "AYI", "c"), offer, "a number is read as its text");
        for other in [
            terms("amount", r#""10.1""#, "AYI", "c"),
            terms("amount", r#""10""#, "AYJ", "c"),
            terms("amount", r#""10""#, "AY", "Ic"),
            terms("amount", r#""10""#, "AYI", "d"),
        ] {
            assert_ne!(other, offer);
        }
    }
}
