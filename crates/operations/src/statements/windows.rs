//! The statements of a window and of a settlement, from their rows.

use std::collections::BTreeMap;

use fspiop::Refusal;
use ledger::{
    AccountId, AccountKind, AccountSums, Amount, Currency, SettlementAccount, SettlementId, State,
    WindowId, WindowState, WindowWithSums,
};

use crate::request::AdminRequest;
use crate::settlement_data::{SettlementData, find_window_with_sums};
use crate::statements::statement::{
    AccountStatement, Balance, Entry, LogPoint, SettlementPart, Statement, StatementSubject,
};
use crate::statements::window_not_found;

/// Owner, type and currency of accounts, by number.
struct Owners(BTreeMap<AccountId, (String, AccountKind, Currency)>);

impl Owners {
    async fn of(request: &AdminRequest<'_>, accounts: Vec<AccountId>) -> Result<Self, Refusal> {
        let copy = move |state: &State| {
            let owner = |id: AccountId| {
                let account = state.accounts().get(id)?;
                let name = state.registry().get(account.owner).name.to_string();
                Some((id, (name, account.kind, account.currency)))
            };
            Self(accounts.into_iter().filter_map(owner).collect())
        };
        request.query_state(copy).await
    }

    /// An account without balances.
    fn account(&self, account: AccountId) -> AccountStatement {
        let owner = self.0.get(&account).expect("the owners of all accounts are copied");
        let (participant, kind, currency) = owner.clone();
        AccountStatement {
            participant,
            account,
            kind,
            currency,
            opening: Balance::default(),
            entries: Vec::new(),
            closing: Balance::default(),
            part: None,
        }
    }
}

/// The statement of a window; refuses an unknown one.
pub(super) async fn statement_of_window(
    request: &AdminRequest<'_>,
    id: WindowId,
) -> Result<Statement, Refusal> {
    let found = find_window_with_sums(request, id).await?;
    let (window, at) = found.ok_or_else(|| window_not_found(id))?;
    let accounts = window.accounts.iter().map(|sums| sums.account).collect();
    let owners = Owners::of(request, accounts).await?;
    let (from, to) = (opened(&window), closed(&window).unwrap_or(at));
    let of_account = |sums: &AccountSums| {
        let account = owners.account(sums.account);
        AccountStatement {
            entries: entries((&window, account.kind), sums, to, None),
            closing: booked(sums.net()),
            ..account
        }
    };
    let mut accounts: Vec<_> = window.accounts.iter().map(of_account).collect();
    accounts.sort_by_key(|account| account.account);
    let subject = StatementSubject::Window { id, state: window.window.state };
    Ok(Statement { subject, from, to, accounts })
}

/// The statement of a settlement.
pub(super) async fn statement_of_settlement(
    request: &AdminRequest<'_>,
    data: &SettlementData,
) -> Result<Statement, Refusal> {
    let rows = &data.entry.accounts;
    let owners = Owners::of(request, rows.iter().map(|row| row.account).collect()).await?;
    let settlement = &data.entry.settlement;
    let mut entries = entries_of_settlement(data, &owners);
    let of_account = |row: &SettlementAccount| AccountStatement {
        entries: entries.remove(&row.account).unwrap_or_default(),
        closing: booked(row.net),
        part: Some(SettlementPart {
            state: row.state,
            reason: row.reason.clone(),
            external_reference: row.external_reference.clone(),
            changed: row.changed,
        }),
        ..owners.account(row.account)
    };
    let accounts = rows.iter().map(of_account).collect();
    let oldest = data.windows.values().next().map(opened);
    let subject = StatementSubject::Settlement {
        id: settlement.id,
        state: settlement.state,
        model: settlement.model.clone(),
    };
    Ok(Statement { subject, from: oldest.unwrap_or(data.at), to: data.at, accounts })
}

/// The sums of each account in the contents that the settlement took, oldest window first.
fn entries_of_settlement(
    data: &SettlementData,
    owners: &Owners,
) -> BTreeMap<AccountId, Vec<Entry>> {
    let id = data.entry.settlement.id;
    let mut all: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (window, contents) in data.contents_of(&|_| true) {
        let to = closed(window).unwrap_or(data.at);
        for sums in window.accounts.iter() {
            let is_in = |(_, kind, currency): &(String, AccountKind, Currency)| {
                contents.iter().any(|it| (it.kind, it.currency) == (*kind, *currency))
            };
            if let Some((_, kind, _)) = owners.0.get(&sums.account).filter(|it| is_in(it)) {
                let entries = entries((window, *kind), sums, to, Some(id));
                all.entry(sums.account).or_default().extend(entries);
            }
        }
    }
    all
}

/// The sums of an account in a window: one entry for each role that it has had.
fn entries(
    (window, kind): (&WindowWithSums, AccountKind),
    sums: &AccountSums,
    at: LogPoint,
    settlement: Option<SettlementId>,
) -> Vec<Entry> {
    let [paid, received] = causes(kind);
    let roles =
        [(paid, sums.paid, sums.paid_count), (received, -sums.received, sums.received_count)];
    let entry = |(cause, amount, count): (&str, Amount, u64)| Entry {
        cause: cause.to_owned(),
        amount,
        count,
        at,
        window: Some(window.window.id),
        settlement,
        transfer: None,
        reference: None,
    };
    roles.into_iter().filter(|(_, _, count)| 0 < *count).map(entry).collect()
}

/// The causes of the sums that an account has paid and received.
const fn causes(kind: AccountKind) -> [&'static str; 2] {
    match kind {
        AccountKind::InterchangeFee => ["interchange fees"; 2],
        _ => ["transfers paid", "transfers received"],
    }
}

fn opened(window: &WindowWithSums) -> LogPoint {
    LogPoint { log_index: window.window.opened, stamp: window.window.created }
}

/// The record that closed a window; `None` while it is open.
fn closed(window: &WindowWithSums) -> Option<LogPoint> {
    if window.window.state == WindowState::Open {
        return None;
    }
    let content = window.window.contents.first()?;
    Some(LogPoint { log_index: window.window.closed, stamp: content.created })
}

const fn booked(booked: Amount) -> Balance {
    Balance { booked, reserved: Amount::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fees_are_not_called_transfers() {
        assert_eq!(causes(AccountKind::Position), ["transfers paid", "transfers received"]);
        assert_eq!(causes(AccountKind::InterchangeFee), ["interchange fees"; 2]);
    }
}
