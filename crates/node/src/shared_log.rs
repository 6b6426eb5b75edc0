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
use crate::mailbox::{Mailbox, MailboxEvent};
use crate::runner::{LogKind, Node, NodeError, Runner, SequencerOf, Turn, share};
use crate::state_hash_check::StateHashCheck;
use crate::submission::{Submission, SubmissionRefused, unattended};

/// Bundles under way; the next one gathers until one of them has come back.
const DEPTH: usize = 2;
/// A bundle of so many records shows that the node is busy.
const BUSY_RECORDS: usize = 8;
/// After such a bundle the next one gathers for so long at least: brokers and nodes do the same
/// work for a bundle of ten records as for one of fifty.
const PACE_US: u64 = 10_000;
/// By so much later than the one before it each node meets a deadline.
const TICK_RANK_US: u64 = 100_000;
/// A deadline is not met again for so long.
const TICK_PAUSE_US: u64 = 20_000;
/// A lease is told when it has grown by so much.
const LEASE_STEP_US: u64 = 100_000;
/// Longest sleep.
const SLEEP_MAX_US: u64 = 200_000;
/// How long a node that is shut down waits for what is under way, its last word included.
const FAREWELL_US: u64 = 5_000_000;
/// How long a question waits for the brokers to say where the topic ends.
const ANSWER_US: u64 = 10_000_000;
/// With what a state is sent: no bundle has this number.
const STATE_TAG: u64 = 0;
const ANOTHER_LOG: &str = "it belongs to another log";

/// With which records a life begins, given the state that it begins with.
pub type FirstCommands = Box<dyn FnMut(&State) -> Result<Vec<Command>, String> + Send>;

/// What a node needs of whoever starts it.
pub struct ReplicatedNodeOptions<M> {
    /// The message in a record's payload.
    pub message: fn(&[u8]) -> Option<M>,
    /// With which records a life begins, given the state that it begins with.
    pub begin: FirstCommands,
    /// Notes the life that begins, before anything of it is sent.
    pub note_life: Box<dyn FnMut(u32) -> Result<(), String> + Send>,
    /// Says something to an operator.
    pub say: fn(&str),
}

/// Where the driver of a topic puts what it has to say.
pub struct Arrivals<M>(Arc<Shared<M>>);

impl<M> Clone for Arrivals<M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<M> Arrivals<M> {
    /// Hands over what has arrived, after waiting for room. False when nobody takes it any more.
    pub fn push(&self, arrival: Arrival) -> bool {
        self.0.inbox.arrive(arrival)
    }
}

/// How far a node has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It applies what stands in the topic up to the offset where that ended.
    CatchingUp { until: Option<i64> },
    /// A program of its name was there when it had caught up: so many bundles of that one have come
    /// in the meantime, the last at this moment.
    Waiting { since_us: u64, seen: usize },
    /// Its first bundle is under way.
    Joining,
    /// It is one of the nodes.
    There,
    /// Its last bundle is under way.
    Leaving,
}

/// A bundle under way.
struct InFlightBundle<M> {
    sequence: u64,
    proposed_us: u64,
    /// When somebody watches: nanoseconds.
    taken_ns: Option<u64>,
    batch: Vec<Submission<M>>,
}

/// Questions to be answered when the topic has been applied up to where it ended when they came.
#[derive(Default)]
struct ReadBarriers {
    /// The number of the last question to the topic.
    number: u64,
    is_asked: bool,
    /// Came since the topic was asked.
    fresh: Vec<ReadRequest>,
    /// Wait for its answer.
    asked: Vec<ReadRequest>,
    /// Wait until it has been applied.
    due: VecDeque<(i64, Vec<ReadRequest>)>,
    /// The last end heard of.
    known: i64,
    /// When the topic was asked last.
    asked_us: u64,
}

/// A node of several. [`ReplicatedNode::start`] gives it a thread.
pub type ReplicatedNode<L, C, M, T> = Runner<SharedLog<L, M, T>, C, M>;

