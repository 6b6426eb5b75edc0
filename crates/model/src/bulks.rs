//! The model of bulk transfers (settlement-and-bulk 3.1 and 3.2, with the rulings).

use std::collections::BTreeMap;

use ledger::{
    AbortBulk, BulkItemAnswer, BulkState, BulkView, Digest, FspName, FulfilBulk, Fulfilment,
    LogIndex, NoticeId, NoticeKind, Outcome, Prepare, PrepareBulk, Stamp, State, TransferId,
};
use sha2::{Digest as _, Sha256};

use super::Model;
use super::outbox::NoticeContent;
use super::transfers::{RecordedResponse, ResponseKind, TransferStatus};

#[derive(Clone, Debug)]
pub(super) struct Bulk {
    payer: FspName,
    payee: FspName,
    /// Whether the payee was a participant at the time.
    payee_known: bool,
    hash: Digest,
    trace: [u8; 16],
    record: u64,
    notice: Option<NoticeId>,
    response: Option<RecordedResponse>,
    /// The accepted items, in order.
    items: Vec<TransferId>,
    /// The outcome that ended it.
    end: Option<Outcome>,
    changed: Stamp,
}

/// The common part of the payee's messages.
struct BulkResponse<'a> {
    id: TransferId,
    source: &'a FspName,
    destination: Option<&'a FspName>,
    trace: [u8; 16],
    taken: RecordedResponse,
}

fn is_same_name(one: &FspName, other: &FspName) -> bool {
    one.as_str().eq_ignore_ascii_case(other.as_str())
}

impl Model {
    pub(super) fn prepare_bulk(&mut self, bulk: &PrepareBulk) -> Outcome {
        if self.scheme.sender(&bulk.source).is_none() {
            return Outcome::SenderNotFound;
        }
        if let Some(known) = self.bulks.get(&bulk.id).cloned() {
            return self.handle_resent_bulk(bulk, &known);
        }
        let mut new = Bulk {
            payer: bulk.payer,
            payee: bulk.payee,
            payee_known: self.scheme.fsp(&bulk.payee).is_some(),
            hash: bulk.hash,
            trace: bulk.trace,
            record: self.log_index,
            notice: None,
            response: None,
            items: Vec::new(),
            end: None,
            changed: self.stamp,
        };
        let refusal = self.refusal_of_bulk(bulk);
        if refusal.is_none() {
            new.items = self.decide_items(bulk);
        }
        let rejected = new.items.is_empty().then_some(Outcome::BulkRejected);
        if let Some(outcome) = refusal.or(rejected) {
            let is_result = outcome == Outcome::BulkRejected;
            let kind = if is_result { NoticeKind::BulkResult } else { NoticeKind::BulkError };
            let content = self.notice_content(bulk.id, outcome, bulk.trace);
            let to = self.payer_or_sender(bulk);
            self.enqueue_notice(to, kind, &content);
            new.end = Some(outcome);
            self.bulks.insert(bulk.id, new);
            return outcome;
        }
        let outcome = Outcome::BulkAccepted;
        let content = self.notice_content(bulk.id, outcome, bulk.trace);
        new.notice = self.enqueue_notice(bulk.payee, NoticeKind::BulkPrepare, &content);
        self.bulks.insert(bulk.id, new);
        outcome
    }

    /// Answers go to the payer of the body; if it is unknown, to the sender.
    fn payer_or_sender(&self, bulk: &PrepareBulk) -> FspName {
        let named = self.scheme.sender(&bulk.payer);
        named.or_else(|| self.scheme.sender(&bulk.source)).expect("the sender is known")
    }

