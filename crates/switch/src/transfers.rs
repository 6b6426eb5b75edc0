//! `/transfers` and `/bulkTransfers`: messages become commands, queries are answered by callback
//! (hub-semantics 3.2 and 3.9).

use std::rc::Rc;
use std::time::Duration;

use fspiop::endpoint::EndpointType;
use fspiop::{ErrorCode, Refusal, Resource, Route, TransferPath};
use http::{Method, StatusCode};
use ledger::{Command, FspName, LookupResult, ParticipantIndex, State, TransferId};
use node::Handle;
use node::latency_trace::monotonic_ns;
use tokio::sync::oneshot;
use tokio::task::spawn_local;
use traces::SpanSubject;

use crate::commands;
use crate::destination::{Destination, Variables};
use crate::directory::Directory;
use crate::egress::{Egress, OwnMessage};
use crate::inbound::{Inbound, Trace};
use crate::measurements::CallResult;
use crate::message::ForwardedMessage;
use crate::notice_messages;
use crate::outcome_errors::BULK_NOT_FOUND;
use crate::records::Records;
use crate::submitter::{AcceptStatus, Submitter};

const NOT_THE_PAYER: &str = "/requestBody/payerFsp must be FSPIOP-Source";

/// The parts of the thread that messages about transfers may touch.
pub(crate) struct Transfers {
    pub(crate) submitter: Rc<Submitter>,
    pub(crate) egress: Rc<Egress>,
    pub(crate) records: Records,
    pub(crate) handle: Handle<ForwardedMessage>,
    /// Maximum time until a transfer expires; `None` for no limit.
    pub(crate) expiration_max: Option<Duration>,
    /// Maximum number of items of a bulk transfer.
    pub(crate) bulk_items_max: usize,
    /// Whether a transfer must agree with a quote of its transaction.
    pub(crate) binds_to_quotes: bool,
    /// Senders are identified, so none sends for another.
    pub(crate) identifies_senders: bool,
}

/// `POST /transfers`, `PUT /transfers/{ID}` and `PUT /transfers/{ID}/error`.
pub(crate) fn submit(
    transfers: &Rc<Transfers>,
    route: &Route<'_>,
    inbound: Inbound,
    weigh: impl FnOnce(&FspName, usize),
) -> Result<AcceptStatus, Refusal> {
    let now_ms = || Some(transfers.egress.thread.wall_ms());
    let command = commands::command_of(route, &inbound.envelope, &inbound.body, now_ms)?;
    if let Some(Command::PrepareBulk(bulk)) = &command {
        if transfers.bulk_items_max < bulk.items.len() {
            return Err(fspiop::bulk::too_many_items(transfers.bulk_items_max));
        }
        weigh(&bulk.source, bulk.items.len());
    }
    match command {
        None => not_found_to_sender(transfers, route, &inbound),
        Some(command) if transfers.identifies_senders && is_of_another(&command) => {
            Err(Refusal::new(ErrorCode::VALIDATION, NOT_THE_PAYER))
        }
        Some(command) => match expires_too_late(transfers, &command) {
            None => submit_known(transfers, inbound, command),
            Some(refusal) => refuse_unless_known(transfers, refusal, (inbound, command)),
        },
    }
}

/// `GET /transfers/{ID}`: the state is read after everything submitted before, and sent to the
/// requester by callback.
pub(crate) fn get(
    transfers: &Rc<Transfers>,
    path: &TransferPath<'_>,
    inbound: &Inbound,
) -> Result<AcceptStatus, Refusal> {
    let source = inbound.envelope.source;
    let directory = transfers.directory();
    let Some(requester) = directory.sender(&source) else {
        // As in the reference: accepted and dropped.
        directory.ignore();
        return Ok(StatusCode::ACCEPTED.into());
    };
    let id = path.id;
    let (sender, receiver) = oneshot::channel();
    let began_ns = monotonic_ns();
    let look_up = move |state: &State| {
        let found = id.map_or(LookupResult::NotFound, |id| state.look_up(&source, &id));
        // The request may have ended.
        let _sent = sender.send(found);
    };
    let queued = match id {
        None => transfers.handle.ask(look_up),
        Some(id) => transfers.handle.ask_about(id, look_up),
    };
    queued.map_err(|_| Refusal::unavailable())?;
    let query =
        TransferQuery { requester, name: path.name.raw.to_owned(), id, trace: Trace::of(inbound) };
    let transfers = Rc::clone(transfers);
    spawn_local(async move {
        if let Ok(found) = receiver.await {
            let result = match found {
                LookupResult::Found(_) => CallResult::Succeeded,
                _ => CallResult::Failed,
            };
            transfers.egress.thread.measurements.queried(began_ns, result);
            answer_query(&transfers, query, found).await;
        }
    });
    Ok(StatusCode::ACCEPTED.into())
}

