//! The model of transfers: prepare, fulfil, abort and expiry, and their notices (hub-semantics 3.3
//! to 3.10).

use ledger::{
    Abort, Amount, Cause, Currency, Digest, FspName, Fulfil, FulfilState, Fulfilment, LogIndex,
    NoticeId, NoticeKind, Outcome, Prepare, Stamp, TransferId, TransferState, TransferView,
};
use sha2::{Digest as _, Sha256};

use super::outbox::About;
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
    condition: [u8; 32],
    deadline: (u64, u64),
    hash: Digest,
    trace: [u8; 16],
    /// The record of the prepare.
    pub(super) prepared: u64,
    changed: Stamp,
    /// The notice with the prepare for the payee.
    asked: Option<NoticeId>,
    fate: Fate,
    /// The first response of its payee.
    answer: Option<Answer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Reserved,
    Ended(Outcome),
}

/// A response by a payee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Answer {
    message: Message,
    hash: Digest,
    record: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    Put,
    PutError,
}

/// The common part of both kinds of responses.
struct Incoming<'a> {
    id: TransferId,
    source: &'a FspName,
    destination: Option<&'a FspName>,
    message: Message,
    hash: Digest,
    trace: [u8; 16],
    /// The payee waits for a PATCH.
    patch: bool,
}

impl Transfer {
    pub(super) fn is_reserved_in(&self, currency: Currency) -> bool {
        self.fate == Fate::Reserved && self.currency == currency
    }

    /// The result of a GET (3.9).
    pub(super) fn view(&self) -> TransferView {
        let state = match self.fate {
            Fate::Reserved => TransferState::Reserved,
            fate if is_commit(fate) => TransferState::Committed,
            Fate::Ended(_) => TransferState::Aborted,
        };
        // A late response is not taken.
        let taken = self.answer.filter(|_| self.fate != Fate::Ended(Outcome::Expired));
        let answer = taken.map(|answer| LogIndex(answer.record));
        let cause = match self.fate {
            Fate::Ended(outcome) if !is_commit(self.fate) => {
                Some(Cause { outcome, record: LogIndex(self.record_of_cause()) })
            }
            _ => None,
        };
        TransferView {
            state,
            amount: Amount::from_units(self.amount),
            currency: self.currency,
            changed: self.changed,
            prepare: LogIndex(self.prepared),
            answer,
            cause,
        }
    }

    /// The record with the cause of the abort: the payee's own error, if there is one.
    fn record_of_cause(&self) -> u64 {
        let by_payee = self.fate == Fate::Ended(Outcome::Aborted);
        self.answer.filter(|_| by_payee).map_or(self.prepared, |answer| answer.record)
    }

