//! The node of a shared log: its sequencer's thread proposes batches to a topic.
//!
//! # Phases
//! 1. *Catching up*: requests the end of the topic and applies everything up to there. If another
//!    process with the same node name wrote recently, it *waits* one session. If that process is
//!    still writing, this one exits: the running node continues.
//! 2. *Joining*: proposes the first bundle of a new epoch. Once that bundle has come back as part
//!    of the log, the node is live and ready.
//! 3. *Live*: proposes work from the inbox at once while fewer than [`DEPTH`] bundles are in
//!    flight, and collects it otherwise. It applies every bundle that comes back. With its own
//!    bundles it answers the senders and renews its lease.
//! 4. *Leaving*: on shutdown it proposes the remaining work and then a last bundle, with which the
//!    other nodes take over its lanes. Its I/O threads have stopped sending before.
//!
//! Once a minute of the log's time every live node freezes its state, hashes it on another thread
//! and sends the hash to the other nodes, which compare it with theirs.
//!
//! A node that has proposed nothing for a second proposes a tick. When a deadline is due, the node
//! of the lowest rank proposes one, and each further node a little later if none has come.
//!
//! # Promises
//! - Nothing is answered before it is in the log and applied here.
//! - Attempts begin only for lanes of this node, and within its lease ([`MailboxEvent::Lease`]): a
//!   node that was suspended first applies the messages that have arrived meanwhile.
//! - A read request sees everything that any node had answered before the request: the end of the
//!   topic is requested, once for all waiting requests.
//! - When the brokers do not acknowledge a bundle in time, the requests in it and in later bundles
//!   are refused; the node continues.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use ledger::{Command, LogIndex, ParticipantIndex, Stamp, State};
use ports::{Arrival, Clock, ClockReading, Log, Topic};
use record::bundle::{Bundle, BundleError};
use record::frame::{LogIdentity, Payload, Record, Records};
use record::topic_message::{self, TopicMessage};
use sequencer::{
    AppliedMessage, Committed, HEARTBEAT_US, LEASE_US, LEAVE_SEQUENCE, LaneAssignment, LiveNode,
    RejectedMessage, Replica, SESSION_US, Sequencer,
};

use crate::cluster::{Cluster, ClusterLane, ClusterNode, Takeover};
use crate::directory::Directory;
use crate::effects::finished_notices;
use crate::handle::Shared;
use crate::inbox::{InboxLimits, ReadRequest};
use crate::latency_trace::TracedLog;
use crate::mailbox::{MailboxEvent, Mailboxes};
use crate::runner::{LogKind, Node, NodeError, Runner, SequencerOf, Turn, share};
use crate::state_hash_check::StateHashCheck;
use crate::submission::{Submission, SubmissionRefused, unattended};

/// Maximum number of bundles in flight. Beyond it, the next bundle collects until one has come
/// back.
const DEPTH: usize = 2;
/// A bundle of at least this many records shows that the node is busy.
const BUSY_RECORDS: usize = 8;
/// How long the next bundle collects after such a bundle. Brokers and nodes do the same work for a
/// bundle of ten records as for one of fifty.
const COLLECT_US: u64 = 10_000;
/// Additional delay, per rank, before a node proposes a tick for a deadline.
const TICK_RANK_US: u64 = 100_000;
/// Minimum interval between two ticks for deadlines.
const TICK_PAUSE_US: u64 = 20_000;
/// Minimum growth of the lease before it is posted again.
const LEASE_STEP_US: u64 = 100_000;
/// Longest sleep.
const SLEEP_MAX_US: u64 = 200_000;
/// How long a node in shutdown waits for its bundles in flight, including the last one.
const LEAVE_TIMEOUT_US: u64 = 5_000_000;
/// How long a query waits for the brokers to report the end of the topic.
const END_REPLY_US_MAX: u64 = 10_000_000;
/// Tag of sent state attestations. No bundle has this sequence number.
const STATE_TAG: u64 = 0;
const OTHER_LOG: &str = "it belongs to another log";

/// Returns the first commands of an epoch, given the state at its start.
pub type FirstCommands = Box<dyn FnMut(&State) -> Result<Vec<Command>, String> + Send>;

/// Options and callbacks of a replicated node.
pub struct ReplicatedNodeOptions<M> {
    /// Decodes the message in a record's payload.
    pub message: fn(&[u8]) -> Option<M>,
    /// Returns the first commands of an epoch, given the state at its start.
    pub first_commands: FirstCommands,
    /// Persists the new epoch before any of it is sent.
    pub save_epoch: Box<dyn FnMut(u32) -> Result<(), String> + Send>,
    /// Logs a line for the operator.
    pub log: fn(&str),
}

/// The queue into which the driver of a topic puts messages and events.
pub struct Arrivals<M>(Arc<Shared<M>>);

