//! Evicts final rows from memory and prefetches evicted rows that a batch needs.
//!
//! Around each batch, live and in a replay alike:
//! 1. [`ColdTier::prefetch`] reads the rows that the batch needs and the kernel lacks from the
//!    store and restores them. Then the batch is decided, and [`ColdTier::watch`] records its
//!    decisions.
//! 2. [`ColdTier::collect_batch`] adds the rows that became final to the pending rows.
//! 3. [`ColdTier::run_maintenance`], after the replies were sent, offers pending rows to the store
//!    and evicts rows that the store holds and that have been final long enough. Without a
//!    further batch it runs at the time of [`ColdTier::next_maintenance_us`].
//!
//! Only rows whose records are durable in the log are offered, so the store is never ahead of a
//! recovered log. When the store lags, rows wait here and stay in memory. From [`PENDING_MAX`] on
//! the sequencer waits for the store. If the store cannot be written at the moment, the sequencer
//! then refuses commands as on a full disk. A replica cannot refuse, and waits from twice that
//! number on.
//!
//! Costs: for a new transfer a query of the store, which its filters answer; for a final transfer a
//! copy of its row and a digest; one lock per batch.

use std::time::Duration;

use ledger::planted_bugs::{Bug, is_planted};
use ledger::{
    ApplyStep, ArchivedSettlement, Command, DecisionRecorder, Effects, Eviction, FinalTransfer,
    LogIndex, Outcome, PartyChangeForm, PartyChangeView, PartyOwnership, Stamp, State, StatePart,
    TransferId, Window,
};
use ports::{
    ColdReader, Log, LogError, PartyChange, PartyEffect, PartyEntry, StopReading, StoreError,
    StoreMark, WaitFor, WriteBatch,
};
use record::party_names::PartyKey;

use crate::bloom::BloomFilter;

/// Maximum number of rows, decisions and entries that wait here while the store's own queue is
/// full.
pub const PENDING_MAX: usize = 65_536;

/// Maximum number of rows evicted at once, in addition to twice those that became final in the
/// batch.
const EVICT_MAX: usize = 1_024;

/// Records after which the store gets a new mark even without changes.
const MARK_EVERY: u64 = 16_384;

/// Interval between two checks of a store that is still writing, without batches, in microseconds.
const CHECK_INTERVAL_US: u64 = 100_000;

/// Minimum interval between evictions of rows that become due one by one, in microseconds.
const EVICTION_INTERVAL_US: u64 = 50_000;

/// Pause between two evictions of [`EVICT_MAX`] rows, in microseconds.
const EVICTION_PAUSE_US: u64 = 1_000;

/// Reads and writes the cold store for the kernel.
#[derive(Debug)]
pub struct ColdTier {
    store: Box<dyn ColdReader>,
    keep_us: u64,
    pending: WriteBatch,
    /// Mark up to which the store is complete with the pending rows.
    changed: StoreMark,
    /// Mark of the last batch. Nothing has changed since `changed`.
    latest: StoreMark,
    /// Log index up to which rows were offered.
    offered: LogIndex,
    /// Number of transfers that became final in the last batch.
    ended_count: usize,
    /// Records decisions for the store.
    recorder: DecisionRecorder,
    /// Whether the store keeps rows only and no decisions.
    is_without_decisions: bool,
    /// Log index up to which the store was complete before the replay. Nothing up to it is offered
    /// again.
    complete: LogIndex,
    /// In a replay from the first record: the rows evicted since. No other row can come back, so
    /// the store, which also has later rows, is queried for these only.
    evicted_ids: Option<BloomFilter>,
    /// Whether too many rows wait and the store cannot be written at the moment.
    is_stalled: bool,
    /// The ids that a batch needs, kept for its capacity.
    asked: Vec<TransferId>,
    counts: ColdCounts,
}

/// Counts of reads of the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ColdCounts {
    /// Queries for transfers that were not in memory.
    pub reads: u64,
    /// Queries that found a row.
    pub found: u64,
    /// Batches after which the sequencer waited for the store.
    pub waits: u64,
}

/// The state of log and clock between two batches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MaintenancePause {
    /// Log index up to which the log is durable.
    pub(crate) durable: LogIndex,
    /// The stamp that a batch would get now.
    pub(crate) stamp: Stamp,
}

