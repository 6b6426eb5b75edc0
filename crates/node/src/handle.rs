//! Access to the running node for every other thread, and the values that it shares.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use ledger::{AccountId, Amount, Counters, FspName, LogIndex, Stamp, State, TransferId};
use ports::{PartyRow, RecordReader, StoreError};
use record::frame::Tail;
use sequencer::{ColdCounts, WriteCounts};

use crate::cluster::Cluster;
use crate::directory::Directory;
use crate::inbox::{Inbox, Prefetch, ReadRequest};
use crate::latency_trace::{LatencyTrace, monotonic_ns};
use crate::mailbox::Mailboxes;
use crate::participants_view::ParticipantsView;
use crate::position_jumps::PositionJumps;
use crate::record_reader::{ReadFailure, TrackedReader};
use crate::shared_value::SharedValue;
use crate::stage_times::StageTimes;
use crate::stall::{Progress, Stall};
use crate::submission::{Submission, SubmissionRefused};

/// Status and gauges of the node.
#[derive(Clone, Debug, Default)]
pub struct NodeStatus {
    /// Bytes, records and syncs since the start.
    pub counts: WriteCounts,
    /// The kernel's counters.
    pub counters: Counters,
    /// Last record applied.
    pub log_index: LogIndex,
    /// Stamp of the last batch.
    pub stamp: Stamp,
    /// Transfers in flight.
    pub in_flight: u64,
    /// Final transfers.
    pub ended: u64,
    /// Final transfers with their rows in memory.
    pub hot: u64,
    /// Log index up to which the cold store is complete; 0 without a store.
    pub stored: LogIndex,
    /// Reads of the cold store since the start.
    pub cold: ColdCounts,
    /// Notices owed.
    pub owed: u64,
    /// Dead letters.
    pub dead: u64,
    /// The reason why the log stopped, if it did.
    pub stopped: Option<String>,
}

/// The faults found by the last sample of [`crate::stall::StallDetector`].
#[derive(Clone, Default)]
pub(crate) struct NodeFaults {
    pub(crate) stalls: Arc<[Stall]>,
    pub(crate) is_full: bool,
}

/// The health of a node.
#[derive(Clone, Debug)]
pub struct NodeHealth {
    /// The reason why the log stopped, if it did.
    pub stopped: Option<String>,
    /// Stages that had work and made no progress at the last sample.
    pub stalls: Arc<[Stall]>,
    /// Whether the log's disk is full: commands are refused.
    pub is_full: bool,
    /// The first record that could not be read, until a later read of it succeeds.
    pub unread: Option<ReadFailure>,
}

impl NodeHealth {
    /// Whether the log accepts nothing: it has stopped, its disk is full, or it is stalled.
    #[must_use]
    pub fn is_log_down(&self) -> bool {
        self.stopped.is_some() || self.is_full || self.stalls.iter().any(Stall::is_log)
    }

    /// Whether every part works.
    #[must_use]
    pub fn is_well(&self) -> bool {
        !self.is_log_down() && self.stalls.is_empty()
    }

    /// The fault of the log or the store, if any.
    #[must_use]
    pub fn storage_fault(&self) -> Option<String> {
        let stored = |one: &&Stall| one.is_log() || one.stage == "store";
        let stalled = || self.stalls.iter().find(stored).map(|one| one.detail.clone());
        let unread = || self.unread.as_ref().map(|unread| unread.why.clone());
        let full = || self.is_full.then(|| "the disk is full: commands are refused".to_owned());
        self.stopped.clone().or_else(stalled).or_else(full).or_else(unread)
    }
}

impl<M> Shared<M> {
    /// The start of a batch, if the latency trace or the I/O threads need it.
    pub(crate) fn batch_start_ns(&self) -> Option<u64> {
        let reports = self.gauges.reports_batches.load(Ordering::Relaxed);
        self.latency_trace.now_ns().or_else(|| reports.then(monotonic_ns))
    }
}

