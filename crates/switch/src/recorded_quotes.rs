//! Quotes in schemes that record them: a request or an answer is decided and durable before it is
//! forwarded, and `GET /quotes/{ID}` is answered from the log (hub-semantics 2.4).

use std::rc::Rc;
use std::time::Duration;

use fspiop::body::{CorrelationId, ErrorInformation, Quote, QuoteResponse};
use fspiop::quote_rules::QuoteRules;
use fspiop::route_table::Operation;
use fspiop::{ErrorCode, ExchangeRoute, Refusal, Resource, body_hash, quote_terms};
use ledger::{
    Command, Digest, ErrorOutcome, FspName, Outcome, ParticipantIndex, QuoteContent, QuoteOffer,
    QuoteOutcome, QuoteRow, RecordQuote, RecordQuoteAnswer, State, TransactionRequestOutcome,
};
use node::Handle;
use tokio::sync::oneshot;

use crate::egress::{Egress, OwnMessage};
use crate::exchanges::{self, Exchange};
use crate::inbound::{Inbound, Trace};
use crate::message::ForwardedMessage;
use crate::outcome_errors::{self, PrepareFields};
use crate::quotes::{self, ExchangeRefusal};
use crate::records::Records;
use crate::submitter::{AcceptStatus, Submitter};

/// The parts of the thread that record quotes.
pub(crate) struct QuoteRecorder {
    pub(crate) submitter: Rc<Submitter>,
    pub(crate) egress: Rc<Egress>,
    pub(crate) records: Records,
    pub(crate) handle: Handle<ForwardedMessage>,
    /// Time for which a quote is kept.
    pub(crate) keep: Duration,
}

/// Checks a message about a quote, records it and forwards it. A message that the checks refuse is
/// not recorded.
///
/// # Errors
/// 400 for an invalid body or a missing destination; 503 if too many messages are in flight.
pub(crate) fn forward(
    recorder: &Rc<QuoteRecorder>,
    rules: Option<&QuoteRules>,
    route: &ExchangeRoute<'_>,
    mut inbound: Inbound,
) -> Result<AcceptStatus, Refusal> {
    let egress = &recorder.egress;
    let view = egress.directory.view();
    let (envelope, body) = (&inbound.envelope, &inbound.body);
    let (command, exchange, refusal) = match route.operation {
        Operation::QuotesPost => {
            let to = exchanges::require_destination(envelope)?;
            let quote = Quote::parse(body)?;
            let refusal = quotes::check_quote(&view, envelope, &quote)
                .or_else(|| quotes::apply_rules(rules?, &view, &mut inbound));
            let to = inbound.envelope.destination.unwrap_or(to);
            let command = recorder.request(&quote, to, &inbound);
            (Some(command), Exchange::of_post(Resource::Quotes, quote.quote), refusal)
        }
        Operation::QuotesPut => {
            let response = QuoteResponse::parse(body)?;
            let refusal =
                quotes::check_response(&view, &envelope.source, response.payee_currency());
            let exchange = Exchange::of(route);
            let end_ms = Some(response.expiration_ms);
            (exchange.id().map(|id| answer(id, end_ms, &inbound)), exchange, refusal)
        }
        Operation::QuotesError => {
            let error = ErrorInformation::parse_closed(body)?;
            let exchange = Exchange::of(route);
            if !error.code.is_accepted() {
                let (code, description) = error.effective();
                let body = fspiop::hub_messages::error(code, &description, &[]);
                return exchanges::replace_error(egress, &exchange, inbound, body);
            }
            (exchange.id().map(|id| answer(id, None, &inbound)), exchange, None)
        }
        _ => return get(recorder, inbound, Exchange::of(route)),
    };
    let envelope = &inbound.envelope;
    let recipient = envelope.destination.and_then(|name| view.find(&name));
    let is_routed = view.sender(&envelope.source).is_some() && recipient.is_some();
    match command {
        Some(command) if is_routed && refusal.is_none() => {
            record(recorder, command, inbound, exchange)
        }
        _ => exchanges::send(egress, inbound, &exchange, refusal),
    }
}

impl QuoteRecorder {
    /// The command of a `POST /quotes` to an FSP.
    fn request(&self, quote: &Quote, to: FspName, inbound: &Inbound) -> Command {
        Command::RecordQuote(Box::new(RecordQuote {
            quote: quote.quote.id(),
            transaction: quote.transaction.id(),
            source: inbound.envelope.source,
            destination: to,
            expiration_ms: quote.expiration_ms,
            keep_until_ms: self.keep_until_ms(),
            hash: Digest(body_hash(&inbound.body)),
            trace: inbound.envelope.trace.trace_id,
            request: quote.request.map(CorrelationId::id),
        }))
    }

    /// Until when a message of now is kept, in milliseconds since the epoch.
    pub(crate) fn keep_until_ms(&self) -> u64 {
        let keep_ms = u64::try_from(self.keep.as_millis()).unwrap_or(u64::MAX);
        self.egress.thread.wall_ms().saturating_add(keep_ms)
    }
}