impl<M> Clone for Arrivals<M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<M> Arrivals<M> {
    /// Queues an arrival after waiting for room. Returns false if the node has ended.
    pub fn push(&self, arrival: Arrival) -> bool {
        self.0.inbox.arrive(arrival)
    }
}

/// The phase of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Applies messages up to the topic's end offset at the time of the request.
    CatchingUp { until: Option<i64> },
    /// Another process with the same node name was live when this one had caught up. `seen` of its
    /// bundles have arrived since, the last at `since_us`.
    Waiting { since_us: u64, seen: usize },
    /// Its first bundle is in flight.
    Joining,
    /// It is live.
    Live,
    /// Its last bundle is in flight.
    Leaving,
}

/// A bundle in flight.
struct InFlightBundle<M> {
    sequence: u64,
    proposed_us: u64,
    /// Nanoseconds, while the latency trace is on.
    taken_ns: Option<u64>,
    batch: Vec<Submission<M>>,
}

/// Queries that wait until the topic is applied up to its end at the time of the query.
#[derive(Default)]
struct ReadBarriers {
    /// Number of the last request for the end.
    number: u64,
    is_asked: bool,
    /// Queries that arrived since the last request.
    fresh: Vec<ReadRequest>,
    /// Queries that wait for the reply to the request.
    asked: Vec<ReadRequest>,
    /// Queries that wait until the messages before an offset are applied.
    due: VecDeque<(i64, Vec<ReadRequest>)>,
    /// The highest end offset reported so far.
    known: i64,
    /// Time of the last request.
    asked_us: u64,
}

/// A node of a shared log. [`ReplicatedNode::start`] runs it on a thread.
pub type ReplicatedNode<L, C, M, T> = Runner<SharedLog<L, M, T>, C, M>;

/// A log that several nodes share over a topic.
pub struct SharedLog<L, M, T> {
    replica: Replica<TracedLog<L>>,
    topic: T,
    options: ReplicatedNodeOptions<M>,
    phase: Phase,
    ready: Option<SyncSender<()>>,
    lanes: LaneAssignment,
    in_flight: VecDeque<InFlightBundle<M>>,
    bundle: Vec<u8>,
    /// The offset of the next message.
    next: i64,
    ends: ReadBarriers,
    proposed_us: u64,
    /// Time until which the next bundle collects.
    collects_until_us: u64,
    delivered_us: u64,
    ticked_us: u64,
    leased_us: u64,
    /// Whether the other nodes wait for this node's next bundle.
    heartbeat_due: bool,
    foreign: u64,
    state_hashes: StateHashCheck,
    live: BTreeSet<u32>,
    last_takeover: Option<Takeover>,
    published_us: u64,
    /// Number of live nodes at that time.
    published_live: usize,
    /// During shutdown: the time at which it stops waiting for bundles in flight.
    leave_deadline_us: Option<u64>,
}

impl<L, C, M, T> ReplicatedNode<L, C, M, T>
where
    L: Log + Send + 'static,
    C: Clock + Send + 'static,
    M: Send + Sync + 'static,
    T: Topic + 'static,
{
    /// Runs the node on the sequencer's thread. The receiver is notified when the node is live, and
    /// is disconnected if it never will be.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(mut self) -> std::io::Result<(Node<M>, Receiver<()>)> {
        let (notify, ready) = sync_channel(1);
        self.kind.ready = Some(notify);
        self.kind.state_hashes = StateHashCheck::on_thread()?;
        Ok((self.spawn()?, ready))
    }
}

impl<L: Log, C: Clock, M, T: Topic> ReplicatedNode<L, C, M, T> {
    /// A node over a topic. The next message is the one at `offset`. `connect` starts the consumer
    /// that fills the arrivals.
    ///
    /// # Errors
    /// When the topic cannot be started.
    pub fn new(
        replica: Replica<TracedLog<L>>,
        offset: i64,
        (clock, directory): (C, Directory),
        (mailboxes, limits): (Mailboxes<M>, InboxLimits),
        options: ReplicatedNodeOptions<M>,
        connect: impl FnOnce(Arrivals<M>) -> Result<T, String>,
    ) -> Result<Self, String> {
        let shared = share(replica.sequencer(), directory, mailboxes, (limits, 0));
        let mut topic = connect(Arrivals(Arc::clone(&shared)))?;
        // Requests the end up to which the node catches up.
        topic.ask_end(0);
        let now = clock.now();
        let kind = SharedLog {
            replica,
            topic,
            options,
            phase: Phase::CatchingUp { until: None },
            ready: None,
            lanes: LaneAssignment::default(),
            in_flight: VecDeque::new(),
            bundle: Vec::new(),
            next: offset,
            ends: ReadBarriers::default(),
            proposed_us: now.monotonic_us,
            collects_until_us: 0,
            delivered_us: now.monotonic_us,
            ticked_us: 0,
            leased_us: 0,
            heartbeat_due: false,
            foreign: 0,
            state_hashes: StateHashCheck::Inline(None),
            live: BTreeSet::new(),
            last_takeover: None,
            published_us: 0,
            published_live: 0,
            leave_deadline_us: None,
        };
        Ok(Self::of(kind, clock, shared))
    }