/// A log that several nodes share over a topic.
pub struct SharedLog<L, M, T> {
    replica: Replica<TracedLog<L>>,
    topic: T,
    hooks: ReplicatedNodeOptions<M>,
    phase: Phase,
    ready: Option<SyncSender<()>>,
    lanes: LaneAssignment,
    under_way: VecDeque<InFlightBundle<M>>,
    bundle: Vec<u8>,
    /// The offset of the next message.
    next: i64,
    ends: ReadBarriers,
    proposed_us: u64,
    /// Before this moment the next bundle gathers.
    gathers_until_us: u64,
    delivered_us: u64,
    ticked_us: u64,
    leased_us: u64,
    /// The others wait for what this node says next.
    must_speak: bool,
    foreign: u64,
    comparing: StateHashCheck,
    there: BTreeSet<u32>,
    last_takeover: Option<Takeover>,
    published_us: u64,
    /// How many nodes were there then.
    published_there: usize,
    /// Told to end, it waits so long for what is under way.
    farewell_us: Option<u64>,
}

impl<L, C, M, T> ReplicatedNode<L, C, M, T>
where
    L: Log + Send + 'static,
    C: Clock + Send + 'static,
    M: Send + Sync + 'static,
    T: Topic + 'static,
{
    /// Gives the node the sequencer's thread. The receiver hears when it is there; it is cut off
    /// when it will never be.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(mut self) -> std::io::Result<(Node<M>, Receiver<()>)> {
        let (heard, ready) = sync_channel(1);
        self.kind.ready = Some(heard);
        self.kind.comparing = StateHashCheck::beside()?;
        Ok((self.spawn()?, ready))
    }
}

impl<L: Log, C: Clock, M, T: Topic> ReplicatedNode<L, C, M, T> {
    /// A node over a topic, whose next message is at `offset`. `connect` starts whatever feeds the
    /// arrivals.
    ///
    /// # Errors
    /// When the topic cannot be started.
    pub fn new(
        replica: Replica<TracedLog<L>>,
        offset: i64,
        (clock, directory): (C, Directory),
        (mailboxes, limits): (Vec<Arc<Mailbox<M>>>, InboxLimits),
        hooks: ReplicatedNodeOptions<M>,
        connect: impl FnOnce(Arrivals<M>) -> Result<T, String>,
    ) -> Result<Self, String> {
        let shared = share(replica.sequencer(), directory, mailboxes, (limits, 0));
        let mut topic = connect(Arrivals(Arc::clone(&shared)))?;
        // How much there is to catch up with.
        topic.ask_end(0);
        let now = clock.now();
        let kind = SharedLog {
            replica,
            topic,
            hooks,
            phase: Phase::CatchingUp { until: None },
            ready: None,
            lanes: LaneAssignment::default(),
            under_way: VecDeque::new(),
            bundle: Vec::new(),
            next: offset,
            ends: ReadBarriers::default(),
            proposed_us: now.monotonic_us,
            gathers_until_us: 0,
            delivered_us: now.monotonic_us,
            ticked_us: 0,
            leased_us: 0,
            must_speak: false,
            foreign: 0,
            comparing: StateHashCheck::Here(None),
            there: BTreeSet::new(),
            last_takeover: None,
            published_us: 0,
            published_there: 0,
            farewell_us: None,
        };
        Ok(Self::of(kind, clock, shared))
    }

    /// What the node has of the log.
    pub const fn replica(&self) -> &Replica<TracedLog<L>> {
        &self.kind.replica
    }

    /// Whether the node is one of several.
    pub fn is_live(&self) -> bool {
        self.kind.phase == Phase::There
    }

    fn arrive(&mut self, arrival: Arrival) -> Result<(), NodeError> {
        match arrival {
            Arrival::Message { offset, at, bytes } => {
                self.kind.next = offset + 1;
                match TopicMessage::parse(&bytes) {
                    Ok(message) => self.hear(&message, at),
                    Err(BundleError::Foreign(why)) => {
                        self.pass_foreign(offset, why);
                        Ok(())
                    }
                    Err(error) => stop(format!(
                        "the message at offset {offset} of the topic was written by a newer \
                         program ({error}): start that one here too"
                    )),
                }
            }
            Arrival::Lost { tag, reason } => self.lose(tag, &reason),
            Arrival::End { number, offset } => {
                self.hear_end(number, offset);
                Ok(())
            }
            Arrival::Broken { reason } => stop(reason),
        }
    }

