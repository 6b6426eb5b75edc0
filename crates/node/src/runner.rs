//! The loop of the sequencer's thread, for a standalone node ([`OwnLog`](crate::own_log::OwnLog))
//! and for a node of a shared log ([`SharedLog`](crate::shared_log::SharedLog)). [`LogKind`] has
//! the steps that differ; calls are static.
//!
//! # Order of a turn
//! 1. Take submissions and read requests from the inbox; on a shared log also apply new messages.
//! 2. Refuse overdue senders. Add a tick if a deadline is due and no command waits.
//! 3. Commit a batch, or propose it to the shared log.
//! 4. If no command waits, answer read requests, evict final rows, and do the kind's idle work.
//!
//! A turn that fails refuses everything, publishes the reason, and is the last one.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

use ledger::{Command, LogIndex};
use ports::{Clock, Log};
use record::party_names::PartyKey;
use sequencer::{CommitError, Committed, ReplicaError, Sequencer};

use crate::directory::Directory;
use crate::effects::EffectDispatcher;
use crate::handle::{Handle, NodeGauges, NodeStatus, Shared};
use crate::inbox::{ArrivedSubmissions, Inbox, InboxLimits, TakenWork};
use crate::latency_trace::{self, TracedLog};
use crate::mailbox::Mailboxes;
use crate::participants_view::ParticipantsView;
use crate::position_jumps::PositionJumps;
use crate::record_reader::TrackedReader;
use crate::shared_value::SharedValue;
use crate::submission::{Submission, SubmissionRefused, unattended};

/// The sequencer that a kind of log drives.
pub(crate) type SequencerOf<K, C, M> = Sequencer<TracedLog<<K as LogKind<C, M>>::Log>>;

/// The sequencer's loop, driven turn by turn. `Runner::spawn` gives it a thread.
pub struct Runner<K, C, M> {
    pub(crate) kind: K,
    pub(crate) clock: C,
    pub(crate) shared: Arc<Shared<M>>,
    pub(crate) dispatcher: EffectDispatcher<M>,
    /// Taken from the inbox, and not processed yet.
    pub(crate) taken: TakenWork<M>,
}

/// Result of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// A batch was decided.
    ChangeReply,
    /// A batch was refused because the disk is full.
    Full,
    /// No batch was committed by this turn itself.
    Idle,
    /// The node was closed, and no work is left.
    Ended,
}

/// The reason why a node must stop.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The log or the store failed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The shared log cannot be continued here.
    #[error(transparent)]
    Replica(#[from] ReplicaError),
    /// The topic failed, or another node prevents this one from running.
    #[error("{0}")]
    Topic(String),
}

impl From<String> for NodeError {
    fn from(reason: String) -> Self {
        Self::Topic(reason)
    }
}

/// The steps of a turn that differ between a log of one node and a shared log.
pub trait LogKind<C, M>: Sized {
    /// The log.
    type Log: Log;

    /// The state and the log.
    fn sequencer(&self) -> &SequencerOf<Self, C, M>;

    /// The state and the log, between two turns.
    fn sequencer_mut(&mut self) -> &mut SequencerOf<Self, C, M>;

    /// Takes new work. Returns false once the inbox is closed.
    fn take(node: &mut Runner<Self, C, M>, patience: Option<Duration>) -> Result<bool, NodeError>;

    /// Whether this node must append a tick if no command waits.
    fn tick_is_due(node: &mut Runner<Self, C, M>) -> bool;

    /// Commits one batch, or proposes batches.
    fn commit(
        node: &mut Runner<Self, C, M>,
        observe: &mut impl FnMut(&SequencerOf<Self, C, M>, &Committed, &[Submission<M>]),
    ) -> Result<Turn, NodeError>;

    /// Answers read requests, evicts final rows and does idle work.
    fn rest(node: &mut Runner<Self, C, M>) -> Result<(), NodeError>;

    /// The longest sleep before the next turn.
    fn patience(node: &Runner<Self, C, M>) -> Option<Duration>;