    /// The node's replica of the log.
    pub const fn replica(&self) -> &Replica<TracedLog<L>> {
        &self.kind.replica
    }

    /// Whether the node is live.
    pub fn is_live(&self) -> bool {
        self.kind.phase == Phase::Live
    }

    fn arrive(&mut self, arrival: Arrival) -> Result<(), NodeError> {
        match arrival {
            Arrival::Message { offset, at, bytes } => {
                self.kind.next = offset + 1;
                match TopicMessage::parse(&bytes) {
                    Ok(message) => self.handle_message(&message, at),
                    Err(BundleError::Foreign(why)) => {
                        self.skip_foreign(offset, why);
                        Ok(())
                    }
                    Err(error) => stop(format!(
                        "the message at offset {offset} of the topic was written by a newer \
                         program ({error}): upgrade this node"
                    )),
                }
            }
            Arrival::Lost { tag, reason } => self.handle_lost(tag, &reason),
            Arrival::End { number, offset } => {
                self.handle_end(number, offset);
                Ok(())
            }
            Arrival::Broken { reason } => stop(reason),
        }
    }

    /// Skips a message that is not part of the log. The first one is logged, all are counted.
    fn skip_foreign(&mut self, offset: i64, why: &str) {
        self.kind.foreign += 1;
        if self.kind.foreign == 1 {
            (self.kind.options.log)(&format!(
                "skipped a message at offset {offset} of the topic that is not part of the log \
                 ({why}): another program writes there; give the log a topic of its own"
            ));
        }
    }

    fn handle_message(&mut self, message: &TopicMessage<'_>, at: Stamp) -> Result<(), NodeError> {
        match message {
            TopicMessage::Bundle(bundle) => self.deliver(bundle, at),
            TopicMessage::Frame(frame) => {
                let restored = self.kind.replica.restore(frame)?;
                self.kind.delivered_us = self.clock.now().monotonic_us;
                if let AppliedMessage::Applied { committed, members_changed } = restored {
                    if members_changed {
                        self.update_members(&committed, None);
                    }
                    self.release(frame.records(), &committed, None);
                    self.dispatcher.post();
                }
                Ok(())
            }
            TopicMessage::EndOfMovedLog(end) => {
                // A marker that does not match the end of the log is ignored.
                let _is_whole = self.kind.replica.complete_migration(end);
                Ok(())
            }
            TopicMessage::LogMoved(identity) => self.handle_log_moved(*identity),
            TopicMessage::State(stated) => {
                if stated.identity != self.sequencer().log().tail().identity {
                    self.skip_foreign(self.kind.next - 1, OTHER_LOG);
                    return Ok(());
                }
                Ok(self.kind.replica.receive_attestation(stated)?)
            }
        }
    }

    /// Freezes a state for the comparison with other nodes, once this node is live.
    fn freeze_state(&mut self) {
        if self.is_live()
            && let Some(state) = self.kind.replica.state_to_compare()
        {
            self.kind.state_hashes.take(state);
        }
    }

    /// Sends the hash of a frozen state to the other nodes, if one is finished.
    fn send_state_hash(&mut self) -> Result<(), NodeError> {
        let Some(hashed) = self.kind.state_hashes.hashed() else { return Ok(()) };
        let stated = self.kind.replica.note_state(hashed)?;
        if !self.is_live() {
            return Ok(());
        }
        let mut bytes = Vec::new();
        topic_message::write_state(&stated, &mut bytes);
        Ok(self.kind.topic.send(&bytes, STATE_TAG)?)
    }

    /// Stops the node if this log was moved away from the topic.
    fn handle_log_moved(&self, identity: LogIdentity) -> Result<(), NodeError> {
        let tail = self.sequencer().log().tail();
        if identity != tail.identity || self.kind.replica.is_partial() {
            return Ok(());
        }
        stop(format!(
            "the log was moved from this topic after record {} by `upesi import-log`, to the \
             files of one switch; no node may write here",
            tail.end.0
        ))
    }

