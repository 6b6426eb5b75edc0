//! `POST /transfers`: reserves the payer's position, or refuses the prepare (hub-semantics 3.3 to
//! 3.5; rulings for unknown payees and inactive payee accounts).

use super::expire::expire_next;
use super::fees;
use crate::accounts::Accounts;
use crate::command::Prepare;
use crate::context::{Context, Decide, NoticeContext};
use crate::ids::{AccountId, FspName, NoticeId, ParticipantIndex};
use crate::money::{Amount, PRECISION_MAX};
use crate::notice::NoticeKind;
use crate::outcome::PrepareOutcome;
use crate::planted_bugs::{Bug, is_planted};
use crate::registry::{CurrencyAccounts, Participant};
use crate::state::State;
use crate::transfers::{FinalTransfer, ReservedTransfer, TransferLocation, TransferState};

/// The accounts of an acceptable prepare.
struct ResolvedPrepare {
    payer: ParticipantIndex,
    payee: ParticipantIndex,
    payer_account: AccountId,
    payee_account: AccountId,
}

impl Decide for Prepare {
    type Outcome = PrepareOutcome;

    fn decide(&self, context: &mut Context<'_>) -> PrepareOutcome {
        assert!(Amount::ZERO <= self.amount, "the amount of a prepare is never negative");
        let Some(sender) = context.state.registry.sender(&self.source) else {
            return PrepareOutcome::SenderNotFound;
        };
        if let Some(outcome) = handle_resend(context, self, sender) {
            return outcome;
        }
        match check(context.state, self, sender) {
            Ok(resolved) => reserve(context, self, &resolved),
            Err(outcome) => refuse(context, self, (sender, outcome)),
        }
    }
}

/// Answers a known id: the same content gets the stored state, different content is refused. The
/// stored transfer does not change (3.4).
fn handle_resend(
    context: &mut Context<'_>,
    command: &Prepare,
    sender: ParticipantIndex,
) -> Option<PrepareOutcome> {
    let state = &*context.state;
    let (outcome, kind, about) = match state.transfers.find(&command.id) {
        TransferLocation::Absent => return None,
        TransferLocation::Reserved(slot) if state.transfers.reserved(slot).hash == command.hash => {
            let outcome = PrepareOutcome::PrepareResentReserved;
            let about = notice_context(context, command, outcome);
            let at = state.transfers.reserved(slot).reserved_at;
            (outcome, NoticeKind::Reserved, NoticeContext { at, ..about })
        }
        TransferLocation::Final(at) if state.transfers.final_transfer(at).hash == command.hash => {
            let ended = state.transfers.final_transfer(at);
            let (outcome, kind) = stored_end(ended);
            (outcome, kind, notice_context(context, command, outcome).about_end(ended))
        }
        TransferLocation::Reserved(_) | TransferLocation::Final(_) | TransferLocation::Outflow => {
            let outcome = PrepareOutcome::PrepareModified;
            (outcome, NoticeKind::Error, notice_context(context, command, outcome))
        }
    };
    context.enqueue_notice(addressee(state, command, sender), kind, about);
    Some(outcome)
}

fn stored_end(ended: &FinalTransfer) -> (PrepareOutcome, NoticeKind) {
    match ended.state() {
        TransferState::Committed => (PrepareOutcome::PrepareResentCommitted, NoticeKind::Committed),
        TransferState::Reserved | TransferState::Aborted => {
            (PrepareOutcome::PrepareResentAborted, NoticeKind::AbortedState)
        }
    }
}

