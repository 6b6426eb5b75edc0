//! The state, batches, and the effects of a batch.

use alloc::vec::Vec;

use crate::accounts::Accounts;
use crate::alerts::Alerts;
use crate::batch_digest::BatchDigest;
use crate::bulks::Bulks;
use crate::change::{Change, Settings};
use crate::command::{Command, TraceId};
use crate::enrolments::Enrolments;
use crate::erasures::Erasures;
use crate::fees::FeeBook;
use crate::field::stored;
use crate::hashing::KeyedHashing;
use crate::ids::{
    AccountId, Digest, FspName, LogIndex, NoticeId, ParticipantIndex, ProposalId, SettlementId,
    Stamp, TransferId, WindowId,
};
use crate::money::Amount;
use crate::notice::{Notice, Outbox};
use crate::operators::OperatorBook;
use crate::outcome::Outcome;
use crate::proposals::{Proposals, takes_rights_away};
use crate::quotes::{QuoteRow, Quotes};
use crate::registry::Registry;
use crate::rules::RULES_VERSION;
use crate::settlement::{ArchivedSettlement, SettlementBook};
use crate::transaction_requests::{TransactionRequestRow, TransactionRequests};
use crate::transfers::{FinalTransfer, Transfers};

/// Maximum number of nodes that may ever write to one log.
pub(crate) const NODES_MAX: usize = 1_024;

/// The properties of a batch besides its commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Number of its first record.
    pub first: LogIndex,
    /// Its time; never before that of an earlier batch.
    pub stamp: Stamp,
    /// The node that wrote it.
    pub node: u32,
    /// The node's epoch, counted from 1.
    pub epoch: u32,
    /// Number of its first record within that epoch; rises by one per record.
    pub sequence: u64,
}

/// The effects of a batch, in buffers that the caller reuses.
#[derive(Clone, Debug, Default)]
pub struct Effects {
    /// One per command, in order.
    pub outcomes: Vec<Outcome>,
    /// Notices now owed: new ones in order of number, and requeued dead letters.
    pub notices: Vec<Notice>,
    /// Prepares that are no longer needed: to be dropped unless already attempted.
    pub withdrawn: Vec<(ParticipantIndex, NoticeId)>,
    /// Rows of transfers that became final or, being final, changed: the cold store must keep them,
    /// in order.
    pub final_rows: Vec<FinalTransfer>,
    /// Windows and settlements that left memory: the evicted store must keep them.
    pub archived: Vec<ArchivedSettlement>,
    /// The results of changes that have more than an outcome, by record.
    pub results: Vec<(LogIndex, ChangeResult)>,
    /// The committed transfers, for measurements. Not part of the state.
    pub committed: Vec<CommittedTransfer>,
    /// Changes of positions by the operator and by settlements, for forecasts. Not part of the
    /// state.
    pub position_jumps: Vec<(AccountId, Amount)>,
    /// Whether participants, accounts' activity, endpoints or settings have changed.
    pub registry_changed: bool,
}

/// A transfer that a batch committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommittedTransfer {
    /// The record that committed it; ascending within a batch.
    pub source: LogIndex,
    /// When it was reserved.
    pub reserved_at: Stamp,
    /// Trace of its prepare.
    pub trace: TraceId,
}

/// The result of a change that has more than an outcome, for its caller. Not part of the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeResult {
    /// The window that was opened when another one was closed.
    Opened(WindowId),
    /// The settlement that was created.
    Created(SettlementId),
    /// The proposal that was recorded, or that was open already.
    Proposed(ProposalId),
    /// The enrolment that was begun, or that was open already.
    Enrolment(LogIndex),
    /// The windows that a settlement cannot take.
    Inapplicable(Vec<WindowId>),
    /// The result of each account of an [`AdvanceSettlement`](crate::AdvanceSettlement), in order.
    Advanced(Vec<StepResult>),
}

/// The decision on one command, for its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeReply {
    /// The outcome.
    pub outcome: Outcome,
    /// The record of the command; 0 if the caller does not know it.
    pub log_index: LogIndex,
    /// The result of a change that has more than an outcome.
    pub result: Option<ChangeResult>,
}