    fn deliver(&mut self, bundle: &Bundle<'_>, at: Stamp) -> Result<(), NodeError> {
        let name = self.kind.replica.name();
        let header = &bundle.header;
        let is_ours = (header.node, header.instance) == (name.node, name.instance);
        let is_namesake = header.node == name.node && !is_ours && header.sequence != LEAVE_SEQUENCE;
        let delivered = self.kind.replica.deliver(bundle, at)?;
        let now_us = self.clock.now().monotonic_us;
        self.kind.delivered_us = now_us;
        match delivered {
            AppliedMessage::Applied { .. } if is_namesake && self.is_live() => stop(format!(
                "another node with the name {} has joined in its epoch {}; it continues under that \
                 name, and this node stops",
                header.name, header.epoch
            )),
            AppliedMessage::Applied { .. } if is_namesake && self.sees_namesake(now_us) => {
                stop(format!(
                    "another node with the name {} is live in its epoch {}, with another data \
                     directory; stop that one first or give this one its own name",
                    header.name, header.epoch
                ))
            }
            AppliedMessage::Applied { committed, members_changed } => {
                if members_changed {
                    let is_last = header.sequence == LEAVE_SEQUENCE;
                    self.update_members(&committed, is_last.then_some(header.node));
                }
                let own = is_ours.then(|| self.take_returned(header.sequence)).flatten();
                let records = bundle.records_from(committed.first);
                self.release(records, &committed, own);
                self.update_lanes(members_changed);
                self.dispatcher.post();
                self.freeze_state();
                Ok(())
            }
            AppliedMessage::Rejected(RejectedMessage::NoRoom) if is_ours => {
                stop("the log has reached its maximum number of node names: use an existing name")
            }
            AppliedMessage::Rejected(RejectedMessage::Repeat) if is_ours => {
                self.handle_overtaken(header.sequence)
            }
            AppliedMessage::Rejected(RejectedMessage::AnotherLog) => {
                self.skip_foreign(self.kind.next - 1, OTHER_LOG);
                Ok(())
            }
            AppliedMessage::Rejected(_) => Ok(()),
        }
    }

    /// Handles a bundle of ours that was rejected as too late or repeated. Either another process
    /// with our node name was faster, or the topic has the bundle twice.
    fn handle_overtaken(&mut self, sequence: u64) -> Result<(), NodeError> {
        if self.kind.phase == Phase::Joining {
            self.kind.in_flight.clear();
            return self.join();
        }
        let sequencer = self.sequencer();
        let writer = sequencer.writer();
        let newest = sequencer.state().tail_of(writer.node);
        if newest.is_none_or(|newest| newest.epoch <= writer.epoch) {
            return Ok(());
        }
        if let Some(own) = self.take_returned(sequence) {
            self.dispatcher.refuse(own.batch.into_iter(), SubmissionRefused::Stopped);
        }
        stop("another node with this name has joined; this node must not continue")
    }

    /// The bundle in flight that has come back. Bundles sent before it that have not are lost.
    fn take_returned(&mut self, sequence: u64) -> Option<InFlightBundle<M>> {
        while self.kind.in_flight.front().is_some_and(|front| front.sequence < sequence) {
            let lost = self.kind.in_flight.pop_front().expect("there is a front");
            self.dispatcher.refuse(lost.batch.into_iter(), SubmissionRefused::BrokersTimedOut);
        }
        self.kind.in_flight.pop_front_if(|front| front.sequence == sequence)
    }

    /// Releases the effects of a batch: this node's senders get their outcomes, and notices go to
    /// the lanes that this node serves.
    fn release(
        &mut self,
        records: Records<'_>,
        committed: &Committed,
        own: Option<InFlightBundle<M>>,
    ) {
        let Self { dispatcher, kind: SharedLog { replica, lanes, options, .. }, .. } = self;
        let sequencer = replica.sequencer();
        let first = committed.first;
        let serves = |recipient: ParticipantIndex| lanes.serves(recipient);
        let Some(InFlightBundle { mut batch, proposed_us, taken_ns, .. }) = own else {
            for finished in replica.commands().iter().map(finished_notices) {
                if !finished.is_empty() {
                    dispatcher.post_to_all(|| MailboxEvent::DeliveredByOtherNode(finished.clone()));
                }
            }
            let is_wanted = sequencer.effects().notices.iter().any(|one| serves(one.recipient));
            let records: Vec<_> = is_wanted.then_some(records).into_iter().flatten().collect();
            let message = |source: LogIndex| message_in(&records, (first, source), options.message);
            let commands = replica.commands().iter();
            return dispatcher.dispatch(sequencer, first, commands, (&message, &serves));
        };
        dispatcher.release(sequencer, committed, (&mut batch, taken_ns), &serves);
        self.complete_join();
        self.renew_lease(proposed_us);
    }

    /// Makes the node live once its first bundle is part of the log.
    fn complete_join(&mut self) {
        if self.kind.phase == Phase::Joining {
            self.kind.phase = Phase::Live;
            // The waiting thread may have ended.
            let _sent = self.kind.ready.take().map(|ready| ready.send(()));
        }
    }

    /// Renews the lease: everything up to the bundle proposed at `proposed_us` is applied.
    fn renew_lease(&mut self, proposed_us: u64) {
        let until = proposed_us + LEASE_US;
        if self.kind.leased_us + LEASE_STEP_US <= until {
            self.kind.leased_us = until;
            self.dispatcher.post_to_all(|| MailboxEvent::Lease(until));
        }
    }

