//! The model of funds in and out (hub-semantics 4.4; ruling 18 for the available funds). A recorded
//! request is recognised by its digest: a resend moves nothing.

use ledger::{
    AbortCause, AccountId, AccountKind, AdjustBalance, Amount, Currency, Digest, EndFundsOut,
    FspName, FundsDirection, LogIndex, MoveFunds, Outcome, Stamp, TransferId, TransferState,
    TransferView,
};

use super::{Model, Money, Predict};

/// A movement of funds, whatever its result.
#[derive(Clone, Debug)]
pub(super) struct FundsMovement {
    /// Index of the account; unused if nothing moved.
    account: usize,
    amount: Money,
    currency: Currency,
    hash: Digest,
    /// The record that created it.
    created_by: u64,
    changed: Stamp,
    status: MovementStatus,
    /// Digest of the request that ended it.
    end: Option<Digest>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MovementStatus {
    Reserved,
    Done,
    /// It was never reserved: insufficient funds.
    Insufficient,
    Returned,
}

impl FundsMovement {
    pub(super) fn is_reserved(&self) -> bool {
        self.status == MovementStatus::Reserved
    }

    /// The result of a GET.
    pub(super) fn view(&self) -> TransferView {
        let cause = |outcome| Some(AbortCause { outcome, record: LogIndex(self.created_by) });
        let (state, cause) = match self.status {
            MovementStatus::Reserved => (TransferState::Reserved, None),
            MovementStatus::Done => (TransferState::Committed, None),
            MovementStatus::Insufficient => {
                (TransferState::Aborted, cause(Outcome::FundsInsufficient))
            }
            MovementStatus::Returned => (TransferState::Aborted, cause(Outcome::FundsOutAborted)),
        };
        let (amount, currency) = (Amount::from_units(self.amount), self.currency);
        let (changed, prepare) = (self.changed, LogIndex(self.created_by));
        TransferView { state, amount, currency, changed, prepare, response: None, cause }
    }
}

impl Model {
    pub(super) fn move_funds(&mut self, funds: &MoveFunds) -> Outcome {
        let account = match self.settlement_account(&funds.name, funds.account) {
            Ok(account) => account,
            Err(outcome) => return outcome,
        };
        if self.scheme.accounts[account].currency != funds.currency {
            return Outcome::CurrencyMismatch;
        }
        if let Some(outcome) = self.known_movement(&funds.id, &funds.hash) {
            return outcome;
        }
        let hub = |kind| self.scheme.hub_account(funds.currency, kind);
        let Some(reconciliation) = hub(AccountKind::HubReconciliation) else {
            return Outcome::HubAccountsMissing;
        };
        let amount = funds.amount.units();
        let status = match funds.direction {
            FundsDirection::In => {
                self.scheme.add(account, -amount);
                self.scheme.add(reconciliation, amount);
                MovementStatus::Done
            }
            FundsDirection::Out if self.available_funds(account) < amount => {
                MovementStatus::Insufficient
            }
            FundsDirection::Out => {
                self.scheme.add(account, amount);
                MovementStatus::Reserved
            }
        };
        let MoveFunds { id, currency, hash, .. } = *funds;
        self.add_movement((id, hash), account, (amount, currency), status);
        if status == MovementStatus::Insufficient {
            Outcome::FundsInsufficient
        } else {
            Outcome::Accepted
        }
    }

    pub(super) fn end_funds_out(&mut self, end: &EndFundsOut) -> Outcome {
        let account = match self.settlement_account(&end.name, end.account) {
            Ok(account) => account,
            Err(outcome) => return outcome,
        };
        let Some(movement) = self.movements.get_mut(&end.id) else {
            return Outcome::FundsOutNotReserved;
        };
        if !movement.is_reserved() || movement.account != account {
            let is_resent = movement.end == Some(end.hash);
            return if is_resent { Outcome::FundsRepeated } else { Outcome::FundsOutNotReserved };
        }
        movement.changed = self.stamp;
        movement.end = Some(end.hash);
        movement.status = if end.commit { MovementStatus::Done } else { MovementStatus::Returned };
        let amount = movement.amount;
        let to = match end.commit {
            true => {
                let currency = self.scheme.accounts[account].currency;
                let hub = self.scheme.hub_account(currency, AccountKind::HubReconciliation);
                hub.expect("it was there when the outflow was reserved")
            }
            false => account,
        };
        self.scheme.add(to, -amount);
        self.returned_outflows += u64::from(!end.commit);
        Outcome::Accepted
    }

    /// Adds a movement that the current record creates.
    fn add_movement(
        &mut self,
        (id, hash): (TransferId, Digest),
        account: usize,
        (amount, currency): (Money, Currency),
        status: MovementStatus,
    ) {
        let (created_by, changed, end) = (self.log_index, self.stamp, None);
        let movement =
            FundsMovement { account, amount, currency, hash, created_by, changed, status, end };
        self.movements.insert(id, movement);
    }

    /// The outcome of a movement with a known id.
    fn known_movement(&self, id: &TransferId, hash: &Digest) -> Option<Outcome> {
        let movement = self.movements.get(id);
        if movement.is_none() && !self.transfers.contains_key(id) {
            return None;
        }
        Some(match movement.is_some_and(|known| known.hash == *hash) {
            true => Outcome::FundsRepeated,
            false => Outcome::FundsModified,
        })
    }

    /// Liquidity cover less position.
    fn available_funds(&self, account: usize) -> Money {
        let liquidity_cover = -self.scheme.accounts[account].value;
        let position = match self.settings.funds_out_covers_position {
            true => self.scheme.position_for_settlement(account).max(0),
            false => 0,
        };
        liquidity_cover - position
    }

    fn settlement_account(&self, name: &FspName, id: AccountId) -> Result<usize, Outcome> {
        if self.scheme.is_inactive(name) {
            return Err(Outcome::ParticipantInactive);
        }
        let account = self.scheme.account_of(name, id)?;
        match &self.scheme.accounts[account] {
            account if account.kind != AccountKind::Settlement => Err(Outcome::AccountKindWrong),
            account if !account.active => Err(Outcome::AccountInactive),
            _ => Ok(account),
        }
    }
}

/// An operator's correction of a POSITION or SETTLEMENT account, disabled or not, against the
/// hub's reconciliation account.
impl Predict for AdjustBalance {
    fn predict(&self, model: &mut Model) -> Outcome {
        let account = match model.scheme.account_of(&self.name, self.account) {
            Ok(account) => account,
            Err(outcome) => return outcome,
        };
        let held = &model.scheme.accounts[account];
        if ![AccountKind::Position, AccountKind::Settlement].contains(&held.kind) {
            return Outcome::AccountKindWrong;
        }
        if held.currency != self.currency {
            return Outcome::CurrencyMismatch;
        }
        if let Some(outcome) = model.known_movement(&self.id, &self.hash) {
            return outcome;
        }
        let hub = model.scheme.hub_account(self.currency, AccountKind::HubReconciliation);
        let Some(reconciliation) = hub else { return Outcome::HubAccountsMissing };
        let amount = self.amount.units();
        model.scheme.add(account, amount);
        model.scheme.add(reconciliation, -amount);
        let AdjustBalance { id, currency, hash, .. } = *self;
        model.add_movement((id, hash), account, (amount, currency), MovementStatus::Done);
        Outcome::Accepted
    }
}

impl Predict for MoveFunds {
    fn predict(&self, model: &mut Model) -> Outcome {
        model.move_funds(self)
    }
}

impl Predict for EndFundsOut {
    fn predict(&self, model: &mut Model) -> Outcome {
        model.end_funds_out(self)
    }
}
