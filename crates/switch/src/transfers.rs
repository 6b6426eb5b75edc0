//! `/transfers`: messages become commands, questions are answered by callback
//! (hub-semantics 3.2 and 3.9).

use std::rc::Rc;

use fspiop::body::{ErrorInformation, Fulfil, Prepare};
use fspiop::endpoint::EndpointType;
use fspiop::{ErrorCode, Refusal, Resource, TransferPath};
use http::{Method, StatusCode};
use ledger::{Command, LookUp, ParticipantIndex, State};
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
    match expires_too_late(edge, prepare.expiration_ms) {
        None => submit(edge, inbound, command, StatusCode::ACCEPTED),
        Some(refusal) => refuse_unless_known(edge, refusal, (inbound, command)),
    }
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
    submit(edge, inbound, command, StatusCode::OK)
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
    submit(edge, inbound, command, StatusCode::OK)
}

/// `GET /transfers/{ID}`: the state is read after everything submitted before, and the asker is
/// told by callback.
pub(crate) fn get(
    edge: &Rc<Edge>,
    path: TransferPath<'_>,
    inbound: &Inbound,
) -> Result<Answering, Refusal> {
    let source = inbound.envelope.source;
    let Some(asker) = edge.sender(&source) else {
        // As the reference: accepted and dropped.
        edge.ignore();
        return Ok(StatusCode::ACCEPTED.into());
    };
    let id = path.id;
    let (answer, answered) = oneshot::channel();
    let look_up = move |state: &State| {
        let found = id.map_or(LookUp::NotFound, |id| state.look_up(&source, &id));
        // The request may have ended.
        let _sent = answer.send(found);
    };
    let asked = match id {
        None => edge.handle.ask(look_up),
        Some(id) => edge.handle.ask_about(id, look_up),
    };
    asked.map_err(|_| Refusal::unavailable())?;
    let question = Question { asker, name: path.name.raw.to_owned(), trace: Trace::of(inbound) };
    let edge = Rc::clone(edge);
    spawn_local(async move {
        if let Ok(found) = answered.await {
            answer_question(&edge, question, found).await;
        }
    });
    Ok(StatusCode::ACCEPTED.into())
}

/// A `GET /transfers/{ID}` that waits for its answer.
struct Question {
    asker: ParticipantIndex,
    /// The id as the path has it.
    name: String,
    trace: Trace,
}

async fn answer_question(edge: &Rc<Edge>, question: Question, found: LookUp) {
    let Question { asker, name, trace } = question;
    let (is_error, body) = match found {
        LookUp::AskerUnknown => return,
        LookUp::NotFound => {
            let text = "Provided Transfer ID was not found on the server.";
            (true, error_body(ErrorCode::TRANSFER_NOT_FOUND, text))
        }
        LookUp::Stranger => (true, error_body(ErrorCode::GENERIC_CLIENT, "")),
        LookUp::Found(view) => match notices::state_body(edge, &view).await {
            Some(body) => (false, body),
            None => (true, error_body(ErrorCode::INTERNAL_SERVER, "")),
        },
    };
    let (suffix, endpoint) = match is_error {
        true => ("/error", EndpointType::TransferError),
        false => ("", EndpointType::TransferPut),
    };
    let to = Destination {
        participant: asker,
        endpoint,
        method: Method::PUT,
        path: format!("/transfers/{name}{suffix}"),
        variables: vec![("transferId", name)],
    };
    let own = OwnMessage { to, resource: Resource::Transfers, trace, body };
    // Too many answers are on their way: the asker will ask again.
    let _sent = forward::start_callback(edge, own);
}

/// Submits a message of a participant. One of an unknown sender is not recorded: it is counted, and
/// answered as any other.
fn submit(
    edge: &Edge,
    inbound: Inbound,
    command: Command,
    accepted: StatusCode,
) -> Result<Answering, Refusal> {
    if edge.sender(&inbound.envelope.source).is_none() {
        edge.ignore();
        return Ok(accepted.into());
    }
    Ok(Answering::Decided(edge.submit(command, stored(inbound))?, accepted))
}

/// Why a prepare is refused that expires later than the scheme allows.
fn expires_too_late(edge: &Edge, expiration_ms: u64) -> Option<Refusal> {
    let limit = edge.options.expiration_max?;
    let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    let latest_ms = edge.wall_ms().saturating_add(limit_ms);
    let text = || {
        let seconds = limit.as_secs_f64();
        format!("/requestBody/expiration must be at most {seconds} s ahead")
    };
    (latest_ms < expiration_ms).then(|| Refusal::new(ErrorCode::VALIDATION, &text()))
}

/// Refuses a prepare that expires too late, unless the hub knows its id: a transfer that was
/// accepted under a higher limit is answered as ever when it is sent again, for a refusal would
/// say that it does not exist.
fn refuse_unless_known(
    edge: &Rc<Edge>,
    refusal: Refusal,
    (inbound, command): (Inbound, Command),
) -> Result<Answering, Refusal> {
    let Some(id) = command.transfer().copied() else { return Err(refusal) };
    let (answer, answered) = oneshot::channel();
    let look_up = move |state: &State| {
        // The request may have ended.
        let _sent = answer.send(state.view(&id).is_some());
    };
    edge.handle.ask_about(id, look_up).map_err(|_| Refusal::unavailable())?;
    let edge = Rc::clone(edge);
    Ok(Answering::Asked(Box::pin(async move {
        match answered.await {
            Ok(true) => decided(&edge, inbound, command).await,
            Ok(false) => Err(refusal),
            Err(_) => Err(Refusal::unavailable()),
        }
    })))
}

async fn decided(edge: &Edge, inbound: Inbound, command: Command) -> Result<StatusCode, Refusal> {
    if let Answering::Decided(decision, _) = submit(edge, inbound, command, StatusCode::ACCEPTED)? {
        let _watched = decision.made(edge).await?;
    }
    Ok(StatusCode::ACCEPTED)
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
    let sender = edge.sender(&inbound.envelope.source);
    if sender.is_none() {
        edge.ignore();
    }
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