    /// Handles a change of the live nodes; `leaver` has left by its own bundle.
    fn update_members(&mut self, committed: &Committed, leaver: Option<u32>) {
        let log_index = self.sequencer().state().log_index();
        self.kind.lanes.note_change(log_index);
        self.kind.heartbeat_due = true;
        let live: BTreeSet<_> = self.kind.replica.members().iter().map(|(node, _)| node).collect();
        let gone: Vec<_> = self.kind.live.difference(&live).copied().collect();
        self.kind.live = live;
        if gone.is_empty() {
            return;
        }
        if self.is_live() {
            gone.iter().for_each(|node| self.log_departure(*node, leaver));
        }
        let gone: Vec<_> = gone.into_iter().map(|node| self.kind.replica.name_of(node)).collect();
        self.kind.last_takeover = Some(Takeover { log_index, stamp: committed.stamp, gone });
    }

    fn log_departure(&self, node: u32, leaver: Option<u32>) {
        let name = self.kind.replica.name_of(node);
        let why = match leaver == Some(node) {
            true => "has left".into(),
            false => format!("wrote nothing for {} s", SESSION_US / 1_000_000),
        };
        (self.kind.options.log)(&format!("{name} {why}: other nodes take over its lanes"));
    }

    fn update_lanes(&mut self, members_changed: bool) {
        let state = self.kind.replica.sequencer().state();
        let count = state.registry().iter().count();
        let is_there = self.is_live();
        let is_due =
            members_changed || self.kind.lanes.is_waiting() || self.kind.lanes.count() < count;
        if !is_there || !is_due {
            return;
        }
        let transfers = self.kind.lanes.update(&self.kind.replica, count);
        if !transfers.lost.is_empty() {
            self.dispatcher.post_to_all(|| MailboxEvent::LanesLost(transfers.lost.clone()));
        }
        if !transfers.gained.is_empty() {
            self.dispatcher.post_to_all(|| MailboxEvent::LanesGained(transfers.gained.clone()));
            let gained: BTreeSet<_> = transfers.gained.iter().copied().collect();
            self.dispatcher.dispatch_owed(state, &|recipient| gained.contains(&recipient));
        }
    }

    /// Enters the next phase if its condition is met.
    fn advance(&mut self) -> Result<(), NodeError> {
        match self.kind.phase {
            Phase::CatchingUp { until: Some(until) } if until <= self.kind.next => {
                self.require_complete_log()?;
                match self.namesake() {
                    None => self.join(),
                    Some(member) => {
                        self.log_waiting(&member);
                        let since_us = self.clock.now().monotonic_us;
                        self.kind.phase = Phase::Waiting { since_us, seen: 0 };
                        Ok(())
                    }
                }
            }
            Phase::Waiting { .. } if self.namesake().is_none() => self.join(),
            Phase::Waiting { since_us, .. }
                if since_us + SESSION_US <= self.clock.now().monotonic_us =>
            {
                self.join()
            }
            _ => Ok(()),
        }
    }

    /// The live node with this node's name, if it is not an earlier epoch of this data directory.
    fn namesake(&self) -> Option<LiveNode> {
        let name = self.kind.replica.name();
        let member = self.kind.replica.members().get(name.node);
        member.filter(|member| name.ended < member.epoch).copied()
    }

    /// Counts a bundle of the namesake. A process that has ended may have left [`DEPTH`] bundles in
    /// flight, which arrive late if the brokers had no leader. One more shows that it is live. If
    /// it had given up earlier bundles, the next start succeeds.
    fn sees_namesake(&mut self, now_us: u64) -> bool {
        let Phase::Waiting { since_us, seen } = &mut self.kind.phase else { return false };
        *since_us = now_us;
        *seen += 1;
        DEPTH < *seen
    }

    fn log_waiting(&self, namesake: &LiveNode) {
        let members = self.kind.replica.members();
        (self.kind.options.log)(&format!(
            "another process with the name {} wrote {} ms before the end of the log, with another \
             data directory: waiting {} s to see whether it is live",
            self.kind.replica.name().name,
            (members.now_us() - namesake.seen_us) / 1_000,
            SESSION_US / 1_000_000
        ));
    }

    /// Stops the node if the log is still being exported to the topic.
    fn require_complete_log(&self) -> Result<(), NodeError> {
        if !self.kind.replica.is_partial() {
            return Ok(());
        }
        let end = self.sequencer().state().log_index();
        stop(format!(
            "the topic holds a log that is being exported, up to record {} so far: start nodes \
             when `upesi export-log` has finished; if it was interrupted, run it again",
            end.0
        ))
    }

