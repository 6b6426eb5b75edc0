//! Reserved amounts: the parts of balances that are not final.
//!
//! A reserved transfer is part of the balance of its payer's POSITION account, and a reserved
//! outflow part of that of the participant's SETTLEMENT account.

use crate::ids::{AccountId, LogIndex, TransferId};
use crate::money::Amount;
use crate::state::State;
use crate::transfers::{Outflow, ReservedTransfer, TransferLocation};

/// A reserved amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// The account whose balance contains it.
    pub account: AccountId,
    /// The account that receives it with the commit; `None` for funds out.
    pub payee_account: Option<AccountId>,
    /// The amount.
    pub amount: Amount,
    /// The record that reserved it.
    pub record: LogIndex,
}

impl Reservation {
    const fn of_transfer(transfer: &ReservedTransfer) -> Self {
        Self {
            account: transfer.payer_account,
            payee_account: Some(transfer.payee_account),
            amount: transfer.amount,
            record: transfer.prepare,
        }
    }

    const fn of_outflow(outflow: &Outflow) -> Self {
        Self {
            account: outflow.settlement,
            payee_account: None,
            amount: outflow.amount,
            record: outflow.record,
        }
    }
}

impl State {
    /// The reserved amount of a transfer or of funds out; `None` if nothing is reserved.
    #[must_use]
    pub fn reservation(&self, id: &TransferId) -> Option<Reservation> {
        match self.transfers.find(id) {
            TransferLocation::Reserved(slot) => {
                Some(Reservation::of_transfer(self.transfers.reserved(slot)))
            }
            TransferLocation::Outflow => self.transfers.outflow(id).map(Reservation::of_outflow),
            TransferLocation::Final(_) | TransferLocation::Absent => None,
        }
    }

    /// All reserved amounts, in no particular order.
    pub fn reservations(&self) -> impl Iterator<Item = Reservation> {
        let transfers = self.transfers.iter_reserved().map(Reservation::of_transfer);
        let outflows = self.transfers.iter_outflows();
        transfers.chain(outflows.map(|(_, outflow)| Reservation::of_outflow(outflow)))
    }
}