    /// The items in the order of the list; returns the accepted ones.
    fn decide_items(&mut self, bulk: &PrepareBulk) -> Vec<TransferId> {
        let mut accepted = Vec::new();
        for (place, item) in bulk.items.iter().enumerate() {
            if self.transfers.contains_key(&item.id) || self.movements.contains_key(&item.id) {
                continue;
            }
            let prepare = Prepare {
                id: item.id,
                source: bulk.source,
                payer: bulk.payer,
                payee: bulk.payee,
                currency: item.currency,
                amount: item.amount,
                condition: item.condition,
                expiration_ms: bulk.expiration_ms,
                hash: bulk.hash,
                trace: bulk.trace,
                fee_rule: item.fee_rule,
                quote_terms: None,
            };
            let refusal = self.refusal(&prepare);
            self.store_prepare(&prepare, refusal, (place as u32, Some(bulk.id)));
            if refusal.is_none() {
                accepted.push(item.id);
            }
        }
        accepted
    }

    fn refusal_of_bulk(&self, bulk: &PrepareBulk) -> Option<Outcome> {
        let same = is_same_name(&bulk.payer, &bulk.payee);
        let (payer, payee) = (self.scheme.fsp(&bulk.payer), self.scheme.fsp(&bulk.payee));
        let checks = [
            (bulk.source != bulk.payer, Outcome::PrepareSourceNotPayer),
            (bulk.expiration_ms <= self.stamp.millis(), Outcome::PrepareExpirationPast),
            (same && !self.settings.on_us_transfers, Outcome::PreparePayerIsPayee),
            (payer.is_none(), Outcome::PreparePayerNotFound),
            (payer.is_some_and(|it| !it.active), Outcome::PreparePayerInactive),
            (payee.is_none(), Outcome::PreparePayeeNotFound),
            (payee.is_some_and(|it| !it.active), Outcome::PreparePayeeInactive),
        ];
        checks.iter().find(|(fails, _)| *fails).map(|(_, outcome)| *outcome)
    }

    /// The same content gets the result once there is one, other content is refused.
    fn handle_resent_bulk(&mut self, bulk: &PrepareBulk, known: &Bulk) -> Outcome {
        let to = self.payer_or_sender(bulk);
        if known.hash != bulk.hash {
            let content = self.notice_content(bulk.id, Outcome::PrepareModified, bulk.trace);
            self.enqueue_notice(to, NoticeKind::BulkError, &content);
            return Outcome::PrepareModified;
        }
        let Some(end) = known.end else { return Outcome::PrepareResentReserved };
        self.send_end((bulk.id, known), to, bulk.trace);
        let is_completed = end == Outcome::BulkCompleted;
        if is_completed { Outcome::PrepareResentCommitted } else { Outcome::PrepareResentAborted }
    }

    /// Sends the result, or the error that ended the bulk.
    fn send_end(&mut self, (id, bulk): (TransferId, &Bulk), to: FspName, trace: [u8; 16]) {
        let outcome = bulk.end.expect("it has ended");
        let is_result = [Outcome::BulkCompleted, Outcome::BulkRejected].contains(&outcome);
        let kind = if is_result { NoticeKind::BulkResult } else { NoticeKind::BulkError };
        let by_payee = bulk.response.filter(|_| outcome == Outcome::Aborted);
        let source = by_payee.map_or(bulk.record, |response| response.record);
        let now = self.notice_content(id, outcome, trace);
        self.enqueue_notice(to, kind, &NoticeContent { source, at: bulk.changed, ..now });
    }

