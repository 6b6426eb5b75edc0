//! Settlement: windows with the sums of the transfers that were committed in them, and settlements
//! over closed windows (hub-semantics 5).
//!
//! There is one series of windows for all currencies and models. A transfer belongs to the window
//! that is open when it is committed, because the commit adds it to the sums of that window in the
//! same step. Closing a window therefore reads no transfers, and the nets of a window sum to zero
//! by construction.
//!
//! A closed window has one [`WindowContent`] per account type and currency. A settlement takes
//! contents of one or more windows, and nets them per account. No content is in two settlements at
//! a time. An aborted settlement returns its contents.
//!
//! Costs: a commit adds to two rows, found by the numbers of the accounts, and to one row per pair
//! if a bilateral model serves the currency. Closing costs one pass over the accounts with sums.
//! Memory depends on the number of accounts, not on the number of transfers. Settled windows and
//! final settlements are archived beyond [`KEPT`] of each.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use hashbrown::HashTable;

use crate::accounts::{AccountKind, Accounts};
use crate::description::Description;
use crate::evicted::EvictedRows;
use crate::field::{
    ByteSink, Chooser, Field, FieldError, Form, LONG, List, Reader, RowList, SHORT, Text, VarInt,
    numbered, stored,
};
use crate::ids::{AccountId, ContentId, LogIndex, SettlementId, Stamp, WindowId};
use crate::money::{Amount, Currency};

/// Maximum number of windows that are not archived.
pub const WINDOWS_MAX: usize = 10_000;
/// Maximum number of settlements that are not archived.
pub const SETTLEMENTS_MAX: usize = 10_000;
/// Number of settled windows, and of settled or aborted settlements, that stay in memory.
pub(crate) const KEPT: usize = 100;
/// Maximum number of pairs of accounts in one window. Beyond it, pairs are not summed; the sums
/// per account are always complete.
pub const PAIRS_MAX: usize = 1 << 20;

numbered! {
    /// The state of a window or of one of its contents. Closing is one decision, so that the
    /// reference's PROCESSING and FAILED do not occur.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum WindowState: u8 {
        /// Transfers are added to it.
        Open = 1,
        /// Its sums are final.
        Closed = 2,
        /// In a settlement.
        PendingSettlement = 3,
        /// Settled.
        Settled = 4,
        /// Its settlement was aborted; it can be settled again.
        Aborted = 5,
    }
}

numbered! {
    /// The state of a settlement or of one account in it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum SettlementState: u8 {
        /// Created.
        PendingSettlement = 1,
        /// The settlement transfers are recorded.
        PsTransfersRecorded = 2,
        /// They are reserved: credit of net recipients is withdrawn.
        PsTransfersReserved = 3,
        /// They are committed: debt of net senders is cancelled.
        PsTransfersCommitted = 4,
        /// Some accounts are settled. A state of settlements only.
        Settling = 5,
        /// Settled.
        Settled = 6,
        /// Aborted.
        Aborted = 7,
    }
}

/// Declares the name of each state in the settlement API.
macro_rules! api_names {
    ($state:ident { $($value:ident => $name:literal,)* }) => {
        impl $state {
            /// The name in the settlement API.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $( Self::$value => $name, )*
                }
            }

            /// Reads the name in the settlement API.
            #[must_use]
            pub fn parse(name: &str) -> Option<Self> {
                match name {
                    $( $name => Some(Self::$value), )*
                    _ => None,
                }
            }
        }
    };
}

api_names! {
    WindowState {
        Open => "OPEN",
        Closed => "CLOSED",
        PendingSettlement => "PENDING_SETTLEMENT",
        Settled => "SETTLED",
        Aborted => "ABORTED",
    }
}

impl WindowState {
    /// Whether a new settlement can take a content in this state.
    const fn is_unsettled(self) -> bool {
        matches!(self, Self::Closed | Self::Aborted)
    }
}

api_names! {
    SettlementState {
        PendingSettlement => "PENDING_SETTLEMENT",
        PsTransfersRecorded => "PS_TRANSFERS_RECORDED",
        PsTransfersReserved => "PS_TRANSFERS_RESERVED",
        PsTransfersCommitted => "PS_TRANSFERS_COMMITTED",
        Settling => "SETTLING",
        Settled => "SETTLED",
        Aborted => "ABORTED",
    }
}