    /// Proposes the first bundle of a new epoch.
    fn join(&mut self) -> Result<(), NodeError> {
        self.kind.phase = Phase::Joining;
        self.kind.lanes.note_change(self.sequencer().state().log_index());
        self.kind.replica.begin_epoch();
        let sequencer = self.kind.replica.sequencer();
        (self.kind.options.save_epoch)(sequencer.writer().epoch)?;
        let mut first = (self.kind.options.first_commands)(sequencer.state())?;
        if first.is_empty() {
            first.push(Command::Tick);
        }
        let mut waiting: VecDeque<_> = first.into_iter().map(unattended).collect();
        let now = self.clock.now();
        self.send(&mut waiting, now)?;
        assert!(waiting.is_empty(), "the first commands of an epoch fit one batch");
        Ok(())
    }

    /// Proposes the last bundle of this epoch.
    fn leave(&mut self) -> Result<(), NodeError> {
        self.kind.phase = Phase::Leaving;
        let now = self.clock.now();
        let sequence = self.kind.replica.propose_leave(now.wall, &mut self.kind.bundle);
        let (proposed_us, batch) = (now.monotonic_us, Vec::new());
        self.kind.in_flight.push_back(InFlightBundle {
            sequence,
            proposed_us,
            taken_ns: None,
            batch,
        });
        Ok(self.kind.topic.send(&self.kind.bundle, sequence)?)
    }

    /// Whether the next bundle may be sent now.
    fn may_send(&self, now: ClockReading) -> bool {
        self.kind.in_flight.len() < DEPTH && self.kind.collects_until_us <= now.monotonic_us
    }

    fn send(
        &mut self,
        waiting: &mut VecDeque<Submission<M>>,
        now: ClockReading,
    ) -> Result<(), NodeError> {
        let taken_ns = self.shared.batch_start_ns();
        let mut batch = Vec::new();
        let sequence =
            self.kind.replica.propose(waiting, &mut batch, now.wall, &mut self.kind.bundle);
        let proposed_us = now.monotonic_us;
        // After a full bundle the remaining submissions need not wait.
        let is_busy = BUSY_RECORDS <= batch.len() && waiting.is_empty();
        self.kind.collects_until_us = proposed_us + if is_busy { COLLECT_US } else { 0 };
        self.kind.in_flight.push_back(InFlightBundle { sequence, proposed_us, taken_ns, batch });
        self.kind.proposed_us = proposed_us;
        self.kind.heartbeat_due = false;
        Ok(self.kind.topic.send(&self.kind.bundle, sequence)?)
    }

    /// Time until this node proposes a tick for the next deadline, unless another node does. The
    /// brokers' time is estimated as the last stamp plus the time since it arrived.
    fn tick_in_us(&self, now: ClockReading) -> Option<u64> {
        let state = self.sequencer().state();
        let due = state.next_deadline()?;
        let passed = now.monotonic_us.saturating_sub(self.kind.delivered_us);
        let rank = self.kind.replica.members().rank(self.kind.replica.name().node);
        let wait = (due.0 + rank * TICK_RANK_US).saturating_sub(state.stamp().0 + passed);
        let pause = (self.kind.ticked_us + TICK_PAUSE_US).saturating_sub(now.monotonic_us);
        Some(wait.max(pause))
    }

    fn patience_us(&self) -> u64 {
        if !self.is_live() {
            return SLEEP_MAX_US;
        }
        let now = self.clock.now();
        let heartbeat = (self.kind.proposed_us + HEARTBEAT_US).saturating_sub(now.monotonic_us);
        let tick = self.tick_in_us(now).unwrap_or(SLEEP_MAX_US);
        let gathers = self.kind.collects_until_us.saturating_sub(now.monotonic_us);
        match (self.kind.in_flight.is_empty(), gathers) {
            (_, 1..) => gathers.min(SLEEP_MAX_US),
            (true, 0) => heartbeat.min(tick).min(SLEEP_MAX_US),
            (false, 0) => SLEEP_MAX_US,
        }
    }

    /// Handles a bundle that the brokers have not acknowledged: refuses its requests and those of
    /// later bundles.
    fn handle_lost(&mut self, sequence: u64, reason: &str) -> Result<(), NodeError> {
        if !matches!(self.kind.phase, Phase::Live | Phase::Leaving) {
            return stop(format!("this node could not join: {reason}"));
        }
        let Some(at) = self.kind.in_flight.iter().position(|one| one.sequence == sequence) else {
            return Ok(());
        };
        let lost = self.kind.in_flight.remove(at).expect("it was found there");
        (self.kind.options.log)(&format!(
            "{reason}: the waiting requests were refused; a resend of the same message gets its \
             result"
        ));
        self.dispatcher.refuse(lost.batch.into_iter(), SubmissionRefused::BrokersTimedOut);
        self.refuse_waiting(SubmissionRefused::BrokersTimedOut);
        Ok(())
    }

