//! The cold store: rows of ended transfers and the party directory, beside the kernel.

use std::fmt::Debug;

use ledger::{Currency, Decision, Digest, FinalTransfer, FspName, LogIndex, NoticeId, TransferId};
use record::decision::DecisionWriter;

/// What a switch keeps for years and looks at seldom, by key.
///
/// # Contract
/// 1. **Never the truth.** The store holds what a log adds up to, up to a [`StoreMark`]. In doubt,
///    it is emptied and filled again from the log.
/// 2. **A portion is taken whole or not at all**, its mark included, also by a crash. Nothing is
///    synced but by [`ColdStore::sync`]: a crash may take newer portions away, and only those.
///    They are given again after that, all of them and in order; giving them twice is giving them
///    once.
/// 3. **Visible when written.** Once [`ColdStore::write`] has returned, every thread reads what it
///    wrote.
/// 4. **Versions.** A row of a transfer is kept under its id and the record that changed it last.
///    [`ColdStore::read`] at a position gives the newest version that the record there, or one
///    before it, made: a replay never sees its own future. Versions are few (one, and a second
///    after an answer that came too late) and are not thrown away.
/// 5. **What is told** of decisions is kept for whoever asks ([`ColdStore::decisions`]), never for a
///    decision. It is complete up to the mark.
/// 6. **An id that is not there costs no disk access**, as far as the cache for filters reaches.
/// 7. **No guesses.** What cannot be read, or is not what was written, is an error. After
///    [`StoreError::Damaged`] the store is empty when it is opened next.
pub trait ColdStore: Debug + Send + Sync {
    /// Up to where the store is complete.
    fn mark(&self) -> StoreMark;

    /// The row of a transfer, as of a record.
    ///
    /// # Errors
    /// [`StoreError`]; whoever decides by it must stop.
    fn read(&self, id: &TransferId, at: LogIndex) -> Result<Option<FinalTransfer>, StoreError>;

    /// Takes out of `ids` those that certainly have no row, many at once; in what order the others
    /// are is left open. A row that was shown before stays.
    ///
    /// # Errors
    /// [`StoreError`]; whoever decides by it must stop.
    fn drop_absent(&self, _ids: &mut Vec<TransferId>) -> Result<(), StoreError> {
        Ok(())
    }

    /// Who serves a party, by the key of its identifier ([`record::cold::party_key`]).
    ///
    /// # Errors
    /// [`StoreError`].
    fn party(&self, key: &[u8]) -> Result<Option<PartyRow>, StoreError>;

    /// Everything told of a transfer up to the mark, in order.
    ///
    /// # Errors
    /// [`StoreError`].
    fn decisions(&self, id: &TransferId) -> Result<Vec<Decision>, StoreError>;

    /// The records that say how deliveries of a notice ended, in order.
    ///
    /// # Errors
    /// [`StoreError`].
    fn delivery_records(&self, notice: NoticeId) -> Result<Vec<LogIndex>, StoreError>;

    /// Takes a portion.
    ///
    /// # Errors
    /// [`StoreError`]: nothing of the portion is visible, and the store takes no more, before
    /// [`ColdStore::mend`] has gone well.
    fn write(&self, portion: &WriteBatch) -> Result<(), StoreError>;

    /// After [`ColdStore::write`] or [`ColdStore::sync`] failed: makes the store take portions
    /// again, if the cause has passed. All that was visible still is.
    ///
    /// # Errors
    /// [`StoreError::Failed`] when the cause is still there; [`StoreError::Damaged`] when the store
    /// cannot come back.
    fn mend(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Whether the last write failed.
    fn is_failing(&self) -> bool {
        false
    }

    /// Whether it was found damaged: it takes no more, and is empty when it is opened next.
    fn is_damaged(&self) -> bool {
        false
    }

    /// When nothing is to be written: lets go of what is not needed any more. Whether there will be
    /// more of that soon.
    fn release_memory(&self) -> bool {
        false
    }

    /// Makes durable what is visible now.
    ///
    /// # Errors
    /// [`StoreError::Failed`].
    fn sync(&self) -> Result<(), StoreError>;

    /// Bytes on disk, about; 0 where there is none.
    fn bytes(&self) -> u64;
}

/// Up to where a store is complete, and in which log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreMark {
    /// Everything that the records up to here changed is in the store; 0 for an empty one.
    pub log_index: LogIndex,
    /// The log's chain head after that record, by which another log is recognised.
    pub chain: Digest,
}