impl SettlementState {
    /// The state to which the accounts of a settlement in this state may move.
    #[must_use]
    pub const fn next(self) -> Option<Self> {
        match self {
            Self::PendingSettlement => Some(Self::PsTransfersRecorded),
            Self::PsTransfersRecorded => Some(Self::PsTransfersReserved),
            Self::PsTransfersReserved => Some(Self::PsTransfersCommitted),
            Self::PsTransfersCommitted | Self::Settling => Some(Self::Settled),
            Self::Settled | Self::Aborted => None,
        }
    }

    /// Whether it never changes again, except for the reason of an abort.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Settled | Self::Aborted)
    }
}

stored! {
    /// The sums of one account in one window: one per role.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct AccountSums {
        /// The account.
        pub account: AccountId as VarInt,
        /// Sum of the transfers that it paid.
        pub paid: Amount as VarInt,
        /// Sum of the transfers that it received.
        pub received: Amount as VarInt,
        /// Number of transfers that it paid.
        pub paid_count: u64 as VarInt,
        /// Number of transfers that it received.
        pub received_count: u64 as VarInt,
    }
}

impl AccountSums {
    const fn new(account: AccountId) -> Self {
        let (paid, received) = (Amount::ZERO, Amount::ZERO);
        Self { account, paid, received, paid_count: 0, received_count: 0 }
    }

    /// The amount that the account owes for the window (above zero) or is owed (below zero).
    #[must_use]
    pub fn net(&self) -> Amount {
        add(self.paid, -self.received)
    }
}

stored! {
    /// The sum of the transfers from one account to another in one window.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PairSums {
        /// The account that paid.
        pub payer: AccountId as VarInt,
        /// The account that received.
        pub payee: AccountId as VarInt,
        /// Sum of the transfers.
        pub amount: Amount as VarInt,
        /// Number of transfers.
        pub count: u64 as VarInt,
    }
}

stored! {
    /// The part of a closed window that one settlement takes: one account type in one currency.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct WindowContent {
        /// Its number.
        pub id: ContentId,
        /// The account type.
        pub kind: AccountKind,
        /// The currency.
        pub currency: Currency,
        /// Its state.
        pub state: WindowState,
        /// The last settlement that took it.
        pub settlement: Option<SettlementId>,
        /// When the window was closed.
        pub created: Stamp,
        /// When its state last changed.
        pub changed: Stamp,
    }
}

stored! {
    /// A settlement window.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Window {
        /// Its number.
        pub id: WindowId,
        /// Its state.
        pub state: WindowState,
        /// The reason for its last change of state.
        pub reason: String as Text<LONG>,
        /// When it was opened.
        pub created: Stamp,
        /// When its state last changed.
        pub changed: Stamp,
        /// The record that opened it: it has the transfers committed after this record,
        pub opened: LogIndex,
        /// and before this one, which closed it; 0 while it is open.
        pub closed: LogIndex,
        /// Its parts, by account type and currency; none while it is open.
        pub contents: Vec<WindowContent> as RowList,
    }
}

stored! {
    /// A settlement.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Settlement {
        /// Its number.
        pub id: SettlementId,
        /// Name of its model.
        pub model: String as Text<SHORT>,
        /// Its state.
        pub state: SettlementState,
        /// The reason for its last change of state.
        pub reason: String as Text<LONG>,
        /// When it was created.
        pub created: Stamp,
        /// When its state last changed.
        pub changed: Stamp,
        /// The record that created it.
        pub record: LogIndex,
        /// The contents that it took, by number.
        pub contents: Vec<(WindowId, ContentId)> as RowList,
    }
}

stored! {
    /// An account in a settlement.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct SettlementAccount {
        /// The account.
        pub account: AccountId,
        /// The amount that it owes (above zero) or is owed (below zero).
        pub net: Amount,
        /// Its state.
        pub state: SettlementState,
        /// The reason for its last change of state.
        pub reason: String as Text<LONG>,
        /// The operator's reference of the payment.
        pub external_reference: String as Text<SHORT>,
        /// When its state last changed.
        pub changed: Stamp,
        /// The amount by which the settlement raised the net debit cap. An abort takes it back.
        pub cap_raise: Amount,
    }
}

