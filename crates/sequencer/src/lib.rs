//! The single writer of a log.
//!
//! [`Sequencer::commit`] takes waiting submissions up to the limits of a frame. It stamps the
//! batch, seals it, appends it to the log, syncs once, and applies it, in this order. Only then
//! does the caller get the outcomes and release replies and notices: nothing is acknowledged before
//! it is durable and applied.
//!
//! It is a state machine over the [`Log`] port and an argument for time, without threads, clocks or
//! queues. The caller decides when to commit: a call with one submission commits a batch of one at
//! once, a call after a busy time commits a large batch. No timer delays a batch.
//!
//! If several nodes share a log, there is no single writer. [`Replica`] proposes batches to a
//! topic, and makes the same frames from the topic's messages as every other node. Both kinds of
//! node seal and decide with the same code. They differ in who stamps a batch, and in what makes it
//! durable.
//!
//! Records that only report finished deliveries ([`Durability::Lazy`]) cause no sync of their own.
//! They are appended and applied, and become durable with the next synced batch. If the stamp of
//! such a batch reaches the deadline of a transfer, the batch is synced, because it ends the
//! transfer.
//! of such records whose stamp meets a transfer's deadline is synced: it ends the transfer.
#![warn(missing_docs)]

mod bloom;
mod broker_clock;
mod cold_tier;
mod genesis_message;
mod lane_assignment;
mod membership;
mod replay;
mod replica;
mod stamp;

use std::collections::VecDeque;
use std::num::NonZeroU32;

use ledger::planted_bugs::{Bug, is_planted};
use ledger::{Command, Effects, LogIndex, Outcome, Stamp, State, TransferId};
use ports::{ClockReading, Log, LogError, StoreError, StoreMark};
use record::frame::{
    BatchHeader, EncodedRecord, FRAME_RECORDS_MAX, Frame, FrameBuilder, NewRecord, RecordTooLarge,
};

pub use broker_clock::{BrokerClock, CLOCK_AGREEMENT_US_MAX, CLOCK_JUMP_US_MIN, LastMessage};
pub use cold_tier::{ColdCounts, ColdTier, PENDING_MAX, is_of_log, party_changes};
pub use genesis_message::GenesisMessage;
pub use lane_assignment::{LaneAssignment, LaneTransfers};
pub use membership::{
    HEARTBEAT_US, LEASE_US, LEAVE_SEQUENCE, LOG_PAUSE_US_MAX, LiveNode, Membership, SESSION_US,
    owner,
};
pub use replay::{AppliedCommand, Quarantine, Replay, ReplayError, ReplayResult, replay};
pub use replica::{AppliedMessage, NodeName, RejectedMessage, Replica, ReplicaError};
pub use stamp::{SLEW_DIVISOR, StampClock};

use cold_tier::{MaintenancePause, WriteThrottle};
use replay::ApplyError;

/// Number of due deadlines up to which a batch is stamped. The others follow in later batches.
pub const EXPIRIES_PER_BATCH_MAX: usize = 64;

/// Maximum lag of a stamp that [`EXPIRIES_PER_BATCH_MAX`] may cause, in microseconds.
pub const STAMP_LAG_US_MAX: u64 = 1_000_000;

/// Whether a record must be durable before it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Synced before it is applied.
    Synced,
    /// Appended and applied; durable with the next sync.
    Lazy,
}

/// A command for the log, with data that its sender wants back with the outcome.
#[derive(Debug)]
pub struct Submission<T> {
    /// The command.
    pub command: Command,
    /// Its stored form, encoded by the sender.
    pub record: EncodedRecord,
    /// Whether its reply waits for a sync.
    pub durability: Durability,
    /// Returned unchanged.
    pub attached: T,
}

