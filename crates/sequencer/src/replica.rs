//! One of several equal nodes over a shared log.
//!
//! [`Replica::propose`] makes a bundle of the waiting submissions; the driver sends it to a topic.
//! [`Replica::deliver`] takes the messages of the topic in order and makes of each the same frame,
//! or none, as every other node does:
//! - log index and chain follow from the previous frame, the stamp from [`BrokerClock`];
//! - a bundle is rejected if it belongs to another log, if a later bundle of its node (by epoch,
//!   then sequence) has arrived before it, or if it would begin a log that exists.
//!
//! A log that was migrated to the topic precedes all bundles there, frame by frame
//! ([`record::topic_message`]): [`Replica::restore`] takes its frames as they are, and
//! [`Replica::complete_migration`] takes the marker of its end.
//!
//! The frame is appended to the local copy of the log and applied. The decision does not depend on
//! the proposing node. A node compares the claims of other nodes about their applied batches with
//! its own. When at least half of the live nodes contradict it, it stops and names the record. The
//! nodes also compare hashes of whole states once a minute of the log's time
//! ([`Replica::state_to_compare`]).

use std::collections::{BTreeMap, VecDeque};

use ledger::snapshot::StateSnapshot;
use ledger::{Activate, Change, Command, Digest, LogIndex, Stamp, rules_known};
use ports::{Log, LogError};
use record::bundle::{self, Bundle, BundleHeader, StateClaim};
use record::frame::{BatchHeader, Frame, FrameHeader, Records};
use record::topic_message::{LogEnd, StateAttestation};

use crate::broker_clock::{BrokerClock, LastMessage};
use crate::membership::{LEAVE_SEQUENCE, Membership};
use crate::replay::{begin, read_command};
use crate::{
    BatchOrigin, CommitError, Committed, Quarantine, ReplayError, Sequencer, Submission, Writer,
};

/// Number of batch ends kept to check claims.
const HISTORY_MAX: usize = 16_384;
/// Interval between comparisons of whole states, in microseconds of the log's time.
const COMPARE_US: u64 = 60_000_000;
/// Number of own state hashes kept to check attestations.
const STATES_MAX: usize = 8;

/// The identity of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeName {
    /// Its configured name.
    pub name: String,
    /// Its number in the log; never 0.
    pub node: u32,
    /// Random for each start: distinguishes two processes with the same name.
    pub instance: u64,
    /// An earlier epoch that is known to have ended; 0 for none.
    pub ended: u32,
}

/// A node of a shared log.
#[derive(Debug)]
pub struct Replica<L> {
    sequencer: Sequencer<L>,
    name: NodeName,
    quarantine: Quarantine,
    broker_clock: BrokerClock,
    /// The end of a migrated log has not been seen yet.
    is_partial: bool,
    members: Membership,
    names: BTreeMap<u32, String>,
    claims: BTreeMap<u32, LastClaim>,
    history: VecDeque<StateClaim>,
    contradicting: BTreeMap<u32, LogIndex>,
    comparison: StateComparison,
    commands: Vec<Command>,
}

/// Own and other nodes' state hashes.
#[derive(Debug, Default)]
struct StateComparison {
    /// The current state is one to compare.
    is_due: bool,
    /// The hashes of this node.
    own: BTreeMap<LogIndex, Digest>,
    /// The last attestation of each other node.
    stated: BTreeMap<u32, StateAttestation>,
    /// The nodes with a different hash, and the record at which it was first seen.
    differing: BTreeMap<u32, LogIndex>,
    /// The last record after which another node had the same hash.
    agreed: Option<LogIndex>,
}

/// The last claim of a node.
#[derive(Clone, Copy, Debug)]
struct LastClaim {
    epoch: u32,
    log_index: LogIndex,
    rules: u32,
}

/// The result of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppliedMessage {
    /// The message became a frame and was applied.
    Applied {
        /// The batch.
        committed: Committed,
        /// Whether nodes have joined, left or begun a new epoch with it.
        members_changed: bool,
    },
    /// The message is not part of the log.
    Rejected(RejectedMessage),
}

/// The reason why a message is not part of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectedMessage {
    /// It belongs to another log.
    AnotherLog,
    /// It would begin a log that exists, or continue one that does not exist or is incomplete.
    OutOfPlace,
    /// Its node has written a later message or begun a new epoch.
    Repeat,
    /// The log has as many writers as it can take.
    NoRoom,
}

