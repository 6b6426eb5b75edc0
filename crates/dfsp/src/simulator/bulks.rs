//! Bulk transfers: a payer's message, and its payee's results. Each item is recorded as a transfer.

use std::time::Instant;

use fspiop::ilp::{condition, read_digest};
use ledger::{FspName, TransferId};

use super::flows::{envelope, quote_of};
use super::{
    Context, Reaction, SimulatorOptions, State, Status, WRONG_FULFILMENT, response_checks,
};
use crate::behaviour::{Behaviour, Leg};
use crate::ids::TransactionId;
use crate::message::{BulkRequest, Envelope, MessageKind};
use crate::observations::{Role, Verdict};
use crate::payer::{Cause, End, Payment};
use crate::received_bodies::{BulkAnswered, BulkPosted, TransferPosted};

impl State {
    /// POST /bulkTransfers: all items have the amount of the payment.
    pub(super) fn prepare_bulk(
        &mut self,
        message: &mut Vec<u8>,
        (id, now_millis, items): (TransactionId, u64, u16),
        payment: &Payment,
        (payee, options): (FspName, &SimulatorOptions),
    ) {
        let trace = id.trace();
        let (mut from, mut to) = (itoa::Buffer::new(), itoa::Buffer::new());
        let quote = quote_of(payment, id, (&payee, &options.name), [&mut from, &mut to]);
        let Self { writer, terms, payer, observations, .. } = self;
        let terms = terms.get(writer, payee, &quote);
        for number in 1..=items {
            let transfer = id.item(number);
            observations.begin_paying(transfer, payee, payment.amount, &terms.digest);
        }
        let bulk = BulkRequest {
            bulk: id,
            items,
            payee_fsp: payee.as_str(),
            amount: payment.amount,
            packet: &terms.packet,
            condition: &terms.condition,
        };
        writer.post_bulk(message, &bulk, &envelope(&payee, &trace, now_millis));
        if let Some(transaction) = payer.numbered(id.sequence()) {
            transaction.condition = terms.digest;
            transaction.restart();
        }
    }
}

impl Context<'_> {
    /// POST /bulkTransfers: a result for each item, with the same response to a repeat.
    pub(super) fn bulk_posted(&mut self, mut message: Vec<u8>) -> Reaction {
        let received_at = Instant::now();
        let posted = serde_json::from_slice::<BulkPosted<'_>>(&self.request.body).ok();
        let parties = posted.and_then(|mut posted| {
            let id = TransferId::parse(&posted.bulk_transfer_id)?;
            let payer = FspName::new(&posted.payer_fsp)?;
            Some((id, payer, posted.take_transfers()))
        });
        let Some((id, payer, items)) = parties else { return self.unknown(Status::Accepted) };
        let results: Vec<_> = items.filter_map(|item| self.item_posted(&item)).collect();
        let received = Some((id, payer, received_at));
        if self.state.behaviour == Behaviour::Silent(Leg::Transfer) {
            return Reaction { received, ..Reaction::only(Status::Accepted) };
        }
        let envelope = Envelope { destination: Some(payer.as_str()), ..self.back() };
        let bulk = super::flows::id_text(id);
        match self.state.behaviour {
            Behaviour::Erroring(Leg::Transfer, code) => {
                let (kind, path) = (MessageKind::PutBulkTransfers, ["/bulkTransfers/", &*bulk]);
                self.state.writer.put_error(&mut message, kind, &path, code, &envelope);
            }
            _ => self.state.writer.put_bulk(&mut message, &bulk, results.into_iter(), &envelope),
        }
        Reaction { received, ..Reaction::callback(message) }
    }

    /// Records an item that this payee has received. Returns its result.
    fn item_posted(
        &mut self,
        posted: &TransferPosted<'_>,
    ) -> Option<(TransferId, Result<[u8; 32], u16>)> {
        let (id, payer, amount) = posted.terms()?;
        let fulfilment = self.state.secret.fulfilment(posted.ilp_packet.as_bytes());
        let strange = self.is_strange_transfer(posted, &fulfilment);
        let first = self.state.observations.begin(id, Role::Payee, payer, amount);
        let counts = &mut self.state.observations.counts;
        *(if first { &mut counts.prepares } else { &mut counts.repeated }) += 1;
        let refused = match self.state.behaviour {
            Behaviour::Silent(Leg::Transfer) => return None,
            Behaviour::Erroring(Leg::Transfer, code) => Some(code),
            _ => strange.then_some(response_checks::NOT_OURS),
        };
        if let Some(code) = refused {
            self.state.observations.conclude(id, Verdict::Aborted);
            return Some((id, Err(code)));
        }
        let now_millis = crate::clock::millis_now();
        self.state.completed(self.options, id, now_millis, first);
        let wrong = self.state.behaviour == Behaviour::WrongFulfilment;
        Some((id, Ok(if wrong { WRONG_FULFILMENT } else { fulfilment })))
    }

    /// PUT /bulkTransfers/{id}: the results of the items. A payer's unit ends.
    pub(super) fn bulk_answered(&mut self, rest: &str) -> Reaction {
        let answer = serde_json::from_slice::<BulkAnswered<'_>>(&self.request.body).ok();
        let Some((bulk, answer)) = TransferId::parse(rest).zip(answer) else {
            return self.unknown(Status::Ok);
        };
        let mut committed = 0;
        for result in &answer.individual_transfer_results {
            let Some(id) = TransferId::parse(&result.transfer_id) else {
                self.state.observations.counts.unknown += 1;
                continue;
            };
            let Some(fulfilment) = &result.fulfilment else {
                self.state.observations.notice(id, Verdict::Aborted);
                continue;
            };
            let met = read_digest(fulfilment).map(|it| condition(&it));
            self.state.observations.notice(id, Verdict::Committed);
            self.state.observations.fulfilled(id, met.as_ref());
            committed += 1;
        }
        let Some(transaction) = self.state.payer.waiting(bulk, Leg::Transfer) else {
            return Reaction::only(Status::Ok);
        };
        let (sequence, items) = (transaction.id.sequence(), transaction.payment.flow.items());
        let end = match committed == usize::from(items) {
            true => End::Committed,
            false => End::Failed(Leg::Transfer, Cause::Aborted),
        };
        Reaction::ending(self.state.payer.end(sequence, end))
    }

    /// PUT /bulkTransfers/{id}/error: no item was accepted, or the payee aborted all.
    pub(super) fn bulk_failed(&mut self, rest: &str) -> Reaction {
        let Some(sequence) = self.waiting(rest, Leg::Transfer) else {
            return Reaction::only(Status::Ok);
        };
        let transfers = self.state.payer.numbered(sequence).map(|waiting| waiting.transfers());
        for id in transfers.into_iter().flatten() {
            self.state.observations.notice(id, Verdict::Aborted);
        }
        self.error(Leg::Transfer, sequence)
    }
}
