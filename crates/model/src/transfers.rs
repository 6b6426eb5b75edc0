//! The model of transfers: prepare, fulfil, abort and expiry, and their notices (hub-semantics 3.3
//! to 3.10).

use ledger::{
    Abort, AbortCause, Amount, Currency, Digest, FspName, Fulfil, FulfilState, Fulfilment,
    LogIndex, NoticeId, NoticeKind, Outcome, Prepare, Stamp, TransferId, TransferState,
    TransferView,
};
use sha2::{Digest as _, Sha256};

use super::fees::ReservedFee;
use super::outbox::NoticeContent;
use super::{Model, Money, is_commit};

/// Maximum number of digits of an amount.
const DIGITS_MAX: usize = 18;

#[derive(Clone, Debug)]
pub(super) struct Transfer {
    pub(super) payer: FspName,
    pub(super) payee: FspName,
    /// Whether the payee was a participant at the time of the prepare.
    payee_known: bool,
    currency: Currency,
    pub(super) amount: Money,
    pub(super) condition: [u8; 32],
    /// Time, record, and place in the list of a bulk.
    deadline: (u64, u64, u32),
    /// The bulk whose item it is.
    bulk: Option<TransferId>,
    hash: Digest,
    trace: [u8; 16],
    /// The record of the prepare.
    pub(super) prepare_record: u64,
    changed: Stamp,
    /// The notice with the prepare for the payee.
    prepare_notice: Option<NoticeId>,
    pub(super) status: TransferStatus,
    /// The first response of its payee.
    pub(super) response: Option<RecordedResponse>,
    fee: Option<ReservedFee>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransferStatus {
    Reserved,
    Ended(Outcome),
}

/// A response by a payee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordedResponse {
    pub(super) kind: ResponseKind,
    pub(super) hash: Digest,
    pub(super) record: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseKind {
    Put,
    PutError,
}

/// The common part of both kinds of responses.
struct PayeeResponse<'a> {
    id: TransferId,
    source: &'a FspName,
    destination: Option<&'a FspName>,
    kind: ResponseKind,
    hash: Digest,
    trace: [u8; 16],
    /// The payee waits for a PATCH.
    patch: bool,
}

impl Transfer {
    pub(super) fn is_reserved_in(&self, currency: Currency) -> bool {
        self.status == TransferStatus::Reserved && self.currency == currency
    }

    /// The fee, until the transfer ends.
    pub(super) fn reserved_fee(&self) -> Option<ReservedFee> {
        self.fee.filter(|_| self.status == TransferStatus::Reserved)
    }

    /// The result of a GET (3.9).
    pub(super) fn view(&self) -> TransferView {
        let state = match self.status {
            TransferStatus::Reserved => TransferState::Reserved,
            status if is_commit(status) => TransferState::Committed,
            TransferStatus::Ended(_) => TransferState::Aborted,
        };
        // A late response is not taken.
        let taken =
            self.response.filter(|_| self.status != TransferStatus::Ended(Outcome::Expired));
        let response = taken.map(|response| LogIndex(response.record));
        let cause = match self.status {
            TransferStatus::Ended(outcome) if !is_commit(self.status) => {
                Some(AbortCause { outcome, record: LogIndex(self.record_of_cause()) })
            }
            _ => None,
        };
        TransferView {
            state,
            amount: Amount::from_units(self.amount),
            currency: self.currency,
            changed: self.changed,
            prepare: LogIndex(self.prepare_record),
            response,
            cause,
        }
    }

    /// The record with the cause of the abort: the payee's own error, if there is one.
    fn record_of_cause(&self) -> u64 {
        let by_payee = self.status == TransferStatus::Ended(Outcome::Aborted);
        self.response.filter(|_| by_payee).map_or(self.prepare_record, |response| response.record)
    }

    /// The content of a repeated notice about its end. Its source is the record with the fulfilment
    /// or the cause.
    fn content_of_end(&self, now: NoticeContent) -> NoticeContent {
        let TransferStatus::Ended(outcome) = self.status else { panic!("it has not ended") };
        let source = match (is_commit(self.status), self.response) {
            (true, Some(response)) => response.record,
            _ => self.record_of_cause(),
        };
        NoticeContent { source, outcome, at: self.changed, ..now }
    }
}

