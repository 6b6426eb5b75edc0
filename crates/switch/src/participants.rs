//! `/participants`: the party directory (hub-semantics 2.2). Changes are recorded; their answer
//! is an owed notice.

use std::rc::Rc;

use fspiop::body::{
    BatchRegistration, ErrorInformation, ParticipantRegistration, ParticipantUpdate,
};
use fspiop::endpoint::EndpointType;
use fspiop::{ErrorCode, PartyIdType, PartyPath, Refusal, Resource};
use http::{Method, StatusCode};
use ledger::{Command, ParticipantIndex};

use crate::edge::{Decision, Edge, Stored};
use crate::forward::{self, Complaint, Destination, Outgoing, OwnMessage, Trace, Variables};
use crate::server::{Answering, Inbound};
use crate::{Message, commands};

const NO_SUCH_FSP: &str = "fspId is no participant";
/// The reason that a sender is given whose identifiers have braces.
pub(crate) const BRACES: &str = "an identifier in the path contains braces";

/// `POST` and `PUT /participants/{Type}/{ID}[/{SubId}]`.
pub(crate) fn register(
    edge: &Rc<Edge>,
    path: PartyPath<'_>,
    inbound: Inbound,
) -> Result<Answering, Refusal> {
    let source = inbound.envelope.source;
    let (fsp, currency) = if inbound.method == Method::POST {
        let registration = ParticipantRegistration::parse(&inbound.body)?;
        (registration.fsp, registration.currency)
    } else {
        let update = ParticipantUpdate::parse(&inbound.body)?;
        (update.fsp.unwrap_or(source), update.currency)
    };
    let accepted = match inbound.method {
        Method::POST => StatusCode::ACCEPTED,
        _ => StatusCode::OK,
    };
    let registrar = match known_source(edge, &inbound) {
        Ok(registrar) => registrar,
        Err(_) if inbound.method == Method::POST && path.sub_id.is_some() => {
            // As the reference: accepted and dropped.
            edge.ignore();
            return Ok(accepted.into());
        }
        Err(refusal) => return Err(refusal),
    };
    if path.has_braces {
        return refuse_braces(edge, &path, &inbound, Some(registrar), accepted);
    }
    if edge.view().find(&fsp).is_none() {
        // What nobody serves is not registered, and takes the place of no other entry.
        let code = ErrorCode::ADD_PARTY;
        let body = fspiop::callback::error(code, &code.describe(NO_SUCH_FSP), &[]);
        let to = PartyNames::of(&path).to(registrar, Answer::Error);
        let trace = Trace::of(&inbound);
        let own = OwnMessage { to, resource: Resource::Participants, trace, body };
        forward::start_callback(edge, own)?;
        return Ok(accepted.into());
    }
    let command = commands::register(&inbound.envelope, &path, fsp, currency);
    Ok(Answering::Decided(submit(edge, inbound, command)?, accepted))
}

/// `DELETE /participants/{Type}/{ID}[/{SubId}]`.
pub(crate) fn delete(
    edge: &Rc<Edge>,
    path: PartyPath<'_>,
    inbound: Inbound,
) -> Result<Answering, Refusal> {
    let sender = known_source(edge, &inbound)?;
    if path.has_braces {
        return refuse_braces(edge, &path, &inbound, Some(sender), StatusCode::ACCEPTED);
    }
    let command = commands::remove(&inbound.envelope, &path);
    Ok(Answering::Decided(submit(edge, inbound, command)?, StatusCode::ACCEPTED))
}

/// `POST /participants`: each entry for itself; what is wrong with one is said in the callback.
pub(crate) fn post_batch(edge: &Rc<Edge>, inbound: Inbound) -> Result<Answering, Refusal> {
    let batch = BatchRegistration::parse(&inbound.body)?;
    known_source(edge, &inbound)?;
    let command = commands::register_batch(&inbound.envelope, &batch);
    drop(batch);
    Ok(Answering::Decided(submit(edge, inbound, command)?, StatusCode::OK))
}

/// `GET /participants/{Type}/{ID}[/{SubId}]`: answered from the directory. A registration in
/// another currency than that of the query is none.
pub(crate) fn get(
    edge: &Rc<Edge>,
    path: PartyPath<'_>,
    inbound: &Inbound,
) -> Result<Answering, Refusal> {
    let view = edge.view();
    let Some(asker) = view.find(&inbound.envelope.source).map(|member| member.index) else {
        return Err(Refusal::new(ErrorCode::ID_NOT_FOUND, "Requester FSP not found"));
    };
    if path.has_braces {
        return refuse_braces(edge, &path, inbound, Some(asker), StatusCode::ACCEPTED);
    }
    let sub_id = path.sub_id.as_ref().map(|sub_id| &*sub_id.text);
    let found = edge.handle.find_party(path.kind.as_str(), &path.id.text, sub_id);
    let found = found.map_err(|_| Refusal::unavailable())?;
    let found = found.filter(|binding| binding.serves(path.currency));
    let names = PartyNames::of(&path);
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
    forward::start_callback(edge, own)?;
    Ok(StatusCode::ACCEPTED.into())
}