    /// Somebody else writes to the topic: said once, then counted.
    fn pass_foreign(&mut self, offset: i64, why: &str) {
        self.kind.foreign += 1;
        if self.kind.foreign == 1 {
            (self.kind.hooks.say)(&format!(
                "passed over a message at offset {offset} of the topic that is no part of the log \
                 ({why}). Somebody else writes there: give the log a topic of its own"
            ));
        }
    }

    fn hear(&mut self, message: &TopicMessage<'_>, at: Stamp) -> Result<(), NodeError> {
        match message {
            TopicMessage::Bundle(bundle) => self.deliver(bundle, at),
            TopicMessage::Frame(frame) => {
                let restored = self.kind.replica.restore(frame)?;
                self.kind.delivered_us = self.clock.now().monotonic_us;
                if let AppliedMessage::Applied { committed, members_changed } = restored {
                    if members_changed {
                        self.note_members(&committed, None);
                    }
                    self.release(frame.records(), &committed, None);
                    self.posting.post();
                }
                Ok(())
            }
            TopicMessage::Whole(end) => {
                // What is not the end of it is no part of the log either.
                let _is_whole = self.kind.replica.complete_migration(end);
                Ok(())
            }
            TopicMessage::Left(identity) => self.part(*identity),
            TopicMessage::State(stated) => {
                if stated.identity != self.sequencer().log().tail().identity {
                    self.pass_foreign(self.kind.next - 1, ANOTHER_LOG);
                    return Ok(());
                }
                Ok(self.kind.replica.receive_attestation(stated)?)
            }
        }
    }

    /// One that has caught up does so; of the past nothing is compared.
    fn set_state_aside(&mut self) {
        if self.is_live()
            && let Some(state) = self.kind.replica.state_to_compare()
        {
            self.kind.comparing.take(state);
        }
    }

    /// Tells the others the hash of a state that was set aside, if there is one.
    fn compare(&mut self) -> Result<(), NodeError> {
        let Some(hashed) = self.kind.comparing.hashed() else { return Ok(()) };
        let stated = self.kind.replica.note_state(hashed)?;
        if !self.is_live() {
            return Ok(());
        }
        let mut bytes = Vec::new();
        topic_message::write_state(&stated, &mut bytes);
        Ok(self.kind.topic.send(&bytes, STATE_TAG)?)
    }

