//! Access to the running node for every other thread, and the values that it shares.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use ledger::{Counters, LogIndex, Stamp, State, TransferId};
use ports::{PartyRow, RecordReader, StoreError};
use record::frame::Tail;
use sequencer::{ColdCounts, WriteCounts};

use crate::cluster::Cluster;
use crate::directory::Directory;
use crate::inbox::{Inbox, Prefetch, ReadRequest};
use crate::latency_trace::LatencyTrace;
use crate::mailbox::Mailbox;
use crate::participants_view::ParticipantsView;
use crate::record_reader::{ReadFailure, TrackedReader};
use crate::shared_value::SharedValue;
use crate::stall::{Progress, Stall};
use crate::submission::{Submission, SubmissionRefused};

/// How the node is doing.
#[derive(Clone, Debug, Default)]
pub struct NodeStatus {
    /// What was written since the start.
    pub counts: WriteCounts,
    /// The kernel's counters.
    pub counters: Counters,
    /// Last record applied.
    pub log_index: LogIndex,
    /// Stamp of the last batch.
    pub stamp: Stamp,
    /// Transfers in flight.
    pub in_flight: u64,
    /// Transfers that ended.
    pub ended: u64,
    /// Of these, with their rows in memory.
    pub hot: u64,
    /// Everything up to here is in the cold store; 0 where there is none.
    pub stored: LogIndex,
    /// How often the cold store was asked since the start.
    pub cold: ColdCounts,
    /// Notices owed.
    pub owed: u64,
    /// Dead letters.
    pub dead: u64,
    /// Why the log stopped, if it did.
    pub stopped: Option<String>,
}

/// What is not well, by the last look of [`crate::stall::StallDetector`].
#[derive(Clone, Default)]
pub(crate) struct NodeFaults {
    pub(crate) stuck: Arc<[Stall]>,
    pub(crate) is_full: bool,
}

/// Whether a node is well.
#[derive(Clone, Debug)]
pub struct NodeHealth {
    /// Why the log stopped, if it did.
    pub stopped: Option<String>,
    /// Stages that have work and make no progress, by the last look.
    pub stuck: Arc<[Stall]>,
    /// The disk has no room for the log: commands are refused.
    pub is_full: bool,
    /// The first record that could not be read, and has not been since.
    pub unread: Option<ReadFailure>,
}

impl NodeHealth {
    /// Whether the log takes nothing: it has stopped, has no room, or is stuck.
    #[must_use]
    pub fn is_log_down(&self) -> bool {
        self.stopped.is_some() || self.is_full || self.stuck.iter().any(Stall::is_log)
    }

    /// Whether every part works.
    #[must_use]
    pub fn is_well(&self) -> bool {
        !self.is_log_down() && self.stuck.is_empty()
    }

    /// The fault of the log or the store, if there is one.
    #[must_use]
    pub fn storage_fault(&self) -> Option<String> {
        let stored = |one: &&Stall| one.is_log() || one.stage == "store";
        let stuck = || self.stuck.iter().find(stored).map(|one| one.detail.clone());
        let unread = || self.unread.as_ref().map(|unread| unread.why.clone());
        let full = || self.is_full.then(|| "the disk is full: commands are refused".to_owned());
        self.stopped.clone().or_else(stuck).or_else(full).or_else(unread)
    }
}

pub(crate) struct Shared<M> {
    pub(crate) inbox: Inbox<M>,
    pub(crate) mailboxes: Vec<Arc<Mailbox<M>>>,
    pub(crate) status: Mutex<NodeStatus>,
    pub(crate) view: SharedValue<ParticipantsView>,
    pub(crate) directory: Directory,
    pub(crate) reader: Arc<TrackedReader>,
    pub(crate) stages: Arc<LatencyTrace>,
    pub(crate) tally: NodeGauges,
    /// What is not well, by the last look.
    pub(crate) ills: RwLock<NodeFaults>,
    /// [`Handle::first_lease_us`].
    pub(crate) first_lease_us: u64,
    /// What a node of several knows of them all.
    pub(crate) cluster: Mutex<Option<Cluster>>,
}