stored! {
    /// The newest numbers, and the archived windows and settlements.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct SettlementNumbers {
        /// The open window; 0 before the first one.
        pub window: WindowId,
        /// The newest content.
        pub content: ContentId,
        /// The newest settlement.
        pub settlement: SettlementId,
        /// Count and digest of the archived windows.
        pub archived_windows: EvictedRows,
        /// Count and digest of the archived settlements.
        pub archived_settlements: EvictedRows,
    }
}

stored! {
    /// A window with its sums.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct WindowWithSums {
        /// The window.
        pub window: Window,
        /// Sums per account, in order of their first transfer; none while it is open.
        pub accounts: Arc<[AccountSums]> as SharedRows,
        /// Sums per pair, in order of their first transfer; only of currencies with a bilateral
        /// model.
        pub pairs: Arc<[PairSums]> as SharedRows,
    }
}

stored! {
    /// A settlement with its accounts.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct SettlementWithAccounts {
        /// The settlement.
        pub settlement: Settlement,
        /// Its accounts, in order of number.
        pub accounts: Vec<SettlementAccount> as RowList,
    }
}

/// Sums that are shared with snapshots, in the form of a list.
pub(crate) struct SharedRows;

impl<T: Field> Form<Arc<[T]>> for SharedRows {
    fn write(value: &Arc<[T]>, to: &mut impl ByteSink) {
        (value.len() as u32).write(to);
        value.iter().for_each(|row| row.write(to));
    }

    fn read(from: &mut Reader<'_>) -> Result<Arc<[T]>, FieldError> {
        <List<PAIRS_MAX> as Form<Vec<T>>>::read(from).map(Arc::from)
    }

    fn generate(chooser: &mut impl Chooser) -> Arc<[T]> {
        Arc::from(<List<PAIRS_MAX> as Form<Vec<T>>>::generate(chooser))
    }

    fn describe(value: &Arc<[T]>) -> Description {
        Description::List(value.iter().map(Field::describe).collect())
    }
}

impl SettlementWithAccounts {
    /// The account with this number.
    #[must_use]
    pub fn account(&self, id: AccountId) -> Option<&SettlementAccount> {
        let at = self.accounts.binary_search_by_key(&id, |row| row.account).ok()?;
        Some(&self.accounts[at])
    }

    pub(crate) fn account_mut(&mut self, id: AccountId) -> Option<&mut SettlementAccount> {
        let at = self.accounts.binary_search_by_key(&id, |row| row.account).ok()?;
        Some(&mut self.accounts[at])
    }
}

/// A window or a settlement that leaves memory for the cold store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArchivedSettlement {
    /// A settled window.
    Window(WindowWithSums),
    /// A settled or aborted settlement.
    Settlement(SettlementWithAccounts),
}

numbered! {
    /// The kinds of [`ArchivedSettlement`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum ArchiveKind: u8 {
        /// Windows, by [`WindowId`].
        Window = 1,
        /// Settlements, by [`SettlementId`].
        Settlement = 2,
    }
}

impl ArchivedSettlement {
    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> ArchiveKind {
        match self {
            Self::Window(_) => ArchiveKind::Window,
            Self::Settlement(_) => ArchiveKind::Settlement,
        }
    }

    /// Its number.
    #[must_use]
    pub const fn number(&self) -> u32 {
        match self {
            Self::Window(entry) => entry.window.id.0,
            Self::Settlement(entry) => entry.settlement.id.0,
        }
    }
}

/// The sums of the open window.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenSums {
    accounts: Vec<AccountSums>,
    /// By account number: one more than the index in `accounts`, or 0.
    by_account: Vec<u32>,
    pairs: Vec<PairSums>,
    /// Indices in `pairs`.
    by_pair: HashTable<u32>,
}

