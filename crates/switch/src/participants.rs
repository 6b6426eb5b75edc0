//! `/participants`: the party directory (hub-semantics 2.2). Changes are recorded; their answer
//! is an owed notice.

use std::rc::Rc;

use fspiop::body::ErrorInformation;
use fspiop::{ErrorCode, PartyPath, Refusal, Resource, Route};
use http::{Method, StatusCode};
use ledger::{Command, ParticipantIndex};

use crate::commands;
use crate::egress::{Complaint, Egress, Outgoing, OwnMessage};
use crate::inbound::{Inbound, Trace};
use crate::party_names::{Answer, BRACES, PartyNames};
use crate::submitter::{Answering, Submitter};

const NO_SUCH_FSP: &str = "fspId is no participant";

/// `POST`, `PUT` and `DELETE /participants/{Type}/{ID}[/{SubId}]`.
pub(crate) fn change(
    (submitter, egress): (&Submitter, &Rc<Egress>),
    (route, path): (&Route<'_>, &PartyPath<'_>),
    inbound: Inbound,
) -> Result<Answering, Refusal> {
    let command = commands::command_of(route, &inbound.envelope, &inbound.body, || None)?;
    let accepted =
        if inbound.method == Method::PUT { StatusCode::OK } else { StatusCode::ACCEPTED };
    let registrar = match known_source(egress, &inbound) {
        Ok(registrar) => registrar,
        Err(_) if inbound.method == Method::POST && path.sub_id.is_some() => {
            // As the reference: accepted and dropped.
            egress.directory.ignore();
            return Ok(accepted.into());
        }
        Err(refusal) => return Err(refusal),
    };
    let Some(command) = command else {
        return refuse_braces(egress, path, &inbound, (registrar, accepted));
    };
    if inbound.method != Method::DELETE && !is_served(egress, &command) {
        // What nobody serves is not registered, and takes the place of no other entry.
        let code = ErrorCode::ADD_PARTY;
        let body = fspiop::callback::error(code, &code.describe(NO_SUCH_FSP), &[]);
        let to = PartyNames::of(path).to(registrar, Answer::Error);
        let trace = Trace::of(&inbound);
        egress.start_callback(OwnMessage { to, resource: Resource::Participants, trace, body })?;
        return Ok(accepted.into());
    }
    Ok(Answering::Decided(submitter.submit(command, inbound)?, accepted))
}

/// Whether every party of the command has an FSP of the scheme.
fn is_served(egress: &Egress, command: &Command) -> bool {
    let Command::ChangeParties(change) = command else { return true };
    let view = egress.directory.view();
    change.parties.iter().all(|party| view.find(&party.fsp).is_some())
}

/// `POST /participants`: each entry for itself; what is wrong with one is said in the callback.
pub(crate) fn post_batch(
    (submitter, egress): (&Submitter, &Rc<Egress>),
    route: &Route<'_>,
    inbound: Inbound,
) -> Result<Answering, Refusal> {
    let command = commands::command_of(route, &inbound.envelope, &inbound.body, || None)?;
    known_source(egress, &inbound)?;
    match command {
        Some(command) => {
            Ok(Answering::Decided(submitter.submit(command, inbound)?, StatusCode::OK))
        }
        None => Ok(StatusCode::OK.into()),
    }
}

/// `GET /participants/{Type}/{ID}[/{SubId}]`: answered from the directory. A registration in
/// another currency than that of the query is none.
pub(crate) fn get(
    egress: &Rc<Egress>,
    path: &PartyPath<'_>,
    inbound: &Inbound,
) -> Result<Answering, Refusal> {
    let view = egress.directory.view();
    let Some(asker) = view.find(&inbound.envelope.source).map(|member| member.index) else {
        return Err(Refusal::new(ErrorCode::ID_NOT_FOUND, "Requester FSP not found"));
    };
    if path.has_braces {
        return refuse_braces(egress, path, inbound, (asker, StatusCode::ACCEPTED));
    }
    let found = egress.directory.find_party(path)?;
    let names = PartyNames::of(path);
    let (to, body) = match found {
        Some(binding) => {
            (names.to(asker, Answer::Put), fspiop::callback::participant(&binding.fsp))
        }
        None => {
            let code = ErrorCode::PARTY_NOT_FOUND;
            let body = fspiop::callback::error(code, &code.describe(""), &[]);
            (names.to(asker, Answer::Error), body)
        }
    };
    let trace = Trace::of(inbound);
    let own = OwnMessage { to, resource: Resource::Participants, trace, body };
    egress.start_callback(own)?;
    Ok(StatusCode::ACCEPTED.into())
}

/// `PUT /participants/{Type}/{ID}[/{SubId}]/error`: passed on.
pub(crate) fn put_error(
    egress: &Rc<Egress>,
    path: &PartyPath<'_>,
    mut inbound: Inbound,
) -> Result<Answering, Refusal> {
    ErrorInformation::parse(&inbound.body)?;
    let view = egress.directory.view();
    let envelope = inbound.envelope;
    let names = PartyNames::of(path);
    let Some(sender) = view.sender(&envelope.source).map(|member| member.index) else {
        egress.directory.ignore();
        return Ok(StatusCode::OK.into());
    };
    if path.has_braces {
        return refuse_braces(egress, path, &inbound, (sender, StatusCode::OK));
    }
    let sender = names.to(sender, Answer::Error);
    let trace = Trace::of(&inbound);
    let recipient = envelope.destination.and_then(|name| view.find(&name));
    let Some(recipient) = recipient.map(|member| member.index) else {
        let code = ErrorCode::DESTINATION_FSP;
        let body = fspiop::callback::error(code, &code.describe(""), &[]);
        let own = OwnMessage { to: sender, resource: Resource::Participants, trace, body };
        egress.start_callback(own)?;
        return Ok(StatusCode::OK.into());
    };
    let to = names.to(recipient, Answer::Error);
    let call = (&Method::PUT, to.path.as_str());
    egress.rewrite_headers(&mut inbound.headers, call, envelope.trace, None);
    let on_failure = Some(Complaint {
        to: sender,
        resource: Resource::Participants,
        trace,
        no_endpoint: ErrorCode::DESTINATION_COMMUNICATION,
    });
    let Inbound { headers, body, .. } = inbound;
    egress.start(Outgoing { to, headers, body, on_failure })?;
    Ok(StatusCode::OK.into())
}

/// Accepts a request whose identifier has braces, and refuses it by callback.
fn refuse_braces(
    egress: &Rc<Egress>,
    path: &PartyPath<'_>,
    inbound: &Inbound,
    (sender, accepted): (ParticipantIndex, StatusCode),
) -> Result<Answering, Refusal> {
    let code = ErrorCode::MALFORMED_SYNTAX;
    let body = fspiop::callback::error(code, &code.describe(BRACES), &[]);
    let to = PartyNames::of(path).to(sender, Answer::Error);
    let trace = Trace::of(inbound);
    egress.start_callback(OwnMessage { to, resource: Resource::Participants, trace, body })?;
    Ok(accepted.into())
}

fn known_source(egress: &Egress, inbound: &Inbound) -> Result<ParticipantIndex, Refusal> {
    match egress.directory.view().find(&inbound.envelope.source) {
        Some(member) => Ok(member.index),
        None => Err(Refusal::new(ErrorCode::ID_NOT_FOUND, "Requester FSP not found")),
    }
}
