//! The cold store: rows of final transfers, their decisions, the party directory, windows and
//! settlements.

use std::fmt::Debug;
use std::ops::RangeInclusive;

use ledger::{
    ArchiveKind, ArchivedSettlement, Currency, Decision, Digest, FinalTransfer, FspName, LogIndex,
    NoticeId, TransferId,
};
use record::decision::DecisionWriter;

use crate::transfer_query::{TransferPage, TransferQuery};

/// A key-value store for data that is kept for years and read rarely.
///
/// # Contract
/// 1. **Derived data.** The store holds the result of a log up to a [`StoreMark`]. In doubt it is
///    emptied and refilled from the log.
/// 2. **Batches are atomic**, with their mark, also across a crash. Only [`ColdStore::sync`] makes
///    them durable: a crash may lose the newest batches, and only those. They are then written
///    again, all of them and in order. Writing a batch twice has the effect of writing it once.
/// 3. **Visible when written.** Once [`ColdStore::write`] has returned, every thread reads what it
///    wrote.
/// 4. **Versions.** A row of a transfer is kept under its id and the record that changed it last.
///    [`ColdStore::read`] at a log index gives the newest version made by that record or an
///    earlier one: a replay never sees its own future. Versions are few (one, and a second after a
///    late response) and are never deleted.
/// 5. **Recorded decisions** are kept for queries ([`ColdStore::decisions`]) and never used to
///    decide. They are complete up to the mark.
/// 6. **An absent id costs no disk access**, as far as the cache for filters reaches.
/// 7. **Windows and settlements** are kept by number, as of their last change of state; never used
///    to decide. Those that have left memory are final.
/// 8. **Lists of transfers** are kept for queries ([`ColdStore::transfers`]), by participant, end
///    and time. They are complete up to the mark, except for transfers that were written by a
///    version without lists.
/// 9. **No guesses.** Data that is unreadable, or differs from the written data, is an error. After
///    [`StoreError::Damaged`] the store is empty when it is reopened.
pub trait ColdStore: Debug + Send + Sync {
    /// The record up to which the store is complete.
    fn mark(&self) -> StoreMark;

    /// The row of a transfer, as of a record.
    ///
    /// # Errors
    /// [`StoreError`]: the sequencer must stop.
    fn read(&self, id: &TransferId, at: LogIndex) -> Result<Option<FinalTransfer>, StoreError>;

    /// Removes from `ids` those that certainly have no row. The order of the remaining ids is
    /// unspecified. An id whose row was visible before the call is kept.
    ///
    /// # Errors
    /// [`StoreError`]: the sequencer must stop.
    fn drop_absent(&self, _ids: &mut Vec<TransferId>) -> Result<(), StoreError> {
        Ok(())
    }

    /// The row of a party, by the key of its identifier
    /// ([`record::party_names::PartyKey::row_key`]). A row without entries is that of a released
    /// identifier.
    ///
    /// # Errors
    /// [`StoreError`].
    fn party(&self, key: &[u8]) -> Result<Option<PartyRow>, StoreError>;

    /// The recorded decisions about a transfer up to the mark, in order.
    ///
    /// # Errors
    /// [`StoreError`].
    fn decisions(&self, id: &TransferId) -> Result<Vec<Decision>, StoreError>;

    /// The records with the results of a notice's deliveries, in order.
    ///
    /// # Errors
    /// [`StoreError`].
    fn delivery_records(&self, notice: NoticeId) -> Result<Vec<LogIndex>, StoreError>;

    /// The windows or settlements with numbers in a range, in order, `limit` of them at most.
    ///
    /// # Errors
    /// [`StoreError`].
    fn settlements(
        &self,
        kind: ArchiveKind,
        numbers: RangeInclusive<u32>,
        limit: usize,
    ) -> Result<Vec<ArchivedSettlement>, StoreError>;

    /// A page of final transfers, newest first.
    ///
    /// # Errors
    /// [`StoreError`].
    fn transfers(&self, query: &TransferQuery) -> Result<TransferPage, StoreError>;

