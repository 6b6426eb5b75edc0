//! Payers and payees: what they send, what they make of callbacks, and when they ask again.
//!
//! An FSP believes the hub's messages. It never sees the kernel's state; at the end of a run its
//! beliefs are compared with it.

use ledger::{ErrorOutcome, LookupResult, Notice, NoticeKind, Outcome, TransferId, TransferState};

use crate::event::{Callback, Event};
use crate::parameters::SECOND;
use crate::simulation::SimulationRun;
use crate::transfers::{GHOST, MessageVariant, PlannedResponse, Request, TransferPlan, number_of};
use crate::workload::bulks::ITEMS_FIRST;

/// Resends of a message before its sender gives up until the faults stop; in calm, before it
/// asks for the state instead.
pub(crate) const RESENDS_MAX: u8 = 4;

/// How often the pause between two resends doubles, at most.
const DOUBLINGS_MAX: u8 = 5;
/// Longest pause between two resends.
pub(crate) const PAUSE_MAX_US: u64 = (2 * SECOND) << DOUBLINGS_MAX;

/// How a transfer ended, as an FSP sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransferEnd {
    Committed,
    Aborted,
}

/// The knowledge and actions of one party of a transfer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Party {
    pub(crate) end: Option<TransferEnd>,
    /// It takes part: the payer from the start, the payee once it has received the prepare.
    involved: bool,
    pub(crate) acknowledged: bool,
    answered: bool,
    resends: u8,
}

/// Both parties of a transfer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Parties {
    pub(crate) payer: Party,
    pub(crate) payee: Party,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Payer,
    Payee,
}

impl SimulationRun {
    pub(crate) fn is_payer_waiting(&self, transfer: u32) -> bool {
        !self.is_dropped(transfer) && self.parties[transfer as usize].payer.end.is_none()
    }

    /// Whether the run is made without this transfer.
    fn is_dropped(&self, transfer: u32) -> bool {
        self.without.transfers.contains(&transfer)
    }

    pub(crate) fn is_payee_waiting(&self, transfer: u32) -> bool {
        let payee = &self.parties[transfer as usize].payee;
        payee.involved && payee.end.is_none()
    }

    /// A payer sends a new prepare; sometimes a modified copy follows.
    pub(crate) fn pay(&mut self, transfer: u32) {
        let plan = &self.plans[transfer as usize];
        let (payer, fsps) = (plan.payer, u64::from(self.env.parameters.fsps));
        self.parties[transfer as usize].payer.involved = true;
        self.env.send(Request {
            from: payer,
            message: MessageVariant::Prepare { transfer, variant: 0 },
        });
        let wait = self.env.random.between((SECOND, 3 * SECOND));
        self.env.after(wait, Event::PayerTimer(transfer));
        if self.env.random.chance(self.env.parameters.odd_per_mille / 10) {
            let stranger = self.env.random.below(fsps) as u8;
            if stranger != self.plans[transfer as usize].payee {
                let message = MessageVariant::Response { transfer, variant: 0 };
                let wait = self.env.random.below(SECOND);
                self.env.after(wait, Event::Arrive(Request { from: stranger, message }));
            }
        }
    }

    /// The hub's answer to a request.
    pub(crate) fn answered(&mut self, request: Request, result: Option<Outcome>) {
        match (request.message, result) {
            (MessageVariant::Prepare { transfer, .. }, Some(_)) => {
                self.parties[transfer as usize].payer.acknowledged = true;
            }
            (MessageVariant::Response { transfer, .. }, Some(_)) => {
                self.parties[transfer as usize].payee.acknowledged = true;
            }
            (MessageVariant::Change(number), Some(_)) => self.change_answered(number),
            _ => {}
        }
    }

    /// A callback reaches an FSP.
    pub(crate) fn callback(&mut self, fsp: u8, callback: &Callback) {
        let Callback { notice, source } = callback;
        if !self.external.received(notice.id) {
            self.env.counts.repeats += 1;
        }
        self.env.add_to_trace(notice.id.0);
        let Some(id) = notice.transfer else { return };
        if id.is_bulk() {
            return self.bulk_callback(fsp, notice, *source);
        }
        let transfer = number_of(&id);
        // No party acts on items of bulk transfers and on transfers of the outcome workload.
        if ITEMS_FIRST <= transfer {
            return;
        }
        // A message of the outcome workload under the id of a movement of funds.
        if source.is_none_or(|source| source.transfer().is_none()) && self.is_funds_id(&id) {
            return;
        }
        if let Some(source) = *source {
            let about = source.transfer();
            assert_eq!(about, Some(transfer), "{notice:?} is made from another message");
            check_source(notice, source);
        }
        let plan = &self.plans[transfer as usize];
        let end = end_from_notice(notice);
        let roles = roles_of(plan, fsp);
        assert!(end.is_none() || roles != [None, None], "{fsp} is no party of {notice:?}");
        if notice.kind == NoticeKind::Prepare {
            assert_eq!(fsp, plan.payee, "a prepare goes to the payee");
            self.involve_payee(transfer);
        }
        for role in roles.into_iter().flatten() {
            self.record_end(transfer, role, end);
        }
    }