    /// The log goes on elsewhere, if it is this one.
    fn part(&self, identity: LogIdentity) -> Result<(), NodeError> {
        let tail = self.sequencer().log().tail();
        if identity != tail.identity || self.kind.replica.is_partial() {
            return Ok(());
        }
        stop(format!(
            "the log has left this topic behind record {}: `upesi import-log` has moved it to the \
             files of one switch, and nothing may be added here",
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
                "another node of the name {} has joined, in its life {}: it goes on under that \
                 name, and this one must not",
                header.name, header.epoch
            )),
            AppliedMessage::Applied { .. } if is_namesake && self.sees_namesake(now_us) => {
                stop(format!(
                    "another node of the name {} is there, in its life {}, with another data \
                 directory: stop that one first, or give this one a name of its own",
                    header.name, header.epoch
                ))
            }
            AppliedMessage::Applied { committed, members_changed } => {
                if members_changed {
                    let is_last = header.sequence == LEAVE_SEQUENCE;
                    self.note_members(&committed, is_last.then_some(header.node));
                }
                let own = is_ours.then(|| self.come_back(header.sequence)).flatten();
                let records = bundle.records_from(committed.first);
                self.release(records, &committed, own);
                self.move_lanes(members_changed);
                self.posting.post();
                self.set_state_aside();
                Ok(())
            }
            AppliedMessage::Rejected(RejectedMessage::NoRoom) if is_ours => stop(
                "the log has had as many node names as it can take in its life: use one of them",
            ),
            AppliedMessage::Rejected(RejectedMessage::Repeat) if is_ours => {
                self.overtaken(header.sequence)
            }
            AppliedMessage::Rejected(RejectedMessage::AnotherLog) => {
                self.pass_foreign(self.kind.next - 1, ANOTHER_LOG);
                Ok(())
            }
            AppliedMessage::Rejected(_) => Ok(()),
        }
    }

    /// A bundle of ours came too late: another program of our name was quicker. Or it came before
    /// and is in the topic twice.
    fn overtaken(&mut self, sequence: u64) -> Result<(), NodeError> {
        if self.kind.phase == Phase::Joining {
            self.kind.under_way.clear();
            return self.join();
        }
        let sequencer = self.sequencer();
        let writer = sequencer.writer();
        let newest = sequencer.state().tail_of(writer.node);
        if newest.is_none_or(|newest| newest.epoch <= writer.epoch) {
            return Ok(());
        }
        if let Some(own) = self.come_back(sequence) {
            self.posting.refuse(own.batch.into_iter(), SubmissionRefused::Stopped);
        }
        stop("another node of this name has joined: this one must not go on")
    }

    /// The bundle under way that has come back. What was sent before it and has not is lost.
    fn come_back(&mut self, sequence: u64) -> Option<InFlightBundle<M>> {
        while self.kind.under_way.front().is_some_and(|front| front.sequence < sequence) {
            let lost = self.kind.under_way.pop_front().expect("there is a front");
            self.posting.refuse(lost.batch.into_iter(), SubmissionRefused::BrokersTimedOut);
        }
        self.kind.under_way.pop_front_if(|front| front.sequence == sequence)
    }

    /// Everything that follows from a batch: our own senders hear of it, and what is owed goes to
    /// the lanes that are ours.
    fn release(
        &mut self,
        records: Records<'_>,
        committed: &Committed,
        own: Option<InFlightBundle<M>>,
    ) {
        let Self { posting, kind: SharedLog { replica, lanes, hooks, .. }, .. } = self;
        let sequencer = replica.sequencer();
        let first = committed.first;
        let serves = |recipient: ParticipantIndex| lanes.serves(recipient);
        let Some(InFlightBundle { mut batch, proposed_us, taken_ns, .. }) = own else {
            for finished in replica.commands().iter().map(finished_notices) {
                if !finished.is_empty() {
                    posting.tell_all(|| MailboxEvent::DeliveredByOtherNode(finished.clone()));
                }
            }
            let is_wanted = sequencer.effects().notices.iter().any(|one| serves(one.recipient));
            let records: Vec<_> = is_wanted.then_some(records).into_iter().flatten().collect();
            let message = |source: LogIndex| message_in(&records, (first, source), hooks.message);
            let commands = replica.commands().iter();
            return posting.announce(sequencer, first, commands, (&message, &serves));
        };
        posting.release(sequencer, committed, (&mut batch, taken_ns), &serves);
        self.come_home();
        self.prolong(proposed_us);
    }

    /// A bundle of ours is part of the log.
    fn come_home(&mut self) {
        if self.kind.phase == Phase::Joining {
            self.kind.phase = Phase::There;
            // Whoever waits for it may have gone.
            let _told = self.kind.ready.take().map(|ready| ready.send(()));
        }
    }

    /// What this node proposed at `proposed_us` is applied: so is everything before it.
    fn prolong(&mut self, proposed_us: u64) {
        let until = proposed_us + LEASE_US;
        if self.kind.leased_us + LEASE_STEP_US <= until {
            self.kind.leased_us = until;
            self.posting.tell_all(|| MailboxEvent::Lease(until));
        }
    }

    /// Who is there has changed; `leaver` has said so itself.
    fn note_members(&mut self, committed: &Committed, leaver: Option<u32>) {
        let log_index = self.sequencer().state().log_index();
        self.kind.lanes.note_change(log_index);
        self.kind.must_speak = true;
        let there: BTreeSet<_> = self.kind.replica.members().iter().map(|(node, _)| node).collect();
        let gone: Vec<_> = self.kind.there.difference(&there).copied().collect();
        self.kind.there = there;
        if gone.is_empty() {
            return;
        }
        if self.is_live() {
            gone.iter().for_each(|node| self.say_gone(*node, leaver));
        }
        let gone: Vec<_> = gone.into_iter().map(|node| self.kind.replica.name_of(node)).collect();
        self.kind.last_takeover = Some(Takeover { log_index, stamp: committed.stamp, gone });
    }

    fn say_gone(&self, node: u32, leaver: Option<u32>) {
        let name = self.kind.replica.name_of(node);
        let why = match leaver == Some(node) {
            true => "has left".into(),
            false => format!("said nothing for {} s", SESSION_US / 1_000_000),
        };
        (self.kind.hooks.say)(&format!("{name} {why}: what it served is taken over"));
    }

    fn move_lanes(&mut self, members_changed: bool) {
        let state = self.kind.replica.sequencer().state();
        let count = state.register().iter().count();
        let is_there = self.is_live();
        let is_due =
            members_changed || self.kind.lanes.is_waiting() || self.kind.lanes.count() < count;
        if !is_there || !is_due {
            return;
        }
        let moves = self.kind.lanes.update(&self.kind.replica, count);
        if !moves.left.is_empty() {
            self.posting.tell_all(|| MailboxEvent::LanesLost(moves.left.clone()));
        }
        if !moves.taken.is_empty() {
            self.posting.tell_all(|| MailboxEvent::LanesGained(moves.taken.clone()));
            let taken: BTreeSet<_> = moves.taken.iter().copied().collect();
            self.posting.resume(state, &|recipient| taken.contains(&recipient));
        }
    }

    /// The next phase, when its time has come.
    fn advance(&mut self) -> Result<(), NodeError> {
        match self.kind.phase {
            Phase::CatchingUp { until: Some(until) } if until <= self.kind.next => {
                self.must_be_whole()?;
                match self.namesake() {
                    None => self.join(),
                    Some(member) => {
                        self.say_waiting(&member);
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

    /// Who is there under this node's name, and is no former life with this data directory.
    fn namesake(&self) -> Option<LiveNode> {
        let name = self.kind.replica.name();
        let member = self.kind.replica.members().get(name.node);
        member.filter(|member| name.ended < member.epoch).copied()
    }

    /// A bundle of the namesake has come. What one that has ended left under way can still come,
    /// late if the brokers had no leader: [`DEPTH`] bundles. One more is a sign that it is there;
    /// or it had given up some before, and only the next start goes on.
    fn sees_namesake(&mut self, now_us: u64) -> bool {
        let Phase::Waiting { since_us, seen } = &mut self.kind.phase else { return false };
        *since_us = now_us;
        *seen += 1;
        DEPTH < *seen
    }

    fn say_waiting(&self, namesake: &LiveNode) {
        let members = self.kind.replica.members();
        (self.kind.hooks.say)(&format!(
            "another program of the name {} wrote {} ms before the end of the log, with another \
             data directory: waits {} s for a sign that it is there",
            self.kind.replica.name().name,
            (members.now_us() - namesake.seen_us) / 1_000,
            SESSION_US / 1_000_000
        ));
    }

    /// Nobody may go on a log of which more is to come.
    fn must_be_whole(&self) -> Result<(), NodeError> {
        if !self.kind.replica.is_partial() {
            return Ok(());
        }
        let end = self.sequencer().state().log_index();
        stop(format!(
            "the topic holds a log that is being moved there, up to record {} so far: start nodes \
             when `upesi export-log` has finished. If it was interrupted, the same command goes on",
            end.0
        ))
    }

    /// Proposes the first bundle of a new life.
    fn join(&mut self) -> Result<(), NodeError> {
        self.kind.phase = Phase::Joining;
        self.kind.lanes.note_change(self.sequencer().state().log_index());
        self.kind.replica.begin_epoch();
        let sequencer = self.kind.replica.sequencer();
        (self.kind.hooks.note_life)(sequencer.writer().epoch)?;
        let mut first = (self.kind.hooks.begin)(sequencer.state())?;
        if first.is_empty() {
            first.push(Command::Tick);
        }
        let mut waiting: VecDeque<_> = first.into_iter().map(unattended).collect();
        let now = self.clock.now();
        self.send(&mut waiting, now)?;
        assert!(waiting.is_empty(), "what a life begins with is one batch");
        Ok(())
    }

    /// Says the last word of this life.
    fn leave(&mut self) -> Result<(), NodeError> {
        self.kind.phase = Phase::Leaving;
        let now = self.clock.now();
        let sequence = self.kind.replica.propose_leave(now.wall, &mut self.kind.bundle);
        let (proposed_us, batch) = (now.monotonic_us, Vec::new());
        self.kind.under_way.push_back(InFlightBundle {
            sequence,
            proposed_us,
            taken_ns: None,
            batch,
        });
        Ok(self.kind.topic.send(&self.kind.bundle, sequence)?)
    }

    /// Whether the next bundle need not gather any longer.
    fn may_send(&self, now: ClockReading) -> bool {
        self.kind.under_way.len() < DEPTH && self.kind.gathers_until_us <= now.monotonic_us
    }

    fn send(
        &mut self,
        waiting: &mut VecDeque<Submission<M>>,
        now: ClockReading,
    ) -> Result<(), NodeError> {
        let taken_ns = self.shared.stages.now_ns();
        let mut batch = Vec::new();
        let sequence =
            self.kind.replica.propose(waiting, &mut batch, now.wall, &mut self.kind.bundle);
        let proposed_us = now.monotonic_us;
        // One that was full has left others behind: they need not wait.
        let is_busy = BUSY_RECORDS <= batch.len() && waiting.is_empty();
        self.kind.gathers_until_us = proposed_us + if is_busy { PACE_US } else { 0 };
        self.kind.under_way.push_back(InFlightBundle { sequence, proposed_us, taken_ns, batch });
        self.kind.proposed_us = proposed_us;
        self.kind.must_speak = false;
        Ok(self.kind.topic.send(&self.kind.bundle, sequence)?)
    }

    /// Until this node meets the next deadline if nobody else does: the brokers' time is about the
    /// last stamp and what has passed since it came.
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
        let gathers = self.kind.gathers_until_us.saturating_sub(now.monotonic_us);
        match (self.kind.under_way.is_empty(), gathers) {
            (_, 1..) => gathers.min(SLEEP_MAX_US),
            (true, 0) => heartbeat.min(tick).min(SLEEP_MAX_US),
            (false, 0) => SLEEP_MAX_US,
        }
    }

    /// A bundle is not known to have arrived: who waits for it, and for those behind it, does not
    /// wait any longer.
    fn lose(&mut self, sequence: u64, reason: &str) -> Result<(), NodeError> {
        if !matches!(self.kind.phase, Phase::There | Phase::Leaving) {
            return stop(format!("this node could not join: {reason}"));
        }
        let Some(at) = self.kind.under_way.iter().position(|one| one.sequence == sequence) else {
            return Ok(());
        };
        let lost = self.kind.under_way.remove(at).expect("it was found there");
        (self.kind.hooks.say)(&format!(
            "{reason}: who waited for an answer was refused; the same message again hears what \
             became of it"
        ));
        self.posting.refuse(lost.batch.into_iter(), SubmissionRefused::BrokersTimedOut);
        self.refuse_waiting(SubmissionRefused::BrokersTimedOut);
        Ok(())
    }

    /// Since when what a node waits for is late: the next deadline, and the next message.
    fn publish_waits(&self) {
        let state = self.sequencer().state();
        let is_there = self.is_live();
        let due = state.next_deadline().filter(|_| is_there).map(|due| {
            (due, self.kind.delivered_us.saturating_add(due.0.saturating_sub(state.stamp().0)))
        });
        let heard = if is_there { self.kind.delivered_us } else { u64::MAX };
        self.shared.tally.publish_due(due);
        self.shared.tally.heard_us.store(heard, std::sync::atomic::Ordering::Relaxed);
    }

    fn hear_end(&mut self, number: u64, offset: Option<i64>) {
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
        // Without an answer from the brokers there is none to be given: who asked hears that.
        if let Some(offset) = offset {
            self.kind.ends.known = self.kind.ends.known.max(offset);
            self.kind.ends.due.push_back((offset, asked));
        }
    }

    /// Takes what was asked of this node; asks the topic where it ends, for all at once.
    fn ask(&mut self) -> Result<(), NodeError> {
        let now = self.clock.now();
        if self.kind.ends.is_asked && self.kind.ends.asked_us + ANSWER_US < now.monotonic_us {
            // Who asked is told that there is no answer. The topic is not asked again before it
            // has answered: it does so in the end.
            self.kind.ends.asked.clear();
            self.kind.ends.fresh.clear();
        }
        for question in self.taken.questions.drain(..) {
            if question.is_fresh {
                self.kind.ends.fresh.push(question);
            } else {
                question.answer(self.kind.replica.sequencer_mut(), now)?;
            }
        }
        let now_us = now.monotonic_us;
        // Operators want to see how far behind this node is.
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

    /// Answers those for whom this node has caught up.
    fn answer(&mut self) -> Result<(), NodeError> {
        let now = self.clock.now();
        while self.kind.ends.due.front().is_some_and(|(offset, _)| *offset <= self.kind.next) {
            let (_, questions) = self.kind.ends.due.pop_front().expect("there is a front");
            for question in questions {
                question.answer(self.sequencer_mut(), now)?;
            }
        }
        Ok(())
    }

    /// For operators, a few times a second.
    fn publish_cluster(&mut self) {
        let now_us = self.clock.now().monotonic_us;
        let there = self.kind.replica.members().iter().count();
        let is_known = self.kind.published_us != 0 && self.kind.published_there == there;
        if is_known && now_us < self.kind.published_us + SLEEP_MAX_US {
            return;
        }
        (self.kind.published_us, self.kind.published_there) = (now_us.max(1), there);
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
        let lanes = state.register().iter().filter_map(|(index, participant)| {
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

    /// Applies what came of the topic too.
    fn take(node: &mut Runner<Self, C, M>, patience: Option<Duration>) -> Result<bool, NodeError> {
        let room = node.is_live() && node.may_send(node.clock.now());
        let is_open = node.shared.inbox.take(&mut node.taken, room, patience);
        while let Some(arrival) = node.taken.arrivals.pop_front() {
            node.arrive(arrival)?;
        }
        node.advance()?;
        if node.is_live() {
            node.admit();
        }
        Ok(is_open)
    }

    /// Whether the others, or a deadline, wait for a word of this node.
    fn owes_tick(node: &mut Runner<Self, C, M>) -> bool {
        let now = node.clock.now();
        let is_due = node.tick_in_us(now) == Some(0);
        let kind = &mut node.kind;
        let is_silent = kind.proposed_us + HEARTBEAT_US <= now.monotonic_us;
        let owes = kind.under_way.is_empty() && (kind.must_speak || is_silent || is_due);
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
        sent.map(|()| Turn::Rested)
    }

    fn rest(node: &mut Runner<Self, C, M>) -> Result<(), NodeError> {
        node.compare()?;
        node.ask()?;
        // Before anybody hears an answer: figures are as new as that.
        node.posting.publish_status(node.kind.replica.sequencer());
        node.answer()?;
        node.publish_waits();
        node.tend()?;
        node.publish_cluster();
        Ok(())
    }

    fn patience(node: &Runner<Self, C, M>) -> Option<Duration> {
        Some(Duration::from_micros(node.patience_us()))
    }

    /// Waits for bundles and the last word.
    fn end(node: &mut Runner<Self, C, M>) -> Result<bool, NodeError> {
        let now_us = node.clock.now().monotonic_us;
        let kind = &mut node.kind;
        let until = *kind.farewell_us.get_or_insert(now_us + FAREWELL_US);
        let is_done = kind.under_way.is_empty() && node.taken.submissions.is_empty();
        let is_leaving = match kind.phase {
            Phase::There if is_done => node.leave().is_ok(),
            Phase::There => true,
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
        self.under_way.drain(..).flat_map(|one| one.batch).collect()
    }
}

fn stop(reason: impl Into<String>) -> Result<(), NodeError> {
    Err(NodeError::Topic(reason.into()))
}

/// The message in a record of the batch that begins at `first`, if `source` is one.
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
