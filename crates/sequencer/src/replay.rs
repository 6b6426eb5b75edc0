//! Replay: decides the log's commands again. The same log gives the same state; otherwise replay
//! stops and names the record.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ledger::{
    ApplyStep, Batch, Command, Digest, Effects, LogIndex, Outcome, Stamp, State, rules_known,
};
use ports::{Log, LogError, StoreError, StoreMark};
use record::FieldError;
use record::frame::{Frame, Record};

use crate::ReplayStart;
use crate::cold_tier::{self, ColdTier, WriteThrottle};

/// One command as it was decided in a replay.
#[derive(Clone, Copy, Debug)]
pub struct AppliedCommand<'a> {
    /// The stored record.
    pub record: &'a Record<'a>,
    /// Its command.
    pub command: &'a Command,
    /// Its outcome.
    pub outcome: Outcome,
    /// The stamp of its batch.
    pub stamp: Stamp,
}

/// Records that operators have quarantined: each broke an invariant. A quarantined record only
/// advances time (DESIGN contract 7).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quarantine(BTreeMap<LogIndex, Digest>);

impl Quarantine {
    /// The records at these log indexes, with their digests ([`Record::digest`]).
    #[must_use]
    pub fn of(records: impl IntoIterator<Item = (LogIndex, Digest)>) -> Self {
        Self(records.into_iter().collect())
    }

    /// Whether the record is quarantined.
    ///
    /// # Errors
    /// [`ReplayError::NotTheQuarantined`] when the record at its index has another digest.
    pub(crate) fn holds(&self, record: &Record<'_>) -> Result<bool, ReplayError> {
        match self.0.get(&record.log_index) {
            None => Ok(false),
            Some(digest) if *digest == record.digest() => Ok(true),
            Some(_) => Err(ReplayError::NotTheQuarantined { log_index: record.log_index }),
        }
    }
}

/// The result of a replay.
#[derive(Debug)]
pub struct ReplayResult {
    /// The state after the last record.
    pub state: State,
    /// Batches replayed.
    pub batches: u64,
    /// Records replayed.
    pub records: u64,
}

/// An error of a replay.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// This version cannot read a record.
    #[error("record {}: {error}; was it written by a newer version?", .log_index.0)]
    Unreadable {
        /// The record.
        log_index: LogIndex,
        /// The decoding error.
        error: FieldError,
    },
    /// The log continues with a rules version that this program does not know.
    #[error(
        "record {}: needs rules version {version}, but this program knows versions up to {}; start \
        the newer program that wrote the log (an activated version cannot be reverted)",
        .log_index.0,
        rules_known()
    )]
    UnknownRules {
        /// First record of the batch.
        log_index: LogIndex,
        /// The rules version.
        version: u32,
    },
    /// A record breaks an invariant of the kernel, as it did when it was written.
    #[error("record {} breaks an invariant; see the message above", .log_index.0)]
    InvariantBroken {
        /// The record.
        log_index: LogIndex,
    },
    /// The quarantine names another record with this index.
    #[error(
        "record {}: digest does not match quarantine.json, which was changed or belongs to another \
        log; restore the original file",
        .log_index.0
    )]
    NotTheQuarantined {
        /// The record.
        log_index: LogIndex,
    },
    /// The cold store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A batch was decided differently when it was written.
    #[error(
        "replay differs from the live decisions: the batch that ends at record {} had another \
        outcome",
        .log_index.0
    )]
    Diverged {
        /// Last record of the batch that differs.
        log_index: LogIndex,
    },
    /// A frame has the outcome digest of an earlier record than the last one before it.
    #[error(
        "the frame after record {} confirms the outcomes only up to record {}, not those of the \
        batches in between",
        .log_index.0,
        .applied.0
    )]
    Unconfirmed {
        /// Last record before the frame.
        log_index: LogIndex,
        /// The record that its digest covers.
        applied: LogIndex,
    },
}