    /// Publishes from when the next deadline and the next message are overdue.
    fn publish_waits(&self) {
        let state = self.sequencer().state();
        let is_there = self.is_live();
        let due = state.next_deadline().filter(|_| is_there).map(|due| {
            (due, self.kind.delivered_us.saturating_add(due.0.saturating_sub(state.stamp().0)))
        });
        let last_message_us = if is_there { self.kind.delivered_us } else { u64::MAX };
        self.shared.gauges.publish_due(due);
        self.shared
            .gauges
            .last_message_us
            .store(last_message_us, std::sync::atomic::Ordering::Relaxed);
    }

    fn handle_end(&mut self, number: u64, offset: Option<i64>) {
        if let (Phase::CatchingUp { until }, Some(offset)) = (&mut self.kind.phase, offset) {
            until.get_or_insert(offset);
        } else if let Phase::CatchingUp { until: None } = self.kind.phase {
            self.kind.topic.ask_end(0);
        }
        if number != self.kind.ends.number || !self.kind.ends.is_asked {
            return;
        }
        self.kind.ends.is_asked = false;
        let asked = std::mem::take(&mut self.kind.ends.asked);
        // Without a reply from the brokers, the queries are dropped, which reports the failure.
        if let Some(offset) = offset {
            self.kind.ends.known = self.kind.ends.known.max(offset);
            self.kind.ends.due.push_back((offset, asked));
        }
    }

    /// Takes new queries, and requests the end of the topic once for all of them.
    fn request_end(&mut self) -> Result<(), NodeError> {
        let now = self.clock.now();
        if self.kind.ends.is_asked && self.kind.ends.asked_us + END_REPLY_US_MAX < now.monotonic_us
        {
            // Dropping the queries reports the failure. The next request follows the pending one,
            // which is answered eventually.
            self.kind.ends.asked.clear();
            self.kind.ends.fresh.clear();
        }
        for query in self.taken.queries.drain(..) {
            if query.is_fresh {
                self.kind.ends.fresh.push(query);
            } else {
                query.answer(self.kind.replica.sequencer_mut(), now)?;
            }
        }
        let now_us = now.monotonic_us;
        // Operators want to see the lag of this node.
        let is_old = self.kind.ends.asked_us + HEARTBEAT_US < now_us;
        if self.kind.ends.is_asked || (self.kind.ends.fresh.is_empty() && !is_old) {
            return Ok(());
        }
        self.kind.ends.asked_us = now_us;
        self.kind.ends.number += 1;
        self.kind.ends.is_asked = true;
        self.kind.ends.asked.append(&mut self.kind.ends.fresh);
        self.kind.topic.ask_end(self.kind.ends.number);
        Ok(())
    }

    /// Answers the queries whose end offset has been reached.
    fn answer_queries(&mut self) -> Result<(), NodeError> {
        let now = self.clock.now();
        while self.kind.ends.due.front().is_some_and(|(offset, _)| *offset <= self.kind.next) {
            let (_, queries) = self.kind.ends.due.pop_front().expect("there is a front");
            for query in queries {
                query.answer(self.sequencer_mut(), now)?;
            }
        }
        Ok(())
    }

    /// Publishes the cluster's status a few times a second.
    fn publish_cluster(&mut self) {
        let now_us = self.clock.now().monotonic_us;
        let there = self.kind.replica.members().iter().count();
        let is_known = self.kind.published_us != 0 && self.kind.published_live == there;
        if is_known && now_us < self.kind.published_us + SLEEP_MAX_US {
            return;
        }
        (self.kind.published_us, self.kind.published_live) = (now_us.max(1), there);
        let cluster = self.cluster(now_us);
        *self.shared.cluster.lock().unwrap_or_else(PoisonError::into_inner) = Some(cluster);
    }

    fn cluster(&self, now_us: u64) -> Cluster {
        let replica = &self.kind.replica;
        let state = replica.sequencer().state();
        let against: BTreeMap<_, _> = replica.contradicting().collect();
        let members = replica.members();
        let me = replica.name().node;
        let node = |(node, member): (u32, &sequencer::LiveNode)| ClusterNode {
            name: replica.name_of(node),
            epoch: member.epoch,
            log_index: match node == me {
                true => state.log_index(),
                false => replica.claimed(node).unwrap_or(LogIndex(0)),
            },
            silent_ms: (members.now_us() - member.seen_us) / 1_000,
            rules: match node == me {
                true => ledger::rules_known(),
                false => replica.rules_of(node).unwrap_or(0),
            },
            contradicts: against.get(&node).copied(),
        };
        let owner = |index: ParticipantIndex| members.owner(index.0);
        let lanes = state.registry().iter().filter_map(|(index, participant)| {
            let node = replica.name_of(owner(index)?);
            Some(ClusterLane { participant: participant.name, node })
        });
        Cluster {
            me: replica.name().name.clone(),
            log_index: state.log_index(),
            behind: self.kind.ends.known.saturating_sub(self.kind.next).max(0) as u64,
            unheard_ms: match self.is_live() {
                true => now_us.saturating_sub(self.kind.delivered_us) / 1_000,
                false => 0,
            },
            held_us: replica.held_us(),
            foreign: self.kind.foreign,
            agreed: replica.agreed(),
            nodes: members.iter().map(node).collect(),
            lanes: lanes.collect(),
            last_takeover: self.kind.last_takeover.clone(),
        }
    }
}