    /// Ends a closed node. Returns false while work is still pending.
    fn end(node: &mut Runner<Self, C, M>) -> Result<bool, NodeError>;

    /// Submissions of started batches that are not decided.
    fn undecided(&mut self) -> Vec<Submission<M>>;
}

impl<K: LogKind<C, M>, C: Clock, M> Runner<K, C, M> {
    pub(crate) fn of(kind: K, clock: C, shared: Arc<Shared<M>>) -> Self {
        let dispatcher = EffectDispatcher::new(Arc::clone(&shared));
        Self { kind, clock, shared, dispatcher, taken: TakenWork::default() }
    }

    /// Access as for other threads.
    pub fn handle(&self) -> Handle<M> {
        Handle { shared: Arc::clone(&self.shared) }
    }

    /// The state and the log.
    pub fn sequencer(&self) -> &SequencerOf<K, C, M> {
        self.kind.sequencer()
    }

    /// The state and the log, between two turns.
    pub fn sequencer_mut(&mut self) -> &mut SequencerOf<K, C, M> {
        self.kind.sequencer_mut()
    }

    /// The longest sleep before the next turn; `None` for no limit.
    pub fn patience(&self) -> Option<Duration> {
        K::patience(self)
    }

    /// Asks the node to stop; it ends within a few turns.
    pub fn close(&self) {
        self.shared.inbox.close();
    }

    /// Does one turn. Sleeps for up to `patience` while there is no work. `observe` sees each batch
    /// that is decided in step 3, before its effects are posted.
    ///
    /// # Errors
    /// [`NodeError`]: this node has stopped. All submissions at hand are refused.
    pub fn turn(
        &mut self,
        patience: Option<Duration>,
        observe: &mut impl FnMut(&SequencerOf<K, C, M>, &Committed, &[Submission<M>]),
    ) -> Result<Turn, NodeError> {
        let turn = self.work(patience, observe);
        if let Err(error) = &turn {
            self.refuse_all();
            self.dispatcher.publish_stopped(&error.to_string());
        }
        turn
    }

    fn work(
        &mut self,
        patience: Option<Duration>,
        observe: &mut impl FnMut(&SequencerOf<K, C, M>, &Committed, &[Submission<M>]),
    ) -> Result<Turn, NodeError> {
        let is_open = K::take(self, patience)?;
        let turn = K::commit(self, observe)?;
        if turn != Turn::Idle && !self.taken.submissions.is_empty() {
            self.run_maintenance()?;
            return Ok(turn);
        }
        K::rest(self)?;
        self.shared.gauges.turns.fetch_add(1, Ordering::Relaxed);
        Ok(if is_open || !K::end(self)? { turn } else { Turn::Ended })
    }

    /// Takes work from the inbox, and records how long it waited there.
    pub(crate) fn take_from_inbox(&mut self, room: bool, patience: Option<Duration>) -> bool {
        let is_open = self.shared.inbox.take(&mut self.taken, room, patience);
        if !self.taken.arrived.is_empty() {
            let now = latency_trace::monotonic_ns();
            for ArrivedSubmissions { count, at_ns } in self.taken.arrived.drain(..) {
                self.shared.stage_times.inbox.record_times(now.saturating_sub(at_ns), count);
            }
        }
        is_open
    }

    /// Refuses overdue senders, and adds a tick if one is owed.
    pub(crate) fn admit(&mut self) {
        let Self { kind, dispatcher, taken, .. } = self;
        dispatcher.refuse_overdue_senders(kind.sequencer().state(), &mut taken.submissions);
        if self.taken.submissions.is_empty() && K::tick_is_due(self) {
            self.taken.submissions.push_back(unattended(Command::Tick));
        }
    }

    /// Evicts final rows.
    pub(crate) fn run_maintenance(&mut self) -> Result<(), CommitError> {
        let now = self.clock.now();
        self.sequencer_mut().run_maintenance(now)?;
        self.shared.directory.forget(self.sequencer().stored());
        Ok(())
    }

