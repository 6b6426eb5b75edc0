//! Durations of the stages of the sequencer's thread, as histograms. The thread records them once
//! per batch, and the time from reservation to commit once per transfer.

use ledger::{CommittedTransfer, Stamp};
use metrics::{Exemplar, Exemplars, Histogram};

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
    /// Of each committed transfer, from its reservation to its commit, by the stamps of the
    /// batches.
    pub commit: Histogram,
    /// Transfers among [`StageTimes::commit`].
    pub commit_exemplars: Exemplars,
}

impl StageTimes {
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
