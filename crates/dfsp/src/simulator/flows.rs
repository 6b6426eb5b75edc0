//! The start of a payment: the first message of each flow, and transfers that a payee holds.

use std::time::Instant;

use ledger::{Amount, FspName, TransferId};

use super::{Inner, StartError, State, Token};
use crate::behaviour::Leg;
use crate::clock::millis_now;
use crate::connections::SendResult;
use crate::ids::{TransactionId, push_id, trace_of};
use crate::message::{Envelope, Party, QuoteRequest, TransferRequest};
use crate::payer::{Cause, Completion, End, Payment, PaymentFlow};
use crate::simulator::{Context, PaymentMessage, Reaction, SimulatorOptions, Status};

/// Maximum number of transfers that a payee holds. It answers further ones immediately.
pub(super) const HELD_MAX: usize = 1_000_000;

/// A transfer that the payee has received and not yet answered.
pub(super) struct UnansweredTransfer {
    payer: FspName,
    fulfilment: [u8; 32],
    trace: Option<[u8; 32]>,
}

impl Inner {
    pub(super) fn start(&self, payment: Payment, completion: Completion) -> Result<(), StartError> {
        let mut message = self.connections.buffer();
        let mut state = self.state.borrow_mut();
        if state.payer.in_flight() >= self.options.in_flight_max {
            return Err(StartError::InFlight);
        }
        let now_millis = millis_now();
        let id = state.payer.begin(payment, completion, now_millis);
        let leg = payment.flow.first_leg();
        match payment.flow {
            PaymentFlow::Whole | PaymentFlow::Lookup => {
                state.look_up(&mut message, id, &payment, now_millis)
            }
            PaymentFlow::Quote(payee) => {
                state.ask_quote(&mut message, (id, now_millis), &payment, (payee, &self.options));
            }
            PaymentFlow::Transfer(payee)
            | PaymentFlow::Prepare(payee)
            | PaymentFlow::Fulfil(payee) => {
                state.prepare(&mut message, (id, now_millis), &payment, (payee, &self.options));
            }
            PaymentFlow::Bulk(payee, items) => {
                let written = (id, now_millis, items);
                state.prepare_bulk(&mut message, written, &payment, (payee, &self.options));
            }
        }
        drop(state);
        let sequence = id.sequence();
        self.connections.send(message, Token::Leg(leg, id)).map_err(|_| {
            let mut state = self.state.borrow_mut();
            if leg == Leg::Transfer {
                state.reject(sequence);
            }
            state.payer.end(sequence, End::Failed(leg, Cause::Unsent));
            StartError::Queue
        })
    }

    /// Answers a held transfer. Returns whether it was held.
    pub(super) fn fulfil_held(&self, id: TransferId) -> bool {
        let mut message = self.connections.buffer();
        let mut state = self.state.borrow_mut();
        let Some(held) = state.held.remove(&id) else { return false };
        let now_millis = millis_now();
        let envelope = Envelope {
            destination: Some(held.payer.as_str()),
            trace: held.trace.as_ref().map(<[u8; 32]>::as_slice),
            tracestate: None,
            now_millis,
        };
        let completed_millis = state.completed(&self.options, id, now_millis, true);
        let writer = &mut state.writer;
        writer.put_transfer(&mut message, id, &held.fulfilment, completed_millis, &envelope);
        drop(state);
        let token = Token::TransferMessage(PaymentMessage::Fulfil, id);
        if self.connections.send(message, token).is_err() {
            self.answered(token, SendResult::Lost);
        }
        true
    }

    /// The payee of one of this FSP's transfers has received it.
    pub(super) fn received_by_payee(&self, id: TransferId, at: Instant) {
        let ended = self.state.borrow_mut().payer.received(id, at);
        self.ended(ended);
    }

    /// A held transfer is about to be answered. The time of its payer starts.
    pub(super) fn resume(&self, id: TransferId, intended: Instant) -> bool {
        self.state.borrow_mut().payer.resume(id, intended)
    }
}