impl OpenSums {
    /// Adds a committed transfer.
    pub(crate) fn add(&mut self, payer: AccountId, payee: AccountId, amount: Amount) {
        let row = self.row(payer);
        row.paid = add(row.paid, amount);
        row.paid_count += 1;
        let row = self.row(payee);
        row.received = add(row.received, amount);
        row.received_count += 1;
    }

    /// Adds a committed transfer to the sums of its pair, as long as there is room for the pair.
    pub(crate) fn add_pair(&mut self, payer: AccountId, payee: AccountId, amount: Amount) {
        let hash = hash_of(payer, payee);
        let is = |at: &u32| {
            let row = &self.pairs[*at as usize];
            (row.payer, row.payee) == (payer, payee)
        };
        if let Some(at) = self.by_pair.find(hash, is) {
            let row = &mut self.pairs[*at as usize];
            row.amount = add(row.amount, amount);
            row.count += 1;
        } else if self.pairs.len() < PAIRS_MAX {
            self.push_pair(PairSums { payer, payee, amount, count: 1 });
        }
    }

    pub(crate) fn accounts(&self) -> &[AccountSums] {
        &self.accounts
    }

    pub(crate) fn pairs(&self) -> &[PairSums] {
        &self.pairs
    }

    /// Restores the sums of an account. Returns false if it occurs twice.
    pub(crate) fn restore(&mut self, sums: AccountSums) -> bool {
        let is_new = self.by_account.get(sums.account.0 as usize).is_none_or(|at| *at == 0);
        *self.row(sums.account) = sums;
        is_new
    }

    pub(crate) fn push_pair(&mut self, sums: PairSums) {
        let at = self.pairs.len() as u32;
        self.pairs.push(sums);
        let pairs = &self.pairs;
        let rehash = |at: &u32| hash_of(pairs[*at as usize].payer, pairs[*at as usize].payee);
        self.by_pair.insert_unique(hash_of(sums.payer, sums.payee), at, rehash);
    }

    fn row(&mut self, account: AccountId) -> &mut AccountSums {
        let number = account.0 as usize;
        if self.by_account.len() <= number {
            self.by_account.resize(number + 1, 0);
        }
        let at = &mut self.by_account[number];
        if *at == 0 {
            self.accounts.push(AccountSums::new(account));
            *at = self.accounts.len() as u32;
        }
        &mut self.accounts[*at as usize - 1]
    }
}

/// Spreads the numbers of two accounts, which no participant chooses.
fn hash_of(payer: AccountId, payee: AccountId) -> u64 {
    let both = u64::from(payer.0) << 32 | u64::from(payee.0);
    let mixed = both.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 32)
}

/// All windows and settlements of the scheme.
#[derive(Clone, Debug, Default)]
pub struct SettlementBook {
    pub(crate) numbers: SettlementNumbers,
    pub(crate) open: OpenSums,
    pub(crate) windows: BTreeMap<WindowId, WindowWithSums>,
    pub(crate) settlements: BTreeMap<SettlementId, SettlementWithAccounts>,
}

impl SettlementBook {
    /// The newest numbers, and the digests of the archive.
    #[must_use]
    pub const fn numbers(&self) -> &SettlementNumbers {
        &self.numbers
    }

    /// The windows in memory, oldest first.
    pub fn windows(&self) -> impl DoubleEndedIterator<Item = &WindowWithSums> {
        self.windows.values()
    }

    /// A window in memory.
    #[must_use]
    pub fn window(&self, id: WindowId) -> Option<&WindowWithSums> {
        self.windows.get(&id)
    }

    /// The settlements in memory, oldest first.
    pub fn settlements(&self) -> impl DoubleEndedIterator<Item = &SettlementWithAccounts> {
        self.settlements.values()
    }

    /// A settlement in memory.
    #[must_use]
    pub fn settlement(&self, id: SettlementId) -> Option<&SettlementWithAccounts> {
        self.settlements.get(&id)
    }

    /// The sums per account of the open window, in order of their first transfer.
    #[must_use]
    pub fn open_accounts(&self) -> &[AccountSums] {
        self.open.accounts()
    }

    /// The sums per pair of the open window.
    #[must_use]
    pub fn open_pairs(&self) -> &[PairSums] {
        self.open.pairs()
    }