/// The command of a `PUT /quotes/{ID}` whose offer ends at this time, or of a
/// `PUT /quotes/{ID}/error`.
fn answer(id: CorrelationId, offer_end_ms: Option<u64>, inbound: &Inbound) -> Command {
    let hash = body_hash(&inbound.body);
    let offer = |expiration_ms| {
        // Terms that are not texts match no transfer.
        let terms = Digest(quote_terms(&inbound.body).unwrap_or(hash));
        QuoteContent::Offer(QuoteOffer { terms, expiration_ms })
    };
    Command::RecordQuoteAnswer(Box::new(RecordQuoteAnswer {
        quote: id.id(),
        source: inbound.envelope.source,
        content: offer_end_ms.map_or(QuoteContent::Error, offer),
        hash: Digest(hash),
        trace: inbound.envelope.trace.trace_id,
    }))
}

/// Records a message about a quote or a transaction request, then forwards it, or sends its sender
/// an error callback if the ledger refuses it. Its sender and its recipient are participants.
///
/// # Errors
/// 413 for a message that is too large for a record.
pub(crate) fn record(
    recorder: &Rc<QuoteRecorder>,
    command: Command,
    inbound: Inbound,
    exchange: Exchange,
) -> Result<AcceptStatus, Refusal> {
    let decision = recorder.submitter.submit(command, inbound.copy())?;
    let recorder = Rc::clone(recorder);
    let id = exchange.quote();
    let forwarding = async move {
        let outcome = decision.outcome(&recorder.egress.directory).await?;
        let accepted = inbound.accepted();
        // The command has another outcome only if its node wrote it twice.
        let is_own = |outcome| {
            let is_of_quote = QuoteOutcome::of(outcome).is_some();
            is_of_quote || TransactionRequestOutcome::of(outcome).is_some()
        };
        let refusal = match outcome {
            Some(outcome) if is_own(outcome) => refusal_of(outcome),
            Some(_) => return Err(Refusal::unavailable()),
            None => None,
        };
        exchanges::send(&recorder.egress, inbound, &exchange, refusal)?;
        Ok(accepted)
    };
    Ok(AcceptStatus::AfterQuery(Box::pin(forwarding), id))
}

/// The error of a message that the ledger refuses.
fn refusal_of(outcome: Outcome) -> Option<ExchangeRefusal> {
    let error = ErrorOutcome::of(outcome)?;
    Some(outcome_errors::error(error, &PrepareFields::default()))
}

/// Answers a `GET /quotes/{ID}`: with the recorded answer if there is one. Without one the request
/// goes to the FSP that was asked, whose answer is then recorded.
///
/// # Errors
/// 503 if the node accepts no more queries.
fn get(
    recorder: &Rc<QuoteRecorder>,
    inbound: Inbound,
    exchange: Exchange,
) -> Result<AcceptStatus, Refusal> {
    let Some(requester) = recorder.egress.directory.sender(&inbound.envelope.source) else {
        recorder.egress.directory.ignore();
        return Ok(inbound.accepted().into());
    };
    let id = exchange.id();
    let (sender, receiver) = oneshot::channel();
    let look_up = move |state: &State| {
        let quote = id.and_then(|id| state.quote(&id.id()));
        // The request may have ended.
        let _sent = sender.send(quote.cloned());
    };
    recorder.handle.ask(look_up).map_err(|_| Refusal::unavailable())?;
    let recorder = Rc::clone(recorder);
    let answering = async move {
        let quote = receiver.await.map_err(|_| Refusal::unavailable())?;
        let accepted = inbound.accepted();
        let is_party = |row: &QuoteRow| [row.source, row.destination].contains(&requester);
        match quote.filter(is_party) {
            None => {
                let refusal = refusal_of(Outcome::QuoteNotFound);
                exchanges::send(&recorder.egress, inbound, &exchange, refusal)?;
            }
            Some(quote) if quote.answer.is_none() => {
                ask_payee(&recorder, inbound, &exchange, &quote)?
            }
            Some(quote) => send_answer(&recorder, (requester, &inbound), &exchange, &quote).await?,
        }
        Ok(accepted)
    };
    Ok(AcceptStatus::AfterQuery(Box::pin(answering), id))
}

/// Forwards a `GET` to the FSP that has not answered yet.
fn ask_payee(
    recorder: &QuoteRecorder,
    mut inbound: Inbound,
    exchange: &Exchange,
    quote: &QuoteRow,
) -> Result<(), Refusal> {
    let view = recorder.egress.directory.view();
    if inbound.envelope.destination.is_none() {
        inbound.envelope.destination = view.get(quote.destination).map(|member| member.name);
    }
    exchanges::send(&recorder.egress, inbound, exchange, None).map(drop)
}

/// Sends the recorded answer to its requester.
async fn send_answer(
    recorder: &QuoteRecorder,
    (requester, inbound): (ParticipantIndex, &Inbound),
    exchange: &Exchange,
    quote: &QuoteRow,
) -> Result<(), Refusal> {
    let Some(answer) = quote.answer else { return Ok(()) };
    let message = recorder.records.load_message(answer.record).await;
    let to = match (&message, answer.content) {
        (Some(_), QuoteContent::Offer(_)) => exchange.answer_to(requester),
        (Some(_), QuoteContent::Error) | (None, _) => exchange.error_to(requester),
    };
    let body = message.map_or_else(
        || {
            let code = ErrorCode::INTERNAL_SERVER;
            fspiop::hub_messages::error(code, &code.describe(""), &[])
        },
        |message| message.body,
    );
    let trace = Trace::of(inbound);
    let own = OwnMessage { to, resource: Resource::Quotes, trace, body };
    recorder.egress.start_callback(own)
}