    /// The content of a repeated notice about its end. Its source is the record with the fulfilment
    /// or the cause.
    fn end_again(&self, now: About) -> About {
        let Fate::Ended(outcome) = self.fate else { panic!("it has not ended") };
        let source = match (is_commit(self.fate), self.answer) {
            (true, Some(answer)) => answer.record,
            _ => self.record_of_cause(),
        };
        About { source, outcome, at: self.changed, ..now }
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
            return self.prepare_again(prepare);
        }
        let refusal = self.refusal(prepare);
        let outcome = refusal.unwrap_or(Outcome::PrepareReserved);
        let about = self.about(prepare.id, outcome, prepare.trace);
        let mut transfer = Transfer {
            payer: prepare.payer,
            payee: prepare.payee,
            payee_known: self.scheme.fsp(&prepare.payee).is_some(),
            currency: prepare.currency,
            amount: prepare.amount.units(),
            condition: prepare.condition,
            deadline: (prepare.expiration_ms, self.log_index),
            hash: prepare.hash,
            trace: prepare.trace,
            prepared: self.log_index,
            changed: self.stamp,
            asked: None,
            fate: refusal.map_or(Fate::Reserved, Fate::Ended),
            answer: None,
        };
        if refusal.is_some() {
            self.counters.refused += 1;
            self.tell_payer(prepare, NoticeKind::Error, &about);
            self.transfers.insert(prepare.id, transfer);
            return outcome;
        }
        self.counters.reserved += 1;
        self.reserved += 1;
        self.move_position(&prepare.payer, prepare.currency, transfer.amount);
        transfer.asked = self.tell(prepare.payee, NoticeKind::Prepare, &about);
        self.deadlines.insert(transfer.deadline, prepare.id);
        self.transfers.insert(prepare.id, transfer);
        // A deadline at this very stamp is in time, and has been reached.
        self.expire();
        outcome
    }

    pub(super) fn fulfil(&mut self, fulfil: &Fulfil) -> Outcome {
        if fulfil.state == FulfilState::ReservedUnderVersion10 {
            return Outcome::FulfilVersionIgnored;
        }
        let incoming = Incoming {
            id: fulfil.id,
            source: &fulfil.source,
            destination: fulfil.destination.as_ref(),
            message: Message::Put,
            hash: fulfil.hash,
            trace: fulfil.trace,
            patch: fulfil.state == FulfilState::Reserved,
        };
        if let Some(outcome) = self.cannot_end(&incoming) {
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
        self.take(&incoming, outcome);
        // 3.7, and 3.8 for a wrong fulfilment.
        if outcome == Outcome::FulfilmentInvalid {
            self.tell_both(&incoming, outcome, NoticeKind::Error, Some(NoticeKind::Error));
            if incoming.patch {
                self.tell_payee(&incoming, outcome, NoticeKind::PatchAborted);
            }
        } else if outcome == Outcome::Committed && incoming.patch {
            self.tell_both(&incoming, outcome, NoticeKind::Committed, None);
            self.tell_payee(&incoming, outcome, NoticeKind::PatchCommitted);
        } else {
            let copy = Some(NoticeKind::FulfilCopy);
            self.tell_both(&incoming, outcome, NoticeKind::Fulfil, copy);
        }
        outcome
    }

    pub(super) fn abort(&mut self, abort: &Abort) -> Outcome {
        let incoming = Incoming {
            id: abort.id,
            source: &abort.source,
            destination: abort.destination.as_ref(),
            message: Message::PutError,
            hash: abort.hash,
            trace: abort.trace,
            patch: false,
        };
        if let Some(outcome) = self.cannot_end(&incoming) {
            return outcome;
        }
        let (outcome, to_payer) = match abort.code_is_known {
            true => (Outcome::Aborted, NoticeKind::Abort),
            false => (Outcome::AbortedWithUnknownCode, NoticeKind::Error),
        };
        self.take(&incoming, outcome);
        self.tell_both(&incoming, outcome, to_payer, Some(NoticeKind::AbortCopy));
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
            let Transfer { payer, payee, prepared, trace, .. } = self.transfers[&id];
            let about = About { source: prepared, ..self.about(id, Outcome::Expired, trace) };
            self.tell(payer, NoticeKind::Error, &about);
            if payer != payee {
                self.tell(payee, NoticeKind::Error, &about);
            }
        }
    }

    /// 3.4: the same content gets the state of the transfer, different content is refused.
    fn prepare_again(&mut self, prepare: &Prepare) -> Outcome {
        let now = |outcome| self.about(prepare.id, outcome, prepare.trace);
        let known = self.transfers.get(&prepare.id).filter(|known| known.hash == prepare.hash);
        let (outcome, kind, about) = match known.map(|known| (known, known.fate)) {
            None => {
                let outcome = Outcome::PrepareModified;
                (outcome, NoticeKind::Error, now(outcome))
            }
            Some((known, Fate::Reserved)) => {
                let outcome = Outcome::PrepareResentReserved;
                (outcome, NoticeKind::Reserved, About { at: known.changed, ..now(outcome) })
            }
            Some((known, fate)) if is_commit(fate) => {
                let outcome = Outcome::PrepareResentCommitted;
                (outcome, NoticeKind::Committed, known.end_again(now(outcome)))
            }
            Some((known, _)) => {
                let outcome = Outcome::PrepareResentAborted;
                (outcome, NoticeKind::AbortedState, known.end_again(now(outcome)))
            }
        };
        self.tell_payer(prepare, kind, &about);
        outcome
    }

    /// 3.3, then 3.5: the first check that fails.
    fn refusal(&self, prepare: &Prepare) -> Option<Outcome> {
        let (payer, payee) = (self.scheme.fsp(&prepare.payer), self.scheme.fsp(&prepare.payee));
        let held = self.scheme.holding(&prepare.payer, prepare.currency);
        let takes = self.scheme.holding(&prepare.payee, prepare.currency);
        let is_off = |place: usize| !self.scheme.accounts[place].active;
        let lower = |name: &FspName| name.as_str().to_ascii_lowercase();
        let same = prepare.payer == prepare.payee || lower(&prepare.payer) == lower(&prepare.payee);
        let lane = self.scheme.index_of(&prepare.payee).map_or(0, |to| self.outbox.owed_to(to));
        let value = |place: usize| self.scheme.accounts[place].value;
        let after = held.map_or(0, |held| value(held.position)) + prepare.amount.units();
        let cover = held.map_or(0, |held| -value(held.settlement));
        let cap = held.and_then(|held| held.cap).map_or(0, |(cap, _)| cap);
        let digits = digits(prepare.amount.units());
        let checks = [
            (prepare.source != prepare.payer, Outcome::PrepareSourceNotPayer),
            (DIGITS_MAX < digits, Outcome::PrepareAmountPrecision),
            (payer.is_none(), Outcome::PreparePayerNotFound),
            (payer.is_some_and(|it| !it.active), Outcome::PreparePayerInactive),
            (payee.is_none(), Outcome::PreparePayeeNotFound),
            (payee.is_some_and(|it| !it.active), Outcome::PreparePayeeInactive),
            (prepare.expiration_ms < self.stamp.millis(), Outcome::PrepareExpirationPast),
            (same && !self.settings.on_us_transfers, Outcome::PreparePayerIsPayee),
            (held.is_none(), Outcome::PreparePayerAccountNotFound),
            (held.is_some_and(|it| is_off(it.position)), Outcome::PreparePayerAccountInactive),
            (takes.is_none(), Outcome::PreparePayeeAccountNotFound),
            (takes.is_some_and(|it| is_off(it.position)), Outcome::PreparePayeeAccountInactive),
            (self.settings.lane_capacity <= lane, Outcome::PreparePayeeLaneFull),
            (cover < after, Outcome::PrepareLiquidityInsufficient),
            (cap < after, Outcome::PrepareCapExceeded),
        ];
        checks.iter().find(|(fails, _)| *fails).map(|(_, outcome)| *outcome)
    }

    /// 3.6, checks 2 to 4, 7 and 8: handles a response that does not end its transfer, with its
    /// notices; `None` if it may end it.
    fn cannot_end(&mut self, incoming: &Incoming<'_>) -> Option<Outcome> {
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
        let payer = transfer.payer;
        match (transfer.fate, transfer.answer) {
            (Fate::Reserved, _) => {
                incoming.destination.filter(|to| !is(to, &payer))?;
                let outcome = Outcome::ResponseNotToPayer;
                self.take(incoming, outcome);
                self.tell_both(incoming, outcome, NoticeKind::Error, None);
                // In every style, whether or not the scheme confirms. A payer that is its own payee
                // is notified once.
                if payer != self.transfers[&incoming.id].payee {
                    self.tell_payee(incoming, outcome, NoticeKind::Error);
                }
                if incoming.patch {
                    self.tell_payee(incoming, outcome, NoticeKind::PatchAborted);
                }
                Some(outcome)
            }
            (Fate::Ended(Outcome::Expired), None) => {
                self.note_answer(incoming);
                let outcome = Outcome::ResponseAfterExpiry;
                self.tell_payee(incoming, outcome, NoticeKind::Error);
                Some(outcome)
            }
            (Fate::Ended(outcome), Some(taken))
                if outcome != Outcome::Expired && taken.message == incoming.message =>
            {
                Some(match taken.hash == incoming.hash {
                    true => self.answer_again(incoming, outcome, taken),
                    false => self.refuse(incoming, Outcome::ResponseModified),
                })
            }
            (Fate::Ended(_), _) => Some(self.refuse_state(incoming)),
        }
    }

    /// Refuses a response to a transfer that is not RESERVED: 3100 to the payee, and a PATCH if it
    /// waits for one.
    fn refuse_state(&mut self, incoming: &Incoming<'_>) -> Outcome {
        let outcome = Outcome::ResponseStateNotReserved;
        self.tell_payee(incoming, outcome, NoticeKind::Error);
        let transfer = &self.transfers[&incoming.id];
        if incoming.patch && !is_commit(transfer.fate) {
            let about = transfer.end_again(self.about(incoming.id, outcome, incoming.trace));
            self.tell(transfer.payee, NoticeKind::PatchAborted, &about);
        }
        outcome
    }

    /// Ruling 5: the hub sends the stored end once more.
    fn answer_again(&mut self, incoming: &Incoming<'_>, ended: Outcome, taken: Answer) -> Outcome {
        let outcome = Outcome::ResponseResent;
        let transfer = &self.transfers[&incoming.id];
        let about = transfer.end_again(self.about(incoming.id, outcome, incoming.trace));
        let by_payee = [Outcome::Aborted, Outcome::AbortedWithUnknownCode];
        let (kind, source) = if ended == Outcome::Committed {
            (NoticeKind::Committed, about.source)
        } else if by_payee.contains(&ended) {
            (NoticeKind::AbortCopy, taken.record)
        } else {
            (NoticeKind::AbortedState, about.source)
        };
        self.tell(transfer.payee, kind, &About { source, ..about });
        outcome
    }

    /// Notifies the sender of a refusal. An unknown sender changes nothing.
    fn refuse(&mut self, incoming: &Incoming<'_>, outcome: Outcome) -> Outcome {
        let Some(sender) = self.scheme.sender(incoming.source) else {
            return Outcome::SenderNotFound;
        };
        let about = self.about(incoming.id, outcome, incoming.trace);
        self.tell(sender, NoticeKind::Error, &about);
        outcome
    }

    /// The response ends its transfer.
    fn take(&mut self, incoming: &Incoming<'_>, outcome: Outcome) {
        if outcome == Outcome::Committed {
            self.counters.committed += 1;
        } else {
            self.counters.aborted += 1;
        }
        self.end(incoming.id, outcome);
        self.note_answer(incoming);
    }

    fn note_answer(&mut self, incoming: &Incoming<'_>) {
        let Incoming { message, hash, .. } = *incoming;
        let transfer = self.transfers.get_mut(&incoming.id).expect("it was found");
        transfer.answer = Some(Answer { message, hash, record: self.log_index });
    }

    /// Ends a transfer, once; its money is posted to the payee or returned.
    fn end(&mut self, id: TransferId, outcome: Outcome) {
        let transfer = self.transfers.get_mut(&id).expect("only a known transfer ends");
        assert_eq!(transfer.fate, Fate::Reserved, "{id} ended twice");
        transfer.fate = Fate::Ended(outcome);
        transfer.changed = self.stamp;
        let Transfer { payer, payee, currency, amount, deadline, asked, .. } = *transfer;
        self.deadlines.remove(&deadline);
        self.reserved -= 1;
        let to = if outcome == Outcome::Committed { payee } else { payer };
        self.move_position(&to, currency, -amount);
        if outcome == Outcome::Committed {
            let position = |name| self.scheme.holding(name, currency).map(|held| held.position);
            let parties = [&payer, &payee].map(|name| position(name).expect("it was checked"));
            self.settle_committed(parties, amount);
        }
        if let Some(asked) = asked {
            self.outbox.withdraw(asked);
        }
    }

    /// Errors and states of a prepare go to the payer of the body, even if another FSP sent it. If
    /// there is no such payer, they go to the sender.
    fn tell_payer(&mut self, prepare: &Prepare, kind: NoticeKind, about: &About) {
        let named = self.scheme.sender(&prepare.payer);
        let told = named.or_else(|| self.scheme.sender(&prepare.source));
        self.tell(told.expect("the sender is known"), kind, about);
    }

    /// Notifies the payer, and the payee if the scheme confirms and they differ.
    fn tell_both(
        &mut self,
        incoming: &Incoming<'_>,
        outcome: Outcome,
        to_payer: NoticeKind,
        to_payee: Option<NoticeKind>,
    ) {
        let about = self.about(incoming.id, outcome, incoming.trace);
        let Transfer { payer, payee, .. } = self.transfers[&incoming.id];
        self.tell(payer, to_payer, &about);
        if let Some(kind) = to_payee
            && self.settings.confirm_to_payee
            && payer != payee
        {
            self.tell(payee, kind, &about);
        }
    }

    fn tell_payee(&mut self, incoming: &Incoming<'_>, outcome: Outcome, kind: NoticeKind) {
        let about = self.about(incoming.id, outcome, incoming.trace);
        self.tell(self.transfers[&incoming.id].payee, kind, &about);
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
