//! Messages that are checked, forwarded once and not recorded: `/quotes`, `/bulkQuotes`,
//! `/transactionRequests`, `/authorizations` and `/transactions` (hub-semantics 2.4 to 2.6).
//!
//! The hub keeps no link between a request and its answer. A message that cannot be forwarded is
//! reported to its sender by `PUT …/error`.

use std::rc::Rc;

use bytes::Bytes;
use fspiop::body::{self, BulkQuote, CorrelationId, ErrorInformation, Quote, QuoteResponse};
use fspiop::endpoint::EndpointType;
use fspiop::route_table::Operation;
use fspiop::{ErrorCode, ExchangeRoute, Refusal, Resource};
use http::{Method, StatusCode};
use ledger::ParticipantIndex;
use traces::SpanSubject;

use crate::egress::{Destination, Egress, FailureCallback, OwnMessage};
use crate::inbound::{Envelope, Inbound, Trace};
use crate::quotes::{self, ExchangeRefusal};
use crate::submitter::AcceptStatus;

/// Checks and forwards a message.
///
/// # Errors
/// 400 for an invalid body or a missing destination; 503 if too many messages are in flight.
pub(crate) fn forward(
    egress: &Rc<Egress>,
    route: &ExchangeRoute<'_>,
    inbound: Inbound,
) -> Result<AcceptStatus, Refusal> {
    let view = egress.directory.view();
    let (envelope, body) = (&inbound.envelope, &inbound.body);
    let refusal = match route.operation {
        Operation::QuotesPost => {
            require_destination(envelope)?;
            let quote = Quote::parse(body)?;
            let refusal = quotes::check_quote(&view, envelope, &quote);
            return post(egress, (route.resource, quote.quote), inbound, refusal);
        }
        Operation::BulkQuotesPost => {
            require_destination(envelope)?;
            let quote = BulkQuote::parse(body)?;
            let refusal = quotes::check_bulk_quote(&view, envelope, &quote);
            return post(egress, (route.resource, quote.bulk_quote), inbound, refusal);
        }
        Operation::TransactionRequestsPost => {
            let id = body::parse_transaction_request(body)?;
            return post(egress, (route.resource, id), inbound, None);
        }
        Operation::QuotesPut => {
            let currency = QuoteResponse::parse(body)?.payee_currency();
            quotes::check_response(&view, &envelope.source, currency)
        }
        Operation::QuotesError
        | Operation::BulkQuotesError
        | Operation::TransactionRequestsError
        | Operation::AuthorizationsError
        | Operation::TransactionsError => {
            let error = ErrorInformation::parse_closed(body)?;
            if !error.code.is_accepted() {
                let (code, description) = error.effective();
                let body = fspiop::hub_messages::error(code, &description, &[]);
                return replace_error(egress, &Exchange::of(route), inbound, body);
            }
            None
        }
        operation => {
            body::check(operation, body)?;
            None
        }
    };
    send(egress, inbound, &Exchange::of(route), refusal)
}

/// The resource and the id of a message.
struct Exchange<'a> {
    resource: Resource,
    id: Option<CorrelationId>,
    /// The id as written in the path, or in the body of a `POST`.
    name: &'a str,
}

impl<'a> Exchange<'a> {
    /// Of a message with an id in its path.
    fn of(route: &'a ExchangeRoute<'_>) -> Self {
        let id = route.id.as_ref();
        Self {
            resource: route.resource,
            id: id.and_then(|id| id.id),
            name: id.map_or("", |id| id.name.raw),
        }
    }

    /// The subject of its spans: quotes alone, as a transfer's spans name them.
    fn subject(&self) -> Option<SpanSubject> {
        self.id.filter(|_| self.resource == Resource::Quotes).map(SpanSubject::Quote)
    }

    fn to(&self, participant: ParticipantIndex, method: Method, path: String) -> Destination {
        Destination {
            participant,
            endpoint: EndpointType::of_exchange(self.resource),
            method,
            path,
            variables: Vec::new(),
            subject: self.subject(),
        }
    }