/// The reason why a node of a shared log must stop.
#[derive(Debug, thiserror::Error)]
pub enum ReplicaError {
    /// The batch could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// A record cannot be read.
    #[error(transparent)]
    Record(#[from] ReplayError),
    /// Other nodes have decided differently or have another state.
    #[error(
        "replica: state differs from {others} at or before record {}; compare the data directory \
        with that of another node (`upesi verify --data DIR`), then start this node with an \
        empty one",
        .log_index.0
    )]
    Diverged {
        /// The record at which it was first seen.
        log_index: LogIndex,
        /// The names of the other nodes.
        others: String,
    },
}

impl<L: Log> Replica<L> {
    /// Continues after the last bundle that became part of the log; `None` before the first bundle,
    /// even if there is a migrated log.
    ///
    /// # Errors
    /// [`LogError`] when the log's end cannot be read.
    pub fn new(
        mut sequencer: Sequencer<L>,
        name: NodeName,
        quarantine: Quarantine,
        last: Option<LastMessage>,
    ) -> Result<Self, LogError> {
        assert_ne!(name.node, 0, "number 0 belongs to a standalone node");
        sequencer.writer = Writer { node: name.node, epoch: 0 };
        let members = match sequencer.state.log_index() {
            LogIndex(0) => Membership::default(),
            _ => Membership::recall(&mut sequencer.log)?,
        };
        let is_partial = last.is_none() && sequencer.state.log_index() != LogIndex(0);
        let mut replica = Self {
            sequencer,
            name,
            quarantine,
            is_partial,
            broker_clock: BrokerClock::after(last),
            members,
            names: BTreeMap::new(),
            claims: BTreeMap::new(),
            history: VecDeque::new(),
            contradicting: BTreeMap::new(),
            comparison: StateComparison::default(),
            commands: Vec::new(),
        };
        replica.remember();
        Ok(replica)
    }

    /// Begins a new epoch, above every one that the log and this process know.
    pub fn begin_epoch(&mut self) {
        let Sequencer { writer, state, .. } = &mut self.sequencer;
        let epoch = state.epoch_of(self.name.node).max(writer.epoch) + 1;
        *writer = Writer { node: self.name.node, epoch };
        self.sequencer.sequence = 1;
    }

    /// Makes one bundle: moves submissions from the front of `waiting` to `batch`, which must be
    /// empty, up to the capacity of a frame. Returns the sequence number of the first. The bundle
    /// is in `out`.
    pub fn propose<T>(
        &mut self,
        waiting: &mut VecDeque<Submission<T>>,
        batch: &mut Vec<Submission<T>>,
        wall: Stamp,
        out: &mut Vec<u8>,
    ) -> u64 {
        assert!(!waiting.is_empty() && batch.is_empty(), "a batch is made of waiting submissions");
        let sequencer = &mut self.sequencer;
        sequencer.fill(waiting, batch);
        let sequence = sequencer.sequence;
        sequencer.sequence += batch.len() as u64;
        self.write(sequence, wall, out);
        sequence
    }

    /// Makes the last bundle of this epoch. Other nodes learn from it that no further bundle of the
    /// epoch follows and that this node sends no more callbacks. Returns its sequence number.
    ///
    /// # Panics
    /// When the time of day cannot be encoded, which is one byte.
    pub fn propose_leave(&mut self, wall: Stamp, out: &mut Vec<u8>) -> u64 {
        let record = crate::encode(&Command::Tick, None).expect("the time of day is short");
        self.sequencer.builder.clear();
        self.sequencer.builder.push(&record).expect("an empty frame has room for any record");
        self.sequencer.sequence = LEAVE_SEQUENCE;
        self.write(LEAVE_SEQUENCE, wall, out);
        LEAVE_SEQUENCE
    }

    fn write(&self, sequence: u64, wall: Stamp, out: &mut Vec<u8>) {
        let sequencer = &self.sequencer;
        let header = BundleHeader {
            identity: sequencer.log.tail().identity,
            creates_log: false,
            node: sequencer.writer.node,
            epoch: sequencer.writer.epoch,
            sequence,
            wall,
            instance: self.name.instance,
            claim: self.history.back().copied().unwrap_or_default(),
            rules: rules_known(),
            name: &self.name.name,
        };
        let builder = &sequencer.builder;
        bundle::write(&header, builder.count(), builder.records(), out);
    }