impl Transfers {
    pub(crate) fn directory(&self) -> &Directory {
        &self.egress.directory
    }
}

/// A `GET /transfers/{ID}` that waits for its answer.
struct TransferQuery {
    requester: ParticipantIndex,
    /// The id as in the path.
    name: String,
    id: Option<TransferId>,
    trace: Trace,
}

async fn answer_query(transfers: &Transfers, query: TransferQuery, found: LookupResult) {
    let TransferQuery { requester, name, id, trace } = query;
    let (is_error, body) = match found {
        LookupResult::RequesterUnknown => return,
        LookupResult::NotFound => {
            let text = "Provided Transfer ID was not found on the server.";
            (true, error_body(ErrorCode::TRANSFER_NOT_FOUND, text))
        }
        LookupResult::NotAParty => (true, error_body(ErrorCode::GENERIC_CLIENT, "")),
        LookupResult::Found(view) => {
            match notice_messages::state_body(&transfers.records, (id, &view)).await {
                Some(body) => (false, body),
                None => (true, error_body(ErrorCode::INTERNAL_SERVER, "")),
            }
        }
    };
    let resource = Resource::Transfers;
    let to = callback_destination(requester, (name, id), is_error, resource);
    let own = OwnMessage { to, resource, trace, body };
    // Too many answers are in flight: the requester will retry.
    let _sent = transfers.egress.start_callback(own);
}

pub(crate) fn callback_destination(
    participant: ParticipantIndex,
    (name, id): (String, Option<TransferId>),
    is_error: bool,
    resource: Resource,
) -> Destination {
    let is_bulk = resource == Resource::BulkTransfers;
    let (suffix, endpoint) = match (is_error, is_bulk) {
        (true, false) => ("/error", EndpointType::TransferError),
        (false, false) => ("", EndpointType::TransferPut),
        (true, true) => ("/error", EndpointType::BulkTransferError),
        (false, true) => ("", EndpointType::BulkTransferPut),
    };
    let path = format!("/{}/{name}{suffix}", resource.as_str()).into();
    let variables = Variables::One((if is_bulk { "id" } else { "transferId" }, name));
    let subject = id.map(SpanSubject::Transfer);
    Destination { participant, endpoint, method: Method::PUT, path, variables, subject }
}

/// Submits a message of a participant. A message from an unknown sender is not recorded: it is
/// counted, and answered like any other.
fn submit_known(
    transfers: &Transfers,
    inbound: Inbound,
    mut command: Command,
) -> Result<AcceptStatus, Refusal> {
    let accepted = inbound.accepted();
    let view = transfers.directory().view();
    if view.sender(&inbound.envelope.source).is_none() {
        transfers.directory().ignore();
        return Ok(accepted.into());
    }
    if !view.fee_rules.is_empty() {
        commands::choose_fee_rule(&mut command, &inbound.body, &view.fee_rules);
    }
    if transfers.binds_to_quotes {
        commands::add_terms(&mut command, &inbound.body);
    }
    Ok(AcceptStatus::AfterDecision(transfers.submitter.submit(command, inbound)?, accepted))
}

/// Whether a prepare names another payer than its sender. Its error would go to that payer, who
/// could take it for the error of a payment of its own with the same id.
fn is_of_another(command: &Command) -> bool {
    match command {
        Command::Prepare(prepare) => prepare.payer != prepare.source,
        Command::PrepareBulk(bulk) => bulk.payer != bulk.source,
        Command::Genesis(_)
        | Command::Tick
        | Command::Fulfil(_)
        | Command::Abort(_)
        | Command::FinishDeliveries(_)
        | Command::ChangeParties(_)
        | Command::Administer(_)
        | Command::FulfilBulk(_)
        | Command::AbortBulk(_)
        | Command::RecordQuote(_)
        | Command::RecordQuoteAnswer(_)
        | Command::RecordRequestToPay(_) => false,
    }
}

