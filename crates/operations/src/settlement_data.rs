//! Windows and settlements for responses: copies of their rows, and the owners of their accounts.
//!
//! Costs: a copy shares the sums of closed windows with the state.

use std::collections::BTreeMap;

use fspiop::Refusal;
use ledger::{
    AccountId, AccountKind, Currency, ParticipantIndex, SettlementId, SettlementWithAccounts,
    State, WindowContent, WindowId, WindowWithSums,
};

use crate::request::AdminRequest;

/// The owner, type and currency of an account; they never change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AccountOwner {
    /// Number of the participant in the settlement API: 1 for the hub.
    pub(crate) participant: u32,
    pub(crate) kind: AccountKind,
    pub(crate) currency: Currency,
}

impl AccountOwner {
    fn of(state: &State, id: AccountId) -> Option<Self> {
        let account = state.books().get(id)?;
        let participant = participant_number(account.owner);
        Some(Self { participant, kind: account.kind, currency: account.currency })
    }
}

/// Number of a participant in the settlement API.
pub(crate) const fn participant_number(index: ParticipantIndex) -> u32 {
    index.0 + 1
}

/// A settlement with its windows.
#[derive(Debug)]
pub(crate) struct SettlementData {
    pub(crate) entry: SettlementWithAccounts,
    pub(crate) windows: BTreeMap<WindowId, WindowWithSums>,
    owners: BTreeMap<AccountId, AccountOwner>,
}

impl SettlementData {
    /// The settlement with this number, if it exists.
    pub(crate) async fn load(
        call: &AdminRequest<'_>,
        id: SettlementId,
    ) -> Result<Option<Self>, Refusal> {
        call.ask(move |state| {
            let entry = state.settlement().settlement(id)?;
            Some(Self::copy(state, entry.clone()))
        })
        .await
    }

    /// The settlement with the rows around it that are in memory.
    fn copy(state: &State, entry: SettlementWithAccounts) -> Self {
        let windows = entry.settlement.contents.iter().filter_map(|(window, _)| {
            let window = state.settlement().window(*window)?;
            Some((window.window.id, window.clone()))
        });
        let owners = entry
            .accounts
            .iter()
            .filter_map(|row| Some((row.account, AccountOwner::of(state, row.account)?)));
        Self { windows: windows.collect(), owners: owners.collect(), entry }
    }

    /// The owner of an account of the settlement.
    pub(crate) fn owner(&self, account: AccountId) -> AccountOwner {
        *self.owners.get(&account).expect("the owners of all its accounts are copied")
    }

    /// The windows and contents that have sums of one of these accounts.
    pub(crate) fn contents_of(
        &self,
        is_wanted: &dyn Fn(AccountId) -> bool,
    ) -> Vec<(&WindowWithSums, Vec<&WindowContent>)> {
        let mut found: Vec<(&WindowWithSums, Vec<&WindowContent>)> = Vec::new();
        for (window, content) in &self.entry.settlement.contents {
            let Some(entry) = self.windows.get(window) else { continue };
            let mut contents = entry.window.contents.iter();
            let Some(content) = contents.find(|it| it.id == *content) else { continue };
            if !self.has_sums(entry, content, is_wanted) {
                continue;
            }
            match found.last_mut() {
                Some((last, contents)) if last.window.id == *window => contents.push(content),
                _ => found.push((entry, vec![content])),
            }
        }
        found
    }

    fn has_sums(
        &self,
        window: &WindowWithSums,
        content: &WindowContent,
        is_wanted: &dyn Fn(AccountId) -> bool,
    ) -> bool {
        let is_in = |account: AccountId| {
            let owner = self.owners.get(&account);
            owner.is_some_and(|it| (it.kind, it.currency) == (content.kind, content.currency))
        };
        window.accounts.iter().any(|sums| is_in(sums.account) && is_wanted(sums.account))
    }
}
