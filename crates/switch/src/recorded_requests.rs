//! Transaction requests in schemes that record quotes: a request or an answer is decided and
//! durable before it is forwarded (hub-semantics 2.5). Authorizations are forwarded only, because
//! they carry the secret of a payer.

use std::rc::Rc;

use fspiop::body::{
    CorrelationId, ErrorInformation, TransactionRequest, TransactionRequestResponse,
};
use fspiop::route_table::Operation;
use fspiop::{ExchangeRoute, Refusal, Resource, body_hash};
use ledger::{Command, Digest, RecordRequestToPay, RequestStatus, RequestStep, RequestTerms};

use crate::exchanges::{self, Exchange};
use crate::inbound::Inbound;
use crate::recorded_quotes::{self, QuoteRecorder};
use crate::submitter::AcceptStatus;

/// Checks a message about a transaction request, records it and forwards it. A message that the
/// checks refuse, and a query, are not recorded.
///
/// # Errors
/// 400 for an invalid body or a missing destination; 503 if too many messages are in flight.
pub(crate) fn forward(
    recorder: &Rc<QuoteRecorder>,
    route: &ExchangeRoute<'_>,
    inbound: Inbound,
) -> Result<AcceptStatus, Refusal> {
    let egress = &recorder.egress;
    let view = egress.directory.view();
    let envelope = &inbound.envelope;
    let recipient = envelope.destination.and_then(|name| view.find(&name));
    let (Some(_), Some(recipient)) = (view.sender(&envelope.source), recipient) else {
        return exchanges::forward(egress, None, route, inbound);
    };
    let (exchange, step) = match route.operation {
        Operation::TransactionRequestsPost => {
            let request = TransactionRequest::parse(&inbound.body)?;
            let terms = RequestTerms {
                destination: recipient.name,
                expiration_ms: request.expiration_ms,
                keep_until_ms: recorder.keep_until_ms(),
            };
            let exchange = Exchange::of_post(Resource::TransactionRequests, request.request);
            (exchange, RequestStep::Requested(terms))
        }
        Operation::TransactionRequestsPut => {
            let response = TransactionRequestResponse::parse(&inbound.body)?;
            let transaction = response.transaction.map(CorrelationId::id);
            let status = RequestStatus { state: response.state, transaction };
            (Exchange::of(route), RequestStep::Answered(status))
        }
        Operation::TransactionRequestsError
            if ErrorInformation::parse_closed(&inbound.body)?.code.is_accepted() =>
        {
            (Exchange::of(route), RequestStep::Failed)
        }
        _ => return exchanges::forward(egress, None, route, inbound),
    };
    let Some(id) = exchange.id() else {
        return exchanges::send(egress, inbound, &exchange, None);
    };
    let command = Command::RecordRequestToPay(Box::new(RecordRequestToPay {
        request: id.id(),
        source: inbound.envelope.source,
        step,
        hash: Digest(body_hash(&inbound.body)),
        trace: inbound.envelope.trace.trace_id,
    }));
    recorded_quotes::record(recorder, command, inbound, exchange)
}
