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
//! Only what is durable in the log is offered: so the store is never ahead of a log that is
//! recovered. When the store falls behind, rows wait in here and stay hot; from
//! [`PENDING_MAX`] on the sequencer waits for it. When the store cannot be written at the moment,
//! the sequencer refuses from there on, as on a full disk; a replica, which can refuse nothing,
//! waits from twice that on.
//!
//! Costs: for a new transfer one question to the store, which its filters answer; for one that
//! ended a copy of its row and a digest; a lock per batch.

use std::time::Duration;

use ledger::planted::{Bug, is_planted};
use ledger::{
    ApplyStep, ArchivedSettlement, ChangeParties, Command, DecisionRecorder, Effects, Eviction,
    FinalTransfer, LogIndex, Outcome, PartyChangeForm, Stamp, State, StatePart, TransferId, Window,
};
use ports::{
    ColdReader, Log, LogError, PartyChange, PartyEffect, PartyRow, StopReading, StoreError,
    StoreMark, WaitFor, WriteBatch,
};

use crate::bloom::BloomFilter;

/// Rows, decisions told and entries that may wait in here while the store's own queue is full.
pub const PENDING_MAX: usize = 65_536;

/// Rows that leave in one go, above twice those that came with the batch.
const EVICT_MAX: usize = 1_024;

/// Records after which the store hears how far it is complete, though nothing changed for it.
const MARK_EVERY: u64 = 16_384;

/// Between two looks at a store that is still written, while nobody brings work, microseconds.
const GLANCE: u64 = 100_000;

/// Rows that are due one after the other leave together, so seldom at most, microseconds.
const TOGETHER: u64 = 50_000;

/// When more leave than may in one go, microseconds between two goes.
const BREATH: u64 = 1_000;

/// What the kernel's cold rows are read from and written to.
#[derive(Debug)]
pub struct ColdTier {
    store: Box<dyn ColdReader>,
    keep_us: u64,
    pending: WriteBatch,
    /// With what is pending the store is complete up to here.
    changed: StoreMark,
    /// And up to here, for nothing has changed since.
    latest: StoreMark,
    /// What was offered goes up to here.
    offered: LogIndex,
    /// Rows that ended in the last batch.
    came: usize,
    /// Looks on for the store's sake.
    recorder: DecisionRecorder,
    /// Nobody will ask the store why something was decided.
    is_without_decisions: bool,
    /// Up to here the store was complete before the replay: nothing of it is offered again.
    complete: LogIndex,
    /// In a replay from the first record: what has left since. Nothing else can come back, and the
    /// store, which knows the future, need not be asked for it.
    left: Option<BloomFilter>,
    /// Too much waits, and the store cannot be written at the moment.
    is_stalled: bool,
    /// What a batch asks for, kept for its room.
    asked: Vec<TransferId>,
    counts: ColdCounts,
}

/// How often the store was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ColdCounts {
    /// Questions for a transfer that was not hot.
    pub reads: u64,
    /// Of these, answered with a row.
    pub found: u64,
    /// Batches after which the sequencer waited for the store.
    pub waits: u64,
}

/// The pause between two batches, in which the cold side has its turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MaintenancePause {
    /// How far the log is durable.
    pub(crate) durable: LogIndex,
    /// The stamp that a batch would have.
    pub(crate) stamp: Stamp,
}

/// Whether the sequencer may wait for the store's sake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteThrottle {
    /// Live: only when too much waits.
    Live,
    /// In a replay, where the store sets the pace.
    Replay,
}