    /// A payer that does not know the end sends its prepare again, or asks.
    pub(crate) fn payer_timer(&mut self, transfer: u32) {
        let calm = self.env.calm;
        let late = self.plans[transfer as usize].expiration_ms + 1_000 < self.env.true_ms();
        let payer = &mut self.parties[transfer as usize].payer;
        if payer.end.is_some() || (!calm && RESENDS_MAX <= payer.resends) {
            return;
        }
        let patient = payer.acknowledged && !late && !self.env.random.chance(100);
        if !patient {
            payer.resends = payer.resends.saturating_add(1);
            let queries_state =
                calm && RESENDS_MAX < payer.resends && payer.resends.is_multiple_of(2);
            let variant = self.variant();
            let from = self.plans[transfer as usize].payer;
            let message = match queries_state {
                true => MessageVariant::GetTransfer { transfer },
                false => MessageVariant::Prepare { transfer, variant },
            };
            self.env.send(Request { from, message });
        }
        let resends = self.parties[transfer as usize].payer.resends;
        let wait = self.pause(resends);
        self.env.after(wait, Event::PayerTimer(transfer));
    }

    /// A payee gives its answer, gives it again, or asks.
    pub(crate) fn payee_timer(&mut self, transfer: u32) {
        let calm = self.env.calm;
        let plan = &self.plans[transfer as usize];
        let (from, silent) = (plan.payee, plan.response == PlannedResponse::Silent);
        let payee = &mut self.parties[transfer as usize].payee;
        if payee.answered {
            payee.resends = payee.resends.saturating_add(1);
        }
        let first = !std::mem::replace(&mut payee.answered, true);
        let (resends, tired) = (payee.resends, RESENDS_MAX <= payee.resends);
        if (payee.end.is_some() && !first) || (tired && !calm) {
            return;
        }
        if silent || tired {
            self.env.send(Request { from, message: MessageVariant::GetTransfer { transfer } });
        } else {
            let variant = if first { 0 } else { self.variant() };
            self.env
                .send(Request { from, message: MessageVariant::Response { transfer, variant } });
        }
        let wait = self.pause(resends);
        self.env.after(wait, Event::PayeeTimer(transfer));
    }

    /// `GET /transfers/{id}`: answered from the state at once.
    pub(crate) fn asked(&mut self, fsp: u8, transfer: u32) {
        let (asker, id) = (self.actors.name(fsp), self.actors.id(transfer));
        self.prefetch(&id);
        let Some(state) = self.state() else { return };
        let found = state.look_up(&asker, &id);
        let LookupResult::Found(view) = found else {
            let known = self.external.model.is_party(&id, &asker);
            assert!(!known, "{asker} asked for {id} and got {found:?}");
            return;
        };
        let end = match view.state {
            TransferState::Reserved => None,
            TransferState::Committed => Some(TransferEnd::Committed),
            TransferState::Aborted => Some(TransferEnd::Aborted),
        };
        for role in roles_of(&self.plans[transfer as usize], fsp).into_iter().flatten() {
            self.record_end(transfer, role, end);
        }
    }

    /// The belief of every party equals the kernel's state.
    pub(crate) fn check_agreement(&mut self) {
        for transfer in 0..self.parties.len() {
            let id = self.actors.id(transfer as u32);
            if self.is_dropped(transfer as u32) {
                continue;
            }
            self.prefetch(&id);
            let state = self.state().expect("a hub at rest is up");
            let parties = &self.parties[transfer];
            let end = match state.view(&id).map(|view| view.state) {
                Some(TransferState::Committed) => Some(TransferEnd::Committed),
                Some(TransferState::Aborted) => Some(TransferEnd::Aborted),
                Some(TransferState::Reserved) | None => None,
            };
            assert!(end.is_some(), "transfer {transfer} has not ended");
            assert_eq!(parties.payer.end, end, "the payer's view of transfer {transfer}");
            let payee = parties.payee;
            assert!(payee.end.is_none() || payee.end == end, "the payee's view of {transfer}");
        }
    }

    /// How long a party waits before it asks again. After the faults have stopped the wait doubles
    /// each time, because more questions would only lengthen a backlog of the hub.
    pub(crate) fn pause(&mut self, resends: u8) -> u64 {
        let wait = self.env.random.between((SECOND, 2 * SECOND));
        if self.env.calm { wait << resends.min(DOUBLINGS_MAX) } else { wait }
    }

    pub(crate) fn variant(&mut self) -> u8 {
        let changed =
            !self.env.calm && self.env.random.chance(self.env.parameters.changed_per_mille);
        u8::from(changed)
    }

    /// Whether no transfer plan has the id.
    fn is_funds_id(&self, id: &TransferId) -> bool {
        let number = number_of(id);
        self.plans.len() as u32 <= number || self.actors.id(number) != *id
    }

