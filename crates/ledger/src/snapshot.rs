//! The whole state as plain tables, to be stored and restored.
//!
//! [`State::tables`] exposes everything that the next decision depends on: one [`StateHeader`] with
//! the small parts, and tables of rows. The order of each table depends on the log alone, so equal
//! states have equal tables. [`StateBuilder`] takes the same parts in the same order and restores a
//! state that decides every further batch like the original.
//!
//! Everything that can be computed from other parts is left out: indexes, the order of deadlines,
//! counts of notices by recipient, the internal accounts of a currency.
//!
//! [`State::snapshot`] takes a copy-on-write snapshot, which can be stored while the state changes.
//!
//! A builder rejects parts that no valid state has ([`InvalidState`]) and never panics. Costs: two
//! keyed hashes and two probes per transfer. Bounds: those of the tables.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::accounts::{Account, AccountKind, Accounts};
use crate::alerts::{ALERTS_MAX, Alert, AlertNumbers, Alerts, LiquidityAlarm};
use crate::batch_digest::BatchDigest;
use crate::bulks::{Bulks, OpenBulk};
use crate::change::{LedgerAccountType, Oracle, Settings, SettlementModel, StatePart};
use crate::commands::choose_modes;
use crate::description::Description;
use crate::enrolments::{ENROLMENTS_MAX, Enrolment, Enrolments};
use crate::erasures::{ERASURES_MAX, Erasure, Erasures};
use crate::evicted::EvictedRows;
use crate::fees::{FEE_RULES_MAX, FeeBook, FeeRule, PendingFee};
use crate::field::{Field, FieldError, Reader, Row, RowList, stored};
use crate::hashing::KeyedHashing;
use crate::ids::{
    ACCOUNTS_MAX, AccountId, Digest, FspName, LogIndex, NoticeId, OracleId, ParticipantIndex,
    SettlementId, Stamp, TransferId, WindowId,
};
use crate::money::Amount;
use crate::notice::{DeadLetter, Notice, Outbox};
use crate::operators::{
    OPERATORS_MAX, Operator, OperatorBook, OperatorRole, OperatorToken, ROLES_MAX, TOKENS_MAX,
};
use crate::proposals::{FourEyes, PROPOSALS_MAX, Proposal, Proposals};
use crate::quotes::{QUOTES_MAX, QuoteRow, Quotes};
use crate::registry::{
    LEDGER_ACCOUNT_TYPES_MAX, ORACLES_MAX, PARTICIPANTS_MAX, Participant, ReferenceData, Registry,
    SETTLEMENT_MODELS_MAX,
};
use crate::rules::{FEES, OPERATORS, SETTLEMENT, rules_known};
use crate::settlement::{
    AccountSums, PairSums, SETTLEMENTS_MAX, Settlement, SettlementAccount, SettlementNumbers,
    WINDOWS_MAX, Window,
};
use crate::settlement_restore::{MISSING_ACCOUNT, SettlementRows, TOO_LARGE};
use crate::state::{Counters, NODES_MAX, State};
use crate::table::tables;
use crate::transaction_requests::{
    TRANSACTION_REQUESTS_MAX, TransactionRequestRow, TransactionRequests,
};
use crate::transfers::{TransferLocation, Transfers};

mod alerts;
mod bulks;
mod enrolments;
mod erasures;
mod fees;
mod notices;
mod operators;
mod proposals;
mod quotes;
mod registry;
mod settlement;
mod transaction_requests;
mod transfers;

pub use crate::field::InvalidState;
pub use crate::state::NodeTail;
pub use crate::transfers::{
    FinalTransfer, Outflow, RecordedResponse, ReservedTransfer, ResponseKind,
};