/// What the sequencer's thread counts for whoever watches it: one store a round or a batch.
pub(crate) struct NodeGauges {
    pub(crate) turns: AtomicU64,
    pub(crate) committed: AtomicU64,
    pub(crate) refused_full: AtomicU64,
    pub(crate) offered_to_store: AtomicU64,
    /// [`Progress::due_us`]; `u64::MAX` for none.
    pub(crate) due_us: AtomicU64,
    /// [`Progress::deadline`]; `u64::MAX` for none.
    pub(crate) deadline: AtomicU64,
    /// [`Progress::heard_us`]; `u64::MAX` for none.
    pub(crate) heard_us: AtomicU64,
    /// Deadlines are left alone: see [`Handle::inject_no_ticks`].
    pub(crate) no_ticks: AtomicBool,
}

impl NodeGauges {
    /// Of a node that begins behind this record.
    pub(crate) fn behind(last: LogIndex) -> Self {
        Self {
            turns: AtomicU64::new(0),
            committed: AtomicU64::new(last.0),
            refused_full: AtomicU64::new(0),
            offered_to_store: AtomicU64::new(0),
            due_us: AtomicU64::new(u64::MAX),
            deadline: AtomicU64::new(u64::MAX),
            heard_us: AtomicU64::new(u64::MAX),
            no_ticks: AtomicBool::new(false),
        }
    }

    /// The earliest deadline, and when it falls due by the node's monotonic clock.
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
    /// Hands over all of `submissions`, in order. Those that the inbox has no room for are left
    /// in the vector, and the reason is the answer.
    ///
    /// # Errors
    /// [`SubmissionRefused`]: full or stopped; nothing of what is left will happen.
    pub fn submit(&self, submissions: &mut Vec<Submission<M>>) -> Result<(), SubmissionRefused> {
        self.shared.inbox.submit(submissions)
    }

    /// Asks the state, as it is after everything submitted before, and on a shared log after
    /// everything that any node had answered before. The question runs on the sequencer's thread:
    /// it must be short.
    ///
    /// # Errors
    /// [`SubmissionRefused`]: too many questions wait, or the node has stopped.
    pub fn ask(
        &self,
        question: impl FnOnce(&State) + Send + 'static,
    ) -> Result<(), SubmissionRefused> {
        let ask = Box::new(|_: &Tail, state: &State| question(state));
        self.shared.inbox.ask(ReadRequest { about: Prefetch::Anything, is_fresh: true, ask })
    }

    /// [`Handle::ask`] where the state of this node will do, as old as it may be.
    ///
    /// # Errors
    /// As [`Handle::ask`].
    pub fn ask_local(
        &self,
        question: impl FnOnce(&State) + Send + 'static,
    ) -> Result<(), SubmissionRefused> {
        let ask = Box::new(|_: &Tail, state: &State| question(state));
        self.shared.inbox.ask(ReadRequest { about: Prefetch::Anything, is_fresh: false, ask })
    }

    /// [`Handle::ask_local`] about everything, with the place in the log: all of it is durable, and
    /// the store will have all of it soon, whether or not a batch follows.
    ///
    /// # Errors
    /// As [`Handle::ask`].
    pub fn ask_durable(
        &self,
        question: impl FnOnce(&Tail, &State) + Send + 'static,
    ) -> Result<(), SubmissionRefused> {
        let ask = Box::new(question);
        self.shared.inbox.ask(ReadRequest { about: Prefetch::Everything, is_fresh: false, ask })
    }

    /// [`Handle::ask`] about a transfer: the state then knows it even when it ended long ago, for
    /// which the cold store may have to be read.
    ///
    /// # Errors
    /// As [`Handle::ask`].
    pub fn ask_about(
        &self,
        transfer: TransferId,
        question: impl FnOnce(&State) + Send + 'static,
    ) -> Result<(), SubmissionRefused> {
        let ask = Box::new(|_: &Tail, state: &State| question(state));
        self.shared.inbox.ask(ReadRequest {
            about: Prefetch::Transfer(transfer),
            is_fresh: true,
            ask,
        })
    }

    /// The register as of the last change, if it changed since `generation`, which is updated.
    /// One atomic load when it did not.
    #[must_use]
    pub fn view_since(&self, generation: &mut u64) -> Option<Arc<ParticipantsView>> {
        self.shared.view.since(generation)
    }

    /// The register as of the last change.
    #[must_use]
    pub fn view(&self) -> Arc<ParticipantsView> {
        self.shared.view.newest()
    }

    /// Looks an identifier up in the party directory. May read the disk.
    ///
    /// # Errors
    /// [`StoreError`] when that cannot be read: nobody knows who serves the party.
    pub fn find_party(
        &self,
        id_type: &str,
        id: &str,
        sub_id: Option<&str>,
    ) -> Result<Option<PartyRow>, StoreError> {
        self.shared.directory.find(id_type, id, sub_id)
    }

