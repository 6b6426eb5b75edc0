//! Recorded quotes: the request and the answer of each, for as long as duplicates, late answers and
//! queries need them.
//!
//! A row is kept until the time that its request names, and at most [`QUOTES_MAX`] rows are. Rows
//! are in the order of their requests; the oldest ones are removed when requests arrive. Messages
//! stay in the log.
//!
//! Costs: two keyed hashes and two probes per message, about 320 bytes per row. A snapshot shares
//! the pages of rows.

use crate::field::stored;
use crate::hashing::KeyedHashing;
use crate::ids::{Digest, LogIndex, ParticipantIndex, TransferId};
use crate::outcome::PrepareOutcome;
use crate::quote_content::{QuoteContent, QuoteOffer};
use crate::transfers::{Pages, Shards};

/// Maximum number of quotes in memory. The oldest one makes room.
pub const QUOTES_MAX: usize = 4_000_000;

/// Number of rows that one request removes at most: more than it adds.
const REMOVED_MAX: usize = 16;

stored! {
    /// A recorded quote.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct QuoteRow {
        /// `quoteId`.
        pub id: TransferId,
        /// `transactionId`.
        pub transaction: TransferId,
        /// The FSP that asked.
        pub source: ParticipantIndex,
        /// The FSP that answers.
        pub destination: ParticipantIndex,
        /// Digest of the body of the request.
        pub hash: Digest,
        /// The record of the request.
        pub request: LogIndex,
        /// Until when an answer is taken, in milliseconds since the epoch.
        pub expiration_ms: Option<u64>,
        /// Until when the row is kept, in milliseconds since the epoch.
        pub keep_until_ms: u64,
        /// The answer, once taken.
        pub answer: Option<QuoteAnswer>,
    }
}

stored! {
    /// The answer to a quote.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct QuoteAnswer {
        /// Its record.
        pub record: LogIndex,
        /// Digest of its body.
        pub hash: Digest,
        /// Its content.
        pub content: QuoteContent,
    }
}

impl QuoteRow {
    /// The offer, if the quote was answered with one.
    #[must_use]
    pub fn offer(&self) -> Option<QuoteOffer> {
        match self.answer?.content {
            QuoteContent::Offer(offer) => Some(offer),
            QuoteContent::Error => None,
        }
    }

    /// Whether the time for an answer is over.
    pub(crate) fn has_expired(&self, now_ms: u64) -> bool {
        self.expiration_ms.is_some_and(|expiration_ms| expiration_ms <= now_ms)
    }
}

/// The quotes in memory.
#[derive(Clone, Debug)]
pub(crate) struct Quotes {
    keyed: KeyedHashing,
    rows: Pages<QuoteRow>,
    by_id: Shards,
    by_transaction: Shards,
}

impl Quotes {
    pub(crate) fn new(keyed: KeyedHashing) -> Self {
        let (by_id, by_transaction) = (Shards::default(), Shards::default());
        Self { keyed, rows: Pages::default(), by_id, by_transaction }
    }

    /// A copy of the rows without indexes. The pages are shared.
    pub(crate) fn snapshot(&self) -> Self {
        Self { rows: self.rows.clone(), ..Self::new(self.keyed) }
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The quotes, in order of their requests.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &QuoteRow> {
        self.rows.iter()
    }

    pub(crate) fn find(&self, id: &TransferId) -> Option<&QuoteRow> {
        self.number_of(id).map(|number| self.rows.get(number))
    }

    /// Sets the answer of a known quote.
    pub(crate) fn answer(&mut self, id: &TransferId, answer: QuoteAnswer) {
        let number = self.number_of(id).expect("a quote that is answered is known");
        self.rows.get_mut(number).answer = Some(answer);
    }

    /// Adds a quote that is not known.
    pub(crate) fn insert(&mut self, row: QuoteRow) {
        let (hash, of_transaction) = (self.keyed.of(&row.id), self.keyed.of(&row.transaction));
        let number = self.rows.push(row);
        let Self { keyed, rows, by_id, by_transaction } = self;
        by_id.insert(hash, number, |row| keyed.of(&rows.get(row).id));
        by_transaction.insert(of_transaction, number, |row| keyed.of(&rows.get(row).transaction));
    }

    /// Removes the oldest rows whose time is over, and one if there is no room for one more.
    pub(crate) fn make_room(&mut self, now_ms: u64) {
        for removed in 0..REMOVED_MAX {
            let Some(oldest) = self.rows.first() else { return };
            let is_full = removed == 0 && QUOTES_MAX <= self.rows.len();
            if !is_full && now_ms < oldest.keep_until_ms {
                return;
            }
            let number = self.rows.first_number();
            self.by_id.remove(self.keyed.of(&oldest.id), number);
            self.by_transaction.remove(self.keyed.of(&oldest.transaction), number);
            self.rows.pop_first();
        }
    }

    /// A quote of the transaction that holds.
    fn find_of_transaction(
        &self,
        transaction: &TransferId,
        mut holds: impl FnMut(&QuoteRow) -> bool,
    ) -> Option<&QuoteRow> {
        let hash = self.keyed.of(transaction);
        let found = self.by_transaction.find(hash, |number| {
            let row = self.rows.get(number);
            row.transaction == *transaction && holds(row)
        });
        found.map(|number| self.rows.get(number))
    }

    /// Compares the terms of a transfer with the offers of its transaction. One that agrees in
    /// everything is enough.
    pub(crate) fn check_terms(
        &self,
        transaction: &TransferId,
        (parties, terms): ((ParticipantIndex, ParticipantIndex), Digest),
        now_ms: u64,
    ) -> Result<(), PrepareOutcome> {
        let agrees = |row: &QuoteRow| {
            let offered = row.offer().is_some_and(|offer| offer.terms == terms);
            offered && (row.source, row.destination) == parties
        };
        let is_open = |row: &QuoteRow| {
            agrees(row) && row.offer().is_some_and(|offer| now_ms < offer.expiration_ms)
        };
        if self.find_of_transaction(transaction, is_open).is_some() {
            return Ok(());
        }
        if self.find_of_transaction(transaction, agrees).is_some() {
            return Err(PrepareOutcome::QuoteExpired);
        }
        match self.find_of_transaction(transaction, |row| row.offer().is_some()) {
            Some(_) => Err(PrepareOutcome::PrepareDiffersFromQuote),
            None => Err(PrepareOutcome::QuoteNotFound),
        }
    }

    fn number_of(&self, id: &TransferId) -> Option<u32> {
        self.by_id.find(self.keyed.of(id), |number| self.rows.get(number).id == *id)
    }
}
