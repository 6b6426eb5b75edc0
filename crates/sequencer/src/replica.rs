//! One of several equal nodes over a shared log.
//!
//! [`Replica::propose`] makes a bundle of who waits; whoever drives it sends that to a topic.
//! [`Replica::deliver`] takes the messages of the topic in their order and makes of each, as every
//! other node does, the same frame or nothing:
//! - position and chain follow from the frame before, the stamp from [`BrokerClock`];
//! - nothing comes of a bundle of another log, of one that a later one of its node has overtaken
//!   (by epoch, then sequence), or of one that would begin a log that has begun.
//!
//! A log that was moved to the topic stands there frame by frame, before every bundle
//! ([`record::message`]): [`Replica::restore`] takes these as they are, [`Replica::complete_migration`] the
//! word that this was all.
//!
//! The frame goes into the log at hand, a copy of what the topic says, and is applied. Whose
//! bundle it was decides nothing. What nodes claim to have applied is held against what this one
//! has: when half of those who are there contradict it, or more, it says where and stops. So it is
//! with their whole states, which they compare once a minute of the log's time
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
use crate::replay::read_command;
use crate::{
    BatchOrigin, CommitError, Committed, Quarantine, ReplayError, Sequencer, Submission, Writer,
};

/// Ends of batches that claims can be held against.
const HISTORY_MAX: usize = 16_384;
/// Whole states are compared this often, in microseconds of the log's time.
const COMPARE_US: u64 = 60_000_000;
/// Hashes of states that others can be held against.
const STATES_MAX: usize = 8;

/// Who a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeName {
    /// For people.
    pub name: String,
    /// In the log; never 0.
    pub node: u32,
    /// Drawn anew with each start: tells two programs of one name from each other.
    pub instance: u64,
    /// An earlier life that is known to have ended; 0 for none.
    pub ended: u32,
}

/// A node of a shared log.
#[derive(Debug)]
pub struct Replica<L> {
    sequencer: Sequencer<L>,
    name: NodeName,
    quarantine: Quarantine,
    keeper: BrokerClock,
    /// What was moved here is not known to be whole.
    is_partial: bool,
    members: Membership,
    names: BTreeMap<u32, String>,
    claims: BTreeMap<u32, LastClaim>,
    history: VecDeque<StateClaim>,
    contradicting: BTreeMap<u32, LogIndex>,
    comparison: StateComparison,
    commands: Vec<Command>,
}

/// What is known of whole states.
#[derive(Debug, Default)]
struct StateComparison {
    /// The state as it is now is one to be compared.
    is_due: bool,
    /// Hashes of this node.
    own: BTreeMap<LogIndex, Digest>,
    /// What each other node said last.
    stated: BTreeMap<u32, StateAttestation>,
    /// The nodes that said something else, and where.
    differing: BTreeMap<u32, LogIndex>,
    /// The last record after which another node had the same.
    agreed: Option<LogIndex>,
}

/// What a node said of itself last.
#[derive(Clone, Copy, Debug)]
struct LastClaim {
    epoch: u32,
    log_index: LogIndex,
    rules: u32,
}

/// What came of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppliedMessage {
    /// It is a frame of the log, applied.
    Applied {
        /// The batch.
        committed: Committed,
        /// Whether with it nodes have come, gone or begun a new life.
        members_changed: bool,
    },
    /// It is no part of the log.
    Rejected(RejectedMessage),
}

/// Why a message is no part of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectedMessage {
    /// It belongs to another log.
    AnotherLog,
    /// It would begin a log that has begun, or continue one that has not, or that is not whole.
    OutOfPlace,
    /// Its node has written later ones, or has begun a new life.
    Repeat,
    /// The log has as many writers as it can take.
    NoRoom,
}