    /// Applies the next message of the topic, which the brokers appended at `at`.
    ///
    /// # Errors
    /// [`ReplicaError`]: this node must stop. Only a record that cannot be read has left the log
    /// as it was.
    pub fn deliver(
        &mut self,
        bundle: &Bundle<'_>,
        at: Stamp,
    ) -> Result<AppliedMessage, ReplicaError> {
        if let Some(rejected) = self.reject_reason(&bundle.header) {
            return Ok(AppliedMessage::Rejected(rejected));
        }
        self.read(bundle.records_from(self.sequencer.log.tail().next()))?;
        let BundleHeader { node, epoch, sequence, wall, rules, .. } = bundle.header;
        if rules_known() < rules && bundle.header.creates_log {
            let log_index = self.sequencer.log.tail().next();
            return Err(ReplayError::UnknownRules { log_index, version: rules }.into());
        }
        begin(&mut self.sequencer.state, rules);
        let message = LastMessage { at, node, wall };
        let before = self.sequencer.state.stamp();
        let stamp = self.broker_clock.stamp(before, message, self.members.is_alone(node));
        let origin = BatchOrigin { writer: Writer { node, epoch }, sequence, stamp, wall };
        self.sequencer.builder.replace_records(bundle.records, bundle.count);
        let first = self.sequencer.append(&origin)?;
        let committed = self.sequencer.decide(first, &origin, self.commands.iter())?;
        self.comparison.is_due = before.0 / COMPARE_US != stamp.0 / COMPARE_US;
        let members_changed =
            !bundle.header.creates_log && self.members.see(origin.writer, sequence, stamp);
        self.remember();
        self.record_claim(&bundle.header)?;
        Ok(AppliedMessage::Applied { committed, members_changed })
    }

    /// Applies the next frame of a log that was migrated to the topic.
    ///
    /// # Errors
    /// As [`Replica::deliver`].
    pub fn restore(&mut self, frame: &Frame<'_>) -> Result<AppliedMessage, ReplicaError> {
        if let Some(rejected) = self.reject_reason_of_frame(frame) {
            return Ok(AppliedMessage::Rejected(rejected));
        }
        let header = frame.header();
        self.check_decided(header)?;
        self.read(frame.records())?;
        let BatchHeader { node, epoch, sequence, stamp, wall, rules_version, .. } = header.batch;
        begin(&mut self.sequencer.state, rules_version);
        let origin = BatchOrigin { writer: Writer { node, epoch }, sequence, stamp, wall };
        self.sequencer.take(frame)?;
        let committed = self.sequencer.decide(header.first, &origin, self.commands.iter())?;
        self.is_partial = true;
        // As in `Membership::recall`: the node that created the log was not live at that time.
        let is_later = LogIndex(1) < header.first;
        let members_changed = is_later && self.members.see(origin.writer, sequence, stamp);
        self.remember();
        Ok(AppliedMessage::Applied { committed, members_changed })
    }

    /// Takes the marker at the end of a migrated log. Returns false when the local copy does not
    /// end there.
    pub fn complete_migration(&mut self, end: &LogEnd) -> bool {
        let tail = self.sequencer.log.tail();
        let here = LogEnd { identity: tail.identity, log_index: tail.end, chain: tail.chain };
        self.is_partial &= here != *end;
        here == *end
    }

    /// Whether a migrated log is still incomplete. Bundles are rejected until it is complete.
    pub const fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// The reason to reject a migrated frame, if any.
    fn reject_reason_of_frame(&self, frame: &Frame<'_>) -> Option<RejectedMessage> {
        let tail = self.sequencer.log.tail();
        let header = frame.header();
        if header.identity != tail.identity {
            return Some(RejectedMessage::AnotherLog);
        }
        if header.last() <= tail.end {
            return Some(RejectedMessage::Repeat);
        }
        let may_follow = self.is_partial || tail.end == LogIndex(0);
        (!may_follow || frame.follows(&tail).is_err()).then_some(RejectedMessage::OutOfPlace)
    }

    /// Checks a frame's rules version and outcome digest against this node's.
    fn check_decided(&self, header: &FrameHeader) -> Result<(), ReplayError> {
        let (batch, state) = (&header.batch, &self.sequencer.state);
        if rules_known() < batch.rules_version {
            let version = batch.rules_version;
            return Err(ReplayError::UnknownRules { log_index: header.first, version });
        }
        if batch.applied == state.log_index() && batch.outcome_digest != *state.digest() {
            return Err(ReplayError::Diverged { log_index: state.log_index() });
        }
        Ok(())
    }