    /// The cold store, for questions.
    #[must_use]
    pub fn store(&self) -> Option<Arc<dyn ports::ColdStore>> {
        self.shared.directory.store().cloned()
    }

    /// Bytes that the cold store takes on disk, about.
    #[must_use]
    pub fn store_bytes(&self) -> u64 {
        self.shared.directory.store_bytes()
    }

    /// Index of the last record decided on: whoever was answered finds his own record at most
    /// here, while [`Handle::status`] may be some records behind.
    #[must_use]
    pub fn committed(&self) -> LogIndex {
        LogIndex(self.shared.tally.committed.load(Ordering::Acquire))
    }

    /// How the node is doing, as of its last batch.
    #[must_use]
    pub fn status(&self) -> NodeStatus {
        self.shared.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What the sequencer's thread has done so far, for [`crate::stall::StallDetector`].
    #[must_use]
    pub fn progress(&self) -> Progress {
        let Shared { inbox, tally, directory, .. } = &*self.shared;
        let moment = |at: &AtomicU64| Some(at.load(Ordering::Relaxed)).filter(|at| *at != u64::MAX);
        // Read first: what is offered after this look is no work that stood still before it.
        let offered = tally.offered_to_store.load(Ordering::Relaxed);
        Progress {
            busy: inbox.is_busy(),
            turns: tally.turns.load(Ordering::Relaxed),
            committed: tally.committed.load(Ordering::Acquire),
            refused_full: tally.refused_full.load(Ordering::Relaxed),
            store_fails: directory.store().is_some_and(|store| store.is_failing()),
            store_is_damaged: directory.store().is_some_and(|store| store.is_damaged()),
            stored: directory.store().map_or(offered, |store| store.mark().log_index.0),
            offered_to_store: offered,
            due_us: moment(&tally.due_us),
            deadline: moment(&tally.deadline).map(Stamp),
            heard_us: moment(&tally.heard_us),
        }
    }

    /// Publishes what is stuck, and whether the disk of the log is full, for [`Handle::condition`].
    pub fn publish_ills(&self, stuck: Vec<Stall>, is_full: bool) {
        let ills = NodeFaults { stuck: stuck.into(), is_full };
        *self.shared.ills.write().unwrap_or_else(PoisonError::into_inner) = ills;
    }

    /// Whether the node is well: the one source of every answer about its health.
    #[must_use]
    pub fn condition(&self) -> NodeHealth {
        let ills = self.shared.ills.read().unwrap_or_else(PoisonError::into_inner).clone();
        let stopped = self.status().stopped;
        NodeHealth { stopped, stuck: ills.stuck, is_full: ills.is_full, unread: self.unread() }
    }

    /// Breaks the node on purpose, for a test of whoever watches it: from now on a deadline is met
    /// only when a batch comes by.
    pub fn inject_no_ticks(&self) {
        self.shared.tally.no_ticks.store(true, Ordering::Relaxed);
    }

    /// Until when attempts may begin before the first [`crate::MailboxEvent::Lease`]: for ever
    /// where the log is this node's alone.
    #[must_use]
    pub fn first_lease_us(&self) -> u64 {
        self.shared.first_lease_us
    }

    /// What this node knows of all nodes of a shared log; `None` where it has its log alone.
    #[must_use]
    pub fn cluster(&self) -> Option<Cluster> {
        self.shared.cluster.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records by log index, for redelivery and cold reads.
    #[must_use]
    pub fn reader(&self) -> Arc<dyn RecordReader> {
        Arc::clone(&self.shared.reader) as _
    }

    /// The first record that [`Handle::reader`] could not read, and has not read since.
    #[must_use]
    pub fn unread(&self) -> Option<ReadFailure> {
        self.shared.reader.unread()
    }

    /// How many mailboxes there are.
    #[must_use]
    pub fn mailboxes(&self) -> usize {
        self.shared.mailboxes.len()
    }

    /// When each part of the hub touched a transfer.
    #[must_use]
    pub fn stages(&self) -> &Arc<LatencyTrace> {
        &self.shared.stages
    }

    /// Submissions refused because the inbox was full.
    #[must_use]
    pub fn refused_count(&self) -> u64 {
        self.shared.inbox.refused_count()
    }
}