impl Model {
    pub(super) fn prepare(&mut self, prepare: &Prepare) -> Outcome {
        // An unknown sender changes nothing.
        if self.scheme.sender(&prepare.source).is_none() {
            return Outcome::SenderNotFound;
        }
        let known = self.transfers.get(&prepare.id);
        if known.is_some() || self.movements.contains_key(&prepare.id) {
            return self.handle_resent_prepare(prepare);
        }
        let refusal = self.refusal(prepare);
        let outcome = refusal.unwrap_or(Outcome::PrepareReserved);
        let content = self.notice_content(prepare.id, outcome, prepare.trace);
        self.store_prepare(prepare, refusal, (0, None));
        if refusal.is_some() {
            self.notify_payer(prepare, NoticeKind::Error, &content);
            return outcome;
        }
        let notice = self.enqueue_notice(prepare.payee, NoticeKind::Prepare, &content);
        self.transfers.get_mut(&prepare.id).expect("it was stored").prepare_notice = notice;
        // A deadline at this very stamp is in time, and has been reached.
        self.expire();
        outcome
    }

    /// Stores a prepare, reserved or refused, without its notice.
    pub(super) fn store_prepare(
        &mut self,
        prepare: &Prepare,
        refusal: Option<Outcome>,
        (place, bulk): (u32, Option<TransferId>),
    ) {
        let transfer = Transfer {
            bulk,
            payer: prepare.payer,
            payee: prepare.payee,
            payee_known: self.scheme.fsp(&prepare.payee).is_some(),
            currency: prepare.currency,
            amount: prepare.amount.units(),
            condition: prepare.condition,
            deadline: (prepare.expiration_ms, self.log_index, place),
            hash: prepare.hash,
            trace: prepare.trace,
            prepare_record: self.log_index,
            changed: self.stamp,
            prepare_notice: None,
            status: refusal.map_or(TransferStatus::Reserved, TransferStatus::Ended),
            response: None,
            fee: self.fee_to_reserve(
                prepare.fee_rule.map(|rule| rule.0),
                (&prepare.payer, &prepare.payee),
                (prepare.currency, prepare.amount.units()),
            ),
        };
        if refusal.is_some() {
            self.counters.refused += 1;
            self.transfers.insert(prepare.id, transfer);
            return;
        }
        self.counters.reserved += 1;
        self.reserved += 1;
        self.move_position(&prepare.payer, prepare.currency, transfer.amount);
        self.deadlines.insert(transfer.deadline, prepare.id);
        self.transfers.insert(prepare.id, transfer);
    }

    pub(super) fn fulfil(&mut self, fulfil: &Fulfil) -> Outcome {
        if fulfil.state == FulfilState::ReservedUnderVersion10 {
            return Outcome::FulfilVersionIgnored;
        }
        let incoming = PayeeResponse {
            id: fulfil.id,
            source: &fulfil.source,
            destination: fulfil.destination.as_ref(),
            kind: ResponseKind::Put,
            hash: fulfil.hash,
            trace: fulfil.trace,
            patch: fulfil.state == FulfilState::Reserved,
        };
        if let Some(outcome) = self.refuse_or_resend(&incoming) {
            return outcome;
        }
        let condition = self.transfers[&fulfil.id].condition;
        let fits = |preimage: &[u8; 32]| <[u8; 32]>::from(Sha256::digest(preimage)) == condition;
        let outcome = match (fulfil.state, &fulfil.fulfilment) {
            (FulfilState::Aborted, _) if self.settings.put_aborted_aborts => Outcome::AbortedByPut,
            (FulfilState::Aborted, _) => return Outcome::FulfilAbortedIgnored,
            (_, Fulfilment::Present(preimage)) if fits(preimage) => Outcome::Committed,
            _ => Outcome::FulfilmentInvalid,
        };
        self.end_by_response(&incoming, outcome);
        // 3.7, and 3.8 for a wrong fulfilment.
        if outcome == Outcome::FulfilmentInvalid {
            self.notify_parties(&incoming, outcome, NoticeKind::Error, Some(NoticeKind::Error));
            if incoming.patch {
                self.notify_payee(&incoming, outcome, NoticeKind::PatchAborted);
            }
        } else if outcome == Outcome::Committed && incoming.patch {
            self.notify_parties(&incoming, outcome, NoticeKind::Committed, None);
            self.notify_payee(&incoming, outcome, NoticeKind::PatchCommitted);
        } else {
            let copy = Some(NoticeKind::FulfilCopy);
            self.notify_parties(&incoming, outcome, NoticeKind::Fulfil, copy);
        }
        outcome
    }