/// Why a node of a shared log must stop.
#[derive(Debug, thiserror::Error)]
pub enum ReplicaError {
    /// As for a single one.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// A record cannot be read.
    #[error(transparent)]
    Record(#[from] ReplayError),
    /// Another node came to something else.
    #[error(
        "this node has decided otherwise than {others}, or holds another state, by record {}, or \
         before: it must not go on. Compare its data directory with that of another node (`upesi \
         verify --data DIR`), and start it with an empty one",
        .log_index.0
    )]
    Diverged {
        /// Where that was seen first.
        log_index: LogIndex,
        /// Who has decided otherwise.
        others: String,
    },
}

impl<L: Log> Replica<L> {
    /// Goes on behind the last bundle that became part of the log; `None` before the first, though
    /// there may be a log that was moved here.
    ///
    /// # Errors
    /// [`LogError`] when the log's end cannot be read.
    pub fn new(
        mut sequencer: Sequencer<L>,
        name: NodeName,
        quarantine: Quarantine,
        last: Option<LastMessage>,
    ) -> Result<Self, LogError> {
        assert_ne!(name.node, 0, "number 0 is that of a node that has its log alone");
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
            keeper: BrokerClock::after(last),
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

    /// Begins a new life, above every one that the log and this program know.
    pub fn begin_epoch(&mut self) {
        let Sequencer { writer, state, .. } = &mut self.sequencer;
        let epoch = state.epoch_of(self.name.node).max(writer.epoch) + 1;
        *writer = Writer { node: self.name.node, epoch };
        self.sequencer.sequence = 1;
    }

    /// Makes one bundle: moves as many submissions as fit from the front of `waiting` to `batch`,
    /// which must be empty. Gives the sequence number of the first; the bundle is in `out`.
    pub fn propose<T>(
        &mut self,
        waiting: &mut VecDeque<Submission<T>>,
        batch: &mut Vec<Submission<T>>,
        wall: Stamp,
        out: &mut Vec<u8>,
    ) -> u64 {
        assert!(!waiting.is_empty() && batch.is_empty(), "a batch is made of who waits");
        let sequencer = &mut self.sequencer;
        sequencer.fill(waiting, batch);
        let sequence = sequencer.sequence;
        sequencer.sequence += batch.len() as u64;
        self.write(sequence, wall, out);
        sequence
    }

    /// Makes the bundle with which this life ends: whoever reads it knows that nothing of it
    /// follows, and that this node sends to nobody any more. Gives its sequence number.
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
            founding: false,
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

    /// Takes the next message of the topic, which the brokers appended at `at`.
    ///
    /// # Errors
    /// [`ReplicaError`]: this node must stop. Only a record that cannot be read has left the log
    /// as it was.
    pub fn deliver(
        &mut self,
        bundle: &Bundle<'_>,
        at: Stamp,
    ) -> Result<AppliedMessage, ReplicaError> {
        if let Some(passed) = self.passes(&bundle.header) {
            return Ok(AppliedMessage::Rejected(passed));
        }
        self.read(bundle.records_from(self.sequencer.log.tail().next()))?;
        let BundleHeader { node, epoch, sequence, wall, .. } = bundle.header;
        let message = LastMessage { at, node, wall };
        let before = self.sequencer.state.stamp();
        let stamp = self.keeper.stamp(before, message, self.members.is_alone(node));
        let origin = BatchOrigin { writer: Writer { node, epoch }, sequence, stamp, wall };
        self.sequencer.builder.hold(bundle.records, bundle.count);
        let first = self.sequencer.append(&origin)?;
        let committed = self.sequencer.decide(first, &origin, self.commands.iter())?;
        self.comparison.is_due = before.0 / COMPARE_US != stamp.0 / COMPARE_US;
        let members_changed =
            !bundle.header.founding && self.members.see(origin.writer, sequence, stamp);
        self.remember();
        self.record_claim(&bundle.header)?;
        Ok(AppliedMessage::Applied { committed, members_changed })
    }

    /// Takes the next frame of a log that was moved to the topic.
    ///
    /// # Errors
    /// As [`Replica::deliver`].
    pub fn restore(&mut self, frame: &Frame<'_>) -> Result<AppliedMessage, ReplicaError> {
        if let Some(passed) = self.passes_moved(frame) {
            return Ok(AppliedMessage::Rejected(passed));
        }
        let header = frame.header();
        self.check_decided(header)?;
        self.read(frame.records())?;
        let BatchHeader { node, epoch, sequence, stamp, wall, .. } = header.batch;
        let origin = BatchOrigin { writer: Writer { node, epoch }, sequence, stamp, wall };
        self.sequencer.take(frame)?;
        let committed = self.sequencer.decide(header.first, &origin, self.commands.iter())?;
        self.is_partial = true;
        // As they are recalled: whoever began the log did so before he was there.
        let is_later = LogIndex(1) < header.first;
        let members_changed = is_later && self.members.see(origin.writer, sequence, stamp);
        self.remember();
        Ok(AppliedMessage::Applied { committed, members_changed })
    }

    /// Takes the word that all of a log was moved to the topic. False when this is not all of it.
    pub fn complete_migration(&mut self, end: &LogEnd) -> bool {
        let tail = self.sequencer.log.tail();
        let here = LogEnd { identity: tail.identity, log_index: tail.end, chain: tail.chain };
        self.is_partial &= here != *end;
        here == *end
    }

    /// Whether more is to come of a log that was moved to the topic: nothing else counts before.
    pub const fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// Why nothing comes of a frame that was moved here, if so.
    fn passes_moved(&self, frame: &Frame<'_>) -> Option<RejectedMessage> {
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

    /// Holds what a frame says of its rules, and of what came of the records before it, against
    /// what this node knows and has decided.
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

    /// Why nothing comes of a bundle, if so.
    fn passes(&self, header: &BundleHeader<'_>) -> Option<RejectedMessage> {
        let state = &self.sequencer.state;
        if header.identity != self.sequencer.log.tail().identity {
            // Nodes that find no log at the same moment all begin one: the first did.
            let is_late = header.founding && state.log_index() != LogIndex(0);
            return Some(if is_late {
                RejectedMessage::OutOfPlace
            } else {
                RejectedMessage::AnotherLog
            });
        }
        if self.is_partial || header.founding != (state.log_index() == LogIndex(0)) {
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
            must_be_known(record.log_index, &command)?;
            self.commands.push(command);
        }
        Ok(())
    }

    /// Notes what this node has at its end.
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

    /// Takes note of a node's name and claim.
    fn record_claim(&mut self, header: &BundleHeader<'_>) -> Result<(), ReplicaError> {
        let (node, claim) = (header.node, &header.claim);
        if self.names.get(&node).is_none_or(|name| name != header.name) {
            self.names.insert(node, header.name.to_owned());
        }
        let (epoch, log_index, rules) = (header.epoch, claim.log_index, header.rules);
        self.claims.insert(node, LastClaim { epoch, log_index, rules });
        if header.instance == self.name.instance || header.founding {
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

    /// Stops this node when half of those who are there, itself included, are against it.
    fn check_majority(&self) -> Result<(), ReplicaError> {
        let is_there = |node: u32| self.members.get(node).is_some();
        let against: Vec<_> = self.contradicting().filter(|(node, _)| is_there(*node)).collect();
        let Some(log_index) = against.iter().map(|(_, log_index)| *log_index).min() else {
            return Ok(());
        };
        if 2 * against.len() < self.members.iter().count() {
            return Ok(());
        }
        let names: Vec<_> = against.iter().map(|(node, _)| self.name_of(*node)).collect();
        Err(ReplicaError::Diverged { log_index, others: names.join(", ") })
    }

    /// The state after the frame that was delivered last, if it is one that all nodes compare: the
    /// first of a minute. Every node that hashes it says so ([`Replica::note_state`]).
    pub fn state_to_compare(&mut self) -> Option<StateSnapshot> {
        std::mem::take(&mut self.comparison.is_due).then(|| self.sequencer.state.freeze())
    }

    /// Takes the hash of a state of this node; gives what to tell the others.
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

    /// Takes what a node says of its state, and holds it against this one's, now or when that is
    /// known.
    ///
    /// # Errors
    /// [`ReplicaError::Diverged`].
    pub fn receive_attestation(&mut self, stated: &StateAttestation) -> Result<(), ReplicaError> {
        let StateAttestation { node, epoch, .. } = *stated;
        let is_there = self.members.get(node).is_some_and(|member| member.epoch == epoch);
        if node == self.name.node || !is_there {
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

    /// The last record after which another node said to have the same state.
    pub const fn agreed(&self) -> Option<LogIndex> {
        self.comparison.agreed
    }

    /// The sequencer behind it.
    pub const fn sequencer(&self) -> &Sequencer<L> {
        &self.sequencer
    }

    /// The sequencer behind it, to be tended and warmed.
    pub const fn sequencer_mut(&mut self) -> &mut Sequencer<L> {
        &mut self.sequencer
    }

    /// Who this node is.
    pub const fn name(&self) -> &NodeName {
        &self.name
    }

    /// Who is there.
    pub const fn members(&self) -> &Membership {
        &self.members
    }

    /// When a former life of this node wrote last that may still run, in the members' own time.
    pub fn former_us(&self) -> Option<u64> {
        let (epoch, seen_us) = self.members.get(self.name.node)?.replaced?;
        (epoch != self.name.ended).then_some(seen_us)
    }

    /// The commands of the last batch delivered.
    pub fn commands(&self) -> &[Command] {
        &self.commands
    }

    /// Up to where a node that is there says that it has applied the log.
    pub fn claimed(&self, node: u32) -> Option<LogIndex> {
        Some(self.said(node)?.log_index)
    }

    /// The newest rules that a node that is there knows, as it says.
    pub fn rules_of(&self, node: u32) -> Option<u32> {
        Some(self.said(node)?.rules)
    }

    /// What a node that is there said of itself last.
    fn said(&self, node: u32) -> Option<&LastClaim> {
        let said = self.claims.get(&node)?;
        (self.members.get(node)?.epoch == said.epoch).then_some(said)
    }

    /// The nodes that have decided otherwise than this one, or have another state.
    pub fn contradicting(&self) -> impl Iterator<Item = (u32, LogIndex)> {
        let mut all = self.contradicting.clone();
        let StateComparison { differing, stated, .. } = &self.comparison;
        let is_of_this_life = |node: &u32| {
            let said = stated.get(node).map(|stated| stated.epoch);
            said.is_some() && said == self.members.get(*node).map(|member| member.epoch)
        };
        for (node, log_index) in differing.iter().filter(|(node, _)| is_of_this_life(node)) {
            all.entry(*node).and_modify(|at| *at = (*at).min(*log_index)).or_insert(*log_index);
        }
        all.into_iter()
    }

    /// How much of the brokers' time is not believed, in microseconds.
    pub fn held_us(&self) -> u64 {
        self.keeper.held_us(self.sequencer.state.stamp())
    }

    /// A node's name, as far as it was heard; its number otherwise.
    pub fn name_of(&self, node: u32) -> String {
        match self.names.get(&node) {
            Some(name) => name.clone(),
            None if node == self.name.node => self.name.name.clone(),
            None => format!("a node whose name was not heard (number {node})"),
        }
    }
}

/// Rules that others may decide by from here on must be known here: what this program would make of
/// the command is not what they do.
fn must_be_known(log_index: LogIndex, command: &Command) -> Result<(), ReplayError> {
    let Some(Change::Activate(Activate { rules_version: version })) = command.change() else {
        return Ok(());
    };
    let version = *version;
    if rules_known() < version {
        return Err(ReplayError::UnknownRules { log_index, version });
    }
    Ok(())
}
