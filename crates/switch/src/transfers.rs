//! `/transfers`: messages become commands, questions are answered by callback
//! (hub-semantics 3.2 and 3.9).

use std::rc::Rc;

use fspiop::body::{ErrorInformation, Fulfil, Prepare};
use fspiop::endpoint::EndpointType;
use fspiop::{ErrorCode, Refusal, Resource, TransferPath};
use http::{Method, StatusCode};
use ledger::{LookUp, State};
use tokio::sync::oneshot;
use tokio::task::spawn_local;

use crate::edge::{Edge, Stored};
use crate::forward::{self, Destination, OwnMessage, Trace};
use crate::notices;
use crate::server::{Answering, Inbound};
use crate::{Message, commands};

/// `POST /transfers`.
pub(crate) fn post(edge: &Rc<Edge>, mut inbound: Inbound) -> Result<Answering, Refusal> {
    let prepare = Prepare::parse(&inbound.body)?;
    let command = commands::prepare(&inbound.envelope, &prepare, &inbound.body);
    let trace = inbound.envelope.trace;
    let call = (&Method::POST, "/transfers");
    forward::rewrite_headers(edge, &mut inbound.headers, call, trace, Some(&prepare.payee));
    Ok(Answering::Decided(edge.submit(command, stored(inbound))?, StatusCode::ACCEPTED))
}

/// `PUT /transfers/{ID}`.
pub(crate) fn put(
    edge: &Rc<Edge>,
    path: TransferPath<'_>,
    mut inbound: Inbound,
) -> Result<Answering, Refusal> {
    let fulfil = Fulfil::parse(&inbound.body)?;
    if !inbound.envelope.through_proxy {
        fulfil.check_completed(edge.wall_ms())?;
    }
    let Some(id) = path.id else { return not_found_to_sender(edge, &path, &inbound) };
    let command = commands::fulfil(&inbound.envelope, id, &fulfil, &inbound.body);
    drop(fulfil);
    rewrite_answer(edge, &mut inbound);
    Ok(Answering::Decided(edge.submit(command, stored(inbound))?, StatusCode::OK))
}

/// `PUT /transfers/{ID}/error`.
pub(crate) fn put_error(
    edge: &Rc<Edge>,
    path: TransferPath<'_>,
    mut inbound: Inbound,
) -> Result<Answering, Refusal> {
    let error = ErrorInformation::parse(&inbound.body)?;
    let Some(id) = path.id else { return not_found_to_sender(edge, &path, &inbound) };
    let command = commands::abort(&inbound.envelope, id, &error, &inbound.body);
    drop(error);
    rewrite_answer(edge, &mut inbound);
    Ok(Answering::Decided(edge.submit(command, stored(inbound))?, StatusCode::OK))
}

/// `GET /transfers/{ID}`: the state is read after everything submitted before, and the asker is
/// told by callback.
pub(crate) fn get(
    edge: &Rc<Edge>,
    path: TransferPath<'_>,
    inbound: &Inbound,
) -> Result<Answering, Refusal> {
    let source = inbound.envelope.source;
    let Some(asker) = edge.view().find(&source).map(|member| member.index) else {
        // Nobody to answer: as the reference, accepted and dropped.
        return Ok(StatusCode::ACCEPTED.into());
    };
    let (id, name) = (path.id, path.name.raw.to_owned());
    let to = move |suffix: &str, endpoint| Destination {
        participant: asker,
        endpoint,
        method: Method::PUT,
        path: format!("/transfers/{name}{suffix}"),
        variables: vec![("transferId", name.clone())],
    };
    let trace = Trace::of(inbound);
    let own = move |to, body| OwnMessage { to, resource: Resource::Transfers, trace, body };
    let (answer, answered) = oneshot::channel();
    let look_up = move |state: &State| {
        let found = id.map_or(LookUp::NotFound, |id| state.look_up(&source, &id));
        // Whoever asked may have gone.
        let _told = answer.send(found);
    };
    let asked = match id {
        None => edge.handle.ask(look_up),
        Some(id) => edge.handle.ask_about(id, look_up),
    };
    asked.map_err(|_| Refusal::unavailable())?;
    let edge = Rc::clone(edge);
    spawn_local(async move {
        let Ok(found) = answered.await else { return };
        let message = match found {
            LookUp::AskerUnknown => return,
            LookUp::NotFound => {
                let code = ErrorCode::TRANSFER_NOT_FOUND;
                let text = "Provided Transfer ID was not found on the server.";
                own(to("/error", EndpointType::TransferError), error_body(code, text))
            }
            LookUp::Stranger => {
                let body = error_body(ErrorCode::GENERIC_CLIENT, "");
                own(to("/error", EndpointType::TransferError), body)
            }
            LookUp::Found(view) => match notices::state_body(&edge, &view).await {
                Some(body) => own(to("", EndpointType::TransferPut), body),
                None => {
                    let body = error_body(ErrorCode::INTERNAL_SERVER, "");
                    own(to("/error", EndpointType::TransferError), body)
                }
            },
        };
        // Too many answers are on their way: the asker will ask again.
        let _sent = forward::start_callback(&edge, message);
    });
    Ok(StatusCode::ACCEPTED.into())
}

fn rewrite_answer(edge: &Edge, inbound: &mut Inbound) {
    let trace = inbound.envelope.trace;
    let path = inbound.uri.path();
    forward::rewrite_headers(edge, &mut inbound.headers, (&Method::PUT, path), trace, None);
}

fn stored(inbound: Inbound) -> Stored {
    let mut payload = Vec::new();
    fspiop::payload::encode(&inbound.headers, &inbound.body, &mut payload);
    let message = Message { headers: inbound.headers, body: inbound.body };
    Stored { message, payload, arrival: inbound.arrival }
}

/// An id of no known form belongs to no transfer.
fn not_found_to_sender(
    edge: &Rc<Edge>,
    path: &TransferPath<'_>,
    inbound: &Inbound,
) -> Result<Answering, Refusal> {
    let sender = edge.view().find(&inbound.envelope.source).map(|member| member.index);
    if let Some(participant) = sender {
        let name = path.name.raw;
        let to = Destination {
            participant,
            endpoint: EndpointType::TransferError,
            method: Method::PUT,
            path: format!("/transfers/{name}/error"),
            variables: vec![("transferId", name.to_owned())],
        };
        let body = error_body(ErrorCode::INTERNAL_SERVER, "transfer not found");
        let trace = Trace::of(inbound);
        let own = OwnMessage { to, resource: Resource::Transfers, trace, body };
        forward::start_callback(edge, own)?;
    }
    Ok(StatusCode::OK.into())
}

fn error_body(code: ErrorCode, detail: &str) -> bytes::Bytes {
    fspiop::callback::error(code, &code.describe(detail), &[])
}
