//! `/parties`: look-up (hub-semantics 2.3). Nothing is recorded; the directory is asked locally.

use std::rc::Rc;

use fspiop::endpoint::EndpointType;
use fspiop::{ErrorCode, PartyPath, Refusal, Resource, body};
use http::{Method, StatusCode};
use ledger::ParticipantIndex;

use crate::egress::{Complaint, Destination, Egress, Outgoing, OwnMessage, Variables};
use crate::inbound::{Inbound, Trace};
use crate::party_names::BRACES;
use crate::submitter::Answering;

/// `GET /parties/{Type}/{ID}[/{SubId}]`: to the destination, or without one to the FSP that the
/// directory names, unless that is in another currency than the query's. The query is forwarded. A
/// destination that is not in the scheme has no party: the directory is not asked for another
/// (hub-semantics 2.3).
pub(crate) fn get(
    egress: &Rc<Egress>,
    path: &PartyPath<'_>,
    inbound: Inbound,
) -> Result<Answering, Refusal> {
    let view = egress.directory.view();
    let envelope = inbound.envelope;
    let Some(source) = view.find(&envelope.source).map(|member| member.index) else {
        return Err(Refusal::new(ErrorCode::MALFORMED_SYNTAX, "invalid fspiop-source header"));
    };
    let target = PartyTarget::new(path);
    if path.has_braces {
        return refuse_braces(egress, &target, &inbound, source, StatusCode::ACCEPTED);
    }
    let named = match envelope.destination {
        Some(name) => Some(name),
        None => egress.directory.find_party(path)?.map(|binding| binding.fsp),
    };
    let Some(recipient) = named.and_then(|name| view.find(&name)) else {
        let own = target.error(source, Trace::of(&inbound), ErrorCode::PARTY_NOT_FOUND, "");
        egress.start_callback(own)?;
        return Ok(StatusCode::ACCEPTED.into());
    };
    let on_failure = Some(target.complaint(source, Trace::of(&inbound)));
    let mut to = target.to(recipient.index, Method::GET, Call::Get);
    if let Some(query) = inbound.uri.query() {
        to.path.extend(["?", query]);
    }
    let Inbound { mut headers, body, .. } = inbound;
    let call = (&Method::GET, to.path.as_str());
    egress.rewrite_headers(&mut headers, call, envelope.trace, Some(&recipient.name));
    egress.start(Outgoing { to, headers, body, on_failure })?;
    Ok(StatusCode::ACCEPTED.into())
}

/// `PUT /parties/{Type}/{ID}[/{SubId}]`: the answer goes to whoever asked.
pub(crate) fn put(
    egress: &Rc<Egress>,
    path: &PartyPath<'_>,
    inbound: Inbound,
) -> Result<Answering, Refusal> {
    body::check_party(&inbound.body)?;
    pass_on(egress, path, inbound, Call::Put)
}

/// `PUT /parties/{Type}/{ID}[/{SubId}]/error`.
pub(crate) fn put_error(
    egress: &Rc<Egress>,
    path: &PartyPath<'_>,
    inbound: Inbound,
) -> Result<Answering, Refusal> {
    body::ErrorInformation::parse(&inbound.body)?;
    pass_on(egress, path, inbound, Call::Error)
}

fn pass_on(
    egress: &Rc<Egress>,
    path: &PartyPath<'_>,
    mut inbound: Inbound,
    call: Call,
) -> Result<Answering, Refusal> {
    let view = egress.directory.view();
    let envelope = inbound.envelope;
    let Some(source) = view.find(&envelope.source).map(|member| member.index) else {
        return Err(Refusal::new(ErrorCode::ID_NOT_FOUND, "Requester FSP not found"));
    };
    let target = PartyTarget::new(path);
    if path.has_braces {
        return refuse_braces(egress, &target, &inbound, source, StatusCode::OK);
    }
    let recipient = envelope.destination.and_then(|name| view.find(&name));
    let Some(recipient) = recipient.map(|member| member.index) else {
        let own = target.error(source, Trace::of(&inbound), ErrorCode::DESTINATION_FSP, "");
        egress.start_callback(own)?;
        return Ok(StatusCode::OK.into());
    };
    let to = target.to(recipient, Method::PUT, call);
    let rewriting = (&Method::PUT, to.path.as_str());
    let on_failure = Some(target.complaint(source, Trace::of(&inbound)));
    egress.rewrite_headers(&mut inbound.headers, rewriting, envelope.trace, None);
    let Inbound { headers, body, .. } = inbound;
    egress.start(Outgoing { to, headers, body, on_failure })?;
    Ok(StatusCode::OK.into())
}

/// Accepts a request whose identifier has braces, and refuses it by callback.
fn refuse_braces(
    egress: &Rc<Egress>,
    target: &PartyTarget,
    inbound: &Inbound,
    sender: ParticipantIndex,
    accepted: StatusCode,
) -> Result<Answering, Refusal> {
    let own = target.error(sender, Trace::of(inbound), ErrorCode::MALFORMED_SYNTAX, BRACES);
    egress.start_callback(own)?;
    Ok(accepted.into())
}

#[derive(Clone, Copy)]
enum Call {
    Get,
    Put,
    Error,
}

/// A party as paths and templates name it.
struct PartyTarget {
    path: String,
    variables: Variables,
    has_sub_id: bool,
}

impl PartyTarget {
    fn new(path: &PartyPath<'_>) -> Self {
        let (kind, id) = (path.kind.as_str(), path.id.escaped());
        let mut variables =
            vec![("partyIdType", kind.to_owned()), ("partyIdentifier", id.to_string())];
        let mut text = format!("/parties/{kind}/{id}");
        if let Some(sub_id) = &path.sub_id {
            let sub_id = sub_id.escaped();
            text = format!("{text}/{sub_id}");
            variables.push(("partySubIdOrType", sub_id.into()));
        }
        Self { path: text, variables, has_sub_id: path.sub_id.is_some() }
    }

    fn to(&self, participant: ParticipantIndex, method: Method, call: Call) -> Destination {
        let endpoint = match (call, self.has_sub_id) {
            (Call::Get, false) => EndpointType::PartiesGet,
            (Call::Get, true) => EndpointType::PartiesSubIdGet,
            (Call::Put, false) => EndpointType::PartiesPut,
            (Call::Put, true) => EndpointType::PartiesSubIdPut,
            (Call::Error, false) => EndpointType::PartiesPutError,
            (Call::Error, true) => EndpointType::PartiesSubIdPutError,
        };
        let path = match call {
            Call::Error => format!("{}/error", self.path),
            Call::Get | Call::Put => self.path.clone(),
        };
        Destination { participant, endpoint, method, path, variables: self.variables.clone() }
    }

    fn error(
        &self,
        to: ParticipantIndex,
        trace: Trace,
        code: ErrorCode,
        detail: &str,
    ) -> OwnMessage {
        let body = fspiop::callback::error(code, &code.describe(detail), &[]);
        let to = self.to(to, Method::PUT, Call::Error);
        OwnMessage { to, resource: Resource::Parties, trace, body }
    }

    fn complaint(&self, to: ParticipantIndex, trace: Trace) -> Complaint {
        Complaint {
            to: self.to(to, Method::PUT, Call::Error),
            resource: Resource::Parties,
            trace,
            no_endpoint: ErrorCode::DESTINATION_COMMUNICATION,
        }
    }
}