/// What some batches changed, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteBatch {
    /// Rows of transfers that ended, or changed after that.
    pub rows: Vec<FinalTransfer>,
    /// Entries of the party directory.
    pub parties: Vec<PartyChange>,
    /// What is told of the decisions.
    pub decisions: DecisionWriter,
    /// With these the store is complete up to here.
    pub mark: StoreMark,
}

impl WriteBatch {
    /// How many rows, entries and decisions it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len() + self.parties.len() + self.decisions.len()
    }

    /// Whether it changes nothing but the mark.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.decisions.is_empty()
    }

    /// Takes over what follows, with its mark; nothing is left there.
    pub fn append(&mut self, next: &mut Self) {
        self.rows.append(&mut next.rows);
        self.parties.append(&mut next.parties);
        self.decisions.append(&mut next.decisions);
        self.mark = next.mark;
    }

    /// Forgets all but the mark.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.parties.clear();
        self.decisions.clear();
    }
}

/// A change of one entry of the party directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartyChange {
    /// The identifier ([`record::cold::party_key`]).
    pub key: Vec<u8>,
    /// What becomes of its entry.
    pub effect: PartyEffect,
}

/// The effect of a change on the entry that stands before it. Applying a series of effects again
/// to the entry that it left, from any effect on, leaves the same entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartyEffect {
    /// The entry is this one.
    Bind(PartyRow),
    /// There is no entry.
    Release,
    /// There is no entry if it was in this currency or in none; any other stays.
    ReleaseIn(Currency),
}

impl PartyEffect {
    /// The entry after the change.
    #[must_use]
    pub fn apply(self, before: Option<PartyRow>) -> Option<PartyRow> {
        match self {
            Self::Bind(row) => Some(row),
            Self::Release => None,
            Self::ReleaseIn(currency) => before.filter(|row| !row.serves(Some(currency))),
        }
    }
}

/// The FSP that serves an identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartyRow {
    /// Currency, when the binding names one.
    pub currency: Option<Currency>,
    /// The FSP.
    pub fsp: FspName,
}

impl PartyRow {
    /// Whether the entry is one in `currency`: an entry without a currency is, in any.
    #[must_use]
    pub fn serves(&self, currency: Option<Currency>) -> bool {
        self.currency.is_none() || currency.is_none() || self.currency == currency
    }
}

/// Why a store did not do as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// What is stored is not what was written.
    #[error("the cold store is damaged: {0}; start again, and it is built anew from the log")]
    Damaged(String),
    /// It cannot be read or written.
    #[error(
        "the cold store failed: {0}. Mend what hinders it, such as a full disk; if that is not it, \
         delete the store while the switch is stopped, and it is built anew from the log"
    )]
    Failed(String),
}

/// The cold side as the sequencer sees it: reads at once, writes behind its back.
pub trait ColdReader: Debug + Send {
    /// [`ColdStore::read`].
    ///
    /// # Errors
    /// [`StoreError`]: whoever decides by it must stop.
    fn read(&self, id: &TransferId, at: LogIndex) -> Result<Option<FinalTransfer>, StoreError>;

    /// [`ColdStore::drop_absent`].
    ///
    /// # Errors
    /// [`StoreError`]: whoever decides by it must stop.
    fn drop_absent(&self, _ids: &mut Vec<TransferId>) -> Result<(), StoreError> {
        Ok(())
    }

    /// Everything that the records up to here changed is readable. Never goes back.
    fn visible(&self) -> LogIndex;

    /// Takes what is in the portion, which follows those before it, to be written soon. False when
    /// too much waits already, or nothing can be written: then the portion is as it was.
    fn offer(&mut self, portion: &mut WriteBatch) -> bool;

    /// Waits for what `until` says.
    ///
    /// # Errors
    /// [`StoreError::Failed`] while nothing can be written: that is tried again until it goes well.
    /// [`StoreError::Damaged`] when no portion will be taken any more.
    fn wait(&mut self, until: WaitFor) -> Result<(), StoreError>;
}

/// What to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitFor {
    /// Room for another portion.
    Room,
    /// Everything offered is readable.
    Visible,
    /// What is written can be written: the one wait that a failure does not end.
    Mended,
}