stored! {
    /// The parts of a state that are not tables.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct StateHeader {
        /// Key of the kernel's hash maps.
        pub seed: [u8; 16],
        /// The hub's own name.
        pub hub: FspName,
        /// The last record applied.
        pub log_index: LogIndex,
        /// Stamp of the last batch.
        pub stamp: Stamp,
        /// Version of the rules that decide the next batch.
        pub rules_version: u32,
        /// Digest of everything decided so far.
        pub digest: Digest,
        /// Settings in force.
        pub settings: Settings,
        /// Counts since the start of the log.
        pub counters: Counters,
        /// The last record of each node that ever wrote, in order of their first records.
        pub nodes: Vec<NodeTail> as RowList,
        /// Number of batches applied.
        pub batches: u64,
        /// Number of the newest notice.
        pub last_notice: NoticeId,
        /// Number of the newest oracle.
        pub last_oracle: OracleId,
        /// Count and digest of the evicted rows.
        pub evicted: EvictedRows,
        /// The newest numbers of settlement, and its archive.
        pub settlement: SettlementNumbers,
        /// Numbers of alerts.
        pub alerts: AlertNumbers,
    }
}

/// Bound of tables that the caller of the kernel bounds.
const UNBOUNDED: usize = usize::MAX;

tables! {
    /// Accounts, internal ones included, in order of number.
    3 Accounts: Account, ordered, at most ACCOUNTS_MAX;
    /// Participants, the hub first.
    4 Participants: Participant, ordered, at most PARTICIPANTS_MAX;
    /// Settlement models, oldest first.
    5 SettlementModels: SettlementModel, ordered, at most SETTLEMENT_MODELS_MAX;
    /// Oracles with their numbers, oldest first.
    6 Oracles: (OracleId, Oracle), ordered, at most ORACLES_MAX;
    /// Account types added to the kernel's own, oldest first.
    7 LedgerAccountTypes: LedgerAccountType, ordered, at most LEDGER_ACCOUNT_TYPES_MAX;
    /// Transfers in flight, in order of their prepares.
    8 ReservedTransfers: ReservedTransfer, unordered, at most UNBOUNDED;
    /// Reserved outflows of funds, in order of id.
    9 Outflows: (TransferId, Outflow), ordered, at most UNBOUNDED;
    /// Final transfers in memory, in the order in which they became so.
    10 FinalTransfers: FinalTransfer, unordered, at most UNBOUNDED;
    /// Notices owed, in order of number.
    11 Notices: Notice, ordered, at most UNBOUNDED;
    /// Dead letters, in order of number.
    12 DeadLetters: DeadLetter, ordered, at most UNBOUNDED;
    /// Windows in memory, oldest first; the last one is open.
    13 Windows: Window, ordered, at most WINDOWS_MAX + 1;
    /// Sums per account of these windows, by window, in order of their first transfer.
    14 WindowAccounts: (WindowId, AccountSums), ordered, at most UNBOUNDED;
    /// Sums per pair of these windows, by window, in order of their first transfer.
    15 WindowPairs: (WindowId, PairSums), ordered, at most UNBOUNDED;
    /// Settlements in memory, oldest first.
    16 Settlements: Settlement, ordered, at most SETTLEMENTS_MAX;
    /// Accounts of these settlements, by settlement, in order of number.
    17 SettlementAccounts: (SettlementId, SettlementAccount), ordered, at most UNBOUNDED;
    /// Alerts that are owed, oldest first.
    18 Alerts: Alert, ordered, at most ALERTS_MAX;
    /// Raised alarms of liquidity, by participant and currency.
    19 LiquidityAlarms: LiquidityAlarm, ordered, at most ACCOUNTS_MAX;
    /// Fee rules, in order of number.
    20 FeeRules: FeeRule, ordered, at most FEE_RULES_MAX;
    /// Fees of transfers in flight, in order of id.
    21 PendingFees: (TransferId, PendingFee), ordered, at most UNBOUNDED;
    /// Roles, in order of name.
    22 OperatorRoles: OperatorRole, ordered, at most ROLES_MAX;
    /// Operators, in order of name.
    23 Operators: Operator, ordered, at most OPERATORS_MAX;
    /// Tokens of operators, in order of id.
    24 OperatorTokens: OperatorToken, ordered, at most TOKENS_MAX;
    /// Kinds of changes that need a second person, if there were ever any.
    25 FourEyes: FourEyes, ordered, at most 1;
    /// Proposals, in order of number.
    26 Proposals: Proposal, ordered, at most PROPOSALS_MAX;
    /// Enrolments, in order of the records that began them.
    27 Enrolments: Enrolment, ordered, at most ENROLMENTS_MAX;
    /// Open bulk transfers, in order of their records.
    28 OpenBulks: OpenBulk, ordered, at most UNBOUNDED;
    /// Recorded quotes, in order of their requests.
    29 Quotes: QuoteRow, ordered, at most QUOTES_MAX;
    /// Recorded transaction requests, in their order.
    30 TransactionRequests: TransactionRequestRow, ordered, at most TRANSACTION_REQUESTS_MAX;
    /// Erasures, oldest first.
    31 Erasures: Erasure, ordered, at most ERASURES_MAX;
}