    /// Writes a batch.
    ///
    /// # Errors
    /// [`StoreError`]: nothing of the batch is visible, and the store refuses further batches until
    /// [`ColdStore::mend`] succeeds.
    fn write(&self, portion: &WriteBatch) -> Result<(), StoreError>;

    /// Makes the store accept batches again after [`ColdStore::write`] or [`ColdStore::sync`]
    /// failed, if the cause is gone. Everything that was visible stays visible.
    ///
    /// # Errors
    /// [`StoreError::Failed`] when the cause persists; [`StoreError::Damaged`] when the store
    /// cannot be recovered.
    fn mend(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Whether the last write failed.
    fn is_failing(&self) -> bool {
        false
    }

    /// Whether the store was found damaged. It refuses batches and is empty when it is reopened.
    fn is_damaged(&self) -> bool {
        false
    }

    /// Releases memory that is no longer needed; called while there is nothing to write. Returns
    /// whether another call will soon release more.
    fn release_memory(&self) -> bool {
        false
    }

    /// Makes everything visible durable.
    ///
    /// # Errors
    /// [`StoreError::Failed`].
    fn sync(&self) -> Result<(), StoreError>;

    /// Approximate size on disk in bytes; 0 for a store in memory.
    fn bytes(&self) -> u64;
}

/// The record up to which a store is complete, and the log it was made from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreMark {
    /// The store has the changes of all records up to this one; 0 for an empty store.
    pub log_index: LogIndex,
    /// The log's chain head after that record. It identifies the log.
    pub chain: Digest,
}

/// The changes of one or more batches of the log, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteBatch {
    /// Rows of final transfers, new or changed.
    pub rows: Vec<FinalTransfer>,
    /// Entries of the party directory.
    pub parties: Vec<PartyChange>,
    /// The recorded decisions.
    pub decisions: DecisionWriter,
    /// Windows and settlements, new or changed.
    pub settlements: Vec<ArchivedSettlement>,
    /// The store is complete up to this record once the batch is written.
    pub mark: StoreMark,
}

impl WriteBatch {
    /// The number of rows, directory entries, decisions, windows and settlements.
    #[must_use]
    pub fn len(&self) -> usize {
        let rows = self.rows.len() + self.settlements.len();
        rows + self.parties.len() + self.decisions.len()
    }

    /// Whether the batch changes only the mark.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.decisions.is_empty()
    }

    /// Moves all of `next` to the end of this batch, with its mark.
    pub fn append(&mut self, next: &mut Self) {
        self.rows.append(&mut next.rows);
        self.parties.append(&mut next.parties);
        self.decisions.append(&mut next.decisions);
        self.settlements.append(&mut next.settlements);
        self.mark = next.mark;
    }

    /// Clears everything except the mark.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.parties.clear();
        self.decisions.clear();
        self.settlements.clear();
    }
}

/// A change of one identifier of the party directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartyChange {
    /// The key of the identifier ([`record::party_names::PartyKey::row_key`]).
    pub key: Vec<u8>,
    /// The record of the change.
    pub at: LogIndex,
    /// The change to its entries.
    pub effect: PartyEffect,
}

/// The effect of a change on the existing entries of an identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartyEffect {
    /// Replaces all entries.
    Replace(PartyEntry),
    /// Adds an entry in place of the overlapping entries of other FSPs.
    Bind {
        /// The entry.
        entry: PartyEntry,
        /// The only FSP whose entries may be replaced; `None` if those of every FSP may.
        by: Option<FspName>,
        /// Whether the identifier may have entries of that FSP only, in whatever currencies.
        is_alone: bool,
    },
    /// Removes entries.
    Release {
        /// The FSP whose entries are removed; `None` for those of every FSP.
        of: Option<FspName>,
        /// The currency in which they are removed; `None` for every currency.
        currency: Option<Currency>,
    },
}

/// Maximum number of entries of one identifier.
pub const PARTY_ENTRIES_MAX: usize = 16;