pub(crate) struct Shared<M> {
    pub(crate) inbox: Inbox<M>,
    pub(crate) mailboxes: Mailboxes<M>,
    pub(crate) status: Mutex<NodeStatus>,
    pub(crate) view: SharedValue<ParticipantsView>,
    pub(crate) directory: Directory,
    pub(crate) reader: Arc<TrackedReader>,
    pub(crate) latency_trace: Arc<LatencyTrace>,
    pub(crate) stage_times: Arc<StageTimes>,
    pub(crate) gauges: NodeGauges,
    pub(crate) position_jumps: PositionJumps,
    /// Faults at the last sample.
    pub(crate) faults: RwLock<NodeFaults>,
    /// [`Handle::first_lease_us`].
    pub(crate) first_lease_us: u64,
    /// The nodes of a shared log, as this node sees them.
    pub(crate) cluster: Mutex<Option<Cluster>>,
}

/// Counters that the sequencer's thread publishes, with one store per turn or batch.
pub(crate) struct NodeGauges {
    pub(crate) turns: AtomicU64,
    pub(crate) committed: AtomicU64,
    pub(crate) refused_full: AtomicU64,
    pub(crate) offered_to_store: AtomicU64,
    /// [`Progress::due_us`]; `u64::MAX` for none.
    pub(crate) due_us: AtomicU64,
    /// [`Progress::deadline`]; `u64::MAX` for none.
    pub(crate) deadline: AtomicU64,
    /// [`Progress::last_message_us`]; `u64::MAX` for none.
    pub(crate) last_message_us: AtomicU64,
    /// Deadlines are ignored: see [`Handle::inject_no_ticks`].
    pub(crate) no_ticks: AtomicBool,
    /// See [`Handle::report_batch_times`].
    pub(crate) reports_batches: AtomicBool,
}

impl NodeGauges {
    /// The gauges of a node that starts after this record.
    pub(crate) fn starting_after(last: LogIndex) -> Self {
        Self {
            turns: AtomicU64::new(0),
            committed: AtomicU64::new(last.0),
            refused_full: AtomicU64::new(0),
            offered_to_store: AtomicU64::new(0),
            due_us: AtomicU64::new(u64::MAX),
            deadline: AtomicU64::new(u64::MAX),
            last_message_us: AtomicU64::new(u64::MAX),
            no_ticks: AtomicBool::new(false),
            reports_batches: AtomicBool::new(false),
        }
    }

    /// The earliest deadline, and its due time on the node's monotonic clock.
    pub(crate) fn publish_due(&self, due: Option<(Stamp, u64)>) {
        let (deadline, due_us) = due.unwrap_or((Stamp(u64::MAX), u64::MAX));
        self.deadline.store(deadline.0, Ordering::Relaxed);
        self.due_us.store(due_us, Ordering::Relaxed);
    }
}

/// Access to the running node, for any thread.
pub struct Handle<M> {
    pub(crate) shared: Arc<Shared<M>>,
}