impl Table {
    /// The parts of the state that the rows belong to.
    #[must_use]
    pub const fn parts(self) -> &'static [StatePart] {
        match self {
            Self::Accounts => &[StatePart::Accounts, StatePart::Balances],
            Self::Participants => {
                &[StatePart::Participants, StatePart::Accounts, StatePart::Limits]
            }
            Self::SettlementModels => &[StatePart::SettlementModels],
            Self::Oracles => &[StatePart::Oracles],
            Self::LedgerAccountTypes => &[StatePart::LedgerAccountTypes],
            Self::ReservedTransfers
            | Self::Outflows
            | Self::FinalTransfers
            | Self::PendingFees
            | Self::OpenBulks => &[StatePart::Transfers],
            Self::Notices | Self::DeadLetters => &[StatePart::Notices],
            Self::Windows | Self::WindowAccounts | Self::WindowPairs => &[StatePart::Windows],
            Self::Settlements | Self::SettlementAccounts => &[StatePart::Settlements],
            Self::Alerts | Self::LiquidityAlarms => &[StatePart::Alerts],
            Self::FeeRules => &[StatePart::FeeRules],
            Self::OperatorRoles | Self::Operators | Self::OperatorTokens => &[StatePart::Operators],
            Self::FourEyes | Self::Proposals => &[StatePart::Proposals],
            Self::Enrolments => &[StatePart::Enrolments],
            Self::Quotes => &[StatePart::Quotes],
            Self::TransactionRequests => &[StatePart::TransactionRequests],
            Self::Erasures => &[StatePart::Erasures],
        }
    }

    /// Number of fields, from the first one, that name a row.
    #[must_use]
    pub const fn key_fields(self) -> usize {
        match self {
            Self::FourEyes => 0,
            Self::Accounts => 4,
            Self::WindowPairs => 3,
            Self::WindowAccounts | Self::SettlementAccounts | Self::LiquidityAlarms => 2,
            Self::Participants
            | Self::SettlementModels
            | Self::Oracles
            | Self::LedgerAccountTypes
            | Self::ReservedTransfers
            | Self::Outflows
            | Self::FinalTransfers
            | Self::Notices
            | Self::DeadLetters
            | Self::Windows
            | Self::Settlements
            | Self::Alerts
            | Self::FeeRules
            | Self::PendingFees
            | Self::OperatorRoles
            | Self::Operators
            | Self::OperatorTokens
            | Self::Proposals
            | Self::Enrolments
            | Self::OpenBulks
            | Self::Quotes
            | Self::TransactionRequests
            | Self::Erasures => 1,
        }
    }
}

/// Receives the tables of a state, one after the other.
pub trait TableVisitor {
    /// An error that ends the visit.
    type Error;

    /// Receives one table.
    ///
    /// # Errors
    /// Those of the visitor.
    fn table<R: Row>(
        &mut self,
        table: Table,
        rows: impl IntoIterator<Item = R>,
    ) -> Result<(), Self::Error>;
}

/// A type of rows, and its table.
pub(crate) trait InTable {
    const TABLE: Table;
}

/// Rows of a table. Each declared table needs an implementation.
pub(crate) trait TableRow: Field + InTable {
    /// The rows of a state, in the table's order.
    fn all(state: &State) -> impl IntoIterator<Item = impl Row>;

