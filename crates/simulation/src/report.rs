//! The report of a run.

use std::collections::BTreeSet;
use std::fmt;

use ledger::{Counters, Digest, Outcome};

use crate::workload::settlement::SettlementCounts;

/// Counts of what happened in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunCounts {
    /// Events.
    pub events: u64,
    /// Transfers that payers made.
    pub transfers: u64,
    /// Bulk transfers that payers made.
    pub bulks: u64,
    /// Entries of the party directory that were compared.
    pub look_ups: u64,
    /// FSPs named as losing an entry of the party directory.
    pub entries_lost: u64,
    /// Requests sent to the hub.
    pub requests: u64,
    /// Attempts to deliver a notice.
    pub attempts: u64,
    /// Notices that an FSP received once more.
    pub repeats: u64,
    /// Batches committed.
    pub batches: u64,
    /// Records committed.
    pub records: u64,
    /// Times that the machine lost its power.
    pub power_cuts: u64,
    /// Times that the process died alone.
    pub kills: u64,
    /// Times that the log stopped.
    pub stops: u64,
    /// Of these, with the power gone within an operation of the disk.
    pub cut_within: u64,
    /// Of these, for a sync that failed.
    pub syncs_failed: u64,
    /// Times that the hub did not come up at the first attempt.
    pub failed_starts: u64,
    /// Records cut off the log by a recovery.
    pub records_lost: u64,
    /// Batches refused by a full disk.
    pub full: u64,
    /// Requests refused by a full inbox.
    pub refused: u64,
    /// Notices sent from the log rather than from memory.
    pub reloads: u64,
    /// Prepares withdrawn before they were sent.
    pub withdrawn: u64,
    /// Times that a notice began to wait for an address.
    pub parked: u64,
    /// Notices given up while they waited.
    pub lapsed: u64,
    /// Pauses that FSPs asked for.
    pub pauses_asked: u64,
    /// Dead letters sent again.
    pub redelivered: u64,
    /// Snapshots taken.
    pub snapshots: u64,
    /// Attempts to take one that failed.
    pub snapshots_failed: u64,
    /// Starts that continued from a snapshot.
    pub snapshot_starts: u64,
    /// Segments packed or handed over to an archive.
    pub archived: u64,
    /// Looks of the archiver that ended in a failure.
    pub archiving_failed: u64,
    /// Transfers that a batch asked for and that were read from the store.
    pub prefetched: u64,
    /// Faults that struck.
    pub faults: u32,
    /// Acts of all workloads of operators after the onboarding.
    pub acts: u32,
    /// First caps in a currency that were requested while an account in another currency was
    /// inactive.
    pub begun_while_off: u64,
    /// Ends of outflows that were asked for through the account of another currency.
    pub ends_misaddressed: u64,
    /// Windows and settlements.
    pub settlement: SettlementCounts,
    /// Times that the disk was slow.
    pub slow: u64,
    /// Messages that were lost.
    pub messages_lost: u64,
    /// Messages that came twice.
    pub messages_twice: u64,
    /// Jumps of the wall clock.
    pub clock_jumps: u64,
    /// Attempts that an FSP was slow to answer.
    pub slow_answers: u64,
    /// Attempts that were answered with a status that is no 2xx.
    pub refusals: u64,
    /// Attempts without an answer in time.
    pub silences: u64,
    /// Attempts without a connection.
    pub no_connections: u64,
    /// Attempts whose connection broke.
    pub broken_connections: u64,
    /// Copies of the disk in which a bit was flipped.
    pub bits_flipped: u64,
    /// Copies in which a sector was overwritten with another one's content.
    pub writes_misdirected: u64,
    /// Damaged copies of the disk that were refused.
    pub damage_refused: u64,
    /// Damaged copies whose damage lay in what a recovery drops.
    pub damage_harmless: u64,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// Counts of events.
    pub counts: RunCounts,
    /// The kernel's own counts at the end.
    pub counters: Counters,
    /// How often each outcome was decided, by number.
    pub outcomes: Vec<(Outcome, u64)>,
    /// Names of changes, each with an outcome that it had.
    pub changed: BTreeSet<(&'static str, Outcome)>,
    /// Virtual time from start to rest, in microseconds.
    pub virtual_us: u64,
    /// Digest of every event in order.
    pub trace: u64,
    /// Hash of the kernel's state at the end.
    pub state: Digest,
    /// The message of the failed assertion, if any.
    pub failure: Option<String>,
    /// The source location of the failed assertion; empty without a failure.
    pub place: String,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, counts, counters, .. } = self;
        write!(
            f,
            "seed {seed}: {} transfers ({} committed, {} aborted, {} expired, {} refused), {} \
             records in {} batches, {} attempts, {} power cuts, {} kills, {} stops, {} records \
             lost, {} windows closed, {} settlements settled, {} aborted, {} archived, {} \
             transfers settled at once, {} ms; trace {:016x}, state {}",
            counts.transfers,
            counters.committed,
            counters.aborted,
            counters.expired,
            counters.refused,
            counts.records,
            counts.batches,
            counts.attempts,
            counts.power_cuts,
            counts.kills,
            counts.stops,
            counts.records_lost,
            counts.settlement.windows_closed,
            counts.settlement.settled,
            counts.settlement.aborted,
            counts.settlement.archived,
            counts.settlement.at_once,
            self.virtual_us / 1_000,
            self.trace,
            &self.state.to_string()[..16],
        )
    }
}