impl<M> Clone for Handle<M> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<M: Send + Sync + 'static> Handle<M> {
    /// Submits all of `submissions`, in order. Submissions without room in the inbox stay in the
    /// vector.
    ///
    /// # Errors
    /// [`SubmissionRefused`]: the inbox is full or closed. The remaining submissions have no
    /// effect.
    pub fn submit(&self, submissions: &mut Vec<Submission<M>>) -> Result<(), SubmissionRefused> {
        self.shared.inbox.submit(submissions)
    }

    /// Runs a query on the state after everything submitted before. On a shared log the state also
    /// includes everything that any node had answered before. The query runs on the sequencer's
    /// thread and must be short.
    ///
    /// # Errors
    /// [`SubmissionRefused`]: too many queries are waiting, or the node has stopped.
    pub fn ask(
        &self,
        query: impl FnOnce(&State) + Send + 'static,
    ) -> Result<(), SubmissionRefused> {
        let ask = Box::new(|_: &Tail, state: &State| query(state));
        self.shared.inbox.ask(ReadRequest { about: Prefetch::Anything, is_fresh: true, ask })
    }

    /// Like [`Handle::ask`], on this node's current state, which may be older than that of other
    /// nodes.
    ///
    /// # Errors
    /// As [`Handle::ask`].
    pub fn ask_local(
        &self,
        query: impl FnOnce(&State) + Send + 'static,
    ) -> Result<(), SubmissionRefused> {
        let ask = Box::new(|_: &Tail, state: &State| query(state));
        self.shared.inbox.ask(ReadRequest { about: Prefetch::Anything, is_fresh: false, ask })
    }

    /// Like [`Handle::ask_local`], with the tail of the log. The whole log is durable, and the
    /// store receives all of it soon, even without a further batch.
    ///
    /// # Errors
    /// As [`Handle::ask`].
    pub fn ask_durable(
        &self,
        query: impl FnOnce(&Tail, &State) + Send + 'static,
    ) -> Result<(), SubmissionRefused> {
        let ask = Box::new(query);
        self.shared.inbox.ask(ReadRequest { about: Prefetch::Everything, is_fresh: false, ask })
    }

    /// Like [`Handle::ask`], for a query about a transfer. Its row is prefetched from the cold
    /// store if it was evicted.
    ///
    /// # Errors
    /// As [`Handle::ask`].
    pub fn ask_about(
        &self,
        transfer: TransferId,
        query: impl FnOnce(&State) + Send + 'static,
    ) -> Result<(), SubmissionRefused> {
        let ask = Box::new(|_: &Tail, state: &State| query(state));
        self.shared.inbox.ask(ReadRequest {
            about: Prefetch::Transfer(transfer),
            is_fresh: true,
            ask,
        })
    }

    /// Like [`Handle::ask_local`], for a query about some transfers, whose rows are prefetched.
    /// They are read between two batches, so the caller limits their number.
    ///
    /// # Errors
    /// As [`Handle::ask`].
    pub fn ask_local_about(
        &self,
        transfers: Vec<TransferId>,
        query: impl FnOnce(&State) + Send + 'static,
    ) -> Result<(), SubmissionRefused> {
        let ask = Box::new(|_: &Tail, state: &State| query(state));
        let about = Prefetch::Transfers(transfers);
        self.shared.inbox.ask(ReadRequest { about, is_fresh: false, ask })
    }

    /// The change of a position that no transfer has made, by the operator or a settlement, since
    /// the last call. A query on the sequencer's thread that calls it sees exactly these changes.
    #[must_use]
    pub fn take_position_jump(&self, position: AccountId) -> Amount {
        self.shared.position_jumps.take(position)
    }

    /// The participants after the last change, if they changed since `generation`, which is
    /// updated. Costs one atomic load if they did not.
    #[must_use]
    pub fn view_since(&self, generation: &mut u64) -> Option<Arc<ParticipantsView>> {
        self.shared.view.since(generation)
    }

    /// The participants after the last change.
    #[must_use]
    pub fn view(&self) -> Arc<ParticipantsView> {
        self.shared.view.newest()
    }

    /// Looks up an identifier in the party directory. May read the disk.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be read. The party's FSP is then unknown.
    pub fn find_party(
        &self,
        id_type: &str,
        id: &str,
        sub_id: Option<&str>,
    ) -> Result<PartyRow, StoreError> {
        self.shared.directory.find(id_type, id, sub_id)
    }

    /// The cold store, for queries.
    #[must_use]
    pub fn store(&self) -> Option<Arc<dyn ports::ColdStore>> {
        self.shared.directory.store().cloned()
    }

    /// Approximate bytes of the cold store on disk.
    #[must_use]
    pub fn store_bytes(&self) -> u64 {
        self.shared.directory.store_bytes()
    }

    /// Index of the last decided record. A client that got an answer finds its record at or below
    /// it. [`Handle::status`] may lag by some records.
    #[must_use]
    pub fn committed(&self) -> LogIndex {
        LogIndex(self.shared.gauges.committed.load(Ordering::Acquire))
    }

    /// The node's status after its last batch.
    #[must_use]
    pub fn status(&self) -> NodeStatus {
        self.shared.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on, each mailbox gets the times of a batch before its replies.
    pub fn report_batch_times(&self) {
        self.shared.gauges.reports_batches.store(true, Ordering::Relaxed);
    }

    /// Durations of the stages of the sequencer's thread.
    #[must_use]
    pub fn stage_times(&self) -> &StageTimes {
        &self.shared.stage_times
    }

    /// The progress of the sequencer's thread, for [`crate::stall::StallDetector`].
    #[must_use]
    pub fn progress(&self) -> Progress {
        let Shared { inbox, gauges, directory, .. } = &*self.shared;
        let moment = |at: &AtomicU64| Some(at.load(Ordering::Relaxed)).filter(|at| *at != u64::MAX);
        // Read first, so that rows offered after this sample do not count as work that waited
        // before it.
        let offered = gauges.offered_to_store.load(Ordering::Relaxed);
        Progress {
            busy: inbox.is_busy(),
            turns: gauges.turns.load(Ordering::Relaxed),
            committed: gauges.committed.load(Ordering::Acquire),
            refused_full: gauges.refused_full.load(Ordering::Relaxed),
            store_fails: directory.store().is_some_and(|store| store.is_failing()),
            store_is_damaged: directory.store().is_some_and(|store| store.is_damaged()),
            stored: directory.store().map_or(offered, |store| store.mark().log_index.0),
            offered_to_store: offered,
            due_us: moment(&gauges.due_us),
            deadline: moment(&gauges.deadline).map(Stamp),
            last_message_us: moment(&gauges.last_message_us),
        }
    }

    /// Publishes the stalls and whether the log's disk is full, for [`Handle::health`].
    pub fn publish_faults(&self, stalls: Vec<Stall>, is_full: bool) {
        let faults = NodeFaults { stalls: stalls.into(), is_full };
        *self.shared.faults.write().unwrap_or_else(PoisonError::into_inner) = faults;
    }

    /// The node's health. Every report about it comes from here.
    #[must_use]
    pub fn health(&self) -> NodeHealth {
        let faults = self.shared.faults.read().unwrap_or_else(PoisonError::into_inner).clone();
        let stopped = self.status().stopped;
        NodeHealth {
            stopped,
            stalls: faults.stalls,
            is_full: faults.is_full,
            unread: self.unread(),
        }
    }

    /// Injects a fault for tests of the stall detection: from now on deadlines are met only by
    /// batches of other commands.
    pub fn inject_no_ticks(&self) {
        self.shared.gauges.no_ticks.store(true, Ordering::Relaxed);
    }

    /// Monotonic time until which attempts may begin before the first
    /// [`crate::MailboxEvent::Lease`]; `u64::MAX` if the log has only this node.
    #[must_use]
    pub fn first_lease_us(&self) -> u64 {
        self.shared.first_lease_us
    }

    /// The nodes of a shared log, as this node sees them; `None` if the log has only this node.
    #[must_use]
    pub fn cluster(&self) -> Option<Cluster> {
        self.shared.cluster.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The participants whose callbacks this node sends; `None` if it sends all, because the log
    /// has only this node.
    #[must_use]
    pub fn served(&self) -> Option<HashSet<FspName>> {
        let cluster = self.shared.cluster.lock().unwrap_or_else(PoisonError::into_inner);
        let Cluster { me, lanes, .. } = cluster.as_ref()?;
        let mine = lanes.iter().filter(|lane| lane.node == *me);
        Some(mine.map(|lane| lane.participant).collect())
    }

    /// Records by log index, for redelivery and cold reads.
    #[must_use]
    pub fn reader(&self) -> Arc<dyn RecordReader> {
        Arc::clone(&self.shared.reader) as _
    }

    /// The first record that [`Handle::reader`] could not read, until a later read of it succeeds.
    #[must_use]
    pub fn unread(&self) -> Option<ReadFailure> {
        self.shared.reader.unread()
    }

    /// The latency trace.
    #[must_use]
    pub fn latency_trace(&self) -> &Arc<LatencyTrace> {
        &self.shared.latency_trace
    }

    /// Submissions refused because the inbox was full.
    #[must_use]
    pub fn refused_count(&self) -> u64 {
        self.shared.inbox.refused_count()
    }
}