    pub(super) fn abort(&mut self, abort: &Abort) -> Outcome {
        let incoming = PayeeResponse {
            id: abort.id,
            source: &abort.source,
            destination: abort.destination.as_ref(),
            kind: ResponseKind::PutError,
            hash: abort.hash,
            trace: abort.trace,
            patch: false,
        };
        if let Some(outcome) = self.refuse_or_resend(&incoming) {
            return outcome;
        }
        let (outcome, to_payer) = match abort.code_is_known {
            true => (Outcome::Aborted, NoticeKind::Abort),
            false => (Outcome::AbortedWithUnknownCode, NoticeKind::Error),
        };
        self.end_by_response(&incoming, outcome);
        self.notify_parties(&incoming, outcome, to_payer, Some(NoticeKind::AbortCopy));
        outcome
    }

    /// 3.10: due transfers expire, the money is returned, and each party gets one notice.
    pub(super) fn expire(&mut self) {
        while let Some((&deadline, &id)) = self.deadlines.first_key_value() {
            if self.stamp.millis() < deadline.0 {
                break;
            }
            self.end(id, Outcome::Expired);
            self.counters.expired += 1;
            let Transfer { payer, payee, prepare_record, trace, bulk, .. } = self.transfers[&id];
            if let Some(bulk) = bulk {
                self.item_expired(bulk);
                continue;
            }
            let content = NoticeContent {
                source: prepare_record,
                ..self.notice_content(id, Outcome::Expired, trace)
            };
            self.enqueue_notice(payer, NoticeKind::Error, &content);
            if payer != payee {
                self.enqueue_notice(payee, NoticeKind::Error, &content);
            }
        }
    }

    /// 3.4: the same content gets the state of the transfer, different content is refused.
    fn handle_resent_prepare(&mut self, prepare: &Prepare) -> Outcome {
        let now = |outcome| self.notice_content(prepare.id, outcome, prepare.trace);
        let known = self.transfers.get(&prepare.id).filter(|known| known.hash == prepare.hash);
        let (outcome, kind, content) = match known.map(|known| (known, known.status)) {
            None => {
                let outcome = Outcome::PrepareModified;
                (outcome, NoticeKind::Error, now(outcome))
            }
            Some((known, TransferStatus::Reserved)) => {
                let outcome = Outcome::PrepareResentReserved;
                (outcome, NoticeKind::Reserved, NoticeContent { at: known.changed, ..now(outcome) })
            }
            Some((known, status)) if is_commit(status) => {
                let outcome = Outcome::PrepareResentCommitted;
                (outcome, NoticeKind::Committed, known.content_of_end(now(outcome)))
            }
            Some((known, _)) => {
                let outcome = Outcome::PrepareResentAborted;
                (outcome, NoticeKind::AbortedState, known.content_of_end(now(outcome)))
            }
        };
        self.notify_payer(prepare, kind, &content);
        outcome
    }

    /// 3.3, then 3.5: the first check that fails.
    pub(super) fn refusal(&self, prepare: &Prepare) -> Option<Outcome> {
        let (payer, payee) = (self.scheme.fsp(&prepare.payer), self.scheme.fsp(&prepare.payee));
        let payer_accounts = self.scheme.accounts_in(&prepare.payer, prepare.currency);
        let payee_accounts = self.scheme.accounts_in(&prepare.payee, prepare.currency);
        let is_off = |index: usize| !self.scheme.accounts[index].active;
        let lower = |name: &FspName| name.as_str().to_ascii_lowercase();
        let same = prepare.payer == prepare.payee || lower(&prepare.payer) == lower(&prepare.payee);
        let lane =
            self.scheme.participant_number(&prepare.payee).map_or(0, |to| self.outbox.owed_to(to));
        let value = |index: usize| self.scheme.accounts[index].value;
        let after = payer_accounts.map_or(0, |it| value(it.position)) + prepare.amount.units();
        let liquidity_cover = payer_accounts.map_or(0, |it| -value(it.settlement));
        let net_debit_cap =
            payer_accounts.and_then(|it| it.net_debit_cap).map_or(0, |(cap, _)| cap);
        let digits = digits(prepare.amount.units());
        let quote = self.quote_fault(prepare);
        let checks = [
            (prepare.source != prepare.payer, Outcome::PrepareSourceNotPayer),
            (DIGITS_MAX < digits, Outcome::PrepareAmountPrecision),
            (payer.is_none(), Outcome::PreparePayerNotFound),
            (payer.is_some_and(|it| !it.active), Outcome::PreparePayerInactive),
            (payee.is_none(), Outcome::PreparePayeeNotFound),
            (payee.is_some_and(|it| !it.active), Outcome::PreparePayeeInactive),
            (prepare.expiration_ms < self.stamp.millis(), Outcome::PrepareExpirationPast),
            (same && !self.settings.on_us_transfers, Outcome::PreparePayerIsPayee),
            (payer_accounts.is_none(), Outcome::PreparePayerAccountNotFound),
            (
                payer_accounts.is_some_and(|it| is_off(it.position)),
                Outcome::PreparePayerAccountInactive,
            ),
            (payee_accounts.is_none(), Outcome::PreparePayeeAccountNotFound),
            (
                payee_accounts.is_some_and(|it| is_off(it.position)),
                Outcome::PreparePayeeAccountInactive,
            ),
            (quote.is_some(), quote.unwrap_or(Outcome::PrepareReserved)),
            (self.settings.lane_capacity <= lane, Outcome::PreparePayeeLaneFull),
            (liquidity_cover < after, Outcome::PrepareLiquidityInsufficient),
            (net_debit_cap < after, Outcome::PrepareCapExceeded),
        ];
        checks.iter().find(|(fails, _)| *fails).map(|(_, outcome)| *outcome)
    }

