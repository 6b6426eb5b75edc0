//! The single writer.
//!
//! [`Sequencer::commit`] takes whoever waits, up to the limits of a frame, and in this order
//! stamps the batch, seals it, appends it to the log, makes it durable with one sync, and applies
//! it. Only then does the caller learn the outcomes and release replies and notices: nothing is
//! acknowledged before it is durable and applied.
//!
//! It is a state machine over the [`Log`] port and an argument for time: no threads, clocks or
//! queues of its own. Whoever drives it decides when to call; calling with one submission makes a
//! batch of one at once, calling after a busy while makes a large one. There is no timer.
//!
//! Where several nodes share a log there is no single writer: [`Replica`] proposes batches to a
//! topic, and makes of what the topic says the same frames as every other node. Sealing and
//! deciding are the same code for both; what differs is who stamps, and what makes a batch
//! durable.
//!
//! Records that only note finished deliveries ([`Durability::Lazy`]) never cause a sync of their
//! own: they are appended and applied, and become durable with the next batch that syncs. A batch
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

use ledger::planted::{Bug, is_planted};
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

/// When so many deadlines are due, the next batch is stamped with the last one of them.
pub const EXPIRIES_PER_BATCH_MAX: usize = 64;

/// By how much the stamp of a batch may be before the moment for their sake, in microseconds.
pub const STAMP_LAG_US_MAX: u64 = 1_000_000;

/// Whether a record must be durable before it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Synced before it is applied.
    Synced,
    /// Appended and applied; durable with the next sync.
    Lazy,
}

/// A command on its way into the log, with whatever its sender wants back beside the outcome.
#[derive(Debug)]
pub struct Submission<T> {
    /// What the kernel will decide on.
    pub command: Command,
    /// Its stored form, encoded by the sender.
    pub record: EncodedRecord,
    /// Whether its answer waits for a sync.
    pub durability: Durability,
    /// Handed back untouched.
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
    /// Its moment.
    pub stamp: Stamp,
    /// Everything up to here is durable.
    pub durable: LogIndex,
}

/// Why a batch was not committed.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The disk is full, for the log or for what must leave memory: nothing happened, and a later
    /// batch may succeed.
    #[error("the disk is full: nothing was recorded")]
    Full,
    /// The log's tail is unknown: this node must stop and recover.
    #[error("the log stopped: {0}")]
    Stopped(LogError),
    /// A record broke an invariant of the kernel: this node must stop (DESIGN contract 7).
    #[error("record {} broke an invariant, so nothing of its batch was acknowledged", .0.0)]
    Poison(LogIndex),
    /// What lives beside the kernel cannot be read or written: this node must stop. What is in the
    /// log stands.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<ApplyError> for CommitError {
    fn from(error: ApplyError) -> Self {
        match error {
            ApplyError::Poison(log_index) => Self::Poison(log_index),
            ApplyError::Store(error) => Self::Store(error),
        }
    }
}

/// Who writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writer {
    /// The node; 0 on a single machine.
    pub node: u32,
    /// Its life: above every earlier one in this log.
    pub epoch: u32,
}

/// The single writer of a log, and the state that the log adds up to.
#[derive(Debug)]
pub struct Sequencer<L> {
    log: L,
    state: State,
    clock: StampClock,
    builder: FrameBuilder,
    records_max: u32,
    effects: Effects,
    cold: Option<ColdTier>,
    writer: Writer,
    sequence: u64,
    counts: WriteCounts,
}

/// What was written since this sequencer was opened.
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

/// What a replay goes on from.
#[derive(Debug)]
pub struct ReplayStart {
    /// The state right after a batch; only what follows is replayed and observed. The caller has
    /// made sure that the log went through it; the digest in the first frame replayed tells if not.
    pub state: State,
    /// Records that decide nothing.
    pub quarantine: Quarantine,
    /// What rows of ended transfers leave for, in the replay and after. The store is empty or made
    /// from this log ([`is_of_log`]), and at least as far as the state.
    pub cold: Option<ColdTier>,
}