/// When the sequencer waits for the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteThrottle {
    /// Live operation: only when too many rows wait.
    Live,
    /// Replay: as the store needs.
    Replay,
}

impl ColdTier {
    /// A tier over a store. Final transfers stay in memory for at least `keep`.
    #[must_use]
    pub fn new(store: Box<dyn ColdReader>, keep: Duration) -> Self {
        let complete = store.visible();
        Self {
            store,
            keep_us: u64::try_from(keep.as_micros()).unwrap_or(u64::MAX),
            pending: WriteBatch::default(),
            changed: StoreMark::default(),
            latest: StoreMark::default(),
            offered: complete,
            ended_count: 0,
            recorder: DecisionRecorder::default(),
            is_without_decisions: false,
            complete,
            evicted_ids: None,
            is_stalled: false,
            asked: Vec::new(),
            counts: ColdCounts::default(),
        }
    }

    /// For a store with rows only and without decisions.
    #[must_use]
    pub fn without_decisions(self) -> Self {
        Self { is_without_decisions: true, ..self }
    }

    /// Starts a replay from the first record.
    pub(crate) fn begin_replay(&mut self) {
        self.evicted_ids = Some(BloomFilter::default());
    }

    /// Ends the replay: offers everything to the store and waits until it is visible.
    pub(crate) fn end_replay(&mut self) -> Result<(), StoreError> {
        self.evicted_ids = None;
        if self.store.visible() < self.latest.log_index {
            self.offer(self.latest, WriteThrottle::Replay)?;
            self.store.wait(WaitFor::Visible)?;
        }
        Ok(())
    }

