//! `GET /bulkTransfers/{ID}` (settlement-and-bulk 3.2).

use std::rc::Rc;

use fspiop::{ErrorCode, Refusal, Resource, TransferPath};
use http::StatusCode;
use ledger::{BulkLookup, State};
use node::latency_trace::monotonic_ns;
use tokio::sync::oneshot;
use tokio::task::spawn_local;

use crate::bulk_messages::state_body;
use crate::egress::OwnMessage;
use crate::inbound::{Inbound, Trace};
use crate::measurements::CallResult;
use crate::outcome_errors::BULK_NOT_FOUND;
use crate::submitter::AcceptStatus;
use crate::transfers::{Transfers, callback_destination, error_body};

/// `GET /bulkTransfers/{ID}`: the state is read after everything submitted before, and sent to the
/// requester by callback.
pub(crate) fn get(
    transfers: &Rc<Transfers>,
    path: &TransferPath<'_>,
    inbound: &Inbound,
) -> Result<AcceptStatus, Refusal> {
    let source = inbound.envelope.source;
    let Some(requester) = transfers.directory().sender(&source) else {
        transfers.directory().ignore();
        return Ok(StatusCode::ACCEPTED.into());
    };
    let id = path.id;
    let (sender, receiver) = oneshot::channel();
    let began_ns = monotonic_ns();
    let look_up = move |state: &State| {
        let found = id.map_or(BulkLookup::NotFound, |id| state.look_up_bulk(&source, &id));
        // The request may have ended.
        let _sent = sender.send(found);
    };
    let queued = match id {
        None => transfers.handle.ask(look_up),
        Some(id) => transfers.handle.ask_about(id, look_up),
    };
    queued.map_err(|_| Refusal::unavailable())?;
    let (name, trace) = (path.name.raw.to_owned(), Trace::of(inbound));
    let transfers = Rc::clone(transfers);
    spawn_local(async move {
        let Ok(found) = receiver.await else { return };
        let result = match found {
            BulkLookup::Found(_) => CallResult::Succeeded,
            _ => CallResult::Failed,
        };
        transfers.egress.thread.measurements.queried(began_ns, result);
        let (is_error, body) = match found {
            BulkLookup::RequesterUnknown => return,
            BulkLookup::NotFound => {
                (true, error_body(ErrorCode::BULK_TRANSFER_NOT_FOUND, BULK_NOT_FOUND))
            }
            BulkLookup::NotAParty => (true, error_body(ErrorCode::GENERIC_CLIENT, "")),
            BulkLookup::Found(view) => {
                match state_body(&transfers.records, &view, requester).await {
                    Some(body) => (false, body),
                    None => (true, error_body(ErrorCode::INTERNAL_SERVER, "")),
                }
            }
        };
        let resource = Resource::BulkTransfers;
        let to = callback_destination(requester, (name, id), is_error, resource);
        // Too many answers are in flight: the requester will retry.
        let _sent = transfers.egress.start_callback(OwnMessage { to, resource, trace, body });
    });
    Ok(StatusCode::ACCEPTED.into())
}