    pub(super) fn fulfil_bulk(&mut self, bulk: &FulfilBulk) -> Outcome {
        let record = self.log_index;
        let taken = RecordedResponse { kind: ResponseKind::Put, hash: bulk.hash, record };
        let incoming = BulkResponse {
            id: bulk.id,
            source: &bulk.source,
            destination: bulk.destination.as_ref(),
            trace: bulk.trace,
            taken,
        };
        if let Some(outcome) = self.refuse_or_resend_bulk(&incoming) {
            return outcome;
        }
        if self.is_misdirected(&incoming) {
            return self.abort_items(&incoming, Outcome::ResponseNotToPayer);
        }
        let is_open = |id| self.open_items(bulk.id).contains(id);
        if !bulk.items.iter().all(|item| is_open(&item.id)) {
            return self.refuse_bulk(&incoming, Outcome::BulkItemNotFound);
        }
        for item in &bulk.items {
            if !self.open_items(bulk.id).contains(&item.id) {
                continue;
            }
            let condition = self.transfers[&item.id].condition;
            let fits = |preimage| <[u8; 32]>::from(Sha256::digest(preimage)) == condition;
            let outcome = match item.answer {
                BulkItemAnswer::Fulfilled(Fulfilment::Present(preimage)) if fits(preimage) => {
                    Outcome::Committed
                }
                BulkItemAnswer::Fulfilled(_) => Outcome::FulfilmentInvalid,
                BulkItemAnswer::Refused(true) => Outcome::Aborted,
                BulkItemAnswer::Refused(false) => Outcome::AbortedWithUnknownCode,
            };
            self.end_item(item.id, outcome, taken);
        }
        self.bulks.get_mut(&bulk.id).expect("it was found").response = Some(taken);
        if !self.open_items(bulk.id).is_empty() {
            return Outcome::BulkProcessing;
        }
        let committed = |id: &TransferId| {
            self.transfers[id].status == TransferStatus::Ended(Outcome::Committed)
        };
        let outcome = match self.bulks[&bulk.id].items.iter().any(committed) {
            true => Outcome::BulkCompleted,
            false => Outcome::BulkRejected,
        };
        self.finish_bulk(bulk.id, outcome);
        outcome
    }

    pub(super) fn abort_bulk(&mut self, bulk: &AbortBulk) -> Outcome {
        let record = self.log_index;
        let incoming = BulkResponse {
            id: bulk.id,
            source: &bulk.source,
            destination: bulk.destination.as_ref(),
            trace: bulk.trace,
            taken: RecordedResponse { kind: ResponseKind::PutError, hash: bulk.hash, record },
        };
        if let Some(outcome) = self.refuse_or_resend_bulk(&incoming) {
            return outcome;
        }
        let outcome = match bulk.code_is_known {
            _ if self.is_misdirected(&incoming) => Outcome::ResponseNotToPayer,
            true => Outcome::Aborted,
            false => Outcome::AbortedWithUnknownCode,
        };
        self.abort_items(&incoming, outcome)
    }

    fn abort_items(&mut self, incoming: &BulkResponse<'_>, outcome: Outcome) -> Outcome {
        for id in self.open_items(incoming.id) {
            self.end_item(id, outcome, incoming.taken);
        }
        self.bulks.get_mut(&incoming.id).expect("it was found").response = Some(incoming.taken);
        self.finish_bulk(incoming.id, outcome);
        outcome
    }

    fn end_item(&mut self, id: TransferId, outcome: Outcome, taken: RecordedResponse) {
        let is_commit = outcome == Outcome::Committed;
        let counters = &mut self.counters;
        *(if is_commit { &mut counters.committed } else { &mut counters.aborted }) += 1;
        self.end(id, outcome);
        self.transfers.get_mut(&id).expect("it was found").response = Some(taken);
    }

    /// The items in flight, in the order of the list.
    fn open_items(&self, id: TransferId) -> Vec<TransferId> {
        let is_open = |id: &&TransferId| self.transfers[id].status == TransferStatus::Reserved;
        self.bulks[&id].items.iter().filter(is_open).copied().collect()
    }

    fn is_misdirected(&self, incoming: &BulkResponse<'_>) -> bool {
        let payer = self.bulks[&incoming.id].payer;
        let hub = self.hub.expect("the log has begun");
        incoming.destination.is_some_and(|to| !is_same_name(to, &payer) && !is_same_name(to, &hub))
    }