    /// Adds the next row of its table to a state.
    fn restore(self, builder: &mut StateBuilder) -> Result<(), InvalidState>;
}

/// The reasons why a row is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
    /// The bytes are not a valid row.
    #[error("invalid row: {0}")]
    Field(#[from] FieldError),
    /// The row contradicts earlier rows.
    #[error("inconsistent rows: {0}")]
    State(#[from] InvalidState),
}

/// The parts of a state: the header, and the tables in the order that a [`StateBuilder`] takes.
#[derive(Clone, Copy, Debug)]
pub struct StateTables<'a>(&'a State);

/// A snapshot of the state between two batches. It holds only the parts, no indexes. Its rows are
/// in pages that the state copies before changing them.
#[derive(Clone, Debug)]
pub struct StateSnapshot(State);

impl StateSnapshot {
    /// The parts.
    #[must_use]
    pub const fn tables(&self) -> StateTables<'_> {
        self.0.tables()
    }

    /// The last record applied.
    #[must_use]
    pub const fn log_index(&self) -> LogIndex {
        self.0.log_index
    }

    /// [`State::hash`] of the state at the time of the snapshot.
    #[must_use]
    pub fn hash(&self) -> Digest {
        self.0.hash()
    }

    /// Evicts up to `rows_max` final transfers, oldest first, and returns their number. The cold
    /// store must have everything up to [`StateSnapshot::log_index`].
    pub fn evict(&mut self, rows_max: usize) -> usize {
        let transfers = &mut self.0.transfers;
        let rows = transfers.hot_count().min(rows_max);
        (0..rows).for_each(|_| transfers.evict_oldest_unindexed());
        rows
    }
}

impl State {
    /// Takes a snapshot. Between two batches only. Costs: a reference count per page of transfers,
    /// and a copy of everything else: participants, accounts, notices owed and dead letters.
    #[must_use]
    pub fn snapshot(&self) -> StateSnapshot {
        StateSnapshot(Self {
            hub: self.hub,
            log_index: self.log_index,
            stamp: self.stamp,
            rules_version: self.rules_version,
            digest: self.digest,
            settings: self.settings,
            accounts: self.accounts.clone(),
            registry: self.registry.clone(),
            transfers: self.transfers.snapshot(),
            outbox: self.outbox.clone(),
            settlement: self.settlement.clone(),
            alerts: self.alerts.clone(),
            fees: self.fees.clone(),
            operators: self.operators.clone(),
            proposals: self.proposals.clone(),
            enrolments: self.enrolments.clone(),
            erasures: self.erasures.clone(),
            bulks: self.bulks.clone(),
            quotes: self.quotes.snapshot(),
            requests: self.requests.snapshot(),
            counters: self.counters,
            nodes: self.nodes.clone(),
            batch_digest: BatchDigest::default(),
            batches: self.batches,
        })
    }

    /// The state as plain tables. Between two batches only.
    #[must_use]
    pub const fn tables(&self) -> StateTables<'_> {
        StateTables(self)
    }
}

impl StateTables<'_> {
    /// The parts that are not tables.
    #[must_use]
    pub fn header(self) -> StateHeader {
        let state = self.0;
        StateHeader {
            seed: state.transfers.keyed().key(),
            hub: state.hub,
            log_index: state.log_index,
            stamp: state.stamp,
            rules_version: state.rules_version,
            digest: state.digest,
            settings: state.settings,
            counters: state.counters,
            nodes: state.nodes.clone(),
            batches: state.batches,
            last_notice: state.outbox.last_id(),
            last_oracle: state.registry.last_oracle(),
            evicted: *state.evicted(),
            settlement: *state.settlement.numbers(),
            alerts: *state.alerts.numbers(),
        }
    }
}