    /// 3.6, checks 2 to 4, 7 and 8: handles a response that does not end its transfer, with its
    /// notices; `None` if it may end it.
    fn refuse_or_resend(&mut self, incoming: &PayeeResponse<'_>) -> Option<Outcome> {
        let Some(transfer) = self.transfers.get(&incoming.id) else {
            let ended = self.movements.get(&incoming.id).is_some_and(|known| !known.is_reserved());
            return Some(self.refuse(
                incoming,
                match ended {
                    true => Outcome::ResponseNotFromPayee,
                    false => Outcome::ResponseTransferNotFound,
                },
            ));
        };
        let lower = |name: &FspName| name.as_str().to_ascii_lowercase();
        let is = |one: &FspName, other: &FspName| one == other || lower(one) == lower(other);
        if !transfer.payee_known || !is(&transfer.payee, incoming.source) {
            return Some(self.refuse(incoming, Outcome::ResponseNotFromPayee));
        }
        if transfer.bulk.is_some() && transfer.status == TransferStatus::Reserved {
            return Some(self.refuse(incoming, Outcome::ResponseOfBulkItem));
        }
        let payer = transfer.payer;
        match (transfer.status, transfer.response) {
            (TransferStatus::Reserved, _) => {
                incoming.destination.filter(|to| !is(to, &payer))?;
                let outcome = Outcome::ResponseNotToPayer;
                self.end_by_response(incoming, outcome);
                self.notify_parties(incoming, outcome, NoticeKind::Error, None);
                // In every style, whether or not the scheme confirms. A payer that is its own payee
                // is notified once.
                if payer != self.transfers[&incoming.id].payee {
                    self.notify_payee(incoming, outcome, NoticeKind::Error);
                }
                if incoming.patch {
                    self.notify_payee(incoming, outcome, NoticeKind::PatchAborted);
                }
                Some(outcome)
            }
            (TransferStatus::Ended(Outcome::Expired), None) => {
                self.record_response(incoming);
                let outcome = Outcome::ResponseAfterExpiry;
                self.notify_payee(incoming, outcome, NoticeKind::Error);
                Some(outcome)
            }
            (TransferStatus::Ended(outcome), Some(taken))
                if outcome != Outcome::Expired && taken.kind == incoming.kind =>
            {
                Some(match taken.hash == incoming.hash {
                    true => self.resend_end(incoming, outcome, taken),
                    false => self.refuse(incoming, Outcome::ResponseModified),
                })
            }
            (TransferStatus::Ended(_), _) => Some(self.refuse_state(incoming)),
        }
    }

    /// Refuses a response to a transfer that is not RESERVED: 3100 to the payee, and a PATCH if it
    /// waits for one.
    fn refuse_state(&mut self, incoming: &PayeeResponse<'_>) -> Outcome {
        let outcome = Outcome::ResponseStateNotReserved;
        self.notify_payee(incoming, outcome, NoticeKind::Error);
        let transfer = &self.transfers[&incoming.id];
        if incoming.patch && !is_commit(transfer.status) {
            let content =
                transfer.content_of_end(self.notice_content(incoming.id, outcome, incoming.trace));
            self.enqueue_notice(transfer.payee, NoticeKind::PatchAborted, &content);
        }
        outcome
    }