impl<L: Log, C: Clock, M, T: Topic> LogKind<C, M> for SharedLog<L, M, T> {
    type Log = L;

    fn sequencer(&self) -> &Sequencer<TracedLog<L>> {
        self.replica.sequencer()
    }

    fn sequencer_mut(&mut self) -> &mut Sequencer<TracedLog<L>> {
        self.replica.sequencer_mut()
    }

    /// Also applies arrivals of the topic.
    fn take(node: &mut Runner<Self, C, M>, patience: Option<Duration>) -> Result<bool, NodeError> {
        let room = node.is_live() && node.may_send(node.clock.now());
        let is_open = node.take_from_inbox(room, patience);
        while let Some(arrival) = node.taken.arrivals.pop_front() {
            node.arrive(arrival)?;
        }
        node.advance()?;
        if node.is_live() {
            node.admit();
        }
        Ok(is_open)
    }

    /// Whether other nodes or a deadline wait for a bundle of this node.
    fn tick_is_due(node: &mut Runner<Self, C, M>) -> bool {
        let now = node.clock.now();
        let is_due = node.tick_in_us(now) == Some(0);
        let kind = &mut node.kind;
        let is_silent = kind.proposed_us + HEARTBEAT_US <= now.monotonic_us;
        let owes = kind.in_flight.is_empty() && (kind.heartbeat_due || is_silent || is_due);
        if owes {
            kind.ticked_us = now.monotonic_us;
        }
        owes
    }

    /// Proposes bundles. They are decided when they come back from the topic.
    fn commit(
        node: &mut Runner<Self, C, M>,
        _observe: &mut impl FnMut(&SequencerOf<Self, C, M>, &Committed, &[Submission<M>]),
    ) -> Result<Turn, NodeError> {
        let now = node.clock.now();
        let mut waiting = std::mem::take(&mut node.taken.submissions);
        let mut sent = Ok(());
        while sent.is_ok() && node.is_live() && !waiting.is_empty() && node.may_send(now) {
            sent = node.send(&mut waiting, now);
        }
        node.taken.submissions = waiting;
        sent.map(|()| Turn::Idle)
    }

    fn rest(node: &mut Runner<Self, C, M>) -> Result<(), NodeError> {
        node.send_state_hash()?;
        node.request_end()?;
        // Before answers are sent, so that the figures are at least as new.
        node.dispatcher.publish_status(node.kind.replica.sequencer());
        node.answer_queries()?;
        node.publish_waits();
        node.run_maintenance()?;
        node.publish_cluster();
        Ok(())
    }

    fn patience(node: &Runner<Self, C, M>) -> Option<Duration> {
        Some(Duration::from_micros(node.patience_us()))
    }

    /// Waits for bundles in flight and the last bundle.
    fn end(node: &mut Runner<Self, C, M>) -> Result<bool, NodeError> {
        let now_us = node.clock.now().monotonic_us;
        let kind = &mut node.kind;
        let until = *kind.leave_deadline_us.get_or_insert(now_us + LEAVE_TIMEOUT_US);
        let is_done = kind.in_flight.is_empty() && node.taken.submissions.is_empty();
        let is_leaving = match kind.phase {
            Phase::Live if is_done => node.leave().is_ok(),
            Phase::Live => true,
            Phase::Leaving => !is_done,
            Phase::CatchingUp { .. } | Phase::Waiting { .. } | Phase::Joining => false,
        };
        let has_ended = !is_leaving || until < now_us;
        if has_ended {
            node.refuse_all();
        }
        Ok(has_ended)
    }

    fn undecided(&mut self) -> Vec<Submission<M>> {
        self.in_flight.drain(..).flat_map(|one| one.batch).collect()
    }
}

fn stop(reason: impl Into<String>) -> Result<(), NodeError> {
    Err(NodeError::Topic(reason.into()))
}

/// The message in the record at `source`, if that is in the batch that begins at `first`.
fn message_in<M>(
    records: &[Record<'_>],
    (first, source): (LogIndex, LogIndex),
    decode: fn(&[u8]) -> Option<M>,
) -> Option<Arc<M>> {
    let record = records.get(source.0.checked_sub(first.0)? as usize)?;
    match record.payload {
        Payload::Stored(payload) => decode(payload).map(Arc::new),
        Payload::None | Payload::Erased => None,
    }
}
