//! The state, batches, and what a batch brings about.

use alloc::vec::Vec;

use crate::accounts::Accounts;
use crate::change::Settings;
use crate::command::Command;
use crate::field::stored;
use crate::hashing::KeyedHashing;
use crate::ids::{Digest, FspName, LogIndex, NoticeId, ParticipantIndex, Stamp, TransferId};
use crate::notice::{Notice, Outbox};
use crate::outcome::Outcome;
use crate::registry::Registry;
use crate::rules::RULES_VERSION;
use crate::trail::Trail;
use crate::transfers::{FinalTransfer, Transfers};

/// Nodes that may ever write to one log.
pub(crate) const NODES_MAX: usize = 1_024;

/// What is known of a batch beside its commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Position of its first record.
    pub first: LogIndex,
    /// Its moment; never before that of an earlier batch.
    pub stamp: Stamp,
    /// The node that wrote it.
    pub node: u32,
    /// The node's life, counted from 1.
    pub epoch: u32,
    /// Number of its first record within that life; rises by one per record.
    pub sequence: u64,
}

/// What a batch brought about, in buffers that the caller reuses.
#[derive(Clone, Debug, Default)]
pub struct Effects {
    /// One per command, in order.
    pub outcomes: Vec<Outcome>,
    /// Notices now owed: new ones in order of number, and dead letters sent again.
    pub notices: Vec<Notice>,
    /// Prepares that are no longer wanted: to be dropped unless already attempted.
    pub withdrawn: Vec<(ParticipantIndex, NoticeId)>,
    /// Rows of transfers that ended or, being ended, changed: what a store beside the kernel is to
    /// keep, in order.
    pub ended: Vec<FinalTransfer>,
    /// Whether participants, accounts' activity, endpoints or settings changed.
    pub register_changed: bool,
}

impl Effects {
    /// Empties all buffers.
    pub fn clear(&mut self) {
        self.outcomes.clear();
        self.notices.clear();
        self.withdrawn.clear();
        self.ended.clear();
        self.register_changed = false;
    }
}

/// A moment within a batch, for whoever looks on while it is decided.
#[derive(Clone, Copy, Debug)]
pub enum ApplyStep<'a> {
    /// Before the deadlines that the stamp has reached fire.
    Opened,
    /// Before the deadline of one of these transfers fires.
    Expiring(TransferId),
    /// After it has.
    Expired(TransferId),
    /// After all of them have.
    DeadlinesFired,
    /// Before a command is decided.
    Before(LogIndex, &'a Command),
    /// After it was.
    After(LogIndex, &'a Command, Outcome),
}

stored! {
    /// How often things happened since the log began; part of the state.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Counters {
        /// Prepares that reserved.
        pub reserved: u64,
        /// Prepares refused.
        pub refused: u64,
        /// Transfers committed.
        pub committed: u64,
        /// Transfers aborted by the payee or a bad fulfilment.
        pub aborted: u64,
        /// Transfers ended by their deadline.
        pub expired: u64,
        /// Notices delivered.
        pub delivered: u64,
        /// Notices given up without a dead letter.
        pub given_up: u64,
    }
}

stored! {
    /// A node's last record, so that a repeated one is dropped.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct NodeTail {
        /// The node.
        pub node: u32,
        /// Its last life.
        pub epoch: u32,
        /// Number of its last record within that life.
        pub sequence: u64,
    }
}

/// Everything the hub knows about money.
#[derive(Clone, Debug)]
pub struct State {
    pub(crate) hub: FspName,
    pub(crate) log_index: LogIndex,
    pub(crate) stamp: Stamp,
    pub(crate) rules_version: u32,
    pub(crate) digest: Digest,
    pub(crate) settings: Settings,
    pub(crate) accounts: Accounts,
    pub(crate) registry: Registry,
    pub(crate) transfers: Transfers,
    pub(crate) outbox: Outbox,
    pub(crate) counters: Counters,
    pub(crate) nodes: Vec<NodeTail>,
    pub(crate) trail: Trail,
    pub(crate) batches: u64,
}

impl Default for State {
    fn default() -> Self {
        Self::new()
    }
}

impl State {
    /// The state before the first record: nobody and nothing.
    #[must_use]
    pub fn new() -> Self {
        let keyed = KeyedHashing::default();
        Self {
            hub: FspName::new("Hub").expect("three bytes are a name"),
            log_index: LogIndex(0),
            stamp: Stamp(0),
            rules_version: RULES_VERSION,
            digest: Digest::default(),
            settings: Settings::default(),
            accounts: Accounts::default(),
            registry: Registry::new(keyed),
            transfers: Transfers::new(keyed),
            outbox: Outbox::new(),
            counters: Counters::default(),
            nodes: Vec::new(),
            trail: Trail::default(),
            batches: 0,
        }
    }

    /// Position of the last record applied.
    #[must_use]
    pub const fn log_index(&self) -> LogIndex {
        self.log_index
    }

    /// Stamp of the last batch applied.
    #[must_use]
    pub const fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Digest of everything decided so far, chained from batch to batch.
    #[must_use]
    pub const fn digest(&self) -> &Digest {
        &self.digest
    }

    /// Version of the rules that decide the next batch.
    #[must_use]
    pub const fn rules_version(&self) -> u32 {
        self.rules_version
    }

    /// The hub's own name.
    #[must_use]
    pub const fn hub(&self) -> &FspName {
        &self.hub
    }

    /// Participants and settlement models.
    #[must_use]
    pub const fn register(&self) -> &Registry {
        &self.registry
    }

    /// Accounts and balances.
    #[must_use]
    pub const fn books(&self) -> &Accounts {
        &self.accounts
    }

    /// Settings in force.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Counts since the log began.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The last epoch in which `node` wrote, 0 when it never did.
    #[must_use]
    pub fn epoch_of(&self, node: u32) -> u32 {
        self.nodes.iter().find(|tail| tail.node == node).map_or(0, |tail| tail.epoch)
    }

    /// The last record of `node`; `None` when it never wrote one.
    #[must_use]
    pub fn tail_of(&self, node: u32) -> Option<NodeTail> {
        self.nodes.iter().find(|tail| tail.node == node).copied()
    }

    /// Whether another node can write to the log that never did.
    #[must_use]
    pub const fn has_room_for_a_node(&self) -> bool {
        self.nodes.len() < NODES_MAX
    }

    pub(crate) fn node_tail(&mut self, node: u32) -> &mut NodeTail {
        if let Some(at) = self.nodes.iter().position(|tail| tail.node == node) {
            return &mut self.nodes[at];
        }
        assert!(self.nodes.len() < NODES_MAX, "one log has at most {NODES_MAX} writers");
        self.nodes.push(NodeTail { node, epoch: 0, sequence: 0 });
        self.nodes.last_mut().expect("just pushed")
    }
}
