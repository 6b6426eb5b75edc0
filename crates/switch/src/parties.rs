//! `/parties`: look-up (hub-semantics 2.3). Nothing is recorded. The directory is local, unless an
//! oracle is registered for the type of the identifier.

use std::rc::Rc;

use fspiop::endpoint::EndpointType;
use fspiop::{ErrorCode, PartyPath, Refusal, Resource, body};
use http::Method;
use ledger::{FspName, ParticipantIndex};
use node::ParticipantInfo;
use ports::PartyEntry;
use tokio::task::spawn_local;

use crate::destination::Destination;
use crate::egress::{Egress, FailureCallback};
use crate::inbound::{Inbound, Trace};
use crate::oracles::PartyQuery;
use crate::party_names::{PartyNames, braces_error, error_without_details};
use crate::submitter::AcceptStatus;

/// `GET /parties/{Type}/{ID}[/{SubId}]`: forwarded to the destination. Without a destination it
/// goes to each FSP that the directory or the oracle names, except for entries in another currency
/// than that of the query; each of them answers. The query is forwarded. Neither is consulted for a
/// destination outside the scheme (hub-semantics 2.3).
///
/// If one of several copies cannot be sent because too many messages are in flight, the look-up is
/// refused with 503; its sender repeats it.
pub(crate) fn get(
    egress: &Rc<Egress>,
    path: &PartyPath<'_>,
    inbound: Inbound,
) -> Result<AcceptStatus, Refusal> {
    let envelope = inbound.envelope;
    let Some(source) = egress.directory.known(&envelope.source) else {
        return Err(Refusal::new(ErrorCode::MALFORMED_SYNTAX, "invalid fspiop-source header"));
    };
    let names = PartyNames::of(path);
    if path.has_braces {
        return egress.refuse(&inbound, failure_callback(&names, source, &inbound), braces_error());
    }
    if let Some(name) = envelope.destination {
        return ask_fsps(egress, &[name], inbound, (&names, source));
    }
    let Some(call) = egress.oracles.look_up(path)? else {
        let found = egress.directory.find_party(path)?;
        return ask_fsps(egress, &fsps_of(&found), inbound, (&names, source));
    };
    let (query, accepted, egress) = (PartyQuery::of(path), inbound.accepted(), Rc::clone(egress));
    spawn_local(async move {
        let found = call.find(&query, (&envelope.source, envelope.trace)).await;
        drop(call);
        let sender = failure_callback(&names, source, &inbound);
        let again = inbound.copy();
        let result = match found {
            Ok(found) => ask_fsps(&egress, &fsps_of(&found), inbound, (&names, source)),
            Err(error) => egress.refuse(&inbound, sender, error),
        };
        if let Err(refusal) = result {
            // The look-up was accepted. If this cannot be sent either, its sender repeats it.
            let error = (refusal.code, refusal.description.to_string());
            let sender = failure_callback(&names, source, &again);
            if egress.refuse(&again, sender, error).is_err() {
                egress.thread.counters.forwards_failed.add(1);
            }
        }
    });
    Ok(accepted.into())
}

fn fsps_of(entries: &[PartyEntry]) -> Vec<FspName> {
    entries.iter().map(|entry| entry.fsp).collect()
}

/// Forwards a look-up to each of these FSPs once. Unknown names are skipped.
fn ask_fsps(
    egress: &Rc<Egress>,
    named: &[FspName],
    inbound: Inbound,
    (names, source): (&PartyNames, ParticipantIndex),
) -> Result<AcceptStatus, Refusal> {
    let view = egress.directory.view();
    let mut recipients: Vec<&ParticipantInfo> = Vec::with_capacity(named.len());
    for recipient in named.iter().filter_map(|name| view.find(name)) {
        if recipients.iter().all(|known| known.index != recipient.index) {
            recipients.push(recipient);
        }
    }
    let sender = failure_callback(names, source, &inbound);
    let Some((last, others)) = recipients.split_last() else {
        return egress.refuse(&inbound, sender, error_without_details(ErrorCode::PARTY_NOT_FOUND));
    };
    for recipient in others {
        let sender = failure_callback(names, source, &inbound);
        let to = look_up(names, recipient, &inbound);
        egress.forward(inbound.copy(), &to, Some(&recipient.name), sender)?;
    }
    let to = look_up(names, last, &inbound);
    egress.forward(inbound, &to, Some(&last.name), sender)
}

/// The forwarded look-up, with its query.
fn look_up(names: &PartyNames, recipient: &ParticipantInfo, inbound: &Inbound) -> Destination {
    let mut to = destination(names, recipient.index, PartiesMessage::Get);
    if let Some(query) = inbound.uri.query() {
        to.path.to_mut().extend(["?", query]);
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
