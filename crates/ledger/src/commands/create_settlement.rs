//! `POST /settlements`: a settlement over closed windows (hub-semantics 5.3).
//!
//! A model serves a content of its account type if it names the currency, or names none and no
//! active model names the currency. Each window must have such a content that is not in another
//! settlement.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use crate::change::CreateSettlement;
use crate::context::{Context, Decide};
use crate::ids::{AccountId, ContentId, SettlementId, WindowId};
use crate::money::{Amount, Currency};
use crate::outcome::AdminOutcome;
use crate::settlement::{
    SETTLEMENTS_MAX, Settlement, SettlementAccount, SettlementState, SettlementWithAccounts,
    WindowState,
};
use crate::state::{ChangeResult, State};

impl Decide for CreateSettlement {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        let state = &mut *context.state;
        let models = state.registry.models();
        let Some(model) = models.iter().find(|model| model.name == self.model) else {
            return AdminOutcome::SettlementModelNotFound;
        };
        if !model.net || !model.deferred {
            return AdminOutcome::SettlementModelGross;
        }
        let windows: BTreeSet<WindowId> = self.windows.iter().copied().collect();
        let (mut contents, mut inapplicable) = (Vec::new(), Vec::new());
        for window in &windows {
            let serves = |kind, currency| state.registry.is_served(model, (kind, currency));
            match state.settlement.applicable(*window, &serves) {
                found if found.is_empty() => inapplicable.push(*window),
                found => contents.extend(found),
            }
        }
        if contents.is_empty() || !inapplicable.is_empty() {
            let result = ChangeResult::Inapplicable(inapplicable);
            context.effects.results.push((context.log_index, result));
            return AdminOutcome::WindowsInapplicable;
        }
        if SETTLEMENTS_MAX <= state.settlement.settlements.len() {
            return AdminOutcome::RegistryFull;
        }
        let id = create(context, self, contents);
        context.effects.results.push((context.log_index, ChangeResult::Created(id)));
        AdminOutcome::Accepted
    }
}

fn create(
    context: &mut Context<'_>,
    command: &CreateSettlement,
    contents: Vec<(WindowId, ContentId)>,
) -> SettlementId {
    let state = &mut *context.state;
    let (stamp, reason) = (state.stamp, command.reason.as_str());
    let nets = nets(state, &contents);
    let book = &mut state.settlement;
    let id = SettlementId(book.numbers.settlement.0 + 1);
    book.numbers.settlement = id;
    book.set_contents(&contents, (WindowState::PendingSettlement, id), (reason, stamp));
    let account = |(account, net)| SettlementAccount {
        account,
        net,
        state: SettlementState::PendingSettlement,
        reason: reason.into(),
        external_reference: String::new(),
        changed: stamp,
        cap_raise: Amount::ZERO,
    };
    let settlement = Settlement {
        id,
        model: command.model.clone(),
        state: SettlementState::PendingSettlement,
        reason: reason.into(),
        created: stamp,
        changed: stamp,
        record: context.log_index,
        contents,
    };
    let accounts = nets.into_iter().map(account).collect();
    book.settlements.insert(id, SettlementWithAccounts { settlement, accounts });
    id
}

/// The net of each account over all contents. Panics unless they sum to zero per currency.
fn nets(state: &State, contents: &[(WindowId, ContentId)]) -> BTreeMap<AccountId, Amount> {
    let mut nets: BTreeMap<AccountId, Amount> = BTreeMap::new();
    let mut totals: BTreeMap<Currency, Amount> = BTreeMap::new();
    let sums = contents
        .iter()
        .flat_map(|content| state.settlement.content_sums(&state.accounts, *content));
    for sums in sums {
        let currency = state.accounts.get(sums.account).expect("its sums exist").currency;
        for sum in [nets.entry(sums.account).or_default(), totals.entry(currency).or_default()] {
            *sum = sum.checked_add(sums.net()).expect("nets are in the range of the ledger");
        }
    }
    for (currency, total) in totals {
        assert_eq!(total, Amount::ZERO, "the nets of a settlement in {currency} sum to zero");
    }
    nets
}
