//! `/parties`: look-up (hub-semantics 2.3). Nothing is recorded; the directory is local.

use std::rc::Rc;

use fspiop::endpoint::EndpointType;
use fspiop::{ErrorCode, PartyPath, Refusal, Resource, body};
use http::Method;
use ledger::ParticipantIndex;
use node::ParticipantInfo;

use crate::egress::{Destination, Egress, FailureCallback};
use crate::inbound::{Inbound, Trace};
use crate::party_names::{PartyNames, braces_error, error_without_details};
use crate::submitter::AcceptStatus;

/// `GET /parties/{Type}/{ID}[/{SubId}]`: forwarded to the destination. Without a destination it
/// goes to each FSP that the directory names, except for entries in another currency than that of
/// the query; each of them answers. The query is forwarded. The directory is not consulted for a
/// destination outside the scheme (hub-semantics 2.3).
///
/// If one of several copies cannot be sent because too many messages are in flight, the look-up is
/// refused with 503; its sender repeats it.
pub(crate) fn get(
    egress: &Rc<Egress>,
    path: &PartyPath<'_>,
    inbound: Inbound,
) -> Result<AcceptStatus, Refusal> {
    let view = egress.directory.view();
    let envelope = inbound.envelope;
    let Some(source) = egress.directory.known(&envelope.source) else {
        return Err(Refusal::new(ErrorCode::MALFORMED_SYNTAX, "invalid fspiop-source header"));
    };
    let names = PartyNames::of(path);
    let sender = failure_callback(&names, source, &inbound);
    if path.has_braces {
        return egress.refuse(&inbound, sender, braces_error());
    }
    let named = match envelope.destination {
        Some(name) => vec![name],
        None => egress.directory.find_party(path)?.iter().map(|entry| entry.fsp).collect(),
    };
    let mut recipients: Vec<_> = Vec::with_capacity(named.len());
    for recipient in named.iter().filter_map(|name| view.find(name)) {
        if recipients.iter().all(|known: &&ParticipantInfo| known.index != recipient.index) {
            recipients.push(recipient);
        }
    }
    let Some((last, others)) = recipients.split_last() else {
        return egress.refuse(&inbound, sender, error_without_details(ErrorCode::PARTY_NOT_FOUND));
    };
    for recipient in others {
        let sender = failure_callback(&names, source, &inbound);
        let to = look_up(&names, recipient, &inbound);
        egress.forward(inbound.copy(), &to, Some(&recipient.name), sender)?;
    }
    let to = look_up(&names, last, &inbound);
    egress.forward(inbound, &to, Some(&last.name), sender)
}

/// The forwarded look-up, with its query.
fn look_up(names: &PartyNames, recipient: &ParticipantInfo, inbound: &Inbound) -> Destination {
    let mut to = destination(names, recipient.index, PartiesMessage::Get);
    if let Some(query) = inbound.uri.query() {
        to.path.extend(["?", query]);
    }
    to
}

/// `PUT /parties/{Type}/{ID}[/{SubId}]`: forwarded to the FSP that requested the look-up.
pub(crate) fn put(
    egress: &Rc<Egress>,
    path: &PartyPath<'_>,
    inbound: Inbound,
) -> Result<AcceptStatus, Refusal> {
    body::check_party(&inbound.body)?;
    forward(egress, path, inbound, PartiesMessage::Put)
}

/// `PUT /parties/{Type}/{ID}[/{SubId}]/error`.
pub(crate) fn put_error(
    egress: &Rc<Egress>,
    path: &PartyPath<'_>,
    inbound: Inbound,
) -> Result<AcceptStatus, Refusal> {
    body::ErrorInformation::parse(&inbound.body)?;
    forward(egress, path, inbound, PartiesMessage::Error)
}

fn forward(
    egress: &Rc<Egress>,
    path: &PartyPath<'_>,
    inbound: Inbound,
    message: PartiesMessage,
) -> Result<AcceptStatus, Refusal> {
    let view = egress.directory.view();
    let envelope = inbound.envelope;
    let Some(source) = egress.directory.known(&envelope.source) else {
        return Err(Refusal::new(ErrorCode::ID_NOT_FOUND, "Requester FSP not found"));
    };
    let names = PartyNames::of(path);
    let sender = failure_callback(&names, source, &inbound);
    if path.has_braces {
        return egress.refuse(&inbound, sender, braces_error());
    }
    let recipient = envelope.destination.and_then(|name| view.find(&name));
    let Some(recipient) = recipient.map(|member| member.index) else {
        return egress.refuse(&inbound, sender, error_without_details(ErrorCode::DESTINATION_FSP));
    };
    egress.forward(inbound, &destination(&names, recipient, message), None, sender)
}

#[derive(Clone, Copy)]
enum PartiesMessage {
    Get,
    Put,
    Error,
}

/// A call about the party to a participant.
fn destination(
    names: &PartyNames,
    participant: ParticipantIndex,
    message: PartiesMessage,
) -> Destination {
    let (method, endpoint, suffix) = match (message, names.sub_id.is_some()) {
        (PartiesMessage::Get, false) => (Method::GET, EndpointType::PartiesGet, ""),
        (PartiesMessage::Get, true) => (Method::GET, EndpointType::PartiesSubIdGet, ""),
        (PartiesMessage::Put, false) => (Method::PUT, EndpointType::PartiesPut, ""),
        (PartiesMessage::Put, true) => (Method::PUT, EndpointType::PartiesSubIdPut, ""),
        (PartiesMessage::Error, false) => (Method::PUT, EndpointType::PartiesPutError, "/error"),
        (PartiesMessage::Error, true) => {
            (Method::PUT, EndpointType::PartiesSubIdPutError, "/error")
        }
    };
    names.destination(participant, (method, endpoint), ("/parties", suffix))
}

fn failure_callback(
    names: &PartyNames,
    sender: ParticipantIndex,
    inbound: &Inbound,
) -> FailureCallback {
    FailureCallback {
        to: destination(names, sender, PartiesMessage::Error),
        resource: Resource::Parties,
        trace: Trace::of(inbound),
        no_endpoint: ErrorCode::DESTINATION_COMMUNICATION,
    }
}