impl<L: Log> Sequencer<L> {
    /// Replays the log and continues it as `node`, in a new epoch. `observe` sees every command
    /// replayed, with its outcome, so that read models beside the kernel can follow.
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
            ReplayStart { state: State::new(), quarantine: Quarantine::default(), cold: None };
        Self::open_from(log, start, (node, now), observe).map_err(|failed| failed.1)
    }

    /// [`Sequencer::open`] from a state that the log has gone through, and with a store beside the
    /// kernel. With an error the log comes back, to be tried with another start.
    ///
    /// # Errors
    /// As [`Sequencer::open`], and [`ReplayError::Store`].
    pub fn open_from(
        mut log: L,
        start: ReplayStart,
        (node, now): (u32, ClockReading),
        observe: &mut dyn FnMut(&AppliedCommand<'_>),
    ) -> Result<Self, Box<(L, ReplayError)>> {
        let (replayed, cold) = match replay::replay_from(&mut log, start, observe) {
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
            cold,
            writer,
            sequence: 1,
            counts: WriteCounts::default(),
        })
    }

    /// Puts at most so many records into a batch from now on, instead of as many as a frame holds.
    /// Small batches sync more often and answer no sooner: for measurements.
    pub fn limit_batches(&mut self, records_max: NonZeroU32) {
        self.records_max = records_max.get();
    }

    /// Commits one batch: moves as many submissions as a frame holds from the front of `waiting`
    /// to `batch`, which must be empty. With an error they are in `batch` too, to be refused.
    ///
    /// # Errors
    /// [`CommitError`]; none of the batch is applied, and none of it may be acknowledged.
    pub fn commit<T>(
        &mut self,
        waiting: &mut VecDeque<Submission<T>>,
        batch: &mut Vec<Submission<T>>,
        now: ClockReading,
    ) -> Result<Committed, CommitError> {
        assert!(!waiting.is_empty() && batch.is_empty(), "a batch is made of who waits");
        self.fill(waiting, batch);
        if self.cold.as_ref().is_some_and(ColdTier::is_stalled) {
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

    /// Between two batches, when nobody waits for an answer: gives what ended to the store, and
    /// lets go of what the store shows. Where no batch follows, [`Sequencer::next_maintenance_us`]
    /// says when to call again. Does nothing where there is no store.
    ///
    /// # Errors
    /// [`CommitError::Store`]: this node must stop.
    pub fn run_maintenance(&mut self, now: ClockReading) -> Result<(), CommitError> {
        let Some(cold) = &mut self.cold else { return Ok(()) };
        let at = MaintenancePause { durable: self.log.durable_end(), stamp: self.clock.at(now) };
        Ok(cold.run_maintenance(&mut self.state, at, WriteThrottle::Live)?)
    }

    /// Makes everything durable, and tells the store that it is: for whoever sets the state aside
    /// as it is now and needs both to reach as far.
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

    /// Microseconds until [`Sequencer::run_maintenance`] has something to do though nobody brings
    /// work: while something has ended and is in memory. `None` when it can wait for the next
    /// batch.
    pub fn next_maintenance_us(&self, now: ClockReading) -> Option<u64> {
        let cold = self.cold.as_ref()?;
        let wait = |due| self.clock.wait_us(now, due);
        cold.next_maintenance_us(&self.state, self.log.durable_end(), &wait)
    }

    /// Makes sure that the state knows a transfer as far as anybody does, for a question about it.
    ///
    /// # Errors
    /// [`CommitError::Store`]: this node must stop.
    pub fn prefetch(&mut self, id: &TransferId) -> Result<(), CommitError> {
        let Some(cold) = &mut self.cold else { return Ok(()) };
        Ok(cold.prefetch(&mut self.state, [id].into_iter())?)
    }

    /// Everything up to here is in the store; 0 where there is none.
    pub fn stored(&self) -> LogIndex {
        self.cold.as_ref().map_or(LogIndex(0), ColdTier::visible)
    }

    /// The store was given everything up to here; 0 where there is none.
    pub fn offered_to_store(&self) -> LogIndex {
        self.cold.as_ref().map_or(LogIndex(0), ColdTier::offered)
    }

    /// How often the store was asked.
    pub fn cold_counts(&self) -> ColdCounts {
        self.cold.as_ref().map(ColdTier::counts).unwrap_or_default()
    }

    /// Closes the log, for nothing will be appended for long.
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

    /// What the last batch brought about.
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

    /// Who writes.
    pub fn writer(&self) -> Writer {
        self.writer
    }

    /// What was written since the start.
    pub fn counts(&self) -> WriteCounts {
        self.counts
    }

    /// Microseconds until the earliest deadline is due, if any transfer is in flight.
    pub fn wait_us(&self, now: ClockReading) -> Option<u64> {
        self.state.next_deadline().map(|due| self.clock.wait_us(now, due))
    }

    /// The stamp of the next batch: now, or as much earlier that few deadlines fall due in one
    /// batch, so that who sent something in it need not wait for all of them. They do in the
    /// batches that follow at once ([`Sequencer::wait_us`]); time catches up meanwhile.
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
        while let Some(submission) = waiting.front() {
            if self.builder.count() == self.records_max
                || self.builder.push(&submission.record).is_err()
            {
                break;
            }
            batch.extend(waiting.pop_front());
        }
        assert!(!batch.is_empty(), "an empty frame has room for any record");
    }

    /// Seals what the builder holds as the frame after the log's end, and appends it.
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

    /// Syncs what was appended, unless nobody waits for that. A deadline that the stamp meets ends
    /// its transfer in this batch, whatever the batch is made of: nobody may hear of that end
    /// before it is durable.
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

    /// Applies what was appended last.
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
        let beside = (&mut self.effects, &mut self.cold);
        replay::apply(&mut self.state, &header, commands.clone(), beside)?;
        assert_eq!(self.effects.outcomes.len(), commands.len(), "each command has an outcome");
        if let Some(cold) = &mut self.cold {
            let mark = StoreMark { log_index: self.state.log_index(), chain: self.log.chain() };
            cold.collect_batch(commands, (&self.state, &self.effects), mark);
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

/// Where a batch comes from, and when.
#[derive(Clone, Copy, Debug)]
struct BatchOrigin {
    writer: Writer,
    sequence: u64,
    stamp: Stamp,
    wall: Stamp,
}