/// All checks, in their order (3.3, then 3.5).
fn check(
    state: &State,
    command: &Prepare,
    payer: ParticipantIndex,
) -> Result<ResolvedPrepare, PrepareOutcome> {
    use PrepareOutcome::*;
    refuse_if(command.source != command.payer, PrepareSourceNotPayer)?;
    refuse_if(command.amount.precision() > PRECISION_MAX, PrepareAmountPrecision)?;
    // The sender is found regardless of case, but the payer's name must match exactly.
    let payer_entry = state.registry.get(payer);
    refuse_if(payer_entry.name != command.payer, PreparePayerNotFound)?;
    refuse_if(!payer_entry.active, PreparePayerInactive)?;
    let (payee, payee_entry) = find(state, &command.payee, PreparePayeeNotFound)?;
    refuse_if(!payee_entry.active, PreparePayeeInactive)?;
    refuse_if(command.expiration_ms < state.stamp.millis(), PrepareExpirationPast)?;
    let same = command.payer.matches(&command.payee);
    refuse_if(same && !state.settings.on_us_transfers, PreparePayerIsPayee)?;
    let payer_accounts =
        payer_entry.accounts_in(command.currency).ok_or(PreparePayerAccountNotFound)?;
    refuse_if(!is_active(&state.accounts, payer_accounts.position), PreparePayerAccountInactive)?;
    let payee_accounts =
        payee_entry.accounts_in(command.currency).ok_or(PreparePayeeAccountNotFound)?;
    refuse_if(!is_active(&state.accounts, payee_accounts.position), PreparePayeeAccountInactive)?;
    if let Some(terms) = command.quote_terms {
        let of_quote = ((payer, payee), terms);
        state.quotes.check_terms(&command.id, of_quote, state.stamp.millis())?;
    }
    let lane_full = state.outbox.owed_to(payee) >= state.settings.lane_capacity;
    refuse_if(lane_full, PreparePayeeLaneFull)?;
    check_liquidity(state, payer_accounts, command.amount)?;
    Ok(ResolvedPrepare {
        payer,
        payee,
        payer_account: payer_accounts.position,
        payee_account: payee_accounts.position,
    })
}

/// Checks the liquidity cover first, then the net debit cap. Equality passes (3.5).
fn check_liquidity(
    state: &State,
    accounts: &CurrencyAccounts,
    amount: Amount,
) -> Result<(), PrepareOutcome> {
    let position = state.accounts.value(accounts.position);
    let liquidity_cover = -state.accounts.value(accounts.settlement);
    let net_debit_cap = accounts.net_debit_cap.map_or(Amount::ZERO, |cap| cap.value);
    let mut after =
        position.checked_add(amount).expect("a position is far from the ledger's range");
    if is_planted(Bug::BatchAddsRoom) && has_moved(state, accounts) {
        after = position.checked_sub(amount).expect("a position is far from the ledger's range");
    }
    refuse_if(after > liquidity_cover, PrepareOutcome::PrepareLiquidityInsufficient)?;
    refuse_if(after > net_debit_cap, PrepareOutcome::PrepareCapExceeded)
}

/// Whether this batch has changed the position.
fn has_moved(state: &State, accounts: &CurrencyAccounts) -> bool {
    state.accounts.get(accounts.position).is_some_and(|account| account.changed == state.stamp)
}

fn reserve(
    context: &mut Context<'_>,
    command: &Prepare,
    resolved: &ResolvedPrepare,
) -> PrepareOutcome {
    let posting = context.state.accounts.reservation(resolved.payer_account, command.amount);
    context.post(posting);
    let about = notice_context(context, command, PrepareOutcome::PrepareReserved);
    let notice = context.enqueue_notice(resolved.payee, NoticeKind::Prepare, about);
    insert(context, command, resolved, notice);
    // A deadline at this very stamp passes the check and has been reached. The transfer expires
    // here, so that no later command of the batch finds it open.
    if command.expiration_ms <= context.state.stamp.millis() {
        while expire_next(context) {}
    }
    PrepareOutcome::PrepareReserved
}

#[inline]
fn insert(
    context: &mut Context<'_>,
    command: &Prepare,
    resolved: &ResolvedPrepare,
    notice: NoticeId,
) {
    let transfer = reserved_transfer(context, command, resolved, notice);
    if let Some(rule) = command.fee_rule {
        fees::reserve(context.state, &transfer, (rule, command.currency));
    }
    context.state.transfers.insert_reserved(transfer);
    context.state.counters.reserved += 1;
}

