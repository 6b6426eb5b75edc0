//! Rows of fee rules, and of the fees of transfers in flight.

use super::{MISSING_ACCOUNT, StateBuilder, TableRow};
use crate::accounts::{Account, AccountKind};
use crate::fees::{FeeRule, PendingFee};
use crate::field::{InvalidState, Row};
use crate::ids::TransferId;
use crate::money::Amount;
use crate::state::State;
use crate::transfers::TransferLocation;

impl TableRow for FeeRule {
    fn all(state: &State) -> impl IntoIterator<Item = impl Row> {
        &state.fees.rules
    }

    fn restore(self, builder: &mut StateBuilder) -> Result<(), InvalidState> {
        let rules = &mut builder.fees.rules;
        if rules.iter().any(|rule| rule.name == self.name) {
            return Err(InvalidState("two fee rules have one name"));
        }
        rules.push(self);
        Ok(())
    }
}

impl TableRow for (TransferId, PendingFee) {
    fn all(state: &State) -> impl IntoIterator<Item = impl Row> {
        &state.fees.pending
    }

    fn restore(self, builder: &mut StateBuilder) -> Result<(), InvalidState> {
        let (id, fee) = self;
        let TransferLocation::Reserved(slot) = builder.transfers.find(&id) else {
            return Err(InvalidState("a fee belongs to no transfer in flight"));
        };
        if builder.fees.pending.last_key_value().is_some_and(|(last, _)| id <= *last) {
            return Err(InvalidState("fees are out of order"));
        }
        let transfer = builder.transfers.reserved(slot);
        let parties = [transfer.payer, transfer.payee];
        let currency = builder.account(transfer.payer_account).map(|account| account.currency);
        let account = |id| {
            let account = builder.account(id);
            let fits = |it: &&Account| {
                it.kind == AccountKind::InterchangeFee && Some(it.currency) == currency
            };
            account.filter(fits).map(|account| account.owner).ok_or(MISSING_ACCOUNT)
        };
        let owners = [account(fee.from)?, account(fee.to)?];
        let is_between = owners == parties || owners == [parties[1], parties[0]];
        let is_known = builder.fees.rule(fee.rule).is_some();
        if !is_between || fee.from == fee.to || !is_known || fee.amount <= Amount::ZERO {
            return Err(InvalidState("a fee does not fit its transfer"));
        }
        builder.fees.pending.insert(id, fee);
        Ok(())
    }
}
