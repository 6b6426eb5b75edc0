//! Durations of the stages of the sequencer's thread, as histograms. The thread records them once
//! per batch, and the time from reservation to commit once per transfer.

use std::sync::OnceLock;

use ledger::{
    Command, CommittedTransfer, ErrorOutcome, Outcome, ParticipantIndex, Stamp, State,
    TransferMessage,
};
use metrics::{Counter, Exemplar, Exemplars, Histogram, PARTICIPANTS_MAX, participant_place};

/// The durations since the start.
#[derive(Debug, Default)]
pub struct StageTimes {
    /// Of each submission, from the inbox until the sequencer takes it.
    pub inbox: Histogram,
    /// Of each batch: writing it to the log.
    pub append: Histogram,
    /// Of each sync of the log.
    pub sync: Histogram,
    /// Of each batch: deciding its commands.
    pub apply: Histogram,
    /// Of each message about a transfer, by [`DecisionKind`].
    pub decisions: [DecisionTimes; DecisionKind::COUNT],
    /// Of each committed transfer, from its reservation to its commit, by the stamps of the
    /// batches.
    pub commit: Histogram,
    /// Transfers among [`StageTimes::commit`].
    pub commit_exemplars: Exemplars,
    /// Refused prepares.
    pub refused: RefusedPrepares,
}

/// Refused prepares since the start of the node, by sender and outcome.
///
/// Bounds: the first [`PARTICIPANTS_MAX`] participants of the registry have counters of their own,
/// which take memory with their first refusal; the others share those of the last place.
#[derive(Debug)]
pub struct RefusedPrepares(Box<[OnceLock<Box<[Counter]>>]>);

impl Default for RefusedPrepares {
    fn default() -> Self {
        Self((0..=PARTICIPANTS_MAX).map(|_| OnceLock::new()).collect())
    }
}

impl RefusedPrepares {
    /// Numbers other than 0, with the [`participant_place`] of the sender.
    pub fn counts(&self) -> impl Iterator<Item = (usize, ErrorOutcome, u64)> {
        let places = self.0.iter().enumerate();
        let counters = places.filter_map(|(at, counters)| Some((at, counters.get()?)));
        counters.flat_map(|(at, counters)| {
            let counts = ErrorOutcome::ALL.iter().zip(counters.iter().map(Counter::get));
            counts.filter(|(_, count)| *count != 0).map(move |(it, count)| (at, *it, count))
        })
    }

    /// Counts a prepare that was refused.
    fn add(&self, sender: ParticipantIndex, outcome: ErrorOutcome) {
        let counters = self.0[participant_place(sender.at())]
            .get_or_init(|| ErrorOutcome::ALL.iter().map(|_| Counter::default()).collect());
        let at = ErrorOutcome::ALL.iter().position(|known| *known == outcome);
        counters[at.expect("it is one of all")].add(1);
    }
}

/// Durations of the batches of a kind of message, once per message.
#[derive(Debug, Default)]
pub struct DecisionTimes {
    /// Writing the batch to the log, and its sync.
    pub write: Histogram,
    /// Deciding the batch.
    pub apply: Histogram,
    /// Both.
    pub total: Histogram,
}

/// A message about a transfer, and whether it had the effect that its sender wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionKind {
    /// A prepare that was reserved, or was sent again.
    PrepareAccepted,
    /// Another prepare.
    PrepareRefused,
    /// A fulfil that committed its transfer, or was sent again.
    FulfilAccepted,
    /// Another fulfil.
    FulfilRefused,
    /// An abort that ended its transfer, or was sent again.
    AbortAccepted,
    /// Another abort.
    AbortRefused,
}

impl DecisionKind {
    /// Number of kinds.
    pub const COUNT: usize = 6;

    /// The kind of a decided command; `None` if it is no message about a transfer.
    fn of(command: &Command, outcome: Outcome) -> Option<Self> {
        let (accepted, refused) = match command.message()? {
            TransferMessage::Prepare(_) => (Self::PrepareAccepted, Self::PrepareRefused),
            TransferMessage::Fulfil(_) => (Self::FulfilAccepted, Self::FulfilRefused),
            TransferMessage::Abort(_) => (Self::AbortAccepted, Self::AbortRefused),
        };
        let is_accepted = matches!(
            outcome,
            Outcome::PrepareReserved
                | Outcome::PrepareResentReserved
                | Outcome::PrepareResentCommitted
                | Outcome::PrepareResentAborted
                | Outcome::Committed
                | Outcome::ResponseResent
                | Outcome::Aborted
                | Outcome::AbortedWithUnknownCode
        );
        Some(if is_accepted { accepted } else { refused })
    }
}

/// Numbers of the decided commands of a batch, by [`DecisionKind`].
#[derive(Debug, Default)]
pub(crate) struct DecidedCommands([u64; DecisionKind::COUNT]);

impl DecidedCommands {
    /// Adds a command, and returns its kind.
    #[inline]
    pub(crate) fn add(&mut self, command: &Command, outcome: Outcome) -> Option<DecisionKind> {
        let kind = DecisionKind::of(command, outcome)?;
        self.0[kind as usize] += 1;
        Some(kind)
    }
}

impl StageTimes {
    /// Counts a command that is a refused prepare, by its sender.
    pub(crate) fn count_refusal(&self, state: &State, command: &Command, outcome: Outcome) {
        let Some(TransferMessage::Prepare(_)) = command.message() else { return };
        let Some(outcome) = ErrorOutcome::of(outcome) else { return };
        let source = command.message().map(TransferMessage::source);
        if let Some(sender) = source.and_then(|source| state.registry().sender(source)) {
            self.refused.add(sender, outcome);
        }
    }

    /// Records the decisions of a batch. `moments` are the start of its write, the end of its write
    /// and sync, and the end of its decisions.
    pub(crate) fn record_decisions(&self, decided: &DecidedCommands, moments: [u64; 3]) {
        let [began, written, applied] = moments;
        for (times, count) in self.decisions.iter().zip(decided.0).filter(|(_, count)| *count != 0)
        {
            times.write.record_times(written.saturating_sub(began), count);
            times.apply.record_times(applied.saturating_sub(written), count);
            times.total.record_times(applied.saturating_sub(began), count);
        }
    }

    /// Records the transfers that a batch committed.
    pub(crate) fn record_commits(&self, stamp: Stamp, committed: &[CommittedTransfer]) {
        for transfer in committed {
            let nanoseconds = stamp.0.saturating_sub(transfer.reserved_at.0).saturating_mul(1_000);
            self.commit.record(nanoseconds);
            let (trace, at_ms) = (transfer.trace, stamp.millis());
            self.commit_exemplars.record(&Exemplar { trace, nanoseconds, at_ms });
        }
    }
}