/// Decides an item of a bulk transfer, whose notices are those of the bulk. The id of an item that
/// is refused because it is known keeps its row.
pub(super) fn decide_item(
    context: &mut Context<'_>,
    command: &Prepare,
    (payer, notice): (ParticipantIndex, NoticeId),
) -> PrepareOutcome {
    if context.state.transfers.find(&command.id) != TransferLocation::Absent {
        return PrepareOutcome::PrepareModified;
    }
    match check(context.state, command, payer) {
        Ok(resolved) => {
            let posting =
                context.state.accounts.reservation(resolved.payer_account, command.amount);
            context.post(posting);
            insert(context, command, &resolved, notice);
            PrepareOutcome::PrepareReserved
        }
        Err(outcome) => {
            store_refusal(context, command, outcome);
            outcome
        }
    }
}

fn reserved_transfer(
    context: &Context<'_>,
    command: &Prepare,
    resolved: &ResolvedPrepare,
    prepare_notice: NoticeId,
) -> ReservedTransfer {
    ReservedTransfer {
        id: command.id,
        payer: resolved.payer,
        payee: resolved.payee,
        payer_account: resolved.payer_account,
        payee_account: resolved.payee_account,
        amount: command.amount,
        condition: command.condition,
        expiration_ms: command.expiration_ms,
        hash: command.hash,
        prepare: context.log_index,
        prepare_notice,
        reserved_at: context.state.stamp,
        trace: command.trace,
    }
}

/// Stores a refused prepare, so that a resend gets the same refusal.
fn refuse(
    context: &mut Context<'_>,
    command: &Prepare,
    (sender, outcome): (ParticipantIndex, PrepareOutcome),
) -> PrepareOutcome {
    let about = notice_context(context, command, outcome);
    context.enqueue_notice(addressee(context.state, command, sender), NoticeKind::Error, about);
    store_refusal(context, command, outcome);
    outcome
}

fn store_refusal(context: &mut Context<'_>, command: &Prepare, outcome: PrepareOutcome) {
    let state = &mut *context.state;
    let index = |name: &FspName| state.registry.find(name).map(|(index, _)| index);
    let ended = FinalTransfer {
        id: command.id,
        payer: index(&command.payer),
        payee: index(&command.payee),
        amount: command.amount,
        currency: command.currency,
        hash: command.hash,
        prepare: context.log_index,
        response: None,
        outcome: outcome.into(),
        completed: state.stamp,
        changed: context.log_index,
    };
    state.counters.refused += 1;
    context.finalize(ended);
}

/// Errors of a prepare go to the payer of the body, even if another FSP sent it. If that payer is
/// unknown, they go to the sender.
fn addressee(state: &State, command: &Prepare, sender: ParticipantIndex) -> ParticipantIndex {
    state.registry.sender(&command.payer).unwrap_or(sender)
}

fn notice_context(
    context: &Context<'_>,
    command: &Prepare,
    outcome: PrepareOutcome,
) -> NoticeContext {
    let transfer = Some(command.id);
    let (source, at) = (context.log_index, context.state.stamp);
    NoticeContext { transfer, source, outcome: outcome.into(), at, trace: command.trace }
}

fn find<'a>(
    state: &'a State,
    name: &FspName,
    missing: PrepareOutcome,
) -> Result<(ParticipantIndex, &'a Participant), PrepareOutcome> {
    let found = state.registry.find(name).ok_or(missing)?;
    refuse_if(found.0 == ParticipantIndex::HUB, missing)?;
    Ok(found)
}

fn is_active(accounts: &Accounts, account: AccountId) -> bool {
    accounts.get(account).is_some_and(|account| account.active)
}

fn refuse_if(refused: bool, outcome: PrepareOutcome) -> Result<(), PrepareOutcome> {
    if refused { Err(outcome) } else { Ok(()) }
}