    /// Restores evicted rows of these transfers.
    pub(crate) fn prefetch<'a>(
        &mut self,
        state: &mut State,
        ids: impl Iterator<Item = &'a TransferId>,
    ) -> Result<(), StoreError> {
        let mut asked = std::mem::take(&mut self.asked);
        asked.clear();
        asked.extend(ids.filter(|id| self.may_be_evicted(state, id)));
        self.counts.reads += asked.len() as u64;
        self.store.drop_absent(&mut asked)?;
        asked.iter().try_for_each(|id| self.read(state, id))?;
        self.asked = asked;
        Ok(())
    }

    fn may_be_evicted(&self, state: &State, id: &TransferId) -> bool {
        !state.is_hot(id) && self.evicted_ids.as_ref().is_none_or(|evicted| evicted.may_hold(id))
    }

    /// Restores a row that may be in the store.
    fn read(&mut self, state: &mut State, id: &TransferId) -> Result<(), StoreError> {
        // The batch names the transfer twice.
        if state.is_hot(id) {
            return Ok(());
        }
        let at = match is_planted(Bug::ReplayReadsFuture) {
            false => state.log_index(),
            true => LogIndex(u64::MAX),
        };
        if let Some(row) = self.store.read(id, at)? {
            self.counts.found += 1;
            state.restore_row(row);
        }
        Ok(())
    }

    /// Observes a step of the current batch.
    pub(crate) fn watch(&mut self, moment: ApplyStep<'_>, state: &State, effects: &Effects) {
        self.recorder.observe(moment, state, effects, &mut self.pending.decisions);
    }

    /// Whether the store lacks the decisions after this record.
    pub(crate) fn records_decisions_after(&self, log_index: LogIndex) -> bool {
        !self.is_without_decisions && self.complete <= log_index
    }

    /// Adds the changes of a batch, with which the store is complete up to `mark`.
    pub(crate) fn collect_batch<'a>(
        &mut self,
        commands: impl Iterator<Item = &'a Command>,
        (state, effects): (&State, &Effects),
        mark: StoreMark,
    ) {
        self.ended_count = effects.final_rows.len();
        if mark.log_index <= self.complete {
            return;
        }
        let waiting = self.pending.len();
        self.pending.rows.extend_from_slice(&effects.final_rows);
        let mut settles = false;
        // The mark is that of the last command.
        let first = mark.log_index.0 + 1 - effects.outcomes.len() as u64;
        for (log_index, (command, outcome)) in (first..).zip(commands.zip(&effects.outcomes)) {
            if let (Some(change), Outcome::Accepted) = (command.party_change(), outcome) {
                let key = PartyKey::of_state(state);
                self.pending.parties.extend(party_changes(&key, change, LogIndex(log_index)));
            }
            settles |= *outcome == Outcome::Accepted && changes_settlement(command);
        }
        if settles {
            self.pending.settlements.extend(changed_settlements(state));
            self.pending.settlements.extend_from_slice(&effects.archived);
        }
        self.latest = mark;
        if waiting < self.pending.len() {
            self.changed = mark;
        }
    }

    /// Between two batches: offers rows to the store and evicts rows from the kernel.
    pub(crate) fn run_maintenance(
        &mut self,
        state: &mut State,
        at: MaintenancePause,
        throttle: WriteThrottle,
    ) -> Result<(), StoreError> {
        if let Some(mark) = self.due(at.durable) {
            let is_worthwhile = match throttle {
                WriteThrottle::Live => true,
                WriteThrottle::Replay => {
                    EVICT_MAX <= self.pending.len()
                        || self.visible().0 + MARK_EVERY < mark.log_index.0
                }
            };
            if is_worthwhile {
                self.offer(mark, throttle)?;
            }
        }
        self.evict(state, at.stamp.max(state.stamp()));
        Ok(())
    }

    /// The mark up to which rows can be offered now, never beyond the durable part of the log.
    fn due(&self, durable: LogIndex) -> Option<StoreMark> {
        let is_durable =
            |mark: &StoreMark| mark.log_index <= durable && self.offered < mark.log_index;
        [self.latest, self.changed].into_iter().find(is_durable)
    }

    /// Microseconds until [`ColdTier::run_maintenance`] has work, without a further batch. `wait`
    /// returns the time until a stamp.
    pub(crate) fn next_maintenance_us(
        &self,
        state: &State,
        durable: LogIndex,
        wait: &dyn Fn(Stamp) -> u64,
    ) -> Option<u64> {
        // Even without a row: queries of decisions wait for the mark.
        if self.due(durable).is_some() {
            return Some(CHECK_INTERVAL_US);
        }
        let (changed, completed) = state.next_evictable()?;
        if self.visible() < changed {
            return Some(CHECK_INTERVAL_US);
        }
        match wait(Stamp(completed.0.saturating_add(self.keep_us))) {
            0 => Some(EVICTION_PAUSE_US),
            wait => Some(wait.max(EVICTION_INTERVAL_US)),
        }
    }

    /// Log index up to which the store is complete.
    pub(crate) fn visible(&self) -> LogIndex {
        self.store.visible()
    }

    /// Log index up to which rows were offered.
    pub(crate) fn offered(&self) -> LogIndex {
        self.offered
    }

    pub(crate) fn counts(&self) -> ColdCounts {
        self.counts
    }

    fn offer(&mut self, mark: StoreMark, throttle: WriteThrottle) -> Result<(), StoreError> {
        self.pending.mark = mark;
        while !self.store.offer(&mut self.pending) {
            if throttle == WriteThrottle::Live && self.pending.len() < PENDING_MAX {
                return Ok(());
            }
            self.counts.waits += 1;
            match (throttle, self.store.wait(WaitFor::Room)) {
                (WriteThrottle::Live, Err(StoreError::Failed(_))) => {
                    self.is_stalled = true;
                    if self.pending.len() < 2 * PENDING_MAX {
                        return Ok(());
                    }
                    self.store.wait(WaitFor::Mended)?;
                }
                (_, waited) => waited?,
            }
        }
        self.is_stalled = false;
        self.offered = mark.log_index;
        Ok(())
    }

    /// Whether commands must be refused because their rows could not leave memory.
    pub(crate) fn is_stalled(&self) -> bool {
        self.is_stalled
    }

    /// Evicts every row that the store shows, however recent.
    pub(crate) fn evict_all(&mut self, state: &mut State) {
        let completed_before = Stamp(state.stamp().0 + 1);
        let visible = self.store.visible();
        let eviction = Eviction { visible, completed_before, rows_max: state.hot_transfer_count() };
        state.evict(eviction, &mut |_| {});
    }

    fn evict(&mut self, state: &mut State, now: Stamp) {
        let eviction = Eviction {
            visible: self.store.visible(),
            completed_before: Stamp((now.0 + 1).saturating_sub(self.keep_us)),
            rows_max: EVICT_MAX + 2 * self.ended_count,
        };
        let evicted_ids = &mut self.evicted_ids;
        state.evict(eviction, &mut |row: &FinalTransfer| {
            if let Some(evicted) = evicted_ids {
                evicted.add(&row.id);
            }
        });
    }
}