impl State {
    /// Repeats the oldest look-up or quote that was requested before `until` and is still open,
    /// with the same id.
    pub(super) fn ask_next_again(
        &mut self,
        message: &mut Vec<u8>,
        options: &SimulatorOptions,
        until: Option<Instant>,
    ) -> Option<Token> {
        let (id, leg) = self.payer.next_overdue(until?)?;
        let transaction = self.payer.numbered(id.sequence())?;
        let (payment, payee) = (transaction.payment, transaction.payee);
        let now_millis = millis_now();
        match leg {
            Leg::Lookup => self.look_up(message, id, &payment, now_millis),
            _ => self.ask_quote(message, (id, now_millis), &payment, (payee, options)),
        }
        Some(Token::Leg(leg, id))
    }

    fn look_up(
        &mut self,
        message: &mut Vec<u8>,
        id: TransactionId,
        payment: &Payment,
        now_millis: u64,
    ) {
        let trace = id.trace();
        let envelope =
            Envelope { destination: None, trace: Some(&trace), tracestate: None, now_millis };
        let mut digits = itoa::Buffer::new();
        self.writer.get_party(message, digits.format(payment.payee_msisdn), &envelope);
    }

    fn ask_quote(
        &mut self,
        message: &mut Vec<u8>,
        (id, now_millis): (TransactionId, u64),
        payment: &Payment,
        (payee, options): (FspName, &SimulatorOptions),
    ) {
        let trace = id.trace();
        let envelope = envelope(&payee, &trace, now_millis);
        let (mut from, mut to) = (itoa::Buffer::new(), itoa::Buffer::new());
        let quote = quote_of(payment, id, (&payee, &options.name), [&mut from, &mut to]);
        self.writer.post_quote(message, &quote, &envelope);
    }

    /// POST /transfers under terms without a quote.
    fn prepare(
        &mut self,
        message: &mut Vec<u8>,
        (id, now_millis): (TransactionId, u64),
        payment: &Payment,
        (payee, options): (FspName, &SimulatorOptions),
    ) {
        let trace = id.trace();
        let (mut from, mut to) = (itoa::Buffer::new(), itoa::Buffer::new());
        let quote = quote_of(payment, id, (&payee, &options.name), [&mut from, &mut to]);
        let Self { writer, terms, payer, observations, .. } = self;
        let terms = terms.get(writer, payee, &quote);
        if let Some(transaction) = payer.numbered(id.sequence()) {
            transaction.condition = terms.digest;
        }
        observations.begin_paying(id.transfer(), payee, payment.amount, &terms.digest);
        let transfer = TransferRequest {
            transfer: id.transfer(),
            payee_fsp: payee.as_str(),
            amount: &amount_text(payment.amount),
            packet: &terms.packet,
            condition: &terms.condition,
        };
        writer.post_transfer(message, &transfer, &envelope(&payee, &trace, now_millis));
    }
}

impl Context<'_> {
    /// Holds a transfer until the owner releases it.
    pub(super) fn hold(
        &mut self,
        id: TransferId,
        payer: FspName,
        fulfilment: [u8; 32],
    ) -> Reaction {
        let trace = self.request.fields.traceparent.and_then(trace_of);
        let trace = trace.and_then(|text| text.as_bytes().try_into().ok());
        self.state.held.insert(id, UnansweredTransfer { payer, fulfilment, trace });
        Reaction { received: Some((id, payer, Instant::now())), ..Reaction::only(Status::Accepted) }
    }
}

/// The text of an id, for paths.
pub(super) fn id_text(id: TransferId) -> String {
    let mut text = Vec::with_capacity(36);
    push_id(&mut text, id);
    String::from_utf8(text).expect("an id is ASCII")
}

/// The quote request of a payment between `fsps`: payee and payer.
pub(super) fn quote_of<'a>(
    payment: &Payment,
    id: TransactionId,
    (payee, payer): (&'a FspName, &'a str),
    [from, to]: [&'a mut itoa::Buffer; 2],
) -> QuoteRequest<'a> {
    QuoteRequest {
        quote: id.quote(),
        transfer: id.transfer(),
        payer: Party { msisdn: from.format(payment.payer_msisdn), fsp: payer },
        payee: Party { msisdn: to.format(payment.payee_msisdn), fsp: payee.as_str() },
        amount: payment.amount,
    }
}

fn amount_text(amount: Amount) -> String {
    amount.to_string()
}

pub(super) fn envelope<'a>(payee: &'a FspName, trace: &'a [u8], now_millis: u64) -> Envelope<'a> {
    Envelope { destination: Some(payee.as_str()), trace: Some(trace), tracestate: None, now_millis }
}