    /// Ruling 5: the hub sends the stored end once more.
    fn resend_end(
        &mut self,
        incoming: &PayeeResponse<'_>,
        ended: Outcome,
        taken: RecordedResponse,
    ) -> Outcome {
        let outcome = Outcome::ResponseResent;
        let transfer = &self.transfers[&incoming.id];
        let content =
            transfer.content_of_end(self.notice_content(incoming.id, outcome, incoming.trace));
        let by_payee = [Outcome::Aborted, Outcome::AbortedWithUnknownCode];
        let (kind, source) = if ended == Outcome::Committed {
            (NoticeKind::Committed, content.source)
        } else if by_payee.contains(&ended) {
            (NoticeKind::AbortCopy, taken.record)
        } else {
            (NoticeKind::AbortedState, content.source)
        };
        self.enqueue_notice(transfer.payee, kind, &NoticeContent { source, ..content });
        outcome
    }

    /// Notifies the sender of a refusal. An unknown sender changes nothing.
    fn refuse(&mut self, incoming: &PayeeResponse<'_>, outcome: Outcome) -> Outcome {
        let Some(sender) = self.scheme.sender(incoming.source) else {
            return Outcome::SenderNotFound;
        };
        let content = self.notice_content(incoming.id, outcome, incoming.trace);
        self.enqueue_notice(sender, NoticeKind::Error, &content);
        outcome
    }

    /// The response ends its transfer.
    fn end_by_response(&mut self, incoming: &PayeeResponse<'_>, outcome: Outcome) {
        if outcome == Outcome::Committed {
            self.counters.committed += 1;
        } else {
            self.counters.aborted += 1;
        }
        self.end(incoming.id, outcome);
        self.record_response(incoming);
    }

    fn record_response(&mut self, incoming: &PayeeResponse<'_>) {
        let PayeeResponse { kind, hash, .. } = *incoming;
        let transfer = self.transfers.get_mut(&incoming.id).expect("it was found");
        transfer.response = Some(RecordedResponse { kind, hash, record: self.log_index });
    }

    /// Ends a transfer, once; its money is posted to the payee or returned.
    pub(super) fn end(&mut self, id: TransferId, outcome: Outcome) {
        let transfer = self.transfers.get_mut(&id).expect("only a known transfer ends");
        assert_eq!(transfer.status, TransferStatus::Reserved, "{id} ended twice");
        transfer.status = TransferStatus::Ended(outcome);
        transfer.changed = self.stamp;
        let Transfer { payer, payee, currency, amount, deadline, prepare_notice, fee, .. } =
            *transfer;
        self.deadlines.remove(&deadline);
        self.reserved -= 1;
        let to = if outcome == Outcome::Committed { payee } else { payer };
        self.move_position(&to, currency, -amount);
        if outcome == Outcome::Committed {
            let position = |name| self.scheme.accounts_in(name, currency).map(|held| held.position);
            let parties = [&payer, &payee].map(|name| position(name).expect("it was checked"));
            self.settle_committed(parties, amount);
            fee.into_iter().for_each(|due| self.charge(due));
        }
        if let Some(prepare_notice) = prepare_notice {
            self.outbox.withdraw(prepare_notice);
        }
    }

    /// Errors and states of a prepare go to the payer of the body, even if another FSP sent it. If
    /// there is no such payer, they go to the sender.
    fn notify_payer(&mut self, prepare: &Prepare, kind: NoticeKind, content: &NoticeContent) {
        let named = self.scheme.sender(&prepare.payer);
        let recipient = named.or_else(|| self.scheme.sender(&prepare.source));
        self.enqueue_notice(recipient.expect("the sender is known"), kind, content);
    }

    /// Notifies the payer, and the payee if the scheme confirms and they differ.
    fn notify_parties(
        &mut self,
        incoming: &PayeeResponse<'_>,
        outcome: Outcome,
        to_payer: NoticeKind,
        to_payee: Option<NoticeKind>,
    ) {
        let content = self.notice_content(incoming.id, outcome, incoming.trace);
        let Transfer { payer, payee, .. } = self.transfers[&incoming.id];
        self.enqueue_notice(payer, to_payer, &content);
        if let Some(kind) = to_payee
            && self.settings.confirm_to_payee
            && payer != payee
        {
            self.enqueue_notice(payee, kind, &content);
        }
    }

    fn notify_payee(&mut self, incoming: &PayeeResponse<'_>, outcome: Outcome, kind: NoticeKind) {
        let content = self.notice_content(incoming.id, outcome, incoming.trace);
        self.enqueue_notice(self.transfers[&incoming.id].payee, kind, &content);
    }
}

/// Number of digits of an amount in ten-thousandths: all before the point, and the necessary ones
/// after it. Not counted if they are few.
fn digits(units: Money) -> usize {
    if units < 1_000_000_000_000_000_000 {
        return 0;
    }
    let (whole, fraction) = (units / 10_000, format!("{:04}", units % 10_000));
    whole.to_string().len() + fraction.trim_end_matches('0').len()
}
