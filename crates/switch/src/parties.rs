//! `/parties`: look-up (hub-semantics 2.3). Nothing is recorded; the directory is local.

use std::rc::Rc;

use fspiop::endpoint::EndpointType;
use fspiop::{ErrorCode, PartyPath, Refusal, Resource, body};
use http::Method;
use ledger::ParticipantIndex;

use crate::egress::{Destination, Egress, FailureCallback};
use crate::inbound::{Inbound, Trace};
use crate::party_names::{PartyNames, braces, said};
use crate::submitter::AcceptStatus;

/// `GET /parties/{Type}/{ID}[/{SubId}]`: forwarded to the destination. Without a destination it
/// goes to the FSP that the directory names, unless that registration has another currency than the
/// query. The query is forwarded. The directory is not consulted for a destination outside the
/// scheme (hub-semantics 2.3).
pub(crate) fn get(
    egress: &Rc<Egress>,
    path: &PartyPath<'_>,
    inbound: Inbound,
) -> Result<AcceptStatus, Refusal> {
    let view = egress.directory.view();
    let envelope = inbound.envelope;
    let Some(source) = view.find(&envelope.source).map(|member| member.index) else {
        return Err(Refusal::new(ErrorCode::MALFORMED_SYNTAX, "invalid fspiop-source header"));
    };
    let names = PartyNames::of(path);
    let sender = complaint(&names, source, &inbound);
    if path.has_braces {
        return egress.refuse(&inbound, sender, braces());
    }
    let named = match envelope.destination {
        Some(name) => Some(name),
        None => egress.directory.find_party(path)?.map(|binding| binding.fsp),
    };
    let Some(recipient) = named.and_then(|name| view.find(&name)) else {
        return egress.refuse(&inbound, sender, said(ErrorCode::PARTY_NOT_FOUND));
    };
    let mut to = to(&names, recipient.index, Call::Get);
    if let Some(query) = inbound.uri.query() {
        to.path.extend(["?", query]);
    }
    egress.forward(inbound, &to, Some(&recipient.name), sender)
}

/// `PUT /parties/{Type}/{ID}[/{SubId}]`: forwarded to the FSP that requested the look-up.
pub(crate) fn put(
    egress: &Rc<Egress>,
    path: &PartyPath<'_>,
    inbound: Inbound,
) -> Result<AcceptStatus, Refusal> {
    body::check_party(&inbound.body)?;
    pass_on(egress, path, inbound, Call::Put)
}

/// `PUT /parties/{Type}/{ID}[/{SubId}]/error`.
pub(crate) fn put_error(
    egress: &Rc<Egress>,
    path: &PartyPath<'_>,
    inbound: Inbound,
) -> Result<AcceptStatus, Refusal> {
    body::ErrorInformation::parse(&inbound.body)?;
    pass_on(egress, path, inbound, Call::Error)
}

fn pass_on(
    egress: &Rc<Egress>,
    path: &PartyPath<'_>,
    inbound: Inbound,
    call: Call,
) -> Result<AcceptStatus, Refusal> {
    let view = egress.directory.view();
    let envelope = inbound.envelope;
    let Some(source) = view.find(&envelope.source).map(|member| member.index) else {
        return Err(Refusal::new(ErrorCode::ID_NOT_FOUND, "Requester FSP not found"));
    };
    let names = PartyNames::of(path);
    let sender = complaint(&names, source, &inbound);
    if path.has_braces {
        return egress.refuse(&inbound, sender, braces());
    }
    let recipient = envelope.destination.and_then(|name| view.find(&name));
    let Some(recipient) = recipient.map(|member| member.index) else {
        return egress.refuse(&inbound, sender, said(ErrorCode::DESTINATION_FSP));
    };
    egress.forward(inbound, &to(&names, recipient, call), None, sender)
}

#[derive(Clone, Copy)]
enum Call {
    Get,
    Put,
    Error,
}

/// A call about the party to a participant.
fn to(names: &PartyNames, participant: ParticipantIndex, call: Call) -> Destination {
    let (method, endpoint, suffix) = match (call, names.sub_id.is_some()) {
        (Call::Get, false) => (Method::GET, EndpointType::PartiesGet, ""),
        (Call::Get, true) => (Method::GET, EndpointType::PartiesSubIdGet, ""),
        (Call::Put, false) => (Method::PUT, EndpointType::PartiesPut, ""),
        (Call::Put, true) => (Method::PUT, EndpointType::PartiesSubIdPut, ""),
        (Call::Error, false) => (Method::PUT, EndpointType::PartiesPutError, "/error"),
        (Call::Error, true) => (Method::PUT, EndpointType::PartiesSubIdPutError, "/error"),
    };
    names.call(participant, (method, endpoint), ("/parties", suffix))
}

fn complaint(names: &PartyNames, sender: ParticipantIndex, inbound: &Inbound) -> FailureCallback {
    FailureCallback {
        to: to(names, sender, Call::Error),
        resource: Resource::Parties,
        trace: Trace::of(inbound),
        no_endpoint: ErrorCode::DESTINATION_COMMUNICATION,
    }
}
