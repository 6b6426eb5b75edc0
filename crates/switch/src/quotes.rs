//! `/quotes` in simple routing: checked, forwarded, not recorded (hub-semantics 2.4).

use std::rc::Rc;

use bytes::Bytes;
use fspiop::body::{ErrorInformation, Quote, QuoteId, QuoteResponse};
use fspiop::endpoint::EndpointType;
use fspiop::{ErrorCode, QuotePath, Refusal, Resource};
use http::{Method, StatusCode};
use ledger::{Currency, FspName, ParticipantIndex};
use node::ParticipantsView;
use traces::SpanSubject;

use crate::egress::{Destination, Egress, FailureCallback, OwnMessage};
use crate::inbound::{Envelope, Inbound, Trace};
use crate::submitter::AcceptStatus;

/// `POST /quotes`.
pub(crate) fn post(egress: &Rc<Egress>, inbound: Inbound) -> Result<AcceptStatus, Refusal> {
    if inbound.envelope.destination.is_none() {
        let missing = "/header must have required property 'fspiop-destination'";
        return Err(Refusal::new(ErrorCode::MISSING_ELEMENT, missing));
    }
    let quote = Quote::parse(&inbound.body)?;
    let refusal = check_quote(&egress.directory.view(), &inbound.envelope, &quote);
    let (id, name) = (quote.quote, quote.quote.to_string());
    let accepted = inbound.accepted();
    send(egress, inbound, (id, &name), "/quotes".into(), refusal)?;
    Ok(AcceptStatus::OfQuote(accepted, id))
}

/// `PUT /quotes/{ID}`.
pub(crate) fn put(
    egress: &Rc<Egress>,
    path: &QuotePath<'_>,
    inbound: Inbound,
) -> Result<AcceptStatus, Refusal> {
    let response = QuoteResponse::parse(&inbound.body)?;
    let currency = response.payee_currency();
    let refusal = check_response(&egress.directory.view(), &inbound, currency);
    let QuotePath { id, name } = path;
    send(egress, inbound, (*id, name.raw), format!("/quotes/{}", name.raw), refusal)
}

/// `PUT /quotes/{ID}/error`.
pub(crate) fn put_error(
    egress: &Rc<Egress>,
    path: &QuotePath<'_>,
    inbound: Inbound,
) -> Result<AcceptStatus, Refusal> {
    let error = ErrorInformation::parse_of_quote(&inbound.body)?;
    if !error.code.is_accepted() {
        let (code, description) = error.effective();
        let body = fspiop::hub_messages::error(code, &description, &[]);
        return replace_error(egress, path, inbound, body);
    }
    let QuotePath { id, name } = path;
    send(egress, inbound, (*id, name.raw), format!("/quotes/{}/error", name.raw), None)
}

/// An error with an unknown code: the hub replaces it by 3100 (hub-semantics 1.5).
fn replace_error(
    egress: &Rc<Egress>,
    path: &QuotePath<'_>,
    inbound: Inbound,
    body: Bytes,
) -> Result<AcceptStatus, Refusal> {
    let view = egress.directory.view();
    let id = (path.id, path.name.raw);
    let named = inbound.envelope.destination.and_then(|name| view.find(&name));
    let (Some(recipient), Some(sender)) =
        (named, egress.directory.sender(&inbound.envelope.source))
    else {
        return send(egress, inbound, id, format!("/quotes/{}/error", id.1), None);
    };
    let on_failure = failure_callback(sender, id, &inbound);
    let (to, trace) = (error_to(recipient.index, id), Trace::of(&inbound));
    let own = OwnMessage { to, resource: Resource::Quotes, trace, body };
    egress.start_replacement(own, on_failure)?;
    Ok(StatusCode::OK.into())
}

/// `GET /quotes/{ID}`.
pub(crate) fn get(
    egress: &Rc<Egress>,
    path: &QuotePath<'_>,
    inbound: Inbound,
) -> Result<AcceptStatus, Refusal> {
    let QuotePath { id, name } = path;
    send(egress, inbound, (*id, name.raw), format!("/quotes/{}", name.raw), None)
}

/// The error of a message that is refused by callback.
type QuoteRefusal = (ErrorCode, String);