/// The error of a prepare that expires later than the scheme allows.
fn expires_too_late(transfers: &Transfers, command: &Command) -> Option<Refusal> {
    let limit = transfers.expiration_max?;
    let expiration_ms = match command {
        Command::Prepare(prepare) => prepare.expiration_ms,
        Command::PrepareBulk(bulk) => bulk.expiration_ms,
        Command::Genesis(_)
        | Command::Tick
        | Command::Fulfil(_)
        | Command::Abort(_)
        | Command::FinishDeliveries(_)
        | Command::ChangeParties(_)
        | Command::Administer(_)
        | Command::FulfilBulk(_)
        | Command::AbortBulk(_)
        | Command::RecordQuote(_)
        | Command::RecordQuoteAnswer(_)
        | Command::RecordRequestToPay(_) => return None,
    };
    let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    let latest_ms = transfers.egress.thread.wall_ms().saturating_add(limit_ms);
    let text = || {
        let seconds = limit.as_secs_f64();
        format!("/requestBody/expiration must be at most {seconds} s ahead")
    };
    (latest_ms < expiration_ms).then(|| Refusal::new(ErrorCode::VALIDATION, &text()))
}

/// Refuses a prepare that expires too late, unless the hub knows its id. The resend of a transfer
/// that was accepted under a higher limit is answered as usual, because an error would imply that
/// the transfer does not exist.
fn refuse_unless_known(
    transfers: &Rc<Transfers>,
    refusal: Refusal,
    (inbound, command): (Inbound, Command),
) -> Result<AcceptStatus, Refusal> {
    let Some(id) = command.rows().next().copied() else { return Err(refusal) };
    let (sender, receiver) = oneshot::channel();
    let look_up = move |state: &State| {
        // The request may have ended.
        let _sent = sender.send(state.view(&id).is_some() || state.bulk_view(&id).is_some());
    };
    transfers.handle.ask_about(id, look_up).map_err(|_| Refusal::unavailable())?;
    let transfers = Rc::clone(transfers);
    let querying = async move {
        match receiver.await {
            Ok(true) => submit_and_wait(&transfers, inbound, command).await,
            Ok(false) => Err(refusal),
            Err(_) => Err(Refusal::unavailable()),
        }
    };
    Ok(AcceptStatus::AfterQuery(Box::pin(querying), None))
}

async fn submit_and_wait(
    transfers: &Transfers,
    inbound: Inbound,
    command: Command,
) -> Result<StatusCode, Refusal> {
    let accepted = inbound.accepted();
    if let AcceptStatus::AfterDecision(decision, _) = submit_known(transfers, inbound, command)? {
        let _stages = decision.wait(transfers.directory()).await?;
    }
    Ok(accepted)
}

/// An id in an unknown format belongs to no transfer.
fn not_found_to_sender(
    transfers: &Transfers,
    route: &Route<'_>,
    inbound: &Inbound,
) -> Result<AcceptStatus, Refusal> {
    let sender = transfers.directory().sender(&inbound.envelope.source);
    if sender.is_none() {
        transfers.directory().ignore();
    }
    if let Some(participant) = sender
        && let Some((path, resource)) = answered_path(route)
    {
        let name = (path.name.raw.to_owned(), None);
        let to = callback_destination(participant, name, true, resource);
        let body = match resource {
            Resource::BulkTransfers => {
                error_body(ErrorCode::BULK_TRANSFER_NOT_FOUND, BULK_NOT_FOUND)
            }
            _ => error_body(ErrorCode::INTERNAL_SERVER, "transfer not found"),
        };
        let trace = Trace::of(inbound);
        let own = OwnMessage { to, resource, trace, body };
        transfers.egress.start_callback(own)?;
    }
    Ok(StatusCode::OK.into())
}

/// The path of a payee's message, and its resource.
fn answered_path<'r, 'a>(route: &'r Route<'a>) -> Option<(&'r TransferPath<'a>, Resource)> {
    match route {
        Route::TransfersPut(path) | Route::TransfersError(path) => {
            Some((path, Resource::Transfers))
        }
        Route::BulkTransfersPut(path) | Route::BulkTransfersError(path) => {
            Some((path, Resource::BulkTransfers))
        }
        _ => None,
    }
}

pub(crate) fn error_body(code: ErrorCode, detail: &str) -> bytes::Bytes {
    fspiop::hub_messages::error(code, &code.describe(detail), &[])
}