/// `PUT /participants/{Type}/{ID}[/{SubId}]/error`: passed on.
pub(crate) fn put_error(
    edge: &Rc<Edge>,
    path: PartyPath<'_>,
    mut inbound: Inbound,
) -> Result<Answering, Refusal> {
    ErrorInformation::parse(&inbound.body)?;
    let view = edge.view();
    let envelope = inbound.envelope;
    let names = PartyNames::of(&path);
    let Some(sender) = view.sender(&envelope.source).map(|member| member.index) else {
        edge.ignore();
        return Ok(StatusCode::OK.into());
    };
    if path.has_braces {
        return refuse_braces(edge, &path, &inbound, Some(sender), StatusCode::OK);
    }
    let sender = names.to(sender, Answer::Error);
    let trace = Trace::of(&inbound);
    let recipient = envelope.destination.and_then(|name| view.find(&name));
    let Some(recipient) = recipient.map(|member| member.index) else {
        let code = ErrorCode::DESTINATION_FSP;
        let body = fspiop::callback::error(code, &code.describe(""), &[]);
        let own = OwnMessage { to: sender, resource: Resource::Participants, trace, body };
        forward::start_callback(edge, own)?;
        return Ok(StatusCode::OK.into());
    };
    let to = names.to(recipient, Answer::Error);
    let call = (&Method::PUT, to.path.as_str());
    forward::rewrite_headers(edge, &mut inbound.headers, call, envelope.trace, None);
    let on_failure = Some(Complaint {
        to: sender,
        resource: Resource::Participants,
        trace,
        no_endpoint: ErrorCode::DESTINATION_COMMUNICATION,
    });
    let Inbound { headers, body, .. } = inbound;
    forward::start(edge, Outgoing { to, headers, body, on_failure })?;
    Ok(StatusCode::OK.into())
}

/// A party as paths and templates name it, in the escaped form of a path.
pub(crate) struct PartyNames {
    pub(crate) kind: PartyIdType,
    pub(crate) id: String,
    pub(crate) sub_id: Option<String>,
}

/// Which callback.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Put,
    Error,
}

impl PartyNames {
    fn of(path: &PartyPath<'_>) -> Self {
        Self {
            kind: path.kind,
            id: path.id.escaped().into(),
            sub_id: path.sub_id.as_ref().map(|sub_id| sub_id.escaped().into()),
        }
    }

    pub(crate) fn to(&self, participant: ParticipantIndex, answer: Answer) -> Destination {
        let endpoint = match (answer, self.sub_id.is_some()) {
            (Answer::Put, false) => EndpointType::ParticipantPut,
            (Answer::Put, true) => EndpointType::ParticipantSubIdPut,
            (Answer::Error, false) => EndpointType::ParticipantPutError,
            (Answer::Error, true) => EndpointType::ParticipantSubIdPutError,
        };
        let kind = self.kind.as_str();
        let mut path = format!("/participants/{kind}/{}", self.id);
        let mut variables: Variables =
            vec![("partyIdType", kind.to_owned()), ("partyIdentifier", self.id.clone())];
        if let Some(sub_id) = &self.sub_id {
            path = format!("{path}/{sub_id}");
            variables.push(("partySubIdOrType", sub_id.clone()));
        }
        if answer == Answer::Error {
            path.push_str("/error");
        }
        Destination { participant, endpoint, method: Method::PUT, path, variables }
    }
}

/// Accepts a request whose identifier has braces, and refuses it by callback.
fn refuse_braces(
    edge: &Rc<Edge>,
    path: &PartyPath<'_>,
    inbound: &Inbound,
    sender: Option<ParticipantIndex>,
    accepted: StatusCode,
) -> Result<Answering, Refusal> {
    if let Some(sender) = sender {
        let code = ErrorCode::MALFORMED_SYNTAX;
        let body = fspiop::callback::error(code, &code.describe(BRACES), &[]);
        let to = PartyNames::of(path).to(sender, Answer::Error);
        let trace = Trace::of(inbound);
        let own = OwnMessage { to, resource: Resource::Participants, trace, body };
        forward::start_callback(edge, own)?;
    }
    Ok(accepted.into())
}

fn known_source(edge: &Edge, inbound: &Inbound) -> Result<ParticipantIndex, Refusal> {
    match edge.view().find(&inbound.envelope.source) {
        Some(member) => Ok(member.index),
        None => Err(Refusal::new(ErrorCode::ID_NOT_FOUND, "Requester FSP not found")),
    }
}

fn submit(edge: &Edge, inbound: Inbound, command: Command) -> Result<Decision, Refusal> {
    let mut payload = Vec::new();
    fspiop::payload::encode(&inbound.headers, &inbound.body, &mut payload);
    let message = Message { headers: inbound.headers, body: inbound.body };
    edge.submit(command, Stored { message, payload, arrival: None })
}