impl<T> Submission<T> {
    /// Encodes a command that has no payload.
    ///
    /// # Errors
    /// [`RecordTooLarge`] when its fields exceed a record.
    pub fn without_payload(
        command: Command,
        durability: Durability,
        attached: T,
    ) -> Result<Self, RecordTooLarge> {
        let record = encode(&command, None)?;
        Ok(Self { command, record, durability, attached })
    }
}

/// Encodes a command and its payload as a record.
///
/// # Errors
/// [`RecordTooLarge`] when they exceed a record.
pub fn encode(command: &Command, payload: Option<&[u8]>) -> Result<EncodedRecord, RecordTooLarge> {
    let mut fields = Vec::with_capacity(256);
    record::command::write_fields(command, &mut fields);
    let payload = payload.map(|bytes| (bytes, record::frame::payload_digest(bytes)));
    let kind = command.number();
    NewRecord { kind, version: record::command::FIELDS_VERSION, fields: &fields, payload }.encode()
}

/// A batch that is in the log and applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Index of its first record.
    pub first: LogIndex,
    /// Its stamp.
    pub stamp: Stamp,
    /// Log index up to which everything is durable.
    pub durable: LogIndex,
}

/// The reason why a batch was not committed.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The disk is full, for the log or for the cold store. Nothing was recorded, and a later batch
    /// may succeed.
    #[error("the disk is full: nothing was recorded")]
    Full,
    /// The log's tail is unknown: this node must stop and recover.
    #[error("the log stopped: {0}")]
    Stopped(LogError),
    /// A record broke an invariant of the kernel: this node must stop (DESIGN contract 7).
    #[error("record {} broke an invariant, so nothing of its batch was acknowledged", .0.0)]
    InvariantBroken(LogIndex),
    /// The cold store cannot be read or written: this node must stop. Records in the log remain
    /// valid.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<ApplyError> for CommitError {
    fn from(error: ApplyError) -> Self {
        match error {
            ApplyError::InvariantBroken(log_index) => Self::InvariantBroken(log_index),
            ApplyError::Store(error) => Self::Store(error),
        }
    }
}

/// The writer of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writer {
    /// The node; 0 on a single machine.
    pub node: u32,
    /// Its epoch, above every earlier one of the node in this log.
    pub epoch: u32,
}

/// The single writer of a log, and the state that results from the log.
#[derive(Debug)]
pub struct Sequencer<L> {
    log: L,
    state: State,
    clock: StampClock,
    builder: FrameBuilder,
    records_max: u32,
    effects: Effects,
    cold_tier: Option<ColdTier>,
    writer: Writer,
    sequence: u64,
    counts: WriteCounts,
}

/// Counts of writes since this sequencer was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteCounts {
    /// Batches appended.
    pub batches: u64,
    /// Records appended.
    pub records: u64,
    /// Bytes appended.
    pub bytes: u64,
    /// Syncs.
    pub syncs: u64,
}

/// The starting point of a replay.
#[derive(Debug)]
pub struct ReplayStart {
    /// The state right after a batch. Only later batches are replayed and observed. The caller has
    /// checked that the log contains the batch; otherwise the digest in the first replayed frame
    /// differs.
    pub state: State,
    /// Quarantined records, which decide nothing.
    pub quarantine: Quarantine,
    /// The cold store for final transfers, during the replay and after it. It is empty or was made
    /// from this log ([`is_of_log`]), and is at least as complete as the state.
    pub cold_tier: Option<ColdTier>,
}

