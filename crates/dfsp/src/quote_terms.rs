//! Terms without a quote: the payer computes the payee's response.
//!
//! A transfer without a quote still needs a packet and a condition that the payee can fulfil. The
//! secrets of simulated FSPs are derived from their names, so the payer can build the payee's
//! packet. One is built per payee and amount and then reused. At [`TERMS_MAX`] the cache is
//! cleared.

use std::collections::HashMap;

use fspiop::ilp::{Secret, push_base64};
use ledger::{Amount, FspName};

use crate::message::{Envelope, QuoteRequest, Writer};
use crate::received_bodies::{QuotePosted, Scratch, make_terms};

const TERMS_MAX: usize = 4_096;

/// Packet and condition as text, and the condition's bytes.
pub(crate) struct Terms {
    pub(crate) packet: String,
    pub(crate) condition: String,
    pub(crate) digest: [u8; 32],
}

/// The terms that one payer has computed.
#[derive(Default)]
pub(crate) struct TermsBook {
    made: HashMap<(FspName, Amount), Terms>,
    secrets: HashMap<FspName, Secret>,
}

impl TermsBook {
    /// The terms for `amount` that `quote.payee` would give.
    pub(crate) fn get(
        &mut self,
        writer: &mut Writer,
        payee: FspName,
        quote: &QuoteRequest<'_>,
    ) -> &Terms {
        if self.made.len() >= TERMS_MAX {
            self.made.clear();
        }
        self.made.entry((payee, quote.amount)).or_insert_with(|| make(writer, payee, quote))
    }

    /// The secret of a simulated payee.
    pub(crate) fn secret_of(&mut self, payee: FspName) -> &Secret {
        if self.secrets.len() >= TERMS_MAX {
            self.secrets.clear();
        }
        self.secrets.entry(payee).or_insert_with(|| Secret::of(payee.as_str()))
    }
}

/// Writes the quote request, and computes its payee's response.
fn make(writer: &mut Writer, payee: FspName, quote: &QuoteRequest<'_>) -> Terms {
    let envelope = Envelope { destination: None, trace: None, tracestate: None, now_millis: 0 };
    writer.post_quote(&mut Vec::new(), quote, &envelope);
    let posted: QuotePosted<'_> =
        serde_json::from_slice(writer.last_body()).expect("a quote request of our own");
    let mut scratch = Scratch::default();
    let digest = make_terms(&posted, payee.as_str(), &Secret::of(payee.as_str()), &mut scratch)
        .expect("our own quote requests can be answered")
        .condition;
    let mut condition = Vec::with_capacity(43);
    push_base64(&mut condition, &digest);
    let text = |bytes| String::from_utf8(bytes).expect("base64 is ASCII");
    Terms { packet: text(scratch.packet), condition: text(condition), digest }
}