/// Checks that the FSPs of both sides are usable: the source in every currency that the payer
/// offers, and an active destination; otherwise the destination in the currency of the amount; then
/// the FSPs that the parties name.
fn check_quote(
    view: &ParticipantsView,
    envelope: &Envelope,
    quote: &Quote,
) -> Option<QuoteRefusal> {
    let destination = envelope.destination?;
    let usable = |name: &FspName, currency: Currency| {
        view.find(name).is_some_and(|member| member.is_usable(currency))
    };
    if !quote.payer_currencies.is_empty() {
        let all = quote.payer_currencies.iter().all(|one| usable(&envelope.source, *one));
        if !all {
            return Some(refusal(ErrorCode::PAYER_FSP_NOT_FOUND, &envelope.source));
        }
        if view.find(&destination).is_none_or(|member| !member.active) {
            return Some(refusal(ErrorCode::DESTINATION_FSP, &destination));
        }
    } else if !usable(&destination, quote.amount.currency) {
        return Some(refusal(ErrorCode::DESTINATION_FSP, &destination));
    }
    let differs = |name: &&FspName, header: Option<FspName>| Some(**name) != header;
    let payer = quote.payer.as_ref().filter(|name| differs(name, Some(envelope.source)));
    if let Some(name) = payer.filter(|name| !usable(name, quote.amount.currency)) {
        return Some(refusal(ErrorCode::PAYER_FSP_NOT_FOUND, name));
    }
    let payee = quote.payee.as_ref().filter(|name| differs(name, envelope.destination));
    let payee = payee.filter(|name| !usable(name, quote.amount.currency))?;
    Some(refusal(ErrorCode::DESTINATION_FSP, payee))
}

fn check_response(
    view: &ParticipantsView,
    inbound: &Inbound,
    currency: Currency,
) -> Option<QuoteRefusal> {
    let source = &inbound.envelope.source;
    let usable = view.find(source).is_some_and(|member| member.is_usable(currency));
    (!usable).then(|| refusal(ErrorCode::DESTINATION_FSP, source))
}

fn refusal(code: ErrorCode, name: &FspName) -> QuoteRefusal {
    // The text of the reference, which the published test kit compares.
    (code, code.describe(&format!("Unsupported participant '{name}'")))
}

/// Forwards the message, or sends its sender an error callback with the reason. A message from an
/// unknown sender is not forwarded.
fn send(
    egress: &Rc<Egress>,
    inbound: Inbound,
    id: (QuoteId, &str),
    path: String,
    refusal: Option<QuoteRefusal>,
) -> Result<AcceptStatus, Refusal> {
    let view = egress.directory.view();
    let envelope = inbound.envelope;
    let Some(sender) = egress.directory.sender(&envelope.source) else {
        egress.directory.ignore();
        return Ok(inbound.accepted().into());
    };
    let sender = failure_callback(sender, id, &inbound);
    let recipient = envelope.destination.and_then(|name| view.find(&name));
    let Some(recipient) = recipient.filter(|_| refusal.is_none()) else {
        let refusal = refusal.unwrap_or_else(|| no_destination(&envelope));
        return egress.refuse(&inbound, sender, refusal);
    };
    let to = Destination {
        participant: recipient.index,
        endpoint: EndpointType::Quotes,
        method: inbound.method.clone(),
        path,
        variables: Vec::new(),
        subject: Some(SpanSubject::Quote(id.0)),
    };
    egress.forward(inbound, &to, None, sender)
}

fn no_destination(envelope: &Envelope) -> QuoteRefusal {
    let code = ErrorCode::DESTINATION_FSP;
    match &envelope.destination {
        Some(name) => refusal(code, name),
        None => (code, code.describe("FSPIOP-Destination is missing")),
    }
}

/// The callback with an error about a quote, by its id and the text of the id in the path.
fn error_to(participant: ParticipantIndex, (id, name): (QuoteId, &str)) -> Destination {
    Destination {
        participant,
        endpoint: EndpointType::Quotes,
        method: Method::PUT,
        path: format!("/quotes/{name}/error"),
        variables: Vec::new(),
        subject: Some(SpanSubject::Quote(id)),
    }
}

fn failure_callback(
    sender: ParticipantIndex,
    id: (QuoteId, &str),
    inbound: &Inbound,
) -> FailureCallback {
    FailureCallback {
        to: error_to(sender, id),
        resource: Resource::Quotes,
        trace: Trace::of(inbound),
        no_endpoint: ErrorCode::DESTINATION_FSP,
    }
}