impl<L: Log> Sequencer<L> {
    /// Replays the log and continues it as `node`, in a new epoch. `observe` is called with every
    /// replayed command and its outcome, so that read models can follow.
    ///
    /// # Errors
    /// [`ReplayError`] when the log cannot be read or does not replay to its own digests.
    pub fn open(
        log: L,
        node: u32,
        now: ClockReading,
        observe: &mut dyn FnMut(&AppliedCommand<'_>),
    ) -> Result<Self, ReplayError> {
        let start =
            ReplayStart { state: State::new(), quarantine: Quarantine::default(), cold_tier: None };
        Self::open_from(log, start, (node, now), observe).map_err(|failed| failed.1)
    }

    /// Like [`Sequencer::open`], from a state of this log and with a cold store. An error returns
    /// the log, so that the caller can try another starting point.
    ///
    /// # Errors
    /// As [`Sequencer::open`], and [`ReplayError::Store`].
    pub fn open_from(
        mut log: L,
        start: ReplayStart,
        (node, now): (u32, ClockReading),
        observe: &mut dyn FnMut(&AppliedCommand<'_>),
    ) -> Result<Self, Box<(L, ReplayError)>> {
        let (replayed, cold_tier) = match replay::replay_from(&mut log, start, observe) {
            Ok(replayed) => replayed,
            Err(error) => return Err(Box::new((log, error))),
        };
        let state = replayed.state;
        let writer = Writer { node, epoch: state.epoch_of(node) + 1 };
        let clock = StampClock::new(now, state.stamp());
        Ok(Self {
            log,
            state,
            clock,
            builder: FrameBuilder::new(),
            records_max: FRAME_RECORDS_MAX,
            effects: Effects::default(),
            cold_tier,
            writer,
            sequence: 1,
            counts: WriteCounts::default(),
        })
    }

    /// Limits batches to this number of records instead of the capacity of a frame. Smaller batches
    /// sync more often and answer no sooner. For measurements.
    pub fn limit_batches(&mut self, records_max: NonZeroU32) {
        self.records_max = records_max.get();
    }

    /// Commits one batch: moves submissions from the front of `waiting` to `batch`, which must be
    /// empty, up to the capacity of a frame. After an error they are in `batch` too, to be refused.
    ///
    /// # Errors
    /// [`CommitError`]; none of the batch is applied, and none of it may be acknowledged.
    pub fn commit<T>(
        &mut self,
        waiting: &mut VecDeque<Submission<T>>,
        batch: &mut Vec<Submission<T>>,
        now: ClockReading,
    ) -> Result<Committed, CommitError> {
        assert!(!waiting.is_empty() && batch.is_empty(), "a batch is made of waiting submissions");
        self.fill(waiting, batch);
        if self.cold_tier.as_ref().is_some_and(ColdTier::is_stalled) {
            return Err(CommitError::Full);
        }
        let stamp = self.stamp(now);
        let origin =
            BatchOrigin { writer: self.writer, sequence: self.sequence, stamp, wall: now.wall };
        let first = self.append(&origin)?;
        self.make_durable(stamp, batch.iter().map(|one| one.durability))?;
        let committed = self.decide(first, &origin, batch.iter().map(|one| &one.command))?;
        self.sequence += batch.len() as u64;
        Ok(committed)
    }

    /// Maintains the cold store between two batches, while no request waits: offers final rows to
    /// the store and evicts rows that it shows. Without a further batch,
    /// [`Sequencer::next_maintenance_us`] gives the time of the next call. No effect without a
    /// store.
    ///
    /// # Errors
    /// [`CommitError::Store`]: this node must stop.
    pub fn run_maintenance(&mut self, now: ClockReading) -> Result<(), CommitError> {
        let Some(cold_tier) = &mut self.cold_tier else { return Ok(()) };
        let at = MaintenancePause { durable: self.log.durable_end(), stamp: self.clock.at(now) };
        Ok(cold_tier.run_maintenance(&mut self.state, at, WriteThrottle::Live)?)
    }

    /// Makes everything durable and offers it to the store, so that a frozen state, the log and the
    /// store reach equally far.
    ///
    /// # Errors
    /// [`CommitError::Stopped`], [`CommitError::Store`]: this node must stop.
    pub fn flush(&mut self, now: ClockReading) -> Result<(), CommitError> {
        let tail = self.log.tail();
        if tail.durable < tail.end {
            self.sync()?;
        }
        self.run_maintenance(now)
    }

    /// Microseconds until [`Sequencer::run_maintenance`] has work without a further batch, while
    /// final rows are in memory. `None` if it can wait for the next batch.
    pub fn next_maintenance_us(&self, now: ClockReading) -> Option<u64> {
        let cold_tier = self.cold_tier.as_ref()?;
        let wait = |due| self.clock.wait_us(now, due);
        cold_tier.next_maintenance_us(&self.state, self.log.durable_end(), &wait)
    }

    /// Prefetches the rows of transfers for a query, as far as they were evicted.
    ///
    /// # Errors
    /// [`CommitError::Store`]: this node must stop.
    pub fn prefetch<'a>(
        &mut self,
        ids: impl IntoIterator<Item = &'a TransferId>,
    ) -> Result<(), CommitError> {
        let Some(cold_tier) = &mut self.cold_tier else { return Ok(()) };
        Ok(cold_tier.prefetch(&mut self.state, ids.into_iter())?)
    }

    /// Log index up to which the store is complete; 0 without a store.
    pub fn stored(&self) -> LogIndex {
        self.cold_tier.as_ref().map_or(LogIndex(0), ColdTier::visible)
    }

    /// Log index up to which rows were offered to the store; 0 without a store.
    pub fn offered_to_store(&self) -> LogIndex {
        self.cold_tier.as_ref().map_or(LogIndex(0), ColdTier::offered)
    }

    /// Counts of reads of the store.
    pub fn cold_counts(&self) -> ColdCounts {
        self.cold_tier.as_ref().map(ColdTier::counts).unwrap_or_default()
    }

    /// Closes the log until the next append.
    ///
    /// # Errors
    /// [`CommitError::Stopped`] when its last sync failed.
    pub fn close(&mut self) -> Result<(), CommitError> {
        self.log.close().map_err(CommitError::Stopped)
    }

    /// Makes everything appended durable.
    ///
    /// # Errors
    /// [`CommitError::Stopped`] when the sync failed.
    pub fn sync(&mut self) -> Result<LogIndex, CommitError> {
        self.log.sync().map_err(CommitError::Stopped)?;
        self.counts.syncs += 1;
        Ok(self.log.tail().durable)
    }

    /// The effects of the last batch.
    pub fn effects(&self) -> &Effects {
        &self.effects
    }

    /// Outcomes of the last batch, in order.
    pub fn outcomes(&self) -> &[Outcome] {
        &self.effects.outcomes
    }

    /// The state after everything committed.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The log.
    pub fn log(&self) -> &L {
        &self.log
    }

    /// The writer of batches.
    pub fn writer(&self) -> Writer {
        self.writer
    }

    /// Counts of writes since the start.
    pub fn counts(&self) -> WriteCounts {
        self.counts
    }

    /// Microseconds until the earliest deadline is due, if any transfer is in flight.
    pub fn wait_us(&self, now: ClockReading) -> Option<u64> {
        self.state.next_deadline().map(|due| self.clock.wait_us(now, due))
    }

    /// The stamp of the next batch. It is now, or earlier, so that only few deadlines are due in
    /// one batch and its senders do not wait for all of them. The other deadlines are met by the
    /// following batches ([`Sequencer::wait_us`]), in which the stamp catches up.
    fn stamp(&mut self, now: ClockReading) -> Stamp {
        let now = self.clock.stamp(now);
        if self.state.next_deadline().is_none_or(|due| now < due) {
            return now;
        }
        let held_back = self.state.nth_deadline(EXPIRIES_PER_BATCH_MAX).unwrap_or(now);
        let earliest = self.state.stamp().max(Stamp(now.0.saturating_sub(STAMP_LAG_US_MAX)));
        held_back.clamp(earliest, now)
    }

    fn fill<T>(&mut self, waiting: &mut VecDeque<Submission<T>>, batch: &mut Vec<Submission<T>>) {
        self.builder.clear();
        let mut items = 0;
        while let Some(submission) = waiting.front() {
            // A bulk transfer has the work of its items. The first submission always fits.
            let weight = submission.command.weight() as u32;
            if self.builder.count() == self.records_max
                || (weight != 1 && 0 < items && FRAME_RECORDS_MAX < items + weight)
                || self.builder.push(&submission.record).is_err()
            {
                break;
            }
            items += weight;
            batch.extend(waiting.pop_front());
        }
        assert!(!batch.is_empty(), "an empty frame has room for any record");
    }

    /// Seals the builder's records as the next frame of the log, and appends it.
    fn append(&mut self, origin: &BatchOrigin) -> Result<LogIndex, CommitError> {
        let tail = self.log.tail();
        let header = BatchHeader {
            stamp: origin.stamp,
            wall: origin.wall,
            node: origin.writer.node,
            epoch: origin.writer.epoch,
            sequence: origin.sequence,
            rules_version: self.state.rules_version(),
            applied: self.state.log_index(),
            outcome_digest: *self.state.digest(),
        };
        let frame = self.builder.seal(&tail, &header);
        append(&mut self.log, frame.bytes)?;
        self.counts.note(u64::from(self.builder.count()), self.builder.length());
        Ok(tail.next())
    }

    /// Appends a frame that was sealed elsewhere.
    fn take(&mut self, frame: &Frame<'_>) -> Result<(), CommitError> {
        append(&mut self.log, frame.as_bytes())?;
        self.counts.note(u64::from(frame.header().count), frame.as_bytes().len());
        Ok(())
    }

    /// Syncs appended records unless all of them are lazy. If the stamp reaches a deadline, the
    /// batch ends the transfer, whatever its commands are. The batch is then synced, because the
    /// end must be durable before it is reported.
    fn make_durable(
        &mut self,
        stamp: Stamp,
        durability: impl IntoIterator<Item = Durability>,
    ) -> Result<(), CommitError> {
        if is_planted(Bug::AcknowledgeBeforeSync) {
            return Ok(());
        }
        let deadline_met = self.state.next_deadline().is_some_and(|due| due <= stamp);
        if deadline_met || durability.into_iter().any(|one| one == Durability::Synced) {
            self.sync()?;
        }
        Ok(())
    }

    /// Applies the batch appended last.
    fn decide<'a>(
        &mut self,
        first: LogIndex,
        origin: &BatchOrigin,
        commands: impl ExactSizeIterator<Item = &'a Command> + Clone,
    ) -> Result<Committed, CommitError> {
        self.effects.clear();
        let header = ledger::Batch {
            first,
            stamp: origin.stamp,
            node: origin.writer.node,
            epoch: origin.writer.epoch,
            sequence: origin.sequence,
        };
        let outputs = (&mut self.effects, &mut self.cold_tier);
        replay::apply(&mut self.state, &header, commands.clone(), outputs)?;
        assert_eq!(self.effects.outcomes.len(), commands.len(), "each command has an outcome");
        if let Some(cold_tier) = &mut self.cold_tier {
            let mark = StoreMark { log_index: self.state.log_index(), chain: self.log.chain() };
            cold_tier.collect_batch(commands, (&self.state, &self.effects), mark);
        }
        Ok(Committed { first, stamp: origin.stamp, durable: self.log.tail().durable })
    }
}

impl WriteCounts {
    fn note(&mut self, records: u64, bytes: usize) {
        self.batches += 1;
        self.records += records;
        self.bytes += bytes as u64;
    }
}

fn append(log: &mut impl Log, frame: &[u8]) -> Result<(), CommitError> {
    log.append(frame).map_err(|error| match error {
        LogError::Full => CommitError::Full,
        other => CommitError::Stopped(other),
    })
}

/// The origin of a batch: writer and times.
#[derive(Clone, Copy, Debug)]
struct BatchOrigin {
    writer: Writer,
    sequence: u64,
    stamp: Stamp,
    wall: Stamp,
}