    /// The callback with an error about the message.
    fn error_to(&self, participant: ParticipantIndex) -> Destination {
        let path = format!("/{}/{}/error", self.resource.as_str(), self.name);
        self.to(participant, Method::PUT, path)
    }

    fn failure_callback(&self, sender: ParticipantIndex, inbound: &Inbound) -> FailureCallback {
        FailureCallback {
            to: self.error_to(sender),
            resource: self.resource,
            trace: Trace::of(inbound),
            no_endpoint: ErrorCode::DESTINATION_FSP,
        }
    }
}

fn require_destination(envelope: &Envelope) -> Result<(), Refusal> {
    if envelope.destination.is_some() {
        return Ok(());
    }
    let missing = "/header must have required property 'fspiop-destination'";
    Err(Refusal::new(ErrorCode::MISSING_ELEMENT, missing))
}

/// A `POST`, whose id is in the body.
fn post(
    egress: &Rc<Egress>,
    (resource, id): (Resource, CorrelationId),
    inbound: Inbound,
    refusal: Option<ExchangeRefusal>,
) -> Result<AcceptStatus, Refusal> {
    let name = id.to_string();
    let accepted = inbound.accepted();
    let status = send(egress, inbound, &Exchange { resource, id: Some(id), name: &name }, refusal)?;
    Ok(match resource {
        Resource::Quotes => AcceptStatus::OfQuote(accepted, id),
        _ => status,
    })
}

/// An error with an unknown code: the hub replaces it by 3100 (hub-semantics 1.5).
fn replace_error(
    egress: &Rc<Egress>,
    exchange: &Exchange<'_>,
    inbound: Inbound,
    body: Bytes,
) -> Result<AcceptStatus, Refusal> {
    let view = egress.directory.view();
    let named = inbound.envelope.destination.and_then(|name| view.find(&name));
    let (Some(recipient), Some(sender)) =
        (named, egress.directory.sender(&inbound.envelope.source))
    else {
        return send(egress, inbound, exchange, None);
    };
    let on_failure = exchange.failure_callback(sender, &inbound);
    let (to, trace) = (exchange.error_to(recipient.index), Trace::of(&inbound));
    let own = OwnMessage { to, resource: exchange.resource, trace, body };
    egress.start_replacement(own, on_failure)?;
    Ok(StatusCode::OK.into())
}

/// Forwards the message, or sends its sender an error callback with the reason. A message from an
/// unknown sender is not forwarded.
fn send(
    egress: &Rc<Egress>,
    inbound: Inbound,
    exchange: &Exchange<'_>,
    refusal: Option<ExchangeRefusal>,
) -> Result<AcceptStatus, Refusal> {
    let view = egress.directory.view();
    let envelope = inbound.envelope;
    let Some(sender) = egress.directory.sender(&envelope.source) else {
        egress.directory.ignore();
        return Ok(inbound.accepted().into());
    };
    let sender = exchange.failure_callback(sender, &inbound);
    let recipient = envelope.destination.and_then(|name| view.find(&name));
    let Some(recipient) = recipient.filter(|_| refusal.is_none()) else {
        let refusal = refusal.unwrap_or_else(|| no_destination(&envelope));
        return egress.refuse(&inbound, sender, refusal);
    };
    let path = path_of(&inbound, exchange.resource);
    let to = exchange.to(recipient.index, inbound.method.clone(), path);
    egress.forward(inbound, &to, None, sender)
}

/// The path of a forwarded message. Only an authorization is asked for with a query.
fn path_of(inbound: &Inbound, resource: Resource) -> String {
    let path = inbound.uri.path();
    match inbound.uri.query().filter(|_| resource == Resource::Authorizations) {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    }
}

fn no_destination(envelope: &Envelope) -> ExchangeRefusal {
    let code = ErrorCode::DESTINATION_FSP;
    match &envelope.destination {
        Some(name) => quotes::unsupported(code, name),
        None => (code, code.describe("FSPIOP-Destination is missing")),
    }
}