/// Replays the whole log. `observe` sees each command after its batch was decided.
///
/// # Errors
/// [`ReplayError`] at the first record that cannot be read or was decided differently.
pub fn replay(
    log: &mut impl Log,
    observe: &mut dyn FnMut(&AppliedCommand<'_>),
) -> Result<ReplayResult, ReplayError> {
    let start =
        ReplayStart { state: State::new(), quarantine: Quarantine::default(), cold_tier: None };
    replay_from(log, start, observe).map(|(replayed, _)| replayed)
}

pub(crate) fn replay_from(
    log: &mut impl Log,
    start: ReplayStart,
    observe: &mut dyn FnMut(&AppliedCommand<'_>),
) -> Result<(ReplayResult, Option<ColdTier>), ReplayError> {
    let mut replay = Replay::from(start);
    let first = LogIndex(replay.state().log_index().0 + 1);
    let mut failed = None;
    log.replay(first, &mut |frame| {
        let step = replay.apply(frame, &mut |_, _, _| {});
        step.map_err(|error| {
            failed = Some(error);
            ports::StopReading
        })?;
        replay.observe(frame, observe);
        Ok(())
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    replay.close()?;
    Ok((replay.replayed, replay.cold_tier))
}

/// Digest of a frame that carries none. The switch always writes one; hand-made logs may not.
const NO_DIGEST: (LogIndex, Digest) = (LogIndex(0), Digest([0; 32]));

/// A replay that is fed frame by frame, so that the caller can inspect the state in between.
#[derive(Debug)]
pub struct Replay {
    replayed: ReplayResult,
    /// Batches whose digest the next frame has confirmed.
    confirmed: u64,
    /// Whether the last frame carried no digest.
    lacks_digest: bool,
    commands: Vec<Command>,
    effects: Effects,
    quarantine: Quarantine,
    cold_tier: Option<ColdTier>,
}

impl Default for Replay {
    fn default() -> Self {
        Self::new()
    }
}

impl Replay {
    /// A replay before the first frame.
    #[must_use]
    pub fn new() -> Self {
        Self::without(Quarantine::default())
    }

    /// A replay in which quarantined records decide nothing.
    #[must_use]
    pub fn without(quarantine: Quarantine) -> Self {
        Self::from(ReplayStart { state: State::new(), quarantine, cold_tier: None })
    }

    /// A replay that continues from a state.
    #[must_use]
    pub fn from(start: ReplayStart) -> Self {
        let ReplayStart { state, quarantine, mut cold_tier } = start;
        if state.log_index() == LogIndex(0) {
            cold_tier.iter_mut().for_each(ColdTier::begin_replay);
        }
        let replayed = ReplayResult { state, batches: 0, records: 0 };
        let (commands, effects) = (Vec::new(), Effects::default());
        Self {
            replayed,
            confirmed: 0,
            lacks_digest: false,
            commands,
            effects,
            quarantine,
            cold_tier,
        }
    }

    /// Decides the next frame again. `watch` is called as in [`State::apply_watched`].
    ///
    /// # Errors
    /// [`ReplayError`] except [`ReplayError::Log`]. After any error the replay must not be
    /// continued.
    pub fn apply(
        &mut self,
        frame: &Frame<'_>,
        watch: &mut impl FnMut(ApplyStep<'_>, &State, &Effects),
    ) -> Result<(), ReplayError> {
        self.apply_until(frame, frame.header().last(), watch)
    }

    /// Like [`Replay::apply`], up to the record `last` of the frame. The state is then that of a
    /// log that ends there. No further frame can be applied.
    ///
    /// # Errors
    /// As [`Replay::apply`].
    pub fn apply_until(
        &mut self,
        frame: &Frame<'_>,
        last: LogIndex,
        watch: &mut impl FnMut(ApplyStep<'_>, &State, &Effects),
    ) -> Result<(), ReplayError> {
        let header = frame.header();
        let state = &mut self.replayed.state;
        if rules_known() < header.batch.rules_version {
            let version = header.batch.rules_version;
            return Err(ReplayError::UnknownRules { log_index: header.first, version });
        }
        begin(state, header.batch.rules_version);
        let recorded = (header.batch.applied, header.batch.outcome_digest);
        let has_digest = check_digest(state, recorded)?;
        self.lacks_digest = !has_digest;
        self.confirmed += u64::from(has_digest && 0 < state.log_index().0);
        self.commands.clear();
        let wanted = last.0.saturating_sub(header.first.0).saturating_add(1);
        for record in frame.records().take(usize::try_from(wanted).unwrap_or(usize::MAX)) {
            self.commands.push(match self.quarantine.holds(&record)? {
                true => Command::Tick,
                false => read_command(&record)?,
            });
        }
        let batch = Batch {
            first: header.first,
            stamp: header.batch.stamp,
            node: header.batch.node,
            epoch: header.batch.epoch,
            sequence: header.batch.sequence,
        };
        self.effects.clear();
        apply_watched(
            state,
            &batch,
            &self.commands,
            (&mut self.effects, &mut self.cold_tier),
            watch,
        )?;
        if let Some(cold_tier) = &mut self.cold_tier {
            let mark = StoreMark { log_index: header.last(), chain: frame.chain() };
            cold_tier.collect_batch(self.commands.iter(), (state, &self.effects), mark);
            let at =
                cold_tier::MaintenancePause { durable: mark.log_index, stamp: header.batch.stamp };
            cold_tier.run_maintenance(state, at, WriteThrottle::Replay)?;
        }
        self.replayed.batches += 1;
        self.replayed.records += self.commands.len() as u64;
        Ok(())
    }

    /// Ends the replay: flushes everything to the cold store and waits until it is visible. The
    /// store is then complete up to the last frame applied.
    ///
    /// # Errors
    /// [`ReplayError::Store`].
    pub fn close(&mut self) -> Result<(), ReplayError> {
        Ok(self.cold_tier.iter_mut().try_for_each(ColdTier::end_replay)?)
    }

    /// Evicts every row that the cold store has: the state keeps only the rows that no store has.
    pub fn evict_all(&mut self) {
        if let Some(cold_tier) = &mut self.cold_tier {
            cold_tier.evict_all(&mut self.replayed.state);
        }
    }

    /// Calls `observe` for each command of the last applied frame, which is passed again, with its
    /// outcome.
    pub fn observe(&self, frame: &Frame<'_>, observe: &mut dyn FnMut(&AppliedCommand<'_>)) {
        let stamp = frame.header().batch.stamp;
        let decided = self.commands.iter().zip(&self.effects.outcomes);
        for (record, (command, outcome)) in frame.records().zip(decided) {
            observe(&AppliedCommand { record: &record, command, outcome: *outcome, stamp });
        }
    }

    /// The state after the last frame applied.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.replayed.state
    }

    /// The effects of the last frame.
    #[must_use]
    pub fn effects(&self) -> &Effects {
        &self.effects
    }

    /// Batches applied so far.
    #[must_use]
    pub fn batches(&self) -> u64 {
        self.replayed.batches
    }

    /// Records applied so far.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.replayed.records
    }

    /// Batches whose outcomes the next frame confirmed. No frame confirms the last batch of a log.
    #[must_use]
    pub fn confirmed(&self) -> u64 {
        self.confirmed
    }

    /// Whether the last frame carried no digest. Digests are chained, so that one digest also
    /// confirms all earlier frames without one.
    #[must_use]
    pub fn last_frame_lacks_digest(&self) -> bool {
        self.lacks_digest
    }
}

/// Puts the rules of a log in force, if this is its first batch.
pub(crate) fn begin(state: &mut State, rules_version: u32) {
    if state.log_index() == LogIndex(0) {
        state.begin_under(rules_version);
    }
}

/// Compares a frame's digest with the state. Returns whether the frame carries one.
fn check_digest(state: &State, recorded: (LogIndex, Digest)) -> Result<bool, ReplayError> {
    let log_index = state.log_index();
    match recorded {
        (applied, digest) if (applied, digest) == (log_index, *state.digest()) => Ok(true),
        (applied, _) if applied == log_index => Err(ReplayError::Diverged { log_index }),
        NO_DIGEST => Ok(false),
        (applied, _) => Err(ReplayError::Unconfirmed { log_index, applied }),
    }
}

/// The reason why a batch was not applied; the state must not be used again.
#[derive(Debug)]
pub(crate) enum ApplyError {
    /// This record broke an invariant.
    InvariantBroken(LogIndex),
    /// A row that the batch needs cannot be read.
    Store(StoreError),
}

impl From<ApplyError> for ReplayError {
    fn from(error: ApplyError) -> Self {
        match error {
            ApplyError::InvariantBroken(log_index) => Self::InvariantBroken { log_index },
            ApplyError::Store(error) => Self::Store(error),
        }
    }
}

/// Applies a batch: prefetches the evicted rows that it needs, then decides it. Live operation and
/// replay both use this function.
pub(crate) fn apply<'a>(
    state: &mut State,
    batch: &Batch,
    commands: impl IntoIterator<Item = &'a Command> + Clone,
    outputs: (&mut Effects, &mut Option<ColdTier>),
) -> Result<(), ApplyError> {
    apply_watched(state, batch, commands, outputs, &mut |_, _, _| {})
}

fn apply_watched<'a>(
    state: &mut State,
    batch: &Batch,
    commands: impl IntoIterator<Item = &'a Command> + Clone,
    (effects, cold_tier): (&mut Effects, &mut Option<ColdTier>),
    watch: &mut impl FnMut(ApplyStep<'_>, &State, &Effects),
) -> Result<(), ApplyError> {
    if let Some(cold_tier) = cold_tier {
        let ids = commands.clone().into_iter().flat_map(Command::rows);
        cold_tier.prefetch(state, ids).map_err(ApplyError::Store)?;
    }
    let mut recording =
        cold_tier.as_mut().filter(|cold_tier| cold_tier.records_decisions_after(state.log_index()));
    let applied = catch_unwind(AssertUnwindSafe(|| {
        state.apply_watched(batch, commands, effects, &mut |moment, state, effects| {
            if let Some(cold_tier) = &mut recording {
                cold_tier.watch(moment, state, effects);
            }
            watch(moment, state, effects);
        });
    }));
    applied.map_err(|_| {
        ApplyError::InvariantBroken(LogIndex(state.log_index().0.max(batch.first.0 - 1) + 1))
    })
}

pub(crate) fn read_command(record: &Record<'_>) -> Result<Command, ReplayError> {
    record::command::read_fields(record.kind, record.version, record.fields)
        .map_err(|error| ReplayError::Unreadable { log_index: record.log_index, error })
}
