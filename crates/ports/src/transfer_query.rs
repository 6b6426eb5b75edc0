//! Queries for final transfers by participant, end, time and amount.

use ledger::{Amount, Currency, LogIndex, ParticipantIndex, Stamp};
use record::transfer_index::{AmountRange, TransferEnd, TransferEntry, TransferPlace};

/// Maximum number of blocks of the index that one query reads. A large one counts as several.
pub const BLOCKS_READ_MAX: usize = 400;
/// Maximum number of postings of the index that one query reads.
pub const POSTINGS_READ_MAX: usize = 50_000;

/// The transfers that a query selects. A member that is `None` selects all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferFilter {
    /// Payer or payee.
    pub participant: Option<ParticipantIndex>,
    /// How they ended.
    pub ends: Vec<TransferEnd>,
    /// Final at this time or later.
    pub from: Option<Stamp>,
    /// Final before this time.
    pub to: Option<Stamp>,
    /// At least this amount.
    pub amount_min: Option<Amount>,
    /// At most this amount.
    pub amount_max: Option<Amount>,
    /// In this currency.
    pub currency: Option<Currency>,
}

impl Default for TransferFilter {
    fn default() -> Self {
        Self {
            participant: None,
            ends: TransferEnd::ALL.to_vec(),
            from: None,
            to: None,
            amount_min: None,
            amount_max: None,
            currency: None,
        }
    }
}

impl TransferFilter {
    /// Whether it selects a final transfer.
    #[must_use]
    pub fn selects(&self, entry: &TransferEntry) -> bool {
        let parties = [entry.payer, entry.payee];
        self.ends.contains(&entry.end())
            && self.selects_time(entry.place.at)
            && self.participant.is_none_or(|wanted| parties.contains(&Some(wanted)))
            && self.selects_amount(entry.amount, entry.currency)
    }

    /// Whether it selects a time.
    #[must_use]
    pub fn selects_time(&self, at: Stamp) -> bool {
        self.from.is_none_or(|from| from <= at) && self.to.is_none_or(|to| at < to)
    }

    /// Whether it selects an amount in a currency.
    #[must_use]
    pub fn selects_amount(&self, amount: Amount, currency: Currency) -> bool {
        self.selects_range(&AmountRange { currency, lowest: amount, highest: amount })
    }

    /// Whether it may select an amount of a range.
    #[must_use]
    pub fn selects_range(&self, range: &AmountRange) -> bool {
        self.currency.is_none_or(|currency| currency == range.currency)
            && self.amount_min.is_none_or(|min| min <= range.highest)
            && self.amount_max.is_none_or(|max| range.lowest <= max)
    }
}

/// A page of the final transfers that a filter selects, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferQuery {
    /// The filter.
    pub filter: TransferFilter,
    /// Only transfers that a record up to this one ended.
    pub up_to: LogIndex,
    /// Only transfers at an earlier place.
    pub before: Option<TransferPlace>,
    /// Maximum number of transfers.
    pub limit: usize,
}

impl TransferQuery {
    /// Whether the page may have this transfer.
    #[must_use]
    pub fn selects(&self, entry: &TransferEntry) -> bool {
        entry.place.record <= self.up_to
            && self.before.is_none_or(|before| entry.place < before)
            && self.filter.selects(entry)
    }
}

/// Final transfers, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransferPage {
    /// The transfers. There may be fewer than the limit although `next` is set: a query reads
    /// [`BLOCKS_READ_MAX`] blocks and [`POSTINGS_READ_MAX`] postings at most.
    pub entries: Vec<TransferEntry>,
    /// `before` of the next page, if there may be one.
    pub next: Option<TransferPlace>,
    /// Transfers that ended up to this record may be missing; 0 if all are listed.
    pub missing_up_to: LogIndex,
    /// Blocks that were read. A large one counts as several.
    pub blocks_read: usize,
    /// Postings that were read.
    pub postings_read: usize,
}