impl From<Outcome> for ChangeReply {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, log_index: LogIndex(0), result: None }
    }
}

/// The result of one [`AccountStep`](crate::AccountStep).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepResult {
    /// The account has moved.
    Moved,
    /// The account was in the state already; reason and reference are updated.
    Updated,
    /// The participant has no account in the settlement.
    ParticipantNotFound,
    /// The account is not in the settlement.
    AccountNotFound,
    /// The account belongs to another participant.
    ParticipantMismatch,
    /// The request names the account twice.
    Repeated,
    /// The account cannot move to this state.
    NotAllowed,
}

impl Effects {
    /// The decision on the command of a record, for its caller.
    #[must_use]
    pub fn decided(&self, record: LogIndex, outcome: Outcome) -> ChangeReply {
        let result = self.results.iter().find(|(index, _)| *index == record);
        ChangeReply { outcome, log_index: record, result: result.map(|(_, result)| result.clone()) }
    }

    /// Empties all buffers.
    pub fn clear(&mut self) {
        self.outcomes.clear();
        self.notices.clear();
        self.withdrawn.clear();
        self.final_rows.clear();
        self.archived.clear();
        self.results.clear();
        self.committed.clear();
        self.position_jumps.clear();
        self.registry_changed = false;
    }
}

/// A step within a batch, for observers.
#[derive(Clone, Copy, Debug)]
pub enum ApplyStep<'a> {
    /// Before the deadlines fire that the stamp has reached.
    Opened,
    /// Before the deadline of this transfer fires.
    Expiring(TransferId),
    /// After the deadline of this transfer has fired.
    Expired(TransferId),
    /// After all of them have fired.
    DeadlinesFired,
    /// Before a command is decided.
    Before(LogIndex, &'a Command),
    /// Before an item of a bulk transfer is decided, as the command that it would be alone. This
    /// and the next one are between the steps of the bulk's own command.
    ItemBefore(LogIndex, &'a Command),
    /// After an item was decided.
    ItemAfter(LogIndex, &'a Command, Outcome),
    /// After a command was decided.
    After(LogIndex, &'a Command, Outcome),
}

stored! {
    /// Counts of events since the start of the log; part of the state.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Counters {
        /// Prepares that reserved.
        pub reserved: u64,
        /// Prepares that were refused.
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
    /// A node's last record, used to drop a repeated one.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct NodeTail {
        /// The node.
        pub node: u32,
        /// Its last epoch.
        pub epoch: u32,
        /// Number of its last record within that epoch.
        pub sequence: u64,
    }
}

/// The kernel's state: all money, participants, transfers and owed notices.
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
    pub(crate) settlement: SettlementBook,
    pub(crate) alerts: Alerts,
    pub(crate) fees: FeeBook,
    pub(crate) operators: OperatorBook,
    pub(crate) proposals: Proposals,
    pub(crate) enrolments: Enrolments,
    pub(crate) erasures: Erasures,
    pub(crate) bulks: Bulks,
    pub(crate) quotes: Quotes,
    pub(crate) requests: TransactionRequests,
    pub(crate) counters: Counters,
    pub(crate) nodes: Vec<NodeTail>,
    pub(crate) batch_digest: BatchDigest,
    pub(crate) batches: u64,
}

impl Default for State {
    fn default() -> Self {
        Self::new()
    }
}

impl State {
    /// The state before the first record: empty.
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
            settlement: SettlementBook::default(),
            alerts: Alerts::default(),
            fees: FeeBook::default(),
            operators: OperatorBook::default(),
            proposals: Proposals::default(),
            enrolments: Enrolments::default(),
            erasures: Erasures::default(),
            bulks: Bulks::default(),
            quotes: Quotes::new(keyed),
            requests: TransactionRequests::new(keyed),
            counters: Counters::default(),
            nodes: Vec::new(),
            batch_digest: BatchDigest::default(),
            batches: 0,
        }
    }

    /// Number of the last record applied.
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

    /// The seed of the genesis record.
    #[must_use]
    pub const fn seed(&self) -> [u8; 16] {
        self.transfers.keyed().key()
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
    pub const fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Accounts and balances.
    #[must_use]
    pub const fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// Windows and settlements.
    #[must_use]
    pub const fn settlement(&self) -> &SettlementBook {
        &self.settlement
    }

    /// Alarms and owed alerts.
    #[must_use]
    pub const fn alerts(&self) -> &Alerts {
        &self.alerts
    }

    /// Fee rules, and the fees of transfers in flight.
    #[must_use]
    pub const fn fees(&self) -> &FeeBook {
        &self.fees
    }

    /// Operators of the admin API, their roles and tokens.
    #[must_use]
    pub const fn operators(&self) -> &OperatorBook {
        &self.operators
    }

    /// Kinds of changes that need a second person, and proposals.
    #[must_use]
    pub const fn proposals(&self) -> &Proposals {
        &self.proposals
    }

    /// Requests of participants for certificates.
    #[must_use]
    pub const fn enrolments(&self) -> &Enrolments {
        &self.enrolments
    }

    /// Erasures of the contents of records.
    #[must_use]
    pub const fn erasures(&self) -> &Erasures {
        &self.erasures
    }

    /// A recorded quote; `None` if it is unknown, or no longer kept.
    #[must_use]
    pub fn quote(&self, id: &TransferId) -> Option<&QuoteRow> {
        self.quotes.find(id)
    }

    /// The recorded quotes, in order of their requests.
    pub fn quotes(&self) -> impl Iterator<Item = &QuoteRow> {
        self.quotes.iter()
    }

    /// Number of recorded quotes.
    #[must_use]
    pub fn quote_count(&self) -> usize {
        self.quotes.len()
    }

    /// A recorded transaction request; `None` if it is unknown, or no longer kept.
    #[must_use]
    pub fn transaction_request(&self, id: &TransferId) -> Option<&TransactionRequestRow> {
        self.requests.find(id)
    }

    /// The recorded transaction requests, in their order.
    pub fn transaction_requests(&self) -> impl Iterator<Item = &TransactionRequestRow> {
        self.requests.iter()
    }

    /// Number of recorded transaction requests.
    #[must_use]
    pub fn transaction_request_count(&self) -> usize {
        self.requests.len()
    }

    /// Whether a change is decided only as part of an approval.
    #[must_use]
    pub fn needs_approval(&self, change: &Change) -> bool {
        // An erasure cannot be undone: if operators have names, two are needed.
        if let Change::Erase(erase) = change {
            let has_operators = self.operators.operators().any(|it| it.active);
            let is_listed = self.proposals.needs(change.declaration());
            return !erase.form.is_retention() && (has_operators || is_listed);
        }
        self.proposals.needs(change.declaration()) && !takes_rights_away(&self.operators, change)
    }

    /// The same state without kinds that need a second person, and without proposals, for copies
    /// that decide other changes than the log has.
    #[must_use]
    pub fn without_four_eyes(mut self) -> Self {
        self.proposals = Proposals::default();
        self
    }

    /// Decides by this version of the rules, which is that of the log. Before the first record
    /// only.
    pub fn begin_under(&mut self, rules_version: u32) {
        assert_eq!(self.log_index, LogIndex(0), "a log begins under one version of the rules");
        self.rules_version = rules_version;
    }

    /// Settings in force.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Counts since the start of the log.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The last epoch in which `node` wrote, 0 if it never did.
    #[must_use]
    pub fn epoch_of(&self, node: u32) -> u32 {
        self.nodes.iter().find(|tail| tail.node == node).map_or(0, |tail| tail.epoch)
    }

    /// The last record of `node`; `None` if it never wrote one.
    #[must_use]
    pub fn tail_of(&self, node: u32) -> Option<NodeTail> {
        self.nodes.iter().find(|tail| tail.node == node).copied()
    }

    /// Whether one more node can write to the log.
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