    /// The reason to reject a bundle, if any.
    fn reject_reason(&self, header: &BundleHeader<'_>) -> Option<RejectedMessage> {
        let state = &self.sequencer.state;
        if header.identity != self.sequencer.log.tail().identity {
            // Several nodes may create the log at the same time: the first message wins.
            let is_late = header.creates_log && state.log_index() != LogIndex(0);
            return Some(if is_late {
                RejectedMessage::OutOfPlace
            } else {
                RejectedMessage::AnotherLog
            });
        }
        if self.is_partial || header.creates_log != (state.log_index() == LogIndex(0)) {
            return Some(RejectedMessage::OutOfPlace);
        }
        match state.tail_of(header.node) {
            None if state.has_room_for_a_node() => None,
            None => Some(RejectedMessage::NoRoom),
            Some(tail) => ((header.epoch, header.sequence) <= (tail.epoch, tail.sequence))
                .then_some(RejectedMessage::Repeat),
        }
    }

    fn read(&mut self, records: Records<'_>) -> Result<(), ReplayError> {
        self.commands.clear();
        for record in records {
            let command = match self.quarantine.holds(&record)? {
                true => Command::Tick,
                false => read_command(&record)?,
            };
            check_rules_known(record.log_index, &command)?;
            self.commands.push(command);
        }
        Ok(())
    }

    /// Adds the current end of the log to the history.
    fn remember(&mut self) {
        if self.history.len() == HISTORY_MAX {
            self.history.pop_front();
        }
        let state = &self.sequencer.state;
        self.history.push_back(StateClaim {
            log_index: state.log_index(),
            digest: *state.digest(),
            chain: self.sequencer.log.chain(),
        });
    }

    /// Records a node's name and claim, and checks the claim.
    fn record_claim(&mut self, header: &BundleHeader<'_>) -> Result<(), ReplicaError> {
        let (node, claim) = (header.node, &header.claim);
        if self.names.get(&node).is_none_or(|name| name != header.name) {
            self.names.insert(node, header.name.to_owned());
        }
        let (epoch, log_index, rules) = (header.epoch, claim.log_index, header.rules);
        self.claims.insert(node, LastClaim { epoch, log_index, rules });
        if header.instance == self.name.instance || header.creates_log {
            return Ok(());
        }
        let at = self.history.partition_point(|own| own.log_index < claim.log_index);
        let Some(own) = self.history.get(at).filter(|own| own.log_index == claim.log_index) else {
            return Ok(());
        };
        if own == claim {
            self.contradicting.remove(&node);
            return Ok(());
        }
        self.contradicting.entry(node).or_insert(claim.log_index);
        self.check_majority()
    }

    /// Returns an error when at least half of the live nodes, this one included, contradict it.
    fn check_majority(&self) -> Result<(), ReplicaError> {
        let is_live = |node: u32| self.members.get(node).is_some();
        let against: Vec<_> = self.contradicting().filter(|(node, _)| is_live(*node)).collect();
        let Some(log_index) = against.iter().map(|(_, log_index)| *log_index).min() else {
            return Ok(());
        };
        if 2 * against.len() < self.members.iter().count() {
            return Ok(());
        }
        let names: Vec<_> = against.iter().map(|(node, _)| self.name_of(*node)).collect();
        Err(ReplicaError::Diverged { log_index, others: names.join(", ") })
    }

    /// The state after the last delivered frame, if all nodes compare it: the first of a minute.
    /// Its hash goes to [`Replica::note_state`].
    pub fn state_to_compare(&mut self) -> Option<StateSnapshot> {
        std::mem::take(&mut self.comparison.is_due).then(|| self.sequencer.state.snapshot())
    }

    /// Records the hash of a state of this node; returns the attestation for the other nodes.
    ///
    /// # Errors
    /// [`ReplicaError::Diverged`].
    pub fn note_state(
        &mut self,
        (log_index, hash): (LogIndex, Digest),
    ) -> Result<StateAttestation, ReplicaError> {
        let own = &mut self.comparison.own;
        own.insert(log_index, hash);
        if STATES_MAX < own.len() {
            own.pop_first();
        }
        let nodes: Vec<_> = self.comparison.stated.keys().copied().collect();
        nodes.into_iter().try_for_each(|node| self.compare(node))?;
        let Writer { node, epoch } = self.sequencer.writer;
        Ok(StateAttestation {
            identity: self.sequencer.log.tail().identity,
            node,
            epoch,
            log_index,
            hash,
        })
    }