    fn involve_payee(&mut self, transfer: u32) {
        let plan = &self.plans[transfer as usize];
        let (response, expiration_ms) = (plan.response, plan.expiration_ms);
        let payee = &mut self.parties[transfer as usize].payee;
        if std::mem::replace(&mut payee.involved, true) {
            return;
        }
        let left = expiration_ms.saturating_sub(self.env.true_ms()) * 1_000;
        let thinks = self.env.parameters.think_us;
        let wait = match response {
            PlannedResponse::Late => left + self.env.random.below(SECOND),
            PlannedResponse::Silent => left + 2 * SECOND,
            _ => self.env.random.between(thinks),
        };
        self.env.after(wait, Event::PayeeTimer(transfer));
    }

    fn record_end(&mut self, transfer: u32, role: Role, end: Option<TransferEnd>) {
        let Some(end) = end else { return };
        let parties = &mut self.parties[transfer as usize];
        let party = match role {
            Role::Payer => &mut parties.payer,
            Role::Payee => &mut parties.payee,
        };
        let known = *party.end.get_or_insert(end);
        assert_eq!(known, end, "the {role:?} of transfer {transfer} is notified of two ends");
        party.involved = true;
    }
}

/// The payer's own bytes go to the payee, the payee's answers to the payer.
fn check_source(notice: &Notice, source: Request) {
    let is_prepare = matches!(source.message, MessageVariant::Prepare { .. });
    match notice.kind {
        NoticeKind::Prepare => assert!(is_prepare, "{notice:?} is made from {source:?}"),
        NoticeKind::Fulfil | NoticeKind::Abort | NoticeKind::FulfilCopy | NoticeKind::AbortCopy => {
            assert!(!is_prepare, "{notice:?} is made from {source:?}");
        }
        NoticeKind::Committed
        | NoticeKind::Reserved
        | NoticeKind::AbortedState
        | NoticeKind::Error
        | NoticeKind::PatchCommitted
        | NoticeKind::PatchAborted
        | NoticeKind::BulkPrepare
        | NoticeKind::BulkResult
        | NoticeKind::BulkError
        | NoticeKind::PartiesChanged => {}
    }
}

fn roles_of(plan: &TransferPlan, fsp: u8) -> [Option<Role>; 2] {
    assert_ne!(fsp, GHOST, "the hub sends nothing to an unknown FSP");
    let payer = (plan.payer == fsp).then_some(Role::Payer);
    let payee = (plan.payee == fsp).then_some(Role::Payee);
    [payer, payee]
}

/// The end of a transfer that a notice speaks of, if it does.
fn end_from_notice(notice: &Notice) -> Option<TransferEnd> {
    match notice.kind {
        NoticeKind::Prepare
        | NoticeKind::Reserved
        | NoticeKind::BulkPrepare
        | NoticeKind::BulkResult
        | NoticeKind::BulkError => None,
        NoticeKind::Fulfil | NoticeKind::FulfilCopy => {
            let committed = notice.outcome == Outcome::Committed;
            Some(if committed { TransferEnd::Committed } else { TransferEnd::Aborted })
        }
        NoticeKind::Committed | NoticeKind::PatchCommitted => Some(TransferEnd::Committed),
        NoticeKind::Error => ErrorOutcome::of(notice.outcome).and_then(end_from_error),
        NoticeKind::Abort
        | NoticeKind::AbortCopy
        | NoticeKind::AbortedState
        | NoticeKind::PatchAborted
        | NoticeKind::PartiesChanged => Some(TransferEnd::Aborted),
    }
}

/// A refused prepare and every error that ends a transfer; others leave it as it is.
fn end_from_error(error: ErrorOutcome) -> Option<TransferEnd> {
    use ErrorOutcome::*;
    match error {
        Expired
        | ResponseAfterExpiry
        | FulfilmentInvalid
        | ResponseNotToPayer
        | AbortedWithUnknownCode
        | PrepareSourceNotPayer
        | PrepareAmountPrecision
        | PreparePayerNotFound
        | PreparePayerInactive
        | PreparePayeeNotFound
        | PreparePayeeInactive
        | PrepareExpirationPast
        | PreparePayerIsPayee
        | PreparePayerAccountNotFound
        | PreparePayerAccountInactive
        | PreparePayeeAccountNotFound
        | PreparePayeeAccountInactive
        | PreparePayeeLaneFull
        | PrepareLiquidityInsufficient
        | PrepareCapExceeded
        | QuoteNotFound
        | QuoteExpired
        | PrepareDiffersFromQuote => Some(TransferEnd::Aborted),
        PrepareModified
        | QuoteModified
        | TransactionRequestModified
        | TransactionRequestNotFound
        | TransactionRequestExpired
        | ResponseTransferNotFound
        | ResponseNotFromPayee
        | ResponseModified
        | ResponseStateNotReserved
        | Aborted
        | AbortedByPut
        | FundsInsufficient
        | BulkItemNotFound
        | ResponseOfBulkItem
        | FundsOutAborted => None,
    }
}
