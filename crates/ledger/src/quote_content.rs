//! The parts of an answer to a quote that the ledger compares.

use crate::field::{choices, stored};
use crate::ids::Digest;

choices! {
    /// The content of an answer, as far as the ledger compares it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum QuoteContent: u8 {
        /// The payee makes an offer.
        1 Offer(QuoteOffer),
        /// The payee answers with an error.
        2 Error,
    }
}

stored! {
    /// The offer of a payee.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct QuoteOffer {
        /// Digest of the amount, the ILP packet and the condition of the transfer.
        pub terms: Digest,
        /// The end of the offer, in milliseconds since the epoch.
        pub expiration_ms: u64,
    }
}