impl ColdTier {
    /// The cold side over a store. `keep`: for how long a transfer that ended stays hot at least.
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
            came: 0,
            recorder: DecisionRecorder::default(),
            is_without_decisions: false,
            complete,
            left: None,
            is_stalled: false,
            asked: Vec::new(),
            counts: ColdCounts::default(),
        }
    }

    /// The same for a store that holds rows and nothing of what can be told of decisions.
    #[must_use]
    pub fn without_decisions(self) -> Self {
        Self { is_without_decisions: true, ..self }
    }

    /// A replay begins at the first record.
    pub(crate) fn begin_replay(&mut self) {
        self.left = Some(BloomFilter::default());
    }

    /// The replay is over: everything it brought is given to the store, and shown by it.
    pub(crate) fn end_replay(&mut self) -> Result<(), StoreError> {
        self.left = None;
        if self.store.visible() < self.latest.log_index {
            self.offer(self.latest, WriteThrottle::Replay)?;
            self.store.wait(WaitFor::Visible)?;
        }
        Ok(())
    }

    /// Makes the transfers hot that the kernel let go of.
    pub(crate) fn prefetch<'a>(
        &mut self,
        state: &mut State,
        ids: impl Iterator<Item = &'a TransferId>,
    ) -> Result<(), StoreError> {
        let mut asked = std::mem::take(&mut self.asked);
        asked.clear();
        asked.extend(ids.filter(|id| self.may_be_cold(state, id)));
        self.counts.reads += asked.len() as u64;
        self.store.drop_absent(&mut asked)?;
        asked.iter().try_for_each(|id| self.read(state, id))?;
        self.asked = asked;
        Ok(())
    }

    fn may_be_cold(&self, state: &State, id: &TransferId) -> bool {
        !state.is_hot(id) && self.left.as_ref().is_none_or(|left| left.may_hold(id))
    }

    /// Makes a transfer hot that may be in the store.
    fn read(&mut self, state: &mut State, id: &TransferId) -> Result<(), StoreError> {
        // It was asked for twice.
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

    /// Sees a moment of the batch that is being decided.
    pub(crate) fn watch(&mut self, moment: ApplyStep<'_>, state: &State, effects: &Effects) {
        self.recorder.watch(moment, state, effects, &mut self.pending.decisions);
    }

    /// Whether the store lacks what is told of records beyond this one.
    pub(crate) fn records_decisions_after(&self, log_index: LogIndex) -> bool {
        !self.is_without_decisions && self.complete <= log_index
    }

    /// Takes what a batch changed; with it the store is complete up to `mark`.
    pub(crate) fn collect_batch<'a>(
        &mut self,
        commands: impl Iterator<Item = &'a Command>,
        (state, effects): (&State, &Effects),
        mark: StoreMark,
    ) {
        self.came = effects.ended.len();
        if mark.log_index <= self.complete {
            return;
        }
        let waiting = self.pending.len();
        self.pending.rows.extend_from_slice(&effects.ended);
        let mut settles = false;
        for (command, outcome) in commands.zip(&effects.outcomes) {
            if let (Command::ChangeParties(change), Outcome::Accepted) = (command, outcome) {
                self.pending.parties.extend(party_changes(change));
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

    /// Between two batches: gives to the store, takes from the kernel.
    pub(crate) fn run_maintenance(
        &mut self,
        state: &mut State,
        at: MaintenancePause,
        pace: WriteThrottle,
    ) -> Result<(), StoreError> {
        if let Some(mark) = self.due(at.durable) {
            let is_worth_it = match pace {
                WriteThrottle::Live => true,
                WriteThrottle::Replay => {
                    EVICT_MAX <= self.pending.len()
                        || self.visible().0 + MARK_EVERY < mark.log_index.0
                }
            };
            if is_worth_it {
                self.offer(mark, pace)?;
            }
        }
        self.evict(state, at.stamp.max(state.stamp()));
        Ok(())
    }

    /// Up to where the store can be told now: never beyond what is durable in the log.
    fn due(&self, durable: LogIndex) -> Option<StoreMark> {
        let is_durable =
            |mark: &StoreMark| mark.log_index <= durable && self.offered < mark.log_index;
        [self.latest, self.changed].into_iter().find(is_durable)
    }

    /// Microseconds until [`ColdTier::run_maintenance`] has something to do, while no batch comes.
    /// `wait` says how long it is until a stamp.
    pub(crate) fn next_maintenance_us(
        &self,
        state: &State,
        durable: LogIndex,
        wait: &dyn Fn(Stamp) -> u64,
    ) -> Option<u64> {
        // Without a row, too: who asks what the store tells waits for its mark.
        if self.due(durable).is_some() {
            return Some(GLANCE);
        }
        let (changed, completed) = state.next_evictable()?;
        if self.visible() < changed {
            return Some(GLANCE);
        }
        match wait(Stamp(completed.0.saturating_add(self.keep_us))) {
            0 => Some(BREATH),
            wait => Some(wait.max(TOGETHER)),
        }
    }

    /// Everything up to here is in the store.
    pub(crate) fn visible(&self) -> LogIndex {
        self.store.visible()
    }

    /// The store was given everything up to here, and has it or will write it.
    pub(crate) fn offered(&self) -> LogIndex {
        self.offered
    }

    pub(crate) fn counts(&self) -> ColdCounts {
        self.counts
    }

    fn offer(&mut self, mark: StoreMark, pace: WriteThrottle) -> Result<(), StoreError> {
        self.pending.mark = mark;
        while !self.store.offer(&mut self.pending) {
            if pace == WriteThrottle::Live && self.pending.len() < PENDING_MAX {
                return Ok(());
            }
            self.counts.waits += 1;
            match (pace, self.store.wait(WaitFor::Room)) {
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

    /// Nothing more should be decided: what it brings could not leave memory.
    pub(crate) fn is_stalled(&self) -> bool {
        self.is_stalled
    }

    /// Lets every row go that the store shows, however young it is.
    pub(crate) fn evict_all(&mut self, state: &mut State) {
        let completed_before = Stamp(state.stamp().0 + 1);
        let visible = self.store.visible();
        let eviction = Eviction { visible, completed_before, rows_max: state.transfers_hot() };
        state.evict(eviction, &mut |_| {});
    }

    fn evict(&mut self, state: &mut State, now: Stamp) {
        let eviction = Eviction {
            visible: self.store.visible(),
            completed_before: Stamp((now.0 + 1).saturating_sub(self.keep_us)),
            rows_max: EVICT_MAX + 2 * self.came,
        };
        let left = &mut self.left;
        state.evict(eviction, &mut |row: &FinalTransfer| {
            if let Some(left) = left {
                left.add(&row.id);
            }
        });
    }
}

/// Whether a command can open, close or settle windows.
fn changes_settlement(command: &Command) -> bool {
    match command {
        Command::Genesis(_) => true,
        Command::Administer(administer) => {
            let mut touched = administer.change.declaration().touches.iter();
            touched.any(|part| matches!(part, StatePart::Windows | StatePart::Settlements))
        }
        Command::Prepare(_)
        | Command::Fulfil(_)
        | Command::Abort(_)
        | Command::FinishDeliveries(_)
        | Command::Tick
        | Command::ChangeParties(_) => false,
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

/// The changes that an accepted command makes to the party directory: per identifier and
/// sub-identifier the latest registration stands (hub-semantics 2.2). A release in a currency
/// depends on the entry that stands before it in the log's order, so that all nodes agree.
pub fn party_changes(change: &ChangeParties) -> impl Iterator<Item = PartyChange> + '_ {
    change.parties.iter().map(|party| PartyChange {
        key: record::cold_rows::key_of(party),
        effect: match (change.form, party.currency) {
            (PartyChangeForm::Delete, None) => PartyEffect::Release,
            (PartyChangeForm::Delete, Some(currency)) => PartyEffect::ReleaseIn(currency),
            (PartyChangeForm::Single | PartyChangeForm::Batch, currency) => {
                PartyEffect::Bind(PartyRow { currency, fsp: party.fsp })
            }
        },
    })
}

/// Whether a store with this mark was made from this log: the log has the record, and the same
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