    /// Handles a message that does not end items; `None` if it may.
    fn refuse_or_resend_bulk(&mut self, incoming: &BulkResponse<'_>) -> Option<Outcome> {
        let Some(bulk) = self.bulks.get(&incoming.id).cloned() else {
            return Some(self.refuse_bulk(incoming, Outcome::ResponseTransferNotFound));
        };
        let is_payee = is_same_name(&bulk.payee, incoming.source);
        if !is_payee || !bulk.payee_known {
            return Some(self.refuse_bulk(incoming, Outcome::ResponseNotFromPayee));
        }
        let is_same = |taken: RecordedResponse| {
            (taken.kind, taken.hash) == (incoming.taken.kind, incoming.taken.hash)
        };
        match (bulk.end, bulk.response) {
            (None, None) => None,
            (end, Some(taken)) if is_same(taken) => {
                if end.is_some() {
                    self.send_end((incoming.id, &bulk), bulk.payee, incoming.trace);
                }
                Some(Outcome::ResponseResent)
            }
            (_, Some(_)) => Some(self.refuse_bulk(incoming, Outcome::ResponseModified)),
            (Some(_), None) => Some(self.refuse_bulk(incoming, Outcome::ResponseStateNotReserved)),
        }
    }

    fn refuse_bulk(&mut self, incoming: &BulkResponse<'_>, outcome: Outcome) -> Outcome {
        let Some(sender) = self.scheme.sender(incoming.source) else {
            return Outcome::SenderNotFound;
        };
        let content = self.notice_content(incoming.id, outcome, incoming.trace);
        self.enqueue_notice(sender, NoticeKind::BulkError, &content);
        outcome
    }

    /// Completes the bulk of an expired item, if it was the last one.
    pub(super) fn item_expired(&mut self, bulk: TransferId) {
        if self.open_items(bulk).is_empty() {
            self.finish_bulk(bulk, Outcome::BulkCompleted);
        }
    }

    fn finish_bulk(&mut self, id: TransferId, outcome: Outcome) {
        let bulk = self.bulks.get_mut(&id).expect("it was found");
        (bulk.end, bulk.changed) = (Some(outcome), self.stamp);
        let bulk = bulk.clone();
        bulk.notice.into_iter().for_each(|notice| self.outbox.withdraw(notice));
        self.send_end((id, &bulk), bulk.payer, bulk.trace);
        if !is_same_name(&bulk.payer, &bulk.payee) {
            self.send_end((id, &bulk), bulk.payee, bulk.trace);
        }
    }

    /// The accepted items of a bulk transfer, in the order of the list.
    pub fn accepted_items(&self, id: &TransferId) -> &[TransferId] {
        self.bulks.get(id).map_or(&[], |bulk| &bulk.items)
    }

    /// Whether a bulk transfer is known.
    pub fn has_bulk(&self, id: &TransferId) -> bool {
        self.bulks.contains_key(id)
    }

    /// Number of bulk transfers that have ended.
    pub(super) fn ended_bulks(&self) -> usize {
        self.bulks.values().filter(|bulk| bulk.end.is_some()).count()
    }

    pub(super) fn compare_bulks(&self, state: &State) {
        assert_eq!(state.open_bulk_count(), self.bulks.len() - self.ended_bulks(), "open bulks");
        for (id, bulk) in &self.bulks {
            let view = state.bulk_view(id).expect("a bulk is known");
            let BulkView { state: stored, changed, prepare, response, .. } = view;
            let expected = match (bulk.end, bulk.response) {
                (Some(outcome), _) => BulkState::Final(outcome),
                (None, Some(_)) => BulkState::Processing,
                (None, None) => BulkState::Accepted,
            };
            assert_eq!((stored, changed), (expected, bulk.changed), "bulk {id}");
            let record = bulk.response.map(|response| LogIndex(response.record));
            assert_eq!((prepare, response), (LogIndex(bulk.record), record), "bulk {id}");
        }
    }
}

pub(super) type Bulks = BTreeMap<TransferId, Bulk>;