    /// Closes the inbox and refuses every submission.
    pub(crate) fn refuse_all(&mut self) {
        self.shared.inbox.close();
        self.dispatcher.refuse(self.kind.undecided().into_iter(), SubmissionRefused::Stopped);
        self.refuse_waiting(SubmissionRefused::Stopped);
        self.taken.queries.clear();
        self.dispatcher.publish_status(self.kind.sequencer());
    }

    /// Refuses the submissions that are not part of a batch yet.
    pub(crate) fn refuse_waiting(&mut self, refused: SubmissionRefused) {
        self.take_from_inbox(true, Some(Duration::ZERO));
        self.dispatcher.refuse(self.taken.submissions.drain(..), refused);
    }
}

impl<K, C, M> Runner<K, C, M>
where
    K: LogKind<C, M> + Send + 'static,
    C: Clock + Send + 'static,
    M: Send + Sync + 'static,
{
    /// Starts the sequencer's thread.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub(crate) fn spawn(mut self) -> std::io::Result<Node<M>> {
        let handle = self.handle();
        let run = move || {
            let _closing = Closing(Arc::clone(&self.shared));
            let continues = |turn| matches!(turn, Ok(Turn::ChangeReply | Turn::Full | Turn::Idle));
            while continues(self.turn(self.patience(), &mut |_, _, _| {})) {}
        };
        let thread = std::thread::Builder::new().name("sequencer".into()).spawn(run)?;
        Ok(Node { handle, thread })
    }
}

/// The values that the threads of a node share.
pub(crate) fn share<L: Log, M>(
    sequencer: &Sequencer<TracedLog<L>>,
    directory: Directory,
    mailboxes: Mailboxes<M>,
    (limits, first_lease_us): (InboxLimits, u64),
) -> Arc<Shared<M>> {
    assert!(0 < mailboxes.with_lanes, "a node needs at least one mailbox");
    if sequencer.state().log_index() != LogIndex(0) {
        directory.begin(PartyKey::of_state(sequencer.state()));
    }
    Arc::new(Shared {
        inbox: Inbox::new(limits),
        status: Mutex::new(NodeStatus::default()),
        view: SharedValue::new(ParticipantsView::of(sequencer.state())),
        directory,
        reader: Arc::new(TrackedReader::of(sequencer.log().reader())),
        latency_trace: sequencer.log().observer().trace(),
        stage_times: sequencer.log().observer().stages(),
        gauges: NodeGauges::starting_after(sequencer.state().log_index()),
        position_jumps: PositionJumps::default(),
        faults: RwLock::default(),
        first_lease_us,
        cluster: Mutex::new(None),
        mailboxes,
    })
}

/// The running node. Dropping it does not stop it; call [`Node::stop`].
pub struct Node<M> {
    handle: Handle<M>,
    thread: JoinHandle<()>,
}

impl<M: Send + Sync + 'static> Node<M> {
    /// Access for other threads.
    #[must_use]
    pub fn handle(&self) -> Handle<M> {
        self.handle.clone()
    }

    /// Whether the thread has ended by itself, which it does only when the log stopped.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Commits the waiting submissions, makes them durable, and ends the thread.
    ///
    /// # Errors
    /// The reason why the log stopped, if it did before this call.
    pub fn stop(self) -> Result<(), String> {
        self.handle.shared.inbox.close();
        if self.thread.join().is_err() {
            return Err("an invariant broke: see the message above; nothing of the batch at that \
                        log index was acknowledged"
                .into());
        }
        match self.handle.status().stopped {
            Some(reason) => Err(reason),
            None => Ok(()),
        }
    }
}

/// Closes the inbox when the thread ends, also on a panic.
struct Closing<M>(Arc<Shared<M>>);

impl<M> Drop for Closing<M> {
    fn drop(&mut self) {
        self.0.inbox.end();
        let mut status = self.0.status.lock().unwrap_or_else(PoisonError::into_inner);
        if std::thread::panicking() {
            status.stopped = Some("an invariant broke".into());
        }
    }
}
