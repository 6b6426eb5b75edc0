//! `/parties`: look-up (hub-semantics 2.3). Nothing is recorded; the directory is asked locally.

use std::rc::Rc;

use fspiop::endpoint::EndpointType;
use fspiop::{ErrorCode, PartyPath, Refusal, Resource, body};
use http::Method;
use ledger::ParticipantIndex;

use crate::egress::{Complaint, Destination, Egress, Variables};
use crate::inbound::{Inbound, Trace};
use crate::party_names::{braces, said};
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
    let sender = target.complaint(source, &inbound);
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
    let mut to = target.to(recipient.index, Method::GET, Call::Get);
    if let Some(query) = inbound.uri.query() {
        to.path.extend(["?", query]);
    }
    egress.forward(inbound, &to, Some(&recipient.name), sender)
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
    inbound: Inbound,
    call: Call,
) -> Result<Answering, Refusal> {
    let view = egress.directory.view();
    let envelope = inbound.envelope;
    let Some(source) = view.find(&envelope.source).map(|member| member.index) else {
        return Err(Refusal::new(ErrorCode::ID_NOT_FOUND, "Requester FSP not found"));
    };
    let target = PartyTarget::new(path);
    let sender = target.complaint(source, &inbound);
    if path.has_braces {
        return egress.refuse(&inbound, sender, braces());
    }
    let recipient = envelope.destination.and_then(|name| view.find(&name));
    let Some(recipient) = recipient.map(|member| member.index) else {
        return egress.refuse(&inbound, sender, said(ErrorCode::DESTINATION_FSP));
    };
    egress.forward(inbound, &target.to(recipient, Method::PUT, call), None, sender)
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

    fn complaint(&self, to: ParticipantIndex, inbound: &Inbound) -> Complaint {
        Complaint {
            to: self.to(to, Method::PUT, Call::Error),
            resource: Resource::Parties,
            trace: Trace::of(inbound),
            no_endpoint: ErrorCode::DESTINATION_COMMUNICATION,
        }
    }
}