impl StateHeader {
    /// Whether every number can rise with further batches. Names each field, so that a new field
    /// needs its bound.
    fn is_in_range(&self) -> bool {
        let Self {
            // Not numbers that rise.
            seed: _,
            hub: _,
            digest: _,
            settings: _,
            // Bounded by the rules that this program supports.
            rules_version: _,
            log_index,
            stamp,
            counters,
            nodes,
            batches,
            last_notice,
            last_oracle,
            evicted,
            settlement,
            alerts,
        } = self;
        let SettlementNumbers {
            window,
            content,
            settlement,
            archived_windows,
            archived_settlements,
        } = settlement;
        let Counters { reserved, refused, committed, aborted, expired, delivered, given_up } =
            *counters;
        let counted = [reserved, refused, committed, aborted, expired, delivered, given_up];
        let numbers = [log_index.0, stamp.0, *batches, last_notice.0, evicted.rows];
        let archived = [archived_windows.rows, archived_settlements.rows];
        let AlertNumbers { last: last_alert, dropped } = alerts;
        let alerts = [last_alert.0, *dropped];
        // A node that left the log has the greatest sequence; its next epoch starts again at 1.
        let sequences = nodes.iter().map(|tail| tail.sequence).filter(|last| *last != u64::MAX);
        let mut numbers =
            counted.into_iter().chain(numbers).chain(archived).chain(alerts).chain(sequences);
        let rising = [last_oracle.0, window.0, content.0, settlement.0];
        let mut small = nodes.iter().map(|tail| tail.epoch).chain(rising);
        numbers.all(|number| number < NUMBERS_END) && small.all(|number| number < SMALL_END)
    }
}

/// Restores a state. The rows of each table are added in its own order. Accounts and participants
/// come before rows that refer to them.
#[derive(Debug)]
pub struct StateBuilder {
    head: StateHeader,
    /// Number of rows added to each table.
    rows: BTreeMap<Table, usize>,
    accounts: Vec<Account>,
    participants: Vec<Participant>,
    catalogue: ReferenceData,
    transfers: Transfers,
    /// Reserved amounts by the account that they were taken from.
    reserved: Sums,
    flowing: Sums,
    last_prepare: LogIndex,
    outbox: Outbox,
    last_notice: NoticeId,
    settlement: SettlementRows,
    alerts: Alerts,
    fees: FeeBook,
    operators: OperatorBook,
    proposals: Proposals,
    enrolments: Enrolments,
    erasures: Erasures,
    bulks: Bulks,
    quotes: Quotes,
    /// The record of the last quote.
    last_quote: LogIndex,
    requests: TransactionRequests,
    /// The record of the last transaction request.
    last_request: LogIndex,
    /// Items in flight besides the first one of their bulk, as far as no bulk has them.
    items_in_flight: usize,
}

/// Amounts by account.
type Sums = BTreeMap<AccountId, Amount>;

/// Bound of counts, log indexes and times, so that none overflows with the next batches.
const NUMBERS_END: u64 = 1 << 63;
/// Bound of numbers of 32 bits: epochs of nodes and numbers of oracles.
const SMALL_END: u32 = 1 << 31;

const MISSING_PARTICIPANT: InvalidState = InvalidState("a row refers to a missing participant");

