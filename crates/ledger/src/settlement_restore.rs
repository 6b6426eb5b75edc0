//! Restores windows and settlements from the rows of a snapshot, and rejects rows that no valid
//! state has.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::accounts::{AccountKind, Accounts};
use crate::field::InvalidState;
use crate::ids::{AccountId, ContentId, SettlementId, WindowId};
use crate::money::{Amount, Currency};
use crate::settlement::{
    AccountSums, OpenSums, PairSums, SettlementBook, SettlementNumbers, SettlementWithAccounts,
    Window, WindowContent, WindowState, WindowWithSums,
};

pub(crate) const MISSING_ACCOUNT: InvalidState = InvalidState("a row refers to a missing account");
pub(crate) const TOO_LARGE: InvalidState = InvalidState("a sum exceeds the range of the ledger");
pub(crate) const OUT_OF_ORDER: InvalidState =
    InvalidState("windows or settlements are out of order");
pub(crate) const STRAY: InvalidState = InvalidState("a row belongs to no window or settlement");

/// The rows so far, in order.
#[derive(Debug, Default)]
pub(crate) struct SettlementRows {
    pub(crate) windows: Vec<Window>,
    pub(crate) accounts: BTreeMap<WindowId, Vec<AccountSums>>,
    pub(crate) pairs: BTreeMap<WindowId, Vec<PairSums>>,
    pub(crate) settlements: BTreeMap<SettlementId, SettlementWithAccounts>,
}

impl SettlementRows {
    /// The book, once all rows are added.
    pub(crate) fn finish(
        mut self,
        numbers: SettlementNumbers,
        accounts: &Accounts,
    ) -> Result<SettlementBook, InvalidState> {
        self.check_numbers(&numbers)?;
        let mut book = SettlementBook { numbers, ..SettlementBook::default() };
        for window in core::mem::take(&mut self.windows) {
            let sums = self.accounts.remove(&window.id).unwrap_or_default();
            let pairs = self.pairs.remove(&window.id).unwrap_or_default();
            check_sums(accounts, &sums, &pairs)?;
            if window.state == WindowState::Open {
                book.open = open_sums(&sums, &pairs)?;
                let (accounts, pairs) = Default::default();
                book.windows.insert(window.id, WindowWithSums { window, accounts, pairs });
            } else {
                check_contents(accounts, &window, &sums)?;
                let (accounts, pairs) = (sums.into(), pairs.into());
                book.windows.insert(window.id, WindowWithSums { window, accounts, pairs });
            }
        }
        if !self.accounts.is_empty() || !self.pairs.is_empty() {
            return Err(STRAY);
        }
        book.settlements = self.settlements;
        check_settlements(&book, accounts)?;
        Ok(book)
    }

    /// Only the last window is open; numbers are at most the newest.
    fn check_numbers(&self, numbers: &SettlementNumbers) -> Result<(), InvalidState> {
        let open = self.windows.iter().filter(|window| window.state == WindowState::Open);
        let open: Vec<_> = open.map(|window| window.id).collect();
        let last = self.windows.last().map(|window| window.id);
        let contents = self.windows.iter().flat_map(|window| &window.contents);
        let fits = match last {
            None => numbers.window == WindowId(0),
            Some(last) => open == [last] && last == numbers.window,
        };
        let newest = self.settlements.last_key_value().map(|(id, _)| *id);
        let kept = self.windows.len() as u64 + numbers.archived_windows.rows;
        let settlements = self.settlements.len() as u64 + numbers.archived_settlements.rows;
        let counted =
            kept == u64::from(numbers.window.0) && settlements == u64::from(numbers.settlement.0);
        let mut ids = contents.clone().map(|content| content.id);
        let are_new = ids.all(|id| ContentId(0) < id && id <= numbers.content);
        let unique: BTreeSet<_> = contents.clone().map(|content| content.id).collect();
        let are_unique = unique.len() == contents.count();
        match fits && counted && are_new && are_unique && newest <= Some(numbers.settlement) {
            true => Ok(()),
            false => Err(InvalidState("the numbers of windows or settlements do not fit")),
        }
    }
}

fn open_sums(sums: &[AccountSums], pairs: &[PairSums]) -> Result<OpenSums, InvalidState> {
    let mut open = OpenSums::default();
    for row in sums {
        if !open.restore(*row) {
            return Err(InvalidState("a window has two sums of an account"));
        }
    }
    pairs.iter().for_each(|row| open.push_pair(*row));
    Ok(open)
}

type Nets = BTreeMap<(AccountKind, Currency), Amount>;

/// Sums are of accounts that exist, not negative, and net to zero.
fn check_sums(
    accounts: &Accounts,
    sums: &[AccountSums],
    pairs: &[PairSums],
) -> Result<Nets, InvalidState> {
    let mut nets = Nets::new();
    let mut seen = BTreeSet::new();
    for row in sums {
        let account = accounts.get(row.account).ok_or(MISSING_ACCOUNT)?;
        if !seen.insert(row.account) {
            return Err(InvalidState("a window has two sums of an account"));
        }
        if row.paid < Amount::ZERO || row.received < Amount::ZERO {
            return Err(InvalidState("a sum of a window is negative"));
        }
        let net = row.paid.checked_sub(row.received).ok_or(TOO_LARGE)?;
        let total = nets.entry((account.kind, account.currency)).or_default();
        *total = total.checked_add(net).ok_or(TOO_LARGE)?;
    }
    let known = |id: AccountId| seen.contains(&id);
    let mut known_pairs = BTreeSet::new();
    for pair in pairs {
        if !known(pair.payer) || !known(pair.payee) || pair.amount < Amount::ZERO {
            return Err(InvalidState("a pair of a window has no sums"));
        }
        if !known_pairs.insert((pair.payer, pair.payee)) {
            return Err(InvalidState("a window has a pair twice"));
        }
    }
    match nets.values().all(|net| *net == Amount::ZERO) {
        true => Ok(nets),
        false => Err(InvalidState("the nets of a window do not sum to zero")),
    }
}

/// A closed window has one content per account type and currency of its sums.
fn check_contents(
    accounts: &Accounts,
    window: &Window,
    sums: &[AccountSums],
) -> Result<(), InvalidState> {
    let nets = check_sums(accounts, sums, &[])?;
    let contents: BTreeSet<_> =
        window.contents.iter().map(|content| (content.kind, content.currency)).collect();
    let fits = contents.len() == window.contents.len() && contents.into_iter().eq(nets.into_keys());
    match fits {
        true => Ok(()),
        false => Err(InvalidState("the contents of a window do not fit its sums")),
    }
}

/// Settlements have the accounts of their contents, in accounts that exist.
fn check_settlements(book: &SettlementBook, accounts: &Accounts) -> Result<(), InvalidState> {
    for entry in book.settlements() {
        if entry.accounts.iter().any(|row| accounts.get(row.account).is_none()) {
            return Err(MISSING_ACCOUNT);
        }
        let contents = entry.settlement.contents.iter();
        let sums = contents.flat_map(|content| book.content_sums(accounts, *content));
        if sums.into_iter().any(|sums| entry.account(sums.account).is_none()) {
            return Err(InvalidState("a settlement lacks an account of its windows"));
        }
    }
    let settlements = &book.settlements;
    let contents = book.windows().flat_map(|entry| &entry.window.contents);
    let mut pending = contents.filter(|content| content.state == WindowState::PendingSettlement);
    let has_settlement = |content: &WindowContent| {
        content.settlement.is_some_and(|id| settlements.contains_key(&id))
    };
    match pending.all(has_settlement) {
        true => Ok(()),
        false => Err(STRAY),
    }
}