    /// Records another node's attestation and compares it with this node's hash, now or as soon as
    /// that is known.
    ///
    /// # Errors
    /// [`ReplicaError::Diverged`].
    pub fn receive_attestation(&mut self, stated: &StateAttestation) -> Result<(), ReplicaError> {
        let StateAttestation { node, epoch, .. } = *stated;
        let is_live = self.members.get(node).is_some_and(|member| member.epoch == epoch);
        if node == self.name.node || !is_live {
            return Ok(());
        }
        self.comparison.stated.insert(node, *stated);
        self.compare(node)
    }

    fn compare(&mut self, node: u32) -> Result<(), ReplicaError> {
        let StateComparison { own, stated, differing, agreed, .. } = &mut self.comparison;
        let Some(stated) = stated.get(&node) else { return Ok(()) };
        match own.get(&stated.log_index) {
            None => Ok(()),
            Some(hash) if *hash == stated.hash => {
                differing.remove(&node);
                *agreed = (*agreed).max(Some(stated.log_index));
                Ok(())
            }
            Some(_) => {
                differing.entry(node).or_insert(stated.log_index);
                self.check_majority()
            }
        }
    }

    /// The last record after which another node attested the same state.
    pub const fn agreed(&self) -> Option<LogIndex> {
        self.comparison.agreed
    }

    /// The sequencer.
    pub const fn sequencer(&self) -> &Sequencer<L> {
        &self.sequencer
    }

    /// The sequencer, for maintenance and prefetch.
    pub const fn sequencer_mut(&mut self) -> &mut Sequencer<L> {
        &mut self.sequencer
    }

    /// The identity of this node.
    pub const fn name(&self) -> &NodeName {
        &self.name
    }

    /// The live nodes.
    pub const fn members(&self) -> &Membership {
        &self.members
    }

    /// When a previous epoch of this node that may still run last wrote, in membership time.
    pub fn former_us(&self) -> Option<u64> {
        let (epoch, seen_us) = self.members.get(self.name.node)?.replaced?;
        (epoch != self.name.ended).then_some(seen_us)
    }

    /// The commands of the last batch delivered.
    pub fn commands(&self) -> &[Command] {
        &self.commands
    }

    /// The last record that a live node claims to have applied.
    pub fn claimed(&self, node: u32) -> Option<LogIndex> {
        Some(self.claim_of(node)?.log_index)
    }

    /// The newest rules version that a live node claims to know.
    pub fn rules_of(&self, node: u32) -> Option<u32> {
        Some(self.claim_of(node)?.rules)
    }

    /// The last claim of a live node in its current epoch.
    fn claim_of(&self, node: u32) -> Option<&LastClaim> {
        let claim = self.claims.get(&node)?;
        (self.members.get(node)?.epoch == claim.epoch).then_some(claim)
    }

    /// The nodes that have decided differently or have another state.
    pub fn contradicting(&self) -> impl Iterator<Item = (u32, LogIndex)> {
        let mut all = self.contradicting.clone();
        let StateComparison { differing, stated, .. } = &self.comparison;
        let is_of_this_epoch = |node: &u32| {
            let stated = stated.get(node).map(|stated| stated.epoch);
            stated.is_some() && stated == self.members.get(*node).map(|member| member.epoch)
        };
        for (node, log_index) in differing.iter().filter(|(node, _)| is_of_this_epoch(node)) {
            all.entry(*node).and_modify(|at| *at = (*at).min(*log_index)).or_insert(*log_index);
        }
        all.into_iter()
    }

    /// The part of the brokers' time that is not trusted, in microseconds.
    pub fn held_us(&self) -> u64 {
        self.broker_clock.held_us(self.sequencer.state.stamp())
    }

    /// A node's name, or its number if the name is unknown.
    pub fn name_of(&self, node: u32) -> String {
        match self.names.get(&node) {
            Some(name) => name.clone(),
            None if node == self.name.node => self.name.name.clone(),
            None => format!("node number {node} (name unknown)"),
        }
    }
}

/// Checks that this program knows a rules version before a record activates it: nodes with the new
/// version decide differently from then on.
fn check_rules_known(log_index: LogIndex, command: &Command) -> Result<(), ReplayError> {
    let decided = command.change().map(Change::decided);
    let Some(Change::Activate(Activate { rules_version: version })) = decided else {
        return Ok(());
    };
    let version = *version;
    if rules_known() < version {
        return Err(ReplayError::UnknownRules { log_index, version });
    }
    Ok(())
}