/// The entries of one identifier. No two overlap, unless they are of one FSP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartyRow {
    /// The record that changed it last; 0 in rows of older versions.
    pub at: LogIndex,
    /// At most [`PARTY_ENTRIES_MAX`]; the oldest first.
    pub entries: Vec<PartyEntry>,
}

impl PartyRow {
    /// Applies the effect of a record, unless a later record has changed the row: a series of
    /// changes can be applied again from any of its changes on.
    pub fn apply(&mut self, effect: &PartyEffect, at: LogIndex) {
        if at < self.at {
            return;
        }
        self.at = at;
        match effect {
            PartyEffect::Replace(entry) => self.entries = vec![*entry],
            PartyEffect::Bind { entry, by, is_alone } => self.bind(*entry, *by, *is_alone),
            PartyEffect::Release { of, currency } => self
                .entries
                .retain(|entry| of.is_some_and(|of| of != entry.fsp) || !entry.serves(*currency)),
        }
    }

    fn bind(&mut self, entry: PartyEntry, by: Option<FspName>, is_alone: bool) {
        let compared = entry.currency.filter(|_| !is_alone);
        let is_foreign = |by| self.serving(compared).any(|one| one.fsp != by);
        if by.is_some_and(is_foreign) {
            return;
        }
        self.entries.retain(|one| {
            let is_kept = one.fsp == entry.fsp || !one.serves(entry.currency);
            is_kept && one.currency != entry.currency
        });
        if self.entries.len() < PARTY_ENTRIES_MAX {
            self.entries.push(entry);
        }
    }

    /// The entries that serve a currency; without one, all.
    pub fn serving(&self, currency: Option<Currency>) -> impl Iterator<Item = &PartyEntry> + Clone {
        self.entries.iter().filter(move |one| one.serves(currency))
    }
}

/// An FSP that serves an identifier, in all currencies or in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartyEntry {
    /// The currency, if the registration names one.
    pub currency: Option<Currency>,
    /// The FSP.
    pub fsp: FspName,
}

impl PartyEntry {
    /// Whether the entry serves `currency`. An entry without a currency serves every currency.
    #[must_use]
    pub fn serves(&self, currency: Option<Currency>) -> bool {
        self.currency.is_none() || currency.is_none() || self.currency == currency
    }
}

/// An error of the cold store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The stored bytes are not those that were written.
    #[error("cold store: damaged: {0}; restart to rebuild it from the log")]
    Damaged(String),
    /// The store cannot be read or written.
    #[error(
        "cold store: {0}; fix the cause, such as a full disk, or stop the switch and delete the \
    store to rebuild it from the log"
    )]
    Failed(String),
}

/// The cold store as the sequencer sees it: synchronous reads, asynchronous writes.
pub trait ColdReader: Debug + Send {
    /// [`ColdStore::read`].
    ///
    /// # Errors
    /// [`StoreError`]: the sequencer must stop.
    fn read(&self, id: &TransferId, at: LogIndex) -> Result<Option<FinalTransfer>, StoreError>;

    /// [`ColdStore::drop_absent`].
    ///
    /// # Errors
    /// [`StoreError`]: the sequencer must stop.
    fn drop_absent(&self, _ids: &mut Vec<TransferId>) -> Result<(), StoreError> {
        Ok(())
    }

    /// The changes of all records up to this one are readable. Never decreases.
    fn visible(&self) -> LogIndex;

    /// Queues the batch to be written after those before it, and empties it. Returns false and
    /// leaves the batch unchanged when the queue is full or the store cannot be written.
    fn offer(&mut self, portion: &mut WriteBatch) -> bool;

    /// Blocks until the condition holds.
    ///
    /// # Errors
    /// [`StoreError::Failed`] while writes fail; they are retried until they succeed.
    /// [`StoreError::Damaged`] when no further batch will be accepted.
    fn wait(&mut self, until: WaitFor) -> Result<(), StoreError>;
}

/// A condition to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitFor {
    /// The queue has room for another batch.
    Room,
    /// Everything queued is readable.
    Visible,
    /// Writes succeed again. A failed write does not end this wait.
    Mended,
}