    /// The sums per account of a window, closed or open.
    #[must_use]
    pub fn sums(&self, window: WindowId) -> &[AccountSums] {
        match self.windows.get(&window) {
            Some(entry) if entry.window.state != WindowState::Open => &entry.accounts,
            Some(_) => self.open.accounts(),
            None => &[],
        }
    }

    /// The sums per pair of a window, closed or open.
    #[must_use]
    pub fn pairs(&self, window: WindowId) -> &[PairSums] {
        match self.windows.get(&window) {
            Some(entry) if entry.window.state != WindowState::Open => &entry.pairs,
            Some(_) => self.open.pairs(),
            None => &[],
        }
    }

    /// Whether the window has existed and is archived.
    #[must_use]
    pub fn is_archived_window(&self, id: WindowId) -> bool {
        WindowId(0) < id && id <= self.numbers.window && !self.windows.contains_key(&id)
    }

    /// Whether the settlement has existed and is archived.
    #[must_use]
    pub fn is_archived_settlement(&self, id: SettlementId) -> bool {
        let numbers = &self.numbers;
        SettlementId(0) < id && id <= numbers.settlement && !self.settlements.contains_key(&id)
    }

    /// Opens the next window.
    pub(crate) fn open_window(&mut self, reason: String, stamp: Stamp, record: LogIndex) {
        let id = WindowId(self.numbers.window.0 + 1);
        self.numbers.window = id;
        let window = Window {
            id,
            state: WindowState::Open,
            reason,
            created: stamp,
            changed: stamp,
            opened: record,
            closed: LogIndex(0),
            contents: Vec::new(),
        };
        let (accounts, pairs) = (Arc::default(), Arc::default());
        self.windows.insert(id, WindowWithSums { window, accounts, pairs });
    }

    /// Closes the open window with its sums.
    ///
    /// Panics unless the sums of each account type and currency sum to zero.
    pub(crate) fn close_window(
        &mut self,
        accounts: &Accounts,
        (reason, stamp, record): (&str, Stamp, LogIndex),
    ) {
        let sums = core::mem::take(&mut self.open);
        let contents = contents_of(accounts, &sums.accounts);
        let entry = self.windows.get_mut(&self.numbers.window).expect("a window is always open");
        entry.accounts = sums.accounts.into();
        entry.pairs = sums.pairs.into();
        let window = &mut entry.window;
        window.state = WindowState::Closed;
        window.reason = reason.into();
        window.changed = stamp;
        window.closed = record;
        for (kind, currency) in contents {
            self.numbers.content = ContentId(self.numbers.content.0 + 1);
            window.contents.push(WindowContent {
                id: self.numbers.content,
                kind,
                currency,
                state: WindowState::Closed,
                settlement: None,
                created: stamp,
                changed: stamp,
            });
        }
    }

    /// The contents of a window that a settlement can take, of those that the model serves.
    pub(crate) fn applicable(
        &self,
        id: WindowId,
        serves: &dyn Fn(AccountKind, Currency) -> bool,
    ) -> Vec<(WindowId, ContentId)> {
        let contents = self.windows.get(&id).map(|entry| entry.window.contents.as_slice());
        let fits = |content: &&WindowContent| {
            content.state.is_unsettled() && serves(content.kind, content.currency)
        };
        let contents = contents.unwrap_or_default().iter().filter(fits);
        contents.map(|content| (id, content.id)).collect()
    }

