//! Messages that are checked and forwarded once: `/quotes`, `/bulkQuotes`, `/transactionRequests`,
//! `/authorizations` and `/transactions` (hub-semantics 2.4 to 2.6).
//!
//! The hub keeps no link between a request and its answer, except in schemes that record quotes and
//! transaction requests (`recorded_quotes`, `recorded_requests`). A message that cannot be
//! forwarded is reported to its sender by `PUT …/error`.

use std::rc::Rc;

use bytes::Bytes;
use fspiop::body::{
    self, BulkQuote, CorrelationId, ErrorInformation, Extension, Quote, QuoteResponse,
    TransactionRequest,
};
use fspiop::endpoint::EndpointType;
use fspiop::quote_rules::QuoteRules;
use fspiop::route_table::Operation;
use fspiop::{ErrorCode, ExchangeRoute, Refusal, Resource};
use http::{Method, StatusCode};
use ledger::{FspName, ParticipantIndex};
use traces::SpanSubject;

use crate::destination::{Destination, Variables};
use crate::egress::{Egress, FailureCallback, OwnMessage};
use crate::inbound::{Envelope, Inbound, Trace};
use crate::quotes::{self, ExchangeRefusal};
use crate::submitter::AcceptStatus;

/// Checks and forwards a message. A quote that passes the checks is compared with the `rules`.
///
/// # Errors
/// 400 for an invalid body or a missing destination; 503 if too many messages are in flight.
pub(crate) fn forward(
    egress: &Rc<Egress>,
    rules: Option<&QuoteRules>,
    route: &ExchangeRoute<'_>,
    mut inbound: Inbound,
) -> Result<AcceptStatus, Refusal> {
    let view = egress.directory.view();
    let (envelope, body) = (&inbound.envelope, &inbound.body);
    let refusal = match route.operation {
        Operation::QuotesPost => {
            let _to = require_destination(envelope)?;
            let quote = Quote::parse(body)?;
            let refusal = quotes::check_quote(&view, envelope, &quote)
                .or_else(|| quotes::apply_rules(rules?, &view, &mut inbound));
            return post(egress, (route.resource, quote.quote), inbound, refusal);
        }
        Operation::BulkQuotesPost => {
            let _to = require_destination(envelope)?;
            let quote = BulkQuote::parse(body)?;
            let refusal = quotes::check_bulk_quote(&view, envelope, &quote);
            return post(egress, (route.resource, quote.bulk_quote), inbound, refusal);
        }
        Operation::TransactionRequestsPost => {
            let request = TransactionRequest::parse(body)?;
            return post(egress, (route.resource, request.request), inbound, None);
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
                let sender = Extension::new("source", inbound.envelope.source.as_str());
                let body = fspiop::hub_messages::error(code, &description, &[sender]);
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
pub(crate) struct Exchange {
    resource: Resource,
    id: Option<CorrelationId>,
    /// The id as written in the path, or in the body of a `POST`.
    name: String,
}

impl Exchange {
    /// Of a message with an id in its path.
    pub(crate) fn of(route: &ExchangeRoute<'_>) -> Self {
        let id = route.id.as_ref();
        Self {
            resource: route.resource,
            id: id.and_then(|id| id.id),
            name: id.map_or_else(String::new, |id| id.name.raw.to_owned()),
        }
    }

    /// Of a `POST`, whose id is in the body.
    pub(crate) fn of_post(resource: Resource, id: CorrelationId) -> Self {
        Self { resource, id: Some(id), name: id.to_string() }
    }

    /// The id; `None` if it has an unknown form.
    pub(crate) const fn id(&self) -> Option<CorrelationId> {
        self.id
    }

    /// The id, if the message is about a quote.
    pub(crate) fn quote(&self) -> Option<CorrelationId> {
        self.id.filter(|_| self.resource == Resource::Quotes)
    }

    /// The subject of its spans: quotes alone, as a transfer's spans name them.
    fn subject(&self) -> Option<SpanSubject> {
        self.quote().map(SpanSubject::Quote)
    }

    fn to(&self, participant: ParticipantIndex, method: Method, path: String) -> Destination {
        Destination {
            participant,
            endpoint: EndpointType::of_exchange(self.resource),
            method,
            path: path.into(),
            variables: Variables::None,
            subject: self.subject(),
        }
    }

    /// The callback with the answer to the message.
    pub(crate) fn answer_to(&self, participant: ParticipantIndex) -> Destination {
        let path = format!("/{}/{}", self.resource.as_str(), self.name);
        self.to(participant, Method::PUT, path)
    }

    /// The callback with an error about the message.
    pub(crate) fn error_to(&self, participant: ParticipantIndex) -> Destination {
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

pub(crate) fn require_destination(envelope: &Envelope) -> Result<FspName, Refusal> {
    let missing = "/header must have required property 'fspiop-destination'";
    envelope.destination.ok_or_else(|| Refusal::new(ErrorCode::MISSING_ELEMENT, missing))
}

/// A `POST`, whose id is in the body.
fn post(
    egress: &Rc<Egress>,
    (resource, id): (Resource, CorrelationId),
    inbound: Inbound,
    refusal: Option<ExchangeRefusal>,
) -> Result<AcceptStatus, Refusal> {
    let accepted = inbound.accepted();
    let status = send(egress, inbound, &Exchange::of_post(resource, id), refusal)?;
    Ok(match resource {
        Resource::Quotes => AcceptStatus::OfQuote(accepted, id),
        _ => status,
    })
}

/// An error with an unknown code: the hub replaces it by 3100 (hub-semantics 1.5). The list of
/// extensions names its sender, who may not be the participant that was asked.
pub(crate) fn replace_error(
    egress: &Rc<Egress>,
    exchange: &Exchange,
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
pub(crate) fn send(
    egress: &Rc<Egress>,
    inbound: Inbound,
    exchange: &Exchange,
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
