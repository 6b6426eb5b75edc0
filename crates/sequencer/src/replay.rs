//! Replay: the log's commands, decided again. The same log gives the same state; where it does
//! not, the position is named and nothing goes on.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ledger::{Batch, Command, Effects, Outcome, Position, RULES_VERSION, State};
use ports::{Log, LogError};
use record::FieldError;
use record::frame::{Frame, Record};

/// One command as it was decided in a replay.
#[derive(Clone, Copy, Debug)]
pub struct Applied<'a> {
    /// The stored record.
    pub record: &'a Record<'a>,
    /// What it asked.
    pub command: &'a Command,
    /// What came of it.
    pub outcome: Outcome,
}

/// What a replay arrived at.
#[derive(Debug)]
pub struct Replayed {
    /// The state after the last record.
    pub state: State,
    /// Batches replayed.
    pub batches: u64,
    /// Records replayed.
    pub records: u64,
}

/// Why a log could not be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The log itself is not readable.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A record is not what this version can read.
    #[error("record {}: {error}; was it written by a newer version?", .position.0)]
    Unreadable {
        /// The record.
        position: Position,
        /// What is wrong with it.
        error: FieldError,
    },
    /// The log was decided by rules that this binary does not know.
    #[error(
        "record {} was decided by rules version {version}; this binary knows up to {RULES_VERSION}",
        .position.0
    )]
    UnknownRules {
        /// First record of the batch.
        position: Position,
        /// The rules it names.
        version: u32,
    },
    /// A record breaks an invariant of the kernel, as it did when it was written.
    #[error("record {} breaks an invariant; the message above says which", .position.0)]
    Poison {
        /// The record.
        position: Position,
    },
    /// A batch was decided differently when it was written.
    #[error(
        "replay differs from what was decided live: the batch that ends at record {} had another \
         outcome",
        .position.0
    )]
    Diverged {
        /// Last record of the batch that differs.
        position: Position,
    },
}

/// Replays the whole log. `observe` sees each command after its batch was decided.
///
/// # Errors
/// [`ReplayError`] at the first record that cannot be read or was decided differently.
pub fn replay(
    log: &mut impl Log,
    observe: &mut dyn FnMut(&Applied<'_>),
) -> Result<Replayed, ReplayError> {
    let mut replayed = Replayed { state: State::new(), batches: 0, records: 0 };
    let mut effects = Effects::default();
    let mut failed = None;
    log.replay(Position(1), &mut |frame| {
        let step = apply_frame(&mut replayed, &mut effects, frame, observe);
        step.map_err(|error| {
            failed = Some(error);
            ports::Stop
        })
    })?;
    match failed {
        Some(error) => Err(error),
        None => Ok(replayed),
    }
}

fn apply_frame(
    replayed: &mut Replayed,
    effects: &mut Effects,
    frame: &Frame<'_>,
    observe: &mut dyn FnMut(&Applied<'_>),
) -> Result<(), ReplayError> {
    let header = frame.header();
    let state = &mut replayed.state;
    if header.batch.rules_version > RULES_VERSION {
        let version = header.batch.rules_version;
        return Err(ReplayError::UnknownRules { position: header.first, version });
    }
    let known = header.batch.applied == state.position();
    if known && header.batch.outcome_digest != *state.digest() {
        return Err(ReplayError::Diverged { position: state.position() });
    }
    let commands = read_commands(frame)?;
    let batch = Batch {
        first: header.first,
        stamp: header.batch.stamp,
        node: header.batch.node,
        epoch: header.batch.epoch,
        sequence: header.batch.sequence,
    };
    effects.clear();
    apply(state, &batch, &commands, effects)
        .map_err(|position| ReplayError::Poison { position })?;
    for ((record, command), outcome) in frame.records().zip(&commands).zip(&effects.outcomes) {
        observe(&Applied { record: &record, command, outcome: *outcome });
    }
    replayed.batches += 1;
    replayed.records += commands.len() as u64;
    Ok(())
}

/// Applies a batch; a broken invariant is told by the position of the record that broke it, and
/// leaves a state that must not be used again.
pub(crate) fn apply<'a>(
    state: &mut State,
    batch: &Batch,
    commands: impl IntoIterator<Item = &'a Command>,
    effects: &mut Effects,
) -> Result<(), Position> {
    let applied = catch_unwind(AssertUnwindSafe(|| state.apply(batch, commands, effects)));
    applied.map_err(|_| Position(state.position().0.max(batch.first.0 - 1) + 1))
}

fn read_commands(frame: &Frame<'_>) -> Result<Vec<Command>, ReplayError> {
    frame
        .records()
        .map(|record| {
            record::command::read_fields(record.kind, record.version, record.fields)
                .map_err(|error| ReplayError::Unreadable { position: record.position, error })
        })
        .collect()
}