    /// The sums that belong to a content.
    pub fn content_sums<'a>(
        &'a self,
        accounts: &'a Accounts,
        (window, content): (WindowId, ContentId),
    ) -> impl Iterator<Item = &'a AccountSums> {
        let entry = self.windows.get(&window);
        let content = entry.and_then(|entry| content_of(&entry.window, content));
        let sums = entry.map(|entry| &*entry.accounts).unwrap_or_default().iter();
        sums.filter(move |sums| {
            let account = accounts.get(sums.account);
            let is_in = |content: &WindowContent| {
                account.is_some_and(|it| (it.kind, it.currency) == (content.kind, content.currency))
            };
            content.is_some_and(is_in)
        })
    }

    /// Sets the state of contents, and of their windows.
    pub(crate) fn set_contents(
        &mut self,
        contents: &[(WindowId, ContentId)],
        (state, settlement): (WindowState, SettlementId),
        (reason, stamp): (&str, Stamp),
    ) {
        let windows: BTreeSet<WindowId> = contents.iter().map(|(window, _)| *window).collect();
        for id in windows {
            let Some(entry) = self.windows.get_mut(&id) else { continue };
            let window = &mut entry.window;
            for content in &mut window.contents {
                if contents.contains(&(id, content.id)) && content.state != state {
                    content.state = state;
                    content.settlement = Some(settlement);
                    content.changed = stamp;
                }
            }
            let next = window_state(&window.contents);
            if window.state != next {
                window.state = next;
                window.reason = reason.into();
                window.changed = stamp;
            }
        }
    }

    /// A changed net debit cap is the operator's: an abort no longer lowers it.
    pub(crate) fn forget_cap_raises(&mut self, account: AccountId) {
        for entry in self.settlements.values_mut() {
            if let Some(row) = entry.account_mut(account) {
                row.cap_raise = Amount::ZERO;
            }
        }
    }

    /// Archives the oldest settled windows and final settlements beyond [`KEPT`] of each.
    pub(crate) fn archive(&mut self, archived: &mut Vec<ArchivedSettlement>) {
        let is_settled = |entry: &&WindowWithSums| entry.window.state == WindowState::Settled;
        let settled: Vec<_> = self.windows.values().filter(is_settled).collect();
        let surplus = settled.len().saturating_sub(KEPT);
        let settled: Vec<_> = settled[..surplus].iter().map(|entry| entry.window.id).collect();
        for id in settled {
            let entry = self.windows.remove(&id).expect("it was listed");
            self.numbers.archived_windows.add_long(|hasher| entry.write(hasher));
            archived.push(ArchivedSettlement::Window(entry));
        }
        let is_final = |entry: &&SettlementWithAccounts| entry.settlement.state.is_final();
        let ended: Vec<_> = self.settlements.values().filter(is_final).collect();
        let surplus = ended.len().saturating_sub(KEPT);
        let ended: Vec<_> = ended[..surplus].iter().map(|entry| entry.settlement.id).collect();
        for id in ended {
            let entry = self.settlements.remove(&id).expect("it was listed");
            self.numbers.archived_settlements.add_long(|hasher| entry.write(hasher));
            archived.push(ArchivedSettlement::Settlement(entry));
        }
    }
}

/// A part of a window.
pub(crate) fn content_of(window: &Window, id: ContentId) -> Option<&WindowContent> {
    window.contents.iter().find(|content| content.id == id)
}

/// The account types and currencies with sums. Panics unless each sums to zero.
fn contents_of(accounts: &Accounts, sums: &[AccountSums]) -> BTreeSet<(AccountKind, Currency)> {
    let mut nets: BTreeMap<(AccountKind, Currency), Amount> = BTreeMap::new();
    for row in sums {
        let account = accounts.get(row.account).expect("sums are of accounts that exist");
        let net = nets.entry((account.kind, account.currency)).or_default();
        *net = add(*net, row.net());
    }
    for ((kind, currency), net) in &nets {
        assert_eq!(*net, Amount::ZERO, "the nets of {kind:?} in {currency} do not sum to zero");
    }
    nets.into_keys().collect()
}

/// The state of a closed window, from those of its contents.
fn window_state(contents: &[WindowContent]) -> WindowState {
    let has = |state| contents.iter().any(|content| content.state == state);
    if has(WindowState::PendingSettlement) {
        WindowState::PendingSettlement
    } else if has(WindowState::Aborted) {
        WindowState::Aborted
    } else if has(WindowState::Closed) {
        // Some contents may be settled; the others wait for their settlement.
        match has(WindowState::Settled) {
            true => WindowState::PendingSettlement,
            false => WindowState::Closed,
        }
    } else {
        WindowState::Settled
    }
}

fn add(sum: Amount, amount: Amount) -> Amount {
    sum.checked_add(amount).expect("the sums of a window are within the range of the ledger")
}