/// Whether a command can open, close or settle windows.
fn changes_settlement(command: &Command) -> bool {
    match command {
        Command::Genesis(_) => true,
        Command::Administer(administer) => {
            let mut touched = administer.change.decided().declaration().touches.iter();
            touched.any(|part| matches!(part, StatePart::Windows | StatePart::Settlements))
        }
        Command::Prepare(_)
        | Command::Fulfil(_)
        | Command::Abort(_)
        | Command::FinishDeliveries(_)
        | Command::Tick
        | Command::ChangeParties(_)
        | Command::PrepareBulk(_)
        | Command::FulfilBulk(_)
        | Command::AbortBulk(_)
        | Command::RecordQuote(_)
        | Command::RecordQuoteAnswer(_)
        | Command::RecordRequestToPay(_) => false,
    }
}

/// The windows and settlements in memory whose state the last batch changed. Steps of single
/// accounts of a settlement are stored with its next change of state.
fn changed_settlements(state: &State) -> impl Iterator<Item = ArchivedSettlement> {
    let (book, stamp) = (state.settlement(), state.stamp());
    let is_changed = move |window: &Window| {
        window.changed == stamp || window.contents.iter().any(|content| content.changed == stamp)
    };
    let windows = book.windows().filter(move |entry| is_changed(&entry.window));
    let settlements = book.settlements().filter(move |entry| entry.settlement.changed == stamp);
    let windows = windows.cloned().map(ArchivedSettlement::Window);
    windows.chain(settlements.cloned().map(ArchivedSettlement::Settlement))
}

/// The changes that an accepted command makes to the party directory (hub-semantics 2.2). The
/// effect of most depends on the entries before it in the log's order, so that all nodes agree.
pub fn party_changes<'a>(
    key: &'a PartyKey,
    change: PartyChangeView<'a>,
    at: LogIndex,
) -> impl Iterator<Item = PartyChange> + 'a {
    let owner = match change.ownership {
        Some(PartyOwnership::OwnerOnly | PartyOwnership::OwnerPerCurrency) => {
            change.source.copied()
        }
        Some(PartyOwnership::LatestWins) | None => None,
    };
    change.parties.iter().map(move |party| {
        let entry = PartyEntry { currency: party.currency, fsp: party.fsp };
        let effect = match (change.form, change.ownership) {
            (PartyChangeForm::Delete, _) => {
                // An operator names the FSP whose entries are released.
                let of = if change.source.is_none() { Some(party.fsp) } else { owner };
                PartyEffect::Release { of, currency: party.currency }
            }
            (PartyChangeForm::Single | PartyChangeForm::Batch, None) => PartyEffect::Replace(entry),
            (PartyChangeForm::Single | PartyChangeForm::Batch, Some(ownership)) => {
                let is_alone = ownership == PartyOwnership::OwnerOnly;
                PartyEffect::Bind { entry, by: owner, is_alone }
            }
        };
        PartyChange { key: key.row_key_of(party), at, effect }
    })
}

/// Whether a store with this mark was made from this log: the log has the record, with the same
/// chain head after it.
///
/// # Errors
/// [`LogError`] when the log cannot be read there.
pub fn is_of_log(log: &mut impl Log, mark: &StoreMark) -> Result<bool, LogError> {
    if mark.log_index == LogIndex(0) {
        return Ok(true);
    }
    if log.end() < mark.log_index {
        return Ok(false);
    }
    let mut is_same = false;
    log.replay(mark.log_index, &mut |frame| {
        is_same = frame.header().last() == mark.log_index && frame.chain() == mark.chain;
        Err(StopReading)
    })?;
    Ok(is_same)
}