impl StateBuilder {
    /// Starts with the header.
    ///
    /// # Errors
    /// [`InvalidState`] if the header is invalid, or under newer rules.
    pub fn new(head: StateHeader) -> Result<Self, InvalidState> {
        if rules_known() < head.rules_version {
            return Err(InvalidState("the state needs newer rules than this program supports"));
        }
        if !head.is_in_range() {
            return Err(InvalidState("a number in the state header is out of range"));
        }
        let mut nodes: Vec<_> = head.nodes.iter().map(|tail| tail.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        if nodes.len() != head.nodes.len() || NODES_MAX < nodes.len() {
            return Err(InvalidState("the list of nodes has duplicates or too many entries"));
        }
        let mut outbox = Outbox::new();
        outbox.set_last_id(head.last_notice);
        let seed = head.seed;
        Ok(Self {
            transfers: Transfers::with_evicted(KeyedHashing::new(head.seed), head.evicted),
            catalogue: ReferenceData { last_oracle: head.last_oracle, ..ReferenceData::default() },
            alerts: Alerts { numbers: head.alerts, ..Alerts::default() },
            head,
            rows: BTreeMap::new(),
            accounts: Vec::new(),
            participants: Vec::new(),
            reserved: Sums::new(),
            flowing: Sums::new(),
            last_prepare: LogIndex(0),
            outbox,
            last_notice: NoticeId(0),
            settlement: SettlementRows::default(),
            fees: FeeBook::default(),
            operators: OperatorBook::default(),
            proposals: Proposals::default(),
            enrolments: Enrolments::default(),
            erasures: Erasures::default(),
            bulks: Bulks::default(),
            quotes: Quotes::new(KeyedHashing::new(seed)),
            last_quote: LogIndex(0),
            requests: TransactionRequests::new(KeyedHashing::new(seed)),
            last_request: LogIndex(0),
            items_in_flight: 0,
        })
    }

    /// Adds the next row of its table.
    pub(crate) fn add_row<R: TableRow>(&mut self, row: R) -> Result<(), InvalidState> {
        let rows = self.rows.entry(R::TABLE).or_default();
        *rows += 1;
        if R::TABLE.rows_max() < *rows {
            return Err(InvalidState("a table has too many rows"));
        }
        row.restore(self)
    }

    /// Returns the state, once all parts are added.
    ///
    /// # Errors
    /// [`InvalidState`] if the parts contradict each other.
    pub fn finish(self) -> Result<State, InvalidState> {
        let participants = self.participants.len();
        if self.accounts.iter().any(|account| participants <= account.owner.at()) {
            return Err(MISSING_PARTICIPANT);
        }
        let accounts = Accounts::restore(self.accounts)?;
        check_reserved(&accounts, AccountKind::InFlight, &self.reserved)?;
        check_reserved(&accounts, AccountKind::Outflow, &self.flowing)?;
        for (at, participant) in self.participants.iter().enumerate() {
            check_participant(&accounts, ParticipantIndex(at as u32), participant)?;
        }
        if self.items_in_flight != 0 {
            return Err(InvalidState("transfers in flight share a prepare without a bulk"));
        }
        let head = self.head;
        let hub = self.participants.first().map(|hub| hub.name);
        if hub.is_some_and(|hub| hub != head.hub) || hub.is_none() != (head.log_index.0 == 0) {
            return Err(InvalidState("the hub is not the first participant"));
        }
        let keyed = KeyedHashing::new(head.seed);
        let settlement = self.settlement.finish(head.settlement, &accounts)?;
        let has_window = head.settlement.window != WindowId(0);
        if has_window != (SETTLEMENT <= head.rules_version && 0 < head.log_index.0) {
            return Err(InvalidState("the open window does not fit the rules in force"));
        }
        if head.rules_version < FEES && !self.fees.rules.is_empty() {
            return Err(InvalidState("the fee rules do not fit the rules in force"));
        }
        if head.rules_version < OPERATORS && self.operators != OperatorBook::default() {
            return Err(InvalidState("the operators do not fit the rules in force"));
        }
        if head.rules_version < OPERATORS && self.proposals != Proposals::default() {
            return Err(InvalidState("the proposals do not fit the rules in force"));
        }
        if head.rules_version < OPERATORS && self.enrolments != Enrolments::default() {
            return Err(InvalidState("the enrolments do not fit the rules in force"));
        }
        if head.rules_version < OPERATORS && 0 < self.erasures.count() {
            return Err(InvalidState("the erasures do not fit the rules in force"));
        }
        let registry = Registry::restore(keyed, self.participants, self.catalogue)?;
        let mut state = State {
            hub: head.hub,
            log_index: head.log_index,
            stamp: head.stamp,
            rules_version: head.rules_version,
            digest: head.digest,
            settings: head.settings,
            accounts,
            registry,
            transfers: self.transfers,
            outbox: self.outbox,
            settlement,
            alerts: self.alerts,
            fees: self.fees,
            operators: self.operators,
            proposals: self.proposals,
            enrolments: self.enrolments,
            erasures: self.erasures,
            bulks: self.bulks,
            quotes: self.quotes,
            requests: self.requests,
            counters: head.counters,
            nodes: head.nodes,
            batch_digest: BatchDigest::default(),
            batches: head.batches,
        };
        choose_modes(&mut state);
        Ok(state)
    }

    fn check_record(&self, record: LogIndex) -> Result<(), InvalidState> {
        match record <= self.head.log_index {
            true => Ok(()),
            false => Err(InvalidState("a transfer is newer than the state")),
        }
    }

    fn check_participants(
        &self,
        indices: impl IntoIterator<Item = ParticipantIndex>,
    ) -> Result<(), InvalidState> {
        let known = self.participants.len();
        match indices.into_iter().all(|index| index.at() < known) {
            true => Ok(()),
            false => Err(MISSING_PARTICIPANT),
        }
    }

    fn account(&self, id: AccountId) -> Option<&Account> {
        self.accounts.get((id.0 as usize).checked_sub(1)?)
    }

    fn check_account(
        &self,
        id: AccountId,
        (owner, kind): (ParticipantIndex, AccountKind),
    ) -> Result<&Account, InvalidState> {
        let fits = self
            .account(id)
            .filter(|account| account.id == id && account.owner == owner && account.kind == kind);
        fits.ok_or(MISSING_ACCOUNT)
    }

    fn check_new(&self, id: &TransferId) -> Result<(), InvalidState> {
        match self.transfers.find(id) {
            TransferLocation::Absent => Ok(()),
            _ => Err(InvalidState("a transfer occurs twice")),
        }
    }

    fn check_notice(&self, notice: &Notice) -> Result<(), InvalidState> {
        self.check_participants([notice.recipient])?;
        match notice.id <= self.head.last_notice {
            true => Ok(()),
            false => Err(InvalidState("a notice has a number above the newest one")),
        }
    }
}

fn add(sums: &mut Sums, account: AccountId, amount: Amount) -> Result<(), InvalidState> {
    let sum = sums.entry(account).or_default();
    *sum = sum.checked_add(amount).ok_or(TOO_LARGE)?;
    Ok(())
}

/// Checks that the internal account of that kind holds the reserved amounts of its currency.
fn check_reserved(accounts: &Accounts, kind: AccountKind, sums: &Sums) -> Result<(), InvalidState> {
    let mut left: BTreeMap<_, Amount> = BTreeMap::new();
    let internal = accounts.iter().filter(|account| account.kind == kind);
    let internal = internal.map(|account| (account.currency, account.value));
    let taken = sums.iter().map(|(id, sum)| {
        let account = accounts.get(*id).ok_or(MISSING_ACCOUNT)?;
        Ok((account.currency, *sum))
    });
    for entry in internal.map(Ok).chain(taken) {
        let (currency, amount) = entry?;
        let sum = left.entry(currency).or_default();
        *sum = sum.checked_add(amount).ok_or(TOO_LARGE)?;
    }
    match left.values().all(|sum| *sum == Amount::ZERO) {
        true => Ok(()),
        false => Err(InvalidState("an internal account differs from the sum of its reservations")),
    }
}

fn check_participant(
    accounts: &Accounts,
    index: ParticipantIndex,
    participant: &Participant,
) -> Result<(), InvalidState> {
    let is_own = |id: AccountId| accounts.get(id).is_some_and(|account| account.owner == index);
    if !participant.accounts.iter().all(|id| is_own(*id)) {
        return Err(MISSING_ACCOUNT);
    }
    let fits = participant.by_currency.iter().all(|currency_accounts| {
        let is = |id, kind| {
            let account = accounts.get(id);
            account.is_some_and(|it| it.kind == kind && it.currency == currency_accounts.currency)
        };
        is_own(currency_accounts.position)
            && is_own(currency_accounts.settlement)
            && is(currency_accounts.position, AccountKind::Position)
            && is(currency_accounts.settlement, AccountKind::Settlement)
    });
    if fits { Ok(()) } else { Err(MISSING_ACCOUNT) }
}
